//! Look-ahead into successors: what an event meets that outlives its block.
//!
//! It stays on its barrier until somebody waits for it in a block behind. If that block sets the same barrier before, the wait is for both:
//! at the end of a loop, a copy whose sources are overwritten early in the next iteration would let that iteration wait for its first load.
//! So the blocks behind are looked at, as far as their barriers have been chosen: always so at the end of a loop, whose start comes
//! first.

use super::barriers::{BarrierRequest, CYCLES_PER_INSTRUCTION, Place};
use super::demand::{Demand, NEVER};
use super::events::LiveEvent;
use super::facts::{Code, EventKind};
use super::walk::Plan;

/// So many instructions of a block are looked at.
const LOOKED_AT: usize = 128;

/// What the blocks behind one do with barriers, as far as that has been chosen.
#[derive(Clone, Debug, Default)]
pub(super) struct LookAhead {
    /// Whether it has been looked up for the block that is being walked over.
    pub(super) known: bool,
    sets: Vec<Set>,
    /// By block behind: how many of its instructions come before the one that waits for the event that wants a barrier.
    away: Vec<i32>,
    /// Room: who is waited for, and when that is there.
    waited: Vec<(i32, i32)>,
}

/// An instruction of a block behind that sets a barrier.
#[derive(Clone, Copy, Debug)]
struct Set {
    barrier: u8,
    /// Which of the blocks behind it is in.
    path: usize,
    /// Instructions of its block in front of it, and in front of the one that waits for it.
    at: i32,
    waiter: i32,
    /// Cycles from the start of its block until it issues, and from then until it is done.
    issues: i32,
    takes: i32,
}

impl LookAhead {
    /// Looks at the blocks behind one.
    pub(super) fn find(&mut self, code: &Code, demand: &Demand, plan: &Plan, block: usize) {
        self.known = true;
        self.sets.clear();
        for (path, &next) in code.blocks[block].successors.iter().enumerate() {
            self.waited.clear();
            let range = code.blocks[next].range.clone();
            let mut now = 0;
            for (at, index) in (0..).zip(range.take(LOOKED_AT)) {
                let due = self.waited.iter().filter(|(waiter, _)| *waiter == at);
                now = due.fold(now, |now, (_, done)| now.max(*done));
                let fact = &code.facts[index];
                let sets = [
                    (plan.write_barrier[index], EventKind::Written, fact.typical),
                    (plan.read_barrier[index], EventKind::Released, fact.release),
                ];
                for (barrier, kind, takes) in sets {
                    let Some(barrier) = barrier else { continue };
                    let waiter = match demand.of(index, kind) {
                        NEVER => i32::MAX,
                        distance => at + i32::from(distance),
                    };
                    self.waited.push((waiter, now + takes));
                    self.sets.push(Set {
                        barrier,
                        path,
                        at,
                        waiter,
                        issues: now,
                        takes,
                    });
                }
                now += CYCLES_PER_INSTRUCTION;
            }
        }
    }

    /// An event of the instruction at `index` of a block wants a barrier: finds who waits for it in the blocks behind.
    pub(super) fn seek(
        &mut self,
        code: &Code,
        demand: &Demand,
        block: usize,
        event: (usize, EventKind),
    ) {
        let paths = code.blocks[block].successors.iter();
        self.away.clear();
        self.away
            .extend(paths.map(|&next| i32::from(demand.behind(code, event.0, event.1, next))));
    }

    /// What it costs if an event that outlives its block meets these on `barrier`; others that outlive it may be waited for before.
    pub(super) fn cost(&self, request: BarrierRequest, live: &[LiveEvent], barrier: u8) -> i32 {
        let Place::Outlives { end, behind } = request.place else {
            return 0;
        };
        let mut cost = 0;
        let met = |set: &&Set| set.barrier == barrier && set.at < self.away[set.path];
        for set in self.sets.iter().filter(met) {
            let away = self.away[set.path];
            // Whoever comes behind a wait comes when that is over.
            let waited = |until: i32| {
                let before = live.iter().filter(|event| event.alive);
                let before =
                    before.filter(|event| (behind..=behind + until).contains(&event.waiter));
                before.map(|event| event.done).max().unwrap_or(0)
            };
            let done = waited(set.at).max(end + set.issues) + set.takes;
            if set.waiter >= away {
                let demand = waited(away).max(end + away * CYCLES_PER_INSTRUCTION);
                cost = cost.max(done - demand.max(request.done));
            } else {
                let demand = end + set.waiter * CYCLES_PER_INSTRUCTION;
                cost = cost.max(request.done - demand.max(done));
            }
        }
        cost
    }
}
