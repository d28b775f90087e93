//! Legal orders of any quality, to measure the cycle model with.
//!
//! Whether the model is right cannot be seen from its best orders alone: they take about the same time. So there is a row of orders from
//! one that waits as little as a greedy choice can to one that waits as long as it can: at each step either the instruction is taken that
//! could issue first, longest chain first, or, as often as [`Alternative::worse`] says, the one whose operands come last.

use super::PostScheduleError;
use super::ready::{self, Choice};
use super::shuffle::Numbers;
use crate::clock;
use crate::schedule::build::Fences;
use crate::schedule::graph::{Graph, Timeline};
use orias_ori::Function;

/// Which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// How many of 100 choices are the worst there is.
    pub worse: u8,
    /// Which of those choices.
    pub seed: u64,
}

/// Puts the instructions of every block into such an order. The same numbers give the same order.
pub fn alternative(func: &mut Function, which: Alternative) -> Result<(), PostScheduleError> {
    let mut numbers = Numbers::new(which.seed);
    ready::rearrange(func, Fences::none(), |_, graph| {
        let mut greedy = Greedy {
            graph,
            height: Timeline::new(graph).height,
            worse: which.worse,
            numbers: &mut numbers,
            at: vec![0; graph.len()],
            now: 0,
        };
        ready::order(graph, &mut greedy)
    })
}

struct Greedy<'a> {
    graph: &'a Graph,
    height: Vec<u32>,
    worse: u8,
    numbers: &'a mut Numbers,
    /// By node: when its operands are there.
    at: Vec<u32>,
    /// When the next one can issue.
    now: u32,
}

impl Choice for Greedy<'_> {
    fn choose(&mut self, ready: &[u32]) -> usize {
        let key = |index: &usize| {
            let node = ready[*index] as usize;
            (self.at[node].max(self.now), u32::MAX - self.height[node])
        };
        let indices = 0..ready.len();
        let chosen = if self.numbers.below(100) < usize::from(self.worse) {
            indices.max_by_key(key)
        } else {
            indices.min_by_key(key)
        };
        chosen.unwrap_or(0)
    }

    fn placed(&mut self, node: u32) {
        let own = &self.graph.nodes[node as usize];
        let start = self.at[node as usize].max(self.now);
        if !own.is_pseudo() {
            self.now = start + clock::slots(&own.issue, 1);
        }
        for edge in self.graph.succs(node as usize) {
            let at = &mut self.at[edge.to as usize];
            *at = (*at).max(start + u32::from(edge.latency));
        }
    }
}
