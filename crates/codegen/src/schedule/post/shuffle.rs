//! Random legal orders: each block gets one of the orders its dependence graph allows, so that nothing is left of the one it had.

use super::PostScheduleError;
use super::ready::{self, Choice};
use crate::schedule::build::Fences;
use orias_ori::Function;
use orias_random::Rng;

/// A stream of numbers that depends on nothing but the seed.
#[derive(Clone, Debug)]
pub(super) struct Numbers(Rng);

impl Numbers {
    pub(super) fn new(seed: u64) -> Self {
        Numbers(Rng::new(seed))
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }
}

impl Choice for Numbers {
    fn choose(&mut self, ready: &[u32]) -> usize {
        self.below(ready.len())
    }
}

/// Puts the instructions of every block into a random order that its dependences allow. The same seed gives the same order.
pub fn shuffle(func: &mut Function, seed: u64) -> Result<(), PostScheduleError> {
    let mut numbers = Numbers::new(seed);
    ready::rearrange(func, Fences::none(), |_, graph| {
        ready::order(graph, &mut numbers)
    })
}
