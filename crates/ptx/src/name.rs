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
#[derive(Debug, Default)]
pub struct Names<'a> {
    texts: Vec<&'a [u8]>,
    index: FxHashMap<&'a [u8], Name>,
}

impl<'a> Names<'a> {
    /// The name with that spelling.
    #[inline]
    pub fn intern(&mut self, text: &'a [u8]) -> Name {
        if let Some(&name) = self.index.get(text) {
            return name;
        }
        let name = Name(self.texts.len() as u32);
        self.texts.push(text);
        self.index.insert(text, name);
        name
    }

    /// The name with that spelling, if it occurs.
    pub fn find(&self, text: &[u8]) -> Option<Name> {
        self.index.get(text).copied()
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
