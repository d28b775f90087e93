//! Word to instruction.
//!
//! The low 12 bits choose the rows that may match; a form matches when the bits it fixes have their values and every
//! modifier and select has a value with a name. Unused bits are fixed to zero, so an instruction decodes only if it
//! encodes back to the same word.

use crate::control::{Control, ControlError};
use crate::instruction::{Guard, Instruction};
use crate::op::{Mods, Op};
use crate::operand::{
    Address, BaseKind, Constant, ConstantBank, Operand, Operands, RegisterOperand, SourceModifiers,
};
use crate::register::{Register, RegisterClass};
use crate::table::{Form, GuardRule, Operation, Place, PlaceKind, Slot};
use crate::target::Target;
use std::fmt;

/// Why a word is not an instruction.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// No row has this opcode.
    #[error("no operation has opcode {0:#05x} (bits 0-11)")]
    Opcode(u16),
    /// The opcode is known, but not on this target.
    #[error("{target} does not have {op} (opcode {opcode:#05x})")]
    Target {
        /// An operation with the opcode.
        op: Op,
        /// The target.
        target: Target,
        /// The opcode.
        opcode: u16,
    },
    /// Bits that must have another value in the operation that fits best.
    #[error("not {op}: {bits} must be {expected:#x}")]
    Bits {
        /// The operation that fits best.
        op: Op,
        /// The bits that are wrong.
        bits: BitSet,
        /// What they must be, packed with the lowest first.
        expected: u128,
    },
    /// A modifier value the machine does not have.
    #[error("{op}: {value} is not a value of '{modifier}' ({bits})")]
    ModifierValue {
        /// The operation.
        op: Op,
        /// The modifier.
        modifier: &'static str,
        /// Its bits.
        bits: BitSet,
        /// The encoding found there.
        value: u16,
    },
    /// A select value the machine does not have.
    #[error("{op}: operand '{slot}' selects {value}, which does not exist ({bits})")]
    Select {
        /// The operation.
        op: Op,
        /// The slot.
        slot: &'static str,
        /// The bits of the select.
        bits: BitSet,
        /// The encoding found there.
        value: u8,
    },
    /// RZ, PT, URZ or UPT where the operation needs a real register.
    #[error("{op}: operand '{slot}' cannot be {register}")]
    ConstantRegister {
        /// The operation.
        op: Op,
        /// The slot.
        slot: &'static str,
        /// The register.
        register: Register,
    },
    /// An immediate the machine does not have.
    #[error("{op}: operand '{slot}' cannot be {value}")]
    ImmediateValue {
        /// The operation.
        op: Op,
        /// The slot.
        slot: &'static str,
        /// The encoding found there.
        value: u64,
    },
    /// A control field that does not exist.
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// A set of word bits, printed as `bits 77-80, 91`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BitSet(pub u128);

impl fmt::Display for BitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.count_ones() == 1 {
            "bit "
        } else {
            "bits "
        })?;
        let mut rest = self.0;
        let mut first = true;
        while rest != 0 {
            let start = rest.trailing_zeros();
            let run = (rest >> start).trailing_ones();
            if !first {
                f.write_str(", ")?;
            }
            first = false;
            if run == 1 {
                write!(f, "{start}")?;
            } else {
                write!(f, "{start}-{}", start + run - 1)?;
            }
            if start + run >= 128 {
                break;
            }
            rest = rest >> (start + run) << (start + run);
        }
        Ok(())
    }
}

