//! Mbarriers, the barrier of a cluster, and stores that tell an mbarrier of another thread block.
//!
//! Under a guard they stand behind a branch: the instructions that set up an mbarrier have no guard of their own that lanes could differ
//! in, and those of a cluster's barrier are for whole warps.

use super::body::{Body, Lowered, Statement, unsupported};
use super::modifiers::{self, modifier};
use super::movement::pack_elements;
use super::operands::{bits, scalar};
use crate::emit::imm;
use orias_ori::operation::{
    AbstractOp, Aligned, Arrive, Compare, Order, Reduce, Scalar, Scope, Space, Special, Step,
    Vector, Wait,
};
use orias_ori::{Operand, Type};
use orias_ptx::grammar::OperandName;
use orias_ptx::grammar::operand_names as operand;
use orias_ptx::grammar::{Modifier, Op};

/// The place of the operand that the grammar calls `name`.
fn index_of(statement: &Statement<'_>, name: OperandName) -> Option<usize> {
    let given = statement.patterns.iter().take(statement.operands.len());
    given.into_iter().position(|pattern| pattern.is(name))
}

/// The memory operand of that name: an address in shared memory, of this block or of the cluster, or a generic one.
fn address(
    body: &mut Body<'_, '_>,
    statement: &Statement<'_>,
    name: OperandName,
) -> Lowered<(Operand, Space)> {
    let Some(index) = index_of(statement, name) else {
        return unsupported("");
    };
    let space = modifiers::space(statement.form);
    let (address, space) = body.address(statement, index, space)?;
    Ok((body.func.create_address(address), space))
}

/// The word operand of that name, if it is there.
fn word(body: &mut Body<'_, '_>, statement: &Statement<'_>, name: OperandName) -> Lowered<Operand> {
    match index_of(statement, name) {
        Some(index) => body.source(statement, index),
        None => Ok(Operand::None),
    }
}

/// `mbarrier.init`, `.inval`, `.expect_tx` and `.complete_tx`
pub(super) fn adjust(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let (step, operand) = match statement.op {
        Op::MbarrierInit => (Step::Init, Some(operand::COUNT)),
        Op::MbarrierInval => (Step::Inval, None),
        Op::MbarrierExpectTx => (Step::ExpectTx, Some(operand::TXCOUNT)),
        _ => (Step::CompleteTx, Some(operand::TXCOUNT)),
    };
    body.branch_if_guarded(|body| {
        let scope = modifier(statement.form).unwrap_or(Scope::Cta);
        let (place, space) = address(body, statement, operand::A)?;
        let count = match operand {
            Some(name) => word(body, statement, name)?,
            None => Operand::None,
        };
        let mods = (step, scope, space);
        body.assign(AbstractOp::Mbarrier, mods, &[], &[place, count])
    })
}

/// `mbarrier.arrive` and `.arrive_drop`, with and without `.expect_tx` and `.noComplete`
pub(super) fn arrive(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let incomplete = statement.form.has(Modifier::NoComplete);
    let (kind, operand) = match (statement.op, incomplete) {
        (Op::MbarrierArrive, false) => (Arrive::Arrive, operand::COUNT),
        (Op::MbarrierArrive, true) => (Arrive::NoComplete, operand::COUNT),
        (Op::MbarrierArriveDrop, false) => (Arrive::Drop, operand::COUNT),
        (Op::MbarrierArriveDrop, true) => (Arrive::DropNoComplete, operand::COUNT),
        (Op::MbarrierArriveExpectTx, _) => (Arrive::ExpectTx, operand::TXCOUNT),
        _ => (Arrive::DropExpectTx, operand::TXCOUNT),
    };
    body.branch_if_guarded(|body| {
        let order = modifier(statement.form).unwrap_or(Order::Release);
        let scope = modifier(statement.form).unwrap_or(Scope::Cta);
        let (place, space) = address(body, statement, operand::A)?;
        let count = word(body, statement, operand)?;
        let state = body.destination(statement, 0)?.or_unused(Type::R2);
        let mods = (kind, order, scope, space);
        body.assign(AbstractOp::MbarrierArrive, mods, &[state], &[place, count])
    })
}

