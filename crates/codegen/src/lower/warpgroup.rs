//! `wgmma`: asynchronous products of a warp group.
//!
//! The accumulator is one tuple, read and written. A comes from four registers or, as B always does, from shared memory by a descriptor of
//! 64 bits. Fences, groups and waits carry over one by one; what PTX leaves out is added where registers are known (`phases::warpgroup`).

use super::body::{Body, Lowered, Statement, unsupported};
use super::matrix::scalar_second;
use super::memory::load_vector;
use super::movement::pack_elements;
use super::operands::scalar;
use crate::emit::{Mods as _, imm};
use orias_ori::operation::{AbstractOp, BitOp, Sat, SourceType};
use orias_ori::{Class, Operand, Type};
use orias_ptx::ast::OperandKind;
use orias_ptx::grammar::Modifier;
use orias_ptx::types::Type as PtxType;

/// `wgmma.mma_async`
pub(super) fn multiply(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    body.branch_if_guarded(|body| multiply_always(body, statement))
}

fn multiply_always(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let types: Vec<PtxType> = statement.form.types().collect();
    let &[d, a, b] = &types[..] else {
        return unsupported("");
    };
    let sum = body.elements(statement, &statement.operands[0], PtxType::B32)?;
    let count = u8::try_from(sum.len()).ok();
    let Some(tuple) = count.and_then(|count| Type::tuple(Class::R, count)) else {
        return unsupported("");
    };
    let sum = body.with(|emit| pack_elements(emit, &sum, 32))?;
    let in_registers = matches!(statement.operands[1].kind, OperandKind::Vector(_));
    let left: Operand = if in_registers {
        let words = body.elements(statement, &statement.operands[1], PtxType::B32)?;
        body.with(|emit| pack_elements(emit, &words, 32))?.into()
    } else {
        body.source_value(statement, 1)?.into()
    };
    let right = body.source_value(statement, 2)?;
    let sparse = statement.form.has(Modifier::Sp);
    let mut next = 3;
    let places = match sparse {
        true => {
            next += 2;
            Some((body.source(statement, 3)?, body.immediate(statement, 4)?))
        }
        false => None,
    };
    let scale = body.source(statement, next)?;
    next += 1;
    // What the form does not have is as if it were not there: no sign, not transposed.
    let mut option = |body: &mut Body<'_, '_>, absent: bool| -> Lowered<u64> {
        if absent || next >= statement.operands.len() {
            return Ok(0);
        }
        next += 1;
        body.immediate(statement, next - 1)
    };
    let minus = |number: u64| u64::from(number as i32 == -1);
    let negate_left = minus(option(body, false)?);
    let negate_right = minus(option(body, false)?);
    let turn_left = option(body, in_registers)?;
    let turn_right = option(body, false)?;
    let mut operands = vec![
        sum.into(),
        left,
        right.into(),
        imm(u64::from(tuple.len())),
        scale,
        imm(negate_left),
        imm(negate_right),
        imm(turn_left),
        imm(turn_right),
    ];
    let op = match places {
        Some((metadata, selector)) => {
            operands.extend([metadata, imm(selector)]);
            AbstractOp::WgmmaSparse
        }
        None => AbstractOp::Wgmma,
    };
    let sat = match statement.form.has(Modifier::Satfinite) {
        true => Sat::Satfinite,
        false => Sat::Wrap,
    };
    let bits = match a {
        PtxType::B1 => BitOp::AndPopc,
        _ => BitOp::None,
    };
    let mods = (
        sat,
        bits,
        scalar(d)?,
        SourceType::from(scalar(a)?),
        scalar_second(a, b)?,
    );
    let Some(mods) = mods.pack(op.row()) else {
        return unsupported("");
    };
    let destinations = body.element_destinations(statement, 0)?;
    load_vector(
        body,
        op,
        mods,
        tuple,
        &operands,
        &destinations,
        PtxType::B32,
    )
}

/// `wgmma.wait_group`: more than seven groups are never under way.
pub(super) fn wait(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let groups = body.immediate(statement, 0)?.min(7);
    body.assign(AbstractOp::WgmmaWait, (), &[], &[imm(groups)])
}
