//! Line tables of code whose instructions moved.
//!
//! `.debug_line` says which source line each instruction came from, `.nv_debug_line_sass` which line of the PTX: both are DWARF line
//! programs with one sequence a function, whose start is a relocation. A sequence of the function is run, every instruction keeps the
//! line it had, and a new sequence is written in the new order with plain opcodes. Other sequences are copied. Debug information that
//! describes places of variables address by address (`-g`) cannot follow and is refused.

use super::offsets::{Moves, OffsetError};
use orias_cubin::{Body, Cubin, Symbol, SymbolPlace};
use orias_mercury::WORD;
use std::collections::BTreeMap;

/// The sections with line programs.
const LINE_SECTIONS: [&str; 2] = [".debug_line", ".nv_debug_line_sass"];

/// Sections with debug information that names addresses inside functions.
const PLACES: [&str; 3] = [".debug_info", ".debug_loc", ".debug_ranges"];

/// Lets the line tables of the text section `section` follow its instructions.
pub fn follow(cubin: &mut Cubin, section: usize, moves: &Moves) -> Result<(), OffsetError> {
    if moves.count() == 0 {
        return Ok(());
    }
    if let Some(name) = PLACES.iter().find(|name| cubin.section(name).is_some()) {
        return Err(OffsetError::Debug((*name).to_owned()));
    }
    for name in LINE_SECTIONS {
        let Some(index) = cubin.section_index(name) else {
            continue;
        };
        let Some(bytes) = cubin.sections[index].bytes() else {
            continue;
        };
        let relocations = cubin.sections.iter().position(|other| {
            matches!(other.body, Body::Relocations(_)) && other.info as usize == index
        });
        let starts = match relocations.map(|at| &cubin.sections[at].body) {
            Some(Body::Relocations(list)) => {
                let ours = list.iter().filter(|relocation| {
                    let symbol = cubin.symbols().get(relocation.symbol as usize);
                    symbol.is_some_and(|symbol| lies_in(symbol, section))
                });
                ours.map(|relocation| relocation.offset as usize).collect()
            }
            _ => Vec::new(),
        };
        if starts.is_empty() {
            continue;
        }
        let length = cubin.sections[section].bytes().map_or(0, <[u8]>::len);
        let rewritten = Rewriter::new(bytes, &starts, moves, length / WORD)
            .run()
            .ok_or_else(|| OffsetError::Debug(name.to_owned()))?;
        if let Some(Body::Relocations(list)) = relocations.map(|at| &mut cubin.sections[at].body) {
            for relocation in list {
                let moved = rewritten.starts.get(&(relocation.offset as usize));
                let moved = moved.ok_or_else(|| OffsetError::Debug(name.to_owned()))?;
                relocation.offset = *moved as u64;
            }
        }
        cubin.sections[index].body = Body::Bytes(rewritten.bytes);
    }
    Ok(())
}

fn lies_in(symbol: &Symbol, section: usize) -> bool {
    symbol.place == SymbolPlace::Section(section as u16) && symbol.value == 0
}

/// Standard opcodes of a line program.
mod lns {
    pub(super) const COPY: u8 = 1;
    pub(super) const ADVANCE_PC: u8 = 2;
    pub(super) const ADVANCE_LINE: u8 = 3;
    pub(super) const SET_FILE: u8 = 4;
    pub(super) const SET_COLUMN: u8 = 5;
    pub(super) const NEGATE_STMT: u8 = 6;
    pub(super) const SET_BASIC_BLOCK: u8 = 7;
    pub(super) const CONST_ADD_PC: u8 = 8;
    pub(super) const FIXED_ADVANCE_PC: u8 = 9;
}

/// Extended opcodes.
mod lne {
    pub(super) const END_SEQUENCE: u8 = 1;
    pub(super) const SET_ADDRESS: u8 = 2;
}

/// What a row says besides its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    file: u64,
    line: i64,
    column: u64,
    is_stmt: bool,
}

/// What decides how opcodes are read.
#[derive(Clone, Copy, Debug)]
struct Header {
    min_length: u64,
    default_is_stmt: bool,
    line_base: i64,
    line_range: u64,
    opcode_base: u8,
}

impl Header {
    fn start(&self) -> Position {
        Position {
            file: 1,
            line: 1,
            column: 0,
            is_stmt: self.default_is_stmt,
        }
    }
}

/// A new section, and where the starts of sequences went.
struct Rewritten {
    bytes: Vec<u8>,
    starts: BTreeMap<usize, usize>,
}

struct Rewriter<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the addresses of the function's sequences stand.
    ours: &'a [usize],
    moves: &'a Moves,
    /// How many instructions the function's section has room for.
    room: usize,
    out: Vec<u8>,
    starts: BTreeMap<usize, usize>,
}

