//! Redundant barriers: which events need no barrier of their own.
//!
//! Instructions of a queue finish one after the other, and those of the memory queue read their sources one after the other. So where
//! somebody waits for a later one anyway, before or when the earlier one is needed, that wait says enough about both, and a barrier
//! on the earlier one would only be missing elsewhere: there are six. ptxas leaves it out as well (`MUFU R4; MUFU R5` with a
//! barrier on the second one, stores in front of a load that is waited for).
//!
//! A backward walk over each block keeps, for every queue, the first instruction that waits for one of the instructions seen so
//! far. An event whose own first waiter does not come before that one is redundant. What is predicated off takes its turn in the queue and
//! counts as well (so ptxas has it, and the judge of finished code knows it). Calls wait for everything: what comes behind one cannot help what is in front of it, because the call
//! is a waiter that comes first.

use super::barriers::LONG;
use super::demand::{Demand, NEVER};
use super::facts::{Code, EventKind};
use orias_machine::timing::Completion;

/// For each instruction, whether its events are known from others'.
#[derive(Debug)]
pub(super) struct RedundantBarriers {
    written: Vec<bool>,
    released: Vec<bool>,
    /// How many short events with a barrier of their own there are in front of each instruction.
    short: Vec<u32>,
    /// By instruction: the next one of its block, itself included, that loads from far memory what only other blocks wait for.
    outliving: Vec<u32>,
}

/// No such instruction.
const NONE: u32 = u32::MAX;

impl RedundantBarriers {
    /// How many short events need a barrier from the instruction at `index` on until `distance` instructions later.
    pub(super) fn short_until(&self, index: usize, distance: u16) -> usize {
        let end = (index + usize::from(distance)).min(self.short.len() - 1);
        (self.short[end] - self.short[index]) as usize
    }

    /// The first instruction behind `index` in its block, which ends at `end`, that loads from far memory what only other blocks wait
    /// for.
    pub(super) fn outliving_behind(&self, index: usize, end: usize) -> Option<usize> {
        let next = *self.outliving.get(index + 1)?;
        (index + 1 < end && next != NONE).then_some(next as usize)
    }

    pub(super) fn of(&self, index: usize, kind: EventKind) -> bool {
        match kind {
            EventKind::Written => self.written[index],
            EventKind::Released => self.released[index],
        }
    }
}

/// The first waits for later instructions, by queue.
#[derive(Default)]
struct Waits {
    /// For results: the queue and the first instruction that waits.
    results: Vec<(Completion, usize)>,
    /// For anything that says that sources have been read, in a queue of results.
    sources: Vec<(Completion, usize)>,
    /// The same in the memory queue.
    memory: Option<usize>,
}

fn first(list: &[(Completion, usize)], queue: Completion) -> Option<usize> {
    let mut known = list.iter().filter(|(known, _)| *known == queue);
    known.next().map(|(_, waiter)| *waiter)
}

fn put(list: &mut Vec<(Completion, usize)>, queue: Completion, waiter: usize) {
    match list.iter_mut().find(|(known, _)| *known == queue) {
        Some((_, first)) => *first = waiter.min(*first),
        None => list.push((queue, waiter)),
    }
}

/// Finds the events that need no barrier.
pub(super) fn find(code: &Code, demand: &Demand) -> RedundantBarriers {
    let count = code.facts.len();
    let mut redundant = RedundantBarriers {
        written: vec![false; count],
        released: vec![false; count],
        short: Vec::with_capacity(count + 1),
        outliving: vec![NONE; count],
    };
    for block in &code.blocks {
        let mut waits = Waits::default();
        let mut outliving = NONE;
        for index in block.range.clone().rev() {
            let fact = &code.facts[index];
            redundant.outliving[index] = outliving;
            if !fact.is_variable() {
                continue;
            }
            let waiter = |kind| match demand.of(index, kind) {
                NEVER => None,
                distance => Some(index + usize::from(distance)),
            };
            let (written, released) = (waiter(EventKind::Written), waiter(EventKind::Released));
            let queue = match fact.completion {
                Completion::InOrder(_) => Some(fact.completion),
                _ => None,
            };
            // No later than the event's own waiter.
            let known = |wait: Option<usize>, own: Option<usize>| matches!((wait, own), (Some(wait), Some(own)) if wait <= own);
            let results = queue.and_then(|queue| first(&waits.results, queue));
            let sources = queue.and_then(|queue| first(&waits.sources, queue));
            let memory = waits.memory.filter(|_| fact.memory_queue);
            redundant.written[index] = known(results, written);
            let outlives = written.is_some_and(|waiter| waiter >= block.range.end);
            if outlives && fact.typical >= LONG && !redundant.written[index] {
                outliving = index as u32;
                redundant.outliving[index] = outliving;
            }
            // What says so late is neither told by others nor tells about them.
            let late = fact.release >= LONG;
            redundant.released[index] =
                !late && (known(sources, released) || known(memory, released));
            if let (Some(queue), Some(written)) = (queue, written) {
                put(&mut waits.results, queue, written);
            }
            if let Some(either) = written.into_iter().chain(released).min() {
                if let Some(queue) = queue {
                    put(&mut waits.sources, queue, either);
                }
                if fact.memory_queue && !late {
                    waits.memory = Some(waits.memory.map_or(either, |known| known.min(either)));
                }
            }
        }
    }
    let mut short = 0;
    redundant.short.push(short);
    for (index, fact) in code.facts.iter().enumerate() {
        let of = |kind| demand.of(index, kind);
        if fact.is_variable() {
            let results = of(EventKind::Written) != NEVER && !redundant.written[index];
            let sources = of(EventKind::Released) < of(EventKind::Written);
            short += u32::from(results && fact.typical < LONG);
            short += u32::from(sources && !redundant.released[index]);
        }
        redundant.short.push(short);
    }
    redundant
}
