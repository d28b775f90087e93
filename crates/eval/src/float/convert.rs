//! Conversions between floating-point formats and between them and integers.

use super::format::{Finite, Format, Value};
use super::round::{NanRule, Overflow, Rounding, round_to_multiple};

/// Which NaN a conversion from one format makes: the FP64 pipe carries the payload, the others do not.
const fn nan_rule(from: Format, to: Format) -> NanRule {
    if matches!(from, Format::F64) || matches!(to, Format::F64) {
        NanRule::Carried
    } else {
        NanRule::Canonical
    }
}

/// `bits` of one format in another.
pub const fn to_format(
    from: Format,
    bits: u64,
    to: Format,
    rounding: Rounding,
    overflow: Overflow,
) -> u64 {
    to.pack(from.unpack(bits), rounding, overflow, nan_rule(from, to))
}

/// Rounded to an integer, in the same format (`cvt.rni.f32.f32`). Zero keeps the sign of what it came from.
pub const fn to_integral(format: Format, bits: u64, rounding: Rounding) -> u64 {
    match format.unpack(bits) {
        Value::Finite(value) if value.exponent < 0 => {
            let rounded = Finite {
                negative: value.negative,
                significand: round_to_multiple(value, 0, rounding),
                exponent: 0,
            };
            format.round(rounded, rounding, Overflow::Ieee)
        }
        Value::Finite(_) => bits,
        other => format.pack(other, rounding, Overflow::Ieee, nan_rule(format, format)),
    }
}

/// An integer type of up to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integer {
    /// Number of bits, 1 to 64.
    pub bits: u32,
    /// Whether the highest bit is a sign.
    pub signed: bool,
}

impl Integer {
    /// The largest value.
    pub const fn max(self) -> u64 {
        u64::MAX >> (64 - self.bits + self.signed as u32)
    }

    /// The magnitude of the smallest value.
    const fn min_magnitude(self) -> u64 {
        if self.signed { 1 << (self.bits - 1) } else { 0 }
    }

    /// The bits of a pattern that belong to the type.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// Sign and magnitude of a pattern.
    const fn magnitude(self, pattern: u64) -> (bool, u64) {
        let pattern = pattern & self.mask();
        if self.signed && pattern >> (self.bits - 1) == 1 {
            (true, pattern.wrapping_neg() & self.mask())
        } else {
            (false, pattern)
        }
    }
}

/// A number as an integer, clamped to the type's range (`cvt.rzi.s32.f32`). `nan` is what a NaN becomes, which differs
/// between instructions.
pub const fn to_integer(
    format: Format,
    bits: u64,
    to: Integer,
    rounding: Rounding,
    nan: u64,
) -> u64 {
    let (negative, magnitude) = match format.unpack(bits) {
        Value::Nan(_) => return nan,
        Value::Infinity { negative } => (negative, u128::MAX),
        Value::Finite(value) => (value.negative, round_to_multiple(value, 0, rounding)),
    };
    let limit = if negative {
        to.min_magnitude()
    } else {
        to.max()
    } as u128;
    let clamped = if magnitude > limit { limit } else { magnitude } as u64;
    (if negative {
        clamped.wrapping_neg()
    } else {
        clamped
    }) & to.mask()
}

