//! A place in the text, and the tokens that can be read from there.

use super::parse::ParseError;

/// Reads bytes from the front; knows where it is only when asked.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    pub(super) fn peek_second(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at + 1).copied()
    }

    /// Skips blanks and comments, but stays on the line.
    #[inline]
    pub(super) fn skip_blanks(&mut self) {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b';' => {
                    while self.peek().is_some_and(|byte| byte != b'\n') {
                        self.at += 1;
                    }
                }
                _ => break,
            }
        }
    }

    /// Skips blanks, comments and line ends.
    #[inline]
    pub(super) fn skip_lines(&mut self) {
        self.skip_blanks();
        while self.peek() == Some(b'\n') {
            self.at += 1;
            self.skip_blanks();
        }
    }

    /// Whether nothing is left on the line.
    #[inline]
    pub(super) fn at_line_end(&mut self) -> bool {
        self.skip_blanks();
        matches!(self.peek(), None | Some(b'\n'))
    }

    /// Takes `byte` if it is next.
    #[inline]
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        if self.peek() == Some(byte) {
            self.at += 1;
            true
        } else {
            false
        }
    }

    /// Takes `byte`, or says what was expected.
    #[inline]
    pub(super) fn expect(&mut self, byte: u8) -> Result<(), ParseError> {
        if self.eat(byte) {
            Ok(())
        } else {
            Err(self.error(format!("expected `{}`", byte as char)))
        }
    }

    /// Takes `word` if the text goes on with it, whatever follows.
    #[inline]
    pub(super) fn eat_text(&mut self, word: &str) -> bool {
        self.skip_blanks();
        if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            true
        } else {
            false
        }
    }

    /// A run of letters, digits and what else `more` takes; empty if there is none.
    #[inline]
    fn run(&mut self, more: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        let bytes = self.text.as_bytes();
        while bytes
            .get(self.at)
            .is_some_and(|&byte| byte.is_ascii_alphanumeric() || more(byte))
        {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// A word of letters, digits, `_`, `$`.
    #[inline]
    pub(super) fn word(&mut self) -> &'a str {
        self.skip_blanks();
        self.run(|byte| matches!(byte, b'_' | b'$'))
    }

    /// An operation with its modifiers, or a register range: words joined by dots.
    #[inline]
    pub(super) fn dotted(&mut self) -> &'a str {
        self.skip_blanks();
        self.run(|byte| matches!(byte, b'_' | b'.' | b'=' | b'#' | b'?'))
    }

    /// A number without sign: decimal or `0x…`.
    pub(super) fn number(&mut self) -> Result<u64, ParseError> {
        self.skip_blanks();
        let start = self.at;
        let digits = self.run(|_| false);
        let parsed = match digits.as_bytes() {
            [b'0', b'x', hex @ ..] => read_digits(hex, 16),
            digits => read_digits(digits, 10),
        };
        parsed.ok_or_else(|| {
            let shown = if digits.is_empty() {
                "expected a number".to_owned()
            } else {
                format!("`{digits}` is not a number of 64 bits")
            };
            self.error_at(start, shown)
        })
    }

    /// A number of 32 bits without sign.
    pub(super) fn number32(&mut self) -> Result<u32, ParseError> {
        self.skip_blanks();
        let start = self.at;
        let number = self.number()?;
        u32::try_from(number)
            .map_err(|_| self.error_at(start, format!("{number} does not fit in 32 bits")))
    }

    /// The rest of the line after a quotation mark, up to its partner, with escapes undone.
    pub(super) fn quoted(&mut self) -> Result<String, ParseError> {
        let start = self.at;
        self.expect(b'"')?;
        let mut name = String::new();
        let mut chars = self.text[self.at..].char_indices();
        while let Some((offset, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += offset + 1;
                    return Ok(name);
                }
                '\n' => break,
                '\\' => match chars.next() {
                    Some((_, 'n')) => name.push('\n'),
                    Some((_, c @ ('\\' | '"'))) => name.push(c),
                    _ => {
                        return Err(
                            self.error_at(self.at + offset, "unknown escape in a quoted name")
                        );
                    }
                },
                other => name.push(other),
            }
        }
        Err(self.error_at(start, "the quotation mark has no partner"))
    }

    /// An error at the current place.
    #[cold]
    pub(super) fn error(&self, message: impl Into<String>) -> ParseError {
        self.error_at(self.at, message)
    }

    /// An error at another place.
    #[cold]
    pub(super) fn error_at(&self, at: usize, message: impl Into<String>) -> ParseError {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let line_start = before
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |newline| newline + 1);
        // Columns count characters: bytes that do not continue one.
        let column = before[line_start..]
            .iter()
            .filter(|&&byte| byte & 0xc0 != 0x80)
            .count();
        ParseError {
            line: 1 + before.iter().filter(|&&byte| byte == b'\n').count(),
            column: 1 + column,
            message: message.into(),
        }
    }

    pub(super) fn slice(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }
}

/// The number written in `digits`; `None` if there are none, if one is no digit, or if 64 bits do not hold it.
#[inline]
pub(super) fn read_digits(digits: &[u8], base: u8) -> Option<u64> {
    let mut number = 0u64;
    for &digit in digits {
        let value = (digit as char).to_digit(u32::from(base))?;
        number = number
            .checked_mul(u64::from(base))?
            .checked_add(u64::from(value))?;
    }
    (!digits.is_empty()).then_some(number)
}
