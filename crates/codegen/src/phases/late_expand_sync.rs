//! LateExpandSyncInstructions (72): what reports errors behind the fences that ask for it.
//!
//! A fence beyond the thread block is `MEMBAR` followed by `ERRBAR` and `CGAERRBAR`: what went wrong with accesses before it is reported before anything behind it runs. Selection marks the fences
//! for which ptxas has them ([`orias_ori::Function::set_strong`]); phase 71 looks at marked fences as one instruction; here they become three, at every level, as in ptxas's code. With the knob
//! `DisableErrbarAfterMembar` they stay one.
//!
//! With `--make-errors-visible-at-exit` (knob `GenErrbarAtExit`) the two also stand before every EXIT, under its guard, so that faults show before a kernel ends.
//!
//! Other synchronisation has no pseudo-operations left here: barriers, WARPSYNC and regions are machine instructions since selection.
//! `ExpandSyncInstLate`, which would make regions only now, is refused as ptxas refuses it where a target has no use for it.
//!
//! Cost: one walk.

use crate::knobs::registry::{DISABLE_ERRBAR, EXPAND_SYNC_LATE, GEN_ERRBAR_AT_EXIT};
use crate::pipeline::{Context, PhaseError};
use orias_ori::builder::{BuildError, Cursor};
use orias_ori::{Function, Inst};
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
            report(func, inst, false)?;
        }
    }
    if context.knobs.bool(&GEN_ERRBAR_AT_EXIT) {
        let exits: Vec<Inst> = func
            .blocks()
            .flat_map(|block| func.block_insts(block))
            .filter(|&inst| func.opcode(inst).as_machine() == Some(Op::EXIT))
            .collect();
        for inst in exits {
            report(func, inst, true)?;
        }
    }
    Ok(())
}

/// Puts what reports errors behind a fence or before an exit, under its guard.
fn report(func: &mut Function, inst: Inst, before: bool) -> Result<(), PhaseError> {
    let made = match before {
        true => report_before(func, inst),
        false => report_behind(func, inst),
    };
    made.map_err(|error| PhaseError::Broken {
        at: error.inst.clone(),
        what: error.to_string(),
    })
}

fn report_before(func: &mut Function, inst: Inst) -> Result<(), BuildError> {
    let guard = func.inst(inst).guard();
    let span = func.inst(inst).span();
    let mut cursor = Cursor::before(func, inst);
    cursor.set_span(span);
    for op in [Op::ERRBAR, Op::CGAERRBAR] {
        cursor.build(op).guard(guard).finish()?;
    }
    Ok(())
}

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
