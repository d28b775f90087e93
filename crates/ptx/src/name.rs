//! Names, interned: each distinct spelling gets a small number, and the text stays in the source.

use rustc_hash::FxHashMap;

/// A distinct spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(pub(crate) u32);

impl Name {
    /// The number, dense from 0.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The spellings of a module.
///
/// Most names are registers', used over and over, and short. A name of up to `SHORT` bytes is a number by itself, so that it is found
/// in a table of numbers without looking at its text again; longer ones are in a table of texts.
#[derive(Debug, Default)]
pub struct Names<'a> {
    texts: Vec<&'a [u8]>,
    /// Numbers of short names, and the names; a power of two of places at least twice as many as there are names. Zero is no name.
    short: Vec<(u64, Name)>,
    short_count: usize,
    long: FxHashMap<&'a [u8], Name>,
}

/// How many bytes a number has room for beside the length.
const SHORT: usize = 7;

/// The bytes of a short name and their count as a number; zero for none.
#[inline]
fn packed(text: &[u8]) -> Option<u64> {
    let length = text.len();
    let bytes = match *text {
        [] => 0,
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c] => u64::from(u32::from_le_bytes([a, b, c, 0])),
        [a, b, c, d, ..] if length <= SHORT => {
            // The first four and the last four, which may be the same in part.
            let tail = [
                text[length - 4],
                text[length - 3],
                text[length - 2],
                text[length - 1],
            ];
            let head = u64::from(u32::from_le_bytes([a, b, c, d]));
            head | u64::from(u32::from_le_bytes(tail)) << (8 * (length - 4))
        }
        _ => return None,
    };
    Some(bytes | (length as u64) << 56)
}

/// Where a number is looked for first in a table of `places` places.
#[inline]
fn first_place(number: u64, places: usize) -> usize {
    // Fibonacci hashing: 2^64 divided by the golden ratio spreads small numbers over all bits.
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize & (places - 1)
}

impl<'a> Names<'a> {
    /// The name with that spelling.
    #[inline]
    pub fn intern(&mut self, text: &'a [u8]) -> Name {
        let Some(number) = packed(text).filter(|&number| number != 0) else {
            return self.intern_long(text);
        };
        if 2 * self.short_count >= self.short.len() {
            self.grow();
        }
        let mask = self.short.len() - 1;
        let mut at = first_place(number, self.short.len());
        loop {
            let (known, name) = self.short[at];
            if known == number {
                return name;
            }
            if known == 0 {
                let name = Name(self.texts.len() as u32);
                self.texts.push(text);
                self.short[at] = (number, name);
                self.short_count += 1;
                return name;
            }
            at = (at + 1) & mask;
        }
    }

    fn intern_long(&mut self, text: &'a [u8]) -> Name {
        if let Some(&name) = self.long.get(text) {
            return name;
        }
        let name = Name(self.texts.len() as u32);
        self.texts.push(text);
        self.long.insert(text, name);
        name
    }

    #[cold]
    fn grow(&mut self) {
        let places = (2 * self.short.len()).max(64);
        let old = std::mem::replace(&mut self.short, vec![(0, Name(0)); places]);
        for (number, name) in old.into_iter().filter(|&(number, _)| number != 0) {
            let mut at = first_place(number, places);
            while self.short[at].0 != 0 {
                at = (at + 1) & (places - 1);
            }
            self.short[at] = (number, name);
        }
    }

    /// The name with that spelling, if it occurs.
    pub fn find(&self, text: &[u8]) -> Option<Name> {
        let Some(number) = packed(text).filter(|&number| number != 0) else {
            return self.long.get(text).copied();
        };
        let mut at = first_place(number, self.short.len().max(1));
        loop {
            match *self.short.get(at)? {
                (0, _) => return None,
                (known, name) if known == number => return Some(name),
                _ => at = (at + 1) & (self.short.len() - 1),
            }
        }
    }

    /// The spelling.
    pub fn bytes(&self, name: Name) -> &'a [u8] {
        self.texts[name.index()]
    }

    /// The spelling as text; names hold ASCII only.
    pub fn text(&self, name: Name) -> &'a str {
        std::str::from_utf8(self.bytes(name)).unwrap_or_default()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_spelling_has_one_name_whatever_its_length() {
        let long = "x".repeat(40);
        let texts: Vec<String> = (0..300)
            .flat_map(|number| {
                [
                    format!("%r{number}"),
                    format!("{number}"),
                    format!("%rd{number}_"),
                ]
            })
            .chain((0..=40).map(|length| long[..length].to_owned()))
            .chain(["a\0", "a", "a\0\0", "\0"].map(str::to_owned))
            .collect();
        let mut names = Names::default();
        let first: Vec<Name> = texts
            .iter()
            .map(|text| names.intern(text.as_bytes()))
            .collect();
        assert_eq!(names.len(), texts.len());
        for (text, name) in texts.iter().zip(first) {
            assert_eq!(names.find(text.as_bytes()), Some(name));
            assert_eq!(names.bytes(name), text.as_bytes());
        }
        assert_eq!(
            (names.find(b"%r300"), names.find(b"nothing like it")),
            (None, None)
        );
    }
}
