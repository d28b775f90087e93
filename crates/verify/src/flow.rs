//! What is in flight at each point of a program, and which pairs of instructions meet in a register.
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

use crate::facts::{
    Distances, Fact, Facts, Guarded, REGISTERS, Read, THREADS, Wait, Write, register,
};
use crate::program::Program;
use orias_machine::timing::{
    Arrival, BARRIER_SET_TO_WAIT, BARRIER_SETTLES, Completion, Place, ResultGroup, UseGroup,
};
use orias_sass::Register;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::LazyLock;

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

/// Cycles are counted up to here; nothing of fixed latency takes longer.
const FAR: i32 = 96;

/// Reads and barriers that are over after a few cycles are over after this many.
const SOON: i32 = 16;

/// How many queues there are.
const QUEUES: usize = 5;

/// Before any time that is counted.
const NEVER: i32 = i32::MIN / 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A write with a fixed latency.
    Fixed(ResultGroup),
    /// A write that a barrier tells of; the queue it completes in.
    Written(Option<u8>),
    /// A write that comes with the release of the sources.
    Released(Option<u8>),
    /// A write of a warpgroup operation.
    GroupWritten,
    /// A read some time after issue; the queue it is done in.
    Read(Option<u8>),
    /// A read of a warpgroup operation.
    GroupRead,
    /// A read a few cycles after issue.
    Slow(UseGroup),
    /// A barrier between threads.
    Settles,
}

impl Kind {
    fn writes(self) -> bool {
        !matches!(self, Kind::Read(_) | Kind::GroupRead | Kind::Slow(_))
    }

    /// After how many cycles it is over for good; none if time alone does not tell.
    fn over(self) -> Option<i32> {
        match self {
            Kind::Fixed(_) => Some(FAR),
            Kind::Slow(_) | Kind::Settles => Some(SOON),
            _ => None,
        }
    }
}

/// An access that may not have finished. The order of the fields makes records of one register neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    register: u16,
    instruction: u32,
    place: Place,
    kind: Kind,
    /// When the instruction issued.
    time: i32,
    /// Barriers that cover the access, and those of them that were set less than [`BARRIER_SET_TO_WAIT`] before the block began.
    covers: u8,
    recent: u8,
    /// Warpgroup groups that had ended when the instruction issued.
    groups: i32,
    guard: Option<Guarded>,
    /// Which instruction of the block wrote the guard's predicate last, plus one.
    version: u32,
}

impl Record {
    fn key(&self) -> (u16, u32, Place, Kind) {
        (self.register, self.instruction, self.place, self.kind)
    }
}

/// The last two instructions of a queue that set a barrier.
#[derive(Clone, Copy)]
struct Carriers {
    last: i32,
    before: i32,
}

/// What is in flight, while a block is walked through.
struct State {
    registers: Vec<SmallVec<[Record; 2]>>,
    touched: Vec<u16>,
    is_touched: Vec<bool>,
    now: i32,
    waited: [i32; 6],
    /// By queue: up to when its instructions have finished, and have read their sources.
    finished: [i32; QUEUES],
    read: [i32; QUEUES],
    completing: [[Carriers; 6]; QUEUES],
    reading: [[Carriers; 6]; QUEUES],
    /// Warpgroup groups that have ended, and how many of them are known to have finished.
    groups: i32,
    groups_finished: i32,
    versions: [u32; 16],
}

impl State {
    fn new() -> Self {
        let none = Carriers {
            last: NEVER,
            before: NEVER,
        };
        Self {
            registers: vec![SmallVec::new(); REGISTERS],
            touched: Vec::new(),
            is_touched: vec![false; REGISTERS],
            now: 0,
            waited: [NEVER; 6],
            finished: [NEVER; QUEUES],
            read: [NEVER; QUEUES],
            completing: [[none; 6]; QUEUES],
            reading: [[none; 6]; QUEUES],
            groups: 0,
            groups_finished: NEVER,
            versions: [0; 16],
        }
    }

