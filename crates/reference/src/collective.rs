//! What threads of a warp compute together.
//!
//! A collective gets what each member brought, in the order of lanes, and returns what each member takes away.

use crate::step::Update;
use orias_eval::float::convert::Integer;
use orias_eval::float::{Arithmetic, Format, Rounding};
use orias_eval::matrix::DotRule;
use orias_eval::warp::{Shuffle, shuffle_source};
use orias_ptx::grammar::Modifier;
use orias_ptx::opcode::Form;
use orias_ptx::types::Type;

/// An instruction that threads of a warp execute together.
pub(crate) enum Collective {
    /// Each reads another's value.
    Shuffle(Shuffle),
    /// Whether all predicates are true.
    All,
    /// Whether any predicate is true.
    Any,
    /// Whether all predicates are equal.
    Uniform,
    /// The lanes whose predicate is true.
    Ballot,
    /// The lanes with the same value.
    MatchAny,
    /// All members, if all have the same value.
    MatchAll,
    /// The lanes that are here.
    ActiveMask,
    /// One of the members.
    Elect,
    /// Only waits.
    Synchronise,
    /// All values combined.
    Reduce(Update),
    /// 8×8 matrices of 16 bits from shared memory.
    LoadMatrix { transposed: bool },
    /// 8×8 matrices of 16 bits to shared memory.
    StoreMatrix { transposed: bool },
    /// An 8×8 matrix, transposed across registers.
    TransposeMatrix,
    /// A matrix product.
    Multiply(MatrixShape),
}

/// What one thread brought.
pub(crate) struct Arrival {
    pub lane: u32,
    pub sources: Vec<u64>,
    /// The address of a matrix row.
    pub address: u64,
}

impl Collective {
    /// Whether all lanes of a full warp must take part.
    pub const fn needs_full_warp(&self) -> bool {
        matches!(
            self,
            Self::LoadMatrix { .. }
                | Self::StoreMatrix { .. }
                | Self::TransposeMatrix
                | Self::Multiply(_)
        )
    }

    /// The results of each member. Loads and stores of matrices are not here: they need memory.
    pub fn run(&self, members: &[Arrival]) -> Vec<Vec<u64>> {
        let present = members.iter().fold(0u32, |mask, it| mask | 1 << it.lane);
        let first = |it: &Arrival| it.sources.first().copied().unwrap_or(0);
        let same = |value: Vec<u64>| vec![value; members.len()];
        match self {
            Self::Shuffle(mode) => members
                .iter()
                .map(|it| shuffle(*mode, it, members))
                .collect(),
            Self::All => same(vec![members.iter().all(|it| first(it) != 0).into()]),
            Self::Any => same(vec![members.iter().any(|it| first(it) != 0).into()]),
            Self::Uniform => {
                let all = members.iter().all(|it| first(it) != 0);
                let none = members.iter().all(|it| first(it) == 0);
                same(vec![(all || none).into()])
            }
            Self::Ballot => {
                let voters = members.iter().filter(|it| first(it) != 0);
                same(vec![voters.fold(0, |mask, it| mask | 1 << it.lane)])
            }
            Self::MatchAny => {
                let equal = |value| {
                    let equals = members.iter().filter(|it| first(it) == value);
                    equals.fold(0u64, |mask, it| mask | 1 << it.lane)
                };
                members.iter().map(|it| vec![equal(first(it))]).collect()
            }
            Self::MatchAll => {
                let value = members.first().map(first);
                let all = members.iter().all(|it| Some(first(it)) == value);
                same(vec![if all { present.into() } else { 0 }, all.into()])
            }
            Self::ActiveMask => same(vec![present.into()]),
            Self::Elect => {
                let leader = members.first().map_or(0, |it| it.lane);
                let elected = |it: &Arrival| vec![leader.into(), u64::from(it.lane == leader)];
                members.iter().map(elected).collect()
            }
            Self::Synchronise => same(Vec::new()),
            Self::Reduce(combine) => {
                let values = members.iter().map(first);
                same(vec![values.reduce(|a, b| combine(a, [b, 0])).unwrap_or(0)])
            }
            Self::TransposeMatrix => {
                let element = |row: usize, column: usize| {
                    let lane = row * 4 + column / 2;
                    first(&members[lane]) >> (16 * (column % 2)) & 0xffff
                };
                let transposed = |lane: usize| {
                    let (row, column) = (lane / 4, lane % 4 * 2);
                    vec![element(column, row) | element(column + 1, row) << 16]
                };
                (0..members.len()).map(transposed).collect()
            }
            Self::Multiply(shape) => shape.multiply(members),
            Self::LoadMatrix { .. } | Self::StoreMatrix { .. } => same(Vec::new()),
        }
    }
}

