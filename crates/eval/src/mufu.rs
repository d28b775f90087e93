//! The multifunction unit: fast approximations of elementary functions.
//!
//! The chip interpolates from tables that are not public. Here the function is computed in double precision and rounded
//! once, so a result is at most the chip's own error bound plus half a unit away from the chip's: the bounds are given at
//! each function in units of the last place of the result. Inputs and results that are subnormal count as zero, as on the
//! chip, and special values are exact.

/// All NaNs that the unit makes.
const NAN: u32 = 0x7fff_ffff;
const INFINITY: u32 = 0x7f80_0000;
const SIGN: u32 = 0x8000_0000;

/// A pattern whose exponent field is zero becomes a zero of its sign.
const fn flush(x: u32) -> u32 {
    if x & INFINITY == 0 { x & SIGN } else { x }
}

fn round(value: f64) -> u32 {
    let single = value as f32;
    if single.is_nan() {
        NAN
    } else {
        flush(single.to_bits())
    }
}

fn value(x: u32) -> f64 {
    f64::from(f32::from_bits(flush(x)))
}

/// `MUFU.RCP`: 1 / x, within 1 unit.
pub fn reciprocal(x: u32) -> u32 {
    round(1.0 / value(x))
}

/// `MUFU.RSQ`: 1 / √x, within 2 units. Negative numbers give a NaN, a zero an infinity of its sign.
pub fn reciprocal_root(x: u32) -> u32 {
    match flush(x) {
        0 => INFINITY,
        SIGN => SIGN | INFINITY,
        x => round(1.0 / value(x).sqrt()),
    }
}

/// `MUFU.SQRT`: √x, within 2 units.
pub fn root(x: u32) -> u32 {
    round(value(x).sqrt())
}

/// `MUFU.EX2`: 2 to the power of x, within 2 units.
pub fn exponential(x: u32) -> u32 {
    round(value(x).exp2())
}

/// `MUFU.LG2`: the logarithm to the base 2, within 2⁻²² (near 1) or 1 unit elsewhere.
pub fn logarithm(x: u32) -> u32 {
    round(value(x).log2())
}

/// `MUFU.SIN`: the sine of 2πx, within 2⁻²⁰ for |x| at most 1.
pub fn sine(x: u32) -> u32 {
    circular(x, f64::sin)
}

/// `MUFU.COS`: the cosine of 2πx, within 2⁻²⁰ for |x| at most 1.
pub fn cosine(x: u32) -> u32 {
    circular(x, f64::cos)
}

fn circular(x: u32, function: fn(f64) -> f64) -> u32 {
    let turns = value(x);
    if !turns.is_finite() {
        return NAN;
    }
    round(function(turns.fract() * core::f64::consts::TAU))
}

/// `MUFU.TANH`: the hyperbolic tangent, within 2⁻¹¹ relative.
pub fn hyperbolic_tangent(x: u32) -> u32 {
    round(value(x).tanh())
}

/// The value of a double from its upper half, subnormal ones as zero.
fn high(x: u32) -> f64 {
    let bits = u64::from(x) << 32;
    f64::from_bits(if x & 0x7ff0_0000 == 0 {
        bits & 1 << 63
    } else {
        bits
    })
}

fn upper(value: f64) -> u32 {
    if value.is_nan() {
        return 0x7fff_ffff;
    }
    let bits = (value.to_bits() >> 32) as u32;
    if bits & 0x7ff0_0000 == 0 {
        bits & SIGN
    } else {
        bits
    }
}

/// `MUFU.RCP64H`: the upper half of the reciprocal of the double whose upper half is x, with some 20 good bits.
pub fn reciprocal_high(x: u32) -> u32 {
    upper(1.0 / high(x))
}

/// `MUFU.RSQ64H`: the upper half of the reciprocal root, with some 20 good bits.
pub fn reciprocal_root_high(x: u32) -> u32 {
    let value = high(x);
    if value == 0.0 {
        return upper(1.0 / value);
    }
    upper(1.0 / value.sqrt())
}

/// `FCHK`: whether a quotient of single-precision numbers needs more than a reciprocal and corrections by fused
/// multiply-adds, because an operand is special or a step could leave the range of normal numbers.
///
/// The chip's own limits are not published. Saying yes more often changes the way, not the quotient.
pub fn division_needs_care(a: u32, b: u32) -> bool {
    let exponent = |x: u32| (x >> 23 & 0xff) as i32;
    let (x, y) = (exponent(a), exponent(b));
    let ordinary = x > 30 && x < 252 && y > 2 && y < 252;
    !ordinary || x - y > 120 || x - y < -100
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
    fn ordinary_quotients_take_the_short_way() {
        assert!(!division_needs_care(1f32.to_bits(), 3f32.to_bits()));
        assert!(division_needs_care(1f32.to_bits(), 0));
        assert!(division_needs_care(f32::INFINITY.to_bits(), 1f32.to_bits()));
        assert!(division_needs_care(1, 1f32.to_bits()));
    }
}
