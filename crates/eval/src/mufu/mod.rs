//! The multifunction unit: fast approximations of elementary functions, bit by bit as on the chip.
//!
//! Every function is reduced to an `interpolation` between tables of parabolas (`tables`), fitted to the results of an H200.
//! Subnormal operands and results count as zero. `cargo xtask gpu mufu` compares every operand there is.

mod interpolation;
mod tables;

use crate::float::convert::to_format;
use crate::float::{Format, Overflow, Rounding};

/// All NaNs that the unit makes.
const NAN: u32 = 0x7fff_ffff;
const INFINITY: u32 = 0x7f80_0000;
const SIGN: u32 = 0x8000_0000;
/// Bits of a single-precision number below its leading one.
const MANTISSA: u32 = 0x007f_ffff;
/// The leading one above them.
const LEADING: u32 = 0x0080_0000;
const BIAS: i32 = 127;

/// A single-precision number in parts.
struct Parts {
    negative: bool,
    /// Of the leading one, without bias.
    exponent: i32,
    /// Without the leading one.
    mantissa: u32,
    class: Class,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Zeros, and subnormal numbers, which count as such.
    Zero,
    Normal,
    Infinite,
    NotANumber,
}

impl Parts {
    fn of(x: u32) -> Self {
        let mantissa = x & MANTISSA;
        Self {
            negative: x & SIGN != 0,
            exponent: (x >> 23 & 0xff) as i32 - BIAS,
            mantissa,
            class: match x >> 23 & 0xff {
                0 => Class::Zero,
                0xff if mantissa == 0 => Class::Infinite,
                0xff => Class::NotANumber,
                _ => Class::Normal,
            },
        }
    }

    fn sign(&self) -> u32 {
        if self.negative { SIGN } else { 0 }
    }

    /// The magnitude as an integer of `fraction` bits below the point, the rest cut off; what is above 2⁶³ is lost.
    fn fixed(&self, fraction: i32) -> u64 {
        let bits = u64::from(self.mantissa | LEADING);
        match self.exponent - 23 + fraction {
            _ if self.class == Class::Zero => 0,
            left @ 0..64 => bits << left,
            64.. => 0,
            right => bits.checked_shr(right.unsigned_abs()).unwrap_or(0),
        }
    }
}

/// A number from a leading one and 23 bits below it, and the exponent of that one: zero below the normal numbers, infinite
/// above.
fn assembled(sign: u32, exponent: i32, significand: u32) -> u32 {
    match exponent + BIAS {
        ..=0 => sign,
        // A significand of 2²⁴ carries into the exponent.
        biased @ 1..255 => sign | (((biased as u32) << 23) + (significand - LEADING)),
        255.. => sign | INFINITY,
    }
}

/// The number of a fixed-point magnitude with `fraction` bits below the point, cut off to 24 bits.
fn normalised(sign: u32, magnitude: u64, fraction: i32) -> u32 {
    let Some(top) = magnitude.checked_ilog2() else {
        return sign;
    };
    let significand = match top {
        ..23 => magnitude << (23 - top),
        _ => magnitude >> (top - 23),
    };
    assembled(sign, top as i32 - fraction, significand as u32)
}

/// `MUFU.RCP`: 1 / x.
pub fn reciprocal(x: u32) -> u32 {
    let x = Parts::of(x);
    match x.class {
        Class::NotANumber => NAN,
        Class::Zero => x.sign() | INFINITY,
        Class::Infinite => x.sign(),
        Class::Normal => {
            let (exponent, significand) = reciprocal_of(x.exponent, x.mantissa);
            assembled(x.sign(), exponent, significand)
        }
    }
}

/// Exponent and significand of the reciprocal of a number that has this exponent and mantissa.
fn reciprocal_of(exponent: i32, mantissa: u32) -> (i32, u32) {
    halved(
        -exponent,
        (tables::RECIPROCAL.at(mantissa) >> tables::RECIPROCAL.place) as u32,
    )
}

/// A significand between a half and one, in units of 2⁻²⁴, as one of 24 bits with its exponent.
fn halved(exponent: i32, significand: u32) -> (i32, u32) {
    const WHOLE: u32 = LEADING << 1;
    match significand {
        WHOLE => (exponent, LEADING),
        _ => (exponent - 1, significand),
    }
}

/// `MUFU.RSQ`: 1 / √x. Negative numbers give a NaN, a zero an infinity of its sign.
pub fn reciprocal_root(x: u32) -> u32 {
    let x = Parts::of(x);
    match x.class {
        Class::NotANumber => NAN,
        Class::Zero => x.sign() | INFINITY,
        _ if x.negative => NAN,
        Class::Infinite => 0,
        Class::Normal => {
            let (exponent, significand) = reciprocal_root_of(x.exponent, x.mantissa);
            assembled(0, exponent, significand)
        }
    }
}

