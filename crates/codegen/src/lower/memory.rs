//! Loads, stores and what else is done to memory.
//!
//! An access of several elements reads or writes one tuple, packed as memory has it. Elements narrower than their
//! registers are extended by their type: the abstract load does that itself for one element of 8 or 16 bits.

use super::body::{Body, Destination, Lowered, Statement, Storage, unsupported};
use super::calls::{load_words, store_words};
use super::modifiers::{self, eviction, modifier, set};
use super::movement::{pack_elements, unpack_elements, write_elements};
use super::operands::bits;
use crate::emit::{Emit, imm};
use orias_ori::operation::{
    AbstractMods, AbstractOp, Cache, Count, Evict, MatrixShape, Order, Prefetch, Scalar, Scope,
    Space, Transpose, Vector,
};
use orias_ori::{Address, Class, Guard, Operand, Type, Value};
use orias_ptx::ast::OperandKind;
use orias_ptx::grammar::SlotName;
use orias_ptx::grammar::operand_names as operand;
use orias_ptx::grammar::slot_names as slot;
use orias_ptx::grammar::{Modifier, Op};
use orias_ptx::opcode::PatternKind;
use orias_ptx::types::{Type as PtxType, TypeClass};

/// The type of the elements of an access.
fn element_type(statement: &Statement<'_>) -> Lowered<PtxType> {
    match statement.form.types().last() {
        Some(ty) => Ok(ty),
        None => unsupported(""),
    }
}

/// The type an access has for elements of `width` bits.
fn stored(width: u32) -> Scalar {
    match width {
        8 => Scalar::B8,
        other => bits(other),
    }
}

/// Modifiers of a load or store that carry over; the order comes from wherever PTX says it.
fn access_mods(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    op: AbstractOp,
    space: Space,
    ty: Scalar,
) -> Lowered<AbstractMods> {
    let form = statement.form;
    let mut mods = body.carried(statement, op)?;
    mods = set(op, mods, space);
    mods = set(op, mods, ty);
    if form.has(Modifier::Mmio) {
        mods = set(op, mods, Order::Mmio);
        mods = set(op, mods, Scope::Sys);
    }
    if form.has(Modifier::Nc) {
        mods = set(op, mods, Cache::Nc);
        // Of the operators only `.cs` means something for the read-only cache.
        let said = modifier::<Cache>(form).filter(|&cache| cache != Cache::Nc);
        let evict = modifier::<Evict>(form);
        let choice = body.caches.load;
        let cache = match choice.filter(|it| it.forced || said.is_none() && evict.is_none()) {
            Some(choice) => Some(choice.cache),
            None => said,
        };
        if cache == Some(Cache::Cs) && evict.is_none() {
            mods = set(op, mods, Evict::First);
        }
    } else if matches!(space, Space::Global | Space::Generic) && is_weak(form) {
        let choice = match op {
            AbstractOp::Ld => body.caches.load,
            AbstractOp::St => body.caches.store,
            _ => None,
        };
        let said = modifier::<Cache>(form).is_some() || modifier::<Evict>(form).is_some();
        if let Some(choice) = choice.filter(|choice| choice.forced || !said) {
            mods = set(op, mods, choice.cache);
        }
    }
    Ok(mods)
}

/// Whether an access has no order that others rely on.
fn is_weak(form: &orias_ptx::opcode::Form) -> bool {
    let order = modifier::<Order>(form);
    matches!(order, None | Some(Order::Weak)) && !form.has(Modifier::Mmio)
}

