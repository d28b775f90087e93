//! Branches, returns and other ends, and the odds of control.

use super::body::{Body, Lowered, Statement, unsupported};
use crate::emit::imm;
use orias_ori::Block;
use orias_ori::operation::AbstractOp;
use orias_ptx::ast::{OperandKind, TargetListKind};
use orias_ptx::grammar::Modifier;

/// `bra`
pub(super) fn branch(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let Some(OperandKind::Label(label)) = statement.operands.first().map(|it| it.kind) else {
        return unsupported("");
    };
    let target = body.label(label);
    match body.guard.take() {
        None => body.end(AbstractOp::Br, &[], &[target]),
        Some(guard) => {
            let on = body.func.create_block();
            body.end(AbstractOp::CondBr, &[guard], &[target, on]);
            body.open(on);
        }
    }
    Ok(())
}

/// `brx.idx`
pub(super) fn branch_indexed(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let index = body.source(statement, 0)?;
    let Some(OperandKind::List(list)) = statement.operands.get(1).map(|it| it.kind) else {
        return unsupported("");
    };
    let TargetListKind::Branch(labels) = &statement.body.lists[list.index()].kind else {
        return unsupported("");
    };
    body.branch_if_guarded(|body| {
        let targets: Vec<Block> = labels.iter().map(|&label| body.label(label)).collect();
        if targets.is_empty() {
            body.end(AbstractOp::Unreachable, &[], &[]);
        } else {
            body.end(AbstractOp::Switch, &[index], &targets);
        }
        Ok(())
    })
}

/// `ret`
pub(super) fn ret(body: &mut Body<'_, '_>, _: &Statement<'_>) -> Lowered {
    body.branch_if_guarded(|body| {
        body.return_from();
        Ok(())
    })
}

/// `exit`
pub(super) fn exit(body: &mut Body<'_, '_>, _: &Statement<'_>) -> Lowered {
    body.branch_if_guarded(|body| {
        body.end(AbstractOp::Exit, &[], &[]);
        Ok(())
    })
}

/// `trap`
pub(super) fn trap(body: &mut Body<'_, '_>, _: &Statement<'_>) -> Lowered {
    body.branch_if_guarded(|body| {
        body.end(AbstractOp::Trap, &[], &[]);
        Ok(())
    })
}

/// `pmevent` names an event by number, `pmevent.mask` several.
pub(super) fn performance_event(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let event = body.immediate(statement, 0)?;
    body.assign(AbstractOp::PmEvent, (), &[], &[imm(1 << (event & 15))])
}

/// `setmaxnreg`
pub(super) fn set_max_registers(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let count = body.immediate(statement, 0)?;
    let more = u64::from(statement.form.has(Modifier::Inc));
    body.assign(AbstractOp::SetMaxNReg, (), &[], &[imm(count), imm(more)])
}

impl Body<'_, '_> {
    /// Ends the block with a return from the function being lowered.
    pub fn return_from(&mut self) {
        match self.frames.last().and_then(|frame| frame.after) {
            Some(after) => self.end(AbstractOp::Br, &[], &[after]),
            None => self.end(AbstractOp::Exit, &[], &[]),
        }
    }
}
