//! Register files: how many registers a thread or a warp may use.
//!
//! | number | where it comes from |
//! | --- | --- |
//! | 253 general registers, 2 reserved | seen: ptxas 13.0.88 for sm_90 uses R0 to R252 and reports two more |
//! | 63 uniform registers, 7 predicates of each kind, 16 convergence barriers | published, and the encodings' field widths |
//! | 65,536 registers, handed out 8 a thread, 2,048 threads, 32 a warp, 4 schedulers | published: CUDA programming guide, compute capability 9.0 |
//! | at least 24 with `-maxrregcount` | seen: ptxas raises smaller limits to 24 on sm_90 |

use orias_sass::{RegisterClass, Target};

/// What one register file offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterFile {
    /// How many registers code may name, from the first on.
    pub usable: u8,
}

/// The register files of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterFiles {
    /// By class, in the order of [`RegisterClass::ALL`].
    files: [RegisterFile; 5],
    /// General registers a thread has besides those code names.
    pub reserved: u32,
    /// General registers are handed to threads in multiples of this.
    pub granularity: u32,
    /// General registers of a multiprocessor.
    pub per_multiprocessor: u32,
    /// Most threads of a multiprocessor at a time.
    pub most_threads: u32,
    /// Threads in a warp.
    pub warp: u32,
    /// Warp schedulers of a multiprocessor.
    pub schedulers: u32,
    /// A limit below this is raised to it.
    pub fewest: u32,
}

impl RegisterFiles {
    /// The file of `class`.
    pub const fn file(&self, class: RegisterClass) -> RegisterFile {
        self.files[class as usize]
    }
}

const HOPPER: RegisterFiles = RegisterFiles {
    files: [
        RegisterFile { usable: 253 },
        RegisterFile { usable: 7 },
        RegisterFile { usable: 63 },
        RegisterFile { usable: 7 },
        RegisterFile { usable: 16 },
    ],
    reserved: 2,
    granularity: 8,
    per_multiprocessor: 65536,
    most_threads: 2048,
    warp: 32,
    schedulers: 4,
    fewest: 24,
};

/// The register files of `target`.
pub const fn of(target: Target) -> &'static RegisterFiles {
    match target {
        Target::Sm90 | Target::Sm90a => &HOPPER,
    }
}
