//! Cross-block scheduling: moving instructions into the block before.
//!
//! A kernel that begins with `if (i >= n) return;` computes addresses and loads parameters behind the test, although the warp stands
//! idle in front of it, waiting for what the test compares. An instruction that has no effect but its result may as well run
//! before the test: if the test fails, nobody looks at the result.
//!
//! **Which.** Unguarded arithmetic on general registers, loads from a constant bank at a fixed place, and special registers
//! that do not change. Never memory that may not be there, textures, lane operations, predicates (there are few), uniform registers (which
//! must not live across a branch that may split the warp), or anything with order to keep.
//!
//! **Where.** From a block to its only predecessor (a loop that only waits at an mbarrier between the two does not count), but not into a region in which the lanes of different masks take turns, if both are in the same loop (or in none): ptxas's rules allow pairs further apart if
//! no block between has a long operation; here a moved instruction may be moved again, up to as many blocks as knob 744 says, which
//! asks for the same of each step. Nothing moves above a switch, nor from a block that hardly ever runs to one that does.
//!
//! **What waits.** Nothing that reads what the block before loads, unless its branch waits for that load anyway: the branch would wait for it, and with it all that is behind.
//!
//! **How many.** As many as the block before has idle cycles on its critical path, at most as knob 743 says, the longest chains first,
//! and only while that block's live registers stay where they cost nothing. Functions and conversions only where other ways are hardly ever taken: their unit is slow. Nothing that replaces one of
//! its operands where ways join again: the two would need a register each, and a move.

use super::budget::Occupancy;
use super::build::{Builder, Exits};
use super::flow::LiveFlow;
use super::graph::{Graph, Timeline};
use super::live::{BlockValues, Numbering};
use super::order;
use crate::clock;
use cranelift_entity::{EntitySet, SecondaryMap};
use orias_machine::Machine;
use orias_machine::issue::Unit;
use orias_ori::analysis::{FlowGraph, Frequencies};
use orias_ori::{Block, Class, Function, Inst, Operand, Operation, Reg, Value, ValueDef};
use orias_sass::{MemoryEffect, Op, Space as MemorySpace};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Moves what pays, and says how much that was. What has passed one block may pass another in the next step.
pub fn hoist(
    func: &mut Function,
    limits: Limits,
    occupancy: Occupancy,
    shape: &mut LiveFlow,
) -> usize {
    let mut passed: SecondaryMap<Inst, u8> = SecondaryMap::new();
    let mut total = 0;
    for step in 0..limits.blocks {
        let moves = find(func, &limits, occupancy, shape, (&passed, step));
        if moves.is_empty() {
            break;
        }
        total += moves.len();
        shape.moved();
        for (inst, to) in moves {
            passed[inst] += 1;
            func.layout.remove_inst(inst);
            let end = tail_start(func, to);
            func.layout.insert_inst_before(inst, end);
        }
    }
    total
}

/// Ways that a block may have into which something moves: of what a switch has behind it, most would be computed for nobody.
const MOST_WAYS: usize = 2;

/// How often other ways may be taken, of the times that a block runs, for functions and conversions to go up to it: the unit that does them takes eight cycles for each, which all warps
/// of the multiprocessor's quarter wait for, and idle cycles of one warp are no measure of that.
const RARELY: f64 = 0.5;

/// How much may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Blocks an instruction may pass.
    pub blocks: u8,
    /// Instructions that may go from one block to another.
    pub instructions: usize,
    /// Whether only blocks in loops take part.
    pub loops_only: bool,
}

/// The first instruction of the tail of `block`.
fn tail_start(func: &Function, block: Block) -> Inst {
    let end = func
        .layout
        .last_inst(block)
        .expect("a block has a terminator");
    crate::tail::tail_start(func, end)
}

