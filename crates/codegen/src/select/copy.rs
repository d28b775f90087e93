//! Asynchronous copies from global to shared memory, and matrices in shared memory.

use super::address::Place;
use super::arithmetic::flexible_last;
use super::selector::{Selector, not_pt, pt, rz};
use super::source::Source;
use super::{WORD, sources};
use crate::pipeline::PhaseError;
use orias_ori::operation::{Cache, Count, Prefetch, Scalar, Transpose};
use orias_ori::{Address, Operand, Reg, Type};
use orias_sass::Op;
use orias_sass::ValueName;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

pub(super) fn copy(s: &mut Selector<'_>) -> Done {
    let Operand::Imm(bytes) = s.operand(2) else {
        return Err(s.broken("the size is not a number"));
    };
    let size = match bytes.bits() {
        4 => value::_32,
        8 => value::_64,
        16 => value::_128,
        _ => return Err(s.broken("a copy is 4, 8 or 16 bytes")),
    };
    let mut from = s.place(1)?;
    let (mut fill, mut condition) = (value::KEEP, Source::from(pt()));
    let read = s.operand(3);
    if read != Operand::None {
        let read = s.word_of(read);
        match read.constant() {
            // Nothing is read: everything is zero.
            Some(0) => condition = not_pt().into(),
            Some(count) if count == bytes.bits() => {}
            _ => {
                // The first byte that is not read tells how much is filled, by how far the address is off its alignment.
                let read = s.in_register(read)?;
                let some = s.compare(value::NE, value::U32, read.into(), rz().into())?;
                let minus = Source::from(read).negated().unwrap_or(read.into());
                let rest = s.temporary(WORD);
                let size = Source::imm(bytes.bits() as u32);
                s.emit(
                    Op::IADD3,
                    &[],
                    sources![rest, pt(), pt(), minus, size, rz()],
                )?;
                let off = s.temporary(WORD);
                let mask = Source::imm(bytes.bits() as u32 - 1);
                let and = Operand::imm(0xc0);
                let no = not_pt();
                s.emit(
                    Op::LOP3,
                    &[],
                    sources![pt(), off, rest, mask, rz(), and, no],
                )?;
                from = moved(s, from, [off.into(), rz().into()])?;
                fill = value::ZFILL;
                condition = some.into();
            }
        }
    }
    let ignored = s.operand(4);
    if ignored != Operand::None {
        let ignored = s.predicate_of(ignored);
        condition = s.complement(ignored);
    }
    let bypass = match s.modifier::<Cache>()? {
        Cache::Cg => value::BYPASS,
        _ => value::ACCESS,
    };
    let ahead = match s.modifier::<Prefetch>()? {
        Prefetch::None => value::NONE,
        Prefetch::B64 => value::LTC64B,
        Prefetch::B128 => value::LTC128B,
        Prefetch::B256 => value::LTC256B,
    };
    let policy = s.operand(5);
    let to = s.place(0)?;
    let to = copy_target(s, to)?;
    let from = near_source(s, from, policy)?;
    let mods = [
        (name::BYPASS, bypass),
        (name::LTC, ahead),
        (name::SIZE, size),
        (name::FILL, fill),
    ];
    s.emit_guarded(Op::LDGSTS, &mods, sources![to, from, condition])?;
    Ok(())
}

/// The same place `more` bytes further on, a number of 64 bits.
fn moved(s: &mut Selector<'_>, place: Place, more: [Source; 2]) -> Result<Place, PhaseError> {
    let base = match place.base {
        Some(base) => s.words_of(base.into()),
        None => [rz().into(), rz().into()],
    };
    let carry = s.temporary(Type::P);
    let low = s.temporary(WORD);
    let [a, b] = flexible_last([base[0], more[0]]);
    s.emit(Op::IADD3, &[], sources![low, carry, pt(), a, b, rz()])?;
    let high = s.add_with_carry(base[1], more[1], false, carry.into(), pt())?;
    let pair = s.temporary(Type::R2);
    s.count(pair);
    s.define_pair(pair, low.into(), high.into())?;
    Ok(Place {
        base: Some(pair),
        ..place
    })
}

