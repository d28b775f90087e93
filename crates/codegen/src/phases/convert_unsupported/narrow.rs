//! Type promotion: 16-bit integer operations whose result depends on whole numbers are done in 32 bits, on operands extended first.

use super::{Asked, Expander, Expansion, Results, is_integer, is_signed};
use crate::emit::{Emit, imm};
use orias_ori::Operand;
use orias_ori::operation::{AbstractOp, Half, Scalar, SourceType};

/// The 32-bit type of the same sign.
const fn wide(scalar: Scalar) -> Scalar {
    if is_signed(scalar) {
        Scalar::S32
    } else {
        Scalar::U32
    }
}

/// A 16-bit operand as a 32-bit number.
fn extend(emit: &mut Emit<'_>, scalar: Scalar, operand: Operand) -> Operand {
    let from = if is_signed(scalar) {
        Scalar::S16
    } else {
        Scalar::U16
    };
    match operand {
        Operand::Imm(bits) if is_signed(scalar) => imm(bits.bits() as i16 as i32 as u32 as u64),
        Operand::Imm(bits) => imm(bits.bits() & 0xffff),
        other => emit.cvt(wide(scalar), from, other),
    }
}

pub(super) fn rule(asked: Asked) -> Option<Expansion> {
    use AbstractOp as A;
    let scalar = asked.scalar();
    if asked.op == A::Set && is_integer(asked.source(), 16) {
        return Some(set);
    }
    if !is_integer(scalar, 16) {
        return None;
    }
    match asked.op {
        A::Div | A::Rem | A::Min | A::Max | A::Sad | A::Abs | A::Neg | A::Shr => Some(in_32_bits),
        A::Cnot => Some(in_32_bits),
        A::Mul | A::Mad => match asked.modifier::<Half>() {
            Some(Half::Lo) => None,
            _ => Some(product),
        },
        A::Setp => Some(compare),
        _ => None,
    }
}

/// The same operation of 32 bits on extended operands; a shift's amount stays as it is.
fn in_32_bits(expander: &mut Expander<'_>) -> Results {
    let (op, scalar) = (expander.op, expander.scalar());
    let operands = expander.operands.clone();
    expander.one(|emit| {
        let mut extended = Vec::with_capacity(operands.len());
        for (index, &operand) in operands.iter().enumerate() {
            extended.push(match (op, index) {
                (AbstractOp::Shr, 1) => operand,
                _ => extend(emit, scalar, operand),
            });
        }
        match op {
            AbstractOp::Cnot => emit.op(op, (Scalar::B32,), &extended),
            _ => emit.op(op, (wide(scalar),), &extended),
        }
    })
}

/// High half or all of a product: a 32-bit product has both.
fn product(expander: &mut Expander<'_>) -> Results {
    let (op, scalar) = (expander.op, expander.scalar());
    let half: Half = expander.modifier().unwrap_or(Half::Lo);
    let operands = expander.operands.clone();
    expander.one(|emit| {
        let a = extend(emit, scalar, operands[0]);
        let b = extend(emit, scalar, operands[1]);
        let third = operands.get(2).copied();
        match (half, third) {
            (Half::Wide, Some(c)) if op == AbstractOp::Mad => emit.mad(a, b, c),
            (Half::Hi, third) => {
                let product = emit.mul(a, b);
                let high = emit.shr(wide(scalar), product, imm(16));
                match third {
                    Some(c) if op == AbstractOp::Mad => {
                        emit.binary(AbstractOp::Add, Scalar::U16, high, c)
                    }
                    _ => high,
                }
            }
            _ => emit.mul(a, b),
        }
    })
}

/// A comparison of extended operands.
fn compare(expander: &mut Expander<'_>) -> Results {
    let scalar = expander.scalar();
    let row = AbstractOp::Setp.row();
    let mods = expander.mods;
    let mods = row.with_modifier(mods, wide(scalar)).unwrap_or(mods);
    let operands = expander.operands.clone();
    let second = expander.func.operands(expander.inst).get(1) != Some(&Operand::None);
    expander.write(|emit| {
        let a = extend(emit, scalar, operands[0]);
        let b = extend(emit, scalar, operands[1]);
        if !second {
            return vec![emit.op(AbstractOp::Setp, mods, &[a, b, operands[2]])];
        }
        let types = (orias_ori::Type::P, orias_ori::Type::P);
        let (first, second) = emit.pair(AbstractOp::Setp, mods, types, &[a, b, operands[2]]);
        vec![first, second]
    })
}

/// `set` from 16 bits.
fn set(expander: &mut Expander<'_>) -> Results {
    let source = expander.source();
    let row = AbstractOp::Set.row();
    let mods = expander.mods;
    let mods = row
        .with_modifier(mods, SourceType::from(wide(source)))
        .unwrap_or(mods);
    let operands = expander.operands.clone();
    expander.one(|emit| {
        let a = extend(emit, source, operands[0]);
        let b = extend(emit, source, operands[1]);
        emit.op(AbstractOp::Set, mods, &[a, b, operands[2]])
    })
}
