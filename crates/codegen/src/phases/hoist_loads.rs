//! HoistLoads (10086): loads go up to blocks that dominate theirs, so that more of them are in flight at once.
//!
//! A load is waited for where its result is used first, and a branch behind that use keeps all loads of later blocks from being issued before: an unrolled loop with an `if` in its body waits for
//! one load in each copy, although none needs another. A load leaves its block for the end of the immediate dominator, block by block, in two ways:
//!
//! - **Above a join.** The block post-dominates its dominator and both are in the same loop: one runs as often as the other, so nothing is loaded that was not loaded before.
//! - **Under the branch's predicate.** The dominator's branch is the only way to the block: the load gets the predicate as its guard, and is as little executed as before. What computes its address
//!   is then computed for nothing where the branch goes the other way. Only branches at which lanes may part: a warp goes both ways there, and waits for the load in any case. Where all go one way, whoever
//!   writes the load's register on the other would wait for a load that nobody needs. A load that comes no further than to the branch has gained nothing, so it stays.
//!
//! **Memory.** Loads are weak ones from global memory. Nothing they pass may change what they find ([`Changes`]); data that nobody writes (`ld.global.nc`) is held back by calls, traps,
//! fences, and by accesses to global memory that order others (acquire, release, volatile), but neither by stores, relaxed updates nor by barriers of the thread block or the cluster.
//!
//! **Operands.** The address must be known at the new place. What computes it goes along if it has no effect, up to [`MOST_WITH`] instructions.
//!
//! **Where.** In its new block the load stands before the first instruction that waits for another, if there is a register to spare there, else at the end.
//!
//! **Cost.** A load moves if another load, or an atomic operation with a result, is in the block it comes to (and is no part of its address) or stands on its way: then one waits in the
//! shadow of the other. What sets up mbarriers and waits for a cluster on its way counts like another load. What is computed for nothing counts by block frequencies ([`Frequencies`]) against the eighth part of a latency ([`SHADOW`]), as other warps hide most of it; no load leaves a block that is
//! cold for one that is not. Every block that is passed must have registers to spare, up to what a thread is given for what the function needs elsewhere, or to what leaves as many warps as there can be. Knobs 10087 and 10088
//! limit the blocks between and the words that come to one block.
//!
//! Liveness, pressure and both trees once; each load then looks at the blocks it passes, at most knob 10087 a step and [`MOST_STEPS`] steps.

use super::if_conversion::put_under;
use super::memory_changes::Changes;
use crate::emit::Emit;
use crate::knobs::registry;
use crate::loops::LoopAnalyses;
use crate::pipeline::{Context, PhaseError};
use crate::schedule::budget::{Occupancy, hard_limit};
use cranelift_entity::SecondaryMap;
use orias_ori::analysis::{DefUse, Divergence, Frequencies, Liveness, PostDominatorTree, Pressure};
use orias_ori::operation::{Cache, Order, Scalar, Space, Special};
use orias_ori::{
    AbstractOp, Block, Class, Effects, Function, Guard, Inst, SourceMods, Value, ValueDef,
};
use std::collections::BTreeMap;

/// Instructions that go along with a load, at most.
const MOST_WITH: usize = 8;

/// Predicates that may be live before none is made earlier: of seven, a block needs some of its own.
const MOST_PREDICATES: u32 = 5;

/// Dominators a load passes, at most.
const MOST_STEPS: usize = 8;

/// Instructions of the block a load comes to that are looked at for what its address needs.
const MOST_ANCESTORS: usize = 64;

/// Issue slots that a load in the shadow of another is worth: an eighth of the latency of global memory.
const SHADOW: f64 = 60.0;

/// Runs the phase.
pub fn hoist_loads(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    hoist(func, context);
    Ok(())
}

