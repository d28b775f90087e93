//! Writes of registers, and results of fixed latency that not every reader sees yet.

use crate::operand::Lanes;
use crate::schedule;
use crate::warp::Registers;
use orias_machine::Machine;
use orias_machine::timing::{ResultGroup, UseGroup};
use orias_sass::RegisterClass;

/// A value for a register.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Lanes(Box<Lanes>),
    /// A predicate's bits, or a uniform register.
    Word(u32),
}

/// A register write.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(super) class: RegisterClass,
    pub(super) index: u8,
    pub(super) mask: u32,
    /// The lanes of these that get something which comes from registers that were written.
    pub(super) known: u32,
    pub(super) value: Value,
}

/// The lanes in which a register is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub mask: u32,
    /// Those in which it comes from registers that were written themselves.
    pub known: u32,
}

impl Write {
    pub(super) fn apply(&self, registers: &mut Registers) {
        let index = usize::from(self.index);
        match (self.class, &self.value) {
            (RegisterClass::R, Value::Lanes(value)) => {
                let written = &mut registers.written[index];
                *written = *written & !self.mask | self.known;
                blend(&mut registers.r[index], self.mask, value);
            }
            (RegisterClass::P, Value::Word(bits)) => {
                let p = &mut registers.p[index];
                *p = *p & !self.mask | bits & self.mask;
            }
            (RegisterClass::UR, Value::Word(value)) => registers.ur[index] = *value,
            (RegisterClass::UP, Value::Word(bits)) => registers.up[index] = *bits,
            _ => {}
        }
    }
    /// Lays the write over a value of its register.
    pub fn over(&self, lanes: &mut Lanes) {
        if let Value::Lanes(value) = &self.value {
            blend(lanes, self.mask, value);
        }
    }

    /// Lays the write over the bits of its predicate or the value of its uniform register.
    pub fn over_word(&self, word: &mut u32) {
        if let Value::Word(bits) = &self.value {
            *word = *word & !self.mask | bits & self.mask;
        }
    }
}

/// A result of fixed latency that not every reader sees yet.
#[derive(Clone, Debug)]
pub(super) struct Landing {
    pub(super) write: Write,
    /// Index of the instruction.
    pub(super) producer: usize,
    pub(super) issued: u64,
    pub(super) group: ResultGroup,
    /// When every reader sees it.
    pub(super) lands: u64,
}

impl Landing {
    /// Whether a use sees it in a cycle. A use without a row in the tables cannot be judged and sees it at once.
    pub(super) fn is_seen(&self, machine: &Machine, used: Option<UseGroup>, cycle: u64) -> bool {
        used.is_none_or(|used| self.issued + schedule::latency(machine, self.group, used) <= cycle)
    }
}

/// `value` in the lanes of `mask`, what was there in the others.
#[inline]
pub(crate) fn blend(into: &mut Lanes, mask: u32, value: &Lanes) {
    if mask == u32::MAX {
        *into = *value;
    } else {
        for (lane, (to, from)) in into.iter_mut().zip(value).enumerate() {
            if mask >> lane & 1 == 1 {
                *to = *from;
            }
        }
    }
}
