//! The kinds of test: one row each.

use crate::case::Case;

/// A kind of test.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The word after `test:`.
    pub name: &'static str,
    /// The types of file it reads.
    pub extensions: &'static [&'static str],
    /// What it prints.
    pub about: &'static str,
    /// Runs it: what it prints, or why it cannot run. An error in the input is something to print.
    pub run: fn(&Case<'_>) -> Result<String, String>,
}

/// Every kind of test there is.
pub const KINDS: &[Kind] = &[];

/// Kinds that are planned, and what each waits for.
pub const MISSING_KINDS: &[(&str, &str)] = &[
    ("check", "the PTX checker"),
    ("print", "the text form of Ori"),
    ("verify", "the verifier of Ori"),
    ("phase", "the pipeline"),
    ("disasm", "the disassembler"),
    ("asm", "the assembler"),
    ("compile", "lowering from PTX to Ori"),
    ("run", "the emulator"),
];
