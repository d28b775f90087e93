//! Arithmetic, comparison and logic whose operations differ from PTX's instructions.

use super::body::{Body, Destination, Lowered, Statement, unsupported};
use super::modifiers::{modifier, set};
use super::operands::{bits, scalar};
use super::rules::{is_float, places, same};
use crate::emit::imm;
use orias_ori::operation::{
    AbstractOp, Clamp, Combine, Direction, Half, MinMax, Precision, Round, Sat, Scalar, SourceType,
};
use orias_ori::{Operand, Type};
use orias_ptx::ast::OperandKind;
use orias_ptx::grammar::{Modifier, Op};
use orias_ptx::types::Type as PtxType;

/// The type of the instruction's result.
fn result_scalar(statement: &Statement<'_>) -> Lowered<Scalar> {
    match statement.form.types().next() {
        Some(ty) => scalar(ty),
        None => unsupported(""),
    }
}

/// `add`, `sub`, and both with carry in or out.
pub(super) fn add_or_subtract(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let subtracts = matches!(statement.op, Op::Sub | Op::Subc);
    if is_float(statement) {
        let op = if subtracts {
            AbstractOp::Fsub
        } else {
            AbstractOp::Fadd
        };
        return same(body, statement, op);
    }
    let carry_in = matches!(statement.op, Op::Addc | Op::Subc);
    let carry_out = statement.form.has(Modifier::Cc);
    if !carry_in && !carry_out {
        let op = if subtracts {
            AbstractOp::Sub
        } else {
            AbstractOp::Add
        };
        return same(body, statement, op);
    }
    let scalar = result_scalar(statement)?;
    let (destinations, mut operands) = places(body, statement)?;
    // The flag is a carry after differences, too: `a - b` is `a + ~b + 1`, and a borrow is a carry that is not there.
    let carry = if carry_in {
        Operand::from(body.read(body.carry))
    } else {
        imm(subtracts.into())
    };
    let [with, without] = if subtracts { [0, 1] } else { [1, 0] };
    let saturates = statement.form.has(Modifier::Sat);
    if saturates || scalar.bits() == 16 {
        // What only ptxas knows: the carry is one more summand. Saturated, the sum of three is formed in 64 bits.
        let op = if subtracts {
            AbstractOp::Sub
        } else {
            AbstractOp::Add
        };
        let result = body.with(|emit| {
            if !saturates {
                let one = emit.selp(Scalar::B16, imm(with), imm(without), carry);
                let sum = emit.op(op, (scalar,), &operands);
                return emit.op(op, (scalar,), &[sum, one]);
            }
            let a = emit.cvt(Scalar::S64, Scalar::S32, operands[0]);
            let b = emit.cvt(Scalar::S64, Scalar::S32, operands[1]);
            let one = emit.selp(Scalar::B64, imm(with), imm(without), carry);
            let sum = emit.op(op, (Scalar::S64,), &[a, b]);
            let sum = emit.op(op, (Scalar::S64,), &[sum, one]);
            emit.op(
                AbstractOp::Cvt,
                (Sat::Sat, Scalar::S32, SourceType::S64),
                &[sum],
            )
        })?;
        return match destinations[0] {
            Destination::Variable(variable) => body.write(variable, result),
            _ => Ok(()),
        };
    }
    let op = if subtracts {
        AbstractOp::SubC
    } else {
        AbstractOp::AddC
    };
    operands.push(carry);
    let out = if carry_out {
        Destination::Variable(body.carry)
    } else {
        Destination::None
    };
    body.assign(op, (scalar,), &[destinations[0], out], &operands)
}

