//! Comparisons and choices.

use super::arithmetic::{is_wide, sign};
use super::float::{flushes, ftz_name};
use super::half::{is_bfloat, is_half, is_pair};
use super::selector::{Selector, pt, rz};
use super::source::Source;
use super::{bits, sources};
use crate::pipeline::PhaseError;
use orias_ori::operation::{self, Combine, Compare, Ftz, Scalar};
use orias_ori::{AbstractOp, Operand, Type, Value};
use orias_sass::Op;
use orias_sass::ValueName;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

/// How a comparison is written for integers: name, and whether without sign whatever the type.
fn integer_name(compare: Compare) -> Option<(ValueName, bool)> {
    Some(match compare {
        Compare::Eq => (value::EQ, false),
        Compare::Ne => (value::NE, false),
        Compare::Lt => (value::LT, false),
        Compare::Le => (value::LE, false),
        Compare::Gt => (value::GT, false),
        Compare::Ge => (value::GE, false),
        Compare::Lo => (value::LT, true),
        Compare::Ls => (value::LE, true),
        Compare::Hi => (value::GT, true),
        Compare::Hs => (value::GE, true),
        _ => return None,
    })
}

/// How a comparison is written for floats.
fn float_name(compare: Compare) -> Option<ValueName> {
    Some(match compare {
        Compare::Eq => value::EQ,
        Compare::Ne => value::NE,
        Compare::Lt => value::LT,
        Compare::Le => value::LE,
        Compare::Gt => value::GT,
        Compare::Ge => value::GE,
        Compare::Equ => value::EQU,
        Compare::Neu => value::NEU,
        Compare::Ltu => value::LTU,
        Compare::Leu => value::LEU,
        Compare::Gtu => value::GTU,
        Compare::Geu => value::GEU,
        Compare::Num => value::NUM,
        Compare::Nan => value::NAN,
        _ => return None,
    })
}

/// The same comparison with the sides exchanged.
fn mirrored(name: ValueName) -> ValueName {
    const MIRRORED: [(ValueName, ValueName); 8] = [
        (value::LT, value::GT),
        (value::LE, value::GE),
        (value::GT, value::LT),
        (value::GE, value::LE),
        (value::LTU, value::GTU),
        (value::LEU, value::GEU),
        (value::GTU, value::LTU),
        (value::GEU, value::LEU),
    ];
    MIRRORED
        .iter()
        .find(|(from, _)| *from == name)
        .map_or(name, |(_, to)| *to)
}

/// The comparison that is true exactly where this one is not.
fn inverse(name: ValueName) -> Option<ValueName> {
    Some(match name {
        value::EQ => value::NEU,
        value::NE => value::EQU,
        value::LT => value::GEU,
        value::LE => value::GTU,
        value::GT => value::LEU,
        value::GE => value::LTU,
        value::EQU => value::NE,
        value::NEU => value::EQ,
        value::LTU => value::GE,
        value::LEU => value::GT,
        value::GTU => value::LE,
        value::GEU => value::LT,
        value::NUM => value::NAN,
        value::NAN => value::NUM,
        _ => return None,
    })
}

/// The comparison that is false where this one is true of NaNs, and the same otherwise.
fn ordered(name: ValueName) -> ValueName {
    match name {
        value::EQU => value::EQ,
        value::NEU => value::NE,
        value::LTU => value::LT,
        value::LEU => value::LE,
        value::GTU => value::GT,
        value::GEU => value::GE,
        _ => name,
    }
}

/// What is compared, and with which predicate the outcome is combined how.
struct Comparison {
    compare: Compare,
    scalar: Scalar,
    sides: [Operand; 2],
    combine: ValueName,
    with: Source,
}

/// The comparison of the instruction being selected: its type is `scalar`.
fn comparison(s: &mut Selector<'_>, scalar: Scalar) -> Result<Comparison, PhaseError> {
    let combine = match s.modifier::<Combine>()? {
        Combine::None | Combine::And => value::AND,
        Combine::Or => value::OR,
        Combine::Xor => value::XOR,
    };
    let with = s.predicate(2);
    let with = match s.modifier::<Combine>()? {
        Combine::None => pt().into(),
        _ => with,
    };
    Ok(Comparison {
        compare: s.modifier()?,
        scalar,
        sides: [s.operand(0), s.operand(1)],
        combine,
        with,
    })
}

