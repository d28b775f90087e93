//! SinkPredicates (10011): where predicates are too many, comparisons come right before what reads them.
//!
//! A mask of a tile is written as all of its comparisons and then all of its choices: 32 predicates where there are seven. The scheduler keeps an order in which predicates are
//! full anyway, and the allocator would keep each predicate in a general register, at the price of two instructions and as many registers. So in a block where more predicates
//! are live at once than there are, each comparison whose predicates only this block reads goes down to the first instruction that reads one.
//!
//! What it reads lives as long, so it stays where more than one register would live longer for it. It moves nothing else: no loads, nothing that lanes do together or that writes
//! anything but predicates. The scheduler, which follows, may move it up again as far as predicates last.
//!
//! Cost: linear, and in blocks that are too full O(operands).

use crate::pipeline::{Context, PhaseError};
use orias_ori::analysis::{FlowGraph, Liveness};
use orias_ori::{Block, Class, Effects, Function, Inst, Opcode, Value};
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
        sink(func, block, &out);
    }
    Ok(())
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
