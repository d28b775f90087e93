//! The memory of one thread: blocks that were freed, by class, and memory that was never used.
//!
//! A request takes a freed block of its class; else it is cut from a larger freed block, or from the memory that was never used. That
//! memory is mapped far ahead, in chunks of addresses, and asked for as huge pages: one (2 MiB) is cleared in the time in which
//! forty small ones (160 KiB) are made present one by one, and every compilation needs more than that.
//!
//! Small blocks that were freed stay what they are: a compiler asks for the same sizes over and over. Those of some kibibytes and more are
//! joined where they lie side by side, but only before fresh memory would have to be used. What lies at the end of the used memory
//! grows and shrinks in place.

use super::classes::{CLASSES, FINE, GRAIN, block_size, class_of, class_within};
use super::extents::{Extent, Sorter};
use super::pages::{self, HUGE, PAGE};
use std::cell::Cell;
use std::ptr;

/// How much is mapped at once: addresses only, as long as they are not used. Room for the largest class and what is before a huge page.
const CHUNK: usize = if cfg!(miri) { 8 << 20 } else { 256 << 20 };

/// The first class that blocks of other classes may be cut from.
const FIRST_LARGE: usize = class_of(FINE) + 1;

/// Small blocks are cut from freed blocks of at most this class, so that they do not use up the largest; before a new page is used, from
/// a piece of that size of a larger one.
const LAST_SHARED: usize = class_of(64 << 10);

/// Freed blocks of this class and above can be joined: they are few.
const FIRST_JOINED: usize = class_of(4 << 10);

/// A freed block, which starts with the next one of its class.
struct Freed {
    next: *mut Freed,
}

/// See the [module](self). It lies at the start of its first chunk and is used by one thread at a time.
pub struct Arena {
    /// The freed blocks of each class.
    freed: [Cell<*mut Freed>; CLASSES],
    /// The classes from [`FIRST_LARGE`] on that may have freed blocks, a bit each.
    large: Cell<u64>,
    /// What is left of a freed block that small ones are cut from.
    shared: Cell<*mut u8>,
    shared_end: Cell<*mut u8>,
    /// The end of what is in use, and the furthest it was before it came back.
    top: Cell<*mut u8>,
    furthest: Cell<*mut u8>,
    /// Where the chunk's blocks start, and its end.
    start: Cell<*mut u8>,
    end: Cell<*mut u8>,
    /// How much was freed in blocks that can be joined since they were joined last.
    apart: Cell<usize>,
    /// The next arena that no thread has.
    pub next_idle: Cell<*const Arena>,
}

const _: () = assert!(CLASSES - FIRST_LARGE <= u64::BITS as usize);

impl Arena {
    /// A new arena in memory of its own, which is never given back; null if there is none. Its first `small` bytes, whole pages, are not
    /// asked for as huge ones.
    pub fn new(small: usize) -> *const Arena {
        let empty = Arena {
            freed: [const { Cell::new(ptr::null_mut()) }; CLASSES],
            large: Cell::new(0),
            shared: Cell::new(ptr::null_mut()),
            shared_end: Cell::new(ptr::null_mut()),
            top: Cell::new(ptr::null_mut()),
            furthest: Cell::new(ptr::null_mut()),
            start: Cell::new(ptr::null_mut()),
            end: Cell::new(ptr::null_mut()),
            apart: Cell::new(0),
            next_idle: Cell::new(ptr::null()),
        };
        let size = size_of::<Arena>().next_multiple_of(GRAIN);
        if !empty.add_chunk(size, small) {
            return ptr::null();
        }
        let arena = empty.take_top(size).cast::<Arena>();
        // SAFETY: the block was just taken, is large enough, and is aligned as every block.
        unsafe { arena.write(empty) };
        arena
    }

    /// A block of `class`; null if there is no memory.
    #[inline]
    pub fn take(&self, class: usize) -> *mut u8 {
        let first = self.freed[class].get();
        if first.is_null() {
            return self.take_other(class);
        }
        // SAFETY: what is in the list is a freed block, which starts with its successor, and nobody else has it.
        self.freed[class].set(unsafe { (*first).next });
        first.cast()
    }

    /// A block of `class` that holds zeros in its first `size` bytes; null if there is no memory.
    pub fn take_zeroed(&self, class: usize, size: usize) -> *mut u8 {
        let furthest = self.furthest.get();
        let chunk_end = self.end.get();
        let top = self.top.get();
        let block = self.take(class);
        // Memory from the end of what is in use is fresh, unless the end was further before.
        let fresh = block == top && top >= furthest && self.end.get() == chunk_end;
        if !fresh && !block.is_null() {
            // SAFETY: a block of `class` has at least `size` bytes.
            unsafe { block.write_bytes(0, size) };
        }
        block
    }

