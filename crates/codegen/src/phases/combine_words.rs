//! CombineWords (10007): idiom recognition, a peephole optimisation for what is written with several operations on words because PTX has no other way to write it.
//!
//! | written | becomes | why |
//! | --- | --- | --- |
//! | `mad.lo.cc` and `madc.hi` of the same factors, one right behind the other | one `mad.wide` on the pair of addends | the carry stays inside the wide sum |
//! | `madc.lo.cc` and `madc.hi.cc` of the same factors | one `madc.wide` with that carry in or out | the same |
//! | a word moved up by 32 bits, joined with another word by `or`, `xor` or `add` of 64 bits | `collect` | the two have no bit in common |
//! | a number moved up by some bits and the same number moved down by all the others, joined by `or`, `xor` or `add` | `shf.l.wrap`, one for each word | a rotation |
//!
//! It runs before ConvertUnsupportedOps, which would take products with carries apart. One visit of each instruction: linear.

use crate::emit::{Emit, imm};
use crate::pipeline::{Context, PhaseError};
use cranelift_entity::SecondaryMap;
use orias_ori::operation::{Clamp, Direction, Half, Scalar, SourceType};
use orias_ori::{AbstractMods, AbstractOp, Function, Guard, Inst, Opcode, Operand, Type, Value};

/// Runs the phase.
pub fn combine_words(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    let mut products = Vec::new();
    let mut sums = Vec::new();
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        match func.opcode(inst) {
            Opcode::Abstract(AbstractOp::MadC) => products.push(inst),
            Opcode::Abstract(AbstractOp::Or | AbstractOp::Xor | AbstractOp::Add) => sums.push(inst),
            _ => {}
        }
    }
    for inst in sums {
        if let Some([low, high]) = joined_words(func, inst)
            && let Some(&result) = func.operands(inst).first()
        {
            let operands = [result, low.into(), high.into()];
            let mods = AbstractMods::NONE;
            func.replace_with_abstract(inst, AbstractOp::Collect, mods, 1, &operands);
        } else if let Some(rotation) = rotation(func, inst) {
            rotate(func, inst, rotation)?;
        }
    }
    if products.len() < 2 {
        return Ok(());
    }
    let mut uses: SecondaryMap<Value, u32> = SecondaryMap::new();
    uses.resize(func.value_count());
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        func.for_each_use(inst, |reg| {
            if let Some(value) = reg.value() {
                uses[value] += 1;
            }
        });
    }
    for inst in products {
        widen_product(func, inst, &uses)?;
    }
    Ok(())
}

/// The operands of `inst` behind its results, if it is `op` and always runs.
fn sources(func: &Function, inst: Inst, op: AbstractOp) -> Option<&[Operand]> {
    let plain = func.opcode(inst) == Opcode::Abstract(op) && func.inst(inst).guard().is_always();
    plain.then(|| &func.operands(inst)[func.result_count(inst)..])
}

/// A number rotated to the left.
struct Rotation {
    number: Value,
    by: u32,
    wide: bool,
}

/// What `inst` rotates, if it joins two shifts of the same number such that every bit is found in one of them.
fn rotation(func: &Function, inst: Inst) -> Option<Rotation> {
    let wide = match func.modifier::<Scalar>(inst)? {
        Scalar::B64 | Scalar::U64 | Scalar::S64 => true,
        Scalar::B32 | Scalar::U32 | Scalar::S32 => false,
        _ => return None,
    };
    let &[_, a, b] = func.operands(inst) else {
        return None;
    };
    if !func.inst(inst).guard().is_always() {
        return None;
    }
    let bits = if wide { 64 } else { 32 };
    [(a, b), (b, a)].into_iter().find_map(|(up, down)| {
        let (up, down) = (plain_definition(func, up)?, plain_definition(func, down)?);
        let &[number, Operand::Imm(by)] = sources(func, up, AbstractOp::Shl)? else {
            return None;
        };
        let &[same, Operand::Imm(rest)] = sources(func, down, AbstractOp::Shr)? else {
            return None;
        };
        let unsigned = match func.modifier::<Scalar>(down)? {
            Scalar::B64 | Scalar::U64 => wide,
            Scalar::B32 | Scalar::U32 => !wide,
            _ => false,
        };
        let whole = by.bits().checked_add(rest.bits()) == Some(bits) && rest.bits() < bits;
        let plain = number == same && number.mods().is_empty();
        Some(Rotation {
            number: number
                .as_value()
                .filter(|_| unsigned && whole && plain && by.bits() < bits)?,
            by: by.bits() as u32,
            wide,
        })
    })
}

/// What defines `operand`, which is read unchanged.
fn plain_definition(func: &Function, operand: Operand) -> Option<Inst> {
    let value = operand.as_value().filter(|_| operand.mods().is_empty())?;
    func.defining_inst(value)
}

