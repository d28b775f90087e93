//! What the graph must know of an operation, whatever its operands: worked out when the operation is first met.

use super::latency::expected;
use crate::schedule::graph::Heat;
use crate::schedule::local;
use crate::schedule::order::{self, Order};
use crate::schedule::units::Pipe;
use orias_machine::issue::{Issue, Unit};
use orias_machine::operation_cache::OperationCache;
use orias_machine::timing::{self, Completion};
use orias_machine::{Machine, PerMachine};
use orias_sass::{
    Effects, MemoryEffect, Mnemonic, Modifier, ModifierName, Op, Space, ValueName,
    modifier_names as name, modifier_values as value,
};

/// What an operation has to do with runs ([`super::runs`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::schedule) enum RunRole {
    /// Nothing.
    None,
    /// Hands registers over to matrix operations of the warpgroup.
    Arrives,
    /// Is one of them.
    Matrix,
    /// Makes the address to which a call returns.
    Address,
    /// Calls.
    Calls,
}

/// What is known of an operation.
#[derive(Clone, Copy, Debug)]
pub(in crate::schedule) struct OperationFacts {
    pub(super) class: Option<timing::Class>,
    pub(super) issue: Issue,
    pub(super) pipe: Pipe,
    /// Cycles until its slowest result can be used.
    pub(super) latency: u16,
    /// Whether that is a fixed number.
    pub(super) fixed: bool,
    /// Whether it goes through the queue that reads general registers in order.
    pub(super) reads_in_order: bool,
    /// Cycles that must pass behind it where it is a fence.
    pub(super) after_fence: u16,
    pub(in crate::schedule) touches_memory: bool,
    pub(super) loads: bool,
    pub(super) stores: bool,
    /// Cycles until others see what it tells them, if it is there for that.
    pub(super) signals: u16,
    pub(super) heat: Heat,
    /// Whether it loads from local memory.
    pub(super) loads_local: bool,
    /// What order its row asks for.
    pub(in crate::schedule) order: Order,
    /// Whether it touches registers without naming them.
    pub(super) implicit: bool,
    /// Whether what it reads may change by itself.
    pub(in crate::schedule) is_volatile: bool,
    pub(in crate::schedule) is_atomic: bool,
    /// Whether it is a plain store to global memory and nothing else, whatever its order.
    pub(super) stores_global: bool,
    /// The modifiers of an access: its order, its size, the scale of its base.
    pub(in crate::schedule) order_modifier: Option<&'static Modifier>,
    /// The encodings of the order that say that nobody writes there while the kernel runs, and those that other accesses must not
    /// pass; a bit for each.
    pub(in crate::schedule) read_only_orders: u16,
    pub(in crate::schedule) strong_orders: u16,
    pub(in crate::schedule) size_modifier: Option<&'static Modifier>,
    pub(in crate::schedule) scale_modifier: Option<&'static Modifier>,
    pub(super) run: RunRole,
}

/// For what is no machine operation.
pub(super) const PSEUDO: OperationFacts = OperationFacts {
    class: None,
    issue: Issue {
        unit: Unit::Control,
        keeps: &[],
        least_stall: 0,
        extra_cycles: 0,
        drains: false,
        waits: true,
    },
    pipe: Pipe::Branch,
    latency: 0,
    fixed: true,
    reads_in_order: false,
    after_fence: 0,
    touches_memory: false,
    loads: false,
    stores: false,
    signals: 0,
    heat: Heat::Neither,
    loads_local: false,
    order: Order::NONE,
    implicit: false,
    is_volatile: false,
    is_atomic: false,
    stores_global: false,
    order_modifier: None,
    read_only_orders: 0,
    strong_orders: 0,
    size_modifier: None,
    scale_modifier: None,
    run: RunRole::None,
};

/// What is known of `op`.
#[inline]
pub(in crate::schedule) fn of(machine: &Machine, op: Op) -> &'static OperationFacts {
    static FACTS: PerMachine<OperationCache<OperationFacts>> = PerMachine::empty();
    FACTS.of(machine).get_or_init(op, || work_out(machine, op))
}

