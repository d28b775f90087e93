//! Events of variable latency while a walk is under way, and their names.

use super::facts::EventKind;
use super::flight::EventId;

/// The waiter of an event from another block: which instruction it is depends on the path.
pub(super) const ELSEWHERE: i32 = -1;

/// An event in flight during a walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveEvent {
    pub(super) id: EventId,
    pub(super) alive: bool,
    pub(super) covers: u8,
    /// The barrier its instruction sets for it.
    pub(super) own: Option<u8>,
    /// The first instruction that waits for it, and when.
    pub(super) waiter: i32,
    pub(super) demand: i32,
    pub(super) done: i32,
}

/// The bit of a barrier, if there is one.
pub(super) fn mask(barrier: Option<u8>) -> u8 {
    barrier.map_or(0, |barrier| 1 << barrier)
}

/// The name of an instruction's event.
pub(super) fn event_id(index: usize, kind: EventKind) -> EventId {
    2 * index as EventId + EventId::from(kind == EventKind::Released)
}

/// The instruction an event belongs to.
pub(super) fn instruction(event: EventId) -> usize {
    event as usize / 2
}

/// What an event tells.
pub(super) fn kind(event: EventId) -> EventKind {
    if event.is_multiple_of(2) {
        EventKind::Written
    } else {
        EventKind::Released
    }
}
