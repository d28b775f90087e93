//! `atom` and `red`.
//!
//! Without `.sem` an update is relaxed, without `.scope` it holds for the GPU. An `atom` whose result nobody wants stays
//! an `atom` where there is no `red` of its kind.

use super::body::{Body, Destination, Lowered, Statement, unsupported};
use super::modifiers::{self, modifier};
use super::movement::{pack_elements, unpack_elements, write_elements};
use super::operands::scalar;
use orias_ori::operation::{AbstractOp, Ftz, Order, Reduce, Scope, Space};
use orias_ori::{Class, Operand, Type};
use orias_ptx::grammar::{Modifier, Op};

/// `atom` and `red` in all their forms.
pub(super) fn update(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let form = statement.form;
    let (Some(ty), Some(reduce)) = (form.types().last(), modifier::<Reduce>(form)) else {
        return unsupported("");
    };
    let order = modifier::<Order>(form).unwrap_or(Order::Relaxed);
    let scope = modifier::<Scope>(form).unwrap_or(Scope::Gpu);
    let returns = statement.op == Op::Atom;
    let first = usize::from(returns);
    let elements = body.elements(statement, &statement.operands[first + 1], ty)?;
    // Vectors are updated in global memory only, so a generic address of one is in it.
    let space = match modifiers::space(form) {
        _ if statement.op == Op::MultimemRed => Space::Global,
        Space::Generic if elements.len() > 1 => Space::Global,
        space => space,
    };
    let (address, space) = body.reachable_address(statement, first, space)?;
    let count = super::memory::vector(elements.len());
    let value = match elements[..] {
        [one] => one,
        _ => body
            .with(|emit| pack_elements(emit, &elements, ty.bits()))?
            .into(),
    };
    let value: Operand = body.in_registers(value, ty.bits().max(32))?.into();
    let hinted = form.has(Modifier::L2CacheHint);
    let policy = match (hinted, statement.operands.len().checked_sub(1)) {
        (true, Some(last)) => body.source_value(statement, last)?.into(),
        _ => Operand::None,
    };
    let third = if reduce == Reduce::Cas {
        body.source_value(statement, first + 2)?.into()
    } else {
        Operand::None
    };
    let mods = (order, scope, space, reduce, Ftz::Keep, count, scalar(ty)?);
    let address = body.func.create_address(address);
    let destinations = if returns {
        body.element_destinations(statement, 0)?
    } else {
        Vec::new()
    };
    let wanted = destinations
        .iter()
        .any(|(destination, _)| matches!(destination, Destination::Variable(_)));
    let reducible = !matches!(reduce, Reduce::Exch | Reduce::Cas);
    if !wanted && reducible && matches!(order, Order::Relaxed | Order::Release) {
        return body.assign(AbstractOp::Red, mods, &[], &[address, value, policy]);
    }
    let operands = [address, value, third, policy];
    let words = (elements.len() as u32 * ty.bits()).div_ceil(32);
    let tuple = u8::try_from(words)
        .ok()
        .and_then(|words| Type::tuple(Class::R, words));
    let Some(tuple) = tuple else {
        return unsupported("");
    };
    if let [(destination, _)] = destinations[..] {
        let destination = destination.or_unused(tuple);
        return body.assign(AbstractOp::Atom, mods, &[destination], &operands);
    }
    let guard = body.ori_guard();
    let result = body.func.create_value(tuple);
    let kept = if guard.is_always() {
        Vec::new()
    } else {
        vec![body.undefined(tuple)?]
    };
    let wanted: Vec<bool> = destinations
        .iter()
        .map(|(destination, _)| matches!(destination, Destination::Variable(_)))
        .collect();
    let results = body.with(|emit| {
        emit.put(
            AbstractOp::Atom,
            mods,
            &[result.into()],
            &operands,
            guard,
            &kept,
        );
        unpack_elements(emit, result, ty.bits(), &wanted)
    })?;
    write_elements(body, &destinations, &results, ty)
}
