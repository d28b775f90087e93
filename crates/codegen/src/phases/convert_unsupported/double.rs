//! Correctly rounded division, reciprocal and square root of double precision.
//!
//! There is no wider format to compute in. For operands well inside the range, the quotient is computed as for singles (see
//! `single`): a reciprocal good to the last places, a product, a correction by the exact remainder. That rounds to nearest.
//! Directed roundings then look at the remainder `a − b·q`, which is exact: its sign says on which side of `q` the quotient
//! lies, and `q` or the double next to it is the result. Square roots go the same way.
//!
//! Operands near the limits, and special ones, take the long way, in a block of its own: both significands are brought to
//! [1, 2), their quotient is cut to 53 bits, the remainder gives two bits more (nothing, below, at or above half of the last
//! place), and the 55 bits are rounded as integers, after a shift to the right where the result is subnormal. Every rounding
//! and every result is done by the same code.

use super::single::{dfma, dmul, dneg, double_quotient, double_reciprocal, double_root};
use super::{Asked, Expander, Expansion, Results, is_between, is_magnitude_between};
use crate::emit::{Emit, imm};
use orias_ori::operation::{AbstractOp, Compare, Round, Scalar};
use orias_ori::{Operand, Type};

pub(super) fn rule(asked: Asked) -> Option<Expansion> {
    asked.exactly(Scalar::F64, divide, reciprocal, square_root)
}

const ONE: Operand = imm(0x3ff0_0000_0000_0000);

/// Whether the high word of a double has a magnitude between 2⁻⁵⁰⁰ and 2⁵⁰⁰.
fn is_safe(emit: &mut Emit<'_>, high: Operand) -> Operand {
    is_magnitude_between(emit, high, 0x20b0_0000, 0x5f30_0000)
}

/// `value` rounded as `round` asks, where it is rounded to nearest and `rest` has the sign of what is missing.
///
/// Magnitudes of doubles are ordered like the integers of their bits, so the neighbour away from zero is one more.
fn directed(emit: &mut Emit<'_>, round: Round, value: Operand, rest: Operand) -> Operand {
    let zero = imm(0);
    let missing = emit.setp(Compare::Gt, Scalar::F64, rest, zero);
    let surplus = emit.setp(Compare::Lt, Scalar::F64, rest, zero);
    let (_, high) = emit.halves(value);
    let negative = emit.setp(Compare::Lt, Scalar::S32, high, zero);
    let more = emit.binary(AbstractOp::Add, Scalar::U64, value, imm(1));
    let less = emit.binary(AbstractOp::Sub, Scalar::U64, value, imm(1));
    // Up: a positive value grows, a negative one shrinks. Down likewise.
    let up = |emit: &mut Emit<'_>| emit.selp(Scalar::B64, less, more, negative);
    let down = |emit: &mut Emit<'_>| emit.selp(Scalar::B64, more, less, negative);
    match round {
        Round::Rp => {
            let moved = up(emit);
            emit.selp(Scalar::B64, moved, value, missing)
        }
        Round::Rm => {
            let moved = down(emit);
            emit.selp(Scalar::B64, moved, value, surplus)
        }
        Round::Rz => {
            // Too far from zero: above it for a positive value, below it for a negative one.
            let far = emit.selp(Scalar::Pred, missing, surplus, negative);
            emit.selp(Scalar::B64, less, value, far)
        }
        _ => value,
    }
}

/// `div.rnd.f64`
fn divide(expander: &mut Expander<'_>) -> Results {
    let (a, b) = (expander.operand(0), expander.operand(1));
    let round: Round = expander.modifier().unwrap_or(Round::Rn);
    quotient(expander, round, a, b)
}

/// `rcp.rnd.f64`
fn reciprocal(expander: &mut Expander<'_>) -> Results {
    let b = expander.operand(0);
    let round: Round = expander.modifier().unwrap_or(Round::Rn);
    quotient(expander, round, ONE, b)
}

