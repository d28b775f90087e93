//! What the graph must know of an operation, whatever its operands: worked out when the operation is first met.

use super::latency::expected;
use crate::schedule::graph::Heat;
use crate::schedule::local;
use crate::schedule::order::{self, Order};
use crate::schedule::units::Pipe;
use orias_machine::issue::{self, Unit};
use orias_machine::timing::{self, Completion};
use orias_sass::{MemoryEffect, Op, Space};
use std::sync::OnceLock;

/// What is known of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperationFacts {
    pub(super) class: Option<timing::Class>,
    pub(super) unit: Unit,
    pub(super) keeps: &'static [(Unit, u8)],
    pub(super) pipe: Pipe,
    pub(super) least_stall: u8,
    /// Cycles until its slowest result can be used.
    pub(super) latency: u16,
    /// Whether that is a fixed number.
    pub(super) fixed: bool,
    /// Whether it goes through the queue that reads general registers in order.
    pub(super) reads_in_order: bool,
    /// Cycles that must pass behind it where it is a fence.
    pub(super) after_fence: u16,
    pub(super) touches_memory: bool,
    pub(super) loads: bool,
    pub(super) stores: bool,
    pub(super) heat: Heat,
    /// Whether it loads from local memory.
    pub(super) loads_local: bool,
    /// What order its row asks for.
    pub(super) order: Order,
    /// Whether it touches registers without naming them.
    pub(super) implicit: bool,
}

/// For what is no machine operation.
pub(super) const PSEUDO: OperationFacts = OperationFacts {
    class: None,
    unit: Unit::Control,
    keeps: &[],
    pipe: Pipe::Branch,
    least_stall: 0,
    latency: 0,
    fixed: true,
    reads_in_order: false,
    after_fence: 0,
    touches_memory: false,
    loads: false,
    stores: false,
    heat: Heat::Neither,
    loads_local: false,
    order: Order::NONE,
    implicit: false,
};

/// What is known of `op`.
pub(super) fn of(op: Op) -> &'static OperationFacts {
    static FACTS: [OnceLock<OperationFacts>; Op::COUNT] = [const { OnceLock::new() }; Op::COUNT];
    FACTS[op.index()].get_or_init(|| work_out(op))
}

fn work_out(op: Op) -> OperationFacts {
    let timing = timing::of(op);
    let issue = issue::of_operation(op);
    let row = op.row();
    let least = u16::from(issue.least_stall);
    let settles = timing.is_some_and(|timing| timing.settles);
    OperationFacts {
        class: timing.map(|timing| timing.class),
        unit: issue.unit,
        keeps: issue.keeps,
        pipe: Pipe::of(op, issue.unit, timing.as_ref()),
        least_stall: issue.least_stall,
        latency: timing.map_or(0, |timing| expected(&timing)),
        fixed: timing.is_none_or(|timing| timing.completion == Completion::Fixed),
        reads_in_order: timing.is_some_and(|timing| timing.reads_in_order),
        after_fence: if settles {
            least.max(timing::BARRIER_SETTLES)
        } else {
            least
        },
        touches_memory: !row.memory.is_empty(),
        loads: row.memory.iter().any(|memory| memory.reads),
        stores: row.memory.iter().any(|memory| memory.writes),
        heat: heat(row.memory),
        loads_local: local::is_load(op),
        order: order::of_operation(op),
        implicit: !row.implicit.is_empty(),
    }
}

/// Constant memory is cold, global memory is hot.
fn heat(memory: &[MemoryEffect]) -> Heat {
    let touches = |spaces: &[Space]| memory.iter().any(|memory| spaces.contains(&memory.space));
    if touches(&[Space::Constant]) {
        Heat::Cold
    } else if touches(&[Space::Global, Space::Generic]) {
        Heat::Hot
    } else {
        Heat::Neither
    }
}
