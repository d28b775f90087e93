//! Matrix products.
//!
//! [`Rule`] says what one element of a product is, [`fragments`] which lane holds which element of a matrix. The manual leaves open how
//! sums are rounded; here they are as the chip adds them up, and where the chip has no such instruction, as ptxas's code does.

mod fragments;
mod quads;
mod warpgroup;

pub(crate) use fragments::{FragmentProduct, MatrixInMemory};
pub(crate) use warpgroup::WarpgroupShape;

use crate::collective::Arrival;
use fragments::{Fragment, Role};
use orias_eval::float::convert::{Integer, to_format};
use orias_eval::float::{Arithmetic, Format, Overflow, Rounding};
use orias_eval::matrix::{DotRule, SparseElements};
use orias_ptx::grammar::Modifier;
use orias_ptx::opcode::Form;
use orias_ptx::types::Type;

/// What the elements are, and how they are added up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    /// Products in one group, cut off and added, in the format of the result.
    Dot { operand: Format, result: Format },
    /// Narrow floats as halves: the first two of each four in one group, then the others, then C.
    Narrow {
        a: Format,
        b: Format,
        result: Format,
    },
    /// Narrow floats as they are, by a warp group: all products in one group, of which few bits are kept.
    NarrowGroup {
        a: Format,
        b: Format,
        result: Format,
    },
    /// One fused multiply and add after the other, in double precision.
    Chain(Rounding),
    /// Exact sums of products of integers.
    Integer {
        a: Integer,
        b: Integer,
        saturate: bool,
    },
    /// The number of bits set in the combination of two rows of bits.
    Bits { and: bool },
}

impl Rule {
    /// The rule for a form's types, D, A, B and C; `None` where it is not known here.
    pub fn of(form: &Form, [d, a, b, c]: [Type; 4]) -> Option<Self> {
        let format = |ty| super::compute::format_of(ty).map(|(format, _)| format);
        let integer = super::compute::integer_of;
        Some(match (d, a, b, c) {
            (Type::F64, Type::F64, Type::F64, Type::F64) => {
                Self::Chain(super::compute::rounding_of(form).unwrap_or(Rounding::NearestEven))
            }
            (Type::F32, Type::F16 | Type::Bf16 | Type::Tf32, _, Type::F32)
            | (Type::F16, Type::F16, Type::F16, Type::F16)
                if a == b =>
            {
                Self::Dot {
                    operand: format(a)?,
                    result: format(d)?,
                }
            }
            (Type::F16 | Type::F32, Type::E4m3 | Type::E5m2, Type::E4m3 | Type::E5m2, _)
                if c == d =>
            {
                Self::Narrow {
                    a: format(a)?,
                    b: format(b)?,
                    result: format(d)?,
                }
            }
            (Type::S32, Type::B1, Type::B1, Type::S32) => Self::Bits {
                and: form.has(Modifier::And),
            },
            (Type::S32, _, _, Type::S32) => Self::Integer {
                a: integer(a)?,
                b: integer(b)?,
                saturate: form.has(Modifier::Satfinite),
            },
            _ => return None,
        })
    }

    /// Bits an element of A and B, and of C and D, takes in a register.
    pub const fn element_bits(&self) -> (usize, usize) {
        match self {
            Self::Dot { operand, result } => {
                let operand = if operand.width() == 19 { 32 } else { 16 };
                (operand, if result.width() == 16 { 16 } else { 32 })
            }
            Self::Narrow { result, .. } | Self::NarrowGroup { result, .. } => {
                (8, if result.width() == 16 { 16 } else { 32 })
            }
            Self::Chain(_) => (64, 64),
            Self::Integer { a, .. } => (a.bits as usize, 32),
            Self::Bits { .. } => (1, 32),
        }
    }

    /// `c` plus the products of a row and a column, which are patterns as registers hold them.
    pub fn element(&self, a: &[u64], b: &[u64], c: u64) -> u64 {
        match *self {
            Self::Dot { operand, result } => {
                // A tf32 number stands in the upper bits of its register.
                let up = if operand == Format::TF32 { 13 } else { 0 };
                let operands =
                    |list: &[u64]| -> Vec<u64> { list.iter().map(|x| x >> up).collect() };
                dot_rule(a.len(), result).dot(operand, &operands(a), &operands(b), c)
            }
            Self::Narrow {
                a: left,
                b: right,
                result,
            } => {
                let halves = |list: &[u64], from: Format, upper: bool| -> Vec<u64> {
                    let chosen = list
                        .iter()
                        .enumerate()
                        .filter(|(at, _)| (at % 4 >= 2) == upper);
                    let half = |bits| {
                        to_format(
                            from,
                            bits,
                            Format::F16,
                            Rounding::NearestEven,
                            Overflow::Ieee,
                        )
                    };
                    chosen.map(|(_, &bits)| half(bits)).collect()
                };
                let sum = [false, true].into_iter().fold(0, |sum, upper| {
                    let (a, b) = (halves(a, left, upper), halves(b, right, upper));
                    dot_rule(a.len(), result).dot(Format::F16, &a, &b, sum)
                });
                Arithmetic::plain(result).add(c, sum)
            }
            Self::NarrowGroup {
                a: left,
                b: right,
                result,
            } => DotRule::narrow(a.len(), result).dot_of([left, right], a, b, c),
            Self::Chain(rounding) => {
                let how = Arithmetic {
                    rounding,
                    ..Arithmetic::plain(Format::F64)
                };
                a.iter()
                    .zip(b)
                    .fold(c, |sum, (a, b)| how.fused(*a, *b, sum))
            }
            Self::Integer {
                a: a_type,
                b: b_type,
                saturate,
            } => {
                let word = Integer::signed(32);
                let products = a
                    .iter()
                    .zip(b)
                    .map(|(a, b)| a_type.value(*a) * b_type.value(*b));
                let sum = word.value(c) + products.sum::<i128>();
                if saturate {
                    word.clamp(sum)
                } else {
                    word.wrap(sum)
                }
            }
            Self::Bits { and } => {
                let set = a
                    .iter()
                    .zip(b)
                    .filter(|(a, b)| if and { *a & *b == 1 } else { a != b });
                Integer::signed(32).add(c, set.count() as u64)
            }
        }
    }
}

