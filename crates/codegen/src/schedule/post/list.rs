//! The list scheduler: an ordered tree with a three-key priority.
//!
//! The tree holds the instructions that nothing keeps from issuing in the current cycle. Its keys are, in this order:
//!
//! 1. the score, a weighted sum in double precision;
//! 2. the deadline: the last cycle in which the instruction can issue without making the block longer;
//! 3. the place in the block the scheduler was given, so that equals keep their order.
//!
//! A step takes the maximum, evaluates it against the state of the machine (is its unit free, do its sources meet in one bank, are
//! they in the operand cache, was its result just written), and puts it back with the score it really has, until the one that was
//! evaluated is better than what any other could at best be. The score in the tree is that bound: it assumes every source in the cache
//! and nothing in the way. At most [`LOOKED_AT`] are evaluated a step, so the whole is linear in the length of the block but for the
//! logarithm of the tree.

use super::clock::{Cause, Clock, Step};
use super::ports::{POSITIONS, Ports};
use crate::schedule::graph::{Graph, Timeline};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// How many candidates a step evaluates at most.
const LOOKED_AT: usize = 24;

/// What the parts of the score weigh.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// A cycle of the longest chain that starts with the instruction.
    pub chain: f64,
    /// A cycle that nothing issues in.
    pub stall: f64,
    /// A cycle that a bank conflict costs.
    pub bank: f64,
    /// A source found in the operand cache.
    pub reuse: f64,
    /// Writing what the instruction before wrote.
    pub rewrite: f64,
}

impl Weights {
    /// The best score a node can have.
    fn bound(&self, height: u32) -> f64 {
        self.chain * f64::from(height) + self.reuse.max(0.0) * POSITIONS as f64
    }

    /// The score of a node as things are.
    fn score(&self, height: u32, step: &Step, now: u32) -> f64 {
        self.chain * f64::from(height) + self.reuse * f64::from(step.hits)
            - self.bank * f64::from(step.conflicts)
            - self.rewrite * f64::from(u8::from(step.rewrites))
            - self.stall * f64::from(step.at - now)
    }
}

/// The three keys.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Key {
    score: f64,
    deadline: Reverse<u32>,
    node: Reverse<u32>,
}

impl Eq for Key {}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> std::cmp::Ordering {
        let scores = self.score.total_cmp(&other.score);
        scores
            .then(self.deadline.cmp(&other.deadline))
            .then(self.node.cmp(&other.node))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// An order of the block, tail included; none if the graph has a circle, which no graph of a block has.
pub(super) fn schedule(
    graph: &Graph,
    ports: &[Ports],
    floors: &[u32],
    timeline: &Timeline,
    weights: &Weights,
    warps: u32,
) -> Option<Vec<u32>> {
    let mut list = List {
        graph,
        timeline,
        weights,
        clock: Clock::new(graph, ports, warps),
        missing: (0..graph.len())
            .map(|node| graph.preds(node).len() as u32)
            .collect(),
        ready: floors.iter().map(|&floor| (floor, Cause::Entry)).collect(),
        waiting: BinaryHeap::new(),
        tree: BTreeSet::new(),
        order: Vec::with_capacity(graph.len()),
    };
    for node in graph.body() {
        list.offer(node as u32);
    }
    while list.order.len() < graph.body().len() {
        let (node, step) = list.choose()?;
        list.issue(node, &step);
        // Members of a run follow at once.
        let mut next = node + 1;
        while graph.body().contains(&(next as usize)) && graph.nodes[next as usize].with_previous {
            let step = list.clock.probe(next, list.ready[next as usize]);
            list.issue(next, &step);
            next += 1;
        }
    }
    let List { mut order, .. } = list;
    order.extend(graph.tail().map(|node| node as u32));
    Some(order)
}

struct List<'a> {
    graph: &'a Graph,
    timeline: &'a Timeline,
    weights: &'a Weights,
    clock: Clock<'a>,
    /// By node: how many edges still hold it back.
    missing: Vec<u32>,
    /// By node: when what it needs is there, as far as that has issued.
    ready: Vec<(u32, Cause)>,
    /// What nothing holds back but time.
    waiting: BinaryHeap<Reverse<(u32, u32)>>,
    /// What can issue now.
    tree: BTreeSet<Key>,
    order: Vec<u32>,
}

impl List<'_> {
    /// Makes `node` a candidate if no edge holds it back. Members of a run are none: they come with the first.
    fn offer(&mut self, node: u32) {
        let index = node as usize;
        let first = !self.graph.nodes[index].with_previous;
        if first && self.missing[index] == 0 && self.graph.body().contains(&index) {
            self.waiting.push(Reverse((self.ready[index].0, node)));
        }
    }

    fn key(&self, node: u32) -> Key {
        Key {
            score: self.weights.bound(self.timeline.height[node as usize]),
            deadline: Reverse(self.timeline.latest[node as usize]),
            node: Reverse(node),
        }
    }

    /// Takes the best candidate out of the tree.
    fn choose(&mut self) -> Option<(u32, Step)> {
        loop {
            let now = self.clock.next;
            while let Some(&Reverse((ready, node))) = self.waiting.peek() {
                if ready > now {
                    break;
                }
                self.waiting.pop();
                self.tree.insert(self.key(node));
            }
            let soonest = self.waiting.peek().map(|Reverse((ready, _))| *ready);
            let Some((key, step)) = self.evaluate(now) else {
                // Nothing can issue: time passes.
                self.clock.next = soonest?;
                continue;
            };
            // Something else may be there before the unit is free.
            if let Some(soonest) = soonest
                && step.at > soonest
            {
                self.clock.next = soonest;
                continue;
            }
            self.tree.remove(&key);
            return Some((key.node.0, step));
        }
    }

    /// The candidate with the best score; all of them stay in the tree.
    fn evaluate(&self, now: u32) -> Option<(Key, Step)> {
        let mut best: Option<(Key, f64, Step)> = None;
        for key in self.tree.iter().rev().take(LOOKED_AT) {
            if best.is_some_and(|(_, score, _)| score >= key.score) {
                break;
            }
            let node = key.node.0;
            let step = self.clock.probe(node, self.ready[node as usize]);
            let height = self.timeline.height[node as usize];
            let score = self.weights.score(height, &step, now);
            if best.is_none_or(|(_, known, _)| score > known) {
                best = Some((*key, score, step));
            }
        }
        best.map(|(key, _, step)| (key, step))
    }

    fn issue(&mut self, node: u32, step: &Step) {
        self.clock.issue(node, step);
        self.order.push(node);
        let graph = self.graph;
        for edge in graph.succs(node as usize) {
            let to = edge.to as usize;
            let at = step.at + u32::from(edge.latency);
            if at > self.ready[to].0 {
                self.ready[to] = (at, Cause::Edge(node));
            }
            self.missing[to] -= 1;
            self.offer(edge.to);
        }
    }
}
