//! One walk over one block: when each instruction issues, and what it waits for.
//!
//! Time is counted in cycles from the start of the block. For each instruction in order:
//!
//! 1. The earliest time it may issue is the one before plus that one's least stall, and not before its unit is free.
//! 2. Its *needs* are collected from the places it touches: results of fixed latency that must be there (a time), and events that
//!    must have happened (a set of barriers to wait for, each of which must have been set long enough ago to be seen).
//! 3. The instruction before it gets the stall that is missing. A stall is at most 15; what is left over goes to the
//!    instructions before, as far back as the one that is waited for. What even they cannot take becomes a filler or, where no
//!    instruction can be inserted, the one that is waited for gets a stall of 0: it lets nothing follow until it has finished.
//! 4. Waiting ends the events that the barriers cover. Then the instruction's own results and events are put in flight, and its
//!    barriers cover earlier events of the queues it is in.
//!
//! Behind the last instruction the needs of every instruction that may come next are looked at in the same way, so that a block
//! can rely on its first instruction being able to issue at once.
//!
//! The cost per instruction is the number of places it touches plus, if it sets a barrier, the number of events in flight, which
//! the number of registers bounds.
//!
//! | module | concern |
//! | --- | --- |
//! | `boundary` | what is in flight at the start and at the end |
//! | `needs` | what an instruction waits for |
//! | `stalls` | how those before it let it wait |
//! | `issue` | what it puts in flight, and the barriers it sets |

mod boundary;
mod issue;
mod needs;
mod stalls;

use super::barriers::Barriers;
use super::demand::Demand;
use super::events::LiveEvent;
use super::facts::{Code, PLACES};
use super::flight::{Boundary, EventId};
use super::latencies::FORGET_AFTER;
use super::spared::Spared;
use super::{Insertions, ScoreboardError};
use crate::clock::Units;
use needs::Needs;
use orias_machine::issue::Unit;
use orias_machine::timing::ResultGroup;
use smallvec::SmallVec;

/// Before anything that matters.
const LONG_AGO: i32 = -FORGET_AFTER;

/// What the pass decides, by instruction.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) stall: Vec<u8>,
    pub(super) wait: Vec<u8>,
    pub(super) write_barrier: Vec<Option<u8>>,
    pub(super) read_barrier: Vec<Option<u8>>,
    /// Cycles that no stall can express, behind instructions.
    pub(super) fillers: Vec<u16>,
    /// Instructions whose results are waited for by a stall of 0, in code where no filler can be.
    pub(super) drains: Vec<bool>,
}

impl Plan {
    pub(super) fn new(count: usize) -> Plan {
        Plan {
            stall: vec![1; count],
            wait: vec![0; count],
            write_barrier: vec![None; count],
            read_barrier: vec![None; count],
            fillers: vec![0; count],
            drains: vec![false; count],
        }
    }
}

/// Whether barriers are being chosen or are settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Choose,
    Settled,
}

/// What is in flight for one place.
#[derive(Clone, Debug, Default)]
struct InFlight {
    /// When no result holds anybody back any more, at the latest.
    until: i32,
    results: SmallVec<[(ResultGroup, i32); 2]>,
    written: SmallVec<[EventId; 2]>,
    read: SmallVec<[EventId; 2]>,
}

/// A set of places.
#[derive(Clone, Copy, Debug, Default)]
struct PlaceSet([u64; PLACES.div_ceil(64)]);

impl PlaceSet {
    fn insert(&mut self, place: u16) {
        self.0[usize::from(place) / 64] |= 1 << (place % 64);
    }

    /// The places, in ascending order.
    fn iter(self) -> impl Iterator<Item = usize> {
        (0..self.0.len()).flat_map(move |word| {
            let mut bits = self.0[word];
            std::iter::from_fn(move || {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits.wrapping_sub(1);
                (bit < 64).then_some(word * 64 + bit)
            })
        })
    }
}

