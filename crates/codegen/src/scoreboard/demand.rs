//! Next-use distances: how soon somebody will wait for an instruction.
//!
//! A backward walk finds for every place the number of instructions until it is read and until it is written next, over all
//! paths: a block's own first accesses, else the nearest of its successors'. Distances only shrink as paths are found, so the
//! iteration over blocks ends. From them follows, for every instruction with a variable latency, when the first instruction comes
//! that must wait for its results, and when the first one that must wait until its sources have been read.
//!
//! An instruction that nobody will ever wait for needs no barrier. Among the others the distance decides which of them share one.
//! It is a count of instructions, not of cycles, and it stops counting at [`FAR`].

use super::facts::{Arrives, BlockCode, Code, EventKind, PLACES, is_token};

/// Nobody waits.
pub(super) const NEVER: u16 = u16::MAX;

/// The longest distance that is told from longer ones.
const FAR: u16 = u16::MAX - 1;

/// For each instruction, the number of instructions until the first one that must wait for it.
#[derive(Debug)]
pub(super) struct Demand {
    /// For its results.
    pub(super) written: Vec<u16>,
    /// For the release of its sources.
    pub(super) released: Vec<u16>,
    /// What is accessed next at the start of each block, over all paths.
    starts: Vec<Distances>,
    numbers: Numbers,
}

impl Demand {
    pub(super) fn of(&self, index: usize, kind: EventKind) -> u16 {
        match kind {
            EventKind::Written => self.written[index],
            EventKind::Released => self.released[index],
        }
    }

    /// The number of instructions from the start of `block` until the first one that must wait for an event of the instruction at
    /// `index`, if that is in flight there.
    pub(super) fn behind(&self, code: &Code, index: usize, kind: EventKind, block: usize) -> u16 {
        let start = &self.starts[block];
        let written = code.writes(index).iter();
        let written = written.filter(|write| write.arrives == Arrives::Barrier(kind));
        let accessed = written.map(|write| {
            let place = self.numbers.of(write.place);
            start.read[place].min(start.write[place])
        });
        let overwritten = match code.facts[index].memory_queue {
            true => &start.write_outside,
            false => &start.write,
        };
        let late = match kind {
            EventKind::Written => &[],
            EventKind::Released => code.late(index),
        };
        let late = late
            .iter()
            .map(|place| overwritten[self.numbers.of(*place)]);
        accessed.chain(late).min().unwrap_or(NEVER)
    }
}

/// The places that a function has to do with, numbered in a row: most functions know but a few.
#[derive(Clone, Debug)]
struct Numbers {
    /// By place.
    numbers: [u16; PLACES],
    count: usize,
}

impl Numbers {
    fn new(code: &Code) -> Numbers {
        let mut known = [false; PLACES];
        for index in 0..code.facts.len() {
            for read in code.reads(index) {
                known[usize::from(read.place)] = true;
            }
            for write in code.writes(index) {
                known[usize::from(write.place)] = true;
            }
        }
        let mut numbers = Numbers {
            numbers: [0; PLACES],
            count: 0,
        };
        for place in (0..PLACES).filter(|&place| known[place]) {
            numbers.numbers[place] = numbers.count as u16;
            numbers.count += 1;
        }
        numbers
    }

    fn of(&self, place: u16) -> usize {
        usize::from(self.numbers[usize::from(place)])
    }
}

/// What is told of each place.
#[derive(Clone, Debug)]
struct Next<T> {
    read: Vec<T>,
    write: Vec<T>,
    /// The next write by an instruction that the memory queue does not keep behind a reader in it.
    write_outside: Vec<T>,
}

impl<T: Copy> Next<T> {
    /// The same of all.
    fn all(count: usize, told: T) -> Next<T> {
        Next {
            read: vec![told; count],
            write: vec![told; count],
            write_outside: vec![told; count],
        }
    }

    fn fill(&mut self, told: T) {
        self.read.fill(told);
        self.write.fill(told);
        self.write_outside.fill(told);
    }
}

/// Distances to the next accesses, from the start of a block.
type Distances = Next<u16>;

impl Distances {
    /// The first accesses of a block of its own.
    fn own(code: &Code, numbers: &Numbers, block: &BlockCode) -> Distances {
        let mut next = Next::all(numbers.count, NEVER);
        for index in block.range.clone() {
            let away = u16::try_from(index - block.range.start)
                .unwrap_or(FAR)
                .min(FAR);
            if code.facts[index].alone {
                let lists = [&mut next.read, &mut next.write, &mut next.write_outside];
                for distance in lists.into_iter().flatten() {
                    *distance = away.min(*distance);
                }
                break;
            }
            let first = |distance: &mut u16| *distance = away.min(*distance);
            for read in code.reads(index) {
                let place = numbers.of(read.place);
                first(&mut next.read[place]);
                if read.takes_over {
                    first(&mut next.write[place]);
                    first(&mut next.write_outside[place]);
                }
            }
            for write in code.writes(index) {
                let place = numbers.of(write.place);
                if !is_token(write.place) {
                    first(&mut next.write[place]);
                    if !code.facts[index].memory_queue {
                        first(&mut next.write_outside[place]);
                    }
                }
            }
        }
        next
    }

    /// Takes the nearer accesses of both, the others' with `count` instructions in front; says whether anything changed.
    fn take_nearer(&mut self, other: &Distances, count: usize) -> bool {
        let count = u16::try_from(count).unwrap_or(FAR);
        // All lists are looked at.
        take_nearer(&mut self.read, &other.read, count)
            | take_nearer(&mut self.write, &other.write, count)
            | take_nearer(&mut self.write_outside, &other.write_outside, count)
    }
}

