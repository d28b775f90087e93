//! Conversions.
//!
//! Between integers a conversion without `.sat` is a choice of bits: the low ones of the source, extended by the source's
//! sign to the result's size, and by the result's sign to its register's. Everything else is the abstract `cvt`, whose
//! result is extended to its register in the same way.

use super::body::{Body, Destination, Lowered, Statement, unsupported};
use super::modifiers::{modifier, set};
use super::operands::{integer, scalar};
use crate::emit::imm;
use orias_ori::operation::{AbstractOp, Ftz, MinMax, Round, Sat, Scalar, SourceType};
use orias_ori::{Operand, Type};
use orias_ptx::grammar::Modifier;
use orias_ptx::types::Type as PtxType;

/// What happens to values that do not fit.
fn saturation(statement: &Statement<'_>) -> Sat {
    let form = statement.form;
    match (
        form.has(Modifier::Sat),
        form.has(Modifier::Satfinite),
        form.has(Modifier::Relu),
    ) {
        (true, ..) => Sat::Sat,
        (_, true, true) => Sat::SatfiniteRelu,
        (_, true, false) => Sat::Satfinite,
        (_, false, true) => Sat::Relu,
        _ => Sat::Wrap,
    }
}

/// `cvt` in all its forms.
pub(super) fn convert(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let types: Vec<PtxType> = statement.form.types().collect();
    let &[to, from] = &types[..] else {
        return unsupported("");
    };
    if statement.form.has(Modifier::Rs) {
        return unsupported("");
    }
    let sat = saturation(statement);
    let plain_integer = to.is_integer() && from.is_integer() && sat == Sat::Wrap;
    let value = if plain_integer {
        let source = body.source(statement, 1)?;
        convert_integer(body, source, to, from)?
    } else {
        let mut operands = vec![body.source(statement, 1)?];
        let op = match (statement.operands.len(), to, from) {
            (3, ..) => {
                operands.push(body.source(statement, 2)?);
                AbstractOp::CvtPair
            }
            (_, PtxType::F16x2, PtxType::E4m3x2 | PtxType::E5m2x2) => AbstractOp::CvtUnpack,
            _ => AbstractOp::Cvt,
        };
        // No instruction limits doubles to what lies between 0 and 1.
        let limited = to == PtxType::F64 && sat == Sat::Sat;
        let sat = if limited { Sat::Wrap } else { sat };
        let mods = set(op, body.carried(statement, op)?, sat);
        let mods = set(op, mods, scalar(to)?);
        let mods = set(op, mods, SourceType::from(scalar(from)?));
        let round: Round = modifier(statement.form).unwrap_or(Round::Default);
        let mut mods = set(op, mods, round);
        if (to, from) == (PtxType::F64, PtxType::F32) && statement.form.has(Modifier::Ftz) {
            // A product flushes, and makes every NaN the same one, as ptxas does it.
            let one = imm(u64::from(1.0_f32.to_bits()));
            let product = (Round::Rn, Ftz::Ftz, Scalar::F32);
            operands[0] = body.compute(AbstractOp::Fmul, product, &[operands[0], one])?;
            mods = set(op, mods, Ftz::Keep);
        }
        if limited {
            let value = match (from, round) {
                (PtxType::F64, Round::Default) => operands[0],
                _ => body.compute(op, mods, &operands)?,
            };
            let destination = body.destination(statement, 0)?.or_unused(Type::R2);
            return limit(body, destination, value);
        }
        let direct = statement.operands.first().is_some_and(|operand| {
            let width = register_width(statement, operand.kind);
            width <= to.bits()
        });
        if direct {
            let destination = body.destination(statement, 0)?;
            return body.assign(op, mods, &[destination], &operands);
        }
        body.compute(op, mods, &operands)?
    };
    match body.element_destinations(statement, 0)?.first() {
        Some(&(Destination::Variable(variable), width)) => {
            body.write_extended(variable, width, value, to)
        }
        _ => Ok(()),
    }
}

/// A double limited to what lies between 0 and 1; a NaN becomes 0.
fn limit(body: &mut Body<'_, '_>, destination: Destination, value: Operand) -> Lowered {
    let mods = (MinMax::Number, Scalar::F64);
    let above = body.compute(AbstractOp::Fmax, mods, &[value, imm(0)])?;
    let one = imm(1.0_f64.to_bits());
    body.assign(AbstractOp::Fmin, mods, &[destination], &[above, one])
}

fn register_width(statement: &Statement<'_>, kind: orias_ptx::ast::OperandKind) -> u32 {
    use orias_ptx::ast::OperandKind;
    match kind {
        OperandKind::Register(register) | OperandKind::Component(register, _) => {
            statement.body.registers[register.index()].ty.bits()
        }
        _ => 0,
    }
}

/// An integer in another type. The result is in as many registers as its type has.
fn convert_integer(
    body: &mut Body<'_, '_>,
    source: Operand,
    to: PtxType,
    from: PtxType,
) -> Lowered<Operand> {
    if to.bits() > from.bits() {
        // Extended to 32 bits at least: what is above the type's size does not matter.
        let wide = integer(to.bits().max(32), from.is_signed());
        let narrow = integer(from.bits(), from.is_signed());
        let value = body.compute(AbstractOp::Cvt, (wide, SourceType::from(narrow)), &[source])?;
        return Ok(value);
    }
    if from.bits() == 64 && to.bits() < 64 {
        return body.with(|emit| emit.halves(source).0);
    }
    Ok(source)
}

/// `cvt.pack`
pub(super) fn pack(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let Some(to) = statement.form.types().next() else {
        return unsupported("");
    };
    let mut operands = Vec::with_capacity(3);
    for index in 1..statement.operands.len() {
        operands.push(body.source(statement, index)?);
    }
    if operands.len() == 2 {
        operands.push(Operand::None);
    }
    let mods = (scalar(to)?, SourceType::from(Scalar::S32));
    let value = body.compute(AbstractOp::CvtPack, mods, &operands)?;
    match body.element_destinations(statement, 0)?.first() {
        Some(&(Destination::Variable(variable), width)) => {
            body.write_extended(variable, width, value, PtxType::U32)
        }
        _ => Ok(()),
    }
}
