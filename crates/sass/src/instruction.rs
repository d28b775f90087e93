//! A machine instruction: an operation with its guard, operands, modifiers and control field.

use crate::builder::Builder;
use crate::control::{Control, ControlError};
use crate::fit::{check_guard, find_form, fits, modifiers_agree, operands_fit};
use crate::modifier::{ModifierName, ValueName};
use crate::op::{Mods, Op};
use crate::operand::{Operand, Operands};
use crate::register::Register;
use crate::table::{Form, GuardRule, PlaceKind, SlotName};
use crate::target::Target;
use std::hash::{Hash, Hasher};

/// The predicate that decides whether an instruction runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Guard {
    /// A predicate, or a uniform predicate for operations of the uniform datapath.
    pub predicate: Register,
    /// Run when it is false.
    pub negated: bool,
}

impl Guard {
    /// Always runs (`@PT`).
    pub const ALWAYS: Guard = Guard {
        predicate: Register::PT,
        negated: false,
    };
    /// Always runs, for operations guarded by uniform predicates (`@UPT`).
    pub const ALWAYS_UNIFORM: Guard = Guard {
        predicate: Register::UPT,
        negated: false,
    };

    /// The guard that is always true for operations with this rule.
    #[must_use]
    pub const fn always(rule: GuardRule) -> Self {
        match rule {
            GuardRule::Uniform => Guard::ALWAYS_UNIFORM,
            GuardRule::Predicate | GuardRule::None => Guard::ALWAYS,
        }
    }

    /// Whether it is always true.
    #[must_use]
    pub fn is_always(self) -> bool {
        self.predicate.is_constant() && !self.negated
    }
}

/// A machine instruction whose operands and modifiers fit one form of its operation.
///
/// Operands and modifiers are checked when a value is made, so only its control field can keep it from being encoded. [`Instruction::new`] finds the form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instruction {
    pub(crate) op: Op,
    pub(crate) form: u8,
    pub(crate) guard: Guard,
    pub(crate) mods: Mods,
    pub(crate) operands: Operands,
    /// What the hardware's scheduler is told. It is checked when the instruction is encoded.
    pub control: Control,
}

/// Few large pieces: tables of instructions are asked for every instruction of a program.
impl Hash for Instruction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Instruction {
            op,
            form,
            guard,
            mods,
            operands,
            control,
        } = self;
        let bits = control.to_bits();
        state.write_u64(
            op.index() as u64
                | u64::from(*form) << 16
                | u64::from(guard.predicate.index) << 24
                | u64::from(guard.negated) << 32,
        );
        state.write_u64(mods.bits());
        state.write_u64(bits as u64 ^ (bits >> 64) as u64);
        for operand in operands {
            operand.hash(state);
        }
    }
}

/// Why operands, modifiers or a guard do not make an instruction.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EncodeError {
    /// The target does not have the operation.
    #[error("{target} does not have {op}")]
    Target {
        /// The operation.
        op: Op,
        /// The target.
        target: Target,
    },
    /// Too few or too many operands.
    #[error("{op} has {expected} operands, not {found}")]
    OperandCount {
        /// The operation.
        op: Op,
        /// How many its row has.
        expected: usize,
        /// How many there are.
        found: usize,
    },
    /// A modifier value that has no name.
    #[error("{value} is not a value of {op}'s modifier '{modifier}'")]
    ModifierValue {
        /// The operation.
        op: Op,
        /// The modifier.
        modifier: &'static str,
        /// The encoding.
        value: u16,
    },
    /// A modifier or value name the operation does not have.
    #[error("{op} has no modifier '{name}'")]
    ModifierName {
        /// The operation.
        op: Op,
        /// `modifier` or `modifier=value`.
        name: String,
    },
    /// The guard is of the wrong class, or the operation takes none.
    #[error("{op} cannot be guarded by {guard}")]
    Guard {
        /// The operation.
        op: Op,
        /// The predicate.
        guard: Register,
    },
    /// No form takes these operands; the slot is the first that the best form refuses.
    #[error("{op} does not take operand '{slot}': {reason}")]
    Operand {
        /// The operation.
        op: Op,
        /// The slot.
        slot: &'static str,
        /// What is wrong.
        reason: OperandMismatch,
    },
    /// A control field that does not exist.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A reuse flag that belongs to no register operand of the form.
    #[error("{op} in this form has no operand for reuse flag {flag}")]
    Reuse {
        /// The operation.
        op: Op,
        /// The flag's index.
        flag: u8,
    },
}

