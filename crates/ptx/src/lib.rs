//! The PTX language: tokens, grammar tables, typed AST, checks and printer.
//!
//! **For:** reading whatever PTX real compilers write, explaining what is wrong with the rest, and printing it back.
//!
//! **May know:** PTX as NVIDIA's manual defines it: its syntax, types, versions and the targets on which a form is legal.
//!
//! **Must never know:** anything of a GPU's insides. No SASS, no registers of the machine, no latencies, no IR.

// No input may panic (CONTRIBUTING.md, Conventions).
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::panic,
        clippy::todo,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

pub mod ast;
pub mod check;
pub mod diagnostic;
pub mod fit;
pub mod grammar;
pub mod lex;
pub mod name;
pub mod opaque;
pub mod opcode;
mod parse;
pub mod print;
pub mod special;
pub mod target;
pub mod types;

pub use ast::Module;
pub use check::{Mode, Options, check};
pub use diagnostic::{Diagnostic, Diagnostics, Span};
pub use parse::{NEWEST_VERSION, parse};
pub use print::print;
