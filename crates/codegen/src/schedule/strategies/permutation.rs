//! Every order of a small block.
//!
//! Depth-first over all orders that the graph allows, the most urgent instruction first, with what an order costs so far carried along. A
//! branch is left when even without any further stall it could not beat the best order found, or when it exceeds a limit. The search ends
//! with an order that no other can beat, since it takes no longer than the critical path or the issue slots alone. At most [`STEPS`]
//! instructions are placed; what was found until then counts.

use super::{PERMUTED, Task, issued};
use crate::schedule::live::Pressure;
use orias_machine::issue::Unit;
use orias_ori::Class;

/// How many placements are tried.
const STEPS: u32 = 1_500;

/// Nodes, pseudo-operations included, a block may have: the depth of the search.
const NODES: usize = 40;

struct Search<'a> {
    task: &'a Task<'a>,
    best: Option<(u32, Vec<u32>)>,
    steps: u32,
    /// Cycles that no order can go below.
    floor: u32,
    /// States that were left: the next branches are written over them.
    left: Vec<State<'a>>,
}

struct State<'a> {
    order: Vec<u32>,
    waits: Vec<u32>,
    ready_at: Vec<u32>,
    free: [u32; Unit::COUNT],
    now: u32,
    pressure: Pressure<'a>,
}

impl Clone for State<'_> {
    fn clone(&self) -> Self {
        Self {
            order: self.order.clone(),
            waits: self.waits.clone(),
            ready_at: self.ready_at.clone(),
            free: self.free,
            now: self.now,
            pressure: self.pressure.clone(),
        }
    }

    /// Field by field, so that nothing is allocated.
    fn clone_from(&mut self, from: &Self) {
        self.order.clone_from(&from.order);
        self.waits.clone_from(&from.waits);
        self.ready_at.clone_from(&from.ready_at);
        self.free = from.free;
        self.now = from.now;
        self.pressure.clone_from(&from.pressure);
    }
}

/// The cheapest order, if the block is small.
pub(super) fn permute(task: &Task<'_>) -> Option<Vec<u32>> {
    let graph = task.graph;
    let runs = graph.nodes.iter().any(|node| node.with_previous);
    if issued(graph) > PERMUTED || graph.len() > NODES || runs {
        return None;
    }
    let mut search = Search {
        task,
        best: None,
        steps: 0,
        floor: 0,
        left: Vec::new(),
    };
    let mut start = State {
        order: Vec::new(),
        waits: (0..graph.len())
            .map(|node| graph.preds(node).len() as u32)
            .collect(),
        ready_at: vec![0; graph.len()],
        free: [0; Unit::COUNT],
        now: 0,
        pressure: Pressure::new(task.values),
    };
    let slots: u32 = graph
        .body()
        .map(|node| &graph.nodes[node])
        .filter(|node| !node.is_pseudo())
        .map(|node| u32::from(node.least_stall.max(1)))
        .sum();
    search.floor = search.bound(&start).max(slots);
    search.descend(&mut start);
    let (_, mut order) = search.best?;
    order.extend(graph.tail().map(|node| node as u32));
    Some(order)
}

impl<'a> Search<'a> {
    /// As deep as the block has nodes, at most [`NODES`].
    fn descend(&mut self, state: &mut State<'a>) {
        let graph = self.task.graph;
        // Pseudo-operations change nothing: they go when they can.
        while let Some(node) = graph
            .body()
            .find(|&node| graph.nodes[node].is_pseudo() && is_ready(state, node))
        {
            self.place(state, node);
        }
        let mut ready: Vec<usize> = graph.body().filter(|&node| is_ready(state, node)).collect();
        if ready.is_empty() {
            let cost = self.bound(state);
            if self.best.as_ref().is_none_or(|(known, _)| cost < *known) {
                self.best = Some((cost, state.order.clone()));
            }
            return;
        }
        ready.sort_by_key(|&node| (self.task.timeline.latest[node], node));
        for node in ready {
            let done = (self.best.as_ref()).is_some_and(|(known, _)| *known <= self.floor);
            if done || self.steps >= STEPS {
                return;
            }
            self.steps += 1;
            let fits = Class::ALL.into_iter().all(|class| {
                state.pressure.at(node, class) <= self.task.settings.limits[class as usize]
            });
            if !fits {
                continue;
            }
            let mut next = match self.left.pop() {
                Some(mut next) => {
                    next.clone_from(state);
                    next
                }
                None => state.clone(),
            };
            self.place(&mut next, node);
            let bound = self.bound(&next);
            if self.best.as_ref().is_none_or(|(known, _)| bound < *known) {
                self.descend(&mut next);
            }
            self.left.push(next);
        }
    }

    fn place(&self, state: &mut State<'a>, node: usize) {
        let graph = self.task.graph;
        let own = &graph.nodes[node];
        let start = if own.is_pseudo() {
            state.ready_at[node]
        } else {
            let start = state
                .now
                .max(state.ready_at[node])
                .max(state.free[own.unit as usize]);
            for &(unit, cycles) in own.keeps {
                state.free[unit as usize] = start + u32::from(cycles);
            }
            state.now = start + u32::from(own.least_stall.max(1));
            start
        };
        state.order.push(node as u32);
        state.waits[node] = u32::MAX;
        state.pressure.schedule(node, &mut |_| {});
        for edge in graph.succs(node) {
            let to = edge.to as usize;
            state.waits[to] -= 1;
            state.ready_at[to] = state.ready_at[to].max(start + u32::from(edge.latency));
        }
    }

    /// Cycles that no completion of `state` can go below.
    fn bound(&self, state: &State<'_>) -> u32 {
        let graph = self.task.graph;
        let mut bound = state.now;
        for node in 0..graph.len() {
            if state.waits[node] != u32::MAX {
                let start = state.ready_at[node].max(state.now);
                bound = bound.max(start + self.task.timeline.height[node]);
            }
        }
        bound
    }
}

fn is_ready(state: &State<'_>, node: usize) -> bool {
    state.waits[node] == 0
}
