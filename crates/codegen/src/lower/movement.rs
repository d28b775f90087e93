//! Moving values between registers, and addresses between spaces.

use super::body::{Body, Destination, Lowered, Statement, unsupported};
use super::modifiers;
use super::operands::integer;
use super::rules::places;
use crate::emit::{Emit, imm};
use crate::module::constant_places;
use orias_ori::operation::{AbstractOp, Compare, Scalar, Space};
use orias_ori::{Operand, Value};
use orias_ptx::ast::OperandKind;
use orias_ptx::grammar::Op;
use orias_ptx::opcode::PatternKind;

/// One word of up to four elements of 8 or two of 16 bits, the first lowest.
pub(super) fn pack_word(emit: &mut Emit<'_>, elements: &[Operand], width: u32) -> Operand {
    let permute = |emit: &mut Emit<'_>, low: Operand, high: Operand, selector: u64| {
        emit.op(AbstractOp::Prmt, (), &[low, high, imm(selector)])
    };
    match (elements, width) {
        (&[one], _) => one,
        (&[low, high], 16) => permute(emit, low, high, 0x5410),
        (&[low, high], _) => permute(emit, low, high, 0x3240),
        (&[a, b, c], _) => {
            let pair = permute(emit, a, b, 0x3240);
            permute(emit, pair, c, 0x3410)
        }
        (&[a, b, c, d, ..], _) => {
            let low = permute(emit, a, b, 0x3240);
            let high = permute(emit, c, d, 0x3240);
            permute(emit, low, high, 0x5410)
        }
        _ => imm(0),
    }
}

/// Elements of 8 to 64 bits as one tuple, packed as memory has them.
pub(super) fn pack_elements(emit: &mut Emit<'_>, elements: &[Operand], width: u32) -> Value {
    let parts: Vec<Value> = match width {
        64 => elements
            .iter()
            .map(|&element| emit.as_value(Scalar::B64, element))
            .collect(),
        128 => elements
            .iter()
            .map(|&element| emit.as_value(Scalar::B128, element))
            .collect(),
        32 => elements
            .iter()
            .map(|&element| emit.as_value(Scalar::B32, element))
            .collect(),
        narrow => elements
            .chunks((32 / narrow.max(8)) as usize)
            .map(|chunk| {
                let word = pack_word(emit, chunk, narrow);
                emit.as_value(Scalar::B32, word)
            })
            .collect(),
    };
    emit.collect(&parts)
}

/// The elements of a tuple that are wanted, each in as many registers as it needs. Bits above its size are not cleared.
pub(super) fn unpack_elements(
    emit: &mut Emit<'_>,
    tuple: Value,
    width: u32,
    wanted: &[bool],
) -> Vec<Operand> {
    let words = emit.words(tuple);
    let per_word = (32 / width.max(8)) as usize;
    wanted
        .iter()
        .enumerate()
        .map(|(index, &wanted)| match width {
            32 => words[index].into(),
            64 if wanted => emit.collect(&words[2 * index..2 * index + 2]).into(),
            64 | 128 => tuple.into(),
            _ => {
                let word: Operand = words[index / per_word].into();
                let shift = (index % per_word) as u64 * u64::from(width);
                match shift {
                    0 => word,
                    shift if wanted => emit.shr(Scalar::U32, word, imm(shift)),
                    _ => word,
                }
            }
        })
        .collect()
}

/// `mov`: copies, addresses, special registers, packing and unpacking.
pub(super) fn mov(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let (Some(to), Some(from)) = (statement.patterns.first(), statement.patterns.get(1)) else {
        return unsupported("");
    };
    match (&to.kind, &from.kind) {
        (PatternKind::Value(_), PatternKind::Value(_)) => {
            let value = body.source(statement, 1)?;
            write_to(body, statement, 0, value)
        }
        (PatternKind::Value(_), PatternKind::Vector(_, _, element)) => {
            let operand = &statement.operands[1];
            let width = element.ty.bits();
            let elements = body.elements(statement, operand, element.ty)?;
            let value = body.with(|emit| pack_elements(emit, &elements, width))?;
            write_to(body, statement, 0, value.into())
        }
        (PatternKind::Vector(_, _, element), PatternKind::Value(_)) => {
            let width = element.ty.bits();
            let destinations = body.element_destinations(statement, 0)?;
            let value = body.source_value(statement, 1)?;
            let wanted: Vec<bool> = destinations
                .iter()
                .map(|(destination, _)| matches!(destination, Destination::Variable(_)))
                .collect();
            if let [_] = wanted[..] {
                return write_elements(body, &destinations, &[value.into()], element.ty);
            }
            let elements = body.with(|emit| unpack_elements(emit, value, width, &wanted))?;
            write_elements(body, &destinations, &elements, element.ty)
        }
        (PatternKind::Vector(_, _, element), PatternKind::Vector(..)) => {
            let destinations = body.element_destinations(statement, 0)?;
            // `%tid` and its like are vectors of four.
            let elements = match statement.operands[1].kind {
                OperandKind::Special(special, 255) => (0..destinations.len() as u8)
                    .map(|component| {
                        let kind = OperandKind::Special(special, component);
                        body.value_of(statement, kind, element.ty)
                    })
                    .collect::<Lowered<Vec<_>>>()?,
                _ => body.elements(statement, &statement.operands[1], element.ty)?,
            };
            write_elements(body, &destinations, &elements, element.ty)
        }
        _ => unsupported(""),
    }
}