impl fmt::Debug for BitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads a word. Whatever decodes encodes back to the same 128 bits.
pub fn decode(word: u128, target: Target) -> Result<Instruction, DecodeError> {
    let opcode = (word & 0xfff) as u16;
    let mut failure: Option<DecodeError> = None;
    for (op, index) in Op::candidates(opcode) {
        let row = op.row();
        let form = &row.forms[usize::from(index)];
        if (word ^ form.fixed_value) & form.fixed_mask != 0 || !form.targets.contains(target) {
            continue;
        }
        match decode_form(word, op, row, index, form) {
            Ok(instruction) => return Ok(instruction),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or_else(|| explain(word, opcode, target)))
}

/// Whether `word` decodes to `instruction`: the same as comparing what [`decode`] gives, without making it.
#[must_use]
pub fn reads_as(word: u128, instruction: &Instruction, target: Target) -> bool {
    for (op, index) in Op::candidates((word & 0xfff) as u16) {
        let row = op.row();
        let form = &row.forms[usize::from(index)];
        if (word ^ form.fixed_value) & form.fixed_mask != 0 || !form.targets.contains(target) {
            continue;
        }
        if op == instruction.op && index == instruction.form {
            return form_reads_as(word, row, form, instruction);
        }
        if decode_form(word, op, row, index, form).is_ok() {
            return false;
        }
    }
    false
}

/// Whether a word that has the fixed bits of an instruction's form is that instruction.
fn form_reads_as(
    word: u128,
    row: &'static Operation,
    form: &'static Form,
    instruction: &Instruction,
) -> bool {
    let op = instruction.op;
    // Every value of an instruction's modifiers has a name: it was looked for when the instruction was made.
    let mut mods = Mods::ZERO;
    for modifier in row.modifiers {
        mods = mods.with(modifier, modifier.field.get(word) as u16);
    }
    if mods != instruction.mods
        || guard_of(word, row) != instruction.guard
        || Control::from_bits(word) != Ok(instruction.control)
        || instruction.operands.len() != row.slots.len()
    {
        return false;
    }
    let places = row.slots.iter().zip(form.places);
    places
        .zip(&instruction.operands)
        .all(|((slot, place), operand)| {
            decode_operand(word, op, slot, place).is_ok_and(|read| read == *operand)
        })
}

fn decode_form(
    word: u128,
    op: Op,
    row: &'static Operation,
    index: u8,
    form: &'static Form,
) -> Result<Instruction, DecodeError> {
    let mut mods = Mods::ZERO;
    for modifier in row.modifiers {
        let value = modifier.field.get(word) as u16;
        if modifier.value(value).is_none() {
            return Err(DecodeError::ModifierValue {
                op,
                modifier: modifier.name,
                bits: BitSet(modifier.field.put(u64::MAX)),
                value,
            });
        }
        mods = mods.with(modifier, value);
    }
    let mut operands = Operands::new();
    for (slot, place) in row.slots.iter().zip(form.places) {
        operands.push(decode_operand(word, op, slot, place)?);
    }
    let control = Control::from_bits(word)?;
    let guard = guard_of(word, row);
    Ok(Instruction {
        op,
        form: index,
        guard,
        mods,
        operands,
        control,
    })
}

/// The guard that a word has under the rule of its row.
fn guard_of(word: u128, row: &Operation) -> Guard {
    match row.guard {
        GuardRule::None => Guard::ALWAYS,
        rule => Guard {
            predicate: Register::new(
                match rule {
                    GuardRule::Uniform => RegisterClass::UP,
                    _ => RegisterClass::P,
                },
                (word >> 12 & 7) as u8,
            ),
            negated: word >> 15 & 1 == 1,
        },
    }
}

#[inline]
fn decode_operand(word: u128, op: Op, slot: &Slot, place: &Place) -> Result<Operand, DecodeError> {
    Ok(match &place.kind {
        PlaceKind::Register {
            class,
            field,
            complemented,
        } => {
            let index = field.get(word) ^ if *complemented { field.max() } else { 0 };
            let register = Register::new(*class, index as u8);
            if place.named && register.is_constant() {
                return Err(DecodeError::ConstantRegister {
                    op,
                    slot: slot.name,
                    register,
                });
            }
            Operand::Register(RegisterOperand {
                register,
                modifiers: decode_modifiers(word, op, slot, place)?,
            })
        }
        PlaceKind::Immediate { field, format } => {
            let value = field.get(word);
            if !format.exists(value) {
                return Err(DecodeError::ImmediateValue {
                    op,
                    slot: slot.name,
                    value,
                });
            }
            Operand::Immediate(value)
        }
        PlaceKind::Constant(shape) => Operand::Constant(Constant {
            bank: match shape.handle {
                Some(field) => ConstantBank::Bindless(Register::ur(field.get(word) as u8)),
                None => ConstantBank::Index(shape.bank.get(word) as u8),
            },
            index: shape
                .index
                .map(|(class, field)| Register::new(class, field.get(word) as u8)),
            offset: i32::from(shape.scale)
                * if shape.signed {
                    shape.offset.get_signed(word) as i32
                } else {
                    shape.offset.get(word) as i32
                },
            modifiers: decode_modifiers(word, op, slot, place)?,
        }),
        PlaceKind::Address(shape) => Operand::Address(Address {
            base: match shape.base {
                Some(base) => {
                    let register = Register::new(base.class, base.field.get(word) as u8);
                    if place.named && register.is_constant() {
                        return Err(DecodeError::ConstantRegister {
                            op,
                            slot: slot.name,
                            register,
                        });
                    }
                    Some(register)
                }
                None => None,
            },
            kind: shape.base.map_or(BaseKind::Plain, |base| base.kind),
            uniform: shape
                .uniform
                .map(|field| Register::ur(field.get(word) as u8)),
            descriptor: shape.descriptor.map(|field| {
                let register = Register::ur(field.get(word) as u8);
                if shape.tied {
                    register.after()
                } else {
                    register
                }
            }),
            offset: if shape.offset.is_empty() {
                0
            } else {
                shape.offset.get_signed(word) as i32
            },
        }),
        PlaceKind::Descriptor { field, .. } => {
            Operand::Descriptor(Register::ur(field.get(word) as u8))
        }
        PlaceKind::Target {
            field,
            scale,
            absolute,
            ..
        } => {
            let units = if *absolute {
                field.get(word) as i64
            } else {
                field.get_signed(word)
            };
            Operand::Target(units * i64::from(*scale))
        }
        PlaceKind::Special { field } => Operand::Special(field.get(word) as u8),
    })
}

#[inline]
fn decode_modifiers(
    word: u128,
    op: Op,
    slot: &Slot,
    place: &Place,
) -> Result<SourceModifiers, DecodeError> {
    let select = if place.select.is_empty() {
        0
    } else {
        let select = place.select.get(word) as u8;
        if !matches!(slot.selects.get(usize::from(select)), Some(Some(_))) {
            return Err(DecodeError::Select {
                op,
                slot: slot.name,
                bits: BitSet(place.select.put(u64::MAX)),
                value: select,
            });
        }
        select
    };
    Ok(SourceModifiers {
        negate: place.negate.get(word),
        absolute: place.absolute.get(word),
        invert: place.invert.get(word),
        select,
    })
}

/// Names the bits that keep the nearest form from matching.
fn explain(word: u128, opcode: u16, target: Target) -> DecodeError {
    let mut nearest: Option<(u32, Op, u128, u128)> = None;
    let mut elsewhere = None;
    for (op, index) in Op::candidates(opcode) {
        let form = &op.row().forms[usize::from(index)];
        if !form.targets.contains(target) {
            elsewhere = Some(op);
            continue;
        }
        let wrong = (word ^ form.fixed_value) & form.fixed_mask;
        let distance = wrong.count_ones();
        if nearest.is_none_or(|(best, ..)| distance < best) {
            nearest = Some((distance, op, wrong, form.fixed_value));
        }
    }
    match (nearest, elsewhere) {
        (Some((_, op, wrong, value)), _) => DecodeError::Bits {
            op,
            bits: BitSet(wrong),
            expected: gather(value, wrong),
        },
        (None, Some(op)) => DecodeError::Target { op, target, opcode },
        (None, None) => DecodeError::Opcode(opcode),
    }
}

/// The bits of `value` that `mask` names, packed.
fn gather(value: u128, mask: u128) -> u128 {
    (0..128)
        .filter(|bit| mask >> bit & 1 == 1)
        .enumerate()
        .fold(0, |packed, (at, bit)| packed | (value >> bit & 1) << at)
}
