//! Fields of tensor maps: `tensormap.replace`.
//!
//! A field of the 128 bytes is loaded with the word it is in, changed and stored, as ptxas does it. Sizes and steps are kept less one, strides in units of 16
//! bytes with their upper bits together in a word of their own. A change of the swizzle also clears the bit that chooses among its variants.

use super::body::{Body, Destination, Lowered, Statement, unsupported};
use super::bulk::{numbered, optional, shared_word, wide_address};
use super::modifiers::{modifier, set};
use crate::emit::imm;
use orias_ori::operation::{
    AbstractMods, AbstractOp, Order, Proxy, Reduce, Scalar, Scope, Space, Special, Vector,
};
use orias_ori::{Address, Operand, Type};
use orias_ptx::grammar::Modifier;
use orias_ptx::grammar::operand_names as operand;

/// A field of a tensor map: the word it is in, its lowest bit, its width, and what it is less than its value.
struct Field {
    offset: i32,
    shift: u32,
    width: u32,
    less: u64,
}

impl Field {
    const fn new(offset: i32, shift: u32, width: u32, less: u64) -> Field {
        Field {
            offset,
            shift,
            width,
            less,
        }
    }

    fn mask(&self) -> u64 {
        ((1 << self.width) - 1) << self.shift
    }
}

/// The last number of a type of elements that has no bit of its own.
const LAST_PLAIN: u64 = 10;

/// `tensormap.replace`
pub(super) fn replace(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    body.branch_if_guarded(|body| {
        let has = |modifier| statement.form.has(modifier);
        let space: Space = modifier(statement.form).unwrap_or(Space::Generic);
        let ordinal = match numbered(statement, operand::ORD) {
            Some(index) => body.immediate(statement, index)? as i32,
            None => 0,
        };
        let at = ordinal.cast_unsigned();
        let Some(value) = optional(body, statement, operand::VALUE)? else {
            return unsupported("");
        };
        if has(Modifier::GlobalAddress) {
            return store_field(body, statement, space, 0, Scalar::B64, value);
        }
        if has(Modifier::GlobalStride) {
            let (low, high) = body.with(|emit| {
                let units = emit.shr(Scalar::U64, value, imm(4));
                emit.halves(units)
            })?;
            let word = 0xc + 4 * ordinal;
            store_field(body, statement, space, word, Scalar::B32, low)?;
            let field = Field::new(0x1c, 4 * at, 4, 0);
            return replace_field(body, statement, space, &field, high);
        }
        if has(Modifier::GlobalDim) {
            let less = body.with(|emit| emit.add(value, imm(0xffff_ffff)))?;
            let word = 0x20 + 4 * ordinal;
            return store_field(body, statement, space, word, Scalar::B32, less);
        }
        let field = match () {
            () if has(Modifier::Rank) => Field::new(0x8, 4, 3, 0),
            () if has(Modifier::Elemtype) => Field::new(0x8, 7, 4, 0),
            () if has(Modifier::InterleaveLayout) => Field::new(0x8, 11, 2, 0),
            () if has(Modifier::SwizzleMode) => Field::new(0x8, 13, 2, 0),
            () if has(Modifier::FillMode) => Field::new(0x8, 15, 1, 0),
            () if has(Modifier::BoxDim) && ordinal == 0 => Field::new(0x34, 24, 8, 1),
            () if has(Modifier::BoxDim) => Field::new(0x38, 8 * (at - 1), 8, 1),
            () if has(Modifier::ElementStride) => Field::new(0x34, 3 * at, 3, 1),
            () => return unsupported(""),
        };
        if has(Modifier::Elemtype)
            && let Operand::Imm(number) = value
            && number.bits() > LAST_PLAIN
        {
            // Single precision that is rounded as tensor cores take it.
            let rounded = Field::new(0x8, 16, 1, 0);
            replace_field(body, statement, space, &rounded, imm(1))?;
            let plain = imm(number.bits() - 4);
            return replace_field(body, statement, space, &field, plain);
        }
        replace_field(body, statement, space, &field, value)?;
        if has(Modifier::SwizzleMode) {
            let second = Field::new(0x8, 22, 1, 0);
            replace_field(body, statement, space, &second, imm(0))?;
        }
        Ok(())
    })
}

