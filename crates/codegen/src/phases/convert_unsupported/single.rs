//! Correctly rounded division, reciprocal and square root of single precision.
//!
//! **By double precision.** `q = a/b` of two singles is computed in double precision with an error below 2⁻⁵⁰ of it, and
//! exactly where it is a double, then rounded once more to single precision. That is the correctly rounded quotient in every
//! rounding mode: if `q` is no single and not in the middle between two, it differs from those by at least 2⁻⁴⁹ of it (for a
//! single `y`, `a − b·y` is a multiple of the product of the operands' last places), more than the error; and if it is, it has
//! 25 bits at most and so is a double, exactly. Singles of any size, subnormal ones too, are normal doubles and so are their
//! quotients, so nothing overflows on the way and the last conversion rounds to subnormal numbers as well. The same holds for
//! reciprocals and square roots. The double-precision quotient takes the machine's reciprocal (20 good bits at least), one
//! cubic step `r(1 + e + e²)` with `e = 1 − b·r`, and one correction by the remainder, which is exact.
//!
//! **In single precision.** Rounding to nearest, where nothing is near the limits of the range, a quotient takes one Newton
//! step from the machine's reciprocal and one correction by the exact remainder (Markstein); reciprocal and square root
//! likewise. Operands outside the safe range go through double precision in a block of their own.
//!
//! Zeroes, infinities and NaNs: the product of the numerator and what stands for the divisor (`±∞` for zero, `±0` for an
//! infinity, `±1` for others, itself if NaN) has the right kind and sign in all cases where one operand is special.

use super::{Asked, Expander, Expansion, Results, is_magnitude_between};
use crate::emit::{Emit, imm, single};
use orias_ori::operation::{AbstractOp, Compare, Ftz, Precision, Round, Scalar, SourceType};
use orias_ori::{Operand, Type};

pub(super) fn rule(asked: Asked) -> Option<Expansion> {
    asked.exactly(Scalar::F32, divide, reciprocal, square_root)
}

const F64: Scalar = Scalar::F64;

/// A constant of double precision.
fn double(value: f64) -> Operand {
    imm(value.to_bits())
}

/// A double-precision operation rounded to nearest.
pub(super) fn dfma(emit: &mut Emit<'_>, a: Operand, b: Operand, c: Operand) -> Operand {
    emit.ffma((Round::Rn, Ftz::Keep, F64), a, b, c)
}

pub(super) fn dmul(emit: &mut Emit<'_>, a: Operand, b: Operand) -> Operand {
    emit.op(AbstractOp::Fmul, (Round::Rn, F64), &[a, b])
}

pub(super) fn dneg(emit: &mut Emit<'_>, a: Operand) -> Operand {
    emit.op(AbstractOp::Fneg, (F64,), &[a])
}

/// `1/b` with an error of about 2⁻⁵², from the machine's approximation by one cubic step.
pub(super) fn double_reciprocal(emit: &mut Emit<'_>, b: Operand) -> Operand {
    let r = emit.op(AbstractOp::Rcp, (Precision::Approx, Ftz::Ftz, F64), &[b]);
    let minus = dneg(emit, b);
    let e = dfma(emit, minus, r, double(1.0));
    let e = dfma(emit, e, e, e);
    let r = dfma(emit, r, e, r);
    // The approximation may have as few as 20 bits: once more, from 2⁻⁵² or 2⁻⁴⁰ to what the format holds.
    let e = dfma(emit, minus, r, double(1.0));
    dfma(emit, r, e, r)
}

/// `a/b`, nearly rounded to nearest and exact where it is a double.
pub(super) fn double_quotient(emit: &mut Emit<'_>, a: Operand, b: Operand) -> Operand {
    let r = double_reciprocal(emit, b);
    let q = dmul(emit, a, r);
    let minus = dneg(emit, b);
    let rest = dfma(emit, minus, q, a);
    dfma(emit, rest, r, q)
}

/// `√a` of a normal double, nearly rounded to nearest and exact where it is a double; and half its reciprocal.
///
/// With `y ≈ 1/√a` and `e = 1 − a·y²`: `1/√a = y·(1 − e)^(−1/2) = y·(1 + e/2 + 3e²/8 + …)`.
pub(super) fn double_root(emit: &mut Emit<'_>, a: Operand) -> (Operand, Operand) {
    let y = emit.op(AbstractOp::Rsqrt, (Precision::Approx, Ftz::Ftz, F64), &[a]);
    let square = dmul(emit, y, y);
    let minus = dneg(emit, a);
    let e = dfma(emit, minus, square, double(1.0));
    let c = dfma(emit, e, double(0.375), double(0.5));
    let t = dmul(emit, y, e);
    let y = dfma(emit, c, t, y);
    let root = dmul(emit, a, y);
    let half = dmul(emit, y, double(0.5));
    let minus = dneg(emit, root);
    let rest = dfma(emit, minus, root, a);
    (dfma(emit, rest, half, root), half)
}

