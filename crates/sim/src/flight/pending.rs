//! Instructions of variable latency that are not complete, and what makes them read and complete.

use super::Flight;
use super::write::Write;
use crate::operand::Lanes;
use crate::warp::Registers;
use orias_machine::timing::Queue;
use orias_sass::RegisterClass;

/// A store to shared memory that a copy makes when it completes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LateStore {
    pub lane: usize,
    pub address: u64,
    pub size: u32,
    pub value: u128,
}

/// What the sources other than general registers were at issue.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub p: [u32; 8],
    pub ur: [u32; 64],
    pub up: [u32; 8],
}

/// An instruction of variable latency that is not complete.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// Index of the instruction.
    pub index: usize,
    pub active: u32,
    pub group: u32,
    pub snapshot: Box<Snapshot>,
    /// General registers whose new value was not there yet when it was issued: it sees what they held.
    pub(super) stale: Vec<(u8, Box<Lanes>)>,
    pub(super) issued: u64,
    pub(super) read_barrier: Option<u8>,
    pub(super) write_barrier: Option<u8>,
    pub(super) reads_in_order: bool,
    pub(super) queue: Option<Queue>,
    pub(super) copies: bool,
    pub(super) commits: bool,
    pub(super) typical: u64,
    /// Whether its sources were read, and its results are known.
    pub has_read: bool,
    pub writes: Vec<Write>,
    pub stores: Vec<LateStore>,
    /// When it reads and when it completes at the latest.
    pub(super) read_due: u64,
    pub(super) write_due: u64,
}

impl Pending {
    /// Writes its results for uniform registers.
    pub fn write_uniforms(&self, registers: &mut Registers) {
        for write in &self.writes {
            if matches!(write.class, RegisterClass::UR | RegisterClass::UP) {
                write.apply(registers);
            }
        }
    }

    /// What it sees in a register whose new value came too late for it.
    pub fn stale(&self, index: u8) -> Option<&Lanes> {
        self.stale
            .iter()
            .find(|(known, _)| *known == index)
            .map(|(_, value)| &**value)
    }
}

/// What is to be done with a pending instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Read,
    Complete,
}

impl Flight {
    /// The next pending instruction that a wait for `barriers`, begun in cycle `since`, makes read or complete. What was issued
    /// too shortly before the wait is not seen by it, however long it lasts.
    pub fn due_for(&self, barriers: u8, since: u64) -> Option<(usize, Due)> {
        let delay = u64::from(self.machine.limits.barrier_set_to_wait);
        let names = |barrier: Option<u8>| barrier.is_some_and(|b| barriers >> b & 1 == 1);
        self.pending.iter().enumerate().find_map(|(at, pending)| {
            if since < pending.issued + delay {
                return None;
            }
            if names(pending.write_barrier) {
                Some((at, Due::Complete))
            } else if names(pending.read_barrier) && !pending.has_read {
                Some((at, Due::Read))
            } else {
                None
            }
        })
    }

    /// The oldest instruction pending on a barrier, if there are more than `most`.
    pub fn due_beyond(&self, barrier: u8, most: usize) -> Option<(usize, Due)> {
        let on = |pending: &&Pending| pending.write_barrier == Some(barrier);
        let count = self.pending.iter().filter(on).count();
        if count <= most {
            return None;
        }
        let at = self
            .pending
            .iter()
            .position(|pending| pending.write_barrier == Some(barrier))?;
        Some((at, Due::Complete))
    }

    /// The next pending instruction whose time has come by itself.
    pub fn due_now(&self) -> Option<(usize, Due)> {
        self.pending.iter().enumerate().find_map(|(at, pending)| {
            if pending.write_due <= self.cycle {
                Some((at, Due::Complete))
            } else if pending.read_due <= self.cycle && !pending.has_read {
                Some((at, Due::Read))
            } else {
                None
            }
        })
    }

    /// The oldest pending instruction.
    pub fn due_at_all(&self) -> Option<(usize, Due)> {
        (!self.pending.is_empty()).then_some((0, Due::Complete))
    }

    /// What must happen before the pending instruction at `at` does what is due: something earlier of its queue.
    pub fn before(&self, at: usize, due: Due) -> Option<(usize, Due)> {
        let this = &self.pending[at];
        let earlier = &self.pending[..at];
        if !this.has_read {
            // The memory pipes read in the order of issue, and so does every queue that completes in order.
            let unread = earlier.iter().position(|other| {
                !other.has_read
                    && (this.reads_in_order && other.reads_in_order
                        || this.queue.is_some() && this.queue == other.queue)
            });
            if let Some(other) = unread {
                return Some((other, Due::Read));
            }
        }
        if this.commits
            && let Some(other) = earlier.iter().position(|other| other.copies)
        {
            return Some((other, Due::Complete));
        }
        if due == Due::Complete
            && this.queue.is_some()
            && let Some(other) = earlier.iter().position(|other| other.queue == this.queue)
        {
            return Some((other, Due::Complete));
        }
        None
    }

    pub fn pending(&self, at: usize) -> &Pending {
        &self.pending[at]
    }
}
