//! Why a program cannot be loaded, and what can go wrong while it runs.

use crate::memory::MemoryError;
use orias_ptx::Span;

/// Why a module cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Something is used that this interpreter does not execute yet.
    #[error("line {line}: not supported yet: {what}")]
    Unsupported {
        /// The instruction or feature.
        what: String,
        /// Where it stands.
        line: usize,
    },
    /// The module breaks a rule that its check reports: it was not checked.
    #[error("line {line}: {what}")]
    Invalid {
        /// What is wrong.
        what: String,
        /// Where it stands.
        line: usize,
    },
}

/// The line of a position in the source, from 1.
pub(crate) fn line_of(source: &[u8], span: Span) -> usize {
    let start = (span.start as usize).min(source.len());
    1 + source[..start]
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count()
}

/// A run that stopped, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}{}", self.at.as_deref().map(Location::to_string).unwrap_or_default())]
pub struct Fault {
    /// What happened.
    pub kind: FaultKind,
    /// Where; a launch that does not fit has no place.
    pub at: Option<Box<Location>>,
}

/// Where a thread stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The CTA.
    pub cta: [u32; 3],
    /// The thread in it.
    pub thread: [u32; 3],
    /// The statement it executed, as written.
    pub statement: String,
    /// The line of the statement.
    pub line: usize,
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            line, statement, ..
        } = self;
        let ([x, y, z], [cx, cy, cz]) = (self.thread, self.cta);
        write!(
            f,
            "\n  in thread ({x}, {y}, {z}) of CTA ({cx}, {cy}, {cz})\n  at line {line}: {statement}"
        )
    }
}

/// A data race: two accesses of different threads that overlap, one of which writes, that are not morally strong, and of which neither comes
/// before the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// The access that was made first.
    pub first: Location,
    /// The other one.
    pub second: Location,
    /// The memory of the first.
    pub(crate) place: crate::order::Place,
}

impl std::fmt::Display for Race {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            first,
            second,
            place,
        } = self;
        let space = if place.region == 0 {
            "global"
        } else {
            "shared"
        };
        write!(
            f,
            "data race on {} bytes of {space} memory at {:#x}{first}\nand{second}",
            place.bytes, place.start
        )
    }
}

/// What can go wrong while a program runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// The launch does not fit the program.
    #[error("{0}")]
    Launch(String),
    /// A bad access.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// `trap` was executed.
    #[error("trap")]
    Trap,
    /// `brkpt` was executed.
    #[error("breakpoint")]
    Breakpoint,
    /// An assertion failed, with its text.
    #[error("{0}")]
    Assertion(String),
    /// A register is read that was never written.
    #[error("register {0} is read before it is written")]
    Uninitialised(String),
    /// A behaviour that the manual leaves undefined.
    #[error("undefined: {0}")]
    Undefined(String),
    /// No thread can go on.
    #[error("deadlock: {0}")]
    Deadlock(String),
    /// More steps than allowed.
    #[error("the limit of {0} steps is reached")]
    StepLimit(u64),
    /// A call or stack goes beyond what a thread has.
    #[error("the stack of a thread goes beyond {0} bytes")]
    StackOverflow(u64),
    /// Something that this interpreter does not execute yet and that showed only here.
    #[error("not supported yet: {0}")]
    Unsupported(String),
}

impl From<FaultKind> for Fault {
    fn from(kind: FaultKind) -> Self {
        Self { kind, at: None }
    }
}
