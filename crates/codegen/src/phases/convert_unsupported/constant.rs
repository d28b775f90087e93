//! Division by constants: multiplication by a reciprocal in fixed point (Granlund and Montgomery; the computation of the
//! multipliers follows Warren, *Hacker's Delight*, chapter 10).
//!
//! For an unsigned `n` of `w` bits and a divisor `d`, choose `p ≥ w` and `m = ⌈2^p / d⌉` such that
//! `m·d − 2^p ≤ 2^(p−w)`. Then `⌊n/d⌋ = ⌊m·n / 2^p⌋` for every `n < 2^w`: with `m·d = 2^p + e`, the product is
//! `n/d + n·e/(d·2^p)`, and the error `n·e/(d·2^p) < 1/d` is too small to reach the next multiple of `1/d`. Such an `m` has
//! at most `w + 1` bits. Where it has `w + 1`, the top bit is added afterwards as `(n − t)/2 + t`, which cannot overflow.
//! For a signed `n` a multiplier of `w` bits always exists with `p ≤ 2w − 1`; quotients of negative numbers are corrected by
//! one.

use crate::emit::{Emit, imm};
use orias_ori::Operand;
use orias_ori::operation::{AbstractOp, Half, Scalar};

/// Multiplier and shift of an unsigned division; whether the multiplier has one bit more than fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unsigned {
    pub multiplier: u64,
    pub shift: u32,
    pub extra: bool,
}

/// For unsigned numbers of `width` bits and a divisor that is no power of two.
pub(super) fn unsigned(divisor: u64, width: u32) -> Unsigned {
    let divisor = u128::from(divisor);
    // The least shift whose error is small enough.
    let log = 128 - (divisor - 1).leading_zeros();
    let mut shift = 0;
    while shift < log {
        let power = width + shift;
        // 2^power may be 2^127 at most.
        let m = (1_u128 << power).div_ceil(divisor);
        let error = m * divisor - (1_u128 << power);
        if error <= 1 << shift && m >> width == 0 {
            return Unsigned {
                multiplier: m as u64,
                shift,
                extra: false,
            };
        }
        shift += 1;
    }
    // ⌈2^(w+log)/d⌉ always is good enough and has w+1 bits. 2^128 does not fit: divide 2^(w+log) − 1 and add one.
    let power = width + log;
    let m = if power < 128 {
        (1_u128 << power).div_ceil(divisor)
    } else {
        u128::MAX / divisor + 1
    };
    Unsigned {
        multiplier: (m & (u128::MAX >> (128 - width))) as u64,
        shift: log,
        extra: true,
    }
}

/// Multiplier, as a number with sign, and shift of a signed division by a divisor of magnitude 2 at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Signed {
    pub multiplier: i64,
    pub shift: u32,
}

/// For signed numbers of `width` bits.
pub(super) fn signed(divisor: i64, width: u32) -> Signed {
    let magnitude = u128::from(divisor.unsigned_abs());
    let two = 1_u128 << (width - 1);
    let t = two + u128::from(divisor < 0);
    // The greatest numerator whose remainder is one less than the divisor.
    let limit = t - 1 - t % magnitude;
    let mut power = width - 1;
    let (mut q1, mut r1) = (two / limit, two % limit);
    let (mut q2, mut r2) = (two / magnitude, two % magnitude);
    loop {
        power += 1;
        (q1, r1) = (2 * q1, 2 * r1);
        if r1 >= limit {
            (q1, r1) = (q1 + 1, r1 - limit);
        }
        (q2, r2) = (2 * q2, 2 * r2);
        if r2 >= magnitude {
            (q2, r2) = (q2 + 1, r2 - magnitude);
        }
        let delta = magnitude - r2;
        if !(q1 < delta || (q1 == delta && r1 == 0)) {
            break;
        }
    }
    let multiplier = (q2 + 1) as u64;
    let up = 64 - width;
    let multiplier = ((multiplier << up) as i64) >> up;
    Signed {
        multiplier: if divisor < 0 { -multiplier } else { multiplier },
        shift: power - width,
    }
}

