//! Bitwise operations: three-input logic, byte permutation, masks.

/// Any function of three bits, applied to each bit place: bit `4 a + 2 b + c` of `table` is the result.
pub const fn logic3(a: u32, b: u32, c: u32, table: u8) -> u32 {
    let mut out = 0;
    let mut row = 0;
    while row < 8 {
        if table >> row & 1 == 1 {
            let x = if row & 4 == 0 { !a } else { a };
            let y = if row & 2 == 0 { !b } else { b };
            let z = if row & 1 == 0 { !c } else { c };
            out |= x & y & z;
        }
        row += 1;
    }
    out
}

/// The same function on single bits.
pub const fn logic3_bit(a: bool, b: bool, c: bool, table: u8) -> bool {
    table >> ((a as u8) << 2 | (b as u8) << 1 | c as u8) & 1 == 1
}

/// How `permute` reads its selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permutation {
    /// Each nibble selects a byte; its top bit copies that byte's sign instead.
    Index,
    /// Four bytes forward from the selected one.
    Forward4,
    /// Four bytes backward from the selected one.
    Backward4,
    /// One byte, four times.
    Replicate8,
    /// Bytes up to the selected one kept, the rest repeat it.
    EdgeClampLeft,
    /// Bytes from the selected one on kept, the rest repeat it.
    EdgeClampRight,
    /// One half word, twice.
    Replicate16,
}

/// Four bytes picked from the eight of `high:low`.
pub const fn permute(low: u32, high: u32, selector: u32, mode: Permutation) -> u32 {
    let bytes = (high as u64) << 32 | low as u64;
    let which = selector & 3;
    let mut out = 0;
    let mut i = 0;
    while i < 4 {
        let (index, sign) = match mode {
            Permutation::Index => {
                let nibble = selector >> (4 * i);
                (nibble & 7, nibble & 8 != 0)
            }
            Permutation::Forward4 => ((which + i) & 7, false),
            Permutation::Backward4 => (which.wrapping_sub(i) & 7, false),
            Permutation::Replicate8 => (which, false),
            Permutation::EdgeClampLeft => (if i > which { i } else { which }, false),
            Permutation::EdgeClampRight => (if i < which { i } else { which }, false),
            Permutation::Replicate16 => ((which & 1) * 2 + (i & 1), false),
        };
        let byte = (bytes >> (8 * index)) as u8;
        let byte = if sign {
            ((byte as i8) >> 7) as u8
        } else {
            byte
        };
        out |= (byte as u32) << (8 * i);
        i += 1;
    }
    out
}

/// `length` ones from bit `start` on; a start or length beyond the word is clamped or wrapped as `wrap` says.
pub const fn mask(start: u32, length: u32, wrap: bool) -> u32 {
    let (start, length) = if wrap {
        (start & 31, length & 31)
    } else {
        (
            if start > 32 { 32 } else { start },
            if length > 32 { 32 } else { length },
        )
    };
    (((1u64 << length) - 1) << start) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operands_are_their_own_tables() {
        let (a, b, c) = (0x1234_5678, 0x9abc_def0, 0x0f0f_5a5a);
        assert_eq!(logic3(a, b, c, 0xf0), a);
        assert_eq!(logic3(a, b, c, 0xcc), b);
        assert_eq!(logic3(a, b, c, 0xaa), c);
        assert_eq!(logic3(a, b, c, 0x96), a ^ b ^ c);
        assert_eq!(logic3(a, b, c, 0xc0), a & b);
        for row in 0..8u8 {
            let bit = |place: u8| row >> place & 1 == 1;
            assert_eq!(
                logic3_bit(bit(2), bit(1), bit(0), 0x96),
                row.count_ones() % 2 == 1
            );
        }
    }

    #[test]
    fn bytes_are_picked_in_every_mode() {
        let (low, high) = (0x3322_1100, 0x7766_5584);
        assert_eq!(permute(low, high, 0x3210, Permutation::Index), low);
        assert_eq!(
            permute(low, high, 0x000c, Permutation::Index),
            0x0000_00ff,
            "the sign of 0x84"
        );
        assert_eq!(permute(low, high, 2, Permutation::Forward4), 0x5584_3322);
        assert_eq!(permute(low, high, 2, Permutation::Backward4), 0x7700_1122);
        assert_eq!(permute(low, high, 2, Permutation::Replicate8), 0x2222_2222);
        assert_eq!(
            permute(low, high, 1, Permutation::EdgeClampLeft),
            0x3322_1111
        );
        assert_eq!(
            permute(low, high, 1, Permutation::EdgeClampRight),
            0x1111_1100
        );
        assert_eq!(permute(low, high, 1, Permutation::Replicate16), 0x3322_3322);
    }

    #[test]
    fn masks_at_the_edge() {
        assert_eq!(mask(4, 8, false), 0xff0);
        assert_eq!(mask(0, 32, false), u32::MAX);
        assert_eq!(mask(40, 8, false), 0);
        assert_eq!(mask(36, 33, true), 0x10);
    }
}
