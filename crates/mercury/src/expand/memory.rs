//! Accesses whose data is a list of registers.
//!
//! A load or store of a vector may be split: the memory model gives its elements no order among each other. The parts follow the
//! data in memory, so each part's address is that of the first plus what the parts before it hold. A load may overwrite its own
//! address; the part that does comes last, and where several would, the access cannot be split. An atomic access is one access and
//! is never split.

use super::{Expansion, ExpansionClass, Made, Refusal};
use crate::convert::encoding;
use crate::stream::{Fixup, NodeData, Pseudo, Reference, Stream};
use orias_sass::{
    Instruction, MemoryEffect, Op, Operand, Register, RegisterClass, Space, Target,
    modifier_names as name,
};
use smallvec::SmallVec;

/// The class of an operation with a list of registers.
pub(super) fn class_of(instruction: &Instruction) -> ExpansionClass {
    let memory = instruction.op().row().memory;
    if memory.iter().any(|effect| effect.reads && effect.writes) {
        ExpansionClass::Atomic
    } else if memory.iter().any(is_texture) || instruction.op().row().modifier(name::SIZE).is_none()
    {
        ExpansionClass::Texture
    } else {
        ExpansionClass::Memory
    }
}

fn is_texture(effect: &MemoryEffect) -> bool {
    matches!(effect.space, Space::Texture | Space::Surface)
}

/// Bytes of a register.
const BYTES: i32 = 4;

pub(super) fn expand_access(stream: &Stream, data: &NodeData, pseudo: &Pseudo) -> Expansion {
    let Pseudo::Group {
        instruction,
        slot,
        registers,
        pieces,
    } = pseudo
    else {
        return Ok(Vec::new());
    };
    let slot = usize::from(*slot);
    if pieces
        .iter()
        .map(|&count| usize::from(count))
        .sum::<usize>()
        != registers.len()
    {
        return Err(Refusal::Because(
            "the converter has not sorted its registers".to_owned(),
        ));
    }
    if pieces.len() > 1 && has_second_result(instruction, slot) {
        return Err(Refusal::Because(
            "an access with a second result cannot be split".to_owned(),
        ));
    }
    let address = address_registers(instruction, slot);
    let writes = instruction.op().row().slots[slot].access.writes();
    let mut first = 0;
    let mut parts = Vec::new();
    for &count in pieces {
        let part = &registers[first..first + usize::from(count)];
        let made = encoding(instruction, slot, part, stream.target).ok_or_else(|| {
            Refusal::Because(format!(
                "no form takes {count} registers from {} on",
                part[0]
            ))
        })?;
        let moved = advance(&made, data, first as i32 * BYTES, stream.target)?;
        let overwrites = writes && part.iter().any(|register| address.contains(register));
        parts.push((overwrites, moved));
        first += usize::from(count);
    }
    if parts.iter().filter(|(overwrites, _)| *overwrites).count() > 1 {
        return Err(Refusal::Because(
            "its parts overwrite its address before the last of them".to_owned(),
        ));
    }
    parts.sort_by_key(|(overwrites, _)| *overwrites);
    Ok(parts.into_iter().map(|(_, made)| made).collect())
}

/// Whether anything but the list is written.
fn has_second_result(instruction: &Instruction, slot: usize) -> bool {
    let mut writes = instruction.writes();
    writes.any(|access| access.slot != Some(slot as u8))
}

/// The general registers that operands other than the list read.
fn address_registers(instruction: &Instruction, slot: usize) -> Vec<Register> {
    let others = instruction.reads();
    others
        .filter(|access| access.slot != Some(slot as u8))
        .flat_map(|access| access.registers())
        .filter(|register| register.class == RegisterClass::R)
        .collect()
}

