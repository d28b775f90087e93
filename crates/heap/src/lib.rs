//! The command's heap: a size-class allocator with an arena for each thread.
//!
//! **For:** `orias`, the command, on Linux. Libraries keep the allocator of whoever uses them.
//!
//! **May know:** the operating system's calls for pages.
//!
//! **Must never know:** anything of the compiler.
//!
//! A compilation lives for milliseconds, and a page that is touched for the first time costs as much as some thousand instructions. So
//! memory is never given back to the system before the command ends (but for blocks of many mebibytes), pages are asked for by the
//! piece, and every thread has an arena of its own, so that nothing is locked. A block may be freed by another thread
//! than the one that asked for it; it belongs to that thread's arena then. When a thread ends, the next one that starts takes its arena.
//! Taking and giving back a block is a push or a pop of the free list of its size class.
//!
//! # Why there is `unsafe` here
//!
//! [`GlobalAlloc`] is an unsafe trait, and what it hands out is raw memory: no safe code can do that. The gain is measured
//! (`docs/compile-time.md`, "Memory"): the largest module of the corpus takes 168 page faults instead of 8,900, which were a fifth of all
//! time; mimalloc lost over the corpus. This crate, the C library's boundary (`crates/capi`), the count of sessions (`crates/session`) and the calls of the GPU driver in `xtask` are the only places
//! that lift the workspace's `unsafe_code = "deny"`. Every block has a `SAFETY` comment; the crate's tests run under miri too (`cargo +nightly miri test -p orias-heap`).
#![cfg(target_os = "linux")]
#![allow(
    unsafe_code,
    reason = "an allocator hands out raw memory; this crate is the only place that does"
)]

mod arena;
mod classes;
mod extents;
mod pages;
#[cfg(test)]
mod tests;

use arena::Arena;
use classes::{GRAIN, LARGEST, class_of};
use pages::PAGE;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The allocator; all of its memory is static or belongs to threads.
#[derive(Clone, Copy, Debug)]
pub struct Memory;

/// The tests themselves are served by it, too.
#[cfg(test)]
#[global_allocator]
static MEMORY: Memory = Memory;

thread_local! {
    /// This thread's arena; null before its first request and after its end.
    static ARENA: Cell<*const Arena> = const { Cell::new(ptr::null()) };
    /// Hands the thread's arena on when the thread ends.
    static END: End = const { End };
}

/// The arenas that no thread has.
static IDLE: Mutex<Idle> = Mutex::new(Idle(ptr::null()));

struct Idle(*const Arena);

// SAFETY: an arena in the list is used by nobody, and by one thread at a time after it was taken out.
unsafe impl Send for Idle {}

/// Whether a thread has an arena already. The first one is the main thread, whose end is the command's.
static STARTED: AtomicBool = AtomicBool::new(false);

struct End;

impl Drop for End {
    fn drop(&mut self) {
        let arena = ARENA.replace(ptr::null());
        if !arena.is_null() {
            set_idle(arena);
        }
    }
}

fn set_idle(arena: *const Arena) {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: arenas live as long as the command, and the caller has given this one up.
    unsafe { &*arena }.next_idle.set(idle.0);
    idle.0 = arena;
}

/// What a thread besides the first uses of small pages before it gets huge ones: there may be many that do little.
const SMALL_PAGES: usize = 256 << 10;

/// An arena that no thread has, or a new one; null if there is no memory.
fn any_arena(first_thread: bool) -> *const Arena {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let first = idle.0;
    if first.is_null() {
        drop(idle);
        return Arena::new(if first_thread { 0 } else { SMALL_PAGES });
    }
    // SAFETY: arenas live as long as the command, and those in the list belong to the list.
    idle.0 = unsafe { &*first }.next_idle.get();
    first
}

/// Does something with this thread's arena; null if there is no memory for one.
#[inline]
fn with_arena(work: impl FnOnce(&Arena) -> *mut u8) -> *mut u8 {
    let arena = ARENA.get();
    if arena.is_null() {
        return with_new_arena(work);
    }
    // SAFETY: arenas live as long as the command, and this one is used by no other thread.
    work(unsafe { &*arena })
}

