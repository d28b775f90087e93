//! Test tooling that writes programs: random ones in PTX and Ori, one for each row of PTX's grammar, and a reducer of failing ones.
//!
//! **For:** tests, fuzzing and conformance runs. Nothing that is handed out depends on it.
//!
//! **May know:** the languages it writes, `ptx` and `ori`, with `sass`, whose operations are Ori's; `random`, which draws.
//!
//! **Must never know:** what becomes of its programs: no phase, no judge.

pub mod ori;
pub mod ptx;
pub mod reduce;
pub mod relatives;
pub mod synth;
