//! The front door: the library, the `orias` command, diagnostics and options.
//!
//! **For:** whoever wants PTX turned into a cubin, from Rust or from a shell, and whoever wants to look inside.
//!
//! **May know:** every room except the chores.
//!
//! **Must never know:** how any room does its work: it calls their public functions and reports what they say.

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

mod abi;
mod assemble;
mod check;
pub mod command_line;
mod compile;
mod container;
mod debug;
pub mod diagnostics;
mod disassemble;
mod limits;
mod lines;
mod modules;
pub mod options;
pub mod reschedule;
pub mod run;
mod shared_spills;
mod stack_size;
pub mod statistics;
pub mod target;
pub mod timeline;
mod tools_patch;
mod usage;
pub mod versions;
pub mod view;
mod warpgroup;

pub use assemble::assemble_cubin;
pub use check::check;
pub use compile::{Compiled, Source, compile, compile_all, compile_until};
pub use container::{chip_named, chip_of};
pub use diagnostics::{Diagnostic, Diagnostics, Kind, MessageFormat, Place, Severity};
pub use disassemble::{disassemble, disassemble_json, disassemble_words, target_of, words};
pub use options::Options;
pub use statistics::Statistics;
pub use target::Target;
pub use usage::Usage;
