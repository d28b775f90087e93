//! `nvPTXCompiler.h`: the functions of NVIDIA's PTX Compiler API, by its public documentation for CUDA 13.0.
#![allow(
    non_camel_case_types,
    non_snake_case,
    reason = "the names of NVIDIA's API"
)]

use super::{Payload, bytes, caught, copy, string, write};
use orias_session::{Outcome, Session, Verdict, Watch};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Arc;

/// How a call ended.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum nvPTXCompileResult {
    /// It did what it is for.
    NVPTXCOMPILE_SUCCESS = 0,
    /// The handle is null.
    NVPTXCOMPILE_ERROR_INVALID_COMPILER_HANDLE = 1,
    /// An argument is null or out of range.
    NVPTXCOMPILE_ERROR_INVALID_INPUT = 2,
    /// The PTX or an option is wrong, or not supported yet; the error log says what and where.
    NVPTXCOMPILE_ERROR_COMPILATION_FAILURE = 3,
    /// A bug of the library.
    NVPTXCOMPILE_ERROR_INTERNAL = 4,
    /// There is no memory.
    NVPTXCOMPILE_ERROR_OUT_OF_MEMORY = 5,
    /// There is no program: nothing was compiled with this handle, or not with success.
    NVPTXCOMPILE_ERROR_COMPILER_INVOCATION_INCOMPLETE = 6,
    /// The PTX is of a version that is not understood.
    NVPTXCOMPILE_ERROR_UNSUPPORTED_PTX_VERSION = 7,
    /// Device code waits for device code; Orias never returns it.
    NVPTXCOMPILE_ERROR_UNSUPPORTED_DEVSIDE_SYNC = 8,
    /// The callback cancelled the compilation.
    NVPTXCOMPILE_ERROR_CANCELLED = 9,
}

use nvPTXCompileResult::*;

/// A PTX module, and what came of it.
pub struct nvPTXCompiler {
    session: Session,
}

/// A compiler, until it is destroyed.
pub type nvPTXCompilerHandle = *mut nvPTXCompiler;

/// Does `work` with the session of a handle.
///
/// # Safety
///
/// If it is not null, the handle is one that was created and not destroyed.
unsafe fn with_session(
    compiler: nvPTXCompilerHandle,
    work: impl FnOnce(&Session) -> nvPTXCompileResult,
) -> nvPTXCompileResult {
    // SAFETY: the caller's promise; only shared references to the handle are made.
    let compiler = unsafe { compiler.as_ref() };
    let Some(compiler) = compiler else {
        return NVPTXCOMPILE_ERROR_INVALID_COMPILER_HANDLE;
    };
    caught(NVPTXCOMPILE_ERROR_INTERNAL, || work(&compiler.session))
}

fn success_if(written: bool) -> nvPTXCompileResult {
    if written {
        NVPTXCOMPILE_SUCCESS
    } else {
        NVPTXCOMPILE_ERROR_INVALID_INPUT
    }
}

/// The version of the API, which is that of the CUDA toolkit whose compiler this library stands for.
///
/// # Safety
///
/// Pointers that are not null can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetVersion(
    major: *mut c_uint,
    minor: *mut c_uint,
) -> nvPTXCompileResult {
    let (is_major, is_minor, _) = orias::versions::PTXAS;
    // SAFETY: the caller's promise.
    success_if(unsafe { write(major, is_major) & write(minor, is_minor) })
}

/// How many PTX versions are understood.
///
/// # Safety
///
/// If it is not null, the pointer can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetNumSupportedVersions(
    numVersions: *mut c_int,
) -> nvPTXCompileResult {
    caught(NVPTXCOMPILE_ERROR_INTERNAL, || {
        let count = orias::versions::ptx().len();
        // SAFETY: the caller's promise.
        success_if(unsafe { write(numVersions, count as c_int) })
    })
}

/// The PTX versions that are understood, major and minor, in ascending order; the array has as many rows as
/// nvPTXCompilerGetNumSupportedVersions says.
///
/// # Safety
///
/// If it is not null, the array can be written to and has that many rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetSupportedVersions(
    versions: *mut [c_int; 2],
) -> nvPTXCompileResult {
    caught(NVPTXCOMPILE_ERROR_INTERNAL, || {
        if versions.is_null() {
            return NVPTXCOMPILE_ERROR_INVALID_INPUT;
        }
        for (row, (major, minor)) in orias::versions::ptx().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { versions.add(row).write([major as c_int, minor as c_int]) };
        }
        NVPTXCOMPILE_SUCCESS
    })
}

/// Makes a compiler for a PTX module of `ptxCodeLen` bytes, which are copied.
///
/// # Safety
///
/// If they are not null, `compiler` can be written to and `ptxCode` has that many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerCreate(
    compiler: *mut nvPTXCompilerHandle,
    ptxCodeLen: usize,
    ptxCode: *const c_char,
) -> nvPTXCompileResult {
    caught(NVPTXCOMPILE_ERROR_INTERNAL, || {
        // SAFETY: the caller's promise.
        let text = unsafe { bytes(ptxCode, ptxCodeLen) };
        let (false, false, Some(text)) = (compiler.is_null(), ptxCode.is_null(), text) else {
            return NVPTXCOMPILE_ERROR_INVALID_INPUT;
        };
        let session = Session::default();
        session.add_module(None, text);
        let made = Box::into_raw(Box::new(nvPTXCompiler { session }));
        // SAFETY: it is not null, and the caller's promise.
        unsafe { compiler.write(made) };
        NVPTXCOMPILE_SUCCESS
    })
}

