//! Forward dataflow over finished code: what is in flight at each point, and which pairs of instructions meet in a register.
//!
//! The state before an instruction is a set of *records*: an earlier instruction's write or read of one register that has
//! not surely finished. A record knows when its instruction issued and, if that takes a variable time, which barriers cover
//! it: waiting for any of them means it has finished.
//!
//! - Time passes by the stall counts. Within a block it is counted from the block's start; a record that comes in from
//!   before has a negative time.
//! - A wait on a barrier ends the records it covers, if the barrier was set early enough to be seen. Nothing is done to the
//!   records at a wait: the time of the last wait on each barrier is kept, and a record is asked when it is met.
//! - Where instructions complete in order, or read their sources in order, a later one's barrier covers the earlier ones too.
//!   So each queue knows up to which time its instructions are known to have finished. This holds for guarded instructions
//!   too: ptxas lets `@!P1 POPC` cover an unguarded FLO, so what is predicated off still takes its turn in the queue.
//! - Warpgroup operations are counted in groups; a wait for all but the last `n` groups ends the records of the others.
//! - An unguarded write of a register hides what was written before from later readers. Two instructions with opposite guards
//!   on the same value of a predicate never run in the same lane.
//! - Where paths join, a register has the records of both; of two records of one access the shorter time and the barriers
//!   common to both remain. All of this only ever shrinks, so the iteration ends.
//!
//! Every dependence found is handed to an observer: to one that learns the smallest distances, or to one that judges.
//! The cost is a constant for each register an instruction touches, and one pass over what is in flight for each block.

mod access;
mod meet;
mod put;
mod state;

use crate::facts::{Distances, Facts};
use crate::program::Program;
use access::{Record, join};
use meet::Walk;
use orias_machine::timing::{Place, ResultGroup, UseGroup};
use orias_machine::{Machine, PerMachine};
use orias_sass::Register;
use state::State;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::OnceLock;

pub use crate::facts::UnknownTiming;

/// How a later instruction depends on an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hazard {
    /// It reads what the earlier one writes.
    ReadAfterWrite,
    /// It writes what the earlier one reads.
    WriteAfterRead,
    /// It writes what the earlier one writes.
    WriteAfterWrite,
    /// It is a call or a return, and the earlier one has not finished.
    Leaves,
    /// It counts the operations that are pending on a barrier, and the earlier one, which is among them, may finish out of order.
    Counted,
    /// It is held back by a barrier between threads, which has not settled yet.
    Barrier,
}

/// What a dependence needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// So many cycles between the two.
    Cycles(u16),
    /// A wait on one of these barriers (a bit each; none if no barrier covers it).
    Wait(u8),
    /// A wait for the group of warpgroup operations.
    Group,
}

/// One dependence through one register, as the flow sees it when the later instruction issues.
#[derive(Clone, Copy, Debug)]
pub struct Dependence {
    /// Index of the earlier instruction.
    pub earlier: usize,
    /// Index of the later instruction.
    pub later: usize,
    /// The register.
    pub register: Register,
    /// Which kind.
    pub hazard: Hazard,
    /// The operand of the earlier instruction.
    pub earlier_place: Place,
    /// The operand of the later instruction.
    pub later_place: Place,
    /// What the earlier instruction wrote, if its latency is fixed.
    pub written: Option<ResultGroup>,
    /// How the later instruction reads it, if it does; of a register that is overwritten, how the earlier one reads it.
    pub used: Option<UseGroup>,
    /// What the later instruction writes, if it does with a fixed latency.
    pub overwritten: Option<ResultGroup>,
    /// Cycles that have passed at least since the earlier instruction issued.
    pub cycles: u16,
    /// What is needed.
    pub need: Need,
    /// Whether it is there.
    pub met: bool,
    /// Whether a barrier that covers it was waited for, but before it could be seen.
    pub waited_too_early: bool,
}
/// The distances of a chip, worked out once.
fn distances(machine: &Machine) -> &'static Distances {
    static KNOWN: PerMachine<OnceLock<Distances>> =
        PerMachine::new([const { OnceLock::new() }; PerMachine::<OnceLock<Distances>>::COUNT]);
    KNOWN.of(machine).get_or_init(|| Distances::of(machine))
}

/// Runs the flow over a program to its fixed point, then hands every dependence to `observe`.
pub fn observe(program: &Program, observe: impl FnMut(Dependence)) -> Result<(), UnknownTiming> {
    observe_facts(program, &Facts::new(program)?, observe);
    Ok(())
}

/// [`observe`], where what is known of each instruction is at hand.
pub(crate) fn observe_facts(program: &Program, facts: &Facts, mut observe: impl FnMut(Dependence)) {
    let walk = Walk {
        program,
        facts,
        distances: distances(program.machine),
    };
    let mut entries: Vec<Option<Vec<Record>>> = vec![None; program.blocks.len()];
    let mut state = State::new(program.machine);
    let mut out = Vec::new();
    // Blocks in address order, again and again, visiting only those whose state changed. What nothing leads to is entered from
    // outside, with nothing in flight: first where functions start, then what is left (loops that nothing reaches).
    let mut reached = vec![false; program.blocks.len()];
    for block in &program.blocks {
        for next in block.successors.iter().chain(&block.resumes) {
            reached[*next] = true;
        }
    }
    let starts = |block: usize| block == 0 || program.blocks[block].entry || !reached[block];
    let all = 0..program.blocks.len();
    let roots = all.clone().filter(|block| starts(*block)).chain(all);
    let mut pending: BinaryHeap<Reverse<usize>> = BinaryHeap::new();
    let mut queued = vec![false; program.blocks.len()];
    for root in roots {
        if entries[root].is_some() {
            continue;
        }
        entries[root] = Some(Vec::new());
        pending.push(Reverse(root));
        while let Some(Reverse(block)) = pending.pop() {
            queued[block] = false;
            let Some(records) = &entries[block] else {
                continue;
            };
            state.enter(records);
            walk.block(block, &mut state, &mut |_| {});
            state.leave(&mut out);
            let bounds = &program.blocks[block];
            if bounds.drains {
                // That nothing is in flight is the observer's to check. What no barrier covers can never be waited for: it
                // stays, and whoever uses it will be found.
                out.retain(|record| record.kind.over().is_some() || record.covers == 0);
            }
            let nothing = Vec::new();
            let next = bounds.successors.iter().map(|next| (*next, &out));
            let resumed = bounds.resumes.iter().map(|next| (*next, &nothing));
            for (next, records) in next.chain(resumed) {
                let changed = match &mut entries[next] {
                    Some(known) => join(known, records),
                    slot @ None => {
                        *slot = Some(records.clone());
                        true
                    }
                };
                if changed && !queued[next] {
                    queued[next] = true;
                    pending.push(Reverse(next));
                }
            }
        }
    }
    for (block, records) in entries.iter().enumerate() {
        if let Some(records) = records {
            state.enter(records);
            walk.block(block, &mut state, &mut observe);
        }
    }
}
