//! A launch: what is asked for, what comes of it, and what every warp of it shares.

use crate::block::BlockState;
use crate::fault::Fault;
use crate::heap::Heap;
use crate::memory::Memory;
use crate::module::Kernel;
use crate::order::Schedule;
use crate::shared::FOREIGN_WARPS;
use orias_eval::texture::Objects;
use orias_sass::Register;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A kernel launch: the shape of the grid and the parameters' bytes.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The kernel's name.
    pub kernel: String,
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// Blocks of a cluster in each dimension, if the launch says so; otherwise as the kernel wants it.
    pub cluster: Option<[u32; 3]>,
    /// The bytes of each parameter, in order, little-endian.
    pub arguments: Vec<Vec<u8>>,
}

/// When results become visible to later instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Timing {
    /// At once: control fields do not matter.
    #[default]
    Off,
    /// Fixed-latency results after their latency, all others as late as the control fields allow.
    Strict,
    /// Variable-latency results at a random moment of the window the control fields allow, by this seed.
    Random(u64),
}

/// What is looked for while a kernel runs. Accesses out of bounds always stop it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Reads of general registers that the lane never wrote.
    pub registers: bool,
    /// Reads of shared, local or reserved global memory that nothing wrote.
    pub memory: bool,
    /// Accesses of different warps to the same bytes of shared memory, one of them a write, without a barrier between.
    pub races: bool,
    /// With timing: registers that are read before a result arrives in them, or overwritten before they were read.
    pub hazards: bool,
}

impl Checks {
    /// Nothing.
    pub const NONE: Checks = Checks {
        registers: false,
        memory: false,
        races: false,
        hazards: false,
    };
    /// Everything.
    pub const ALL: Checks = Checks {
        registers: true,
        memory: true,
        races: true,
        hazards: true,
    };
}

/// How to run a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// When results become visible.
    pub timing: Timing,
    /// In what order lanes, warps and blocks go on, where the chip leaves it open.
    pub schedule: Schedule,
    /// What is looked for.
    pub checks: Checks,
    /// Stop after so many thread-instructions.
    pub max_steps: Option<u64>,
    /// Bytes of local memory of a thread, if the kernel does not ask for more.
    pub stack: u32,
    /// Count issues, cycles and stalls of every instruction.
    pub profile: bool,
    /// Take down the state of this thread of the first block before each of its instructions.
    pub follow: Option<u32>,
    /// Keep what one warp does, step by step.
    pub watch: Option<crate::trace::Watch>,
    /// Host threads to run blocks on. The outcome of a kernel whose blocks race may depend on it.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timing: Timing::Off,
            schedule: Schedule::InOrder,
            checks: Checks::NONE,
            max_steps: None,
            stack: 16 << 10,
            profile: false,
            follow: None,
            watch: None,
            threads: 1,
        }
    }
}

/// Something suspicious that did not stop the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub kind: FindingKind,
    /// The block.
    pub block: [u32; 3],
    /// The thread in it.
    pub thread: [u32; 3],
    /// Offset of the instruction.
    pub offset: u64,
}

