//! Which alternative is taken where several are allowed.

use super::graph::{Graph, Id};
use orias_random::Rng;
use std::collections::HashSet;

/// How alternatives are chosen, and which were.
#[derive(Debug)]
pub(crate) enum Choices {
    /// At random.
    Drawn(Rng),
    /// All of them, one run after the other.
    Searched(Search),
}

/// A depth-first search by running again.
#[derive(Debug, Default)]
pub(crate) struct Search {
    /// What is taken of how many alternatives, choice by choice.
    taken: Vec<(usize, usize)>,
    /// Choices made in this run.
    made: usize,
    /// States that were gone on from.
    known: HashSet<u128>,
}

impl Search {
    /// Prepares the next run; false when there is none.
    pub fn advance(&mut self) -> bool {
        self.made = 0;
        while let Some((last, count)) = self.taken.pop() {
            if last + 1 < count {
                self.taken.push((last + 1, count));
                return true;
            }
        }
        false
    }
}

impl Choices {
    /// Whether it has to be known where the run is: at the first choice that no earlier run made.
    pub fn wants_state(&self) -> bool {
        match self {
            Self::Drawn(_) => false,
            Self::Searched(search) => search.made >= search.taken.len(),
        }
    }

    /// Whether nobody has been here before.
    pub fn is_new(&mut self, state: u128) -> bool {
        match self {
            Self::Drawn(_) => true,
            Self::Searched(search) => search.known.insert(state),
        }
    }

    /// The number of the alternative to take.
    pub fn among(&mut self, count: usize) -> usize {
        match self {
            Self::Drawn(random) => random.below(count),
            Self::Searched(search) => {
                let at = search.made;
                search.made += 1;
                match search.taken.get(at) {
                    Some((taken, _)) => *taken,
                    None => {
                        search.taken.push((0, count));
                        0
                    }
                }
            }
        }
    }

    /// The open reads that may be settled next: any in a search; one at random otherwise, mostly the oldest of a thread, as later ones that
    /// come first seldom leave the older ones a value.
    pub fn narrow(&mut self, open: Vec<Id>, graph: &Graph) -> Vec<Id> {
        let Self::Drawn(random) = self else {
            return open;
        };
        let chosen = open[random.below(open.len())];
        if random.below(8) == 0 {
            return vec![chosen];
        }
        let thread = graph.events[chosen].actor.thread;
        let same = open.into_iter();
        let same = same.filter(|&id| graph.events[id].actor.thread == thread);
        let oldest = same.min_by_key(|&id| graph.events[id].at);
        vec![oldest.unwrap_or(chosen)]
    }
}
