//! Approximate functions, with subnormal numbers as PTX has them.
//!
//! The machine's functions take subnormal operands for zero. Without `.ftz` the operand is brought into the normal range
//! first and the result corrected: the sequences, and so the results to the last bit, are ptxas's. `sin` and `cos` take any
//! operand as they are, `tanh` too.

use super::ranges::is_normal_and_positive;
use super::{Asked, Expander, Expansion, Results, is_between};
use crate::emit::{Emit, imm, single};
use orias_ori::operation::{AbstractOp, Compare, Ftz, Precision, Round, Sat, Scalar};
use orias_ori::{Guard, Operand, Type};

pub(super) fn rule(asked: Asked) -> Option<Expansion> {
    use AbstractOp as A;
    let away = asked.modifier::<Round>() == Some(Round::Rna);
    if asked.op == A::Cvt && asked.scalar() == Scalar::Tf32 && away {
        return Some(round_to_tf32);
    }
    let precision: Precision = asked.modifier()?;
    let keeps = asked.modifier::<Ftz>() != Some(Ftz::Ftz);
    match (asked.op, asked.scalar(), precision) {
        (A::Fdiv, Scalar::F32, Precision::Approx | Precision::Full) => Some(divide),
        (A::Rcp, Scalar::F32, Precision::Approx) if keeps => Some(reciprocal),
        (A::Sqrt | A::Rsqrt | A::Lg2, Scalar::F32, Precision::Approx) if keeps => Some(raised),
        (A::Ex2, Scalar::F32, Precision::Approx) if keeps => Some(power),
        (A::Rsqrt, Scalar::F64, Precision::Approx) if keeps => Some(reciprocal_root_double),
        _ => None,
    }
}

/// `cvt.rna.tf32.f32`: half of the last place kept is added to the magnitude, and what is below is cut off. Infinities and
/// NaNs are only cut; with `.satfinite` an infinity becomes the number below it.
fn round_to_tf32(expander: &mut Expander<'_>) -> Results {
    let finite = expander.modifier::<Sat>() == Some(Sat::Satfinite);
    let a = expander.operand(0);
    expander.one(|emit| {
        // As floats: the comparison takes the magnitude by itself.
        let magnitude = emit.op(AbstractOp::Fabs, (F32,), &[a]);
        let special = emit.setp(Compare::Geu, F32, magnitude, imm(0x7f80_0000));
        let more = emit.add(a, imm(0x1000));
        let sum = emit.selp(Scalar::B32, a, more, special);
        let cut = emit.and(sum, imm(0xffff_e000));
        if !finite {
            return cut;
        }
        let magnitude = emit.and(cut, imm(0x7fff_ffff));
        let infinite = emit.setp(Compare::Eq, Scalar::U32, magnitude, imm(0x7f80_0000));
        let below = emit.sub(cut, imm(0x2000));
        emit.selp(Scalar::B32, below, cut, infinite)
    })
}

const F32: Scalar = Scalar::F32;
/// The least normal number, 2⁻¹²⁶.
const LEAST: u64 = 0x0080_0000;
/// 2¹²⁶.
const GREAT: u64 = 0x7e80_0000;
/// 2²⁴, which makes a normal number of every subnormal one.
const RAISE: f32 = 16_777_216.0;

/// The machine's function, which flushes.
fn machine(emit: &mut Emit<'_>, op: AbstractOp, a: Operand) -> Operand {
    emit.op(op, (Precision::Approx, Ftz::Ftz, F32), &[a])
}

fn multiply(emit: &mut Emit<'_>, ftz: Ftz, a: Operand, b: Operand) -> Operand {
    emit.op(AbstractOp::Fmul, (Round::Rn, ftz, F32), &[a, b])
}

/// For a divisor that is known: the factor numerator and divisor are scaled by, and the reciprocal of the scaled divisor. ptxas rounds it to
/// the nearest, other than the machine's function; none for NaNs.
fn known_reciprocal(b: f32, precision: Precision, ftz: Ftz) -> Option<(f32, f32)> {
    let flushes = ftz == Ftz::Ftz;
    let b = match b.is_subnormal() && flushes {
        true => 0.0_f32.copysign(b),
        false => b,
    };
    let scale = if precision == Precision::Full && b.abs() > f32::from_bits(GREAT as u32) {
        0.25
    } else if !flushes && b.abs() < f32::MIN_POSITIVE {
        RAISE
    } else {
        1.0
    };
    (!b.is_nan()).then_some((scale, 1.0 / (b * scale)))
}

