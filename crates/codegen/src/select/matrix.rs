//! Matrix products of a warp: HMMA for floats, IMMA for bytes, BMMA for bits, DMMA for doubles.
//!
//! Fragments are tuples, aligned as their length asks. A C of zeros is RZ. The machine has a row for each shape it can do; lowering has
//! made everything else of those.

use super::emission::Mod;
use super::selector::{Selector, rz};
use super::source::Source;
use super::sources;
use crate::pipeline::PhaseError;
use orias_ori::operation::{self, AbstractOp, MatrixShape, Round, Sat, Scalar, Second};
use orias_ori::{Class, Operand, Value};
use orias_sass::Op;
use orias_sass::ValueName;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

/// `UPT`, which reads true.
pub(super) fn upt() -> Operand {
    Class::UP.constant().map_or(Operand::None, Operand::from)
}

impl Selector<'_> {
    /// Source `index`, a tuple, or RZ where all of its words are zero.
    pub(super) fn tuple_or_zero(&mut self, index: usize) -> Source {
        let operand = self.operand(index);
        match operand.as_value() {
            Some(value) if self.is_zeros(value) => rz().into(),
            _ => operand.into(),
        }
    }

    /// Whether `value` is a tuple of zeros.
    pub(super) fn is_zeros(&mut self, value: Value) -> bool {
        let Some((inst, AbstractOp::Collect)) = self.definition(value) else {
            return false;
        };
        let parts = self.func.operands(inst)[1..].to_vec();
        parts.iter().all(|&part| match part.as_value() {
            Some(part) if self.func.value_type(part).len() == 2 => {
                let words = self.words_of(part.into());
                words.iter().all(|word| word.is_zero())
            }
            Some(part) if self.func.value_type(part).len() == 1 => {
                self.word_of(part.into()).is_zero()
            }
            _ => false,
        })
    }
}

/// How a row of a product is spelt: the operation and its modifiers.
struct Spelling {
    op: Op,
    mods: Vec<Mod>,
}

/// The name of a shape in a column of names.
fn named(shape: MatrixShape, names: &[(MatrixShape, ValueName)]) -> Option<ValueName> {
    names
        .iter()
        .find(|(have, _)| *have == shape)
        .map(|&(_, name)| name)
}

/// Shapes as HMMA, IMMA, BMMA and DMMA name them; those of sparse products have K twice as long.
const HALF_SHAPES: &[(MatrixShape, ValueName)] = &[
    (MatrixShape::M16n8k4, value::_1684),
    (MatrixShape::M16n8k8, value::_1688),
    (MatrixShape::M16n8k16, value::_16816),
    (MatrixShape::M16n8k32, value::_16832),
];
const BYTE_SHAPES: &[(MatrixShape, ValueName)] = &[
    (MatrixShape::M8n8k16, value::_8816),
    (MatrixShape::M16n8k16, value::_16816),
    (MatrixShape::M16n8k32, value::_16832),
    (MatrixShape::M16n8k64, value::_16864),
];
const BIT_SHAPES: &[(MatrixShape, ValueName)] = &[
    (MatrixShape::M8n8k128, value::_88128),
    (MatrixShape::M16n8k128, value::_168128),
    (MatrixShape::M16n8k256, value::_168256),
];
const DOUBLE_SHAPES: &[(MatrixShape, ValueName)] = &[
    (MatrixShape::M8n8k4, value::_8X8X4),
    (MatrixShape::M16n8k4, value::_16X8X4),
    (MatrixShape::M16n8k8, value::_16X8X8),
    (MatrixShape::M16n8k16, value::_16X8X16),
];

/// The instruction of the product being selected.
fn spelling(s: &Selector<'_>, sparse: bool) -> Result<Option<Spelling>, PhaseError> {
    let shape: MatrixShape = s.modifier()?;
    let result: Scalar = s.modifier()?;
    let left: Scalar = s.modifier::<operation::SourceType>()?.into();
    let right = match s.modifier::<Second>()? {
        Second::U8 => Scalar::U8,
        Second::S8 => Scalar::S8,
        _ => left,
    };
    let found = match left {
        Scalar::F16 | Scalar::Bf16 | Scalar::Tf32 => {
            let op = if sparse { Op::HMMA_SP } else { Op::HMMA };
            let acc = if result == Scalar::F16 {
                value::F16
            } else {
                value::F32
            };
            let ty = match left {
                Scalar::F16 => value::F16,
                Scalar::Bf16 => value::BF16,
                _ => value::TF32,
            };
            named(shape, HALF_SHAPES).map(|shape| Spelling {
                op,
                mods: vec![(name::SHAPE, shape), (name::ACC, acc), (name::TYPE, ty)],
            })
        }
        Scalar::U8 | Scalar::S8 => {
            let op = if sparse { Op::IMMA_SP } else { Op::IMMA };
            let byte = |scalar| {
                if scalar == Scalar::S8 {
                    value::S8
                } else {
                    value::U8
                }
            };
            let sat = match s.modifier::<Sat>()? {
                Sat::Satfinite => value::SAT,
                _ => value::NO,
            };
            named(shape, BYTE_SHAPES).map(|shape| Spelling {
                op,
                mods: vec![
                    (name::SHAPE, shape),
                    (name::TA, byte(left)),
                    (name::TB, byte(right)),
                    (name::SAT, sat),
                ],
            })
        }
        Scalar::B1 if !sparse => named(shape, BIT_SHAPES).map(|shape| Spelling {
            op: Op::BMMA,
            mods: vec![
                (name::SHAPE, shape),
                (name::FN, value::AND),
                (name::SUM, value::POPC),
            ],
        }),
        Scalar::F64 if !sparse => {
            let rnd = match s.modifier::<Round>()? {
                Round::Rz => value::RZ,
                Round::Rm => value::RM,
                Round::Rp => value::RP,
                _ => value::RN,
            };
            named(shape, DOUBLE_SHAPES).map(|shape| Spelling {
                op: Op::DMMA,
                mods: vec![(name::SHAPE, shape), (name::RND, rnd)],
            })
        }
        _ => None,
    };
    Ok(found)
}

pub(super) fn multiply(s: &mut Selector<'_>) -> Done {
    let Some(Spelling { op, mods }) = spelling(s, false)? else {
        return Err(s.unsupported());
    };
    s.gather_lanes()?;
    let (a, b) = (s.operand(0), s.operand(1));
    let c = s.tuple_or_zero(2);
    s.emit_guarded(op, &mods, sources![s.result(0), a, b, c, upt()])?;
    Ok(())
}

pub(super) fn multiply_sparse(s: &mut Selector<'_>) -> Done {
    let Some(Spelling { op, mods }) = spelling(s, true)? else {
        return Err(s.unsupported());
    };
    s.gather_lanes()?;
    let (a, b) = (s.operand(0), s.operand(1));
    let c = s.tuple_or_zero(2);
    let metadata = s.word(3);
    let metadata = s.in_register(metadata)?;
    let selector = s.operand(4);
    let operands = sources![s.result(0), a, b, c, upt(), metadata, selector];
    s.emit_guarded(op, &mods, operands)?;
    Ok(())
}
