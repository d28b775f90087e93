//! Bulk and tensor copies.
//!
//! The copy engine reads its operands from a few words, which are put together here, so that they are computed and known to be the same in
//! all lanes like everything else:
//!
//! | words | of what |
//! | --- | --- |
//! | `{to, barrier}` or a global address | where a copy goes |
//! | sixteenths of the size, blocks of a multicast in the upper half | how much a copy moves |
//! | `{shared address, barrier, coordinates…}` | a tensor load; a store and a reduction have no barrier, a prefetch has coordinates only |
//! | offsets, blocks of a multicast in the upper half | an im2col access: 16 bits for one offset, 8 for two, 5 for three |
//!
//! A guard becomes a branch: which lanes copy is settled by taking turns ([`crate::phases`]' ExpandForSelection).

use super::body::{Body, Lowered, Statement, unsupported};
use super::modifiers::{modifier, set};
use crate::emit::imm;
use orias_ori::operation::{AbstractOp, Permute, Reduce, Route, Scalar, Space, TensorMode};
use orias_ori::{Address, Operand, SymbolPart, Value};
use orias_ptx::ast::{self, OperandKind};
use orias_ptx::grammar::Modifier;
use orias_ptx::grammar::OperandName;
use orias_ptx::grammar::operand_names as operand;
use orias_ptx::opcode::PatternKind;
use orias_ptx::types::Type as PtxType;

/// The number of the operand that the instruction tables call `name`.
pub(super) fn numbered(statement: &Statement<'_>, name: OperandName) -> Option<usize> {
    let called = |pattern: &orias_ptx::opcode::Pattern| match &pattern.kind {
        PatternKind::Bracket(inner) => inner.iter().any(|inner| inner.is(name)),
        _ => pattern.is(name),
    };
    statement.patterns.iter().position(called)
}

/// The value of an operand that may be missing.
pub(super) fn optional(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    name: OperandName,
) -> Lowered<Option<Operand>> {
    match numbered(statement, name) {
        Some(index) => Ok(Some(body.source(statement, index)?)),
        None => Ok(None),
    }
}

