//! Bytes, bit fields, and what counts or finds bits.

use super::arithmetic::{is_signed, is_wide, sign};
use super::bits::{INPUTS, emit_table};
use super::selector::{Selector, not_pt, pt, rz};
use super::shifts::{CLAMP, shf};
use super::source::Source;
use super::{WORD, sources};
use crate::pipeline::PhaseError;
use orias_ori::operation::{Clamp, Permute, Scalar};
use orias_ori::{AbstractOp, Operand, Value};
use orias_sass::Op;
use orias_sass::ValueName;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

pub(super) fn permute(s: &mut Selector<'_>) -> Done {
    let mode = match s.modifier::<Permute>()? {
        Permute::Index => value::IDX,
        Permute::F4e => value::F4E,
        Permute::B4e => value::B4E,
        Permute::Rc8 => value::RC8,
        Permute::Ecl => value::ECL,
        Permute::Ecr => value::ECR,
        Permute::Rc16 => value::RC16,
    };
    let (a, b, select) = (s.word(0), s.word(1), s.word(2));
    s.emit(
        Op::PRMT,
        &[(name::MODE, mode)],
        sources![s.result(0), a, select, b],
    )?;
    Ok(())
}

/// An operation on one word as a new value.
fn unary(s: &mut Selector<'_>, op: Op, source: Source) -> Result<Value, PhaseError> {
    let value = s.temporary(WORD);
    s.emit(op, &[], sources![value, source])?;
    Ok(value)
}

pub(super) fn count(s: &mut Selector<'_>) -> Done {
    if !is_wide(s.modifier()?) {
        let source = s.word(0);
        s.emit(Op::POPC, &[], sources![s.result(0), source])?;
        return Ok(());
    }
    let [low, high] = s.words(0);
    let low = unary(s, Op::POPC, low)?;
    let high = unary(s, Op::POPC, high)?;
    s.emit(
        Op::IADD3,
        &[],
        sources![s.result(0), pt(), pt(), low, high, rz()],
    )?;
    Ok(())
}

pub(super) fn reverse(s: &mut Selector<'_>) -> Done {
    if !is_wide(s.modifier()?) {
        let source = s.word(0);
        s.emit(Op::BREV, &[], sources![s.result(0), source])?;
        return Ok(());
    }
    let [low, high] = s.words(0);
    let low = unary(s, Op::BREV, low)?;
    let high = unary(s, Op::BREV, high)?;
    s.set_pair(0, high.into(), low.into())
}

/// FLO: the position of the highest set bit (of the highest bit unlike the sign), or its distance from the top; all ones if
/// there is none.
fn flo(s: &mut Selector<'_>, result: Operand, signed: bool, shift: bool, source: Source) -> Done {
    let mods = [
        (name::SIGN, if signed { value::S32 } else { value::U32 }),
        (name::SHIFT, if shift { value::SH } else { value::NO }),
    ];
    s.emit(Op::FLO, &mods, sources![result, pt(), source])?;
    Ok(())
}

pub(super) fn leading_zeros(s: &mut Selector<'_>) -> Done {
    let position = s.temporary(WORD);
    if !is_wide(s.modifier()?) {
        let source = s.word(0);
        flo(s, position.into(), false, false, source)?;
        let minus = Source::from(position).negated().unwrap_or(position.into());
        s.emit(
            Op::IADD3,
            &[],
            sources![s.result(0), pt(), pt(), minus, Source::imm(31), rz()],
        )?;
        return Ok(());
    }
    // The high word if it has a bit, else the low one, which is 32 further down.
    let [low, high] = s.words(0);
    let in_high = s.compare(value::NE, value::U32, high, rz().into())?;
    let word = s.choose(high, low, in_high.into())?;
    flo(s, position.into(), false, false, word.into())?;
    let top = s.choose(Source::imm(31), Source::imm(63), in_high.into())?;
    let minus = Source::from(position).negated().unwrap_or(position.into());
    s.emit(
        Op::IADD3,
        &[],
        sources![s.result(0), pt(), pt(), minus, top, rz()],
    )?;
    Ok(())
}