/// Products of integers, with a sum and a carry or without.
pub(super) fn multiply(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let (op, half) = match statement.op {
        Op::MulLo => (AbstractOp::Mul, Half::Lo),
        Op::MulHi => (AbstractOp::Mul, Half::Hi),
        Op::MulWide => (AbstractOp::Mul, Half::Wide),
        Op::Mul24Lo => (AbstractOp::Mul24, Half::Lo),
        Op::Mul24Hi => (AbstractOp::Mul24, Half::Hi),
        Op::MadLo => (AbstractOp::Mad, Half::Lo),
        Op::MadHi => (AbstractOp::Mad, Half::Hi),
        Op::MadWide => (AbstractOp::Mad, Half::Wide),
        Op::Mad24Lo => (AbstractOp::Mad24, Half::Lo),
        Op::Mad24Hi => (AbstractOp::Mad24, Half::Hi),
        Op::MadcLo => (AbstractOp::MadC, Half::Lo),
        _ => (AbstractOp::MadC, Half::Hi),
    };
    let carry_in = op == AbstractOp::MadC;
    let carry_out = statement.form.has(Modifier::Cc);
    if !carry_in && !carry_out {
        let mods = set(op, body.carried(statement, op)?, half);
        let (destinations, operands) = places(body, statement)?;
        return body.assign(op, mods, &destinations, &operands);
    }
    let scalar = result_scalar(statement)?;
    let (destinations, mut operands) = places(body, statement)?;
    if statement.form.has(Modifier::Sat) {
        return saturated_with_carry(body, destinations[0], &operands);
    }
    if scalar.bits() == 16 {
        return halves_with_carry(body, destinations[0], &operands, (half, scalar));
    }
    operands.push(if carry_in {
        body.read(body.carry).into()
    } else {
        imm(0)
    });
    let out = if carry_out {
        Destination::Variable(body.carry)
    } else {
        Destination::None
    };
    body.assign(
        AbstractOp::MadC,
        (half, scalar),
        &[destinations[0], out],
        &operands,
    )
}

/// `madc.hi.sat.s32`: the high word of the product, the addend and the carry, as near to their sum as 32 bits can be.
fn saturated_with_carry(
    body: &mut Body<'_, '_>,
    destination: Destination,
    operands: &[Operand],
) -> Lowered {
    let carry = body.read(body.carry);
    let sum = body.with(|emit| {
        let high = emit.mul_hi(Scalar::S32, operands[0], operands[1]);
        let high = emit.cvt(Scalar::S64, Scalar::S32, high);
        let addend = emit.as_value(Scalar::B32, operands[2]);
        let addend = emit.cvt(Scalar::S64, Scalar::S32, addend.into());
        let one = emit.selp(Scalar::B32, imm(1), imm(0), carry.into());
        let one = emit.cvt(Scalar::U64, Scalar::U32, one);
        let sum = emit.binary(AbstractOp::Add, Scalar::S64, high, addend);
        emit.binary(AbstractOp::Add, Scalar::S64, sum, one)
    })?;
    let mods = (Sat::Sat, Scalar::S32, SourceType::S64);
    body.assign(AbstractOp::Cvt, mods, &[destination], &[sum])
}

/// `madc` of 16 bits, in 32: the high half of a product of halves is a shift away.
fn halves_with_carry(
    body: &mut Body<'_, '_>,
    destination: Destination,
    operands: &[Operand],
    (half, scalar): (Half, Scalar),
) -> Lowered {
    let carry = body.read(body.carry);
    let (a, b) = match half {
        Half::Hi => {
            let wide = match scalar {
                Scalar::S16 => Scalar::S32,
                _ => Scalar::U32,
            };
            let high = body.with(|emit| {
                let [a, b] = [0, 1].map(|index| {
                    let operand = emit.as_value(Scalar::B32, operands[index]);
                    emit.cvt(wide, scalar, operand.into())
                });
                let product = emit.mul(a, b);
                emit.shr(wide, product, imm(16))
            })?;
            (high, imm(1))
        }
        _ => (operands[0], operands[1]),
    };
    let mods = (Half::Lo, Scalar::U32);
    let results = [destination, Destination::None];
    let operands = [a, b, operands[2], carry.into()];
    body.assign(AbstractOp::MadC, mods, &results, &operands)
}

/// `fma`, and `mad` of floats, which is the same. Brain floats are rounded to the nearest whatever direction is named (docs/errata.md).
pub(super) fn fused(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let op = match statement.form.has(Modifier::Oob) {
        true => AbstractOp::FfmaOob,
        false => AbstractOp::Ffma,
    };
    let mut mods = body.carried(statement, op)?;
    let mut types = statement.form.types();
    if types.any(|ty| matches!(ty, PtxType::Bf16 | PtxType::Bf16x2)) {
        mods = set(op, mods, Round::Rn);
    }
    let (destinations, operands) = places(body, statement)?;
    body.assign(op, mods, &destinations, &operands)
}

