//! What operations compute, as pure functions on values.
//!
//! **For:** one definition of every result, shared by constant folding, the emulator, the PTX interpreter and the hardware
//! tests, and pinned by results recorded on the chip.
//!
//! **May know:** numbers: integers, floating-point formats, roundings, bit patterns.
//!
//! **Must never know:** registers, instructions, memory, PTX or SASS text. It depends on no other room.

pub mod approximate;
pub mod bits;
pub mod combine;
pub mod float;
pub mod integer;
pub mod matrix;
pub mod mbarrier;
pub mod mufu;
pub mod number;
pub mod printf;
pub mod tensor;
pub mod texture;
pub mod warp;
