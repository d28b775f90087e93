//! Integers of a type: what typed instructions compute, for any width up to 64 bits.
//!
//! A pattern is the low bits of a word; the rest of the word is ignored on the way in and zero on the way out. Everything is
//! computed on exact values (128 bits hold every sum and most products) and cut back to the type once.

use crate::float::convert::Integer;
use core::cmp::Ordering;

impl Integer {
    /// An unsigned type.
    pub const fn unsigned(bits: u32) -> Self {
        Self {
            bits,
            signed: false,
        }
    }

    /// A signed type.
    pub const fn signed(bits: u32) -> Self {
        Self { bits, signed: true }
    }

    /// The number a pattern stands for.
    pub const fn value(self, pattern: u64) -> i128 {
        let up = 64 - self.bits;
        if self.signed {
            (((pattern << up) as i64) >> up) as i128
        } else {
            ((pattern << up) >> up) as i128
        }
    }

    /// The low bits of a number.
    pub const fn wrap(self, number: i128) -> u64 {
        number as u64 & self.mask()
    }

    /// The nearest number of the type (`.sat`).
    pub const fn clamp(self, number: i128) -> u64 {
        let highest = self.max() as i128;
        let lowest = if self.signed { -highest - 1 } else { 0 };
        self.wrap(if number > highest {
            highest
        } else if number < lowest {
            lowest
        } else {
            number
        })
    }

    /// How two patterns compare.
    pub fn compare(self, a: u64, b: u64) -> Ordering {
        self.value(a).cmp(&self.value(b))
    }

    /// `a + b`.
    pub const fn add(self, a: u64, b: u64) -> u64 {
        self.wrap(self.value(a) + self.value(b))
    }

    /// `a - b`.
    pub const fn subtract(self, a: u64, b: u64) -> u64 {
        self.wrap(self.value(a) - self.value(b))
    }

    /// The low half of `a * b`.
    pub const fn multiply_low(self, a: u64, b: u64) -> u64 {
        a.wrapping_mul(b) & self.mask()
    }

    /// The high half of `a * b`.
    pub const fn multiply_high(self, a: u64, b: u64) -> u64 {
        if self.bits == 64 {
            return crate::integer::multiply_high_64(a, b, self.signed);
        }
        self.wrap((self.value(a) * self.value(b)) >> self.bits)
    }

    /// `a / b`, towards zero; all ones when `b` is zero, as the chip gives it.
    pub const fn divide(self, a: u64, b: u64) -> u64 {
        match self.value(b) {
            0 => self.mask(),
            divisor => self.wrap(self.value(a) / divisor),
        }
    }

    /// What [`Integer::divide`] leaves over, with the sign of `a`; all ones when `b` is zero.
    pub const fn remainder(self, a: u64, b: u64) -> u64 {
        match self.value(b) {
            0 => self.mask(),
            divisor => self.wrap(self.value(a) % divisor),
        }
    }

    /// `|a - b| + c`.
    pub const fn absolute_difference(self, a: u64, b: u64, c: u64) -> u64 {
        self.wrap((self.value(a) - self.value(b)).abs() + self.value(c))
    }

    /// The smaller.
    pub fn minimum(self, a: u64, b: u64) -> u64 {
        self.wrap(self.value(a).min(self.value(b)))
    }

    /// The larger.
    pub fn maximum(self, a: u64, b: u64) -> u64 {
        self.wrap(self.value(a).max(self.value(b)))
    }

    /// `a` shifted left; nothing is left of a shift by the width or more.
    pub const fn shift_left(self, a: u64, by: u64) -> u64 {
        if by >= self.bits as u64 {
            0
        } else {
            (a << by) & self.mask()
        }
    }

    /// `a` shifted right; a shift by the width or more leaves the sign, or nothing.
    pub const fn shift_right(self, a: u64, by: u64) -> u64 {
        let by = if by > 127 { 127 } else { by as u32 };
        self.wrap(self.value(a) >> by)
    }

    /// Position of the highest bit that is set, or that differs from the sign.
    pub const fn leading_bit(self, a: u64) -> Option<u32> {
        let value = self.value(a);
        let digits = if value < 0 { !value } else { value };
        match digits {
            0 => None,
            digits => Some(127 - digits.leading_zeros()),
        }
    }

