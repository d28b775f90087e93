//! The static cost model: how long an order takes, as far as that can be said without running it.
//!
//! An instruction issues when the one before it has, its operands are there and its unit is free. Latencies are those of the graph's
//! edges.
//!
//! Warps that share a scheduler take turns (`crate::clock`): with sixteen of them nobody notices the four cycles after an addition, but
//! whatever stands before a load delays that load sixteenfold. An order is estimated for a warp alone and for several ([`Estimate::product`]),
//! since nobody knows how many a launch will bring.

use super::graph::Graph;
use super::units::{Pipe, Usage};
use crate::clock::Clock;

/// What an order costs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Cycles from the first issue to the end of the block, of a warp alone.
    pub cycles: u32,
    /// The same when several take turns.
    pub together: u32,
    /// Cycles in which something issued or had to be left free behind it.
    pub busy: u32,
    /// Use of each pipe.
    pub usage: Usage,
}

impl Estimate {
    /// Cycles of a warp alone times cycles of several: what orders are compared by. A tenth of both is as much as a fifth of one.
    pub fn product(&self) -> u64 {
        u64::from(self.cycles) * u64::from(self.together)
    }

    /// The geometric mean of cycles alone and together.
    pub fn mean(&self) -> f64 {
        (self.product() as f64).sqrt()
    }
}

/// A cycle of a warp alone, and of several that take turns.
type Both = [u32; 2];

/// The later of the two, each for itself.
fn later(a: Both, b: Both) -> Both {
    [a[0].max(b[0]), a[1].max(b[1])]
}

/// So many cycles later.
fn after(at: Both, cycles: u32) -> Both {
    [at[0] + cycles, at[1] + cycles]
}

/// Estimates `order` for a warp alone and for `warps` of them, by playing it through.
pub fn estimate(graph: &Graph, order: impl IntoIterator<Item = u32>, warps: u32) -> Estimate {
    let mut start: Vec<Both> = vec![[0; 2]; graph.len()];
    let mut clocks = [Clock::new(1), Clock::new(warps)];
    let mut busy = 0u32;
    let mut usage = Usage::default();
    for node in order {
        let node = node as usize;
        let own = &graph.nodes[node];
        let mut ready: Both = [0; 2];
        for edge in graph.preds(node) {
            let there = after(start[edge.from as usize], u32::from(edge.latency));
            ready = later(ready, there);
        }
        if own.is_pseudo() {
            start[node] = ready;
            continue;
        }
        for (clock, (start, ready)) in (clocks.iter_mut()).zip(start[node].iter_mut().zip(ready)) {
            *start = clock.at(own.issue.unit, ready);
            own.issue_on(clock, *start);
        }
        let kept = (own.issue.keeps.iter()).filter(|(unit, _)| *unit == own.issue.unit);
        for &(_, cycles) in kept {
            usage.add(own.pipe, u32::from(cycles));
        }
        busy += clocks[0].slots(&own.issue);
    }
    // What is still on its way is somebody else's wait, but only if it comes late: count what fixed latencies leave open.
    let mut end = clocks.map(|clock| clock.next);
    for node in graph.body() {
        let own = &graph.nodes[node];
        if own.leaves && own.fixed {
            end = later(end, after(start[node], u32::from(own.latency)));
        }
        // Nor can somebody go on who waits to be told.
        if own.signals > 0 {
            end = later(end, after(start[node], u32::from(own.signals)));
        }
    }
    Estimate {
        cycles: end[0],
        together: end[1],
        busy,
        usage,
    }
}

/// The cycles of each pipe as a line of text, busiest first.
pub fn describe(usage: &Usage) -> String {
    let mut pipes: Vec<(u32, &str)> = Pipe::ALL
        .into_iter()
        .map(|pipe| (usage.of(pipe), pipe.name()))
        .filter(|(cycles, _)| *cycles > 0)
        .collect();
    pipes.sort_by_key(|&(cycles, name)| (std::cmp::Reverse(cycles), name));
    pipes
        .iter()
        .map(|(cycles, name)| format!("{name} {cycles}"))
        .collect::<Vec<_>>()
        .join(", ")
}
