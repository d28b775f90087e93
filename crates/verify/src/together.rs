//! Instructions that belong together.
//!
//! - *Loads that never run.* In front of asynchronous copies ptxas puts three `@!PT LDS RZ, [RZ]`, in front of MEMBAR one or four. They
//!   keep their place in the queue of shared memory only there: a run must be whole, and nothing may come between it and what it
//!   stands before. Nothing is asked of copies that have none.
//! - *Warpgroups.* WARPGROUP.ARRIVE hands general registers over to the tensor cores. A matrix operation may use a register only if an
//!   ARRIVE has come since it was written last by anything but a matrix operation, on every path. What else stands between the two
//!   does not matter; ptxas puts arithmetic there.

use crate::finding::{Check, Finding};
use crate::judge::{alone, text};
use crate::program::{Block, Program, WORD};
use orias_sass::{Instruction, Mnemonic, Op, Register, RegisterClass};

/// Runs of loads that never run which are separated or stand in front of something else.
pub(crate) fn separated(program: &Program) -> Vec<Finding> {
    let mut findings = Vec::new();
    for block in &program.blocks {
        let mut length = 0;
        for index in block.start..block.end {
            let instruction = &program.instructions[index];
            if never_runs(instruction) {
                length += 1;
                continue;
            }
            if length > 0 && !stands_before(length, instruction.op()) {
                let found = format!("{length} in front of `{}`", text(program, index));
                findings.push(run(program, index - 1, found));
            }
            length = 0;
        }
        if length > 0 {
            let found = format!("{length} at the end of a block");
            findings.push(run(program, block.end - 1, found));
        }
    }
    findings
}

fn run(program: &Program, index: usize, found: String) -> Finding {
    let needed = "three in a row in front of LDGSTS, or one or four in front of MEMBAR";
    alone(program, Check::Together, index, needed, found)
}

/// Whether it is `@!PT LDS`.
pub(crate) fn never_runs(instruction: &Instruction) -> bool {
    let guard = instruction.guard();
    instruction.op() == Op::LDS && guard.predicate.is_constant() && guard.negated
}

/// Whether a run of this length belongs in front of an operation.
fn stands_before(length: usize, op: Op) -> bool {
    match length {
        3 => op.mnemonic() == Mnemonic::LDGSTS,
        1 | 4 => op.mnemonic() == Mnemonic::MEMBAR,
        _ => false,
    }
}

/// A set of general registers, with who wrote each of them.
#[derive(Clone, PartialEq, Eq)]
struct Written {
    /// Index of the writer, plus one; 0 if the register has been handed over since.
    by: Box<[u32; 256]>,
}

/// Stands for whatever wrote a register before the program started.
const BEFORE: u32 = u32::MAX;

impl Written {
    fn all(by: u32) -> Self {
        Self {
            by: Box::new([by; 256]),
        }
    }

    /// Adds what was written on another path; says whether anything changed.
    fn join(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for (mine, theirs) in self.by.iter_mut().zip(other.by.iter()) {
            if *mine == 0 && *theirs != 0 {
                *mine = *theirs;
                changed = true;
            }
        }
        changed
    }

    /// Takes the set through a block; `observe` sees which register a matrix operation uses, and who wrote it, where that is wrong.
    fn pass(&mut self, program: &Program, block: &Block, mut observe: impl FnMut(usize, u8, u32)) {
        for index in block.start..block.end {
            let instruction = &program.instructions[index];
            let op = instruction.op();
            if op == Op::WARPGROUP_ARRIVE {
                self.by.fill(0);
                continue;
            }
            let matrix = program.machine.is_warpgroup_matrix(op);
            let general = |register: &Register| register.class == RegisterClass::R;
            for access in instruction.accesses() {
                for register in access.registers().filter(general) {
                    let by = &mut self.by[usize::from(register.index)];
                    if matrix && *by != 0 {
                        observe(index, register.index, *by);
                    } else if !matrix && access.writes {
                        *by = index as u32 + 1;
                    }
                }
            }
        }
    }
}

/// Matrix operations of a warpgroup on registers that were not handed over.
pub(crate) fn kept_back(program: &Program) -> Vec<Finding> {
    let any = program
        .instructions
        .iter()
        .any(|one| program.machine.is_warpgroup_matrix(one.op()));
    if !any {
        return Vec::new();
    }
    let blocks = &program.blocks;
    let mut starts: Vec<Option<Written>> = vec![None; blocks.len()];
    let mut reached = vec![false; blocks.len()];
    for block in blocks {
        for &next in block.successors.iter().chain(&block.resumes) {
            reached[next] = true;
        }
    }
    let mut pending = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        if number == 0 || block.entry || !reached[number] {
            starts[number] = Some(Written::all(BEFORE));
            pending.push(number);
        }
    }
    while let Some(number) = pending.pop() {
        let Some(mut state) = starts[number].clone() else {
            continue;
        };
        let block = &blocks[number];
        state.pass(program, block, |_, _, _| {});
        for &next in block.successors.iter().chain(&block.resumes) {
            let changed = match &mut starts[next] {
                Some(known) => known.join(&state),
                slot @ None => {
                    *slot = Some(state.clone());
                    true
                }
            };
            if changed {
                pending.push(next);
            }
        }
    }
    let mut findings: Vec<Finding> = Vec::new();
    for (block, state) in blocks.iter().zip(starts) {
        let Some(mut state) = state else { continue };
        state.pass(program, block, |index, register, by| {
            // Registers of one operand fail together: the first stands for all.
            if findings
                .last()
                .is_some_and(|known| known.offset == index * WORD)
            {
                return;
            }
            let writer = (by != BEFORE).then(|| by as usize - 1);
            findings.push(Finding {
                earlier: writer.map(|writer| (writer * WORD, text(program, writer))),
                register: Some(Register::new(RegisterClass::R, register)),
                ..alone(
                    program,
                    Check::Warpgroup,
                    index,
                    "WARPGROUP.ARRIVE after the register was written",
                    "none on every path".to_owned(),
                )
            });
        });
    }
    findings
}
