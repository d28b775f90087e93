//! PostSchedule (110): the order of instructions again, now that registers are physical.
//!
//! Allocation decided which registers meet in a bank, inserted spills and reloads, and made instructions wait for each other that had
//! nothing to do with each other before. This pass takes all that as given and orders each block anew, within the block: no
//! instruction leaves it, no block moves, no control word is written.
//!
//! | module | concern |
//! | --- | --- |
//! | `ports` | banks and the operand cache |
//! | `clock` | the cycle model: when each instruction issues in an order, and why not earlier |
//! | `list` | the list scheduler with its ordered tree and weighted score |
//! | `stores` | stores to one line of memory, which go together |
//! | `flight` | what is on its way from one block to the next |
//! | `shuffle` | random legal orders, to start from nothing |
//! | `alternative` | legal orders between good and bad, to measure the model with |
//! | `words` | the same question asked of finished code: cycles by control words |
//! | `explain` | what the scheduler saw, for reports |
//!
//! The order of work:
//!
//! 1. Build the dependence graph of each block on physical registers ([`super::build`]): spills and reloads are memory
//!    accesses like others.
//! 2. Run the present orders through the cycle model and carry what is in flight to the blocks behind.
//! 3. Schedule each block, with the weights of its region (hot or cold), once more without regard to banks and operand cache, and once
//!    for several warps that take turns. Of these orders and the present one the cheapest stays, by the cycle model alone and together;
//!    of equals the present one.
//! 4. Repeat for blocks whose order or whose start changed, until nothing does, at most [`ROUNDS`] times.
//!
//! Because only what is cheaper is taken, a block never gets worse by the model, and running the pass again changes nothing. Graphs and
//! liveness are made anew from what the pass leaves; nothing that was computed for the old order is kept.

mod alternative;
mod clock;
mod explain;
mod flight;
mod list;
mod ports;
mod shuffle;
mod stores;
mod words;

use super::budget::Occupancy;
use super::build::{Builder, Exits, Fences};
use super::graph::{Graph, PIECE, Timeline};
use crate::knobs::{Knobs, Point, WhenList, registry, scheduling};
use crate::phases::ColdBlocks;
use crate::pipeline::{Context, PhaseError};
use cranelift_entity::SecondaryMap;
use flight::{Flight, SWEEPS};
use orias_machine::registers;
use orias_ori::analysis::{DepthFirst, FlowGraph, RegisterLiveness};
use orias_ori::{Block, Class, Function, print_inst};
use orias_sass::Target;

pub use alternative::{Alternative, alternative};
pub use clock::{Cause, Cost, Simulation, simulate};
pub use explain::{BlockStory, FunctionStory, Line, tell};
pub use list::Weights;
pub use ports::Ports;
pub use shuffle::shuffle;
pub use words::{WordCycles, cycles_by_words};

/// Rounds over a function: each starts from what the one before left in flight.
pub const ROUNDS: usize = 6;

/// Why a function cannot be scheduled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostScheduleError {
    /// There is no instruction table for the target.
    #[error("there is no instruction table for {0}")]
    Target(String),
    /// An instruction that has no encoding.
    #[error("`{inst}`: {what}")]
    Instruction {
        /// The instruction.
        inst: String,
        /// What is wrong with it.
        what: String,
    },
    /// Instructions that wait for each other: an error of the graph.
    #[error("{0}: no order is left that the graph allows")]
    Circle(Block),
    /// An order that breaks the graph: an error of this pass.
    #[error("{block}: {what}")]
    Illegal {
        /// The block.
        block: Block,
        /// How.
        what: String,
    },
}

/// What the caller decides.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Weights in hot regions.
    pub hot: Weights,
    /// Weights in cold regions, which hardly ever run.
    pub cold: Weights,
    /// Blocks and functions that stay as they are.
    pub keep: &'a WhenList,
    /// Instructions that others do not pass.
    pub fences: Fences<'a>,
    /// Warps that take turns on a scheduler, as a guess; 1 if nothing is known of the launch.
    pub warps: u32,
}

