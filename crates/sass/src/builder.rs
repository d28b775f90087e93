//! Making an instruction of its parts, by the names that the tables give.

use crate::control::Control;
use crate::fit::{check_control, default_operand};
use crate::instruction::{EncodeError, Guard, Instruction};
use crate::modifier::{ModifierName, ValueName};
use crate::op::{Mods, Op};
use crate::operand::{Operand, Operands};
use crate::register::Register;
use crate::target::Target;

/// Collects the parts of an instruction; [`Builder::finish`] checks them.
#[derive(Clone, Debug)]
pub struct Builder {
    op: Op,
    guard: Guard,
    mods: Mods,
    operands: Operands,
    control: Control,
    error: Option<EncodeError>,
}

impl Builder {
    /// An instruction without operands yet, its modifiers zero and its guard always true.
    pub(crate) fn new(op: Op) -> Self {
        Builder {
            op,
            guard: Guard::always(op.row().guard),
            mods: Mods::ZERO,
            operands: Operands::new(),
            control: Control::default(),
            error: None,
        }
    }

    /// Sets the guard.
    #[must_use]
    pub fn guard(mut self, predicate: Register, negated: bool) -> Self {
        self.guard = Guard { predicate, negated };
        self
    }

    /// Adds the operand of the next slot.
    #[must_use]
    pub fn operand(mut self, operand: impl Into<Operand>) -> Self {
        self.operands.push(operand.into());
        self
    }

    /// Adds operands of the next slots.
    #[must_use]
    pub fn operands(mut self, operands: impl IntoIterator<Item = Operand>) -> Self {
        self.operands.extend(operands);
        self
    }

    /// Sets a modifier by the names the table gives.
    #[must_use]
    pub fn modifier(mut self, name: ModifierName, value: ValueName) -> Self {
        match self.op.row().with_value(name, value, self.mods) {
            Some(mods) => self.mods = mods,
            None => {
                self.error.get_or_insert(EncodeError::ModifierName {
                    op: self.op,
                    name: format!("{name}={value}"),
                });
            }
        }
        self
    }

    /// Sets the control field.
    #[must_use]
    pub fn control(mut self, control: Control) -> Self {
        self.control = control;
        self
    }

    /// Checks everything. Slots after the last operand given take their defaults where they have one.
    pub fn finish(self, target: Target) -> Result<Instruction, EncodeError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut operands = self.operands;
        for slot in self.op.row().slots.iter().skip(operands.len()) {
            match slot.default {
                Some(default) => operands.push(default_operand(default)),
                None => break,
            }
        }
        let mut instruction = Instruction::new(self.op, self.guard, self.mods, operands, target)?;
        instruction.control = self.control;
        check_control(&instruction)?;
        Ok(instruction)
    }
}
