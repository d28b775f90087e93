//! Matrix products of a warp group: four warps, sixteen rows each.
//!
//! A warp computes its own rows of 64, so the four need not wait for one another here. B comes from shared memory, A from there or from
//! registers, laid out as for a warp's products; the sum is eight columns at a time as theirs is. Results are there at once: that nobody
//! touches them before WARPGROUP.DEPBAR is for `verify` to prove.

use super::Table;
use super::matrix::{
    ByteRule, Matrix, Part, ProductShape, Sparse, Sums, byte_part, half_part, left_factor,
    multiply, tf32_part, whole, whole_warp,
};
use crate::access::Space;
use crate::core::Core;
use crate::fault::{Cause, FaultKind};
use crate::operand::{Lack, Reader, Source, Target};
use crate::program::Action;
use orias_eval::float::{Format, Rounding};
use orias_eval::matrix::{DotRule, SharedMatrix, SparseElements};
use orias_sass::{Mnemonic, Op, Operand, modifier_names as name, modifier_values as value};
use orias_sass::{SlotName, slot_names as slot};

pub(super) const TABLE: Table = &[
    (Op::HGMMA_F32, product),
    (Op::HGMMA_F16, product),
    (Op::HGMMA_TF32, product),
    (Op::HGMMA_F32_RA, product),
    (Op::HGMMA_F16_RA, product),
    (Op::HGMMA_TF32_RA, product),
    (Op::HGMMA_SP_F32, product),
    (Op::HGMMA_SP_F16, product),
    (Op::HGMMA_SP_TF32, product),
    (Op::HGMMA_SP_F32_RA, product),
    (Op::HGMMA_SP_F16_RA, product),
    (Op::HGMMA_SP_TF32_RA, product),
    (Op::QGMMA_F32, product),
    (Op::QGMMA_F16, product),
    (Op::QGMMA_F32_RA, product),
    (Op::QGMMA_F16_RA, product),
    (Op::QGMMA_SP_F32, product),
    (Op::QGMMA_SP_F16, product),
    (Op::QGMMA_SP_F32_RA, product),
    (Op::QGMMA_SP_F16_RA, product),
    (Op::IGMMA, product),
    (Op::IGMMA_RA, product),
    (Op::IGMMA_SP, product),
    (Op::IGMMA_SP_RA, product),
    (Op::BGMMA, product),
    (Op::BGMMA_RA, product),
    (Op::WARPGROUP_ARRIVE, nothing),
    (Op::WARPGROUP_DEPBAR, nothing),
    (Op::WARPGROUP_WAIT, nothing),
];

fn nothing(_: &Reader<'_>) -> Result<Action, Lack> {
    Ok(Box::new(|_| Ok(())))
}

/// How elements are multiplied and added.
#[derive(Clone, Copy)]
enum Rule {
    Floats([Format; 2], DotRule),
    Bytes(ByteRule),
    Bits,
}

impl Rule {
    fn dot(self, a: &[u64], b: &[u64], c: u64) -> u64 {
        match self {
            Self::Floats(operands, rule) => rule.dot_of(operands, a, b, c),
            Self::Bytes(rule) => rule.dot(a, b, c),
            Self::Bits => {
                let ones: u32 = a.iter().zip(b).map(|(a, b)| (a & b).count_ones()).sum();
                u64::from((c as u32).wrapping_add(ones))
            }
        }
    }
}

/// Where a factor in shared memory is described, and how it lies there.
#[derive(Clone, Copy)]
struct Place {
    /// The first uniform register.
    register: u8,
    by_k: bool,
    negated: bool,
}

/// What elements are: in memory so many bytes, in a word so many.
#[derive(Clone, Copy)]
struct Elements {
    bytes: usize,
    part: Part,
    sign: u64,
}

/// The rows `first` and on of a factor in shared memory, each along K.
fn shared_factor(
    core: &mut Core<'_>,
    place: Place,
    elements: Elements,
    first: usize,
    [rows, k]: [usize; 2],
) -> Result<Matrix, Cause> {
    let word = |core: &mut Core<'_>, at: u8| u64::from(core.ur(place.register + at));
    let descriptor = word(core, 0) | word(core, 1) << 32;
    let Some(shared) = SharedMatrix::of(descriptor) else {
        let what = format!("a matrix descriptor with a base offset, {descriptor:#x}");
        return Err(FaultKind::Unsupported(what).into());
    };
    let mut matrix = Matrix::new(rows, k);
    let bytes = elements.bytes as u64;
    for row in 0..rows {
        for step in 0..k {
            let (outer, inner) = match place.by_k {
                true => (first + row, step),
                false => (step, first + row),
            };
            let address = shared.address(place.by_k, outer as u64, inner as u64 * bytes);
            let bits = core.load(Space::Shared, 0, address, elements.bytes as u32)? as u64;
            let value = (elements.part)(bits, 0);
            *matrix.at((row, step)) = if place.negated {
                value ^ elements.sign
            } else {
                value
            };
        }
    }
    Ok(matrix)
}

/// What a product reads on the left.
enum Left {
    Registers(Source),
    Shared(Place),
}

fn descriptor_register(reader: &Reader<'_>, name: SlotName) -> Result<u8, Lack> {
    match reader.operand(name)? {
        Operand::Descriptor(register) => Ok(register.index),
        other => Err(format!("'{name}' is {other:?}")),
    }
}