pub(super) fn setp(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let comparison = comparison(s, scalar)?;
    let (p, q) = (s.predicate_result(0), s.predicate_result(1));
    if is_pair(scalar) {
        return compare_halves(s, &comparison, p, q);
    }
    compare_to(s, &comparison, p, false)?;
    if q != pt() {
        compare_to(s, &comparison, q, true)?;
    }
    Ok(())
}

/// The opposite of `condition`, if that says whether logic that nobody else reads is zero: the instruction for the logic tells whether it is not, and a branch
/// or a choice can ask for the opposite.
pub(super) fn opposite_test(
    s: &mut Selector<'_>,
    condition: Operand,
) -> Result<Option<Value>, PhaseError> {
    let plain = condition.as_value().filter(|_| condition.mods().is_empty());
    let setp = plain.and_then(|value| s.absorbable(value, AbstractOp::Setp));
    let Some(setp) = setp else {
        return Ok(None);
    };
    let equal = s.func.modifier::<Compare>(setp) == Some(Compare::Eq)
        && s.func.modifier::<Combine>(setp) == Some(Combine::None);
    let results = s.func.result_count(setp);
    let operands = s.func.operands(setp);
    let alone = operands[1..results]
        .iter()
        .all(|&other| other == Operand::None);
    let [left, right] = [operands[results], operands[results + 1]];
    let scalar = s.func.modifier::<Scalar>(setp);
    let Some(scalar) = scalar.filter(|scalar| equal && alone && is_integer(*scalar)) else {
        return Ok(None);
    };
    if !matches!(right, Operand::Imm(number) if number.bits() == 0) {
        return Ok(None);
    }
    let set = s.temporary(Type::P);
    let tested = bits::test(s, set.into(), left, scalar)?;
    Ok(tested.then_some(set))
}

/// Whether equal bits are equal numbers.
fn is_integer(scalar: Scalar) -> bool {
    !is_half(scalar) && !is_pair(scalar) && !matches!(scalar, Scalar::F32 | Scalar::F64)
}

/// Defines predicate `result` by a comparison, or by its opposite.
///
/// The second predicate of a comparison is the opposite combined with the same predicate.
fn compare_to(s: &mut Selector<'_>, what: &Comparison, result: Operand, opposite: bool) -> Done {
    let Comparison {
        compare, scalar, ..
    } = *what;
    if is_half(scalar) {
        return match opposite {
            false => compare_halves(s, what, result, pt()),
            true => compare_halves_named(s, what, result, pt(), true),
        };
    }
    if matches!(scalar, Scalar::F32 | Scalar::F64) {
        let Some(mut name) = float_name(compare) else {
            return Err(s.unsupported());
        };
        if opposite {
            name = inverse(name).ok_or_else(|| s.unsupported())?;
        }
        return compare_floats(s, what, name, result);
    }
    let Some((name, unsigned)) = integer_name(compare) else {
        return Err(s.unsupported());
    };
    let name = match opposite {
        // Integers always compare: the opposite needs no word about NaNs.
        true => inverse(name).map_or(name, ordered),
        false => name,
    };
    let signed = if unsigned { value::U32 } else { sign(scalar) };
    compare_integers(s, what, name, signed, result)
}

