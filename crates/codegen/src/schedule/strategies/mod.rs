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
//! | `bottom-up` | from the end, whatever leaves the fewest registers live |
//! | `loop` | `latency`, with loop-carried chains counted in full |
//! | `tensor` | `batch`, for blocks with matrix operations |
//! | `prefetch` | `latency`, with loads from global memory first of all |
//! | `units` | a mode of the engine, with heights that count units (`units.rs`) |
//! | `spread` | the same, and what many wait for comes earlier |
//!
//! [`select`] is ptxas's cascade of heuristics, by the size and the kind of a block. Its choice competes with what the three modes found:
//! whoever's order is estimated cheapest wins, so a strategy that does not pay costs compile time and nothing else. Knob `SchedStrategy` names one to be used alone, or
//! `combined`, which tries them all.

mod backtracking;
mod bottom_up;
mod depth_first;
mod permutation;
mod units;

use super::engine::{self, Settings};
use super::graph::{Graph, Timeline};
use super::live::{BlockValues, Counts};
use super::priority::Mode;
use super::units::Pipe;
use orias_ori::Class;
use orias_sass::Space;
use std::ops::RangeInclusive;

/// Blocks of at most so many instructions are permuted.
pub const PERMUTED: usize = 12;

/// A dependence from one iteration of a loop to the next: the node that makes a value, a node that reads it an iteration later, and the cycles
/// between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Who makes it.
    pub from: u32,
    /// Who reads it in the next iteration.
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
    /// Dependences on the iteration before, if the block is a loop by itself.
    pub carried: &'a [Carried],
}

/// A way to find an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The engine in ReduceReg mode.
    Pressure,
    /// The engine in ILP mode.
    Latency,
    /// The engine in DynBatch mode.
    Batch,
    /// Branch and bound over all orders of a small block.
    Permutation,
    /// A list scheduler that takes choices back.
    Backtracking,
    /// Each result right before its reader.
    DepthFirst,
    /// From the end, whatever leaves the fewest registers live.
    BottomUp,
    /// ILP, with loop-carried chains.
    Loop,
    /// DynBatch, for blocks with matrix operations.
    Tensor,
    /// ILP, with loads from global memory first.
    Prefetch,
    /// A mode, with what units take counted in heights.
    Units,
    /// The same, and what many wait for earlier.
    Spread,
}

/// An order that a strategy found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The nodes in their order.
    pub order: Vec<u32>,
    /// The most registers live at a time, by class.
    pub peak: Counts,
    /// With how many general registers the order is known to be the same.
    pub same: RangeInclusive<i32>,
}

impl Found {
    fn new(task: &Task<'_>, order: Vec<u32>) -> Found {
        let peak = task.values.peak(order.iter().copied());
        let limit = task.settings.limits[Class::R as usize];
        Found {
            order,
            peak,
            same: limit..=limit,
        }
    }
}

impl Strategy {
    /// Every strategy.
    pub const ALL: [Strategy; 12] = [
        Strategy::Pressure,
        Strategy::Latency,
        Strategy::Batch,
        Strategy::Permutation,
        Strategy::Backtracking,
        Strategy::DepthFirst,
        Strategy::BottomUp,
        Strategy::Loop,
        Strategy::Tensor,
        Strategy::Prefetch,
        Strategy::Units,
        Strategy::Spread,
    ];