/// `fence.proxy.tensormap`: one that acquires names the map, whose address is the same in all lanes that come.
pub(super) fn fence(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let order: Order = modifier(statement.form).unwrap_or(Order::Release);
    let scope: Scope = modifier(statement.form).unwrap_or(Scope::Gpu);
    let mods = (Proxy::TensormapGeneric, order, scope);
    if order == Order::Release {
        let nothing = [Operand::None, Operand::None];
        return body.assign(AbstractOp::FenceProxy, mods, &[], &nothing);
    }
    body.branch_if_guarded(|body| {
        let map = body.address_value(statement, 0)?;
        let map = body.in_registers(map, 64)?;
        body.assign(AbstractOp::MapInvalidate, (), &[], &[map.into()])
    })
}

/// `tensormap.cp_fenceproxy`: every lane of the warp exchanges a word.
pub(super) fn copy(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    body.branch_if_guarded(|body| {
        let scope = match modifier(statement.form) {
            Some(Scope::Sys) => Scope::Sys,
            _ => Scope::Gpu,
        };
        let from = shared_word(body, statement, operand::SRC)?;
        let to = wide_address(body, statement, operand::DST)?;
        let lane = body.compute(AbstractOp::Sreg, (Special::LaneId,), &[])?;
        let (from, to) = body.with(|emit| {
            let offset = emit.shl(lane, imm(2));
            let from = emit.add(from.into(), offset);
            let wide = emit.cvt(Scalar::U64, Scalar::U32, offset);
            let to = emit.binary(AbstractOp::Add, Scalar::U64, to.into(), wide);
            (from, to)
        })?;
        let from = body.in_registers(from, 32)?;
        let to = body.in_registers(to, 64)?;
        let from = body.func.create_address(Address::base(from, 0));
        let mods = access_mods(AbstractOp::Ld, Space::Shared, Scalar::B32);
        let word = body.compute(AbstractOp::Ld, mods, &[from, Operand::None])?;
        let to = body.func.create_address(Address::base(to, 0));
        let mods = (
            Order::Relaxed,
            scope,
            Space::Global,
            Reduce::Exch,
            Vector::V1,
            Scalar::B32,
        );
        let unused = Destination::Unused(Type::R);
        let operands = [to, word, Operand::None, Operand::None];
        body.assign(AbstractOp::Atom, mods, &[unused], &operands)
    })
}

/// The place of a word of a tensor map.
fn field_place(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    space: Space,
    offset: i32,
) -> Lowered<(Operand, Space)> {
    let (mut address, space) = body.address(statement, 0, space)?;
    address.offset = address.offset.wrapping_add(offset);
    Ok((body.func.create_address(address), space))
}

fn access_mods(op: AbstractOp, space: Space, scalar: Scalar) -> AbstractMods {
    set(op, set(op, AbstractMods::NONE, space), scalar)
}

fn store_field(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    space: Space,
    offset: i32,
    scalar: Scalar,
    value: Operand,
) -> Lowered {
    let (place, space) = field_place(body, statement, space, offset)?;
    let value = body.in_registers(value, u32::from(scalar.bits()))?;
    let mods = access_mods(AbstractOp::St, space, scalar);
    let operands = [place, value.into(), Operand::None];
    body.assign(AbstractOp::St, mods, &[], &operands)
}

fn replace_field(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    space: Space,
    field: &Field,
    value: Operand,
) -> Lowered {
    let (place, space) = field_place(body, statement, space, field.offset)?;
    let mods = access_mods(AbstractOp::Ld, space, Scalar::B32);
    let old = body.compute(AbstractOp::Ld, mods, &[place, Operand::None])?;
    let mask = field.mask();
    let new = body.with(|emit| {
        let less = match field.less {
            0 => value,
            less => emit.add(value, imm(less.wrapping_neg() & 0xffff_ffff)),
        };
        let moved = match field.shift {
            0 => less,
            shift => emit.shl(less, imm(u64::from(shift))),
        };
        let own = emit.and(moved, imm(mask));
        let rest = emit.and(old, imm(!mask & 0xffff_ffff));
        emit.or(rest, own)
    })?;
    store_field(body, statement, space, field.offset, Scalar::B32, new)
}
