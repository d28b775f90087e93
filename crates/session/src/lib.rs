//! A compilation for callers in other languages.
//!
//! **For:** the doors to C (`capi`) and Python (`python`): what both promise about cancelling, memory, panics and verdicts is here, once.
//!
//! **May know:** the front door, `orias`.
//!
//! **Must never know:** any other room, a caller's language, or a file.
//!
//! A [`Session`] is what to compile, and what came of it. Sessions share nothing, so any number of threads may compile at once; one
//! session may be used by several threads, too, as its calls take a lock for as long as they copy. A compilation itself holds no lock:
//! it asks between phases whether it was cancelled or has used more memory than it may. No panic leaves a session: what was caught is an
//! internal error with its text in the log.
//!
//! # Why there is `unsafe` here
//!
//! [`memory`] counts what is allocated, and the trait of an allocator is unsafe. Memory is counted where the finished library makes
//! [`memory::Counted`] its allocator, and limits have no effect where it does not.

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

#[allow(
    unsafe_code,
    reason = "the trait of an allocator is unsafe; all it adds is to count"
)]
pub mod memory;
mod session;

pub use session::{Outcome, Session, Verdict, Watch};

#[cfg(test)]
#[global_allocator]
static COUNTED: memory::Counted = memory::Counted;
