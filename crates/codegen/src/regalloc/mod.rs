//! AllocateRegisters (101): values become physical registers. PostExpansion (104): the stack frame.
//!
//! The function comes in SSA form with machine operations on values of all five classes, tuples collected and split, and
//! block parameters. It leaves on physical registers, without parameters and without parallel copies
//! (ConvertAllMovPhiToMov, 73, happens here).
//!
//! 1. Tokens of convergence regions get barrier registers ([`tokens`]).
//! 2. Values are spilled until everything fits ([`spill`]): predicates and uniform registers to general registers, general
//!    registers to local memory; what is cheap to compute again is computed again.
//! 3. Values that would cost a move are joined into classes that share their registers ([`coalesce`]), and one scan over the blocks
//!    gives registers ([`assign`]), to whole classes where that is possible.
//! 4. Edges get the moves that remain ([`edges`]), and parallel copies become moves ([`moves`]).
//!
//! If alignment leaves no room although the registers would be enough, everything is started again with a smaller budget for step 2; where the smaller budget would have
//! been enough as well, only step 3 is.
//! [`check`] proves an allocation against the code before it; it shares nothing with the steps above, and runs
//! when the knob `VerifyRegisterAllocation` is set and in tests.
//!
//! Cost: linear in the number of operands and of live pairs of value and block, but for a logarithm in [`coalesce`] and [`timeline`].

mod assign;
mod calls;
mod check;
mod coalesce;
mod contents;
mod counts;
mod edges;
mod file;
mod frame;
mod last_uses;
mod moves;
mod occupancy_edge;
mod packing;
mod ranges;
mod relations;
mod shared_spills;
mod spill;
mod timeline;
mod tokens;

pub(crate) use calls::slow as slow_path_of;
pub use frame::expand_after_allocation;
pub use shared_spills::spill_to_shared;

use crate::knobs::{Knobs, registry};
use crate::phases::{holds_warpgroup_operands, release_warpgroup_operands};
use crate::pipeline::{Context, PhaseError};
use assign::{Facts, Scans, Stop};
use check::{check_allocation, counts_are_kept};
use counts::{Changing, Goals, Room};
use last_uses::LastUses;
use orias_machine::Machine;
use orias_machine::registers::RegisterFiles;
use orias_ori::analysis::{DepthFirst, FlowGraph, Frequencies, Liveness, LoopNest};
use orias_ori::builder::BuildError;
use orias_ori::{
    AbstractOp, Attributes, Block, Class, Function, FunctionKind, Inst, Level, PhysReg, Reg, Value,
    print_inst,
};
use orias_sass::{Op, Target};
use packing::Packing;
use rustc_hash::FxHashMap;
use spill::{Fitting, Narrowed};

/// How often the budget is lowered before the phase gives up.
const ATTEMPTS: u8 = 12;

/// What knobs ask of the phase.
#[derive(Clone, Copy)]
struct Aims<'a> {
    /// Whether allocations are proved.
    check: bool,
    knobs: &'a Knobs,
}

/// Runs the phase.
pub fn allocate_registers(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    if let Some(inst) = named_register(func) {
        return Err(PhaseError::Unsupported(format!(
            "`{}`, which names a register before allocation,",
            print_inst(func, inst)
        )));
    }
    // The scheduler may have tried this function.
    if let Some(allocated) = func.take_tried() {
        *func = allocated;
        return Ok(());
    }
    shared_spills::allocate(func, context, |func| allocate(func, context, None)).map(|_| ())
}

/// Whether a function with what was spilled so far is of use.
type Worth<'a> = Option<&'a dyn Fn(&Function) -> bool>;

/// Runs the phase only as far as what is spilled is `worth` it, if nothing else depends on that; says whether it came to the end, and leaves the function in pieces if it did not.
pub(crate) fn try_allocation(
    func: &mut Function,
    context: &Context<'_>,
    worth: &dyn Fn(&Function) -> bool,
) -> Result<bool, PhaseError> {
    match named_register(func) {
        None => shared_spills::allocate(func, context, |func| allocate(func, context, Some(worth))),
        Some(_) => allocate_registers(func, context).map(|()| true),
    }
}

