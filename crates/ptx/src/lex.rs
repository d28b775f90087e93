//! Tokens of PTX text.
//!
//! The lexer walks the bytes once and hands out one token at a time: a kind and the range of bytes it covers. Nothing is
//! copied; numbers are decoded when the parser asks for them. Comments and white space are skipped. Bytes that belong to
//! no token become [`TokenKind::Unknown`], so that the parser can say where they are and go on.

use crate::diagnostic::Span;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A name: `foo`, `%r1`, `$L_2`, `_`.
    Word,
    /// A dot and a name: a directive, type or modifier.
    Dotted,
    /// An integer.
    Integer,
    /// A floating point number in decimal, or in hexadecimal after `0f` or `0d`.
    Float,
    /// Text between double quotes.
    String,
    /// Two characters that belong together: `<<`, `>=`, `&&` …
    Operator([u8; 2]),
    /// Any other single character that PTX uses.
    Punctuation(u8),
    /// A byte that PTX does not use.
    Unknown,
    /// A string or comment that does not end.
    Unterminated,
    /// The end of the source.
    End,
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// Where it starts.
    pub start: u32,
    /// Where it ends.
    pub end: u32,
}

impl Token {
    /// The bytes it covers.
    pub const fn span(self) -> Span {
        Span::new(self.start, self.end)
    }

    /// Whether it is that character.
    pub const fn is(self, byte: u8) -> bool {
        matches!(self.kind, TokenKind::Punctuation(it) if it == byte)
    }
}

const BLANK: u8 = 1;
/// May start a name.
const START: u8 = 2;
/// May go on in a name.
const WORD: u8 = 4;
const DIGIT: u8 = 8;

const CLASS: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        table[at] = match at as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => BLANK,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => START | WORD,
            b'0'..=b'9' => DIGIT | WORD,
            _ => 0,
        };
        at += 1;
    }
    table
};

const fn is_word(byte: u8) -> bool {
    CLASS[byte as usize] & WORD != 0
}

/// Walks over a source.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    source: &'a [u8],
    at: usize,
}

impl<'a> Lexer<'a> {
    /// The longest source that positions can name.
    pub const MAX_SOURCE: usize = u32::MAX as usize - 1;