fn find(
    func: &Function,
    limits: &Limits,
    occupancy: Occupancy,
    shape: &LiveFlow,
    passed: (&SecondaryMap<Inst, u8>, u8),
) -> Vec<(Inst, Block)> {
    let LiveFlow {
        flow, walk, nest, ..
    } = shape;
    let frequencies = Frequencies::new(func, flow, walk, nest);
    let pairs: Vec<(Block, Block)> = walk
        .postorder()
        .iter()
        .filter_map(|&block| {
            let before = only_way(func, flow, block)?;
            (before != block && walk.is_reachable(before)).then_some((block, before))
        })
        .filter(|&(block, before)| {
            nest.innermost(block) == nest.innermost(before)
                && (!limits.loops_only || nest.innermost(block).is_some())
                && (frequencies.is_cold(before) || !frequencies.is_cold(block))
                && !order::ends_in_turns(func, before)
                && func.successor_edges(before).len() <= MOST_WAYS
        })
        .collect();
    // Most blocks have nothing that could go, above all in later steps, when only what went before may go on.
    let mut going: EntitySet<Inst> = EntitySet::new();
    let rivals = rivals(func);
    let pairs: Vec<(Block, Block, Vec<Inst>)> = pairs
        .into_iter()
        .map(|(block, before)| {
            let seldom = RARELY * frequencies.times(before);
            let likely = func
                .successors(before)
                .all(|other| other == block || frequencies.times(other) <= seldom);
            let refused = |inst: Inst| {
                (!likely && keeps_scarce_unit(func, inst)) || replaces(func, &rivals, inst)
            };
            let could = could_go(func, (block, before), passed, refused, &mut going);
            (block, before, could)
        })
        .filter(|(_, _, could)| !could.is_empty())
        .collect();
    if pairs.is_empty() {
        return Vec::new();
    }
    let live = shape.live(func);
    let fences = super::build::Fences::none();
    let mut builder = Builder::new(func, Exits::Values(live), fences);
    let mut numbers = Numbering::default();
    let mut spaces: SecondaryMap<Block, Option<Space>> = SecondaryMap::new();
    let mut moves = Vec::new();
    for (block, before, could) in pairs {
        let space = *spaces[before].get_or_insert_with(|| {
            let graph = builder.build(before);
            let idle = idle_cycles(&graph).min(limits.instructions);
            if idle == 0 {
                return Space::default();
            }
            let values = BlockValues::new(func, &graph, live, &mut numbers);
            let registers = values.peak(0..graph.len() as u32)[Class::R as usize];
            Space {
                cycles: idle,
                registers: occupancy.free() - registers,
            }
        });
        if space.cycles > 0 && space.registers > 0 {
            let graph = builder.build(block);
            moves.extend(choose(func, &graph, &could, space).map(|inst| (inst, before)));
        }
    }
    moves
}

/// The block from which `block` is come to: at once, or by way of a loop of one block that only waits at an mbarrier (`expand_for_selection::first_looks`).
fn only_way(func: &Function, flow: &FlowGraph, block: Block) -> Option<Block> {
    match *flow.preds(block) {
        [before] => Some(before),
        [a, b] => {
            let goes_around = |around: Block, before: Block| {
                let preds = flow.preds(around);
                around != before
                    && block != around
                    && preds.len() == 2
                    && preds.contains(&around)
                    && preds.contains(&before)
                    && only_waits(func, around)
            };
            if goes_around(b, a) {
                Some(a)
            } else {
                goes_around(a, b).then_some(b)
            }
        }
        _ => None,
    }
}

/// Instructions of a loop that waits, at most.
const MOST_WAITING: usize = 16;

/// Whether `block` looks at an mbarrier, and does nothing else but let other lanes run and compute.
fn only_waits(func: &Function, block: Block) -> bool {
    let mut looks = false;
    for (number, inst) in func.block_insts(block).enumerate() {
        let op = func.opcode(inst).as_machine();
        let look = op == Some(Op::SYNCS_PHASECHK);
        let fits = look
            || matches!(op, Some(Op::YIELD))
            || func.opcode(inst).is_terminator()
            || has_no_effect(func, inst);
        if number >= MOST_WAITING || !fits {
            return false;
        }
        looks |= look;
    }
    looks
}

/// What a block has to spare for instructions of others.
#[derive(Clone, Copy, Default)]
struct Space {
    /// Cycles in which it would stand idle.
    cycles: usize,
    /// General registers that cost nothing.
    registers: i32,
}

/// Whether `inst` keeps the unit of functions and conversions.
fn keeps_scarce_unit(func: &Function, inst: Inst) -> bool {
    let op = func.opcode(inst).as_machine();
    let machine = Machine::of(func.target);
    op.is_some_and(|op| machine.issue_of_operation(op).unit == Unit::Special)
}

