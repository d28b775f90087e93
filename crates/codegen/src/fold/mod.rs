//! Constant folding: what an abstract operation computes of known operands, built on `eval`.
//!
//! | module | operations |
//! | --- | --- |
//! | `compute` | moves, choices, comparisons, bits, permutations, and the dispatch to the others |
//! | `integer` | whole numbers |
//! | `number` | floating-point numbers and conversions |
//!
//! `exact` is what phases ask. The interpreter of abstract code, which tests use, asks [`Operands`] and brings its own approximate
//! functions. Cost: constant per operation.

mod compute;
mod integer;
mod number;

pub use compute::{Operands, reduce};

use orias_ori::operation::{AbstractMods, AbstractOp, Scalar};
use std::cell::Cell;

/// A function whose exact result the chip's tables decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Approximation {
    /// The operation: `rcp`, `sqrt`, `rsqrt`, `sin`, `cos`, `lg2`, `ex2` or `tanh`.
    pub op: AbstractOp,
    /// The format of operand and result.
    pub scalar: Scalar,
    /// Whether subnormal numbers become zeros.
    pub flush: bool,
}

/// Bits that nobody may rely on.
pub const UNSPECIFIED: u128 = 0xa5a5_5a5a_c3c3_3c3c_9696_6969_5aa5_a55a;

/// The results of one operation on known operands, as wide as its row says; nothing where a chip's tables decide, and for operations that
/// do more than compute.
pub(crate) fn exact(
    op: AbstractOp,
    mods: AbstractMods,
    operands: &[u128],
    missing: &[bool],
) -> Option<Vec<u128>> {
    let asked = Cell::new(false);
    let approximate = |_: Approximation, _: u64| {
        asked.set(true);
        0
    };
    let operands = Operands {
        op,
        mods,
        values: operands,
        missing,
        approximate: &approximate,
    };
    operands.compute().filter(|_| !asked.get())
}

/// The low bits of a result, the rest unspecified.
pub fn narrow(bits: u128, width: u32) -> u128 {
    let mask = (1 << width) - 1;
    bits & mask | UNSPECIFIED & !mask
}