/// Rounds a double to single precision. Flushing looks at the number rounded as if exponents had no limit, which is done
/// 64 binary places up.
fn round_to_single(emit: &mut Emit<'_>, round: Round, ftz: Ftz, value: Operand) -> Operand {
    let mods = (round, Scalar::F32, SourceType::F64);
    let rounded = emit.op(AbstractOp::Cvt, mods, &[value]);
    if ftz == Ftz::Keep {
        return rounded;
    }
    let raised = dmul(emit, value, double(18_446_744_073_709_551_616.0));
    let raised = emit.op(AbstractOp::Cvt, mods, &[raised]);
    let magnitude = emit.op(AbstractOp::Fabs, (Scalar::F32,), &[raised]);
    // 2⁻¹²⁶ raised by 64 places.
    let tiny = emit.setp(Compare::Lt, Scalar::F32, magnitude, imm(0x2080_0000));
    let zero = emit.and(rounded, imm(0x8000_0000));
    emit.selp(Scalar::B32, zero, rounded, tiny)
}

/// A single as a double.
fn widen(emit: &mut Emit<'_>, a: Operand) -> Operand {
    match a {
        Operand::Imm(bits) => double(f64::from(f32::from_bits(bits.bits() as u32))),
        other => emit.cvt(F64, Scalar::F32, other),
    }
}

/// The operand with subnormal numbers made zero, where that is asked for.
fn flush(emit: &mut Emit<'_>, ftz: Ftz, a: Operand) -> Operand {
    match ftz {
        Ftz::Keep => a,
        Ftz::Ftz => emit.op(
            AbstractOp::Fmul,
            (Round::Rn, Ftz::Ftz, Scalar::F32),
            &[a, single(1.0)],
        ),
    }
}

/// Whether a single is neither zero nor infinite nor NaN: its magnitude less one is below that of the greatest number.
fn is_ordinary(emit: &mut Emit<'_>, magnitude: Operand) -> Operand {
    let less = emit.sub(magnitude, imm(1));
    emit.setp(Compare::Lt, Scalar::U32, less, imm(0x7f7f_ffff))
}

/// `a/b` by double precision, special operands included.
pub(super) fn quotient_by_double(
    emit: &mut Emit<'_>,
    round: Round,
    ftz: Ftz,
    a: Operand,
    b: Operand,
) -> Operand {
    let a = flush(emit, ftz, a);
    let b = flush(emit, ftz, b);
    let (x, y) = (widen(emit, a), widen(emit, b));
    let quotient = double_quotient(emit, x, y);
    let ordinary = round_to_single(emit, round, ftz, quotient);
    let a_magnitude = emit.and(a, imm(0x7fff_ffff));
    let b_magnitude = emit.and(b, imm(0x7fff_ffff));
    let infinity = imm(0x7f80_0000);
    let zero = emit.setp(Compare::Eq, Scalar::U32, b_magnitude, imm(0));
    let infinite = emit.setp(Compare::Eq, Scalar::U32, b_magnitude, infinity);
    let stand_in = emit.selp(Scalar::B32, infinity, single(1.0), zero);
    let stand_in = emit.selp(Scalar::B32, imm(0), stand_in, infinite);
    let sign = emit.and(b, imm(0x8000_0000));
    let stand_in = emit.or(stand_in, sign);
    let nan = emit.setp(Compare::Gt, Scalar::U32, b_magnitude, infinity);
    let stand_in = emit.selp(Scalar::B32, b, stand_in, nan);
    let special = emit.op(
        AbstractOp::Fmul,
        (Round::Rn, ftz, Scalar::F32),
        &[a, stand_in],
    );
    let a_ordinary = is_ordinary(emit, a_magnitude);
    let b_ordinary = is_ordinary(emit, b_magnitude);
    let both = emit.binary(AbstractOp::And, Scalar::Pred, a_ordinary, b_ordinary);
    emit.selp(Scalar::B32, ordinary, special, both)
}

fn fma(emit: &mut Emit<'_>, a: Operand, b: Operand, c: Operand) -> Operand {
    emit.ffma((Round::Rn, Ftz::Keep, Scalar::F32), a, b, c)
}

fn neg(emit: &mut Emit<'_>, a: Operand) -> Operand {
    match a {
        Operand::Imm(bits) => imm((bits.bits() ^ 0x8000_0000) & 0xffff_ffff),
        other => emit.op(AbstractOp::Fneg, (Scalar::F32,), &[other]),
    }
}

fn approximate_reciprocal(emit: &mut Emit<'_>, b: Operand) -> Operand {
    emit.op(
        AbstractOp::Rcp,
        (Precision::Approx, Ftz::Ftz, Scalar::F32),
        &[b],
    )
}

fn nearest(round: Round) -> bool {
    matches!(round, Round::Rn | Round::Default)
}

