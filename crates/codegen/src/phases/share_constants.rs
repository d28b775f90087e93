//! ShareConstants (10089): a number that instructions need in a register is moved there once for a loop, or a block, instead of once for each of them.
//!
//! Selection moves a number to a register wherever an operand has no place for it: data of stores and atomic operations, third operands, doubles with more than 32 bits that count. In a loop, that is an instruction for
//! each of them in every iteration. Here equal numbers of a loop become one value, defined at the end of the block that dominates the loop; numbers of a block that no loop can spare
//! become one value, the first. Pairs of words count as one number.
//!
//! A number stays where it is if somebody writes over it: as the argument of an edge, or as what a guarded instruction keeps, it would have to be copied anyway.
//!
//! **Registers.** A shared number occupies its register in the whole loop. There is room up to what the function needs elsewhere, or to what leaves as many warps as there can be, as for HoistInvariants, less what knob 10090 leaves to the scheduler: without registers to spare, it
//! hides no latency. The outermost loop
//! with room gets the number. Where the allocator runs out of registers nevertheless, it makes the number again instead of spilling it.
//!
//! Liveness and pressure once, then one visit of each instruction and the loops around it.

use crate::knobs::registry;
use crate::loops::LoopAnalyses;
use crate::pipeline::{Context, PhaseError};
use crate::schedule::budget::{Occupancy, hard_limit};
use crate::schedule::order::ends_in_turns;
use crate::tail::tail_start;
use cranelift_entity::SecondaryMap;
use orias_ori::analysis::{DefUse, Liveness, Loop, Place, Pressure};
use orias_ori::{
    AbstractOp, Block, Class, Function, Inst, Operand, Operation, PhysReg, Reg, Type, Value,
};
use orias_sass::Op;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// How many instructions may lie between the last reader of a number and an equal one that takes its register.
const MOMENT: u32 = 2;

/// Runs the phase.
pub fn share_constants(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    if let Some((shape, shared)) = plan(func, context) {
        apply(func, &shape, shared);
    }
    Ok(())
}

/// Which numbers would be shared, in words.
pub fn explain(func: &Function, context: &Context<'_>) -> Vec<String> {
    let Some((shape, shared)) = plan(func, context) else {
        return Vec::new();
    };
    let line = |((scope, number), made): ((Scope, Number), Vec<Made>)| {
        let digits = 8 * usize::from(number.words);
        let places = match made.len() {
            1 => "a register".to_owned(),
            count => format!("a register in {count} places"),
        };
        let once = match scope {
            Scope::Loop(each) => format!("before the loop at {}", shape.nest.header(each)),
            Scope::Block(block) => format!("in {block}"),
        };
        format!(
            "{:#0width$x}, needed in {places}, comes there once, {once}",
            number.bits,
            width = digits + 2
        )
    };
    shared.into_iter().map(line).collect()
}

/// What is shared, and the shape of the function.
fn plan(func: &Function, context: &Context<'_>) -> Option<(LoopAnalyses, Shared)> {
    func.entry()?;
    let uses = DefUse::new(func);
    let numbers = find(func, &uses);
    if numbers.is_empty() {
        return None;
    }
    let shape = LoopAnalyses::of(func);
    let live = Liveness::new(func, &shape.graph);
    let pressure = Pressure::new(func, &live);
    let files = context.machine.registers;
    let free = u32::try_from(Occupancy::new(func, files).free()).unwrap_or(0);
    let most = pressure.overall()[Class::R];
    let slack = u32::try_from(context.knobs.int(&registry::SHARE_CONSTANTS_SLACK)).unwrap_or(0);
    let budget = free.min(hard_limit(func, files, 0)).max(most);
    let mut room = Room::new(func, &shape, pressure, budget.saturating_sub(slack));
    let shared = choose(&shape, &mut room, &numbers);
    Some((shape, shared))
}

/// A number, of one word or two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Number {
    bits: u64,
    words: u8,
}

/// A place where a number comes to a register.
#[derive(Clone, Copy)]
struct Made {
    number: Number,
    block: Block,
    inst: Inst,
    value: Value,
}

/// The numbers that could be shared, in the order of the code.
fn find(func: &Function, uses: &DefUse) -> Vec<Made> {
    let mut found = Vec::new();
    for block in func.blocks() {
        for inst in func.block_insts(block) {
            let Some((number, value)) = number(func, inst) else {
                continue;
            };
            let read_only = uses.uses(value).iter().all(|it| {
                matches!(it.place, Place::Operand(_)) && func.opcode(it.inst).as_machine().is_some()
            });
            if read_only && !uses.is_unused(value) {
                found.push(Made {
                    number,
                    block,
                    inst,
                    value,
                });
            }
        }
    }
    found
}

