//! Store clustering: stores to one piece of memory, brought together.
//!
//! A thread that writes four words in a row writes one sector if the stores leave the warp together, and four times a part of it if
//! something stands between them. Before orders are looked for, each store goes down to the next one of its kind
//! ([`super::build::are_mergeable`]) if nothing on the way must stay behind it and no more registers are live than the number
//! of warps allows; from there on the graph keeps them together.

use super::budget::Occupancy;
use super::build::{Builder, Exits, Fences, are_mergeable};
use super::flow::LiveFlow;
use super::graph::Graph;
use super::live::{BlockValues, Numbering};
use super::relink::relink;
use orias_ori::{Block, Class, Function, Inst};

/// How many nodes a store goes down at most.
const REACH: usize = 64;

/// Brings stores together, and says in how many blocks.
pub fn gather_stores(func: &mut Function, occupancy: Occupancy, shape: &LiveFlow) -> usize {
    let orders = find(func, occupancy, shape);
    for (block, order) in &orders {
        relink(func, *block, order);
    }
    orders.len()
}

fn find(func: &Function, occupancy: Occupancy, shape: &LiveFlow) -> Vec<(Block, Vec<Inst>)> {
    let separated: Vec<Block> = func
        .blocks()
        .filter(|&block| has_separated(func, block))
        .collect();
    if separated.is_empty() {
        return Vec::new();
    }
    let live = shape.live(func);
    let mut builder = Builder::new(func, Exits::Values(live), Fences::none());
    let mut numbers = Numbering::default();
    let mut found = Vec::new();
    for block in separated {
        let graph = builder.build(block);
        let order = gathered(func, &graph);
        if order.is_sorted() || graph.illegal(&order).is_some() {
            continue;
        }
        let values = BlockValues::new(func, &graph, live, &mut numbers);
        let as_it_is = values.peak(0..graph.len() as u32);
        let (before, after) = (as_it_is, values.peak(order.iter().copied()));
        let class = Class::R as usize;
        let [was, is] = [before, after].map(|counts| counts[class].max(0) as u32);
        let others = (0..before.len()).all(|other| other == class || after[other] <= before[other]);
        if occupancy.affords(func, was, is) && others {
            let insts = order.iter().map(|&node| graph.nodes[node as usize].inst);
            found.push((block, insts.collect()));
        }
    }
    found
}

/// Whether a block has mergeable stores with something in between.
fn has_separated(func: &Function, block: Block) -> bool {
    let insts: Vec<Inst> = func.block_insts(block).collect();
    let is_store = |inst: &Inst| are_mergeable(func, *inst, *inst);
    let stores: Vec<usize> = (0..insts.len())
        .filter(|&index| is_store(&insts[index]))
        .collect();
    stores
        .windows(2)
        .any(|pair| pair[1] > pair[0] + 1 && are_mergeable(func, insts[pair[0]], insts[pair[1]]))
}

/// The nodes of a block, each store right before the next of its kind where it can be.
fn gathered(func: &Function, graph: &Graph) -> Vec<u32> {
    // By node: the node it goes down to.
    let mut goes: Vec<Option<usize>> = vec![None; graph.len()];
    let insts: Vec<Inst> = graph.nodes.iter().map(|node| node.inst).collect();
    for node in graph.body().rev() {
        if !are_mergeable(func, insts[node], insts[node]) {
            continue;
        }
        let end = graph.body().end.min(node + REACH);
        let next = (node + 1..end).find(|&other| are_mergeable(func, insts[node], insts[other]));
        let Some(next) = next else {
            continue;
        };
        let free = graph.succs(node).all(|edge| edge.to as usize >= next);
        if free && next > node + 1 && !graph.nodes[node].with_previous {
            goes[node] = Some(next);
        }
    }
    let mut before: Vec<Vec<u32>> = vec![Vec::new(); graph.len()];
    for (node, to) in goes.iter().enumerate() {
        if let Some(to) = to {
            before[*to].push(node as u32);
        }
    }
    let mut order = Vec::with_capacity(graph.len());
    for (node, to) in goes.iter().enumerate() {
        if to.is_none() {
            // Those that come down, and those that come down to them.
            let mut pending = vec![node];
            let mut group = Vec::new();
            while let Some(at) = pending.pop() {
                group.push(at as u32);
                pending.extend(before[at].iter().map(|&other| other as usize));
            }
            group.sort_unstable();
            order.extend(group);
        }
    }
    order
}
