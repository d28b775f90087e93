//! `orias.h`: Orias's own API.
#![allow(non_camel_case_types, reason = "the names of a C header")]

use super::{Payload, bytes, caught, copy, string, write};
use orias_session::{Outcome, Session, Verdict, Watch};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Arc;

/// How a call ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum orias_result {
    /// It did what it is for.
    ORIAS_SUCCESS = 0,
    /// The handle is null.
    ORIAS_ERROR_INVALID_HANDLE = 1,
    /// An argument is null, or no object can be as large as it says.
    ORIAS_ERROR_INVALID_ARGUMENT = 2,
    /// The PTX or an option is wrong; the error log says what and where.
    ORIAS_ERROR_INPUT = 3,
    /// The PTX is right and cannot be compiled yet; the error log names what is missing.
    ORIAS_ERROR_UNSUPPORTED = 4,
    /// A bug of Orias, whatever the input was; the error log describes it.
    ORIAS_ERROR_INTERNAL = 5,
    /// The compilation took more memory than its limit.
    ORIAS_ERROR_OUT_OF_MEMORY = 6,
    /// The compilation was cancelled.
    ORIAS_ERROR_CANCELLED = 7,
    /// There is no cubin: nothing was compiled with this handle, or not with success.
    ORIAS_ERROR_NOT_COMPILED = 8,
    /// The buffer is smaller than what it is to hold. Nothing was written to it.
    ORIAS_ERROR_BUFFER_TOO_SMALL = 9,
}

use orias_result::*;

/// The results and their names.
const NAMES: &[(orias_result, &std::ffi::CStr)] = &[
    (ORIAS_SUCCESS, c"ORIAS_SUCCESS"),
    (ORIAS_ERROR_INVALID_HANDLE, c"ORIAS_ERROR_INVALID_HANDLE"),
    (
        ORIAS_ERROR_INVALID_ARGUMENT,
        c"ORIAS_ERROR_INVALID_ARGUMENT",
    ),
    (ORIAS_ERROR_INPUT, c"ORIAS_ERROR_INPUT"),
    (ORIAS_ERROR_UNSUPPORTED, c"ORIAS_ERROR_UNSUPPORTED"),
    (ORIAS_ERROR_INTERNAL, c"ORIAS_ERROR_INTERNAL"),
    (ORIAS_ERROR_OUT_OF_MEMORY, c"ORIAS_ERROR_OUT_OF_MEMORY"),
    (ORIAS_ERROR_CANCELLED, c"ORIAS_ERROR_CANCELLED"),
    (ORIAS_ERROR_NOT_COMPILED, c"ORIAS_ERROR_NOT_COMPILED"),
    (
        ORIAS_ERROR_BUFFER_TOO_SMALL,
        c"ORIAS_ERROR_BUFFER_TOO_SMALL",
    ),
];

/// What to compile and what came of it. Handles share nothing; several threads may use one, too.
pub struct orias_compiler {
    session: Session,
}

/// Asked between the phases of a compilation, with the payload it was set with: 0 to go on, anything else to cancel.
/// It may be called by any thread, must not unwind, and must not destroy the handle.
pub type orias_callback = Option<unsafe extern "C" fn(payload: *mut c_void) -> c_int>;

/// Does `work` with the session of a handle.
///
/// # Safety
///
/// If it is not null, the handle is one that was created and not destroyed.
unsafe fn with_session(
    compiler: *const orias_compiler,
    work: impl FnOnce(&Session) -> orias_result,
) -> orias_result {
    // SAFETY: the caller's promise; only shared references to the handle are made.
    let compiler = unsafe { compiler.as_ref() };
    let Some(compiler) = compiler else {
        return ORIAS_ERROR_INVALID_HANDLE;
    };
    caught(ORIAS_ERROR_INTERNAL, || work(&compiler.session))
}

/// Copies bytes to a buffer that is large enough, and says how many there are. A buffer that is null with a capacity of 0 only asks.
///
/// # Safety
///
/// If they are not null, `size` can be written to and `buffer` has `capacity` bytes.
unsafe fn deliver(
    bytes: &[u8],
    buffer: *mut c_void,
    capacity: usize,
    size: *mut usize,
) -> orias_result {
    // SAFETY: the caller's promise.
    if !unsafe { write(size, bytes.len()) } || (buffer.is_null() && capacity > 0) {
        return ORIAS_ERROR_INVALID_ARGUMENT;
    }
    if buffer.is_null() {
        return ORIAS_SUCCESS;
    }
    if capacity < bytes.len() {
        return ORIAS_ERROR_BUFFER_TOO_SMALL;
    }
    // SAFETY: the buffer is there and large enough.
    unsafe { copy(bytes, buffer.cast()) };
    ORIAS_SUCCESS
}

/// The version of the library; a pointer may be null if its part is not wanted.
///
/// # Safety
///
/// Pointers that are not null can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orias_version(major: *mut c_uint, minor: *mut c_uint, patch: *mut c_uint) {
    let number = |text: &str| text.parse().unwrap_or(0);
    // SAFETY: the caller's promise.
    unsafe {
        write(major, number(env!("CARGO_PKG_VERSION_MAJOR")));
        write(minor, number(env!("CARGO_PKG_VERSION_MINOR")));
        write(patch, number(env!("CARGO_PKG_VERSION_PATCH")));
    }
}

