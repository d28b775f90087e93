//! AdvancedScoreboardsAndOpexes (115) and ProcessO0WaitsAndSBs (116): the control words.
//!
//! From the final order of instructions on physical registers, computes for each how many cycles the next one waits, which barriers it
//! sets and which it waits for, the yield bit and the reuse flags. Correct code on the chip rests on this and on the timing
//! tables: nothing here guesses, an instruction without a row in the tables is an error.
//!
//! | module | concern |
//! | --- | --- |
//! | `facts` | what each instruction reads and writes, and when, from the tables of `machine` |
//! | `operations` | what is known of an operation whatever its operands |
//! | `demand` | how soon somebody will wait for it, over all paths |
//! | `redundant` | which need no barrier, because a later one of the same queue tells |
//! | `barriers` | which of the six barriers it sets |
//! | `ahead` | what it meets on that barrier if it outlives its block |
//! | `events` | what is in flight during a walk, with a name for each |
//! | `latencies` | when fixed results can be used and overwritten |
//! | `walk` | distances and waits within a block |
//! | `flight` | what is in flight from one block to the next |
//! | `yields` | the yield bit |
//! | `reuse` | the reuse flags |
//! | `plain` | phase 116: the same facts, no thought |
//!
//! The order of work:
//!
//! 1. Look up the facts; find the demand backwards.
//! 2. Choose barriers in two rounds over the blocks in reverse postorder. The second round knows what the first one left in flight
//!    at the ends of loops.
//! 3. With the barriers settled, walk blocks until what is in flight at their starts does not change any more. Loads stay in flight
//!    across joins and back edges; a block's words are those of its last walk, which saw everything that can be in flight.
//! 4. Yield bits and reuse flags follow from the stalls.
//!
//! Step 3 ends because states only grow: records are added, ages and covering barriers only shrink. Each round is linear in the
//! number of instructions; how many rounds there are depends on the nesting of loops.
//!
//! A latency that exceeds what stalls can say gets fillers (NOPs) when code is being made. Code whose length is given already
//! gets a stall of 0 on the producer instead, which drains: that is what ptxas -O0 has on matrix operations. Nothing is drained at the ends of blocks or of kernels, everything at calls and returns.

mod barriers;
mod demand;
mod events;
mod facts;
mod flight;
mod latencies;
mod look_ahead;
mod operations;
mod plain;
mod redundant;
mod reuse;
mod walk;
mod yields;

use crate::pipeline::{Context, PhaseError};
use facts::Code;
use flight::Boundary;
use orias_machine::Machine;
use orias_ori::{ControlWord, Function, Inst, Level, Operand, SourceMods};
use orias_sass::{Barrier, Op};
use walk::{Mode, Plan, Walk};

pub use plain::assign_plain_control_words;

/// Why control words cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScoreboardError {
    /// An instruction that has no encoding.
    #[error("`{inst}`: {what}")]
    Instruction {
        /// The instruction.
        inst: String,
        /// What is wrong with it.
        what: String,
    },
    /// An operation without a row in the timing tables.
    #[error("the timing of {op} is not in the tables")]
    Timing {
        /// The operation.
        op: Op,
    },
    /// An instruction that names a barrier by number.
    #[error("{op} with barriers other than the one of asynchronous copies is not supported yet")]
    NamesBarrier {
        /// The operation.
        op: Op,
    },
    /// A latency that stalls cannot express, in code whose length is given.
    #[error("{cycles} cycles after {inst} cannot be expressed without another instruction")]
    Filler {
        /// The instruction.
        inst: Inst,
        /// How many cycles are missing.
        cycles: u16,
    },
    /// A wait in front of what has no wait mask, in code whose length is given.
    #[error("{inst} cannot wait, and there is no room for an instruction that does")]
    Wait {
        /// The instruction.
        inst: Inst,
    },
    /// The first instruction of a block that must wait though its predecessors have waited for it: an error of this pass.
    #[error("{inst} cannot issue when its block starts")]
    LateStart {
        /// The instruction.
        inst: Inst,
    },
    /// An event that no barrier covers: an error of this pass.
    #[error("no barrier covers what {later} needs of {earlier}")]
    Uncovered {
        /// The instruction that is waited for.
        earlier: Inst,
        /// The instruction that waits.
        later: Inst,
    },
}

