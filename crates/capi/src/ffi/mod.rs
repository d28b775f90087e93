//! Where C comes in: the functions of `orias.h` and of `nvPTXCompiler.h`.
//!
//! Every function looks at its pointers first, calls [`orias_session::Session`], and writes what came of it; everything within
//! `caught`, so that no panic reaches C. What cannot be looked at is promised by the caller, in the headers: a pointer that is not null
//! points to what its type says, a handle was created and not destroyed yet, and a buffer is as large as said.

pub mod nvptx;
pub mod orias;

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What `work` returns, or `otherwise` if it panics.
fn caught<R>(otherwise: R, work: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(otherwise)
}

/// The bytes at `start`; nothing if it is null. Null is as good as any for no bytes at all.
///
/// # Safety
///
/// If it is not null, `length` bytes can be read there for as long as the result is used.
unsafe fn bytes<'a>(start: *const c_char, length: usize) -> Option<&'a [u8]> {
    if length == 0 {
        return Some(&[]);
    }
    // No object is larger; sizes that are come from negative numbers.
    if start.is_null() || isize::try_from(length).is_err() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { std::slice::from_raw_parts(start.cast(), length) })
}

/// The bytes of a string of C, its end left out; nothing if it is null.
///
/// # Safety
///
/// If it is not null, it points to a string with a zero at its end that stays for as long as the result is used.
unsafe fn string<'a>(start: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise.
    (!start.is_null()).then(|| unsafe { CStr::from_ptr(start) }.to_bytes())
}

/// Writes a value; whether there was a place to write it to.
///
/// # Safety
///
/// If it is not null, `place` can be written to.
unsafe fn write<T>(place: *mut T, value: T) -> bool {
    if place.is_null() {
        return false;
    }
    // SAFETY: the caller's promise; what was there is no value of ours.
    unsafe { place.write(value) };
    true
}

/// Copies bytes to `place`.
///
/// # Safety
///
/// `place` is not null, and as many bytes can be written there.
unsafe fn copy(bytes: &[u8], place: *mut u8) {
    // SAFETY: the caller's promise; C's buffer is none of ours, so they do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
}

/// A pointer that C hands over and gets back.
#[derive(Clone, Copy)]
struct Payload(*mut std::ffi::c_void);

// SAFETY: it is never followed here, and the headers say that the callback it is handed to may be called by any thread.
unsafe impl Send for Payload {}
// SAFETY: as above.
unsafe impl Sync for Payload {}

impl Payload {
    fn pointer(&self) -> *mut std::ffi::c_void {
        self.0
    }
}
