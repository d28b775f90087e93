//! Mutants of where lanes meet: an instruction that opens, meets or leaves a region, or gathers a warp, taken away or changed.

use crate::program::{Program, WORD};
use orias_sass::slot_names as slot;
use orias_sass::{
    EncodeError, Instruction, Op, Operand, Operands, Register, RegisterClass, Target, encode,
};
use std::fmt;

/// One change of where lanes meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Nothing stands in the place of the instruction, for as long.
    Removed,
    /// It names another convergence barrier.
    Barrier(u8),
    /// It and another of its kind, at this index, name each other's convergence barriers.
    Exchanged(usize),
    /// The region ends so many instructions later.
    Moved(i8),
    /// YIELD stands where nothing stood.
    Yields,
}

impl Mutation {
    /// What kind of change of which instruction it is.
    #[must_use]
    pub fn kind(self, op: Op) -> String {
        let what = match self {
            Mutation::Removed => "removed",
            Mutation::Barrier(_) => "another barrier",
            Mutation::Exchanged(_) => "barriers exchanged",
            Mutation::Moved(_) => "target moved",
            Mutation::Yields => return "YIELD added".to_owned(),
        };
        let name = op.name().split('.').next().unwrap_or_default();
        format!("{name} {what}")
    }

    /// The words that change, by index of the instruction.
    pub fn words(
        self,
        program: &Program,
        index: usize,
        target: Target,
    ) -> Result<Vec<(usize, u128)>, EncodeError> {
        let instruction = &program.instructions[index];
        let nothing = |op: Op| {
            Instruction::build(op)
                .control(instruction.control)
                .finish(target)
        };
        let changed = match self {
            Mutation::Removed => vec![(index, nothing(Op::NOP)?)],
            Mutation::Yields => vec![(index, nothing(Op::YIELD)?)],
            Mutation::Barrier(to) => vec![(index, with_barrier(instruction, to, target)?)],
            Mutation::Exchanged(other) => {
                let second = &program.instructions[other];
                let named = |instruction: &Instruction| barrier(instruction).unwrap_or_default();
                vec![
                    (index, with_barrier(instruction, named(second), target)?),
                    (other, with_barrier(second, named(instruction), target)?),
                ]
            }
            Mutation::Moved(by) => {
                let distance =
                    instruction.target().unwrap_or_default() + i64::from(by) * WORD as i64;
                vec![(index, with(instruction, Operand::Target(distance), target)?)]
            }
        };
        (changed.into_iter())
            .map(|(index, instruction)| Ok((index, encode(&instruction)?)))
            .collect()
    }
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mutation::Removed => f.write_str("removed"),
            Mutation::Barrier(to) => write!(f, "names B{to}"),
            Mutation::Exchanged(other) => {
                write!(f, "exchanges barriers with {:#06x}", other * WORD)
            }
            Mutation::Moved(by) => write!(f, "ends {by} instructions later"),
            Mutation::Yields => f.write_str("becomes YIELD"),
        }
    }
}

/// Every mutation of a program, by index of the instruction.
#[must_use]
pub fn mutations(program: &Program) -> Vec<(usize, Mutation)> {
    let instructions = &program.instructions;
    let mut used: Vec<u8> = instructions.iter().filter_map(barrier).collect();
    used.sort_unstable();
    used.dedup();
    let last_exit = instructions
        .iter()
        .rposition(|one| one.op() == Op::EXIT)
        .unwrap_or(0);
    let mut all = Vec::new();
    for (index, instruction) in instructions.iter().enumerate() {
        let op = instruction.op();
        match op {
            Op::BSSY
            | Op::BSYNC
            | Op::BREAK
            | Op::WARPSYNC
            | Op::WARPSYNC_ALL
            | Op::WARPSYNC_COLLECTIVE
            | Op::WARPSYNC_COLLECTIVE_ALL
            | Op::ENDCOLLECTIVE => all.push((index, Mutation::Removed)),
            // Behind the code it only fills.
            Op::NOP if index < last_exit => all.push((index, Mutation::Yields)),
            _ => {}
        }
        if op == Op::BSSY {
            all.extend([-1, 1].map(|by| (index, Mutation::Moved(by))));
        }
        let Some(named) = barrier(instruction) else {
            continue;
        };
        let others = used.iter().filter(|other| **other != named);
        all.extend(others.map(|other| (index, Mutation::Barrier(*other))));
        let exchanged = (instructions.iter().enumerate().skip(index + 1))
            .filter(|(_, other)| other.op() == op)
            .find(|(_, other)| barrier(other).is_some_and(|other| other != named));
        all.extend(exchanged.map(|(other, _)| (index, Mutation::Exchanged(other))));
    }
    all
}

/// The convergence barrier that an instruction opens, meets or leaves.
fn barrier(instruction: &Instruction) -> Option<u8> {
    let names = matches!(instruction.op(), Op::BSSY | Op::BSYNC | Op::BREAK);
    let register = instruction
        .operand(slot::B)
        .and_then(Operand::as_register)?;
    (names && register.class == RegisterClass::B).then_some(register.index)
}

fn with_barrier(
    instruction: &Instruction,
    to: u8,
    target: Target,
) -> Result<Instruction, EncodeError> {
    let register = Register::new(RegisterClass::B, to);
    with(instruction, Operand::register(register), target)
}

/// The instruction with another operand in place of the one of its kind.
fn with(
    instruction: &Instruction,
    operand: Operand,
    target: Target,
) -> Result<Instruction, EncodeError> {
    let operands: Operands = (instruction.operands().iter())
        .map(|known| {
            if known.shape() == operand.shape() {
                operand
            } else {
                *known
            }
        })
        .collect();
    let mut changed = Instruction::with_operands(
        instruction.op(),
        instruction.guard(),
        instruction.mods(),
        operands,
        target,
    )?;
    changed.control = instruction.control;
    Ok(changed)
}
