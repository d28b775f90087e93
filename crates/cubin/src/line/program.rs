//! Line programs: the state machine of DWARF that makes the rows of a line table, run forwards and written plainly.
//!
//! [`read`] runs every program of a section, whoever wrote it (versions 2 to 4); [`write_plain`] writes a sequence with nothing but standard
//! opcodes, for a header that exists. Cost: linear in the section.

use super::{
    ADVANCE_LINE, ADVANCE_PC, CONST_ADD_PC, COPY, END_SEQUENCE, FIXED_ADVANCE_PC, NEGATE_STMT,
    SET_ADDRESS, SET_BASIC_BLOCK, SET_COLUMN, SET_FILE, signed, unsigned,
};
use std::ops::Range;

/// What decides how the opcodes of a program are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    min_length: u64,
    default_is_stmt: bool,
    line_base: i64,
    line_range: u64,
    opcode_base: u8,
}

/// The place that a row names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The file, counted from 1.
    pub file: u64,
    /// The line, from 1; what broken programs make of it.
    pub line: i64,
    /// The column.
    pub column: u64,
    /// Whether a statement may start here.
    pub is_stmt: bool,
}

impl Header {
    /// What holds at the start of each sequence.
    fn start(&self) -> Position {
        Position {
            file: 1,
            line: 1,
            column: 0,
            is_stmt: self.default_is_stmt,
        }
    }
}

/// The rows of one piece of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadSequence {
    /// The bytes it takes of the section.
    pub bytes: Range<usize>,
    /// Where in the section its address stands, which a relocation fills in, and the number there.
    pub start: Option<(usize, u64)>,
    /// The first address of each row, and the place it names.
    pub rows: Vec<(u64, Position)>,
    /// The address behind the code.
    pub end: u64,
    /// Whether the rows are all that it says: it ends, has one address, and no opcode that a row does not show.
    pub is_plain: bool,
}

/// A header with its program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The bytes it takes of the section.
    pub bytes: Range<usize>,
    /// Where in the section its program starts.
    pub program: usize,
    /// How opcodes are read.
    pub header: Header,
    /// The files, by number from 1.
    pub files: Vec<String>,
    /// The sequences, in order; together they are the program.
    pub sequences: Vec<ReadSequence>,
}

/// Everything in a section; none if something in it is not understood.
pub fn read(bytes: &[u8]) -> Option<Vec<Unit>> {
    let mut reader = Reader { bytes, at: 0 };
    let mut units = Vec::new();
    while reader.at < bytes.len() {
        units.push(reader.unit()?);
    }
    Some(units)
}

