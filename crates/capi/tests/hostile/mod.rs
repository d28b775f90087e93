//! What must hold for any bytes that come in through the C API: `cargo test` tries some hundred inputs, `fuzz/` as many as it is let.
//!
//! An input is options, a line each, an empty line, and a module. The first byte says what else is done: a memory limit, a callback that
//! cancels, the size counted with a zero or not.

use orias_capi::ffi::nvptx::*;
use orias_capi::ffi::orias::*;
use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

/// Panics when a promise is broken: a call ends, with a cubin or with a reason, and never by a bug that was caught. Says whether there was
/// a cubin.
pub fn check(input: &[u8]) -> bool {
    let (&first, rest) = input.split_first().unwrap_or((&0, &[]));
    let end = rest.windows(2).position(|pair| pair == b"\n\n");
    let (options, module) = end.map_or((rest, &[][..]), |at| (&rest[..at], &rest[at + 2..]));
    let options: Vec<CString> = options
        .split(|&byte| byte == b'\n')
        .filter_map(|line| CString::new(line).ok())
        .collect();
    nvidias(first, &options, module);
    own(first, &options, module)
}

unsafe extern "C" fn counts_down(payload: *mut c_void) -> c_int {
    // SAFETY: the payload is the cell it was set with, and one thread compiles.
    let left = unsafe { &*payload.cast::<Cell<u32>>() };
    left.set(left.get().saturating_sub(1));
    c_int::from(left.get() == 0)
}

unsafe extern "C" fn counts_down_too(payload: *mut c_void, _: *mut c_void) -> c_int {
    // SAFETY: as above.
    unsafe { counts_down(payload) }
}

fn own(first: u8, options: &[CString], module: &[u8]) -> bool {
    let left = Cell::new(u32::from(first));
    let mut compiler = null_mut();
    // SAFETY: every pointer is that of a value of the type, which outlives the call, or null.
    let compiled = unsafe {
        assert_eq!(
            orias_compiler_create(&raw mut compiler),
            orias_result::ORIAS_SUCCESS
        );
        orias_compiler_add_module(compiler, null(), module.as_ptr().cast(), module.len());
        for option in options {
            orias_compiler_add_option(compiler, option.as_ptr());
        }
        if first & 1 == 1 {
            orias_compiler_set_memory_limit(compiler, usize::from(first) << 12);
        }
        if first & 6 == 6 && !split(options) {
            orias_compiler_set_callback(compiler, Some(counts_down), left.as_ptr().cast());
        }
        let result = orias_compiler_compile(compiler);
        assert_ne!(result, orias_result::ORIAS_ERROR_INTERNAL);
        let mut size = 0;
        let got = orias_compiler_get_cubin(compiler, null_mut(), 0, &raw mut size);
        let compiled = result == orias_result::ORIAS_SUCCESS;
        assert_eq!(got == orias_result::ORIAS_SUCCESS, compiled);
        let mut log = vec![1_u8; 64];
        let place = log.as_mut_ptr().cast();
        let got = orias_compiler_get_error_log(compiler, place, log.len(), &raw mut size);
        assert_eq!(
            size > 1,
            !compiled,
            "an error has a reason, and nothing else"
        );
        let fits = size <= log.len();
        assert_eq!(got == orias_result::ORIAS_SUCCESS, fits);
        assert_eq!(log[0] == 1, !fits, "nothing is written that does not fit");
        orias_compiler_destroy(&raw mut compiler);
        compiled
    };
    assert!(compiler.is_null());
    compiled
}

fn nvidias(first: u8, options: &[CString], module: &[u8]) {
    let left = Cell::new(u32::from(first));
    let mut text = module.to_vec();
    text.push(0);
    let size = text.len() - usize::from(first & 8 == 0);
    let options_of_c: Vec<*const c_char> = options.iter().map(|it| it.as_ptr()).collect();
    let mut compiler = null_mut();
    // SAFETY: as above.
    unsafe {
        let made = nvPTXCompilerCreate(&raw mut compiler, size, text.as_ptr().cast());
        assert_eq!(made, nvPTXCompileResult::NVPTXCOMPILE_SUCCESS);
        if first & 6 == 6 && !split(options) {
            nvPTXCompilerSetFlowCallback(compiler, Some(counts_down_too), left.as_ptr().cast());
        }
        let count = c_int::try_from(options_of_c.len()).unwrap_or(-1);
        let result = nvPTXCompilerCompile(compiler, count, options_of_c.as_ptr());
        assert_ne!(result, nvPTXCompileResult::NVPTXCOMPILE_ERROR_INTERNAL);
        let compiled = result == nvPTXCompileResult::NVPTXCOMPILE_SUCCESS;
        let mut size = 0;
        nvPTXCompilerGetErrorLogSize(compiler, &raw mut size);
        assert_eq!(size > 0, !compiled);
        let mut log = vec![1_u8; size.max(1)];
        nvPTXCompilerGetErrorLog(compiler, log.as_mut_ptr().cast());
        assert_eq!(log.last(), Some(&0));
        if compiled {
            nvPTXCompilerGetCompiledProgramSize(compiler, &raw mut size);
            let mut program = vec![0_u8; size];
            nvPTXCompilerGetCompiledProgram(compiler, program.as_mut_ptr().cast());
            assert!(program.is_empty() || program.starts_with(b"\x7fELF"));
        }
        nvPTXCompilerDestroy(&raw mut compiler);
    }
    assert!(compiler.is_null());
}

/// Whether several threads may compile: then the callback would be called by several.
fn split(options: &[CString]) -> bool {
    options
        .iter()
        .any(|it| it.to_string_lossy().contains("split"))
}
