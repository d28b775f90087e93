//! SinkPredicates (10011): where predicates are too many, comparisons come right before what reads them.
//!
//! A mask of a tile is written as all of its comparisons and then all of its choices: 32 predicates where there are seven. The scheduler keeps an order in which predicates are
//! full anyway, and the allocator would keep each predicate in a general register, at the price of two instructions and as many registers. So in a block where more predicates
//! are live at once than there are, each comparison whose predicates only this block reads goes down to the first instruction that reads one.
//!
//! A guard that loads and stores of one element have in common lives from the ones to the others, over all that is computed in between, and eight of them leave no predicate to compute with. So a
//! comparison is made again for readers that come long after those before, with the sum of an index and a number that it reads.
//!
//! What it reads lives as long, so it stays where more than one register would live longer for it. It moves nothing else: no loads, nothing that lanes do together or that writes
//! anything but predicates. The scheduler, which follows, may move it up again as far as predicates last.
//!
//! Cost: linear, and in blocks that are too full O(operands).

use crate::pipeline::{Context, PhaseError};
use orias_ori::analysis::{FlowGraph, Liveness};
use orias_ori::{
    Block, Class, Effects, Function, Inst, Opcode, Operand, Operation, Reg, Type, Value,
};
use orias_sass::Op;
use rustc_hash::{FxHashMap, FxHashSet};

/// How many more registers may live longer for a comparison that goes down.
const LONGER: usize = 1;

/// Runs the phase.
pub fn sink_predicates(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    let most = usize::from(context.machine.registers.usable(Class::P.into()));
    if func.entry().is_none() {
        return Ok(());
    }
    let graph = FlowGraph::of(func);
    let live = Liveness::new(func, &graph);
    let full: Vec<(Block, FxHashSet<Value>)> = func
        .blocks()
        .map(|block| (block, live_out(func, &live, block)))
        .filter(|(block, out)| predicates(func, *block, out) > most)
        .collect();
    for (block, out) in full {
        repeat(func, block, &out);
        sink(func, block, &out);
    }
    Ok(())
}

/// How many instructions lie between two readers of a predicate, at least, for the comparison to be made again for the later one.
const FAR: usize = 24;

/// Makes comparisons of `block` again for readers that come long after the ones before: `@p` loads and the stores that end the same element.
fn repeat(func: &mut Function, block: Block, out: &FxHashSet<Value>) {
    let insts: Vec<Inst> = func.block_insts(block).collect();
    let mut readers: FxHashMap<Value, Vec<usize>> = FxHashMap::default();
    for (at, &inst) in insts.iter().enumerate() {
        for value in func.value_uses(inst) {
            let places = readers.entry(value).or_default();
            if places.last() != Some(&at) {
                places.push(at);
            }
        }
    }
    for &comparison in &insts {
        if !can_sink(func, comparison, out) || reads_predicates(func, comparison) {
            continue;
        }
        let mut results = func.value_defs(comparison);
        let (Some(predicate), None) = (results.next(), results.next()) else {
            continue;
        };
        let Some(places) = readers.get(&predicate) else {
            continue;
        };
        let mut known = predicate;
        for pair in places.windows(2) {
            let (before, next) = (pair[0], pair[1]);
            if next - before > FAR {
                let lives = |value: Value| {
                    out.contains(&value)
                        || readers.get(&value).and_then(|it| it.last()) >= Some(&next)
                };
                known = again(func, comparison, insts[next], &lives, 1).unwrap_or(known);
            }
            if known != predicate {
                let (old, new) = (Reg::from(predicate), Reg::from(known));
                func.map_uses(insts[next], |reg| if reg == old { new } else { reg });
            }
        }
    }
}

/// Whether `inst` reads a predicate that may be true or false.
fn reads_predicates(func: &Function, inst: Inst) -> bool {
    let mut uses = func.value_uses(inst);
    uses.any(|value| func.value_type(value).class() != Class::R)
}

/// `inst` once more, before `place`; what it reads and nobody needs so long is made again, too, so many levels deep.
fn again(
    func: &mut Function,
    inst: Inst,
    place: Inst,
    lives: &impl Fn(Value) -> bool,
    depth: u32,
) -> Option<Value> {
    let Operation::Machine(op, mods) = func.inst(inst).operation() else {
        return None;
    };
    let mut operands = func.operands(inst).to_vec();
    let mut result = None;
    for (index, operand) in operands.iter_mut().enumerate() {
        let Some(value) = operand.as_value() else {
            continue;
        };
        if func.is_def(inst, index) {
            let made = func.create_value(func.value_type(value));
            *operand = made.into();
            result = Some(made);
            continue;
        }
        let maker = func.defining_inst(value);
        if let Some(maker) = maker.filter(|&it| depth > 0 && !lives(value) && is_offset(func, it))
            && let Some(made) = again(func, maker, place, lives, depth - 1)
        {
            *operand = Operand::from(made).with_mods(operand.mods())?;
        }
    }
    let copy = func.create_machine(op, mods, &operands);
    func.set_span(copy, func.inst(inst).span());
    func.layout.insert_inst_before(copy, place);
    result
}

