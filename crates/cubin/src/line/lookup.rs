//! From which line of which file a function's instructions come.
//!
//! The [programs](super::program) of a section are run once; the rows of sequences whose address is a relocation against the function's
//! section are kept. A table that is not understood has no rows: lines are a courtesy of reports. Cost: linear in the section.

use super::program;
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

/// The lines of the PTX that a function's code comes from, by address.
pub fn ptx_lines_of(cubin: &Cubin, function: &str) -> Vec<SourceLine> {
    let mut rows = rows(cubin, ".nv_debug_line_sass", function).unwrap_or_default();
    rows.sort_by_key(|row| row.address);
    rows
}

/// The PTX that a cubin keeps for its line tables, if it does: a line each.
pub fn ptx_text_of(cubin: &Cubin) -> Option<String> {
    let index = cubin.section_index(".nv_debug_ptx_txt")?;
    let bytes = cubin.sections[index].bytes()?;
    let text = String::from_utf8_lossy(bytes).replace('\0', "\n");
    Some(text)
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
    let mut rows = Vec::new();
    for unit in program::read(bytes)? {
        let ours = unit.sequences.iter().filter(|sequence| {
            let start = sequence.start.map(|(at, _)| at);
            start.is_some_and(|at| starts.contains(&at))
        });
        for &(address, position) in ours.flat_map(|sequence| &sequence.rows) {
            let file = usize::try_from(position.file).ok()?.checked_sub(1);
            rows.push(SourceLine {
                address,
                path: file.and_then(|at| unit.files.get(at).cloned()),
                line: u64::try_from(position.line).ok()?,
            });
        }
    }
    Some(rows)
}