/// The quotient of `a` and a constant, which is not zero; of a 32- or 64-bit type.
pub(super) fn quotient(emit: &mut Emit<'_>, scalar: Scalar, a: Operand, divisor: u64) -> Operand {
    let width = u32::from(scalar.bits());
    let (unsigned_type, signed_type, bits_type) = if width == 64 {
        (Scalar::U64, Scalar::S64, Scalar::B64)
    } else {
        (Scalar::U32, Scalar::S32, Scalar::B32)
    };
    let mask = u64::MAX >> (64 - width);
    let high = |emit: &mut Emit<'_>, ty: Scalar, multiplier: u64| {
        let factor = imm(multiplier & mask);
        emit.op(AbstractOp::Mul, (Half::Hi, ty), &[a, factor])
    };
    let shift = |emit: &mut Emit<'_>, ty: Scalar, value: Operand, by: u32| match by {
        0 => value,
        by => emit.binary(AbstractOp::Shr, ty, value, imm(by.into())),
    };
    if scalar == unsigned_type {
        let divisor = divisor & mask;
        if divisor == 1 {
            return a;
        }
        if divisor.is_power_of_two() {
            return shift(emit, unsigned_type, a, divisor.trailing_zeros());
        }
        let magic = unsigned(divisor, width);
        let t = high(emit, unsigned_type, magic.multiplier);
        if !magic.extra {
            return shift(emit, unsigned_type, t, magic.shift);
        }
        let rest = emit.binary(AbstractOp::Sub, unsigned_type, a, t);
        let half = shift(emit, unsigned_type, rest, 1);
        let sum = emit.binary(AbstractOp::Add, unsigned_type, half, t);
        return shift(emit, unsigned_type, sum, magic.shift - 1);
    }
    let up = 64 - width;
    let divisor = ((divisor << up) as i64) >> up;
    let negate =
        |emit: &mut Emit<'_>, value: Operand| emit.op(AbstractOp::Neg, (signed_type,), &[value]);
    match divisor {
        1 => return a,
        -1 => return negate(emit, a),
        _ => {}
    }
    if divisor.unsigned_abs().is_power_of_two() {
        // Towards zero: the divisor less one is added to negative numbers first.
        let log = divisor.unsigned_abs().trailing_zeros();
        if log == width - 1 {
            // Only the least number has this magnitude; its quotient is one, all others' are zero.
            let same = emit.setp(
                orias_ori::operation::Compare::Eq,
                unsigned_type,
                a,
                imm(divisor as u64 & mask),
            );
            return emit.selp(bits_type, imm(1), imm(0), same);
        }
        let sign = shift(emit, signed_type, a, width - 1);
        let bias = shift(emit, unsigned_type, sign, width - log);
        let sum = emit.binary(AbstractOp::Add, unsigned_type, a, bias);
        let result = shift(emit, signed_type, sum, log);
        return if divisor < 0 {
            negate(emit, result)
        } else {
            result
        };
    }
    let magic = signed(divisor, width);
    let mut t = high(emit, signed_type, magic.multiplier as u64);
    if divisor > 0 && magic.multiplier < 0 {
        t = emit.binary(AbstractOp::Add, unsigned_type, t, a);
    } else if divisor < 0 && magic.multiplier > 0 {
        t = emit.binary(AbstractOp::Sub, unsigned_type, t, a);
    }
    let t = shift(emit, signed_type, t, magic.shift);
    let one = shift(emit, unsigned_type, t, width - 1);
    emit.binary(AbstractOp::Add, unsigned_type, t, one)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Divisors near powers of two, small ones, large ones.
    fn divisors(width: u32) -> Vec<u64> {
        let mask = u64::MAX >> (64 - width);
        let mut all: Vec<u64> = (3..200).collect();
        for log in 2..width {
            for offset in [-3_i64, -2, -1, 1, 2, 3] {
                all.push((1_u64 << log).wrapping_add_signed(offset) & mask);
            }
        }
        all.extend([
            mask,
            mask - 1,
            mask / 3,
            641,
            6_700_417 & mask,
            1_000_000_007 & mask,
        ]);
        all.retain(|&it| it > 2 && !it.is_power_of_two());
        all
    }

    fn numerators(divisor: u64, width: u32) -> Vec<u64> {
        let mask = u64::MAX >> (64 - width);
        let mut all = vec![0, 1, mask, mask - 1, mask >> 1, (mask >> 1) + 1];
        let mut random = orias_random::Rng::new(divisor);
        for _ in 0..20 {
            let number = random.next_u64() & mask;
            let multiple = number / divisor * divisor;
            all.extend([multiple, multiple.wrapping_sub(1) & mask, number]);
        }
        all
    }

    #[test]
    fn unsigned_multipliers_divide_exactly() {
        for width in [32, 64] {
            for divisor in divisors(width) {
                let magic = unsigned(divisor, width);
                let full = u128::from(magic.multiplier) | u128::from(magic.extra) << width;
                for n in numerators(divisor, width) {
                    // m has up to 65 bits and n up to 64: multiply in two halves.
                    let low = full * u128::from(n & 0xffff_ffff);
                    let high = full * u128::from(n >> 32);
                    let sum = high + (low >> 32);
                    let quotient = sum >> (width + magic.shift - 32);
                    assert_eq!(quotient as u64, n / divisor, "{n} / {divisor}");
                }
            }
        }
    }

    #[test]
    fn signed_multipliers_divide_exactly() {
        for width in [32, 64] {
            let up = 64 - width;
            for divisor in divisors(width) {
                let divisor = ((divisor << up) as i64) >> up;
                if divisor.unsigned_abs() < 3 || divisor.unsigned_abs().is_power_of_two() {
                    continue;
                }
                let magic = signed(divisor, width);
                for n in numerators(divisor.unsigned_abs(), width) {
                    let n = ((n << up) as i64) >> up;
                    let mut t = ((i128::from(magic.multiplier) * i128::from(n)) >> width) as i64;
                    if divisor > 0 && magic.multiplier < 0 {
                        t = t.wrapping_add(n);
                    } else if divisor < 0 && magic.multiplier > 0 {
                        t = t.wrapping_sub(n);
                    }
                    let t = ((t << up) >> up) >> magic.shift;
                    let t = t + i64::from(t < 0);
                    assert_eq!(t, n / divisor, "{n} / {divisor} in {width} bits");
                }
            }
        }
    }
}
