//! What the driver and the code it loads agree on, and functions with each other: fixed registers and places in constant bank 0. `abi.tbl`.

use orias_sass::RegisterClass;

/// Registers, first and last.
type Ranges = &'static [(u8, u8)];

/// A convention of calls: where things travel, and what a call leaves as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Convention {
    /// The first general register of the arguments, and of the results.
    pub first_argument: u8,
    /// One past the last general register of the arguments.
    pub arguments_end: u8,
    /// The first of the two general registers that hold where the call returns to.
    pub return_address: u8,
    /// The general register in which who is called keeps the predicates, to give them back as they were, if all are to survive.
    pub predicates: Option<u8>,
    /// Registers that survive a call, by class: general, predicates, uniform, uniform predicates, convergence.
    preserved: [Ranges; 5],
}

impl Convention {
    /// Whether a call leaves a register as it was.
    #[must_use]
    pub fn is_preserved(&self, class: RegisterClass, index: u8) -> bool {
        let ranges = match class {
            RegisterClass::R => self.preserved[0],
            RegisterClass::P => self.preserved[1],
            RegisterClass::UR => self.preserved[2],
            RegisterClass::UP => self.preserved[3],
            RegisterClass::B => self.preserved[4],
        };
        contains(ranges, index)
    }
}

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
    /// The same of slow paths, which are called by a convention of our own.
    pub(crate) slow_path_first_argument: u8,
    pub(crate) slow_path_arguments_end: u8,
    pub(crate) slow_path_return_address: u8,
    pub(crate) slow_path_predicates: u8,
    pub(crate) slow_path_single_preserved: Ranges,
    pub(crate) slow_path_double_preserved: Ranges,
    pub(crate) preserved_general: Ranges,
    pub(crate) saved_general: Ranges,
    pub(crate) preserved_predicates: Ranges,
    pub(crate) preserved_uniform: Ranges,
    pub(crate) preserved_uniform_predicates: Ranges,
    pub(crate) preserved_convergence: Ranges,
}

impl Abi {
    /// How functions are called that others may call, too.
    #[must_use]
    pub fn functions(&self) -> Convention {
        Convention {
            first_argument: self.first_argument,
            arguments_end: self.arguments_end,
            return_address: self.return_address,
            predicates: None,
            preserved: [
                self.preserved_general,
                self.preserved_predicates,
                self.preserved_uniform,
                self.preserved_uniform_predicates,
                self.preserved_convergence,
            ],
        }
    }

    /// How slow paths of single or of double precision are called, which nobody else ever calls.
    #[must_use]
    pub fn slow_paths(&self, double: bool) -> Convention {
        const ALL: Ranges = &[(0, u8::MAX)];
        Convention {
            first_argument: self.slow_path_first_argument,
            arguments_end: self.slow_path_arguments_end,
            return_address: self.slow_path_return_address,
            predicates: Some(self.slow_path_predicates),
            preserved: [
                match double {
                    true => self.slow_path_double_preserved,
                    false => self.slow_path_single_preserved,
                },
                ALL,
                ALL,
                ALL,
                ALL,
            ],
        }
    }

    /// Whether a called function leaves a register as it was.
    #[must_use]
    pub fn is_preserved(&self, class: RegisterClass, index: u8) -> bool {
        self.functions().is_preserved(class, index)
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