/// Which loads would move, in words.
pub fn explain(func: &Function, context: &Context<'_>) -> Vec<String> {
    let mut found: BTreeMap<(Block, Block), (usize, usize)> = BTreeMap::new();
    for moved in hoist(&mut func.clone(), context) {
        let (loads, guarded) = found.entry((moved.from, moved.to)).or_default();
        *loads += 1;
        *guarded += usize::from(moved.guarded);
    }
    let line = |((from, to), (loads, guarded)): ((Block, Block), (usize, usize))| {
        let under = match guarded {
            0 => String::new(),
            _ if guarded == loads => ", under the predicate of a branch".to_owned(),
            _ => format!(", {guarded} of them under the predicate of a branch"),
        };
        let plural = if loads == 1 { "" } else { "s" };
        format!("{loads} load{plural} of {from} up to {to}{under}")
    };
    found.into_iter().map(line).collect()
}

/// A load that went.
struct Moved {
    from: Block,
    to: Block,
    guarded: bool,
}

fn hoist(func: &mut Function, context: &Context<'_>) -> Vec<Moved> {
    let size = |knob| usize::try_from(context.knobs.int(knob)).unwrap_or(0);
    let has_load = |func: &Function| {
        let mut insts = func.blocks().flat_map(|block| func.block_insts(block));
        insts.any(|inst| is_load(func, inst))
    };
    if func.entry().is_none() || func.blocks().count() < 2 || !has_load(func) {
        return Vec::new();
    }
    let shape = LoopAnalyses::of(func);
    let live = Liveness::new(func, &shape.graph);
    let pressure = Pressure::new(func, &live);
    let files = context.machine.registers;
    let occupancy = Occupancy::new(func, files);
    let free = u32::try_from(occupancy.free()).unwrap_or(0);
    let most = pressure.overall()[Class::R];
    // A thread gets registers by the portion.
    let given = occupancy.portion(most).max(free);
    let mut crossed: SecondaryMap<Block, Crossed> = SecondaryMap::new();
    for block in func.blocks() {
        for inst in func.block_insts(block) {
            crossed[block].note(func, inst);
        }
    }
    let mut hoister = Hoister {
        after: PostDominatorTree::new(&shape.graph),
        divergence: Divergence::new(
            func,
            &shape.graph,
            &shape.walk,
            &shape.nest,
            &DefUse::new(func),
        ),
        frequencies: Frequencies::new(func, &shape.graph, &shape.walk, &shape.nest),
        budget: given.min(hard_limit(func, files, 0)).max(most),
        between: size(&registry::HOIST_LOADS_BLOCKS),
        words: u32::try_from(size(&registry::HOIST_LOADS_WORDS)).unwrap_or(u32::MAX),
        steps: SecondaryMap::new(),
        more: SecondaryMap::new(),
        predicates: SecondaryMap::new(),
        came: SecondaryMap::new(),
        shape,
        pressure,
        crossed,
    };
    let order: Vec<Block> = hoister.shape.walk.reverse_postorder().collect();
    let mut moved = Vec::new();
    for block in order {
        let insts: Vec<Inst> = func.block_insts(block).collect();
        let mut before = Crossed::default();
        for inst in insts {
            let place = (is_load(func, inst))
                .then(|| hoister.place(func, inst, block, before))
                .flatten();
            match place {
                Some(place) => moved.push(hoister.go(func, inst, block, place)),
                None => before.note(func, inst),
            }
        }
    }
    moved
}

/// What stands between a load and where it goes.
#[derive(Clone, Copy, Default)]
struct Crossed {
    /// What weak loads may find changed.
    changes: Changes,
    /// Whether even loads of what nobody writes stay behind it.
    holds_all: bool,
    /// Whether something in it takes long.
    waits: bool,
}

