//! What is wrong with a program: messages with positions, and the three ways they are shown.
//!
//! A [`Diagnostic`] keeps the short message in ptxas's words where ptxas has words for it, so that programs which read
//! ptxas's output understand ours, and beside it what ptxas does not say: the text it is about, what was expected, and a
//! suggestion. [`Diagnostics`] collects them up to a limit, so that hostile input cannot make memory grow with its errors.

use std::fmt::Write;

/// A range of bytes in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes from `start` to `end`.
    pub const fn new(start: u32, end: u32) -> Span {
        Span { start, end }
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The program is refused, and ptxas looks no further into it.
    Fatal,
    /// The program is refused.
    Error,
    /// The program is accepted.
    Warning,
}

impl Severity {
    /// Whether the program is refused.
    pub fn is_error(self) -> bool {
        self != Severity::Warning
    }

    /// Its name in messages about the text alone.
    fn name(self) -> &'static str {
        match self {
            Severity::Fatal | Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// One message about the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the program is refused because of it.
    pub severity: Severity,
    /// The text it is about.
    pub span: Span,
    /// What is wrong, in one line.
    pub message: String,
    /// What would have been right there, when that says more than the message.
    pub expected: Option<String>,
    /// What to write instead, when something near would be right.
    pub suggestion: Option<String>,
}

impl Diagnostic {
    /// An error about `span`.
    pub fn error(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            span,
            message: message.into(),
            expected: None,
            suggestion: None,
        }
    }

    /// An error about `span` after which nothing else is looked at.
    pub fn fatal(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Fatal,
            ..Diagnostic::error(span, message)
        }
    }

    /// A warning about `span`.
    pub fn warning(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Warning,
            ..Diagnostic::error(span, message)
        }
    }

    /// The same, saying what was expected.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Diagnostic {
        self.expected = Some(expected.into());
        self
    }

    /// The same, with a suggestion.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Diagnostic {
        self.suggestion = Some(suggestion.into());
        self
    }
}

/// Messages in the order they were found.
#[derive(Clone, Debug)]
pub struct Diagnostics {
    items: Vec<Diagnostic>,
    errors: usize,
    limit: usize,
}

impl Default for Diagnostics {
    fn default() -> Self {
        Diagnostics::with_limit(Diagnostics::LIMIT)
    }
}

impl Diagnostics {
    /// How many messages are kept unless told otherwise.
    pub const LIMIT: usize = 1000;

    /// An empty list that keeps at most `limit` messages.
    pub fn with_limit(limit: usize) -> Diagnostics {
        Diagnostics {
            items: Vec::new(),
            errors: 0,
            limit,
        }
    }

    /// Adds one; beyond the limit it is only counted.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if diagnostic.severity.is_error() {
            self.errors += 1;
        }
        if self.items.len() < self.limit {
            self.items.push(diagnostic);
        }
    }

    /// Adds all of `other`.
    pub fn append(&mut self, other: Diagnostics) {
        let unlisted = other.errors - other.items.iter().filter(|it| is_error(it)).count();
        for item in other.items {
            self.push(item);
        }
        self.errors += unlisted;
    }

    /// Whether the program is refused.
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// How many errors there are, kept or not.
    pub fn error_count(&self) -> usize {
        self.errors
    }

    /// The messages that were kept.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.items.iter()
    }

    /// Whether there is no message at all.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Sorts the messages by position, so that the order does not tell which pass found them.
    pub fn sort(&mut self) {
        self.items.sort_by_key(|item| item.span.start);
    }

    /// One line a message, as ptxas writes them: `ptxas FILE, line N; error   : MESSAGE`.
    pub fn to_lines(&self, file: &str, source: &[u8]) -> String {
        let lines = LineIndex::new(source);
        let mut out = String::new();
        for item in &self.items {
            let (line, _) = lines.position(item.span.start);
            let _ = write!(
                out,
                "ptxas {file}, line {line}; {:7} : {}",
                item.severity.name(),
                item.message
            );
            if let Some(suggestion) = &item.suggestion {
                let _ = write!(out, "; {suggestion}");
            } else if let Some(expected) = &item.expected {
                let _ = write!(out, "; expected {expected}");
            }
            out.push('\n');
        }
        if self.errors > 0 {
            out.push_str("ptxas fatal   : Ptx assembly aborted due to errors\n");
        }
        out
    }

    /// Each message with the source line it is about, the text underlined.
    pub fn to_excerpts(&self, file: &str, source: &[u8]) -> String {
        let lines = LineIndex::new(source);
        let mut out = String::new();
        for item in &self.items {
            write_excerpt(&mut out, file, &lines, item);
        }
        let listed = self.items.iter().filter(|it| is_error(it)).count();
        if self.errors > listed {
            let _ = writeln!(out, "and {} more errors", self.errors - listed);
        }
        out
    }

    /// One JSON object a message, one message a line.
    pub fn to_json(&self, file: &str, source: &[u8]) -> String {
        let lines = LineIndex::new(source);
        let mut out = String::new();
        for item in &self.items {
            let (line, column) = lines.position(item.span.start);
            let (end_line, end_column) = lines.position(item.span.end);
            let severity = item.severity.name();
            let _ = write!(
                out,
                "{{\"file\":{},\"line\":{line},\"column\":{column},\"end_line\":{end_line},\"end_column\":{end_column},\
                 \"severity\":\"{severity}\",\"message\":{}",
                json_string(file),
                json_string(&item.message)
            );
            if let Some(expected) = &item.expected {
                let _ = write!(out, ",\"expected\":{}", json_string(expected));
            }
            if let Some(suggestion) = &item.suggestion {
                let _ = write!(out, ",\"suggestion\":{}", json_string(suggestion));
            }
            out.push_str("}\n");
        }
        out
    }
}

