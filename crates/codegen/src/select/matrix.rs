//! Matrix products of a warp: HMMA for floats, IMMA for bytes, BMMA for bits, DMMA for doubles.
//!
//! Fragments are tuples, aligned as their length asks. A C of zeros is RZ. The machine has a row for each shape it can do; lowering has
//! made everything else of those.

use super::selector::{Selector, rz};
use super::source::Source;
use super::sources;
use crate::pipeline::PhaseError;
use orias_ori::operation::{self, AbstractOp, Round, Sat, Scalar, Second, Shape};
use orias_ori::{Class, Operand, Value};
use orias_sass::Op;

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
    mods: Vec<(&'static str, &'static str)>,
}

/// The name of a shape in a column of names.
fn named(shape: Shape, names: &[(Shape, &'static str)]) -> Option<&'static str> {
    names
        .iter()
        .find(|(have, _)| *have == shape)
        .map(|&(_, name)| name)
}

/// Shapes as HMMA, IMMA, BMMA and DMMA name them; those of sparse products have K twice as long.
const HALF_SHAPES: &[(Shape, &str)] = &[
    (Shape::M16n8k4, "1684"),
    (Shape::M16n8k8, "1688"),
    (Shape::M16n8k16, "16816"),
    (Shape::M16n8k32, "16832"),
];
const BYTE_SHAPES: &[(Shape, &str)] = &[
    (Shape::M8n8k16, "8816"),
    (Shape::M16n8k16, "16816"),
    (Shape::M16n8k32, "16832"),
    (Shape::M16n8k64, "16864"),
];
const BIT_SHAPES: &[(Shape, &str)] = &[
    (Shape::M8n8k128, "88128"),
    (Shape::M16n8k128, "168128"),
    (Shape::M16n8k256, "168256"),
];
const DOUBLE_SHAPES: &[(Shape, &str)] = &[
    (Shape::M8n8k4, "8x8x4"),
    (Shape::M16n8k4, "16x8x4"),
    (Shape::M16n8k8, "16x8x8"),
    (Shape::M16n8k16, "16x8x16"),
];

/// The instruction of the product being selected.
fn spelling(s: &Selector<'_>, sparse: bool) -> Result<Option<Spelling>, PhaseError> {
    let shape: Shape = s.modifier()?;
    let result: Scalar = s.modifier()?;
    let left: Scalar = s.modifier::<operation::Source>()?.into();
    let right = match s.modifier::<Second>()? {
        Second::U8 => Scalar::U8,
        Second::S8 => Scalar::S8,
        _ => left,
    };
    let found = match left {
        Scalar::F16 | Scalar::Bf16 | Scalar::Tf32 => {
            let op = if sparse { Op::HMMA_SP } else { Op::HMMA };
            let acc = if result == Scalar::F16 { "F16" } else { "F32" };
            let ty = match left {
                Scalar::F16 => "F16",
                Scalar::Bf16 => "BF16",
                _ => "TF32",
            };
            named(shape, HALF_SHAPES).map(|shape| Spelling {
                op,
                mods: vec![("shape", shape), ("acc", acc), ("type", ty)],
            })
        }
        Scalar::U8 | Scalar::S8 => {
            let op = if sparse { Op::IMMA_SP } else { Op::IMMA };
            let byte = |scalar| if scalar == Scalar::S8 { "S8" } else { "U8" };
            let sat = match s.modifier::<Sat>()? {
                Sat::Satfinite => "SAT",
                _ => "no",
            };
            named(shape, BYTE_SHAPES).map(|shape| Spelling {
                op,
                mods: vec![
                    ("shape", shape),
                    ("ta", byte(left)),
                    ("tb", byte(right)),
                    ("sat", sat),
                ],
            })
        }
        Scalar::B1 if !sparse => named(shape, BIT_SHAPES).map(|shape| Spelling {
            op: Op::BMMA,
            mods: vec![("shape", shape), ("fn", "AND"), ("sum", "POPC")],
        }),
        Scalar::F64 if !sparse => {
            let rnd = match s.modifier::<Round>()? {
                Round::Rz => "RZ",
                Round::Rm => "RM",
                Round::Rp => "RP",
                _ => "RN",
            };
            named(shape, DOUBLE_SHAPES).map(|shape| Spelling {
                op: Op::DMMA,
                mods: vec![("shape", shape), ("rnd", rnd)],
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
