//! Instruction to word.

use crate::control::CONTROL_MASK;
use crate::fit::check_control;
use crate::instruction::{EncodeError, Instruction};
use crate::operand::{ConstantBank, Operand, SourceModifiers};
use crate::table::{Field, Place, PlaceKind};

/// The 128 bits of `instruction`. Only its control field can be wrong: everything else was checked when it was made.
pub fn encode(instruction: &Instruction) -> Result<u128, EncodeError> {
    check_control(instruction)?;
    let row = instruction.op.row();
    let form = instruction.form();
    let mut word = form.fixed_value | instruction.control.to_bits() & CONTROL_MASK;
    let guard = instruction.guard;
    word |= u128::from(guard.predicate.index) << 12 | u128::from(guard.negated) << 15;
    for modifier in row.modifiers {
        let value = instruction.mods.get(modifier);
        if value != 0 {
            word |= modifier.field.put(u64::from(value));
        }
    }
    for (operand, place) in instruction.operands.iter().zip(form.places) {
        word |= operand_bits(operand, place);
    }
    Ok(word)
}

fn operand_bits(operand: &Operand, place: &Place) -> u128 {
    match (operand, &place.kind) {
        (
            Operand::Register(operand),
            PlaceKind::Register {
                field,
                complemented,
                ..
            },
        ) => {
            let index = u64::from(operand.register.index);
            let stored = if *complemented {
                index ^ field.max()
            } else {
                index
            };
            field.put(stored) | modifier_bits(operand.modifiers, place)
        }
        (Operand::Immediate(value), PlaceKind::Immediate { field, .. }) => field.put(*value),
        (Operand::Constant(constant), PlaceKind::Constant(shape)) => {
            let mut word = shape
                .offset
                .put(i64::from(constant.offset / i32::from(shape.scale)) as u64);
            match (constant.bank, shape.handle) {
                (ConstantBank::Bindless(register), Some(field)) => {
                    word |= field.put(u64::from(register.index));
                }
                (ConstantBank::Index(bank), _) => word |= shape.bank.put(u64::from(bank)),
                (ConstantBank::Bindless(_), None) => {}
            }
            if let (Some(register), Some((_, field))) = (constant.index, shape.index) {
                word |= field.put(u64::from(register.index));
            }
            word | modifier_bits(constant.modifiers, place)
        }
        (Operand::Address(address), PlaceKind::Address(shape)) => {
            let register =
                |register: Option<crate::Register>, field: Option<Field>| match (register, field) {
                    (Some(register), Some(field)) => field.put(u64::from(register.index)),
                    _ => 0,
                };
            shape.offset.put(i64::from(address.offset) as u64)
                | register(address.base, shape.base.map(|base| base.field))
                | register(address.uniform, shape.uniform)
                | register(address.descriptor, shape.descriptor.filter(|_| !shape.tied))
        }
        (Operand::Descriptor(register), PlaceKind::Descriptor { field, .. }) => {
            field.put(u64::from(register.index))
        }
        (Operand::Target(distance), PlaceKind::Target { field, scale, .. }) => {
            field.put((distance / i64::from(*scale)) as u64)
        }
        (Operand::Special(number), PlaceKind::Special { field }) => field.put(u64::from(*number)),
        // `Instruction` only exists with operands that fit its form.
        _ => 0,
    }
}

fn modifier_bits(modifiers: SourceModifiers, place: &Place) -> u128 {
    if modifiers == SourceModifiers::NONE {
        return 0;
    }
    place.negate.put(modifiers.negate)
        | place.absolute.put(modifiers.absolute)
        | place.invert.put(modifiers.invert)
        | place.select.put(u64::from(modifiers.select))
}
