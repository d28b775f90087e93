//! What stops a run, and where.

use orias_sass::{Instruction, Register};
use std::fmt;
use thiserror::Error;

/// Why a run stopped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FaultKind {
    /// The emulator does not know what the operation does.
    #[error("the operation {0} has no semantics here")]
    Missing(String),
    /// The word is not an instruction.
    #[error("{0}")]
    Decode(String),
    /// An access to memory that is not there.
    #[error("{what} of {size} bytes at {space} address {address:#x}: {reason}")]
    Access {
        /// Load, store or atomic.
        what: &'static str,
        /// Which memory.
        space: &'static str,
        /// The address.
        address: u64,
        /// How many bytes.
        size: u32,
        /// What is wrong with it.
        reason: String,
    },
    /// The kernel trapped.
    #[error("trap")]
    Trap,
    /// An assertion of the program failed.
    #[error("assertion failed: {0}")]
    Assertion(String),
    /// The semantics touched a register that the instruction's row does not declare.
    #[error("the semantics of {operation} touch {register}, which its row does not declare")]
    Undeclared {
        /// The operation.
        operation: &'static str,
        /// The register.
        register: Register,
    },
    /// A jump to something that is not an instruction of the function.
    #[error("a jump to {0:#x}, which is no instruction of this kernel")]
    Jump(u64),
    /// A call to a function of the system that is not there.
    #[error("a call of '{0}', which is not known here")]
    SystemCall(String),
    /// Named barriers used in a way they do not work.
    #[error("barrier {barrier}: {reason}")]
    Barrier {
        /// Its number.
        barrier: u32,
        /// What is wrong.
        reason: String,
    },
    /// The barrier of a cluster used in a way it does not work.
    #[error("the cluster's barrier: {0}")]
    ClusterBarrier(String),
    /// Every thread that is left waits for another.
    #[error("deadlock: {0}")]
    Deadlock(String),
    /// More steps than allowed.
    #[error("more than {0} thread-instructions")]
    StepLimit(u64),
    /// A texture or surface used in a way that it does not work.
    #[error("{0}")]
    Image(String),
    /// Something about the program that the emulator does not do.
    #[error("{0}")]
    Unsupported(String),
}

/// A fault with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What happened.
    pub kind: FaultKind,
    /// The kernel.
    pub kernel: String,
    /// The thread block.
    pub block: [u32; 3],
    /// The thread, where it was one.
    pub thread: Option<[u32; 3]>,
    /// Offset of the instruction in the kernel's code.
    pub offset: u64,
    /// The instruction's text.
    pub instruction: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.block;
        write!(f, "{} (kernel {}", self.kind, self.kernel)?;
        if self.instruction.is_empty() {
            write!(f, ", block {x},{y},{z}")?;
        } else {
            write!(
                f,
                "+{:#x} `{}`, block {x},{y},{z}",
                self.offset, self.instruction
            )?;
        }
        if let Some([x, y, z]) = self.thread {
            write!(f, ", thread {x},{y},{z}")?;
        }
        f.write_str(")")
    }
}

impl std::error::Error for Fault {}

/// A fault before its place is known: the lane, where it is one lane's.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    pub kind: FaultKind,
    pub lane: Option<u8>,
    /// The instruction, where it is not the one that issues.
    pub index: Option<usize>,
}

impl From<FaultKind> for Cause {
    fn from(kind: FaultKind) -> Self {
        Cause {
            kind,
            lane: None,
            index: None,
        }
    }
}

impl Cause {
    /// A fault of one lane.
    pub fn of(lane: usize, kind: FaultKind) -> Self {
        Cause {
            kind,
            lane: Some(lane as u8),
            index: None,
        }
    }

    /// The same fault, of another instruction than the one that issues.
    pub fn at(self, index: usize) -> Self {
        Cause {
            index: self.index.or(Some(index)),
            ..self
        }
    }
}

/// The text of an instruction, for messages.
pub(crate) fn text_of(instruction: &Instruction, offset: u64) -> String {
    orias_sass::text::print_instruction(instruction, offset)
}