/// Exponent and significand of the reciprocal root. Powers of four are exact.
fn reciprocal_root_of(exponent: i32, mantissa: u32) -> (i32, u32) {
    if exponent & 1 == 0 && mantissa == 0 {
        return (-(exponent >> 1), LEADING);
    }
    let operand = two_octaves(exponent, mantissa);
    halved(
        -(exponent >> 1),
        (tables::RECIPROCAL_ROOT.at(operand) >> tables::RECIPROCAL_ROOT.place) as u32,
    )
}

/// The operand of a table of which the first half is for even and the second for odd exponents.
fn two_octaves(exponent: i32, mantissa: u32) -> u32 {
    mantissa | (exponent as u32 & 1) << 23
}

/// `MUFU.SQRT`: √x. Negative numbers give a NaN, a zero a zero of its sign.
pub fn root(x: u32) -> u32 {
    let x = Parts::of(x);
    match x.class {
        Class::NotANumber => NAN,
        Class::Zero => x.sign(),
        _ if x.negative => NAN,
        Class::Infinite => INFINITY,
        Class::Normal => {
            let significand =
                tables::ROOT.at(two_octaves(x.exponent, x.mantissa)) >> tables::ROOT.place;
            assembled(0, x.exponent >> 1, significand as u32)
        }
    }
}

/// `MUFU.EX2`: 2 to the power of x. The operand is cut off 23 bits below the point; a negative one that is not an integer then
/// is complemented, which makes it one unit less than its negation.
pub fn exponential(x: u32) -> u32 {
    let x = Parts::of(x);
    match x.class {
        Class::NotANumber => return NAN,
        _ if x.exponent >= 9 => return if x.negative { 0 } else { INFINITY },
        _ => {}
    }
    let fixed = x.fixed(23) as i64;
    let power = match (x.negative, fixed & i64::from(MANTISSA)) {
        (false, _) => fixed,
        (true, 0) => -fixed,
        (true, _) => !fixed,
    };
    let significand = tables::EXPONENTIAL.at(power as u32 & MANTISSA) >> tables::EXPONENTIAL.place;
    assembled(0, (power >> 23) as i32, significand as u32)
}

/// `MUFU.LG2`: the logarithm to the base 2. It is made with 36 bits below the point and then normalised, so that near 1 few
/// of its bits are good; a negative one is complemented instead of negated.
pub fn logarithm(x: u32) -> u32 {
    /// Bits below the point.
    const FRACTION: i32 = 36;
    let x = Parts::of(x);
    match x.class {
        Class::NotANumber => NAN,
        Class::Zero => SIGN | INFINITY,
        _ if x.negative => NAN,
        Class::Infinite => INFINITY,
        Class::Normal if x.exponent == 0 && x.mantissa == 0 => 0,
        Class::Normal => {
            // The table's results are in units of 2⁻²³.
            let table = &tables::LOGARITHM;
            let more = table.place as i32 + 23 - FRACTION;
            let sum = (i64::from(x.exponent) << FRACTION) + (table.at(x.mantissa) >> more);
            if sum < 0 {
                normalised(SIGN, !sum as u64, FRACTION)
            } else {
                normalised(0, sum as u64, FRACTION)
            }
        }
    }
}

/// `MUFU.SIN`: the sine of 2πx. The operand is cut off 25 bits below the point: 23 bits in each quarter of a turn.
pub fn sine(x: u32) -> u32 {
    let x = Parts::of(x);
    circular(&x, 0, x.sign())
}

/// `MUFU.COS`: the cosine of 2πx, a sine a quarter of a turn ahead.
pub fn cosine(x: u32) -> u32 {
    circular(&Parts::of(x), 1, 0)
}

/// The sine of |x| and some quarters of a turn. Where it falls, the complement of the place in the quarter is taken.
fn circular(x: &Parts, ahead: u32, sign: u32) -> u32 {
    if matches!(x.class, Class::NotANumber | Class::Infinite) {
        return NAN;
    }
    let turn = x.fixed(25) as u32;
    let quarter = (turn >> 23).wrapping_add(ahead) & 3;
    let place = match quarter & 1 {
        0 => turn & MANTISSA,
        _ => !turn & MANTISSA,
    };
    let sign = match quarter {
        0 | 1 => sign,
        _ => sign ^ SIGN,
    };
    // The table's results are in units of 2⁻²⁴.
    let table = &tables::SINE;
    normalised(sign, table.at(place) as u64, 24 + table.place as i32)
}