/// The access so many bytes further on.
fn advance(
    instruction: &Instruction,
    data: &NodeData,
    bytes: i32,
    target: Target,
) -> Result<Made, Refusal> {
    let mut operands: Vec<Operand> = instruction.operands().to_vec();
    let mut fixups = data.fixups.clone();
    for (slot, operand) in operands.iter_mut().enumerate() {
        let linked = fixups
            .iter_mut()
            .find(|fixup| usize::from(fixup.slot) == slot);
        let far = || Refusal::Because("its last part is out of reach".to_owned());
        match (operand, linked) {
            (
                Operand::Address(_),
                Some(Fixup {
                    to: Reference::Symbol { addend, .. },
                    ..
                }),
            ) => *addend += i64::from(bytes),
            (Operand::Address(address), _) => {
                address.offset = address.offset.checked_add(bytes).ok_or_else(far)?;
            }
            (Operand::Constant(constant), _) => {
                constant.offset = constant.offset.checked_add(bytes).ok_or_else(far)?;
            }
            _ => {}
        }
    }
    let (op, guard) = (instruction.op(), instruction.guard());
    let moved = Instruction::new(op, guard, instruction.mods(), operands, target)?;
    Ok(Made {
        instruction: moved,
        fixups,
    })
}

/// What each atomic is called when nobody wants its result.
const REDUCTIONS: [(Op, Op); 2] = [(Op::ATOMG, Op::REDG), (Op::ATOMG_F, Op::REDG_F)];

pub(super) fn expand_atomic(stream: &Stream, data: &NodeData, pseudo: &Pseudo) -> Expansion {
    let Pseudo::Group {
        instruction,
        slot,
        registers,
        pieces,
    } = pseudo
    else {
        return Ok(Vec::new());
    };
    let slot = usize::from(*slot);
    if !registers.is_empty() {
        if pieces.len() != 1 {
            return Err(Refusal::Because(
                "an atomic access is one access and cannot be split".to_owned(),
            ));
        }
        return expand_access(stream, data, pseudo);
    }
    let op = instruction.op();
    let reduction = REDUCTIONS
        .iter()
        .find(|(atomic, _)| *atomic == op)
        .map(|(_, reduction)| *reduction)
        .filter(|reduction| has_modifiers_of(*reduction, instruction));
    // A second result, or an operation that needs the old value: it goes to nowhere.
    let (Some(reduction), false) = (reduction, has_second_result(instruction, slot)) else {
        let mut operands: Vec<Operand> = instruction.operands().to_vec();
        operands[slot] = Operand::register(Register::RZ);
        let (guard, mods) = (instruction.guard(), instruction.mods());
        let made = Instruction::new(op, guard, mods, operands, stream.target)?;
        return Ok(vec![Made {
            instruction: made,
            fixups: data.fixups.clone(),
        }]);
    };
    let row = reduction.row();
    let mut builder = Instruction::build(reduction);
    for modifier in row.modifiers {
        if let Some(value) = instruction.modifier(modifier.id()) {
            builder = builder.modifier(modifier.id(), value);
        }
    }
    for wanted in row.slots {
        let operand = (instruction.op().row())
            .slot_index_of_text(wanted.name)
            .and_then(|slot| instruction.operands().get(slot))
            .ok_or_else(|| Refusal::Because(format!("{op} has no operand '{}'", wanted.name)))?;
        builder = builder.operand(*operand);
    }
    let guard = instruction.guard();
    let made = builder
        .guard(guard.predicate, guard.negated)
        .finish(stream.target)?;
    let mut fixups: SmallVec<[Fixup; 1]> = SmallVec::new();
    for fixup in &data.fixups {
        let name = op.row().slots[usize::from(fixup.slot)].name;
        if let Some(slot) = row.slot_index_of_text(name) {
            fixups.push(Fixup {
                slot: slot as u8,
                to: fixup.to,
            });
        }
    }
    Ok(vec![Made {
        instruction: made,
        fixups,
    }])
}

/// Whether a reduction can do what an atomic does: an exchange, for one, it cannot.
fn has_modifiers_of(reduction: Op, instruction: &Instruction) -> bool {
    reduction.row().modifiers.iter().all(|modifier| {
        let value = instruction.modifier(modifier.id());
        value.is_none_or(|value| modifier.value_of(value).is_some())
    })
}

pub(super) fn expand_texture(_: &Stream, _: &NodeData, pseudo: &Pseudo) -> Expansion {
    let op = match pseudo {
        Pseudo::Group { instruction, .. } => instruction.op().name(),
        _ => "this",
    };
    Err(Refusal::Because(format!(
        "{op} with a list of registers is not supported yet"
    )))
}