impl<'a> Options<'a> {
    /// As the knobs say.
    pub fn of(knobs: &'a Knobs) -> Options<'a> {
        let hot = Weights {
            chain: knobs.double(&registry::POST_SCHEDULE_CHAIN),
            stall: knobs.double(&registry::POST_SCHEDULE_STALL),
            bank: knobs.double(&registry::POST_SCHEDULE_BANK),
            reuse: knobs.double(&registry::POST_SCHEDULE_REUSE),
            rewrite: knobs.double(&registry::POST_SCHEDULE_REWRITE),
        };
        Options {
            hot,
            cold: Weights {
                bank: 0.0,
                reuse: 0.0,
                rewrite: 0.0,
                ..hot
            },
            warps: 1,
            keep: knobs.when(&registry::POST_SCHEDULE_KEEP),
            fences: Fences {
                code: knobs.when(&scheduling::FENCE_CODE),
                interference: knobs.when(&scheduling::FENCE_INTERFERENCE),
                preserve: knobs.when(&scheduling::PRESERVE_ORDER),
                piece: PIECE,
            },
        }
    }
}

/// What became of a block.
#[derive(Clone, Copy, Debug)]
pub struct BlockChange {
    /// The block.
    pub block: Block,
    /// Its instructions.
    pub instructions: usize,
    /// How many of them stand elsewhere now.
    pub moved: usize,
    /// Cycles of the order it had.
    pub before: u32,
    /// Cycles of the order it has.
    pub after: u32,
    /// The longest chain of dependences: no order is shorter.
    pub chain: u32,
    /// Bank conflicts before and after.
    pub conflicts: (u32, u32),
    /// Sources found in the operand cache before and after.
    pub hits: (u32, u32),
    /// Whether it hardly ever runs.
    pub cold: bool,
}

/// Phase 110.
pub fn post_schedule(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    let mut options = Options::of(context.knobs);
    if let Some(target) = Target::from_name(&func.target) {
        let occupancy = Occupancy::new(func, registers::of(target));
        // Launches fill the machine half, as a guess.
        options.warps = occupancy.warps(general_registers(func)).div_ceil(2);
    }
    match reorder(func, &options) {
        Ok(_) => Ok(()),
        Err(error) => Err(PhaseError::Broken {
            at: func.name.clone(),
            what: error.to_string(),
        }),
    }
}

/// What orders are compared by: neighbours torn apart, cycles alone times cycles together, how late long operations are, and reads.
type Rank = (usize, u128, u64, u64);

/// How many general registers a function names.
fn general_registers(func: &Function) -> u32 {
    let mut most = 0;
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        for reg in func.defs(inst).filter_map(|reg| reg.phys()) {
            if reg.class() == Class::R && !reg.is_constant() {
                let units = reg.units().map(|unit| u32::from(unit.index()) + 1);
                most = most.max(units.max().unwrap_or(0));
            }
        }
    }
    most
}

/// A block on its way through the rounds.
struct State {
    block: Block,
    graph: Graph,
    ports: Vec<Ports>,
    lines: stores::Lines,
    entry: Flight,
    /// Whether its order or what is in flight at its start is new.
    dirty: bool,
    cold: bool,
    keep: bool,
    first: Option<(u32, u32, u32)>,
}

impl State {
    fn program_order(&self) -> Vec<u32> {
        (0..self.graph.len() as u32).collect()
    }

    fn simulate(&self, order: &[u32]) -> Simulation {
        let floors = self.entry.floors(&self.graph, &self.ports);
        simulate(&self.graph, &self.ports, &floors, order, 1)
    }

    /// An order that is cheaper than the present one, if one is found.
    fn better(&self, options: &Options<'_>) -> Option<Vec<u32>> {
        if self.keep || self.graph.body().len() < 2 {
            return None;
        }
        let floors = self.entry.floors(&self.graph, &self.ports);
        let torn = stores::torn(&self.lines, &self.program_order());
        // Cycles alone times cycles together, as for the estimates before allocation.
        let cost = |order: &[u32]| {
            let alone = simulate(&self.graph, &self.ports, &floors, order, 1).cost;
            let together = match options.warps {
                0 | 1 => alone,
                warps => simulate(&self.graph, &self.ports, &floors, order, warps).cost,
            };
            let product = u128::from(alone.weighted) * u128::from(together.weighted);
            let worse = stores::torn(&self.lines, order).saturating_sub(torn);
            (worse, product, alone.long, alone.reads)
        };
        let present = cost(&self.program_order());
        let timeline = Timeline::new(&self.graph);
        let weights = if self.cold { options.cold } else { options.hot };
        let plain = Weights {
            bank: 0.0,
            reuse: 0.0,
            rewrite: 0.0,
            ..weights
        };
        let mut ways = vec![(weights, 1)];
        if weights != plain {
            ways.push((plain, 1));
        }
        if options.warps > 1 {
            ways.push((weights, options.warps));
        }
        let mut best: Option<(Rank, Vec<u32>)> = None;
        for (weights, warps) in ways {
            let found = list::schedule(
                &self.graph,
                &self.ports,
                &floors,
                &timeline,
                &weights,
                warps,
            );
            let Some(mut order) = found else { continue };
            stores::gather(&self.graph, &self.lines, &mut order);
            let cost = cost(&order);
            let known = best.as_ref().map_or(present, |(known, _)| *known);
            if cost < known {
                best = Some((cost, order));
            }
        }
        best.map(|(_, order)| order)
    }
}