fn quotient(expander: &mut Expander<'_>, round: Round, a: Operand, b: Operand) -> Results {
    // Nothing divided is by far the most frequent of what the usual computation gets wrong (the sign, in its case).
    let nothing = (a != ONE).then_some(|emit: &mut Emit<'_>| {
        let (a_low, a_high) = emit.halves(a);
        let (_, b_high) = emit.halves(b);
        let magnitude = emit.and(a_high, imm(0x7fff_ffff));
        let digits = emit.or(magnitude, a_low);
        let zero = emit.setp(Compare::Eq, Scalar::U32, digits, imm(0));
        let safe = is_safe(emit, b_high);
        let sign = emit.xor(a_high, b_high);
        let sign = emit.and(sign, imm(0x8000_0000));
        let right = emit.binary(AbstractOp::And, Scalar::Pred, zero, safe);
        (emit.join(imm(0), sign), right)
    });
    expander.rarely_in_steps(
        Type::R2,
        |emit| {
            let q = if a == ONE {
                double_reciprocal(emit, b)
            } else {
                double_quotient(emit, a, b)
            };
            let q = if a == ONE {
                // One more correction, by the exact remainder.
                let minus = dneg(emit, b);
                let rest = dfma(emit, minus, q, ONE);
                dfma(emit, rest, q, q)
            } else {
                q
            };
            let q = match round {
                Round::Rn | Round::Default => q,
                _ => {
                    let minus = dneg(emit, b);
                    let rest = dfma(emit, minus, q, a);
                    // a − b·q has the sign of what is missing times the divisor's.
                    let (_, high) = emit.halves(b);
                    let negative = emit.setp(Compare::Lt, Scalar::S32, high, imm(0));
                    let turned = dneg(emit, rest);
                    let rest = emit.selp(Scalar::B64, turned, rest, negative);
                    directed(emit, round, q, rest)
                }
            };
            let (b_low, b_high) = emit.halves(b);
            let safe = is_safe(emit, b_high);
            // The one significand whose reciprocal Newton's step rounds wrongly: all ones (Markstein).
            let ones = emit.or(b_high, imm(0xfff0_0000));
            let ones = emit.and(ones, b_low);
            let digits = emit.setp(Compare::Ne, Scalar::U32, ones, imm(0xffff_ffff));
            let safe = emit.binary(AbstractOp::And, Scalar::Pred, safe, digits);
            let safe = if a == ONE {
                safe
            } else {
                let (_, a_high) = emit.halves(a);
                let a_safe = is_safe(emit, a_high);
                emit.binary(AbstractOp::And, Scalar::Pred, safe, a_safe)
            };
            (q, safe)
        },
        nothing,
        |emit| long_quotient(emit, round, a, b),
    )
}

/// A number as significand in [1, 2) and exponent; what it is if it is special.
struct Parts {
    significand: Operand,
    exponent: Operand,
    zero: Operand,
    infinite: Operand,
    nan: Operand,
}

fn parts(emit: &mut Emit<'_>, a: Operand) -> Parts {
    let (low, high) = emit.halves(a);
    let magnitude = emit.and(high, imm(0x7fff_ffff));
    let positive = emit.join(low, magnitude);
    let zero = emit.setp(Compare::Eq, Scalar::U64, positive, imm(0));
    let infinity = imm(0x7ff0_0000_0000_0000);
    let infinite = emit.setp(Compare::Eq, Scalar::U64, positive, infinity);
    let nan = emit.setp(Compare::Gt, Scalar::U64, positive, infinity);
    // A subnormal number is 2⁵⁴ times itself, less 54 in the exponent.
    let subnormal = emit.setp(Compare::Lt, Scalar::U32, magnitude, imm(0x0010_0000));
    let raised = dmul(emit, positive, imm(0x4350_0000_0000_0000));
    let number = emit.selp(Scalar::B64, raised, positive, subnormal);
    let bias = emit.selp(Scalar::B32, imm(1023 + 54), imm(1023), subnormal);
    let (low, high) = emit.halves(number);
    let field = emit.shr(Scalar::U32, high, imm(20));
    let exponent = emit.sub(field, bias);
    let fraction = emit.and(high, imm(0x000f_ffff));
    let high = emit.or(fraction, imm(0x3ff0_0000));
    Parts {
        significand: emit.join(low, high),
        exponent,
        zero,
        infinite,
        nan,
    }
}

