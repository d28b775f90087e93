//! The last mile, Ori to bytes: convert, encode and decode again, expand, resolve hazards, emit.
//!
//! **For:** turning scheduled Ori on physical registers into words that are proved equal to what was meant, and finished
//! SASS back into Ori.
//!
//! **May know:** `ori`, `sass`, `machine`.
//!
//! **Must never know:** `codegen`. What it needs from there (the one control-word pass) is handed to it by the pipeline
//! table.
//!
//! | module | phase |
//! | --- | --- |
//! | `stream`, `text` | the form all of them work on, and its text |
//! | `convert` | MercConverter (141) |
//! | `cache` | MercEncodeAndDecode (117) |
//! | `expand` | MercExpandInstructions (118) |
//! | `wars` | MercGenerateWARs1 (119) and 2 (121) |
//! | `emit` | MercGenerateSassUCode (122) |
//! | `lift` | the way back |
//!
//! MercGenerateOpex (120) is `codegen`'s: it is the control-word pass again. [`emit()`] and [`lift()`] are each other's inverse:
//! code that was lifted and not changed comes back byte for byte.

mod convert;
mod emit;
mod error;
mod expand;
mod lift;
pub mod stream;
mod text;
pub mod wars;
mod words;

pub use convert::{convert, reorganize};
pub use emit::{Code, IndirectTargets, Patch, Placed, Relocation, emit, generate};
pub use error::EmitError;
pub use expand::{ExpansionClass, class_of, expand};
pub use lift::{LiftError, LiftErrorKind, TextSection, lift};
pub use stream::Stream;
pub use text::StreamError;
pub use words::encode_and_decode;

/// Bytes of an instruction.
pub const WORD: usize = 16;

/// Code is filled with NOPs to a multiple of this many bytes, and then with as many bytes of NOPs again: that is how ptxas ends
/// every function, whatever its length, so that the instruction fetch finds words it can decode behind the last branch.
pub const ALIGNMENT: usize = 128;