fn take_nearer(mine: &mut [u16], theirs: &[u16], count: u16) -> bool {
    let mut differences = 0;
    for (mine, &theirs) in mine.iter_mut().zip(theirs) {
        let away = theirs.saturating_add(count).min(FAR);
        let away = if theirs == NEVER { NEVER } else { away };
        let nearer = away.min(*mine);
        differences |= nearer ^ *mine;
        *mine = nearer;
    }
    differences != 0
}

/// Instructions of a block that access places next; a walk goes backwards over it.
struct Positions<'a> {
    numbers: &'a Numbers,
    own: Next<u32>,
    /// Where the block ends, and what comes behind it.
    end: usize,
    behind: Distances,
}

const NOWHERE: u32 = u32::MAX;

impl<'a> Positions<'a> {
    fn new(numbers: &'a Numbers) -> Positions<'a> {
        Positions {
            numbers,
            own: Next::all(numbers.count, NOWHERE),
            end: 0,
            behind: Next::all(numbers.count, NEVER),
        }
    }

    /// Before a walk over a block that ends at `end`, with nothing behind it yet.
    fn clear(&mut self, end: usize) {
        self.own.fill(NOWHERE);
        self.end = end;
        self.behind.fill(NEVER);
    }

    /// The next access of the block, or of what comes behind it.
    fn next(&self, own: u32, behind: u16) -> Option<usize> {
        match (own, behind) {
            (NOWHERE, NEVER) => None,
            (NOWHERE, distance) => Some(self.end + usize::from(distance)),
            (position, _) => Some(position as usize),
        }
    }

    fn access(&self, place: u16) -> Option<usize> {
        let place = self.numbers.of(place);
        let read = self.next(self.own.read[place], self.behind.read[place]);
        let write = self.next(self.own.write[place], self.behind.write[place]);
        read.into_iter().chain(write).min()
    }

    /// The next write, by whom the memory queue does not hold back if a reader is in it.
    fn overwritten(&self, place: u16, in_queue: bool) -> Option<usize> {
        let place = self.numbers.of(place);
        if in_queue {
            let own = self.own.write_outside[place];
            self.next(own, self.behind.write_outside[place])
        } else {
            self.next(self.own.write[place], self.behind.write[place])
        }
    }

    /// Puts the instruction at `index` in front.
    fn put(&mut self, code: &Code, index: usize) {
        let fact = &code.facts[index];
        let position = index as u32;
        if fact.alone {
            self.own.fill(position);
            return;
        }
        let own = &mut self.own;
        for read in code.reads(index) {
            let place = self.numbers.of(read.place);
            own.read[place] = position;
            if read.takes_over {
                own.write[place] = position;
                own.write_outside[place] = position;
            }
        }
        for write in code.writes(index) {
            let place = self.numbers.of(write.place);
            if !is_token(write.place) {
                own.write[place] = position;
                if !fact.memory_queue {
                    own.write_outside[place] = position;
                }
            }
        }
    }
}

/// Computes the demand for every instruction.
pub(super) fn compute(code: &Code) -> Demand {
    let numbers = Numbers::new(code);
    let starts = starts(code, &numbers);
    let mut demand = Demand {
        written: vec![NEVER; code.facts.len()],
        released: vec![NEVER; code.facts.len()],
        starts: Vec::new(),
        numbers: numbers.clone(),
    };
    let mut positions = Positions::new(&numbers);
    for block in &code.blocks {
        // Nobody waits for what has a fixed latency.
        let mut variable = block.range.clone();
        let Some(first) = variable.find(|&index| code.facts[index].is_variable()) else {
            continue;
        };
        positions.clear(block.range.end);
        for &successor in &block.successors {
            positions.behind.take_nearer(&starts[successor], 0);
        }
        for index in (first..block.range.end).rev() {
            judge(code, index, &positions, &mut demand);
            positions.put(code, index);
        }
    }
    demand.starts = starts;
    demand
}

/// What is accessed next at the start of each block, over all paths.
fn starts(code: &Code, numbers: &Numbers) -> Vec<Distances> {
    let own = |block: &BlockCode| Distances::own(code, numbers, block);
    let mut starts: Vec<Distances> = code.blocks.iter().map(own).collect();
    let mut dirty = vec![true; starts.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for &number in code.order.iter().rev() {
            if !std::mem::replace(&mut dirty[number], false) {
                continue;
            }
            let block = &code.blocks[number];
            let mut nearer = false;
            // Behind an access of the block's own nothing is nearer, and nothing comes nearer by going around.
            for &successor in block.successors.iter().filter(|to| **to != number) {
                if let Ok([start, next]) = starts.get_disjoint_mut([number, successor]) {
                    nearer |= start.take_nearer(next, block.range.len());
                }
            }
            if nearer {
                changed = true;
                for &before in &block.predecessors {
                    dirty[before] = true;
                }
            }
        }
    }
    starts
}

fn judge(code: &Code, index: usize, next: &Positions<'_>, demand: &mut Demand) {
    let fact = &code.facts[index];
    if !fact.is_variable() {
        return;
    }
    let (mut written, mut released) = (usize::MAX, usize::MAX);
    for write in code.writes(index) {
        if let Arrives::Barrier(kind) = write.arrives {
            let first = match kind {
                EventKind::Written => &mut written,
                EventKind::Released => &mut released,
            };
            *first = next.access(write.place).map_or(*first, |at| at.min(*first));
        }
    }
    for &place in code.late(index) {
        let overwritten = next.overwritten(place, fact.memory_queue);
        released = overwritten.map_or(released, |at| at.min(released));
    }
    let distance = |position: usize| match position {
        usize::MAX => NEVER,
        position => u16::try_from(position - index).unwrap_or(FAR).min(FAR),
    };
    demand.written[index] = distance(written);
    demand.released[index] = distance(released);
}