/// The policy of an access with a cache hint: the last operand.
fn policy(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered<Operand> {
    let hinted = statement.form.has(Modifier::L2CacheHint);
    match (hinted, statement.operands.len().checked_sub(1)) {
        (true, Some(last)) => Ok(body.source_value(statement, last)?.into()),
        _ => Ok(Operand::None),
    }
}

/// The variable that an address names directly.
fn named_variable(
    statement: &Statement<'_>,
    index: usize,
) -> Option<(orias_ptx::ast::VariableId, i64)> {
    let mut kind = statement.operands.get(index)?.kind;
    if let OperandKind::Suffixed(inner, _) = kind {
        kind = statement.body.operands[inner as usize].kind;
    }
    match kind {
        OperandKind::AtVariable(id, offset) | OperandKind::Element(id, offset) => {
            Some((id, offset))
        }
        _ => None,
    }
}

/// Where a parameter in variables is accessed.
enum Words {
    /// From this byte on of the words that begin with this variable.
    Inside(crate::ssa::Variable, u32),
    /// Where the parameter has no bytes, or not enough.
    Outside,
}

/// Where `bytes` of a parameter in variables are accessed, `further` bytes behind what operand `index` names.
fn words_at(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    index: usize,
    further: u32,
    bytes: u32,
) -> Lowered<Option<Words>> {
    let Some((id, offset)) = named_variable(statement, index) else {
        return Ok(None);
    };
    let offset = offset.saturating_add(i64::from(further));
    if body.module.variable(id).space != orias_ptx::ast::Space::Param {
        return Ok(None);
    }
    match body.place(id)? {
        Storage::Words(first, words) => {
            let inside = u32::try_from(offset).ok().filter(|offset| {
                offset
                    .checked_add(bytes)
                    .is_some_and(|end| end <= 4 * words)
            });
            match inside {
                Some(offset) => Ok(Some(Words::Inside(first, offset))),
                // Of an array of open length there are only the bytes that were passed.
                None if body.module.variable(id).dimensions.first() == Some(&0) => {
                    let undefined = body.undefined_words(bytes.div_ceil(4))?;
                    Ok(Some(Words::Inside(undefined, 0)))
                }
                None => Ok(Some(Words::Outside)),
            }
        }
        _ => Ok(None),
    }
}

/// `ld` and `ldu`
pub(super) fn load(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let ty = element_type(statement)?;
    let width = ty.bits();
    let destinations = body.element_destinations(statement, 0)?;
    let bytes = destinations.len() as u32 * width / 8;
    if let Some(words) = words_at(body, statement, 1, 0, bytes)? {
        let (first, offset) = match words {
            Words::Inside(first, offset) => (first, offset),
            // Nobody has said what lies there.
            Words::Outside => (body.undefined_words(bytes.div_ceil(4))?, 0),
        };
        for (index, &(destination, register)) in (0..).zip(&destinations) {
            if let Destination::Variable(variable) = destination {
                let value = load_words(body, first, offset + index * width / 8, ty)?;
                body.write_extended(variable, register, value, ty)?;
            }
        }
        return Ok(());
    }
    let op = if statement.op == Op::Ldu {
        AbstractOp::Ldu
    } else {
        AbstractOp::Ld
    };
    let space = match statement.op {
        Op::Ldu => Space::Global,
        _ => modifiers::space(statement.form),
    };
    let (address, space) = body.reachable_address(statement, 1, space)?;
    let words = (destinations.len() as u32 * width).div_ceil(32);
    if words == 4 && body.guard.is_some() && matches!(space, Space::Const | Space::Param) {
        let mods = access_mods(body, statement, op, space, Scalar::B64)?;
        let mods = set(op, mods, Vector::V1);
        return load_halves(body, op, mods, address, &destinations, ty);
    }
    if op == AbstractOp::Ld
        && space == Space::Param
        && destinations.len() > 1
        && width >= 32
        && body.guard.is_none()
    {
        // A parameter at a known place is an operand of whoever reads it, if it comes alone.
        let mods = access_mods(body, statement, op, space, stored(width))?;
        let mods = set(op, mods, Vector::V1);
        let policy = policy(body, statement)?;
        for (index, &(destination, register)) in (0..).zip(&destinations) {
            let Destination::Variable(variable) = destination else {
                continue;
            };
            let mut element = address;
            element.offset += index * (width / 8) as i32;
            let operands = [body.func.create_address(element), policy];
            let ty_of = super::body::register_type(ty);
            let value = guarded_load(body, op, mods, ty_of, &operands)?;
            body.write_extended(variable, register, value.into(), ty)?;
        }
        return Ok(());
    }
    let policy = policy(body, statement)?;
    let address = body.func.create_address(address);
    let mut operands = vec![address];
    if op == AbstractOp::Ld {
        operands.push(policy);
    }
    if let [(destination, register)] = destinations[..] {
        // The load extends to 32 bits by itself.
        let narrow = match (width, ty.is_signed()) {
            (8, false) => Scalar::U8,
            (8, true) => Scalar::S8,
            (16, true) => Scalar::S16,
            (16, false) if register > 16 => Scalar::U16,
            _ => stored(width),
        };
        let mods = access_mods(body, statement, op, space, narrow)?;
        let wide = register > 32 && register > width;
        if !wide {
            let unused = destination.or_unused(super::body::register_type(ty));
            return body.assign(op, mods, &[unused], &operands);
        }
        let value = guarded_load(body, op, mods, super::body::register_type(ty), &operands)?;
        let Destination::Variable(variable) = destination else {
            return Ok(());
        };
        return body.write_extended(variable, register, value.into(), ty);
    }
    let mods = access_mods(body, statement, op, space, stored(width))?;
    let Some(tuple) = u8::try_from(words)
        .ok()
        .and_then(|words| Type::tuple(Class::R, words))
    else {
        return unsupported("");
    };
    load_vector(body, op, mods, tuple, &operands, &destinations, ty)
}

/// A load whose result goes through more instructions: under a guard it keeps anything.
fn guarded_load(
    body: &mut Body<'_, '_>,
    op: AbstractOp,
    mods: AbstractMods,
    ty: Type,
    operands: &[Operand],
) -> Lowered<Value> {
    let value = body.func.create_value(ty);
    let guard = body.ori_guard();
    let kept = if guard.is_always() {
        Vec::new()
    } else {
        vec![body.undefined(ty)?]
    };
    body.with(|emit| emit.put(op, mods, &[value.into()], operands, guard, &kept))?;
    Ok(value)
}

/// Several elements at once. Under a guard the tuple keeps the registers' old contents, so that taking it apart is all
/// that is left to do.
pub(super) fn load_vector(
    body: &mut Body<'_, '_>,
    op: AbstractOp,
    mods: AbstractMods,
    tuple: Type,
    operands: &[Operand],
    destinations: &[(Destination, u32)],
    ty: PtxType,
) -> Lowered {
    if body.guard.is_some()
        && let Some(old) = whole_registers(body, destinations, ty.bits())
    {
        let guard = body.ori_guard();
        let value = body.func.create_value(tuple);
        body.with(|emit| {
            let kept = emit.collect(&old);
            emit.put(op, mods, &[value.into()], operands, guard, &[kept]);
        })?;
        return set_whole(body, value, destinations, ty.bits());
    }
    let value = guarded_load(body, op, mods, tuple, operands)?;
    take_apart(body, value, destinations, ty)
}

/// Writes the elements of a tuple to their registers.
fn take_apart(
    body: &mut Body<'_, '_>,
    tuple: Value,
    destinations: &[(Destination, u32)],
    ty: PtxType,
) -> Lowered {
    let wanted: Vec<bool> = destinations
        .iter()
        .map(|(destination, _)| matches!(destination, Destination::Variable(_)))
        .collect();
    let elements = body.with(|emit| unpack_elements(emit, tuple, ty.bits(), &wanted))?;
    write_elements(body, destinations, &elements, ty)
}

/// 128 bits of a constant bank, which is read 64 at a time, under a guard. Where the registers are as wide as the elements both
/// halves keep what was there; else they keep anything, and the registers are written under the guard.
fn load_halves(
    body: &mut Body<'_, '_>,
    op: AbstractOp,
    mods: AbstractMods,
    address: Address,
    destinations: &[(Destination, u32)],
    ty: PtxType,
) -> Lowered {
    let old = whole_registers(body, destinations, ty.bits());
    let kept = match &old {
        Some(old) => body.with(|emit| {
            let words: Vec<Value> = old.iter().flat_map(|&part| emit.words(part)).collect();
            [emit.collect(&words[..2]), emit.collect(&words[2..])]
        })?,
        None => [body.undefined(Type::R2)?, body.undefined(Type::R2)?],
    };
    let guard = body.ori_guard();
    let halves = [0, 8].map(|more| Address {
        offset: address.offset.wrapping_add(more),
        ..address
    });
    let tuple = body.with(|emit| {
        let mut read = Vec::with_capacity(2);
        for (half, kept) in halves.into_iter().zip(kept) {
            let value = emit.func().create_value(Type::R2);
            let operands = [emit.func().create_address(half), Operand::None];
            let operands = &operands[..if op == AbstractOp::Ld { 2 } else { 1 }];
            emit.put(op, mods, &[value.into()], operands, guard, &[kept]);
            read.push(value);
        }
        emit.collect(&read)
    })?;
    if old.is_none() {
        return take_apart(body, tuple, destinations, ty);
    }
    set_whole(body, tuple, destinations, ty.bits())
}

/// What the registers of a vector hold, if all elements are wanted and each fills its register.
fn whole_registers(
    body: &mut Body<'_, '_>,
    destinations: &[(Destination, u32)],
    width: u32,
) -> Option<Vec<Value>> {
    let whole = |&(destination, register): &(Destination, u32)| match destination {
        Destination::Variable(variable) if register == width && width >= 32 => Some(variable),
        _ => None,
    };
    let variables: Option<Vec<_>> = destinations.iter().map(whole).collect();
    let variables = variables?;
    Some(variables.into_iter().map(|it| body.read(it)).collect())
}

/// Gives registers that elements fill their values, whatever the guard: the tuple has kept what was there.
fn set_whole(
    body: &mut Body<'_, '_>,
    tuple: Value,
    destinations: &[(Destination, u32)],
    width: u32,
) -> Lowered {
    let wanted = vec![true; destinations.len()];
    let elements = body.with(|emit| unpack_elements(emit, tuple, width, &wanted))?;
    for (&(destination, _), element) in destinations.iter().zip(elements) {
        if let (Destination::Variable(variable), Some(value)) = (destination, element.as_value()) {
            body.set(variable, value);
        }
    }
    Ok(())
}

/// `st`
pub(super) fn store(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let ty = element_type(statement)?;
    let width = ty.bits();
    let elements = body.elements(statement, &statement.operands[1], ty)?;
    let bytes = elements.len() as u32 * width / 8;
    if words_at(body, statement, 0, 0, bytes)?.is_some() {
        for (index, &element) in (0..).zip(&elements) {
            // What is stored beyond a parameter nobody can read: as for ptxas, it goes nowhere.
            let place = words_at(body, statement, 0, index * width / 8, width / 8)?;
            if let Some(Words::Inside(first, offset)) = place {
                store_words(body, first, offset, element, ty)?;
            }
        }
        return Ok(());
    }
    let space = match statement.op {
        Op::MultimemSt => Space::Global,
        _ => modifiers::space(statement.form),
    };
    let (address, space) = body.reachable_address(statement, 0, space)?;
    let policy = policy(body, statement)?;
    let value = match elements[..] {
        [one] if one.as_value().is_some() || width <= 64 => one,
        _ => body
            .with(|emit| pack_elements(emit, &elements, width))?
            .into(),
    };
    let mods = access_mods(body, statement, AbstractOp::St, space, stored(width))?;
    let address = body.func.create_address(address);
    body.assign(AbstractOp::St, mods, &[], &[address, value, policy])
}

/// `multimem.ld_reduce`: all copies of an address in global memory are read and combined.
pub(super) fn load_copies(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let form = statement.form;
    let ty = element_type(statement)?;
    let wide = form.has(Modifier::AccF32);
    let op = match wide {
        true => AbstractOp::MultimemLdWide,
        false => AbstractOp::MultimemLd,
    };
    let destinations = body.element_destinations(statement, 0)?;
    let mods = body.carried(statement, op)?;
    let mods = set(op, mods, super::operands::scalar(ty)?);
    let mods = set(op, mods, vector(destinations.len()));
    let (address, _) = body.address(statement, 1, Space::Global)?;
    let operands = [body.func.create_address(address)];
    if let [(destination, _)] = destinations[..] {
        let unused = destination.or_unused(super::body::register_type(ty));
        return body.assign(op, mods, &[unused], &operands);
    }
    let words = (destinations.len() as u32 * ty.bits()).div_ceil(32);
    let tuple = u8::try_from(words).ok();
    let Some(tuple) = tuple.and_then(|words| Type::tuple(Class::R, words)) else {
        return unsupported("");
    };
    load_vector(body, op, mods, tuple, &operands, &destinations, ty)
}

/// `prefetch` and `prefetchu`
pub(super) fn prefetch(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let form = statement.form;
    if form.has(Modifier::Tensormap) {
        return super::bulk::prefetch_map(body, statement);
    }
    let (address, space) = body.address(statement, 0, modifiers::space(form))?;
    let address = body.func.create_address(address);
    if statement.op == Op::Prefetchu {
        return body.assign(AbstractOp::PrefetchU, (), &[], &[address]);
    }
    let evict: Evict = modifier(form).unwrap_or(Evict::Default);
    let level = if form.has(Modifier::L1) { 1 } else { 2 };
    let operands = [address, imm(level)];
    body.assign(AbstractOp::PrefetchLine, (space, evict), &[], &operands)
}

/// `discard` and `applypriority`: what is done to a line.
pub(super) fn line(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let (address, space) = body.address(statement, 0, modifiers::space(statement.form))?;
    let address = body.func.create_address(address);
    let size = imm(body.immediate(statement, 1)?);
    if statement.op == Op::Discard {
        return body.assign(AbstractOp::Discard, (space,), &[], &[address, size]);
    }
    let mods = (space, Evict::Normal);
    body.assign(AbstractOp::ApplyPriority, mods, &[], &[address, size])
}

/// `createpolicy`: priorities are numbers of [`Evict`].
pub(super) fn create_policy(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    if statement.op == Op::CreatepolicyCvt {
        // What the driver calls an access property has the fields of a policy.
        let property = body.source(statement, 1)?;
        let destination = body.destination(statement, 0)?;
        return body.assign(AbstractOp::Mov, (Scalar::B64,), &[destination], &[property]);
    }
    let number = |slot: SlotName| {
        let priority = eviction(statement.form.get(slot)?)?;
        Some(imm(priority as u64))
    };
    let Some(primary) = number(slot::PRIMARY) else {
        return unsupported("");
    };
    let secondary = number(slot::SECONDARY).unwrap_or(imm(Evict::Unchanged as u64));
    let destination = body.destination(statement, 0)?;
    if statement.op == Op::CreatepolicyRange {
        let start = body.address_value(statement, 1)?;
        let primary_size = body.source(statement, 2)?;
        let total_size = body.source(statement, 3)?;
        let operands = [start, primary, secondary, primary_size, total_size];
        return body.assign(AbstractOp::CreatePolicyRange, (), &[destination], &operands);
    }
    let fraction = match statement.operands.len() {
        1 => Operand::None,
        _ => body.source(statement, 1)?,
    };
    let operands = [primary, secondary, fraction];
    body.assign(AbstractOp::CreatePolicy, (), &[destination], &operands)
}

/// `alloca`
pub(super) fn alloca(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    body.alloca = true;
    let scalar = bits(element_type(statement)?.bits());
    let size = match body.source(statement, 1)? {
        Operand::Imm(size) => imm(size.bits() & 0xffff_ffff),
        size if scalar == Scalar::B64 => body.with(|emit| emit.halves(size).0)?,
        size => size,
    };
    let align = match statement.operands.len() {
        3 => body.immediate(statement, 2)?,
        _ => 8,
    };
    let destination = body.destination(statement, 0)?.or_unused(Type::R);
    let mut operands = vec![size, imm(align)];
    if body.outgoing > 0 {
        operands.push(imm(u64::from(body.outgoing).next_multiple_of(align.max(1))));
    }
    body.assign(AbstractOp::Alloca, (scalar,), &[destination], &operands)
}

/// `stacksave`
pub(super) fn stack_save(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let scalar = bits(element_type(statement)?.bits());
    let destination = body.destination(statement, 0)?;
    body.assign(AbstractOp::StackSave, (scalar,), &[destination], &[])
}

/// `stackrestore`
pub(super) fn stack_restore(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    body.alloca = true;
    let scalar = bits(element_type(statement)?.bits());
    let value = body.source(statement, 0)?;
    body.assign(AbstractOp::StackRestore, (scalar,), &[], &[value])
}

/// `cp.async`
pub(super) fn copy_async(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let form = statement.form;
    let (to, _) = body.address(statement, 0, Space::Shared)?;
    let (from, _) = body.address(statement, 1, Space::Global)?;
    let size = imm(body.immediate(statement, 2)?);
    let policy = policy(body, statement)?;
    let mut read = Operand::None;
    let mut ignore = Operand::None;
    if let Some(pattern) = statement.patterns.get(3) {
        match &pattern.kind {
            PatternKind::Value(value) if value.ty.class() == TypeClass::Pred => {
                ignore = body.source(statement, 3)?;
            }
            _ if pattern.is(operand::SRCSIZE) => read = body.source(statement, 3)?,
            _ => {}
        }
    }
    let cache = if form.has(Modifier::Cg) {
        Cache::Cg
    } else {
        Cache::Ca
    };
    let prefetch: Prefetch = modifier(form).unwrap_or(Prefetch::None);
    let to = body.func.create_address(to);
    let from = body.func.create_address(from);
    let operands = [to, from, size, read, ignore, policy];
    body.assign(AbstractOp::CpAsync, (cache, prefetch), &[], &operands)
}

/// `ldmatrix` and `stmatrix` of 8×8 matrices.
pub(super) fn matrix(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let form = statement.form;
    if !form.has(Modifier::M8n8) {
        return unsupported("");
    }
    let count: Count = modifier(form).unwrap_or(Count::X1);
    let transpose = if form.has(Modifier::Trans) {
        Transpose::Trans
    } else {
        Transpose::Straight
    };
    let mods = (MatrixShape::M8n8, count, transpose, Scalar::B16);
    let number = match count {
        Count::X1 => 1,
        Count::X2 => 2,
        Count::X4 => 4,
    };
    if statement.op == Op::Stmatrix {
        let (address, _) = shared_address(body, statement, 0)?;
        let elements = body.elements(statement, &statement.operands[1], PtxType::B32)?;
        let value = body.with(|emit| pack_elements(emit, &elements, 32))?;
        let address = body.func.create_address(address);
        return body.assign(AbstractOp::Stmatrix, mods, &[], &[address, value.into()]);
    }
    let (address, _) = shared_address(body, statement, 1)?;
    let address = body.func.create_address(address);
    let destinations = body.element_destinations(statement, 0)?;
    let Some(tuple) = Type::tuple(Class::R, number) else {
        return unsupported("");
    };
    let Some(mods) = crate::emit::Mods::pack(mods, AbstractOp::Ldmatrix.row()) else {
        return unsupported("");
    };
    let op = AbstractOp::Ldmatrix;
    load_vector(
        body,
        op,
        mods,
        tuple,
        &[address],
        &destinations,
        PtxType::B32,
    )
}

/// An address in shared memory, whether the opcode names the space or leaves it generic: the low word of a generic address is
/// the one in shared memory.
fn shared_address(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    index: usize,
) -> Lowered<(Address, Space)> {
    let space = modifiers::space(statement.form);
    let space = match space {
        Space::Generic => Space::Shared,
        other => other,
    };
    body.address(statement, index, space)
}

/// One word, pair of words or byte of memory, weak and without hints.
pub(super) fn load_word(
    emit: &mut Emit<'_>,
    space: Space,
    scalar: Scalar,
    address: Operand,
) -> Operand {
    let ty = if scalar == Scalar::B64 {
        Type::R2
    } else {
        Type::R
    };
    let value = emit.func().create_value(ty);
    let operands = [word_address(emit, address), Operand::None];
    let result = [value.into()];
    emit.put(
        AbstractOp::Ld,
        (space, scalar),
        &result,
        &operands,
        Guard::ALWAYS,
        &[],
    );
    value.into()
}

/// The opposite of [`load_word`].
pub(super) fn store_word(
    emit: &mut Emit<'_>,
    space: Space,
    scalar: Scalar,
    address: Operand,
    value: Operand,
) {
    let operands = [word_address(emit, address), value, Operand::None];
    emit.put(
        AbstractOp::St,
        (space, scalar),
        &[],
        &operands,
        Guard::ALWAYS,
        &[],
    );
}

fn word_address(emit: &mut Emit<'_>, address: Operand) -> Operand {
    match address.reg() {
        Some(base) => emit.func().create_address(Address::base(base, 0)),
        None => address,
    }
}

/// `movmatrix`
pub(super) fn move_matrix(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let destination = body.destination(statement, 0)?;
    let source = body.source(statement, 1)?;
    let mods = (MatrixShape::M8n8, Scalar::B16);
    body.assign(AbstractOp::Movmatrix, mods, &[destination], &[source])
}

/// How many elements a vector access has.
pub(super) fn vector(count: usize) -> Vector {
    match count {
        2 => Vector::V2,
        4 => Vector::V4,
        8 => Vector::V8,
        _ => Vector::V1,
    }
}
