//! Surfaces: `suld`, `sust` and `sured`.
//!
//! The machine takes PTX's coordinates as they are, with an array's index behind them. Elements are packed as memory has them.

use super::body::{Body, Lowered, Statement, unsupported};
use super::memory::vector;
use super::modifiers::modifier;
use super::movement::{pack_elements, unpack_elements, write_elements};
use super::operands::scalar;
use super::texture::{bracket, dimensions, geometry, handle, tuple};
use orias_ori::operation::{AbstractOp, Cache, Geometry, Outside, Reduce, Scalar, Unit};
use orias_ori::{Class, Guard, Operand, Type};
use orias_ptx::grammar::Op;
use orias_ptx::types::Type as PtxType;

/// Surface, coordinates and geometry of the access in operand `index`.
fn place(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    index: usize,
) -> Lowered<([Operand; 2], Geometry)> {
    let geometry = geometry(statement)?;
    let (count, array) = dimensions(geometry);
    let [surface, coordinates] = bracket(statement, index)? else {
        return unsupported("");
    };
    let surface = handle(body, surface.kind)?;
    let given = body.elements(statement, coordinates, PtxType::B32)?;
    let mut coordinates: Vec<Operand> =
        given.into_iter().take(count + usize::from(array)).collect();
    if array {
        coordinates.rotate_left(1);
    }
    let coordinates = body.with(|emit| tuple(emit, &coordinates))?;
    Ok(([surface.into(), coordinates.into()], geometry))
}

/// The type of the elements, and what an access outside does.
fn elements(statement: &Statement<'_>) -> Lowered<(PtxType, Outside)> {
    match (
        statement.form.types().last(),
        modifier::<Outside>(statement.form),
    ) {
        (Some(ty), Some(outside)) => Ok((ty, outside)),
        _ => unsupported(""),
    }
}

/// What the first coordinate counts.
fn unit(op: Op) -> Unit {
    match op {
        Op::SustP | Op::SuredP => Unit::Texels,
        _ => Unit::Bytes,
    }
}

/// `suld.b`
pub(super) fn load(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    body.branch_if_guarded(|body| {
        let (ty, outside) = elements(statement)?;
        let (operands, geometry) = place(body, statement, 1)?;
        let destinations = body.element_destinations(statement, 0)?;
        let count = destinations.len();
        let words = (count as u32 * ty.bits()).div_ceil(32);
        let Some(result) = u8::try_from(words)
            .ok()
            .and_then(|words| Type::tuple(Class::R, words))
        else {
            return unsupported("");
        };
        let cache: Cache = modifier(statement.form).unwrap_or(Cache::Default);
        let mods = (geometry, outside, cache, vector(count), scalar(ty)?);
        let value = body.func.create_value(result);
        let wanted = vec![true; count];
        let elements = body.with(|emit| {
            let op = AbstractOp::Suld;
            emit.put(op, mods, &[value.into()], &operands, Guard::ALWAYS, &[]);
            match count {
                1 => vec![value.into()],
                _ => unpack_elements(emit, value, ty.bits(), &wanted),
            }
        })?;
        write_elements(body, &destinations, &elements, ty)
    })
}

/// `sust.b` and `sust.p`
pub(super) fn store(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let (ty, outside) = elements(statement)?;
    let ([surface, coordinates], geometry) = place(body, statement, 0)?;
    let stored = body.elements(statement, &statement.operands[1], ty)?;
    let count = vector(stored.len());
    let value = match stored[..] {
        [one] => body.in_registers(one, ty.bits().max(32))?,
        _ => body.with(|emit| pack_elements(emit, &stored, ty.bits()))?,
    };
    let cache: Cache = modifier(statement.form).unwrap_or(Cache::Default);
    let unit = unit(statement.op);
    let mods = (geometry, outside, unit, cache, count, scalar(ty)?);
    let operands = [surface, coordinates, value.into()];
    body.assign(AbstractOp::Sust, mods, &[], &operands)
}

/// `sured.b` and `sured.p`
pub(super) fn update(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let (ty, outside) = elements(statement)?;
    let Some(reduce) = modifier::<Reduce>(statement.form) else {
        return unsupported("");
    };
    let ([surface, coordinates], geometry) = place(body, statement, 0)?;
    let value = body.elements(statement, &statement.operands[1], ty)?;
    let [value] = value[..] else {
        return unsupported("");
    };
    let value = body.in_registers(value, ty.bits())?;
    let scalar: Scalar = scalar(ty)?;
    let mods = (reduce, geometry, outside, unit(statement.op), scalar);
    let operands = [surface, coordinates, value.into()];
    body.assign(AbstractOp::Sured, mods, &[], &operands)
}
