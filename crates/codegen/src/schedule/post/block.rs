//! A block on its way through the rounds.

use super::early::Early;
use super::flight::{Ends, Flight};
use super::list::{Chains, Present};
use super::model::{Model, Simulation, Slots};
use super::ports::Sources;
use super::stores::{Accesses, Holds, Look};
use super::{BlockChange, PostScheduleError};
use crate::schedule::graph::{Graph, Timeline};
use cranelift_entity::SecondaryMap;
use orias_machine::Machine;
use orias_ori::{Block, Function, Inst, print_inst};
use orias_sass::Target;

/// What orders are compared by: neighbours separated, cycles alone times cycles together, how late long operations are, and reads.
pub(super) type Rank = (usize, u128, u64, u64);

/// What is the same in every order the graph of a block allows.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) graph: Graph,
    pub(super) slots: Slots,
    pub(super) ends: Ends,
    /// Whether there is no other order: then nothing of what follows is there but lines, if somebody wants to know.
    pub(super) has_one_order: bool,
    chains: Chains,
    pub(super) accesses: Accesses,
    pub(super) holds: Holds,
    /// By node: how urgent it is.
    heights: Vec<u32>,
}

impl Parts {
    /// Looks everything up; neighbours in memory if they are to be gathered.
    pub(super) fn new(
        func: &Function,
        graph: Graph,
        target: Target,
        gathers: bool,
        releases: bool,
    ) -> Result<Parts, PostScheduleError> {
        let machine = Machine::of(target);
        let sources = graph.nodes.iter().map(|node| {
            Sources::of(func, node, machine).map_err(|error| PostScheduleError::Instruction {
                inst: print_inst(func, node.inst),
                what: error.to_string(),
            })
        });
        let sources = sources.collect::<Result<Vec<Sources>, _>>()?;
        let mut parts = Parts {
            slots: Slots::new(&graph, &sources, machine.limits),
            ends: Ends::new(machine, &graph, releases),
            has_one_order: has_one_order(&graph),
            chains: Chains::default(),
            heights: Vec::new(),
            holds: Holds::default(),
            accesses: Accesses::default(),
            graph,
        };
        if gathers {
            parts.accesses = Accesses::new(func, &parts.graph);
        }
        if !parts.has_one_order {
            parts.chains = Chains::new(&parts.graph);
            parts.holds = parts.accesses.holds(&parts.graph);
            parts.heights = heights(&parts.graph);
            parts.holds.raise(&mut parts.heights);
        }
        Ok(parts)
    }
}

/// Whether a graph leaves nothing to choose.
pub(super) fn has_one_order(graph: &Graph) -> bool {
    let follows = |node: usize| {
        let mut edges = graph.preds(node).iter();
        edges.any(|edge| edge.from as usize + 1 == node)
    };
    graph.body().skip(1).all(follows)
}

/// By node: cycles from its issue to the end of the longest chain that starts with it.
fn heights(graph: &Graph) -> Vec<u32> {
    let own = graph.nodes.iter().map(|node| match node.leaves {
        true => u32::from(node.latency.max(node.signals)),
        false => u32::from(node.signals),
    });
    let mut heights: Vec<u32> = own.collect();
    // Whoever comes behind a node is done before it.
    for node in (0..graph.len()).rev() {
        for edge in graph.preds(node) {
            let height = u32::from(edge.latency) + heights[node];
            let before = &mut heights[edge.from as usize];
            *before = height.max(*before);
        }
    }
    heights
}

/// A block, the order it has, and what is known of that.
#[derive(Debug)]
pub(super) struct State {
    pub(super) block: Block,
    pub(super) parts: Parts,
    /// The nodes in the order they have, and the place of each in it.
    pub(super) order: Vec<u32>,
    pub(super) ranks: Vec<u32>,
    /// What is in flight at the start.
    pub(super) entry: Flight,
    /// By node: when that is there which was in flight at the start.
    pub(super) floors: Vec<u32>,
    /// The order run through the model, with these floors.
    pub(super) now: Simulation,
    /// Whether `now` is of the order the block has.
    pub(super) simulated: bool,
    /// What the order costs with these floors, if that has been found out.
    pub(super) cost: Option<Rank>,
    /// The way of scheduling that would find this order again.
    pub(super) found_by: Option<usize>,
    /// Whether no better order is found with these floors.
    pub(super) settled: bool,
    /// Whether other orders have been tried.
    pub(super) tried: bool,
    /// Whether its order or what is in flight at its start is new.
    pub(super) dirty: bool,
    /// Whether its order is not the one the function has.
    pub(super) moved: bool,
    pub(super) cold: bool,
    pub(super) keep: bool,
    /// What leads to its first loads, if they may go before all else.
    pub(super) early: Early,
    /// Whether they do.
    pub(super) starts_early: bool,
    /// Whether its order is one nobody has chosen.
    pub(super) fresh: bool,
    /// Length, conflicts and hits of the order it had first.
    pub(super) first: Option<(u32, u32, u32)>,
}