/// How a matrix unit adds `group` products of floats.
fn dot_rule(group: usize, result: Format) -> DotRule {
    DotRule {
        group,
        kept_bits: 25,
        result,
        rounding: match result {
            Format::F16 => Rounding::NearestEven,
            _ => Rounding::Zero,
        },
        cut_bits: 0,
    }
}

/// A warp-wide product of an m×k and a k×n matrix, added to an m×n one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatrixShape {
    m: usize,
    n: usize,
    k: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Dense(Rule),
    /// Half of A is stored; the last two sources of a lane are metadata and selector.
    Sparse(Rule, SparseElements),
    /// Four products of eight lanes each.
    Quads(quads::Quads),
}

impl MatrixShape {
    /// The shape that a form names; `None` where its layout or arithmetic is not known here.
    pub fn of(form: &Form) -> Option<Self> {
        let (m, n, k) = form.modifiers().find_map(|it| dimensions(it.name()))?;
        let mut types = form.types();
        let types = [types.next()?, types.next()?, types.next()?, types.next()?];
        let kind = if (m, k) == (8, 4) && types[1] == Type::F16 {
            Kind::Quads(quads::Quads::of(form, types)?)
        } else if form.has(Modifier::Sp) || form.has(Modifier::SpOrderedMetadata) {
            let elements = match types[1] {
                Type::F16 | Type::Bf16 => SparseElements::Halves,
                Type::Tf32 => SparseElements::Singles,
                _ => SparseElements::Bytes,
            };
            Kind::Sparse(Rule::of(form, types)?, elements)
        } else {
            Kind::Dense(Rule::of(form, types)?)
        };
        Some(Self { m, n, k, kind })
    }

    pub fn multiply(&self, members: &[Arrival]) -> Vec<Vec<u64>> {
        match self.kind {
            Kind::Quads(quads) => quads.multiply(members),
            Kind::Dense(rule) => self.fragments(&rule, members, None),
            Kind::Sparse(rule, elements) => self.fragments(&rule, members, Some(elements)),
        }
    }

    fn fragments(
        &self,
        rule: &Rule,
        members: &[Arrival],
        sparse: Option<SparseElements>,
    ) -> Vec<Vec<u64>> {
        let (m, n, k) = (self.m, self.n, self.k);
        let stored = if sparse.is_some() { k / 2 } else { k };
        let (bits, result_bits) = rule.element_bits();
        let fragment = |role, outer, inner, bits| Fragment {
            role,
            outer,
            inner,
            bits,
        };
        let left = fragment(Role::Left, m, stored, bits);
        let right = fragment(Role::Right, n, k, bits);
        let sum = fragment(Role::Sum, m, n, result_bits);
        let a = left.gather(members, 0);
        let b = right.gather(members, left.registers());
        let c = sum.gather(members, left.registers() + right.registers());
        // The row of B that each stored element of a row of A meets.
        let met = |row: usize| -> Vec<usize> {
            let Some(elements) = sparse else {
                return (0..k).collect();
            };
            // Two elements of four bits go together.
            let together = if bits == 4 { 2 } else { 1 };
            let sources = &members[0].sources;
            let selector = sources.last().copied().unwrap_or(0) as usize;
            (0..stored)
                .map(|at| {
                    let unit = at / together;
                    let (lane, shift) = elements.metadata(stored / together, selector, row, unit);
                    let metadata = &members[4 * (row % 8) + lane].sources;
                    let metadata = metadata[metadata.len() - 2] as u32 >> shift;
                    together * elements.dense(unit, metadata) + at % together
                })
                .collect()
        };
        sum.scatter(|row, column| {
            let a = &a[row * stored..][..stored];
            let line = &b[column * k..][..k];
            let b: Vec<u64> = met(row).iter().map(|&at| line[at]).collect();
            rule.element(a, &b, c[row * n + column])
        })
    }
}

/// `m16n8k16` as its three numbers.
pub(crate) fn dimensions(name: &str) -> Option<(usize, usize, usize)> {
    let (m, rest) = name.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some((m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
}