/// Why an operand does not fit a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OperandMismatch {
    /// Another kind of operand or register class.
    #[error("no form with this kind of operand")]
    Kind,
    /// A register the class does not have.
    #[error("no such register")]
    Register,
    /// RZ, PT, URZ or UPT where a real register is needed.
    #[error("a real register is needed here")]
    Constant,
    /// A number that does not fit its field.
    #[error("{0:#x} does not fit in {1} bits")]
    Range(i64, u8),
    /// A distance that is not a multiple of the field's unit.
    #[error("{0:#x} is not a multiple of {1}")]
    Alignment(i64, u8),
    /// The forms for this operand do not exist with these modifiers.
    #[error("no form with these modifiers takes it")]
    Form,
    /// A descriptor that must be the register after another operand's uniform register.
    #[error("the descriptor must be the register after the other address's uniform register")]
    Tied,
    /// Negation, absolute value, complement or select that the place has no bit for.
    #[error("this form cannot apply that source modifier")]
    Modifier,
}

impl Instruction {
    /// Checks everything and finds the form. The control field starts as [`Control::default`].
    pub fn new(
        op: Op,
        guard: Guard,
        mods: Mods,
        operands: impl IntoIterator<Item = Operand>,
        target: Target,
    ) -> Result<Self, EncodeError> {
        Instruction::with_operands(op, guard, mods, operands.into_iter().collect(), target)
    }

    /// The same for operands that lie together already.
    #[inline]
    pub fn with_operands(
        op: Op,
        guard: Guard,
        mods: Mods,
        operands: Operands,
        target: Target,
    ) -> Result<Self, EncodeError> {
        let variant = Variant::find(op, guard, mods, &operands, target)?;
        Ok(Instruction {
            op,
            form: variant.form,
            guard,
            mods,
            operands,
            control: Control::default(),
        })
    }

    /// Starts an instruction whose operands and modifiers are given by name or in order.
    #[must_use]
    pub fn build(op: Op) -> Builder {
        Builder::new(op)
    }

    /// The operation.
    #[inline]
    #[must_use]
    pub const fn op(&self) -> Op {
        self.op
    }

    /// The guard.
    #[inline]
    #[must_use]
    pub const fn guard(&self) -> Guard {
        self.guard
    }

    /// The modifiers.
    #[inline]
    #[must_use]
    pub const fn mods(&self) -> Mods {
        self.mods
    }

    /// The operands, one per slot of the row.
    #[inline]
    #[must_use]
    pub fn operands(&self) -> &[Operand] {
        &self.operands
    }

    /// The operand in the slot called `name`.
    #[must_use]
    pub fn operand(&self, name: SlotName) -> Option<&Operand> {
        self.operands.get(self.op.row().slot_index(name)?)
    }

