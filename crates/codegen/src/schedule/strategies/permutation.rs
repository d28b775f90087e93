//! Exhaustive search: every order of a small block.
//!
//! Depth-first over all orders that the graph allows, the most urgent instruction first, with what an order costs so far carried along. A
//! branch is left when even without any further stall it could not beat the best order found, or when it exceeds a limit. The search ends
//! with an order that no other can beat, since it takes no longer than the critical path or the issue slots alone. At most [`STEPS`]
//! instructions are placed; what was found until then counts.
//!
//! Where an order is known, the search starts from it and looks for a quicker one. It places [`STEPS_PER_CYCLE`] instructions for each cycle that
//! could be gained: the list scheduler finds the quickest order of nearly all small blocks (in the torch.compile corpus of 666 of
//! 669), and nothing but a search would tell that there is none.
//!
//! There is one state, in which an instruction is placed and taken back. Sets of nodes are bits of a word: the block is small.

use super::{PERMUTED, Task, issued};
use crate::clock::{self, Clock};
use crate::schedule::graph::Node;
use crate::schedule::live::Counts;
use orias_ori::Class;

/// How many placements are tried.
const STEPS: u32 = 1_500;

/// How many are tried, for each cycle that could be gained, to find something quicker than an order that is known.
const STEPS_PER_CYCLE: u32 = 4;

/// Nodes, pseudo-operations included, a block may have: the depth of the search, and the bits of a set.
const NODES: usize = 40;

struct Search<'a> {
    task: &'a Task<'a>,
    /// What the best order costs that was found, or is known.
    least: u32,
    best: Option<Vec<u32>>,
    /// How many more placements are tried.
    steps: u32,
    /// Cycles that no order can go below.
    floor: u32,
    /// The nodes that may move, the most urgent first.
    by_urgency: Vec<u32>,
    /// Pseudo-operations among them.
    pseudo: u64,
    // The state.
    order: Vec<u32>,
    /// The nodes that are not placed, the tail's among them.
    unplaced: u64,
    /// Those of them that may move and that no edge holds back.
    ready: u64,
    waits: [u32; NODES],
    ready_at: [u32; NODES],
    clock: Clock,
    /// Slots that those take that are not placed and may move.
    slots: u32,
    /// By value: readers that are still to come.
    remaining: Vec<u32>,
    live: Counts,
    /// Old entries of `ready_at`.
    log: Vec<(u32, u32)>,
}

/// What taking a placement back restores.
struct Placed {
    node: u32,
    clock: Clock,
    live: Counts,
    log: usize,
}

/// The cheapest order, if the block is small.
pub(super) fn permute(task: &Task<'_>) -> Option<Vec<u32>> {
    let graph = task.graph;
    let runs = graph.nodes.iter().any(|node| node.with_previous);
    if issued(graph) > PERMUTED || graph.len() > NODES || runs {
        return None;
    }
    let mut by_urgency: Vec<u32> = graph.body().map(|node| node as u32).collect();
    by_urgency.sort_by_key(|&node| (task.timeline.latest[node as usize], node));
    let mut waits = [0; NODES];
    for (node, waits) in waits.iter_mut().enumerate().take(graph.len()) {
        *waits = graph.preds(node).len() as u32;
    }
    let nodes = |wanted: &dyn Fn(usize) -> bool| {
        let wanted = graph.body().filter(|node| wanted(*node));
        wanted.fold(0u64, |set, node| set | 1 << node)
    };
    let values = task.values;
    let mut search = Search {
        task,
        least: u32::MAX,
        best: None,
        steps: STEPS,
        floor: 0,
        by_urgency,
        pseudo: nodes(&|node| graph.nodes[node].is_pseudo()),
        order: Vec::with_capacity(graph.len()),
        unplaced: (1 << graph.len()) - 1,
        ready: nodes(&|node| waits[node] == 0),
        waits,
        ready_at: [0; NODES],
        clock: Clock::new(1),
        remaining: (0..values.len() as u32)
            .map(|value| values.users(value).len() as u32)
            .collect(),
        live: values.entry(),
        log: Vec::new(),
        slots: graph.body().map(|node| slots(&graph.nodes[node])).sum(),
    };
    search.floor = search.bound();
    if let Some(known) = task.known {
        search.least = search.cost(known);
        search.steps = STEPS.min(STEPS_PER_CYCLE * search.least.saturating_sub(search.floor));
    }
    search.descend();
    let mut order = search.best?;
    order.extend(graph.tail().map(|node| node as u32));
    Some(order)
}

/// Cycles from the issue of an instruction to that of the next, at least.
fn slots(node: &Node) -> u32 {
    match node.is_pseudo() {
        true => 0,
        false => clock::slots(&node.issue, 1),
    }
}