/// Whether instructions may be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertions {
    /// Fillers go where stalls are not long enough.
    Allowed,
    /// The code keeps its length: offsets into it are known elsewhere.
    Forbidden,
}

/// Takes every control word and reuse flag away: the function is as it was before the pass.
pub fn drop_control_words(func: &mut Function) {
    for inst in instructions(func) {
        func.set_control(inst, ControlWord::NONE);
        for slot in 0..func.operands(inst).len() {
            set_reuse(func, inst, slot, false);
        }
    }
    func.level = Level::Physical;
}

/// Phase 115.
pub fn assign_control_words(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    schedule_waits(func, Insertions::Allowed).map_err(|error| broken(func, &error))
}

fn broken(func: &Function, error: &ScoreboardError) -> PhaseError {
    match error {
        ScoreboardError::NamesBarrier { .. } | ScoreboardError::Timing { .. } => {
            PhaseError::Unsupported(error.to_string())
        }
        _ => PhaseError::Broken {
            at: func.name.clone(),
            what: error.to_string(),
        },
    }
}

/// Computes every control word of a physical function, which is final then.
pub fn schedule_waits(func: &mut Function, insertions: Insertions) -> Result<(), ScoreboardError> {
    let code = Code::new(func)?;
    let plan = plan(&code, insertions)?;
    let misplaced = |index: &usize| plan.wait[*index] != 0 && !code.facts[*index].issue.waits;
    let misplaced: Vec<usize> = (0..code.facts.len()).filter(misplaced).collect();
    if insertions == Insertions::Forbidden
        && let Some(&index) = misplaced.first()
    {
        let inst = code.facts[index].inst;
        return Err(ScoreboardError::Wait { inst });
    }
    if insertions == Insertions::Forbidden
        && let Some(index) = plan.fillers.iter().position(|&cycles| cycles > 0)
    {
        return Err(ScoreboardError::Filler {
            inst: code.facts[index].inst,
            cycles: plan.fillers[index],
        });
    }
    let keeps = yields::find(&code, &plan);
    let reused = reuse::find(&code, &plan, &keeps);
    for (index, fact) in code.facts.iter().enumerate() {
        let word = word(&code, &plan, index).with_yield(keeps[index]);
        func.set_control(fact.inst, word);
    }
    for (inst, slot) in reused {
        set_reuse(func, inst, slot, true);
    }
    func.level = Level::Final;
    insert_fillers(func, &code, &plan);
    for index in misplaced {
        wait_before(func, code.machine, code.facts[index].inst, plan.wait[index]);
    }
    Ok(())
}

/// Lets a NOP wait in front of an instruction that has no wait mask: earlier ones may set what it waits for.
fn wait_before(func: &mut Function, machine: &Machine, inst: Inst, mask: u8) {
    let nop = filler(func, machine, 1);
    for (at, mask) in [(nop, mask), (inst, 0)] {
        let word = func.inst(at).control();
        func.set_control(at, word.with_wait_mask(mask));
    }
    func.layout.insert_inst_before(nop, inst);
}

fn plan(code: &Code, insertions: Insertions) -> Result<Plan, ScoreboardError> {
    let demand = demand::compute(code);
    let redundant = redundant::find(code, &demand);
    let mut plan = Plan::new(code.facts.len());
    choose_barriers(
        code,
        Walk::new(code, &demand, &redundant, Mode::Choose, insertions),
        &mut plan,
    )?;
    let mut walk = Walk::new(code, &demand, &redundant, Mode::Settled, insertions);
    let mut starts: Vec<Option<Boundary>> = vec![None; code.blocks.len()];
    let mut dirty = vec![false; code.blocks.len()];
    for &root in &code.roots {
        starts[root] = Some(Boundary::empty());
        dirty[root] = true;
    }
    let mut end = Boundary::empty();
    while dirty.contains(&true) {
        for &number in &code.order {
            if !std::mem::replace(&mut dirty[number], false) {
                continue;
            }
            let Some(before) = &starts[number] else {
                continue;
            };
            walk.run(number, before, &mut plan, &mut end)?;
            for &successor in &code.blocks[number].successors {
                dirty[successor] |= match &mut starts[successor] {
                    Some(start) => start.join(&end),
                    slot @ None => {
                        *slot = Some(end.clone());
                        true
                    }
                };
            }
        }
    }
    Ok(plan)
}

