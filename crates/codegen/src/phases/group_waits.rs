//! FixUpTexDepBarAndSync (114): waits for groups of copies, in the final order.
//!
//! Two waits (`DEPBAR.LE SB0`) may have come to lie one behind the other: where the second leaves no more groups under way than the first and nothing between them touches memory, starts a copy or synchronises,
//! the first is waited for by the second anyway, and goes. (The other way round, the second goes, already in phase 71.) It comes before control words exist, so there are none to mend: 115 gives every
//! variable-latency operation its barrier, textures included once they are compiled.
//!
//! Cost: one walk backwards.

use super::optimize_sync::group_wait;
use crate::pipeline::{Context, PhaseError};
use orias_ori::{Effects, Function, Inst};

/// Runs the phase.
pub fn fix_group_waits(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    let mut needless: Vec<Inst> = Vec::new();
    for block in func.blocks() {
        // The groups that the next wait leaves, with nothing in between.
        let mut next: Option<u32> = None;
        let insts: Vec<Inst> = func.block_insts(block).collect();
        for inst in insts.into_iter().rev() {
            match group_wait(func, inst) {
                Some(left) if next.is_some_and(|next| next <= left) => needless.push(inst),
                Some(left) => next = func.inst(inst).guard().is_always().then_some(left),
                None if is_quiet(func, inst) => {}
                None => next = None,
            }
        }
    }
    for inst in needless {
        func.remove_inst(inst);
    }
    Ok(())
}

fn is_quiet(func: &Function, inst: Inst) -> bool {
    let effects = func.opcode(inst).effects();
    effects == Effects::NONE || effects == Effects::VARIES
}
