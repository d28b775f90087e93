//! What the judge has to say.

use orias_sass::Register;
use std::fmt;

/// A statement about finished code that the judge checks.
///
/// The first seven are the verifications of the design this project follows, two of them restated as the chip has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// 1: the stall is one the machine has: 0 to 15, with bit 109 only 1 to 11.
    StallRange,
    /// 2: barriers are 0 to 5, or none.
    BarrierIndex,
    /// 3, restated: a wait does something only once its barrier can be seen to be set; a wait on an unset barrier does nothing.
    WaitOrder,
    /// 4, restated: every variable-latency access that something depends on is covered by a wait that is sure to come after it.
    Coverage,
    /// 5: the control field is one the machine has, and its reuse flags belong to operands.
    ControlFormat,
    /// 6: bit 109 is set where reuse flags need it.
    Yield,
    /// 7: no value is read before its fixed latency has passed, or overwritten by an older one.
    Schedule,
    /// Nothing that can be waited for is in flight at calls and returns.
    Calls,
    /// The registers of warpgroup operations are handed over before, and their sums are waited for before they are used.
    Warpgroup,
    /// A count of pending operations is asked of a barrier whose operations finish in order.
    PendingCount,
    /// What a barrier between threads holds back does not issue before the barrier has settled.
    Barrier,
    /// No operand comes out of the reuse cache after its register was overwritten.
    Reuse,
    /// Instructions that belong together are neighbours.
    Together,
    /// No convergence barrier is opened while lanes may still wait at it.
    Reopened,
    /// What needs whole warps is executed where lanes that parted have met.
    Apart,
    /// Lanes wait for one another in no circle: regions are opened before they are met, and nest.
    Regions,
    /// Copies that run on by themselves are awaited.
    Awaited,
    /// Registers that a warp has given back are not named.
    GivenBack,
}

impl Check {
    /// All of them.
    pub const ALL: [Check; 18] = [
        Check::StallRange,
        Check::BarrierIndex,
        Check::WaitOrder,
        Check::Coverage,
        Check::ControlFormat,
        Check::Yield,
        Check::Schedule,
        Check::Calls,
        Check::Warpgroup,
        Check::PendingCount,
        Check::Barrier,
        Check::Reuse,
        Check::Together,
        Check::Reopened,
        Check::Apart,
        Check::Regions,
        Check::Awaited,
        Check::GivenBack,
    ];

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Check::StallRange => "stall-range",
            Check::BarrierIndex => "barrier-index",
            Check::WaitOrder => "wait-order",
            Check::Coverage => "coverage",
            Check::ControlFormat => "control-format",
            Check::Yield => "yield",
            Check::Schedule => "schedule",
            Check::Calls => "calls",
            Check::Warpgroup => "warpgroup",
            Check::PendingCount => "pending-count",
            Check::Barrier => "barrier",
            Check::Reuse => "reuse",
            Check::Together => "together",
            Check::Reopened => "reopened",
            Check::Apart => "apart",
            Check::Regions => "regions",
            Check::Awaited => "awaited",
            Check::GivenBack => "given-back",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which check found it.
    pub check: Check,
    /// The function.
    pub function: String,
    /// Where the later instruction is, in bytes from the function's start.
    pub offset: usize,
    /// The later instruction.
    pub instruction: String,
    /// Where the earlier instruction is, and what it is.
    pub earlier: Option<(usize, String)>,
    /// The register they meet in.
    pub register: Option<Register>,
    /// What is needed.
    pub needed: String,
    /// What is there.
    pub found: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}+{:#06x}: {}: `{}`",
            self.function, self.offset, self.check, self.instruction
        )?;
        if let Some(register) = self.register {
            write!(f, ", {register}")?;
        }
        if let Some((offset, text)) = &self.earlier {
            write!(f, ", after {offset:#06x} `{text}`")?;
        }
        write!(f, ": needs {}, found {}", self.needed, self.found)
    }
}