/// Frees a compiler and everything behind it, and makes the handle null.
///
/// # Safety
///
/// If they are not null, `compiler` can be read and written, and what it points to was created and not destroyed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerDestroy(
    compiler: *mut nvPTXCompilerHandle,
) -> nvPTXCompileResult {
    caught(NVPTXCOMPILE_ERROR_INTERNAL, || {
        // SAFETY: the caller's promise.
        let place = unsafe { compiler.as_mut() }.filter(|handle| !handle.is_null());
        let Some(place) = place else {
            return NVPTXCOMPILE_ERROR_INVALID_COMPILER_HANDLE;
        };
        let handle = std::mem::replace(place, std::ptr::null_mut());
        // SAFETY: it came from a box, and the caller's promise that it was not destroyed yet.
        drop(unsafe { Box::from_raw(handle) });
        NVPTXCOMPILE_SUCCESS
    })
}

/// Compiles the module with these options, each an argument of ptxas's command line; --gpu-name (-arch) must be one.
///
/// # Safety
///
/// If they are not null, `compiler` is a handle, and `compileOptions` has as many strings as said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerCompile(
    compiler: nvPTXCompilerHandle,
    numCompileOptions: c_int,
    compileOptions: *const *const c_char,
) -> nvPTXCompileResult {
    let compile = |session: &Session| {
        let Ok(count) = usize::try_from(numCompileOptions) else {
            return NVPTXCOMPILE_ERROR_INVALID_INPUT;
        };
        if count > 0 && compileOptions.is_null() {
            return NVPTXCOMPILE_ERROR_INVALID_INPUT;
        }
        // SAFETY: the array is there, and the caller's promise.
        let option = |at| unsafe { string(*compileOptions.add(at)) };
        let options: Option<Vec<Vec<u8>>> =
            (0..count).map(|at| Some(option(at)?.to_vec())).collect();
        let Some(options) = options else {
            return NVPTXCOMPILE_ERROR_INVALID_INPUT;
        };
        session.set_options(options);
        match session.compile() {
            Verdict::Compiled => NVPTXCOMPILE_SUCCESS,
            Verdict::Refused | Verdict::Unsupported => NVPTXCOMPILE_ERROR_COMPILATION_FAILURE,
            Verdict::UnsupportedVersion => NVPTXCOMPILE_ERROR_UNSUPPORTED_PTX_VERSION,
            Verdict::Cancelled => NVPTXCOMPILE_ERROR_CANCELLED,
            Verdict::OutOfMemory => NVPTXCOMPILE_ERROR_OUT_OF_MEMORY,
            Verdict::Internal => NVPTXCOMPILE_ERROR_INTERNAL,
        }
    };
    // SAFETY: the caller's promise.
    unsafe { with_session(compiler, compile) }
}

/// Sets a function that is called between phases with the payload and null: 1 to cancel, 0 to go on. It may be called by
/// any thread and must not call this library. Null for none.
///
/// # Safety
///
/// If it is not null, `compiler` is a handle; the callback keeps the above for as long as it is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerSetFlowCallback(
    compiler: nvPTXCompilerHandle,
    callback: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>,
    payload: *mut c_void,
) -> nvPTXCompileResult {
    let payload = Payload(payload);
    let watch = callback.map(|callback| -> Watch {
        // SAFETY: the caller's promise.
        Arc::new(move || unsafe { callback(payload.pointer(), std::ptr::null_mut()) } == 1)
    });
    let set = |session: &Session| {
        session.set_watch(watch);
        NVPTXCOMPILE_SUCCESS
    };
    // SAFETY: the caller's promise.
    unsafe { with_session(compiler, set) }
}

/// What came of a compilation with success.
fn compiled(session: &Session) -> Result<Arc<Outcome>, nvPTXCompileResult> {
    let outcome = session.outcome();
    outcome
        .filter(|outcome| outcome.verdict == Verdict::Compiled)
        .ok_or(NVPTXCOMPILE_ERROR_COMPILER_INVOCATION_INCOMPLETE)
}

/// The size of the compiled program in bytes.
///
/// # Safety
///
/// If they are not null, `compiler` is a handle and `binaryImageSize` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetCompiledProgramSize(
    compiler: nvPTXCompilerHandle,
    binaryImageSize: *mut usize,
) -> nvPTXCompileResult {
    let get = |session: &Session| match compiled(session) {
        // SAFETY: the caller's promise.
        Ok(outcome) => success_if(unsafe { write(binaryImageSize, outcome.cubin.len()) }),
        Err(result) => result,
    };
    // SAFETY: the caller's promise.
    unsafe { with_session(compiler, get) }
}

