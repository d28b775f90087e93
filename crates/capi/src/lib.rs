//! `liborias`: the compiler for programs that are not written in Rust, as a shared and as a static library.
//!
//! **For:** C and everything that calls C. `orias.h` is Orias's own API; `nvPTXCompiler.h` has the names, arguments and result codes of
//! NVIDIA's PTX Compiler API, so that a program written for that links with this library instead. [The book](../../docs/c-library.md)
//! shows how.
//!
//! **May know:** the front door, `orias`, and the sessions it shares with other languages, `session`.
//!
//! **Must never know:** any other room, a file, or the other handles: all that a call needs is behind its handle.
//!
//! A handle is an [`orias_session::Session`]: what to compile, and what came of it; cancelling, limits and what becomes of a panic are its
//! business.
//!
//! The headers are made from `ffi/orias.rs` and `ffi/nvptx.rs` by cbindgen; a test compares (`BLESS=1 cargo test -p orias-capi --test
//! headers` writes them).
//!
//! # Why there is `unsafe` here
//!
//! [`ffi`] lifts the workspace's `unsafe_code = "deny"`: it reads and writes through pointers that C hands over; it is nothing but that and
//! calls of a session.

// No input may panic (CONTRIBUTING.md, Conventions).
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::panic,
        clippy::todo,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

#[allow(
    unsafe_code,
    reason = "C hands over raw pointers, and this is where they are read and written"
)]
pub mod ffi;

/// The library has its own use of the system's allocator, so that it knows how much a compilation takes.
#[global_allocator]
static COUNTED: orias_session::memory::Counted = orias_session::memory::Counted;
