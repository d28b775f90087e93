//! What the driver and the code it loads agree on, and functions with each other: fixed registers and places in constant bank 0. `abi.tbl`.

use orias_sass::RegisterClass;

/// Registers, first and last.
type Ranges = &'static [(u8, u8)];

/// The conventions of a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abi {
    /// The general register that holds the stack pointer.
    pub stack_pointer: u8,
    /// Where constant bank 0 holds the stack pointer a kernel starts with.
    pub initial_stack_pointer: i32,
    /// What the size of a stack frame is a multiple of, in bytes.
    pub stack_alignment: u32,
    /// The alignment of the stack pointer that every caller promises, in bytes.
    pub called_stack_alignment: u32,
    /// The first general register of the arguments of a call, and of its results.
    pub first_argument: u8,
    /// One past the last general register of the arguments.
    pub arguments_end: u8,
    /// The first of the two general registers that hold where a called function returns to.
    pub return_address: u8,
    /// The first of two general registers that hold neither arguments nor what a call leaves alone: for the callee's address.
    pub callee: u8,
    /// The constant bank in which a kernel's code finds where functions lie, by what programs take for their addresses.
    pub pointer_bank: u8,
    /// The constant bank from which code reads the addresses of functions of the driver.
    pub address_bank: u8,
    /// The first general register that matrix products of a warp group work on. Code that a tool puts into a kernel calls functions, which may change
    /// those below while products are under way.
    pub first_product: u8,
    /// The version of Mercury that cubins state, major and minor.
    pub mercury_version: u16,
    /// The work-arounds that cubins say all code carries.
    pub work_arounds: u32,
    pub(crate) preserved_general: Ranges,
    pub(crate) saved_general: Ranges,
    pub(crate) preserved_predicates: Ranges,
    pub(crate) preserved_uniform: Ranges,
    pub(crate) preserved_uniform_predicates: Ranges,
    pub(crate) preserved_convergence: Ranges,
}

impl Abi {
    /// Whether a called function leaves a register as it was.
    #[must_use]
    pub fn is_preserved(&self, class: RegisterClass, index: u8) -> bool {
        let ranges = match class {
            RegisterClass::R => self.preserved_general,
            RegisterClass::P => self.preserved_predicates,
            RegisterClass::UR => self.preserved_uniform,
            RegisterClass::UP => self.preserved_uniform_predicates,
            RegisterClass::B => self.preserved_convergence,
        };
        contains(ranges, index)
    }

    /// Whether a function that is called saves a register before it changes it, and gives it back as it was. Callers do not count on all of them.
    #[must_use]
    pub fn is_saved(&self, class: RegisterClass, index: u8) -> bool {
        match class {
            RegisterClass::R => contains(self.saved_general, index),
            _ => self.is_preserved(class, index),
        }
    }
}

fn contains(ranges: Ranges, index: u8) -> bool {
    let mut ranges = ranges.iter();
    ranges.any(|(first, last)| (*first..=*last).contains(&index))
}
