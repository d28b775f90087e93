//! Which results are the same in all lanes that run together.
//!
//! A result is if its sources are; so is what a load finds at one address, if the lanes come together. These are the exceptions.

use super::acts::is_matrix;
use crate::facts::number;
use crate::program::Program;
use orias_sass::{
    Instruction, Mnemonic, Op, Operand, RegisterClass, modifier_names as name,
    modifier_values as value, special,
};
use orias_sass::{SlotName, slot_names as slot};
use std::sync::LazyLock;

/// How the lanes' results of an operation compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sameness {
    /// As its sources do.
    Sources,
    /// As one of its sources does.
    Source(u16),
    /// As its sources do, if the lanes come together: what memory holds may change.
    Loaded,
    /// As what the stack holds there.
    Frame,
    /// The same, whatever the sources.
    Always,
    /// Different.
    Never,
    /// As the special register it reads.
    Special,
    /// The first, second or third of the exclusive ors that exchange two registers.
    Exchange(u8),
}

/// By operation.
static SAMENESS: LazyLock<Vec<Sameness>> = LazyLock::new(|| {
    let mut all = vec![Sameness::Sources; Op::all().count()];
    for op in Op::all() {
        all[op.index()] = of_operation(op);
    }
    all
});

fn of_operation(op: Op) -> Sameness {
    match op.mnemonic() {
        _ if op == Op::MATCH_ALL => Sameness::Always,
        Mnemonic::S2R | Mnemonic::CS2R => Sameness::Special,
        // What lanes find together.
        Mnemonic::VOTE | Mnemonic::B2R => Sameness::Always,
        // Lanes come one after the other, exchange values, or hold pieces of a matrix.
        Mnemonic::ATOM
        | Mnemonic::ATOMG
        | Mnemonic::ATOMS
        | Mnemonic::SUATOM
        | Mnemonic::SHFL
        | Mnemonic::MATCH
        | Mnemonic::ELECT
        | Mnemonic::R2UR
        | Mnemonic::LDSM
        | Mnemonic::MOVM => Sameness::Never,
        Mnemonic::LDL => Sameness::Frame,
        Mnemonic::LD | Mnemonic::LDG | Mnemonic::LDS => Sameness::Loaded,
        _ if is_matrix(op) => Sameness::Never,
        _ => Sameness::Sources,
    }
}

/// By instruction.
pub(super) fn of_program(program: &Program) -> Vec<Sameness> {
    let mut all: Vec<Sameness> = program.instructions.iter().map(of).collect();
    for block in &program.blocks {
        for index in block.start..block.end {
            if let Some((x, y)) = self_xor(&program.instructions[index])
                && let Some(second) = next_xor(program, index + 1..block.end, (y, x))
                && let Some(third) = next_xor(program, second + 1..block.end, (x, y))
            {
                for (stage, index) in [index, second, third].into_iter().enumerate() {
                    all[index] = Sameness::Exchange(stage as u8);
                }
            }
        }
    }
    all
}

/// How far apart the steps of an exchange may be.
const EXCHANGE: usize = 64;

/// The instruction that makes `x ^= y`, if nothing before it touches one of them.
fn next_xor(program: &Program, range: std::ops::Range<usize>, (x, y): (u16, u16)) -> Option<usize> {
    for index in range.take(EXCHANGE) {
        let instruction = &program.instructions[index];
        if self_xor(instruction) == Some((x, y)) {
            return Some(index);
        }
        let writes = instruction
            .accesses()
            .into_iter()
            .filter(|access| access.writes);
        let mut written = writes.flat_map(|access| access.registers().collect::<Vec<_>>());
        if written.any(|register| [x, y].contains(&number(register))) {
            return None;
        }
    }
    None
}

/// `x` and `y` of `x ^= y`.
pub(super) fn self_xor(instruction: &Instruction) -> Option<(u16, u16)> {
    let register = |name: SlotName| {
        let register = instruction.operand(name).and_then(Operand::as_register)?;
        (register.class == RegisterClass::R).then_some(register)
    };
    if instruction.op() != Op::LOP3 || !instruction.guard().is_always() {
        return None;
    }
    let xor = matches!(
        instruction.operand(slot::LUT),
        Some(Operand::Immediate(0x3c))
    );
    let (d, a, b, c) = (
        register(slot::D)?,
        register(slot::A)?,
        register(slot::B)?,
        register(slot::C)?,
    );
    let other = if d == a { b } else { a };
    let itself = (d == a) != (d == b) && c.is_constant() && !other.is_constant();
    (xor && itself && !d.is_constant()).then(|| (number(d), number(other)))
}

/// What lanes get from an instruction.
pub(super) fn of(instruction: &Instruction) -> Sameness {
    if let Some(sameness) = broadcast(instruction) {
        return sameness;
    }
    match SAMENESS[instruction.op().index()] {
        Sameness::Special => match instruction.operand(slot::S) {
            Some(Operand::Special(number)) if is_of_lane(*number) => Sameness::Never,
            _ => Sameness::Always,
        },
        known => known,
    }
}

/// SHFL.IDX within the whole warp: all lanes get what one of them has, if they name the same one.
fn broadcast(instruction: &Instruction) -> Option<Sameness> {
    let whole = matches!(
        instruction.operand(slot::C),
        Some(Operand::Immediate(WHOLE_WARP))
    );
    let by_number = instruction.modifier(name::MODE) == Some(value::IDX);
    if instruction.op() != Op::SHFL || !whole || !by_number {
        return None;
    }
    let lane = instruction.operand(slot::B)?;
    Some(match lane.as_register() {
        Some(lane) if !lane.is_constant() => Sameness::Source(number(lane)),
        _ => Sameness::Always,
    })
}

/// The bounds of a SHFL whose segment is the warp: no bit of the lane's own number is kept, and no lane is beyond the last.
const WHOLE_WARP: u64 = 0x1f;

/// Whether each lane finds a value of its own in a special register.
fn is_of_lane(number: u8) -> bool {
    use special::{EQMASK, GEMASK, GTMASK, LANEID, LEMASK, LTMASK, TID, TID_X, TID_Y, TID_Z};
    let thread = [TID, TID_X, TID_Y, TID_Z].contains(&number);
    let mask = [EQMASK, LTMASK, LEMASK, GTMASK, GEMASK].contains(&number);
    number == LANEID || thread || mask
}