fn product(reader: &Reader<'_>) -> Result<Action, Lack> {
    let op = reader.instruction.op();
    let (d, c): (Target, Source) = (reader.target(slot::D)?, reader.source(slot::C)?);
    let p = reader.condition(slot::P)?;
    let sparse = op.row().slot_index(slot::E).is_some();
    let sides: Vec<usize> = reader
        .modifier(name::SHAPE)?
        .text()
        .split('x')
        .filter_map(|side| side.parse().ok())
        .collect();
    let &[_, n, k] = &sides[..] else {
        return Err("a shape without three sides".to_owned());
    };
    let half_sums = matches!(
        op,
        Op::HGMMA_F16
            | Op::HGMMA_F16_RA
            | Op::HGMMA_SP_F16
            | Op::HGMMA_SP_F16_RA
            | Op::QGMMA_F16
            | Op::QGMMA_F16_RA
            | Op::QGMMA_SP_F16
            | Op::QGMMA_SP_F16_RA
    );
    let of_tf32 = matches!(
        op,
        Op::HGMMA_TF32 | Op::HGMMA_TF32_RA | Op::HGMMA_SP_TF32 | Op::HGMMA_SP_TF32_RA
    );
    let stored = if sparse { k / 2 } else { k };
    let floats = |operand| {
        let (result, rounding) = match half_sums {
            true => (Format::F16, Rounding::NearestEven),
            false => (Format::F32, Rounding::Zero),
        };
        let rule = DotRule {
            group: stored,
            kept_bits: 25,
            result,
            rounding,
            cut_bits: 0,
        };
        Rule::Floats([operand; 2], rule)
    };
    // Thirty-two bits of a row of bits count as one element.
    let (rule, elements, places, k) = match op.mnemonic() {
        Mnemonic::HGMMA if of_tf32 => {
            let part: Part = tf32_part;
            (
                floats(Format::TF32),
                Elements {
                    bytes: 4,
                    part,
                    sign: 1 << 18,
                },
                SparseElements::Singles,
                k,
            )
        }
        Mnemonic::HGMMA => {
            let operand = match reader.is(name::TYPE, value::BF16) {
                true => Format::BF16,
                false => Format::F16,
            };
            let part: Part = half_part;
            (
                floats(operand),
                Elements {
                    bytes: 2,
                    part,
                    sign: 1 << 15,
                },
                SparseElements::Halves,
                k,
            )
        }
        Mnemonic::QGMMA => {
            let format = |name| match reader.is(name, value::E5M2) {
                true => Format::E5M2,
                false => Format::E4M3,
            };
            let result = if half_sums { Format::F16 } else { Format::F32 };
            let part: Part = byte_part;
            (
                Rule::Floats(
                    [format(name::TA), format(name::TB)],
                    DotRule::narrow(stored, result),
                ),
                Elements {
                    bytes: 1,
                    part,
                    sign: 1 << 7,
                },
                SparseElements::Bytes,
                k,
            )
        }
        Mnemonic::IGMMA => {
            let part: Part = byte_part;
            let rule = Rule::Bytes(ByteRule::of(reader)?);
            (
                rule,
                Elements {
                    bytes: 1,
                    part,
                    sign: 0,
                },
                SparseElements::Bytes,
                k,
            )
        }
        _ => {
            let part: Part = whole;
            (
                Rule::Bits,
                Elements {
                    bytes: 4,
                    part,
                    sign: 0,
                },
                SparseElements::Bytes,
                k / 32,
            )
        }
    };
    let stored = if sparse { k / 2 } else { k };
    let shape = ProductShape {
        m: 16,
        n: 8,
        k: stored,
        packed: 4 / elements.bytes,
    };
    let (left, right) = if op.row().slot_index(slot::A).is_some() {
        (
            Left::Registers(reader.source(slot::A)?),
            descriptor_register(reader, slot::B)? + 2,
        )
    } else {
        let register = descriptor_register(reader, slot::AB)?;
        let left = Place {
            register,
            by_k: !reader.is(name::TNSPA, value::TNSPA),
            negated: reader.is(name::NEGA, value::NEGA),
        };
        (Left::Shared(left), register + 2)
    };
    let right = Place {
        register: right,
        by_k: !reader.is(name::TNSPB, value::TNSPB),
        negated: reader.is(name::NEGB, value::NEGB),
    };
    let sparse = match sparse {
        true => Some(Sparse::of(reader, places)?),
        false => None,
    };
    // The sums of all columns; eight columns at a time are four elements.
    let sums = Sums {
        elements: n / 2,
        packed: half_sums,
        wide: false,
    };
    let eight = Sums {
        elements: 4,
        ..sums
    };
    Ok(Box::new(move |core| {
        whole_warp(core)?;
        let rows = 16 * (core.warp.number as usize % 4);
        let left = match &left {
            Left::Registers(a) => {
                let plain = Source {
                    negate: false,
                    ..*a
                };
                let mut matrix = left_factor(core, shape, &plain, elements.part, false);
                if a.negate {
                    for row in 0..16 {
                        for column in 0..stored {
                            *matrix.at((row, column)) ^= elements.sign;
                        }
                    }
                }
                matrix
            }
            Left::Shared(place) => shared_factor(core, *place, elements, rows, [16, stored])?,
        };
        let sum = sums.read_if(core, &c, &p);
        let mut out = Vec::with_capacity(sums.elements);
        for block in 0..n / 8 {
            let right = shared_factor(core, right, elements, 8 * block, [8, k])?;
            let sum = &sum[4 * block..4 * block + 4];
            out.extend(match &sparse {
                Some(sparse) => {
                    sparse.multiply(core, eight, &left, &right, sum, |a, b, c| rule.dot(a, b, c))
                }
                None => multiply(eight, &left, &right, sum, |a, b, c| rule.dot(a, b, c)),
            });
        }
        sums.write(core, &d, &out);
        Ok(())
    }))
}
