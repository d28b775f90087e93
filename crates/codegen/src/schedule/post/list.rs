//! The list scheduler: an ordered tree with a three-key priority.
//!
//! The tree holds the instructions that nothing keeps from issuing in the current cycle. Its keys are, in this order:
//!
//! 1. the score, a weighted sum in double precision;
//! 2. the deadline: the last cycle in which the instruction can issue without making the block longer;
//! 3. the place in the order the block has, so that equals keep their order.
//!
//! The first two say the same, since both follow from the length of the chain that starts with the instruction: a key is that length
//! and the place, in one integer, and the tree a sorted row of them.
//!
//! A step takes the maximum, evaluates it against the state of the machine (is its unit free, do its sources meet in one bank, are
//! they in the operand cache, was its result just written), and puts it back with the score it really has, until the one that was
//! evaluated is better than what any other could at best be. That bound assumes as many sources in the cache as it keeps, and nothing in
//! the way. At most [`LOOKED_AT`] are evaluated a step, so the whole is linear in the length of the block but for the
//! logarithm of the tree.
//!
//! Stores to one line of memory are candidates when all that any of them needs is there, and then go before all others
//! ([`super::stores`]).

use super::early::Early;
use super::model::{MachineState, Model, Slot, Slots, Step, Wait};
use super::ports::Row;
use super::stores::Holds;
use crate::schedule::graph::Graph;
use orias_machine::issue::Unit;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

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
    /// The score of a node as things are.
    fn score(&self, height: u32, step: Step, rewrites: bool, now: u32) -> f64 {
        self.chain * f64::from(height) + self.reuse * f64::from(step.hits)
            - self.bank * f64::from(step.conflicts)
            - self.rewrite * f64::from(u8::from(rewrites))
            - self.stall * f64::from(step.at - now)
    }

    /// Without regard to what lies in which bank and in the operand cache.
    pub(super) fn plain(self) -> Weights {
        Weights {
            bank: 0.0,
            reuse: 0.0,
            rewrite: 0.0,
            ..self
        }
    }

    fn is_plain(&self) -> bool {
        *self == self.plain()
    }
}

/// What is known of a block and of the order it has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Present<'a> {
    /// The nodes in this order.
    pub(super) order: &'a [u32],
    /// By node: its place in it.
    pub(super) ranks: &'a [u32],
    /// By node: how urgent it is, by the cycles from its issue to the end of the longest chain that starts with it.
    pub(super) heights: &'a [u32],
    /// What stores wait for.
    pub(super) holds: &'a Holds,
    /// Who comes behind whom.
    pub(super) chains: &'a Chains,
    /// What leads to its first loads.
    pub(super) early: &'a Early,
}

/// The edges of a graph as the scheduler follows them: those between nodes that may move.
#[derive(Clone, Debug, Default)]
pub(super) struct Chains {
    /// By node that may move: how many edges hold it back, and one more if it comes with the node before it.
    missing: Vec<u32>,
    /// By node: the nodes behind it, and after how many cycles.
    behind: Vec<Wait>,
    starts: Vec<u32>,
    /// Whether some nodes come with those before them.
    runs: bool,
}

impl Chains {
    pub(super) fn new(graph: &Graph) -> Chains {
        let body = graph.body();
        let mut chains = Chains {
            missing: Vec::with_capacity(body.len()),
            behind: Vec::with_capacity(graph.edges().len()),
            starts: Vec::with_capacity(body.len() + 1),
            runs: false,
        };
        for node in body.clone() {
            let comes_along = graph.nodes[node].with_previous;
            chains.runs |= comes_along;
            let missing = graph.preds(node).len() as u32 + u32::from(comes_along);
            chains.missing.push(missing);
            chains.starts.push(chains.behind.len() as u32);
            let edges = graph
                .succs(node)
                .filter(|edge| body.contains(&(edge.to as usize)));
            chains.behind.extend(edges.map(|edge| Wait {
                node: edge.to,
                cycles: u32::from(edge.latency),
            }));
        }
        chains.starts.push(chains.behind.len() as u32);
        chains
    }

    fn behind(&self, node: u32) -> &[Wait] {
        let node = node as usize;
        &self.behind[self.starts[node] as usize..self.starts[node + 1] as usize]
    }
}

/// What decides most about a candidate.
#[derive(Clone, Copy, Debug)]
struct Asks {
    /// Its sources.
    row: Row,
    /// Its unit, if it takes an issue slot.
    unit: Option<Unit>,
}

/// What keeps a node from being a candidate.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// How many edges still hold it back.
    missing: u32,
    /// When what it needs is there, as far as that has issued.
    ready: u32,
}

/// How an order was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Whether it is sure that the scheduler, given the order it found, would find it again. Of equal candidates the one that was
    /// taken comes first in that order, so it would be taken again, unless some were not looked at, or a choice was put off.
    pub(super) stable: bool,
}

