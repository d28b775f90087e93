//! From an exact value to the nearest pattern of a format.

use super::format::{Finite, Format, Value};

/// Where a value between two representable ones goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest, ties to the even one (`.rn`).
    NearestEven,
    /// To the nearest, ties away from zero (`.rna`).
    NearestAway,
    /// Towards zero (`.rz`).
    Zero,
    /// Towards negative infinity (`.rm`).
    Down,
    /// Towards positive infinity (`.rp`).
    Up,
}

/// What happens to a magnitude beyond the largest finite one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// IEEE: infinity, or the largest finite number when rounding points towards zero there. Without infinities in the
    /// format: its NaN, or its largest number when it has none either.
    Ieee,
    /// The largest finite number (`.satfinite`).
    Largest,
}

/// Which NaN a result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NanRule {
    /// Always the one with every bit below the sign set ([`Format::nan`]).
    Canonical,
    /// The operand's, made quiet ([`Format::quiet`]).
    Carried,
}

/// Splits `digits` at `shift` and rounds the upper part. Also says whether anything was lost.
const fn round_digits(
    digits: u128,
    shift: u32,
    negative: bool,
    rounding: Rounding,
) -> (u128, bool) {
    if shift == 0 {
        return (digits, false);
    }
    let (kept, lost, half) = if shift > 127 {
        // Everything is lost, and it is less than a half: a tie would need the highest digit at the cut.
        (0, digits != 0, false)
    } else {
        let rest = digits & ((1 << shift) - 1);
        (digits >> shift, rest != 0, rest >= 1 << (shift - 1))
    };
    let above_half = shift <= 127 && digits & ((1 << shift) - 1) > 1 << (shift - 1);
    let up = match rounding {
        Rounding::NearestEven => above_half || (half && kept & 1 == 1),
        Rounding::NearestAway => half,
        Rounding::Zero => false,
        Rounding::Down => lost && negative,
        Rounding::Up => lost && !negative,
    };
    (kept + up as u128, lost)
}

/// `value` rounded to an integer multiple of `2^quantum`; the result counts in units of it.
pub const fn round_to_multiple(value: Finite, quantum: i32, rounding: Rounding) -> u128 {
    if value.significand == 0 {
        return 0;
    }
    let shift = quantum - value.exponent;
    if shift <= 0 {
        let up = (-shift) as u32;
        if up > value.significand.leading_zeros() {
            // The caller asks for more digits than there is room for: the highest multiple says "too large".
            return u128::MAX;
        }
        return value.significand << up;
    }
    round_digits(value.significand, shift as u32, value.negative, rounding).0
}

impl Format {
    /// The pattern nearest to a finite value.
    pub const fn round(self, value: Finite, rounding: Rounding, overflow: Overflow) -> u64 {
        let sign = if value.negative { self.sign_mask() } else { 0 };
        let Some(magnitude) = value.magnitude() else {
            return sign;
        };
        let scale = if magnitude < self.min_exponent() {
            self.min_exponent()
        } else {
            magnitude
        };
        let quantum = scale - self.fraction_bits as i32;
        let digits = round_to_multiple(value, quantum, rounding);
        // Adding the hidden bit into the exponent field makes subnormals, normals and the carry of rounding one case.
        let biased = (scale - self.min_exponent()) as u128;
        let pattern = (biased << self.fraction_bits) + digits;
        if pattern > self.largest() as u128 {
            let towards_zero = matches!(
                (rounding, value.negative),
                (Rounding::Zero, _) | (Rounding::Down, false) | (Rounding::Up, true)
            );
            return sign
                | match overflow {
                    Overflow::Largest => self.largest(),
                    Overflow::Ieee => match (self.infinity(), self.nan()) {
                        (Some(_), _) if towards_zero => self.largest(),
                        (Some(infinity), _) => infinity,
                        (None, Some(nan)) => nan,
                        (None, None) => self.largest(),
                    },
                };
        }
        sign | pattern as u64
    }

    /// Whether a value is subnormal where the chip flushes: rounded to the format's precision, as if exponents had no
    /// limit, it is still below the smallest normal number.
    pub const fn is_tiny(self, value: Finite, rounding: Rounding) -> bool {
        let Some(magnitude) = value.magnitude() else {
            return false;
        };
        if magnitude >= self.min_exponent() {
            return false;
        }
        let digits = round_to_multiple(value, magnitude - self.fraction_bits as i32, rounding);
        let carried = digits >> (self.fraction_bits + 1) != 0;
        !(carried && magnitude + 1 == self.min_exponent())
    }

    /// The pattern for any value; NaN and infinity become the format's own, or its largest number without them.
    pub const fn pack(
        self,
        value: Value,
        rounding: Rounding,
        overflow: Overflow,
        nans: NanRule,
    ) -> u64 {
        match value {
            Value::Finite(finite) => self.round(finite, rounding, overflow),
            Value::Nan(nan) => {
                let pattern = match nans {
                    NanRule::Canonical => self.nan(),
                    NanRule::Carried => self.quiet(nan),
                };
                match pattern {
                    Some(nan) => nan,
                    None => self.largest(),
                }
            }
            Value::Infinity { negative } => {
                let sign = if negative { self.sign_mask() } else { 0 };
                sign | match (overflow, self.infinity(), self.nan()) {
                    (Overflow::Ieee, Some(infinity), _) => infinity,
                    (Overflow::Ieee, None, Some(nan)) => nan,
                    _ => self.largest(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_stays_zero_however_far_its_exponent_is_from_the_unit() {
        for exponent in -300..300 {
            let zero = Finite {
                exponent,
                ..Finite::zero(false)
            };
            assert_eq!(round_to_multiple(zero, 0, Rounding::Zero), 0);
        }
    }
}
