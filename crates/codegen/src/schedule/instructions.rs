//! ScheduleInstructions (97): list scheduling of every block before registers are allocated.
//!
//! 1. Straight-line blocks are joined ([`super::join`]), loops are pipelined if a knob asks for it ([`super::pipelining`]), and what can be
//!    computed before a branch goes there ([`super::cross_block`]).
//! 2. Each block whose order may change gets its graph, its timeline and the books of its values; what the order it has costs and
//!    needs is written down. Of the others it is known what they need, and what they cost if anybody asks.
//! 3. ReduceReg finds an order with few live registers for blocks that need more than those whose order stays. The largest number that
//!    is needed at least, over all blocks, is where budgets start.
//! 4. ILP, last block first, finds an order within each candidate budget; DynBatch another one where there is something to batch.
//! 5. The budget whose orders are cheapest wins ([`super::budget`]). Under it each block gets the cheapest order that fits, be it the
//!    one it had.
//!
//! An order never needs more registers than the function may use, unless the order before did; then it needs no more than that one. So
//! nothing is spilled that the order before could have kept; where that is close, the allocator is asked (`trial`).
//!
//! Functions over [`CHUNK`] instructions are not tried with several budgets: each block is put into order by itself, and its graph
//! dropped before the next is made.

use super::alias;
use super::budget::{self, Occupancy};
use super::build::{Builder, Exits, tail_length};
use super::choice::{Choice, cheapest, leanest, missing, small_files, small_limits};
use super::cross_block;
use super::crowded::{self, Alternative};
use super::estimate::{Estimate, estimate};
use super::flow::LiveFlow;
use super::graph::{Graph, Node, Timeline};
use super::join::join_blocks;
use super::live::{BlockValues, Counts, Numbering, Standing};
use super::options::Options;
use super::pipelining;
use super::priority::Mode;
use super::relink::{relink, undefs_late};
use super::stores;
use super::strategies::{self, Asked, Carried, Found, Strategy, Task};
use super::trial;
use super::units::Pipe;
use crate::knobs::registry;
use crate::phases::share_what_is_at_hand;
use crate::pipeline::{Context, PhaseError};
use crate::regalloc;
use cranelift_entity::SecondaryMap;
use orias_machine::Machine;
use orias_machine::registers::RegisterFiles;
use orias_ori::analysis::{Frequencies, LoopNest};
use orias_ori::{Block, Class, Function, Inst, Operation, Value};
use orias_sass::{MemoryEffect, Space};
use rustc_hash::FxHashMap;
use std::ops::RangeInclusive;

/// A function with more instructions is scheduled block by block.
pub const CHUNK: usize = 16383;

/// What reports call the order a block had.
const AS_IT_WAS: &str = "as it was";

/// What reports call the order that ILP finds for warps that take turns.
const SHARED: &str = "ILP, shared";

/// What reports call ILP with heights that count units, if several warps take turns.
const UNITS_SHARED: &str = "units, shared";

/// The same, if what many wait for comes earlier.
const SPREAD_SHARED: &str = "spread, shared";

/// Windows that ILP is tried with where it does badly without one, widest first, and what reports call these orders.
const WINDOWS: [(&str, usize); 3] = [
    ("ILP, window of 96", 96),
    ("ILP, window of 48", 48),
    ("ILP, window of 24", 24),
];

/// Bytes of an access whose size its row does not say.
const WORD: u32 = 4;

/// An order takes too long if it takes this part longer than it must.
const BADLY: u32 = 4;

/// A way to ask a strategy.
#[derive(Clone, Copy)]
pub(super) struct Variant {
    /// What reports call it.
    name: &'static str,
    /// How many warps take turns.
    warps: u32,
    /// How far ahead of the reference the engine may go.
    window: Option<usize>,
}

impl Variant {
    pub(super) const fn plain(name: &'static str) -> Self {
        Self {
            name,
            warps: 1,
            window: None,
        }
    }
}

