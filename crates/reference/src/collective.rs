//! What threads of a warp compute together.
//!
//! A collective gets what each member brought, in the order of lanes, and returns what each member takes away.

use crate::matrix::{FragmentProduct, MatrixInMemory, MatrixShape, WarpgroupShape};
use crate::step::{Space, Update};
use orias_eval::warp::{Shuffle, shuffle_source};

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
    /// A matrix from memory, as a fragment.
    LoadFragment(MatrixInMemory),
    /// A fragment to memory.
    StoreFragment(MatrixInMemory),
    /// A product of fragments.
    MultiplyFragments(FragmentProduct),
    /// A matrix product.
    Multiply(MatrixShape),
    /// A warp's rows of a warp group's product.
    WarpgroupMultiply(WarpgroupShape),
}

/// What one thread brought.
pub(crate) struct Arrival {
    pub lane: u32,
    pub sources: Vec<u64>,
    /// Where a matrix or a row of one is: global memory, or an offset in the CTA's shared memory.
    pub place: (Space, u64),
}

impl Collective {
    /// Whether all lanes of a full warp must take part.
    pub const fn needs_full_warp(&self) -> bool {
        matches!(
            self,
            Self::LoadMatrix { .. }
                | Self::StoreMatrix { .. }
                | Self::TransposeMatrix
                | Self::LoadFragment(_)
                | Self::StoreFragment(_)
                | Self::MultiplyFragments(_)
                | Self::Multiply(_)
                | Self::WarpgroupMultiply(_)
        )
    }

    /// Whether its matrix may be in global memory, too.
    pub const fn reaches_global(&self) -> bool {
        matches!(self, Self::LoadFragment(_) | Self::StoreFragment(_))
    }

    /// The results of each member. What needs memory is not here: loads and stores of matrices, products of warp groups.
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
            Self::MultiplyFragments(product) => product.multiply(members),
            Self::LoadMatrix { .. }
            | Self::StoreMatrix { .. }
            | Self::LoadFragment(_)
            | Self::StoreFragment(_)
            | Self::WarpgroupMultiply(_) => same(Vec::new()),
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