/// `a` times a factor where a predicate holds, else `a`.
fn multiply_where(
    emit: &mut Emit<'_>,
    when: Operand,
    ftz: Ftz,
    a: Operand,
    factor: f32,
) -> Operand {
    if let Operand::Imm(bits) = a {
        let number = f32::from_bits(bits.bits() as u32);
        let scaled = number * factor;
        if number.is_normal() && scaled.is_normal() {
            return emit.selp(Scalar::B32, single(scaled), a, when);
        }
    }
    let (Some(value), Some(condition)) = (a.as_value(), when.as_value()) else {
        let scaled = multiply(emit, ftz, a, single(factor));
        return emit.selp(Scalar::B32, scaled, a, when);
    };
    let result = emit.func().create_value(Type::R);
    emit.put(
        AbstractOp::Fmul,
        (Round::Rn, ftz, F32),
        &[result.into()],
        &[a, single(factor)],
        Guard::when(condition),
        &[value],
    );
    result.into()
}

/// Whether `|a|` is a subnormal number or zero.
fn is_small(emit: &mut Emit<'_>, a: Operand) -> Operand {
    let magnitude = emit.op(AbstractOp::Fabs, (F32,), &[a]);
    emit.setp(Compare::Lt, F32, magnitude, imm(LEAST))
}

/// `div.approx` and `div.full`.
fn divide(expander: &mut Expander<'_>) -> Results {
    let precision: Precision = expander.modifier().unwrap_or(Precision::Approx);
    let ftz: Ftz = expander.modifier().unwrap_or(Ftz::Keep);
    let (a, b) = (expander.operand(0), expander.operand(1));
    expander.one(|emit| {
        let [inverse, a] = quotient_factors(emit, precision, ftz, a, b);
        multiply(emit, ftz, inverse, a)
    })
}

/// What `div.approx` and `div.full` of singles are the product of: a reciprocal and the numerator, both scaled where the divisor is
/// subnormal and, for `div.full`, where it is above 2¹²⁶, so that its reciprocal would be flushed.
pub(crate) fn quotient_factors(
    emit: &mut Emit<'_>,
    precision: Precision,
    ftz: Ftz,
    mut a: Operand,
    mut b: Operand,
) -> [Operand; 2] {
    if let Operand::Imm(bits) = b
        && let Some((scale, inverse)) =
            known_reciprocal(f32::from_bits(bits.bits() as u32), precision, ftz)
    {
        if scale != 1.0 {
            a = multiply(emit, ftz, a, single(scale));
        }
        return [single(inverse), a];
    }
    let magnitude = emit.op(AbstractOp::Fabs, (F32,), &[b]);
    let large = (precision == Precision::Full).then(|| {
        emit.op(
            AbstractOp::Setp,
            (Compare::Gt, ftz, F32),
            &[magnitude, imm(GREAT)],
        )
    });
    let may_be_small = ftz == Ftz::Keep && !is_normal_and_positive(emit.func(), b);
    let small = may_be_small.then(|| emit.setp(Compare::Lt, F32, magnitude, imm(LEAST)));
    for (scaled, factor) in [(large, 0.25), (small, RAISE)] {
        if let Some(scaled) = scaled {
            a = multiply_where(emit, scaled, ftz, a, factor);
            b = multiply_where(emit, scaled, ftz, b, factor);
        }
    }
    [machine(emit, AbstractOp::Rcp, b), a]
}

/// `rcp.approx`: scaled up where small, down where large, and the result likewise.
fn reciprocal(expander: &mut Expander<'_>) -> Results {
    let a = expander.operand(0);
    expander.one(|emit| {
        let magnitude = emit.op(AbstractOp::Fabs, (F32,), &[a]);
        let large = emit.setp(Compare::Gt, F32, magnitude, imm(GREAT));
        let scale = match is_normal_and_positive(emit.func(), a) {
            true => single(1.0),
            false => {
                let small = emit.setp(Compare::Lt, F32, magnitude, imm(LEAST));
                emit.selp(Scalar::B32, single(RAISE), single(1.0), small)
            }
        };
        let scale = emit.selp(Scalar::B32, single(0.25), scale, large);
        let scaled = multiply(emit, Ftz::Keep, a, scale);
        let inverse = machine(emit, AbstractOp::Rcp, scaled);
        multiply(emit, Ftz::Keep, scale, inverse)
    })
}

/// `sqrt.approx`, `rsqrt.approx` and `lg2.approx` of small numbers: of 2²⁴ times them, corrected.
fn raised(expander: &mut Expander<'_>) -> Results {
    let op = expander.op;
    let a = expander.operand(0);
    expander.one(|emit| {
        if is_normal_and_positive(emit.func(), a) {
            return machine(emit, op, a);
        }
        let small = is_small(emit, a);
        let up = multiply(emit, Ftz::Keep, a, single(RAISE));
        let scaled = emit.selp(Scalar::B32, up, a, small);
        let value = machine(emit, op, scaled);
        let corrected = match op {
            AbstractOp::Sqrt => multiply(emit, Ftz::Keep, value, single(1.0 / 4096.0)),
            AbstractOp::Rsqrt => multiply(emit, Ftz::Keep, value, single(4096.0)),
            _ => emit.op(AbstractOp::Fadd, (Round::Rn, F32), &[value, single(-24.0)]),
        };
        emit.selp(Scalar::B32, corrected, value, small)
    })
}

