//! Options files: arguments separated by white space.
//!
//! Double quotes keep white space together and may open and close within an argument; a backslash takes the next
//! character as it is, inside quotes and outside. There are no comments, and single quotes mean themselves.

use std::fmt;

/// Why a text is no options file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionsFileError {
    /// A quote is never closed.
    OpenQuote,
    /// The text ends after a backslash.
    OpenEscape,
}

impl fmt::Display for OptionsFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OpenQuote => f.write_str("Stray '\"' character"),
            Self::OpenEscape => f.write_str("Stray '\\' character"),
        }
    }
}

impl std::error::Error for OptionsFileError {}

/// The arguments that `text` holds.
///
/// ```
/// let arguments = orias::command_line::split_options_file("-o \"my file\" -O3").unwrap();
/// assert_eq!(arguments, ["-o", "my file", "-O3"]);
/// ```
pub fn split_options_file(text: &str) -> Result<Vec<String>, OptionsFileError> {
    let mut arguments = Vec::new();
    let mut current: Option<String> = None;
    let mut quoted = false;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                let escaped = characters.next().ok_or(OptionsFileError::OpenEscape)?;
                current.get_or_insert_default().push(escaped);
            }
            '"' => {
                quoted = !quoted;
                current.get_or_insert_default();
            }
            space if space.is_ascii_whitespace() && !quoted => arguments.extend(current.take()),
            other => current.get_or_insert_default().push(other),
        }
    }
    if quoted {
        return Err(OptionsFileError::OpenQuote);
    }
    arguments.extend(current);
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_keep_white_space_together() {
        let split = |text| split_options_file(text).unwrap();
        assert_eq!(split("a.ptx\t-v\r\n"), ["a.ptx", "-v"]);
        assert_eq!(split("\"a b\"c.ptx"), ["a bc.ptx"]);
        assert_eq!(split("x\\ y.out"), ["x y.out"]);
        assert_eq!(split("\"a\\\\b\""), ["a\\b"]);
        assert_eq!(split("'a b'"), ["'a", "b'"]);
        assert_eq!(split("\"\""), [""]);
        assert_eq!(split(" \n"), [""; 0]);
    }

    #[test]
    fn an_unfinished_quote_or_escape_is_an_error() {
        assert_eq!(
            split_options_file("\"a.ptx"),
            Err(OptionsFileError::OpenQuote)
        );
        assert_eq!(
            split_options_file("a.ptx \\"),
            Err(OptionsFileError::OpenEscape)
        );
    }
}
