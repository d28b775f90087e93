//! When the instructions of a block issue in a given order: the one cycle model by which orders are chosen and compared.
//!
//! One warp, alone on its scheduler, or several that take turns, as in [`crate::schedule::estimate`]. An instruction issues when the one before it lets it, its unit is free, what its edges ask for has
//! passed, and what was in flight when the block started is there. Reading three registers of a bank takes a cycle more. What is
//! not in the model: misses of caches, and that waits for barriers are shared.

use super::ports::{CACHE_LASTS, OperandCache, Ports};
use crate::schedule::graph::Graph;
use orias_machine::issue::Unit;

/// Why an instruction did not issue earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// It could have at the start of the block.
    #[default]
    Start,
    /// The instruction before it came first, and asked for so many cycles.
    Previous,
    /// The unit was kept by this node.
    Unit(u32),
    /// An edge from this node.
    Edge(u32),
    /// A register that was in flight when the block started.
    Entry,
}

/// When an instruction can issue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) at: u32,
    pub(super) cause: Cause,
    /// Cycles that bank conflicts cost.
    pub(super) conflicts: u8,
    /// Sources found in the operand cache.
    pub(super) hits: u8,
    /// Whether the instruction before writes one of its results.
    pub(super) rewrites: bool,
}

/// The state of the machine between two instructions.
#[derive(Clone, Debug)]
pub(super) struct Clock<'a> {
    graph: &'a Graph,
    ports: &'a [Ports],
    /// Warps that take turns.
    warps: u32,
    /// The first cycle in which something can issue.
    pub(super) next: u32,
    last: Option<(u32, u32)>,
    /// When each unit is free, and who keeps it.
    units: [(u32, u32); Unit::COUNT],
    cache: OperandCache,
}

impl<'a> Clock<'a> {
    pub(super) fn new(graph: &'a Graph, ports: &'a [Ports], warps: u32) -> Clock<'a> {
        Clock {
            graph,
            ports,
            warps,
            next: 0,
            last: None,
            units: [(0, u32::MAX); Unit::COUNT],
            cache: OperandCache::default(),
        }
    }

    /// When `node` can issue if its operands are there at `ready`.
    pub(super) fn probe(&self, node: u32, ready: (u32, Cause)) -> Step {
        let data = &self.graph.nodes[node as usize];
        let (mut at, mut cause) = match self.last {
            Some(_) => (self.next, Cause::Previous),
            None => (self.next, Cause::Start),
        };
        if data.is_pseudo() {
            return Step {
                at,
                cause,
                conflicts: 0,
                hits: 0,
                rewrites: false,
            };
        }
        if ready.0 > at {
            (at, cause) = ready;
        }
        let (free, keeper) = self.units[data.unit as usize];
        if free > at {
            (at, cause) = (free, Cause::Unit(keeper));
        }
        let ports = &self.ports[node as usize];
        let cache = self.cache_at(at);
        let rewrites = self.last.is_some_and(|(before, _)| {
            let written = &self.ports[before as usize].writes;
            ports.writes.iter().any(|place| written.contains(place))
        });
        Step {
            at,
            cause,
            conflicts: cache.conflicts(ports),
            hits: cache.hits(ports),
            rewrites,
        }
    }

    fn cache_at(&self, at: u32) -> OperandCache {
        match self.last {
            Some((_, issued)) if at - issued <= CACHE_LASTS => self.cache,
            _ => OperandCache::default(),
        }
    }

    /// `node` issues as `step` says.
    pub(super) fn issue(&mut self, node: u32, step: &Step) {
        let data = &self.graph.nodes[node as usize];
        if data.is_pseudo() {
            return;
        }
        self.cache = self.cache_at(step.at);
        self.cache.issue(&self.ports[node as usize]);
        for &(unit, cycles) in data.keeps {
            let kept = &mut self.units[unit as usize];
            let until = step.at + u32::from(cycles) * self.warps;
            if until > kept.0 {
                *kept = (until, node);
            }
        }
        let slots = u32::from(data.least_stall).max(self.warps);
        self.next = step.at + slots + u32::from(step.conflicts) * self.warps;
        self.last = Some((node, step.at));
    }
}

/// What an order of a block costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// Four times the cycles until the next block can start, and the cycle in which the last result is there that leaves the block:
    /// what is in flight at the end delays somebody, but not always and not all of it.
    pub weighted: u64,
    /// The sum of the cycles in which long operations issue: the earlier, the better.
    pub long: u64,
    /// Reads of the register file.
    pub reads: u64,
}

/// A block in an order, cycle by cycle.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// By node: when it issues.
    pub issue: Vec<u32>,
    /// By node: why not earlier.
    pub cause: Vec<Cause>,
    /// Cycles until the next block can start.
    pub length: u32,
    /// Cycles lost to bank conflicts.
    pub conflicts: u32,
    /// Sources found in the operand cache.
    pub hits: u32,
    /// What it costs.
    pub cost: Cost,
}

/// Runs `order` through the model, for so many `warps` that take turns. `floors` says for each node when what was in flight at the
/// start is there.
pub fn simulate(
    graph: &Graph,
    ports: &[Ports],
    floors: &[u32],
    order: &[u32],
    warps: u32,
) -> Simulation {
    let count = graph.len();
    let mut clock = Clock::new(graph, ports, warps);
    let mut simulation = Simulation {
        issue: vec![0; count],
        cause: vec![Cause::Start; count],
        length: 0,
        conflicts: 0,
        hits: 0,
        cost: Cost::default(),
    };
    let mut reads = 0u64;
    let mut long = 0u64;
    let mut leaving = 0u32;
    for &node in order {
        let index = node as usize;
        let mut ready = (floors[index], Cause::Entry);
        for edge in graph.preds(index) {
            let at = simulation.issue[edge.from as usize] + u32::from(edge.latency);
            if at > ready.0 {
                ready = (at, Cause::Edge(edge.from));
            }
        }
        let step = clock.probe(node, ready);
        clock.issue(node, &step);
        simulation.issue[index] = step.at;
        simulation.cause[index] = step.cause;
        simulation.conflicts += u32::from(step.conflicts);
        simulation.hits += u32::from(step.hits);
        let data = &graph.nodes[index];
        if data.is_long() {
            long += u64::from(step.at);
        }
        if data.leaves {
            leaving = leaving.max(step.at + u32::from(data.latency));
        }
        let sources = ports[index].sources.iter().flatten().count() as u64;
        reads += sources - u64::from(step.hits);
    }
    simulation.length = clock.next;
    simulation.cost = Cost {
        weighted: 4 * u64::from(clock.next) + u64::from(leaving.max(clock.next)),
        long,
        reads,
    };
    simulation
}