    /// Starts at the beginning of `source`, which must not be longer than [`Lexer::MAX_SOURCE`].
    pub fn new(source: &'a [u8]) -> Lexer<'a> {
        Lexer { source, at: 0 }
    }

    /// The byte after the last token, blanks included; 0 at the end.
    pub fn next_byte(&self) -> u8 {
        self.source.get(self.at).copied().unwrap_or(0)
    }

    /// Whether the next token is this sign.
    pub fn peek_is(&self, sign: u8) -> bool {
        self.clone().next_token().is(sign)
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.source.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Skips blanks and comments. Returns where a comment starts that does not end.
    fn skip(&mut self) -> Option<usize> {
        loop {
            while self.at < self.source.len() && CLASS[self.source[self.at] as usize] & BLANK != 0 {
                self.at += 1;
            }
            if self.byte(0) != b'/' {
                return None;
            }
            match self.byte(1) {
                b'/' => {
                    let rest = &self.source[self.at..];
                    self.at += rest
                        .iter()
                        .position(|&byte| byte == b'\n')
                        .unwrap_or(rest.len());
                }
                b'*' => {
                    let start = self.at;
                    let rest = &self.source[self.at + 2..];
                    match rest.windows(2).position(|pair| pair == b"*/") {
                        Some(length) => self.at += length + 4,
                        None => {
                            self.at = self.source.len();
                            return Some(start);
                        }
                    }
                }
                _ => return None,
            }
        }
    }

    /// The next token.
    #[inline]
    pub fn next_token(&mut self) -> Token {
        if let Some(start) = self.skip() {
            return self.token(TokenKind::Unterminated, start);
        }
        let start = self.at;
        let Some(&first) = self.source.get(start) else {
            return self.token(TokenKind::End, start);
        };
        let kind = match first {
            b'.' if is_word(self.byte(1)) => {
                self.at += 1;
                self.dotted_tail();
                TokenKind::Dotted
            }
            b'%' if is_word(self.byte(1)) => {
                self.at += 1;
                self.word_tail();
                TokenKind::Word
            }
            b'0'..=b'9' => self.number(),
            b'"' => self.string(),
            _ if CLASS[first as usize] & START != 0 => {
                self.word_tail();
                TokenKind::Word
            }
            _ => self.punctuation(first),
        };
        self.token(kind, start)
    }

    fn token(&self, kind: TokenKind, start: usize) -> Token {
        Token {
            kind,
            start: start as u32,
            end: self.at as u32,
        }
    }

    fn word_tail(&mut self) {
        while self.at < self.source.len() && is_word(self.source[self.at]) {
            self.at += 1;
        }
    }

    /// The rest of a dotted word, with the `::` of names such as `.shared::cta` in it.
    fn dotted_tail(&mut self) {
        loop {
            self.word_tail();
            if self.byte(0) == b':' && self.byte(1) == b':' && is_word(self.byte(2)) {
                self.at += 2;
            } else {
                return;
            }
        }
    }

    /// Goes to the end of the dotted words that follow the last token without a blank, and returns it: the end of an
    /// opcode.
    #[inline]
    pub fn opcode_end(&mut self) -> u32 {
        while self.byte(0) == b'.' && is_word(self.byte(1)) {
            self.at += 1;
            self.dotted_tail();
        }
        self.at as u32
    }

    fn number(&mut self) -> TokenKind {
        if self.byte(0) == b'0' {
            match self.byte(1) {
                b'f' | b'F' if self.hex_digits(2) == 8 => {
                    self.at += 10;
                    return TokenKind::Float;
                }
                b'd' | b'D' if self.hex_digits(2) == 16 => {
                    self.at += 18;
                    return TokenKind::Float;
                }
                b'x' | b'X' => {
                    self.word_tail();
                    return TokenKind::Integer;
                }
                _ => {}
            }
        }
        self.digits();
        let mut kind = TokenKind::Integer;
        let after_dot = CLASS[self.byte(1) as usize];
        if self.byte(0) == b'.' && (after_dot & START == 0 || matches!(self.byte(1), b'e' | b'E')) {
            kind = TokenKind::Float;
            self.at += 1;
            self.digits();
        }
        if self.exponent() {
            kind = TokenKind::Float;
        }
        if kind == TokenKind::Integer {
            // What follows the digits directly belongs to the number, right or wrong: `10U`, `0b11`, `12ab`.
            self.word_tail();
        }
        kind
    }

    /// Reads the token at `start`, a point and a digit, as a number: `.5`, `.5e-3`.
    pub fn fraction(&mut self, start: u32) -> Token {
        self.at = start as usize + 1;
        self.digits();
        self.exponent();
        self.token(TokenKind::Float, start as usize)
    }

    /// Reads the numbers from `start` on that are at most 255, in decimal, and followed by a comma at once. If there are several, they go to `bytes`, the
    /// next token is the one behind the last comma, and its end is returned; otherwise nothing changes.
    pub fn small_numbers(&mut self, start: u32, bytes: &mut Vec<u8>) -> Option<u32> {
        let first = bytes.len();
        let (mut at, mut end) = (start as usize, start as usize);
        while let Some((number, length)) = small_number(&self.source[at..]) {
            bytes.push(number);
            end = at + length;
            at = end;
            while let Some(&byte) = self.source.get(at)
                && CLASS[byte as usize] & BLANK != 0
            {
                at += 1;
            }
        }
        if bytes.len() < first + 2 {
            bytes.truncate(first);
            return None;
        }
        self.at = end;
        Some(end as u32)
    }

    fn digits(&mut self) {
        while self.byte(0).is_ascii_digit() {
            self.at += 1;
        }
    }

    /// Reads an exponent, if one stands here.
    fn exponent(&mut self) -> bool {
        let sign = usize::from(matches!(self.byte(1), b'+' | b'-'));
        let there = matches!(self.byte(0), b'e' | b'E') && self.byte(1 + sign).is_ascii_digit();
        if there {
            self.at += 1 + sign;
            self.digits();
        }
        there
    }

    fn hex_digits(&self, ahead: usize) -> usize {
        let mut count = 0;
        while self.byte(ahead + count).is_ascii_hexdigit() && count < 17 {
            count += 1;
        }
        count
    }

    fn string(&mut self) -> TokenKind {
        self.at += 1;
        while let Some(&byte) = self.source.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => return TokenKind::String,
                b'\\' if self.at < self.source.len() => self.at += 1,
                _ => {}
            }
        }
        TokenKind::Unterminated
    }

