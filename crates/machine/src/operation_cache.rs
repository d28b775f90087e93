//! A lazily filled cache by operation: what is worked out when it is first asked for.
//!
//! There are some nine hundred operations and a program uses a few dozen. In a table by number these would lie on a page each; here they
//! lie side by side, in the order in which they were met.

use orias_sass::Op;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What is known of the operations that were met so far.
#[derive(Debug)]
pub struct OperationCache<T> {
    /// By operation: its place among those that were met, plus one.
    places: [AtomicU16; Op::COUNT],
    count: Mutex<u16>,
    facts: [OnceLock<T>; Op::COUNT],
}

impl<T> OperationCache<T> {
    /// Nothing has been asked for.
    pub const fn new() -> Self {
        OperationCache {
            places: [const { AtomicU16::new(0) }; Op::COUNT],
            count: Mutex::new(0),
            facts: [const { OnceLock::new() }; Op::COUNT],
        }
    }

    /// What is known of `op`, worked out if nobody asked before.
    #[inline]
    pub fn get_or_init(&self, op: Op, work_out: impl FnOnce() -> T) -> &T {
        let place = match self.places[op.index()].load(Ordering::Relaxed) {
            0 => self.meet(op),
            place => place,
        };
        self.facts[usize::from(place) - 1].get_or_init(work_out)
    }

    /// Gives `op` a place, unless somebody else just did.
    #[cold]
    fn meet(&self, op: Op) -> u16 {
        // Nothing that may panic happens under the lock.
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let place = &self.places[op.index()];
        if place.load(Ordering::Relaxed) == 0 {
            *count += 1;
            place.store(*count, Ordering::Relaxed);
        }
        place.load(Ordering::Relaxed)
    }
}

impl<T> Default for OperationCache<T> {
    fn default() -> Self {
        OperationCache::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_worked_out_once_and_keeps_what_is_its_own() {
        static NAMES: OperationCache<&str> = OperationCache::new();
        for _ in 0..2 {
            for op in Op::all() {
                assert_eq!(*NAMES.get_or_init(op, || op.name()), op.name());
            }
        }
        let last = Op::all().last().expect("there are operations");
        NAMES.get_or_init(last, || panic!("it is known"));
    }
}