pub(super) fn find(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let shift = s.op() == Some(AbstractOp::BfindShift);
    let signed = is_signed(scalar);
    if !is_wide(scalar) {
        let source = s.word(0);
        let result = s.result(0);
        return flo(s, result, signed, shift, source);
    }
    let [mut low, high] = s.words(0);
    let upper = s.temporary(WORD);
    flo(s, upper.into(), signed, shift, high)?;
    if signed {
        // Below a sign, bits unlike the sign are looked for.
        let fill = s.temporary(WORD);
        shf(
            s,
            fill.into(),
            (value::R, value::S32, value::HI, CLAMP),
            rz().into(),
            Source::imm(31),
            high,
        )?;
        let value = s.temporary(WORD);
        emit_table(s, value.into(), &[low, fill.into()], INPUTS[0] ^ INPUTS[1])?;
        low = value.into();
    }
    let lower = s.temporary(WORD);
    flo(s, lower.into(), false, shift, low)?;
    let none = Source::imm(u32::MAX);
    let in_high = s.compare(value::NE, value::U32, upper.into(), none)?;
    let result = s.result(0);
    if shift {
        // From the top: the low word is 32 further away, unless it has no such bit either.
        let further = s.sum(lower.into(), Source::imm(32))?;
        let found = s.compare(value::NE, value::U32, lower.into(), none)?;
        let lower = s.choose(further.into(), lower.into(), found.into())?;
        s.choose_to(result, upper.into(), lower.into(), in_high.into())
    } else {
        let raised = s.sum(upper.into(), Source::imm(32))?;
        s.choose_to(result, raised.into(), lower.into(), in_high.into())
    }
}

/// The low byte of source `index`, as PTX reads positions and lengths.
fn byte(s: &mut Selector<'_>, index: usize) -> Result<Source, PhaseError> {
    let source = s.word(index);
    match source.constant() {
        Some(bits) => Ok(Source::imm(bits as u32 & 0xff)),
        None => s.extend_word(source, Scalar::U8),
    }
}

pub(super) fn extract(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let position = byte(s, 1)?;
    let length = byte(s, 2)?;
    let signed = is_signed(scalar);
    if !is_wide(scalar) {
        let source = s.word(0);
        let shifted = s.temporary(WORD);
        shf(
            s,
            shifted.into(),
            (value::R, sign(scalar), value::HI, CLAMP),
            rz().into(),
            position,
            source,
        )?;
        let mods = [(name::SIGN, sign(scalar))];
        s.emit(Op::SGXT, &mods, sources![s.result(0), shifted, length])?;
        return Ok(());
    }
    let [low, high] = s.words(0);
    let position: Source = s.in_register(position)?.into();
    let length: Source = s.in_register(length)?.into();
    let pair_type = if signed { value::S64 } else { value::U64 };
    let (a, b) = (s.temporary(WORD), s.temporary(WORD));
    shf(
        s,
        a.into(),
        (value::R, pair_type, value::LO, CLAMP),
        low,
        position,
        high,
    )?;
    shf(
        s,
        b.into(),
        (value::R, sign(scalar), value::HI, CLAMP),
        rz().into(),
        position,
        high,
    )?;
    // The field now starts at bit 0: to the top and back again by what is not part of it.
    let rest = bits_beyond(s, length)?;
    let (c, d) = (s.temporary(WORD), s.temporary(WORD));
    shf(
        s,
        d.into(),
        (value::L, value::U64, value::HI, CLAMP),
        a.into(),
        rest,
        b.into(),
    )?;
    shf(
        s,
        c.into(),
        (value::L, value::U32, value::LO, CLAMP),
        a.into(),
        rest,
        rz().into(),
    )?;
    let (e, f) = (s.temporary(WORD), s.temporary(WORD));
    shf(
        s,
        e.into(),
        (value::R, pair_type, value::LO, CLAMP),
        c.into(),
        rest,
        d.into(),
    )?;
    shf(
        s,
        f.into(),
        (value::R, sign(scalar), value::HI, CLAMP),
        rz().into(),
        rest,
        d.into(),
    )?;
    if !signed {
        return s.set_pair(0, e.into(), f.into());
    }
    // A field of no bits is zero, whatever the sign.
    let some = s.compare(value::NE, value::U32, length, rz().into())?;
    let low = s.choose(e.into(), rz().into(), some.into())?;
    let high = s.choose(f.into(), rz().into(), some.into())?;
    s.set_pair(0, low.into(), high.into())
}

