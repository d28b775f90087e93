//! LateExpandSyncInstructions (72): what reports errors behind the fences that ask for it.
//!
//! A fence beyond the thread block is `MEMBAR` followed by `ERRBAR` and `CGAERRBAR`: what went wrong with accesses before it is reported before anything behind it runs. Selection marks the fences
//! for which ptxas has them ([`orias_ori::Function::set_strong`]); phase 71 looks at marked fences as one instruction; here they become three, at every level, as in ptxas's code. With the knob
//! `DisableErrbarAfterMembar` they stay one.
//!
//! Other synchronisation has no pseudo-operations left here: barriers, WARPSYNC and regions are machine instructions since selection.
//! `ExpandSyncInstLate`, which would make regions only now, is refused as ptxas refuses it where a target has no use for it.
//!
//! Cost: one walk.

use crate::knobs::registry::{DISABLE_ERRBAR, EXPAND_SYNC_LATE};
use crate::pipeline::{Context, PhaseError};
use orias_ori::builder::{BuildError, Cursor};
use orias_ori::{Function, Inst, Operation};
use orias_sass::Op;

/// What the knob gets for an answer.
const NOT_HERE: &str = "ExpandSyncInstLate option is not supported on this architecture.";

/// Runs the phase.
pub fn late_expand_sync(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    if context.knobs.bool(&EXPAND_SYNC_LATE) {
        return Err(PhaseError::Refused(NOT_HERE));
    }
    let marked: Vec<Inst> = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .filter(|&inst| {
            func.opcode(inst).as_machine() == Some(Op::MEMBAR) && func.inst(inst).is_strong()
        })
        .collect();
    for inst in marked {
        func.set_strong(inst, false);
        if !context.knobs.bool(&DISABLE_ERRBAR) {
            report_behind(func, inst).map_err(|error| PhaseError::Broken {
                at: orias_ori::print_inst(func, inst),
                what: error.to_string(),
            })?;
        }
    }
    Ok(())
}

/// Puts what reports errors behind a fence, under its guard.
fn report_behind(func: &mut Function, inst: Inst) -> Result<(), BuildError> {
    let guard = func.inst(inst).guard();
    let span = func.inst(inst).span();
    let mut behind = inst;
    for op in [Op::ERRBAR, Op::CGAERRBAR] {
        let mut cursor = Cursor::after(func, behind);
        cursor.set_span(span);
        behind = cursor.build(op).guard(guard).finish()?;
    }
    Ok(())
}

/// The name of the value that a modifier of a machine instruction has.
pub(super) fn modifier(func: &Function, inst: Inst, name: &str) -> Option<&'static str> {
    let Operation::Machine(op, mods) = func.inst(inst).operation() else {
        return None;
    };
    let modifier = op.row().modifier(name)?;
    let value = mods.get(modifier);
    let found = modifier.values.iter().find(|it| it.value == value);
    found.map(|it| it.name)
}
