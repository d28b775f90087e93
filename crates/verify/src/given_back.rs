//! Registers that a warp has given back are not named.
//!
//! USETMAXREG.DEALLOC leaves a warp so many registers; USETMAXREG.TRY_ALLOC asks for more, and as it may be refused, what stands behind it in its block has what
//! there was before. With how many a kernel starts is a matter of its launch, so nothing is asked before the first change. Where ways meet,
//! a warp has the fewest of all: facts that only fall over the flow graph, O(instructions) for each round.

use crate::finding::{Check, Finding};
use crate::judge::text;
use crate::program::{Block, Program, WORD};
use orias_sass::slot_names as slot;
use orias_sass::{Instruction, Op, Operand, Register, RegisterClass};

/// A number of registers, and the instruction that set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Count {
    registers: u64,
    set_by: usize,
}

/// Instructions that name registers which their warp may not have.
pub(crate) fn check(program: &Program) -> Vec<Finding> {
    let mut starts: Vec<Option<Count>> = vec![None; program.blocks.len()];
    let changes = |at: &usize| count_set(&program.instructions[*at]).is_some();
    if !(0..program.instructions.len()).any(|at| changes(&at)) {
        return Vec::new();
    }
    let mut pending: Vec<usize> = (0..program.blocks.len()).rev().collect();
    while let Some(index) = pending.pop() {
        let block = &program.blocks[index];
        let Some(end) = walk(program, block, starts[index], |_, _| ()) else {
            continue;
        };
        for &next in block.successors.iter().chain(&block.resumes) {
            if starts[next].is_none_or(|known| end < known) {
                starts[next] = Some(end);
                pending.push(next);
            }
        }
    }
    let mut findings = Vec::new();
    for (block, start) in program.blocks.iter().zip(starts) {
        walk(program, block, start, |at, count| {
            if let Some(register) = beyond(&program.instructions[at], count) {
                findings.push(Finding {
                    check: Check::GivenBack,
                    function: program.name.clone(),
                    offset: at * WORD,
                    instruction: text(program, at),
                    earlier: Some((count.set_by * WORD, text(program, count.set_by))),
                    register: Some(register),
                    needed: format!("one of {} registers", count.registers),
                    found: "one that its warp may not have".to_owned(),
                });
            }
        });
    }
    findings
}

/// Follows `block`, with what holds at each instruction if anything does; what holds where it is left.
fn walk(
    program: &Program,
    block: &Block,
    start: Option<Count>,
    mut each: impl FnMut(usize, Count),
) -> Option<Count> {
    let (mut here, mut leaving) = (start, start);
    for at in block.start..block.end {
        let instruction = &program.instructions[at];
        if let Some(count) = here {
            each(at, count);
        }
        if let Some(registers) = count_set(instruction) {
            let set = Count {
                registers,
                set_by: at,
            };
            leaving = Some(set);
            here = match instruction.op() {
                Op::USETMAXREG_DEALLOC => leaving,
                _ => here.map(|count| count.min(set)),
            };
        }
    }
    leaving
}

/// The number of registers that an instruction sets.
fn count_set(instruction: &Instruction) -> Option<u64> {
    if !matches!(
        instruction.op(),
        Op::USETMAXREG_DEALLOC | Op::USETMAXREG_TRY_ALLOC
    ) {
        return None;
    }
    match instruction.operand(slot::B) {
        Some(Operand::Immediate(count)) => Some(*count),
        _ => None,
    }
}

/// A general register that an instruction names and that is not among the first `count`.
fn beyond(instruction: &Instruction, count: Count) -> Option<Register> {
    let accesses = instruction.reads().chain(instruction.writes());
    let mut registers = accesses
        .filter(|access| access.class() == RegisterClass::R)
        .flat_map(|access| access.registers());
    registers.find(|register| u64::from(register.index) >= count.registers)
}