/// Runs the phase.
pub fn schedule_instructions(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    // With few registers whatever moves may make a spill, between blocks, too.
    let given = trial::has_few(func).then(|| func.clone());
    join_blocks(func);
    let options = Options::new(func, context)?;
    let (limits, pipelines) = (options.cross_block(), options.pipelines());
    let gathers = options.is_enabled();
    let occupancy = Occupancy::new(func, context.machine.registers);
    if pipelines {
        pipelining::pipeline_loops(func, occupancy);
    }
    let mut shape = LiveFlow::new(func);
    cross_block::hoist(func, limits, occupancy, &mut shape);
    if gathers {
        stores::gather_stores(func, occupancy, &shape);
    }
    let planned = find_orders(func, context, &shape, false)?;
    if !planned.crowded.is_empty() {
        crowded::settle(func, given, planned.crowded, context);
        return Ok(());
    }
    let moved = given.is_some() || !planned.orders.is_empty();
    let close = moved && trial::is_close(func, planned.needed);
    let before = close.then(|| given.unwrap_or_else(|| func.clone()));
    for (block, order) in planned.orders {
        relink(func, block, &order);
    }
    if moved && context.opt_level >= 2 && context.knobs.bool(&registry::SHARE_CONSTANTS) {
        share_what_is_at_hand(func);
    }
    if let Some(before) = before {
        trial::keep_better(func, before, context);
    }
    Ok(())
}

/// What the phase decided.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Blocks that change, with their instructions in the new order.
    pub orders: Vec<(Block, Vec<Inst>)>,
    /// What was decided for each block, those whose order may change first; empty where nobody asked for reasons.
    pub blocks: Vec<Decision>,
    /// The budget of general registers.
    pub budget: u32,
    /// The most general registers live at a time.
    pub needed: u32,
    /// Where something is spilled whatever the order: the orders to choose from, by what the allocator makes of them.
    pub(super) crowded: Vec<Alternative>,
}

/// What was decided for one block.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The block.
    pub block: Block,
    /// How often it runs, as a guess.
    pub frequency: f64,
    /// Who found the order.
    pub by: &'static str,
    /// Cycles of a warp alone, before and after.
    pub cycles: (u32, u32),
    /// General registers live, before and after.
    pub registers: (i32, i32),
    /// Every order that was found: by whom, its cycles and registers.
    pub tried: Vec<(&'static str, u32, i32)>,
}

/// What was asked of a strategy: under what name, with which limits and batches, and which of the choices was the reference.
type Question = (&'static str, Counts, u32, usize);

/// A block whose order may change, and the orders found so far.
pub(super) struct Candidates {
    pub(super) graph: Graph,
    pub(super) timeline: Timeline,
    pub(super) values: BlockValues,
    pub(super) frequency: f64,
    /// Bytes of global memory that the lanes of a warp touch.
    pub(super) bytes: u32,
    pub(super) in_loop: bool,
    /// Dependences on the iteration before.
    pub(super) carried: Vec<Carried>,
    /// The first is the order it has.
    pub(super) choices: Vec<Choice>,
    /// The order that is found from the end, if it needs few registers and lets no more warps run.
    pub(super) lean: Option<Choice>,
    /// How many registers of the small files an order may need.
    pub(super) small: Counts,
    /// What gave those choices, or nothing, and with how many general registers it would have given the same.
    pub(super) asked: Vec<(Question, RangeInclusive<i32>)>,
}

impl Candidates {
    /// Whether the order that a variant of ILP would find is known: as it was found with another number of general registers that made no difference, or, if `is_ilp`, without a
    /// window, which this one's holds the whole block of. Where every order keeps the limits and there is no window, the reference plays no part.
    fn is_answered(&self, &(by, limits, batch, least): &Question, is_ilp: bool) -> bool {
        const R: usize = Class::R as usize;
        let any = is_ilp && self.values.always_fit(&limits);
        self.asked.iter().any(|((name, had, of, reference), same)| {
            let alike = *name == by || is_ilp && *name == Mode::Ilp.name();
            let alike = alike && had[R + 1..] == limits[R + 1..] && *of == batch;
            alike && (any || *reference == least) && same.contains(&limits[R])
        })
    }
}

/// A block that keeps its order.
pub(super) struct FixedBlock {
    pub(super) block: Block,
    pub(super) frequency: f64,
    /// Bytes of global memory that the lanes of a warp touch.
    pub(super) bytes: u32,
    /// General registers that are live in it.
    pub(super) registers: i32,
    /// What it costs, once somebody asks.
    pub(super) estimate: Option<Estimate>,
}

/// What holds for all blocks of a function.
pub(super) struct Scheduler<'a> {
    pub(super) func: &'a Function,
    pub(super) options: Options<'a>,
    pub(super) files: &'static RegisterFiles,
    /// Bytes that memory gives a multiprocessor each cycle.
    pub(super) memory_bytes: u32,
    pub(super) occupancy: Occupancy,
    /// General registers no order may exceed, unless the one before did.
    pub(super) hard: i32,
    /// The same by block, where the number of registers changes.
    pub(super) own: Option<SecondaryMap<Block, i32>>,
    /// Warps that take turns on a scheduler, as a guess.
    pub(super) sharing: u32,
    /// General registers that calls need, whatever the order.
    pub(super) called: i32,
    /// Whether reasons are given.
    pub(super) explains: bool,
}

