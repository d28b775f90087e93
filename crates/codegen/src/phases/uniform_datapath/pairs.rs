//! Pairs of uniform registers that differ in a small number: UIADD3.64 makes one of another.
//!
//! The descriptors of products in a row have the same upper word, a number, and lower words that are sums of one word with different numbers. Apart, each takes a sum and a move. Together it
//! takes one UIADD3.64, if the lower word's sum never carries.

use super::broken;
use crate::pipeline::PhaseError;
use orias_ori::builder::Cursor;
use orias_ori::{
    AbstractMods, AbstractOp, Block, Class, Function, Inst, Opcode, Operand, PhysReg, Type, Value,
};
use orias_sass::{
    Op, Target, modifier_names as name, modifier_values as value, slot_names as slot,
};
use rustc_hash::FxHashMap;

/// The lower and the upper word of a pair, in terms of others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Base {
    word: Value,
    upper: u64,
}

/// A pair that was made.
#[derive(Clone, Copy, Debug)]
struct Made {
    pair: Value,
    offset: u64,
}

/// Joins the sums of all blocks.
pub(super) fn join_sums(func: &mut Function, target: Target) -> Result<(), PhaseError> {
    if !Op::UIADD3_64.exists_on(target) {
        return Ok(());
    }
    let blocks: Vec<Block> = func.blocks().collect();
    for block in blocks {
        join_in(func, block)?;
    }
    Ok(())
}

fn join_in(func: &mut Function, block: Block) -> Result<(), PhaseError> {
    let collects: Vec<Inst> = func
        .block_insts(block)
        .filter(|&inst| {
            func.opcode(inst) == Opcode::Abstract(AbstractOp::Collect)
                && (func.operands(inst)[0].as_value())
                    .is_some_and(|value| func.value_type(value).class() == Class::UR)
        })
        .collect();
    let mut known: FxHashMap<Base, Made> = FxHashMap::default();
    let mut loose: Vec<Value> = Vec::new();
    for &inst in &collects {
        let words: Vec<Operand> = func.operands(inst)[1..].to_vec();
        let single = |operand: &Operand| {
            (operand.as_value()).is_some_and(|value| func.value_type(value) == Type::UR)
        };
        if !words.len().is_multiple_of(2) || !words.iter().all(single) {
            continue;
        }
        let mut operands = vec![func.operands(inst)[0]];
        for pair in words.chunks_exact(2) {
            let &[low, high] = pair else { continue };
            let parts = low.as_value().zip(high.as_value());
            let found = parts.and_then(|(low, high)| Some((low, high, parts_of(func, low, high)?)));
            let Some((low, high, (base, offset))) = found else {
                operands.extend([low, high]);
                continue;
            };
            let before = known.get(&base).copied();
            let step = before.and_then(|made| offset.checked_sub(made.offset));
            let step = step.filter(|&step| step < 1 << 31);
            let made = match (before, step) {
                (Some(made), Some(0)) => made.pair,
                (Some(made), Some(step)) => sum(func, inst, made.pair, step)?,
                _ => collect(func, inst, low, high),
            };
            if step.is_some() {
                loose.extend([low, high]);
            } else {
                known.insert(base, Made { pair: made, offset });
            }
            operands.push(made.into());
        }
        if operands.len() <= words.len() {
            let results = func.result_count(inst);
            let mods = AbstractMods::NONE;
            func.replace_with_abstract(inst, AbstractOp::Collect, mods, results, &operands);
        }
    }
    remove_unread(func, block, &loose);
    Ok(())
}

/// A pair made of its words, before `at`.
fn collect(func: &mut Function, at: Inst, low: Value, high: Value) -> Value {
    let ty = Type::tuple(Class::UR, 2).unwrap_or(Type::UR);
    let pair = func.create_value(ty);
    let operands = [pair.into(), low.into(), high.into()];
    let inst = func.create_abstract(AbstractOp::Collect, AbstractMods::NONE, 1, &operands);
    let span = func.inst(at).span();
    func.set_span(inst, span);
    func.layout.insert_inst_before(inst, at);
    pair
}

/// `pair` and a number, before `at`.
fn sum(func: &mut Function, at: Inst, pair: Value, step: u64) -> Result<Value, PhaseError> {
    let ty = func.value_type(pair);
    let result = func.create_value(ty);
    let upt = Operand::from(PhysReg::UPT);
    let urz = Operand::from(PhysReg::URZ);
    let operands = [
        result.into(),
        upt,
        upt,
        pair.into(),
        Operand::imm(step),
        urz,
    ];
    let mut cursor = Cursor::before(func, at);
    let made = cursor.build(Op::UIADD3_64).operands(operands).finish();
    match made {
        Ok(_) => Ok(result),
        Err(error) => Err(broken(func, at, error.to_string())),
    }
}