/// The cache policy of an access, or none.
fn policy(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered<Operand> {
    match numbered(statement, operand::POLICY) {
        Some(index) => Ok(body.source_value(statement, index)?.into()),
        None => Ok(Operand::None),
    }
}

/// An address in shared memory as one word.
pub(super) fn shared_word(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    name: OperandName,
) -> Lowered<Value> {
    let Some(index) = numbered(statement, name) else {
        return unsupported("");
    };
    let (address, _) = body.address(statement, index, Space::Shared)?;
    let mut word = imm(0);
    if let Some(symbol) = address.symbol.expand() {
        let name = Operand::Symbol {
            symbol,
            part: SymbolPart::Whole,
            addend: 0,
        };
        word = body.compute(AbstractOp::AddressOf, (Scalar::B32,), &[name])?;
    }
    if let Some(base) = address.base.get().and_then(|base| base.value()) {
        let low = body.with(|emit| emit.words(base)[0])?;
        word = match word {
            Operand::Imm(_) => low.into(),
            word => body.with(|emit| emit.add(word, low.into()))?,
        };
    }
    if address.offset != 0 {
        let offset = imm(u64::from(address.offset.cast_unsigned()));
        word = body.with(|emit| emit.add(word, offset))?;
    }
    body.in_registers(word, 32)
}

/// An address in global memory, or a generic one, as a pair of words.
pub(super) fn wide_address(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    name: OperandName,
) -> Lowered<Value> {
    let Some(index) = numbered(statement, name) else {
        return unsupported("");
    };
    let address = body.address_value(statement, index)?;
    body.in_registers(address, 64)
}

/// How much is copied, and to which blocks.
fn extent(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered<Operand> {
    let Some(size) = optional(body, statement, operand::SIZE)? else {
        return unsupported("");
    };
    let mask = optional(body, statement, operand::CTAMASK)?.unwrap_or(imm(0));
    if let (Operand::Imm(size), Operand::Imm(mask)) = (size, mask) {
        return Ok(imm(
            (size.bits() >> 4 & 0xffff) | (mask.bits() & 0xffff) << 16
        ));
    }
    body.with(|emit| {
        let units = emit.shr(Scalar::U32, size, imm(4));
        emit.op(
            AbstractOp::Prmt,
            (Permute::Index,),
            &[units, mask, imm(0x5410)],
        )
    })
}

/// Which way a copy goes, as its opcode says.
fn route(statement: &Statement<'_>) -> Route {
    let has = |modifier| statement.form.has(modifier);
    if has(Modifier::BulkGroup) {
        Route::SharedToGlobal
    } else if has(Modifier::MulticastCluster) {
        Route::Multicast
    } else if has(Modifier::Global) {
        Route::GlobalToShared
    } else {
        Route::SharedToCluster
    }
}

/// Where a copy goes: a global address, or an address in shared memory and its barrier.
fn target(body: &mut Body<'_, '_>, statement: &Statement<'_>, route: Route) -> Lowered<Value> {
    if route == Route::SharedToGlobal {
        return wide_address(body, statement, operand::DST);
    }
    let to = shared_word(body, statement, operand::DST)?;
    let barrier = shared_word(body, statement, operand::MBAR)?;
    body.with(|emit| emit.collect(&[to, barrier]))
}

/// `cp.async.bulk`
pub(super) fn copy(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    body.branch_if_guarded(|body| {
        let route = route(statement);
        let to = target(body, statement, route)?;
        let from = match route {
            Route::GlobalToShared | Route::Multicast => {
                wide_address(body, statement, operand::SRC)?
            }
            Route::SharedToGlobal | Route::SharedToCluster => {
                shared_word(body, statement, operand::SRC)?
            }
        };
        let extent = extent(body, statement)?;
        let policy = policy(body, statement)?;
        let operands = [to.into(), from.into(), extent, policy];
        body.assign(AbstractOp::BulkCopy, (route,), &[], &operands)
    })
}

/// `cp.reduce.async.bulk`
pub(super) fn reduce(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    body.branch_if_guarded(|body| {
        let op = AbstractOp::BulkReduce;
        let route = route(statement);
        let mods = set(op, body.carried(statement, op)?, route);
        let to = target(body, statement, route)?;
        let from = shared_word(body, statement, operand::SRC)?;
        let extent = extent(body, statement)?;
        let policy = policy(body, statement)?;
        body.assign(op, mods, &[], &[to.into(), from.into(), extent, policy])
    })
}

/// `cp.async.bulk.prefetch`
pub(super) fn prefetch(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    body.branch_if_guarded(|body| {
        let from = wide_address(body, statement, operand::SRC)?;
        let extent = extent(body, statement)?;
        let policy = policy(body, statement)?;
        let operands = [from.into(), extent, policy];
        body.assign(AbstractOp::BulkPrefetch, (), &[], &operands)
    })
}

/// `cp.async.bulk.wait_group`
pub(super) fn wait(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let groups = imm(body.immediate(statement, 0)?);
    let read = imm(u64::from(statement.form.has(Modifier::Read)));
    body.assign(AbstractOp::BulkWait, (), &[], &[groups, read])
}

/// The operands in the brackets of a tensor access: the address of the map, and coordinates.
fn bracket<'s>(statement: &'s Statement<'_>) -> Lowered<&'s [ast::Operand]> {
    let operand = numbered(statement, operand::MAP).and_then(|index| statement.operands.get(index));
    match operand.map(|operand| operand.kind) {
        Some(OperandKind::Bracket(parts)) => Ok(statement.body.parts(parts)),
        _ => unsupported(""),
    }
}

/// What an address in `space` starts from: a register, or a variable.
fn map_base(body: &mut Body<'_, '_>, address: Address, space: Space) -> Lowered<Operand> {
    Ok(match (address.base.get(), address.symbol.expand()) {
        (Some(base), None) => Operand::from(base),
        (None, Some(symbol)) if matches!(space, Space::Global | Space::Const) => {
            let part = SymbolPart::Whole;
            let name = Operand::Symbol {
                symbol,
                part,
                addend: 0,
            };
            body.compute(AbstractOp::AddressOf, (Scalar::B64,), &[name])?
        }
        (None, None) => imm(0),
        _ => return unsupported("this place of a tensor map"),
    })
}

/// The generic address of a tensor map.
fn map_address(body: &mut Body<'_, '_>, kind: OperandKind) -> Lowered<Value> {
    let (address, space) = body.address_at(kind, Space::Generic)?;
    let mut base = map_base(body, address, space)?;
    if address.offset != 0 {
        let offset = imm(i64::from(address.offset).cast_unsigned());
        base = body.with(|emit| emit.binary(AbstractOp::Add, Scalar::U64, base, offset))?;
    }
    if matches!(space, Space::Param | Space::Const) {
        let value = body.in_registers(base, 64)?;
        base = body.compute(AbstractOp::Cvta, (space, Scalar::U64), &[value.into()])?;
    }
    body.in_registers(base, 64)
}

/// Tensor map and coordinates of an access.
fn tensor_place(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
) -> Lowered<(Value, Vec<Value>)> {
    let [map, coordinates] = bracket(statement)? else {
        return unsupported("");
    };
    let map = map_address(body, map.kind)?;
    let coordinates = body.elements(statement, coordinates, PtxType::S32)?;
    let coordinates = coordinates
        .into_iter()
        .map(|coordinate| body.in_registers(coordinate, 32))
        .collect::<Lowered<_>>()?;
    Ok((map, coordinates))
}

/// Offsets of an im2col access and blocks of a multicast in one word, or nothing where there are neither.
fn tensor_extra(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered<Operand> {
    let mask = optional(body, statement, operand::CTAMASK)?;
    let offsets = match numbered(statement, operand::OFFSETS) {
        Some(index) => body.elements(statement, &statement.operands[index], PtxType::U16)?,
        None => Vec::new(),
    };
    if mask.is_none() && offsets.is_empty() {
        return Ok(Operand::None);
    }
    let permute = |emit: &mut crate::emit::Emit<'_>, a, b, how| {
        emit.op(AbstractOp::Prmt, (Permute::Index,), &[a, b, imm(how)])
    };
    body.with(|emit| {
        let packed = match offsets[..] {
            [] => imm(0),
            [one] => one,
            [first, second] => permute(emit, first, second, 0x0040),
            [first, second, third, ..] => {
                let second = emit.shl(second, imm(5));
                let both = emit.add(first, second);
                let third = emit.shl(third, imm(10));
                emit.add(both, third)
            }
        };
        permute(emit, packed, mask.unwrap_or(imm(0)), 0x5410)
    })
}

fn tensor_mode(statement: &Statement<'_>) -> TensorMode {
    const IM2COL: [Modifier; 4] = [
        Modifier::Im2col,
        Modifier::Im2colW,
        Modifier::Im2colW128,
        Modifier::Im2colNoOffs,
    ];
    match IM2COL.iter().any(|&it| statement.form.has(it)) {
        true => TensorMode::Im2col,
        false => TensorMode::Tile,
    }
}

/// `cp.async.bulk.tensor`
pub(super) fn tensor_copy(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    body.branch_if_guarded(|body| {
        let (map, coordinates) = tensor_place(body, statement)?;
        let route = route(statement);
        let mut words = match route {
            Route::SharedToGlobal => vec![shared_word(body, statement, operand::SRC)?],
            _ => vec![
                shared_word(body, statement, operand::DST)?,
                shared_word(body, statement, operand::MBAR)?,
            ],
        };
        words.extend(coordinates);
        let words = body.with(|emit| emit.collect(&words))?;
        let extra = tensor_extra(body, statement)?;
        let policy = policy(body, statement)?;
        let mods = (route, tensor_mode(statement));
        let operands = [words.into(), map.into(), extra, policy];
        body.assign(AbstractOp::TensorCopy, mods, &[], &operands)
    })
}

/// `cp.reduce.async.bulk.tensor`
pub(super) fn tensor_reduce(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    body.branch_if_guarded(|body| {
        let (map, coordinates) = tensor_place(body, statement)?;
        let mut words = vec![shared_word(body, statement, operand::SRC)?];
        words.extend(coordinates);
        let words = body.with(|emit| emit.collect(&words))?;
        let policy = policy(body, statement)?;
        let Some(reduce) = modifier::<Reduce>(statement.form) else {
            return unsupported("");
        };
        let mods = (reduce, tensor_mode(statement));
        let operands = [words.into(), map.into(), policy];
        body.assign(AbstractOp::TensorReduce, mods, &[], &operands)
    })
}

/// `cp.async.bulk.prefetch.tensor`
pub(super) fn tensor_prefetch(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    body.branch_if_guarded(|body| {
        let (map, coordinates) = tensor_place(body, statement)?;
        let words = body.with(|emit| emit.collect(&coordinates))?;
        let extra = tensor_extra(body, statement)?;
        let policy = policy(body, statement)?;
        let mods = (tensor_mode(statement),);
        let operands = [words.into(), map.into(), extra, policy];
        body.assign(AbstractOp::TensorPrefetch, mods, &[], &operands)
    })
}

/// `prefetch.tensormap`
pub(super) fn prefetch_map(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    body.branch_if_guarded(|body| {
        let Some(operand) = statement.operands.first() else {
            return unsupported("");
        };
        let mut kind = operand.kind;
        if let OperandKind::Bracket(parts) = kind
            && let [only] = statement.body.parts(parts)
        {
            kind = only.kind;
        }
        let space: Space = modifier(statement.form).unwrap_or(Space::Generic);
        let map = match space {
            Space::Generic => map_address(body, kind)?,
            _ => {
                let (address, _) = body.address_at(kind, space)?;
                let mut base = map_base(body, address, space)?;
                if let Some(value) = base.as_value()
                    && body.func.value_type(value).len() == 1
                {
                    base = body.with(|emit| emit.cvt(Scalar::U64, Scalar::U32, base))?;
                }
                let offset = imm(i64::from(address.offset).cast_unsigned());
                let sum =
                    body.with(|emit| emit.binary(AbstractOp::Add, Scalar::U64, base, offset))?;
                let sum = body.in_registers(sum, 64)?;
                let mods = (space, Scalar::U64);
                let map = body.compute(AbstractOp::Cvta, mods, &[sum.into()])?;
                body.in_registers(map, 64)?
            }
        };
        body.assign(AbstractOp::PrefetchTensormap, (), &[], &[map.into()])
    })
}
