//! The cubin container: the ELF file that NVIDIA's driver loads.
//!
//! **For:** a model of the file (functions, symbols, `.nv.info` attributes, constant banks, data, relocations, notes), its
//! reader and its writer.
//!
//! **May know:** ELF and NVIDIA's sections and attributes.
//!
//! **Must never know:** what the bytes of a text section mean. It depends on no other room.

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

pub mod attribute;
pub mod build;
mod bytes;
mod edit;
pub mod elf;
mod error;
mod frame;
mod functions;
mod json;
mod layout;
pub mod line;
mod model;
pub mod note;
pub mod omit;
mod print;
mod read;
mod strings;
mod write;

pub use error::{Error, ErrorKind, Result};
pub use functions::FunctionView;
pub use json::to_json;
pub use layout::derive_segments;
pub use model::{
    Body, Call, Cubin, Extent, Flags, Header, InfoMeaning, Layout, Name, Placement, Prototype,
    Relocation, Section, Segment, Symbol, SymbolPlace, SymbolSpace,
};
pub use print::{PrintOptions, print};
pub use strings::StringTable;
pub use write::WriteError;
