//! When results are there and when sources may be overwritten.
//!
//! Everything is a row of the text tables in `tables/sm_90`, which the build script makes static data of; what the patterns in them say
//! of an operation is worked out when that operation is first asked for, since a program needs a few dozen of the hundreds there are:
//!
//! - `classes.tbl`: each operation's class: its pipe, how it completes, how often the pipe takes one;
//! - `groups.tbl`: what each operation writes (*results*) and reads (*uses*), as groups that have one timing;
//! - `measured.tbl`, `mined.tbl`, `assumed.tbl`: cycles from a result group to a use group.
//!
//! Two tables of latencies come of the last three ([`Table`]). They are never mixed: a judge that shares a wrong row with the
//! accused is no judge.
//!
//! ```
//! use orias_machine::timing::{Arrival, Place, Result, Table, Use, arrival, latency, use_group};
//! use orias_sass::{Mods, Op, RegisterClass};
//!
//! // IADD3 R4, ... ; FADD R5, R4, R6
//! let Some(Arrival::Fixed(sum)) = arrival(&Result {
//!     op: Op::IADD3, mods: Mods::ZERO, place: Place::Slot(0), class: RegisterClass::R, offset: 0,
//! }) else { panic!() };
//! let addend = use_group(&Use {
//!     op: Op::FADD, mods: Mods::ZERO, place: Place::Slot(1), class: RegisterClass::R, offset: 0,
//! }).unwrap();
//! assert_eq!(latency(Table::Safe, sum, addend).cycles, 5);
//! ```

mod groups;
mod latencies;

pub use groups::{Arrival, Place, Result, ResultGroup, Use, UseGroup, arrival, use_group};
pub use latencies::{
    Latency, Provenance, Row, Source, Table, assumed, latency, overwrite, release, rows,
    smaller_than_mined,
};

use crate::met::Met;
use orias_sass::{Op, RegisterClass};

/// Barriers of a warp.
pub const BARRIERS: u8 = 6;

/// The longest stall the control field can say.
pub const STALL_MAX: u8 = 15;

/// The longest stall together with bit 109.
pub const STALL_MAX_YIELDING: u8 = 11;

/// A barrier set by an instruction is seen by a wait that issues this many cycles later, not before (mined: ptxas never goes below).
pub const BARRIER_SET_TO_WAIT: u16 = 2;

/// A memory access, or a look at the result, must issue this many cycles after a barrier between threads (BAR, UCGABAR_ARV), not before:
/// mined, and on the chip accesses 5 cycles after overtake it (mutants, 2026-11-15).
pub const BARRIER_SETTLES: u16 = 6;

/// What a DEPBAR waits for is sure to be there only this many cycles after it issued: ptxas never stalls for less, and on the chip a BAR
/// one cycle after it lets stale data through (mutants, 2026-11-15).
pub const DEPBAR_SETTLES: u8 = 4;

/// How an operation's results arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Completion {
    /// After a number of cycles that depends on producer and consumer only. Sources are read at issue.
    Fixed,
    /// When it is there: a barrier tells. Sources are read some time after issue.
    Variable,
    /// When its group of warpgroup operations is waited for; no barrier of the control field covers it.
    Group,
    /// When it is there, but never before an earlier operation of the same queue.
    InOrder(Queue),
}

/// Operations that finish in the order of issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Queue {
    /// Shared memory and exchange between lanes.
    Shared,
    /// Functions and conversions.
    Special,
    /// Barriers of the thread block and their results.
    Barrier,
    /// Special registers on their way to uniform ones.
    System,
    /// Reductions over the lanes.
    Lanes,
}

/// The unit that executes an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pipe {
    /// Multiply and add: single precision, IMAD, VIADD.
    Fma,
    /// Logic, comparison, moves and conversions between formats of 32 bits and less.
    Alu,
    /// Packed half precision.
    Half,
    /// Double precision, and HFMA2.MMA.
    Fp64,
    /// Tensor cores.
    Tensor,
    /// The uniform datapath.
    Uniform,
    /// Branches and everything that asks the front end.
    Control,
    /// Functions and conversions.
    Special,
    /// Indexed constant loads.
    Constant,
    /// Loads, stores, atomics, textures, shuffles, copies.
    Memory,
}

/// A class of operations with one timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(u8);

