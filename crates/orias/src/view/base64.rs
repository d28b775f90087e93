//! Bytes as the letters of RFC 4648, for texts that must hold them.

use std::fmt::Write as _;

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes as letters, with `=` at the end where RFC 4648 wants it.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * at) & 63) as usize];
            // Writing to a string cannot fail.
            let _ = text.write_char(if at <= chunk.len() {
                char::from(letter)
            } else {
                '='
            });
        }
    }
    text
}

/// The bytes of letters; none if they are not such a text.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let last = text.len().saturating_sub(4);
    for (at, four) in text.chunks(4).enumerate() {
        let padding = four.iter().rev().take_while(|it| **it == b'=').count();
        if padding > 2 || padding > 0 && at * 4 != last {
            return None;
        }
        let mut word = 0u32;
        for &letter in &four[..4 - padding] {
            let value = match letter {
                b'A'..=b'Z' => letter - b'A',
                b'a'..=b'z' => letter - b'a' + 26,
                b'0'..=b'9' => letter - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            word = word << 6 | u32::from(value);
        }
        word <<= 6 * padding;
        bytes.extend_from_slice(&word.to_be_bytes()[1..4 - padding]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_decodes_to_itself() {
        for length in 0..20u8 {
            let bytes: Vec<u8> = (0..length).map(|at| at.wrapping_mul(97) ^ 0xa5).collect();
            assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }
        assert_eq!(encode(b"Orias"), "T3JpYXM=");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["A", "A===", "AA=A", "AA==AAAA", "A!AA", "====", "\u{e9}AA"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