/// `div.rnd.f32`
fn divide(expander: &mut Expander<'_>) -> Results {
    let round: Round = expander.modifier().unwrap_or(Round::Rn);
    let ftz: Ftz = expander.modifier().unwrap_or(Ftz::Keep);
    let (a, b) = (expander.operand(0), expander.operand(1));
    if !nearest(round) {
        return expander.one(|emit| quotient_by_double(emit, round, ftz, a, b));
    }
    expander.rarely(
        Type::R,
        |emit| {
            let r = approximate_reciprocal(emit, b);
            let minus = neg(emit, b);
            let e = fma(emit, minus, r, single(1.0));
            let r = fma(emit, r, e, r);
            let q = emit.op(AbstractOp::Fmul, (Round::Rn, Scalar::F32), &[a, r]);
            let rest = fma(emit, minus, q, a);
            let q = fma(emit, r, rest, q);
            // Both between 2⁻⁶² and 2⁶²: the quotient and the remainder are normal numbers.
            let [a_safe, b_safe] =
                [a, b].map(|value| is_magnitude_between(emit, value, 0x2080_0000, 0x5e80_0000));
            let both = emit.binary(AbstractOp::And, Scalar::Pred, a_safe, b_safe);
            (q, both)
        },
        |emit| quotient_by_double(emit, Round::Rn, ftz, a, b),
    )
}

/// `rcp.rnd.f32`
fn reciprocal(expander: &mut Expander<'_>) -> Results {
    let round: Round = expander.modifier().unwrap_or(Round::Rn);
    let ftz: Ftz = expander.modifier().unwrap_or(Ftz::Keep);
    let b = expander.operand(0);
    if !nearest(round) {
        return expander.one(|emit| quotient_by_double(emit, round, ftz, single(1.0), b));
    }
    expander.rarely(
        Type::R,
        |emit| {
            let r = approximate_reciprocal(emit, b);
            let minus = neg(emit, b);
            let e = fma(emit, minus, r, single(1.0));
            let r = fma(emit, r, e, r);
            // Between 2⁻¹²⁴ and 2¹²⁴.
            let safe = is_magnitude_between(emit, b, 0x0180_0000, 0x7d80_0000);
            (r, safe)
        },
        |emit| quotient_by_double(emit, Round::Rn, ftz, single(1.0), b),
    )
}

/// `√a` by double precision, special operands included.
pub(super) fn root_by_double(emit: &mut Emit<'_>, round: Round, ftz: Ftz, a: Operand) -> Operand {
    let a = flush(emit, ftz, a);
    let x = widen(emit, a);
    let (root, _) = double_root(emit, x);
    let ordinary = emit.op(
        AbstractOp::Cvt,
        (round, Scalar::F32, SourceType::F64),
        &[root],
    );
    // Zeroes and the positive infinity are their own roots; other numbers that are not positive, and NaNs, have none.
    let magnitude = emit.and(a, imm(0x7fff_ffff));
    let zero = emit.setp(Compare::Eq, Scalar::U32, magnitude, imm(0));
    let infinite = emit.setp(Compare::Eq, Scalar::U32, a, imm(0x7f80_0000));
    let itself = emit.binary(AbstractOp::Or, Scalar::Pred, zero, infinite);
    let special = emit.selp(Scalar::B32, a, imm(0x7fff_ffff), itself);
    let positive = is_ordinary(emit, a);
    emit.selp(Scalar::B32, ordinary, special, positive)
}

/// `sqrt.rnd.f32`
fn square_root(expander: &mut Expander<'_>) -> Results {
    let round: Round = expander.modifier().unwrap_or(Round::Rn);
    let ftz: Ftz = expander.modifier().unwrap_or(Ftz::Keep);
    let a = expander.operand(0);
    if !nearest(round) {
        return expander.one(|emit| root_by_double(emit, round, ftz, a));
    }
    expander.rarely(
        Type::R,
        |emit| {
            let y = emit.op(
                AbstractOp::Rsqrt,
                (Precision::Approx, Ftz::Ftz, Scalar::F32),
                &[a],
            );
            let multiply = (Round::Rn, Ftz::Ftz, Scalar::F32);
            let root = emit.op(AbstractOp::Fmul, multiply, &[a, y]);
            let half = emit.op(AbstractOp::Fmul, multiply, &[y, single(0.5)]);
            let minus = neg(emit, root);
            let rest = fma(emit, minus, root, a);
            let root = fma(emit, rest, half, root);
            // Positive, and between 2⁻¹⁰¹ and the greatest number: the remainder is a normal number.
            let above = emit.sub(a, imm(0x0d00_0000));
            let safe = emit.setp(Compare::Lt, Scalar::U32, above, imm(0x7280_0000));
            (root, safe)
        },
        |emit| root_by_double(emit, Round::Rn, ftz, a),
    )
}
