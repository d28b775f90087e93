//! Choices of doublewords, word by word, where a word of a side is one instruction that is computed for the choice alone: such a word can run under the choice's
//! guard, in place of a choice of its own.
//!
//! Selection chooses word by word anyway. Sides that are choices or shifts by less than a word come apart with the choice that reads them.

use crate::emit::{Emit, imm};
use crate::pipeline::PhaseError;
use cranelift_entity::{EntitySet, SecondaryMap};
use orias_ori::operation::{Clamp, Direction, Scalar};
use orias_ori::{AbstractOp, Function, Guard, Inst, Operand, Type, Value};

/// Takes choices of doublewords apart, and what is chosen.
pub(super) fn split_choices(func: &mut Function) -> Result<(), PhaseError> {
    let mut readings: SecondaryMap<Value, u32> = SecondaryMap::new();
    readings.resize(func.value_count());
    let insts: Vec<Inst> = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .collect();
    for &inst in &insts {
        func.for_each_value_use(inst, |value| readings[value] += 1);
    }
    let mut apart: EntitySet<Inst> = EntitySet::new();
    let mut inner: EntitySet<Inst> = EntitySet::new();
    for &inst in insts.iter().rev() {
        if !is_wide_choice(func, inst) || chooses_load(func, inst) {
            continue;
        }
        let operands = func.operands(inst);
        let sides = [operands[1], operands[2]].map(|side| {
            let by = side.as_value().filter(|_| side.mods().is_empty());
            let by = by.filter(|&value| readings[value] == 1);
            by.and_then(|value| func.defining_inst(value)).filter(|by| {
                func.layout.inst_block(*by) == func.layout.inst_block(inst)
                    && (is_wide_choice(func, *by) || short_shift(func, *by).is_some())
            })
        });
        if sides.iter().any(Option::is_some) {
            apart.insert(inst);
            for side in sides.into_iter().flatten() {
                apart.insert(side);
                inner.insert(side);
            }
        }
    }
    let mut words: SecondaryMap<Value, Option<[Operand; 2]>> = SecondaryMap::new();
    for inst in insts {
        if !apart.contains(inst) {
            continue;
        }
        let broken = |error: orias_ori::builder::BuildError| PhaseError::Broken {
            at: inst.to_string(),
            what: error.to_string(),
        };
        let operands = func.operands(inst).to_vec();
        let Some(result) = operands[0].as_value() else {
            continue;
        };
        let shift = short_shift(func, inst);
        let mut emit = Emit::before(func, inst);
        let halves = |emit: &mut Emit<'_>, pair: Operand| match pair
            .as_value()
            .and_then(|value| words[value])
        {
            Some(words) => words,
            None => emit.halves(pair).into(),
        };
        let parts = match shift {
            Some((scalar, by)) => {
                let [low, high] = halves(&mut emit, operands[1]);
                let by = imm(by);
                let joined = |direction| (direction, Clamp::Clamp);
                match scalar {
                    None => {
                        let upper = joined(Direction::Left);
                        [
                            emit.shl(low, by),
                            emit.op(AbstractOp::Shf, upper, &[low, high, by]),
                        ]
                    }
                    Some(scalar) => {
                        let lower = joined(Direction::Right);
                        [
                            emit.op(AbstractOp::Shf, lower, &[low, high, by]),
                            emit.shr(scalar, high, by),
                        ]
                    }
                }
            }
            None => {
                let [yes, no] = [operands[1], operands[2]].map(|side| halves(&mut emit, side));
                [0, 1].map(|place| match yes[place] == no[place] {
                    true => yes[place],
                    false => {
                        let sides = [yes[place], no[place], operands[3]];
                        emit.op(AbstractOp::Selp, (Scalar::B32,), &sides)
                    }
                })
            }
        };
        words[result] = Some(parts);
        if !inner.contains(inst) {
            let parts = parts.map(|part| Operand::from(emit.as_value(Scalar::B32, part)));
            let op = AbstractOp::Collect;
            emit.put(op, (), &[result.into()], &parts, Guard::ALWAYS, &[]);
        }
        emit.finish().map_err(broken)?;
        func.remove_inst(inst);
    }
    Ok(())
}

/// Whether `inst` always chooses one of two doublewords.
fn is_wide_choice(func: &Function, inst: Inst) -> bool {
    func.opcode(inst).as_abstract() == Some(AbstractOp::Selp)
        && func.inst(inst).guard().is_always()
        && (func.result(inst, 0)).is_some_and(|value| func.value_type(value) == Type::R2)
}

/// Whether a side of the choice `inst` was loaded under a guard: the load may keep the other side as a whole.
fn chooses_load(func: &Function, inst: Inst) -> bool {
    let sides = func.operands(inst)[1..].iter();
    let mut made = sides.filter_map(|side| func.defining_inst(side.as_value()?));
    made.any(|by| {
        func.opcode(by).as_abstract() == Some(AbstractOp::Ld) && !func.inst(by).guard().is_always()
    })
}

/// By how much `inst` always shifts a doubleword, 1 to 31 bits, and the type of its upper word if it goes to the right.
fn short_shift(func: &Function, inst: Inst) -> Option<(Option<Scalar>, u64)> {
    let to = match (
        func.opcode(inst).as_abstract()?,
        func.modifier::<Scalar>(inst)?,
    ) {
        (AbstractOp::Shl, Scalar::B64 | Scalar::U64 | Scalar::S64) => None,
        (AbstractOp::Shr, Scalar::S64) => Some(Scalar::S32),
        (AbstractOp::Shr, Scalar::B64 | Scalar::U64) => Some(Scalar::U32),
        _ => return None,
    };
    let always = func.inst(inst).guard().is_always();
    match *func.operands(inst) {
        [_, _, Operand::Imm(by)] if always && (1..32).contains(&by.bits()) => Some((to, by.bits())),
        _ => None,
    }
}
