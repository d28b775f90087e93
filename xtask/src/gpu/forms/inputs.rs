//! Operands for every lane: special values against each other first, then random ones.

use super::{Form, Kind, Operand, Width};
use crate::gpu::job::{Words, hash};

/// The operands of `count` lanes of a form. The same for the same form and count, on any machine.
pub fn lanes(form: &Form, count: usize) -> Vec<[u64; 3]> {
    let mut words = Words::new(hash(form.name.as_bytes()));
    (0..count)
        .map(|_| {
            let mut operands = [0; 3];
            for (slot, operand) in operands.iter_mut().zip(&form.operands) {
                *slot = value(*operand, &mut words);
            }
            // Now and then two operands are equal or opposite, which random bits never are.
            match words.next() % 16 {
                0 => operands[1] = operands[0],
                1 => operands[2] = operands[0],
                2 => operands[1] = !operands[0],
                _ => {}
            }
            let mask = |(width, _): &Operand| match width {
                Width::Pred => 1,
                Width::B16 => 0xffff,
                Width::B32 => 0xffff_ffff,
                Width::B64 => u64::MAX,
            };
            for (slot, operand) in operands.iter_mut().zip(&form.operands) {
                *slot &= mask(operand);
            }
            operands
        })
        .collect()
}

const INTEGERS: &[u64] = &[
    0,
    1,
    2,
    3,
    7,
    8,
    15,
    16,
    31,
    32,
    33,
    63,
    64,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0xffff_fffe,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
];

/// More than `orias_generate` puts into programs: NaNs with payloads, too. The order is part of what recorded results rest on.
const SINGLES: &[u32] = &[
    0x0000_0000,
    0x8000_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x3f00_0000,
    0x4000_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xffc0_0001,
    0x7f80_0001,
    0x7fff_ffff,
    0x0000_0001,
    0x8000_0001,
    0x007f_ffff,
    0x807f_ffff,
    0x0080_0000,
    0x8080_0000,
    0x0080_0001,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x4b00_0000,
    0x4b7f_ffff,
    0x4f00_0000,
    0xcf00_0000,
    0x5f00_0000,
    0x3fc0_0000,
    0x4020_0000,
    0xbfc0_0000,
    0x4f80_0000,
    0x437f_0000,
    0x43e8_0000,
    0x3880_0000,
    0x3300_0000,
    0x477f_f000,
    0x3fff_ffff,
];

const DOUBLES: &[u64] = &[
    0,
    0x8000_0000_0000_0000,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0xfff8_0000_0000_0001,
    0x7ff0_0000_0000_0001,
    0x0000_0000_0000_0001,
    0x800f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0x41e0_0000_0000_0000,
    0x43e0_0000_0000_0000,
    0x3ff8_0000_0000_0000,
    0x4004_0000_0000_0000,
    0x47ef_ffff_f000_0000,
    0x380f_ffff_ffff_ffff,
    0x3690_0000_0000_0000,
    0x3810_0000_0000_0000,
];

const HALVES: &[u16] = &[
    0x0000, 0x8000, 0x3c00, 0xbc00, 0x3800, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x7c01, 0x0001, 0x83ff,
    0x0400, 0x7bff, 0xfbff, 0x3e00, 0x4100,
];

const BFLOATS: &[u16] = &[
    0x0000, 0x8000, 0x3f80, 0xbf80, 0x3f00, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f81, 0x0001, 0x807f,
    0x0080, 0x7f7f, 0xff7f, 0x3fc0, 0x4020,
];

fn pick<T: Copy>(list: &[T], word: u64) -> T {
    list[(word % list.len() as u64) as usize]
}

fn value((width, kind): Operand, words: &mut Words) -> u64 {
    let special = words.next().is_multiple_of(3);
    let word = words.next();
    // NaNs with a payload, so that it shows which operand's is carried; and the edge of what is flushed.
    match (kind, words.next() % 24) {
        (Kind::F64, 0) => return word | 0x7ff0_0000_0000_0000,
        (Kind::F32, 0) => return word >> 32 | 0x7f80_0000,
        (Kind::F32, 1) => return 0x0080_0000 | word << 31 & 0x8000_0000,
        (Kind::F32, 2) => return word >> 32 & 0x8fff_ffff,
        (Kind::F16, 1) if width == Width::B16 => return 0x0400 | word << 15 & 0x8000,
        (Kind::F16, 2) if width == Width::B16 => return word >> 48 & 0x87ff,
        _ => {}
    }
    match kind {
        Kind::Int if special => pick(INTEGERS, word),
        Kind::Int => {
            // Numbers of every length, not only long ones.
            let length = words.next() % 64;
            word >> length
        }
        Kind::Count if special => pick(INTEGERS, word),
        Kind::Count => word % 70,
        Kind::F32 if special => pick(SINGLES, word).into(),
        Kind::F32 if word & 7 == 0 => word >> 32 & 0x80ff_ffff,
        Kind::F32 if word & 4 == 0 => {
            // Exponents near one another, so that sums cancel and products round.
            let exponent = 0x78 + (word >> 8) % 0x28;
            word >> 32 & 0x807f_ffff | exponent << 23
        }
        Kind::F32 => word >> 32,
        Kind::F64 if special => pick(DOUBLES, word),
        Kind::F64 if words.next() & 1 == 0 => {
            let exponent = 0x3f8 + words.next() % 0x48;
            word & 0x800f_ffff_ffff_ffff | exponent << 52
        }
        Kind::F64 => word,
        Kind::F16 | Kind::BF16 => {
            let list = if kind == Kind::F16 { HALVES } else { BFLOATS };
            let mut bits = word >> 32;
            if special {
                bits = bits & 0xffff_0000 | u64::from(pick(list, word));
            }
            if words.next().is_multiple_of(3) {
                bits = bits & 0xffff | u64::from(pick(list, words.next())) << 16;
            }
            if width == Width::B16 {
                bits & 0xffff
            } else {
                bits
            }
        }
    }
}
