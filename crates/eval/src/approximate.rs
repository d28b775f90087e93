//! PTX's approximate functions, to the last bit as an H200 gives them.
//!
//! The manual gives an error bound instead of a value. What ptxas makes of them is the [multifunction unit](crate::mufu), which
//! takes subnormal numbers for zeros; without `.ftz` the operand is brought into the normal range first and the result
//! corrected. The sequences, and so all bits of the results, are those of the finished code.

use crate::float::{Arithmetic, Format, Rounding};
use crate::mufu;

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

/// The least normal number, 2⁻¹²⁶.
const LEAST: u32 = 0x0080_0000;
/// 2¹²⁶: the reciprocals of larger numbers are subnormal.
const GREAT: u32 = 0x7e80_0000;
const INFINITY: u32 = 0x7f80_0000;
/// 2²⁴, which makes a normal number of every subnormal one.
const RAISE: f32 = 16_777_216.0;
const MAGNITUDE: u32 = 0x7fff_ffff;

fn multiply(a: u32, b: f32) -> u32 {
    how(Rounding::NearestEven, false).multiply(a.into(), b.to_bits().into()) as u32
}

const fn how(rounding: Rounding, flush: bool) -> Arithmetic {
    Arithmetic {
        rounding,
        flush,
        ..Arithmetic::plain(Format::F32)
    }
}

impl Approximate {
    /// The unit's function. It counts angles in turns.
    const fn machine(self) -> fn(u32) -> u32 {
        match self {
            Self::Sine => mufu::sine,
            Self::Cosine => mufu::cosine,
            Self::Log2 => mufu::logarithm,
            Self::Exp2 => mufu::exponential,
            Self::Tanh => mufu::hyperbolic_tangent,
            Self::Reciprocal => mufu::reciprocal,
            Self::SquareRoot => mufu::root,
            Self::ReciprocalSquareRoot => mufu::reciprocal_root,
        }
    }

    /// On a pattern of a format, with `.ftz` where `flush` says so. In double precision there are the reciprocal with `.ftz` and
    /// the reciprocal root; another function of it is none.
    pub fn apply(self, format: Format, bits: u64, flush: bool) -> Option<u64> {
        let upper = (bits >> 32) as u32;
        Some(match (format, self) {
            (Format::F32, _) => self.single(bits as u32, flush).into(),
            (Format::F16 | Format::BF16, _) => {
                mufu::half(format, self.machine(), bits as u16).into()
            }
            (Format::F64, Self::Reciprocal) if flush => {
                u64::from(mufu::reciprocal_high(upper)) << 32
            }
            (Format::F64, Self::ReciprocalSquareRoot) if flush => {
                u64::from(mufu::reciprocal_root_high(upper)) << 32
            }
            (Format::F64, Self::ReciprocalSquareRoot) => reciprocal_root(bits),
            _ => return None,
        })
    }

    fn single(self, x: u32, flush: bool) -> u32 {
        let function = self.machine();
        let small = x & MAGNITUDE < LEAST;
        match self {
            Self::Sine | Self::Cosine => {
                let turns = core::f32::consts::FRAC_1_PI / 2.0;
                let cut = how(Rounding::Zero, false);
                function(cut.multiply(x.into(), turns.to_bits().into()) as u32)
            }
            Self::Tanh => function(x),
            _ if flush => function(x),
            Self::Reciprocal => {
                let scale = match x & MAGNITUDE {
                    ..LEAST => RAISE,
                    GREAT.. if x & MAGNITUDE > GREAT && x & MAGNITUDE <= INFINITY => 0.25,
                    _ => 1.0,
                };
                multiply(function(multiply(x, scale)), scale)
            }
            // A power that would be subnormal is the square of a root of it.
            Self::Exp2 if f32::from_bits(x) < -126.0 => {
                let root = function(multiply(x, 0.5));
                multiply(root, f32::from_bits(root))
            }
            Self::Log2 if small => {
                let sum = how(Rounding::NearestEven, false);
                let raised = function(multiply(x, RAISE));
                sum.add(raised.into(), (-24f32).to_bits().into()) as u32
            }
            Self::SquareRoot if small => multiply(function(multiply(x, RAISE)), 1.0 / 4096.0),
            Self::ReciprocalSquareRoot if small => multiply(function(multiply(x, RAISE)), 4096.0),
            _ => function(x),
        }
    }
}

