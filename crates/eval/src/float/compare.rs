//! Order: comparisons, minimum and maximum.

use super::format::{Format, Nan, Value};
use super::round::{NanRule, Overflow, Rounding};
use core::cmp::Ordering;

/// How two numbers stand to each other; none when one is a NaN. Zeros of both signs are equal.
pub const fn compare(format: Format, a: u64, b: u64) -> Option<Ordering> {
    if format.is_nan(a) || format.is_nan(b) {
        return None;
    }
    let (x, y) = (ordered(format, a), ordered(format, b));
    Some(if x < y {
        Ordering::Less
    } else if x > y {
        Ordering::Greater
    } else {
        Ordering::Equal
    })
}

/// A pattern that is no NaN as an integer in the order of the numbers.
const fn ordered(format: Format, bits: u64) -> i64 {
    let magnitude = (bits & (format.sign_mask() - 1)) as i64;
    if bits & format.sign_mask() == 0 {
        magnitude
    } else {
        -magnitude
    }
}

/// The relations of `setp`, the unordered ones included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Equal.
    Eq,
    /// Not equal, both numbers.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
    /// Equal, or a NaN.
    Equ,
    /// Not equal, or a NaN.
    Neu,
    /// Less, or a NaN.
    Ltu,
    /// Less or equal, or a NaN.
    Leu,
    /// Greater, or a NaN.
    Gtu,
    /// Greater or equal, or a NaN.
    Geu,
    /// Both are numbers.
    Num,
    /// One is a NaN.
    Nan,
}

impl Relation {
    /// Whether two operands stand in this relation.
    pub const fn holds(self, order: Option<Ordering>) -> bool {
        use Ordering::{Equal, Greater, Less};
        match self {
            Self::Eq => matches!(order, Some(Equal)),
            Self::Ne => matches!(order, Some(Less | Greater)),
            Self::Lt => matches!(order, Some(Less)),
            Self::Le => matches!(order, Some(Less | Equal)),
            Self::Gt => matches!(order, Some(Greater)),
            Self::Ge => matches!(order, Some(Greater | Equal)),
            Self::Equ => matches!(order, None | Some(Equal)),
            Self::Neu => matches!(order, None | Some(Less | Greater)),
            Self::Ltu => matches!(order, None | Some(Less)),
            Self::Leu => matches!(order, None | Some(Less | Equal)),
            Self::Gtu => matches!(order, None | Some(Greater)),
            Self::Geu => matches!(order, None | Some(Greater | Equal)),
            Self::Num => order.is_some(),
            Self::Nan => order.is_none(),
        }
    }
}

/// Which of two to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extreme {
    /// The smaller.
    Minimum,
    /// The larger.
    Maximum,
}

/// The smaller or larger of two; negative zero is smaller than positive zero. A NaN loses against a number, unless
/// `propagate` (`.NaN`), which makes it win; two NaNs give the format's own.
pub const fn extreme(format: Format, a: u64, b: u64, which: Extreme, propagate: bool) -> u64 {
    let carried = match format.unpack(if format.is_nan(b) { b } else { a }) {
        Value::Nan(nan) => nan,
        _ => Nan::INVALID,
    };
    let nans = match format {
        Format::F64 => NanRule::Carried,
        _ => NanRule::Canonical,
    };
    let nan = format.pack(
        Value::Nan(carried),
        Rounding::NearestEven,
        Overflow::Ieee,
        nans,
    );
    match (format.is_nan(a), format.is_nan(b)) {
        (true, true) => nan,
        (true, false) => {
            if propagate {
                nan
            } else {
                b
            }
        }
        (false, true) => {
            if propagate {
                nan
            } else {
                a
            }
        }
        (false, false) => {
            let (x, y) = (ordered(format, a), ordered(format, b));
            let a_is_smaller = x < y || (x == y && a & format.sign_mask() != 0);
            match (which, a_is_smaller) {
                (Extreme::Minimum, true) | (Extreme::Maximum, false) => a,
                (Extreme::Minimum, false) | (Extreme::Maximum, true) => b,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_equal_but_ordered_for_minimum() {
        let (plus, minus) = (0u64, 0x8000_0000u64);
        assert_eq!(compare(Format::F32, plus, minus), Some(Ordering::Equal));
        assert_eq!(
            extreme(Format::F32, plus, minus, Extreme::Minimum, false),
            minus
        );
        assert_eq!(
            extreme(Format::F32, minus, plus, Extreme::Maximum, false),
            plus
        );
    }

    #[test]
    fn nan_loses_unless_it_propagates() {
        let nan = 0x7fc0_0001u64;
        let one = u64::from(1f32.to_bits());
        assert_eq!(extreme(Format::F32, nan, one, Extreme::Minimum, false), one);
        assert_eq!(
            extreme(Format::F32, one, nan, Extreme::Maximum, true),
            0x7fff_ffff
        );
        assert_eq!(compare(Format::F32, one, nan), None);
        assert!(Relation::Neu.holds(None) && !Relation::Ne.holds(None));
        assert!(Relation::Nan.holds(None) && Relation::Num.holds(Some(Ordering::Less)));
    }

    #[test]
    fn order_agrees_with_the_host() {
        let samples = [
            -f32::INFINITY,
            -2.5,
            -1e-40,
            -0.0,
            0.0,
            1e-40,
            1.0,
            3e38,
            f32::INFINITY,
        ];
        for x in samples {
            for y in samples {
                let (a, b) = (u64::from(x.to_bits()), u64::from(y.to_bits()));
                assert_eq!(compare(Format::F32, a, b), x.partial_cmp(&y), "{x} {y}");
            }
        }
    }
}
