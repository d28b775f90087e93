//! Ways to find an order, and which one a block gets.
//!
//! | strategy | what it does |
//! | --- | --- |
//! | `pressure` | the engine in ReduceReg mode: fewest live registers |
//! | `latency` | the engine in ILP mode: most latency hidden within the budget |
//! | `batch` | the engine in DynBatch mode |
//! | `permutation` | every order of a small block, best first, until none can be better |
//! | `backtracking` | a list scheduler that takes choices back when they stall or exceed the budget |
//! | `depth-first` | each result right before its reader, deepest chain first |
//! | `loop` | `latency`, with chains that go on in the next trip counted in full |
//! | `tensor` | `batch`, for blocks with matrix operations in loops |
//! | `prefetch` | `latency`, with loads from global memory first of all |
//!
//! [`select`] is ptxas's cascade of heuristics, by the size and the kind of a block. Its choice competes with what the three modes found: whoever's order is estimated cheapest wins, so a
//! strategy that does not pay costs compile time and nothing else. Knob `SchedStrategy` names one to be used alone, or
//! `combined`, which tries them all.

mod backtracking;
mod depth_first;
mod permutation;

use super::engine::{self, Settings};
use super::graph::{Graph, Timeline};
use super::live::{BlockValues, Counts};
use super::priority::Mode;
use super::units::Pipe;
use orias_sass::Space;

/// Blocks of at most so many instructions are permuted.
pub const PERMUTED: usize = 12;

/// A dependence from one trip of a loop to the next: the node that makes a value, a node that reads it a trip later, and the cycles
/// between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Who makes it.
    pub from: u32,
    /// Who reads it in the next trip.
    pub to: u32,
    /// Cycles from issue to issue.
    pub latency: u16,
}

/// What a strategy is given.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// What must stay in order.
    pub graph: &'a Graph,
    /// When things can happen.
    pub timeline: &'a Timeline,
    /// What is live.
    pub values: &'a BlockValues,
    /// An order that keeps the limits.
    pub reference: &'a [u32],
    /// The quickest order found so far, where the strategy competes with it: only a quicker one is of use.
    pub known: Option<&'a [u32]>,
    /// Limits and what the knobs say.
    pub settings: Settings,
    /// Dependences on the trip before, if the block is a loop by itself.
    pub carried: &'a [Carried],
    /// Whether the block is in a loop.
    pub in_loop: bool,
    /// How much to optimise.
    pub opt_level: u8,
}

/// A way to find an order.
#[derive(Clone, Copy, Debug)]
pub struct Strategy {
    /// What reports and the knob call it.
    pub name: &'static str,
    /// Finds an order; none if the block is not one it works on.
    pub run: fn(&Task<'_>) -> Option<Found>,
}

/// An order that a strategy found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The nodes in their order.
    pub order: Vec<u32>,
    /// The most registers live at a time, by class.
    pub peak: Counts,
}

impl Found {
    fn new(task: &Task<'_>, order: Vec<u32>) -> Found {
        let peak = task.values.peak(order.iter().copied());
        Found { order, peak }
    }
}

/// Every strategy.
pub const STRATEGIES: &[Strategy] = &[
    Strategy {
        name: "pressure",
        run: pressure,
    },
    Strategy {
        name: "latency",
        run: latency,
    },
    Strategy {
        name: "batch",
        run: batch,
    },
    Strategy {
        name: "permutation",
        run: |task| permutation::permute(task).map(|order| Found::new(task, order)),
    },
    Strategy {
        name: "backtracking",
        run: |task| backtracking::schedule(task).map(|order| Found::new(task, order)),
    },
    Strategy {
        name: "depth-first",
        run: |task| depth_first::schedule(task).map(|order| Found::new(task, order)),
    },
    Strategy {
        name: "loop",
        run: loop_aware,
    },
    Strategy {
        name: "tensor",
        run: tensor,
    },
    Strategy {
        name: "prefetch",
        run: prefetch,
    },
];

/// The strategy of that name.
pub fn find(name: &str) -> Option<&'static Strategy> {
    STRATEGIES.iter().find(|strategy| strategy.name == name)
}

/// ptxas's cascade of heuristics, without what no target of ours has (dual issue); software pipelining has had its turn before any order is looked for.
pub fn select(task: &Task<'_>) -> &'static str {
    let tensor = task
        .graph
        .nodes
        .iter()
        .any(|node| node.pipe == Pipe::Tensor);
    if task.in_loop && task.opt_level >= 3 {
        return if tensor { "tensor" } else { "loop" };
    }
    if issued(task.graph) <= PERMUTED {
        return "permutation";
    }
    match task.settings.mode {
        Mode::ReduceReg => "pressure",
        Mode::Ilp => "latency",
        Mode::DynBatch => "backtracking",
    }
}

/// Instructions that take a slot and may move.
pub fn issued(graph: &Graph) -> usize {
    let body = &graph.nodes[graph.body()];
    body.iter().filter(|node| !node.is_pseudo()).count()
}

fn with_mode(task: &Task<'_>, mode: Mode, timeline: &Timeline) -> Option<Found> {
    let settings = Settings {
        mode,
        ..task.settings
    };
    let outcome = engine::schedule(task.graph, timeline, task.values, task.reference, &settings);
    Some(Found {
        order: outcome.order,
        peak: outcome.peak,
    })
}

fn pressure(task: &Task<'_>) -> Option<Found> {
    with_mode(task, Mode::ReduceReg, task.timeline)
}

fn latency(task: &Task<'_>) -> Option<Found> {
    with_mode(task, Mode::Ilp, task.timeline)
}

fn batch(task: &Task<'_>) -> Option<Found> {
    with_mode(task, Mode::DynBatch, task.timeline)
}

/// A chain that ends in a value for the next trip goes on there: its height is what the reader's is then.
fn loop_aware(task: &Task<'_>) -> Option<Found> {
    if task.carried.is_empty() {
        return None;
    }
    let mut base = vec![0u32; task.graph.len()];
    for carried in task.carried {
        let beyond = u32::from(carried.latency) + task.timeline.height[carried.to as usize];
        let slot = &mut base[carried.from as usize];
        *slot = (*slot).max(beyond);
    }
    let timeline = Timeline::with_heights(task.graph, &base);
    with_mode(task, Mode::Ilp, &timeline)
}

fn tensor(task: &Task<'_>) -> Option<Found> {
    let any = task
        .graph
        .nodes
        .iter()
        .any(|node| node.pipe == Pipe::Tensor);
    any.then(|| with_mode(task, Mode::DynBatch, task.timeline))?
}

/// Loads from global memory, and all that leads to them, go before everything else.
fn prefetch(task: &Task<'_>) -> Option<Found> {
    let first = task.timeline.length;
    let base: Vec<u32> = task
        .graph
        .nodes
        .iter()
        .map(|node| {
            let global = node.op.is_some_and(|op| {
                let memory = op.row().memory;
                memory.iter().any(|memory| memory.space == Space::Global)
            });
            if node.loads && global { first } else { 0 }
        })
        .collect();
    if base.iter().all(|&height| height == 0) {
        return None;
    }
    let timeline = Timeline::with_heights(task.graph, &base);
    with_mode(task, Mode::Ilp, &timeline)
}