impl Search<'_> {
    /// What an order costs. Leaves the state as it was.
    fn cost(&mut self, order: &[u32]) -> u32 {
        let body = &order[..self.task.graph.body().end];
        let mut placed: Vec<Placed> = Vec::with_capacity(body.len());
        for &node in body {
            let (_, live) = self.needs(node);
            placed.push(self.place(node, live));
        }
        let cost = self.bound();
        while let Some(last) = placed.pop() {
            self.take_back(last);
        }
        cost
    }

    /// As deep as the block has nodes, at most [`NODES`]. Leaves the state as it was.
    fn descend(&mut self) {
        // Pseudo-operations change nothing: they go when they can.
        if self.ready & self.pseudo != 0 {
            let node = (self.ready & self.pseudo).trailing_zeros();
            let (_, live) = self.needs(node);
            let placed = self.place(node, live);
            self.descend();
            self.take_back(placed);
            return;
        }
        let ready = self.ready;
        if ready == 0 {
            let cost = self.bound();
            if cost < self.least {
                self.least = cost;
                self.best = Some(self.order.clone());
            }
            return;
        }
        for index in 0..self.by_urgency.len() {
            let node = self.by_urgency[index];
            if ready >> node & 1 == 0 {
                continue;
            }
            if self.least <= self.floor || self.steps == 0 {
                return;
            }
            self.steps -= 1;
            let (most, live) = self.needs(node);
            let limits = &self.task.settings.limits;
            if most.iter().zip(limits).any(|(most, limit)| most > limit) {
                continue;
            }
            let placed = self.place(node, live);
            let bound = self.bound();
            if bound < self.least {
                self.descend();
            }
            self.take_back(placed);
        }
    }

    /// The most registers that are live while `node` runs if it is next, and those behind it.
    fn needs(&self, node: u32) -> (Counts, Counts) {
        let values = self.task.values;
        let mut after = self.live;
        for &value in values.uses(node as usize) {
            if self.remaining[value as usize] == 1 && !values.is_live_out(value) {
                let (class, width) = values.kind(value);
                after[class as usize] -= width;
            }
        }
        let mut dead: Counts = [0; 5];
        for &value in values.defs(node as usize) {
            let (class, width) = values.kind(value);
            if values.is_live_out(value) || self.remaining[value as usize] > 0 {
                after[class as usize] += width;
            } else {
                dead[class as usize] += width;
            }
        }
        let most = Class::ALL.map(|class| {
            let class = class as usize;
            (after[class] + dead[class]).max(self.live[class])
        });
        (most, after)
    }

    /// Places `node`, behind which these registers are live.
    fn place(&mut self, node: u32, live: Counts) -> Placed {
        let placed = Placed {
            node,
            clock: self.clock,
            live: std::mem::replace(&mut self.live, live),
            log: self.log.len(),
        };
        let graph = self.task.graph;
        let index = node as usize;
        let own = &graph.nodes[index];
        let start = if own.is_pseudo() {
            self.ready_at[index]
        } else {
            let start = self.clock.at(own.issue.unit, self.ready_at[index]);
            own.issue_on(&mut self.clock, start);
            start
        };
        self.slots -= slots(own);
        self.order.push(node);
        self.unplaced &= !(1 << node);
        self.ready &= !(1 << node);
        for &value in self.task.values.uses(index) {
            self.remaining[value as usize] -= 1;
        }
        for edge in graph.succs(index) {
            let to = edge.to as usize;
            self.waits[to] -= 1;
            if self.waits[to] == 0 && graph.body().contains(&to) {
                self.ready |= 1 << to;
            }
            let at = start + u32::from(edge.latency);
            if at > self.ready_at[to] {
                self.log.push((edge.to, self.ready_at[to]));
                self.ready_at[to] = at;
            }
        }
        placed
    }

    /// Takes the last placement back.
    fn take_back(&mut self, placed: Placed) {
        let graph = self.task.graph;
        while self.log.len() > placed.log
            && let Some((node, at)) = self.log.pop()
        {
            self.ready_at[node as usize] = at;
        }
        for edge in graph.succs(placed.node as usize) {
            self.waits[edge.to as usize] += 1;
            self.ready &= !(1 << edge.to);
        }
        for &value in self.task.values.uses(placed.node as usize) {
            self.remaining[value as usize] += 1;
        }
        self.slots += slots(&graph.nodes[placed.node as usize]);
        self.order.pop();
        self.unplaced |= 1 << placed.node;
        self.ready |= 1 << placed.node;
        self.clock = placed.clock;
        self.live = placed.live;
    }

    /// Cycles that no completion of the order can go below.
    fn bound(&self) -> u32 {
        let heights = &self.task.timeline.height;
        let now = self.clock.next;
        let mut bound = now + self.slots;
        let mut left = self.unplaced;
        while left != 0 {
            let node = left.trailing_zeros() as usize;
            left &= left - 1;
            bound = bound.max(self.ready_at[node].max(now) + heights[node]);
        }
        bound
    }
}
