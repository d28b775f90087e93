//! Executes finished SASS on the CPU under the chip's timing rules.
//!
//! **For:** running every end-to-end test without a GPU; a register read too early yields the old value, as on the chip.
//!
//! **May know:** `sass`, `machine`, `cubin`, `eval` and `random`.
//!
//! **Must never know:** `ori`, `codegen` or `mercury`: it sees bytes, not intentions.
//!
//! A [`Device`] has memory; [`Device::load`] places a cubin on it, [`Device::launch`] runs a kernel to its end or to a
//! [`Fault`]. `docs/emulator.md` explains the model.
//!
//! ```no_run
//! use orias_sim::{Device, Launch, Options};
//!
//! let mut device = Device::new();
//! let module = device.load(&std::fs::read("axpy.cubin")?)?;
//! let x = device.allocate(&[0; 4096]);
//! let launch = Launch {
//!     kernel: "axpy".to_owned(),
//!     grid: [4, 1, 1],
//!     block: [256, 1, 1],
//!     arguments: vec![x.to_le_bytes().to_vec(), 1024u32.to_le_bytes().to_vec()],
//!     ..Launch::default()
//! };
//! let outcome = device.launch(&module, &launch, &Options::default())?;
//! if let Some(fault) = outcome.fault {
//!     return Err(fault.into());
//! }
//! println!("{:?}", device.read(x, 16));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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

mod access;
mod block;
mod cluster;
mod core;
mod deadlock;
mod device;
mod divergence;
mod engine;
mod fault;
mod flight;
mod flow;
mod follow;
mod gradient;
mod heap;
mod launch;
mod memory;
mod module;
mod operand;
mod order;
mod profile;
mod program;
mod reuse;
mod schedule;
mod semantics;
mod shared;
mod system;
mod trace;
mod turns;
mod uniforms;
mod warp;

pub use device::{Device, LaunchError};
pub use divergence::DivergenceCounts;
pub use fault::{Fault, FaultKind};
pub use follow::Stop;
pub use launch::{Checks, Finding, FindingKind, Launch, Options, Outcome, Timing};
pub use module::{LoadError, LoadedModule};
pub use order::Schedule;
pub use profile::{Counts, Profile};
pub use trace::{Change, Trace, TraceStep, Watch};
