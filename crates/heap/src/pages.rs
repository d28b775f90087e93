//! Memory from the operating system, by the page.

use std::ptr;

/// The size of a page; no smaller one exists where this module is used.
pub const PAGE: usize = 4096;

/// The size of a huge page, and what it is aligned to.
pub const HUGE: usize = 2 << 20;

/// Zeros of this process alone, for which no memory is set aside before they are touched (which miri does not know).
const FLAGS: libc::c_int =
    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };

/// Maps `size` bytes of zeros, which take no memory before they are touched; null if there is no room.
pub fn map(size: usize) -> *mut u8 {
    // SAFETY: a new mapping at a place the system chooses changes nothing that exists.
    let start = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            FLAGS,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        ptr::null_mut()
    } else {
        start.cast()
    }
}

/// Gives a mapping back.
///
/// # Safety
///
/// `start` and `size` are those of a mapping made by [`map`] or [`remap`], which nobody uses any more.
pub unsafe fn unmap(start: *mut u8, size: usize) {
    // SAFETY: the caller's promise. A failure leaves the memory mapped, which harms nobody.
    unsafe { libc::munmap(start.cast(), size) };
}

/// Makes a mapping larger or smaller, wherever there is room; its pages move, their bytes are not copied. Null if there is no room, and
/// then the mapping is as it was.
///
/// # Safety
///
/// As for [`unmap`]; after success only the new place may be used.
pub unsafe fn remap(start: *mut u8, size: usize, new_size: usize) -> *mut u8 {
    #[cfg(not(miri))]
    // SAFETY: the caller's promise.
    unsafe {
        let moved = libc::mremap(start.cast(), size, new_size, libc::MREMAP_MAYMOVE);
        if moved == libc::MAP_FAILED {
            ptr::null_mut()
        } else {
            moved.cast()
        }
    }
    #[cfg(miri)]
    // SAFETY: the caller's promise, and a new mapping overlaps no other.
    unsafe {
        let moved = map(new_size);
        if !moved.is_null() {
            ptr::copy_nonoverlapping(start, moved, size.min(new_size));
            unmap(start, size);
        }
        moved
    }
}

/// Asks that a range be served by huge pages, if the system has any. What is not a whole huge page stays as it is.
///
/// # Safety
///
/// The range lies in one mapping made by [`map`].
pub unsafe fn prefer_huge(start: *mut u8, size: usize) {
    #[cfg(not(miri))]
    // SAFETY: the bytes of the range do not change. A system that refuses serves small pages.
    unsafe {
        libc::madvise(start.cast(), size, libc::MADV_HUGEPAGE);
    }
    #[cfg(miri)]
    let _ = (start, size);
}
