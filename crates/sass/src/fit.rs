//! Which form of an operation takes an instruction's operands, modifiers and guard, and why the others do not.

use crate::instruction::{EncodeError, Guard, Instruction, OperandMismatch};
use crate::op::{Mods, Op};
use crate::operand::{Address, BaseKind, Constant, ConstantBank, Operand, SourceModifiers};
use crate::register::{Register, RegisterClass};
use crate::table::{
    AddressPlace, ConstantPlace, Field, Form, GuardRule, Operation, Place, PlaceKind, Slot,
    SlotDefault,
};
use crate::target::Target;
pub(crate) fn default_operand(default: SlotDefault) -> Operand {
    match default {
        SlotDefault::Register(register, false) => Operand::register(register),
        SlotDefault::Register(register, true) => Operand::not(register),
        SlotDefault::Immediate(value) => Operand::Immediate(value),
        SlotDefault::Target(distance) => Operand::Target(distance),
    }
}

pub(crate) fn check_control(instruction: &Instruction) -> Result<(), EncodeError> {
    instruction.control.check()?;
    let mut unowned = instruction.control.reuse();
    if unowned == 0 {
        return Ok(());
    }
    for place in instruction.form().places {
        if place.reuse.exists() {
            unowned &= !(1 << (place.reuse.0 - 122));
        }
    }
    if unowned == 0 {
        Ok(())
    } else {
        Err(EncodeError::Reuse {
            op: instruction.op,
            flag: unowned.trailing_zeros() as u8,
        })
    }
}

pub(crate) fn check_guard(op: Op, guard: Guard) -> Result<(), EncodeError> {
    let legal = match op.row().guard {
        GuardRule::Predicate => guard.predicate.class == RegisterClass::P,
        GuardRule::Uniform => guard.predicate.class == RegisterClass::UP,
        GuardRule::None => guard == Guard::ALWAYS,
    };
    if legal && guard.predicate.exists() {
        Ok(())
    } else {
        Err(EncodeError::Guard {
            op,
            guard: guard.predicate,
        })
    }
}

/// The first form whose places take the operands. The error tells about the form that takes most of them.
pub(crate) fn find_form(
    op: Op,
    mods: Mods,
    operands: &[Operand],
    target: Target,
) -> Result<u8, EncodeError> {
    let row = op.row();
    let mut best: Option<(usize, OperandMismatch)> = None;
    let mut exists = false;
    for (index, form) in row.forms.iter().enumerate() {
        if !form.targets.contains(target) {
            continue;
        }
        exists = true;
        if !modifiers_agree(mods, form) {
            best.get_or_insert((0, OperandMismatch::Form));
            continue;
        }
        match operands_fit(row, form, operands) {
            Ok(()) => return Ok(index as u8),
            Err((slot, reason)) => {
                let better = match best {
                    Some((other, OperandMismatch::Kind | OperandMismatch::Form)) => {
                        slot > other || slot == other && reason != OperandMismatch::Kind
                    }
                    Some((other, _)) => slot > other,
                    None => true,
                };
                if better {
                    best = Some((slot, reason));
                }
            }
        }
    }
    Err(match best {
        Some((slot, reason)) if exists => EncodeError::Operand {
            op,
            slot: row.slots[slot].name,
            reason,
        },
        _ => EncodeError::Target { op, target },
    })
}

/// Whether the modifiers have the values that the form fixes.
pub(crate) const fn modifiers_agree(mods: Mods, form: &Form) -> bool {
    mods.0 & form.mods_mask == form.mods_value
}

/// Whether every operand can stand at its place in the form; the error names the first slot that cannot.
pub(crate) fn operands_fit(
    row: &Operation,
    form: &Form,
    operands: &[Operand],
) -> Result<(), (usize, OperandMismatch)> {
    for (slot, (operand, place)) in operands.iter().zip(form.places).enumerate() {
        fits(operand, place, row.slots[slot].selects)
            .and_then(|()| tie_holds(operand, place, operands, form))
            .map_err(|reason| (slot, reason))?;
    }
    Ok(())
}

