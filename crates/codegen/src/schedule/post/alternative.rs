//! Legal orders of any quality, to measure the cycle model with.
//!
//! Whether the model is right cannot be seen from its best orders alone: they take about the same time. So there is a row of orders from
//! one that waits as little as a greedy choice can to one that waits as long as it can: at each step either the instruction is taken that
//! could issue first, longest chain first, or, as often as [`Alternative::worse`] says, the one whose operands come last.

use super::PostScheduleError;
use super::shuffle::Numbers;
use crate::schedule::build::{Builder, Exits, Fences};
use crate::schedule::graph::{Graph, Timeline};
use orias_ori::analysis::{DepthFirst, FlowGraph, RegisterLiveness};
use orias_ori::{Block, Function};

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
    let flow = FlowGraph::of(func);
    let walk = DepthFirst::new(&flow);
    let live = RegisterLiveness::new(func, &flow, &walk);
    let blocks: Vec<Block> = func.blocks().collect();
    let mut numbers = Numbers::new(which.seed);
    let mut orders = Vec::with_capacity(blocks.len());
    let mut builder = Builder::new(func, Exits::Registers(&live), Fences::none());
    for &block in &blocks {
        let graph = builder.build(block);
        let order = order(&graph, which.worse, &mut numbers);
        let order = order.ok_or(PostScheduleError::Circle(block))?;
        orders.push((graph, order));
    }
    for (graph, order) in &orders {
        super::apply(func, graph, order);
    }
    Ok(())
}

/// One order of a block; none if the graph has a circle, which no graph of a block has.
fn order(graph: &Graph, worse: u8, numbers: &mut Numbers) -> Option<Vec<u32>> {
    let timeline = Timeline::new(graph);
    let mut missing: Vec<u32> = (0..graph.len())
        .map(|node| graph.preds(node).len() as u32)
        .collect();
    let mut at = vec![0u32; graph.len()];
    let is_first = |node: usize| !graph.nodes[node].with_previous;
    let mut ready: Vec<u32> = graph
        .body()
        .filter(|&node| missing[node] == 0 && is_first(node))
        .map(|node| node as u32)
        .collect();
    let mut now = 0;
    let mut order = Vec::with_capacity(graph.len());
    while order.len() < graph.body().len() {
        let waits = |node: &u32| at[*node as usize].max(now);
        let height = |node: &u32| timeline.height[*node as usize];
        let indices = 0..ready.len();
        let chosen = if numbers.below(100) < usize::from(worse) {
            indices.max_by_key(|&index| (waits(&ready[index]), u32::MAX - height(&ready[index])))
        } else {
            indices.min_by_key(|&index| (waits(&ready[index]), u32::MAX - height(&ready[index])))
        };
        let first = ready.swap_remove(chosen?);
        let rest =
            (first + 1..graph.body().end as u32).take_while(|&node| !is_first(node as usize));
        for node in std::iter::once(first).chain(rest) {
            let own = &graph.nodes[node as usize];
            let start = at[node as usize].max(now);
            if !own.is_pseudo() {
                now = start + u32::from(own.least_stall.max(1));
            }
            order.push(node);
            for edge in graph.succs(node as usize) {
                let to = edge.to as usize;
                at[to] = at[to].max(start + u32::from(edge.latency));
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