/// What a pair is made of: a word and a number that is added to it without a carry, and the upper word, a number.
fn parts_of(func: &Function, low: Value, high: Value) -> Option<(Base, u64)> {
    let upper = match definition(func, high)? {
        (inst, Op::UMOV) => match func.operands(inst)[1] {
            Operand::Imm(upper) => upper.bits(),
            _ => return None,
        },
        _ => return None,
    };
    let (word, offset) = match definition(func, low) {
        Some((inst, Op::UIADD3)) => summands(func, inst).unwrap_or((low, 0)),
        _ => (low, 0),
    };
    let most = most(func, word)?;
    (most + offset <= u64::from(u32::MAX)).then_some((Base { word, upper }, offset))
}

/// A word and a number that a sum without carries consists of.
fn summands(func: &Function, inst: Inst) -> Option<(Value, u64)> {
    let &[_, carry, second, a, b, c] = func.operands(inst) else {
        return None;
    };
    let none = |operand: Operand, reg: PhysReg| operand == Operand::from(reg);
    if !none(carry, PhysReg::UPT) || !none(second, PhysReg::UPT) || !none(c, PhysReg::URZ) {
        return None;
    }
    match (a, b) {
        (word, Operand::Imm(number)) if word.mods().is_empty() => {
            Some((word.as_value()?, number.bits() & u64::from(u32::MAX)))
        }
        _ => None,
    }
}

fn definition(func: &Function, value: Value) -> Option<(Inst, Op)> {
    let inst = func.defining_inst(value)?;
    let plain = func.inst(inst).guard().is_always();
    Some((inst, func.opcode(inst).as_machine()?)).filter(|_| plain)
}

/// The most a word can be, if its definition says so: what is masked, shifted or cut.
fn most(func: &Function, mut word: Value) -> Option<u64> {
    let all = u64::from(u32::MAX);
    // One step further where the word was taken over from a general register.
    if let Some((inst, Op::R2UR)) = definition(func, word) {
        word = operand(func, inst, slot::A)?.as_value()?;
    }
    let (inst, op) = definition(func, word)?;
    let number = |name| match operand(func, inst, name) {
        Some(Operand::Imm(number)) => Some(number.bits() & all),
        _ => None,
    };
    /// `a & b`, as a table of truth.
    const AND: u64 = 0xc0;
    match op {
        Op::LOP3 | Op::ULOP3 if number(slot::LUT) == Some(AND) => number(slot::B),
        Op::SGXT | Op::USGXT if func.machine_modifier(inst, name::SIGN) == Some(value::U32) => {
            let bits = number(slot::B).filter(|&bits| bits < 32)?;
            Some((1 << bits) - 1)
        }
        Op::SHF | Op::USHF => {
            let right = func.machine_modifier(inst, name::DIR) == Some(value::R)
                && func.machine_modifier(inst, name::TYPE) == Some(value::U32)
                && func.machine_modifier(inst, name::PART) == Some(value::HI);
            let by = number(slot::B).filter(|&by| right && by < 32)?;
            Some(all >> by)
        }
        _ => None,
    }
}

fn operand(func: &Function, inst: Inst, name: orias_sass::SlotName) -> Option<Operand> {
    let at = func.opcode(inst).as_machine()?.row().slot_index(name)?;
    func.operands(inst).get(at).copied()
}

/// Takes those definitions away that nobody reads any more.
fn remove_unread(func: &mut Function, block: Block, loose: &[Value]) {
    if loose.is_empty() {
        return;
    }
    let mut read: FxHashMap<Value, u32> = loose.iter().map(|&value| (value, 0)).collect();
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        func.for_each_value_use(inst, |value| {
            if let Some(count) = read.get_mut(&value) {
                *count += 1;
            }
        });
    }
    for value in loose {
        if read.get(value) == Some(&0)
            && let Some(inst) = func.defining_inst(*value)
            && func.layout.inst_block(inst) == Some(block)
            && matches!(func.opcode(inst).as_machine(), Some(Op::UMOV | Op::UIADD3))
        {
            func.remove_inst(inst);
        }
    }
}