/// `div.approx.f32`, and `div.full.f32`, which also scales divisors whose reciprocals would be flushed.
pub fn divide(a: u32, b: u32, flush: bool, full: bool) -> u32 {
    let how = how(Rounding::NearestEven, flush);
    let (mut a, mut b) = (u64::from(a), u64::from(b));
    let magnitude = b as u32 & MAGNITUDE;
    let large = full && magnitude > GREAT && magnitude <= INFINITY;
    let small = !flush && magnitude < LEAST;
    for (scaled, factor) in [(large, 0.25f32), (small, RAISE)] {
        if scaled {
            a = how.multiply(a, factor.to_bits().into());
            b = how.multiply(b, factor.to_bits().into());
        }
    }
    how.multiply(mufu::reciprocal(b as u32).into(), a) as u32
}

/// `rsqrt.approx.f64`: the unit's 20 bits and one step of third order; small and special operands apart.
fn reciprocal_root(a: u64) -> u64 {
    const SIGN: u64 = 1 << 63;
    const INFINITY: u64 = 0x7ff0_0000_0000_0000;
    let how = Arithmetic::plain(Format::F64);
    let step = |a: u64| {
        let y = u64::from(mufu::reciprocal_root_high((a >> 32) as u32)) << 32;
        let square = how.multiply(y, y);
        let e = how.fused(a, square ^ SIGN, 1f64.to_bits());
        let c = how.fused(e, 0.375f64.to_bits(), 0.5f64.to_bits());
        how.fused(c, how.multiply(y, e), y)
    };
    let high = (a >> 32) as u32;
    if high.wrapping_sub(0x0010_0000) < 0x7fe0_0000 {
        return step(a);
    }
    match a & !SIGN {
        0 => a & SIGN | INFINITY,
        magnitude if magnitude > INFINITY => how.add(a, a),
        _ if a & SIGN != 0 => 0xfff8_0000_0000_0000,
        INFINITY => 0,
        // 2⁵⁴ up, 2²⁷ back.
        _ => how.multiply(
            step(how.multiply(a, 0x4350_0000_0000_0000)),
            0x41a0_0000_0000_0000,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(function: Approximate, x: f32, flush: bool) -> f32 {
        let bits = function.apply(Format::F32, x.to_bits().into(), flush);
        f32::from_bits(bits.unwrap() as u32)
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
    fn subnormal_numbers_count_without_ftz() {
        let least = f32::from_bits(1);
        assert_eq!(single(Approximate::Log2, least, false), -149.0);
        assert_eq!(single(Approximate::Exp2, -149.0, false), least);
        assert_eq!(
            single(Approximate::Reciprocal, 2f32.powi(127), false),
            2f32.powi(-127)
        );
        assert_eq!(
            single(Approximate::SquareRoot, 2f32.powi(-148), false),
            2f32.powi(-74)
        );
    }

    #[test]
    fn doubles_keep_their_upper_word() {
        let third = Approximate::Reciprocal.apply(Format::F64, 3f64.to_bits(), true);
        let third = third.unwrap();
        assert_eq!(third & 0xffff_ffff, 0);
        assert!((f64::from_bits(third) - 1.0 / 3.0).abs() < 1e-6);
        assert_eq!(Approximate::Sine.apply(Format::F64, 0, false), None);
        let half = Approximate::ReciprocalSquareRoot.apply(Format::F64, 4f64.to_bits(), false);
        assert_eq!(half, Some(0.5f64.to_bits()));
    }

    #[test]
    fn quotients_of_large_divisors_need_the_full_form() {
        let (a, b) = (1f32.to_bits(), 2f32.powi(127).to_bits());
        assert_eq!(divide(a, b, false, false), 0);
        assert_eq!(divide(a, b, false, true), 2f32.powi(-127).to_bits());
    }
}