    /// Takes a block back.
    ///
    /// # Safety
    ///
    /// The block was taken from an arena as one of `class`, and nobody uses it any more.
    #[inline]
    pub unsafe fn give(&self, block: *mut u8, class: usize) {
        if class >= FIRST_LARGE {
            if block.wrapping_add(block_size(class)) == self.top.get() {
                self.move_top_back(block);
                return;
            }
            self.large
                .set(self.large.get() | 1 << (class - FIRST_LARGE));
            if class >= FIRST_JOINED {
                self.apart.set(self.apart.get() + block_size(class));
            }
        }
        let freed = block.cast::<Freed>();
        // SAFETY: the block is nobody's any more, and every block has room for a pointer and is aligned for one.
        unsafe {
            freed.write(Freed {
                next: self.freed[class].get(),
            });
        }
        self.freed[class].set(freed);
    }

    /// Makes a block of `class` one of `new_class` that starts with the same bytes, and says where it is; null, and the block is as it
    /// was, if there is no memory.
    ///
    /// # Safety
    ///
    /// The block was taken from an arena as one of `class`; after success only the new one may be used.
    pub unsafe fn resize(&self, block: *mut u8, class: usize, new_class: usize) -> *mut u8 {
        if class == new_class {
            return block;
        }
        let (size, new_size) = (block_size(class), block_size(new_class));
        let block_end = block.wrapping_add(size);
        if block_end == self.top.get() {
            if new_size < size {
                self.move_top_back(block.wrapping_add(new_size));
                return block;
            }
            if self.end.get().addr() - block.addr() >= new_size {
                self.take_top(new_size - size);
                return block;
            }
        } else if new_size < size {
            // SAFETY: the rest of the block was the caller's.
            unsafe { self.give_range(block.wrapping_add(new_size), size - new_size) };
            return block;
        }
        let moved = self.take(new_class);
        if !moved.is_null() {
            // SAFETY: both blocks have at least `size` bytes, and a block that was just taken overlaps no other. The old one is given
            // up by the caller.
            unsafe {
                ptr::copy_nonoverlapping(block, moved, size);
                self.give(block, class);
            }
        }
        moved
    }

    /// A block of a class without freed blocks.
    fn take_other(&self, class: usize) -> *mut u8 {
        let size = block_size(class);
        if class >= FIRST_LARGE {
            if let Some(block) = self.cut(class) {
                return block;
            }
            let top = self.top.get().addr();
            let room = self.furthest.get().addr().saturating_sub(top);
            if room < size && self.apart.get() > size.max((top - self.start.get().addr()) / 8) {
                self.join();
                if let Some(block) = self.cut(class) {
                    return block;
                }
            }
            return self.take_top(size);
        }
        if self.shared_end.get().addr() - self.shared.get().addr() < size {
            let freed = self.take_large(FIRST_LARGE, LAST_SHARED);
            let piece = || self.cut(LAST_SHARED).map(|block| (block, LAST_SHARED));
            let freed = freed.or_else(|| if self.is_present(size) { None } else { piece() });
            let Some((block, its_class)) = freed else {
                return self.take_top(size);
            };
            let (rest, end) = (self.shared.get(), self.shared_end.get());
            // SAFETY: what is left of the block before belongs to nobody.
            unsafe { self.give_range(rest, end.addr() - rest.addr()) };
            self.shared.set(block);
            self.shared_end
                .set(block.wrapping_add(block_size(its_class)));
        }
        let block = self.shared.get();
        self.shared.set(block.wrapping_add(size));
        block
    }

    /// A block of a large class that is cut from the smallest freed block that is not smaller.
    fn cut(&self, class: usize) -> Option<*mut u8> {
        let (block, its_class) = self.take_large(class, CLASSES - 1)?;
        let (size, its_size) = (block_size(class), block_size(its_class));
        // SAFETY: the block was just taken; its rest is not used.
        unsafe { self.give_range(block.wrapping_add(size), its_size - size) };
        Some(block)
    }