    /// Starts a block with what is in flight before it.
    fn enter(&mut self, records: &[Record]) {
        for register in self.touched.drain(..) {
            self.registers[usize::from(register)].clear();
            self.is_touched[usize::from(register)] = false;
        }
        let none = Carriers {
            last: NEVER,
            before: NEVER,
        };
        self.now = 0;
        self.waited = [NEVER; 6];
        self.finished = [NEVER; QUEUES];
        self.read = [NEVER; QUEUES];
        self.completing = [[none; 6]; QUEUES];
        self.reading = [[none; 6]; QUEUES];
        self.groups = 0;
        self.groups_finished = NEVER;
        self.versions = [0; 16];
        for record in records {
            self.list(record.register).push(*record);
        }
    }

    /// The records of a register, to add to.
    fn list(&mut self, register: u16) -> &mut SmallVec<[Record; 2]> {
        let index = usize::from(register);
        if !self.is_touched[index] {
            self.is_touched[index] = true;
            self.touched.push(register);
        }
        &mut self.registers[index]
    }

    /// What is in flight at the end of a block, as the next one sees it.
    fn leave(&mut self, out: &mut Vec<Record>) {
        out.clear();
        for register in &self.touched {
            for record in &self.registers[usize::from(*register)] {
                let age = self.now - record.time;
                let over = match record.kind.over() {
                    Some(cycles) => age >= cycles,
                    None => self.is_finished(record),
                };
                if over {
                    continue;
                }
                let (covers, recent) = self.covers(record);
                let kept = record.guard.filter(|guard| {
                    self.versions[usize::from(guard.predicate & 15)] == record.version
                });
                out.push(Record {
                    time: -age.min(FAR),
                    covers,
                    recent,
                    groups: (record.groups - self.groups).max(-8),
                    guard: kept,
                    version: 0,
                    ..*record
                });
            }
        }
        out.sort_unstable_by_key(Record::key);
    }

    /// The barriers that cover a record now, and those of them that a wait in this cycle would not see.
    fn covers(&self, record: &Record) -> (u8, u8) {
        let seen = self.now - i32::from(BARRIER_SET_TO_WAIT);
        let own_recent = if record.time < 0 {
            if self.now == 0 { record.recent } else { 0 }
        } else if record.time > seen {
            record.covers
        } else {
            0
        };
        let (mut covers, mut recent) = (record.covers, own_recent);
        let carriers = match record.kind {
            Kind::Written(Some(queue)) => &self.completing[usize::from(queue)],
            Kind::Read(Some(queue)) | Kind::Released(Some(queue)) => {
                &self.reading[usize::from(queue)]
            }
            _ => return (covers, recent),
        };
        for (barrier, carrier) in carriers.iter().enumerate() {
            let bit = 1 << barrier;
            if carrier.last >= record.time && carrier.last > NEVER && covers & bit == 0 {
                covers |= bit;
                if carrier.last > seen && carrier.before < record.time {
                    recent |= bit;
                }
            }
        }
        (covers, recent)
    }

    /// Whether an access of variable latency is over.
    fn is_finished(&self, record: &Record) -> bool {
        let queue_done = match record.kind {
            Kind::Fixed(_) | Kind::Slow(_) | Kind::Settles => return true,
            Kind::GroupWritten | Kind::GroupRead => return record.groups < self.groups_finished,
            Kind::Written(queue) => queue.map_or(NEVER, |q| self.finished[usize::from(q)]),
            Kind::Read(queue) | Kind::Released(queue) => {
                queue.map_or(NEVER, |q| self.read[usize::from(q)])
            }
        };
        (queue_done > NEVER && queue_done >= record.time) || self.waited_for(record, 0)
    }

    /// Whether a barrier that covers the record was waited for, at most `early` cycles too soon.
    fn waited_for(&self, record: &Record, early: i32) -> bool {
        (0..6).any(|barrier| {
            if record.covers >> barrier & 1 == 0 {
                return false;
            }
            let seen = if record.time >= 0 {
                record.time + i32::from(BARRIER_SET_TO_WAIT)
            } else {
                i32::from(record.recent >> barrier & 1)
            };
            self.waited[barrier] >= seen - early
        })
    }