/// The value of the lane that is read, and whether it lies in the segment. A lane that is not there leaves the value.
fn shuffle(mode: Shuffle, reader: &Arrival, members: &[Arrival]) -> Vec<u64> {
    let [value, operand, control] = reader.sources[..] else {
        return Vec::new();
    };
    let (lane, valid) = shuffle_source(mode, reader.lane, operand as u32, control as u32);
    let found = members.iter().find(|it| it.lane == lane);
    vec![found.map_or(value, |it| it.sources[0]), valid.into()]
}

/// A warp-wide product of an m×k and a k×n matrix, added to an m×n one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatrixShape {
    m: usize,
    n: usize,
    k: usize,
    kind: MatrixKind,
}

/// What the elements are, and how they are added up.
#[derive(Clone, Copy, Debug)]
enum MatrixKind {
    /// Products in one group, cut off and added, in the format of the result.
    Dot { operand: Format, result: Format },
    /// One fused multiply and add after the other, in double precision.
    Chain,
    /// Exact sums of products of integers.
    Integer {
        a: Integer,
        b: Integer,
        saturate: bool,
    },
    /// The number of bits set in the combination of two rows of bits.
    Bits { and: bool },
}

impl MatrixShape {
    /// The shape that a form names; `None` where its layout or arithmetic is not known here.
    pub fn of(form: &Form) -> Option<Self> {
        if form.has(Modifier::Sp) || form.has(Modifier::SpOrderedMetadata) {
            return None;
        }
        let (m, n, k) = form.modifiers().find_map(|it| dimensions(it.name()))?;
        let mut types = form.types();
        let (d, a, b, c) = (types.next()?, types.next()?, types.next()?, types.next()?);
        let format = |ty| super::compute::format_of(ty).map(|(format, _)| format);
        let integer = super::compute::integer_of;
        let kind = match (d, a, b, c) {
            (Type::F64, Type::F64, Type::F64, Type::F64) => MatrixKind::Chain,
            (Type::F32, Type::F16 | Type::Bf16 | Type::Tf32, _, Type::F32)
            | (Type::F16, Type::F16, Type::F16, Type::F16)
                if a == b && m == 16 =>
            {
                MatrixKind::Dot {
                    operand: format(a)?,
                    result: format(d)?,
                }
            }
            (Type::S32, Type::B1, Type::B1, Type::S32) => MatrixKind::Bits {
                and: form.has(Modifier::And),
            },
            (Type::S32, _, _, Type::S32) => MatrixKind::Integer {
                a: integer(a)?,
                b: integer(b)?,
                saturate: form.has(Modifier::Satfinite),
            },
            _ => return None,
        };
        Some(Self { m, n, k, kind })
    }

    /// Bits an element of A and B, and of C and D, takes.
    const fn element_bits(&self) -> (usize, usize) {
        match self.kind {
            MatrixKind::Dot { operand, result } => {
                let operand = if operand.width() == 19 { 32 } else { 16 };
                (operand, if result.width() == 16 { 16 } else { 32 })
            }
            MatrixKind::Chain => (64, 64),
            MatrixKind::Integer { a, .. } => (a.bits as usize, 32),
            MatrixKind::Bits { .. } => (1, 32),
        }
    }

