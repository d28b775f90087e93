//! PostSchedule (110): list scheduling again, now that registers are physical.
//!
//! Allocation decided which registers meet in a bank, inserted spills and reloads, and made instructions wait for each other that had
//! nothing to do with each other before. This pass takes all that as given and orders each block anew, within the block: no
//! instruction leaves it, no block moves, no control word is written.
//!
//! | module | concern |
//! | --- | --- |
//! | `ports` | banks and the operand cache |
//! | `model` | the cycle model: when each instruction issues in an order, and why not earlier |
//! | `list` | the list scheduler with its ordered tree and weighted score |
//! | `early` | what leads to the first loads of a block, which may go before all else |
//! | `stores` | stores to one line of memory, which go together |
//! | `flight` | what is on its way from one block to the next |
//! | `block` | a block on its way through the rounds: what is the same in every order, and the order it has |
//! | `sweep` | carrying what is in flight through the function |
//! | `search` | the orders that are tried for a block, and which is taken |
//! | `ready` | orders made step by step by somebody who chooses |
//! | `canonical` | an order that depends on the instructions alone |
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
//! Because only what is cheaper is taken, a block never gets worse by the model, and running the pass again changes nothing.
//!
//! What is asked of the graph, the registers and the memory of a block has the same answer in every order the graph allows, so it is
//! asked once; a round only changes the order. (Not so where the graph was made smaller on the way: more accesses to memory than are
//! compared, blocks that are cut, runs. Such a graph is built anew from the order that was found.) An order is run through the model
//! when it, or what is in flight before it, is new, and only for as long as it can still be the cheapest. Whoever compiles does not look at a block
//! again that starts with the same in flight, nor builds graphs anew (`search`).

mod alternative;
mod block;
mod canonical;

mod early;
mod explain;
mod flight;
mod list;
mod model;
mod ports;
mod ready;
mod search;
mod shuffle;
mod stores;
mod sweep;
mod words;

use super::budget::{Occupancy, named_registers};
use super::build::{Builder, Exits, Fences};
use super::graph::{Graph, PIECE};
use crate::knobs::{Knobs, Point, WhenList, registry, scheduling};
use crate::pipeline::{Context, PhaseError};
use block::{Parts, State};
use cranelift_entity::SecondaryMap;
use early::Early;
use orias_machine::Machine;
use orias_ori::analysis::{DepthFirst, FlowGraph, Frequencies, RegisterLiveness};
use orias_ori::{Block, Class, Function, Inst};
use search::Search;
use sweep::Sweeps;

pub use alternative::{Alternative, alternative};
pub use canonical::canonical;
pub use explain::{BlockSchedule, FunctionSchedule, Line, tell};
pub use list::Weights;
pub use model::{Cause, Cost, Simulation};
pub use shuffle::shuffle;
pub use words::{
    BlockWords, HeldBarrier, WordCycles, WordLine, cycles_by_words, timeline_by_words,
};

/// Rounds over a function: each starts from what the one before left in flight.
pub const ROUNDS: usize = 6;

/// Why a function cannot be scheduled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostScheduleError {
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
    /// The orders blocks come with are none to be kept: the best of those that are found is taken.
    pub fresh: bool,
    /// Orders are looked for that are hardly ever better, and again from what was found, until there is nothing more to find.
    pub thorough: bool,
}

impl<'a> Options<'a> {
    /// As the knobs say, and thoroughly.
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
            cold: hot.plain(),
            warps: 1,
            fresh: false,
            thorough: true,
            keep: knobs.when(&registry::POST_SCHEDULE_KEEP),
            fences: Fences {
                code: knobs.when(&scheduling::FENCE_CODE),
                interference: knobs.when(&scheduling::FENCE_INTERFERENCE),
                preserve: knobs.when(&scheduling::PRESERVE_ORDER),
                piece: PIECE,
                passes_waits: false,
                fetches_lines: knobs.bool(&scheduling::CONSTANT_LINES),
                counts_lookups: knobs.bool(&scheduling::LOOKUPS),
            },
        }
    }
}

impl Options<'_> {
    /// Whether a block stays as it is.
    fn keeps(&self, func: &Function, block: Block) -> bool {
        let point = Point {
            function: &func.name,
            block: block.as_u32(),
            instruction: None,
        };
        !self.keep.is_never() && self.keep.holds(point)
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
    /// Accesses to one line of memory that are apart now.
    pub separated: usize,
    /// Whether it hardly ever runs.
    pub cold: bool,
}

