//! Line tables of a module: which rows its code has, and the texts they lead to.
//!
//! ptxas writes them for PTX that has `.loc` statements, and with `-lineinfo` for any PTX; then `.debug_line` is empty and
//! `.nv_debug_line_sass` leads to the PTX. Time and size of a source file are what its `.file` statement says: ptxas looks at the file
//! itself where the statement says nothing, and so writes something else once the file has changed.

use crate::options::Options;
use orias_codegen::LoweredModule;
use orias_cubin::build::LineInfo;
use orias_cubin::line::{LineRow, SourceFile};
use orias_mercury::{Code, WORD};
use orias_ori::{Function, Location, Span};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What is gathered while modules are lowered.
pub(crate) struct LineTables {
    /// Whether tables are made for any PTX.
    always: bool,
    /// Whether none are made.
    never: bool,
    /// Whether a module names source lines.
    from_source: bool,
    ptx: Vec<u8>,
    ptx_lines: u32,
}

impl LineTables {
    pub(crate) fn new(options: &Options) -> LineTables {
        LineTables {
            always: options.line_info || options.debug,
            never: options.no_debug_info,
            from_source: false,
            ptx: Vec::new(),
            ptx_lines: 0,
        }
    }

    /// Takes a module's text; what comes back is how many lines precede it, if its lines are wanted.
    pub(crate) fn take(&mut self, source: &[u8], names_files: bool) -> Option<u32> {
        if self.never || !(self.always || names_files) {
            return None;
        }
        self.from_source |= names_files;
        let before = self.ptx_lines;
        self.ptx_lines += append_bare_lines(source, &mut self.ptx);
        Some(before)
    }

    pub(crate) fn wanted(&self) -> bool {
        !self.never && (self.always || self.from_source)
    }

    /// The module's files by the numbers its locations use, and their places in the table.
    pub(crate) fn files(&self, module: &LoweredModule) -> BTreeMap<u32, u32> {
        let mut numbers: Vec<u32> = module.files.iter().map(|file| file.index).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let places = numbers.into_iter().enumerate();
        places
            .map(|(place, number)| (number, place as u32 + 1))
            .collect()
    }

    pub(crate) fn info(
        self,
        module: &LoweredModule,
        files: &BTreeMap<u32, u32>,
    ) -> Option<LineInfo> {
        let described = |number: &u32| {
            let mut files = module.files.iter();
            let file = files.find(|file| file.index == *number);
            SourceFile {
                path: file.map_or_else(String::new, |file| file.name.clone()),
                stamp: file.and_then(|file| file.stamp).unwrap_or((0, 0)),
            }
        };
        self.wanted().then(|| LineInfo {
            from_source: self.from_source,
            files: files.keys().map(described).collect(),
            strings: module.debug_strings.clone(),
            ptx: self.ptx,
        })
    }
}

/// Appends the lines of a module as `.nv_debug_ptx_txt` has them, each ended by a zero: without comments, margins, `.loc`, `.file` and
/// the numbers of sections. The result is how many there are.
fn append_bare_lines(source: &[u8], out: &mut Vec<u8>) -> u32 {
    const LEFT_OUT: [&[u8]; 6] = [b".loc", b".file", b".b8", b".b16", b".b32", b".b64"];
    out.reserve(source.len());
    let mut count = 0;
    let mut in_comment = false;
    let mut scratch = Vec::new();
    let mut start = 0;
    let mut last_is_empty = false;
    while start <= source.len() {
        // One look at each byte: most lines have no comment, or one that ends with the line.
        let first = line_end_or_slash(source, start);
        let slash = source.get(first) == Some(&b'/');
        let mut end = first;
        while source.get(end).is_some_and(|&byte| byte != b'\n') {
            end = line_end_or_slash(source, end + 1);
        }
        let line = &source[start..end];
        let line_start = start;
        start = end + 1;
        let kept = if slash && !in_comment && source.get(first + 1) == Some(&b'/') {
            &source[line_start..first]
        } else if in_comment || slash {
            in_comment = strip_comments(line, in_comment, &mut scratch);
            &scratch[..]
        } else {
            line
        };
        let bare = kept.trim_ascii();
        let left_out = bare.first() == Some(&b'.') && {
            let word = bare.split(|byte| byte.is_ascii_whitespace()).next();
            word.is_some_and(|word| LEFT_OUT.contains(&word))
        };
        last_is_empty = left_out || bare.is_empty();
        if !last_is_empty {
            out.extend_from_slice(bare);
        }
        out.push(0);
        count += 1;
    }
    if last_is_empty {
        out.pop();
        count -= 1;
    }
    count
}

/// Where the next line feed or slash is, from `start` on; the end where there is none. Eight bytes are looked at together: a byte of
/// `found` has its highest bit where the text has one of the two, and the lowest such byte is right.
fn line_end_or_slash(source: &[u8], mut start: usize) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & ONES << 7;
    while let Some((bytes, _)) = source
        .get(start..)
        .and_then(|rest| rest.split_first_chunk())
    {
        let word = u64::from_le_bytes(*bytes);
        let same = |byte: u8| zeros(word ^ (ONES * u64::from(byte)));
        let found = same(b'\n') | same(b'/');
        if found != 0 {
            return start + found.trailing_zeros() as usize / 8;
        }
        start += 8;
    }
    let rest = source.get(start..).unwrap_or_default();
    let near = rest.iter().position(|byte| matches!(byte, b'\n' | b'/'));
    near.map_or(source.len().max(start), |near| start + near)
}