/// The number that `inst` brings to registers.
fn number(func: &Function, inst: Inst) -> Option<(Number, Value)> {
    if let Some((bits, value)) = word(func, inst) {
        return Some((Number { bits, words: 1 }, value));
    }
    if func.opcode(inst).as_abstract() != Some(AbstractOp::Collect) {
        return None;
    }
    let &[result, low, high] = func.operands(inst) else {
        return None;
    };
    let value = result.as_value()?;
    if func.value_type(value) != Type::R2 {
        return None;
    }
    let half = |operand: Operand| match operand.as_value() {
        Some(value) => word(func, func.defining_inst(value)?).map(|(bits, _)| bits),
        None => (operand == Operand::from(PhysReg::RZ)).then_some(0),
    };
    let bits = half(high)? << 32 | half(low)?;
    Some((Number { bits, words: 2 }, value))
}

/// The word that `inst`, a move, brings to a register.
fn word(func: &Function, inst: Inst) -> Option<(u64, Value)> {
    let is_move = func.opcode(inst).as_machine() == Some(Op::MOV);
    if !is_move || !func.inst(inst).guard().is_always() {
        return None;
    }
    let mut results = func.value_defs(inst);
    let (value, None) = (results.next()?, results.next()) else {
        return None;
    };
    let mut sources = (func.operands(inst).iter().enumerate())
        .filter(|&(index, _)| !func.is_def(inst, index))
        .map(|(_, operand)| *operand);
    match sources.next()? {
        Operand::Imm(imm) if func.value_type(value) == Type::R => Some((imm.bits(), value)),
        _ => None,
    }
}

/// Which registers are free where.
struct Room<'a> {
    shape: &'a LoopAnalyses,
    pressure: Pressure,
    budget: u32,
    /// By loop: the most registers live in it.
    needed: Vec<u32>,
    /// By loop: words that are kept through it, and through those in it.
    kept: Vec<u32>,
    inside: Vec<u32>,
    /// Words that are kept through blocks in no loop.
    blocks: FxHashMap<Block, u32>,
    /// By loop: whether there is a place before it.
    open: Vec<bool>,
}

impl<'a> Room<'a> {
    fn new(func: &Function, shape: &'a LoopAnalyses, pressure: Pressure, budget: u32) -> Self {
        let nest = &shape.nest;
        let needed = |each: Loop| {
            let blocks = nest.blocks(each).iter();
            let live = blocks.map(|&block| pressure.in_block(block)[Class::R]);
            live.max().unwrap_or(0)
        };
        let open = |each: Loop| {
            let before = shape.tree.immediate_dominator(nest.header(each));
            !nest.is_irreducible(each) && before.is_some_and(|before| !ends_in_turns(func, before))
        };
        Self {
            needed: nest.loops().map(needed).collect(),
            open: nest.loops().map(open).collect(),
            kept: vec![0; nest.len()],
            inside: vec![0; nest.len()],
            blocks: FxHashMap::default(),
            budget,
            shape,
            pressure,
        }
    }

    /// Takes so many words through a loop, if there are.
    fn take(&mut self, each: Loop, words: u32) -> bool {
        let nest = &self.shape.nest;
        let place = |each: Loop| each.as_u32() as usize;
        let mut around = 0;
        let mut at = nest.parent(each);
        while let Some(outer) = at {
            around += self.kept[place(outer)];
            at = nest.parent(outer);
        }
        let held = around + self.inside[place(each)];
        if !self.open[place(each)] || self.needed[place(each)] + held + words > self.budget {
            return false;
        }
        self.kept[place(each)] += words;
        let mut at = Some(each);
        while let Some(outer) = at {
            self.inside[place(outer)] += words;
            at = nest.parent(outer);
        }
        true
    }

    /// Takes so many words through a block, if there are.
    fn take_block(&mut self, block: Block, words: u32) -> bool {
        let mut held = 0;
        let mut at = self.shape.nest.innermost(block);
        while let Some(outer) = at {
            held += self.kept[outer.as_u32() as usize];
            at = self.shape.nest.parent(outer);
        }
        let here = self.blocks.entry(block).or_insert(0);
        let fits = self.pressure.in_block(block)[Class::R] + held + *here + words <= self.budget;
        *here += if fits { words } else { 0 };
        fits
    }
}

/// Where one value does for several.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Loop(Loop),
    Block(Block),
}

/// Values that become one, by scope and number.
type Shared = BTreeMap<(Scope, Number), Vec<Made>>;

/// Decides which numbers are shared where.
fn choose(shape: &LoopAnalyses, room: &mut Room<'_>, numbers: &[Made]) -> Shared {
    let nest = &shape.nest;
    let mut shared: Shared = BTreeMap::new();
    let mut left: Shared = BTreeMap::new();
    for &made in numbers {
        let mut around: Vec<Loop> = Vec::new();
        let mut at = nest.innermost(made.block);
        while let Some(each) = at {
            around.push(each);
            at = nest.parent(each);
        }
        let words = u32::from(made.number.words);
        let scope = around.into_iter().rev().map(Scope::Loop).find(|&scope| {
            let Scope::Loop(each) = scope else {
                return false;
            };
            shared.contains_key(&(scope, made.number)) || room.take(each, words)
        });
        match scope {
            Some(scope) => shared.entry((scope, made.number)).or_default().push(made),
            None => {
                let scope = Scope::Block(made.block);
                left.entry((scope, made.number)).or_default().push(made);
            }
        }
    }
    for ((scope, number), made) in left {
        let Scope::Block(block) = scope else {
            continue;
        };
        if made.len() > 1 && room.take_block(block, u32::from(number.words)) {
            shared.insert((scope, number), made);
        }
    }
    shared
}

