//! Integer arithmetic on 32-bit registers and pairs of them.

use core::cmp::Ordering;

/// `a + b + c` with two carries in, as a three-input adder does it.
///
/// The sum of three words and two carries may carry twice; `carries` tells how often (0 to 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The low 32 bits.
    pub value: u32,
    /// How many carries leave the word.
    pub carries: u32,
}

/// The three-input adder.
pub const fn add3(a: u32, b: u32, c: u32, carries_in: u32) -> Sum {
    let sum = a as u64 + b as u64 + c as u64 + carries_in as u64;
    Sum {
        value: sum as u32,
        carries: (sum >> 32) as u32,
    }
}

/// The full product of two words, each signed or not.
pub const fn multiply_wide(a: u32, b: u32, signed: bool) -> u64 {
    if signed {
        (a as i32 as i64 * (b as i32 as i64)) as u64
    } else {
        a as u64 * b as u64
    }
}

/// The upper half of the product of two double words.
pub const fn multiply_high_64(a: u64, b: u64, signed: bool) -> u64 {
    if signed {
        ((a as i64 as i128 * (b as i64 as i128)) >> 64) as u64
    } else {
        ((a as u128 * b as u128) >> 64) as u64
    }
}

/// `(a << shift) + b`: the address of an element.
pub const fn scaled_add(a: u32, shift: u32, b: u32) -> u32 {
    shift_left(a, shift).wrapping_add(b)
}

/// Order of two words, signed or not.
pub const fn compare(a: u32, b: u32, signed: bool) -> Ordering {
    let (less, equal) = if signed {
        ((a as i32) < b as i32, a == b)
    } else {
        (a < b, a == b)
    };
    if less {
        Ordering::Less
    } else if equal {
        Ordering::Equal
    } else {
        Ordering::Greater
    }
}

/// Shifted left; a shift of 32 or more leaves nothing.
pub const fn shift_left(a: u32, by: u32) -> u32 {
    if by > 31 { 0 } else { a << by }
}

/// Shifted right, the sign copied when `signed`; a shift of 32 or more leaves the sign only.
pub const fn shift_right(a: u32, by: u32, signed: bool) -> u32 {
    match (signed, by > 31) {
        (false, true) => 0,
        (false, false) => a >> by,
        (true, true) => ((a as i32) >> 31) as u32,
        (true, false) => ((a as i32) >> by) as u32,
    }
}

/// What a funnel shift does with a shift beyond the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// The amount is limited to the width (`.clamp`).
    Clamp,
    /// The amount is taken modulo the width (`.wrap`).
    Wrap,
}

const fn amount(by: u32, beyond: Beyond) -> u32 {
    match beyond {
        Beyond::Clamp => {
            if by > 32 {
                32
            } else {
                by
            }
        }
        Beyond::Wrap => by & 31,
    }
}

/// The upper word of `high:low` shifted left.
pub const fn funnel_left(low: u32, high: u32, by: u32, beyond: Beyond) -> u32 {
    let pair = (high as u64) << 32 | low as u64;
    ((pair << amount(by, beyond)) >> 32) as u32
}

/// The lower word of `high:low` shifted right.
pub const fn funnel_right(low: u32, high: u32, by: u32, beyond: Beyond) -> u32 {
    let pair = (high as u64) << 32 | low as u64;
    (pair >> amount(by, beyond)) as u32
}

/// Position of the highest bit that differs from the sign (`signed`) or is set; none for 0 (or -1).
pub const fn leading_bit(a: u32, signed: bool) -> Option<u32> {
    let a = if signed && (a as i32) < 0 { !a } else { a };
    match a {
        0 => None,
        a => Some(31 - a.leading_zeros()),
    }
}

/// `length` bits of `a` from bit `start`, extended by zero or by the highest of them. Bits beyond the word count as zero,
/// or as the word's sign when `signed`.
pub const fn extract_bits(a: u32, start: u32, length: u32, signed: bool) -> u32 {
    if length == 0 {
        return 0;
    }
    let wide = if signed { a as i32 as i64 } else { a as i64 };
    let start = if start > 63 { 63 } else { start };
    let length = if length > 32 { 32 } else { length };
    let field = wide >> start;
    let up = 64 - length;
    if signed {
        ((field << up) >> up) as u32
    } else {
        (((field as u64) << up) >> up) as u32
    }
}

/// `base` with `length` bits from bit `start` on replaced by the low bits of `a`. What would stand beyond the word is lost.
pub const fn insert_bits(a: u32, base: u32, start: u32, length: u32) -> u32 {
    let start = if start > 63 { 63 } else { start };
    let length = if length > 32 { 32 } else { length };
    let mask = (((1u64 << length) - 1) << start) as u32;
    let placed = ((a as u64) << start) as u32;
    base & !mask | placed & mask
}

