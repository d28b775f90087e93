//! Order dependences: order that no register expresses.
//!
//! Barriers, fences, waits, calls and clocks keep other instructions on their side. Each kind of thing that can be held back is a
//! [`FenceClass`]: a fence *takes* the token as if it wrote a register, everything it holds back *has* it as if it read one, and the
//! graph makes edges of that as it does of registers. What each operation takes and has follows from the effects in its row and
//! from a few patterns that rows do not express.

use super::build::operations::{self, OperationFacts};
use orias_machine::Machine;
use orias_ori::{Block, Class, Effects, Function, Inst, Operand, Operation, RegKind};
use orias_sass::{
    Effects as RowEffects, MemoryEffect, Mods, Op, Space, modifier_names as name,
    modifier_values as value,
};

/// A kind of thing that a fence holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum FenceClass {
    /// Everything.
    All,
    /// Accesses to memory that somebody may write.
    Memory,
    /// Loads from memory that nobody writes while the kernel runs (`ld.global.nc`).
    ReadOnly,
    /// Operations whose result depends on which lanes run together.
    Lanes,
    /// Convergence regions: where lanes part and meet.
    Regions,
    /// Work that goes on after the warp did.
    Async,
    /// Uniform registers: lanes that run apart have one set each, one after the other.
    Uniform,
}

impl FenceClass {
    /// How many there are.
    pub const COUNT: usize = FenceClass::Uniform as usize + 1;

    /// Every token.
    pub const ALL: [FenceClass; FenceClass::COUNT] = [
        FenceClass::All,
        FenceClass::Memory,
        FenceClass::ReadOnly,
        FenceClass::Lanes,
        FenceClass::Regions,
        FenceClass::Async,
        FenceClass::Uniform,
    ];
}

/// A set of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FenceClasses(u8);

impl FenceClasses {
    /// No token.
    pub const NONE: FenceClasses = FenceClasses(0);

    /// These tokens.
    pub const fn of(tokens: &[FenceClass]) -> FenceClasses {
        let mut bits = 0;
        let mut index = 0;
        while index < tokens.len() {
            bits |= 1 << tokens[index] as u8;
            index += 1;
        }
        FenceClasses(bits)
    }

    /// The tokens of both.
    #[must_use]
    pub const fn with(self, other: FenceClasses) -> FenceClasses {
        FenceClasses(self.0 | other.0)
    }

    /// The tokens of this that are not in the other.
    #[must_use]
    pub const fn without(self, other: FenceClasses) -> FenceClasses {
        FenceClasses(self.0 & !other.0)
    }

    /// Whether `token` is among them.
    pub const fn contains(self, token: FenceClass) -> bool {
        self.0 >> token as u8 & 1 == 1
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The tokens one by one.
    pub fn iter(self) -> impl Iterator<Item = FenceClass> {
        FenceClass::ALL
            .into_iter()
            .filter(move |&token| self.contains(token))
    }
}

/// What an instruction does with the tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Held back by fences of these.
    pub has: FenceClasses,
    /// Holds these back.
    pub takes: FenceClasses,
    /// Stays behind those of these that stand before it, but lets later ones pass.
    pub follows: FenceClasses,
}

impl Order {
    /// None at all.
    pub const NONE: Order = Order {
        has: FenceClasses::NONE,
        takes: FenceClasses::NONE,
        follows: FenceClasses::NONE,
    };
}

const MEMORY: FenceClasses = FenceClasses::of(&[FenceClass::Memory]);
const READ_ONLY: FenceClasses = FenceClasses::of(&[FenceClass::ReadOnly]);
const LANES: FenceClasses = FenceClasses::of(&[FenceClass::Lanes]);
const ASYNC: FenceClasses = FenceClasses::of(&[FenceClass::Async]);
const UNIFORM: FenceClasses = FenceClasses::of(&[FenceClass::Uniform]);
/// What a fence between threads holds back: all that others can see, and all that depends on who is there.
pub(super) const BETWEEN_THREADS: FenceClasses = FenceClasses::of(&[
    FenceClass::Memory,
    FenceClass::ReadOnly,
    FenceClass::Lanes,
    FenceClass::Regions,
    FenceClass::Async,
]);
/// What an instruction takes that nothing passes.
pub(super) const EVERYTHING: FenceClasses = FenceClasses::of(&[
    FenceClass::All,
    FenceClass::Memory,
    FenceClass::ReadOnly,
    FenceClass::Lanes,
    FenceClass::Regions,
    FenceClass::Async,
]);

