//! `.section`: data for debuggers.

use crate::diagnostic::Span;
use crate::name::Name;

/// `.section NAME { … }`: bytes, labels among them, and places whose numbers are known to whoever lays out code and data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// All of it, as it stands in the source.
    pub span: Span,
    /// Its name, with its dot.
    pub name: Span,
    /// The bytes; zeros where something is referred to.
    pub bytes: Vec<u8>,
    /// Labels and where they stand.
    pub labels: Vec<(Name, u32)>,
    /// What is filled in, in order.
    pub references: Vec<SectionReference>,
}

/// A number in a section that names something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionReference {
    /// Where it goes, in bytes.
    pub offset: u32,
    /// Its size in bytes, 4 or 8.
    pub size: u8,
    /// What it names: a label of code or of a section, a variable, a parameter, a function; with a dot, a section.
    pub name: Name,
    /// The label whose place is subtracted, or a number that is added.
    pub and: SectionTerm,
    /// Where the name stands.
    pub span: Span,
}

/// What stands behind a name in a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionTerm {
    /// `+ NUMBER`, zero where nothing does.
    Plus(u64),
    /// `- LABEL`
    Minus(Name),
}