/// Leaves in `kept` what a line has outside of comments. Both flags tell whether the line's start or end lies in one.
fn strip_comments(line: &[u8], mut in_comment: bool, kept: &mut Vec<u8>) -> bool {
    kept.clear();
    let mut rest = line;
    while !rest.is_empty() {
        if in_comment {
            let end = rest.windows(2).position(|pair| pair == b"*/");
            in_comment = end.is_none();
            rest = end.map_or(&[][..], |end| &rest[end + 2..]);
        } else if rest.starts_with(b"//") {
            break;
        } else if rest.starts_with(b"/*") {
            in_comment = true;
            rest = &rest[2..];
        } else {
            kept.push(rest[0]);
            rest = &rest[1..];
        }
    }
    in_comment
}

/// The rows of `.debug_line` for a function.
///
/// An instruction without a location belongs to the one before it, the first ones to the first location of the function, which starts the
/// table even if the first instruction has another. A row is made where file, line or place of inlining change. The row of the place something was inlined at comes before, at the same address, once
/// in a function.
pub(crate) fn source_rows(
    function: &Function,
    code: &Code,
    files: &BTreeMap<u32, u32>,
) -> Vec<LineRow> {
    let mut rows = Rows {
        function,
        files,
        rows: Vec::new(),
        numbers: FxHashMap::default(),
        chain: Vec::new(),
    };
    let named = |span: &Span| function.locations[*span].line > 0;
    let first = function.locations.keys().find(named);
    for (number, placed) in code.placed.iter().enumerate() {
        let start = first.filter(|_| number == 0);
        for span in [start, placed.span.filter(named)].into_iter().flatten() {
            rows.add(span, (number * WORD) as u64);
        }
    }
    rows.rows
}

struct Rows<'a> {
    function: &'a Function,
    files: &'a BTreeMap<u32, u32>,
    rows: Vec<LineRow>,
    /// The rows of places that something was inlined at, counted from 1.
    numbers: FxHashMap<Span, u32>,
    /// A location and the places it was inlined at, while they are looked at.
    chain: Vec<Span>,
}

impl Rows<'_> {
    fn add(&mut self, span: Span, address: u64) {
        // From the outermost place inwards.
        let mut chain = std::mem::take(&mut self.chain);
        chain.clear();
        chain.push(span);
        let mut at = self.function.locations[span].inlined_at.expand();
        while let Some(outer) = at {
            chain.push(outer);
            at = self.function.locations[outer].inlined_at.expand();
        }
        let mut inlined_at = 0;
        for &outer in chain[1..].iter().rev() {
            if let Some(&number) = self.numbers.get(&outer) {
                inlined_at = number;
                continue;
            }
            let row = self.row(&self.function.locations[outer], inlined_at, address);
            self.rows.push(row);
            inlined_at = self.rows.len() as u32;
            self.numbers.insert(outer, inlined_at);
        }
        let row = self.row(&self.function.locations[span], inlined_at, address);
        let same = |last: &LineRow| LineRow { address, ..*last } == row;
        if !self.rows.last().is_some_and(same) {
            self.rows.push(row);
        }
        self.chain = chain;
    }

    fn row(&self, location: &Location, inlined_at: u32, address: u64) -> LineRow {
        LineRow {
            address,
            file: self.files.get(&location.file).copied().unwrap_or(0),
            line: location.line,
            inlined_at,
            function: match inlined_at {
                0 => 0,
                _ => location.function.unwrap_or(0),
            },
        }
    }
}

/// The rows of `.nv_debug_line_sass` for a function: lines of the PTX.
pub(crate) fn ptx_rows(function: &Function, code: &Code) -> Vec<LineRow> {
    let mut rows: Vec<LineRow> = Vec::new();
    let known = |span: &Span| function.locations[*span].ptx > 0;
    let first = function.locations.keys().find(known);
    for (number, placed) in code.placed.iter().enumerate() {
        let span = placed.span.filter(known);
        let span = if number == 0 { span.or(first) } else { span };
        let Some(span) = span else {
            continue;
        };
        let line = function.locations[span].ptx;
        if rows.last().is_none_or(|last| last.line != line) {
            rows.push(LineRow {
                address: (number * WORD) as u64,
                file: 0,
                line,
                inlined_at: 0,
                function: 0,
            });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_margins_and_line_statements_are_left_out_and_lines_stay_lines() {
        let source = b"// x\n.version 9.0 /* a\nb */ .target\tsm_90a // y\n\t.loc\t1 2 3\n\tadd.s32 \t%r1, %r2, 1;\n";
        let mut text = Vec::new();
        let count = append_bare_lines(source, &mut text);
        assert_eq!((count, text.pop()), (5, Some(0)));
        let texts: Vec<&[u8]> = text.split(|&byte| byte == 0).collect();
        let wanted: [&[u8]; 5] = [
            b"",
            b".version 9.0",
            b".target\tsm_90a",
            b"",
            b"add.s32 \t%r1, %r2, 1;",
        ];
        assert_eq!(texts, wanted);
    }
}
