//! What tools that look for races have to know about mbarriers: which instructions work on them, and how many are set up.
//!
//! Arrivals that also announce transactions are not told. Whether a look at a phase was told a state or a parity is not in the
//! instruction: a parity comes from a shift to the highest bit or is a number.

use orias_cubin::attribute::{Attribute, MbarrierKind, MbarrierUse, Value, id};
use orias_sass::slot_names as slot;
use orias_sass::{
    Instruction, Op, Operand, Register, RegisterClass, Target, decode, modifier_names as name,
    modifier_values as value,
};

/// The attributes of a kernel's code.
pub(super) fn attributes(bytes: &[u8], target: Target) -> Vec<Attribute> {
    let code: Vec<Option<Instruction>> = bytes
        .chunks_exact(16)
        .map(|word| {
            let word = word.try_into().map_or(0, u128::from_le_bytes);
            decode(word, target).ok()
        })
        .collect();
    let mut uses = Vec::new();
    let (mut any, mut set_up) = (false, 0u16);
    for (at, instruction) in code.iter().enumerate() {
        let Some(instruction) = instruction else {
            continue;
        };
        let Some(kind) = kind_of(instruction, &code[..at]) else {
            continue;
        };
        any = true;
        let Some(kind) = kind else {
            continue;
        };
        set_up += u16::from(kind == MbarrierKind::Init);
        let Some(Operand::Address(address)) = instruction.operand(slot::ADDR) else {
            continue;
        };
        let index = |register: Option<Register>, none: u8| register.map_or(none, |it| it.index);
        // Where the address comes from a uniform register alone that is the base.
        let (register, uniform) = match (address.base, address.uniform) {
            (Some(base), None) if base.class == RegisterClass::UR => (255, base.index),
            (base, uniform) => (index(base, 255), index(uniform, 63)),
        };
        uses.push(MbarrierUse {
            offset: at as u32 * 16,
            register: register.into(),
            displacement: address.offset,
            kind_and_stride: kind as u8,
            flag: 1,
            uniform_register: uniform,
            reserved: 0,
        });
    }
    let mut attributes = Vec::new();
    if !uses.is_empty() {
        attributes.push(Attribute {
            id: id::MBARRIER_INSTR_OFFSETS,
            value: Value::Mbarriers(uses),
        });
    }
    if any {
        attributes.push(Attribute {
            id: id::NUM_MBARRIERS,
            value: Value::Half(set_up),
        });
    }
    attributes
}

/// What an instruction does to mbarriers: nothing, something that is not told, or its kind.
fn kind_of(
    instruction: &Instruction,
    before: &[Option<Instruction>],
) -> Option<Option<MbarrierKind>> {
    let is = |name, value| instruction.modifier(name) == Some(value);
    Some(match instruction.op() {
        Op::SYNCS_EXCH => Some(MbarrierKind::Init),
        Op::SYNCS_CCTL => Some(MbarrierKind::Inval),
        Op::ARRIVES_LDGSTSBAR => Some(MbarrierKind::CpAsyncArrive),
        Op::SYNCS_ARRIVE => match instruction.modifier(name::TX) {
            Some(value::A1T0 | value::ART0) => Some(
                match (
                    is(name::KIND, value::TMASK),
                    is(name::OPTOUT, value::OPTOUT),
                ) {
                    (false, false) => MbarrierKind::Arrive,
                    (false, true) => MbarrierKind::ArriveDrop,
                    (true, false) => MbarrierKind::ArriveNoComplete,
                    (true, true) => MbarrierKind::ArriveDropNoComplete,
                },
            ),
            Some(value::A0TR) => Some(MbarrierKind::ExpectTx),
            Some(value::A0TX) => Some(MbarrierKind::CompleteTx),
            _ => return None,
        },
        // The second look of a wait with a time limit belongs to the first.
        Op::SYNCS_PHASECHK if follows_sleep(before) => None,
        Op::SYNCS_PHASECHK => {
            let parity = has_parity(instruction, before);
            Some(match (is(name::TRY, value::TRYWAIT), parity) {
                (false, false) => MbarrierKind::TestWait,
                (false, true) => MbarrierKind::TestWaitParity,
                (true, false) => MbarrierKind::TryWait,
                (true, true) => MbarrierKind::TryWaitParity,
            })
        }
        _ => return None,
    })
}

/// Whether a sleep that mbarriers end comes after the last look at one.
fn follows_sleep(before: &[Option<Instruction>]) -> bool {
    let looks = |op: Op| matches!(op, Op::SYNCS_PHASECHK | Op::NANOSLEEP);
    let mut others = before.iter().rev().flatten();
    let last = others.find(|other| looks(other.op()));
    last.is_some_and(|last| last.modifier(name::WAKE) == Some(value::SYNCS))
}

/// Whether the phase was told as a parity: the last instruction before that writes its register shifts to the highest bit, or moves a number.
fn has_parity(instruction: &Instruction, before: &[Option<Instruction>]) -> bool {
    let Some(Operand::Register(phase)) = instruction.operand(slot::B) else {
        return false;
    };
    let phase = phase.register;
    if phase.is_constant() {
        return true;
    }
    let mut others = before.iter().rev().flatten();
    let writer = others.find(|other| other.writes_register(phase));
    writer.is_some_and(|writer| {
        let immediate = |operand: &Operand| match operand {
            Operand::Immediate(_) => true,
            Operand::Register(it) => it.register.is_constant(),
            _ => false,
        };
        match writer.op() {
            Op::SHF => matches!(writer.operand(slot::B), Some(Operand::Immediate(31))),
            Op::MOV => writer.operand(slot::B).is_some_and(immediate),
            // The multiplier's forms of both.
            Op::IMAD => {
                let none = |name| match writer.operand(name) {
                    Some(Operand::Register(it)) => it.register.is_constant(),
                    _ => false,
                };
                match writer.operand(slot::B) {
                    _ if none(slot::A) || none(slot::B) => {
                        writer.operand(slot::C).is_some_and(immediate)
                    }
                    Some(Operand::Immediate(factor)) => *factor as u32 == 1 << 31 && none(slot::C),
                    _ => false,
                }
            }
            _ => false,
        }
    })
}