pub(super) fn long_quotient(emit: &mut Emit<'_>, round: Round, a: Operand, b: Operand) -> Operand {
    let x = parts(emit, a);
    let y = parts(emit, b);
    // The numerator is doubled where it is the smaller: the quotient is in [1, 2).
    let smaller = emit.setp(Compare::Lt, Scalar::F64, x.significand, y.significand);
    let doubled = dmul(emit, x.significand, imm(0x4000_0000_0000_0000));
    let numerator = emit.selp(Scalar::B64, doubled, x.significand, smaller);
    let exponent = emit.sub(x.exponent, y.exponent);
    let lower = emit.sub(exponent, imm(1));
    let exponent = emit.selp(Scalar::B32, lower, exponent, smaller);
    let quotient = double_quotient(emit, numerator, y.significand);
    // Cut: one less in the last place where it is too large.
    let minus = dneg(emit, y.significand);
    let rest = dfma(emit, minus, quotient, numerator);
    let too_large = emit.setp(Compare::Lt, Scalar::F64, rest, imm(0));
    let less = emit.binary(AbstractOp::Sub, Scalar::U64, quotient, imm(1));
    let cut = emit.selp(Scalar::B64, less, quotient, too_large);
    let rest = dfma(emit, minus, cut, numerator);
    // Two bits more: how the remainder compares with half of the divisor's last place in the quotient.
    let half = dmul(emit, y.significand, imm(0x3ca0_0000_0000_0000));
    let some = emit.setp(Compare::Gt, Scalar::F64, rest, imm(0));
    let at_least = emit.setp(Compare::Ge, Scalar::F64, rest, half);
    let above = emit.setp(Compare::Gt, Scalar::F64, rest, half);
    let tail = emit.selp(Scalar::B32, imm(1), imm(0), some);
    let tail = emit.selp(Scalar::B32, imm(2), tail, at_least);
    let tail = emit.selp(Scalar::B32, imm(3), tail, above);
    let fraction = emit.binary(AbstractOp::And, Scalar::B64, cut, imm((1 << 52) - 1));
    let digits = emit.binary(AbstractOp::Or, Scalar::B64, fraction, imm(1 << 52));
    let digits = emit.binary(AbstractOp::Shl, Scalar::B64, digits, imm(2));
    let tail = emit.join(tail, imm(0));
    let digits = emit.binary(AbstractOp::Or, Scalar::B64, digits, tail);
    // Subnormal results: shifted to the right, what is lost kept as the last bit.
    let short = emit.sub(imm((-1022_i32) as u32 as u64), exponent);
    let short = emit.binary(AbstractOp::Max, Scalar::S32, short, imm(0));
    let short = emit.binary(AbstractOp::Min, Scalar::S32, short, imm(60));
    let shifted = emit.binary(AbstractOp::Shr, Scalar::U64, digits, short);
    let back = emit.binary(AbstractOp::Shl, Scalar::B64, shifted, short);
    let lost = emit.setp(Compare::Ne, Scalar::U64, back, digits);
    let sticky = emit.selp(Scalar::B64, imm(1), imm(0), lost);
    let digits = emit.binary(AbstractOp::Or, Scalar::B64, shifted, sticky);
    // Rounding.
    let (_, a_high) = emit.halves(a);
    let (_, b_high) = emit.halves(b);
    let sign = emit.xor(a_high, b_high);
    let sign = emit.and(sign, imm(0x8000_0000));
    let negative = emit.setp(Compare::Ne, Scalar::U32, sign, imm(0));
    let (low, _) = emit.halves(digits);
    let last = emit.and(low, imm(3));
    let inexact = emit.setp(Compare::Ne, Scalar::U32, last, imm(0));
    let up = match round {
        Round::Rz => imm(0),
        Round::Rp => {
            let positive = crate::emit::not(negative);
            emit.binary(AbstractOp::And, Scalar::Pred, inexact, positive)
        }
        Round::Rm => emit.binary(AbstractOp::And, Scalar::Pred, inexact, negative),
        _ => {
            // Above half, or at half with an odd digit: the two bits and the digit before them are more than 2 together.
            let odd = emit.shr(Scalar::U32, low, imm(2));
            let odd = emit.and(odd, imm(1));
            let sum = emit.add(last, odd);
            emit.setp(Compare::Gt, Scalar::U32, sum, imm(2))
        }
    };
    let increment = emit.selp(Scalar::B64, imm(1), imm(0), up);
    let digits = emit.binary(AbstractOp::Shr, Scalar::U64, digits, imm(2));
    let digits = emit.binary(AbstractOp::Add, Scalar::U64, digits, increment);
    // The hidden digit raises the exponent by one, a carry out of the digits by another.
    let field = emit.add(exponent, imm(1022));
    let field = emit.binary(AbstractOp::Max, Scalar::S32, field, imm(0));
    let too_high = emit.setp(Compare::Gt, Scalar::S32, exponent, imm(1023));
    let high = emit.shl(field, imm(20));
    let field = emit.join(imm(0), high);
    let result = emit.binary(AbstractOp::Add, Scalar::U64, digits, field);
    let infinity = imm(0x7ff0_0000_0000_0000);
    let greatest = imm(0x7fef_ffff_ffff_ffff);
    let beyond = match round {
        Round::Rz => greatest,
        Round::Rp => emit.selp(Scalar::B64, greatest, infinity, negative),
        Round::Rm => emit.selp(Scalar::B64, infinity, greatest, negative),
        _ => infinity,
    };
    let result = emit.selp(Scalar::B64, beyond, result, too_high);
    // Special operands.
    let vanishes = emit.binary(AbstractOp::Or, Scalar::Pred, x.zero, y.infinite);
    let result = emit.selp(Scalar::B64, imm(0), result, vanishes);
    let grows = emit.binary(AbstractOp::Or, Scalar::Pred, x.infinite, y.zero);
    let result = emit.selp(Scalar::B64, infinity, result, grows);
    let sign = emit.join(imm(0), sign);
    let result = emit.binary(AbstractOp::Or, Scalar::B64, result, sign);
    let both_zero = emit.binary(AbstractOp::And, Scalar::Pred, x.zero, y.zero);
    let both_infinite = emit.binary(AbstractOp::And, Scalar::Pred, x.infinite, y.infinite);
    let invalid = emit.binary(AbstractOp::Or, Scalar::Pred, both_zero, both_infinite);
    // What the machine makes of an invalid operation.
    let result = emit.selp(Scalar::B64, imm(0xfff8_0000_0000_0000), result, invalid);
    let nan = emit.binary(AbstractOp::Or, Scalar::Pred, x.nan, y.nan);
    // Of two NaNs a sum hands on the second: the dividend's.
    let carried = emit.op(AbstractOp::Fadd, (Round::Rn, Scalar::F64), &[b, a]);
    emit.selp(Scalar::B64, carried, result, nan)
}

