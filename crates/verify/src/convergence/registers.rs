//! Sets of registers, by the numbers of [`crate::facts::number`].

use crate::facts::REGISTERS;

const WORDS: usize = REGISTERS.div_ceil(64);

/// Registers of the general and the predicate file have numbers below this; what is in the others belongs to the warp.
const OF_LANES: u16 = 264;

/// A set of registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct RegisterSet([u64; WORDS]);

impl RegisterSet {
    /// All registers of which each lane has its own.
    pub(super) fn of_lanes() -> Self {
        let mut all = Self::default();
        (0..OF_LANES).for_each(|register| all.insert(register));
        all
    }

    /// Whether each lane has its own of this register.
    pub(super) const fn is_of_lanes(register: u16) -> bool {
        register < OF_LANES
    }

    pub(super) const fn contains(&self, register: u16) -> bool {
        self.0[register as usize / 64] >> (register % 64) & 1 == 1
    }

    pub(super) const fn insert(&mut self, register: u16) {
        self.0[register as usize / 64] |= 1 << (register % 64);
    }

    pub(super) const fn remove(&mut self, register: u16) {
        self.0[register as usize / 64] &= !(1 << (register % 64));
    }

    /// Adds another set; says whether anything is new.
    pub(super) fn extend(&mut self, other: &Self) -> bool {
        let mut new = 0;
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            new |= theirs & !*mine;
            *mine |= theirs;
        }
        new != 0
    }

    pub(super) fn intersects(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).any(|(a, b)| a & b != 0)
    }
}