/// The offsets a copy has room for: 20 bits in shared memory, 12 in global.
const NEAR: i64 = 1 << 11;

/// The address in shared memory: a register, no uniform base.
fn copy_target(s: &mut Selector<'_>, place: Place) -> Result<Operand, PhaseError> {
    let base = match place.symbol {
        Some(_) => Some(s.shared_base_register(place)?),
        None => s.base_word(place.base)?,
    };
    let base: Reg = match base {
        Some(base) => base.into(),
        None => rz().reg().ok_or_else(|| s.broken("no zero register"))?,
    };
    let Some(offset) = i32::try_from(place.offset)
        .ok()
        .filter(|offset| offset.abs() < 1 << 19)
    else {
        return Err(s.unsupported());
    };
    Ok(s.func.create_address(Address::base(base, offset)))
}

/// The address in global memory, with a small offset.
fn near_source(s: &mut Selector<'_>, place: Place, policy: Operand) -> Result<Operand, PhaseError> {
    if place.offset.abs() < NEAR {
        return s.far_address(place, policy, true);
    }
    let more = [place.offset, place.offset >> 32].map(|word| Source::imm(word as u32));
    let place = moved(s, Place { offset: 0, ..place }, more)?;
    s.far_address(place, policy, true)
}

pub(super) fn commit(s: &mut Selector<'_>) -> Done {
    s.emit_guarded(Op::LDGDEPBAR, &[], sources![])?;
    Ok(())
}

/// Waits until at most so many groups are under way.
pub(super) fn wait_for(s: &mut Selector<'_>, groups: u64) -> Done {
    let board = Operand::imm(u64::from(s.machine.limits.copy_scoreboard));
    let operands = sources![board, Operand::imm(groups), Operand::imm(0)];
    s.emit_guarded(Op::DEPBAR_LE, &[], operands)?;
    Ok(())
}

pub(super) fn wait(s: &mut Selector<'_>) -> Done {
    match s.operand(0) {
        // More groups than can be under way: nothing to wait for.
        Operand::Imm(groups) if groups.bits() > u64::from(s.machine.limits.copy_groups) => Ok(()),
        Operand::Imm(groups) => wait_for(s, groups.bits()),
        _ => Err(s.broken("the number of groups is not a number")),
    }
}

pub(super) fn wait_all(s: &mut Selector<'_>) -> Done {
    s.emit_guarded(Op::LDGDEPBAR, &[], sources![])?;
    wait_for(s, 0)
}

/// Shape and count of matrices, as the machine names them.
fn matrix_names(s: &Selector<'_>) -> Result<(ValueName, ValueName), PhaseError> {
    if s.modifier::<Scalar>()? != Scalar::B16 {
        return Err(s.unsupported());
    }
    let shape = match s.modifier::<Transpose>()? {
        Transpose::Straight => value::M88,
        Transpose::Trans => value::MT88,
    };
    let count = match s.modifier::<Count>()? {
        Count::X1 => value::_1,
        Count::X2 => value::_2,
        Count::X4 => value::_4,
    };
    Ok((shape, count))
}

pub(super) fn load_matrix(s: &mut Selector<'_>) -> Done {
    let (shape, count) = matrix_names(s)?;
    s.gather_lanes()?;
    let place = s.place(0)?;
    let address = s.shared_address(place)?;
    let mods = [(name::SHAPE, shape), (name::COUNT, count)];
    s.emit_guarded(Op::LDSM, &mods, sources![s.result(0), address])?;
    Ok(())
}

pub(super) fn store_matrix(s: &mut Selector<'_>) -> Done {
    let (shape, count) = matrix_names(s)?;
    s.gather_lanes()?;
    let place = s.place(0)?;
    let address = s.shared_address(place)?;
    let value = s.operand(1);
    let mods = [(name::SHAPE, shape), (name::COUNT, count)];
    s.emit_guarded(Op::STSM, &mods, sources![address, value])?;
    Ok(())
}

pub(super) fn move_matrix(s: &mut Selector<'_>) -> Done {
    s.gather_lanes()?;
    let source = s.word(0);
    s.emit_guarded(
        Op::MOVM,
        &[(name::MODE, value::MT88)],
        sources![s.result(0), source],
    )?;
    Ok(())
}
