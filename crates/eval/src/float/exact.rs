//! Sums, products, quotients and roots of exact values, precise enough to round once to any format.
//!
//! Where both operands are NaNs, the second one's payload is carried, as double-precision arithmetic on the chip does; in a
//! quotient it is the first one's.

use super::format::{Finite, Nan, Value};
use super::round::Rounding;

/// The highest digit's place while two numbers are added: one place is left for the carry.
const TOP: u32 = 125;

/// Moves the digits so that the highest stands at [`TOP`]. The digits of every format and of their products fit below.
const fn normalise(value: Finite) -> Finite {
    let top = 127 - value.significand.leading_zeros();
    let up = TOP as i32 - top as i32;
    Finite {
        negative: value.negative,
        significand: value.significand << up,
        exponent: value.exponent - up,
    }
}

/// Shifts right, remembering in the lowest digit that something was lost.
const fn shift_sticky(digits: u128, by: u32) -> u128 {
    if by == 0 {
        digits
    } else if by > 127 {
        (digits != 0) as u128
    } else {
        digits >> by | (digits & ((1 << by) - 1) != 0) as u128
    }
}

/// `a + b`. The sign of an exact zero sum depends on the rounding: negative only when rounding down.
pub const fn add(a: Value, b: Value, rounding: Rounding) -> Value {
    let (a, b) = match (a, b) {
        (_, Value::Nan(_)) => return b,
        (Value::Nan(_), _) => return a,
        (Value::Infinity { negative: x }, Value::Infinity { negative: y }) => {
            return if x == y { a } else { Value::Nan(Nan::INVALID) };
        }
        (Value::Infinity { .. }, _) => return a,
        (_, Value::Infinity { .. }) => return b,
        (Value::Finite(a), Value::Finite(b)) => (a, b),
    };
    let down = matches!(rounding, Rounding::Down);
    if a.significand == 0 && b.significand == 0 {
        let negative = if a.negative == b.negative {
            a.negative
        } else {
            down
        };
        return Value::Finite(Finite::zero(negative));
    }
    if a.significand == 0 {
        return Value::Finite(b);
    }
    if b.significand == 0 {
        return Value::Finite(a);
    }
    let (a, b) = (normalise(a), normalise(b));
    let (large, small) = if a.exponent > b.exponent
        || (a.exponent == b.exponent && a.significand >= b.significand)
    {
        (a, b)
    } else {
        (b, a)
    };
    let aligned = shift_sticky(small.significand, (large.exponent - small.exponent) as u32);
    let significand = if large.negative == small.negative {
        large.significand + aligned
    } else {
        large.significand - aligned
    };
    if significand == 0 {
        return Value::Finite(Finite::zero(down));
    }
    Value::Finite(Finite {
        negative: large.negative,
        significand,
        exponent: large.exponent,
    })
}

/// `a * b`, exact: the significands of two formats have at most 106 digits together.
pub const fn multiply(a: Value, b: Value) -> Value {
    match (a, b) {
        (_, Value::Nan(_)) => b,
        (Value::Nan(_), _) => a,
        (Value::Infinity { negative: x }, Value::Infinity { negative: y }) => {
            Value::Infinity { negative: x != y }
        }
        (Value::Infinity { negative }, Value::Finite(f))
        | (Value::Finite(f), Value::Infinity { negative }) => {
            if f.significand == 0 {
                Value::Nan(Nan::INVALID)
            } else {
                Value::Infinity {
                    negative: negative != f.negative,
                }
            }
        }
        (Value::Finite(a), Value::Finite(b)) => Value::Finite(Finite {
            negative: a.negative != b.negative,
            significand: a.significand * b.significand,
            exponent: a.exponent + b.exponent,
        }),
    }
}

/// `a / b`, with 64 or more digits of the quotient and a sticky one below.
pub const fn divide(a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::Nan(_), _) => a,
        (_, Value::Nan(_)) => b,
        (Value::Infinity { .. }, Value::Infinity { .. }) => Value::Nan(Nan::INVALID),
        (Value::Infinity { negative }, Value::Finite(f)) => Value::Infinity {
            negative: negative != f.negative,
        },
        (Value::Finite(f), Value::Infinity { negative }) => {
            Value::Finite(Finite::zero(negative != f.negative))
        }
        (Value::Finite(a), Value::Finite(b)) => {
            let negative = a.negative != b.negative;
            if b.significand == 0 {
                return if a.significand == 0 {
                    Value::Nan(Nan::INVALID)
                } else {
                    Value::Infinity { negative }
                };
            }
            if a.significand == 0 {
                return Value::Finite(Finite::zero(negative));
            }
            let a = normalise(a);
            // A divisor of at most 53 digits below a dividend of 126 leaves a quotient of more than 70.
            let quotient = a.significand / b.significand;
            let sticky = !a.significand.is_multiple_of(b.significand) as u128;
            Value::Finite(Finite {
                negative,
                significand: quotient << 1 | sticky,
                exponent: a.exponent - b.exponent - 1,
            })
        }
    }
}

/// The square root, with 62 or more digits and a sticky one below.
pub const fn square_root(a: Value) -> Value {
    let a = match a {
        Value::Nan(_) => return a,
        Value::Infinity { negative: true } => return Value::Nan(Nan::INVALID),
        Value::Infinity { negative: false } => return a,
        Value::Finite(a) => a,
    };
    if a.significand == 0 {
        return Value::Finite(a);
    }
    if a.negative {
        return Value::Nan(Nan::INVALID);
    }
    let mut a = normalise(a);
    if a.exponent % 2 != 0 {
        a.significand >>= 1;
        a.exponent += 1;
    }
    // Digit by digit: `root` stays the largest integer whose square is at most the digits looked at.
    let mut root: u128 = 0;
    let mut bit: u128 = 1 << 62;
    while bit != 0 {
        let candidate = root | bit;
        if candidate * candidate <= a.significand {
            root = candidate;
        }
        bit >>= 1;
    }
    let sticky = (root * root != a.significand) as u128;
    Value::Finite(Finite {
        negative: false,
        significand: root << 1 | sticky,
        exponent: a.exponent / 2 - 1,
    })
}
