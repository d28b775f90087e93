//! Matrix steps: how tensor cores add products up.
//!
//! A tensor core does not round after each product. It takes a group of products and the accumulator, shifts all of them
//! to the largest exponent among them, cuts off what lies more than a fixed number of bits below, adds the rest as
//! integers, and converts the sum once. A longer row of products is several such steps, one after the other.

use crate::float::{Finite, Format, Nan, NanRule, Overflow, Rounding, Value, exact};

/// How a tensor core adds one group of products to an accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DotRule {
    /// How many products are added in one step.
    pub group: usize,
    /// How many bits below the largest exponent take part in the sum.
    pub kept_bits: i32,
    /// The format of accumulator and result.
    pub result: Format,
    /// The rounding of the sum into the result.
    pub rounding: Rounding,
    /// How many of the last bits of the result are cut off.
    pub cut_bits: u32,
}

/// A product before it is aligned: its digits, and the exponent the hardware takes for it, which is the sum of the
/// factors' exponents whether or not the product of their digits carries into the next place.
struct Term {
    negative: bool,
    /// Fixed point: the highest digit of a factor stands at bit 0 of the exponent.
    value: Finite,
    exponent: i32,
}

/// The exponent field's meaning for alignment: subnormal numbers count with the smallest exponent.
fn alignment_exponent(format: Format, value: Finite) -> i32 {
    value
        .magnitude()
        .map_or(format.min_exponent(), |m| m.max(format.min_exponent()))
}

impl DotRule {
    /// `c` plus the products of `a` and `b`, pairwise, in steps of a group each.
    ///
    /// Operands are patterns of `operand`; `c` and the result are patterns of the rule's result format.
    pub fn dot(self, operand: Format, a: &[u64], b: &[u64], c: u64) -> u64 {
        self.dot_of([operand; 2], a, b, c)
    }

    /// The same with factors of two formats.
    pub fn dot_of(self, operands: [Format; 2], a: &[u64], b: &[u64], c: u64) -> u64 {
        let mut sum = c;
        for (a, b) in a.chunks(self.group).zip(b.chunks(self.group)) {
            sum = self.step(operands, a, b, sum);
        }
        sum
    }

    /// A warp group's products of narrow floats: 13 bits below the largest exponent are kept, and as many behind the point of a single result.
    ///
    /// Published, not measured here: Xie et al., "MMA-Sim: Bit-Accurate Reference Model of Tensor Cores and Matrix Cores" (2025), on an H100.
    pub const fn narrow(group: usize, result: Format) -> Self {
        let single = result.width() == 32;
        Self {
            group,
            kept_bits: 13,
            result,
            rounding: if single {
                Rounding::Zero
            } else {
                Rounding::NearestEven
            },
            cut_bits: if single { 23 - 13 } else { 0 },
        }
    }

    fn step(self, [left, right]: [Format; 2], a: &[u64], b: &[u64], c: u64) -> u64 {
        let accumulator = self.result.unpack(c);
        let products = a
            .iter()
            .zip(b)
            .map(|(a, b)| (left.unpack(*a), right.unpack(*b)));
        // NaNs and infinities decide the result without any sum.
        let special = products
            .clone()
            .map(|(a, b)| exact::multiply(a, b))
            .chain([accumulator])
            .filter(|value| !matches!(value, Value::Finite(_)))
            .reduce(|x, y| exact::add(x, y, Rounding::NearestEven));
        if let Some(special) = special {
            return self
                .result
                .pack(special, self.rounding, Overflow::Ieee, NanRule::Canonical);
        }
        let finite = |value| match value {
            Value::Finite(finite) => finite,
            Value::Nan(Nan { negative, .. }) | Value::Infinity { negative } => {
                Finite::zero(negative)
            }
        };
        let mut terms: Vec<Term> = products
            .map(|(a, b)| {
                let (a, b) = (finite(a), finite(b));
                Term {
                    negative: a.negative != b.negative,
                    exponent: alignment_exponent(left, a) + alignment_exponent(right, b),
                    value: Finite {
                        negative: a.negative != b.negative,
                        significand: a.significand * b.significand,
                        exponent: a.exponent + b.exponent,
                    },
                }
            })
            .collect();
        let c = finite(accumulator);
        terms.push(Term {
            negative: c.negative,
            exponent: alignment_exponent(self.result, c),
            value: c,
        });
        // Zeros do not take part in the choice of the exponent.
        let largest = terms
            .iter()
            .filter(|term| term.value.significand != 0)
            .map(|term| term.exponent)
            .max();
        let Some(largest) = largest else {
            let all_negative = terms.iter().all(|term| term.negative);
            return self
                .result
                .round(Finite::zero(all_negative), self.rounding, Overflow::Ieee);
        };
        let unit = largest - self.kept_bits;
        let total: i128 = terms
            .iter()
            .map(|term| {
                let magnitude =
                    crate::float::round::round_to_multiple(term.value, unit, Rounding::Zero)
                        as i128;
                if term.negative { -magnitude } else { magnitude }
            })
            .sum();
        let sum = Finite {
            negative: total < 0,
            significand: total.unsigned_abs(),
            exponent: unit,
        };
        // Digits are cut off, but a sum that is too large is infinite all the same.
        if sum.magnitude() > Some(self.result.max_exponent()) {
            let infinite = Value::Infinity {
                negative: sum.negative,
            };
            return self
                .result
                .pack(infinite, self.rounding, Overflow::Ieee, NanRule::Canonical);
        }
        let rounded = self.result.round(sum, self.rounding, Overflow::Ieee);
        let rounded = rounded >> self.cut_bits << self.cut_bits;
        // A sum of which nothing is left has lost its sign, too.
        let sign = 1 << (self.result.width() - 1);
        if rounded == sign { 0 } else { rounded }
    }
}

