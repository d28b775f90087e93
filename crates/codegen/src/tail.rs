//! What stays at the end of a block.
//!
//! Lanes that meet at BSYNC go on where the region was opened to, those that leave a collective operation where it says: at the
//! block behind. So nothing may stand between these and the terminator, nor inside a collective operation, whose instructions
//! lanes of other places execute, too.
//!
//! And what stays together inside one: instructions that never execute and the one behind them.

use orias_ori::{AbstractOp, Function, Inst, Opcode, PhysReg, Reg};
use orias_sass::Op;

fn machine_op(func: &Function, inst: Inst) -> Option<Op> {
    func.opcode(inst).as_machine()
}

/// Whether lanes go on elsewhere behind `inst`, which is no terminator.
pub(crate) fn goes_on_elsewhere(func: &Function, inst: Inst) -> bool {
    matches!(machine_op(func, inst), Some(Op::BSYNC | Op::ENDCOLLECTIVE))
}

/// Whether lanes may have to wait at `inst` for others of their warp, which run meanwhile.
pub(crate) fn may_wait_for_lanes(func: &Function, inst: Inst) -> bool {
    goes_on_elsewhere(func, inst)
        || matches!(
            machine_op(func, inst),
            Some(
                Op::WARPSYNC
                    | Op::WARPSYNC_ALL
                    | Op::WARPSYNC_COLLECTIVE
                    | Op::WARPSYNC_COLLECTIVE_ALL
                    | Op::NANOSLEEP
                    | Op::YIELD
            )
        )
}

/// Whether anything of the function runs behind `call`. Where one comes back to, a block may begin.
pub(crate) fn returns(func: &Function, call: Inst) -> bool {
    let mut behind = func.layout.next_inst(call);
    let ends_block =
        behind.is_none_or(|inst| func.opcode(inst) == Opcode::Abstract(AbstractOp::FallThrough));
    if ends_block && let Some(block) = func.layout.inst_block(call) {
        let next = func.successors(block).next();
        behind = next.and_then(|next| func.layout.first_inst(next));
    }
    let ends = |inst: Inst| match func.opcode(inst) {
        Opcode::Abstract(op) => op == AbstractOp::Unreachable,
        Opcode::Machine(op) => op == Op::EXIT && func.inst(inst).guard().is_always(),
    };
    !behind.is_some_and(ends)
}

/// The instruction that began the collective operation which `end` ends.
pub(crate) fn collective_start(func: &Function, end: Inst) -> Option<Inst> {
    let before = |&inst: &Inst| func.layout.prev_inst(inst);
    let mut insts = std::iter::successors(before(&end), before);
    insts.find(|&inst| machine_op(func, inst) == Some(Op::WARPSYNC_COLLECTIVE_ALL))
}

/// The first instruction of the tail that the terminator `end` is the last of.
pub(crate) fn tail_start(func: &Function, end: Inst) -> Inst {
    let mut at = end;
    while let Some(before) = func.layout.prev_inst(at)
        && goes_on_elsewhere(func, before)
    {
        at = match machine_op(func, before) {
            Some(Op::ENDCOLLECTIVE) => collective_start(func, before).unwrap_or(before),
            _ => before,
        };
    }
    at
}

/// The first of the instructions that stay in front of `inst` and never execute, as `@!PT LDS RZ, [RZ]` does before a copy; or `inst`. They read and
/// write nothing, so what `inst` needs may come before them.
pub(crate) fn group_start(func: &Function, inst: Inst) -> Inst {
    let never = |&inst: &Inst| {
        let guard = func.inst(inst).guard();
        guard.is_negated() && guard.reg() == Some(Reg::from(PhysReg::PT))
    };
    let before = |&inst: &Inst| func.layout.prev_inst(inst).filter(never);
    std::iter::successors(Some(inst), before)
        .last()
        .unwrap_or(inst)
}
