//! What can be wrong with a file, and where.

use thiserror::Error;

/// Why a file is not a cubin this crate can read, with the place in the file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{kind}", self.place())]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The byte of the file it was found at.
    pub offset: u64,
    /// The section it lies in, by index and (where it could be read) name.
    pub section: Option<(usize, String)>,
}

impl Error {
    pub(crate) fn at(offset: u64, kind: ErrorKind) -> Self {
        Self {
            kind,
            offset,
            section: None,
        }
    }

    /// The same error, said to lie in a section.
    pub(crate) fn within(mut self, index: usize, name: &str) -> Self {
        self.section.get_or_insert((index, name.to_owned()));
        self
    }

    fn place(&self) -> String {
        match &self.section {
            Some((index, name)) if name.is_empty() => {
                format!("section {index}, file offset {:#x}: ", self.offset)
            }
            Some((index, name)) => {
                format!("section {index} ({name}), file offset {:#x}: ", self.offset)
            }
            None => format!("file offset {:#x}: ", self.offset),
        }
    }
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ErrorKind {
    /// The file does not start with the ELF signature.
    #[error("not an ELF file")]
    NotElf,
    /// A field has a value that no cubin has.
    #[error("{field} is {found:#x}, a cubin has {expected:#x}")]
    Unexpected {
        /// The field's name in the ELF specification.
        field: &'static str,
        /// Its value in the file.
        found: u64,
        /// The only value read here.
        expected: u64,
    },
    /// Something is cut off.
    #[error("{what} needs {needed} bytes, {left} are left")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// How long it is.
        needed: u64,
        /// How much there is.
        left: u64,
    },
    /// A section or table lies outside the file.
    #[error(
        "{what} at {start:#x} with {size:#x} bytes does not fit in a file of {file_size:#x} bytes"
    )]
    OutOfFile {
        /// What lies outside.
        what: &'static str,
        /// Where it is said to start.
        start: u64,
        /// How long it is said to be.
        size: u64,
        /// How long the file is.
        file_size: u64,
    },
    /// An index points at nothing.
    #[error("{what} {index} does not exist, there are {count}")]
    NoSuch {
        /// What kind of thing is meant.
        what: &'static str,
        /// The index.
        index: u64,
        /// How many there are.
        count: u64,
    },
    /// A table's size is no multiple of its entries' size.
    #[error("{what} of {size} bytes does not consist of entries of {entry} bytes")]
    PartialEntry {
        /// The table.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The size of an entry.
        entry: u64,
    },
    /// A name has no end, or is not text.
    #[error("the name at {at:#x} of the string table {problem}")]
    BadName {
        /// Offset in the string table.
        at: u64,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// An attribute has a format byte that is not one of the four.
    #[error("attribute {id:#04x} has format {format}, formats are 1 to 4")]
    BadFormat {
        /// The attribute.
        id: u8,
        /// Its format byte.
        format: u8,
    },
    /// An alignment is not a power of two.
    #[error("alignment {0:#x} is not a power of two")]
    BadAlignment(u64),
    /// The file is right but uses something this crate does not read yet.
    #[error("not supported: {0}")]
    Unsupported(&'static str),
}

/// The result of reading.
pub type Result<T> = std::result::Result<T, Error>;