fn write_to(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    index: usize,
    value: Operand,
) -> Lowered {
    match body.destination(statement, index)? {
        Destination::Variable(variable) => body.write(variable, value),
        _ => Ok(()),
    }
}

/// Writes elements to their registers, extended where those are wider.
pub(super) fn write_elements(
    body: &mut Body<'_, '_>,
    destinations: &[(Destination, u32)],
    elements: &[Operand],
    ty: orias_ptx::types::Type,
) -> Lowered {
    for (&(destination, width), &element) in destinations.iter().zip(elements) {
        if let Destination::Variable(variable) = destination {
            body.write_extended(variable, width, element, ty)?;
        }
    }
    Ok(())
}

/// `cvta` and `cvta.to`. Global addresses are generic ones.
pub(super) fn convert_address(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let space = modifiers::space(statement.form);
    let op = if statement.op == Op::Cvta {
        AbstractOp::Cvta
    } else {
        AbstractOp::CvtaTo
    };
    let width = match statement.form.types().next() {
        Some(ty) => ty.bits(),
        None => return unsupported(""),
    };
    let source = body.source(statement, 1)?;
    if space == Space::Global {
        return write_to(body, statement, 0, source);
    }
    let destination = body.destination(statement, 0)?;
    let mods = (space, integer(width, false));
    body.assign(op, mods, &[destination], &[source])
}

/// Most bytes of constants.
const CONSTANT_BANK: u64 = 1 << 16;

/// `isspacep`
pub(super) fn is_in_space(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let space = modifiers::space(statement.form);
    let (destinations, operands) = places(body, statement)?;
    let address = match operands[0].as_value() {
        Some(value) if body.func.value_type(value).len() == 1 => body.compute(
            AbstractOp::Cvt,
            (Scalar::U64, orias_ori::operation::SourceType::U32),
            &operands,
        )?,
        _ => operands[0],
    };
    // The window is as large as the constants of the module.
    let constants = match body.symbols.relocatable || body.symbols.others {
        // Those of other modules are not known.
        true => CONSTANT_BANK,
        false => constant_places(&body.symbols.list).1,
    };
    let offset = |body: &mut Body<'_, '_>| {
        body.compute(AbstractOp::CvtaTo, (Space::Const, Scalar::U64), &[address])
    };
    if space == Space::Const {
        let offset = offset(body)?;
        let mods = (Compare::Lt, Scalar::U64);
        return body.assign(
            AbstractOp::Setp,
            mods,
            &destinations,
            &[offset, imm(constants)],
        );
    }
    if space == Space::Global && constants > 0 {
        // Constants lie in global memory, and the chip counts them as global.
        let global = body.compute(AbstractOp::Isspacep, (space,), &[address])?;
        let offset = offset(body)?;
        let mods = (Compare::Ge, Scalar::U64);
        let outside = body.compute(AbstractOp::Setp, mods, &[offset, imm(constants)])?;
        return body.assign(
            AbstractOp::And,
            (Scalar::Pred,),
            &destinations,
            &[global, outside],
        );
    }
    body.assign(AbstractOp::Isspacep, (space,), &destinations, &[address])
}

/// `mapa` and `getctarank`: addresses have no sign.
pub(super) fn cluster_address(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let op = if statement.op == Op::Mapa {
        AbstractOp::Mapa
    } else {
        AbstractOp::Getctarank
    };
    let width = statement.form.types().next().map_or(64, |ty| ty.bits());
    let space = modifiers::space(statement.form);
    let (destinations, operands) = places(body, statement)?;
    body.assign(op, (space, integer(width, false)), &destinations, &operands)
}
