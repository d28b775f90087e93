//! When results are there and when sources may be overwritten.
//!
//! Everything is a row of the text tables in `tables/<chip>`, which the build script makes static data of; what the patterns in them say
//! of an operation is worked out when that operation is first asked for, since a program needs a few dozen of the hundreds there are:
//!
//! - `classes.tbl`: each operation's class: how it completes, its unit, how often that takes one;
//! - `groups.tbl`: what each operation writes (*results*) and reads (*uses*), as groups that have one timing;
//! - `measured.tbl`, `mined.tbl`, `assumed.tbl`: cycles from a result group to a use group.
//!
//! Two tables of latencies come of the last three ([`Table`]). They are never mixed: a judge that shares a wrong row with the
//! accused is no judge.

pub(crate) mod groups;
pub(crate) mod latencies;

pub use groups::{Arrival, Place, Result, ResultGroup, Use, UseGroup};
pub use latencies::{EdgeRecord, Latency, Provenance, Row, Table};

use crate::issue::Unit;
use crate::machine::Machine;
use orias_sass::{Op, RegisterClass};

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

/// A class of operations with one timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class(pub(crate) u8);

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
    /// Whether it is a barrier between threads, which takes [`crate::limits::Limits::barrier_settles`] cycles to hold back what follows.
    pub settles: bool,
    /// Whether it must not issue before a barrier between threads has settled.
    pub settled: bool,
    /// Whether it reads or writes textures and surfaces.
    pub texture: bool,
    /// The unit it needs to be free, unless issue says otherwise of the operation.
    pub unit: Unit,
    /// What it keeps, and for how many cycles.
    pub keeps: &'static [(Unit, u8)],
    /// What to expect of a variable latency.
    pub typical: Option<Cycles>,
    /// What to expect of a fixed latency when the consumer is not known.
    pub expected: Option<Cycles>,
}

pub(crate) struct ClassRow {
    pub(crate) name: &'static str,
    pub(crate) completion: Completion,
    pub(crate) reads_in_order: bool,
    pub(crate) settles: bool,
    pub(crate) settled: bool,
    pub(crate) texture: bool,
    pub(crate) unit: Unit,
    pub(crate) keeps: &'static [(Unit, u8)],
    pub(crate) typical: Option<Cycles>,
    pub(crate) expected: Option<Cycles>,
    pub(crate) operations: &'static [&'static str],
}

impl ClassRow {
    fn timing(&self, class: Class) -> Timing {
        Timing {
            class,
            completion: self.completion,
            reads_in_order: self.reads_in_order,
            settles: self.settles,
            settled: self.settled,
            texture: self.texture,
            unit: self.unit,
            keeps: self.keeps,
            typical: self.typical,
            expected: self.expected,
        }
    }
}

pub(crate) struct Tables {
    pub(crate) classes: &'static [ClassRow],
    pub(crate) groups: groups::Groups,
    pub(crate) latencies: latencies::Latencies,
}

impl Machine {
    /// The timing of an operation; none when no row names it.
    #[must_use]
    pub fn timing(&self, op: Op) -> Option<Timing> {
        *self.chip.caches.timings.get_or_init(op, || {
            let classes = self.chip.timing.classes;
            let index = classes
                .iter()
                .position(|row| row.operations.iter().any(|pattern| names(pattern, op)))?;
            Some(classes[index].timing(Class(index as u8)))
        })
    }

    /// The timing of the operations of a class.
    #[must_use]
    pub fn class_timing(&self, class: Class) -> Timing {
        self.chip.timing.classes[usize::from(class.0)].timing(class)
    }

    /// The operations that the target has of a class.
    pub fn operations_of(&self, class: Class) -> impl Iterator<Item = Op> {
        let patterns = self.chip.timing.classes[usize::from(class.0)].operations;
        let named = Op::all().filter(|&op| patterns.iter().any(|pattern| names(pattern, op)));
        // The first class that names an operation has it.
        let own = move |op| self.timing(op).is_some_and(|timing| timing.class == class);
        named.filter(move |&op| own(op) && self.has(op))
    }

    /// What a class is called.
    #[must_use]
    pub fn class_name(&self, class: Class) -> &'static str {
        self.chip.timing.classes[usize::from(class.0)].name
    }

    /// Every class of the table, in its order, with the patterns of its operations.
    pub fn classes(&self) -> impl Iterator<Item = (Class, &'static [&'static str])> + use<> {
        let rows = self.chip.timing.classes.iter().enumerate();
        rows.map(|(index, row)| (Class(index as u8), row.operations))
    }

    /// Whether an operation with a variable latency still reads registers of `class` some time after it issued.
    ///
    /// Guards are read at issue by all, other predicates and uniform registers too; fixed-latency operations read all at issue.
    #[must_use]
    pub fn reads_late(&self, op: Op, place: Place, class: RegisterClass) -> bool {
        let timing = self.timing(op);
        let fixed = timing.is_none_or(|timing| timing.completion == Completion::Fixed);
        !fixed && class == RegisterClass::R && place != Place::Guard
    }
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
    use orias_sass::Target;

    fn machines() -> impl Iterator<Item = &'static Machine> {
        Target::ALL.into_iter().map(Machine::of)
    }

    #[test]
    fn every_operation_has_a_timing() {
        for machine in machines() {
            let missing: Vec<&str> = Op::all()
                .filter(|op| machine.timing(*op).is_none())
                .map(Op::name)
                .collect();
            assert_eq!(missing, Vec::<&str>::new(), "{machine:?}");
        }
    }

    #[test]
    fn every_pattern_names_an_operation() {
        for machine in machines() {
            for (class, operations) in machine.classes() {
                for pattern in operations {
                    assert!(
                        Op::all().any(|op| names(pattern, op)),
                        "{}: nothing is called {pattern}",
                        machine.class_name(class)
                    );
                }
            }
        }
    }
}