/// Gives every value a register, or says that this is not `worth` it.
fn allocate(
    func: &mut Function,
    context: &Context<'_>,
    worth: Worth<'_>,
) -> Result<bool, PhaseError> {
    let files = context.machine.registers;
    let aims = Aims {
        check: context.knobs.bool(&registry::VERIFY_REGISTER_ALLOCATION),
        knobs: context.knobs,
    };
    keep_stack_pointer(func);
    calls::enter(func);
    if let Some(entry) = starting_registers(func, context.machine.target) {
        let whole = func.clone();
        match attempt_held(func, files, aims, None) {
            Ok(_) if counts::fits(func, entry, files) => {
                if aims.check {
                    counts_are_kept(func)?;
                }
                return finish(func).map(|()| true);
            }
            // Some code cannot do with what it would have there.
            Ok(_) | Err(PhaseError::Unsupported(_)) => {}
            Err(error) => return Err(error),
        }
        *func = whole;
        counts::drop_changes(func)?;
    }
    if !attempt_held(func, files, aims, worth)? {
        return Ok(false);
    }
    finish(func).map(|()| true)
}

/// How much more may be executed, spilled registers counting most, so that products need not be waited for one by one.
const WORTH_HOLDING: f64 = 1.0 / 16.0;

/// Gives every value a register, or says that this is not `worth` it where there is one way only. What products of warp groups read late ([`crate::phases::hold_warpgroup_operands`]) is not kept for them where that takes more accesses to spilled
/// registers: ptxas waits there, too.
fn attempt_held(
    func: &mut Function,
    files: &RegisterFiles,
    aims: Aims<'_>,
    worth: Worth<'_>,
) -> Result<bool, PhaseError> {
    if !holds_warpgroup_operands(func) {
        let before = func.clone();
        if !attempt(func, files, aims, worth)? {
            return Ok(false);
        }
        occupancy_edge::reach(func, &before, files, aims);
        return Ok(true);
    }
    let mut free = func.clone();
    release_warpgroup_operands(&mut free);
    let given = local_accesses(func);
    attempt(func, files, aims, None)?;
    if local_accesses(func) > given {
        let worth = spill::accesses(func) / (1.0 + WORTH_HOLDING);
        let pays = |func: &Function| spill::accesses(func) < worth;
        if attempt(&mut free, files, aims, Some(&pays))? {
            *func = free;
        }
    }
    Ok(true)
}

/// How many instructions access the frame.
fn local_accesses(func: &Function) -> usize {
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    insts
        .filter(|&inst| matches!(func.opcode(inst).as_machine(), Some(Op::LDL | Op::STL)))
        .count()
}

/// What is left to do when every value has its register.
fn finish(func: &mut Function) -> Result<(), PhaseError> {
    moves::expand(func)?;
    calls::expand(func)
}

/// Gives every value a register, with smaller budgets until it works. With `worth`, only if it is that with what was spilled, and in the end: says whether it is, and leaves
/// the function in pieces if it is not.
fn attempt(
    func: &mut Function,
    files: &RegisterFiles,
    aims: Aims<'_>,
    worth: Worth<'_>,
) -> Result<bool, PhaseError> {
    let before = aims.check.then(|| func.clone());
    let limits = Class::ALL.map(|class| limit(func, files, class));
    let entry = starting_registers(func, func.target);
    let fixed = func.attributes.fixed.iter();
    let fixed = fixed.filter(|reg| reg.class() == Class::R).count() as u32;
    let pays = |func: &Function| worth.is_none_or(|worth| worth(func));
    let mut unspilled: Option<Function> = None;
    let mut narrowed = None;
    let mut margins = Margins {
        limits,
        withheld: [0; 5],
        left: ATTEMPTS,
    };
    while margins.left > 0 {
        let changing = entry.map(|entry| Changing {
            entry,
            withheld: files.reserved + fixed + u32::from(margins.withheld[Class::R as usize]),
        });
        let goals = Goals {
            most: std::array::from_fn(|class| margins.goal(class)),
            changing,
        };
        let ready = Ready::new(func, limits, goals, &mut unspilled, &mut narrowed);
        // Registers add moves to what is spilled, and nothing goes.
        if ready.is_ok() && !pays(func) {
            return Ok(false);
        }
        let placed = match ready {
            Ok(ready) => place(func, &ready, aims.knobs, unspilled.as_ref(), &mut margins),
            Err(stop) => margins.widen(stop).and_then(|class| Err(Stop::Full(class))),
        };
        match placed {
            Ok(placed) => {
                *func = placed;
                if let Some(before) = before {
                    check_allocation(&before, func)?;
                }
                return Ok(pays(func));
            }
            Err(Stop::Full(_)) => {
                // What is spilled for the smaller budget may be something else.
                if let Some(unspilled) = unspilled.take() {
                    *func = unspilled;
                }
            }
            Err(Stop::Dear) => {
                return Err(PhaseError::Broken {
                    at: func.name.clone(),
                    what: "an allocation without a ceiling was too dear".to_owned(),
                });
            }
            Err(Stop::Error(error)) => return Err(error),
        }
    }
    Err(PhaseError::Unsupported(format!(
        "a function whose register tuples do not fit into {} registers",
        limit(func, files, Class::R)
    )))
}