/// The root of a number for which the usual computation is right, rounded.
fn rounded_root(emit: &mut Emit<'_>, round: Round, a: Operand) -> Operand {
    let (root, _) = double_root(emit, a);
    match round {
        Round::Rn | Round::Default => root,
        _ => {
            let minus = dneg(emit, root);
            let rest = dfma(emit, minus, root, a);
            directed(emit, round, root, rest)
        }
    }
}

/// `sqrt.rnd.f64`
fn square_root(expander: &mut Expander<'_>) -> Results {
    let a = expander.operand(0);
    let round: Round = expander.modifier().unwrap_or(Round::Rn);
    expander.rarely(
        Type::R2,
        |emit| {
            let root = rounded_root(emit, round, a);
            // Positive, and between 2⁻⁹⁶⁸ and 2¹⁰²³: the remainder is a normal number.
            let (_, high) = emit.halves(a);
            let safe = is_between(emit, high, 0x0370_0000, 0x7fe0_0000);
            (root, safe)
        },
        |emit| long_root(emit, round, a),
    )
}

/// The root of any number.
pub(super) fn long_root(emit: &mut Emit<'_>, round: Round, a: Operand) -> Operand {
    // 2⁵⁴·4 times a small number: the root is 2²⁸ times too large, and never subnormal.
    let (_, high) = emit.halves(a);
    let small = emit.setp(Compare::Lt, Scalar::S32, high, imm(0x0400_0000));
    let raised = dmul(emit, a, imm(0x4370_0000_0000_0000));
    let number = emit.selp(Scalar::B64, raised, a, small);
    let root = rounded_root(emit, round, number);
    let lowered = dmul(emit, root, imm(0x3e30_0000_0000_0000));
    let root = emit.selp(Scalar::B64, lowered, root, small);
    let (low, high) = emit.halves(a);
    let magnitude = emit.and(high, imm(0x7fff_ffff));
    let positive = emit.join(low, magnitude);
    let zero = emit.setp(Compare::Eq, Scalar::U64, positive, imm(0));
    let infinity = imm(0x7ff0_0000_0000_0000);
    let infinite = emit.setp(Compare::Eq, Scalar::U64, a, infinity);
    let itself = emit.binary(AbstractOp::Or, Scalar::Pred, zero, infinite);
    let root = emit.selp(Scalar::B64, a, root, itself);
    let nan = emit.setp(Compare::Gt, Scalar::U64, positive, infinity);
    let negative = emit.setp(Compare::Lt, Scalar::S32, high, imm(0));
    let invalid = emit.binary(
        AbstractOp::And,
        Scalar::Pred,
        negative,
        crate::emit::not(zero),
    );
    let root = emit.selp(Scalar::B64, imm(0xfff8_0000_0000_0000), root, invalid);
    let carried = emit.op(AbstractOp::Fadd, (Round::Rn, Scalar::F64), &[a, a]);
    emit.selp(Scalar::B64, carried, root, nan)
}