    /// `length` bits from bit `start` on, extended by zero or by the highest of them; bits beyond the type are zeros, or
    /// copies of its sign.
    pub const fn extract_bits(self, a: u64, start: u32, length: u32) -> u64 {
        if length == 0 {
            return 0;
        }
        let start = if start > 127 { 127 } else { start };
        let length = if length > self.bits {
            self.bits
        } else {
            length
        };
        let field = self.value(a) >> start;
        let up = 128 - length;
        self.wrap(if self.signed {
            (field << up) >> up
        } else {
            (((field as u128) << up) >> up) as i128
        })
    }

    /// `base` with `length` bits from bit `start` on replaced by the low bits of `a`.
    pub const fn insert_bits(self, a: u64, base: u64, start: u32, length: u32) -> u64 {
        let start = if start > 64 { 64 } else { start };
        let length = if length > 64 { 64 } else { length };
        let mask = (((1u128 << length) - 1) << start) as u64;
        let placed = ((a as u128) << start) as u64;
        (base & !mask | placed & mask) & self.mask()
    }

    /// The bits in reverse order.
    pub const fn reverse_bits(self, a: u64) -> u64 {
        a.reverse_bits() >> (64 - self.bits)
    }

    /// Zeros above the highest set bit.
    pub const fn leading_zeros(self, a: u64) -> u32 {
        (a & self.mask()).leading_zeros() - (64 - self.bits)
    }
}

/// The position of the `count`-th set bit of `mask` from bit `base` on, upwards for positive counts and downwards for
/// negative ones; a count of 0 asks whether the bit at `base` itself is set. All ones where there is none.
pub const fn nth_set_bit(mask: u32, base: u32, count: i32) -> u32 {
    let mut left = match count {
        0 => 1,
        _ => count.unsigned_abs(),
    };
    let step: i64 = if count < 0 { -1 } else { 1 };
    let mut place = base as i64;
    while place >= 0 && place < 32 {
        if mask >> place & 1 == 1 {
            left -= 1;
            if left == 0 {
                return place as u32;
            }
        }
        if count == 0 {
            break;
        }
        place += step;
    }
    u32::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_the_sign_of_their_type() {
        assert_eq!(Integer::signed(8).value(0xff80), -128);
        assert_eq!(Integer::unsigned(8).value(0xff80), 128);
        assert_eq!(Integer::signed(16).clamp(40_000), 0x7fff);
        assert_eq!(Integer::signed(16).clamp(-40_000), 0x8000);
        assert_eq!(Integer::unsigned(16).clamp(-1), 0);
    }

    #[test]
    fn division_by_zero_sets_all_bits() {
        assert_eq!(Integer::signed(16).divide(5, 0), 0xffff);
        assert_eq!(Integer::unsigned(64).remainder(5, 0), u64::MAX);
        assert_eq!(
            Integer::signed(32).divide(0x8000_0000, 0xffff_ffff),
            0x8000_0000
        );
    }

    #[test]
    fn wide_fields_and_shifts_beyond_the_width() {
        assert_eq!(Integer::signed(64).extract_bits(1 << 63, 200, 3), u64::MAX);
        assert_eq!(Integer::unsigned(64).extract_bits(u64::MAX, 60, 64), 0xf);
        assert_eq!(Integer::unsigned(64).insert_bits(0xff, 0, 60, 8), 0xf << 60);
        assert_eq!(Integer::signed(16).shift_right(0x8000, 99), 0xffff);
        assert_eq!(Integer::unsigned(16).shift_left(1, 16), 0);
        assert_eq!(Integer::unsigned(16).leading_zeros(1), 15);
    }

    #[test]
    fn set_bits_are_counted_both_ways() {
        assert_eq!(nth_set_bit(0b1011_0000, 4, 2), 5);
        assert_eq!(nth_set_bit(0b1011_0000, 7, -3), 4);
        assert_eq!(nth_set_bit(0b1011_0000, 5, 0), 5);
        assert_eq!(nth_set_bit(0b1011_0000, 6, 0), u32::MAX);
        assert_eq!(nth_set_bit(0b1011_0000, 5, 3), u32::MAX);
    }
}
