//! One test file, taken apart and put together again.

use std::path::Path;

/// A type of file that can hold a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileType {
    /// How its name ends.
    pub extension: &'static str,
    /// What begins a comment that runs to the end of the line.
    pub comment: &'static str,
}

/// The types of file below `tests/`.
pub const FILE_TYPES: &[FileType] = &[
    FileType {
        extension: "ori",
        comment: ";",
    },
    FileType {
        extension: "merc",
        comment: "//",
    },
    FileType {
        extension: "ptx",
        comment: "//",
    },
    FileType {
        extension: "sass",
        comment: "//",
    },
];

/// What a test must print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Not written down yet.
    Missing,
    /// The input itself, without the comments above it.
    TheInput,
    /// This text.
    Text(String),
}

/// A test file, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case<'a> {
    /// The file's name without its folder, for messages.
    pub file_name: &'a str,
    /// The type of the file.
    pub file_type: FileType,
    /// The first word of the directive.
    pub kind: &'a str,
    /// The words after it.
    pub arguments: Vec<&'a str>,
    /// The file up to the expected text.
    pub input: &'a str,
    /// What the test must print.
    pub expected: Expected,
}

/// Takes apart the file at `path`, whose contents are `text`.
pub fn parse_case<'a>(path: &'a Path, text: &'a str) -> Result<Case<'a>, String> {
    let extension = path.extension().unwrap_or_default();
    let file_type = *FILE_TYPES
        .iter()
        .find(|file_type| file_type.extension == extension)
        .ok_or_else(|| {
            let known: Vec<&str> = FILE_TYPES.iter().map(|t| t.extension).collect();
            format!("tests live in files that end in {}", known.join(", "))
        })?;
    let comment = file_type.comment;
    let directive = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix(comment))
        .and_then(|line| line.trim_start().strip_prefix("test:"))
        .ok_or_else(|| format!("the first line must be '{comment} test: KIND [ARGUMENTS]'"))?;
    let mut words = directive.split_whitespace();
    let kind = words
        .next()
        .ok_or_else(|| format!("'{comment} test:' names no kind of test"))?;
    let (input, expected) = split_expected(text, comment)?;
    let file_name = path.file_name().and_then(|name| name.to_str());
    Ok(Case {
        file_name: file_name.ok_or("the file's name is no text")?,
        file_type,
        kind,
        arguments: words.collect(),
        input,
        expected,
    })
}

/// The input and what is expected of it.
fn split_expected<'a>(text: &'a str, comment: &str) -> Result<(&'a str, Expected), String> {
    let mut start = 0;
    let mut marker = None;
    for line in text.split_inclusive('\n') {
        let after_comment = line.strip_prefix(comment).map(str::trim);
        if let Some(rest) = after_comment.and_then(|line| line.strip_prefix("expected:")) {
            marker = Some((start, start + line.len(), rest.trim()));
            break;
        }
        start += line.len();
    }
    let Some((input_end, expected_start, rest)) = marker else {
        return Ok((text, Expected::Missing));
    };
    let input = &text[..input_end];
    let lines = text[expected_start..].lines();
    match rest {
        "" => {
            let mut expected = String::new();
            for line in lines {
                let line = line.strip_prefix(comment).ok_or_else(|| {
                    format!(
                        "below 'expected:' every line starts with '{comment}', but not '{line}'"
                    )
                })?;
                expected.push_str(line.strip_prefix(' ').unwrap_or(line));
                expected.push('\n');
            }
            Ok((input, Expected::Text(expected)))
        }
        "the input" => {
            for line in lines {
                if !line.is_empty() {
                    return Err(format!(
                        "nothing may follow 'expected: the input', but '{line}' does"
                    ));
                }
            }
            Ok((input, Expected::TheInput))
        }
        other => Err(format!(
            "'expected: {other}' is neither 'expected:' nor 'expected: the input'"
        )),
    }
}

impl Case<'_> {
    /// The input without the comments and empty lines above it and the empty lines below it.
    pub fn body(&self) -> &str {
        let head: usize = self
            .input
            .split_inclusive('\n')
            .take_while(|line| line.trim().is_empty() || line.starts_with(self.file_type.comment))
            .map(str::len)
            .sum();
        self.input[head..].trim_end()
    }

    /// The text the test must print, or nothing when that is not written down yet.
    pub fn expected_text(&self) -> Option<String> {
        match &self.expected {
            Expected::Missing => None,
            Expected::TheInput => Some(format!("{}\n", self.body())),
            Expected::Text(text) => Some(text.clone()),
        }
    }

    /// The whole file, had the test been expected to print `output`.
    pub fn with_expected(&self, output: &str) -> String {
        let comment = self.file_type.comment;
        let mut text = format!("{}\n\n", self.input.trim_end());
        if output.trim_end() == self.body() && !self.body().is_empty() {
            text.push_str(&format!("{comment} expected: the input\n"));
            return text;
        }
        text.push_str(&format!("{comment} expected:\n"));
        for line in output.lines() {
            text.push_str(comment);
            if !line.is_empty() {
                text.push(' ');
            }
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ori(text: &str) -> Result<Case<'_>, String> {
        parse_case(Path::new("a.ori"), text)
    }

    #[test]
    fn a_file_is_directive_input_and_expected_text() {
        let case =
            ori("; test: phase X --knob A=1\n; why\nfunc\n\n; expected:\n; a\n;\n;  b\n").unwrap();
        assert_eq!(case.kind, "phase");
        assert_eq!(case.arguments, ["X", "--knob", "A=1"]);
        assert_eq!(case.input, "; test: phase X --knob A=1\n; why\nfunc\n\n");
        assert_eq!(case.body(), "func");
        assert_eq!(case.expected_text().unwrap(), "a\n\n b\n");
    }

    #[test]
    fn blessing_writes_a_file_that_then_passes() {
        let text = "// test: check\n.version 8.0\n";
        let path = Path::new("a.ptx");
        for output in ["", "one\n\n  two\n", ".version 8.0\n", "// expected:\n"] {
            let blessed = parse_case(path, text).unwrap().with_expected(output);
            let again = parse_case(path, &blessed).unwrap();
            assert_eq!(again.expected_text().unwrap(), output, "{blessed}");
            assert_eq!(again.with_expected(output), blessed);
            assert_eq!(again.body(), ".version 8.0");
        }
    }

    #[test]
    fn the_input_can_be_what_is_expected() {
        let case = ori("; test: print\n\nfunc @f\n\n; expected: the input\n").unwrap();
        assert_eq!(case.expected_text().unwrap(), "func @f\n");
    }

    #[test]
    fn a_malformed_file_is_an_error() {
        assert!(ori("func @f\n").unwrap_err().contains("first line"));
        assert!(ori("; test:\n").unwrap_err().contains("names no kind"));
        assert!(
            ori("; test: x\n; expected:\nfunc\n")
                .unwrap_err()
                .contains("starts with")
        );
        assert!(
            ori("; test: x\n; expected: maybe\n")
                .unwrap_err()
                .contains("maybe")
        );
        assert!(
            parse_case(Path::new("a.txt"), "")
                .unwrap_err()
                .contains("ori, merc, ptx, sass")
        );
    }
}