/// Whether `operand` can stand at `place`.
#[inline]
pub(crate) fn fits(
    operand: &Operand,
    place: &Place,
    selects: &[Option<&'static str>],
) -> Result<(), OperandMismatch> {
    match (operand, &place.kind) {
        (Operand::Register(operand), PlaceKind::Register { class, field, .. }) => {
            register_fits(operand.register, *class, *field)?;
            if place.named && operand.register.is_constant() {
                return Err(OperandMismatch::Constant);
            }
            modifiers_fit(operand.modifiers, place, selects)
        }
        (Operand::Immediate(value), PlaceKind::Immediate { field, format }) => {
            if *value > field.max() || !format.exists(*value) {
                return Err(OperandMismatch::Range(*value as i64, field.len()));
            }
            Ok(())
        }
        (Operand::Constant(constant), PlaceKind::Constant(shape)) => {
            constant_fits(constant, shape)?;
            modifiers_fit(constant.modifiers, place, selects)
        }
        (Operand::Address(address), PlaceKind::Address(shape)) => {
            if place.named && address.base.is_some_and(Register::is_constant) {
                return Err(OperandMismatch::Constant);
            }
            address_fits(address, shape)
        }
        (Operand::Descriptor(register), PlaceKind::Descriptor { field, .. }) => {
            register_fits(*register, RegisterClass::UR, *field)
        }
        (
            Operand::Target(distance),
            PlaceKind::Target {
                field,
                scale,
                absolute,
                ..
            },
        ) => {
            let scale_bytes = i64::from(*scale);
            if distance % scale_bytes != 0 {
                return Err(OperandMismatch::Alignment(*distance, *scale));
            }
            let units = distance / scale_bytes;
            if *absolute {
                return if units >= 0 && units as u64 <= field.max() {
                    Ok(())
                } else {
                    Err(OperandMismatch::Range(units, field.len()))
                };
            }
            signed_fits(units, *field)
        }
        (Operand::Special(number), PlaceKind::Special { field }) => {
            if u64::from(*number) > field.max() {
                return Err(OperandMismatch::Range(i64::from(*number), field.len()));
            }
            Ok(())
        }
        _ => Err(OperandMismatch::Kind),
    }
}

/// Whether a descriptor without a field of its own follows the uniform register whose field it shares.
fn tie_holds(
    operand: &Operand,
    place: &Place,
    operands: &[Operand],
    form: &Form,
) -> Result<(), OperandMismatch> {
    let (Operand::Address(address), PlaceKind::Address(shape)) = (operand, &place.kind) else {
        return Ok(());
    };
    if !shape.tied {
        return Ok(());
    }
    let uniform = operands
        .iter()
        .zip(form.places)
        .find_map(|(operand, place)| match (operand, &place.kind) {
            (Operand::Address(other), PlaceKind::Address(at)) if at.uniform == shape.descriptor => {
                other.uniform
            }
            _ => None,
        });
    if address.descriptor == uniform.map(Register::after) {
        Ok(())
    } else {
        Err(OperandMismatch::Tied)
    }
}

fn register_fits(
    register: Register,
    class: RegisterClass,
    field: Field,
) -> Result<(), OperandMismatch> {
    if register.class != class {
        return Err(OperandMismatch::Kind);
    }
    if !register.exists() || u64::from(register.index) > field.max() {
        return Err(OperandMismatch::Register);
    }
    Ok(())
}

fn signed_fits(value: i64, field: Field) -> Result<(), OperandMismatch> {
    if field.is_empty() && value == 0 || !field.is_empty() && field.fits_signed(value) {
        Ok(())
    } else {
        Err(OperandMismatch::Range(value, field.len()))
    }
}

fn constant_fits(constant: &Constant, shape: &ConstantPlace) -> Result<(), OperandMismatch> {
    match (constant.bank, shape.handle) {
        (ConstantBank::Index(bank), None) => {
            if u64::from(bank) > shape.bank.max() {
                return Err(OperandMismatch::Range(i64::from(bank), shape.bank.len()));
            }
        }
        (ConstantBank::Bindless(register), Some(field)) => {
            register_fits(register, RegisterClass::UR, field)?;
        }
        _ => return Err(OperandMismatch::Kind),
    }
    match (constant.index, shape.index) {
        (None, None) => {}
        (Some(register), Some((class, field))) => register_fits(register, class, field)?,
        _ => return Err(OperandMismatch::Kind),
    }
    let offset = i64::from(constant.offset);
    let scale = i64::from(shape.scale);
    if offset % scale != 0 {
        return Err(OperandMismatch::Alignment(offset, shape.scale));
    }
    let offset = offset / scale;
    if shape.signed {
        signed_fits(offset, shape.offset)
    } else if offset < 0 || offset as u64 > shape.offset.max() {
        Err(OperandMismatch::Range(offset, shape.offset.len()))
    } else {
        Ok(())
    }
}

fn address_fits(address: &Address, shape: &AddressPlace) -> Result<(), OperandMismatch> {
    match (address.base, shape.base) {
        (None, None) => {
            if address.kind != BaseKind::Plain {
                return Err(OperandMismatch::Kind);
            }
        }
        (Some(register), Some(base)) => {
            if address.kind != base.kind {
                return Err(OperandMismatch::Kind);
            }
            register_fits(register, base.class, base.field)?;
        }
        _ => return Err(OperandMismatch::Kind),
    }
    for (register, field) in [
        (address.uniform, shape.uniform),
        (address.descriptor, shape.descriptor),
    ] {
        match (register, field) {
            (None, None) => {}
            (Some(register), Some(field)) => register_fits(register, RegisterClass::UR, field)?,
            _ => return Err(OperandMismatch::Kind),
        }
    }
    signed_fits(i64::from(address.offset), shape.offset)
}

fn modifiers_fit(
    modifiers: SourceModifiers,
    place: &Place,
    selects: &[Option<&'static str>],
) -> Result<(), OperandMismatch> {
    if modifiers == SourceModifiers::NONE && place.select.is_empty() {
        return Ok(());
    }
    let legal = (!modifiers.negate || place.negate.exists())
        && (!modifiers.absolute || place.absolute.exists())
        && (!modifiers.invert || place.invert.exists());
    let select_legal = if place.select.is_empty() {
        modifiers.select == 0
    } else {
        matches!(selects.get(usize::from(modifiers.select)), Some(Some(_)))
    };
    if legal && select_legal {
        Ok(())
    } else {
        Err(OperandMismatch::Modifier)
    }
}

/// The slot default as an operand, for callers outside this module that know the slot.
impl Slot {
    /// The operand that text may leave out.
    #[must_use]
    pub fn default_operand(&self) -> Option<Operand> {
        self.default.map(default_operand)
    }
}
