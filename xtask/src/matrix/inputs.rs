//! Numbers for matrix products.

/// What a register or a word of memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pairs of halves.
    F16,
    /// Pairs of bfloat16.
    Bf16,
    /// Single precision, or the tf32 in its upper bits.
    F32,
    /// Double precision.
    F64,
    /// Any bits: integers, narrow floats.
    Bits,
    /// Large and small integers of 32 bits, near both ends.
    S32,
    /// Metadata of sparse products: two different places of four, in order.
    Places,
    /// The same for tf32: one place of two.
    PlacesOfTwo,
}

/// Flavours of numbers: any bits; numbers around one; small, large and special ones; subnormal numbers.
pub const FLAVOURS: usize = 4;

/// Random numbers that are the same everywhere (splitmix64).
pub struct Random(u64);

impl Random {
    /// The numbers that belong to a name.
    pub fn new(name: &str) -> Self {
        // The hash of Fowler, Noll and Vo.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        Self(name.bytes().fold(0xcbf2_9ce4_8422_2325, hash))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

/// A float with so many bits of exponent and fraction.
fn float(random: &mut Random, exponent: u32, fraction: u32, flavour: usize) -> u64 {
    let bits = random.next();
    let width = 1 + exponent + fraction;
    let sign = (bits >> 63) << (width - 1);
    let fractions = bits & ((1 << fraction) - 1);
    let bias = (1u64 << (exponent - 1)) - 1;
    let top = (1u64 << exponent) - 1;
    let pick = bits >> 56 & 0xf;
    match flavour {
        0 => bits & (u64::MAX >> (64 - width)),
        1 => sign | (bias - 3 + (bits >> 53 & 3)) << fraction | fractions,
        2 => {
            let (power, digits) = match pick {
                0 => (0, 0),
                1 => (0, fractions),
                2 => (top - 1, fractions),
                3 => (top - 1, (1 << fraction) - 1),
                4 if bits >> 48 & 3 == 0 => (top, 0),
                5 if bits >> 48 & 7 == 0 => (top, fractions | 1),
                6 => (1, fractions),
                _ => (bias - bias / 2 + (bits >> 40) % bias, fractions),
            };
            sign | power << fraction | digits
        }
        _ => {
            let power = if pick < 8 { 0 } else { bits >> 40 & 7 };
            sign | power << fraction | fractions
        }
    }
}

/// A word of `kind`.
pub fn word(random: &mut Random, kind: Kind, flavour: usize) -> u32 {
    match kind {
        Kind::F16 => {
            let pair = [0, 1].map(|_| float(random, 5, 10, flavour) as u32);
            pair[0] | pair[1] << 16
        }
        Kind::Bf16 => {
            let pair = [0, 1].map(|_| float(random, 8, 7, flavour) as u32);
            pair[0] | pair[1] << 16
        }
        Kind::F32 => float(random, 8, 23, flavour) as u32,
        Kind::F64 | Kind::Bits => random.next() as u32,
        Kind::S32 => {
            let bits = random.next();
            let small = (bits >> 32 & 0xfff) as u32;
            match (flavour, bits & 3) {
                (0, _) => bits as u32,
                (1, _) => small.wrapping_sub(0x800),
                (_, 0) => i32::MAX as u32 - small,
                (_, 1) => i32::MIN as u32 + small,
                _ => (bits >> 16) as u32,
            }
        }
        Kind::Places => {
            const CHOICES: [u32; 6] = [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110];
            let bits = random.next();
            (0..8).fold(0, |word, at| {
                word | CHOICES[(bits >> (8 * at)) as usize % 6] << (4 * at)
            })
        }
        Kind::PlacesOfTwo => {
            let bits = random.next();
            (0..8).fold(0, |word, at| {
                let place = if bits >> at & 1 == 0 { 0b0100 } else { 0b1110 };
                word | place << (4 * at)
            })
        }
    }
}

/// A register of `kind` and so many words.
pub fn register(
    random: &mut Random,
    kind: Kind,
    flavour: usize,
    count: usize,
    words: &mut Vec<u32>,
) {
    match kind {
        Kind::F64 => {
            let bits = float(random, 11, 52, flavour);
            words.extend([bits as u32, (bits >> 32) as u32]);
        }
        _ => words.extend((0..count).map(|_| word(random, kind, flavour))),
    }
}
