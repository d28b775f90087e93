//! String tables.
//!
//! ptxas writes each name whole, in the order in which it made them, and shares no suffixes. It also leaves names behind that
//! nothing refers to any more (`.symtab_shndx`, a `.rel.…` for each `.rela.…`, zeroes where a name was erased), so the bytes of a
//! table are part of the model and new names are added at the end.

use rustc_hash::FxHashMap;

use crate::error::{Error, ErrorKind, Result};

/// The bytes of a string table: names, each ended by a zero byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StringTable {
    bytes: Vec<u8>,
}

impl Default for StringTable {
    /// A table that holds the empty name.
    fn default() -> Self {
        Self { bytes: vec![0] }
    }
}

impl StringTable {
    /// A table with these bytes.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// The table's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The names in the table, in order, with their offsets; empty ones left out.
    pub fn names(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let mut at = 0;
        self.bytes.split(|byte| *byte == 0).filter_map(move |name| {
            let start = at;
            at += name.len() + 1;
            (!name.is_empty()).then_some((start as u32, name))
        })
    }

    /// The name at `offset`. `base` is the table's offset in the file, for the error.
    pub(crate) fn get(&self, offset: u32, base: u64) -> Result<&str> {
        let bad = |problem| {
            Error::at(
                base.saturating_add(u64::from(offset)),
                ErrorKind::BadName {
                    at: u64::from(offset),
                    problem,
                },
            )
        };
        let rest = self
            .bytes
            .get(offset as usize..)
            .ok_or_else(|| bad("lies outside it"))?;
        let end = rest
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(|| bad("has no end"))?;
        std::str::from_utf8(&rest[..end]).map_err(|_| bad("is not UTF-8"))
    }
}

/// Finds names in a table, and adds those that are missing.
///
/// A name is found where it first stands as a whole; the empty name is at 0. [`crate::Name::offset`] exists for tables in which
/// that is not the place the original file meant.
pub(crate) struct Interner {
    bytes: Vec<u8>,
    places: FxHashMap<Vec<u8>, u32>,
}

impl Interner {
    pub(crate) fn new(table: &StringTable) -> Self {
        let mut places = FxHashMap::default();
        for (offset, name) in table.names() {
            places.entry(name.to_vec()).or_insert(offset);
        }
        Self {
            bytes: table.bytes.clone(),
            places,
        }
    }

    /// Where `name` stands, if it does.
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        if name.is_empty() {
            return (self.bytes.first() == Some(&0)).then_some(0);
        }
        self.places.get(name.as_bytes()).copied()
    }

    /// Where `name` stands, after adding it if need be.
    pub(crate) fn intern(&mut self, name: &str) -> u32 {
        if let Some(offset) = self.find(name) {
            return offset;
        }
        // A table that is empty or does not end a name gets the zero byte it lacks.
        if self.bytes.last().is_some_and(|byte| *byte != 0) {
            self.bytes.push(0);
        }
        let offset = self.bytes.len() as u32;
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.places.insert(name.as_bytes().to_vec(), offset);
        offset
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_where_it_first_stands_whole_and_added_once() {
        let table = StringTable::from_bytes(b"\0.text.k\0k\0\0\0k\0".to_vec());
        let mut interner = Interner::new(&table);
        assert_eq!(interner.find("k"), Some(9));
        assert_eq!(interner.find("text.k"), None, "no sharing of suffixes");
        assert_eq!(interner.intern(""), 0);
        assert_eq!(interner.intern("new"), 15);
        assert_eq!(interner.intern("new"), 15);
        assert_eq!(interner.into_bytes(), b"\0.text.k\0k\0\0\0k\0new\0");
    }

    #[test]
    fn names_outside_or_without_end_are_errors() {
        let table = StringTable::from_bytes(b"\0abc".to_vec());
        assert_eq!(
            table.get(9, 0x40).unwrap_err().to_string(),
            "file offset 0x49: the name at 0x9 of the string table lies outside it"
        );
        assert_eq!(
            table.get(1, 0x40).unwrap_err().to_string(),
            "file offset 0x41: the name at 0x1 of the string table has no end"
        );
    }
}
