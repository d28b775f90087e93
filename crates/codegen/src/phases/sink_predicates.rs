//! SinkPredicates (10011): where predicates are too many, comparisons come right before what reads them.
//!
//! A mask of a tile is written as all of its comparisons and then all of its choices: 32 predicates where there are seven. The scheduler keeps an order in which predicates are
//! full anyway, and the allocator would keep each predicate in a general register, at the price of two instructions and as many registers. So in a block where more predicates
//! are live at once than there are, each comparison whose predicates only this block reads goes down to the first instruction that reads one.
//!
//! What it reads lives as long, so it stays where more than one register would live longer for it. It moves nothing else: no loads, nothing that lanes do together or that writes
//! anything but predicates. The scheduler, which follows, may move it up again as far as predicates last.
//!
//! **Again instead of longer.** A mask that guards loads guards stores at the end of the block, and eight of them are one too many. So where predicates are too many still, the one
//! that is read again last of those that live there (Belady) is computed again before that reader, by a comparison of registers that live there anyway, or of what one instruction makes of such (an index
//! plus a number). So it goes on until predicates are enough, or no comparison is to be had.
//!
//! Cost: linear, and in blocks that are too full O(operands), as often as there are comparisons to be made again ([`AGAIN`] at most).

use crate::pipeline::{Context, PhaseError};
use orias_ori::analysis::{FlowGraph, Liveness};
use orias_ori::{Block, Class, Effects, Function, Inst, Opcode, Reg, Type, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// How many more registers may live longer for a comparison that goes down.
const LONGER: usize = 1;

/// How many comparisons of a block are made again at most.
const AGAIN: usize = 64;

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
        for _ in 0..AGAIN {
            if !make_again(func, block, &out, most) {
                break;
            }
        }
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

/// Where values of a block are read.
struct Readers {
    insts: Vec<Inst>,
    /// By value: the places of those that read it, in order.
    places: FxHashMap<Value, Vec<usize>>,
    /// By value: where it is made.
    makers: FxHashMap<Value, usize>,
}

impl Readers {
    fn of(func: &Function, block: Block) -> Self {
        let mut this = Readers {
            insts: func.block_insts(block).collect(),
            places: FxHashMap::default(),
            makers: FxHashMap::default(),
        };
        for (at, &inst) in this.insts.iter().enumerate() {
            for value in func.value_uses(inst) {
                this.places.entry(value).or_default().push(at);
            }
            this.makers
                .extend(func.value_defs(inst).map(|value| (value, at)));
        }
        this
    }

    /// Whether `value` is live at `place`, or behind the block.
    fn lives(&self, value: Value, place: usize, out: &FxHashSet<Value>) -> bool {
        let last = self.places.get(&value).and_then(|places| places.last());
        out.contains(&value) || last.is_some_and(|&last| last >= place)
    }

    /// The first reader of `value` behind `place`.
    fn next(&self, value: Value, place: usize) -> Option<usize> {
        let places = self.places.get(&value)?;
        places.iter().copied().find(|&at| at > place)
    }
}

/// Where the most predicates are live in `block`, and which; none if that is at most `most`.
fn crowd(
    func: &Function,
    readers: &Readers,
    out: &FxHashSet<Value>,
    most: usize,
) -> Option<(usize, Vec<Value>)> {
    let is_predicate = |value: &Value| func.value_type(*value).class() == Class::P;
    let mut live: FxHashSet<Value> = out.iter().copied().filter(is_predicate).collect();
    let mut found: Option<(usize, Vec<Value>)> = None;
    for (at, &inst) in readers.insts.iter().enumerate().rev() {
        // Behind the instruction.
        let known = found.as_ref().map_or(most, |(_, values)| values.len());
        if live.len() > known {
            let mut values: Vec<Value> = live.iter().copied().collect();
            values.sort_unstable();
            found = Some((at, values));
        }
        for value in func.value_defs(inst) {
            live.remove(&value);
        }
        live.extend(func.value_uses(inst).filter(is_predicate));
    }
    found
}

/// Computes one predicate again where it is read far behind the place at which most are live; whether it did.
fn make_again(func: &mut Function, block: Block, out: &FxHashSet<Value>, most: usize) -> bool {
    let readers = Readers::of(func, block);
    let Some((at, live)) = crowd(func, &readers, out, most) else {
        return false;
    };
    let mut far: Vec<(usize, Value)> = live
        .into_iter()
        .filter(|value| !out.contains(value))
        .filter_map(|value| Some((readers.next(value, at)?, value)))
        .collect();
    far.sort_unstable();
    for (to, value) in far.into_iter().rev() {
        let Some(&maker) = readers.makers.get(&value) else {
            continue;
        };
        let inst = readers.insts[maker];
        // Right behind the crowd there is nothing to gain.
        if to <= at + 1 || !can_sink(func, inst, out) || func.value_defs(inst).count() != 1 {
            continue;
        }
        let Some(again) = parts(func, &readers, inst, to, out) else {
            continue;
        };
        let before = readers.insts[to];
        let mut renamed: FxHashMap<Value, Value> = FxHashMap::default();
        for part in again {
            let copied = func.copy_inst(part);
            func.map_uses(copied, |reg| rename(&renamed, reg));
            let made: Vec<(Value, Type)> = func
                .value_defs(part)
                .map(|value| (value, func.value_type(value)))
                .collect();
            let fresh: FxHashMap<Value, Value> = made
                .into_iter()
                .map(|(value, ty)| (value, func.create_value(ty)))
                .collect();
            func.map_defs(copied, |reg| rename(&fresh, reg));
            func.layout.insert_inst_before(copied, before);
            renamed.extend(fresh);
        }
        renamed.retain(|&old, _| old == value);
        for &reader in readers.insts[to..].iter() {
            func.map_uses(reader, |reg| rename(&renamed, reg));
        }
        return true;
    }
    false
}

fn rename(renamed: &FxHashMap<Value, Value>, reg: Reg) -> Reg {
    match reg.value() {
        Some(value) => renamed.get(&value).map_or(reg, |&value| Reg::from(value)),
        None => reg,
    }
}

/// What has to be computed again for `inst` before what stands at `to`, itself the last; none if that would take more than what lives there.
fn parts(
    func: &Function,
    readers: &Readers,
    inst: Inst,
    to: usize,
    out: &FxHashSet<Value>,
) -> Option<SmallVec<[Inst; 3]>> {
    let mut parts: SmallVec<[Inst; 3]> = SmallVec::new();
    let mut longer: FxHashSet<Value> = FxHashSet::default();
    for value in func.value_uses(inst) {
        if readers.lives(value, to, out) {
            continue;
        }
        let maker = readers.insts[*readers.makers.get(&value)?];
        let cheap = func.opcode(maker).effects() == Effects::NONE
            && func.opcode(maker).as_machine()?.row().memory.is_empty()
            && func.inst(maker).guard().is_always()
            && func.kept(maker).is_empty()
            && !func.has_implicit_registers(maker)
            && func.edges(maker).is_empty()
            && func.value_defs(maker).count() == 1
            && func.value_type(value) == Type::R;
        if !cheap {
            return None;
        }
        longer.extend(
            func.value_uses(maker)
                .filter(|&it| !readers.lives(it, to, out)),
        );
        if !parts.contains(&maker) {
            parts.push(maker);
        }
    }
    parts.push(inst);
    // A predicate that lives longer is what there are too many of.
    let words = longer.iter().map(|&value| match func.value_type(value) {
        ty if ty.class() == Class::P => LONGER + 1,
        ty => usize::from(ty.len()),
    });
    (words.sum::<usize>() <= LONGER).then_some(parts)
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