/// Appends a sequence that starts at address `base` and ends before `end`; where its address stands, or none if the rows do not ascend or
/// the header cannot say them.
pub fn write_plain(
    header: &Header,
    rows: &[(u64, Position)],
    (base, end): (u64, u64),
    out: &mut Vec<u8>,
) -> Option<usize> {
    out.extend([0, 9, SET_ADDRESS]);
    let start = out.len();
    out.extend_from_slice(&base.to_le_bytes());
    let advance = |by: u64, out: &mut Vec<u8>| {
        if by > 0 {
            out.push(ADVANCE_PC);
            unsigned(by.checked_div(header.min_length)?, out);
        }
        Some(())
    };
    let (mut now, mut address) = (header.start(), base);
    for &(at, position) in rows {
        if position.file != now.file {
            out.push(SET_FILE);
            unsigned(position.file, out);
        }
        if position.column != now.column {
            out.push(SET_COLUMN);
            unsigned(position.column, out);
        }
        if position.is_stmt != now.is_stmt {
            out.push(NEGATE_STMT);
        }
        if position.line != now.line {
            out.push(ADVANCE_LINE);
            signed(position.line.checked_sub(now.line)?, out);
        }
        advance(at.checked_sub(address)?, out)?;
        out.push(COPY);
        (now, address) = (position, at);
    }
    advance(end.checked_sub(address)?, out)?;
    out.extend([0, 1, END_SEQUENCE]);
    Some(start)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(count)?)?;
        self.at += count;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|taken| taken[0])
    }

    /// A little-endian number of `count` bytes.
    fn number(&mut self, count: usize) -> Option<u64> {
        let taken = self.take(count)?.iter().rev();
        Some(taken.fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
    }

    /// A number in groups of seven bits (LEB128), and how many bits there are.
    fn groups(&mut self) -> Option<(u64, u32)> {
        let (mut value, mut bits) = (0, 0);
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(bits)?;
            bits += 7;
            if byte & 0x80 == 0 {
                return Some((value, bits));
            }
        }
    }

    fn unsigned(&mut self) -> Option<u64> {
        self.groups().map(|(value, _)| value)
    }

    fn signed(&mut self) -> Option<i64> {
        let (value, bits) = self.groups()?;
        let up = 64u32.saturating_sub(bits);
        Some((value << up).cast_signed() >> up)
    }

    fn text(&mut self) -> Option<String> {
        let rest = self.bytes.get(self.at..)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        let text = String::from_utf8_lossy(&rest[..length]).into_owned();
        self.at += length + 1;
        Some(text)
    }

    /// One header with its program.
    fn unit(&mut self) -> Option<Unit> {
        let first = self.at;
        let length = self.number(4)? as usize;
        let end = self.at.checked_add(length);
        let end = end.filter(|end| *end <= self.bytes.len())?;
        let version = self.number(2)?;
        if !(2..=4).contains(&version) {
            return None;
        }
        let header_length = self.number(4)? as usize;
        let program = self.at.checked_add(header_length);
        let program = program.filter(|at| *at <= end)?;
        let min_length = self.number(1)?;
        if version >= 4 {
            // Operations of one instruction: long instruction words, which are not ours.
            self.byte()?;
        }
        let header = Header {
            min_length,
            default_is_stmt: self.byte()? != 0,
            line_base: i64::from(self.byte()?.cast_signed()),
            line_range: self.number(1)?,
            opcode_base: self.byte()?,
        };
        if header.line_range == 0 {
            return None;
        }
        let counts = self.take(usize::from(header.opcode_base.checked_sub(1)?))?;
        let files = self.files()?;
        self.at = program;
        let mut sequences = Vec::new();
        while self.at < end {
            sequences.push(self.sequence(&header, counts, end)?);
        }
        (self.at == end).then_some(Unit {
            bytes: first..end,
            program,
            header,
            files,
            sequences,
        })
    }

    /// The files of a header, by number from 1.
    fn files(&mut self) -> Option<Vec<String>> {
        let mut folders = Vec::new();
        loop {
            let folder = self.text()?;
            if folder.is_empty() {
                break;
            }
            folders.push(folder);
        }
        let mut files = Vec::new();
        loop {
            let name = self.text()?;
            if name.is_empty() {
                return Some(files);
            }
            let folder = self.unsigned()? as usize;
            self.unsigned()?;
            self.unsigned()?;
            let folder = folder.checked_sub(1).and_then(|at| folders.get(at));
            files.push(match folder {
                Some(folder) => format!("{folder}/{name}"),
                None => name,
            });
        }
    }

    /// One sequence; `counts` says how many numbers each standard opcode takes.
    fn sequence(&mut self, header: &Header, counts: &[u8], end: usize) -> Option<ReadSequence> {
        let first = self.at;
        let mut rows = Vec::new();
        let mut now = header.start();
        let mut address = 0u64;
        let mut start = None;
        let mut ended = false;
        let mut is_plain = true;
        let moved =
            |address: u64, steps: u64| address.checked_add(header.min_length.checked_mul(steps)?);
        while self.at < end && !ended {
            let opcode = self.byte()?;
            if opcode >= header.opcode_base {
                let adjusted = u64::from(opcode - header.opcode_base);
                address = moved(address, adjusted / header.line_range)?;
                let by = header.line_base + (adjusted % header.line_range).cast_signed();
                now.line = now.line.checked_add(by)?;
                rows.push((address, now));
                continue;
            }
            match opcode {
                0 => {
                    let length = self.unsigned()? as usize;
                    let next = self.at.checked_add(length)?;
                    match self.byte()? {
                        END_SEQUENCE => {
                            ended = true;
                            is_plain &= length == 1;
                        }
                        SET_ADDRESS => {
                            is_plain &= length == 9 && start.is_none();
                            let at = self.at;
                            address = self.number(length.checked_sub(1).filter(|n| *n <= 8)?)?;
                            start = Some((at, address));
                        }
                        // Where calls were inlined is said by the number of a row.
                        _ => is_plain = false,
                    }
                    self.at = next;
                }
                COPY => rows.push((address, now)),
                ADVANCE_PC => address = moved(address, self.unsigned()?)?,
                ADVANCE_LINE => now.line = now.line.checked_add(self.signed()?)?,
                SET_FILE => now.file = self.unsigned()?,
                SET_COLUMN => now.column = self.unsigned()?,
                NEGATE_STMT => now.is_stmt = !now.is_stmt,
                SET_BASIC_BLOCK => {}
                CONST_ADD_PC => {
                    let most = u64::from(255 - header.opcode_base);
                    address = moved(address, most / header.line_range)?;
                }
                FIXED_ADVANCE_PC => address = address.checked_add(self.number(2)?)?,
                // Later versions have marks of prologues, epilogues and instruction sets between these and the special ones.
                other => {
                    is_plain = false;
                    for _ in 0..*counts.get(usize::from(other) - 1)? {
                        self.unsigned()?;
                    }
                }
            }
        }
        Some(ReadSequence {
            bytes: first..self.at,
            start,
            rows,
            end: address,
            is_plain: is_plain && ended && self.at <= end,
        })
    }
}
