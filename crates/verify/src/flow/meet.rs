//! The walk over a block: which earlier accesses each instruction meets.

use super::access::{FAR, Kind, Record};
use super::state::State;
use super::{Dependence, Hazard, Need};
use crate::facts::{Distances, Fact, Facts, Guarded, Read, THREADS, Wait, Write, register};
use crate::program::Program;
use orias_machine::timing::{Arrival, Completion, Place};

/// Takes states through the blocks of one program.
pub(super) struct Walk<'a> {
    pub(super) program: &'a Program,
    pub(super) facts: &'a Facts,
    pub(super) distances: &'static Distances,
}

impl Walk<'_> {
    /// Takes a state through one block.
    pub(super) fn block(
        &self,
        block: usize,
        state: &mut State,
        observe: &mut impl FnMut(Dependence),
    ) {
        let bounds = &self.program.blocks[block];
        for index in bounds.start..bounds.end {
            let fact = &self.facts.facts[index];
            state.wait(fact.waits);
            match fact.wait {
                Wait::None => {}
                Wait::Barriers(barriers) => state.wait(barriers),
                Wait::Count {
                    barrier, barriers, ..
                } => {
                    state.wait(barriers);
                    self.count(index, barrier, state, observe);
                }
                Wait::Groups(pending) => {
                    state.groups_finished =
                        state.groups_finished.max(state.groups - i32::from(pending));
                }
            }
            if fact.settled {
                for record in &state.registers[usize::from(THREADS)] {
                    if !exclusive(record, fact.guard, &state.versions) {
                        let needed = Some(i32::from(self.program.machine.limits.barrier_settles));
                        observe(dependence(index, record, state, Hazard::Barrier, needed));
                    }
                }
            }
            for read in self.facts.reads(fact) {
                self.meet_read(index, fact, read, state, observe);
            }
            for write in self.facts.writes(fact) {
                self.meet_write(index, fact, write, state, observe);
            }
            if bounds.drains && index + 1 == bounds.end {
                self.leave(index, state, observe);
            }
            self.issue(index, fact, state);
            state.now += fact.stall;
        }
    }

    /// Reports what an instruction's read depends on.
    pub(super) fn meet_read(
        &self,
        index: usize,
        fact: &Fact,
        read: &Read,
        state: &State,
        observe: &mut impl FnMut(Dependence),
    ) {
        for record in &state.registers[usize::from(read.register)] {
            if !record.kind.writes() || exclusive(record, fact.guard, &state.versions) {
                continue;
            }
            // A warpgroup operation goes on with the sums of the one before.
            if record.kind == Kind::GroupWritten && fact.completion == Completion::Group {
                continue;
            }
            let written = match record.kind {
                Kind::Fixed(group) => Some(group),
                _ => None,
            };
            let needed = written.map(|group| self.distances.latency(group, read.group));
            observe(Dependence {
                used: Some(read.group),
                later_place: read.place,
                ..dependence(index, record, state, Hazard::ReadAfterWrite, needed)
            });
        }
    }

    /// Reports what an instruction's write depends on.
    pub(super) fn meet_write(
        &self,
        index: usize,
        fact: &Fact,
        write: &Write,
        state: &State,
        observe: &mut impl FnMut(Dependence),
    ) {
        let later = match write.arrival {
            Arrival::Fixed(group) => Some(group),
            _ => None,
        };
        for record in &state.registers[usize::from(write.register)] {
            if exclusive(record, fact.guard, &state.versions) {
                continue;
            }
            let (hazard, needed) = match record.kind {
                Kind::Fixed(group) => {
                    // Whatever takes a variable time takes longer than this.
                    let Some(later) = later else { continue };
                    let cycles = self.distances.overwrite(group, later);
                    (Hazard::WriteAfterWrite, Some(cycles))
                }
                Kind::Written(queue) if queue.is_some() && queue == fact.queue => continue,
                Kind::GroupWritten | Kind::GroupRead if fact.completion == Completion::Group => {
                    continue;
                }
                // What waits in the same queue cannot overtake.
                Kind::Read(queue) if queue.is_some() && queue == fact.read_queue => continue,
                Kind::Slow(used) => {
                    let Some(later) = later else { continue };
                    let cycles = self.distances.release(used, later);
                    (Hazard::WriteAfterRead, Some(cycles))
                }
                Kind::Settles => continue,
                Kind::Read(_) | Kind::GroupRead => (Hazard::WriteAfterRead, None),
                Kind::Written(_) | Kind::Released(_) | Kind::GroupWritten => {
                    (Hazard::WriteAfterWrite, None)
                }
            };
            observe(Dependence {
                overwritten: later,
                later_place: write.place,
                ..dependence(index, record, state, hazard, needed)
            });
        }
    }

    /// Reports what is still in flight where control leaves the function.
    pub(super) fn leave(&self, index: usize, state: &State, observe: &mut impl FnMut(Dependence)) {
        for register in &state.touched {
            for record in &state.registers[usize::from(*register)] {
                let timed = record.kind.over().is_some();
                if !timed && !state.is_finished(record) && state.covers(record).0 != 0 {
                    observe(dependence(index, record, state, Hazard::Leaves, None));
                }
            }
        }
    }

    /// Reports what is pending on a barrier whose operations are counted, but may finish out of order.
    pub(super) fn count(
        &self,
        index: usize,
        barrier: u8,
        state: &State,
        observe: &mut impl FnMut(Dependence),
    ) {
        for register in &state.touched {
            for record in &state.registers[usize::from(*register)] {
                let out_of_order = match record.kind {
                    Kind::Written(queue) | Kind::Read(queue) | Kind::Released(queue) => {
                        queue.is_none()
                    }
                    _ => false,
                };
                let pending = record.covers >> (barrier & 7) & 1 == 1;
                if out_of_order && pending && !state.is_finished(record) {
                    observe(dependence(index, record, state, Hazard::Counted, None));
                }
            }
        }
    }
}

/// Whether the later instruction runs only in lanes where the earlier one did not.
pub(super) fn exclusive(record: &Record, guard: Option<Guarded>, versions: &[u32; 16]) -> bool {
    match (record.guard, guard) {
        (Some(earlier), Some(later)) => {
            earlier.predicate == later.predicate
                && earlier.negated != later.negated
                && versions[usize::from(later.predicate & 15)] == record.version
        }
        _ => false,
    }
}

pub(super) fn dependence(
    later: usize,
    record: &Record,
    state: &State,
    hazard: Hazard,
    needed: Option<i32>,
) -> Dependence {
    let cycles = (state.now - record.time).min(FAR);
    let (need, met) = match (needed, record.kind) {
        (Some(needed), _) => (Need::Cycles(needed as u16), cycles >= needed),
        (None, Kind::GroupWritten | Kind::GroupRead) => (Need::Group, state.is_finished(record)),
        (None, _) => (
            Need::Wait(state.covers(record).0),
            state.is_finished(record),
        ),
    };
    Dependence {
        earlier: record.instruction as usize,
        later,
        register: register(record.register),
        hazard,
        earlier_place: record.place,
        later_place: Place::Implicit,
        written: match record.kind {
            Kind::Fixed(group) => Some(group),
            _ => None,
        },
        used: match record.kind {
            Kind::Slow(used) => Some(used),
            _ => None,
        },
        overwritten: None,
        cycles: cycles as u16,
        need,
        met,
        waited_too_early: !met && needed.is_none() && state.waited_for(record, 1),
    }
}
