//! How long before the end of a block each instruction has to issue, if units count and not only dependences.
//!
//! `Timeline` knows chains: of sixty-four exponentials of which none waits for another each may go last. But the unit takes one in so many cycles, so the first of them has
//! to go five hundred cycles before the last, and so has what leads to it. A list scheduler that goes by chains alone takes such pieces side by side: it compares,
//! selects and finds maxima for all rows of a tile while the unit of exponentials idles, and then waits for that unit.
//!
//! So the block is scheduled twice, cycle by cycle, with units and issue slots. Forwards the instruction goes first that is furthest from the end: by its longest chain, or by how many
//! slots what hangs on it takes (a factor that a hundred products wait for comes before a number that is added to another). Backwards, from the end, the one that
//! came last forwards; when it is placed there is what this is about. Between equals pieces follow each other in program order instead of ending all at once.
//! A piece is a tree of dependences: each instruction hangs on the one that it gets its operands from last.
//!
//! Cost: O(n log n), n the nodes, and edges.

use crate::clock::Clock;
use crate::schedule::graph::{Edge, Graph, Timeline};
use orias_machine::issue::Unit;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// By node: cycles from its issue to the end of the block.
pub(super) fn heights(graph: &Graph, timeline: &Timeline) -> Vec<u32> {
    let count = graph.len();
    let trees = Trees::new(graph, timeline);
    let far = |node: usize| {
        let slots = u32::from(graph.nodes[node].latency) + trees.slots[node];
        timeline.height[node].max(slots)
    };
    let first = (0..count).map(|node| (far(node), u32::MAX - trees.rank[node]));
    let starts = pass(graph, true, first.collect(), vec![0; count]);
    let last = (0..count).map(|node| (starts[node], trees.rank[node]));
    let ends = (0..count).map(|node| own_height(graph, node));
    pass(graph, false, last.collect(), ends.collect())
}

/// When each node issues, counted from the start or from the end, if of those that can issue the one with the greatest key does. No node issues before it is its time.
fn pass(graph: &Graph, forward: bool, keys: Vec<(u32, u32)>, mut time: Vec<u32>) -> Vec<u32> {
    let count = graph.len();
    let mut left: Vec<u32> = match forward {
        true => (0..count).map(|it| graph.preds(it).len() as u32).collect(),
        false => (0..count)
            .map(|it| graph.succs(it).count() as u32)
            .collect(),
    };
    let mut pending: BinaryHeap<Reverse<(u32, u32)>> = BinaryHeap::new();
    let mut ready: Vec<BinaryHeap<((u32, u32), u32)>> = vec![BinaryHeap::new(); Unit::COUNT];
    let mut clock = Clock::new(1);
    for node in (0..count).filter(|&node| left[node] == 0) {
        pending.push(Reverse((time[node], node as u32)));
    }
    loop {
        while let Some(&Reverse((at, node))) = pending.peek()
            && at <= clock.next
        {
            pending.pop();
            let unit = graph.nodes[node as usize].issue.unit;
            ready[unit as usize].push((keys[node as usize], node));
        }
        let free_at = |node: u32| {
            let own = &graph.nodes[node as usize];
            match own.is_pseudo() {
                true => 0,
                false => clock.units.free_at(own.issue.unit),
            }
        };
        let heads = || ready.iter().filter_map(|unit| unit.peek().copied());
        let best = heads().filter(|&(_, node)| free_at(node) <= clock.next);
        let Some((_, node)) = best.max() else {
            // On to the next cycle in which something can go.
            let waits = heads().map(|(_, node)| free_at(node));
            let comes = pending.peek().map(|&Reverse((at, _))| at);
            match waits.chain(comes).min() {
                Some(next) => clock.next = next.max(clock.next + 1),
                None => break,
            }
            continue;
        };
        let own = &graph.nodes[node as usize];
        ready[own.issue.unit as usize].pop();
        let now = clock.next;
        time[node as usize] = now;
        if !own.is_pseudo() {
            clock.issue(&own.issue, now);
        }
        let mut pass_on = |other: u32, edge: &Edge| {
            let slot = &mut time[other as usize];
            *slot = (*slot).max(now + u32::from(edge.latency));
            left[other as usize] -= 1;
            if left[other as usize] == 0 {
                pending.push(Reverse((*slot, other)));
            }
        };
        match forward {
            true => (graph.succs(node as usize)).for_each(|edge| pass_on(edge.to, edge)),
            false => (graph.preds(node as usize).iter()).for_each(|edge| pass_on(edge.from, edge)),
        }
    }
    time
}

/// Cycles that a node takes by itself as far as the end of the block waits for it.
fn own_height(graph: &Graph, node: usize) -> u32 {
    let own = &graph.nodes[node];
    let leaves = match own.leaves && own.fixed {
        true => u32::from(own.latency),
        false => 0,
    };
    leaves.max(u32::from(own.signals))
}

/// The nodes as trees: each hangs on the one it waits for longest.
struct Trees {
    /// By node: its place if each tree is walked in program order.
    rank: Vec<u32>,
    /// By node: the slots of all that hangs on it.
    slots: Vec<u32>,
}

impl Trees {
    fn new(graph: &Graph, timeline: &Timeline) -> Trees {
        let count = graph.len();
        let mut children: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut slots = vec![0; count];
        let mut stack: Vec<u32> = Vec::new();
        for node in (0..count).rev() {
            let last = graph
                .preds(node)
                .iter()
                .max_by_key(|edge| timeline.earliest[edge.from as usize] + u32::from(edge.latency));
            match last {
                Some(edge) => {
                    let from = edge.from as usize;
                    children[from].push(node as u32);
                    slots[from] += slots[node] + u32::from(!graph.nodes[node].is_pseudo());
                }
                None => stack.push(node as u32),
            }
        }
        let mut rank = vec![0; count];
        let mut next = 0;
        while let Some(node) = stack.pop() {
            rank[node as usize] = next;
            next += 1;
            stack.extend(&children[node as usize]);
        }
        Trees { rank, slots }
    }
}