/// Step 2. A block is looked at again only if it starts with something else than the first time: what it decides, and what it leaves in
/// flight, follows from that.
fn choose_barriers(
    code: &Code,
    mut walk: Walk<'_>,
    plan: &mut Plan,
) -> Result<(), ScoreboardError> {
    let count = code.blocks.len();
    let mut ends = vec![Boundary::empty(); count];
    let (mut before, mut end) = (Boundary::empty(), Boundary::empty());
    let mut seen = vec![false; count];
    let mut dirty = vec![true; count];
    for _ in 0..2 {
        for &number in &code.order {
            if !std::mem::replace(&mut dirty[number], false) {
                continue;
            }
            before.clear();
            for &predecessor in &code.blocks[number].predecessors {
                if seen[predecessor] {
                    before.join(&ends[predecessor]);
                }
            }
            walk.run(number, &before, plan, &mut end)?;
            if !std::mem::replace(&mut seen[number], true) || ends[number] != end {
                std::mem::swap(&mut ends[number], &mut end);
                for &successor in &code.blocks[number].successors {
                    dirty[successor] = true;
                }
            }
        }
    }
    Ok(())
}

/// The stall that the control word says: 0 drains.
fn stall(code: &Code, plan: &Plan, index: usize) -> u8 {
    if code.facts[index].issue.drains || plan.drains[index] {
        0
    } else {
        plan.stall[index].min(code.machine.limits.stall_max)
    }
}

fn word(code: &Code, plan: &Plan, index: usize) -> ControlWord {
    let barrier = |barrier: Option<u8>| barrier.and_then(Barrier::new);
    ControlWord::PLAIN
        .with_stall(stall(code, plan, index))
        .with_write_barrier(barrier(plan.write_barrier[index]))
        .with_read_barrier(barrier(plan.read_barrier[index]))
        .with_wait_mask(plan.wait[index])
}

/// Puts NOPs behind instructions after which more cycles must pass than stalls can say.
///
/// At the end of a block they go in front of its terminator's successors' first instructions, that is, in front of the
/// terminator: time passes there just as well.
fn insert_fillers(func: &mut Function, code: &Code, plan: &Plan) {
    for (index, &missing) in plan.fillers.iter().enumerate() {
        let mut missing = missing;
        while missing > 0 {
            let nop = filler(func, code.machine, missing);
            missing = missing.saturating_sub(u16::from(code.machine.limits.stall_max));
            let at = code.facts[index].inst;
            if func.opcode(at).is_terminator() {
                func.layout.insert_inst_before(nop, at);
            } else {
                func.layout.insert_inst_after(nop, at);
            }
        }
    }
}

/// A NOP, in no block yet, that stalls for `cycles`, or as long as it can.
fn filler(func: &mut Function, machine: &Machine, cycles: u16) -> Inst {
    let stall = cycles.min(u16::from(machine.limits.stall_max)) as u8;
    let nop = func.create_machine(Op::NOP, orias_sass::Mods::ZERO, &[]);
    let word = ControlWord::PLAIN.with_stall(stall);
    func.set_control(nop, word.with_yield(stall == 1));
    nop
}

fn instructions(func: &Function) -> Vec<Inst> {
    func.blocks()
        .flat_map(|block| func.block_insts(block))
        .collect()
}

fn set_reuse(func: &mut Function, inst: Inst, slot: usize, reuse: bool) {
    let operand = func.operands(inst)[slot];
    let Operand::Reg { reg, mods } = operand else {
        return;
    };
    let mods = if reuse {
        mods.with(SourceMods::REUSE)
    } else {
        mods.without(SourceMods::REUSE)
    };
    func.set_operand(inst, slot, Operand::Reg { reg, mods });
}
