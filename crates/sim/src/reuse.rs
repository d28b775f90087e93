//! The operand reuse cache, with strict timing.
//!
//! An operand that is marked for reuse is kept, as a value, for later instructions that read the same register in the same
//! position; they get the value even if the register has changed since. Each position has an entry for each bank (even and odd
//! registers); an unmarked read frees the entries of its banks. How long the chip keeps entries is not known; here they live
//! until control goes elsewhere, which is the longest. (`verify` judges by the same rule.)

use crate::operand::Lanes;
use orias_sass::{Instruction, Operand, RegisterClass};

/// The first reuse bit of a word.
const FIRST_BIT: u8 = 122;

/// Registers that an instruction reads in a position that has a reuse flag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reused {
    pub position: u8,
    pub first: u8,
    pub count: u8,
    pub marked: bool,
}

/// The positions of an instruction.
pub(crate) fn positions(instruction: &Instruction) -> Vec<Reused> {
    let places = instruction.form().places;
    let operands = instruction.operands().iter().zip(places).enumerate();
    operands
        .filter_map(|(slot, (operand, place))| {
            let Operand::Register(operand) = operand else {
                return None;
            };
            let register = operand.register;
            let kept = place.reuse.exists()
                && register.class == RegisterClass::R
                && !register.is_constant();
            kept.then(|| {
                let position = place.reuse.0 - FIRST_BIT;
                Reused {
                    position,
                    first: register.index,
                    count: instruction.width(slot),
                    marked: instruction.control.reuse() >> position & 1 == 1,
                }
            })
        })
        .collect()
}

#[derive(Clone, Debug)]
struct Kept {
    position: u8,
    register: u8,
    value: Box<Lanes>,
}

/// What a warp keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReuseCache {
    kept: Vec<Kept>,
    /// What the instruction that runs gets from the cache.
    served: Vec<(u8, Box<Lanes>)>,
    /// The instruction that comes next and its lanes, if control goes nowhere else.
    next: (usize, u32),
}

impl ReuseCache {
    /// An instruction is issued: elsewhere than behind the last one there is nothing left.
    #[inline]
    pub fn arrive(&mut self, index: usize, lanes: u32) {
        if self.next != (index, lanes) {
            self.kept.clear();
        }
        self.next = (index + 1, lanes);
    }

    /// Takes what an instruction finds in its positions, and frees the entries that it reads over.
    #[inline]
    pub fn serve(&mut self, positions: &[Reused]) {
        self.served.clear();
        if self.kept.is_empty() {
            return;
        }
        for reused in positions {
            let read =
                |register: u8| (reused.first..reused.first + reused.count).contains(&register);
            for kept in &self.kept {
                if kept.position == reused.position && read(kept.register) {
                    self.served.push((kept.register, kept.value.clone()));
                }
            }
            self.kept.retain(|kept| {
                kept.position != reused.position
                    || reused.count == 1 && (kept.register ^ reused.first) & 1 == 1
            });
        }
    }

    /// What the instruction that runs gets for a register.
    #[inline]
    pub fn served(&self, register: u8) -> Option<&Lanes> {
        let found = self.served.iter().find(|(known, _)| *known == register);
        found.map(|(_, value)| &**value)
    }

    /// Everything that it gets, for when it reads later.
    pub fn take_served(&mut self) -> Vec<(u8, Box<Lanes>)> {
        std::mem::take(&mut self.served)
    }

    /// Keeps a marked operand.
    pub fn keep(&mut self, position: u8, register: u8, value: Lanes) {
        self.kept.push(Kept {
            position,
            register,
            value: Box::new(value),
        });
    }
}
