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

use super::budget::{self, Occupancy};
use super::build::{Builder, Exits, tail_length};
use super::cross_block;
use super::crowded::{self, Alternative};
use super::estimate::{Estimate, estimate};
use super::graph::{Graph, Node, Timeline};
use super::join::join_blocks;
use super::live::{BlockValues, Counts, Numbering, Standing};
use super::options::Options;
use super::pipelining;
use super::priority::Mode;
use super::shape::Shape;
use super::stores;
use super::strategies::{self, Carried, Found, STRATEGIES, Strategy, Task};
use super::trial;
use super::units::Pipe;
use crate::pipeline::{Context, PhaseError};
use crate::regalloc;
use orias_machine::registers::RegisterFiles;
use orias_ori::analysis::LoopNest;
use orias_ori::{AbstractOp, Block, Class, Function, Inst, Value};
use rustc_hash::FxHashMap;

/// A function with more instructions is scheduled block by block.
pub const CHUNK: usize = 16383;

/// What reports call the order a block had.
const AS_IT_WAS: &str = "as it was";

/// What reports call the order that ILP finds for warps that take turns.
const SHARED: &str = "ILP, shared";

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
    let mut shape = Shape::new(func);
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
    if let Some(before) = before
        && trial::spills_more(&before, func, context)
    {
        *func = before;
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
    pub frequency: u64,
    /// Who found the order.
    pub by: &'static str,
    /// Cycles of a warp alone, before and after.
    pub cycles: (u32, u32),
    /// General registers live, before and after.
    pub registers: (i32, i32),
    /// Every order that was found: by whom, its cycles and registers.
    pub tried: Vec<(&'static str, u32, i32)>,
}

/// An order that a block could have.
#[derive(Clone, Debug)]
struct Choice {
    by: &'static str,
    order: Vec<u32>,
    peak: Counts,
    estimate: Estimate,
}

impl Choice {
    fn registers(&self) -> i32 {
        self.peak[Class::R as usize]
    }
}

/// What was asked of a strategy: under what name, with which limits and batches, and which of the choices was the reference.
type Question = (&'static str, Counts, u32, usize);

/// A block whose order may change, and the orders found so far.
struct Room {
    graph: Graph,
    timeline: Timeline,
    values: BlockValues,
    frequency: u64,
    in_loop: bool,
    /// Dependences on the trip before.
    carried: Vec<Carried>,
    /// The first is the order it has.
    choices: Vec<Choice>,
    /// What gave those choices, or nothing.
    asked: Vec<Question>,
}

/// A block that keeps its order.
struct Still {
    block: Block,
    frequency: u64,
    /// General registers that are live in it.
    registers: i32,
    /// What it costs, once somebody asks.
    estimate: Option<Estimate>,
}

/// What holds for all blocks of a function.
struct Scheduler<'a> {
    func: &'a Function,
    options: Options<'a>,
    files: &'static RegisterFiles,
    occupancy: Occupancy,
    /// General registers no order may exceed, unless the one before did.
    hard: i32,
    /// Warps that take turns on a scheduler, as a guess.
    sharing: u32,
    /// Whether reasons are given.
    explains: bool,
}

/// Finds an order for every block of `func`, which stays as it is, and gives reasons.
pub fn plan(func: &Function, context: &Context<'_>) -> Result<Plan, PhaseError> {
    find_orders(func, context, &Shape::new(func), true)
}

fn find_orders(
    func: &Function,
    context: &Context<'_>,
    shape: &Shape,
    explains: bool,
) -> Result<Plan, PhaseError> {
    let options = Options::new(func, context)?;
    let files = context.machine.registers;
    let hard = budget::hard_limit(func, files, options.careful_slack()) as i32;
    let mut scheduler = Scheduler {
        func,
        options,
        files,
        occupancy: Occupancy::new(func, files),
        hard,
        sharing: 1,
        explains,
    };
    Ok(scheduler.run(shape))
}

impl Scheduler<'_> {
    fn run(&mut self, shape: &Shape) -> Plan {
        let func = self.func;
        let (walk, nest) = (&shape.walk, &shape.nest);
        let live = shape.live(func);
        let standing = Standing::new(func, live);
        let needed = standing.needed;
        if needed > u32::from(regalloc::limit(func, self.files, Class::R)) {
            // In this order something is spilled. What another order spills only the allocator can tell.
            return Plan {
                needed,
                crowded: self.alternatives(shape, &standing),
                ..Plan::default()
            };
        }
        // Launches fill the machine half, as a guess.
        self.sharing = self.occupancy.warps(needed).div_ceil(2);
        let mut builder = Builder::new(func, Exits::Values(live), self.options.fences());
        let mut numbers = Numbering::default();
        let mut total = 0;
        let (mut moving, mut stills) = (Vec::new(), Vec::new());
        for &block in walk.postorder() {
            let count = func.block_insts(block).count();
            total += count;
            let peak = standing.peak(block);
            if self.may_move(block, count - tail_length(func, block), &peak) {
                moving.push(block);
            } else {
                stills.push(Still {
                    block,
                    frequency: self.frequency(block, nest),
                    registers: peak[Class::R as usize],
                    estimate: None,
                });
            }
        }
        let whole = total <= CHUNK;
        let mut plan = Plan::default();
        let mut rooms = Vec::new();
        for block in moving {
            let graph = builder.build(block);
            let values = BlockValues::new(func, &graph, live, &mut numbers);
            let mut room = self.room(graph, values, standing.peak(block), nest);
            if whole {
                rooms.push(room);
            } else {
                self.fill(&mut room, self.hard);
                let limit = self.limit(&room, self.hard);
                self.decide(&room, limit, &mut plan);
                plan.budget = self.hard as u32;
            }
        }
        if whole {
            let budget = self.choose_budget(&mut rooms, &mut stills, &mut builder);
            plan.budget = budget as u32;
            for room in &rooms {
                self.decide(room, budget, &mut plan);
            }
        }
        self.leave(&mut stills, &mut builder, &mut plan);
        plan
    }

    /// Orders for a function that needs more registers in the one it has than there are: the leanest orders of full blocks and the
    /// cheapest of the others, the same with full blocks only, and the cheapest orders that need no more than before.
    fn alternatives(&mut self, shape: &Shape, standing: &Standing) -> Vec<Alternative> {
        let func = self.func;
        let live = shape.live(func);
        let blocks = shape.walk.postorder();
        let total: usize = blocks.iter().map(|&it| func.block_insts(it).count()).sum();
        if total > CHUNK || self.options.strategy().is_some() {
            return Vec::new();
        }
        self.sharing = self.occupancy.warps(self.hard as u32).div_ceil(2);
        let mut builder = Builder::new(func, Exits::Values(live), self.options.fences());
        let mut numbers = Numbering::default();
        let mut found = [const { Alternative::NOTHING }; 3];
        for &block in blocks {
            let count = func.block_insts(block).count();
            let peak = standing.peak(block);
            if !self.may_move(block, count - tail_length(func, block), &peak) {
                continue;
            }
            let graph = builder.build(block);
            let values = BlockValues::new(func, &graph, live, &mut numbers);
            let mut room = self.room(graph, values, peak, &shape.nest);
            let had = room.choices[0].registers();
            let full = had > self.hard;
            if full && self.options.runs(Mode::ReduceReg, block) {
                self.try_mode(&mut room, Mode::ReduceReg, budget::tightened(had));
            }
            let registers = room.choices.iter().map(Choice::registers);
            let least = registers.min().unwrap_or(had).max(self.hard);
            self.fill(&mut room, least);
            let lean = cheapest(&room.choices, least).clone();
            let quick = if full {
                self.fill(&mut room, had);
                cheapest(&room.choices, had).clone()
            } else {
                lean.clone()
            };
            let before = room.choices[0].clone();
            let only_full = if full { &lean } else { &before };
            for (alternative, choice) in found.iter_mut().zip([&lean, only_full, &quick]) {
                alternative.cycles += choice.estimate.among(1.0) * room.frequency as f64;
                alternative.before += before.estimate.among(1.0) * room.frequency as f64;
                if choice.order != before.order {
                    let insts = undefs_late(func, &room.graph, &choice.order);
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

    /// How often a block runs, as a guess.
    fn frequency(&self, block: Block, nest: &LoopNest) -> u64 {
        let mut frequency = 1u64;
        let mut around = nest.innermost(block);
        let mut depth = 0;
        while let Some(inner) = around
            && depth < self.options.depth_limit()
        {
            let trips = self.options.trips.of(nest.header(inner));
            frequency = frequency.saturating_mul(u64::from(trips.max(1)));
            around = nest.parent(inner);
            depth += 1;
        }
        frequency
    }

    fn room(&self, graph: Graph, values: BlockValues, peak: Counts, nest: &LoopNest) -> Room {
        let order: Vec<u32> = (0..graph.len() as u32).collect();
        debug_assert_eq!(peak, values.peak(order.iter().copied()));
        let had = Choice {
            by: AS_IT_WAS,
            peak,
            estimate: estimate(&graph, order.iter().copied(), self.sharing),
            order,
        };
        Room {
            frequency: self.frequency(graph.block, nest),
            in_loop: nest.innermost(graph.block).is_some() && self.options.depth_limit() > 0,
            carried: carried(self.func, &graph),
            timeline: Timeline::new(&graph),
            graph,
            values,
            choices: vec![had],
            asked: Vec::new(),
        }
    }

    /// Limits that `reference` keeps. Those of the small files leave one register for what the allocator may have to move.
    fn limits(&self, reference: &Choice, budget: i32) -> Counts {
        let mut limits = [i32::MAX; 5];
        for class in [Class::P, Class::UR, Class::UP] {
            let usable = i32::from(self.files.usable(class.into())) - 1;
            limits[class as usize] = usable.max(reference.peak[class as usize]);
        }
        limits[Class::R as usize] = budget.max(reference.registers());
        limits
    }

    /// No block may need more than this under a budget.
    fn limit(&self, room: &Room, budget: i32) -> i32 {
        budget.max(room.choices[0].registers().min(self.hard))
    }

    /// Whether the order of a block may change that needs so much and of which so many instructions may move.
    fn may_move(&self, block: Block, body: usize, peak: &Counts) -> bool {
        // Where predicates or uniform registers are spilled whatever the order, the one it has is the one whose spills are known.
        let fits = [Class::P, Class::UR, Class::UP].into_iter().all(|class| {
            let usable = i32::from(self.files.usable(class.into()));
            peak[class as usize] <= usable
        });
        fits && body > 1 && self.options.is_enabled() && !self.options.keeps_order(block)
    }

    /// Adds an order found by `mode` within `budget`.
    fn try_mode(&self, room: &mut Room, mode: Mode, budget: i32) {
        let name = match mode {
            Mode::ReduceReg => "pressure",
            Mode::Ilp => "latency",
            Mode::DynBatch => "batch",
        };
        if let Some(strategy) = strategies::find(name) {
            self.try_strategy(room, strategy, (mode.name(), 1), mode, budget);
        }
    }

    /// Adds an order found by `strategy` within `budget`, under a name, for so many warps that take turns.
    fn try_strategy(
        &self,
        room: &mut Room,
        strategy: &Strategy,
        (by, warps): (&'static str, u32),
        mode: Mode,
        budget: i32,
    ) {
        let had = &room.choices[0];
        // The order with the fewest registers so far shows that the budget can be kept.
        let least = (0..room.choices.len())
            .filter(|&index| keeps_files(&room.choices[index], had))
            .min_by_key(|&index| room.choices[index].registers())
            .unwrap_or(0);
        let reference = &room.choices[least];
        let limits = self.limits(reference, budget);
        let block = room.graph.block;
        let mut settings = self.options.settings(mode, block, room.in_loop, limits);
        settings.warps = warps;
        if budget < had.registers() {
            settings.batch = self.options.scarce_batch();
        }
        let question = (by, limits, settings.batch, least);
        if room.asked.contains(&question) {
            return;
        }
        let fits = |choice: &&Choice| choice.peak.iter().zip(&limits).all(|(has, may)| has <= may);
        let known = room.choices.iter().filter(fits);
        let known = known.min_by_key(|choice| choice.estimate.cycles);
        let task = Task {
            graph: &room.graph,
            timeline: &room.timeline,
            values: &room.values,
            reference: &reference.order,
            known: known
                .filter(|_| self.options.strategy().is_none())
                .map(|choice| &choice.order[..]),
            settings,
            carried: &room.carried,
            in_loop: room.in_loop,
            opt_level: self.options.opt_level,
        };
        let found = (strategy.run)(&task);
        room.asked.push(question);
        let Some(Found { order, peak }) = found else {
            return;
        };
        debug_assert_eq!(room.graph.illegal(&order), None, "{by}");
        let choice = Choice {
            by,
            peak,
            estimate: estimate(&room.graph, order.iter().copied(), self.sharing),
            order,
        };
        room.choices.push(choice);
    }

    /// What the cascade names for a block.
    fn selected(&self, room: &Room) -> &'static str {
        let limits = room.choices[0].peak;
        let settings = self
            .options
            .settings(Mode::Ilp, room.graph.block, room.in_loop, limits);
        strategies::select(&Task {
            graph: &room.graph,
            timeline: &room.timeline,
            values: &room.values,
            reference: &room.choices[0].order,
            known: None,
            settings,
            carried: &room.carried,
            in_loop: room.in_loop,
            opt_level: self.options.opt_level,
        })
    }

    /// Adds the orders that the modes find within `budget`.
    fn fill(&self, room: &mut Room, budget: i32) {
        // What the cascade names is asked once: under the largest budget.
        let first = room
            .choices
            .iter()
            .all(|choice| choice.by != Mode::Ilp.name());
        match self.options.strategy() {
            None => {}
            Some("combined") => {
                for strategy in STRATEGIES {
                    self.try_strategy(room, strategy, (strategy.name, 1), Mode::Ilp, budget);
                }
                return;
            }
            Some(name) => {
                if let Some(strategy) = strategies::find(name) {
                    self.try_strategy(room, strategy, (strategy.name, 1), Mode::Ilp, budget);
                }
                return;
            }
        }
        self.try_mode(room, Mode::Ilp, budget);
        if self.sharing > 1
            && let Some(latency) = strategies::find("latency")
        {
            let name = (SHARED, self.sharing);
            self.try_strategy(room, latency, name, Mode::Ilp, budget);
        }
        // Loads are batched by ILP as well; matrix and texture operations are not.
        let batched = |node: &&Node| matches!(node.pipe, Pipe::Tensor | Pipe::Texture);
        let batched = room.graph.nodes.iter().filter(batched);
        if self.options.runs(Mode::DynBatch, room.graph.block) && batched.count() > 1 {
            self.try_mode(room, Mode::DynBatch, budget);
        }
        let selected = if first {
            self.selected(room)
        } else {
            "latency"
        };
        if !["latency", "tensor"].contains(&selected)
            && let Some(strategy) = strategies::find(selected)
        {
            self.try_strategy(room, strategy, (strategy.name, 1), Mode::Ilp, budget);
        }
    }

    fn choose_budget(
        &self,
        rooms: &mut [Room],
        stills: &mut [Still],
        builder: &mut Builder<'_>,
    ) -> i32 {
        let had = rooms.iter().map(|room| room.choices[0].registers()).max();
        let still = stills.iter().map(|still| still.registers).max();
        let still = still.unwrap_or(0).max(0);
        let had = had.unwrap_or(0).max(still);
        // As many warps as before, unless knob 763 asks for something else.
        let same = self.occupancy.ceiling(had as u32) as i32;
        let roomy = match self.options.register_target() {
            None => self.hard.min(same).max(1),
            Some(_) => self.hard.max(1),
        };
        let mut least = still;
        let mut most = still;
        let (reduce, only_reduce) = self.options.reduce_limits();
        for room in rooms.iter_mut() {
            let now = room.choices[0].registers();
            // Below what costs nothing, and below what blocks need that keep their order, there is nothing to reduce.
            let crowded = (now > reduce || now > self.occupancy.free().max(still))
                && self.options.strategy().is_none();
            if crowded && self.options.runs(Mode::ReduceReg, room.graph.block) {
                self.try_mode(room, Mode::ReduceReg, budget::tightened(now));
            }
            if now <= only_reduce {
                self.fill(room, roomy);
            }
            let registers = room.choices.iter().map(Choice::registers);
            least = least.max(registers.min().unwrap_or(now));
            most = most.max(cheapest(&room.choices, i32::MAX).registers());
        }
        if let Some(target) = self.options.register_target() {
            let budget = if target == 0 {
                self.hard
            } else {
                target as i32
            };
            self.refill(rooms, budget);
            return budget.max(least);
        }
        let ceiling = roomy.max(had.min(self.hard)).max(least);
        let most = most.min(ceiling).max(least);
        let candidates = self
            .occupancy
            .candidates(least as u32, had as u32, most as u32);
        let mut budgets: Vec<i32> = candidates
            .into_iter()
            .map(|budget| (budget as i32).min(ceiling))
            .collect();
        budgets.dedup();
        if let [only] = budgets[..] {
            self.refill(rooms, only);
            return only;
        }
        self.estimate_stills(stills, builder);
        let mut best: Option<(f64, i32)> = None;
        for budget in budgets {
            self.refill(rooms, budget);
            let cost = self.cost(rooms, stills, budget, had);
            if best.is_none_or(|(known, _)| cost < known) {
                best = Some((cost, budget));
            }
        }
        best.map_or(least, |(_, budget)| budget)
    }

    /// What the function costs if every block has its cheapest order within `budget`, where the orders before needed `had` registers.
    fn cost(&self, rooms: &[Room], stills: &[Still], budget: i32, had: i32) -> f64 {
        let warps = self.occupancy.warps(budget.max(0) as u32);
        let turns = f64::from(warps) / f64::from(self.occupancy.warps(had.max(0) as u32));
        let mut cycles = 0.0;
        let mut needed = 0;
        for room in rooms {
            let choice = cheapest(&room.choices, budget);
            needed = needed.max(choice.registers());
            cycles += choice.estimate.among(turns) * room.frequency as f64;
        }
        for still in stills {
            let estimate = still.estimate.as_ref();
            let each = estimate.map_or(0.0, |estimate| estimate.among(turns));
            cycles += each * still.frequency as f64;
        }
        let extra = f64::from((needed - had).max(0));
        cycles * (1.0 + self.options.bump_scale() * extra)
    }

    /// Adds orders within `budget` where none of the cheap ones fits.
    fn refill(&self, rooms: &mut [Room], budget: i32) {
        for room in rooms {
            let fits = |choice: &Choice| {
                choice.registers() <= budget && choice.by != Mode::ReduceReg.name()
            };
            if !room.choices[1..].iter().any(fits) {
                self.fill(room, budget);
            }
        }
    }

    /// What blocks cost that keep their order.
    fn estimate_stills(&self, stills: &mut [Still], builder: &mut Builder<'_>) {
        for still in stills {
            let graph = builder.build(still.block);
            let order = 0..graph.len() as u32;
            still.estimate = Some(estimate(&graph, order, self.sharing));
        }
    }

    /// Writes down what blocks need that keep their order.
    fn leave(&self, stills: &mut [Still], builder: &mut Builder<'_>, plan: &mut Plan) {
        if self.explains {
            self.estimate_stills(stills, builder);
        }
        for still in stills {
            plan.needed = plan.needed.max(still.registers.max(0) as u32);
            if let Some(Estimate { cycles, .. }) = still.estimate
                && self.explains
            {
                plan.blocks.push(Decision {
                    block: still.block,
                    frequency: still.frequency,
                    by: AS_IT_WAS,
                    cycles: (cycles, cycles),
                    registers: (still.registers, still.registers),
                    tried: vec![(AS_IT_WAS, cycles, still.registers)],
                });
            }
        }
    }

    fn decide(&self, room: &Room, budget: i32, plan: &mut Plan) {
        let func = self.func;
        let had = &room.choices[0];
        let mut chosen = cheapest(&room.choices, self.limit(room, budget));
        if chosen.registers() > self.hard {
            // Alignment may need what is left.
            chosen = had;
        }
        plan.needed = plan.needed.max(chosen.registers().max(0) as u32);
        if self.explains {
            plan.blocks.push(Decision {
                block: room.graph.block,
                frequency: room.frequency,
                by: chosen.by,
                cycles: (had.estimate.cycles, chosen.estimate.cycles),
                registers: (had.registers(), chosen.registers()),
                tried: room
                    .choices
                    .iter()
                    .map(|choice| (choice.by, choice.estimate.cycles, choice.registers()))
                    .collect(),
            });
        }
        if !std::ptr::eq(had, chosen) {
            let insts = undefs_late(func, &room.graph, &chosen.order);
            plan.orders.push((room.graph.block, insts));
        }
    }
}

/// Whether an order needs no more of the small register files than they have, or than the order before did.
fn keeps_files(choice: &Choice, had: &Choice) -> bool {
    [(Class::P, 6), (Class::UR, 60), (Class::UP, 6)]
        .into_iter()
        .all(|(class, usable)| choice.peak[class as usize] <= had.peak[class as usize].max(usable))
}

/// The cheapest of the orders that need at most `limit` registers, or the one that needs least. Of equals, the first.
fn cheapest(choices: &[Choice], limit: i32) -> &Choice {
    let had = &choices[0];
    let rank = |choice: &Choice| {
        let over = (choice.registers() - limit).max(0);
        (
            !keeps_files(choice, had),
            over,
            choice.estimate.product(),
            choice.estimate.cycles,
            choice.registers(),
        )
    };
    let mut best = had;
    for choice in &choices[1..] {
        if rank(choice) < rank(best) {
            best = choice;
        }
    }
    best
}

/// The dependences of a block that is a loop by itself on its trip before.
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

/// The instructions of an order, with values that may be anything right before whoever reads them first.
fn undefs_late(func: &Function, graph: &Graph, order: &[u32]) -> Vec<Inst> {
    let is_undef = |node: usize| {
        let opcode = func.opcode(graph.nodes[node].inst);
        opcode.as_abstract() == Some(AbstractOp::Undef)
    };
    let mut placed = vec![false; graph.len()];
    let mut insts = Vec::with_capacity(order.len());
    let last = order.last().copied();
    for &node in order {
        let node = node as usize;
        if is_undef(node) && Some(node as u32) != last {
            continue;
        }
        for edge in graph.preds(node) {
            let from = edge.from as usize;
            if is_undef(from) && !std::mem::replace(&mut placed[from], true) {
                insts.push(graph.nodes[from].inst);
            }
        }
        if Some(node as u32) == last {
            // Read only in other blocks.
            for other in (0..graph.len()).filter(|&other| is_undef(other)) {
                if !std::mem::replace(&mut placed[other], true) {
                    insts.push(graph.nodes[other].inst);
                }
            }
        }
        placed[node] = true;
        insts.push(graph.nodes[node].inst);
    }
    insts
}

/// Puts the instructions of `block` into this order.
pub fn relink(func: &mut Function, block: Block, order: &[Inst]) {
    for &inst in order {
        func.layout.remove_inst(inst);
    }
    for &inst in order {
        func.layout.append_inst(inst, block);
    }
}
