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
//! [`emit`] and [`lift`] are each other's inverse: code that was lifted and not changed comes back byte for byte.

mod emit;
mod lift;

pub use emit::{Code, EmitError, IndirectTargets, Patch, Relocation, emit};
pub use lift::{LiftError, LiftErrorKind, Source, lift};

/// Bytes of an instruction.
pub const WORD: usize = 16;

/// Code is filled with NOPs to a multiple of this many bytes, and then with as many bytes of NOPs again: that is how ptxas ends
/// every function, whatever its length, so that the instruction fetch finds words it can decode behind the last branch.
pub const ALIGNMENT: usize = 128;
