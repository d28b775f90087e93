//! Functions that a manual gives an error bound for instead of a value, computed as well as the format can hold them.
//!
//! The function is evaluated in double precision and rounded once, so the result is the nearest number of a format of up to
//! 32 bits, or its neighbour in the rare case that the exact value lies within 2⁻⁵² of the middle between two.

use crate::float::convert::to_format;
use crate::float::{Format, Overflow, Rounding};

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approximate {
    /// The sine of an angle in radians.
    Sine,
    /// The cosine of an angle in radians.
    Cosine,
    /// The logarithm to base 2.
    Log2,
    /// A power of 2.
    Exp2,
    /// The hyperbolic tangent.
    Tanh,
    /// One over it.
    Reciprocal,
    /// The square root.
    SquareRoot,
    /// One over the square root.
    ReciprocalSquareRoot,
}

impl Approximate {
    /// In double precision.
    pub fn of_f64(self, x: f64) -> f64 {
        match self {
            Self::Sine => x.sin(),
            Self::Cosine => x.cos(),
            Self::Log2 => x.log2(),
            Self::Exp2 => x.exp2(),
            Self::Tanh => x.tanh(),
            Self::Reciprocal => 1.0 / x,
            Self::SquareRoot => x.sqrt(),
            Self::ReciprocalSquareRoot => 1.0 / x.sqrt(),
        }
    }

    /// On a pattern of a format of up to 32 bits; subnormal operands and results become zeros where `flush` says so.
    pub fn apply(self, format: Format, bits: u64, flush: bool) -> u64 {
        let bits = if flush { format.flush(bits) } else { bits };
        let nearest = Rounding::NearestEven;
        let wide = to_format(format, bits, Format::F64, nearest, Overflow::Ieee);
        let result = self.of_f64(f64::from_bits(wide));
        let canonical = if result.is_nan() {
            format.nan().unwrap_or(format.largest())
        } else {
            to_format(
                Format::F64,
                result.to_bits(),
                format,
                nearest,
                Overflow::Ieee,
            )
        };
        if flush {
            format.flush(canonical)
        } else {
            canonical
        }
    }

    /// On a double of which only the upper word counts, with the lower word of the result zero (`.approx.ftz.f64`).
    pub fn apply_to_upper_word(self, bits: u64) -> u64 {
        let upper = !0xffff_ffffu64;
        let operand = Format::F64.flush(bits & upper);
        let result = self.of_f64(f64::from_bits(operand));
        if result.is_nan() {
            return 0x7fff_ffff_0000_0000;
        }
        Format::F64.flush(result.to_bits()) & upper
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(function: Approximate, x: f32, flush: bool) -> f32 {
        let bits = function.apply(Format::F32, x.to_bits().into(), flush);
        f32::from_bits(bits as u32)
    }

    #[test]
    fn special_operands_give_what_the_manual_says() {
        assert_eq!(single(Approximate::Log2, 0.0, false), f32::NEG_INFINITY);
        assert_eq!(single(Approximate::Exp2, f32::NEG_INFINITY, false), 0.0);
        assert_eq!(
            single(Approximate::ReciprocalSquareRoot, -0.0, false),
            f32::NEG_INFINITY
        );
        assert!(single(Approximate::Sine, f32::INFINITY, false).is_nan());
        assert_eq!(
            single(Approximate::Reciprocal, f32::from_bits(1), true),
            f32::INFINITY
        );
        assert_eq!(single(Approximate::Exp2, -130.0, true), 0.0);
        assert_eq!(single(Approximate::Tanh, 100.0, false), 1.0);
    }

    #[test]
    fn doubles_keep_their_upper_word() {
        let third = Approximate::Reciprocal.apply_to_upper_word(3f64.to_bits());
        assert_eq!(third & 0xffff_ffff, 0);
        assert!((f64::from_bits(third) - 1.0 / 3.0).abs() < 1e-6);
    }
}