/// Puts one value in the place of those that are shared.
fn apply(func: &mut Function, shape: &LoopAnalyses, shared: Shared) {
    let mut renamed: FxHashMap<Value, Value> = FxHashMap::default();
    let mut gone: Vec<Inst> = Vec::new();
    for ((scope, _), made) in shared {
        let (Some(&first), Scope::Loop(each)) = (made.first(), scope) else {
            let kept = made[0].value;
            renamed.extend(made.iter().skip(1).map(|it| (it.value, kept)));
            gone.extend(made.iter().skip(1).map(|it| it.inst));
            continue;
        };
        let before = shape.tree.immediate_dominator(shape.nest.header(each));
        let Some(end) = before.and_then(|before| func.terminator(before)) else {
            continue;
        };
        let place = tail_start(func, end);
        let value = copy(func, first.inst, place);
        renamed.extend(made.iter().map(|it| (it.value, value)));
        gone.extend(made.iter().map(|it| it.inst));
    }
    replace(func, &renamed, gone);
}

/// A number that comes to a register while that of an equal one is still in use, or was a moment ago, comes there once: that takes an instruction less and no more registers.
/// For orders that are final: the copies of an unrolled loop need their numbers together there, not where they were.
pub fn share_what_is_at_hand(func: &mut Function) {
    let mut known: FxHashSet<(Block, u64)> = FxHashSet::default();
    let again = func.blocks().any(|block| {
        let mut words = func.block_insts(block).filter_map(|inst| word(func, inst));
        words.any(|(bits, _)| !known.insert((block, bits)))
    });
    if !again {
        return;
    }
    let uses = DefUse::new(func);
    let mut places: SecondaryMap<Inst, u32> = SecondaryMap::new();
    for block in func.blocks() {
        for (place, inst) in (0..).zip(func.block_insts(block)) {
            places[inst] = place;
        }
    }
    let mut renamed: FxHashMap<Value, Value> = FxHashMap::default();
    let mut gone: Vec<Inst> = Vec::new();
    // By block and number: where it is, and how long.
    let mut at_hand: FxHashMap<(Block, Number), (Value, u32)> = FxHashMap::default();
    for made in find(func, &uses) {
        let reads = uses.uses(made.value).iter();
        let last = reads.map(
            |read| match func.layout.inst_block(read.inst) == Some(made.block) {
                true => places[read.inst],
                false => u32::MAX,
            },
        );
        let last = last.max().unwrap_or(0);
        match at_hand.get_mut(&(made.block, made.number)) {
            Some((value, until)) if places[made.inst] <= until.saturating_add(MOMENT) => {
                renamed.insert(made.value, *value);
                gone.push(made.inst);
                *until = last.max(*until);
            }
            _ => {
                at_hand.insert((made.block, made.number), (made.value, last));
            }
        }
    }
    if !gone.is_empty() {
        replace(func, &renamed, gone);
    }
}

/// Puts values in the place of others, whose instructions go, with the halves of pairs that nothing reads then.
fn replace(func: &mut Function, renamed: &FxHashMap<Value, Value>, gone: Vec<Inst>) {
    func.map_all_uses(|reg| match reg.value() {
        Some(value) => renamed.get(&value).map_or(reg, |&value| Reg::from(value)),
        None => reg,
    });
    let mut halves: Vec<Value> = Vec::new();
    for inst in gone {
        halves.extend(func.value_uses(inst));
        func.remove_inst(inst);
    }
    halves.sort_unstable();
    halves.dedup();
    if halves.is_empty() {
        return;
    }
    let uses = DefUse::new(func);
    for half in halves.into_iter().filter(|&half| uses.is_unused(half)) {
        if let Some(maker) = func.defining_inst(half) {
            func.remove_inst(maker);
        }
    }
}

/// A copy of `inst`, which brings a number to registers, before `place`.
fn copy(func: &mut Function, inst: Inst, place: Inst) -> Value {
    let halves: Vec<(Value, Inst)> = (func.value_uses(inst))
        .filter_map(|value| Some((value, func.defining_inst(value)?)))
        .collect();
    let mut operands = func.operands(inst).to_vec();
    for (half, maker) in halves {
        let made = copy(func, maker, place);
        for operand in &mut operands {
            if operand.as_value() == Some(half) {
                *operand = made.into();
            }
        }
    }
    let mut result = None;
    for (index, operand) in operands.iter_mut().enumerate() {
        if func.is_def(inst, index)
            && let Some(value) = operand.as_value()
        {
            let made = func.create_value(func.value_type(value));
            *operand = made.into();
            result = Some(made);
        }
    }
    let copied = match func.inst(inst).operation() {
        Operation::Machine(op, mods) => func.create_machine(op, mods, &operands),
        Operation::Abstract(op, mods) => func.create_abstract(op, mods, 1, &operands),
    };
    func.set_span(copied, func.inst(inst).span());
    func.layout.insert_inst_before(copied, place);
    result.expect("a move has a result")
}