/// Orders the blocks of a physical function anew.
pub fn reorder(
    func: &mut Function,
    options: &Options<'_>,
) -> Result<Vec<BlockChange>, PostScheduleError> {
    let target = Target::from_name(&func.target)
        .ok_or_else(|| PostScheduleError::Target(func.target.clone()))?;
    let flow = FlowGraph::of(func);
    let walk = DepthFirst::new(&flow);
    let live = RegisterLiveness::new(func, &flow, &walk);
    let cold = ColdBlocks::new(func);
    let gathers = stores::are_gathered(func);
    let blocks: Vec<Block> = func.blocks().collect();
    let mut places: SecondaryMap<Block, Option<u32>> = SecondaryMap::new();
    let mut first_places: SecondaryMap<orias_ori::Inst, u32> = SecondaryMap::new();
    for (number, &block) in blocks.iter().enumerate() {
        places[block] = Some(number as u32);
        for (at, inst) in func.block_insts(block).enumerate() {
            first_places[inst] = at as u32;
        }
    }
    let mut states = Vec::with_capacity(blocks.len());
    {
        let mut builder = Builder::new(func, Exits::Registers(&live), options.fences);
        for &block in &blocks {
            let graph = builder.build(block);
            let ports = ports_of(func, &graph, target)?;
            let lines = if gathers {
                stores::lines(func, &graph, &ports)
            } else {
                stores::Lines::default()
            };
            let point = Point {
                function: &func.name,
                block: block.as_u32(),
                instruction: None,
            };
            states.push(State {
                block,
                graph,
                ports,
                lines,
                entry: Flight::none(),
                dirty: true,
                cold: cold.contains(block),
                keep: !options.keep.is_never() && options.keep.holds(point),
                first: None,
            });
        }
    }
    for round in 0..ROUNDS {
        sweep(func, &places, &mut states, round == 0);
        let mut changed = Vec::new();
        for (number, state) in states.iter_mut().enumerate() {
            if state.first.is_none() {
                let first = state.simulate(&state.program_order());
                state.first = Some((first.length, first.conflicts, first.hits));
            }
            if !std::mem::take(&mut state.dirty) {
                continue;
            }
            if let Some(order) = state.better(options) {
                if let Some(what) = state.graph.illegal(&order) {
                    let block = state.block;
                    return Err(PostScheduleError::Illegal { block, what });
                }
                apply(func, &state.graph, &order);
                changed.push(number);
            }
        }
        if changed.is_empty() {
            break;
        }
        let mut builder = Builder::new(func, Exits::Registers(&live), options.fences);
        for number in changed {
            let state = &mut states[number];
            state.graph = builder.build(state.block);
            state.ports = ports_of(func, &state.graph, target)?;
            if gathers {
                state.lines = stores::lines(func, &state.graph, &state.ports);
            }
            state.dirty = true;
        }
    }
    Ok(states
        .iter()
        .map(|state| {
            let now = state.simulate(&state.program_order());
            let first = state.first.unwrap_or((now.length, now.conflicts, now.hits));
            let nodes = state.graph.nodes.iter().enumerate();
            BlockChange {
                block: state.block,
                instructions: state.graph.nodes.iter().filter(|n| !n.is_pseudo()).count(),
                moved: nodes
                    .filter(|(at, node)| first_places[node.inst] != *at as u32)
                    .count(),
                before: first.0,
                after: now.length,
                chain: Timeline::new(&state.graph).length,
                conflicts: (first.1, now.conflicts),
                hits: (first.2, now.hits),
                cold: state.cold,
            }
        })
        .collect())
}

fn ports_of(
    func: &Function,
    graph: &Graph,
    target: Target,
) -> Result<Vec<Ports>, PostScheduleError> {
    graph
        .nodes
        .iter()
        .map(|node| {
            Ports::of(func, node.inst, target).map_err(|error| PostScheduleError::Instruction {
                inst: print_inst(func, node.inst),
                what: error.to_string(),
            })
        })
        .collect()
}

/// Carries what is in flight along the edges, and marks the blocks at whose start that is something new.
fn sweep(
    func: &Function,
    places: &SecondaryMap<Block, Option<u32>>,
    states: &mut [State],
    first: bool,
) {
    let mut preds: Vec<Vec<usize>> = vec![Vec::new(); states.len()];
    for (number, state) in states.iter().enumerate() {
        for to in func.successors(state.block) {
            if let Some(to) = places[to] {
                preds[to as usize].push(number);
            }
        }
    }
    let mut entries: Vec<Flight> = vec![Flight::none(); states.len()];
    let mut ends: Vec<Option<Flight>> = vec![None; states.len()];
    for _ in 0..SWEEPS {
        for number in 0..states.len() {
            let mut entry = Flight::none();
            for end in preds[number].iter().filter_map(|&pred| ends[pred].as_ref()) {
                entry.join(end);
            }
            let state = &states[number];
            let floors = entry.floors(&state.graph, &state.ports);
            let order = state.program_order();
            let now = simulate(&state.graph, &state.ports, &floors, &order, 1);
            ends[number] = Some(entry.behind(&state.graph, &state.ports, &now));
            entries[number] = entry;
        }
    }
    for (state, entry) in states.iter_mut().zip(entries) {
        if first || state.entry != entry {
            state.dirty = true;
            state.entry = entry;
        }
    }
}

/// Puts the instructions of a block into the order that `order` says, by node.
fn apply(func: &mut Function, graph: &Graph, order: &[u32]) {
    for node in &graph.nodes {
        func.layout.remove_inst(node.inst);
    }
    for &node in order {
        func.layout
            .append_inst(graph.nodes[node as usize].inst, graph.block);
    }
}