/// Whether `inst` makes a word of one other and of numbers, and does nothing else.
fn is_offset(func: &Function, inst: Inst) -> bool {
    let words = func.value_defs(inst).chain(func.value_uses(inst));
    matches!(
        func.opcode(inst),
        Opcode::Machine(Op::LOP3 | Op::IADD3 | Op::VIADD)
    ) && func.inst(inst).guard().is_always()
        && func.kept(inst).is_empty()
        && func.value_defs(inst).count() == 1
        && func.value_uses(inst).count() == 1
        && words
            .into_iter()
            .all(|value| func.value_type(value) == Type::R)
}

/// What is read behind `block`, arguments of its edges included.
fn live_out(func: &Function, live: &Liveness, block: Block) -> FxHashSet<Value> {
    let mut out: FxHashSet<Value> = live.live_out(block).iter().copied().collect();
    for &edge in func.successor_edges(block) {
        out.extend(func.edge_args(edge));
    }
    out
}

/// The most predicates that are live at once in `block`.
fn predicates(func: &Function, block: Block, out: &FxHashSet<Value>) -> usize {
    let is_predicate = |value: &Value| func.value_type(*value).class() == Class::P;
    let mut live: FxHashSet<Value> = out.iter().copied().filter(is_predicate).collect();
    let mut most = live.len();
    for inst in func.block_insts(block).rev() {
        for value in func.value_defs(inst) {
            live.remove(&value);
        }
        live.extend(func.value_uses(inst).filter(is_predicate));
        most = most.max(live.len());
    }
    most
}

/// Moves the comparisons of `block` down.
fn sink(func: &mut Function, block: Block, out: &FxHashSet<Value>) {
    let insts: Vec<Inst> = func.block_insts(block).collect();
    // Where each value is read first, and last, as the places of what does not move.
    let mut first: FxHashMap<Value, usize> = FxHashMap::default();
    let mut last: FxHashMap<Value, usize> = FxHashMap::default();
    for (at, &inst) in insts.iter().enumerate() {
        for value in func.value_uses(inst) {
            last.insert(value, at);
        }
    }
    // By place: the first of the instructions that come right before what stands there.
    let mut front: FxHashMap<usize, Inst> = FxHashMap::default();
    for (at, &inst) in insts.iter().enumerate().rev() {
        let mut place = at;
        if can_sink(func, inst, out) {
            let reader = func.value_defs(inst).filter_map(|it| first.get(&it)).min();
            if let Some(&to) = reader
                && to > at + 1
                && longer(func, inst, to, &last, out) <= LONGER
            {
                let before = front.get(&to).copied().unwrap_or(insts[to]);
                func.layout.remove_inst(inst);
                func.layout.insert_inst_before(inst, before);
                front.insert(to, inst);
                place = to;
            }
        }
        for value in func.value_uses(inst) {
            let known = first.entry(value).or_insert(place);
            *known = (*known).min(place);
            let known = last.entry(value).or_insert(place);
            *known = (*known).max(place);
        }
    }
}

/// Whether `inst` makes nothing but predicates that only its block reads, of nothing but registers and constants.
fn can_sink(func: &Function, inst: Inst, out: &FxHashSet<Value>) -> bool {
    let Opcode::Machine(op) = func.opcode(inst) else {
        return false;
    };
    func.opcode(inst).effects() == Effects::NONE
        && op.row().memory.is_empty()
        && func.inst(inst).guard().is_always()
        && !func.is_named(inst)
        && func.implicit_defs(inst).is_empty()
        && func.edges(inst).is_empty()
        && func.value_defs(inst).next().is_some()
        && func
            .value_defs(inst)
            .all(|value| func.value_type(value).class() == Class::P && !out.contains(&value))
}

/// How many registers live longer if `inst` stands before what stands at `to`.
fn longer(
    func: &Function,
    inst: Inst,
    to: usize,
    last: &FxHashMap<Value, usize>,
    out: &FxHashSet<Value>,
) -> usize {
    let mut reads: Vec<Value> = func
        .value_uses(inst)
        .filter(|value| func.value_type(*value).class() != Class::P)
        .filter(|value| !out.contains(value) && last.get(value).is_none_or(|&at| at < to))
        .collect();
    reads.sort_unstable();
    reads.dedup();
    let words = reads.iter().map(|&value| func.value_type(value).len());
    words.map(usize::from).sum()
}
