//! How soon somebody will wait for an instruction.
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
    starts: Vec<Next>,
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
            let place = usize::from(write.place);
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
        let late = late.iter().map(|place| overwritten[usize::from(*place)]);
        accessed.chain(late).min().unwrap_or(NEVER)
    }
}

/// Distances to the next accesses of every place, from the start of a block.
#[derive(Clone, Debug)]
struct Next {
    read: [u16; PLACES],
    write: [u16; PLACES],
    /// The next write by an instruction that the memory queue does not keep behind a reader in it.
    write_outside: [u16; PLACES],
}

impl Next {
    const NEVER: Next = Next {
        read: [NEVER; PLACES],
        write: [NEVER; PLACES],
        write_outside: [NEVER; PLACES],
    };

    /// The first accesses of a block of its own.
    fn own(code: &Code, block: &BlockCode) -> Next {
        let mut next = Next::NEVER;
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
                let place = usize::from(read.place);
                first(&mut next.read[place]);
                if read.takes_over {
                    first(&mut next.write[place]);
                    first(&mut next.write_outside[place]);
                }
            }
            for write in code.writes(index) {
                let place = usize::from(write.place);
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
    fn take_nearer(&mut self, other: &Next, count: usize) -> bool {
        let count = u16::try_from(count).unwrap_or(FAR);
        // All lists are looked at.
        take_nearer(&mut self.read, &other.read, count)
            | take_nearer(&mut self.write, &other.write, count)
            | take_nearer(&mut self.write_outside, &other.write_outside, count)
    }
}

fn take_nearer(mine: &mut [u16; PLACES], theirs: &[u16; PLACES], count: u16) -> bool {
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
struct Positions {
    read: [u32; PLACES],
    write: [u32; PLACES],
    write_outside: [u32; PLACES],
    /// Where the block ends, and what comes behind it.
    end: usize,
    behind: Next,
}

const NOWHERE: u32 = u32::MAX;

impl Positions {
    const NONE: Positions = Positions {
        read: [NOWHERE; PLACES],
        write: [NOWHERE; PLACES],
        write_outside: [NOWHERE; PLACES],
        end: 0,
        behind: Next::NEVER,
    };

    /// Before a walk over a block that ends at `end`, with nothing behind it yet.
    fn clear(&mut self, end: usize) {
        self.read.fill(NOWHERE);
        self.write.fill(NOWHERE);
        self.write_outside.fill(NOWHERE);
        self.end = end;
        self.behind.clone_from(&Next::NEVER);
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
        let place = usize::from(place);
        let read = self.next(self.read[place], self.behind.read[place]);
        let write = self.next(self.write[place], self.behind.write[place]);
        read.into_iter().chain(write).min()
    }

    /// The next write, by whom the memory queue does not hold back if a reader is in it.
    fn overwritten(&self, place: u16, in_queue: bool) -> Option<usize> {
        let place = usize::from(place);
        if in_queue {
            self.next(self.write_outside[place], self.behind.write_outside[place])
        } else {
            self.next(self.write[place], self.behind.write[place])
        }
    }

    /// Puts the instruction at `index` in front.
    fn put(&mut self, code: &Code, index: usize) {
        let fact = &code.facts[index];
        let position = index as u32;
        if fact.alone {
            self.read.fill(position);
            self.write.fill(position);
            self.write_outside.fill(position);
            return;
        }
        for read in code.reads(index) {
            let place = usize::from(read.place);
            self.read[place] = position;
            if read.takes_over {
                self.write[place] = position;
                self.write_outside[place] = position;
            }
        }
        for write in code.writes(index) {
            let place = usize::from(write.place);
            if !is_token(write.place) {
                self.write[place] = position;
                if !fact.memory_queue {
                    self.write_outside[place] = position;
                }
            }
        }
    }
}

/// Computes the demand for every instruction.
pub(super) fn compute(code: &Code) -> Demand {
    let starts = starts(code);
    let mut demand = Demand {
        written: vec![NEVER; code.facts.len()],
        released: vec![NEVER; code.facts.len()],
        starts: Vec::new(),
    };
    let mut positions = Positions::NONE;
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
fn starts(code: &Code) -> Vec<Next> {
    let own = |block: &BlockCode| Next::own(code, block);
    let mut starts: Vec<Next> = code.blocks.iter().map(own).collect();
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

fn judge(code: &Code, index: usize, next: &Positions, demand: &mut Demand) {
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