/// `MUFU.TANH`: the hyperbolic tangent. Below 2⁻⁸ it is x, subnormal or not, and from 8 on it is 1.
pub fn hyperbolic_tangent(x: u32) -> u32 {
    /// Of the first octave of the table.
    const FIRST: i32 = -8;
    /// How many bits choose an interval, for each octave.
    const INTERVALS: [u32; 11] = [0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3];
    let parts = Parts::of(x);
    match (parts.class, usize::try_from(parts.exponent - FIRST)) {
        (Class::NotANumber, _) => NAN,
        (_, Err(_)) => x,
        (_, Ok(octave)) => {
            let Some(bits) = INTERVALS.get(octave) else {
                return parts.sign() | 1f32.to_bits();
            };
            let before: u32 = INTERVALS[..octave].iter().map(|bits| 1 << bits).sum();
            let table = &tables::TANGENT;
            let below = 23 - bits;
            let interval = before + (parts.mantissa >> below);
            let place = (parts.mantissa & ((1 << below) - 1)) >> (below - table.place);
            let unit = 24 - (parts.exponent + 1).min(0);
            normalised(
                parts.sign(),
                table.at(interval << table.place | place) as u64,
                unit + table.place as i32,
            )
        }
    }
}

/// `MUFU.RCP64H`: the upper half of the reciprocal of the double whose upper half is x: 20 bits of what `MUFU.RCP` has.
pub fn reciprocal_high(x: u32) -> u32 {
    let sign = x & SIGN;
    match Upper::of(x) {
        Upper::NotANumber => NAN,
        Upper::Zero => sign | UPPER_INFINITY,
        Upper::Infinite => sign,
        Upper::Normal(exponent, mantissa) => {
            let (exponent, significand) = reciprocal_of(exponent, mantissa);
            upper(sign, exponent, significand)
        }
    }
}

/// `MUFU.RSQ64H`: the upper half of the reciprocal root, likewise.
pub fn reciprocal_root_high(x: u32) -> u32 {
    let sign = x & SIGN;
    match Upper::of(x) {
        Upper::NotANumber => NAN,
        Upper::Zero => sign | UPPER_INFINITY,
        _ if sign != 0 => NAN,
        Upper::Infinite => 0,
        Upper::Normal(exponent, mantissa) => {
            let (exponent, significand) = reciprocal_root_of(exponent, mantissa);
            upper(0, exponent, significand)
        }
    }
}

const UPPER_INFINITY: u32 = 0x7ff0_0000;

/// The upper half of a double.
enum Upper {
    /// Subnormal numbers count as zeros.
    Zero,
    /// The exponent, and the mantissa with three zeros more.
    Normal(i32, u32),
    Infinite,
    NotANumber,
}

impl Upper {
    fn of(x: u32) -> Self {
        match (x >> 20 & 0x7ff, x & 0xf_ffff) {
            (0, _) => Self::Zero,
            (0x7ff, 0) => Self::Infinite,
            (0x7ff, _) => Self::NotANumber,
            (exponent, mantissa) => Self::Normal(exponent as i32 - 1023, mantissa << 3),
        }
    }
}

/// The upper half of the double of a significand of 24 bits, cut off; zero where it would be subnormal.
fn upper(sign: u32, exponent: i32, significand: u32) -> u32 {
    match exponent + 1023 {
        ..=0 => sign,
        biased => sign | (biased as u32) << 20 | (significand & MANTISSA) >> 3,
    }
}

/// A function of single precision on a number of 16 bits (`MUFU.F16`, `MUFU.BF16`): the result is cut off.
pub fn half(format: Format, function: fn(u32) -> u32, x: u16) -> u16 {
    let cut = |from, bits, to| to_format(from, bits, to, Rounding::Zero, Overflow::Ieee);
    let result = function(cut(format, x.into(), Format::F32) as u32);
    let narrow = cut(Format::F32, result.into(), format);
    // What is beyond the range is infinite all the same.
    let beyond = 65536f32.to_bits()..=INFINITY;
    if format == Format::F16 && beyond.contains(&(result & !SIGN)) {
        return (result >> 16 & 0x8000) as u16 | 0x7c00;
    }
    narrow as u16
}

