//! Random legal orders: each block gets one of the orders its dependence graph allows, so that nothing is left of the one it had.

use super::PostScheduleError;
use super::ready::{self, Choice};
use crate::schedule::build::Fences;
use orias_ori::Function;

/// SplitMix64: a stream of numbers that depends on nothing but the seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) fn new(seed: u64) -> Self {
        Numbers(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
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
