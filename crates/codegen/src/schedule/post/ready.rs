//! Orders built step by step by somebody who chooses among what is ready.
//!
//! What is ready has all its predecessors placed. Members of a run come with its first, the tail comes last, as the graph asks for:
//! whatever is chosen, the order is one that the block can have.

use super::{PostScheduleError, arrange};
use crate::schedule::build::{Builder, Exits, Fences};
use crate::schedule::frontier::Frontier;
use crate::schedule::graph::Graph;
use orias_ori::analysis::{DepthFirst, FlowGraph, RegisterLiveness};
use orias_ori::{Block, Function};

/// Who chooses.
pub(super) trait Choice {
    /// The index of the next one among those that are ready, of which there is at least one.
    fn choose(&mut self, ready: &[u32]) -> usize;

    /// A node has got its place.
    fn placed(&mut self, _node: u32) {}
}

/// The order of a block that `choice` makes, tail included; none if the graph has a circle, which no graph of a block has.
pub(super) fn order(graph: &Graph, choice: &mut impl Choice) -> Option<Vec<u32>> {
    let mut frontier = Frontier::new(graph);
    let mut ready: Vec<u32> = frontier.free().collect();
    let mut order = Vec::with_capacity(graph.len());
    while order.len() < graph.body().len() {
        if ready.is_empty() {
            return None;
        }
        let first = ready.swap_remove(choice.choose(&ready));
        for node in run(graph, first) {
            order.push(node);
            choice.placed(node);
            for edge in graph.succs(node as usize) {
                if frontier.meet(edge.to as usize, 0) {
                    ready.push(edge.to);
                }
            }
        }
    }
    order.extend(graph.tail().map(|node| node as u32));
    Some(order)
}

/// A node and what goes directly behind it.
pub(super) fn run(graph: &Graph, first: u32) -> impl Iterator<Item = u32> + '_ {
    let rest = (first + 1..graph.body().end as u32)
        .take_while(|&node| graph.nodes[node as usize].with_previous);
    std::iter::once(first).chain(rest)
}

/// Gives every block the order that `order` makes of its graph.
pub(super) fn rearrange(
    func: &mut Function,
    fences: Fences<'_>,
    mut order: impl FnMut(&Function, &Graph) -> Option<Vec<u32>>,
) -> Result<(), PostScheduleError> {
    let flow = FlowGraph::of(func);
    let walk = DepthFirst::new(&flow);
    let live = RegisterLiveness::new(func, &flow, &walk);
    let blocks: Vec<Block> = func.blocks().collect();
    let mut orders = Vec::with_capacity(blocks.len());
    let mut builder = Builder::new(func, Exits::Registers(&live), fences);
    for &block in &blocks {
        let graph = builder.build(block);
        let order = order(func, &graph).ok_or(PostScheduleError::Circle(block))?;
        orders.push((graph, order));
    }
    for (graph, order) in &orders {
        arrange(func, graph, order);
    }
    Ok(())
}
