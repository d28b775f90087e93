//! Barriers, fences, and what the lanes of a warp do together.

use super::body::{Body, Destination, Lowered, Statement, unsupported};
use super::modifiers::{modifier, set};
use super::rules::places;
use orias_ori::operation::{AbstractOp, Aligned, Combine, Match, Order, Proxy, Scope, Vote};
use orias_ori::{Operand, Type};
use orias_ptx::grammar::{Access, Modifier, Op};

/// `bar`, `barrier` and their variants.
pub(super) fn barrier(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    // The older names are for whole warps; the newer ones say so.
    let of_warps = matches!(
        statement.op,
        Op::BarSync
            | Op::BarCtaSync
            | Op::BarArrive
            | Op::BarCtaArrive
            | Op::BarRed
            | Op::BarCtaRed
    );
    if of_warps || statement.form.has(Modifier::Aligned) {
        return barrier_for(body, statement, Aligned::Aligned);
    }
    // Lanes of other places may execute it: it has no guard that only this place knows.
    body.branch_if_guarded(|body| barrier_for(body, statement, Aligned::Any))
}

fn barrier_for(body: &mut Body<'_, '_>, statement: &Statement<'_>, aligned: Aligned) -> Lowered {
    let mut destinations = Vec::new();
    let mut operands = Vec::new();
    for (index, pattern) in statement.patterns.iter().enumerate() {
        if pattern.access == Access::Write {
            destinations.push(body.destination(statement, index)?);
        } else {
            operands.push(body.source(statement, index)?);
        }
    }
    let used = match operands.first() {
        Some(Operand::Imm(number)) => number.bits() as u32 + 1,
        _ => 16,
    };
    body.barriers = body.barriers.max(used);
    match statement.op {
        Op::BarArrive | Op::BarCtaArrive | Op::BarrierArrive | Op::BarrierCtaArrive => {
            body.assign(AbstractOp::BarArrive, (aligned,), &[], &operands)
        }
        Op::BarRed | Op::BarCtaRed | Op::BarrierRed | Op::BarrierCtaRed => {
            let popc = statement.form.has(Modifier::Popc);
            if operands.len() == 2 {
                operands.insert(1, Operand::None);
            }
            if popc {
                let destination = destinations[0].or_unused(Type::R);
                return body.assign(
                    AbstractOp::BarRedPopc,
                    (aligned,),
                    &[destination],
                    &operands,
                );
            }
            let Some(combine) = modifier::<Combine>(statement.form) else {
                return unsupported("");
            };
            let destination = destinations[0].or_unused(Type::P);
            let mods = (combine, aligned);
            body.assign(AbstractOp::BarRed, mods, &[destination], &operands)
        }
        _ => {
            if operands.len() == 1 {
                operands.push(Operand::None);
            }
            body.assign(AbstractOp::Bar, (aligned,), &[], &operands)
        }
    }
}

/// `membar` and `fence`. `membar` is `fence.sc`; a fence that does not say is `.acq_rel`.
pub(super) fn fence(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let form = statement.form;
    if form.has(Modifier::MbarrierInit) {
        return body.assign(AbstractOp::FenceMbarrierInit, (), &[], &[]);
    }
    if is_restricted(form) {
        return restricted_fence(body, statement);
    }
    let scope = if form.has(Modifier::Gl) {
        Scope::Gpu
    } else {
        modifier(form).unwrap_or(Scope::Gpu)
    };
    let order = match statement.op {
        Op::Membar => Order::Sc,
        _ => modifier(form).unwrap_or(Order::AcqRel),
    };
    body.assign(AbstractOp::Fence, (order, scope), &[], &[])
}

/// Whether a fence is for mbarriers and what they announce only.
fn is_restricted(form: &orias_ptx::opcode::Form) -> bool {
    form.has(Modifier::SyncRestrictSharedCta) || form.has(Modifier::SyncRestrictSharedCluster)
}

