//! Line tables of code whose instructions moved.
//!
//! `.debug_line` says which source line each instruction came from, `.nv_debug_line_sass` which line of the PTX: both are DWARF line
//! programs with one sequence a function, whose start is a relocation. They are run by [`program::read`]; in a sequence of the function every instruction keeps the
//! line it had, and a new sequence is written in the new order with plain opcodes. Other sequences are copied. Debug information that
//! describes places of variables address by address (`-g`) cannot follow and is refused.

use super::offsets::{Moves, OffsetError};
use orias_cubin::line::program::{self, Position, ReadSequence};
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
            _ => Vec::<usize>::new(),
        };
        if starts.is_empty() {
            continue;
        }
        let length = cubin.sections[section].bytes().map_or(0, <[u8]>::len);
        let moved = Moved {
            starts: &starts,
            moves,
            room: length / WORD,
        };
        let rewritten = moved
            .rewrite(bytes)
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

/// A new section, and where the starts of sequences went.
struct Rewritten {
    bytes: Vec<u8>,
    starts: BTreeMap<usize, usize>,
}

/// What is known of the function whose instructions moved.
struct Moved<'a> {
    /// Where the addresses of its sequences stand.
    starts: &'a [usize],
    moves: &'a Moves,
    /// How many instructions its section has room for.
    room: usize,
}

impl Moved<'_> {
    /// The whole section; none if something in it is not understood.
    fn rewrite(&self, bytes: &[u8]) -> Option<Rewritten> {
        let mut out = Vec::with_capacity(bytes.len());
        let mut starts = BTreeMap::new();
        for unit in program::read(bytes)? {
            let new_unit = out.len();
            out.extend_from_slice(&bytes[unit.bytes.start..unit.program]);
            for sequence in &unit.sequences {
                let (start, base) = sequence.start.filter(|_| sequence.is_plain)?;
                let new_start = if self.starts.contains(&start) {
                    let rows = self.rows(sequence, base)?;
                    program::write_plain(&unit.header, &rows, (base, sequence.end), &mut out)?
                } else {
                    let new_start = out.len() + start - sequence.bytes.start;
                    out.extend_from_slice(&bytes[sequence.bytes.clone()]);
                    new_start
                };
                starts.insert(start, new_start);
            }
            let length = u32::try_from(out.len() - new_unit - 4).ok()?;
            out[new_unit..new_unit + 4].copy_from_slice(&length.to_le_bytes());
        }
        Some(Rewritten { bytes: out, starts })
    }

    /// The rows of the function's sequence in the new order.
    fn rows(&self, sequence: &ReadSequence, base: u64) -> Option<Vec<(u64, Position)>> {
        let count = usize::try_from(sequence.end.checked_sub(base)?).ok()? / WORD;
        if count > self.room {
            return None;
        }
        // By the offset an instruction has now, the line it came from.
        let mut lines: Vec<Option<Position>> = vec![None; count];
        let mut rows = sequence.rows.iter().peekable();
        let mut known = None;
        for old in 0..count {
            let address = base + (old * WORD) as u64;
            while let Some((_, position)) = rows.next_if(|(at, _)| *at <= address) {
                known = Some(*position);
            }
            let new = self.moves.offset((old * WORD) as u64) as usize / WORD;
            *lines.get_mut(new)? = known;
        }
        let mut new_rows: Vec<(u64, Position)> = Vec::new();
        for (index, position) in lines.into_iter().enumerate() {
            let last = new_rows.last().map(|(_, position)| *position);
            if let Some(position) = position.filter(|position| Some(*position) != last) {
                new_rows.push((base + (index * WORD) as u64, position));
            }
        }
        Some(new_rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrite(bytes: &[u8], starts: &[usize], moves: &Moves, room: usize) -> Option<Rewritten> {
        let moved = Moved {
            starts,
            moves,
            room,
        };
        moved.rewrite(bytes)
    }

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
        let done = rewrite(&bytes, &[start], &moves, 4).expect("well-formed");
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
        let done = rewrite(&bytes, &[], &moves, 4).expect("well-formed");
        assert_eq!(done.bytes, bytes);
        for length in 0..bytes.len() {
            assert!(
                rewrite(&bytes[..length], &[29], &moves, 4).is_none() || length == 0,
                "{length}"
            );
        }
    }

    #[test]
    fn a_program_longer_than_its_function_is_refused() {
        let bytes = program();
        let moves = Moves::new(&[1, 0]);
        assert!(rewrite(&bytes, &[29], &moves, 3).is_none());
        assert!(rewrite(&bytes, &[29], &moves, 4).is_some());
    }
}
