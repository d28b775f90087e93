//! Freed memory of any size, sorted by address, so that what lies side by side is found.

use std::ptr;

/// Freed memory, which starts with what is said of it here.
pub struct Extent {
    /// The next one of a list.
    pub next: *mut Extent,
    /// How many bytes it has.
    pub size: usize,
}

/// Extents being sorted by merging: the list with number `n` is empty or has `2^n` extents, in order.
pub struct Sorter([*mut Extent; usize::BITS as usize]);

impl Sorter {
    pub const fn new() -> Self {
        Self([ptr::null_mut(); usize::BITS as usize])
    }

    /// Adds an extent.
    ///
    /// # Safety
    ///
    /// The memory belongs to the caller, who leaves it to the sorter, and has room for an [`Extent`], for which it is aligned.
    pub unsafe fn add(&mut self, start: *mut u8, size: usize) {
        let mut list = start.cast::<Extent>();
        let next = ptr::null_mut();
        // SAFETY: the caller's promise.
        unsafe { list.write(Extent { next, size }) };
        for sorted in &mut self.0 {
            if sorted.is_null() {
                *sorted = list;
                return;
            }
            // SAFETY: both lists were made here.
            list = unsafe { merge(std::mem::replace(sorted, ptr::null_mut()), list) };
        }
    }

    /// The first of all extents, the others of which follow in the order of their addresses; null if there are none.
    pub fn finish(self) -> *mut Extent {
        let lists = self.0.into_iter();
        // SAFETY: the lists were made here.
        lists.fold(ptr::null_mut(), |all, list| unsafe { merge(all, list) })
    }
}

/// Merges two sorted lists.
///
/// # Safety
///
/// The extents of both lists belong to the caller.
unsafe fn merge(mut left: *mut Extent, mut right: *mut Extent) -> *mut Extent {
    let mut first = ptr::null_mut();
    let mut last = &raw mut first;
    while !left.is_null() && !right.is_null() {
        let lower = if left < right { &mut left } else { &mut right };
        // SAFETY: what is not null is an extent of one of the lists, or `first`.
        unsafe {
            *last = *lower;
            last = &raw mut (**lower).next;
            *lower = *last;
        }
    }
    // SAFETY: as above.
    unsafe { *last = if left.is_null() { right } else { left } };
    first
}
