//! What the driver and the code it loads agree on: fixed registers and places in constant bank 0. Seen in what ptxas 13.0.88
//! writes for sm_90.

/// The general register that holds the stack pointer.
pub const STACK_POINTER: u8 = 1;

/// Where constant bank 0 holds the stack pointer a kernel starts with.
pub const INITIAL_STACK_POINTER: i32 = 0x28;

/// What the size of a stack frame is a multiple of, in bytes: accesses of 128 bits need it.
pub const STACK_ALIGNMENT: u32 = 16;