impl Class {
    /// What the class is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        TABLES.classes[usize::from(self.0)].name
    }
}

/// A number with where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycles {
    /// How many.
    pub cycles: u16,
    /// Where the number comes from.
    pub provenance: Provenance,
}

/// The timing of an operation, whoever consumes its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Its class.
    pub class: Class,
    /// How it completes.
    pub completion: Completion,
    /// Whether it goes through the queue of the memory pipes, which reads general registers in the order of issue: once a
    /// later one has read its sources, so have all before it.
    pub reads_in_order: bool,
    /// Whether it is a barrier between threads, which takes [`BARRIER_SETTLES`] cycles to hold back what follows.
    pub settles: bool,
    /// Whether it must not issue before a barrier between threads has settled.
    pub settled: bool,
    /// Which unit executes it.
    pub pipe: Pipe,
    /// For how many cycles one instruction keeps the unit.
    pub issue: Cycles,
    /// What to expect of a variable latency.
    pub typical: Option<Cycles>,
}

struct ClassRow {
    name: &'static str,
    completion: Completion,
    reads_in_order: bool,
    settles: bool,
    settled: bool,
    pipe: Pipe,
    issue: Cycles,
    typical: Option<Cycles>,
    operations: &'static [&'static str],
}

impl ClassRow {
    fn timing(&self, class: Class) -> Timing {
        Timing {
            class,
            completion: self.completion,
            reads_in_order: self.reads_in_order,
            settles: self.settles,
            settled: self.settled,
            pipe: self.pipe,
            issue: self.issue,
            typical: self.typical,
        }
    }
}

struct Tables {
    classes: &'static [ClassRow],
    groups: groups::Groups,
    latencies: latencies::Latencies,
}

include!(concat!(env!("OUT_DIR"), "/timing.rs"));

/// The timing of an operation; none when no row names it.
#[must_use]
pub fn of(op: Op) -> Option<Timing> {
    static TIMINGS: Met<Option<Timing>> = Met::new();
    *TIMINGS.get_or_init(op, || {
        let classes = TABLES.classes;
        let index = classes
            .iter()
            .position(|row| row.operations.iter().any(|pattern| names(pattern, op)))?;
        Some(classes[index].timing(Class(index as u8)))
    })
}

/// Every class of the table, in its order, with the patterns of its operations.
pub fn classes() -> impl Iterator<Item = (Class, &'static [&'static str])> {
    TABLES
        .classes
        .iter()
        .enumerate()
        .map(|(index, row)| (Class(index as u8), row.operations))
}

/// Whether an operation with a variable latency still reads registers of `class` some time after it issued.
///
/// Guards are read at issue by all, other predicates and uniform registers too; fixed-latency operations read all at issue.
#[must_use]
pub fn reads_late(op: Op, place: Place, class: RegisterClass) -> bool {
    let fixed = of(op).is_none_or(|timing| timing.completion == Completion::Fixed);
    !fixed && class == RegisterClass::R && place != Place::Guard
}

/// Whether `pattern` (a name, or a beginning followed by `*`) names the operation.
pub(crate) fn names(pattern: &str, op: Op) -> bool {
    let name = op.name().as_bytes();
    let (start, all) = match pattern.as_bytes() {
        [start @ .., b'*'] => (start, false),
        whole => (whole, true),
    };
    // Most differ in the first letter, which tells without comparing the rest.
    start
        .first()
        .is_none_or(|first| name.first() == Some(first))
        && name.starts_with(start)
        && (!all || name.len() == start.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_timing() {
        let missing: Vec<&str> = Op::all()
            .filter(|op| of(*op).is_none())
            .map(Op::name)
            .collect();
        assert_eq!(missing, Vec::<&str>::new());
    }

    #[test]
    fn every_pattern_names_an_operation() {
        for (class, operations) in classes() {
            for pattern in operations {
                assert!(
                    Op::all().any(|op| names(pattern, op)),
                    "{}: nothing is called {pattern}",
                    class.name()
                );
            }
        }
    }

    #[test]
    fn every_variable_latency_has_a_typical_one() {
        for op in Op::all() {
            let timing = of(op).expect("every operation has a timing");
            assert_eq!(
                timing.typical.is_none(),
                timing.completion == Completion::Fixed,
                "{op}"
            );
        }
    }
}
