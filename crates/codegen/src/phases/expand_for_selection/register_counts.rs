//! `setmaxnreg`: a warp group gives registers back, or asks for more.
//!
//! How many registers a warp starts with must be known: from `.maxnreg`, or from `.maxntid` and `.minnctapersm` together. Where it is not, the instruction is left out, as
//! ptxas does, with a message ([`is_ignored`]). A request is repeated until others have given back enough:
//!
//! ```text
//! around:    got = registers_take 232
//!            cbr got, tail, around
//! ```

use super::loops::BlockWriter;
use super::refused;
use crate::pipeline::PhaseError;
use orias_ori::{AbstractOp, Attributes, Function, Inst, Operand};

/// Whether the number of registers at the start of the kernel is known.
fn is_known(own: &Attributes) -> bool {
    own.max_registers > 0 || own.max_threads != [0; 3] && own.min_blocks > 0
}

/// Whether the function asks for register counts.
pub fn asks(func: &Function) -> bool {
    let asks = |inst: Inst| func.opcode(inst).as_abstract() == Some(AbstractOp::SetMaxNReg);
    let mut insts = func.blocks().flat_map(|block| func.block_insts(block));
    insts.any(asks)
}

/// Whether the function asks for register counts in vain, if its limits are these.
pub fn is_ignored(func: &Function, limits: &Attributes) -> bool {
    !is_known(limits) && asks(func)
}

pub(super) fn expand(func: &mut Function, inst: Inst) -> Result<(), PhaseError> {
    if !is_known(&func.attributes) {
        func.remove_inst(inst);
        return Ok(());
    }
    let (Operand::Imm(count), Operand::Imm(more)) =
        (func.operands(inst)[0], func.operands(inst)[1])
    else {
        return Ok(());
    };
    let Some(head) = func.layout.inst_block(inst) else {
        return Ok(());
    };
    if more.bits() == 0 {
        return Ok(());
    }
    let span = func.inst(inst).span();
    let tail = func.split_block(inst);
    func.remove_inst(inst);
    let mut maker = BlockWriter {
        func,
        at: head,
        span,
    };
    let around = maker.block();
    maker.jump(around, &[])?;
    maker.at = around;
    let got = maker
        .cursor()
        .build(AbstractOp::RegistersTake)
        .imm(count.bits())
        .value()
        .map_err(refused)?;
    maker.branch(got, (tail, &[]), (around, &[]))
}