/// `FCHK`: whether a quotient of single-precision numbers needs more than a reciprocal and corrections by fused
/// multiply-adds, because an operand is special or a step could leave the range of normal numbers.
///
/// The limits are the chip's: all pairs of exponents, with six mantissas and both signs each, were tried on an H200. Signs and mantissas say nothing.
pub fn division_needs_care(a: u32, b: u32) -> bool {
    let exponent = |x: u32| (x >> 23 & 0xff) as i32;
    let (x, y) = (exponent(a), exponent(b));
    let ordinary = (25..=254).contains(&x) && (2..=251).contains(&y);
    !ordinary || y - x > 124 || x - y > 126
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_values_are_exact() {
        let of = |x: f32| x.to_bits();
        assert_eq!(reciprocal(of(0.0)), INFINITY);
        assert_eq!(reciprocal(of(-0.0)), SIGN | INFINITY);
        assert_eq!(reciprocal(1), INFINITY, "a subnormal counts as zero");
        assert_eq!(reciprocal(of(f32::NEG_INFINITY)), SIGN);
        assert_eq!(reciprocal(of(4.0)), of(0.25));
        assert_eq!(reciprocal_root(of(-1.0)), NAN);
        assert_eq!(reciprocal_root(of(-0.0)), SIGN | INFINITY);
        assert_eq!(root(of(9.0)), of(3.0));
        assert_eq!(exponential(of(-200.0)), 0);
        assert_eq!(exponential(of(3.0)), of(8.0));
        assert_eq!(logarithm(of(0.0)), SIGN | INFINITY);
        assert_eq!(logarithm(of(8.0)), of(3.0));
        assert_eq!(sine(of(f32::INFINITY)), NAN);
        assert_eq!(cosine(of(0.0)), of(1.0));
        assert_eq!(hyperbolic_tangent(of(f32::NEG_INFINITY)), of(-1.0));
        assert_eq!(reciprocal_high(0x4000_0000), 0x3fe0_0000);
        assert_eq!(reciprocal_root_high(0x4010_0000), 0x3fe0_0000);
    }

    #[test]
    fn divisions_need_care_where_the_chip_says_so() {
        let of = |exponent: u32| exponent << 23 | 0x2a_aaaa;
        let least = |a: u32| (0..256).find(|&b| !division_needs_care(of(a), of(b)));
        let most = |a: u32| (0..256).rfind(|&b| !division_needs_care(of(a), of(b)));
        let limits = |a: u32| (least(a), most(a));
        assert_eq!(limits(24), (None, None));
        assert_eq!(limits(25), (Some(2), Some(149)));
        assert_eq!(limits(127), (Some(2), Some(251)));
        assert_eq!(limits(144), (Some(18), Some(251)));
        assert_eq!(limits(254), (Some(128), Some(251)));
        assert_eq!(limits(255), (None, None));
        assert!(division_needs_care(0, of(127)), "of zero, too");
    }

    #[test]
    fn results_are_those_of_the_chip() {
        type Recorded<'a> = (fn(u32) -> u32, &'a [(u32, u32)]);
        let recorded: [Recorded<'_>; 8] = [
            (reciprocal, &[(0x3f80_0001, 0x3f7f_fffe), (0x7e80_0005, 0)]),
            (
                reciprocal_root,
                &[(0x3f80_0001, 0x3f7f_fffe), (0x4000_0000, 0x3f35_04f2)],
            ),
            (
                root,
                &[(0x3f80_0001, 0x3f80_0000), (0x4000_0001, 0x3fb5_04f4)],
            ),
            (
                exponential,
                &[(0xb280_0003, 0x3f80_0000), (0xbf80_0000, 0x3f00_0000)],
            ),
            (
                logarithm,
                &[(0x3f7f_ffff, 0xb24b_4000), (0x3f80_0001, 0x3495_f600)],
            ),
            (
                sine,
                &[
                    (0x3eff_ffff, 0),
                    (0x3e00_0002, 0x3f35_04f4),
                    (0x3f00_0000, SIGN),
                ],
            ),
            (
                cosine,
                &[(0x3e00_0002, 0x3f35_04f1), (0x3e80_0001, 0xb449_1200)],
            ),
            (
                hyperbolic_tangent,
                &[
                    (0x3b80_1003, 0x3b80_1000),
                    (0x4080_0804, 0x3f7f_d444),
                    (5, 5),
                ],
            ),
        ];
        for (function, pairs) in recorded {
            for (x, chip) in pairs {
                assert_eq!(function(*x), *chip, "of {x:#x}");
            }
        }
    }

    #[test]
    fn halves_are_cut_off() {
        let of = |format, function, x| half(format, function, x);
        assert_eq!(of(Format::F16, cosine, 7), 0x3bff);
        assert_eq!(of(Format::F16, reciprocal, 0x105), 0x7bd8);
        assert_eq!(of(Format::F16, reciprocal, 1), 0x7c00);
        assert_eq!(of(Format::BF16, exponential, 0x3bb9), 0x3f80);
        assert_eq!(of(Format::BF16, hyperbolic_tangent, 0x3b81), 0x3b80);
    }

    #[test]
    fn ordinary_quotients_take_the_short_way() {
        assert!(!division_needs_care(1f32.to_bits(), 3f32.to_bits()));
        assert!(division_needs_care(1f32.to_bits(), 0));
        assert!(division_needs_care(f32::INFINITY.to_bits(), 1f32.to_bits()));
        assert!(division_needs_care(1, 1f32.to_bits()));
    }
}
