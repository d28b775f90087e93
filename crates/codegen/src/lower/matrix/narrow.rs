//! Products of narrow floats, of integers of four bits, and of bits with `.xor`.
//!
//! **Narrow floats.** A word holds four elements, neighbours in K. The low pairs of all words of A and B make one product of halves, the
//! high pairs another; both are the same columns of A and rows of B. The first starts from zero, the second from the first, and C is added
//! at the end, rounded once more.
//!
//! **Four bits.** A word holds eight elements; the even ones are the bytes' low halves, the odd ones the high halves. Unsigned
//! elements are put into the low half of a byte. Signed ones stay in the high half, with zero below: the byte is sixteen times the
//! element, and the sum is shifted down at the end, which is exact. C is added last, because a saturated sum is saturated once.
//!
//! **Bits.** What differs is set in A and not in B, or in B and not in A.

use super::super::body::{Body, Lowered, unsupported};
use super::{Fragments, Product, Step, added, widened};
use crate::emit::{Emit, imm};
use orias_ori::Operand;
use orias_ori::operation::{AbstractOp, BitOp, MatrixShape, Sat, Scalar, Second};
use orias_ptx::types::Type as PtxType;

pub(super) fn multiply(
    body: &mut Body<'_, '_>,
    product: Product,
    fragments: &Fragments,
) -> Lowered<Vec<Operand>> {
    match product.types[1] {
        PtxType::B1 => body.with(|emit| different(emit, product, fragments)),
        PtxType::S4 | PtxType::U4 => {
            let Some(shape) = bytes_of(product) else {
                return unsupported("");
            };
            body.with(|emit| four_bits(emit, product, shape, fragments))
        }
        _ => {
            let shape = match product.shape {
                MatrixShape::M16n8k16 => MatrixShape::M16n8k8,
                MatrixShape::M16n8k32 => MatrixShape::M16n8k16,
                _ => return unsupported(""),
            };
            body.with(|emit| narrow_floats(emit, product, shape, fragments))
        }
    }
}

fn narrow_floats(
    emit: &mut Emit<'_>,
    product: Product,
    shape: MatrixShape,
    fragments: &Fragments,
) -> Vec<Operand> {
    let [d, a, b, _] = product.types;
    let step = Step {
        shape,
        result: if d == PtxType::F16 {
            Scalar::F16
        } else {
            Scalar::F32
        },
        left: Scalar::F16,
        right: Second::Same,
        bits: BitOp::None,
    };
    let left = widened(emit, &fragments.a, a);
    let right = widened(emit, &fragments.b, b);
    let mut sum = vec![imm(0); fragments.c.len()];
    for (a, b) in left.iter().zip(&right) {
        sum = step.multiply(emit, [a, b, &sum], None);
    }
    added(emit, d, &fragments.c, &sum)
}

/// The shape of a product of bytes with half as many elements in a row.
fn bytes_of(product: Product) -> Option<MatrixShape> {
    Some(match (product.shape, product.sparse) {
        (MatrixShape::M8n8k32, false) => MatrixShape::M8n8k16,
        (MatrixShape::M16n8k32, false) => MatrixShape::M16n8k16,
        (MatrixShape::M16n8k64, _) => MatrixShape::M16n8k32,
        (MatrixShape::M16n8k128, true) => MatrixShape::M16n8k64,
        _ => return None,
    })
}

/// The low half of each byte, and the high half.
const LOW_HALVES: u64 = 0x0f0f_0f0f;
const HIGH_HALVES: u64 = 0xf0f0_f0f0;

/// The even and the odd elements of each word as bytes: the elements themselves, or sixteen times those that have a sign.
fn bytes(emit: &mut Emit<'_>, words: &[Operand], signed: bool) -> [Vec<Operand>; 2] {
    let mut halves = [Vec::new(), Vec::new()];
    for &word in words {
        let shifted = match signed {
            true => emit.shl(word, imm(4)),
            false => emit.shr(Scalar::U32, word, imm(4)),
        };
        let (even, odd, mask) = match signed {
            true => (shifted, word, HIGH_HALVES),
            false => (word, shifted, LOW_HALVES),
        };
        halves[0].push(emit.and(even, imm(mask)));
        halves[1].push(emit.and(odd, imm(mask)));
    }
    halves
}

fn four_bits(
    emit: &mut Emit<'_>,
    product: Product,
    shape: MatrixShape,
    fragments: &Fragments,
) -> Vec<Operand> {
    let [left, right] = [product.types[1], product.types[2]].map(|ty| ty == PtxType::S4);
    let byte = |signed| if signed { Scalar::S8 } else { Scalar::U8 };
    let step = Step {
        shape,
        result: Scalar::S32,
        left: byte(left),
        right: match right {
            _ if left == right => Second::Same,
            true => Second::S8,
            false => Second::U8,
        },
        bits: BitOp::None,
    };
    let a = bytes(emit, &fragments.a, left);
    let b = bytes(emit, &fragments.b, right);
    let mut sum = vec![imm(0); fragments.c.len()];
    for (a, b) in a.iter().zip(&b) {
        sum = step.multiply(emit, [a, b, &sum], fragments.places);
    }
    let up = 4 * (u64::from(left) + u64::from(right));
    let sat = if product.saturates {
        Sat::Sat
    } else {
        Sat::Wrap
    };
    sum.iter()
        .zip(&fragments.c)
        .map(|(&sum, &c)| {
            let sum = match up {
                0 => sum,
                _ => emit.shr(Scalar::S32, sum, imm(up)),
            };
            emit.op(AbstractOp::Add, (sat, Scalar::S32), &[sum, c])
        })
        .collect()
}

/// How many bits differ.
fn different(emit: &mut Emit<'_>, product: Product, fragments: &Fragments) -> Vec<Operand> {
    let step = Step {
        shape: product.shape,
        result: Scalar::S32,
        left: Scalar::B1,
        right: Second::Same,
        bits: BitOp::AndPopc,
    };
    let flipped = |emit: &mut Emit<'_>, words: &[Operand]| -> Vec<Operand> {
        words
            .iter()
            .map(|&word| emit.op(AbstractOp::Not, (Scalar::B32,), &[word]))
            .collect()
    };
    let not_b = flipped(emit, &fragments.b);
    let sum = step.multiply(emit, [&fragments.a, &not_b, &fragments.c], None);
    let not_a = flipped(emit, &fragments.a);
    step.multiply(emit, [&not_a, &fragments.b, &sum], None)
}
