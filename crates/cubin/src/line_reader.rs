//! Reads line tables: from which line of which file a function's instructions come.
//!
//! A line program is run once, from the start of the section; the rows of sequences whose address is a relocation against the
//! function's section are kept. A table that is not understood has no rows: lines are a courtesy of reports. Cost: linear in the
//! section.

use crate::{Body, Cubin, SymbolPlace};

/// Where code from an address on comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The first address, from the start of the function.
    pub address: u64,
    /// The file; none for the PTX.
    pub path: Option<String>,
    /// The line, from 1.
    pub line: u64,
}

/// The lines of a function, by address: of the source where the cubin has them, otherwise of the PTX.
pub fn lines_of(cubin: &Cubin, function: &str) -> Vec<SourceLine> {
    let found = [".debug_line", ".nv_debug_line_sass"]
        .iter()
        .filter_map(|section| rows(cubin, section, function))
        .find(|rows| !rows.is_empty());
    let mut rows = found.unwrap_or_default();
    rows.sort_by_key(|row| row.address);
    rows
}

/// The row that holds for an address.
pub fn line_at(rows: &[SourceLine], address: u64) -> Option<&SourceLine> {
    let behind = rows.partition_point(|row| row.address <= address);
    rows.get(behind.checked_sub(1)?)
}

fn rows(cubin: &Cubin, name: &str, function: &str) -> Option<Vec<SourceLine>> {
    let text = cubin.section_index(&format!(".text.{function}"))?;
    let index = cubin.section_index(name)?;
    let bytes = cubin.sections[index].bytes()?;
    let mut starts = Vec::new();
    for section in &cubin.sections {
        let Body::Relocations(list) = &section.body else {
            continue;
        };
        if section.info as usize != index {
            continue;
        }
        for relocation in list {
            let symbol = cubin.symbols().get(relocation.symbol as usize);
            if symbol.is_some_and(|symbol| symbol.place == SymbolPlace::Section(text as u16)) {
                starts.push(relocation.offset as usize);
            }
        }
    }
    let mut reader = Reader { bytes, at: 0 };
    let mut rows = Vec::new();
    while reader.at < bytes.len() {
        reader.unit(&starts, &mut rows)?;
    }
    Some(rows)
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

    /// A number in groups of seven bits, and how many bits there are.
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
    fn unit(&mut self, starts: &[usize], rows: &mut Vec<SourceLine>) -> Option<()> {
        let length = self.number(4)? as usize;
        let end = self
            .at
            .checked_add(length)
            .filter(|end| *end <= self.bytes.len())?;
        let _version = self.number(2)?;
        let header = self.number(4)? as usize;
        let program = self.at.checked_add(header).filter(|at| *at <= end)?;
        let smallest = u64::from(self.byte()?);
        let _default_is_statement = self.byte()?;
        let line_base = i64::from(self.byte()?.cast_signed());
        let line_range = i64::from(self.byte()?);
        let first_special = self.byte()?;
        let counts = self
            .take(usize::from(first_special.checked_sub(1)?))?
            .to_vec();
        let files = self.files()?;
        self.at = program;
        let mut ours = false;
        let (mut address, mut line, mut file) = (0u64, 1i64, 1u64);
        while self.at < end {
            let opcode = self.byte()?;
            let mut row = false;
            match opcode {
                0 => {
                    let length = self.unsigned()? as usize;
                    let next = self.at.checked_add(length)?;
                    match self.byte()? {
                        1 => {
                            ours = false;
                            (address, line, file) = (0, 1, 1);
                        }
                        2 => {
                            ours = starts.contains(&self.at);
                            address = self.number(length.checked_sub(1).filter(|n| *n <= 8)?)?;
                        }
                        _ => {}
                    }
                    self.at = next;
                }
                1 => row = true,
                2 => address = address.wrapping_add(self.unsigned()?.wrapping_mul(smallest)),
                3 => line = line.wrapping_add(self.signed()?),
                4 => file = self.unsigned()?,
                8 => {
                    let step = i64::from(255 - first_special).checked_div(line_range)?;
                    address = address.wrapping_add(step.cast_unsigned().wrapping_mul(smallest));
                }
                9 => address = address.wrapping_add(self.number(2)?),
                known if known < first_special => {
                    for _ in 0..counts[usize::from(known) - 1] {
                        self.unsigned()?;
                    }
                }
                special => {
                    let code = i64::from(special - first_special);
                    let step = code.checked_div(line_range)?;
                    address = address.wrapping_add(step.cast_unsigned().wrapping_mul(smallest));
                    line = line.wrapping_add(line_base + code % line_range);
                    row = true;
                }
            }
            if row && ours {
                let path = (file as usize)
                    .checked_sub(1)
                    .and_then(|at| files.get(at).cloned());
                let line = u64::try_from(line).ok()?;
                rows.push(SourceLine {
                    address,
                    path,
                    line,
                });
            }
        }
        self.at = end;
        Some(())
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
}
