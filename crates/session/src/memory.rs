//! How much memory a compilation takes: the system's allocator, with a count for each thread.
//!
//! Two additions to numbers of the thread for each request. A block that another thread frees is taken from that thread's number, so a
//! [`Meter`] is right for work that stays on one thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes this thread has taken and not given back; negative if it gives back what others took.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    /// The most of it since a meter was started.
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, counted.
#[derive(Clone, Copy, Debug)]
pub struct Counted;

#[inline]
fn take(bytes: usize) {
    let live = LIVE.get().wrapping_add_unsigned(bytes);
    LIVE.set(live);
    if live > PEAK.get() {
        PEAK.set(live);
    }
}

#[inline]
fn give(bytes: usize) {
    LIVE.set(LIVE.get().wrapping_sub_unsigned(bytes));
}

// SAFETY: every request is passed on to the system's allocator as it is; counting neither panics nor allocates, as the numbers are
// initialised by a constant and have no destructor.
unsafe impl GlobalAlloc for Counted {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            take(layout.size());
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) };
        give(layout.size());
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        let block = unsafe { System.alloc_zeroed(layout) };
        if !block.is_null() {
            take(layout.size());
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        let moved = unsafe { System.realloc(block, layout, new_size) };
        if !moved.is_null() {
            // For a moment there may be both.
            take(new_size);
            give(layout.size());
        }
        moved
    }
}

/// What a thread takes from now on.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    /// What it had.
    before: isize,
}

impl Meter {
    /// Starts to count this thread's memory; a meter that runs already loses its peak.
    pub fn start() -> Self {
        let before = LIVE.get();
        PEAK.set(before);
        Self { before }
    }

    /// The most bytes this thread has had at a time since the start, beyond those it had then.
    pub fn peak(self) -> usize {
        usize::try_from(PEAK.get().wrapping_sub(self.before)).unwrap_or(0)
    }

    /// The bytes this thread has now beyond those it had; negative if it has less.
    pub fn live(self) -> isize {
        LIVE.get().wrapping_sub(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_knows_the_most_and_forgets_what_is_given_back() {
        let meter = Meter::start();
        let mut large: Vec<u8> = Vec::with_capacity(1 << 20);
        large.push(1);
        drop(std::hint::black_box(large));
        let small = std::hint::black_box(Box::new([0_u8; 100]));
        assert!(meter.peak() >= 1 << 20, "{}", meter.peak());
        assert!(meter.live() >= 100 && meter.live() < 1 << 20);
        drop(small);
        assert!(Meter::start().peak() < 1 << 20);
    }
}