impl Crossed {
    fn note(&mut self, func: &Function, inst: Inst) {
        self.changes.note(func, inst);
        let effects = func.opcode(inst).effects();
        // What is relaxed orders nothing but itself.
        let ordered = func
            .modifier::<Order>(inst)
            .is_some_and(|order| !matches!(order, Order::Weak | Order::Relaxed));
        let fence = effects.contains(Effects::BARRIER)
            && !effects.contains(Effects::CONVERGENT)
            && !prepares_cluster(func, inst);
        let shared = func.modifier::<Space>(inst) == Some(Space::Shared);
        // What is neither an access nor a jump may end the thread, as a trap does.
        let known = Effects::WRITES.with(Effects::TERMINATOR);
        let ends = effects.contains(Effects::SIDE) && !effects.intersects(known);
        let called = effects.contains(Effects::CALL);
        let ordered = ordered && !shared && !prepares_cluster(func, inst);
        self.holds_all |= called || fence || ends || ordered;
        self.waits |= takes_long(func, inst) || prepares_cluster(func, inst);
    }

    fn with(self, other: Crossed) -> Crossed {
        Crossed {
            changes: self.changes.with(other.changes),
            holds_all: self.holds_all || other.holds_all,
            waits: self.waits || other.waits,
        }
    }

    /// Whether the load `inst` must stay behind it.
    fn holds(self, func: &Function, inst: Inst) -> bool {
        let constant = func.modifier::<Cache>(inst) == Some(Cache::Nc);
        self.holds_all || !constant && self.changes.touch(Space::Global)
    }
}

/// Whether `inst` is a load that may move.
fn is_load(func: &Function, inst: Inst) -> bool {
    func.opcode(inst).as_abstract() == Some(AbstractOp::Ld)
        && func.modifier::<Order>(inst) == Some(Order::Weak)
        && func.modifier::<Space>(inst) == Some(Space::Global)
}

/// Whether the result of `inst` is waited for as long as that of a load.
fn takes_long(func: &Function, inst: Inst) -> bool {
    let reads = func.opcode(inst).effects().contains(Effects::READS);
    let near = matches!(
        func.modifier::<Space>(inst),
        Some(Space::Param | Space::Const | Space::Shared)
    );
    reads && !near && func.result_count(inst) > 0
}

/// Whether `inst` sets up mbarriers, arrives at one, or waits for the blocks of a cluster, as kernels do before their work. That takes long, and data
/// that nobody writes is the same before and after it.
fn prepares_cluster(func: &Function, inst: Inst) -> bool {
    use AbstractOp::{ClusterArrive, ClusterWait, FenceMbarrierInit, Mbarrier, MbarrierArrive};
    matches!(
        func.opcode(inst).as_abstract(),
        Some(ClusterArrive | ClusterWait | FenceMbarrierInit | Mbarrier | MbarrierArrive)
    )
}

/// Whether `inst` may be computed wherever its operands are.
fn goes_along(func: &Function, inst: Inst) -> bool {
    let Some(op) = func.opcode(inst).as_abstract() else {
        return false;
    };
    let param = op == AbstractOp::Ld && func.modifier::<Space>(inst) == Some(Space::Param);
    let fixed = op == AbstractOp::Sreg
        && (func.modifier::<Special>(inst)).is_some_and(super::common_subexpressions::is_fixed);
    // Divisions and roots that are left become calls.
    let called = matches!(
        op,
        AbstractOp::Div | AbstractOp::Rem | AbstractOp::Fdiv | AbstractOp::Sqrt
    );
    param || fixed || op.row().effects == Effects::NONE && !called
}

/// The way from a block to its immediate dominator.
#[derive(Clone)]
struct Step {
    to: Block,
    /// The blocks on the ways between the two.
    between: Vec<Block>,
    /// What the branch's predicate is where its way leads to the block, if it is not the only one.
    guard: Option<Guard>,
}

/// Whether something from `place` to the end of its block holds `load` back.
fn held_behind(func: &Function, load: Inst, place: Inst) -> bool {
    let mut crossed = Crossed::default();
    let mut next = Some(place);
    while let Some(inst) = next {
        crossed.note(func, inst);
        next = func.layout.next_inst(inst);
    }
    crossed.holds(func, load)
}