impl<'a> Rewriter<'a> {
    fn new(bytes: &'a [u8], ours: &'a [usize], moves: &'a Moves, room: usize) -> Rewriter<'a> {
        Rewriter {
            bytes,
            at: 0,
            ours,
            moves,
            room,
            out: Vec::with_capacity(bytes.len()),
            starts: BTreeMap::new(),
        }
    }

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
        let taken = self.take(count)?;
        Some(
            taken
                .iter()
                .rev()
                .fold(0, |sum, &byte| sum << 8 | u64::from(byte)),
        )
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= i64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let negative = byte & 0x40 != 0 && shift + 7 < 64;
                return Some(if negative {
                    value | -1 << (shift + 7)
                } else {
                    value
                });
            }
        }
        None
    }

    /// The whole section; none if something in it is not understood.
    fn run(mut self) -> Option<Rewritten> {
        while self.at < self.bytes.len() {
            let unit = self.at;
            let length = self.number(4)? as usize;
            let end = self.at.checked_add(length)?;
            if end > self.bytes.len() {
                return None;
            }
            let version = self.number(2)?;
            if !(2..=4).contains(&version) {
                return None;
            }
            let header_length = self.number(4)? as usize;
            let program = self.at.checked_add(header_length)?;
            let header = self.header(version)?;
            if program > end {
                return None;
            }
            let new_unit = self.out.len();
            self.out.extend_from_slice(&self.bytes[unit..program]);
            self.at = program;
            while self.at < end {
                self.sequence(&header, end)?;
            }
            let length = u32::try_from(self.out.len() - new_unit - 4).ok()?;
            self.out[new_unit..new_unit + 4].copy_from_slice(&length.to_le_bytes());
        }
        Some(Rewritten {
            bytes: self.out,
            starts: self.starts,
        })
    }

    fn header(&mut self, version: u64) -> Option<Header> {
        let min_length = self.number(1)?;
        if version >= 4 {
            self.byte()?;
        }
        let header = Header {
            min_length,
            default_is_stmt: self.byte()? != 0,
            line_base: i64::from(self.byte()? as i8),
            line_range: self.number(1)?,
            opcode_base: self.byte()?,
        };
        let known = header.line_range > 0 && (10..=13).contains(&header.opcode_base);
        known.then_some(header)
    }

    /// One sequence: copied, or written anew if it is the function's.
    fn sequence(&mut self, header: &Header, end: usize) -> Option<()> {
        let first = self.at;
        let mut rows: Vec<(u64, Position)> = Vec::new();
        let mut now = header.start();
        let mut address = 0u64;
        let mut start = None;
        loop {
            if self.at >= end {
                return None;
            }
            let opcode = self.byte()?;
            let advance = |operation: u64| header.min_length * operation;
            match opcode {
                0 => {
                    let length = self.unsigned()? as usize;
                    match self.byte()? {
                        lne::END_SEQUENCE if length == 1 => break,
                        lne::SET_ADDRESS if length == 9 && start.is_none() => {
                            let at = self.at;
                            address = self.number(8)?;
                            start = Some((at, address));
                        }
                        // Where calls were inlined is said by the number of a row.
                        _ => return None,
                    }
                }
                lns::COPY => rows.push((address, now)),
                lns::ADVANCE_PC => {
                    let by = self.unsigned()?;
                    address = address.checked_add(header.min_length.checked_mul(by)?)?;
                }
                lns::ADVANCE_LINE => now.line = now.line.checked_add(self.signed()?)?,
                lns::SET_FILE => now.file = self.unsigned()?,
                lns::SET_COLUMN => now.column = self.unsigned()?,
                lns::NEGATE_STMT => now.is_stmt = !now.is_stmt,
                lns::SET_BASIC_BLOCK => {}
                lns::CONST_ADD_PC => {
                    address = address.checked_add(advance(
                        u64::from(255 - header.opcode_base) / header.line_range,
                    ))?;
                }
                lns::FIXED_ADVANCE_PC => address = address.checked_add(self.number(2)?)?,
                // Later versions have prologue, epilogue and instruction-set marks between these and the special ones.
                opcode if opcode < header.opcode_base => return None,
                special => {
                    let adjusted = u64::from(special - header.opcode_base);
                    address = address.checked_add(advance(adjusted / header.line_range))?;
                    let by = header.line_base + (adjusted % header.line_range) as i64;
                    now.line = now.line.checked_add(by)?;
                    rows.push((address, now));
                }
            }
        }
        let (start, base) = start?;
        if !self.ours.contains(&start) {
            self.starts.insert(start, self.out.len() + start - first);
            self.out.extend_from_slice(&self.bytes[first..self.at]);
            return Some(());
        }
        self.write(header, &rows, base, address, start)
    }

    /// Writes the sequence of the function in the new order.
    fn write(
        &mut self,
        header: &Header,
        rows: &[(u64, Position)],
        base: u64,
        end: u64,
        start: usize,
    ) -> Option<()> {
        self.out.extend([0, 9, lne::SET_ADDRESS]);
        self.starts.insert(start, self.out.len());
        self.out.extend_from_slice(&base.to_le_bytes());
        let count = usize::try_from(end.checked_sub(base)?).ok()? / WORD;
        if count > self.room {
            return None;
        }
        // By the offset an instruction has now, the line it came from.
        let mut lines: Vec<Option<Position>> = vec![None; count];
        let mut next = 0;
        let mut known = None;
        for old in 0..count {
            let address = base + (old * WORD) as u64;
            while let Some((at, position)) = rows.get(next).filter(|(at, _)| *at <= address) {
                debug_assert!(*at <= address);
                known = Some(*position);
                next += 1;
            }
            let new = self.moves.offset((old * WORD) as u64) as usize / WORD;
            *lines.get_mut(new)? = known;
        }
        let mut now = header.start();
        let mut address = base;
        let mut last = None;
        for (index, position) in lines.into_iter().enumerate() {
            let Some(position) = position.filter(|position| Some(*position) != last) else {
                continue;
            };
            last = Some(position);
            if position.file != now.file {
                self.out.push(lns::SET_FILE);
                unsigned(&mut self.out, position.file);
            }
            if position.column != now.column {
                self.out.push(lns::SET_COLUMN);
                unsigned(&mut self.out, position.column);
            }
            if position.is_stmt != now.is_stmt {
                self.out.push(lns::NEGATE_STMT);
            }
            if position.line != now.line {
                self.out.push(lns::ADVANCE_LINE);
                signed(&mut self.out, position.line.checked_sub(now.line)?);
            }
            let at = base + (index * WORD) as u64;
            self.advance(header, at - address)?;
            self.out.push(lns::COPY);
            (now, address) = (position, at);
        }
        self.advance(header, end - address)?;
        self.out.extend([0, 1, lne::END_SEQUENCE]);
        Some(())
    }

    fn advance(&mut self, header: &Header, by: u64) -> Option<()> {
        if by > 0 {
            self.out.push(lns::ADVANCE_PC);
            unsigned(&mut self.out, by.checked_div(header.min_length)?);
        }
        Some(())
    }
}

