//! Re-derives every hazard from finished bytes.
//!
//! **For:** proving of any cubin, whoever made it, that no instruction reads a value before it is there or overwrites one
//! before it was read, that lanes which have parted meet again before something needs them together, that copies which run on by
//! themselves are awaited, and that registers which were given back are not named.
//!
//! **May know:** `sass`, `machine` (the mined latencies only) and `cubin`.
//!
//! **Must never know:** `ori`, `codegen` or `mercury`: a judge that shares logic with the accused is no judge.

// No input may panic (CONTRIBUTING.md, Conventions).
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::panic,
        clippy::todo,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

mod awaited;
mod convergence;
mod estimate;
mod explain;
mod facts;
mod finding;
pub mod flow;
mod given_back;
mod judge;
pub mod mutate;
pub mod program;
mod reuse;
mod together;

pub use awaited::WaitKind;
pub use estimate::estimate;
pub use explain::{Explained, dependences, explain};
pub use finding::{Check, Finding};
pub use judge::{JudgeError, Verdict, judge, judge_program};
