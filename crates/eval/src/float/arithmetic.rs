//! Arithmetic on bit patterns, as instructions do it: flush, compute once, round once, saturate.

use super::exact;
use super::format::{Finite, Format, Value};
use super::round::{NanRule, Overflow, Rounding};

/// One way of computing: the format of all operands and the result, and the modifiers an instruction carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic {
    /// Format of operands and result.
    pub format: Format,
    /// Rounding of the result.
    pub rounding: Rounding,
    /// Subnormal operands and results become zeros of their sign (`.ftz`).
    pub flush: bool,
    /// The result is clamped to [0, 1]; NaN becomes positive zero (`.sat`).
    pub saturate: bool,
    /// Which NaN comes out.
    pub nans: NanRule,
}

impl Arithmetic {
    /// To the nearest, nothing flushed, nothing clamped; NaNs carry their payload in double precision only.
    pub const fn plain(format: Format) -> Self {
        Self {
            format,
            rounding: Rounding::NearestEven,
            flush: false,
            saturate: false,
            nans: match format {
                Format::F64 => NanRule::Carried,
                _ => NanRule::Canonical,
            },
        }
    }

    const fn operand(self, bits: u64) -> Value {
        self.format.unpack(if self.flush {
            self.format.flush(bits)
        } else {
            bits
        })
    }

    const fn result(self, value: Value) -> u64 {
        let value = match value {
            Value::Finite(exact) if self.flush && self.format.is_tiny(exact, self.rounding) => {
                Value::Finite(Finite::zero(exact.negative))
            }
            _ => value,
        };
        let bits = self
            .format
            .pack(value, self.rounding, Overflow::Ieee, self.nans);
        if self.saturate {
            clamp_to_unit(self.format, bits)
        } else {
            bits
        }
    }

    /// `a + b`.
    pub const fn add(self, a: u64, b: u64) -> u64 {
        self.result(exact::add(self.operand(a), self.operand(b), self.rounding))
    }

    /// `a - b`. A NaN in `b` keeps its sign.
    pub const fn subtract(self, a: u64, b: u64) -> u64 {
        let negated = if self.format.is_nan(b) {
            b
        } else {
            b ^ self.format.sign_mask()
        };
        self.add(a, negated)
    }

    /// `a * b`.
    pub const fn multiply(self, a: u64, b: u64) -> u64 {
        self.result(exact::multiply(self.operand(a), self.operand(b)))
    }

    /// `a * b + c`, rounded once.
    pub const fn fused(self, a: u64, b: u64, c: u64) -> u64 {
        let (a, b, c) = (self.operand(a), self.operand(b), self.operand(c));
        // Of several NaNs the second factor's is carried, then the summand's, then the first factor's.
        match (a, b, c) {
            (_, Value::Nan(_), _) => self.result(b),
            (_, _, Value::Nan(_)) => self.result(c),
            _ => self.result(exact::add(exact::multiply(a, b), c, self.rounding)),
        }
    }

    /// `a * b + c`, rounded once, of halves; zero where a factor is the NaN that marks what was read out of bounds
    /// (`.oob`), whatever its sign and the other operands.
    pub const fn fused_in_bounds(self, a: u64, b: u64, c: u64) -> u64 {
        let magnitude = self.format.sign_mask() - 1;
        if a & magnitude == OUT_OF_BOUNDS || b & magnitude == OUT_OF_BOUNDS {
            0
        } else {
            self.fused(a, b, c)
        }
    }

    /// `a / b`, correctly rounded.
    pub const fn divide(self, a: u64, b: u64) -> u64 {
        self.result(exact::divide(self.operand(a), self.operand(b)))
    }

    /// The square root, correctly rounded.
    pub const fn square_root(self, a: u64) -> u64 {
        self.result(exact::square_root(self.operand(a)))
    }
}

/// The NaN that stands for elements out of bounds, in half precision and bfloat16 alike.
const OUT_OF_BOUNDS: u64 = 0x7ff7;

