//! A chip as a value: everything that is known of it, and what is asked of it again and again.
//!
//! [`Machine::of`] is the one to make code with: its latencies are the larger of what was measured and what was seen. [`Machine::judging`] is the one to
//! judge and emulate code with: its latencies are the smallest that finished code relies on. All else is the same, and so are the caches that are
//! filled when an operation is first met, one set for each chip. Which one to ask is decided where a target is first known; algorithms are handed the machine
//! and never ask which one it is.
//!
//! ```
//! use orias_machine::Machine;
//! use orias_machine::timing::{Arrival, Place, Result, Use};
//! use orias_sass::{Mods, Op, RegisterClass, Target};
//!
//! let machine = Machine::of(Target::Sm90a);
//! // IADD3 R4, ... ; FADD R5, R4, R6
//! let Some(Arrival::Fixed(sum)) = machine.arrival(&Result {
//!     op: Op::IADD3, mods: Mods::ZERO, place: Place::Slot(0), class: RegisterClass::R, offset: 0,
//! }) else { panic!() };
//! let addend = machine.use_group(&Use {
//!     op: Op::FADD, mods: Mods::ZERO, place: Place::Slot(1), class: RegisterClass::R, offset: 0,
//! }).unwrap();
//! assert_eq!(machine.latency(sum, addend).cycles, 5);
//! ```

use crate::abi::Abi;
use crate::constants::KernelConstants;
use crate::issue::{self, Issue, OrderToken, OrderTokenUse, Role, Unit};
use crate::limits::Limits;
use crate::operation_cache::OperationCache;
use crate::registers::RegisterFiles;
use crate::timing::groups::Rules;
use crate::timing::latencies::{EdgeRecord, Row};
use crate::timing::{
    self, ClassRow, Completion, Cycles, Provenance, Queue, ResultGroup, Table, Timing, UseGroup,
};
use orias_sass::{Op, RegisterClass, Target};
use std::fmt;

/// What is known of a chip.
#[derive(Clone, Copy)]
pub struct Machine {
    /// What code is made for.
    pub target: Target,
    /// Register files, and who shares them.
    pub registers: &'static RegisterFiles,
    /// What the control field can say, and how long barriers take.
    pub limits: &'static Limits,
    /// Where a kernel finds what it was launched with.
    pub constants: &'static KernelConstants,
    /// What functions and the driver agree on.
    pub abi: &'static Abi,
    pub(crate) chip: &'static Chip,
    pub(crate) table: Table,
}

/// The tables of a chip, with what they say of the operations that were met.
pub(crate) struct Chip {
    pub(crate) number: usize,
    pub(crate) registers: RegisterFiles,
    pub(crate) limits: Limits,
    pub(crate) constants: KernelConstants,
    pub(crate) abi: Abi,
    pub(crate) timing: timing::Tables,
    pub(crate) issue: issue::Rules,
    pub(crate) caches: Caches,
}

/// What was worked out of the tables, by operation.
pub(crate) struct Caches {
    pub(crate) timings: OperationCache<Option<Timing>>,
    pub(crate) rules: OperationCache<Rules>,
    pub(crate) issues: OperationCache<Issue>,
    pub(crate) tokens: OperationCache<Vec<OrderTokenUse>>,
}

impl Caches {
    pub(crate) const fn new() -> Self {
        Caches {
            timings: OperationCache::new(),
            rules: OperationCache::new(),
            issues: OperationCache::new(),
            tokens: OperationCache::new(),
        }
    }
}

include!(concat!(env!("OUT_DIR"), "/chips.rs"));

impl Machine {
    const fn new(target: Target, chip: &'static Chip, table: Table) -> Machine {
        Machine {
            target,
            registers: &chip.registers,
            limits: &chip.limits,
            constants: &chip.constants,
            abi: &chip.abi,
            chip,
            table,
        }
    }

    /// The machine to make code with.
    #[inline]
    #[must_use]
    pub fn of(target: Target) -> &'static Machine {
        &MAKING[place(target)]
    }

    /// The machine to judge and to emulate code with: what was mined, never what code was made with.
    #[inline]
    #[must_use]
    pub fn judging(target: Target) -> &'static Machine {
        &JUDGING[place(target)]
    }

    /// Whether the target has the operation in any form.
    #[must_use]
    pub fn has(&self, op: Op) -> bool {
        let mut forms = op.row().forms.iter();
        forms.any(|form| form.targets.contains(self.target))
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.target, self.table)
    }
}

/// Two machines of each chip: one to make code with, one to judge it with.
const MACHINES: usize = 2 * CHIPS;

/// Something that is derived of machines: for caches of those who ask them. Targets that are one chip share it; who makes code and who judges it do not.
#[derive(Debug)]
pub struct PerMachine<T>([T; MACHINES]);

impl<T> PerMachine<T> {
    /// How many there are.
    pub const COUNT: usize = MACHINES;

    /// One of each.
    pub const fn new(each: [T; MACHINES]) -> Self {
        PerMachine(each)
    }

    /// The one of `machine`.
    #[inline]
    pub fn of(&self, machine: &Machine) -> &T {
        &self.0[2 * machine.chip.number + machine.table as usize]
    }
}

impl<T> PerMachine<OperationCache<T>> {
    /// Nothing has been asked for.
    pub const fn empty() -> Self {
        PerMachine([const { OperationCache::new() }; MACHINES])
    }
}