/// `ex2.approx` with a subnormal result: the square of the power of half the operand.
fn power(expander: &mut Expander<'_>) -> Results {
    let a = expander.operand(0);
    expander.one(|emit| {
        let small = emit.setp(Compare::Lt, F32, a, single(-126.0));
        let half = multiply(emit, Ftz::Keep, a, single(0.5));
        let scaled = emit.selp(Scalar::B32, half, a, small);
        let value = machine(emit, AbstractOp::Ex2, scaled);
        let square = multiply(emit, Ftz::Keep, value, value);
        emit.selp(Scalar::B32, square, value, small)
    })
}

/// `rsqrt.approx.f64`: the machine's 20 bits and one step of third order; small and special operands apart.
fn reciprocal_root_double(expander: &mut Expander<'_>) -> Results {
    let a = expander.operand(0);
    expander.rarely(
        Type::R2,
        |emit| {
            let root = root_step(emit, a);
            let (_, high) = emit.halves(a);
            let safe = is_between(emit, high, 0x0010_0000, 0x7ff0_0000);
            (root, safe)
        },
        |emit| long_reciprocal_root(emit, a),
    )
}

/// The machine's reciprocal root and one step.
fn root_step(emit: &mut Emit<'_>, a: Operand) -> Operand {
    use super::single::{dfma, dmul, dneg};
    let mods = (Precision::Approx, Ftz::Ftz, Scalar::F64);
    let y = emit.op(AbstractOp::Rsqrt, mods, &[a]);
    let square = dmul(emit, y, y);
    let minus = dneg(emit, square);
    let e = dfma(emit, a, minus, imm(1f64.to_bits()));
    let c = dfma(emit, e, imm(0.375f64.to_bits()), imm(0.5f64.to_bits()));
    let t = dmul(emit, y, e);
    dfma(emit, c, t, y)
}

/// The reciprocal root of a number that is small or special.
fn long_reciprocal_root(emit: &mut Emit<'_>, a: Operand) -> Operand {
    use super::single::dmul;
    let (low, high) = emit.halves(a);
    let magnitude = emit.and(high, imm(0x7fff_ffff));
    let positive = emit.join(low, magnitude);
    let sign = emit.and(high, imm(0x8000_0000));
    let infinity = imm(0x7ff0_0000_0000_0000);
    let zero = emit.setp(Compare::Eq, Scalar::U64, positive, imm(0));
    let nan = emit.setp(Compare::Gt, Scalar::U64, positive, infinity);
    let infinite = emit.setp(Compare::Eq, Scalar::U64, positive, infinity);
    let negative = emit.setp(Compare::Ne, Scalar::U32, sign, imm(0));
    let raised = dmul(emit, a, imm(0x4350_0000_0000_0000));
    let root = root_step(emit, raised);
    let root = dmul(emit, root, imm(0x41a0_0000_0000_0000));
    let root = emit.selp(Scalar::B64, imm(0), root, infinite);
    let root = emit.selp(Scalar::B64, imm(0xfff8_0000_0000_0000), root, negative);
    let doubled = emit.op(AbstractOp::Fadd, (Round::Rn, Scalar::F64), &[a, a]);
    let root = emit.selp(Scalar::B64, doubled, root, nan);
    let high = emit.or(sign, imm(0x7ff0_0000));
    let unbounded = emit.join(imm(0), high);
    emit.selp(Scalar::B64, unbounded, root, zero)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_divisor_is_scaled_as_an_unknown_one_would_be() {
        let full = |b: f32| known_reciprocal(b, Precision::Full, Ftz::Keep);
        assert_eq!(full(4999.0), Some((1.0, 0.000_200_040_01)));
        assert_eq!(
            full(f32::from_bits(0x7f00_0000)),
            Some((0.25, 2.0_f32.powi(-125)))
        );
        assert_eq!(
            full(f32::from_bits(0x0040_0000)),
            Some((RAISE, 2.0_f32.powi(103)))
        );
        assert_eq!(full(f32::NAN), None);
        let flushed = known_reciprocal(f32::from_bits(0x8040_0000), Precision::Full, Ftz::Ftz);
        assert_eq!(flushed, Some((1.0, f32::NEG_INFINITY)));
    }
}
