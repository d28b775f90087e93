//! UniformNumbers (10092): doubles that are known lie in uniform registers.
//!
//! An operand of DFMA, DMUL or DADD has room for the upper word of a number; one whose lower word counts, too, takes two MOV and a pair of registers, and the polynomial of an exponential has a dozen of them. All read
//! a pair of uniform registers as well, one in each instruction. So numbers of which copies go by that are moved there once, at the start of the kernel, where the whole warp runs, and general registers are left to what
//! lanes compute: several exponentials at a time.
//!
//! A number goes over if at least [`LEAST`] copies of it go in all of the function, those that save most first, up to [`MOST_WORDS`] uniform registers. Of two numbers that one instruction reads the second stays. Functions that call others, and those that are called, are left
//! alone: no uniform register lives across a call. `UniformNumbers` (10092) switches it off.
//!
//! Cost: one visit of each instruction, and of each use of a number.

use super::{forms, pressure};
use crate::pipeline::{Context, PhaseError};
use orias_ori::analysis::{DefUse, Place};
use orias_ori::builder::{BuildError, Cursor};
use orias_ori::{
    AbstractMods, AbstractOp, Class, Effects, Function, FunctionKind, Inst, Operand, PhysReg, Type,
    Value,
};
use orias_sass::Op;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Copies of a number that go, at least.
const LEAST: usize = 2;

/// Uniform registers that numbers take, at most: addresses and what else the warp has want some, too.
const MOST_WORDS: usize = 40;

/// A pair of words of which both are known.
struct Copy {
    collect: Inst,
    value: Value,
}

/// Runs the phase.
pub fn use_uniform_numbers(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    let Some(entry) = func.entry().filter(|_| func.kind != FunctionKind::Device) else {
        return Ok(());
    };
    let copies = copies(func);
    if copies.is_empty() || calls(func) {
        return Ok(());
    }
    let before = func.clone();
    let target = context.machine.target;
    let uses = DefUse::new(func);
    let mut by_number: Vec<(u64, Vec<Copy>)> = copies;
    by_number.sort_by_key(|(bits, copies)| (Reverse(copies.len()), *bits));
    let mut words = 0;
    let mut gone: Vec<Inst> = Vec::new();
    for (bits, copies) in by_number {
        if copies.len() < LEAST || words + 2 > MOST_WORDS {
            break;
        }
        let Some(pair) = Type::tuple(Class::UR, 2) else {
            break;
        };
        let number = func.create_value(pair);
        // All uses of a copy go over, or none.
        let mut changed: Vec<(Inst, Vec<Operand>)> = Vec::new();
        let mut left: Vec<Inst> = Vec::new();
        for copy in &copies {
            let mut own: Vec<(Inst, Vec<Operand>)> = Vec::new();
            let all = uses.uses(copy.value).iter().all(|it| {
                let Place::Operand(index) = it.place else {
                    return false;
                };
                let taken = (changed.iter().chain(&own)).any(|(inst, _)| *inst == it.inst);
                let double = |op: Op| matches!(op, Op::DFMA | Op::DMUL | Op::DADD);
                if taken || !func.opcode(it.inst).as_machine().is_some_and(double) {
                    return false;
                }
                let index = usize::from(index);
                let uniform = Operand::from(number);
                let with = forms::with_uniform(func, it.inst, index, uniform, target);
                own.extend(with.map(|with| (it.inst, with)));
                own.last().is_some_and(|(inst, _)| *inst == it.inst)
            });
            if all && !own.is_empty() {
                changed.extend(own);
                left.push(copy.collect);
            }
        }
        if left.len() < LEAST {
            continue;
        }
        for (inst, operands) in changed {
            for (index, operand) in operands.into_iter().enumerate() {
                if func.operands(inst)[index] != operand {
                    func.set_operand(inst, index, operand);
                }
            }
        }
        define(func, entry, number, bits).map_err(|error| PhaseError::Broken {
            at: error.inst.clone(),
            what: error.to_string(),
        })?;
        words += 2;
        gone.extend(left);
    }
    if gone.is_empty() {
        return Ok(());
    }
    remove(func, gone);
    if !pressure::fits(func, context.machine) {
        *func = before;
    }
    Ok(())
}

/// Whether the function calls others.
fn calls(func: &Function) -> bool {
    let mut insts = func.blocks().flat_map(|block| func.block_insts(block));
    insts.any(|inst| match func.opcode(inst).as_machine() {
        Some(op) => op.row().effects.intersects(orias_sass::Effects::CALL),
        None => func.opcode(inst).effects().intersects(Effects::CALL),
    })
}

/// The pairs of known words, by number.
fn copies(func: &Function) -> Vec<(u64, Vec<Copy>)> {
    let mut found: FxHashMap<u64, Vec<Copy>> = FxHashMap::default();
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        if func.opcode(inst).as_abstract() != Some(AbstractOp::Collect) {
            continue;
        }
        let &[result, low, high] = func.operands(inst) else {
            continue;
        };
        let (Some(low), Some(high)) = (word(func, low), word(func, high)) else {
            continue;
        };
        if let Some(value) = result.as_value() {
            let collect = inst;
            let copy = Copy { collect, value };
            found.entry(high << 32 | low).or_default().push(copy);
        }
    }
    found.into_iter().collect()
}

/// The number that a word is.
fn word(func: &Function, operand: Operand) -> Option<u64> {
    let Some(value) = operand.as_value() else {
        return (operand == Operand::from(PhysReg::RZ)).then_some(0);
    };
    let inst = func.defining_inst(value)?;
    let is_move = func.opcode(inst).as_machine() == Some(Op::MOV)
        && func.inst(inst).guard().is_always()
        && func.value_type(value) == Type::R;
    match func.operands(inst) {
        [_, Operand::Imm(bits), ..] if is_move => Some(bits.bits() & 0xffff_ffff),
        _ => None,
    }
}

/// Moves `bits` to the uniform pair `number` at the start of the kernel.
fn define(
    func: &mut Function,
    entry: orias_ori::Block,
    number: Value,
    bits: u64,
) -> Result<(), BuildError> {
    let Some(first) = func.layout.first_inst(entry) else {
        return Ok(());
    };
    let halves = [bits & 0xffff_ffff, bits >> 32].map(|half| (func.create_value(Type::UR), half));
    let mut cursor = Cursor::before(func, first);
    for (value, half) in halves {
        cursor.build(Op::UMOV).operand(value).imm(half).finish()?;
    }
    let parts = halves.map(|(value, _)| Operand::from(value));
    cursor.put_abstract(
        AbstractOp::Collect,
        AbstractMods::NONE,
        &[number.into()],
        &parts,
        orias_ori::Guard::ALWAYS,
        &[],
    )?;
    Ok(())
}

/// Removes pairs that nobody reads any more, and their words.
fn remove(func: &mut Function, gone: Vec<Inst>) {
    let mut halves: Vec<Value> = Vec::new();
    for inst in gone {
        halves.extend(func.value_uses(inst));
        func.remove_inst(inst);
    }
    halves.sort_unstable();
    halves.dedup();
    let uses = DefUse::new(func);
    for half in halves.into_iter().filter(|&half| uses.is_unused(half)) {
        if let Some(maker) = func.defining_inst(half) {
            func.remove_inst(maker);
        }
    }
}
