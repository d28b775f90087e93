//! What the driver and the code it loads agree on, and functions with each other: fixed registers and places in constant bank 0. `abi.tbl`.

use orias_sass::RegisterClass;

/// A set of registers of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterSet([u64; 4]);

impl RegisterSet {
    const ALL: RegisterSet = RegisterSet([u64::MAX; 4]);

    /// Ranges of registers, each with its first and last.
    pub(crate) const fn of(ranges: &[(u8, u8)]) -> RegisterSet {
        let mut words = [0; 4];
        let mut range = 0;
        while range < ranges.len() {
            let (first, last) = ranges[range];
            let mut index = first as usize;
            while index <= last as usize {
                words[index / 64] |= 1 << (index % 64);
                index += 1;
            }
            range += 1;
        }
        RegisterSet(words)
    }

    const fn contains(self, index: u8) -> bool {
        self.0[index as usize / 64] >> (index % 64) & 1 == 1
    }

    /// How many registers below `limit` it has.
    fn count_below(self, limit: u8) -> u32 {
        let words = self.0.iter().enumerate().map(|(word, bits)| {
            let here = u32::from(limit).saturating_sub(64 * word as u32);
            let below = 1_u64.checked_shl(here).map_or(u64::MAX, |end| end - 1);
            (bits & below).count_ones()
        });
        words.sum()
    }
}

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
    preserved: [RegisterSet; 5],
}

impl Convention {
    /// Whether a call leaves a register as it was.
    #[must_use]
    pub fn is_preserved(&self, class: RegisterClass, index: u8) -> bool {
        self.preserved(class).contains(index)
    }

    /// How many of the first `limit` registers a call leaves as they were.
    #[must_use]
    pub fn preserved_below(&self, class: RegisterClass, limit: u8) -> u32 {
        self.preserved(class).count_below(limit)
    }

    /// How long a run of registers among the first `limit` can be at most that begins at a multiple of `align`, all of which a call leaves as they were.
    #[must_use]
    pub fn longest_preserved(&self, class: RegisterClass, limit: u8, align: u8) -> u8 {
        let set = self.preserved(class);
        let (mut longest, mut run) = (0, 0);
        for index in 0..limit {
            run = match set.contains(index) {
                true if run > 0 || index.is_multiple_of(align) => run + 1,
                _ => 0,
            };
            longest = longest.max(run);
        }
        longest
    }

    fn preserved(&self, class: RegisterClass) -> RegisterSet {
        match class {
            RegisterClass::R => self.preserved[0],
            RegisterClass::P => self.preserved[1],
            RegisterClass::UR => self.preserved[2],
            RegisterClass::UP => self.preserved[3],
            RegisterClass::B => self.preserved[4],
        }
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
    pub(crate) slow_path_single_preserved: RegisterSet,
    pub(crate) slow_path_double_preserved: RegisterSet,
    pub(crate) preserved_general: RegisterSet,
    pub(crate) saved_general: RegisterSet,
    pub(crate) preserved_predicates: RegisterSet,
    pub(crate) preserved_uniform: RegisterSet,
    pub(crate) preserved_uniform_predicates: RegisterSet,
    pub(crate) preserved_convergence: RegisterSet,
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
                RegisterSet::ALL,
                RegisterSet::ALL,
                RegisterSet::ALL,
                RegisterSet::ALL,
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
            RegisterClass::R => self.saved_general.contains(index),
            _ => self.is_preserved(class, index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_registers_of_its_ranges() {
        let set = RegisterSet::of(&[(1, 1), (60, 66), (252, 255)]);
        let has: Vec<u8> = (0..=u8::MAX).filter(|&index| set.contains(index)).collect();
        assert_eq!(has, [1, 60, 61, 62, 63, 64, 65, 66, 252, 253, 254, 255]);
        for limit in 0..=u8::MAX {
            let below = has.iter().filter(|&&index| index < limit).count();
            assert_eq!(set.count_below(limit), below as u32, "{limit}");
        }
    }
}
