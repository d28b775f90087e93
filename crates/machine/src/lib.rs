//! What the chip is: per-SM data with provenance, and no algorithms.
//!
//! **For:** register files, limits, units and latencies, all as one value, [`Machine`], of the text tables in `tables/<chip>`. Each row says where its number comes from: measured on the chip,
//! seen in finished code, published, or assumed. A missing row is an error that names it, never a default.
//!
//! **May know:** `sass`, whose operations key its rows.
//!
//! **Must never know:** how its numbers are used: no scheduling, no allocation, no checks.

pub mod abi;
pub mod constants;
pub mod issue;
pub mod limits;
mod machine;
pub mod operation_cache;
pub mod registers;
pub mod timing;

pub use machine::{Machine, PerMachine};