/// The list scheduler; made once and used for all blocks.
#[derive(Debug, Default)]
pub(super) struct Scheduler {
    /// By node that may move.
    pending: Vec<Pending>,
    /// What nothing holds back but time: when, and the node.
    waiting: BinaryHeap<Reverse<u64>>,
    /// What can issue now, by key; the best one last.
    tree: Vec<u64>,
    /// By place in the order there is.
    asks: Vec<Asks>,
    /// By line: how much of what it waits for has not issued, and when that is there which has.
    held: Vec<(u32, u32)>,
    /// Stores that nothing but the others of their line holds back.
    parked: Vec<u32>,
    /// What waits for the first loads.
    aside: Vec<u32>,
    /// The order found.
    pub(super) order: Vec<u32>,
}

impl Scheduler {
    /// Leaves an order of the block, tail included, in `self.order`; none if the graph has a circle, which no graph of a block has.
    pub(super) fn schedule(
        &mut self,
        model: Model<'_>,
        present: Present<'_>,
        weights: &Weights,
        warps: u32,
        early: bool,
    ) -> Option<Found> {
        let graph = model.graph;
        self.pending.clear();
        let nodes = present.chains.missing.iter().zip(model.floors);
        self.pending
            .extend(nodes.map(|(&missing, &ready)| Pending { missing, ready }));
        self.asks.clear();
        let order = present.order.iter();
        self.asks.extend(order.map(|node| {
            let slot = model.slots.of(*node);
            Asks {
                row: slot.sources.row,
                unit: if slot.pseudo {
                    None
                } else {
                    Some(slot.issue.unit)
                },
            }
        }));
        self.waiting.clear();
        self.tree.clear();
        self.held.clear();
        let lines = present.holds.missing.iter();
        self.held.extend(lines.map(|&missing| (missing, 0)));
        self.parked.clear();
        self.aside.clear();
        self.order.clear();
        let mut list = List {
            slots: model.slots,
            present,
            weights,
            plain: weights.is_plain(),
            short_first: weights.chain < 0.0,
            most_is_chain: weights.bank >= 0.0 && weights.rewrite >= 0.0 && weights.stall >= 0.0,
            machine: MachineState::new(model.slots, warps),
            state: self,
            stable: !early,
            loads: if early { present.early.count } else { 0 },
        };
        let body = graph.body().len();
        for node in 0..body {
            if list.state.pending[node].missing == 0 {
                list.offer(node as u32);
            }
        }
        while list.state.order.len() < body {
            let (node, at) = list.choose()?;
            list.issue(node, at);
            // Members of a run follow at once.
            let mut next = node as usize + 1;
            while present.chains.runs && next < body && graph.nodes[next].with_previous {
                let slot = list.slots.of(next as u32);
                let at = list.machine.at(slot, list.state.pending[next].ready);
                list.issue(next as u32, at);
                next += 1;
            }
        }
        let stable = list.stable;
        self.order.extend(graph.tail().map(|node| node as u32));
        Some(Found { stable })
    }
}

struct List<'a> {
    slots: &'a Slots,
    present: Present<'a>,
    weights: &'a Weights,
    plain: bool,
    /// Whether somebody wants short chains first.
    short_first: bool,
    /// Whether conflicts, rewriting and waiting only take from the score.
    most_is_chain: bool,
    machine: MachineState<'a>,
    state: &'a mut Scheduler,
    stable: bool,
    /// How many of the first loads have not issued, if others wait for that.
    loads: u32,
}

