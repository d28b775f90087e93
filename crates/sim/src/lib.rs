//! Executes finished SASS on the CPU under the chip's timing rules.
//!
//! **For:** running every end-to-end test without a GPU; a register read too early yields the old value, as on the chip.
//!
//! **May know:** `sass`, `machine`, `cubin` and `eval`.
//!
//! **Must never know:** `ori`, `codegen` or `mercury`: it sees bytes, not intentions.
