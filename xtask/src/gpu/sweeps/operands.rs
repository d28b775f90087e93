//! Operands that are hard to get right.

use super::operations::Type;
use crate::gpu::job::Words;

/// The columns of operands of `count` tuples.
pub fn columns(kind: Type, count: usize) -> [Vec<u8>; 3] {
    let size = kind.bytes();
    let mut columns = [0; 3].map(|_: u8| vec![0; count * size]);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = count.div_ceil(threads).max(1);
    let [a, b, c] = &mut columns;
    std::thread::scope(|scope| {
        let parts = a
            .chunks_mut(part * size)
            .zip(b.chunks_mut(part * size))
            .zip(c.chunks_mut(part * size));
        for (number, ((a, b), c)) in parts.enumerate() {
            scope.spawn(move || {
                let rows = a
                    .chunks_mut(size)
                    .zip(b.chunks_mut(size))
                    .zip(c.chunks_mut(size));
                for (at, ((a, b), c)) in rows.enumerate() {
                    let operands = tuple(kind, (number * part + at) as u64);
                    for (slot, operand) in [a, b, c].into_iter().zip(operands) {
                        slot.copy_from_slice(&operand.to_le_bytes()[..size]);
                    }
                }
            });
        }
    });
    columns
}

/// Values that decide: zeros, subnormals, ones, the largest, infinities, NaNs; the edges of integer ranges are among them.
fn special(kind: Type, word: u64) -> u64 {
    let (exponent, mantissa) = match kind {
        Type::B32 | Type::F32 => (8, 23),
        Type::B64 | Type::F64 => (11, 52),
    };
    let bias = (1u64 << (exponent - 1)) - 1;
    let top = (1u64 << exponent) - 1;
    let full = (1u64 << mantissa) - 1;
    let choices = [
        0,
        1,
        full,
        1 << mantissa,
        (1 << mantissa) + 1,
        bias << mantissa,
        (bias << mantissa) + 1,
        ((bias - 1) << mantissa) + full,
        (bias + 1) << mantissa,
        ((top - 1) << mantissa) + full,
        top << mantissa,
        (top << mantissa) + (1 << (mantissa - 1)),
        (top << mantissa) + 1,
        7,
        full >> 1,
        (bias - 2) << mantissa,
    ];
    let sign = (word >> 8 & 1) << (exponent + mantissa);
    choices[(word % 16) as usize] | sign
}

/// Operands number `at`. By its remainder by eight: random bits (0, 1); numbers near one (2); a quotient of the other two, or a
/// neighbour of it (3); a square or a neighbour, and numbers of its size (4); a product's negative as the addend (5); exponents
/// whose product or quotient lies at an end of the range (6); special values (7).
pub fn tuple(kind: Type, at: u64) -> [u64; 3] {
    let mut words = Words::new(at.wrapping_mul(0x9e37_79b9) ^ 0x5eed);
    let mut next = || words.next();
    let random = [next(), next(), next()];
    let class = at % 8;
    if class == 7 {
        let mixed = random[0] >> 32 & 3;
        let a = special(kind, random[0]);
        let b = if mixed == 0 {
            random[1]
        } else {
            special(kind, random[1])
        };
        let c = if mixed == 1 {
            random[2]
        } else {
            special(kind, random[2])
        };
        return [a, b, c];
    }
    match kind {
        Type::B32 | Type::B64 => {
            // Integers of every length.
            let shift = |word: u64, by: u64| (word as i64 >> (by % 56)).cast_unsigned();
            match class {
                0 | 1 => random,
                _ => [
                    shift(random[0], next()),
                    shift(random[1], next()),
                    shift(random[2], next()),
                ],
            }
        }
        Type::F32 => {
            let near = |word: u64, spread: u64| {
                let exponent = 127 - spread / 2 + (word >> 40) % spread;
                f32::from_bits(((word >> 32 & 1) << 31 | exponent << 23 | word & 0x7f_ffff) as u32)
            };
            let step = |x: f32, word: u64| {
                u64::from(x.to_bits().wrapping_add((word % 5) as u32).wrapping_sub(2))
            };
            let bits = |x: f32| u64::from(x.to_bits());
            let [p, q, r] = random.map(|word| near(word, 16));
            match class {
                0 | 1 => random,
                2 => [bits(p), bits(q), bits(r)],
                3 => [step(p * q, next()), bits(q), bits(r)],
                4 => [step(p * p, next()), step(-(p * p), next()), bits(r)],
                5 => [bits(p), bits(q), step(-(p * q), next())],
                _ => {
                    let [p, q, r] = random.map(|word| near(word, 252));
                    [bits(p), bits(q), bits(r)]
                }
            }
        }
        Type::F64 => {
            let near = |word: u64, spread: u64| {
                let mixed = word.wrapping_mul(0xd134_2543_de82_ef95);
                let exponent = 1023 - spread / 2 + (mixed >> 40) % spread;
                f64::from_bits((mixed & 1) << 63 | exponent << 52 | word & ((1 << 52) - 1))
            };
            let step = |x: f64, word: u64| x.to_bits().wrapping_add(word % 5).wrapping_sub(2);
            let [p, q, r] = random.map(|word| near(word, 16));
            let bits = f64::to_bits;
            match class {
                0 | 1 => random,
                2 => [bits(p), bits(q), bits(r)],
                3 => [step(p * q, next()), bits(q), bits(r)],
                4 => [step(p * p, next()), step(-(p * p), next()), bits(r)],
                5 => [bits(p), bits(q), step(-(p * q), next())],
                _ => {
                    let [p, q, r] = random.map(|word| near(word, 2044));
                    [bits(p), bits(q), bits(r)]
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_have_quotients_and_cancelling_sums() {
        let [a, b, _] = tuple(Type::F32, 3);
        let quotient = f32::from_bits(a as u32) / f32::from_bits(b as u32);
        assert!(quotient.is_finite());
        let [a, b, c] = tuple(Type::F64, 5).map(f64::from_bits);
        assert!((a * b + c).abs() <= (a * b).abs() * 1e-14);
    }
}