/// What the elements of a sparse left matrix are, which decides where their metadata lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SparseElements {
    /// Halves: two of four are stored, two bits each tell which.
    Halves,
    /// tf32: one of two is stored; of four bits, the second tells which.
    Singles,
    /// Bytes, or pairs of four bits: two of four are stored, two bits each tell which.
    Bytes,
}

impl SparseElements {
    /// The metadata of stored element `at` of a row with `stored` of them: the lane of the four that share the row, and how far
    /// its bits are shifted. `selector` names the lanes whose metadata count.
    pub const fn metadata(
        self,
        stored: usize,
        selector: usize,
        row: usize,
        at: usize,
    ) -> (usize, usize) {
        let below = row / 8;
        match (self, stored) {
            // One lane has both rows, eight elements each.
            (Self::Halves, 8) => (selector, 16 * below + 2 * at),
            (Self::Halves, _) => (2 * selector + at / 8, 16 * below + 2 * (at % 8)),
            (Self::Singles, 4) => (selector, 16 * below + 4 * at),
            (Self::Singles, _) => (2 * selector + at / 4, 16 * below + 4 * (at % 4)),
            // A lane has sixteen elements of one row.
            (Self::Bytes, 16) => (2 * selector + below, 2 * at),
            (Self::Bytes, _) => (2 * (at / 16) + below, 2 * (at % 16)),
        }
    }

    /// The element of the dense row that stored element `at` is, by its metadata.
    pub const fn dense(self, at: usize, metadata: u32) -> usize {
        match self {
            Self::Singles => 2 * at + (metadata >> 1 & 1) as usize,
            Self::Halves | Self::Bytes => 4 * (at / 2) + (metadata & 3) as usize,
        }
    }
}

/// A matrix in shared memory, as the descriptor of a warp group's product tells it.
///
/// Sixteen bytes are a chunk. The outer dimension (M of A, N of B) and K lie in memory in one of two orders, in eights: without a
/// swizzle chunk by chunk; with one, rows of 32, 64 or 128 bytes whose chunks change places with the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedMatrix {
    start: u64,
    leading: u64,
    stride: u64,
    /// Bytes of a row; zero without a swizzle.
    row: u64,
}

impl SharedMatrix {
    /// What a descriptor says; `None` where it uses what is not known here.
    pub const fn of(descriptor: u64) -> Option<Self> {
        const fn field(descriptor: u64, from: u32) -> u64 {
            (descriptor >> from & 0x3fff) << 4
        }
        let row = match descriptor >> 62 {
            0 => 0,
            1 => 128,
            2 => 64,
            _ => 32,
        };
        // A pattern that does not start where its rows do.
        if descriptor >> 49 & 7 != 0 {
            return None;
        }
        Some(Self {
            start: field(descriptor, 0),
            leading: field(descriptor, 16),
            stride: field(descriptor, 32),
            row,
        })
    }