/// Kinds of [`Finding`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// A register was read that the lane never wrote.
    UnwrittenRegister(Register),
    /// Memory was read that nothing wrote.
    UnwrittenMemory {
        /// Which memory.
        space: &'static str,
        /// The address.
        address: u64,
    },
    /// A register was read before a result arrived in it: the old value was seen.
    EarlyRead {
        /// The register.
        register: Register,
        /// Offset of the instruction whose result was under way.
        producer: u64,
    },
    /// A register was overwritten before an earlier instruction had read it.
    EarlyWrite {
        /// The register.
        register: Register,
        /// Offset of the instruction that had not read it.
        reader: u64,
    },
    /// Some lanes of a warp came to a barrier of the block while others of them were elsewhere: it counts the whole warp.
    PartedBarrier {
        /// The barrier.
        barrier: u8,
        /// The lanes that came.
        lanes: u32,
        /// The lanes of the warp that have not ended.
        live: u32,
    },
    /// Two warps accessed the same shared memory without a barrier between them, one of them writing.
    Race {
        /// The address.
        address: u32,
        /// The other warp.
        other: u32,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            FindingKind::UnwrittenRegister(register) => {
                write!(f, "{register} was never written")?;
            }
            FindingKind::UnwrittenMemory { space, address } => {
                write!(f, "{space} memory at {address:#x} was never written")?;
            }
            FindingKind::EarlyRead { register, producer } => write!(
                f,
                "{register} is read before the result of the instruction at {producer:#x} arrives"
            )?,
            FindingKind::EarlyWrite { register, reader } => write!(
                f,
                "{register} is overwritten before the instruction at {reader:#x} has read it"
            )?,
            FindingKind::PartedBarrier {
                barrier,
                lanes,
                live,
            } => write!(
                f,
                "barrier {barrier} counts the whole warp, of which only lanes {lanes:#010x} of {live:#010x} came"
            )?,
            FindingKind::Race { address, other } => {
                let warp = other % FOREIGN_WARPS;
                let of = match other / FOREIGN_WARPS {
                    0 => String::new(),
                    block => format!(" of block {} of the cluster", block - 1),
                };
                write!(
                    f,
                    "shared memory at {address:#x} is also accessed by warp {warp}{of}, without a barrier between"
                )?;
            }
        }
        let ([a, b, c], [x, y, z]) = (self.block, self.thread);
        write!(
            f,
            " (at {:#x}, block {a},{b},{c}, thread {x},{y},{z})",
            self.offset
        )
    }
}

/// What a launch left behind, besides the contents of memory.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What stopped it, if it did not end by itself.
    pub fault: Option<Fault>,
    /// Instructions counted once for each thread.
    pub thread_instructions: u64,
    /// Instructions counted once for each group of lanes.
    pub warp_instructions: u64,
    /// What `printf` wrote.
    pub printed: Vec<u8>,
    /// Suspicious things, at most a hundred of each place.
    pub findings: Vec<Finding>,
    /// Counts by instruction, if asked for.
    pub profile: Option<crate::profile::Profile>,
    /// The states of the thread that was followed.
    pub stops: Vec<crate::follow::Stop>,
    /// What the watched warp did.
    pub trace: Option<crate::trace::Trace>,
}

/// How many findings are kept.
const MOST_FINDINGS: usize = 200;

/// What all warps of a launch share.
pub(crate) struct Context<'a> {
    pub options: &'a Options,
    pub memory: &'a Memory,
    /// What handles of textures, samplers and surfaces name.
    pub objects: &'a Objects,
    pub heap: &'a Mutex<Heap>,
    pub kernel: &'a Kernel,
    /// Constant banks; bank 0 is this launch's own.
    pub banks: [&'a [u8]; 32],
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Blocks of a cluster in each dimension: ones where there are no clusters.
    pub cluster: [u32; 3],
    /// Bytes of shared memory of a block, what the system keeps included.
    pub shared: usize,
    /// Bytes of local memory of a thread.
    pub local: u32,
    pub printed: &'a Mutex<Vec<u8>>,
    pub findings: &'a Mutex<Vec<Finding>>,
    pub stops: &'a Mutex<Vec<crate::follow::Stop>>,
    /// Thread-instructions so far.
    pub steps: &'a AtomicU64,
    /// What clocks show.
    pub clock: &'a AtomicU64,
}

impl Context<'_> {
    #[inline]
    pub fn bank(&self, number: u8) -> &[u8] {
        self.banks[usize::from(number) & 31]
    }

    /// Notes a finding, once for each instruction and kind.
    #[cold]
    pub fn find(&self, index: usize, block: &BlockState, thread: [u32; 3], kind: FindingKind) {
        let Ok(mut findings) = self.findings.lock() else {
            return;
        };
        let offset = index as u64 * 16;
        let same = |other: &&Finding| {
            other.offset == offset
                && std::mem::discriminant(&other.kind) == std::mem::discriminant(&kind)
        };
        if findings.len() < MOST_FINDINGS && findings.iter().find(same).is_none() {
            findings.push(Finding {
                kind,
                block: block.index,
                thread,
                offset,
            });
        }
    }

    /// Counts thread-instructions; whether the limit is passed.
    pub fn count(&self, steps: u64) -> bool {
        let before = self.steps.fetch_add(steps, Relaxed);
        self.options
            .max_steps
            .is_some_and(|limit| before + steps > limit)
    }
}
