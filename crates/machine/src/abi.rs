//! What the driver and the code it loads agree on: fixed registers and places in constant bank 0. Seen in what ptxas 13.0.88
//! writes for sm_90.

use orias_sass::RegisterClass;

/// The general register that holds the stack pointer.
pub const STACK_POINTER: u8 = 1;

/// Where constant bank 0 holds the stack pointer a kernel starts with.
pub const INITIAL_STACK_POINTER: i32 = 0x28;

/// What the size of a stack frame is a multiple of, in bytes: accesses of 128 bits need it.
pub const STACK_ALIGNMENT: u32 = 16;

/// The first general register of the arguments of a call, and of its results.
pub const FIRST_ARGUMENT: u8 = 4;

/// One past the last general register of the arguments.
pub const ARGUMENTS_END: u8 = 16;

/// The first of the two general registers that hold where a called function returns to.
pub const RETURN_ADDRESS: u8 = 20;

/// The first of two general registers that hold neither arguments nor what a call leaves alone: for the callee's address.
pub const CALLEE: u8 = 2;

/// The constant bank from which code reads the addresses of functions.
pub const ADDRESS_BANK: u8 = 4;

/// Whether a called function leaves a register as it was: of general registers R16 to R19 and R22 upwards, of uniform ones UR36
/// upwards, of convergence barriers B6 upwards, of predicates none.
#[must_use]
pub const fn is_preserved(class: RegisterClass, index: u8) -> bool {
    match class {
        RegisterClass::R => index == STACK_POINTER || matches!(index, 16..=19) || index >= 22,
        RegisterClass::UR => index >= 36,
        RegisterClass::B => index >= 6,
        RegisterClass::P | RegisterClass::UP => false,
    }
}
