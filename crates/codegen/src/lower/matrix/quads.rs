//! `m8n8k4` of halves: four products at once, each by eight lanes: four neighbours and the four that are sixteen further on.
//!
//! Only the first chip with matrix units had an instruction for it. As ptxas does, each lane gets what it needs from the others and
//! computes its sums in single precision:
//!
//! | D | C | a sum |
//! | --- | --- | --- |
//! | f16 | f16 | `(C + fma(a1, b1, a0 b0)) + fma(a3, b3, a2 b2)`, rounded to a half |
//! | f32 | f16, f32 | `C + fma(a3, b3, fma(a2, b2, fma(a1, b1, fma(a0, b0, 0))))` |
//!
//! **Layouts.** Lane `i` of the eight (`lane & 3`, and 4 more from lane 16 on) has row `i` of a row-major A and column `i` of a column-major
//! B, four halves each. The other layouts are transposed first, four lanes by four. Sums of halves are row `i`, eight columns. Of single
//! precision, a lane has rows `lane & 1` and 2 more, columns `lane & 2`, 1 more, and the same two 4 further on.

use super::super::body::{Body, Lowered};
use super::{Fragments, Product, lane, shuffled};
use crate::emit::{Emit, imm};
use orias_ori::Operand;
use orias_ori::operation::{AbstractOp, Compare, Ftz, Layout, Round, Scalar, Shuffle, SourceType};
use orias_ptx::types::Type as PtxType;

pub(super) fn multiply(
    body: &mut Body<'_, '_>,
    product: Product,
    fragments: &Fragments,
) -> Lowered<Vec<Operand>> {
    let lane = lane(body)?;
    let [d, _, _, c] = product.types;
    body.with(|emit| {
        let mut a = [fragments.a[0], fragments.a[1]];
        let mut b = [fragments.b[0], fragments.b[1]];
        if product.layouts[0] == Layout::Col {
            a = transposed(emit, a, lane);
        }
        if product.layouts[1] == Layout::Row {
            b = transposed(emit, b, lane);
        }
        match d {
            PtxType::F16 => half_sums(emit, a, b, &fragments.c, lane),
            _ => single_sums(emit, a, b, &fragments.c, c, lane),
        }
    })
}

/// Four halves in each of four neighbouring lanes, rows and columns exchanged.
fn transposed(emit: &mut Emit<'_>, words: [Operand; 2], lane: Operand) -> [Operand; 2] {
    let bit = |emit: &mut Emit<'_>, mask: u64| {
        let bit = emit.and(lane, imm(mask));
        emit.setp(Compare::Ne, Scalar::U32, bit, imm(0))
    };
    let (odd, upper) = (bit(emit, 1), bit(emit, 2));
    // Neighbours exchange halves: an even lane keeps the lower ones, an odd lane the upper ones.
    let pick = emit.selp(Scalar::B32, imm(0x3276), imm(0x5410), odd);
    let [low, high] = words.map(|word| {
        let other = shuffled(emit, Shuffle::Bfly, word, imm(1));
        emit.op(AbstractOp::Prmt, (), &[word, other, pick])
    });
    // The lanes two further on exchange words.
    let give = emit.selp(Scalar::B32, low, high, upper);
    let taken = shuffled(emit, Shuffle::Bfly, give, imm(2));
    [
        emit.selp(Scalar::B32, taken, low, upper),
        emit.selp(Scalar::B32, high, taken, upper),
    ]
}

/// The two halves of a word in single precision.
fn singles(emit: &mut Emit<'_>, word: Operand) -> [Operand; 2] {
    let high = emit.shr(Scalar::U32, word, imm(16));
    [word, high].map(|half| emit.op(AbstractOp::Cvt, (Scalar::F32, SourceType::F16), &[half]))
}

fn product_of(emit: &mut Emit<'_>, a: Operand, b: Operand) -> Operand {
    emit.op(AbstractOp::Fmul, (Round::Rn, Scalar::F32), &[a, b])
}

fn sum_of(emit: &mut Emit<'_>, a: Operand, b: Operand) -> Operand {
    emit.op(AbstractOp::Fadd, (Round::Rn, Scalar::F32), &[a, b])
}