    fn wait(&mut self, barriers: u8) {
        let seen = self.now - i32::from(BARRIER_SET_TO_WAIT);
        for barrier in (0..6).filter(|barrier| barriers >> barrier & 1 == 1) {
            self.waited[barrier] = self.now;
            for queue in 0..QUEUES {
                let done = |carriers: Carriers| {
                    if carriers.last <= seen {
                        carriers.last
                    } else if carriers.before <= seen {
                        carriers.before
                    } else {
                        NEVER
                    }
                };
                let (completed, read) = (
                    done(self.completing[queue][barrier]),
                    done(self.reading[queue][barrier]),
                );
                self.finished[queue] = self.finished[queue].max(completed);
                self.read[queue] = self.read[queue].max(read);
            }
        }
    }
}

/// The distances, worked out once.
static MINED: LazyLock<Distances> = LazyLock::new(Distances::mined);

/// Runs the flow over a program to its fixed point, then hands every dependence to `observe`.
pub fn observe(
    program: &Program,
    mut observe: impl FnMut(Dependence),
) -> Result<(), UnknownTiming> {
    let facts = Facts::new(program)?;
    let walk = Walk {
        program,
        facts: &facts,
        distances: &MINED,
    };
    let mut entries: Vec<Option<Vec<Record>>> = vec![None; program.blocks.len()];
    let mut state = State::new();
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
    Ok(())
}

/// Adds what `other` has in flight to a sorted list; says whether anything changed.
fn join(known: &mut Vec<Record>, other: &[Record]) -> bool {
    let mut changed = false;
    let mut new = Vec::new();
    let mut at = 0;
    for record in other {
        while at < known.len() && known[at].key() < record.key() {
            at += 1;
        }
        match known
            .get_mut(at)
            .filter(|candidate| candidate.key() == record.key())
        {
            Some(candidate) => {
                let merged = Record {
                    time: candidate.time.max(record.time),
                    covers: candidate.covers & record.covers,
                    recent: (candidate.recent | record.recent) & candidate.covers & record.covers,
                    groups: candidate.groups.max(record.groups),
                    guard: candidate.guard.filter(|guard| record.guard == Some(*guard)),
                    ..*candidate
                };
                changed |= merged != *candidate;
                *candidate = merged;
            }
            None => new.push(*record),
        }
    }
    if !new.is_empty() {
        changed = true;
        known.append(&mut new);
        known.sort_unstable_by_key(Record::key);
    }
    changed
}

struct Walk<'a> {
    program: &'a Program,
    facts: &'a Facts,
    distances: &'static Distances,
}