/// Puts `load` under one more guard.
fn add_guard(func: &mut Function, load: Inst, guard: Guard) {
    let own = func.inst(load).guard();
    if own.is_always() {
        put_under(func, load, guard);
        return;
    }
    let mut emit = Emit::before(func, load);
    let [own, guard] = [own, guard].map(|guard| {
        let value = guard.reg().and_then(|reg| reg.value());
        value.map(|value| match guard.is_negated() {
            true => emit.op(AbstractOp::Not, (Scalar::Pred,), &[value.into()]),
            false => value.into(),
        })
    });
    let (Some(own), Some(guard)) = (own, guard) else {
        return;
    };
    let both = emit.value(AbstractOp::And, (Scalar::Pred,), &[own, guard]);
    // Where the second guard does not hold, nobody reads the result: what the first keeps may be kept.
    if emit.finish().is_ok() {
        func.set_guard(load, Guard::when(both));
    }
}

/// Where a load goes, and how.
struct Place {
    to: Block,
    /// The instructions that go along, operands first.
    with: Vec<Inst>,
    guard: Option<Guard>,
    /// Predicates among what goes along.
    predicates: u32,
    /// The blocks that it will be live in.
    through: Vec<Block>,
}

struct Hoister {
    shape: LoopAnalyses,
    after: PostDominatorTree,
    divergence: Divergence,
    frequencies: Frequencies,
    pressure: Pressure,
    /// By block: what it does to loads that pass it.
    crossed: SecondaryMap<Block, Crossed>,
    budget: u32,
    /// Blocks between two, at most.
    between: usize,
    /// Words that come to a block, at most.
    words: u32,
    steps: SecondaryMap<Block, Option<Option<Step>>>,
    /// By block: registers that hoisted loads take there.
    more: SecondaryMap<Block, u32>,
    /// By block: predicates that are made earlier.
    predicates: SecondaryMap<Block, u32>,
    /// By block: words of loads that came to it.
    came: SecondaryMap<Block, u32>,
}

impl Hoister {
    /// The step from `block` up.
    fn step(&mut self, func: &Function, block: Block) -> Option<Step> {
        if self.steps[block].is_none() {
            self.steps[block] = Some(self.find_step(func, block));
        }
        self.steps[block].clone().flatten()
    }

    fn find_step(&self, func: &Function, block: Block) -> Option<Step> {
        let shape = &self.shape;
        let to = shape.tree.immediate_dominator(block)?;
        if shape.nest.innermost(to) != shape.nest.innermost(block)
            || self.frequencies.is_cold(block) && !self.frequencies.is_cold(to)
        {
            return None;
        }
        if self.after.post_dominates(block, to) {
            let between = self.blocks_between(to, block)?;
            // Under a guard, a thread may end there.
            let goes_on = |&block: &Block| {
                let end = func.terminator(block);
                end.is_some_and(|end| func.inst(end).guard().is_always())
            };
            if !between.iter().chain([&to]).all(goes_on) {
                return None;
            }
            return Some(Step {
                to,
                between,
                guard: None,
            });
        }
        let &[(from, edge)] = shape.incoming(block) else {
            return None;
        };
        let branch = func.terminator(to)?;
        let is_branch = func.opcode(branch).as_abstract() == Some(AbstractOp::CondBr);
        if from != to || !is_branch || !self.divergence.is_divergent_branch(to) {
            return None;
        }
        let &[yes, _] = func.edges(branch) else {
            return None;
        };
        let &condition = func.operands(branch).first()?;
        let value = condition.as_value()?;
        let negated = condition.mods().contains(SourceMods::NOT);
        let guard = match (edge == yes) != negated {
            true => Guard::when(value),
            false => Guard::unless(value),
        };
        Some(Step {
            to,
            between: Vec::new(),
            guard: Some(guard),
        })
    }

