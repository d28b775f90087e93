//! Shifts, of one word, of two, and of both together.

use super::arithmetic::{is_signed, is_wide, sign};
use super::selector::{Selector, rz};
use super::source::Source;
use super::{WORD, sources};
use crate::pipeline::PhaseError;
use orias_ori::Operand;
use orias_ori::operation::{Clamp, Direction, Scalar};
use orias_sass::Op;
use orias_sass::ValueName;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

/// SHF with the given direction, type and part.
pub(super) fn shf(
    s: &mut Selector<'_>,
    result: Operand,
    (dir, ty, part, wrap): (ValueName, ValueName, ValueName, ValueName),
    low: Source,
    amount: Source,
    high: Source,
) -> Done {
    let mods = [
        (name::DIR, dir),
        (name::TYPE, ty),
        (name::PART, part),
        (name::WRAP, wrap),
    ];
    s.emit(Op::SHF, &mods, sources![result, low, amount, high])?;
    Ok(())
}

pub(super) const CLAMP: ValueName = value::CLAMP;

pub(super) fn shift_left(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let amount = s.word(1);
    if !is_wide(scalar) {
        let value = s.word(0);
        let result = s.result(0);
        return match amount.constant() {
            Some(bits) if bits < 32 => {
                let factor = Source::imm(1 << bits);
                s.emit(
                    Op::IMAD,
                    &[(name::SIGN, value::U32)],
                    sources![result, value, factor, rz()],
                )?;
                Ok(())
            }
            _ => shf(
                s,
                result,
                (value::L, value::U32, value::LO, CLAMP),
                value,
                amount,
                rz().into(),
            ),
        };
    }
    let [low, high] = s.words(0);
    match amount.constant() {
        Some(0) => s.set_pair(0, low, high),
        Some(32) => s.set_pair(0, rz().into(), low),
        Some(bits) if bits >= 64 => s.set_pair(0, rz().into(), rz().into()),
        Some(bits) if bits >= 32 => {
            let value = s.temporary(WORD);
            let amount = Source::imm(bits as u32 - 32);
            shf(
                s,
                value.into(),
                (value::L, value::U32, value::LO, CLAMP),
                low,
                amount,
                rz().into(),
            )?;
            s.set_pair(0, rz().into(), value.into())
        }
        _ => {
            let new_low = s.temporary(WORD);
            let new_high = s.temporary(WORD);
            let amount: Source = match amount.constant() {
                Some(_) => amount,
                None => s.in_register(amount)?.into(),
            };
            shf(
                s,
                new_high.into(),
                (value::L, value::U64, value::HI, CLAMP),
                low,
                amount,
                high,
            )?;
            shf(
                s,
                new_low.into(),
                (value::L, value::U32, value::LO, CLAMP),
                low,
                amount,
                rz().into(),
            )?;
            s.set_pair(0, new_low.into(), new_high.into())
        }
    }
}

pub(super) fn shift_right(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let amount = s.word(1);
    let word_type = sign(scalar);
    if !is_wide(scalar) {
        let of = match scalar {
            Scalar::B16 => Scalar::U16,
            other => other,
        };
        let value = s.extended(0, of)?;
        let result = s.result(0);
        return shf(
            s,
            result,
            (value::R, word_type, value::HI, CLAMP),
            rz().into(),
            amount,
            value,
        );
    }
    let signed = is_signed(scalar);
    let [low, high] = s.words(0);
    let fill = |s: &mut Selector<'_>| match signed {
        true => {
            let value = s.temporary(WORD);
            let all = Source::imm(31);
            shf(
                s,
                value.into(),
                (value::R, value::S32, value::HI, CLAMP),
                rz().into(),
                all,
                high,
            )?;
            Ok(Source::from(value))
        }
        false => Ok(rz().into()),
    };
    match amount.constant() {
        Some(0) => s.set_pair(0, low, high),
        Some(32) => {
            let fill = fill(s)?;
            s.set_pair(0, high, fill)
        }
        Some(bits) if bits >= 64 => {
            let fill = fill(s)?;
            s.set_pair(0, fill, fill)
        }
        Some(bits) if bits >= 32 => {
            let value = s.temporary(WORD);
            let amount = Source::imm(bits as u32 - 32);
            shf(
                s,
                value.into(),
                (value::R, word_type, value::HI, CLAMP),
                rz().into(),
                amount,
                high,
            )?;
            let fill = fill(s)?;
            s.set_pair(0, value.into(), fill)
        }
        _ => {
            let new_low = s.temporary(WORD);
            let new_high = s.temporary(WORD);
            let amount: Source = match amount.constant() {
                Some(_) => amount,
                None => s.in_register(amount)?.into(),
            };
            let pair_type = if signed { value::S64 } else { value::U64 };
            shf(
                s,
                new_low.into(),
                (value::R, pair_type, value::LO, CLAMP),
                low,
                amount,
                high,
            )?;
            shf(
                s,
                new_high.into(),
                (value::R, word_type, value::HI, CLAMP),
                rz().into(),
                amount,
                high,
            )?;
            s.set_pair(0, new_low.into(), new_high.into())
        }
    }
}

pub(super) fn funnel(s: &mut Selector<'_>) -> Done {
    let wrap = match s.modifier::<Clamp>()? {
        Clamp::Clamp => CLAMP,
        Clamp::Wrap => value::W,
    };
    let how = match s.modifier::<Direction>()? {
        Direction::Left => (value::L, value::U32, value::HI, wrap),
        Direction::Right => (value::R, value::U32, value::LO, wrap),
    };
    let (low, high, amount) = (s.word(0), s.word(1), s.word(2));
    let result = s.result(0);
    shf(s, result, how, low, amount, high)
}