/// Finds an order for every block of `func`, which stays as it is, and gives reasons.
pub fn plan(func: &Function, context: &Context<'_>) -> Result<Plan, PhaseError> {
    find_orders(func, context, &LiveFlow::new(func), true)
}

fn find_orders(
    func: &Function,
    context: &Context<'_>,
    shape: &LiveFlow,
    explains: bool,
) -> Result<Plan, PhaseError> {
    let options = Options::new(func, context)?;
    let files = context.machine.registers;
    let hard = budget::hard_limit(func, files, options.careful_slack()) as i32;
    let own = budget::block_limits(func, options.careful_slack());
    let mut scheduler = Scheduler {
        func,
        own,
        options,
        files,
        memory_bytes: context.machine.limits.memory_bytes,
        occupancy: Occupancy::new(func, files),
        hard,
        sharing: 1,
        called: 0,
        explains,
    };
    Ok(scheduler.run(shape))
}

impl Scheduler<'_> {
    fn run(&mut self, shape: &LiveFlow) -> Plan {
        let func = self.func;
        let (walk, nest) = (&shape.walk, &shape.nest);
        let live = shape.live(func);
        let standing = Standing::new(func, live);
        let needed = standing.needed;
        self.called = standing.called;
        if needed > u32::from(regalloc::limit(func, self.files, Class::R)) {
            // In this order something is spilled. What another order spills only the allocator can tell.
            return Plan {
                needed,
                crowded: self.alternatives(shape, &standing),
                ..Plan::default()
            };
        }
        let frequencies = self.frequencies(shape);
        // Launches fill the machine half, as a guess.
        self.sharing = self.occupancy.warps(needed).div_ceil(2);
        let mut builder = Builder::new(func, Exits::Values(live), self.options.fences());
        let mut numbers = Numbering::default();
        let mut total = 0;
        let (mut moving, mut fixed) = (Vec::new(), Vec::new());
        for &block in walk.postorder() {
            let count = func.block_insts(block).count();
            total += count;
            let peak = standing.peak(block);
            if self.may_move(block, count - tail_length(func, block)) {
                moving.push(block);
            } else {
                fixed.push(self.keep(block, frequencies.times(block), &peak));
            }
        }
        let whole = total <= CHUNK;
        let mut plan = Plan::default();
        let mut movable = Vec::new();
        for block in moving {
            let graph = builder.build(block);
            let values = BlockValues::new(func, &graph, live, &mut numbers);
            let mut candidates = self.candidates(
                graph,
                values,
                standing.peak(block),
                nest,
                frequencies.times(block),
            );
            if !self.fits_files(&mut candidates) {
                fixed.push(self.keep(block, candidates.frequency, &standing.peak(block)));
                continue;
            }
            if whole {
                movable.push(candidates);
            } else {
                self.fill(&mut candidates, self.hard);
                self.decide(&candidates, self.hard, &mut plan);
                plan.budget = self.hard as u32;
            }
        }
        if whole {
            let budget = self.choose_budget(&mut movable, &mut fixed, &mut builder);
            plan.budget = budget as u32;
            for candidates in &movable {
                self.decide(candidates, budget, &mut plan);
            }
        }
        self.leave(&mut fixed, &mut builder, &mut plan);
        plan
    }

    /// Orders for a function that needs more registers in the one it has than there are: the leanest orders of full blocks and the
    /// cheapest of the others, and the cheapest orders that need no more than before.
    fn alternatives(&mut self, shape: &LiveFlow, standing: &Standing) -> Vec<Alternative> {
        let func = self.func;
        let live = shape.live(func);
        let blocks = shape.walk.postorder();
        let total: usize = blocks.iter().map(|&it| func.block_insts(it).count()).sum();
        if total > CHUNK || self.options.asked != Asked::Cascade {
            return Vec::new();
        }
        self.sharing = self.occupancy.warps(self.hard as u32).div_ceil(2);
        let frequencies = self.frequencies(shape);
        let mut builder = Builder::new(func, Exits::Values(live), self.options.fences());
        let mut numbers = Numbering::default();
        let mut found = [const { Alternative::NOTHING }; 2];
        for &block in blocks {
            let count = func.block_insts(block).count();
            let peak = standing.peak(block);
            if !self.may_move(block, count - tail_length(func, block)) {
                continue;
            }
            let graph = builder.build(block);
            let values = BlockValues::new(func, &graph, live, &mut numbers);
            let times = frequencies.times(block);
            let mut candidates = self.candidates(graph, values, peak, &shape.nest, times);
            if !self.fits_files(&mut candidates) {
                continue;
            }
            let had = candidates.choices[0].registers();
            let full = had > self.hard;
            if full && self.options.runs(Mode::ReduceReg, block) {
                self.try_mode(&mut candidates, Mode::ReduceReg, budget::tightened(had));
                // What is live now is no guide where all that could start needs the same; results right before their readers are.
                for strategy in [Strategy::DepthFirst, Strategy::BottomUp] {
                    let variant = Variant::plain(strategy.name());
                    self.try_strategy(&mut candidates, strategy, variant, Mode::Ilp, had);
                }
            }
            let least = leanest(&candidates.small, &candidates.choices);
            let least = candidates.choices[least].registers().max(self.hard);
            self.fill(&mut candidates, least);
            let lean = cheapest(&candidates.small, &candidates.choices, least).clone();
            let quick = if full {
                self.fill(&mut candidates, had);
                cheapest(&candidates.small, &candidates.choices, had).clone()
            } else {
                lean.clone()
            };
            let before = candidates.choices[0].clone();
            for (alternative, choice) in found.iter_mut().zip([&lean, &quick]) {
                alternative.cycles += choice.estimate.mean() * candidates.frequency;
                alternative.before += before.estimate.mean() * candidates.frequency;
                if choice.order != before.order {
                    let insts = undefs_late(func, &candidates.graph, &choice.order);
                    alternative.orders.push((block, insts));
                }
            }
        }
        let mut alternatives: Vec<Alternative> = Vec::new();
        for one in found {
            let known = alternatives.iter().any(|other| other.orders == one.orders);
            if !one.orders.is_empty() && !known {
                alternatives.push(one);
            }
        }
        alternatives
    }

    /// How often blocks run, as a guess.
    fn frequencies(&self, shape: &LiveFlow) -> Frequencies {
        let LiveFlow {
            flow, walk, nest, ..
        } = shape;
        let iterations = |header| match nest.block_depth(header) > self.options.depth_limit() {
            true => 1,
            false => self.options.iterations.of(header),
        };
        Frequencies::with_iterations(self.func, flow, walk, nest, iterations)
    }

    fn candidates(
        &self,
        graph: Graph,
        values: BlockValues,
        peak: Counts,
        nest: &LoopNest,
        frequency: f64,
    ) -> Candidates {
        let order: Vec<u32> = (0..graph.len() as u32).collect();
        debug_assert_eq!(peak, values.peak(order.iter().copied()));
        let had = Choice {
            by: AS_IT_WAS,
            peak,
            estimate: estimate(&graph, order.iter().copied(), self.sharing),
            order,
            windowed: false,
            lean: false,
        };
        Candidates {
            frequency,
            bytes: self.bytes(graph.block),
            in_loop: nest.innermost(graph.block).is_some() && self.options.depth_limit() > 0,
            carried: carried(self.func, &graph),
            timeline: Timeline::new(&graph),
            graph,
            values,
            small: small_limits(self.files, &had.peak),
            choices: vec![had],
            lean: None,
            asked: Vec::new(),
        }
    }

    /// Limits that `reference` keeps.
    fn limits(&self, reference: &Choice, budget: i32) -> Counts {
        let mut limits = [i32::MAX; 5];
        for (class, usable) in small_files(self.files) {
            limits[class as usize] = usable.max(reference.peak[class as usize]);
        }
        limits[Class::R as usize] = budget.max(reference.registers());
        limits
    }

    /// Whether the order of a block may change of which so many instructions may move.
    fn may_move(&self, block: Block, body: usize) -> bool {
        body > 1 && self.options.is_enabled() && !self.options.keeps_order(block)
    }

    /// A block that keeps its order.
    fn keep(&self, block: Block, frequency: f64, peak: &Counts) -> FixedBlock {
        FixedBlock {
            block,
            frequency,
            bytes: self.bytes(block),
            registers: peak[Class::R as usize],
            estimate: None,
        }
    }

    /// Bytes of global memory that the lanes of a warp touch in a block.
    fn bytes(&self, block: Block) -> u32 {
        let machine = Machine::of(self.func.target);
        let insts = self.func.block_insts(block);
        let of_a_lane = insts.filter_map(|inst| {
            let Operation::Machine(op, mods) = self.func.inst(inst).operation() else {
                return None;
            };
            let is_global =
                |effect: &MemoryEffect| matches!(effect.space, Space::Global | Space::Generic);
            let touches = op.row().memory.iter().any(is_global);
            touches.then(|| alias::access_size(machine, op, mods).map_or(WORD, u32::from))
        });
        of_a_lane.sum::<u32>() * self.files.warp
    }

    /// Whether orders of a block can be looked for that spill no predicates and uniform registers. Where the one it has does, one is looked for first that does not, or
    /// that lacks fewer, and leaves as many warps; what follows keeps to what that one needs. Without one the block keeps its order: its spills are
    /// the ones that are known.
    fn fits_files(&self, candidates: &mut Candidates) -> bool {
        let had = &candidates.choices[0];
        let lacks = missing(self.files, &had.peak);
        if lacks == 0 {
            return true;
        }
        let registers = had.registers();
        for strategy in [Strategy::DepthFirst, Strategy::Pressure] {
            let variant = Variant::plain(strategy.name());
            self.try_strategy(candidates, strategy, variant, Mode::ReduceReg, registers);
        }
        let most = self.occupancy.ceiling(registers.max(0) as u32) as i32;
        let most = most
            .min(self.hard_in(candidates.graph.block))
            .max(registers);
        let found = candidates.choices[1..].iter();
        let best = found
            .filter(|choice| choice.registers() <= most)
            .map(|choice| {
                (
                    missing(self.files, &choice.peak),
                    choice.registers(),
                    choice.peak,
                )
            })
            .min();
        match best {
            Some((still, _, peak)) if still < lacks => {
                candidates.small = small_limits(self.files, &peak);
                true
            }
            _ => false,
        }
    }

    /// Adds an order found by `mode` within `budget`.
    pub(super) fn try_mode(&self, candidates: &mut Candidates, mode: Mode, budget: i32) {
        let strategy = Strategy::of_mode(mode);
        self.try_strategy(
            candidates,
            strategy,
            Variant::plain(mode.name()),
            mode,
            budget,
        );
    }

    /// Adds an order found by a variant of ILP within `budget`.
    fn try_ilp(&self, candidates: &mut Candidates, variant: Variant, budget: i32) {
        self.try_strategy(candidates, Strategy::Latency, variant, Mode::Ilp, budget);
    }

    /// Adds an order found by a variant of `strategy` within `budget`.
    pub(super) fn try_strategy(
        &self,
        candidates: &mut Candidates,
        strategy: Strategy,
        variant: Variant,
        mode: Mode,
        budget: i32,
    ) {
        let by = variant.name;
        let had = &candidates.choices[0];
        // The order with the fewest registers so far shows that the budget can be kept.
        let least = leanest(&candidates.small, &candidates.choices);
        let reference = &candidates.choices[least];
        let limits = self.limits(reference, budget);
        let block = candidates.graph.block;
        let mut settings = self
            .options
            .settings(mode, block, candidates.in_loop, limits);
        settings.warps = variant.warps;
        settings.window = variant.window;
        if budget < had.registers() {
            settings.batch = self.options.scarce_batch();
        }
        let gathers = mode == Mode::DynBatch || strategy == Strategy::Tensor;
        let batch = if gathers { settings.batch } else { 0 };
        let question = (by, limits, batch, least);
        let whole = |window| window + 1 >= candidates.graph.len();
        let is_ilp = strategy == Strategy::Latency && variant.window.is_some_and(whole);
        if (candidates.asked.iter()).any(|(asked, _)| *asked == question)
            || mode == Mode::Ilp && candidates.is_answered(&question, is_ilp)
        {
            return;
        }
        let fits = |choice: &&Choice| choice.peak.iter().zip(&limits).all(|(has, may)| has <= may);
        let known = candidates.choices.iter().filter(fits);
        let known = known.min_by_key(|choice| choice.estimate.cycles);
        let task = Task {
            graph: &candidates.graph,
            timeline: &candidates.timeline,
            values: &candidates.values,
            reference: &reference.order,
            known: known
                .filter(|_| self.options.asked == Asked::Cascade)
                .map(|choice| &choice.order[..]),
            settings,
            carried: &candidates.carried,
        };
        let found = strategy.run(&task);
        let limit = limits[Class::R as usize];
        let same = found
            .as_ref()
            .map_or(limit..=limit, |found| found.same.clone());
        candidates.asked.push((question, same));
        let Some(Found { order, peak, .. }) = found else {
            return;
        };
        debug_assert_eq!(candidates.graph.illegal(&order), None, "{by}");
        let choice = Choice {
            by,
            peak,
            estimate: estimate(&candidates.graph, order.iter().copied(), self.sharing),
            order,
            windowed: variant.window.is_some(),
            lean: mode == Mode::ReduceReg,
        };
        candidates.choices.push(choice);
    }

    /// Whether the best order so far is far from what dependences and issue slots allow.
    pub(super) fn does_badly(&self, candidates: &Candidates) -> bool {
        let issued = strategies::issued(&candidates.graph) as u32;
        let bound = candidates.timeline.length.max(issued);
        let cycles = candidates
            .choices
            .iter()
            .map(|choice| choice.estimate.cycles);
        cycles
            .min()
            .is_some_and(|cycles| cycles > bound + bound / BADLY)
    }

    /// Adds the orders that the modes find within `budget`.
    pub(super) fn fill(&self, candidates: &mut Candidates, budget: i32) {
        let budget = budget.min(self.hard_in(candidates.graph.block));
        // What the cascade names is asked once: under the largest budget.
        let first = candidates
            .choices
            .iter()
            .all(|choice| choice.by != Mode::Ilp.name());
        let asked = match &self.options.asked {
            Asked::Cascade => &[][..],
            Asked::Combined => &Strategy::ALL,
            Asked::Only(strategy) => std::slice::from_ref(strategy),
        };
        for &strategy in asked {
            let variant = Variant::plain(strategy.name());
            self.try_strategy(candidates, strategy, variant, Mode::Ilp, budget);
        }
        if !asked.is_empty() {
            return;
        }
        self.try_mode(candidates, Mode::Ilp, budget);
        if self.sharing > 1 {
            let shared = Variant {
                warps: self.sharing,
                ..Variant::plain(SHARED)
            };
            self.try_ilp(candidates, shared, budget);
        }
        if self.does_badly(candidates) {
            for (name, window) in WINDOWS {
                let windowed = Variant {
                    window: Some(window),
                    ..Variant::plain(name)
                };
                self.try_ilp(candidates, windowed, budget);
            }
        }
        // Loads are batched by ILP as well; matrix and texture operations are not.
        let batched = |node: &&Node| matches!(node.pipe, Pipe::Tensor | Pipe::Texture);
        let batched = candidates.graph.nodes.iter().filter(batched);
        if self.options.runs(Mode::DynBatch, candidates.graph.block) && batched.count() > 1 {
            self.try_mode(candidates, Mode::DynBatch, budget);
        }
        if strategies::has_matrix(&candidates.graph) && self.options.counts_units() {
            for (strategy, shared) in [
                (Strategy::Units, UNITS_SHARED),
                (Strategy::Spread, SPREAD_SHARED),
            ] {
                let alone = Variant::plain(strategy.name());
                self.try_strategy(candidates, strategy, alone, Mode::Ilp, budget);
                if self.sharing > 1 {
                    let shared = Variant {
                        warps: self.sharing,
                        ..Variant::plain(shared)
                    };
                    self.try_strategy(candidates, strategy, shared, Mode::Ilp, budget);
                }
            }
        }
        if first
            && let Some(strategy) = strategies::select(
                &candidates.graph,
                candidates.in_loop,
                self.options.opt_level,
            )
        {
            self.try_strategy(
                candidates,
                strategy,
                Variant::plain(strategy.name()),
                Mode::Ilp,
                budget,
            );
        }
    }

    /// Writes down what blocks need that keep their order.
    fn leave(&self, fixed: &mut [FixedBlock], builder: &mut Builder<'_>, plan: &mut Plan) {
        if self.explains {
            self.estimate_fixed(fixed, builder);
        }
        for block in fixed {
            plan.needed = plan.needed.max(block.registers.max(0) as u32);
            if let Some(Estimate { cycles, .. }) = block.estimate
                && self.explains
            {
                plan.blocks.push(Decision {
                    block: block.block,
                    frequency: block.frequency,
                    by: AS_IT_WAS,
                    cycles: (cycles, cycles),
                    registers: (block.registers, block.registers),
                    tried: vec![(AS_IT_WAS, cycles, block.registers)],
                });
            }
        }
    }

    /// General registers no order of `block` may exceed, unless the one before did.
    pub(super) fn hard_in(&self, block: Block) -> i32 {
        let own = self.own.as_ref().map_or(i32::MAX, |own| own[block]);
        self.hard.min(own)
    }

    fn decide(&self, candidates: &Candidates, budget: i32, plan: &mut Plan) {
        let func = self.func;
        let had = &candidates.choices[0];
        let hard = self.hard_in(candidates.graph.block);
        let mut chosen = cheapest(&candidates.small, &candidates.choices, budget.min(hard));
        if chosen.registers() > hard {
            // Alignment may need what is left.
            chosen = had;
        }
        plan.needed = plan.needed.max(chosen.registers().max(0) as u32);
        if self.explains {
            plan.blocks.push(Decision {
                block: candidates.graph.block,
                frequency: candidates.frequency,
                by: chosen.by,
                cycles: (had.estimate.cycles, chosen.estimate.cycles),
                registers: (had.registers(), chosen.registers()),
                tried: candidates
                    .choices
                    .iter()
                    .map(|choice| (choice.by, choice.estimate.cycles, choice.registers()))
                    .collect(),
            });
        }
        if !std::ptr::eq(had, chosen) {
            let insts = undefs_late(func, &candidates.graph, &chosen.order);
            plan.orders.push((candidates.graph.block, insts));
        }
    }
}

/// The dependences of a block that is a loop by itself on its iteration before.
pub(super) fn carried(func: &Function, graph: &Graph) -> Vec<Carried> {
    let block = graph.block;
    // Where each argument of the way back goes, by the parameter that its readers read.
    let mut replaces: FxHashMap<Value, Value> = FxHashMap::default();
    for &edge in func.successor_edges(block) {
        if func.edge_target(edge) == block {
            let params = func.block_params(block).iter();
            replaces.extend(params.zip(func.edge_args(edge)).map(|(&p, &a)| (p, a)));
        }
    }
    if replaces.is_empty() {
        return Vec::new();
    }
    let mut made: FxHashMap<Value, u32> = FxHashMap::default();
    for (node, own) in graph.nodes.iter().enumerate() {
        made.extend(func.value_defs(own.inst).map(|value| (value, node as u32)));
    }
    let mut found = Vec::new();
    for (node, own) in graph.nodes.iter().enumerate() {
        for value in func.value_uses(own.inst) {
            if let Some(&from) = replaces.get(&value).and_then(|argument| made.get(argument)) {
                found.push(Carried {
                    from,
                    to: node as u32,
                    latency: graph.nodes[from as usize].latency,
                });
            }
        }
    }
    found
}