/// A fence for mbarriers and what they announce only: who releases orders accesses to shared memory before them, who acquires has nothing to do.
fn restricted_fence(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    if statement.form.has(Modifier::Acquire) {
        return body.assign(AbstractOp::FenceMbarrierInit, (), &[], &[]);
    }
    let mods = (Proxy::AsyncShared,);
    let none = [Operand::None, Operand::None];
    body.assign(AbstractOp::FenceProxy, mods, &[], &none)
}

/// `fence.proxy` for generic and asynchronous accesses.
pub(super) fn fence_proxy(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let form = statement.form;
    let has = |modifier| form.has(modifier);
    if is_restricted(form) {
        return restricted_fence(body, statement);
    }
    let proxy = if has(Modifier::Alias) {
        Proxy::Alias
    } else if has(Modifier::Async) {
        match () {
            () if has(Modifier::Global) => Proxy::AsyncGlobal,
            () if has(Modifier::SharedCta) => Proxy::AsyncShared,
            () if has(Modifier::SharedCluster) => Proxy::AsyncSharedCluster,
            () => Proxy::Async,
        }
    } else if has(Modifier::TensormapGeneric) {
        return super::tensormap::fence(body, statement);
    } else {
        return unsupported("");
    };
    body.assign(
        AbstractOp::FenceProxy,
        (proxy,),
        &[],
        &[Operand::None, Operand::None],
    )
}

/// `shfl`, with `.sync` and without
pub(super) fn shuffle(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let mods = body.carried(statement, AbstractOp::Shfl)?;
    let (first, second) = body.destinations(statement, 0)?;
    let mut operands = Vec::with_capacity(4);
    for index in 1..statement.operands.len() {
        operands.push(body.source(statement, index)?);
    }
    if operands.len() == 3 {
        operands.push(lanes_that_run(body)?);
    }
    if operands.len() != 4 {
        return unsupported("");
    }
    let first = first.or_unused(Type::R);
    body.assign(AbstractOp::Shfl, mods, &[first, second], &operands)
}

/// The mask of what PTX before 6.4 can leave without `.sync`: the lanes that run.
fn lanes_that_run(body: &mut Body<'_, '_>) -> Lowered<Operand> {
    body.compute(AbstractOp::ActiveMask, (), &[])
}

/// `vote`, with `.sync` and without
pub(super) fn vote(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let (destinations, mut operands) = places(body, statement)?;
    let Some(kind) = modifier::<Vote>(statement.form) else {
        return unsupported("");
    };
    if operands.len() == 1 {
        operands.push(lanes_that_run(body)?);
    }
    if operands.len() != 2 {
        return unsupported("");
    }
    if kind == Vote::Ballot {
        return body.assign(AbstractOp::Ballot, (), &destinations, &operands);
    }
    body.assign(AbstractOp::VotePred, (kind,), &destinations, &operands)
}

/// `match.any.sync` and `match.all.sync`
pub(super) fn match_lanes(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let kind = if statement.form.has(Modifier::All) {
        Match::All
    } else {
        Match::Any
    };
    let mods = body.carried(statement, AbstractOp::MatchLanes)?;
    let mods = set(AbstractOp::MatchLanes, mods, kind);
    let (first, second) = body.destinations(statement, 0)?;
    let operands = [body.source(statement, 1)?, body.source(statement, 2)?];
    let first = first.or_unused(Type::R);
    body.assign(AbstractOp::MatchLanes, mods, &[first, second], &operands)
}

/// `elect.sync`
pub(super) fn elect(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let (first, second) = body.destinations(statement, 0)?;
    let mask = body.source(statement, 1)?;
    let second = match second {
        Destination::None => Destination::Unused(Type::P),
        other => other,
    };
    body.assign(AbstractOp::Elect, (), &[first, second], &[mask])
}

/// `griddepcontrol`
pub(super) fn grid_dependency(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let op = if statement.form.has(Modifier::Wait) {
        AbstractOp::GridDepWait
    } else {
        AbstractOp::GridDepLaunch
    };
    body.assign(op, (), &[], &[])
}
