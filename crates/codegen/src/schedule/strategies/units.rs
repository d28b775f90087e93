//! How long before the end of a block each instruction has to issue, if units count and not only dependences.
//!
//! `Timeline` knows chains: of sixty-four exponentials of which none waits for another each may go last. But the unit takes one in so many cycles, so the first of them has
//! to go five hundred cycles before the last, and so has what leads to it. A list scheduler that goes by chains alone takes such pieces side by side: it compares,
//! selects and finds maxima for all rows of a tile while the unit of exponentials idles, and then waits for that unit.
//!
//! So the block is scheduled once backwards, cycle by cycle, with units and issue slots: of the instructions whose readers have been placed the one goes that is furthest from the start.
//! That is its longest chain from there; or, if that takes longer, what its unit has still to do, from the first cycle in which the unit can have anything to do. So the
//! busiest unit is never kept waiting, and the rest fills the slots between. A number that many wait for (the factor of all sums of a row) may count as nearer by a cycle for each (*spread*): they fill slots
//! once it is there. Neither is always better, so both are tried. Between equals goes the one whose piece stands last, so that pieces follow each other instead of ending all at
//! once. A piece is a tree of dependences: each instruction hangs on the one that it gets its operands from last, and trees are walked in program order.
//!
//! Cost: O(n log n), n the nodes, and edges.

use crate::clock::Clock;
use crate::schedule::graph::{Graph, Timeline};
use orias_machine::issue::Unit;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// So many that wait for one number fill slots. (Fewer would set equal pieces apart: one more reader here and there, and all that have it come first.)
const MANY: u32 = 8;

/// What a unit has to do.
#[derive(Clone, Debug, Default)]
struct Work {
    /// The first cycle in which it can have anything to do; none if it never has.
    first: Option<u32>,
    /// Cycles of what has not been placed.
    left: u32,
    /// What could be placed now, by its distance from the start, and its place in its tree.
    ready: BinaryHeap<(u32, u32, u32)>,
}

impl Work {
    /// How far from the start the next of its instructions is, its place in its tree, and which it is.
    fn next(&self) -> Option<(u32, u32, u32)> {
        let &(earliest, rank, node) = self.ready.peek()?;
        let busy = self.first.map_or(0, |first| first + self.left);
        Some((earliest.max(busy), rank, node))
    }
}

/// By node: cycles from its issue to the end of the block. With `spread`, what many wait for comes earlier.
pub(super) fn heights(graph: &Graph, timeline: &Timeline, spread: bool) -> Vec<u32> {
    let count = graph.len();
    let trees = Trees::new(graph, timeline);
    let mut left: Vec<u32> = (0..count)
        .map(|node| graph.succs(node).count() as u32)
        .collect();
    let mut height: Vec<u32> = (0..count).map(|node| own_height(graph, node)).collect();
    let mut pending: BinaryHeap<Reverse<(u32, u32)>> = BinaryHeap::new();
    let mut units: Vec<Work> = vec![Work::default(); Unit::COUNT];
    let mut clock = Clock::new(1);
    for (node, own) in graph.nodes.iter().enumerate() {
        let work = &mut units[own.issue.unit as usize];
        let kept = kept(graph, node);
        if kept > 0 {
            let earliest = timeline.earliest[node];
            work.first = Some(work.first.map_or(earliest, |first| first.min(earliest)));
            work.left += kept;
        }
        if left[node] == 0 {
            pending.push(Reverse((height[node], node as u32)));
        }
    }
    loop {
        while let Some(&Reverse((at, node))) = pending.peek()
            && at <= clock.next
        {
            pending.pop();
            let at = node as usize;
            let many = Some(trees.children[at]).filter(|&children| spread && children >= MANY);
            let far = timeline.earliest[at].saturating_sub(many.unwrap_or(0));
            let unit = graph.nodes[at].issue.unit;
            units[unit as usize].ready.push((far, trees.rank[at], node));
        }
        let free_at = |node: u32| {
            let own = &graph.nodes[node as usize];
            match own.is_pseudo() {
                true => 0,
                false => clock.units.free_at(own.issue.unit),
            }
        };
        let next = units.iter().filter_map(Work::next);
        let best = next
            .filter(|&(_, _, node)| free_at(node) <= clock.next)
            .max();
        let Some((_, _, node)) = best else {
            // On to the next cycle in which something can go.
            let waits = units.iter().filter_map(Work::next);
            let waits = waits.map(|(_, _, node)| free_at(node));
            let comes = pending.peek().map(|&Reverse((at, _))| at);
            match waits.chain(comes).min() {
                Some(next) => clock.next = next.max(clock.next + 1),
                None => break,
            }
            continue;
        };
        let node = node as usize;
        let own = &graph.nodes[node];
        let work = &mut units[own.issue.unit as usize];
        work.ready.pop();
        work.left -= kept(graph, node);
        height[node] = clock.next;
        if !own.is_pseudo() {
            clock.issue(&own.issue, clock.next);
        }
        for edge in graph.preds(node) {
            let from = edge.from as usize;
            height[from] = height[from].max(height[node] + u32::from(edge.latency));
            left[from] -= 1;
            if left[from] == 0 {
                pending.push(Reverse((height[from], edge.from)));
            }
        }
    }
    height
}

/// Cycles that a node keeps its own unit.
fn kept(graph: &Graph, node: usize) -> u32 {
    let issue = &graph.nodes[node].issue;
    let own = issue.keeps.iter().find(|(unit, _)| *unit == issue.unit);
    own.map_or(0, |&(_, cycles)| u32::from(cycles))
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

/// The nodes as trees: each hangs on the one that it waits for longest.
struct Trees {
    /// By node: its place if each tree is walked in program order.
    rank: Vec<u32>,
    /// By node: how many hang on it.
    children: Vec<u32>,
}

impl Trees {
    fn new(graph: &Graph, timeline: &Timeline) -> Trees {
        let count = graph.len();
        let mut children: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut stack: Vec<u32> = Vec::new();
        for node in (0..count).rev() {
            let last = graph
                .preds(node)
                .iter()
                .max_by_key(|edge| timeline.earliest[edge.from as usize] + u32::from(edge.latency));
            match last {
                Some(edge) => children[edge.from as usize].push(node as u32),
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
        Trees {
            rank,
            children: children.iter().map(|all| all.len() as u32).collect(),
        }
    }
}
