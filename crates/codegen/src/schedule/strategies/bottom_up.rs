//! Bottom-up register reduction: from the last instruction to the first, always the one that leaves the fewest registers live above it.
//!
//! An instruction may stand where all that must come behind it does. Above it, its results are not live any more, and what it reads is. So a load stands right above its first
//! reader, since that takes registers away, and of several sums those come together that share what they read: where a product is unrolled and all of its loads come first, this finds the order
//! in which few of them are live at a time. Between equals the one that was found last goes on, so that chains are followed to their loads, and then the later one in the program.
//!
//! What adds to the live registers is taken only if it is among the last [`WINDOW`] instructions of the program that have no place yet: a barrier at the end, which nobody would choose for its own sake, lets
//! the loads before it go where they are read.
//!
//! Latencies are not hidden: an order to begin with, like `depth-first`. Each value becomes live once, and each of those is a look at its readers: linear but for the queue's logarithm.

use super::Task;
use orias_ori::Class;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// How far up what adds to the live registers may come from.
const WINDOW: usize = 32;

/// The order.
pub(super) fn schedule(task: &Task<'_>) -> Option<Vec<u32>> {
    let graph = task.graph;
    let body = graph.body();
    // What goes directly behind something else is placed with it: the last of such a run stands for all of it.
    let mut last: Vec<usize> = (0..graph.len()).collect();
    for node in body.clone().rev().skip(1) {
        if body.contains(&(node + 1)) && graph.nodes[node + 1].with_previous {
            last[node] = last[node + 1];
        }
    }
    let mut waiting: Vec<u32> = vec![0; graph.len()];
    for node in 0..graph.len() {
        let behind = graph.succs(node);
        let others = behind.filter(|edge| last[edge.to as usize] != last[node]);
        waiting[last[node]] += others.count() as u32;
    }
    let mut growth = Growth::new(task);
    // What the queue was told of each.
    let mut told = growth.of.clone();
    let mut found: Vec<u32> = vec![0; graph.len()];
    let mut clock = 0;
    let mut ready: BTreeSet<(i32, Reverse<u32>, Reverse<u32>)> = BTreeSet::new();
    for node in body.clone() {
        if waiting[node] == 0 && last[node] == node {
            ready.insert((told[node], Reverse(0), Reverse(node as u32)));
        }
    }
    let mut order: Vec<u32> = Vec::with_capacity(graph.len());
    let mut high = body.end;
    let mut tail = graph.tail().rev();
    let mut changed: Vec<u32> = Vec::new();
    loop {
        let next = match tail.next() {
            Some(node) => node,
            None => {
                while high > 0 && growth.placed[high - 1] {
                    high -= 1;
                }
                let Some(&first) = ready.first() else {
                    break;
                };
                let best = match first.0 <= 0 {
                    true => first,
                    false => {
                        let window = high.saturating_sub(WINDOW)..high;
                        let near = window.map(|node| last[node]).filter_map(|node| {
                            let key = (told[node], Reverse(found[node]), Reverse(node as u32));
                            ready.contains(&key).then_some(key)
                        });
                        near.min().unwrap_or(first)
                    }
                };
                ready.remove(&best);
                best.2.0 as usize
            }
        };
        let mut member = next;
        loop {
            order.push(member as u32);
            clock += 1;
            changed.clear();
            growth.place(member as u32, &mut changed);
            for &node in &changed {
                let at = node as usize;
                let before = std::mem::replace(&mut told[at], growth.of[at]);
                if ready.remove(&(before, Reverse(found[at]), Reverse(node))) {
                    ready.insert((told[at], Reverse(found[at]), Reverse(node)));
                }
            }
            for edge in graph.preds(member) {
                let from = last[edge.from as usize];
                if from == last[member] {
                    continue;
                }
                waiting[from] -= 1;
                if waiting[from] == 0 && body.contains(&from) {
                    found[from] = clock;
                    ready.insert((told[from], Reverse(clock), Reverse(from as u32)));
                }
            }
            if member == 0 || last[member - 1] != next {
                break;
            }
            member -= 1;
        }
    }
    order.reverse();
    (order.len() == graph.len()).then_some(order)
}

/// By how many registers the live ones grow if an instruction is placed next, above all that have been.
struct Growth<'a> {
    task: &'a Task<'a>,
    of: Vec<i32>,
    live: Vec<bool>,
    placed: Vec<bool>,
    /// By value: who makes it, if somebody of the block does.
    maker: Vec<Option<u32>>,
}

impl<'a> Growth<'a> {
    fn new(task: &'a Task<'a>) -> Self {
        let (graph, values) = (task.graph, task.values);
        let mut this = Growth {
            task,
            of: vec![0; graph.len()],
            live: (0..values.len() as u32)
                .map(|value| values.is_live_out(value))
                .collect(),
            placed: vec![false; graph.len()],
            maker: vec![None; values.len()],
        };
        for node in 0..graph.len() {
            for &value in values.defs(node) {
                this.maker[value as usize] = Some(node as u32);
                if this.live[value as usize] {
                    this.of[node] -= this.width(value);
                }
            }
            for &value in values.uses(node) {
                if !this.live[value as usize] {
                    this.of[node] += this.width(value);
                }
            }
        }
        this
    }

    /// Registers of the files that run out.
    fn width(&self, value: u32) -> i32 {
        match self.task.values.kind(value) {
            (Class::R | Class::P, width) => width,
            _ => 0,
        }
    }

    /// `node` is placed; says whose growth is another now.
    fn place(&mut self, node: u32, changed: &mut Vec<u32>) {
        self.placed[node as usize] = true;
        let values = self.task.values;
        for &value in values.uses(node as usize) {
            if std::mem::replace(&mut self.live[value as usize], true) {
                continue;
            }
            let width = self.width(value);
            if width == 0 {
                continue;
            }
            let readers = values.users(value).iter().copied();
            for other in readers.chain(self.maker[value as usize]) {
                if !self.placed[other as usize] {
                    self.of[other as usize] -= width;
                    changed.push(other);
                }
            }
        }
    }
}