/// How many registers of each class are left unused by what is spilled.
struct Margins {
    limits: [u8; 5],
    withheld: [u8; 5],
    /// How many attempts are left.
    left: u8,
}

impl Margins {
    /// How many registers of a class may be in use.
    fn goal(&self, class: usize) -> u8 {
        self.limits[class].saturating_sub(self.withheld[class])
    }

    /// Takes note of an attempt that did not find enough registers of a class, and says of which.
    fn widen(&mut self, stop: Stop) -> Result<Class, Stop> {
        let Stop::Full(class) = stop else {
            return Err(stop);
        };
        let withheld = &mut self.withheld[class as usize];
        *withheld = withheld.saturating_add(2 + *withheld / 2);
        self.left -= 1;
        Ok(class)
    }
}

/// The stack pointer is nobody else's.
fn keep_stack_pointer(func: &mut Function) {
    if let Some(pointer) = PhysReg::new(Class::R, Machine::of(func.target).abi.stack_pointer)
        && !func.attributes.fixed.contains(&pointer)
    {
        func.attributes.fixed.push(pointer);
    }
}

/// An instruction that names a physical register other than a fixed one, such as a call by the ABI.
fn named_register(func: &Function) -> Option<Inst> {
    let fixed = &func.attributes.fixed;
    let is_free = |reg: PhysReg| !fixed.iter().any(|fixed| fixed.overlaps(reg));
    let mut insts = func.blocks().flat_map(|block| func.block_insts(block));
    insts.find(|&inst| {
        let mut named = false;
        func.for_each_register(inst, |reg| named |= reg.value().is_none());
        if !named && !func.has_implicit_registers(inst) {
            return false;
        }
        let mut named = false;
        let mut look = |reg: Reg| named |= reg.phys().is_some_and(is_free);
        func.for_each_use(inst, &mut look);
        func.for_each_def(inst, &mut look);
        named
    })
}

/// A function in which every class fits, and what is known of it.
struct Ready {
    graph: FlowGraph,
    walk: DepthFirst,
    live: Liveness,
    last_uses: LastUses,
    /// See [`Fitting::most`].
    most: [u32; 5],
    loops: LoopNest,
    frequencies: Frequencies,
    tokens: FxHashMap<Value, u8>,
}

impl Ready {
    /// Spills what does not fit into `goals`; if anything was, the function before that is in `unspilled`.
    fn new(
        func: &mut Function,
        limits: [u8; 5],
        goals: Goals,
        unspilled: &mut Option<Function>,
        narrowed: &mut Option<Narrowed>,
    ) -> Result<Ready, Stop> {
        let Fitting {
            graph,
            live,
            last_uses,
            most,
        } = spill::fit(func, goals, unspilled, narrowed)?;
        let walk = DepthFirst::new(&graph);
        let loops = LoopNest::new(&graph, &walk);
        let frequencies = Frequencies::new(func, &graph, &walk, &loops);
        let barriers = limits[Class::B as usize];
        let tokens = tokens::assign(func, &graph, &live, &last_uses.tokens, barriers)?;
        Ok(Ready {
            graph,
            walk,
            live,
            last_uses,
            most,
            loops,
            frequencies,
            tokens,
        })
    }
}

/// The function with a register for every value, of which those of `margins` were left unused by what was not spilled. Parallel copies are left.
///
/// Where a smaller budget is no less than what was ever needed of the class, what was spilled for the larger one serves. (How many general registers survive a call depends on how many there
/// are.)
fn place(
    func: &Function,
    ready: &Ready,
    knobs: &Knobs,
    unspilled: Option<&Function>,
    margins: &mut Margins,
) -> Result<Function, Stop> {
    // Where something went to memory, nothing is gained by leaving registers over.
    let stored = unspilled.is_some_and(|before| before.attributes.local < func.attributes.local);
    let pressure = match stored {
        false => ready.last_uses.pressure[Class::R as usize],
        true => u32::from(margins.limits[Class::R as usize]),
    };
    let packing = Packing::new(func, pressure, margins.limits, knobs);
    let facts = Facts {
        graph: &ready.graph,
        frequencies: &ready.frequencies,
        live: &ready.live,
        last_uses: &ready.last_uses,
        walk: &ready.walk,
        tokens: &ready.tokens,
    };
    let scans = Scans::new(func, facts)?;
    let mut short = Vec::new();
    loop {
        let withheld = |class: Class| margins.withheld[class as usize] > 0;
        let keeps_together = withheld(Class::UR) || withheld(Class::UP);
        let class = match packing.allocate(&scans, &ready.loops, keeps_together, &mut short) {
            Ok(mut placed) => {
                placed.level = Level::Physical;
                return Ok(placed);
            }
            Err(stop) => margins.widen(stop)?,
        };
        let enough = u32::from(margins.goal(class as usize));
        let serves = class != Class::R && ready.most[class as usize] <= enough;
        if !serves || margins.left == 0 {
            return Err(Stop::Full(class));
        }
    }
}