    fn punctuation(&mut self, first: u8) -> TokenKind {
        self.at += 1;
        let second = self.byte(0);
        let double = matches!(
            (first, second),
            (b'<', b'<')
                | (b'>', b'>')
                | (b'<', b'=')
                | (b'>', b'=')
                | (b'=', b'=')
                | (b'!', b'=')
                | (b'&', b'&')
                | (b'|', b'|')
        );
        if double {
            self.at += 1;
            return TokenKind::Operator([first, second]);
        }
        match first {
            b',' | b';' | b':' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'<' | b'>' | b'='
            | b'+' | b'-' | b'*' | b'/' | b'%' | b'!' | b'~' | b'&' | b'|' | b'^' | b'?' | b'@'
            | b'.' => TokenKind::Punctuation(first),
            _ => TokenKind::Unknown,
        }
    }
}

/// A number of at most 255 in decimal with a comma behind it, and the length of both.
#[inline]
fn small_number(text: &[u8]) -> Option<(u8, usize)> {
    let digit = |byte: u8| byte.is_ascii_digit().then_some(u16::from(byte & 0xf));
    match *text {
        [ones, b',', ..] => Some((digit(ones)? as u8, 2)),
        [b'1'..=b'9', ones, b',', ..] => {
            Some(((u16::from(text[0] & 0xf) * 10 + digit(ones)?) as u8, 3))
        }
        [b'1' | b'2', tens, ones, b',', ..] => {
            let number = u16::from(text[0] & 0xf) * 100 + digit(tens)? * 10 + digit(ones)?;
            Some((u8::try_from(number).ok()?, 4))
        }
        _ => None,
    }
}

/// An integer as written: its value, and whether it must be unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integer {
    /// The 64 bits.
    pub value: u64,
    /// Written with `U`, or too large for a signed number.
    pub unsigned: bool,
}

/// Reads the text of an integer token. `None` where it is not one, or does not fit 64 bits.
pub fn integer(text: &[u8]) -> Option<Integer> {
    let (digits, marked) = match text.strip_suffix(b"U") {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let (digits, radix) = match digits {
        [b'0', b'x' | b'X', rest @ ..] => (rest, 16),
        [b'0', b'b' | b'B', rest @ ..] => (rest, 2),
        [b'0', rest @ ..] if !rest.is_empty() => (rest, 8),
        _ => (digits, 10),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for &byte in digits {
        let digit = char::from(byte).to_digit(radix)?;
        value = value
            .checked_mul(u64::from(radix))?
            .checked_add(u64::from(digit))?;
    }
    Some(Integer {
        value,
        unsigned: marked || value > i64::MAX as u64,
    })
}

/// A floating point number as written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Float {
    /// The bits of a single, written `0f…`.
    Single(u32),
    /// The bits of a double, written in decimal or `0d…`.
    Double(u64),
}

/// Reads the text of a floating point token.
pub fn float(text: &[u8]) -> Option<Float> {
    let text = std::str::from_utf8(text).ok()?;
    match text.as_bytes() {
        [b'0', b'f' | b'F', ..] => u32::from_str_radix(&text[2..], 16).ok().map(Float::Single),
        [b'0', b'd' | b'D', ..] => u64::from_str_radix(&text[2..], 16).ok().map(Float::Double),
        _ => text
            .parse::<f64>()
            .ok()
            .map(|value| Float::Double(value.to_bits())),
    }
}

/// Whether a number that is written in decimal is too large or too small for a normal double.
pub fn is_out_of_range(text: &[u8], value: f64) -> bool {
    if matches!(text, [b'0', b'f' | b'F' | b'd' | b'D', ..]) {
        return false;
    }
    let mut digits = text.iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
    value.is_infinite() || !value.is_normal() && digits.any(|byte| (b'1'..=b'9').contains(byte))
}