/// Pairs of values that different edges pass to one parameter.
fn rivals(func: &Function) -> FxHashSet<(Value, Value)> {
    let mut passed: FxHashMap<Value, SmallVec<[Value; 2]>> = FxHashMap::default();
    for block in func.blocks() {
        for &edge in func.successor_edges(block) {
            let params = func.block_params(func.edge_target(edge));
            for (&param, &arg) in params.iter().zip(func.edge_args(edge)) {
                passed.entry(param).or_default().push(arg);
            }
        }
    }
    let mut found = FxHashSet::default();
    for args in passed.values().filter(|args| args.len() <= MOST_RIVALS) {
        for &one in args {
            found.extend(args.iter().map(|&other| (one, other)));
        }
    }
    found
}

/// Values that may come to one parameter, where it is asked which of them replaces which.
const MOST_RIVALS: usize = 4;

/// Whether `inst` makes what takes the place of one of its operands where ways join: `if (…) n += 1;`. In its own block the new number lies where the old one did; before the branch
/// both are live, and one of the ways has to move what it passes on.
fn replaces(func: &Function, rivals: &FxHashSet<(Value, Value)>, inst: Inst) -> bool {
    let mut makes = func.value_defs(inst);
    makes.any(|new| {
        func.value_uses(inst)
            .any(|old| rivals.contains(&(new, old)))
    })
}

/// Cycles on the critical path in which the block issues nothing.
fn idle_cycles(graph: &Graph) -> usize {
    let issued = graph.nodes.iter().filter(|node| !node.is_pseudo());
    let busy: u32 = issued.map(|node| clock::slots(&node.issue, 1)).sum();
    Timeline::new(graph).length.saturating_sub(busy) as usize
}

/// The instructions of `block` that could go to the one before if all before them in the list do; they are put among those that do.
fn could_go(
    func: &Function,
    (block, before): (Block, Block),
    (passed, step): (&SecondaryMap<Inst, u8>, u8),
    refused: impl Fn(Inst) -> bool,
    going: &mut EntitySet<Inst>,
) -> Vec<Inst> {
    let mut could: Vec<Inst> = Vec::new();
    let end = tail_start(func, block);
    let awaited = awaited(func, before);
    let mut next = func.layout.first_inst(block);
    while let Some(inst) = next.filter(|&inst| inst != end) {
        next = func.layout.next_inst(inst);
        if passed[inst] != step || !is_plain(func, inst) {
            continue;
        }
        let mut there = true;
        func.for_each_use(inst, |reg| {
            there = there
                && match reg.value().map(|value| func.value_def(value)) {
                    Some(ValueDef::Inst(maker, _)) => match func.layout.inst_block(maker) {
                        Some(home) if home == block => going.contains(maker),
                        Some(home) if home == before => {
                            awaited.contains(&maker) || !takes_long(func, maker)
                        }
                        _ => true,
                    },
                    Some(ValueDef::Param(home, _)) => home != block,
                    _ => false,
                };
        });
        if there && may_move(func, inst) && !refused(inst) {
            going.insert(inst);
            could.push(inst);
        }
    }
    could
}

/// Instructions of a block that are looked at for what its branch waits for.
const MOST_AWAITED: usize = 64;

/// What the branch at the end of `block` waits for.
fn awaited(func: &Function, block: Block) -> Vec<Inst> {
    let mut found: Vec<Inst> = func.terminator(block).into_iter().collect();
    let mut next = 0;
    while next < found.len() && found.len() < MOST_AWAITED {
        // What is passed on is not waited for.
        let guard = func
            .inst(found[next])
            .guard()
            .reg()
            .and_then(|reg| reg.value());
        let is_end = next == 0;
        let uses = func.value_uses(found[next]).filter(|_| !is_end);
        for value in guard.into_iter().chain(uses) {
            if let Some(maker) = func.defining_inst(value)
                && func.layout.inst_block(maker) == Some(block)
                && !found.contains(&maker)
            {
                found.push(maker);
            }
        }
        next += 1;
    }
    found
}

/// Whether the result of `inst` comes from memory: whoever reads it in the same block would keep the block's end waiting.
fn takes_long(func: &Function, inst: Inst) -> bool {
    let constant = |memory: &MemoryEffect| memory.space == MemorySpace::Constant;
    match func.opcode(inst).as_machine() {
        Some(op) => !op.row().memory.iter().all(constant),
        // A tuple is there when its parts are, and they when it is.
        None => func.value_uses(inst).any(|value| {
            let maker = func.defining_inst(value);
            maker.is_some_and(|maker| {
                func.layout.inst_block(maker) == func.layout.inst_block(inst)
                    && func.opcode(maker).as_machine().is_some()
                    && takes_long(func, maker)
            })
        }),
    }
}