pub(super) fn insert(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let position = byte(s, 2)?;
    let length = byte(s, 3)?;
    // Where the mask is set the field counts, elsewhere the value: mask is the second input.
    let take = INPUTS[0] & INPUTS[1] | INPUTS[2] & !INPUTS[1];
    if !is_wide(scalar) {
        let (field, value) = (s.word(0), s.word(1));
        let shifted = s.temporary(WORD);
        shf(
            s,
            shifted.into(),
            (value::L, value::U32, value::LO, CLAMP),
            field,
            position,
            rz().into(),
        )?;
        let mask = match (position.constant(), length.constant()) {
            (Some(position), Some(length)) => Source::imm(field_mask(position, length) as u32),
            _ => {
                let mask = s.temporary(WORD);
                s.emit(Op::BMSK, &[], sources![mask, position, length])?;
                mask.into()
            }
        };
        let result = s.result(0);
        return emit_table(s, result, &[shifted.into(), mask, value], take);
    }
    let position: Source = s.in_register(position)?.into();
    let length: Source = s.in_register(length)?.into();
    let (field, value) = (s.words(0), s.words(1));
    // The mask: as many ones as the field has bits, then shifted to their place.
    let ones = Source::imm(u32::MAX);
    let (low, high) = (s.temporary(WORD), s.temporary(WORD));
    let limit = bits_beyond(s, length)?;
    let all: Source = s.in_register(ones)?.into();
    shf(
        s,
        low.into(),
        (value::R, value::U64, value::LO, CLAMP),
        all,
        limit,
        all,
    )?;
    shf(
        s,
        high.into(),
        (value::R, value::U32, value::HI, CLAMP),
        rz().into(),
        limit,
        all,
    )?;
    let mut words = [rz(); 2];
    let shift_pair = |s: &mut Selector<'_>, low: Source, high: Source| {
        let (a, b) = (s.temporary(WORD), s.temporary(WORD));
        shf(
            s,
            b.into(),
            (value::L, value::U64, value::HI, CLAMP),
            low,
            position,
            high,
        )?;
        shf(
            s,
            a.into(),
            (value::L, value::U32, value::LO, CLAMP),
            low,
            position,
            rz().into(),
        )?;
        Ok::<[Source; 2], PhaseError>([a.into(), b.into()])
    };
    let mask = shift_pair(s, low.into(), high.into())?;
    let field = shift_pair(s, field[0], field[1])?;
    for place in [0, 1] {
        let word = s.temporary(WORD);
        let inputs = [field[place], mask[place], value[place]];
        emit_table(s, word.into(), &inputs, take)?;
        words[place] = word.into();
    }
    s.set_pair(0, words[0].into(), words[1].into())
}

/// How many of 64 bits lie outside a field: none where it is longer.
fn bits_beyond(s: &mut Selector<'_>, length: Source) -> Result<Source, PhaseError> {
    let minus = length.negated().unwrap_or(length);
    let rest = s.temporary(WORD);
    s.emit(
        Op::IADD3,
        &[],
        sources![rest, pt(), pt(), minus, Source::imm(64), rz()],
    )?;
    let limit = s.temporary(WORD);
    s.emit(
        Op::VIMNMX,
        &[(name::TYPE, value::S32)],
        sources![limit, rest, rz(), not_pt()],
    )?;
    Ok(limit.into())
}

/// `length` ones from bit `position` on, in 64 bits.
fn field_mask(position: u64, length: u64) -> u64 {
    let ones = match length {
        0..64 => (1 << length) - 1,
        _ => u64::MAX,
    };
    if position < 64 { ones << position } else { 0 }
}

fn wraps(s: &Selector<'_>) -> Result<ValueName, PhaseError> {
    Ok(match s.modifier::<Clamp>()? {
        Clamp::Clamp => CLAMP,
        Clamp::Wrap => value::W,
    })
}

pub(super) fn extend(s: &mut Selector<'_>) -> Done {
    let mods = [(name::WRAP, wraps(s)?), (name::SIGN, sign(s.modifier()?))];
    let (value, length) = (s.word(0), s.word(1));
    s.emit(Op::SGXT, &mods, sources![s.result(0), value, length])?;
    Ok(())
}

pub(super) fn mask(s: &mut Selector<'_>) -> Done {
    let mods = [(name::WRAP, wraps(s)?)];
    let (position, length) = (s.word(0), s.word(1));
    s.emit(Op::BMSK, &mods, sources![s.result(0), position, length])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_clamp_at_the_top() {
        assert_eq!(field_mask(5, 3), 0xe0);
        assert_eq!(field_mask(60, 40), 0xf << 60);
        assert_eq!(field_mask(0, 64), u64::MAX);
        assert_eq!(field_mask(64, 3), 0);
    }
}
