//! Executes PTX directly from its definition: slow, obvious, the judge of what a program means.
//!
//! **For:** answering what a kernel computes without compiling it.
//!
//! **May know:** `ptx` for the program and `eval` for the arithmetic.
//!
//! **Must never know:** anything of the compiler or of the machine: it would inherit their mistakes.
