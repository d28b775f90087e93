//! What each operation does to a warp: a table from operations to functions that make closures.
//!
//! A function here reads operands by the names of their slots and modifiers by the names of their values, once, when a
//! kernel is made ready; the closure it returns does the work for all lanes. The arithmetic itself is `eval`'s. A row that
//! no table names stops the run when it is reached.

mod atomic;
mod bulk;
mod convert;
mod float;
mod half;
mod integer;
mod lanes;
mod logic;
mod matrix;
mod memory;
mod moves;
mod surface;
mod sync;
mod texture;
mod warpgroup;

use crate::core::Core;
use crate::flow;
use crate::operand::{Condition, Lack, Reader, Source, Target};
use crate::program::{Action, Run};
use orias_sass::{
    Op, ValueName, modifier_names as name, modifier_values as value, slot_names as slot,
};
use std::sync::LazyLock;

/// Makes the action of an instruction.
pub(crate) type Make = fn(&Reader<'_>) -> Result<Action, Lack>;

/// Operations and what makes their actions.
pub(crate) type Table = &'static [(Op, Make)];

/// The tables of all families.
const TABLES: [Table; 15] = [
    integer::TABLE,
    logic::TABLE,
    float::TABLE,
    half::TABLE,
    convert::TABLE,
    moves::TABLE,
    memory::TABLE,
    atomic::TABLE,
    bulk::TABLE,
    lanes::TABLE,
    matrix::TABLE,
    warpgroup::TABLE,
    sync::TABLE,
    texture::TABLE,
    surface::TABLE,
];

/// What makes the action of each operation, by its index.
static ALL: LazyLock<Vec<Option<Make>>> = LazyLock::new(|| {
    let mut all = vec![None; Op::COUNT];
    for &(op, make) in TABLES.into_iter().flatten() {
        all[op.index()] = Some(make);
    }
    all
});

/// How an instruction runs. `Err(None)` when its operation is not known, `Err(Some(_))` when a part of it is not.
pub(crate) fn of(reader: &Reader<'_>) -> Result<Run, Option<Lack>> {
    if let Some(flow) = flow::of(reader) {
        return flow.map(Run::Flow).map_err(Some);
    }
    let make = ALL[reader.instruction.op().index()].ok_or(None)?;
    make(reader).map(Run::Action).map_err(Some)
}

/// Three lane vectors into one.
#[inline]
fn zip3(
    a: &crate::operand::Lanes,
    b: &crate::operand::Lanes,
    c: &crate::operand::Lanes,
    f: impl Fn(u32, u32, u32) -> u32,
) -> crate::operand::Lanes {
    std::array::from_fn(|i| f(a[i], b[i], c[i]))
}

/// Two lane vectors into one.
#[inline]
fn zip2(
    a: &crate::operand::Lanes,
    b: &crate::operand::Lanes,
    f: impl Fn(u32, u32) -> u32,
) -> crate::operand::Lanes {
    std::array::from_fn(|i| f(a[i], b[i]))
}

/// A bit for each lane.
#[inline]
fn bits(f: impl Fn(usize) -> bool) -> u32 {
    (0..32).fold(0, |bits, lane| bits | u32::from(f(lane)) << lane)
}

/// Whether a type is one of signed integers.
fn is_signed(ty: ValueName) -> bool {
    matches!(
        ty,
        value::S2 | value::S4 | value::S8 | value::S16 | value::S16X2 | value::S32 | value::S64
    )
}

/// How a comparison is combined with a predicate.
#[derive(Clone, Copy)]
enum Combine {
    And,
    Or,
    Xor,
}

impl Combine {
    fn of(reader: &Reader<'_>) -> Result<Self, Lack> {
        Ok(match reader.modifier(name::BOOL)? {
            value::AND => Combine::And,
            value::OR => Combine::Or,
            value::XOR => Combine::Xor,
            other => return Err(format!("combination {other}")),
        })
    }

    fn apply(self, a: u32, b: u32) -> u32 {
        match self {
            Combine::And => a & b,
            Combine::Or => a | b,
            Combine::Xor => a ^ b,
        }
    }
}

/// What every comparison that sets predicates has: its two results, its operands, and the predicate it is combined with.
struct SetPredicate {
    results: [Target; 2],
    a: Source,
    b: Source,
    other: Condition,
    combine: Combine,
}

impl SetPredicate {
    fn of(reader: &Reader<'_>) -> Result<Self, Lack> {
        Ok(Self {
            results: reader.targets([slot::P, slot::Q])?,
            a: reader.source(slot::A)?,
            b: reader.source(slot::B)?,
            other: reader.condition(slot::R)?,
            combine: Combine::of(reader)?,
        })
    }

    /// Writes both results, each combined.
    fn put(&self, core: &mut Core<'_>, first: u32, second: u32) {
        let other = core.condition(&self.other);
        for (target, bits) in self.results.iter().zip([first, second]) {
            core.put_condition(target, self.combine.apply(bits, other));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_named_once() {
        let mut seen = std::collections::BTreeSet::new();
        for (op, _) in TABLES.into_iter().flatten() {
            assert!(seen.insert(*op), "{op} is named twice");
        }
    }
}