    /// The blocks on the ways from `to` to `block`, if they are few and in no other loop.
    fn blocks_between(&self, to: Block, block: Block) -> Option<Vec<Block>> {
        let home = self.shape.nest.innermost(to);
        let mut found: Vec<Block> = Vec::new();
        let mut left = vec![block];
        while let Some(at) = left.pop() {
            for &(from, _) in self.shape.incoming(at) {
                if from == to || found.contains(&from) {
                    continue;
                }
                let stays = self.shape.nest.innermost(from) == home && from != block;
                if !stays || found.len() >= self.between {
                    return None;
                }
                found.push(from);
                left.push(from);
            }
        }
        Some(found)
    }

    /// Where `load` goes from `block`, in which `before` stands in front of it.
    fn place(
        &mut self,
        func: &Function,
        load: Inst,
        block: Block,
        before: Crossed,
    ) -> Option<Place> {
        let width: u32 = (func.value_defs(load))
            .map(|value| u32::from(func.value_type(value).len()))
            .sum();
        // What stands in the same block is in flight at the same time anyway.
        let own = Crossed {
            waits: false,
            ..before
        };
        let (mut at, mut crossed) = (block, own);
        let mut guard: Option<Guard> = None;
        let mut through = Vec::new();
        let mut best = None;
        for _ in 0..MOST_STEPS {
            let Some(step) = self.step(func, at) else {
                break;
            };
            // With one of its own, the load has two guards at most.
            if step.guard.is_some() && guard.is_some() {
                break;
            }
            for &passed in &step.between {
                crossed = crossed.with(self.crossed[passed]);
            }
            guard = guard.or(step.guard);
            if crossed.holds(func, load) {
                break;
            }
            let Some(with) = self.operands(func, load, guard, step.to) else {
                break;
            };
            through.push(at);
            through.extend(&step.between);
            let full = |&block: &Block| {
                self.pressure.in_block(block)[Class::R] + self.more[block] + width > self.budget
            };
            let at_end = func.terminator(step.to).map_or(0, |end| {
                self.pressure.at(end)[Class::R] + self.more[step.to] + width
            });
            // Those that decide branches further down are needed until then.
            let deciding = |&inst: &Inst| {
                let mut defs = func.value_defs(inst);
                defs.any(|value| func.value_type(value).class() == Class::P)
            };
            let predicates = with.iter().filter(|inst| deciding(inst)).count() as u32;
            let undecided = |&block: &Block| {
                let live = self.pressure.in_block(block)[Class::P] + self.predicates[block];
                live + predicates > MOST_PREDICATES
            };
            if through.iter().any(full)
                || predicates > 0 && through.iter().chain([&step.to]).any(undecided)
                || at_end > self.budget
                || self.came[step.to] + width > self.words
            {
                break;
            }
            let runs = |block: Block| self.frequencies.times(block);
            let idle = (runs(step.to) - runs(block)).max(0.0) * (with.len() + 1) as f64;
            let in_shadow = crossed.waits || self.meets_load(func, load, &with, step.to);
            if in_shadow && step.guard.is_none() && idle <= SHADOW * runs(block) {
                best = Some(Place {
                    to: step.to,
                    with,
                    guard,
                    predicates,
                    through: through.clone(),
                });
            }
            at = step.to;
            crossed = crossed.with(self.crossed[at]);
        }
        best
    }