fn compare_integers(
    s: &mut Selector<'_>,
    what: &Comparison,
    name: ValueName,
    signed: ValueName,
    result: Operand,
) -> Done {
    if is_wide(what.scalar) {
        let mut sides = what.sides.map(|operand| s.words_of(operand));
        let mut name = name;
        if !sides[0][1].is_register() && sides[1][1].is_register() {
            sides.swap(0, 1);
            name = mirrored(name);
        }
        let [a, b] = sides;
        let mods = [
            (name::CMP, name),
            (name::SIGN, signed),
            (name::BOOL, what.combine),
        ];
        // No number is below zero: below a multiple of 2³² is what has a smaller high word.
        if b[0].is_zero() && matches!(name, value::LT | value::GE) {
            let operands = sources![result, pt(), a[1], b[1], what.with];
            s.emit(Op::ISETP, &mods, operands)?;
            return Ok(());
        }
        let low = s.compare(name, value::U32, a[0], b[0])?;
        s.emit(
            Op::ISETP_EX,
            &mods,
            sources![result, pt(), a[1], b[1], what.with, low],
        )?;
        return Ok(());
    }
    let extension = match (what.scalar, signed) {
        (Scalar::U16 | Scalar::S16 | Scalar::B16, value::S32) => Scalar::S16,
        (Scalar::U16 | Scalar::S16 | Scalar::B16, _) => Scalar::U16,
        (other, _) => other,
    };
    let alone = what.combine == value::AND && what.with.operand == pt();
    if name == value::NE
        && alone
        && s.word_of(what.sides[1]).is_zero()
        && bits::test(s, result, what.sides[0], what.scalar)?
    {
        return Ok(());
    }
    if alone
        && signed == value::S32
        && let Some(negative) = asks_for_sign(name, s.word_of(what.sides[1]))
        && bits::test_sign(s, result, what.sides[0], negative)?
    {
        return Ok(());
    }
    let mut sides = [
        s.extended_of(what.sides[0], extension)?,
        s.extended_of(what.sides[1], extension)?,
    ];
    let mut name = name;
    if !sides[0].is_register() && sides[1].is_register() {
        sides.swap(0, 1);
        name = mirrored(name);
    }
    let mods = [
        (name::CMP, name),
        (name::SIGN, signed),
        (name::BOOL, what.combine),
    ];
    s.emit(
        Op::ISETP,
        &mods,
        sources![result, pt(), sides[0], sides[1], what.with],
    )?;
    Ok(())
}

/// Whether a comparison of a word with `limit` is true of negative numbers, if it is one of signs.
fn asks_for_sign(name: ValueName, limit: Source) -> Option<bool> {
    match (name, limit.constant()? as u32) {
        (value::LT, 0) | (value::LE, u32::MAX) => Some(true),
        (value::GE, 0) | (value::GT, u32::MAX) => Some(false),
        _ => None,
    }
}

fn compare_floats(
    s: &mut Selector<'_>,
    what: &Comparison,
    name: ValueName,
    result: Operand,
) -> Done {
    let mut sides = [s.number(0, what.scalar)?, s.number(1, what.scalar)?];
    let mut name = name;
    if !sides[0].is_register() && sides[1].is_register() {
        sides.swap(0, 1);
        name = mirrored(name);
    }
    let [a, b] = sides;
    if what.scalar == Scalar::F32 {
        let mods = [
            (name::CMP, name),
            (name::FTZ, ftz_name(flushes(s))),
            (name::BOOL, what.combine),
        ];
        s.emit(Op::FSETP, &mods, sources![result, pt(), a, b, what.with])?;
    } else {
        let a = s.double_register(a)?;
        let mods = [(name::CMP, name), (name::BOOL, what.combine)];
        s.emit(Op::DSETP, &mods, sources![result, pt(), a, b, what.with])?;
    }
    Ok(())
}

fn compare_halves(s: &mut Selector<'_>, what: &Comparison, p: Operand, q: Operand) -> Done {
    compare_halves_named(s, what, p, q, false)
}

/// One half each into a predicate; of a single number, the first.
fn compare_halves_named(
    s: &mut Selector<'_>,
    what: &Comparison,
    p: Operand,
    q: Operand,
    opposite: bool,
) -> Done {
    let Some(mut name) = float_name(what.compare) else {
        return Err(s.unsupported());
    };
    if opposite {
        name = inverse(name).ok_or_else(|| s.unsupported())?;
    }
    let mut sides = [s.halves(0, what.scalar)?, s.halves(1, what.scalar)?];
    if !sides[0].is_register() && sides[1].is_register() {
        sides.swap(0, 1);
        name = mirrored(name);
    }
    let op = if is_bfloat(what.scalar) {
        Op::HSETP2_BF16
    } else {
        Op::HSETP2
    };
    let mods = [
        (name::CMP, name),
        (name::FTZ, ftz_name(flushes(s))),
        (name::BOOL, what.combine),
    ];
    s.emit(op, &mods, sources![p, q, sides[0], sides[1], what.with])?;
    Ok(())
}

