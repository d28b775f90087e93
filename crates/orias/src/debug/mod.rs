//! What debuggers are told: where source registers lie, how frames are found, and the DWARF that comes with the PTX.
//!
//! - `sections`: DWARF, with the addresses that are known now.
//! - `registers`: which registers and stack slots hold the registers of the PTX, instruction by instruction.
//! - `frames`: sizes of frames and where registers of callers lie.
//! - `flow`: what both are found by.

mod flow;
mod frames;
mod registers;
mod sections;

pub(crate) use frames::rules;
pub(crate) use registers::RegisterTables;
pub(crate) use sections::{Sections, Surroundings};

use orias_mercury::WORD;
use orias_sass::{self as sass, Instruction, Target};

/// The instructions of finished code. None where a word is no instruction, which the encoder does not make.
fn decoded(bytes: &[u8], count: usize, target: Target) -> Vec<Option<Instruction>> {
    let words = bytes.chunks_exact(WORD).take(count);
    words
        .map(|word| {
            let word = <[u8; WORD]>::try_from(word).ok()?;
            sass::decode(u128::from_le_bytes(word), target).ok()
        })
        .collect()
}
