//! Initial values of induction variables.

use super::LoopAnalyses;
use orias_ori::analysis::{Iterations, Loop};
use orias_ori::{AbstractOp, Function, Operand, ValueDef};

/// What the variable of `exit` starts with, if that is known.
pub fn start(func: &Function, shape: &LoopAnalyses, of: Loop, exit: &Iterations) -> Option<i64> {
    let ValueDef::Param(_, index) = func.value_def(exit.variable) else {
        return None;
    };
    let mut known = None;
    for edge in shape.entering_edges(of) {
        let value = func.edge_args(edge)[usize::from(index)];
        let inst = func.defining_inst(value)?;
        let copy = func.opcode(inst).as_abstract() == Some(AbstractOp::Mov)
            && func.inst(inst).guard().is_always();
        let bits = match func.operands(inst) {
            &[_, Operand::Imm(imm)] if copy => imm.bits() as i64,
            _ => return None,
        };
        if known.is_some_and(|known| known != bits) {
            return None;
        }
        known = Some(bits);
    }
    known
}
