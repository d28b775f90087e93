//! OriRemoveNopCode (107): takes out instructions that do nothing.
//!
//! Earlier phases leave placeholders behind rather than close the gap at once. After allocation nothing refers to them any
//! more. An instruction goes when it has no effect, ends no block and writes no register that holds state: anything whose
//! only results go to `RZ` or `PT`. A read of memory is an effect here: it may fault. A NOP stays: it marks where the lanes of a warp
//! meet (`bar.warp.sync`), and nothing was moved across it.
//!
//! The phase moves nothing and leaves blocks alone, empty ones included. It runs before control words exist, so no wait is
//! lost. One walk over the instructions: linear.

use crate::pipeline::{Context, PhaseError};
use orias_ori::{Effects, Function, Inst};
use orias_sass::Op;

/// Runs the phase.
pub fn remove_nop_code(function: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    let idle: Vec<Inst> = function
        .blocks()
        .flat_map(|block| function.block_insts(block))
        .filter(|&inst| does_nothing(function, inst))
        .collect();
    for inst in idle {
        function.remove_inst(inst);
    }
    Ok(())
}

fn does_nothing(function: &Function, inst: Inst) -> bool {
    if function.opcode(inst).effects() != Effects::NONE
        || function.opcode(inst).as_machine() == Some(Op::NOP)
    {
        return false;
    }
    let mut nothing = true;
    function.for_each_def(inst, |_| nothing = false);
    nothing
}