/// Copies the compiled program to a buffer of its size.
///
/// # Safety
///
/// If they are not null, `compiler` is a handle and `binaryImage` has as many bytes as the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetCompiledProgram(
    compiler: nvPTXCompilerHandle,
    binaryImage: *mut c_void,
) -> nvPTXCompileResult {
    let get = |session: &Session| match compiled(session) {
        Ok(_) if binaryImage.is_null() => NVPTXCOMPILE_ERROR_INVALID_INPUT,
        Ok(outcome) => {
            // SAFETY: the caller's promise.
            unsafe { copy(&outcome.cubin, binaryImage.cast()) };
            NVPTXCOMPILE_SUCCESS
        }
        Err(result) => result,
    };
    // SAFETY: the caller's promise.
    unsafe { with_session(compiler, get) }
}

/// Which of the two logs.
type Log = fn(&Outcome) -> &str;

/// A log as NVIDIA's library writes it: what continues a message on a new line starts like one, and nothing follows a version that is not
/// understood.
fn as_nvidia_writes(log: &str, verdict: Verdict) -> String {
    let mut lines: Vec<&str> = log.lines().collect();
    if verdict == Verdict::UnsupportedVersion && lines.len() > 1 {
        lines.pop();
    }
    let line = |line: &&str| match line.starts_with("ptxas ") || line.starts_with('{') {
        true => format!("{line}\n"),
        false => format!("ptxas         . {line}\n"),
    };
    lines.iter().map(line).collect()
}

/// The text of a log; empty before a compilation.
fn text_of(session: &Session, log: Log) -> String {
    let outcome = session.outcome();
    outcome.map_or(String::new(), |outcome| {
        as_nvidia_writes(log(&outcome), outcome.verdict)
    })
}

/// Writes the size of a log, the zero at its end counted; an empty one has none.
///
/// # Safety
///
/// If they are not null, `compiler` is a handle and `size` can be written to.
unsafe fn log_size(
    compiler: nvPTXCompilerHandle,
    size: *mut usize,
    log: Log,
) -> nvPTXCompileResult {
    let get = |session: &Session| {
        let length = match text_of(session, log).len() {
            0 => 0,
            length => length + 1,
        };
        // SAFETY: the caller's promise.
        success_if(unsafe { write(size, length) })
    };
    // SAFETY: the caller's promise.
    unsafe { with_session(compiler, get) }
}

/// Copies a log, with a zero at its end.
///
/// # Safety
///
/// If they are not null, `compiler` is a handle and `buffer` has the log's size, and at least one byte.
unsafe fn copy_log(
    compiler: nvPTXCompilerHandle,
    buffer: *mut c_char,
    log: Log,
) -> nvPTXCompileResult {
    let get = |session: &Session| {
        if buffer.is_null() {
            return NVPTXCOMPILE_ERROR_INVALID_INPUT;
        }
        let text = text_of(session, log);
        // SAFETY: the caller's promise.
        unsafe {
            copy(text.as_bytes(), buffer.cast());
            buffer.add(text.len()).write(0);
        }
        NVPTXCOMPILE_SUCCESS
    };
    // SAFETY: the caller's promise.
    unsafe { with_session(compiler, get) }
}

/// The size of the errors of the last compilation in bytes, the zero at the end counted; 0 if there are none.
///
/// # Safety
///
/// If they are not null, `compiler` is a handle and `errorLogSize` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetErrorLogSize(
    compiler: nvPTXCompilerHandle,
    errorLogSize: *mut usize,
) -> nvPTXCompileResult {
    // SAFETY: the caller's promise.
    unsafe { log_size(compiler, errorLogSize, |outcome| &outcome.error_log) }
}

/// Copies the errors of the last compilation, and a zero at the end, which is all there is if there are none: the buffer has their size, and at least one byte.
///
/// # Safety
///
/// If they are not null, `compiler` is a handle and `errorLog` has that many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetErrorLog(
    compiler: nvPTXCompilerHandle,
    errorLog: *mut c_char,
) -> nvPTXCompileResult {
    // SAFETY: the caller's promise.
    unsafe { copy_log(compiler, errorLog, |outcome| &outcome.error_log) }
}

/// The size of warnings and of what "-v" reports in bytes, the zero at the end counted; 0 if there are none.
///
/// # Safety
///
/// If they are not null, `compiler` is a handle and `infoLogSize` can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetInfoLogSize(
    compiler: nvPTXCompilerHandle,
    infoLogSize: *mut usize,
) -> nvPTXCompileResult {
    // SAFETY: the caller's promise.
    unsafe { log_size(compiler, infoLogSize, |outcome| &outcome.info_log) }
}

/// Copies warnings and what "-v" reports, and a zero at the end, which is all there is if there are none: the buffer has their size, and at least one byte.
///
/// # Safety
///
/// If they are not null, `compiler` is a handle and `infoLog` has that many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvPTXCompilerGetInfoLog(
    compiler: nvPTXCompilerHandle,
    infoLog: *mut c_char,
) -> nvPTXCompileResult {
    // SAFETY: the caller's promise.
    unsafe { copy_log(compiler, infoLog, |outcome| &outcome.info_log) }
}
