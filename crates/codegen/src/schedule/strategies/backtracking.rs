//! A list scheduler that takes choices back.
//!
//! Before each choice the state is put aside. A choice that stalls for longer than a threshold, or exceeds the limits, is rejected
//! and the next one tried; when all are rejected, the choice before is taken back and rejected in its turn. Not more than
//! `min(10, n / 4)` choices are taken back in a row; then the cheapest is forced. Blocks of at most [`SNAPSHOTS`] instructions: putting
//! the state aside costs as much as the block is long.

use super::Task;
use crate::clock::Clock;
use crate::schedule::frontier::Frontier;
use crate::schedule::live::Pressure;
use orias_ori::Class;

/// Blocks with more nodes are left to the engine.
const SNAPSHOTS: usize = 256;

/// Cycles a choice may stall before another one is tried.
const STALL: u32 = 4;

#[derive(Clone)]
struct State<'a> {
    order: Vec<u32>,
    frontier: Frontier,
    ready: Vec<u32>,
    clock: Clock,
    pressure: Pressure<'a>,
}

/// The order, unless the block is too long or has runs.
pub(super) fn schedule(task: &Task<'_>) -> Option<Vec<u32>> {
    let graph = task.graph;
    if graph.len() > SNAPSHOTS || graph.nodes.iter().any(|node| node.with_previous) {
        return None;
    }
    let most = 10.min(graph.len() / 4);
    let mut state = State {
        order: Vec::new(),
        frontier: Frontier::new(graph),
        ready: Vec::new(),
        clock: Clock::new(1),
        pressure: Pressure::new(task.values),
    };
    state.ready.extend(state.frontier.free());
    // Choices that may still be taken back: the state before each, what was chosen and what has been rejected there.
    let mut taken: Vec<(State<'_>, u32, Vec<u32>)> = Vec::new();
    let mut rejected: Vec<u32> = Vec::new();
    let mut backs = 0;
    while !state.ready.is_empty() {
        let choice = best(task, &state, &rejected);
        let acceptable = choice.filter(|&node| is_acceptable(task, &state, node));
        match (choice, acceptable) {
            (_, Some(node)) => {
                if taken.len() == most.max(1) {
                    taken.remove(0);
                    backs = 0;
                }
                taken.push((state.clone(), node, std::mem::take(&mut rejected)));
                place(task, &mut state, node);
            }
            (Some(node), None) => rejected.push(node),
            (None, None) => match taken.pop() {
                Some((before, node, mut known)) if backs < most => {
                    backs += 1;
                    state = before;
                    known.push(node);
                    rejected = known;
                }
                _ => {
                    // Nothing better can be had: the one that stalls least.
                    let node = *state.ready.iter().min_by_key(|&&node| {
                        (
                            stall(task, &state, node),
                            task.timeline.latest[node as usize],
                            node,
                        )
                    })?;
                    place(task, &mut state, node);
                    rejected.clear();
                    taken.clear();
                    backs = 0;
                }
            },
        }
    }
    let mut order = state.order;
    order.extend(graph.tail().map(|node| node as u32));
    Some(order)
}

fn stall(task: &Task<'_>, state: &State<'_>, node: u32) -> u32 {
    let own = &task.graph.nodes[node as usize];
    if own.is_pseudo() {
        return 0;
    }
    let ready = state.frontier.ready_at(node as usize);
    state.clock.at(own.issue.unit, ready) - state.clock.next
}

fn best(task: &Task<'_>, state: &State<'_>, rejected: &[u32]) -> Option<u32> {
    let left = state.ready.iter().filter(|node| !rejected.contains(node));
    left.copied().min_by_key(|&node| {
        let stalls = stall(task, state, node);
        (
            stalls > 0,
            task.timeline.latest[node as usize] + stalls,
            node,
        )
    })
}

fn is_acceptable(task: &Task<'_>, state: &State<'_>, node: u32) -> bool {
    stall(task, state, node) <= STALL
        && Class::ALL.into_iter().all(|class| {
            state.pressure.at(node as usize, class) <= task.settings.limits[class as usize]
        })
}

fn place<'a>(task: &Task<'a>, state: &mut State<'a>, node: u32) {
    let graph = task.graph;
    let own = &graph.nodes[node as usize];
    let ready = state.frontier.ready_at(node as usize);
    let start = if own.is_pseudo() {
        ready
    } else {
        let start = state.clock.at(own.issue.unit, ready);
        own.issue_on(&mut state.clock, start);
        start
    };
    state.order.push(node);
    state.ready.retain(|&other| other != node);
    state.pressure.schedule(node as usize, &mut |_| {});
    for edge in graph.succs(node as usize) {
        let to = edge.to as usize;
        if (state.frontier).meet(to, start + u32::from(edge.latency)) {
            state.ready.push(edge.to);
        }
    }
}