/// The nearest number in [0, 1]; NaN and negative zero become positive zero.
pub const fn clamp_to_unit(format: Format, bits: u64) -> u64 {
    let one = Format::round(
        format,
        Finite {
            negative: false,
            significand: 1,
            exponent: 0,
        },
        Rounding::NearestEven,
        Overflow::Ieee,
    );
    if format.is_nan(bits) || bits & format.sign_mask() != 0 {
        0
    } else if bits > one {
        // Positive patterns are ordered like the numbers they stand for, infinity last.
        one
    } else {
        bits
    }
}

/// Negative numbers become positive zero (`.relu`); a NaN stays what it is.
pub const fn rectify(format: Format, bits: u64) -> u64 {
    if !format.is_nan(bits) && bits & format.sign_mask() != 0 {
        0
    } else {
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const F32: Arithmetic = Arithmetic::plain(Format::F32);
    const F64: Arithmetic = Arithmetic::plain(Format::F64);

    fn same32(ours: u64, native: f32) {
        let ours = f32::from_bits(u32::try_from(ours).unwrap());
        assert!(
            ours.to_bits() == native.to_bits() || (ours.is_nan() && native.is_nan()),
            "{ours:e} is not {native:e}"
        );
    }

    fn same64(ours: u64, native: f64) {
        let ours = f64::from_bits(ours);
        assert!(
            ours.to_bits() == native.to_bits() || (ours.is_nan() && native.is_nan()),
            "{ours:e} is not {native:e}"
        );
    }

    /// Patterns near each other in exponent, so that sums cancel and products meet the edges.
    fn pattern32() -> impl Strategy<Value = u32> {
        prop_oneof![
            any::<u32>(),
            (any::<u32>(), 0x7du32..0x82).prop_map(|(bits, e)| bits & 0x807f_ffff | e << 23),
            any::<u32>().prop_map(|bits| bits & 0x80ff_ffff),
            Just(0x7f80_0000),
            Just(0x8000_0000),
        ]
    }

    fn pattern64() -> impl Strategy<Value = u64> {
        prop_oneof![
            any::<u64>(),
            (any::<u64>(), 0x3fdu64..0x402)
                .prop_map(|(bits, e)| bits & 0x800f_ffff_ffff_ffff | e << 52),
            any::<u64>().prop_map(|bits| bits & 0x801f_ffff_ffff_ffff),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn single_precision_agrees_with_the_host(a in pattern32(), b in pattern32(), c in pattern32()) {
            let (x, y, z) = (f32::from_bits(a), f32::from_bits(b), f32::from_bits(c));
            let (a, b, c) = (u64::from(a), u64::from(b), u64::from(c));
            same32(F32.add(a, b), x + y);
            same32(F32.multiply(a, b), x * y);
            same32(F32.fused(a, b, c), x.mul_add(y, z));
            same32(F32.divide(a, b), x / y);
            same32(F32.square_root(a), x.sqrt());
        }

        #[test]
        fn double_precision_agrees_with_the_host(a in pattern64(), b in pattern64(), c in pattern64()) {
            let (x, y, z) = (f64::from_bits(a), f64::from_bits(b), f64::from_bits(c));
            same64(F64.add(a, b), x + y);
            same64(F64.multiply(a, b), x * y);
            same64(F64.fused(a, b, c), x.mul_add(y, z));
            same64(F64.divide(a, b), x / y);
            same64(F64.square_root(a), x.sqrt());
        }

        /// Rounded down and up, a result brackets the exact one, and the two are neighbours or equal.
        #[test]
        fn directed_roundings_bracket_the_result(a in pattern32(), b in pattern32(), c in pattern32()) {
            let with = |rounding| Arithmetic { rounding, ..F32 };
            let (a, b, c) = (u64::from(a), u64::from(b), u64::from(c));
            let real = |bits: u64| f32::from_bits(u32::try_from(bits).unwrap());
            let low = real(with(Rounding::Down).fused(a, b, c));
            let high = real(with(Rounding::Up).fused(a, b, c));
            let zero = real(with(Rounding::Zero).fused(a, b, c));
            let near = real(F32.fused(a, b, c));
            if near.is_nan() {
                prop_assert!(low.is_nan() && high.is_nan() && zero.is_nan());
            } else {
                prop_assert!(low <= near && near <= high);
                prop_assert!(low == high || low.next_up() == high);
                let towards_zero = if near.is_sign_negative() { high } else { low };
                prop_assert_eq!(zero.abs(), towards_zero.abs());
            }
        }

        /// A sum of halves is exact in single precision, so rounding it once more must give the half sum.
        #[test]
        fn half_precision_agrees_with_single(a in any::<u16>(), b in any::<u16>()) {
            let half = Arithmetic::plain(Format::F16);
            let real = |bits: u16| Format::F16.unpack(u64::from(bits));
            let (Value::Finite(x), Value::Finite(y)) = (real(a), real(b)) else { return Ok(()); };
            let wide = |v: Finite| {
                let magnitude = v.significand as f64 * f64::from(v.exponent).exp2();
                if v.negative { -magnitude } else { magnitude }
            };
            let sum = wide(x) + wide(y);
            let expected = Format::F16.pack(Format::F64.unpack(sum.to_bits()), Rounding::NearestEven, Overflow::Ieee, NanRule::Canonical);
            prop_assert_eq!(half.add(a.into(), b.into()), expected);
        }
    }

    #[test]
    fn a_factor_out_of_bounds_makes_zero() {
        for (format, one) in [(Format::F16, 0x3c00), (Format::BF16, 0x3f80)] {
            let how = Arithmetic::plain(format);
            for marked in [0x7ff7, 0xfff7] {
                assert_eq!(how.fused_in_bounds(marked, one, one), 0);
                assert_eq!(how.fused_in_bounds(0x7fff, marked, 0x7fff), 0);
                // A summand is a number like others.
                assert!(format.is_nan(how.fused_in_bounds(one, one, marked)));
            }
            assert!(format.is_nan(how.fused_in_bounds(0x7fff, one, one)));
            assert_eq!(how.fused_in_bounds(one, one, 0), one);
        }
    }

    #[test]
    fn flushing_takes_operands_and_results() {
        let ftz = Arithmetic { flush: true, ..F32 };
        let tiny = 1u64;
        let negative_tiny = 0x8000_0001u64;
        let smallest_normal = 0x0080_0000u64;
        assert_eq!(ftz.add(tiny, tiny), 0);
        assert_eq!(ftz.add(negative_tiny, 0x8000_0000), 0x8000_0000);
        assert_eq!(
            ftz.multiply(smallest_normal, u64::from(0.5f32.to_bits())),
            0
        );
    }

    #[test]
    fn saturation_clamps_and_drops_nan() {
        let sat = Arithmetic {
            saturate: true,
            ..F32
        };
        let of = |x: f32| u64::from(x.to_bits());
        assert_eq!(sat.add(of(0.75), of(0.75)), of(1.0));
        assert_eq!(sat.add(of(-0.75), of(0.25)), 0);
        assert_eq!(sat.add(of(f32::INFINITY), of(f32::NEG_INFINITY)), 0);
        assert_eq!(sat.multiply(of(-0.0), of(1.0)), 0);
    }

    #[test]
    fn an_exact_zero_sum_takes_its_sign_from_the_rounding() {
        let of = |x: f32| u64::from(x.to_bits());
        let down = Arithmetic {
            rounding: Rounding::Down,
            ..F32
        };
        assert_eq!(F32.add(of(1.0), of(-1.0)), of(0.0));
        assert_eq!(down.add(of(1.0), of(-1.0)), of(-0.0));
    }
}