fn unsigned(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            out.push(byte);
            return;
        }
        out.push(byte | 0x80);
    }
}

fn signed(out: &mut Vec<u8>, mut value: i64) {
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 && byte & 0x40 == 0 || value == -1 && byte & 0x40 != 0 {
            out.push(byte);
            return;
        }
        out.push(byte | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program for one function of four instructions: lines 7, 7, 9 and 3 of file 2.
    fn program() -> Vec<u8> {
        let header = [1, 1, 0xfb, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0];
        let body = [
            0, 9, 2, 0, 0, 0, 0, 0, 0, 0, 0, // set address 0
            4, 2, // file 2
            3, 6, 1, // line 7
            2, 0x20, 3, 2, 1, // address 0x20, line 9
            2, 0x10, 3, 0x7a, 1, // address 0x30, line 3
            2, 0x10, 0, 1, 1, // end at 0x40
        ];
        let mut bytes = Vec::new();
        bytes.extend((6 + header.len() as u32 + body.len() as u32).to_le_bytes());
        bytes.extend(2u16.to_le_bytes());
        bytes.extend((header.len() as u32).to_le_bytes());
        bytes.extend(header);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn every_instruction_keeps_its_line() {
        let bytes = program();
        let start = 4 + 2 + 4 + 16 + 3;
        // The last instruction but one comes first.
        let moves = Moves::new(&[2, 0, 1, 3]);
        let done = Rewriter::new(&bytes, &[start], &moves, 4)
            .run()
            .expect("well-formed");
        assert_eq!(done.starts.get(&start), Some(&start));
        let body = &done.bytes[start - 3..];
        assert_eq!(
            body,
            [
                0, 9, 2, 0, 0, 0, 0, 0, 0, 0, 0, // set address 0
                4, 2, 3, 8, 1, // file 2, line 9
                3, 0x7e, 2, 0x10, 1, // line 7 from 0x10 on
                3, 0x7c, 2, 0x20, 1, // line 3 from 0x30 on
                2, 0x10, 0, 1, 1, // end at 0x40
            ]
        );
        let length =
            u32::from_le_bytes([done.bytes[0], done.bytes[1], done.bytes[2], done.bytes[3]]);
        assert_eq!(length as usize, done.bytes.len() - 4);
    }

    #[test]
    fn other_functions_are_copied_and_broken_programs_refused() {
        let bytes = program();
        let moves = Moves::new(&[1, 0]);
        let done = Rewriter::new(&bytes, &[], &moves, 4)
            .run()
            .expect("well-formed");
        assert_eq!(done.bytes, bytes);
        for length in 0..bytes.len() {
            assert!(
                Rewriter::new(&bytes[..length], &[29], &moves, 4)
                    .run()
                    .is_none()
                    || length == 0,
                "{length}"
            );
        }
    }

    #[test]
    fn a_program_longer_than_its_function_is_refused() {
        let bytes = program();
        let moves = Moves::new(&[1, 0]);
        assert!(Rewriter::new(&bytes, &[29], &moves, 3).run().is_none());
        assert!(Rewriter::new(&bytes, &[29], &moves, 4).run().is_some());
    }
}
