//! Instructions as text, both ways.
//!
//! [`print_instruction`] writes what `nvdisasm -c` writes and [`parse_instruction`] reads it back; both walk the text items of the
//! operation's row. [`Listing`] is a whole program: labels, directives and instructions with their control fields.

mod float;
mod parse;
mod print;

pub use parse::{ParseError, ParsedInstruction, parse_instruction};
pub use print::{Printer, print_instruction};
