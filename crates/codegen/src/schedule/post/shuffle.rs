//! Random legal orders: each block gets one of the orders its dependence graph allows, so that nothing is left of the one it had.

use super::PostScheduleError;
use crate::schedule::build::{Builder, Exits, Fences};
use crate::schedule::graph::Graph;
use orias_ori::analysis::{DepthFirst, FlowGraph, RegisterLiveness};
use orias_ori::{Block, Function};

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

/// Puts the instructions of every block into a random order that its dependences allow. The same seed gives the same order.
pub fn shuffle(func: &mut Function, seed: u64) -> Result<(), PostScheduleError> {
    let flow = FlowGraph::of(func);
    let walk = DepthFirst::new(&flow);
    let live = RegisterLiveness::new(func, &flow, &walk);
    let blocks: Vec<Block> = func.blocks().collect();
    let mut numbers = Numbers::new(seed);
    let mut orders = Vec::with_capacity(blocks.len());
    let mut builder = Builder::new(func, Exits::Registers(&live), Fences::none());
    for &block in &blocks {
        let graph = builder.build(block);
        let order = random_order(&graph, &mut numbers).ok_or(PostScheduleError::Circle(block))?;
        orders.push((graph, order));
    }
    for (graph, order) in &orders {
        super::apply(func, graph, order);
    }
    Ok(())
}

fn random_order(graph: &Graph, numbers: &mut Numbers) -> Option<Vec<u32>> {
    let mut missing: Vec<u32> = (0..graph.len())
        .map(|node| graph.preds(node).len() as u32)
        .collect();
    let is_first = |node: usize| !graph.nodes[node].with_previous;
    let mut ready: Vec<u32> = graph
        .body()
        .filter(|&node| missing[node] == 0 && is_first(node))
        .map(|node| node as u32)
        .collect();
    let mut order = Vec::with_capacity(graph.len());
    while order.len() < graph.body().len() {
        if ready.is_empty() {
            return None;
        }
        let first = ready.swap_remove(numbers.below(ready.len()));
        let rest =
            (first + 1..graph.body().end as u32).take_while(|&node| !is_first(node as usize));
        for node in std::iter::once(first).chain(rest) {
            order.push(node);
            for edge in graph.succs(node as usize) {
                let to = edge.to as usize;
                missing[to] -= 1;
                if missing[to] == 0 && graph.body().contains(&to) && is_first(to) {
                    ready.push(edge.to);
                }
            }
        }
    }
    order.extend(graph.tail().map(|node| node as u32));
    Some(order)
}