/// A comparison as all ones, or as 1.0.
pub(super) fn set(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let source: Scalar = s.modifier::<operation::SourceType>()?.into();
    let comparison = comparison(s, source)?;
    // Of single halves the lower one counts.
    if is_pair(source) || is_half(source) && scalar == source {
        return set_halves(s, &comparison, scalar);
    }
    if scalar == Scalar::F32 && source == Scalar::F32 {
        let name = float_name(comparison.compare).ok_or_else(|| s.unsupported())?;
        let sides = [s.number(0, source)?, s.number(1, source)?];
        let combined = (comparison.combine, comparison.with);
        return set_single(s, name, flushes(s), sides, combined);
    }
    let truth: u32 = match scalar {
        Scalar::F32 => 0x3f80_0000,
        Scalar::F16 => 0x3c00,
        Scalar::Bf16 => 0x3f80,
        Scalar::U16 | Scalar::S16 | Scalar::U32 | Scalar::S32 => u32::MAX,
        _ => return Err(s.unsupported()),
    };
    let predicate = s.temporary(Type::P);
    compare_to(s, &comparison, predicate.into(), false)?;
    let result = s.result(0);
    s.choose_to(result, Source::imm(truth), rz().into(), predicate.into())
}

/// A comparison of singles as 1.0 or zero.
fn set_single(
    s: &mut Selector<'_>,
    name: ValueName,
    ftz: bool,
    mut sides: [Source; 2],
    (combine, with): (ValueName, Source),
) -> Done {
    let mut name = name;
    if !sides[0].is_register() && sides[1].is_register() {
        sides.swap(0, 1);
        name = mirrored(name);
    }
    let mods = [
        (name::CMP, name),
        (name::FTZ, ftz_name(ftz)),
        (name::BOOL, combine),
    ];
    let operands = sources![s.result(0), sides[0], sides[1], with];
    s.emit(Op::FSET, &mods, operands)?;
    Ok(())
}

fn set_halves(s: &mut Selector<'_>, what: &Comparison, scalar: Scalar) -> Done {
    let Some(mut name) = float_name(what.compare) else {
        return Err(s.unsupported());
    };
    let bf = match scalar {
        scalar if scalar == what.scalar => value::BF,
        Scalar::U32 | Scalar::S32 => value::BM,
        _ => return Err(s.unsupported()),
    };
    let mut sides = [s.halves(0, what.scalar)?, s.halves(1, what.scalar)?];
    if !sides[0].is_register() && sides[1].is_register() {
        sides.swap(0, 1);
        name = mirrored(name);
    }
    let op = if is_bfloat(what.scalar) {
        Op::HSET2_BF16
    } else {
        Op::HSET2
    };
    let mods = [
        (name::BF, bf),
        (name::CMP, name),
        (name::FTZ, ftz_name(flushes(s))),
        (name::BOOL, what.combine),
    ];
    s.emit(
        op,
        &mods,
        sources![s.result(0), sides[0], sides[1], what.with],
    )?;
    Ok(())
}

/// Selects a choice between 1.0 and zero by a comparison of singles that nobody else reads, as one instruction; whether it is such.
fn selected_single(s: &mut Selector<'_>, scalar: Scalar) -> Result<bool, PhaseError> {
    if scalar.bits() != 32 || !s.func.inst(s.at).guard().is_always() {
        return Ok(false);
    }
    let one = Some(u64::from(1f32.to_bits()));
    let opposite = match [s.word(0).constant(), s.word(1).constant()] {
        [yes, Some(0)] if yes == one => false,
        [Some(0), no] if no == one => true,
        _ => return Ok(false),
    };
    let condition = s.operand(2);
    let plain = condition.as_value().filter(|_| condition.mods().is_empty());
    let Some(setp) = plain.and_then(|value| s.absorbable(value, AbstractOp::Setp)) else {
        return Ok(false);
    };
    let results = s.func.result_count(setp);
    let operands = s.func.operands(setp);
    let alone = operands[..results].iter().skip(1);
    let alone = alone.copied().all(|other| other == Operand::None);
    let [a, b] = [operands[results], operands[results + 1]];
    let single = s.func.modifier::<Scalar>(setp) == Some(Scalar::F32)
        && s.func.modifier::<Combine>(setp) == Some(Combine::None)
        && s.func.result(setp, 0) == plain;
    let name = s.func.modifier::<Compare>(setp).and_then(float_name);
    let name = match opposite {
        true => name.and_then(inverse),
        false => name,
    };
    let Some(name) = name.filter(|_| single && alone) else {
        return Ok(false);
    };
    let ftz = s.func.modifier::<Ftz>(setp) == Some(Ftz::Ftz);
    let sides = [s.float(a, ftz, Scalar::F32), s.float(b, ftz, Scalar::F32)];
    set_single(s, name, ftz, sides, (value::AND, pt().into()))?;
    Ok(true)
}

