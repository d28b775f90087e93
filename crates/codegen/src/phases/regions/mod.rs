//! ConvergenceRegions (10002): reconvergence. Where lanes part, a region is opened; where they are together again, they wait for one another.
//!
//! A chip without regions would still compute the right thing, each group of lanes at its own pace, and never bring them
//! together again. With them, lanes that a branch parts meet at its reconvergence point.
//!
//! - [`plan`] decides which regions there are: where each opens, which edges lead to where it meets, which edges take lanes out
//!   of it.
//! - [`apply`] puts `region_open`, `region_meet` and `region_leave` there.
//! - Besides, an operation that works on the lanes that run (a vote, a reduction) for a mask that lanes may have different ones of gets a region of its
//!   own: only the lanes of the mask go through it, the others wait behind. Where all have the same mask, bringing its lanes together is enough.
//!
//! - So does a call through a pointer that lanes may have different ones of: those that called the same function come back together, the others wait behind.
//!
//! A branch that is uniform gets no region. Nor does one whose lanes meet only to exit.
//! Regions deeper than the machine has registers for are left out: lanes then meet where the region around ends.

mod apply;
mod plan;

use crate::pipeline::{Context, PhaseError};
use orias_machine::Machine;
use orias_ori::analysis::{
    DefUse, DepthFirst, Divergence, DominatorTree, FlowGraph, LoopNest, lane_mask, names_all_lanes,
};
use orias_ori::builder::{BuildError, Cursor};

use orias_ori::{AbstractOp, Block, Class, Function, Inst, Operand, Type, Value};

/// Opens and closes convergence regions; see the module.
pub fn open_convergence_regions(
    func: &mut Function,
    context: &Context<'_>,
) -> Result<(), PhaseError> {
    let most = barriers(func, context.machine);
    let graph = FlowGraph::of(func);
    let walk = DepthFirst::new(&graph);
    let nest = LoopNest::new(&graph, &walk);
    let chains = DefUse::new(func);
    let divergence = Divergence::new(func, &graph, &walk, &nest, &chains);
    let dominators = DominatorTree::new(&graph, &walk);
    let shape = plan::FlowAnalyses {
        graph: &graph,
        walk: &walk,
        nest: &nest,
        dominators: &dominators,
        divergence: &divergence,
    };
    // One register is kept for the regions around operations on some lanes.
    let regions = plan::plan(func, &shape, most - 1);
    let exclusive: Vec<Inst> = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .filter(|&inst| {
            is_exclusive(func, inst, &divergence, &nest)
                || calls_apart(func, inst, &divergence, &nest)
        })
        .collect();
    apply::apply(func, &regions)?;
    set_apart(func, exclusive)
}

/// How many regions may be open at once: where functions are called, as many as have registers that these leave alone.
fn barriers(func: &Function, machine: &Machine) -> usize {
    let all = machine.registers.convergence;
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    let calls = |inst: Inst| func.opcode(inst).as_abstract() == Some(AbstractOp::Call);
    let outlives = |&number: &u8| machine.abi.is_preserved(Class::B.into(), number);
    match insts.into_iter().any(calls) {
        true => (0..all).filter(outlives).count(),
        false => usize::from(all),
    }
}

/// Whether `inst` calls a function through a pointer that lanes may have different ones of: they come back one function after the other.
fn calls_apart(func: &Function, inst: Inst, divergence: &Divergence, nest: &LoopNest) -> bool {
    if func.opcode(inst).as_abstract() != Some(AbstractOp::Call) {
        return false;
    }
    let callee = func.operands(inst).get(func.result_count(inst));
    let pointer = callee.and_then(|callee| callee.as_value());
    pointer
        .zip(func.layout.inst_block(inst))
        .is_some_and(|(pointer, block)| !divergence.is_uniform_at(pointer, block, nest))
}

fn refused(error: BuildError) -> PhaseError {
    PhaseError::Broken {
        at: error.inst.clone(),
        what: error.to_string(),
    }
}

/// Whether the machine's instruction works on the lanes that run, and the lanes of a mask are to be set apart for it.
fn works_on_those_that_run(op: AbstractOp) -> bool {
    use AbstractOp as A;
    matches!(
        op,
        A::VotePred | A::Ballot | A::MatchLanes | A::Redux | A::Elect
    )
}

/// Whether `inst` works on the lanes of a mask and lanes with other masks may run it at the same time. Who runs it is among its mask, so where that is
/// the same for all nobody else does.
fn is_exclusive(func: &Function, inst: Inst, divergence: &Divergence, nest: &LoopNest) -> bool {
    let op = func.opcode(inst).as_abstract();
    let mask = (op.filter(|&op| works_on_those_that_run(op))).and(lane_mask(func, inst));
    let Some((mask, block)) = mask.zip(func.layout.inst_block(inst)) else {
        return false;
    };
    let same = match mask.as_value() {
        Some(mask) => divergence.is_uniform_at(mask, block, nest),
        None => true,
    };
    let shared = same && func.inst(inst).guard().is_always();
    !names_all_lanes(func, mask) && !shared
}

/// Gives operations on the lanes of a mask regions of their own.
fn set_apart(func: &mut Function, exclusive: Vec<Inst>) -> Result<(), PhaseError> {
    for inst in exclusive {
        // block: …, open; inside: the operation; behind: meet, …
        let Some(block) = func.layout.inst_block(inst) else {
            continue;
        };
        let inside = func.split_block(inst);
        let Some(next) = func.layout.next_inst(inst) else {
            continue;
        };
        let behind = func.split_block(next);
        let token = func.create_value(Type::B);
        open_at_end(func, block, behind, token)?;
        jump(func, block, inside)?;
        jump(func, inside, behind)?;
        meet_at_start(func, behind, token)?;
    }
    Ok(())
}

/// Opens a region at the end of `block`, which has no terminator yet or one before which it goes.
fn open_at_end(
    func: &mut Function,
    block: Block,
    meeting: Block,
    token: Value,
) -> Result<(), PhaseError> {
    let mut cursor = match func.terminator(block) {
        Some(last) => Cursor::before(func, last),
        None => Cursor::at_end(func, block),
    };
    cursor
        .build(AbstractOp::RegionOpen)
        .result(token)
        .operand(Operand::Block(meeting))
        .finish()
        .map_err(refused)?;
    Ok(())
}

fn meet_at_start(func: &mut Function, block: Block, token: Value) -> Result<(), PhaseError> {
    put_at_start(func, block, AbstractOp::RegionMeet, token)
}

/// Takes the lanes that come to `block` out of the region.
fn leave_at_start(func: &mut Function, block: Block, token: Value) -> Result<(), PhaseError> {
    put_at_start(func, block, AbstractOp::RegionLeave, token)
}

fn put_at_start(
    func: &mut Function,
    block: Block,
    op: AbstractOp,
    token: Value,
) -> Result<(), PhaseError> {
    let mut cursor = match func.layout.first_inst(block) {
        Some(first) => Cursor::before(func, first),
        None => Cursor::at_end(func, block),
    };
    cursor.build(op).operand(token).finish().map_err(refused)?;
    Ok(())
}

fn jump(func: &mut Function, from: Block, to: Block) -> Result<(), PhaseError> {
    Cursor::at_end(func, from)
        .build(AbstractOp::Br)
        .edge(to, &[])
        .finish()
        .map_err(refused)?;
    Ok(())
}
