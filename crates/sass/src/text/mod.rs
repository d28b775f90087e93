//! Instructions as text, both ways.
//!
//! [`print_instruction`] writes what `nvdisasm -c` writes and [`parse_instruction`] reads it back; both walk the text items of the
//! operation's row. [`list`] lays out whole sections with labels, and [`assemble`] reads such listings.

mod assemble;
mod float;
mod listing;
mod operands;
mod parse;
mod print;

pub use assemble::{
    AssembleError, AssembledFunction, Assembly, DIRECTIVES, Directive, DirectiveRow, assemble,
};
pub use listing::{
    Binding, BranchTable, CodeRelocation, CodeSection, CodeSymbol, ListedSection, ListingStyle,
    RelocatedPart, list,
};
pub use parse::{ParseError, ParsedInstruction, parse_instruction};
pub use print::{Printer, print_instruction};
