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

use super::barriers::{self, Barriers, LEFT, LONG, Wish};
use super::demand::{Demand, NEVER};
use super::events::{ELSEWHERE, LiveEvent, event_id, instruction, kind, mask};
use super::facts::{Arrives, Code, EventKind, Fact, PLACES, is_token};
use super::flight::{Boundary, EventId, EventRecord, Flight, ResultRecord, SETTLED};
use super::latencies::{FORGET_AFTER, cycles, overwritten_late, settles};
use super::spared::Spared;
use super::{Insertions, ScoreboardError};
use orias_machine::issue::{Unit, read_to_write};
use orias_machine::timing::{
    self, BARRIER_SET_TO_WAIT, BARRIER_SETTLES, Completion, ResultGroup, STALL_MAX, Table,
};
use smallvec::SmallVec;

/// Before anything that matters.
const LONG_AGO: i32 = -FORGET_AFTER;

/// Cycles that an instruction of the demand's distance is taken for.
const CYCLES_PER_INSTRUCTION: i32 = 2;

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

/// What an instruction needs before it may issue.
#[derive(Clone, Copy, Debug)]
struct Needs {
    /// The earliest time.
    time: i32,
    /// When the instruction issued that this is counted from.
    since: i32,
    /// Barriers to wait for.
    wait: u8,
}

impl Needs {
    fn at_least(&mut self, since: i32, cycles: i32) {
        if since + cycles > self.time {
            self.time = since + cycles;
            self.since = since;
        }
    }
}

/// What is in flight for one place.
#[derive(Clone, Debug, Default)]
struct InFlight {
    results: SmallVec<[(ResultGroup, i32); 2]>,
    written: SmallVec<[EventId; 2]>,
    read: SmallVec<[EventId; 2]>,
}