    /// Elements of A and B that stand side by side in a register.
    const fn packed(&self) -> usize {
        let (bits, _) = self.element_bits();
        if bits > 32 { 1 } else { 32 / bits }
    }

    fn multiply(&self, members: &[Arrival]) -> Vec<Vec<u64>> {
        let (m, n, k) = (self.m, self.n, self.k);
        let (mut a, mut b, mut c) = (vec![0; m * k], vec![0; k * n], vec![0; m * n]);
        let (operand_bits, result_bits) = self.element_bits();
        let packed = self.packed();
        let results_packed = if result_bits == 16 { 2 } else { 1 };
        let (a_count, b_count) = (m * k / 32 / packed, k * n / 32 / packed);
        let c_count = m * n / 32 / results_packed;
        let mask = u64::MAX >> (64 - operand_bits);
        let result_mask = u64::MAX >> (64 - result_bits);
        let c_place = |lane: usize, element: usize| {
            (lane / 4 + 8 * (element / 2)) * n + lane % 4 * 2 + element % 2
        };
        for (lane, member) in members.iter().enumerate() {
            let (group, thread) = (lane / 4, lane % 4);
            let (a_registers, rest) = member.sources.split_at(a_count);
            let (b_registers, c_registers) = rest.split_at(b_count);
            for (index, register) in a_registers.iter().enumerate() {
                for part in 0..packed {
                    let row = group + 8 * (index % (m / 8));
                    let column = thread * packed + part + 4 * packed * (index / (m / 8));
                    a[row * k + column] = register >> (part * operand_bits) & mask;
                }
            }
            for (index, register) in b_registers.iter().enumerate() {
                for part in 0..packed {
                    let row = thread * packed + part + 4 * packed * index;
                    b[row * n + group] = register >> (part * operand_bits) & mask;
                }
            }
            for element in 0..c_count * results_packed {
                let register = c_registers[element / results_packed];
                let part = element % results_packed;
                c[c_place(lane, element)] = register >> (part * result_bits) & result_mask;
            }
        }
        let d: Vec<u64> = (0..m * n)
            .map(|at| {
                let (row, column) = (at / n, at % n);
                let column: Vec<u64> = (0..k).map(|row| b[row * n + column]).collect();
                self.element(&a[row * k..(row + 1) * k], &column, c[at])
            })
            .collect();
        (0..members.len())
            .map(|lane| {
                (0..c_count)
                    .map(|register| {
                        (0..results_packed).fold(0, |bits, part| {
                            let element = register * results_packed + part;
                            bits | d[c_place(lane, element)] << (part * result_bits)
                        })
                    })
                    .collect()
            })
            .collect()
    }

    /// `c` plus the products of a row and a column.
    fn element(&self, a: &[u64], b: &[u64], c: u64) -> u64 {
        match self.kind {
            MatrixKind::Dot { operand, result } => {
                let rule = DotRule {
                    group: self.k,
                    kept_bits: 25,
                    result,
                    rounding: match result {
                        Format::F16 => Rounding::NearestEven,
                        _ => Rounding::Zero,
                    },
                };
                // A tf32 number stands in the upper bits of its register.
                let up = if operand == Format::TF32 { 13 } else { 0 };
                let operands =
                    |list: &[u64]| -> Vec<u64> { list.iter().map(|x| x >> up).collect() };
                rule.dot(operand, &operands(a), &operands(b), c)
            }
            MatrixKind::Chain => {
                let how = Arithmetic::plain(Format::F64);
                a.iter()
                    .zip(b)
                    .fold(c, |sum, (a, b)| how.fused(*a, *b, sum))
            }
            MatrixKind::Integer {
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
            MatrixKind::Bits { and } => {
                let set = a
                    .iter()
                    .zip(b)
                    .filter(|(a, b)| if and { *a & *b == 1 } else { a != b });
                Integer::signed(32).add(c, set.count() as u64)
            }
        }
    }
}

/// `m16n8k16` as its three numbers.
fn dimensions(name: &str) -> Option<(usize, usize, usize)> {
    let (m, rest) = name.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some((m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
}