fn work_out(machine: &Machine, op: Op) -> OperationFacts {
    let timing = machine.timing(op);
    let issue = machine.issue_of_operation(op);
    let row = op.row();
    let least = u16::from(issue.least_stall);
    let settles = timing.is_some_and(|timing| timing.settles);
    OperationFacts {
        class: timing.map(|timing| timing.class),
        issue,
        pipe: Pipe::of(op, issue.unit, timing.as_ref()),
        latency: timing.map_or(0, |timing| expected(&timing)),
        fixed: timing.is_none_or(|timing| timing.completion == Completion::Fixed),
        reads_in_order: timing.is_some_and(|timing| timing.reads_in_order),
        after_fence: if settles {
            least.max(machine.limits.barrier_settles)
        } else {
            least
        },
        touches_memory: !row.memory.is_empty(),
        loads: row.memory.iter().any(|memory| memory.reads),
        stores: row.memory.iter().any(|memory| memory.writes),
        signals: match tells_others(op) {
            // Who looks at an mbarrier finds it in shared memory.
            true => machine.timing(Op::LDS).map_or(0, |it| expected(&it)),
            false => 0,
        },
        heat: heat(row.memory),
        loads_local: local::is_load(op),
        order: order::of_operation(op),
        implicit: !row.implicit.is_empty(),
        is_volatile: row.effects.contains(Effects::VOLATILE),
        is_atomic: row.memory.iter().any(|memory| memory.atomic),
        stores_global: match row.memory {
            [only] => only.space == Space::Global && only.writes && !only.reads && !only.atomic,
            _ => false,
        },
        order_modifier: accessed(op, name::ORDER),
        read_only_orders: encodings(accessed(op, name::ORDER), is_read_only),
        strong_orders: encodings(accessed(op, name::ORDER), is_strong),
        size_modifier: accessed(op, name::SIZE),
        scale_modifier: accessed(op, name::XS),
        run: if op == Op::WARPGROUP_ARRIVE {
            RunRole::Arrives
        } else if machine.is_warpgroup_matrix(op) {
            RunRole::Matrix
        } else if matches!(op, Op::LEPC | Op::LEPC_T) {
            RunRole::Address
        } else if row.effects.contains(Effects::CALL) {
            RunRole::Calls
        } else {
            RunRole::None
        },
    }
}

/// Whether somebody may wait for what `op` does, and it is done for nothing else: an arrival at an mbarrier, a copy that is begun.
fn tells_others(op: Op) -> bool {
    op == Op::SYNCS_ARRIVE || matches!(op.mnemonic(), Mnemonic::UBLKCP | Mnemonic::UTMALDG)
}

/// A modifier of an operation that touches memory.
fn accessed(op: Op, name: ModifierName) -> Option<&'static Modifier> {
    let row = op.row();
    (!row.memory.is_empty()).then(|| row.modifier(name))?
}

/// The encodings of the values for which `holds`, a bit for each.
fn encodings(modifier: Option<&Modifier>, holds: impl Fn(ValueName) -> bool) -> u16 {
    let values = modifier.map_or(&[][..], |modifier| modifier.values);
    let chosen = values.iter().filter(|value| holds(value.id()));
    chosen.fold(0, |bits, value| bits | 1 << value.value)
}

/// Whether an order is of memory that nobody writes while the kernel runs.
fn is_read_only(order: ValueName) -> bool {
    matches!(
        order,
        value::CONSTANT
            | value::CONSTANT_PRIVATE
            | value::CONSTANT_CTA
            | value::CONSTANT_CTA_PRIVATE
            | value::CONSTANT_SM
            | value::CONSTANT_SM_PRIVATE
            | value::CONSTANT_VC
            | value::CONSTANT_VC_PRIVATE
            | value::CONSTANT_GPU
    )
}

/// Whether an order is of a strong access: volatile, relaxed with a scope, acquire or release, which are encoded alike.
fn is_strong(order: ValueName) -> bool {
    matches!(
        order,
        value::STRONG_SM
            | value::STRONG_SM_PRIVATE
            | value::STRONG_GPU
            | value::STRONG_GPU_PRIVATE
            | value::STRONG_SYS
            | value::MMIO
            | value::MMIO_CTA
            | value::MMIO_CTA_PRIVATE
            | value::MMIO_SM
            | value::MMIO_VC
            | value::MMIO_GPU
            | value::MMIO_SYS
    )
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