impl Walk<'_> {
    /// Takes a state through one block.
    fn block(&self, block: usize, state: &mut State, observe: &mut impl FnMut(Dependence)) {
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
                        let needed = Some(i32::from(BARRIER_SETTLES));
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
    fn meet_read(
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
    fn meet_write(
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
    fn leave(&self, index: usize, state: &State, observe: &mut impl FnMut(Dependence)) {
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
    fn count(
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

    /// Puts an instruction's own accesses in flight.
    fn issue(&self, index: usize, fact: &Fact, state: &mut State) {
        let now = state.now;
        let set = |carriers: &mut [Carriers; 6], barriers: u8| {
            for (barrier, carrier) in carriers.iter_mut().enumerate() {
                if barriers >> barrier & 1 == 1 {
                    carrier.before = carrier.last;
                    carrier.last = now;
                }
            }
        };
        if let Some(queue) = fact.queue {
            let carriers = &mut state.completing[usize::from(queue)];
            set(carriers, fact.write_barrier);
        }
        if let Some(queue) = fact.read_queue {
            let carriers = &mut state.reading[usize::from(queue)];
            set(carriers, fact.write_barrier | fact.read_barrier);
        }
        let record = Record {
            register: 0,
            instruction: index as u32,
            place: Place::Implicit,
            kind: Kind::GroupRead,
            time: state.now,
            covers: 0,
            recent: 0,
            groups: state.groups,
            guard: fact.guard,
            version: fact
                .guard
                .map_or(0, |guard| state.versions[usize::from(guard.predicate & 15)]),
        };
        for write in self.facts.writes(fact) {
            let list = &mut state.registers[usize::from(write.register)];
            match fact.guard {
                None => list.clear(),
                Some(_) => list.retain(|known| {
                    !known.kind.writes()
                        || known.guard != record.guard
                        || known.version != record.version
                }),
            }
        }
        for write in self.facts.writes(fact) {
            let (kind, covers) = match write.arrival {
                Arrival::Fixed(group) => (Kind::Fixed(group), 0),
                Arrival::WriteBarrier => (Kind::Written(fact.queue), fact.write_barrier),
                Arrival::ReadBarrier => (
                    Kind::Released(fact.read_queue),
                    fact.read_barrier | fact.write_barrier,
                ),
                Arrival::WarpGroup => (Kind::GroupWritten, 0),
            };
            add(
                state,
                Record {
                    register: write.register,
                    place: write.place,
                    kind,
                    covers,
                    ..record
                },
            );
        }
        for read in self.facts.reads(fact).iter().filter(|read| read.late) {
            let (kind, covers) = if fact.completion == Completion::Group {
                (Kind::GroupRead, 0)
            } else {
                (
                    Kind::Read(fact.read_queue),
                    fact.read_barrier | fact.write_barrier,
                )
            };
            add(
                state,
                Record {
                    register: read.register,
                    place: read.place,
                    kind,
                    covers,
                    ..record
                },
            );
        }
        for read in self.facts.reads(fact).iter().filter(|read| read.slow) {
            add(
                state,
                Record {
                    register: read.register,
                    place: read.place,
                    kind: Kind::Slow(read.group),
                    ..record
                },
            );
        }
        if fact.settles {
            add(
                state,
                Record {
                    register: THREADS,
                    kind: Kind::Settles,
                    ..record
                },
            );
        }
        if fact.commits {
            state.groups += 1;
        }
        let mut predicates = fact.predicates;
        while predicates != 0 {
            let predicate = predicates.trailing_zeros() as usize;
            state.versions[predicate] = index as u32 + 1;
            predicates &= predicates - 1;
        }
    }
}

/// Adds a record. One of the same access, from an earlier trip round a loop, shares its barriers and is replaced.
///
/// So is one that is sure to be over when the new one is: a read in the same queue, a slow read of the same kind, a barrier
/// between threads, if its lanes are among those of the new one. This keeps the lists short where many instructions read one
/// register.
fn add(state: &mut State, record: Record) {
    let list = state.list(record.register);
    let covered = |known: &Record| match (known.kind, record.kind) {
        (Kind::Read(Some(known)), Kind::Read(Some(new))) => known == new,
        (Kind::Slow(known), Kind::Slow(new)) => known == new,
        (Kind::Settles, Kind::Settles) => true,
        _ => false,
    };
    let lanes = |known: &Record| {
        record.guard.is_none() || (known.guard, known.version) == (record.guard, record.version)
    };
    match list
        .iter_mut()
        .find(|known| known.key() == record.key() || (covered(known) && lanes(known)))
    {
        Some(known) => *known = record,
        None => list.push(record),
    }
}

/// Whether the later instruction runs only in lanes where the earlier one did not.
fn exclusive(record: &Record, guard: Option<Guarded>, versions: &[u32; 16]) -> bool {
    match (record.guard, guard) {
        (Some(earlier), Some(later)) => {
            earlier.predicate == later.predicate
                && earlier.negated != later.negated
                && versions[usize::from(later.predicate & 15)] == record.version
        }
        _ => false,
    }
}

fn dependence(
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