impl List<'_> {
    /// Makes a node a candidate that no edge holds back.
    fn offer(&mut self, node: u32) {
        if self.loads > 0 && self.present.early.waits(node) {
            self.state.aside.push(node);
            return;
        }
        let mut ready = self.state.pending[node as usize].ready;
        if let Some(line) = self.present.holds.line(node) {
            let (missing, all) = self.state.held[line];
            if missing > 0 {
                self.state.parked.push(node);
                return;
            }
            ready = ready.max(all);
        }
        if ready <= self.machine.clock.next {
            self.put(node);
        } else {
            let waits = u64::from(ready) << 32 | u64::from(node);
            self.state.waiting.push(Reverse(waits));
        }
    }

    /// Puts a node into the tree.
    fn put(&mut self, node: u32) {
        let key = self.key(node);
        let at = self.state.tree.partition_point(|known| *known < key);
        self.state.tree.insert(at, key);
    }

    /// An instruction has issued that lines may wait for: the stores of those that are complete become candidates.
    fn release(&mut self, node: u32) {
        let mut complete = false;
        for line in self.present.holds.waiting_for(node) {
            let missing = &mut self.state.held[line].0;
            *missing = missing.saturating_sub(1);
            complete |= *missing == 0;
        }
        if complete {
            self.offer_parked();
        }
    }

    fn offer_parked(&mut self) {
        for node in std::mem::take(&mut self.state.parked) {
            self.offer(node);
        }
    }

    fn offer_aside(&mut self) {
        for node in std::mem::take(&mut self.state.aside) {
            self.offer(node);
        }
    }

    fn key(&self, node: u32) -> u64 {
        let height = self.present.heights[node as usize];
        // The score grows with the height unless somebody wants short chains first.
        let height = if self.short_first { !height } else { height };
        u64::from(height) << 32 | u64::from(!self.present.ranks[node as usize])
    }

    /// The node with this key.
    fn node(&self, key: u64) -> u32 {
        self.present.order[!(key as u32) as usize]
    }

    /// What the node with this key asks for.
    fn asks(&self, key: u64) -> Asks {
        self.state.asks[!(key as u32) as usize]
    }

    /// The height in a key.
    fn height(&self, key: u64) -> u32 {
        let height = (key >> 32) as u32;
        if self.short_first { !height } else { height }
    }

    /// Takes the best candidate out of the tree: which it is, and when it issues.
    fn choose(&mut self) -> Option<(u32, u32)> {
        loop {
            let now = self.machine.clock.next;
            let mut soonest = None;
            while let Some(&Reverse(waits)) = self.state.waiting.peek() {
                let ready = (waits >> 32) as u32;
                if ready > now {
                    soonest = Some(ready);
                    break;
                }
                self.state.waiting.pop();
                self.put(waits as u32);
            }
            let Some((at, issue)) = self.evaluate(now) else {
                // Nothing can issue: time passes.
                match soonest {
                    Some(soonest) => self.machine.clock.next = soonest,
                    None if !self.state.aside.is_empty() => {
                        self.loads = 0;
                        self.offer_aside();
                    }
                    None if self.state.parked.is_empty() => return None,
                    None => {
                        // Lines that wait for each other.
                        self.state.held.fill((0, 0));
                        self.stable = false;
                        self.offer_parked();
                    }
                }
                continue;
            };
            // Something else may be there before the unit is free.
            if let Some(soonest) = soonest
                && issue > soonest
            {
                self.machine.clock.next = soonest;
                self.stable = false;
                continue;
            }
            let key = self.state.tree.remove(at);
            return Some((self.node(key), issue));
        }
    }

    /// The candidate with the best score: its place in the tree, and when it issues. All of them stay in the tree. What they need is
    /// there: their units alone can hold them back.
    fn evaluate(&mut self, now: u32) -> Option<(usize, u32)> {
        let count = self.state.tree.len();
        if count > LOOKED_AT {
            self.stable = false;
        }
        let last = self.machine.last.map(|node| self.slots.of(node));
        let first = count.saturating_sub(LOOKED_AT);
        let cache = self.machine.cache_at(now);
        let most = self.weights.reuse.max(0.0) * f64::from(cache.kept());
        let mut best: Option<(usize, f64, u32)> = None;
        for (index, &key) in self.state.tree[first..].iter().enumerate().rev() {
            let height = self.height(key);
            if let Some((_, known, _)) = best {
                let chain = self.weights.chain * f64::from(height);
                if known >= chain + most {
                    break;
                }
                // Its unit may be busy; only sources in the cache could make up for that.
                if self.most_is_chain {
                    let asks = self.asks(key);
                    let bound = chain - self.weights.stall * self.machine.busy(asks.unit);
                    if known >= bound && (known >= bound + most || !cache.has_any(asks.row)) {
                        continue;
                    }
                }
            }
            let slot = self.slots.of(self.node(key));
            let at = self.machine.at(slot, now);
            let score = self.score(slot, last, height, at, now);
            if best.is_none_or(|(_, known, _)| score > known) {
                best = Some((first + index, score, at));
            }
        }
        best.map(|(index, _, at)| (index, at))
    }

    fn score(&self, slot: &Slot, last: Option<&Slot>, height: u32, at: u32, now: u32) -> f64 {
        let (step, rewrites) = if self.plain {
            let step = Step {
                at,
                conflicts: 0,
                hits: 0,
            };
            (step, false)
        } else {
            let rewrites = last.is_some_and(|last| self.slots.rewrites(last, slot));
            (self.machine.step(slot, at), rewrites)
        };
        self.weights.score(height, step, rewrites, now)
    }

    fn issue(&mut self, node: u32, at: u32) {
        let slot = self.slots.of(node);
        let conflicts = self.machine.step(slot, at).conflicts;
        self.machine.issue(node, slot, at, conflicts);
        self.state.order.push(node);
        if self.loads > 0 && self.present.early.is_load(node) {
            self.loads -= 1;
            if self.loads == 0 {
                self.offer_aside();
            }
        }
        let lines = !self.state.held.is_empty();
        for wait in self.present.chains.behind(node) {
            let there = at + wait.cycles;
            let pending = &mut self.state.pending[wait.node as usize];
            pending.ready = pending.ready.max(there);
            pending.missing -= 1;
            let free = pending.missing == 0;
            if lines && let Some(line) = self.present.holds.line(wait.node) {
                let all = &mut self.state.held[line].1;
                *all = (*all).max(there);
            }
            if free {
                self.offer(wait.node);
            }
        }
        if lines {
            self.release(node);
        }
    }
}