/// Operations that nothing passes, whatever their rows say: they change which registers there are, say that those a matrix operation
/// of a warpgroup took are back, or look at their own place.
const ALONE: &[Op] = &[
    Op::WARPGROUP_DEPBAR,
    Op::WARPGROUP_WAIT,
    Op::USETMAXREG_DEALLOC,
    Op::USETMAXREG_TRY_ALLOC,
    Op::LEPC,
    Op::LEPC_T,
    Op::RPCMOV_R,
    Op::RPCMOV_W,
    Op::NANOSLEEP,
    Op::NANOSLEEP_CLEAR,
    Op::YIELD,
    Op::KILL,
];

/// Operations after which other lanes run together than before: what was written to a uniform register on one side is not what is
/// read there on the other.
const REGROUPING: &[Op] = &[
    Op::WARPSYNC,
    Op::WARPSYNC_ALL,
    Op::WARPSYNC_COLLECTIVE,
    Op::WARPSYNC_COLLECTIVE_ALL,
];

/// Barriers of a thread block. What its threads wrote before them is seen behind them; what nobody writes is the same on both sides, so that loads of it need not wait for anybody
/// (ptxas 13 issues them before BAR.SYNC, too). None goes behind a barrier that it stood before: while a warp waits there, its loads are on their way. Fences and waits for other grids hold them back all the same: such loads are used on what another grid wrote.
const BLOCK_BARRIERS: &[Op] = &[
    Op::BAR_SYNC,
    Op::BAR_SYNC_PACKED,
    Op::BAR_ARV,
    Op::BAR_ARV_PACKED,
    Op::BAR_RED,
    Op::BAR_RED_PACKED,
];

/// Operations that open and leave convergence regions.
const REGIONS: &[Op] = &[
    Op::BSSY,
    Op::BREAK,
    Op::BMOV_64_ATEXIT,
    Op::BMOV_B,
    Op::BMOV_R,
    Op::BMOV_R_STATE,
    Op::BMOV_STATE,
];

/// Cache control.
const CACHE_CONTROL: &[Op] = &[Op::CCTL, Op::CCTLL, Op::CCTLL_IVALL, Op::CCTL_IVALL];

/// Operations that bring results of barriers between threads.
const BARRIER_RESULTS: &[Op] = &[Op::B2R, Op::B2R_RESULT, Op::B2R_WARP];

/// Special registers whose contents change while a thread runs.
const CHANGING: &[(u8, u8)] = &[(1, 1), (15, 15), (19, 19), (64, 66), (80, 83), (100, 131)];

/// What the row of an operation says of the tokens.
pub(super) fn of_operation(op: Op) -> Order {
    let row = op.row();
    let effects = row.effects;
    let mut order = Order::default();
    // Constant banks are nobody's to write: no fence holds their loads back.
    if row
        .memory
        .iter()
        .any(|memory| memory.space != Space::Constant)
    {
        order.has = order.has.with(MEMORY);
    }
    if effects.contains(RowEffects::CONVERGENT) {
        order.has = order.has.with(LANES);
    }
    if effects.contains(RowEffects::ASYNC) {
        order.has = order.has.with(ASYNC);
    }
    let fences = RowEffects::BARRIER | RowEffects::FENCE | RowEffects::WAIT;
    let leaves = RowEffects::CALL | RowEffects::RETURN | RowEffects::TRAP | RowEffects::EXIT;
    let branches = effects.contains(RowEffects::BRANCH) && op != Op::BSYNC;
    if REGIONS.contains(&op) && !effects.contains(RowEffects::OTHER) {
        order.takes = FenceClasses::of(&[FenceClass::Regions]);
    } else if ALONE.contains(&op) || effects.intersects(leaves) || branches {
        order.takes = EVERYTHING;
    } else if op == Op::NOP {
        // Where the lanes of a warp meet that run together: what they tell each other through memory keeps to its side, arithmetic need not.
        order.takes = BETWEEN_THREADS;
    } else if BLOCK_BARRIERS.contains(&op) {
        order.takes = BETWEEN_THREADS.without(READ_ONLY);
        order.follows = READ_ONLY;
    } else if effects.intersects(fences) {
        order.takes = BETWEEN_THREADS;
    } else if effects.contains(RowEffects::OTHER) {
        // Cache control and the ends of groups of copies speak of memory; the rest could be anything.
        let of_memory = effects.contains(RowEffects::ASYNC)
            || !row.memory.is_empty()
            || CACHE_CONTROL.contains(&op);
        order.takes = if of_memory {
            BETWEEN_THREADS
        } else {
            EVERYTHING
        };
    } else if effects.contains(RowEffects::VOLATILE) && BARRIER_RESULTS.contains(&op) {
        order.has = order.has.with(LANES);
    }
    if REGROUPING.contains(&op) {
        order.takes = order.takes.with(UNIFORM);
    }
    order
}

/// What `inst` does with the tokens.
pub fn of(func: &Function, inst: Inst) -> Order {
    with_operands(func, inst, touches_uniform(func, inst))
}

