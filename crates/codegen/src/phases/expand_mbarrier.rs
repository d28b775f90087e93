//! ExpandMbarrier: what is done to mbarriers in several lanes at once and has an instruction only for one.
//!
//! An mbarrier is set up by an instruction that takes its address and its counts from uniform registers, and so is the address of one that
//! asynchronous copies arrive at. Where lanes have different ones they come to it one after the other:
//!
//! ```text
//! again: lanes = activemask
//!        first = the highest of them
//!        if this lane is the first: the instruction
//!        if this lane is not the first, go to again
//! ```
//!
//! In each iteration one of the lanes that are together leaves, so there are at most 32. The second branch keeps what the first lane does within
//! the loop: behind it lanes would wait for each other. What needs no branch (the words of an mbarrier, the look at a
//! phase, fences around them) is left to selection.
//!
//! Cost: linear, plus one analysis of divergence where there is such an instruction at all.

use crate::pipeline::{Context, PhaseError};
use orias_ori::analysis::{DefUse, DepthFirst, Divergence, FlowGraph, LoopNest};
use orias_ori::builder::{BuildError, Cursor};
use orias_ori::operation::{Combine, Compare, Scalar, Special, Step};
use orias_ori::{AbstractOp, Block, Function, Inst, Operand, Reg, Value};
use smallvec::SmallVec;

/// Makes lanes that set up different mbarriers, or let copies arrive at different ones, do it one after the other.
pub fn expand_mbarrier(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    // A fixed address and a fixed count are the same for all.
    let found: Vec<(Block, Inst)> = func
        .blocks()
        .flat_map(|block| func.block_insts(block).map(move |inst| (block, inst)))
        .filter(|&(_, inst)| is_for_one(func, inst) && reads(func, inst).next().is_some())
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    let graph = FlowGraph::of(func);
    let walk = DepthFirst::new(&graph);
    let nest = LoopNest::new(&graph, &walk);
    let divergence = Divergence::new(func, &graph, &walk, &nest, &DefUse::new(func));
    let differing: Vec<Inst> = found
        .into_iter()
        .filter(|&(block, inst)| {
            reads(func, inst).any(|value| !divergence.is_uniform_at(value, block, &nest))
        })
        .map(|(_, inst)| inst)
        .collect();
    for inst in differing {
        one_by_one(func, inst).map_err(refused)?;
    }
    Ok(())
}

/// The values among the operands of an instruction and in their addresses.
fn reads(func: &Function, inst: Inst) -> impl Iterator<Item = Value> {
    func.operands(inst).iter().flat_map(|&operand| {
        let regs: SmallVec<[Reg; 2]> = match operand {
            Operand::Address(id) => func.address(id).regs().collect(),
            other => other.reg().into_iter().collect(),
        };
        regs.into_iter().filter_map(Reg::value)
    })
}

/// Whether an instruction takes the address of its mbarrier from a uniform register.
fn is_for_one(func: &Function, inst: Inst) -> bool {
    match func.opcode(inst).as_abstract() {
        Some(AbstractOp::Mbarrier) => func.modifier(inst) == Some(Step::Init),
        Some(AbstractOp::CpAsyncArrive) => true,
        _ => false,
    }
}

/// Puts the loop of the module's text around an instruction.
fn one_by_one(func: &mut Function, inst: Inst) -> Result<(), BuildError> {
    let Some(block) = func.layout.inst_block(inst) else {
        return Ok(());
    };
    let span = func.inst(inst).span();
    let tail = func.split_block(inst);
    func.layout.remove_inst(inst);
    let [again, alone, join] = [(); 3].map(|()| func.create_block());
    func.layout.insert_block_after(again, block);
    func.layout.insert_block_after(alone, again);
    func.layout.insert_block_after(join, alone);
    let mut cursor = Cursor::at_end(func, block);
    cursor.set_span(span);
    cursor.build(AbstractOp::Br).edge(again, &[]).finish()?;
    let mut cursor = Cursor::at_end(func, again);
    cursor.set_span(span);
    let lanes = cursor.build(AbstractOp::ActiveMask).value()?;
    let first = cursor
        .build(AbstractOp::Bfind)
        .with(Scalar::U32)
        .operand(lanes)
        .value()?;
    let own = cursor
        .build(AbstractOp::Sreg)
        .with(Special::LaneId)
        .value()?;
    let is_first = cursor
        .build(AbstractOp::Setp)
        .with(Compare::Eq)
        .with(Combine::None)
        .with(Scalar::U32)
        .operand(own)
        .operand(first)
        .value()?;
    cursor
        .build(AbstractOp::CondBr)
        .operand(is_first)
        .edge(alone, &[])
        .edge(join, &[])
        .finish()?;
    func.layout.append_inst(inst, alone);
    let mut cursor = Cursor::at_end(func, alone);
    cursor.set_span(span);
    cursor.build(AbstractOp::Br).edge(join, &[]).finish()?;
    let mut cursor = Cursor::at_end(func, join);
    cursor.set_span(span);
    cursor
        .build(AbstractOp::CondBr)
        .operand(is_first)
        .edge(tail, &[])
        .edge(again, &[])
        .finish()?;
    Ok(())
}

fn refused(error: BuildError) -> PhaseError {
    PhaseError::Broken {
        at: error.inst.clone(),
        what: error.to_string(),
    }
}
