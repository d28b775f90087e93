//! Mutation testing: finished code with one control field changed so that it asks for less. Mutants of where lanes meet are in [`convergence`],
//! those of waits for copies in [`waits`].
//!
//! They are how the judge is judged. A mutant that computes something else on the chip must be reported; one that is not
//! reported must be safe, and [`why_safe`] says why.

pub mod convergence;
pub mod waits;

use crate::flow::{self, Dependence, Hazard, Need, UnknownTiming};
use crate::program::{CONTROL_FIELD, Program};
use orias_machine::Machine;
use orias_sass::{Barrier, Control, Instruction, Operand, RegisterClass, WaitMask};
use std::fmt;

/// One change of a control field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Another stall.
    Stall(u8),
    /// Without the wait on a barrier.
    NoWait(Barrier),
    /// Another write barrier, or none.
    WriteBarrier(Option<Barrier>),
    /// Another read barrier, or none.
    ReadBarrier(Option<Barrier>),
    /// One more reuse flag.
    Reuse(u8),
}

impl Mutation {
    /// What kind of change it is.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Mutation::Stall(_) => "stall lowered",
            Mutation::NoWait(_) => "wait cleared",
            Mutation::WriteBarrier(None) => "write barrier dropped",
            Mutation::WriteBarrier(Some(_)) => "write barrier moved",
            Mutation::ReadBarrier(None) => "read barrier dropped",
            Mutation::ReadBarrier(Some(_)) => "read barrier moved",
            Mutation::Reuse(_) => "reuse flag misplaced",
        }
    }

    /// The control field after the change; `None` if there is none such.
    #[must_use]
    pub fn control(self, control: Control) -> Option<Control> {
        let mut changed = control;
        match self {
            Mutation::Stall(stall) => changed = control.with_stall(stall)?,
            Mutation::NoWait(barrier) => {
                changed.wait = WaitMask::from_bits(control.wait.bits() & !(1 << barrier.index()))?;
            }
            Mutation::WriteBarrier(barrier) => changed.write_barrier = barrier,
            Mutation::ReadBarrier(barrier) => changed.read_barrier = barrier,
            Mutation::Reuse(flag) => {
                changed = control.with_reuse(control.reuse() | 1 << flag)?;
                changed.yields = true;
            }
        }
        (changed != control && changed.check().is_ok()).then_some(changed)
    }

    /// The word after the change.
    #[must_use]
    pub fn apply(self, instruction: &Instruction, word: u128) -> Option<u128> {
        let control = self.control(instruction.control)?;
        Some((word & !CONTROL_FIELD) | control.to_bits())
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mutation::Stall(stall) => write!(f, "stall {stall}"),
            Mutation::NoWait(barrier) => write!(f, "no wait on {}", barrier.index()),
            Mutation::WriteBarrier(Some(barrier)) => write!(f, "write barrier {}", barrier.index()),
            Mutation::WriteBarrier(None) => f.write_str("no write barrier"),
            Mutation::ReadBarrier(Some(barrier)) => write!(f, "read barrier {}", barrier.index()),
            Mutation::ReadBarrier(None) => f.write_str("no read barrier"),
            Mutation::Reuse(flag) => write!(f, "reuse flag {flag}"),
        }
    }
}

/// Every mutation of an instruction.
#[must_use]
pub fn mutations(machine: &Machine, instruction: &Instruction) -> Vec<Mutation> {
    let control = instruction.control;
    let mut all = Vec::new();
    all.extend((1..control.stall()).map(Mutation::Stall));
    all.extend(control.wait.iter().map(Mutation::NoWait));
    let others = |known: Option<Barrier>| {
        let moved = (0..Barrier::COUNT).filter_map(Barrier::new).map(Some);
        let known = known.into_iter();
        known.flat_map(move |known| {
            moved
                .clone()
                .chain([None])
                .filter(move |b| *b != Some(known))
        })
    };
    all.extend(others(control.write_barrier).map(Mutation::WriteBarrier));
    all.extend(others(control.read_barrier).map(Mutation::ReadBarrier));
    if (1..=machine.limits.stall_max_yielding).contains(&control.stall()) {
        for (operand, place) in instruction.operands().iter().zip(instruction.form().places) {
            let general = matches!(operand, Operand::Register(operand)
                if operand.register.class == RegisterClass::R && !operand.register.is_constant());
            if general && place.reuse.exists() {
                all.push(Mutation::Reuse(place.reuse.0 - 122));
            }
        }
    }
    all.retain(|mutation| mutation.control(control).is_some());
    all
}

