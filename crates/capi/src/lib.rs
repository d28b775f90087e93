//! `liborias`: the compiler for programs that are not written in Rust, as a shared and as a static library.
//!
//! **For:** C and everything that calls C. `orias.h` is Orias's own API; `nvPTXCompiler.h` has the names, arguments and result codes of
//! NVIDIA's PTX Compiler API, so that a program written for that links with this library instead. [The book](../../docs/c-library.md)
//! shows how.
//!
//! **May know:** the front door, `orias`.
//!
//! **Must never know:** any other room, a file, or the other handles: all that a call needs is behind its handle.
//!
//! A handle is a [`Session`](session::Session): what to compile, and what came of it. Sessions share nothing, so any number of threads may
//! compile at once; one session may be used by several threads, too, as its calls take a lock for as long as they copy. A compilation itself
//! holds no lock: it asks between phases whether it was cancelled or has used more memory than it may. No panic leaves the library: what was
//! caught is an internal error with its text in the log.
//!
//! The headers are made from `ffi/orias.rs` and `ffi/nvptx.rs` by cbindgen; a test compares (`BLESS=1 cargo test -p orias-capi --test
//! headers` writes them).
//!
//! # Why there is `unsafe` here
//!
//! Two modules lift the workspace's `unsafe_code = "deny"`. [`ffi`] reads and writes through pointers that C hands over; it is nothing but
//! that and calls of [`session`]. [`memory`] counts what is allocated, and the trait of an allocator is unsafe.

#[allow(
    unsafe_code,
    reason = "C hands over raw pointers, and this is where they are read and written"
)]
pub mod ffi;
#[allow(
    unsafe_code,
    reason = "the trait of an allocator is unsafe; all it adds is to count"
)]
pub mod memory;
pub mod session;

/// The library has its own use of the system's allocator, so that it knows how much a compilation takes.
#[global_allocator]
static COUNTED: memory::Counted = memory::Counted;