/// The state of a walk; made once and used for all blocks.
pub(super) struct Walk<'a> {
    code: &'a Code,
    demand: &'a Demand,
    spared: &'a Spared,
    mode: Mode,
    places: Vec<InFlight>,
    /// Places and readers that are not as they are at the start of a function: all that a block begins and ends with.
    touched: PlaceSet,
    events: Vec<LiveEvent>,
    /// Index of each event among `events`, plus one; 0 if it is not in flight.
    event_slots: Vec<u32>,
    barriers: Barriers,
    units: Units,
    /// The last fixed-latency reader of each place, of a unit that takes its time to read: when it issued, and its unit.
    readers: Vec<(i32, Unit)>,
    /// Places that have one.
    slowly_read: PlaceSet,
    issued: Vec<i32>,
    block: usize,
    start: usize,
    end: usize,
    needed: Vec<EventId>,
    /// By event in flight: whether it is needed already.
    marked: Vec<bool>,
    /// Whether fillers can be put where stalls are not long enough.
    may_fill: bool,
    /// An instruction that must drain, as the last attempt found.
    drain: Option<usize>,
    /// When the last barrier between threads has settled.
    settled: i32,
    /// Cycles spent waiting for barriers since the start of the block, as a rule; what is in flight has come that much closer. Counted
    /// while barriers are chosen.
    lag: i32,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        code: &'a Code,
        demand: &'a Demand,
        spared: &'a Spared,
        mode: Mode,
        insertions: Insertions,
    ) -> Walk<'a> {
        Walk {
            code,
            demand,
            spared,
            mode,
            places: (0..PLACES).map(|_| InFlight::default()).collect(),
            touched: PlaceSet::default(),
            events: Vec::new(),
            event_slots: vec![0; 2 * code.facts.len()],
            barriers: Barriers::default(),
            units: Units::default(),
            readers: vec![(LONG_AGO, Unit::Control); PLACES],
            slowly_read: PlaceSet::default(),
            issued: Vec::new(),
            block: 0,
            start: 0,
            end: 0,
            needed: Vec::new(),
            marked: Vec::new(),
            may_fill: insertions == Insertions::Allowed,
            drain: None,
            settled: 0,
            lag: 0,
        }
    }

    /// Takes what is in flight at the start of a block to its end, `behind`, and decides about the instructions between.
    pub(super) fn run(
        &mut self,
        block: usize,
        before: &Boundary,
        plan: &mut Plan,
        behind: &mut Boundary,
    ) -> Result<(), ScoreboardError> {
        let code = self.code;
        let range = code.blocks[block].range.clone();
        if range.is_empty() {
            behind.clone_from(before);
            return Ok(());
        }
        // Each attempt finds at least one instruction that must drain, or succeeds.
        loop {
            (self.block, self.start, self.end) = (block, range.start, range.end);
            self.barriers.ahead.known = false;
            self.enter(before, plan);
            self.drain = None;
            let end = self.attempt(block, plan)?;
            match self.drain {
                Some(index) if !plan.drains[index] => {
                    plan.drains[index] = true;
                    self.forget_events();
                }
                _ => {
                    self.leave(end, behind);
                    return Ok(());
                }
            }
        }
    }

    /// Walks over the block once; gives the time at which the next one starts.
    fn attempt(&mut self, block: usize, plan: &mut Plan) -> Result<i32, ScoreboardError> {
        let code = self.code;
        let range = code.blocks[block].range.clone();
        for index in range.clone() {
            plan.fillers[index] = 0;
            self.step(index, plan)?;
            if self.drain.is_some() {
                return Ok(0);
            }
        }
        let last = range.end - 1;
        let fact = &code.facts[last];
        let issued = self.issued[last - self.start];
        let mut end = issued + i32::from(fact.issue.least_stall);
        plan.stall[last] = fact.issue.least_stall;
        for &head in &code.blocks[block].heads {
            let needs = self.needs(head)?;
            if needs.time > end {
                end = self.delay(range.end, needs, plan);
            }
        }
        // Where paths meet, a wait may go to another barrier than this path alone would ask for: all that were set are visible.
        let visible = self.barriers.set_at.iter().max();
        let visible = visible.map_or(0, |at| {
            at + i32::from(code.machine.limits.barrier_set_to_wait)
        });
        // What follows may overwrite what is about to be read.
        let reads = self.slowly_read.iter().map(|place| self.readers[place]);
        let read = reads.map(|(at, unit)| at + i32::from(code.machine.read_to_write(unit)));
        let time = visible.max(read.max().unwrap_or(0)).max(self.settled);
        if time > end {
            let needs = Needs {
                time,
                since: issued,
                wait: 0,
            };
            end = self.delay(range.end, needs, plan);
        }
        Ok(end)
    }

    fn step(&mut self, index: usize, plan: &mut Plan) -> Result<(), ScoreboardError> {
        let fact = &self.code.facts[index];
        let needs = self.needs(index)?;
        let earliest = match self.issued.last() {
            Some(&before) => {
                let least = i32::from(self.code.facts[index - 1].issue.least_stall);
                let free = self.units.free_at(fact.issue.unit) as i32;
                let time = (before + least).max(free);
                let cap = before + i32::from(self.code.machine.limits.stall_max);
                let time = time.min(cap);
                plan.stall[index - 1] = (time - before) as u8;
                time
            }
            None => 0,
        };
        let mut time = earliest;
        if needs.time > earliest && index > self.start {
            time = self.delay(index, needs, plan);
        } else if needs.time > earliest && self.mode == Mode::Settled {
            return Err(ScoreboardError::LateStart { inst: fact.inst });
        }
        plan.wait[index] = needs.wait;
        self.finish(needs.wait, time);
        self.issued.push(time);
        self.issue(index, time, plan);
        Ok(())
    }
}