    /// The form the operands chose.
    #[inline]
    #[must_use]
    pub fn form(&self) -> &'static Form {
        &self.op.row().forms[usize::from(self.form)]
    }

    /// The form with the modifiers.
    #[inline]
    #[must_use]
    pub const fn variant(&self) -> Variant {
        Variant {
            op: self.op,
            form: self.form,
            mods: self.mods,
        }
    }

    /// The form's index in the row.
    #[must_use]
    pub const fn form_index(&self) -> u8 {
        self.form
    }

    /// The name of the value that the modifier called `name` has.
    #[must_use]
    pub fn modifier(&self, name: ModifierName) -> Option<ValueName> {
        self.op.row().value_of(name, self.mods)
    }

    /// Whether the operand in `slot` carries a reuse flag.
    #[must_use]
    pub fn reuses(&self, slot: usize) -> bool {
        let bit = self.form().places[slot].reuse;
        bit.exists() && self.control.reuse() >> (bit.0 - 122) & 1 == 1
    }

    /// Replaces the distance of the (only) branch target, as label resolution does.
    pub fn set_target(&mut self, distance: i64) -> Result<(), OperandMismatch> {
        let form = self.form();
        for (operand, place) in self.operands.iter_mut().zip(form.places) {
            if let Operand::Target(_) = operand {
                let moved = Operand::Target(distance);
                fits(&moved, place, &[])?;
                *operand = moved;
                return Ok(());
            }
        }
        Err(OperandMismatch::Kind)
    }

    /// The distance of the branch target, where there is one.
    #[must_use]
    pub fn target(&self) -> Option<i64> {
        self.operands.iter().find_map(|operand| match operand {
            Operand::Target(distance) => Some(*distance),
            _ => None,
        })
    }
}

/// A form of an operation under its modifiers: what tells how many registers each slot names, whichever these are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Variant {
    pub(crate) op: Op,
    pub(crate) form: u8,
    pub(crate) mods: Mods,
}

impl Variant {
    /// Checks guard, modifiers and operands as [`Instruction::new`] does, and finds the form.
    pub fn find(
        op: Op,
        guard: Guard,
        mods: Mods,
        operands: &[Operand],
        target: Target,
    ) -> Result<Variant, EncodeError> {
        let row = op.row();
        if operands.len() != row.slots.len() {
            return Err(EncodeError::OperandCount {
                op,
                expected: row.slots.len(),
                found: operands.len(),
            });
        }
        check_guard(op, guard)?;
        for modifier in row.modifiers {
            let value = mods.get(modifier);
            if modifier.value(value).is_none() {
                return Err(EncodeError::ModifierValue {
                    op,
                    modifier: modifier.name,
                    value,
                });
            }
        }
        let shapes = operands.iter().rev().fold(0, |shapes, operand| {
            shapes << 4 | u64::from(operand.shape())
        });
        let found = row.forms.iter().position(|form| {
            form.shapes == shapes
                && form.targets.contains(target)
                && modifiers_agree(mods, form)
                && operands_fit(row, form, operands).is_ok()
        });
        let form = match found {
            Some(index) => index as u8,
            None => find_form(op, mods, operands, target)?,
        };
        Ok(Variant { op, form, mods })
    }

    /// Whether the form takes `bits` as the immediate in `slot`.
    #[must_use]
    pub fn takes_immediate(self, slot: usize, bits: u64) -> bool {
        match self.form().places[slot].kind {
            PlaceKind::Immediate { field, format } => bits <= field.max() && format.exists(bits),
            _ => false,
        }
    }

    /// Whether no other form of the target has the same kinds of operands under the same modifiers.
    #[must_use]
    pub fn is_only_one(self, target: Target) -> bool {
        let shapes = self.form().shapes;
        let forms = self.op.row().forms.iter();
        let alike = forms.filter(|form| {
            form.shapes == shapes
                && form.targets.contains(target)
                && modifiers_agree(self.mods, form)
        });
        alike.count() == 1
    }

    /// The operation.
    #[inline]
    #[must_use]
    pub const fn op(self) -> Op {
        self.op
    }

    /// The modifiers.
    #[inline]
    #[must_use]
    pub const fn mods(self) -> Mods {
        self.mods
    }

    /// The form.
    #[inline]
    #[must_use]
    pub fn form(self) -> &'static Form {
        &self.op.row().forms[usize::from(self.form)]
    }
}