    /// What reports and the knob call it.
    pub const fn name(self) -> &'static str {
        match self {
            Strategy::Pressure => "pressure",
            Strategy::Latency => "latency",
            Strategy::Batch => "batch",
            Strategy::Permutation => "permutation",
            Strategy::Backtracking => "backtracking",
            Strategy::DepthFirst => "depth-first",
            Strategy::BottomUp => "bottom-up",
            Strategy::Loop => "loop",
            Strategy::Tensor => "tensor",
            Strategy::Prefetch => "prefetch",
            Strategy::Units => "units",
            Strategy::Spread => "spread",
        }
    }

    /// The strategy of that name.
    pub fn named(name: &str) -> Option<Strategy> {
        let mut all = Strategy::ALL.into_iter();
        all.find(|strategy| strategy.name() == name)
    }

    /// The one that is the engine in a mode and nothing else.
    pub const fn of_mode(mode: Mode) -> Strategy {
        match mode {
            Mode::ReduceReg => Strategy::Pressure,
            Mode::Ilp => Strategy::Latency,
            Mode::DynBatch => Strategy::Batch,
        }
    }

    /// Finds an order; none if the block is not one it works on.
    pub fn run(self, task: &Task<'_>) -> Option<Found> {
        let found = |order| Found::new(task, order);
        match self {
            Strategy::Pressure => Some(with_mode(task, Mode::ReduceReg, task.timeline)),
            Strategy::Latency => Some(with_mode(task, Mode::Ilp, task.timeline)),
            Strategy::Batch => Some(with_mode(task, Mode::DynBatch, task.timeline)),
            Strategy::Permutation => permutation::permute(task).map(found),
            Strategy::Backtracking => backtracking::schedule(task).map(found),
            Strategy::DepthFirst => depth_first::schedule(task).map(found),
            Strategy::BottomUp => bottom_up::schedule(task).map(found),
            Strategy::Loop => loop_aware(task),
            Strategy::Tensor => {
                has_matrix(task.graph).then(|| with_mode(task, Mode::DynBatch, task.timeline))
            }
            Strategy::Prefetch => prefetch(task),
            Strategy::Units | Strategy::Spread => {
                let spread = self == Strategy::Spread;
                let heights = units::heights(task.graph, task.timeline, spread);
                let timeline = Timeline::with_heights(task.graph, &heights);
                Some(with_mode(task, task.settings.mode, &timeline))
            }
        }
    }
}

/// Which strategies are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The modes, and what [`select`] names.
    Cascade,
    /// One alone.
    Only(Strategy),
    /// All of them.
    Combined,
}

impl Asked {
    /// What knob `SchedStrategy` says.
    pub fn parse(text: &str) -> Result<Asked, String> {
        match text {
            "" => Ok(Asked::Cascade),
            "combined" => Ok(Asked::Combined),
            name => Strategy::named(name).map(Asked::Only).ok_or_else(|| {
                let names = Strategy::ALL.map(Strategy::name);
                format!("'{name}' is none of combined, {}", names.join(", "))
            }),
        }
    }
}

/// What competes with the orders of the modes: ptxas's cascade of heuristics, without what no target of ours has (dual issue), and without what
/// the modes have tried by then; software pipelining has had its turn before any order is looked for.
pub fn select(graph: &Graph, in_loop: bool, opt_level: u8) -> Option<Strategy> {
    if in_loop && opt_level >= 3 {
        // With matrix operations it is DynBatch's turn, which is one of the modes.
        (!has_matrix(graph)).then_some(Strategy::Loop)
    } else if issued(graph) <= PERMUTED {
        Some(Strategy::Permutation)
    } else {
        None
    }
}

/// Whether there are matrix operations.
pub(super) fn has_matrix(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| node.pipe == Pipe::Tensor)
}

/// Instructions that take a slot and may move.
pub fn issued(graph: &Graph) -> usize {
    let body = &graph.nodes[graph.body()];
    body.iter().filter(|node| !node.is_pseudo()).count()
}

fn with_mode(task: &Task<'_>, mode: Mode, timeline: &Timeline) -> Found {
    let settings = Settings {
        mode,
        ..task.settings
    };
    let outcome = engine::schedule(task.graph, timeline, task.values, task.reference, &settings);
    Found {
        order: outcome.order,
        peak: outcome.peak,
        same: outcome.same,
    }
}

/// A chain that ends in a value for the next iteration goes on there: its height is what the reader's is then.
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
    Some(with_mode(task, Mode::Ilp, &timeline))
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
    Some(with_mode(task, Mode::Ilp, &timeline))
}