/// Phase 110.
pub fn post_schedule(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    let mut options = Options::of(context.knobs);
    options.warps = warps(func);
    options.thorough = false;
    match order_blocks(func, &options) {
        Ok(_) => Ok(()),
        Err(error) => Err(PhaseError::Broken {
            at: func.name.clone(),
            what: error.to_string(),
        }),
    }
}

/// How many warps of a physical function take turns on a scheduler if launches fill the machine half, as a guess.
pub fn warps(func: &Function) -> u32 {
    let occupancy = Occupancy::new(func, Machine::of(func.target).registers);
    occupancy
        .warps_with(named_registers(func, Class::R))
        .div_ceil(2)
}

/// Orders the blocks of a physical function anew, and says what became of each.
pub fn reorder(
    func: &mut Function,
    options: &Options<'_>,
) -> Result<Vec<BlockChange>, PostScheduleError> {
    let mut first_places: SecondaryMap<Inst, u32> = SecondaryMap::new();
    for block in func.blocks() {
        for (at, inst) in func.block_insts(block).enumerate() {
            first_places[inst] = at as u32;
        }
    }
    let mut states = order_blocks(func, options)?;
    let changes = states.iter_mut().map(|state| {
        state.simulate();
        state.change(&first_places)
    });
    Ok(changes.collect())
}

/// Orders the blocks of a physical function anew.
fn order_blocks(
    func: &mut Function,
    options: &Options<'_>,
) -> Result<Vec<State>, PostScheduleError> {
    let target = func.target;
    let flow = FlowGraph::of(func);
    let walk = DepthFirst::new(&flow);
    let live = RegisterLiveness::at_ends(func, &flow, &walk);
    let frequencies = Frequencies::of(func);
    let gathers = stores::are_gathered(func);
    let mut states = Vec::new();
    let mut builder = Builder::new(func, Exits::Registers(&live), options.fences);
    for block in func.blocks() {
        let keep = options.keeps(func, block);
        let graph = builder.build(block);
        // Where there is one order, lines are of interest for what is told about it alone.
        let gathers = gathers && (options.thorough || !block::has_one_order(&graph));
        let parts = Parts::new(func, graph, target, gathers, options.thorough)?;
        states.push(State {
            cold: frequencies.is_cold(block),
            keep,
            early: match options.fresh && !keep {
                true => Early::new(&parts.graph),
                false => Early::default(),
            },
            fresh: options.fresh && !keep,
            ..State::new(block, parts)
        });
    }
    let mut sweeps = Sweeps::new(func, &states);
    let mut search = Search::default();
    for round in 0..ROUNDS {
        sweeps.run(&mut states, round == 0);
        let mut anew = Vec::new();
        let mut changed = false;
        for (number, state) in states.iter_mut().enumerate() {
            if !std::mem::take(&mut state.dirty) || !search.improve(state, options) {
                continue;
            }
            changed = true;
            if options.thorough && state.parts.graph.depends_on_order {
                anew.push(number);
            }
        }
        if !changed {
            break;
        }
        if !anew.is_empty() {
            for &number in &anew {
                apply(func, &states[number])?;
            }
            let mut builder = Builder::new(func, Exits::Registers(&live), options.fences);
            for number in anew {
                let state = &mut states[number];
                let graph = builder.build(state.block);
                state.replace(Parts::new(func, graph, target, gathers, options.thorough)?);
            }
        }
    }
    for state in states.iter().filter(|state| state.moved) {
        apply(func, state)?;
    }
    Ok(states)
}

/// Puts the instructions of a block into the order that was found for it.
fn apply(func: &mut Function, state: &State) -> Result<(), PostScheduleError> {
    let graph = &state.parts.graph;
    if cfg!(debug_assertions)
        && let Some(what) = graph.illegal(&state.order)
    {
        let block = state.block;
        return Err(PostScheduleError::Illegal { block, what });
    }
    arrange(func, graph, &state.order);
    Ok(())
}

/// Puts the instructions of a block into the order that `order` says, by node.
fn arrange(func: &mut Function, graph: &Graph, order: &[u32]) {
    for node in &graph.nodes {
        func.layout.remove_inst(node.inst);
    }
    for &node in order {
        func.layout
            .append_inst(graph.nodes[node as usize].inst, graph.block);
    }
}