pub(super) fn selp(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    if selected_single(s, scalar)? {
        return Ok(());
    }
    let p = match opposite_test(s, s.operand(2))? {
        Some(set) => s.complement(set.into()),
        None => s.predicate(2),
    };
    match scalar {
        Scalar::Pred => {
            let (a, b) = (s.predicate(0), s.predicate(1));
            // a where p, else b; inputs are a, b, p.
            let table = Operand::imm(0xf0 & 0xaa | 0xcc & !0xaa & 0xff);
            s.emit(
                Op::PLOP3,
                &[],
                sources![s.result(0), pt(), a, b, p, table, Operand::imm(0)],
            )?;
            Ok(())
        }
        scalar if is_wide(scalar) => {
            let (a, b) = (s.words(0), s.words(1));
            let low = s.choose(a[0], b[0], p)?;
            let high = s.choose(a[1], b[1], p)?;
            s.set_pair(0, low.into(), high.into())
        }
        scalar if scalar.bits() == 32 && has_sign_changed(s) => {
            let sides = [0, 1].map(|place| s.operand(place));
            let [a, b] = sides.map(|side| s.float(side, false, Scalar::F32));
            let (a, b, p) = match !a.is_register() && b.is_register() {
                true => (b, a, s.complement(p)),
                false => (a, b, p),
            };
            s.emit(Op::FSEL, &[], sources![s.result(0), a, b, p])?;
            Ok(())
        }
        _ => {
            let (a, b) = (s.word(0), s.word(1));
            let result = s.result(0);
            s.choose_to(result, a, b, p)
        }
    }
}

/// Whether a side of the choice is a single with its sign changed or taken off, which FSEL does to what it reads.
fn has_sign_changed(s: &Selector<'_>) -> bool {
    [0, 1].into_iter().any(|place| {
        let side = s.operand(place);
        let value = side.as_value().filter(|_| side.mods().is_empty());
        let made = value.and_then(|value| s.definition(value));
        made.is_some_and(|(inst, op)| {
            matches!(op, AbstractOp::Fneg | AbstractOp::Fabs)
                && s.func.modifier::<Scalar>(inst) == Some(Scalar::F32)
                && s.func.modifier::<Ftz>(inst) != Some(Ftz::Ftz)
        })
    })
}

/// The first operand if the third is not negative.
pub(super) fn slct(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let source: Scalar = s.modifier::<operation::SourceType>()?.into();
    let predicate = s.temporary(Type::P);
    if source == Scalar::F32 {
        let value = s.number(2, source)?;
        let mods = [(name::CMP, value::GE), (name::FTZ, ftz_name(flushes(s)))];
        s.emit(
            Op::FSETP,
            &mods,
            sources![predicate, pt(), value, rz(), pt()],
        )?;
    } else {
        let value = s.word(2);
        let mods = [(name::CMP, value::GE), (name::SIGN, value::S32)];
        s.emit(
            Op::ISETP,
            &mods,
            sources![predicate, pt(), value, rz(), pt()],
        )?;
    }
    if is_wide(scalar) {
        let (a, b) = (s.words(0), s.words(1));
        let low = s.choose(a[0], b[0], predicate.into())?;
        let high = s.choose(a[1], b[1], predicate.into())?;
        return s.set_pair(0, low.into(), high.into());
    }
    let (a, b) = (s.word(0), s.word(1));
    let result = s.result(0);
    s.choose_to(result, a, b, predicate.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirroring_twice_and_inverting_twice_change_nothing() {
        for name in [
            value::EQ,
            value::NE,
            value::LT,
            value::LE,
            value::GT,
            value::GE,
            value::LTU,
            value::GEU,
            value::NUM,
            value::NAN,
        ] {
            assert_eq!(mirrored(mirrored(name)), name);
            let inverted = inverse(name).expect("an inverse");
            assert_eq!(inverse(inverted), Some(name));
        }
    }
}
