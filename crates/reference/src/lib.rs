//! Executes PTX directly from its definition: slow and obvious, the judge of what a program means.
//!
//! **For:** saying what any PTX program must compute, so that compiled code can be checked against it, with or without a GPU.
//!
//! **May know:** the PTX tree of `ptx` what operations compute in `eval`, and `random`.
//!
//! **Must never know:** SASS, Ori, or how anything is compiled.
//!
//! # How it works
//! [`Program::load`] turns each statement into a *step* once: operands become numbers of register slots, addresses of
//! variables and constants; an operation that only computes becomes a function from operand bits to result bits
//! (`compute`). [`Program::launch`] then runs a grid. Each thread is on its own: it executes steps one after the
//! other until it ends or has to wait. It waits in two kinds of place:
//!
//! - at a *collective* (`shfl.sync`, `vote.sync`, `mma` and the like) until every thread of the warp that the member mask
//!   names and that has not ended stands at the same instruction; then all of them get their results at once;
//! - at a *barrier* of its CTA until as many threads have arrived as it expects.
//!
//! So divergence needs no bookkeeping at all. Threads take turns after some thousand steps, and so do CTAs after some
//! million, so a thread that spins until another has written makes progress. Memory is as simple as can be: every access
//! happens at once and in the order of execution, which is one of the orders that the memory model allows; only
//! `cp.async` waits until the thread waits for it. [`Consistency::Weak`] and [`Program::explore`] take the others, too (`weak`), and
//! [`Launch::check_races`] finds data races.
//!
//! # Approximate functions
//! `sin`, `cos`, `lg2`, `ex2`, `tanh`, `rsqrt`, `rcp.approx`, `div.approx`, `div.full` and `sqrt.approx` have a bound in the
//! manual, not a value. Here they yield what the code of ptxas yields on an H200, bit by bit.
//!
//! ```
//! let source = b".version 8.0\n.target sm_90\n.address_size 64\n
//! .visible .entry double(.param .u64 data) {
//!     .reg .u64 %rd<3>; .reg .u32 %r<3>;
//!     ld.param.u64 %rd1, [data];
//!     mov.u32 %r1, %tid.x;
//!     mad.wide.u32 %rd2, %r1, 4, %rd1;
//!     ld.global.u32 %r2, [%rd2];
//!     shl.b32 %r2, %r2, 1;
//!     st.global.u32 [%rd2], %r2;
//!     ret;
//! }";
//! let (module, diagnostics) = orias_ptx::parse(source);
//! assert!(!diagnostics.has_errors());
//! let mut program = orias_reference::Program::load(&module)?;
//! let data = program.memory_mut().allocate([1u32, 2, 3].map(u32::to_le_bytes).concat());
//! let launch = orias_reference::Launch::new("double", [1, 1, 1], [3, 1, 1]).argument(data.to_le_bytes());
//! program.launch(&launch)?;
//! assert_eq!(program.memory().read(data, 12)?, [2u32, 4, 6].map(u32::to_le_bytes).concat());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cluster;
mod collective;
mod compute;
mod cta;
mod decode;
mod engine;
mod error;
mod launch;
mod library;
mod matrix;
mod memory;
mod model;
mod order;
mod program;
mod races;
mod schedule;
mod step;
mod thread;
mod weak;

pub use error::{Fault, FaultKind, LoadError, Location, Race};
pub use launch::{Consistency, Launch, Outcome};
pub use memory::{Memory, MemoryError};
pub use program::{Parameter, Program};
pub use schedule::Schedule;
pub use weak::{Exploration, Exploring};