/// The absolute differences of four bytes, with sign or without, the lowest first.
pub fn differences4(a: u32, b: u32, signed: bool) -> [u8; 4] {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    std::array::from_fn(|byte| match signed {
        true => a[byte].cast_signed().abs_diff(b[byte].cast_signed()),
        false => a[byte].abs_diff(b[byte]),
    })
}

/// The sum of four products of bytes, and `c`. Each operand's bytes are signed or not.
pub const fn dot4(a: u32, a_signed: bool, b: u32, b_signed: bool, c: u32) -> u32 {
    let mut sum = c;
    let mut i = 0;
    while i < 4 {
        let x = extract_bits(a, i * 8, 8, a_signed);
        let y = extract_bits(b, i * 8, 8, b_signed);
        sum = sum.wrapping_add(x.wrapping_mul(y));
        i += 1;
    }
    sum
}

/// The sum of two products of half words of `a` with the lower or upper two bytes of `b`, and `c`.
pub const fn dot2(a: u32, a_signed: bool, b: u32, b_signed: bool, upper: bool, c: u32) -> u32 {
    let mut sum = c;
    let mut i = 0;
    while i < 2 {
        let x = extract_bits(a, i * 16, 16, a_signed);
        let y = extract_bits(b, i * 8 + 16 * upper as u32, 8, b_signed);
        sum = sum.wrapping_add(x.wrapping_mul(y));
        i += 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_adder_carries_twice() {
        assert_eq!(
            add3(u32::MAX, u32::MAX, u32::MAX, 2),
            Sum {
                value: u32::MAX,
                carries: 2
            }
        );
        assert_eq!(
            add3(1, 2, 3, 0),
            Sum {
                value: 6,
                carries: 0
            }
        );
    }

    #[test]
    fn products_keep_their_sign() {
        assert_eq!(multiply_wide(u32::MAX, 2, true), (-2i64).cast_unsigned());
        assert_eq!(multiply_wide(u32::MAX, 2, false), 0x1_ffff_fffe);
        assert_eq!(multiply_high_64(u64::MAX, u64::MAX, true), 0);
        assert_eq!(multiply_high_64(u64::MAX, u64::MAX, false), u64::MAX - 1);
    }

    #[test]
    fn shifts_beyond_the_word_leave_what_is_defined() {
        assert_eq!(shift_left(1, 32), 0);
        assert_eq!(shift_right(0x8000_0000, 40, true), u32::MAX);
        assert_eq!(shift_right(0x8000_0000, 40, false), 0);
        assert_eq!(funnel_left(0x8000_0000, 1, 33, Beyond::Wrap), 3);
        assert_eq!(funnel_left(0x8000_0000, 1, 33, Beyond::Clamp), 0x8000_0000);
        assert_eq!(funnel_right(7, 5, 99, Beyond::Clamp), 5);
    }

    #[test]
    fn fields_at_the_edge_of_the_word() {
        assert_eq!(extract_bits(0xf000_0000, 28, 8, false), 0xf);
        assert_eq!(extract_bits(0xf000_0000, 28, 8, true), u32::MAX);
        assert_eq!(extract_bits(0x0000_0080, 0, 8, true), 0xffff_ff80);
        assert_eq!(extract_bits(0x1234, 4, 0, true), 0);
        assert_eq!(extract_bits(0x8000_0000, 255, 1, true), u32::MAX);
        assert_eq!(insert_bits(0xff, 0, 28, 8), 0xf000_0000);
        assert_eq!(insert_bits(0xff, 0x1111_1111, 255, 8), 0x1111_1111);
        assert_eq!(insert_bits(u32::MAX, 0, 0, 255), u32::MAX);
    }

    #[test]
    fn the_leading_bit_skips_copies_of_the_sign() {
        assert_eq!(leading_bit(0, false), None);
        assert_eq!(leading_bit(u32::MAX, true), None);
        assert_eq!(leading_bit(u32::MAX, false), Some(31));
        assert_eq!(leading_bit(0xffff_fffd, true), Some(1));
    }

    #[test]
    fn dot_products_mix_signs() {
        assert_eq!(
            dot4(0xff01_0203, true, 0x0203_0405, false, 10),
            10 + 15 + 8 + 3 - 2
        );
        assert_eq!(
            dot2(0xffff_0002, true, 0x0304_0506, false, false, 0),
            12 - 5
        );
        assert_eq!(dot2(0xffff_0002, true, 0x0304_0506, false, true, 0), 8 - 3);
    }
}
