//! How soon somebody will wait for an instruction.
//!
//! A backward walk finds for every place the number of instructions until it is read and until it is written next, over all
//! paths: a block's own first accesses, else the nearest of its successors'. Distances only shrink as paths are found, so the
//! iteration over blocks ends. From them follows, for every instruction with a variable latency, when the first instruction comes
//! that must wait for its results, and when the first one that must wait until its sources have been read.
//!
//! An instruction that nobody will ever wait for needs no barrier. Among the others the distance decides which of them share one.
//! It is a count of instructions, not of cycles, and it stops counting at [`FAR`].

use super::facts::{Arrives, Code, EventKind, PLACES, is_token};

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
}

impl Demand {
    pub(super) fn of(&self, index: usize, kind: EventKind) -> u16 {
        match kind {
            EventKind::Written => self.written[index],
            EventKind::Released => self.released[index],
        }
    }
}

/// Distances to the next accesses of every place.
#[derive(Clone, Default, PartialEq)]
struct Next {
    read: Vec<u16>,
    write: Vec<u16>,
    /// The next write by an instruction that the memory queue does not keep behind a reader in it.
    write_outside: Vec<u16>,
}

impl Next {
    fn never() -> Next {
        Next {
            read: vec![NEVER; PLACES],
            write: vec![NEVER; PLACES],
            write_outside: vec![NEVER; PLACES],
        }
    }

    /// Takes the nearer accesses of both, the others' with `count` instructions in front; says whether anything changed.
    fn take_nearer(&mut self, other: &Next, count: usize) -> bool {
        let count = u16::try_from(count).unwrap_or(FAR);
        let mut changed = false;
        for (mine, theirs) in [
            (&mut self.read, &other.read),
            (&mut self.write, &other.write),
            (&mut self.write_outside, &other.write_outside),
        ] {
            for (mine, &theirs) in mine.iter_mut().zip(theirs) {
                let away = match theirs {
                    NEVER => NEVER,
                    theirs => theirs.saturating_add(count).min(FAR),
                };
                changed |= away < *mine;
                *mine = away.min(*mine);
            }
        }
        changed
    }
}

/// Positions of next accesses within one block, from its start; a walk goes backwards over it.
struct Positions {
    read: Vec<usize>,
    write: Vec<usize>,
    write_outside: Vec<usize>,
}

const NOWHERE: usize = usize::MAX;

impl Positions {
    /// What comes behind a block that ends at `end`.
    fn behind(end: usize, next: &Next) -> Positions {
        let position = |distance: &u16| match *distance {
            NEVER => NOWHERE,
            distance => end + usize::from(distance),
        };
        Positions {
            read: next.read.iter().map(position).collect(),
            write: next.write.iter().map(position).collect(),
            write_outside: next.write_outside.iter().map(position).collect(),
        }
    }

    fn access(&self, place: u16) -> usize {
        self.read[usize::from(place)].min(self.write[usize::from(place)])
    }

    /// Puts the instruction at `index` in front.
    fn put(&mut self, code: &Code, index: usize) {
        let fact = &code.facts[index];
        if fact.alone {
            self.read.fill(index);
            self.write.fill(index);
            self.write_outside.fill(index);
            return;
        }
        for read in code.reads(index) {
            let place = usize::from(read.place);
            self.read[place] = index;
            if read.takes_over {
                self.write[place] = index;
                self.write_outside[place] = index;
            }
        }
        for write in code.writes(index) {
            let place = usize::from(write.place);
            if !is_token(write.place) {
                self.write[place] = index;
                if !fact.memory_queue {
                    self.write_outside[place] = index;
                }
            }
        }
    }

    fn distances_from(&self, start: usize) -> Next {
        let distance = |position: &usize| match *position {
            NOWHERE => NEVER,
            position => u16::try_from(position - start).unwrap_or(FAR).min(FAR),
        };
        Next {
            read: self.read.iter().map(distance).collect(),
            write: self.write.iter().map(distance).collect(),
            write_outside: self.write_outside.iter().map(distance).collect(),
        }
    }
}

/// Computes the demand for every instruction.
pub(super) fn compute(code: &Code) -> Demand {
    let own: Vec<Next> = code
        .blocks
        .iter()
        .map(|block| {
            let mut positions = Positions::behind(block.range.end, &Next::never());
            for index in block.range.clone().rev() {
                positions.put(code, index);
            }
            positions.distances_from(block.range.start)
        })
        .collect();
    // What is accessed next at the start of each block, to its fixed point.
    let mut starts = own;
    let mut changed = true;
    while changed {
        changed = false;
        for &number in code.order.iter().rev() {
            let block = &code.blocks[number];
            let mut start = std::mem::take(&mut starts[number]);
            // Behind an access of the block's own nothing is nearer, and nothing comes nearer by going around.
            for &successor in block.successors.iter().filter(|to| **to != number) {
                changed |= start.take_nearer(&starts[successor], block.range.len());
            }
            starts[number] = start;
        }
    }
    let mut demand = Demand {
        written: vec![NEVER; code.facts.len()],
        released: vec![NEVER; code.facts.len()],
    };
    for block in &code.blocks {
        let mut behind = Next::never();
        for &successor in &block.successors {
            behind.take_nearer(&starts[successor], 0);
        }
        let mut positions = Positions::behind(block.range.end, &behind);
        for index in block.range.clone().rev() {
            judge(code, index, &positions, &mut demand);
            positions.put(code, index);
        }
    }
    demand
}

fn judge(code: &Code, index: usize, next: &Positions, demand: &mut Demand) {
    let fact = &code.facts[index];
    let (mut written, mut released) = (NOWHERE, NOWHERE);
    for write in code.writes(index) {
        if let Arrives::Barrier(kind) = write.arrives {
            let first = match kind {
                EventKind::Written => &mut written,
                EventKind::Released => &mut released,
            };
            *first = (*first).min(next.access(write.place));
        }
    }
    for &place in code.late(index) {
        let writes = if fact.memory_queue {
            &next.write_outside
        } else {
            &next.write
        };
        released = released.min(writes[usize::from(place)]);
    }
    let distance = |position: usize| match position {
        NOWHERE => NEVER,
        position => u16::try_from(position - index).unwrap_or(FAR).min(FAR),
    };
    demand.written[index] = distance(written);
    demand.released[index] = distance(released);
}