fn is_error(item: &Diagnostic) -> bool {
    item.severity.is_error()
}

/// The longest piece of a source line that an excerpt shows.
const EXCERPT_BYTES: usize = 160;

fn write_excerpt(out: &mut String, file: &str, lines: &LineIndex<'_>, item: &Diagnostic) {
    let (line, column) = lines.position(item.span.start);
    let severity = item.severity.name();
    let _ = writeln!(out, "{severity}: {}", item.message);
    let gutter = line.to_string().len();
    let _ = writeln!(out, "{:gutter$}--> {file}:{line}:{column}", "");
    let text = lines.line(line);
    let at = column - 1;
    // A line of megabytes is shown around the place only.
    let from = if at > EXCERPT_BYTES / 2 && text.len() > EXCERPT_BYTES {
        at - EXCERPT_BYTES / 2
    } else {
        0
    };
    let to = text.len().min(from + EXCERPT_BYTES);
    let shown: String = text[from..to]
        .iter()
        .map(|&byte| match byte {
            b'\t' => ' ',
            0x20..=0x7e => char::from(byte),
            _ => '?',
        })
        .collect();
    let width = (item.span.end.saturating_sub(item.span.start) as usize)
        .max(1)
        .min(to.saturating_sub(at).max(1));
    let _ = writeln!(out, "{:gutter$} |", "");
    let _ = writeln!(out, "{line} | {shown}");
    let _ = write!(
        out,
        "{:gutter$} | {:indent$}{}",
        "",
        "",
        "^".repeat(width),
        indent = at - from
    );
    if let Some(expected) = &item.expected {
        let _ = write!(out, " expected {expected}");
    }
    out.push('\n');
    if let Some(suggestion) = &item.suggestion {
        let _ = writeln!(out, "{:gutter$} = help: {suggestion}", "");
    }
    out.push('\n');
}

fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Where each line of a source starts.
#[derive(Debug)]
pub struct LineIndex<'a> {
    source: &'a [u8],
    starts: Vec<u32>,
}

impl<'a> LineIndex<'a> {
    /// Finds the line starts of `source`.
    pub fn new(source: &'a [u8]) -> LineIndex<'a> {
        let mut starts = Vec::with_capacity(1 + source.len() / 32);
        starts.push(0);
        // Eight bytes are looked at together: a byte of `found` has its highest bit where the text has a line feed. Above the lowest one
        // a bit may be wrong, so that each is looked at.
        const ONES: u64 = u64::from_ne_bytes([1; 8]);
        let (words, rest) = source.as_chunks::<8>();
        for (number, bytes) in words.iter().enumerate() {
            let word = u64::from_le_bytes(*bytes) ^ (ONES * u64::from(b'\n'));
            let mut found = word.wrapping_sub(ONES) & !word & (ONES << 7);
            while found != 0 {
                let place = found.trailing_zeros() as usize / 8;
                if bytes[place] == b'\n' {
                    starts.push((8 * number + place) as u32 + 1);
                }
                found &= found - 1;
            }
        }
        for (place, &byte) in rest.iter().enumerate() {
            if byte == b'\n' {
                starts.push((8 * words.len() + place) as u32 + 1);
            }
        }
        LineIndex { source, starts }
    }

    /// The line of a byte, counted from 1. `near` is a line that may be it or just before it: text is mostly read forwards.
    pub fn line_near(&self, offset: u32, near: usize) -> usize {
        let at = |line: usize| self.starts.get(line).copied().unwrap_or(u32::MAX);
        if near > 0 && at(near - 1) <= offset {
            for line in near..near + 4 {
                if offset < at(line) {
                    return line.min(self.starts.len());
                }
            }
        }
        self.position(offset).0
    }

    /// Line and column of a byte, both counted from 1.
    pub fn position(&self, offset: u32) -> (usize, usize) {
        let offset = offset.min(self.source.len() as u32);
        let line = self.starts.partition_point(|&start| start <= offset);
        let start = self.starts[line - 1];
        (line, (offset - start) as usize + 1)
    }

    /// The text of a line, counted from 1, without its end.
    pub fn line(&self, line: usize) -> &'a [u8] {
        let start = self.starts[line - 1] as usize;
        let end = self
            .starts
            .get(line)
            .map_or(self.source.len(), |&next| next as usize - 1);
        let text = &self.source[start..end.max(start)];
        text.strip_suffix(b"\r").unwrap_or(text)
    }
}

/// The candidate nearest to `word`, if one is near enough to be what was meant.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    if word.len() > 40 {
        return None;
    }
    let allowed = 1 + word.len() / 4;
    candidates
        .into_iter()
        .filter(|candidate| candidate.len().abs_diff(word.len()) <= allowed)
        .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
