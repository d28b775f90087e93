//! Mutants of waits: one that awaits copies taken away, or all of a kind.
//!
//! Without any of its kind a copy is not awaited at all: the judge must say so. Without a single one that may be shown by nothing (which bytes a later
//! wait leaves out is in registers), so those are counted only.

use crate::awaited::{self, WaitKind};
use crate::program::Program;
use orias_sass::{EncodeError, Instruction, Op, Target};

/// Waits that are taken away together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// What they wait for.
    pub kind: WaitKind,
    /// Indices of the instructions.
    pub waits: Vec<usize>,
    /// Whether these are all of the kind.
    pub whole: bool,
}

/// Every removal: all waits of each kind that awaits something, and each by itself.
#[must_use]
pub fn removals(program: &Program) -> Vec<Removal> {
    let mut all = Vec::new();
    for (kind, waits) in awaited::waits(program) {
        for &wait in waits.iter().filter(|_| waits.len() > 1) {
            all.push(Removal {
                kind,
                waits: vec![wait],
                whole: false,
            });
        }
        all.push(Removal {
            kind,
            waits,
            whole: true,
        });
    }
    all
}

impl Removal {
    /// The program without them: nothing stands in their place, for as long.
    pub fn apply(&self, program: &Program, target: Target) -> Result<Program, EncodeError> {
        let mut changed = program.clone();
        for &wait in &self.waits {
            let control = program.instructions[wait].control;
            changed.instructions[wait] = Instruction::build(Op::NOP)
                .control(control)
                .finish(target)?;
        }
        Ok(changed)
    }

    /// Whether the judge reports it.
    #[must_use]
    pub fn is_reported(&self, changed: &Program) -> bool {
        !awaited::check(changed).is_empty()
    }
}
