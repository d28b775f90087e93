//! The smaller and the larger of integers of 16 and 32 bits, with sums before and limits behind: one instruction each.
//!
//! | written | becomes |
//! | --- | --- |
//! | `max(a, b)` | VIMNMX |
//! | `max(a + b, c)`, `max(a - b, c)` | VIADDMNMX |
//! | `max(max(a, b), c)` | VIMNMX3 |
//! | `max(…, 0)` of any of these with sign | the same with `.RELU` |
//!
//! All of them have forms for pairs of halves. What is 64 bits wide goes on to [`super::wide`].

use super::arithmetic::{flexible_last, is_wide, sign};
use super::selector::{Selector, not_pt, pt};
use super::source::Source;
use super::{sources, wide};
use crate::pipeline::PhaseError;
use orias_ori::operation::{Sat, Scalar};
use orias_ori::{AbstractOp, Inst, Operand};
use orias_sass::Op;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

pub(super) fn min_max(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let relu = match s.modifier::<Sat>()? {
        Sat::Wrap => value::NO,
        Sat::Relu => value::RELU,
        _ => return Err(s.unsupported()),
    };
    if is_wide(scalar) {
        return match relu {
            value::NO => wide::min_max(s),
            _ => Err(s.unsupported()),
        };
    }
    let ty = match scalar {
        Scalar::U16 | Scalar::U16x2 => value::U16X2,
        Scalar::S16 | Scalar::S16x2 => value::S16X2,
        other => sign(other),
    };
    let mut sides = [s.operand(0), s.operand(1)];
    let mut relu = relu;
    let mut op = s.op();
    if let Some(inner) = clamped_at_zero(s) {
        sides = [s.func.operands(inner)[1], s.func.operands(inner)[2]];
        relu = value::RELU;
        op = s.func.opcode(inner).as_abstract();
    }
    let smaller = match op {
        Some(AbstractOp::Min) => pt(),
        _ => not_pt(),
    };
    let mods = [(name::TYPE, ty), (name::RELU, relu)];
    for (sum, other) in [(sides[0], sides[1]), (sides[1], sides[0])] {
        if let Some([a, b]) = added_before(s, scalar, sum) {
            let c = s.word_of(other);
            s.emit(
                Op::VIADDMNMX,
                &mods,
                sources![s.result(0), a, b, c, smaller],
            )?;
            return Ok(());
        }
    }
    for (inner, other) in [(sides[0], sides[1]), (sides[1], sides[0])] {
        if let Some([a, b]) = same_extreme_before(s, op, scalar, inner) {
            let [a, b, c] = flexible_second([a, b, other].map(|side| s.word_of(side)));
            s.emit(Op::VIMNMX3, &mods, sources![s.result(0), a, b, c, smaller])?;
            return Ok(());
        }
    }
    let [a, b] = flexible_last(sides.map(|side| s.word_of(side)));
    s.emit(Op::VIMNMX, &mods, sources![s.result(0), a, b, smaller])?;
    Ok(())
}

/// The extreme of two numbers with sign that is read only here, where this is the greater of it and zero.
fn clamped_at_zero(s: &mut Selector<'_>) -> Option<Inst> {
    let scalar = s.func.modifier::<Scalar>(s.at)?;
    let plain = |s: &Selector<'_>, inst: Inst| {
        s.func.modifier::<Scalar>(inst) == Some(scalar) && wraps(s, inst)
    };
    let signed = matches!(scalar, Scalar::S32 | Scalar::S16x2);
    if s.op() != Some(AbstractOp::Max) || !signed || !plain(s, s.at) {
        return None;
    }
    let sides = [s.operand(0), s.operand(1)];
    let inner = match sides.map(|operand| s.word_of(operand).is_zero()) {
        [false, true] => sides[0],
        [true, false] => sides[1],
        _ => return None,
    };
    let inner = inner.as_value().filter(|_| inner.mods().is_empty())?;
    [AbstractOp::Max, AbstractOp::Min]
        .into_iter()
        .find_map(|op| s.absorbable(inner, op))
        .filter(|&inst| plain(s, inst))
}

/// The terms of a sum or difference of words that is read only here. Sums that are part of something else on their own (of three terms, of
/// products, of shifts) are left alone: nothing is gained where one instruction is spared and another is needed.
fn added_before(s: &mut Selector<'_>, scalar: Scalar, sum: Operand) -> Option<[Source; 2]> {
    let value = sum.as_value().filter(|_| sum.mods().is_empty())?;
    let add = s.absorbable(value, AbstractOp::Add);
    let inst = match is_pair(scalar) {
        true => add?,
        false => add.or_else(|| s.absorbable(value, AbstractOp::Sub))?,
    };
    let summed = s.func.modifier::<Scalar>(inst)?;
    let alike = match scalar {
        Scalar::U32 | Scalar::S32 => matches!(summed, Scalar::U32 | Scalar::S32),
        _ => is_pair(scalar) && is_pair(summed),
    };
    let &[_, a, b] = s.func.operands(inst) else {
        return None;
    };
    use AbstractOp as A;
    let parts = [A::Add, A::Sub, A::Mul, A::Mad, A::Shl, A::Neg];
    let is_part = |term: Operand| {
        let value = term.as_value();
        value.is_some_and(|value| parts.iter().any(|&op| s.absorbable(value, op).is_some()))
    };
    if !alike || !wraps(s, inst) || is_part(a) || is_part(b) {
        return None;
    }
    let terms = [s.word_of(a), s.word_of(b)];
    if add.is_some() {
        return Some(flexible_last(terms));
    }
    // What is taken off is a register under a minus sign, or a known number turned round.
    let taken = match terms[1].constant() {
        Some(bits) => Source::imm((bits as u32).wrapping_neg()),
        None => terms[1].negated()?,
    };
    terms[0].is_register().then_some([terms[0], taken])
}

/// The two sides of the same extreme of the same type that is read only here, unless a sum is part of it.
fn same_extreme_before(
    s: &mut Selector<'_>,
    op: Option<AbstractOp>,
    scalar: Scalar,
    inner: Operand,
) -> Option<[Operand; 2]> {
    let value = inner.as_value().filter(|_| inner.mods().is_empty())?;
    let inst = s.absorbable(value, op?)?;
    if s.func.modifier::<Scalar>(inst) != Some(scalar) || !wraps(s, inst) {
        return None;
    }
    let &[_, a, b] = s.func.operands(inst) else {
        return None;
    };
    let sums = [a, b].map(|side| added_before(s, scalar, side).is_some());
    (sums == [false, false]).then_some([a, b])
}

/// Three sources that may change places, with one that is no register in the second.
fn flexible_second(mut sources: [Source; 3]) -> [Source; 3] {
    if let Some(place) = sources.iter().position(|source| !source.is_register()) {
        sources.swap(1, place);
    }
    sources
}

/// Whether `inst` does not saturate.
fn wraps(s: &Selector<'_>, inst: Inst) -> bool {
    let sat = s.func.modifier::<Sat>(inst);
    sat.is_none_or(|sat| sat == Sat::Wrap)
}

/// Whether the type is two halves in a word.
fn is_pair(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::U16x2 | Scalar::S16x2)
}