/// Why a mutant that the judge does not report is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Safe {
    /// No dependence reaches across the stall.
    NoDistance,
    /// Every distance is still long enough.
    Slack,
    /// Nothing that is used is pending on the barrier.
    NothingPending,
    /// Something before has waited already.
    WaitedBefore,
    /// Whoever uses it waits again.
    WaitedAgain,
    /// Nothing uses the result.
    Unused,
    /// Nothing overwrites the sources.
    NotOverwritten,
    /// A later operation of the same queue, or the other barrier, covers it.
    Carried,
    /// The barrier it was moved to is waited for as well.
    OtherBarrier,
    /// No changed register is read from the reuse cache.
    NoStaleReuse,
}

impl fmt::Display for Safe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Safe::NoDistance => "no dependence reaches across the stall",
            Safe::Slack => "every distance is still long enough",
            Safe::NothingPending => "nothing that is used is pending on the barrier",
            Safe::WaitedBefore => "something before has waited already",
            Safe::WaitedAgain => "whoever uses it waits again",
            Safe::Unused => "nothing uses the result",
            Safe::NotOverwritten => "nothing overwrites the sources",
            Safe::Carried => "a later operation of the queue, or the other barrier, covers it",
            Safe::OtherBarrier => "the barrier it was moved to is waited for as well",
            Safe::NoStaleReuse => "no changed register is read from the reuse cache",
        })
    }
}

/// Why a mutation of the instruction at `index` that nothing reports leaves the code safe. `program` is the original.
pub fn why_safe(
    program: &Program,
    index: usize,
    mutation: Mutation,
) -> Result<Safe, UnknownTiming> {
    let mut dependences: Vec<Dependence> = Vec::new();
    flow::observe(program, |dependence| dependences.push(dependence))?;
    let of_result = |d: &&Dependence| {
        d.earlier == index && matches!(d.need, Need::Wait(_)) && d.hazard != Hazard::WriteAfterRead
    };
    let of_sources = |d: &&Dependence| d.earlier == index && d.hazard == Hazard::WriteAfterRead;
    Ok(match mutation {
        Mutation::Stall(_) => {
            // Round a loop the later instruction may come first in the code.
            let across = dependences.iter().any(|d| {
                matches!(d.need, Need::Cycles(_))
                    && ((d.earlier <= index && index < d.later) || d.later <= d.earlier)
            });
            if across {
                Safe::Slack
            } else {
                Safe::NoDistance
            }
        }
        Mutation::NoWait(barrier) => {
            let covered = |d: &&Dependence| match d.need {
                Need::Wait(covers) => covers >> barrier.index() & 1 == 1,
                _ => false,
            };
            if !dependences.iter().any(|d| covered(&d)) {
                Safe::NothingPending
            } else if dependences.iter().any(|d| covered(&d) && d.later == index) {
                Safe::WaitedBefore
            } else {
                Safe::WaitedAgain
            }
        }
        Mutation::WriteBarrier(to) => match (dependences.iter().find(of_result), to) {
            (None, _) => Safe::Unused,
            (Some(_), None) => Safe::Carried,
            (Some(_), Some(_)) => Safe::OtherBarrier,
        },
        Mutation::ReadBarrier(to) => match (dependences.iter().find(of_sources), to) {
            (None, _) => Safe::NotOverwritten,
            (Some(_), None) => Safe::Carried,
            (Some(_), Some(_)) => Safe::OtherBarrier,
        },
        Mutation::Reuse(_) => Safe::NoStaleReuse,
    })
}