    /// Joins freed blocks that lie side by side.
    fn join(&self) {
        let mut sorted = Sorter::new();
        for class in FIRST_JOINED..CLASSES {
            let mut block = self.freed[class].replace(ptr::null_mut());
            while !block.is_null() {
                // SAFETY: as in `take`.
                let next = unsafe { (*block).next };
                // SAFETY: the block is nobody's and has the size of its class.
                unsafe { sorted.add(block.cast(), block_size(class)) };
                block = next;
            }
        }
        let mut extent = sorted.finish();
        while !extent.is_null() {
            // SAFETY: extents are made of freed blocks, which belong to the list.
            let Extent { mut next, mut size } = unsafe { extent.read() };
            let start = extent.cast::<u8>();
            while !next.is_null() && start.wrapping_add(size) == next.cast() {
                // SAFETY: as above.
                let joined = unsafe { next.read() };
                next = joined.next;
                size += joined.size;
            }
            if start.wrapping_add(size) == self.top.get() {
                self.move_top_back(start);
            } else {
                // SAFETY: the blocks of the extent are nobody's.
                unsafe { self.give_range(start, size) };
            }
            extent = next;
        }
        self.apart.set(0);
    }

    /// The smallest freed block of the classes from `first` to `last`, which are large ones.
    fn take_large(&self, first: usize, last: usize) -> Option<(*mut u8, usize)> {
        loop {
            let candidates = self.large.get() >> (first - FIRST_LARGE);
            let class = first + candidates.trailing_zeros() as usize;
            if candidates == 0 || class > last {
                return None;
            }
            let block = self.freed[class].get();
            if block.is_null() {
                self.large
                    .set(self.large.get() & !(1 << (class - FIRST_LARGE)));
                continue;
            }
            // SAFETY: as in `take`.
            self.freed[class].set(unsafe { (*block).next });
            return Some((block.cast(), class));
        }
    }

    /// Takes back memory that is no block, as blocks of any class.
    ///
    /// # Safety
    ///
    /// The range lies within memory of an arena, starts and ends where blocks may, and belongs to the caller, who gives it up.
    unsafe fn give_range(&self, start: *mut u8, size: usize) {
        let (mut start, mut size) = (start, size);
        while size >= GRAIN {
            let class = class_within(size);
            // SAFETY: the caller's promise; the blocks do not overlap.
            unsafe { self.give(start, class) };
            start = start.wrapping_add(block_size(class));
            size -= block_size(class);
        }
    }

    /// Whether `size` bytes behind what is in use lie in a page that is in use already, or was.
    fn is_present(&self, size: usize) -> bool {
        let top = self.top.get().addr();
        let known = self.furthest.get().addr().max(top).next_multiple_of(HUGE);
        top + size <= known
    }

    fn move_top_back(&self, to: *mut u8) {
        self.furthest.set(self.furthest.get().max(self.top.get()));
        self.top.set(to);
    }

    /// Memory from the end of what is in use, which is made longer by `size` bytes; null if there is none.
    #[inline]
    fn take_top(&self, size: usize) -> *mut u8 {
        if self.end.get().addr() - self.top.get().addr() < size && !self.add_chunk(size, 0) {
            return ptr::null_mut();
        }
        let block = self.top.get();
        self.top.set(block.wrapping_add(size));
        block
    }

    /// Goes on in a new chunk, with room for `size` bytes at least, that has huge pages after `small` bytes; no if there is none.
    #[cold]
    fn add_chunk(&self, size: usize, small: usize) -> bool {
        let least = (size + GRAIN).next_multiple_of(PAGE);
        let mut chunk = CHUNK.max(least);
        let mut start = pages::map(chunk);
        while start.is_null() && chunk > least {
            chunk = (chunk / 2).max(least);
            start = pages::map(chunk);
        }
        if start.is_null() {
            return false;
        }
        let mut first = start;
        if chunk == CHUNK {
            let huge = start.map_addr(|address| (address + small).next_multiple_of(HUGE));
            // SAFETY: the range is the chunk but for its start, which is much smaller than a chunk.
            unsafe { pages::prefer_huge(huge, start.addr() + chunk - huge.addr()) };
            first = huge.wrapping_sub(small);
        }
        let (rest, end) = (self.top.get(), self.end.get());
        // SAFETY: what is behind the end of what was in use belongs to nobody.
        unsafe { self.give_range(rest, end.addr() - rest.addr()) };
        // No block starts where another chunk may end, so that none is taken for the neighbour of one there.
        let first = first.wrapping_add(GRAIN);
        self.top.set(first);
        self.furthest.set(first);
        self.start.set(first);
        self.end.set(start.wrapping_add(chunk));
        true
    }
}
