//! Records of accesses that may not have finished, and how two paths' records become one.

use crate::facts::Guarded;
use orias_machine::timing::{Place, ResultGroup, UseGroup};

/// Cycles are counted up to here; nothing of fixed latency takes longer.
pub(super) const FAR: i32 = 96;

/// Reads and barriers that are over after a few cycles are over after this many.
pub(super) const SOON: i32 = 16;

/// How many queues there are.
pub(super) const QUEUES: usize = 5;

/// Before any time that is counted.
pub(super) const NEVER: i32 = i32::MIN / 2;

/// What kind of access is in flight, and what tells that it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A write with a fixed latency.
    Fixed(ResultGroup),
    /// A write that a barrier tells of; the queue it completes in.
    Written(Option<u8>),
    /// A write that comes with the release of the sources.
    Released(Option<u8>),
    /// A write of a warpgroup operation.
    GroupWritten,
    /// A read some time after issue; the queue it is done in.
    Read(Option<u8>),
    /// A read of a warpgroup operation.
    GroupRead,
    /// A read a few cycles after issue.
    Slow(UseGroup),
    /// A barrier between threads.
    Settles,
}

impl Kind {
    /// Whether later readers depend on it.
    pub(super) fn writes(self) -> bool {
        !matches!(self, Kind::Read(_) | Kind::GroupRead | Kind::Slow(_))
    }

    /// After how many cycles it is over for good; none if time alone does not tell.
    pub(super) fn over(self) -> Option<i32> {
        match self {
            Kind::Fixed(_) => Some(FAR),
            Kind::Slow(_) | Kind::Settles => Some(SOON),
            _ => None,
        }
    }
}

/// An access that may not have finished. The order of the fields makes records of one register neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) register: u16,
    pub(super) instruction: u32,
    pub(super) place: Place,
    pub(super) kind: Kind,
    /// When the instruction issued.
    pub(super) time: i32,
    /// Barriers that cover the access, and those of them that were set less than [`BARRIER_SET_TO_WAIT`] before the block began.
    pub(super) covers: u8,
    pub(super) recent: u8,
    /// Warpgroup groups that had ended when the instruction issued.
    pub(super) groups: i32,
    pub(super) guard: Option<Guarded>,
    /// Which instruction of the block wrote the guard's predicate last, plus one.
    pub(super) version: u32,
}

impl Record {
    /// What tells records apart: two of one key are the same access on two paths.
    pub(super) fn key(&self) -> (u16, u32, Place, Kind) {
        (self.register, self.instruction, self.place, self.kind)
    }
}
/// Adds what `other` has in flight to a sorted list; says whether anything changed.
pub(super) fn join(known: &mut Vec<Record>, other: &[Record]) -> bool {
    let mut changed = false;
    let mut new = Vec::new();
    let mut at = 0;
    for record in other {
        while at < known.len() && known[at].key() < record.key() {
            at += 1;
        }
        match known
            .get_mut(at)
            .filter(|candidate| candidate.key() == record.key())
        {
            Some(candidate) => {
                let merged = Record {
                    time: candidate.time.max(record.time),
                    covers: candidate.covers & record.covers,
                    recent: (candidate.recent | record.recent) & candidate.covers & record.covers,
                    groups: candidate.groups.max(record.groups),
                    guard: candidate.guard.filter(|guard| record.guard == Some(*guard)),
                    ..*candidate
                };
                changed |= merged != *candidate;
                *candidate = merged;
            }
            None => new.push(*record),
        }
    }
    if !new.is_empty() {
        changed = true;
        known.append(&mut new);
        known.sort_unstable_by_key(Record::key);
    }
    changed
}
