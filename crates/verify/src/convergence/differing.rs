//! Registers in which lanes that run together may have different values, and of those that hold flags which bits.
//!
//! ptxas keeps predicates as bits of a general register, put there and asked for by LOP3 with a number as mask, where there are not enough predicate registers: some
//! of them differ between lanes, others do not.

use super::registers::RegisterSet;
use super::state::{Literal, State};
use orias_sass::{Instruction, Op, Operand, Register, SourceModifiers, slot_names as slot};
use smallvec::SmallVec;

/// A set of registers, with the bits of some.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Differing {
    registers: RegisterSet,
    /// Of some of these the bits that may differ, by register; of the others all.
    partly: SmallVec<[(u16, u32); 2]>,
}

impl Differing {
    /// All registers of which each lane has its own.
    pub(super) fn of_lanes() -> Self {
        Self {
            registers: RegisterSet::of_lanes(),
            partly: SmallVec::new(),
        }
    }

    pub(super) const fn contains(&self, register: u16) -> bool {
        self.registers.contains(register)
    }

    /// Whether one of these registers differs.
    pub(super) fn intersects(&self, registers: &RegisterSet) -> bool {
        self.registers.intersects(registers)
    }

    /// The bits of a register that may differ.
    fn bits(&self, register: u16) -> u32 {
        if !self.contains(register) {
            return 0;
        }
        let known = self.partly.binary_search_by_key(&register, |(it, _)| *it);
        known.map_or(u32::MAX, |at| self.partly[at].1)
    }

    fn set_bits(&mut self, register: u16, bits: u32) {
        self.remove(register);
        if bits == 0 {
            return;
        }
        self.registers.insert(register);
        if bits != u32::MAX {
            let at = self.partly.partition_point(|(it, _)| *it < register);
            self.partly.insert(at, (register, bits));
        }
    }

    pub(super) fn insert(&mut self, register: u16) {
        self.set_bits(register, u32::MAX);
    }

    pub(super) fn remove(&mut self, register: u16) {
        self.registers.remove(register);
        self.partly.retain(|(it, _)| *it != register);
    }

    /// Adds registers with all their bits; says whether anything is new.
    pub(super) fn extend(&mut self, registers: &RegisterSet) -> bool {
        let before = self.partly.len();
        self.partly.retain(|(it, _)| !registers.contains(*it));
        let more_bits = before != self.partly.len();
        self.registers.extend(registers) || more_bits
    }

    /// Adds another set; says whether anything is new.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        let mut new = false;
        let mut whole = other.registers;
        for &(register, bits) in &other.partly {
            whole.remove(register);
            let mine = self.bits(register);
            if mine | bits != mine {
                self.set_bits(register, mine | bits);
                new = true;
            }
        }
        self.extend(&whole) || new
    }
}

/// What LOP3 does to the flags in a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Logic {
    And,
    Or,
    Xor,
}

/// An instruction that keeps or asks for flags: `LOP3.LUT P, R, R, number, RZ, table, !PT`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flags {
    logic: Logic,
    mask: u32,
    from: u16,
    /// Where they go, if to a register.
    pub to: Option<u16>,
}

impl Flags {
    pub(super) fn of(instruction: &Instruction) -> Option<Self> {
        if instruction.op() != Op::LOP3 {
            return None;
        }
        let register = |name| match instruction.operand(name) {
            Some(Operand::Register(source)) if source.modifiers == SourceModifiers::NONE => {
                Some(source.register)
            }
            _ => None,
        };
        let number = |name| match instruction.operand(name) {
            Some(Operand::Immediate(number)) => Some(*number as u32),
            _ => None,
        };
        let logic = match number(slot::LUT)? {
            0xc0 => Logic::And,
            0xfc => Logic::Or,
            0x3c => Logic::Xor,
            _ => return None,
        };
        let (from, last) = (register(slot::A)?, register(slot::C)?);
        let asked = instruction.operand(slot::Q).and_then(Operand::as_register);
        if from.is_constant() || !last.is_constant() || !asked.is_some_and(Register::is_constant) {
            return None;
        }
        Some(Self {
            logic,
            mask: number(slot::B)?,
            from: crate::facts::number(from),
            to: register(slot::D)
                .filter(|it| !it.is_constant())
                .map(crate::facts::number),
        })
    }

    /// The bits of the result that may differ, before what its register held under a guard.
    fn result(self, state: &State) -> u32 {
        let bits = state.divergent.bits(self.from);
        match self.logic {
            Logic::And => bits & self.mask,
            Logic::Or => bits & !self.mask,
            Logic::Xor => bits,
        }
    }

    /// Whether a predicate that tells if some bit of the result is set may differ.
    pub(super) fn predicate_differs(self, state: &State) -> bool {
        self.result(state) != 0
    }

    /// Takes notice of what is written to the register.
    pub(super) fn write(self, to: u16, guard: Option<Literal>, state: &mut State) {
        let result = self.result(state);
        let bits = match guard {
            None => result,
            Some(guard) if !state.divergent.contains(guard.predicate) => {
                result | state.divergent.bits(to)
            }
            // Some lanes change their flags, others do not.
            Some(_) if to == self.from => {
                let changed = match self.logic {
                    Logic::And => !self.mask,
                    Logic::Or | Logic::Xor => self.mask,
                };
                state.divergent.bits(to) | changed
            }
            Some(_) => u32::MAX,
        };
        state.divergent.set_bits(to, bits);
    }
}