impl State {
    /// A block in the order of its graph.
    pub(super) fn new(block: Block, parts: Parts) -> State {
        let count = parts.graph.len();
        let order: Vec<u32> = (0..count as u32).collect();
        State {
            block,
            ranks: order.clone(),
            order,
            parts,
            entry: Flight::none(),
            floors: vec![0; count],
            now: Simulation::default(),
            simulated: false,
            cost: None,
            found_by: None,
            settled: false,
            tried: false,
            dirty: true,
            moved: false,
            cold: false,
            keep: false,
            early: Early::default(),
            starts_early: false,
            fresh: false,
            first: None,
        }
    }

    /// The cycle model of the block with what is in flight before it.
    pub(super) fn model(&self) -> Model<'_> {
        Model {
            graph: &self.parts.graph,
            slots: &self.parts.slots,
            floors: &self.floors,
        }
    }

    pub(super) fn present(&self) -> Present<'_> {
        Present {
            order: &self.order,
            ranks: &self.ranks,
            heights: &self.parts.heights,
            holds: &self.parts.holds,
            early: &self.early,
            chains: &self.parts.chains,
        }
    }

    /// Something else is there at the start than so far.
    pub(super) fn start_with(&mut self, floors: &[u32]) {
        if self.floors != floors {
            self.floors.copy_from_slice(floors);
            self.simulated = false;
            self.cost = None;
            self.found_by = None;
            self.settled = false;
        }
    }

    /// Runs the order through the model, unless that has been done.
    pub(super) fn simulate(&mut self) {
        if !self.simulated {
            let mut now = std::mem::take(&mut self.now);
            self.model().simulate(&self.order, 1, &mut now);
            self.now = now;
            self.simulated = true;
        }
    }

    /// The block gets another order, found by this way of scheduling, which costs so much and runs as `now` says, which gets what there
    /// was.
    pub(super) fn take(
        &mut self,
        order: &[u32],
        now: &mut Simulation,
        cost: Rank,
        found_by: Option<usize>,
    ) {
        self.order.clear();
        self.order.extend_from_slice(order);
        for (place, &node) in order.iter().enumerate() {
            self.ranks[node as usize] = place as u32;
        }
        std::mem::swap(&mut self.now, now);
        self.simulated = true;
        // What was separated is measured by the order there is.
        self.cost = Some((0, cost.1, cost.2, cost.3));
        self.found_by = found_by;
        self.dirty = true;
        self.moved = true;
    }

    /// How many neighbours are apart in `order`.
    pub(super) fn separated(&self, order: &[u32], look: &mut Look) -> usize {
        let parts = &self.parts;
        look.separated(&parts.graph, &parts.accesses, &parts.holds, order)
    }

    /// The same order, which is that of this graph now.
    pub(super) fn replace(&mut self, parts: Parts) {
        let new = State::new(self.block, parts);
        self.parts = new.parts;
        self.order = new.order;
        self.ranks = new.ranks;
        self.simulated = false;
        self.cost = None;
        self.found_by = None;
        self.settled = false;
        self.moved = false;
        if self.early.count > 0 {
            self.early = Early::new(&self.parts.graph);
        }
        self.parts.ends.floors(&self.entry, &mut self.floors);
    }

    /// What became of it, by the places its instructions had.
    pub(super) fn change(&self, places: &SecondaryMap<Inst, u32>) -> BlockChange {
        let nodes = &self.parts.graph.nodes;
        let (length, conflicts, hits) = (self.now.length, self.now.conflicts, self.now.hits);
        let first = self.first.unwrap_or((length, conflicts, hits));
        let order = self.order.iter().enumerate();
        BlockChange {
            block: self.block,
            instructions: nodes.iter().filter(|node| !node.is_pseudo()).count(),
            moved: order
                .filter(|(at, node)| places[nodes[**node as usize].inst] != *at as u32)
                .count(),
            before: first.0,
            after: length,
            chain: Timeline::new(&self.parts.graph).length,
            conflicts: (first.1, conflicts),
            hits: (first.2, hits),
            separated: self.separated(&self.order, &mut Look::default()),
            cold: self.cold,
        }
    }
}