/// The same for a thread that has no arena yet, or no more.
#[cold]
#[inline(never)]
fn with_new_arena(work: impl FnOnce(&Arena) -> *mut u8) -> *mut u8 {
    let first_thread = !STARTED.swap(true, Ordering::Relaxed);
    let arena = any_arena(first_thread);
    if arena.is_null() {
        return ptr::null_mut();
    }
    ARENA.set(arena);
    let keeps = first_thread || END.try_with(|_| ()).is_ok();
    // SAFETY: as above.
    let result = work(unsafe { &*arena });
    if !keeps {
        // The thread is ending: what other destructors still ask for is served by an arena for one request.
        ARENA.set(ptr::null());
        set_idle(arena);
    }
    result
}

/// What a request that is aligned to more than blocks are asks for: room for the start to be moved, and a pointer to the block before it.
fn aligned_size(layout: Layout) -> usize {
    layout.size() + layout.align()
}

/// A block of at least `size` bytes, aligned as all blocks are; null if there is no memory.
#[inline]
fn take(size: usize) -> *mut u8 {
    if size <= LARGEST {
        return with_arena(|arena| arena.take(class_of(size)));
    }
    let size = size.next_multiple_of(PAGE);
    let block = pages::map(size);
    if !block.is_null() {
        // SAFETY: the range is the mapping.
        unsafe { pages::prefer_huge(block, size) };
    }
    block
}

/// Takes back what [`take`] gave.
///
/// # Safety
///
/// The block was taken with this size, and nobody uses it any more.
#[inline]
unsafe fn give(block: *mut u8, size: usize) {
    if size <= LARGEST {
        with_arena(|arena| {
            // SAFETY: the caller's promise.
            unsafe { arena.give(block, class_of(size)) };
            ptr::null_mut()
        });
        return;
    }
    // SAFETY: a block of this size is a mapping of its own.
    unsafe { pages::unmap(block, size.next_multiple_of(PAGE)) };
}

// SAFETY: blocks do not overlap, are as large and aligned as asked for, and stay until they are given back. Nothing here panics or
// asks for memory of the same allocator.
unsafe impl GlobalAlloc for Memory {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= GRAIN {
            return take(layout.size());
        }
        let block = take(aligned_size(layout));
        if block.is_null() {
            return block;
        }
        // Between the block and the place is room for a pointer: the block is a multiple of the grain, the place of twice that or more.
        let place = block.wrapping_add(GRAIN);
        let place = place.map_addr(|address| address.next_multiple_of(layout.align()));
        // SAFETY: the place lies at least a grain and at most the alignment behind the start of the block.
        unsafe { place.cast::<*mut u8>().sub(1).write(block) };
        place
    }

    #[inline]
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if layout.align() <= GRAIN {
            // SAFETY: the caller's promise.
            unsafe { give(place, layout.size()) };
            return;
        }
        // SAFETY: `alloc` wrote the start of the block before the place.
        unsafe { give(place.cast::<*mut u8>().sub(1).read(), aligned_size(layout)) };
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= GRAIN {
            if layout.size() > LARGEST {
                return take(layout.size());
            }
            let class = class_of(layout.size());
            return with_arena(|arena| arena.take_zeroed(class, layout.size()));
        }
        // SAFETY: the caller's promise.
        let place = unsafe { self.alloc(layout) };
        if !place.is_null() {
            // SAFETY: that much was asked for.
            unsafe { place.write_bytes(0, layout.size()) };
        }
        place
    }

    #[inline]
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let size = layout.size();
        if layout.align() <= GRAIN {
            if size <= LARGEST && new_size <= LARGEST {
                let (class, new_class) = (class_of(size), class_of(new_size));
                return with_arena(|arena| {
                    // SAFETY: the caller's promise.
                    unsafe { arena.resize(place, class, new_class) }
                });
            }
            if size > LARGEST && new_size > LARGEST {
                let (mapped, wanted) =
                    (size.next_multiple_of(PAGE), new_size.next_multiple_of(PAGE));
                // SAFETY: a block of this size is a mapping of its own.
                return unsafe { pages::remap(place, mapped, wanted) };
            }
        }
        // SAFETY: a layout with another size that the caller promises is valid.
        let moved =
            unsafe { self.alloc(Layout::from_size_align_unchecked(new_size, layout.align())) };
        if !moved.is_null() {
            // SAFETY: both have that many bytes, and one that was just taken overlaps no other.
            unsafe {
                ptr::copy_nonoverlapping(place, moved, size.min(new_size));
                self.dealloc(place, layout);
            }
        }
        moved
    }
}