fn fused(emit: &mut Emit<'_>, a: Operand, b: Operand, c: Operand) -> Operand {
    emit.ffma((Round::Rn, Ftz::Keep, Scalar::F32), a, b, c)
}

/// Row `i` of a lane's own, columns 0 to 7 of eight lanes.
fn half_sums(
    emit: &mut Emit<'_>,
    a: [Operand; 2],
    b: [Operand; 2],
    c: &[Operand],
    lane: Operand,
) -> Vec<Operand> {
    let a: Vec<[Operand; 2]> = a.iter().map(|&word| singles(emit, word)).collect();
    let first = emit.and(lane, imm(12));
    let sums: Vec<Operand> = (0..8)
        .map(|column| {
            let from = emit.add(first, imm(column % 4 + column / 4 * 16));
            let mut sum = singles(emit, c[column as usize / 2])[column as usize % 2];
            for (a, word) in a.iter().zip(b) {
                let word = shuffled(emit, Shuffle::Idx, word, from);
                let b = singles(emit, word);
                let product = product_of(emit, a[0], b[0]);
                let both = fused(emit, a[1], b[1], product);
                sum = sum_of(emit, sum, both);
            }
            sum
        })
        .collect();
    sums.chunks(2)
        .map(|pair| {
            let mods = (Round::Rn, Scalar::F16x2, SourceType::F32);
            emit.op(AbstractOp::CvtPair, mods, &[pair[1], pair[0]])
        })
        .collect()
}

/// Two rows and four columns of the eight lanes' product.
fn single_sums(
    emit: &mut Emit<'_>,
    a: [Operand; 2],
    b: [Operand; 2],
    c: &[Operand],
    ty: PtxType,
    lane: Operand,
) -> Vec<Operand> {
    let quad = emit.and(lane, imm(!3 & 0xffff_ffff));
    let odd = emit.and(lane, imm(1));
    let row = emit.or(quad, odd);
    let rows = [row, emit.add(row, imm(2))];
    let column = emit.and(lane, imm(14));
    let columns: Vec<Operand> = [0, 1, 16, 17]
        .iter()
        .map(|&more| emit.add(column, imm(more)))
        .collect();
    let elements = |emit: &mut Emit<'_>, words: [Operand; 2], from: Operand| -> Vec<Operand> {
        words
            .iter()
            .flat_map(|&word| {
                let word = shuffled(emit, Shuffle::Idx, word, from);
                singles(emit, word)
            })
            .collect()
    };
    let left: Vec<Vec<Operand>> = rows.iter().map(|&from| elements(emit, a, from)).collect();
    let right: Vec<Vec<Operand>> = columns
        .iter()
        .map(|&from| elements(emit, b, from))
        .collect();
    let addends = match ty {
        PtxType::F16 => spread(emit, c, rows, lane),
        _ => c.to_vec(),
    };
    (0..8)
        .map(|element| {
            let (row, column) = (element >> 1 & 1, element & 1 | element >> 1 & 2);
            let sum = left[row]
                .iter()
                .zip(&right[column])
                .fold(imm(0), |sum, (&a, &b)| fused(emit, a, b, sum));
            sum_of(emit, addends[element], sum)
        })
        .collect()
}

/// C of halves, each lane one row, as single precision has it: the columns are the reader's choice of two words.
fn spread(emit: &mut Emit<'_>, c: &[Operand], rows: [Operand; 2], lane: Operand) -> Vec<Operand> {
    let upper = emit.and(lane, imm(2));
    let upper = emit.setp(Compare::Ne, Scalar::U32, upper, imm(0));
    let mut spread = vec![imm(0); 8];
    for (row, from) in rows.into_iter().enumerate() {
        for (half, pair) in c.chunks(2).enumerate() {
            let words = [pair[0], pair[1]].map(|word| shuffled(emit, Shuffle::Idx, word, from));
            let word = emit.selp(Scalar::B32, words[1], words[0], upper);
            let [low, high] = singles(emit, word);
            spread[4 * half + 2 * row] = low;
            spread[4 * half + 2 * row + 1] = high;
        }
    }
    spread
}