/// An integer as a number (`cvt.rn.f32.s64`).
pub const fn from_integer(from: Integer, pattern: u64, to: Format, rounding: Rounding) -> u64 {
    let (negative, magnitude) = from.magnitude(pattern);
    to.round(
        Finite {
            negative,
            significand: magnitude as u128,
            exponent: 0,
        },
        rounding,
        Overflow::Ieee,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S32: Integer = Integer {
        bits: 32,
        signed: true,
    };
    const U64: Integer = Integer {
        bits: 64,
        signed: false,
    };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn conversions_agree_with_the_host(x in any::<f32>(), y in any::<f64>(), n in any::<i64>()) {
            let x64 = u64::from(x.to_bits());
            if !x.is_nan() {
                prop_assert_eq!(to_integer(Format::F32, x64, S32, Rounding::Zero, 0) as u32, (x as i32).cast_unsigned());
                prop_assert_eq!(to_integer(Format::F32, x64, U64, Rounding::Zero, 0), x as u64);
                prop_assert_eq!(to_integral(Format::F32, x64, Rounding::Down) as u32, x.floor().to_bits());
                prop_assert_eq!(to_integral(Format::F32, x64, Rounding::Up) as u32, x.ceil().to_bits());
                prop_assert_eq!(to_integral(Format::F32, x64, Rounding::NearestEven) as u32, x.round_ties_even().to_bits());
            }
            if !y.is_nan() {
                let narrow = to_format(Format::F64, y.to_bits(), Format::F32, Rounding::NearestEven, Overflow::Ieee);
                prop_assert_eq!(narrow as u32, (y as f32).to_bits());
            }
            let s64 = Integer { bits: 64, signed: true };
            prop_assert_eq!(from_integer(s64, n.cast_unsigned(), Format::F32, Rounding::NearestEven) as u32, (n as f32).to_bits());
            prop_assert_eq!(from_integer(U64, n.cast_unsigned(), Format::F64, Rounding::NearestEven), (n.cast_unsigned() as f64).to_bits());
        }
    }

    #[test]
    fn every_pattern_of_a_narrow_format_survives_a_wider_one() {
        for format in [
            Format::E4M3,
            Format::E5M2,
            Format::E3M2,
            Format::E2M3,
            Format::E2M1,
            Format::F16,
            Format::BF16,
        ] {
            for bits in 0..1u64 << format.width() {
                if format.is_nan(bits) {
                    continue;
                }
                let wide = to_format(
                    format,
                    bits,
                    Format::F32,
                    Rounding::NearestEven,
                    Overflow::Ieee,
                );
                let back = to_format(
                    Format::F32,
                    wide,
                    format,
                    Rounding::NearestEven,
                    Overflow::Ieee,
                );
                assert_eq!(back, bits, "{format:?} {bits:#x}");
            }
        }
    }

    #[test]
    fn known_limits_of_the_eight_bit_formats() {
        let of = |x: f32| u64::from(x.to_bits());
        let e4m3 = |x: f32, overflow| {
            to_format(
                Format::F32,
                of(x),
                Format::E4M3,
                Rounding::NearestEven,
                overflow,
            )
        };
        assert_eq!(e4m3(448.0, Overflow::Largest), 0x7e);
        assert_eq!(e4m3(1e9, Overflow::Largest), 0x7e);
        assert_eq!(e4m3(f32::NEG_INFINITY, Overflow::Largest), 0xfe);
        assert_eq!(e4m3(f32::NAN, Overflow::Largest), 0x7f);
        assert_eq!(
            e4m3(464.0, Overflow::Ieee),
            0x7e,
            "a tie goes to the even digit, which is the largest number"
        );
        assert_eq!(e4m3(465.0, Overflow::Ieee), 0x7f);
        assert_eq!(e4m3(2f32.powi(-9), Overflow::Ieee), 1);
        let e5m2 = to_format(
            Format::F32,
            of(57344.0),
            Format::E5M2,
            Rounding::NearestEven,
            Overflow::Ieee,
        );
        assert_eq!(e5m2, 0x7b);
    }

    #[test]
    fn integers_are_clamped_at_both_ends() {
        let s8 = Integer {
            bits: 8,
            signed: true,
        };
        let of = |x: f32| u64::from(x.to_bits());
        assert_eq!(
            to_integer(Format::F32, of(-300.0), s8, Rounding::Zero, 0),
            0x80
        );
        assert_eq!(
            to_integer(Format::F32, of(300.0), s8, Rounding::Zero, 0),
            0x7f
        );
        assert_eq!(to_integer(Format::F32, of(-1.0), U64, Rounding::Zero, 0), 0);
        assert_eq!(
            to_integer(Format::F32, of(f32::NAN), s8, Rounding::Zero, 0x80),
            0x80
        );
    }
}