/// Makes `inst` the rotation that it is.
fn rotate(func: &mut Function, inst: Inst, rotation: Rotation) -> Result<(), PhaseError> {
    let Some(&result) = func.operands(inst).first() else {
        return Ok(());
    };
    let number = rotation.number.into();
    let by = imm(u64::from(rotation.by % 32));
    let how = (Direction::Left, Clamp::Wrap);
    let mut emit = Emit::before(func, inst);
    if rotation.wide {
        let (low, high) = emit.halves(number);
        let (low, high) = match rotation.by < 32 {
            true => (low, high),
            false => (high, low),
        };
        let parts = match rotation.by % 32 {
            0 => [low, high],
            _ => [(high, low), (low, high)]
                .map(|(low, high)| emit.op(AbstractOp::Shf, how, &[low, high, by])),
        };
        emit.put(
            AbstractOp::Collect,
            (),
            &[result],
            &parts,
            Guard::ALWAYS,
            &[],
        );
    } else {
        let operands = [number, number, by];
        emit.put(
            AbstractOp::Shf,
            how,
            &[result],
            &operands,
            Guard::ALWAYS,
            &[],
        );
    }
    emit.finish().map_err(|error| PhaseError::Broken {
        at: inst.to_string(),
        what: error.to_string(),
    })?;
    func.remove_inst(inst);
    Ok(())
}

/// The low and the high word that `inst` puts together.
fn joined_words(func: &Function, inst: Inst) -> Option<[Value; 2]> {
    let wide = matches!(
        func.modifier::<Scalar>(inst),
        Some(Scalar::B64 | Scalar::U64 | Scalar::S64)
    );
    let &[_, a, b] = func.operands(inst) else {
        return None;
    };
    if !wide || !func.inst(inst).guard().is_always() {
        return None;
    }
    [(a, b), (b, a)].into_iter().find_map(|(low, high)| {
        let shift = func.defining_inst(high.as_value()?)?;
        let &[word, Operand::Imm(by)] = sources(func, shift, AbstractOp::Shl)? else {
            return None;
        };
        let high = extended(func, word).filter(|_| by.bits() == 32)?;
        Some([extended(func, low)?, high])
    })
}

/// The word that the pair `operand` is, with zeros above it.
fn extended(func: &Function, operand: Operand) -> Option<Value> {
    let inst = func.defining_inst(operand.as_value()?)?;
    let &[word] = sources(func, inst, AbstractOp::Cvt)? else {
        return None;
    };
    let to = func.modifier::<Scalar>(inst)?;
    let from = Scalar::from(func.modifier::<SourceType>(inst)?);
    let zeros = matches!(to, Scalar::U64 | Scalar::S64) && from == Scalar::U32;
    word.as_value().filter(|_| zeros && word.mods().is_empty())
}

/// `low, c = madc.lo a, b, x, in` followed by `high, out = madc.hi a, b, y, c` becomes one wide sum.
fn widen_product(
    func: &mut Function,
    high: Inst,
    uses: &SecondaryMap<Value, u32>,
) -> Result<(), PhaseError> {
    let Some(low) = func.layout.prev_inst(high) else {
        return Ok(());
    };
    let halves = [low, high].map(|inst| func.modifier::<Half>(inst));
    let words = [low, high].map(|inst| func.modifier::<Scalar>(inst)) == [Some(Scalar::U32); 2];
    let (Some(&[a, b, x, carry_in]), Some(&[c, d, y, carry])) = (
        sources(func, low, AbstractOp::MadC),
        sources(func, high, AbstractOp::MadC),
    ) else {
        return Ok(());
    };
    let (&[low_result, low_carry, ..], &[high_result, high_carry, ..]) =
        (func.operands(low), func.operands(high))
    else {
        return Ok(());
    };
    let nothing = matches!(carry_in, Operand::Imm(bits) if bits.bits() == 0);
    let same = halves == [Some(Half::Lo), Some(Half::Hi)] && words && [a, b] == [c, d];
    let carried = carry == low_carry && carry.as_value().is_some_and(|carry| uses[carry] == 1);
    // What is added to the high half must be there before the low one is.
    let apart = y.as_value() != low_result.as_value();
    if !same || !carried || !apart {
        return Ok(());
    }
    let carry_out = high_carry;
    let mut emit = Emit::before(func, low);
    let addend = emit.join(x, y);
    let how = (Half::Wide, Scalar::U32);
    let wide = match nothing && carry_out == Operand::None {
        true => emit.op(AbstractOp::Mad, how, &[a, b, addend]),
        false => {
            let sum = Operand::from(emit.func().create_value(Type::R2));
            let operands = [a, b, addend, carry_in];
            let results = [sum, carry_out];
            emit.put(
                AbstractOp::MadC,
                how,
                &results,
                &operands,
                Guard::ALWAYS,
                &[],
            );
            sum
        }
    };
    let results = [low_result, high_result];
    emit.put(AbstractOp::Split, (), &results, &[wide], Guard::ALWAYS, &[]);
    emit.finish().map_err(|error| PhaseError::Broken {
        at: high.to_string(),
        what: error.to_string(),
    })?;
    func.remove_inst(low);
    func.remove_inst(high);
    Ok(())
}