/// The first registers, as many as `inst` changes if that is a call of a slow path.
pub(crate) fn changed_by_slow_path(func: &Function, inst: Inst) -> Option<u32> {
    let calls = func.opcode(inst).as_abstract() == Some(AbstractOp::Call);
    let convention = calls.then(|| calls::convention(func, inst))?;
    convention.predicates?;
    Some(calls::own_registers(func, &convention))
}

/// How many registers of `class` the function may use, by the chip and by what the source asks for.
pub(crate) fn limit(func: &Function, files: &RegisterFiles, class: Class) -> u8 {
    let mut most = u32::from(files.usable(class.into()));
    if let Some(convention) = calls::slow(func) {
        return match class {
            Class::R => most.min(calls::own_registers(func, &convention)) as u8,
            Class::P => most as u8,
            _ => 0,
        };
    }
    if class == Class::R {
        let reserved = files.reserved;
        if let Some(largest) = counts::largest(func) {
            let entry = entry_count(func, files);
            return most.min(largest.max(entry).saturating_sub(reserved)) as u8;
        }
        most = most.min(entry_count(func, files).saturating_sub(reserved));
        most = most.max(files.fewest - reserved);
        if calls::has_calls(func) {
            most = most.max(u32::from(calls::fewest(func)));
        }
    }
    if class == Class::UR && func.kind == FunctionKind::Device {
        // Those above belong to the caller.
        let abi = Machine::of(func.target).abi;
        let own = (0..most).take_while(|&unit| !abi.is_preserved(class.into(), unit as u8));
        most = own.count() as u32;
    }
    most as u8
}

/// By block: how many general registers a kernel may use there at least, if it changes their number.
pub(crate) fn block_limits(func: &Function) -> Option<Vec<(Block, u32)>> {
    let files = Machine::of(func.target).registers;
    let entry = starting_registers(func, func.target)?;
    let goals = Goals {
        most: [limit(func, files, Class::R); 5],
        changing: Some(Changing {
            entry,
            withheld: files.reserved,
        }),
    };
    let room = Room::new(func, goals);
    let blocks = func.blocks();
    Some(
        blocks
            .map(|block| (block, room.least(func, block)))
            .collect(),
    )
}

/// How many registers a thread of a kernel starts with that changes their number: as many as it may, but no more than it ever asks for.
pub fn starting_registers(func: &Function, target: Target) -> Option<u32> {
    let largest = counts::largest(func)?;
    Some(entry_count(func, Machine::of(target).registers).min(largest))
}

/// How many registers a thread of a kernel starts with at most, by what the source asks for.
#[must_use]
pub fn most_registers(wanted: &Attributes, target: Target) -> u32 {
    entry_limit(wanted, Machine::of(target).registers)
}

fn entry_count(func: &Function, files: &RegisterFiles) -> u32 {
    entry_limit(&func.attributes, files)
}

fn entry_limit(wanted: &Attributes, files: &RegisterFiles) -> u32 {
    let mut most = u32::from(files.usable(Class::R.into())) + files.reserved;
    if wanted.max_registers > 0 {
        most = most.min(wanted.max_registers);
    }
    let threads = wanted
        .max_threads
        .iter()
        .map(|&n| n.max(1))
        .product::<u32>();
    if wanted.max_threads != [0; 3] && !wanted.override_registers {
        let warps = threads.div_ceil(files.warp) * wanted.min_blocks.max(1);
        most = most.min(files.usable_with(warps) + files.reserved);
    }
    most
}

fn refused(error: BuildError) -> PhaseError {
    PhaseError::Broken {
        at: error.inst.clone(),
        what: error.to_string(),
    }
}