/// The state of a walk; made once and used for all blocks.
pub(super) struct Walk<'a> {
    code: &'a Code,
    demand: &'a Demand,
    spared: &'a Spared,
    mode: Mode,
    places: Vec<InFlight>,
    /// Places and readers that are not as they are at the start of a function: all that a block begins and ends with.
    touched: Vec<u16>,
    is_touched: Vec<bool>,
    events: Vec<LiveEvent>,
    /// Index of each event among `events`, plus one; 0 if it is not in flight.
    event_slots: Vec<u32>,
    barriers: Barriers,
    unit_free: [i32; Unit::COUNT],
    /// The last fixed-latency reader of each place: when it issued, and its unit.
    readers: Vec<(i32, Unit)>,
    issued: Vec<i32>,
    start: usize,
    end: usize,
    needed: Vec<EventId>,
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
            places: vec![InFlight::default(); PLACES],
            touched: Vec::new(),
            is_touched: vec![false; PLACES],
            events: Vec::new(),
            event_slots: vec![0; 2 * code.facts.len()],
            barriers: Barriers::default(),
            unit_free: [0; Unit::COUNT],
            readers: vec![(LONG_AGO, Unit::Control); PLACES],
            issued: Vec::new(),
            start: 0,
            end: 0,
            needed: Vec::new(),
            may_fill: insertions == Insertions::Allowed,
            drain: None,
            settled: 0,
            lag: 0,
        }
    }

    /// Takes what is in flight at the start of a block to its end, and decides about the instructions between.
    pub(super) fn run(
        &mut self,
        block: usize,
        before: &Boundary,
        plan: &mut Plan,
    ) -> Result<Boundary, ScoreboardError> {
        let code = self.code;
        let range = code.blocks[block].range.clone();
        if range.is_empty() {
            return Ok(before.clone());
        }
        // Each attempt finds at least one instruction that must drain, or succeeds.
        loop {
            (self.start, self.end) = (range.start, range.end);
            self.enter(before, plan);
            self.drain = None;
            let end = self.attempt(block, plan)?;
            match self.drain {
                Some(index) if !plan.drains[index] => {
                    plan.drains[index] = true;
                    self.forget_events();
                }
                _ => return Ok(self.leave(end)),
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
        let visible = visible.map_or(0, |at| at + i32::from(BARRIER_SET_TO_WAIT));
        // What follows may overwrite what is about to be read.
        let touched = self.touched.iter();
        let reads = touched.map(|place| &self.readers[usize::from(*place)]);
        let reads = reads.filter(|(_, unit)| read_to_write(*unit) > 1);
        let read = reads.map(|(at, unit)| at + i32::from(read_to_write(*unit)));
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

    /// Starts with what a boundary says.
    fn enter(&mut self, before: &Boundary, plan: &Plan) {
        self.issued.clear();
        self.settled = 0;
        self.lag = 0;
        self.events.clear();
        self.unit_free = [0; Unit::COUNT];
        for number in self.touched.drain(..).map(usize::from) {
            self.is_touched[number] = false;
            self.readers[number] = (LONG_AGO, Unit::Control);
            let place = &mut self.places[number];
            place.results.clear();
            place.written.clear();
            place.read.clear();
        }
        for record in &before.results {
            self.touch(record.place);
            let results = &mut self.places[usize::from(record.place)].results;
            results.push((record.group, -i32::from(record.age)));
        }
        for flight in &before.flights {
            self.touch(flight.place);
            let place = &mut self.places[usize::from(flight.place)];
            let list = if flight.reads {
                &mut place.read
            } else {
                &mut place.written
            };
            list.push(flight.event);
        }
        for record in &before.events {
            let own = match kind(record.id) {
                EventKind::Written => plan.write_barrier[instruction(record.id)],
                EventKind::Released => plan.read_barrier[instruction(record.id)],
            };
            // While barriers are being chosen, a record may come from the round before, which chose another one.
            let chosen = match (self.mode, kind(record.id)) {
                (Mode::Settled, _) => 0,
                (Mode::Choose, EventKind::Written) => mask(own),
                // The sources have been read when the results are there.
                (Mode::Choose, EventKind::Released) => {
                    mask(own) | mask(plan.write_barrier[instruction(record.id)])
                }
            };
            self.put_event(LiveEvent {
                id: record.id,
                alive: true,
                covers: record.covers | chosen,
                own,
                waiter: ELSEWHERE,
                demand: record.demand,
                done: record.done,
            });
        }
        for (at, age) in self.barriers.set_at.iter_mut().zip(before.set_ages) {
            *at = -i32::from(age);
        }
    }

    /// What is in flight when the next block starts at `end`.
    fn leave(&mut self, end: i32) -> Boundary {
        let mut boundary = Boundary::empty();
        for &number in &self.touched {
            let place = &self.places[usize::from(number)];
            for &(group, at) in &place.results {
                if end - at < FORGET_AFTER {
                    boundary.results.push(ResultRecord {
                        place: number,
                        group,
                        age: (end - at) as u16,
                    });
                }
            }
            for (list, reads) in [(&place.written, false), (&place.read, true)] {
                for &event in list {
                    if self.event_slots[event as usize] != 0 {
                        boundary.flights.push(Flight {
                            place: number,
                            reads,
                            event,
                        });
                    }
                }
            }
        }
        boundary
            .results
            .sort_unstable_by_key(|record| (record.place, record.group));
        boundary.flights.sort_unstable();
        boundary.flights.dedup();
        let mut known: Vec<EventId> = boundary.flights.iter().map(|flight| flight.event).collect();
        known.sort_unstable();
        known.dedup();
        for event in known {
            let live = &self.events[self.event_slots[event as usize] as usize - 1];
            boundary.events.push(EventRecord {
                id: event,
                covers: live.covers,
                demand: live.demand - end - self.lag,
                done: live.done - end - self.lag,
            });
        }
        for (age, at) in boundary.set_ages.iter_mut().zip(self.barriers.set_at) {
            *age = (end - at).clamp(0, i32::from(SETTLED)) as u16;
        }
        self.forget_events();
        boundary
    }

    fn touch(&mut self, place: u16) {
        if !std::mem::replace(&mut self.is_touched[usize::from(place)], true) {
            self.touched.push(place);
        }
    }

    fn forget_events(&mut self) {
        for event in self.events.drain(..) {
            self.event_slots[event.id as usize] = 0;
        }
    }

    fn step(&mut self, index: usize, plan: &mut Plan) -> Result<(), ScoreboardError> {
        let fact = &self.code.facts[index];
        let needs = self.needs(index)?;
        let earliest = match self.issued.last() {
            Some(&before) => {
                let least = i32::from(self.code.facts[index - 1].issue.least_stall);
                let free = self.unit_free[fact.issue.unit as usize];
                let time = (before + least).max(free);
                let cap = before + i32::from(STALL_MAX);
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

    /// Collects what the instruction at `index` needs.
    fn needs(&mut self, index: usize) -> Result<Needs, ScoreboardError> {
        let code = self.code;
        let fact = &code.facts[index];
        let mut needs = Needs {
            time: i32::MIN / 2,
            since: i32::MIN / 2,
            wait: 0,
        };
        self.needed.clear();
        if fact.alone {
            self.need_everything(fact, &mut needs);
        }
        for read in code.reads(index) {
            let place = &self.places[usize::from(read.place)];
            if let Some(used) = read.used {
                for &(group, at) in &place.results {
                    needs.at_least(at, cycles(group, used));
                }
            }
            self.needed.extend(&place.written);
            if read.takes_over {
                self.needed.extend(&place.read);
            }
        }
        for write in code.writes(index) {
            if is_token(write.place) {
                continue;
            }
            let (at, unit) = self.readers[usize::from(write.place)];
            if unit != fact.issue.unit && !fact.is_variable() {
                needs.at_least(at, i32::from(read_to_write(unit)));
            }
            let place = &self.places[usize::from(write.place)];
            for &(group, at) in &place.results {
                let distance = match write.arrives {
                    Arrives::Fixed(later) => {
                        i32::from(timing::overwrite(Table::Safe, group, later))
                    }
                    _ => overwritten_late(group),
                };
                needs.at_least(at, distance);
            }
            let written = place.written.iter().chain(&place.read);
            for &event in written {
                let earlier = &code.facts[instruction(event)];
                let reads = place.read.contains(&event);
                if !in_same_queue(earlier, fact, reads) {
                    self.needed.push(event);
                }
            }
        }
        self.wait_for_needed(index, &mut needs)?;
        Ok(needs)
    }

    /// Calls and the like: every event must have happened, every result must be there when control has passed.
    fn need_everything(&mut self, fact: &Fact, needs: &mut Needs) {
        let events = self.events.iter().filter(|event| event.alive);
        self.needed.extend(events.map(|event| event.id));
        for place in &self.places {
            for &(group, at) in &place.results {
                needs.at_least(at, settles(group) - i32::from(fact.issue.least_stall));
            }
        }
    }

    /// Chooses barriers that cover the needed events.
    fn wait_for_needed(&mut self, index: usize, needs: &mut Needs) -> Result<(), ScoreboardError> {
        let live = |event: EventId| match self.event_slots[event as usize] {
            0 => None,
            slot => Some(&self.events[slot as usize - 1]),
        };
        let mut choice = false;
        // Where there is no choice first: the others may be covered by then.
        for &event in &self.needed {
            match live(event).map(|event| event.covers) {
                Some(covers) if covers.count_ones() == 1 => needs.wait |= covers,
                // While barriers are being chosen, paths may still know an event by those of different rounds.
                Some(0) if self.mode == Mode::Settled => {
                    return Err(ScoreboardError::Uncovered {
                        earlier: self.code.facts[instruction(event)].inst,
                        later: self.code.facts[index].inst,
                    });
                }
                covers => choice |= covers.is_some(),
            }
        }
        if choice {
            let ends = self.barrier_ends();
            for event in self.needed.iter().filter_map(|&event| live(event)) {
                if event.covers & needs.wait == 0 {
                    needs.wait |= soonest(event, ends);
                }
            }
        }
        for barrier in 0..barriers::COUNT {
            if needs.wait >> barrier & 1 == 1 {
                let at = self.barriers.set_at[barrier];
                needs.at_least(at, i32::from(BARRIER_SET_TO_WAIT));
            }
        }
        Ok(())
    }

    /// When a wait for each barrier is likely to end, now at the soonest.
    fn barrier_ends(&self) -> [i32; barriers::COUNT] {
        let now = self.issued.last().map_or(0, |issued| issued + self.lag);
        let mut ends = [now; barriers::COUNT];
        if self.code.copies_own_zero {
            ends[0] = i32::MAX;
        }
        for event in self.events.iter().filter(|event| event.alive) {
            if let Some(barrier) = event.own {
                let end = &mut ends[usize::from(barrier)];
                *end = event.done.max(*end);
            }
        }
        ends
    }

    /// Ends the events that an instruction waits for which issues at `time` but for these `barriers`.
    fn finish(&mut self, barriers: u8, time: i32) {
        if barriers == 0 {
            return;
        }
        for event in self.events.iter_mut().filter(|event| event.alive) {
            if event.covers & barriers != 0 {
                if self.mode == Mode::Choose {
                    self.lag = self.lag.max(event.done - time);
                }
                event.alive = false;
                self.event_slots[event.id as usize] = 0;
            }
        }
        let dead = self.events.iter().filter(|event| !event.alive).count();
        if dead > 32 && 2 * dead > self.events.len() {
            self.events.retain(|event| event.alive);
            for (slot, event) in self.events.iter().enumerate() {
                self.event_slots[event.id as usize] = slot as u32 + 1;
            }
        }
    }

    /// Gives the instruction before `index` (the end of the block included) the stall that makes `needs` true, and the ones
    /// before it what it cannot take. Returns the time at which `index` issues then.
    fn delay(&mut self, index: usize, needs: Needs, plan: &mut Plan) -> i32 {
        let before = index - 1;
        let reached = self.issued[before - self.start] + i32::from(plan.stall[before]);
        let mut missing = needs.time - reached;
        let mut at = before;
        loop {
            if missing <= 0 {
                break;
            }
            let most = if self.code.facts[at].issue.drains || plan.drains[at] {
                1
            } else {
                i32::from(STALL_MAX)
            };
            let room = (most - i32::from(plan.stall[at])).clamp(0, missing);
            if room > 0 {
                plan.stall[at] += room as u8;
                self.shift(at + 1, before, room);
                missing -= room;
            }
            // Delaying what comes before the one that is waited for would delay that one, too.
            if at == self.start || self.issued[at - self.start] <= needs.since {
                break;
            }
            at -= 1;
        }
        if missing > 0 {
            let producer = self.issued.iter().position(|&time| time == needs.since);
            match producer {
                // What drains has finished before anything follows.
                Some(slot) if plan.drains[self.start + slot] => {}
                Some(slot) if !self.may_fill => self.drain = Some(self.start + slot),
                _ => plan.fillers[before] = missing as u16,
            }
        }
        needs.time
    }

    /// Moves the instructions from `first` to `last`, and what they put in flight, to a later time.
    fn shift(&mut self, first: usize, last: usize, by: i32) {
        for index in first..=last {
            let slot = index - self.start;
            let at = self.issued[slot];
            self.issued[slot] = at + by;
            for write in self.code.writes(index) {
                for result in &mut self.places[usize::from(write.place)].results {
                    if result.1 == at {
                        result.1 = at + by;
                    }
                }
            }
            for read in self.code.reads(index) {
                let reader = &mut self.readers[usize::from(read.place)];
                if reader.0 == at {
                    reader.0 = at + by;
                }
            }
            for set_at in &mut self.barriers.set_at {
                if *set_at == at {
                    *set_at = at + by;
                }
            }
        }
    }

    fn put_event(&mut self, event: LiveEvent) {
        let slot = &mut self.event_slots[event.id as usize];
        if *slot == 0 {
            self.events.push(event);
            *slot = self.events.len() as u32;
        } else {
            self.events[*slot as usize - 1] = event;
        }
    }

    /// Puts in flight what the instruction started at `time`.
    fn issue(&mut self, index: usize, time: i32, plan: &mut Plan) {
        let code = self.code;
        let fact = &code.facts[index];
        for &(unit, cycles) in fact.issue.keeps {
            let free = &mut self.unit_free[unit as usize];
            *free = (*free).max(time + i32::from(cycles));
        }
        if fact.settles {
            self.settled = time + i32::from(BARRIER_SETTLES);
        }
        if self.mode == Mode::Choose {
            self.choose_barriers(index, time, plan);
        }
        let written = mask(plan.write_barrier[index]);
        let released = mask(plan.read_barrier[index]);
        self.cover_earlier(fact, written, released);
        for (barrier, at) in self.barriers.set_at.iter_mut().enumerate() {
            if (written | released) >> barrier & 1 == 1 {
                *at = time;
            }
        }
        for kind in [EventKind::Written, EventKind::Released] {
            let demand = self.demand.of(index, kind);
            if !fact.is_variable() || demand == NEVER {
                continue;
            }
            let (covers, own, typical) = match kind {
                EventKind::Written => (written, plan.write_barrier[index], fact.typical),
                EventKind::Released => (released | written, plan.read_barrier[index], fact.release),
            };
            self.put_event(LiveEvent {
                id: event_id(index, kind),
                alive: true,
                covers,
                own,
                waiter: index as i32 + i32::from(demand),
                demand: time + self.lag + i32::from(demand) * CYCLES_PER_INSTRUCTION,
                done: time + self.lag + typical,
            });
        }
        if fact.completion == Completion::Fixed && !plan.drains[index] {
            for read in code.reads(index) {
                self.touch(read.place);
                let reader = &mut self.readers[usize::from(read.place)];
                // A reader that takes longer stays.
                let until = |&(at, unit): &(i32, Unit)| at + i32::from(read_to_write(unit));
                let new = (time, fact.issue.unit);
                if until(&new) >= until(reader) {
                    *reader = new;
                }
            }
        }
        self.put_reads(index);
        self.put_writes(index, time, plan.drains[index]);
    }

    /// A later instruction of a queue finishes, or reads its sources, after the earlier ones: its barriers cover them. What is
    /// predicated off takes its turn in the queue like any other.
    fn cover_earlier(&mut self, fact: &Fact, written: u8, released: u8) {
        if written | released == 0 {
            return;
        }
        for event in self.events.iter_mut().filter(|event| event.alive) {
            let earlier = &self.code.facts[instruction(event.id)];
            let completes = matches!(fact.completion, Completion::InOrder(_))
                && earlier.completion == fact.completion;
            if completes {
                event.covers |= written;
            }
            let reads = fact.memory_queue && earlier.memory_queue;
            if kind(event.id) == EventKind::Released && (completes || reads) {
                event.covers |= written | released;
            }
        }
    }

    fn put_reads(&mut self, index: usize) {
        let code = self.code;
        let fact = &code.facts[index];
        let event = event_id(index, EventKind::Released);
        if self.event_slots[event as usize] == 0 {
            return;
        }
        for &place in code.late(index) {
            self.touch(place);
            let slots = &self.event_slots;
            let list = &mut self.places[usize::from(place)].read;
            // What is read earlier in the same queue has been read when this has. Behind a guard the chip keeps to that, too, but where
            // such a path meets others the judge, who keeps earlier readers for writers under the opposite guard, finds only the
            // barriers that cover them on all paths: they stay here as well, each with all that covers it.
            list.retain(|earlier| {
                let superseded = fact.memory_queue
                    && !fact.guarded
                    && code.facts[instruction(*earlier)].memory_queue;
                slots[*earlier as usize] != 0 && !superseded && *earlier != event
            });
            list.push(event);
        }
    }

    fn put_writes(&mut self, index: usize, time: i32, drains: bool) {
        let code = self.code;
        let fact = &code.facts[index];
        for write in code.writes(index) {
            self.touch(write.place);
            let place = &mut self.places[usize::from(write.place)];
            let slots = &self.event_slots;
            if write.arrives == Arrives::Already {
                place.written.clear();
                continue;
            }
            if !is_token(write.place) && !fact.guarded {
                place.results.clear();
                place.written.clear();
            } else {
                place.written.retain(|event| slots[*event as usize] != 0);
                place.results.retain(|(_, at)| time - *at < FORGET_AFTER);
            }
            match write.arrives {
                // Nothing goes on before it is there.
                Arrives::Fixed(_) if drains => {}
                Arrives::Fixed(group) => {
                    match place.results.iter_mut().find(|known| known.0 == group) {
                        Some(known) => known.1 = time,
                        None => place.results.push((group, time)),
                    }
                }
                Arrives::Barrier(kind) => {
                    let event = event_id(index, kind);
                    if slots[event as usize] != 0 && !place.written.contains(&event) {
                        place.written.push(event);
                    }
                }
                Arrives::Elsewhere | Arrives::Already => {}
            }
        }
    }

    /// Gives the instruction the barriers its events need.
    fn choose_barriers(&mut self, index: usize, time: i32, plan: &mut Plan) {
        let fact = &self.code.facts[index];
        plan.write_barrier[index] = None;
        plan.read_barrier[index] = None;
        if fact.counts_copies {
            plan.write_barrier[index] = Some(0);
            self.barriers.set(0, time, false);
            return;
        }
        if !fact.is_variable() {
            return;
        }
        let reserved = u8::from(self.code.copies_own_zero);
        let demand = |kind| self.demand.of(index, kind);
        let (written, released) = (demand(EventKind::Written), demand(EventKind::Released));
        let far = |event: &&LiveEvent| {
            let fact = &self.code.facts[instruction(event.id)];
            let takes = match kind(event.id) {
                EventKind::Written => fact.typical,
                EventKind::Released => fact.release,
            };
            event.alive && takes >= LONG
        };
        let far = self.events.iter().filter(far);
        let long = far.fold(0, |barriers, event| barriers | mask(event.own));
        let now = time + self.lag;
        let at = |distance: u16| now + i32::from(distance) * CYCLES_PER_INSTRUCTION;
        if written != NEVER && !self.spared.of(index, EventKind::Written) {
            let wish = Wish {
                waiter: index as i32 + i32::from(written),
                demand: at(written),
                done: now + fact.typical,
                texture: fact.texture,
                long,
                leaves: if fact.typical < LONG {
                    0
                } else {
                    self.spared.short_until(index, written).min(LEFT)
                },
                far: fact.typical >= LONG,
            };
            let barrier = if wish.far && index + usize::from(written) >= self.end {
                barriers::OUTLIVING
            } else {
                self.barriers.choose(wish, &self.events, reserved)
            };
            self.barriers.set(barrier, time, fact.texture);
            plan.write_barrier[index] = Some(barrier);
            // The release is chosen next, and must see this one.
            self.put_event(LiveEvent {
                id: event_id(index, EventKind::Written),
                alive: true,
                covers: 1 << barrier,
                own: Some(barrier),
                waiter: wish.waiter,
                demand: wish.demand,
                done: wish.done,
            });
        }
        // Once the results are waited for, the sources have been read, too.
        if released < written && !self.spared.of(index, EventKind::Released) {
            let wish = Wish {
                waiter: index as i32 + i32::from(released),
                demand: at(released),
                done: now + fact.release,
                texture: fact.texture,
                long,
                leaves: 0,
                far: false,
            };
            let barrier = self.barriers.choose(wish, &self.events, reserved);
            self.barriers.set(barrier, time, fact.texture);
            plan.read_barrier[index] = Some(barrier);
        }
    }
}

/// Of the barriers that cover an event, the one that a wait for ends first, as a bit; of equal ones its own.
fn soonest(event: &LiveEvent, ends: [i32; barriers::COUNT]) -> u8 {
    let covering = (0..barriers::COUNT as u8).filter(|barrier| event.covers >> barrier & 1 == 1);
    let rank = |barrier: &u8| (ends[usize::from(*barrier)], event.own != Some(*barrier));
    mask(covering.min_by_key(rank))
}

/// Whether a later write cannot overtake the earlier access of the same place.
fn in_same_queue(earlier: &Fact, later: &Fact, earlier_reads: bool) -> bool {
    let completes = matches!(later.completion, Completion::InOrder(_))
        && earlier.completion == later.completion;
    completes || earlier_reads && earlier.memory_queue && later.memory_queue
}