/// The name of a result, as this header has it; null if there is none with this number. It is never to be freed.
#[unsafe(no_mangle)]
pub extern "C" fn orias_result_name(result: c_int) -> *const c_char {
    let found = NAMES.iter().find(|(row, _)| *row as c_int == result);
    found.map_or(std::ptr::null(), |(_, name)| name.as_ptr())
}

/// Makes a handle, which is the caller's until `orias_compiler_destroy`.
///
/// # Safety
///
/// If it is not null, `compiler` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orias_compiler_create(compiler: *mut *mut orias_compiler) -> orias_result {
    caught(ORIAS_ERROR_INTERNAL, || {
        if compiler.is_null() {
            return ORIAS_ERROR_INVALID_ARGUMENT;
        }
        let made = Box::new(orias_compiler {
            session: Session::default(),
        });
        // SAFETY: it is not null, and the caller's promise.
        unsafe { compiler.write(Box::into_raw(made)) };
        ORIAS_SUCCESS
    })
}

/// Frees a handle and everything behind it, and makes the pointer null. No other call may be at work on it.
///
/// # Safety
///
/// If they are not null, `compiler` can be read and written, and what it points to was created and not destroyed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orias_compiler_destroy(
    compiler: *mut *mut orias_compiler,
) -> orias_result {
    caught(ORIAS_ERROR_INTERNAL, || {
        // SAFETY: the caller's promise.
        let Some(place) = (unsafe { compiler.as_mut() }) else {
            return ORIAS_ERROR_INVALID_ARGUMENT;
        };
        if place.is_null() {
            return ORIAS_ERROR_INVALID_HANDLE;
        }
        let handle = std::mem::replace(place, std::ptr::null_mut());
        // SAFETY: it came from a box, and the caller's promise that it was not destroyed yet.
        drop(unsafe { Box::from_raw(handle) });
        ORIAS_SUCCESS
    })
}

/// Adds a PTX module of `size` bytes, which are copied; zeros at its end do not count. Messages call it `name`, or what
/// ptxas calls a module without a file if that is null. Several modules become one cubin.
///
/// # Safety
///
/// If they are not null, `compiler` is a handle, `name` a string, and `ptx` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orias_compiler_add_module(
    compiler: *const orias_compiler,
    name: *const c_char,
    ptx: *const c_char,
    size: usize,
) -> orias_result {
    let add = |session: &Session| {
        // SAFETY: the caller's promise.
        let (name, text) = unsafe { (string(name), bytes(ptx, size)) };
        let Some(text) = text else {
            return ORIAS_ERROR_INVALID_ARGUMENT;
        };
        session.add_module(name, text);
        ORIAS_SUCCESS
    };
    // SAFETY: the caller's promise.
    unsafe { with_session(compiler, add) }
}

/// Adds an option as ptxas takes it, one argument of its command line ("--gpu-name=sm_90a", "-O3", "-v"); it is copied.
/// What is wrong with it is found when it is used. Without a target nothing can be compiled; options that name files
/// (-o, --options-file) have no place here.
///
/// # Safety
///
/// If they are not null, `compiler` is a handle and `option` a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orias_compiler_add_option(
    compiler: *const orias_compiler,
    option: *const c_char,
) -> orias_result {
    let add = |session: &Session| {
        // SAFETY: the caller's promise.
        let Some(option) = (unsafe { string(option) }) else {
            return ORIAS_ERROR_INVALID_ARGUMENT;
        };
        session.add_option(option);
        ORIAS_SUCCESS
    };
    // SAFETY: the caller's promise.
    unsafe { with_session(compiler, add) }
}

/// Sets the most memory, in bytes, that a compilation may have at a time; 0 for no limit. It is looked at between phases,
/// so a single phase may take more before the compilation ends. With a limit, the calling thread compiles alone.
///
/// # Safety
///
/// If it is not null, `compiler` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orias_compiler_set_memory_limit(
    compiler: *const orias_compiler,
    bytes: usize,
) -> orias_result {
    let set = |session: &Session| {
        session.set_memory_limit(Some(bytes).filter(|&bytes| bytes > 0));
        ORIAS_SUCCESS
    };
    // SAFETY: the caller's promise.
    unsafe { with_session(compiler, set) }
}

/// Sets a function that is asked between phases whether to cancel, and what it is handed; null for none.
///
/// # Safety
///
/// If it is not null, `compiler` is a handle; the callback keeps what its type says for as long as it is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orias_compiler_set_callback(
    compiler: *const orias_compiler,
    callback: orias_callback,
    payload: *mut c_void,
) -> orias_result {
    let payload = Payload(payload);
    let watch = callback.map(|callback| -> Watch {
        // SAFETY: the caller's promise.
        Arc::new(move || unsafe { callback(payload.pointer()) } != 0)
    });
    let set = |session: &Session| {
        session.set_watch(watch);
        ORIAS_SUCCESS
    };
    // SAFETY: the caller's promise.
    unsafe { with_session(compiler, set) }
}