/// The same, for those who know whether it touches a uniform register or predicate.
pub(super) fn with_operands(func: &Function, inst: Inst, uniform: bool) -> Order {
    let (op, mods) = match func.inst(inst).operation() {
        Operation::Machine(op, mods) => (op, mods),
        Operation::Abstract(op, _) => return of_abstract(op.row().effects),
    };
    let facts = operations::of(Machine::of(func.target), op);
    let mut order = facts.order;
    if facts.is_volatile && reads_changing(func, inst) {
        order.takes = EVERYTHING;
    }
    if facts.touches_memory && is_ordered(func, inst, facts, mods) {
        order.takes = order.takes.with(MEMORY);
        let near = |memory: &MemoryEffect| memory.space == Space::Shared;
        if !op.row().memory.iter().all(near) {
            order.takes = order.takes.with(READ_ONLY);
        }
    }
    if facts.touches_memory && is_read_only(facts, mods) {
        order.has = order.has.without(MEMORY).with(READ_ONLY);
    }
    if uniform {
        order.has = order.has.with(UNIFORM);
    }
    if op == Op::WARPSYNC && is_exclusive(mods) {
        order.takes = EVERYTHING;
    }
    order
}

/// Whether the lanes of each mask go on by themselves behind a WARPSYNC with these modifiers.
fn is_exclusive(mods: Mods) -> bool {
    Op::WARPSYNC.row().value_of(name::EXCLUSIVE, mods) == Some(value::EXCLUSIVE)
}

/// Whether what stands at the end of `block` is issued for the lanes of each mask, or of each function that lanes called, in turn, up to the BSYNC:
/// nothing that could stand elsewhere should be there, and nothing passes the WARPSYNC.
pub(crate) fn ends_in_turns(func: &Function, block: Block) -> bool {
    let meets = func.terminator(block).is_some_and(|end| {
        let tail = crate::tail::tail_start(func, end);
        func.opcode(tail).as_machine() == Some(Op::BSYNC)
    });
    func.block_insts(block).any(|inst| {
        let operation = func.inst(inst).operation();
        let exclusive =
            matches!(operation, Operation::Machine(Op::WARPSYNC, mods) if is_exclusive(mods));
        exclusive || (meets && func.opcode(inst).effects().intersects(Effects::CALL))
    })
}

/// Whether it reads or writes a uniform register or predicate.
fn touches_uniform(func: &Function, inst: Inst) -> bool {
    let operands = func.operands(inst).iter();
    let named = operands.flat_map(|&operand| func.operand_regs(operand));
    let guard = func.inst(inst).guard().reg();
    named.chain(guard).any(|reg| {
        let class = match reg.kind() {
            RegKind::Phys(reg) if reg.is_constant() => return false,
            RegKind::Phys(reg) => reg.class(),
            RegKind::Value(value) => func.value_type(value).class(),
        };
        matches!(class, Class::UR | Class::UP)
    })
}

fn of_abstract(effects: Effects) -> Order {
    let everything = Effects::CALL.with(Effects::BARRIER).with(Effects::SIDE);
    let memory = Effects::READS.with(Effects::WRITES);
    if effects.intersects(everything) && !effects.contains(Effects::TERMINATOR) {
        return Order {
            takes: EVERYTHING,
            ..Order::NONE
        };
    }
    let mut order = Order::default();
    if effects.intersects(memory) {
        order.has = order.has.with(MEMORY);
    }
    if effects.contains(Effects::CONVERGENT) {
        order.has = order.has.with(LANES);
    }
    order
}

/// Whether it reads a special register that changes by itself.
fn reads_changing(func: &Function, inst: Inst) -> bool {
    func.operands(inst).iter().any(|operand| match operand {
        Operand::Special(number) => CHANGING
            .iter()
            .any(|&(first, last)| (first..=last).contains(number)),
        _ => false,
    })
}

/// Whether the order modifier of an access has one of some encodings, a bit for each.
fn has_order(facts: &OperationFacts, mods: Mods, encodings: u16) -> bool {
    let modifier = facts.order_modifier;
    modifier.is_some_and(|modifier| encodings >> mods.get(modifier) & 1 != 0)
}

/// Whether an access is to memory that nobody writes while the kernel runs.
pub(super) fn is_read_only(facts: &OperationFacts, mods: Mods) -> bool {
    has_order(facts, mods, facts.read_only_orders)
}

/// Whether other accesses must not pass this one: it is strong (volatile, relaxed with a scope, acquire or release, which are
/// encoded alike), or an atomic whose result somebody may look at before going on.
fn is_ordered(func: &Function, inst: Inst, facts: &OperationFacts, mods: Mods) -> bool {
    if func.inst(inst).is_strong() {
        return true;
    }
    if facts.is_atomic {
        return func.defs(inst).next().is_some();
    }
    has_order(facts, mods, facts.strong_orders)
}
