//! Sparse products of narrow floats: `m16n8k64` by two sparse products of halves, `m16n8k32`.
//!
//! Four neighbours in K, of which A holds two, are a group. A word of A holds two groups, the even one in its low pair; a word of
//! B is one group. The low pairs of A make the first product, the high ones the second, so the first takes the even groups of B, the
//! second the odd ones. A fragment of halves has half a group in a word, the first half in even lanes. So an even lane keeps the low
//! half of its own word for the first product, an odd lane the high half of its own for the second, and they exchange the others.
//!
//! **Metadata.** Four bits tell of a group. A lane has eight groups of one row: lanes 0 and 2 of four those of row `g`, 1 and 3 those
//! of `g + 8`, the first eight in lanes 0 and 1. A product of halves wants the eight groups of both rows in one word, and in lanes
//! 0 and 1 (selector 0) or 2 and 3 (selector 1), the first eight first.

use super::super::body::{Body, Lowered};
use super::{Fragments, Product, Step, added, lane, shuffled, widened};
use crate::emit::{Emit, imm};
use orias_ori::Operand;
use orias_ori::operation::{AbstractOp, BitOp, Compare, MatrixShape, Scalar, Second, Shuffle};

pub(super) fn multiply(
    body: &mut Body<'_, '_>,
    product: Product,
    fragments: &Fragments,
) -> Lowered<Vec<Operand>> {
    let lane = lane(body)?;
    let metadata = fragments.places.map_or(imm(0), |(metadata, _)| metadata);
    body.with(|emit| {
        let [d, a, b, _] = product.types;
        let low_bit = emit.and(lane, imm(1));
        let odd = emit.setp(Compare::Ne, Scalar::U32, low_bit, imm(0));
        let places = regrouped(emit, metadata, lane, odd);
        let left = widened(emit, &fragments.a, a);
        let halves = exchanged(emit, &fragments.b, odd);
        let right = halves.map(|words| {
            let [low, _] = widened(emit, &words, b);
            low
        });
        let step = Step {
            shape: MatrixShape::M16n8k32,
            result: Scalar::F32,
            left: Scalar::F16,
            right: Second::Same,
            bits: BitOp::None,
        };
        let mut sum = vec![imm(0); fragments.c.len()];
        for (selector, (a, b)) in left.iter().zip(&right).enumerate() {
            sum = step.multiply(emit, [a, b, &sum], Some((places, selector as u64)));
        }
        added(emit, d, &fragments.c, &sum)
    })
}

/// The pairs of B for the first product, and for the second, in the low halves of words.
fn exchanged(emit: &mut Emit<'_>, words: &[Operand], odd: Operand) -> [Vec<Operand>; 2] {
    let mut pairs = [Vec::new(), Vec::new()];
    for &word in words {
        let high = emit.shr(Scalar::U32, word, imm(16));
        let keep = emit.selp(Scalar::B32, high, word, odd);
        let give = emit.selp(Scalar::B32, word, high, odd);
        let taken = shuffled(emit, Shuffle::Bfly, give, imm(1));
        pairs[0].push(emit.selp(Scalar::B32, taken, keep, odd));
        pairs[1].push(emit.selp(Scalar::B32, keep, taken, odd));
    }
    pairs
}

/// The metadata of the even groups in lanes 0 and 1 of four, of the odd ones in lanes 2 and 3.
fn regrouped(emit: &mut Emit<'_>, metadata: Operand, lane: Operand, odd: Operand) -> Operand {
    // The even groups, four bits each, become the low half, the odd ones the high half.
    let (even_bits, odd_bits) = (0x0f0f_0f0f, 0xf0f0_f0f0u64);
    let split = |emit: &mut Emit<'_>, mask: u64, down: u64| {
        let mut word = emit.and(metadata, imm(mask));
        if down > 0 {
            word = emit.shr(Scalar::U32, word, imm(down));
        }
        // 0a0b0c0d to 00ab00cd to abcd.
        let moved = emit.shr(Scalar::U32, word, imm(4));
        let word = emit.or(word, moved);
        emit.op(AbstractOp::Prmt, (), &[word, imm(0), imm(0x4420)])
    };
    let low = split(emit, even_bits, 0);
    let high = split(emit, odd_bits, 4);
    let both = emit.op(AbstractOp::Prmt, (), &[low, high, imm(0x5410)]);
    // Row `g` is in this lane or the one before, row `g + 8` in the one behind or this.
    let other = shuffled(emit, Shuffle::Bfly, both, imm(1));
    let first = emit.selp(Scalar::B32, other, both, odd);
    let second = emit.selp(Scalar::B32, both, other, odd);
    let of_even = emit.op(AbstractOp::Prmt, (), &[first, second, imm(0x5410)]);
    let of_odd = emit.op(AbstractOp::Prmt, (), &[first, second, imm(0x7632)]);
    // Lanes 0 and 2 take those of lane 0, lanes 1 and 3 those of lane 2.
    let quad = emit.and(lane, imm(!3 & 0xffff_ffff));
    let bit = emit.and(lane, imm(1));
    let up = emit.shl(bit, imm(1));
    let from = emit.or(quad, up);
    let of_even = shuffled(emit, Shuffle::Idx, of_even, from);
    let of_odd = shuffled(emit, Shuffle::Idx, of_odd, from);
    let upper = emit.and(lane, imm(2));
    let upper = emit.setp(Compare::Ne, Scalar::U32, upper, imm(0));
    emit.selp(Scalar::B32, of_odd, of_even, upper)
}