    /// The address of byte `inner` of the dimension that neighbours lie in, at `outer` of the other, where K is the inner one if
    /// `by_k`.
    pub const fn address(self, by_k: bool, outer: u64, inner: u64) -> u64 {
        let (eight, nth) = (outer / 8, outer % 8);
        if self.row == 0 {
            // Chunks of a row, and rows in eights, are as far apart as the descriptor says; which of the two says what depends
            // on the order.
            let (chunks, eights) = match by_k {
                true => (self.leading, self.stride),
                false => (self.stride, self.leading),
            };
            return self.start + inner % 16 + inner / 16 * chunks + nth * 16 + eight * eights;
        }
        // What goes beyond a row (in K: sixty-four bytes of a sparse product in rows of thirty-two) lies `leading` further.
        let address = self.start
            + inner % self.row
            + inner / self.row * self.leading
            + nth * self.row
            + eight * self.stride;
        let chunks = self.row / 16 - 1;
        address ^ (address >> 7 & chunks) << 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: DotRule = DotRule {
        group: 4,
        kept_bits: 24,
        result: Format::F32,
        rounding: Rounding::Zero,
        cut_bits: 0,
    };

    fn half(x: f32) -> u64 {
        crate::float::convert::to_format(
            Format::F32,
            u64::from(x.to_bits()),
            Format::F16,
            Rounding::NearestEven,
            Overflow::Ieee,
        )
    }

    #[test]
    fn small_products_are_cut_off_before_they_are_added() {
        let one = u64::from(1f32.to_bits());
        let tiny = [half(2f32.powi(-13)); 4];
        // Four times 2^-26 would be 2^-24 together, but each is below the last kept bit.
        assert_eq!(RULE.dot(Format::F16, &tiny, &tiny, one), one);
        let small = [half(2f32.powi(-12)); 4];
        let sum = 1.0 + 2f32.powi(-22);
        assert_eq!(
            RULE.dot(Format::F16, &small, &small, one),
            u64::from(sum.to_bits())
        );
    }

    #[test]
    fn narrow_products_of_a_warp_group_keep_thirteen_bits() {
        let rule = DotRule::narrow(32, Format::F32);
        let formats = [Format::E4M3, Format::E5M2];
        // 2^-6 in the one format, 2^-7 and 2^-8 in the other, 1 in both.
        let (small, one) = (0x08, [0x38, 0x3c]);
        let single = |x: f32| u64::from(x.to_bits());
        let dot =
            |last: u64, c: f32| rule.dot_of(formats, &[one[0], small], &[one[1], last], single(c));
        assert_eq!(dot(0x20, 0.0), single(1.0 + 2f32.powi(-13)));
        assert_eq!(dot(0x1c, 0.0), single(1.0));
        // What C has below the last kept bit is lost, whatever is added.
        let c = 1.0 + 2f32.powi(-13) + 2f32.powi(-14);
        assert_eq!(
            rule.dot_of(formats, &[0], &[0], single(c)),
            single(1.0 + 2f32.powi(-13))
        );
        // The sum has a bit more in front of the point, so one less behind it.
        let sum = 2.0 + 2f32.powi(-13);
        assert_eq!(dot(0x20, 1.0), single(sum) >> 10 << 10);
        // Halves are rounded to the nearest.
        let half_rule = DotRule::narrow(32, Format::F16);
        let terms = [one[0], small];
        assert_eq!(
            half_rule.dot_of(formats, &terms, &[one[1], 0x34], half(0.0)),
            half(1.0 + 2f32.powi(-8))
        );
    }

    #[test]
    fn sums_that_are_too_large_are_infinite() {
        let largest = 0xff7f;
        let one = 0x3f80;
        // The largest bfloat16 twice, with its sign.
        assert_eq!(
            RULE.dot(Format::BF16, &[largest, largest], &[one, one], 0),
            u64::from(f32::NEG_INFINITY.to_bits())
        );
        assert_eq!(RULE.dot(Format::BF16, &[largest], &[one], 0), 0xff7f_0000);
    }

    #[test]
    fn infinities_and_nans_decide() {
        let inf = half(f32::INFINITY);
        let one = half(1.0);
        let minus = half(-1.0);
        assert_eq!(
            RULE.dot(Format::F16, &[inf], &[one], 0),
            u64::from(f32::INFINITY.to_bits())
        );
        assert_eq!(
            RULE.dot(Format::F16, &[inf, inf], &[one, minus], 0),
            0x7fff_ffff
        );
    }
}
