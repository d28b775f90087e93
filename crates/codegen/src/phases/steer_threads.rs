//! SteerThreads (10080): threads are held up at random before they change memory that others see (`--sanitize=threadsteer`).
//!
//! A program whose threads race may be right by luck, as they always run in the same order. With the option every store and every atomic
//! operation has a sleep of up to a microsecond before it, of a length that the chip draws, so that the order differs from run to run.
//!
//! What is held up is what ptxas 13.0.88 holds up: `st`, `atom`, `red` and `multimem.st` and `.red` to global, shared and generic addresses, and `cp.async`,
//! twice, as it has two addresses. Not loads, local memory, bulk copies, `st.async`, mbarriers, matrices or surfaces. The sleep has no
//! guard even where the access has one.
//!
//! Cost: one walk.

use crate::emit::{Emit, imm};
use crate::pipeline::{Context, PhaseError};
use orias_ori::operation::{AbstractOp, Space};
use orias_ori::{Function, Guard, Inst};

/// The longest sleep, in nanoseconds.
const LONGEST: u64 = 1000;

/// Runs the phase.
pub fn steer_threads(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    let held: Vec<(Inst, usize)> = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .map(|inst| (inst, sleeps(func, inst)))
        .filter(|&(_, count)| count > 0)
        .collect();
    for (inst, count) in held {
        let mut emit = Emit::before(func, inst);
        for _ in 0..count {
            let time = [imm(LONGEST), imm(1)];
            emit.put(AbstractOp::Nanosleep, (), &[], &time, Guard::ALWAYS, &[]);
        }
        emit.finish().map_err(|error| PhaseError::Broken {
            at: error.inst.clone(),
            what: error.to_string(),
        })?;
    }
    Ok(())
}

/// How often a thread sleeps before an instruction.
fn sleeps(func: &Function, inst: Inst) -> usize {
    match func.opcode(inst).as_abstract() {
        Some(AbstractOp::St | AbstractOp::Atom | AbstractOp::Red) => {
            let space = func.modifier::<Space>(inst);
            usize::from(!matches!(space, Some(Space::Local | Space::Param)))
        }
        Some(AbstractOp::CpAsync) => 2,
        _ => 0,
    }
}
