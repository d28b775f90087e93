//! The registers of all files in a row: what tables by register are indexed with.
//!
//! As many of each file as an instruction can name, constant registers included; how many of them a chip has is another question.

use orias_sass::RegisterClass;

/// General registers, which come first.
pub(crate) const GENERAL: usize = 256;

const PREDICATES: usize = GENERAL;
const UNIFORM: usize = PREDICATES + 8;
const UNIFORM_PREDICATES: usize = UNIFORM + 64;
const CONVERGENCE: usize = UNIFORM_PREDICATES + 8;

/// How many there are.
pub(crate) const PLACES: usize = CONVERGENCE + 16;

/// The place of a register.
#[inline]
pub(crate) const fn place(class: RegisterClass, index: u8) -> u16 {
    let base = match class {
        RegisterClass::R => 0,
        RegisterClass::P => PREDICATES,
        RegisterClass::UR => UNIFORM,
        RegisterClass::UP => UNIFORM_PREDICATES,
        RegisterClass::B => CONVERGENCE,
    };
    base as u16 + index as u16
}