/// Cancels the compilation that another thread has at work with this handle, and all that would follow with it: they end
/// with ORIAS_ERROR_CANCELLED before their next phase.
///
/// # Safety
///
/// If it is not null, `compiler` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orias_compiler_cancel(compiler: *const orias_compiler) -> orias_result {
    let cancel = |session: &Session| {
        session.cancel();
        ORIAS_SUCCESS
    };
    // SAFETY: the caller's promise.
    unsafe { with_session(compiler, cancel) }
}

/// Compiles the modules that were added, with the options that were added, into one cubin. What the compilation before
/// left with this handle, cubin and logs, is gone; an error leaves no cubin.
///
/// # Safety
///
/// If it is not null, `compiler` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orias_compiler_compile(compiler: *const orias_compiler) -> orias_result {
    let compile = |session: &Session| match session.compile() {
        Verdict::Compiled => ORIAS_SUCCESS,
        Verdict::Refused | Verdict::UnsupportedVersion => ORIAS_ERROR_INPUT,
        Verdict::Unsupported => ORIAS_ERROR_UNSUPPORTED,
        Verdict::Cancelled => ORIAS_ERROR_CANCELLED,
        Verdict::OutOfMemory => ORIAS_ERROR_OUT_OF_MEMORY,
        Verdict::Internal => ORIAS_ERROR_INTERNAL,
    };
    // SAFETY: the caller's promise.
    unsafe { with_session(compiler, compile) }
}

/// Copies the cubin to a buffer of `capacity` bytes and writes its size to `size`; with a buffer of null and a capacity
/// of 0, only the size. It is empty where the target is virtual (compute_90a): the modules were only checked.
///
/// # Safety
///
/// If they are not null, `compiler` is a handle, `buffer` has `capacity` bytes, and `size` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orias_compiler_get_cubin(
    compiler: *const orias_compiler,
    buffer: *mut c_void,
    capacity: usize,
    size: *mut usize,
) -> orias_result {
    let get = |session: &Session| match session.outcome() {
        Some(outcome) if outcome.verdict == Verdict::Compiled => {
            // SAFETY: the caller's promise.
            unsafe { deliver(&outcome.cubin, buffer, capacity, size) }
        }
        _ => ORIAS_ERROR_NOT_COMPILED,
    };
    // SAFETY: the caller's promise.
    unsafe { with_session(compiler, get) }
}

/// Copies a log of the last compilation as a string of C.
///
/// # Safety
///
/// As for [`with_session`] and [`deliver`].
unsafe fn get_log(
    compiler: *const orias_compiler,
    log: fn(&Outcome) -> &str,
    buffer: *mut c_char,
    capacity: usize,
    size: *mut usize,
) -> orias_result {
    let get = |session: &Session| {
        let outcome = session.outcome();
        let text = outcome.as_deref().map_or("", log);
        let mut text = text.as_bytes().to_vec();
        text.push(0);
        // SAFETY: the caller's promise.
        unsafe { deliver(&text, buffer.cast(), capacity, size) }
    };
    // SAFETY: the caller's promise.
    unsafe { with_session(compiler, get) }
}

/// Copies the errors of the last compilation, a line each as ptxas has them, to a buffer of `capacity` bytes, and writes
/// to `size` how many it takes with the zero at the end; with a buffer of null and a capacity of 0, only that.
///
/// # Safety
///
/// If they are not null, `compiler` is a handle, `buffer` has `capacity` bytes, and `size` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orias_compiler_get_error_log(
    compiler: *const orias_compiler,
    buffer: *mut c_char,
    capacity: usize,
    size: *mut usize,
) -> orias_result {
    // SAFETY: the caller's promise.
    unsafe { get_log(compiler, |it| &it.error_log, buffer, capacity, size) }
}

/// The same for warnings and for what "-v" reports.
///
/// # Safety
///
/// As for `orias_compiler_get_error_log`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orias_compiler_get_info_log(
    compiler: *const orias_compiler,
    buffer: *mut c_char,
    capacity: usize,
    size: *mut usize,
) -> orias_result {
    // SAFETY: the caller's promise.
    unsafe { get_log(compiler, |it| &it.info_log, buffer, capacity, size) }
}

/// The most memory, in bytes, that the calling thread had at a time during the last compilation; 0 before the first.
///
/// # Safety
///
/// If they are not null, `compiler` is a handle and `bytes` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn orias_compiler_get_peak_memory(
    compiler: *const orias_compiler,
    bytes: *mut usize,
) -> orias_result {
    let get = |session: &Session| {
        let peak = session.outcome().map_or(0, |outcome| outcome.peak);
        // SAFETY: the caller's promise.
        if unsafe { write(bytes, peak) } {
            ORIAS_SUCCESS
        } else {
            ORIAS_ERROR_INVALID_ARGUMENT
        }
    };
    // SAFETY: the caller's promise.
    unsafe { with_session(compiler, get) }
}
