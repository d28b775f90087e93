//! The phases, Ori to Ori, and the table that orders them.
//!
//! **For:** lowering, optimisation, synchronisation, scheduling, register allocation and control words.
//!
//! **May know:** `ptx`, `ori`, `sass`, `machine`, `eval`, `random`, and `mercury`, whose phases stand in the same table.
//!
//! **Must never know:** the container, the command line, or the judges (`verify`, `sim`, `reference`). Algorithms never
//! match on an SM number: they ask `machine` or the `sass` tables.

mod alignment;
mod clock;
mod convergence;
mod emit;
pub mod fold;
pub mod knobs;
mod known_bits;
mod loops;
pub mod lower;
mod memory_order;
pub mod mercury;
mod module;
pub mod names;
pub mod phases;
pub mod pipeline;
mod places;
mod policy;
mod reachability;
mod regalloc;
mod register_usage;
pub mod schedule;
pub mod scoreboard;
pub mod select;
mod sources;
mod ssa;
pub mod stopwatch;
mod sync;
mod tail;
pub mod warpgroup_pipeline;

pub use module::*;
pub use regalloc::{most_registers, starting_registers};