/// Those of `could` that go where there is so much space, in their order.
fn choose(
    func: &Function,
    graph: &Graph,
    could: &[Inst],
    space: Space,
) -> impl Iterator<Item = Inst> + use<> {
    let timeline = Timeline::new(graph);
    let block = graph.block;
    // Both are in the block's order.
    let mut rest = could.iter().peekable();
    let mut ranked: Vec<(u32, usize)> = Vec::new();
    for node in graph.body() {
        if rest.next_if_eq(&&graph.nodes[node].inst).is_some() {
            ranked.push((timeline.height[node], node));
        }
    }
    // A node's height exceeds that of whoever reads it, so a maker is always taken before its reader.
    ranked.sort_by_key(|&(height, node)| (std::cmp::Reverse(height), node));
    let mut taken: Vec<usize> = Vec::new();
    let mut grown = 0;
    for (_, node) in ranked {
        let inst = graph.nodes[node].inst;
        let width: i32 = func
            .value_defs(inst)
            .map(|value| func.value_type(value))
            .filter(|ty| ty.class() == Class::R)
            .map(|ty| i32::from(ty.len()))
            .sum();
        let makers_go = func
            .value_uses(inst)
            .all(|value| match func.defining_inst(value) {
                Some(maker) => {
                    func.layout.inst_block(maker) != Some(block)
                        || taken.iter().any(|&other| graph.nodes[other].inst == maker)
                }
                None => true,
            });
        if taken.len() < space.cycles && grown + width <= space.registers && makers_go {
            grown += width;
            taken.push(node);
        }
    }
    taken.sort_unstable();
    let insts: Vec<Inst> = taken.iter().map(|&node| graph.nodes[node].inst).collect();
    insts.into_iter()
}

/// Whether nothing but its result tells that an instruction ran, and all of that is in general registers.
fn may_move(func: &Function, inst: Inst) -> bool {
    has_only_results(func, inst, |class| class == Class::R)
}

/// Whether an operation does nothing but compute or read constant memory, and always.
fn is_plain(func: &Function, inst: Inst) -> bool {
    let data = func.inst(inst);
    let Operation::Machine(op, _) = data.operation() else {
        return false;
    };
    let row = op.row();
    let constant = |memory: &MemoryEffect| memory.space == MemorySpace::Constant;
    (row.effects - orias_sass::Effects::VOLATILE).is_empty()
        && row.memory.iter().all(constant)
        && data.guard().is_always()
        && !func.opcode(inst).is_terminator()
}

/// Whether an instruction reads and writes values and constant memory at a fixed place, and does nothing else.
pub(super) fn has_no_effect(func: &Function, inst: Inst) -> bool {
    has_only_results(func, inst, |_| true)
}

/// The same, with all results in registers of a wanted class.
fn has_only_results(func: &Function, inst: Inst, wanted: impl Fn(Class) -> bool) -> bool {
    let Some(op) = func.opcode(inst).as_machine() else {
        return false;
    };
    if !is_plain(func, inst) || !func.kept(inst).is_empty() {
        return false;
    }
    // Where uniform registers are, order has to be kept.
    let class = |value: Value| func.value_type(value).class();
    let is_free = |reg: Reg| {
        reg.value()
            .is_some_and(|value| !matches!(class(value), Class::UR | Class::UP))
    };
    let (mut results, mut fits) = (0, true);
    func.for_each_def(inst, |reg| {
        results += 1;
        fits = fits && is_free(reg) && reg.value().is_some_and(|value| wanted(class(value)));
    });
    func.for_each_use(inst, |reg| fits = fits && is_free(reg));
    if !fits || results == 0 {
        return false;
    }
    let order = order::with_operands(func, inst, false);
    order.takes.is_empty()
        && order.has.is_empty()
        && (op.row().memory.is_empty() || at_fixed_place(func, inst))
}

/// Whether a constant load reads at a place that no register says.
fn at_fixed_place(func: &Function, inst: Inst) -> bool {
    func.operands(inst).iter().all(|operand| match operand {
        Operand::Const { index, .. } => index
            .get()
            .is_none_or(|reg| reg.phys().is_some_and(|reg| reg.is_constant())),
        Operand::Bindless { .. } => false,
        _ => true,
    })
}