/// `mbarrier.test_wait` and `.try_wait`
pub(super) fn wait(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let (kind, operand) = match statement.op {
        Op::MbarrierTestWait => (Wait::Test, operand::STATE),
        Op::MbarrierTestWaitParity => (Wait::TestParity, operand::PARITY),
        Op::MbarrierTryWait => (Wait::Try, operand::STATE),
        _ => (Wait::TryParity, operand::PARITY),
    };
    body.branch_if_guarded(|body| {
        let order = modifier(statement.form).unwrap_or(Order::Acquire);
        let scope = modifier(statement.form).unwrap_or(Scope::Cta);
        let (place, _) = address(body, statement, operand::A)?;
        let Some(index) = index_of(statement, operand) else {
            return unsupported("");
        };
        let phase = body.source_value(statement, index)?.into();
        let limit = word(body, statement, operand::TIMEHINT)?;
        let over = body.destination(statement, 0)?.or_unused(Type::P);
        let mods = (kind, order, scope);
        body.assign(
            AbstractOp::MbarrierWait,
            mods,
            &[over],
            &[place, phase, limit],
        )
    })
}

/// `cp.async.mbarrier.arrive`
pub(super) fn arrive_after_copies(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let counted = statement.form.has(Modifier::Noinc);
    body.branch_if_guarded(|body| {
        let (place, _) = address(body, statement, operand::A)?;
        let counted = imm(u64::from(counted));
        body.assign(AbstractOp::CpAsyncArrive, (), &[], &[place, counted])
    })
}

/// `barrier.cluster.arrive` and `.wait`
pub(super) fn cluster(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let aligned = match statement.form.has(Modifier::Aligned) {
        true => Aligned::Aligned,
        false => Aligned::Any,
    };
    let (op, order) = match statement.op {
        Op::BarrierClusterArrive => (AbstractOp::ClusterArrive, Order::Release),
        _ => (AbstractOp::ClusterWait, Order::Acquire),
    };
    let order = modifier(statement.form).unwrap_or(order);
    body.branch_if_guarded(|body| {
        if body.explicit_cluster {
            return body.assign(op, (order, aligned), &[], &[]);
        }
        // A launch without clusters has a barrier of its own: that of the thread block, at which arriving is no instruction.
        let explicit = (Special::IsExplicitCluster,);
        let explicit = body.compute(AbstractOp::Sreg, explicit, &[])?;
        let mods = (Compare::Eq, Scalar::U32);
        let clusters = body.compute(AbstractOp::Setp, mods, &[explicit, imm(1)])?;
        let [with, without, on] = [(); 3].map(|()| body.func.create_block());
        let waits = op == AbstractOp::ClusterWait;
        let otherwise = if waits { without } else { on };
        body.end(AbstractOp::CondBr, &[clusters], &[with, otherwise]);
        body.open(with);
        body.assign(op, (order, aligned), &[], &[])?;
        if waits {
            body.end(AbstractOp::Br, &[], &[on]);
            body.open(without);
            body.barriers = body.barriers.max(1);
            let operands = [imm(0), Operand::None];
            body.assign(AbstractOp::Bar, (aligned,), &[], &operands)?;
        }
        body.open(on);
        Ok(())
    })
}

/// `st.async` and `red.async` to shared memory of the cluster
pub(super) fn telling(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let form = statement.form;
    if index_of(statement, operand::MBAR).is_none() {
        return unsupported("");
    }
    let (Some(ty), Some(value)) = (form.types().last(), index_of(statement, operand::B)) else {
        return unsupported("");
    };
    body.branch_if_guarded(|body| {
        let (place, _) = address(body, statement, operand::A)?;
        let (barrier, _) = address(body, statement, operand::MBAR)?;
        let elements = body.elements(statement, &statement.operands[value], ty)?;
        let packed: Operand = match elements[..] {
            [one] => one,
            _ => body
                .with(|emit| pack_elements(emit, &elements, ty.bits()))?
                .into(),
        };
        let packed = match elements.len() {
            1 => body.in_registers(packed, ty.bits())?.into(),
            _ => packed,
        };
        let operands = [place, packed, barrier];
        match statement.op {
            Op::StAsync => {
                let count: Vector = super::memory::vector(elements.len());
                let mods = (count, bits(ty.bits()));
                body.assign(AbstractOp::StAsync, mods, &[], &operands)
            }
            _ => {
                let Some(reduce) = modifier::<Reduce>(form) else {
                    return unsupported("");
                };
                let mods = (reduce, scalar(ty)?);
                body.assign(AbstractOp::RedAsync, mods, &[], &operands)
            }
        }
    })
}