/// `min` and `max`.
pub(super) fn minimum_or_maximum(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let least = statement.op == Op::Min;
    if !is_float(statement) {
        let op = if least {
            AbstractOp::Min
        } else {
            AbstractOp::Max
        };
        return same(body, statement, op);
    }
    let op = if least {
        AbstractOp::Fmin
    } else {
        AbstractOp::Fmax
    };
    let nan = statement.form.has(Modifier::NaN);
    let xor = statement.form.has(Modifier::Xorsign);
    let rule = match (nan, xor) {
        (false, false) => MinMax::Number,
        (true, false) => MinMax::Nan,
        (false, true) => MinMax::XorSign,
        (true, true) => MinMax::NanXorSign,
    };
    let mods = set(op, body.carried(statement, op)?, rule);
    let (destinations, operands) = places(body, statement)?;
    if operands.len() != 2 {
        return unsupported("");
    }
    body.assign(op, mods, &destinations, &operands)
}

/// `div` of integers and floats.
pub(super) fn divide(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    if !is_float(statement) {
        return same(body, statement, AbstractOp::Div);
    }
    let mut mods = body.carried(statement, AbstractOp::Fdiv)?;
    if statement.op == Op::DivFull {
        mods = set(AbstractOp::Fdiv, mods, Precision::Full);
    }
    let (destinations, operands) = places(body, statement)?;
    body.assign(AbstractOp::Fdiv, mods, &destinations, &operands)
}

/// `bfind`, with or without `.shiftamt`.
pub(super) fn find_bit(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let op = if statement.form.has(Modifier::Shiftamt) {
        AbstractOp::BfindShift
    } else {
        AbstractOp::Bfind
    };
    same(body, statement, op)
}

/// `dp2a`, low or high bytes.
pub(super) fn dot_product(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let half = if statement.op == Op::Dp2aLo {
        Half::Lo
    } else {
        Half::Hi
    };
    let mods = set(
        AbstractOp::Dp2a,
        body.carried(statement, AbstractOp::Dp2a)?,
        half,
    );
    let (destinations, operands) = places(body, statement)?;
    body.assign(AbstractOp::Dp2a, mods, &destinations, &operands)
}

/// `setp`, with one result or two.
pub(super) fn set_predicate(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let mods = body.carried(statement, AbstractOp::Setp)?;
    let (first, second) = body.destinations(statement, 0)?;
    let mut operands = Vec::with_capacity(3);
    for index in 1..statement.operands.len() {
        operands.push(body.source(statement, index)?);
    }
    if operands.len() == 2 {
        operands.push(Operand::None);
    }
    let first = match first {
        Destination::None => Destination::Unused(Type::P),
        other => other,
    };
    body.assign(AbstractOp::Setp, mods, &[first, second], &operands)
}

/// `slct`: the type of what is chosen matters by its size alone.
pub(super) fn select_by_sign(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let mods = body.carried(statement, AbstractOp::Slct)?;
    let width = statement.form.types().next().map_or(32, PtxType::bits);
    let mods = set(AbstractOp::Slct, mods, bits(width));
    let (destinations, operands) = places(body, statement)?;
    body.assign(AbstractOp::Slct, mods, &destinations, &operands)
}

/// `lop3`, with a predicate or without.
pub(super) fn logic3(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let (first, second) = body.destinations(statement, 0)?;
    let mut operands = Vec::with_capacity(5);
    for index in 1..statement.operands.len() {
        operands.push(body.source(statement, index)?);
    }
    if operands.len() == 4 {
        operands.push(Operand::None);
    }
    if let Some(Operand::Imm(table)) = operands.get_mut(3) {
        *table = orias_ori::Imm::new(table.bits() & 0xff);
    }
    let combine = match statement.operands.first().map(|operand| operand.kind) {
        Some(OperandKind::Pair(_)) => modifier(statement.form).unwrap_or(Combine::None),
        _ => Combine::None,
    };
    body.assign(AbstractOp::Lop3, (combine,), &[first, second], &operands)
}

/// `shf`, to the left or right.
pub(super) fn funnel_shift(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let direction = if statement.op == Op::ShfL {
        Direction::Left
    } else {
        Direction::Right
    };
    let clamp: Clamp = modifier(statement.form).unwrap_or(Clamp::Clamp);
    let (destinations, operands) = places(body, statement)?;
    body.assign(
        AbstractOp::Shf,
        (direction, clamp),
        &destinations,
        &operands,
    )
}