    /// The instructions that have to go along if `load` goes to `to` under `guard`, operands first; none if it cannot.
    fn operands(
        &self,
        func: &Function,
        load: Inst,
        guard: Option<Guard>,
        to: Block,
    ) -> Option<Vec<Inst>> {
        let guard = guard
            .and_then(|guard| guard.reg())
            .and_then(|reg| reg.value());
        let mut with: Vec<Inst> = Vec::new();
        let mut wanted: Vec<Value> = func.value_uses(load).chain(guard).collect();
        // From uses to definitions; the last place of each counts.
        while let Some(value) = wanted.pop() {
            let home = func.defining_block(value)?;
            if self.shape.tree.dominates(home, to) {
                continue;
            }
            let ValueDef::Inst(maker, _) = func.value_def(value) else {
                return None;
            };
            if !goes_along(func, maker) || with.len() >= MOST_WITH {
                return None;
            }
            if !with.contains(&maker) {
                with.push(maker);
                wanted.extend(func.value_uses(maker));
            }
        }
        self.in_order(func, with)
    }

    /// The same instructions, each behind those that make its operands.
    fn in_order(&self, func: &Function, mut with: Vec<Inst>) -> Option<Vec<Inst>> {
        let mut sorted: Vec<Inst> = Vec::with_capacity(with.len());
        while !with.is_empty() {
            let ready = with.iter().position(|&inst| {
                (func.value_uses(inst))
                    .filter_map(|value| func.defining_inst(value))
                    .all(|maker| !with.contains(&maker))
            })?;
            sorted.push(with.remove(ready));
        }
        Some(sorted)
    }

    /// Whether `to` has something that takes long and is not needed for the address of `load`.
    fn meets_load(&self, func: &Function, load: Inst, with: &[Inst], to: Block) -> bool {
        let mut needed: Vec<Inst> = vec![load];
        needed.extend(with);
        let mut next = 0;
        while next < needed.len() && needed.len() < MOST_ANCESTORS {
            for value in func.value_uses(needed[next]) {
                if let Some(maker) = func.defining_inst(value)
                    && func.layout.inst_block(maker) == Some(to)
                    && !needed.contains(&maker)
                {
                    needed.push(maker);
                }
            }
            next += 1;
        }
        func.block_insts(to)
            .any(|inst| takes_long(func, inst) && !needed.contains(&inst))
    }

    /// The first instruction of the block that `load` comes to which waits for something else and is behind all that `load` needs.
    fn first_wait(&self, func: &Function, load: Inst, place: &Place) -> Option<Inst> {
        let guard = place.guard.and_then(|guard| guard.reg()?.value());
        let moving = place.with.iter().chain([&load]);
        let mut needed: Vec<Value> = moving.flat_map(|&inst| func.value_uses(inst)).collect();
        needed.extend(guard);
        let mut found = None;
        for inst in func.block_insts(place.to) {
            let waits = |value: Value| {
                func.defining_inst(value).is_some_and(|maker| {
                    func.layout.inst_block(maker) == Some(place.to) && takes_long(func, maker)
                })
            };
            if func.value_defs(inst).any(|value| needed.contains(&value)) {
                found = None;
            } else if found.is_none() && func.value_uses(inst).any(waits) {
                found = Some(inst);
            }
        }
        found
    }

    /// Moves `load`.
    fn go(&mut self, func: &mut Function, load: Inst, from: Block, place: Place) -> Moved {
        let words: u32 = (func.value_defs(load))
            .map(|value| u32::from(func.value_type(value).len()))
            .sum();
        let end = func.terminator(place.to).expect("a block has a terminator");
        let room = self.pressure.in_block(place.to)[Class::R] + self.more[place.to] + words;
        let early = (self.first_wait(func, load, &place))
            .filter(|&wait| room <= self.budget && !held_behind(func, load, wait));
        let at = early.unwrap_or(end);
        for &inst in place.with.iter().chain([&load]) {
            func.layout.remove_inst(inst);
            func.layout.insert_inst_before(inst, at);
        }
        if let Some(guard) = place.guard {
            add_guard(func, load, guard);
        }
        for &block in place.through.iter().chain([&place.to]) {
            self.predicates[block] += place.predicates;
        }
        for &block in &place.through {
            self.more[block] += words;
        }
        self.came[place.to] += words;
        Moved {
            from,
            to: place.to,
            guarded: place.guard.is_some(),
        }
    }
}
