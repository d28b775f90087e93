//! Bulk copies take turns.
//!
//! An instruction of the copy engine runs once for the warp, with operands in uniform registers; in PTX every thread that comes makes a copy of its own.
//! So lanes take turns, in a loop that they go around together:
//!
//! ```text
//! head:                br around(true)
//! around(waiting):     turn = elect_turn waiting
//!                      @turn cp_async_bulk …            what the lane whose turn it is says
//!                      left = and waiting, !turn
//!                      any = any_running left
//!                      cbr any, around(left), tail
//! ```
//!
//! Under a guard those lanes wait for which it holds, and there is no first turn if it holds for none.
//!
//! No loop is needed where one lane comes (behind a branch on `elect`), nor where every lane says the same and the same copy once more changes nothing:
//! copies to global memory and prefetches, unlike reductions, and unlike copies that a barrier counts.
//!
//! Linear in what it makes, besides the analyses, which are made only for functions with such copies.

use super::loops::Maker;
use super::refused;
use crate::emit::not;
use crate::pipeline::PhaseError;
use orias_ori::analysis::{DefUse, DepthFirst, Divergence, DominatorTree, FlowGraph, LoopNest};
use orias_ori::operation::{Route, Scalar};
use orias_ori::{AbstractOp, Block, Function, Guard, Inst, Operand, Type};

/// How an operation of the copy engine counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeated {
    /// The same once more is the same.
    Idle,
    /// Every lane's counts.
    Counts,
}

fn repeated(func: &Function, inst: Inst) -> Option<Repeated> {
    Some(match func.opcode(inst).as_abstract()? {
        AbstractOp::BulkCopy | AbstractOp::TensorCopy => match func.modifier::<Route>(inst) {
            Some(Route::SharedToGlobal) => Repeated::Idle,
            _ => Repeated::Counts,
        },
        AbstractOp::BulkReduce | AbstractOp::TensorReduce => Repeated::Counts,
        AbstractOp::BulkPrefetch
        | AbstractOp::TensorPrefetch
        | AbstractOp::PrefetchTensormap
        | AbstractOp::MapInvalidate => Repeated::Idle,
        _ => return None,
    })
}

/// Lets lanes take turns at the operations of the copy engine.
pub(super) fn expand(func: &mut Function) -> Result<(), PhaseError> {
    for inst in taking_turns(func) {
        take_turns(func, inst)?;
    }
    Ok(())
}

/// The operations at which lanes must take turns.
fn taking_turns(func: &Function) -> Vec<Inst> {
    let insts: Vec<(Block, Inst, Repeated)> = func
        .blocks()
        .flat_map(|block| func.block_insts(block).map(move |inst| (block, inst)))
        .filter_map(|(block, inst)| Some((block, inst, repeated(func, inst)?)))
        .collect();
    if insts.is_empty() {
        return Vec::new();
    }
    let graph = FlowGraph::of(func);
    let walk = DepthFirst::new(&graph);
    let nest = LoopNest::new(&graph, &walk);
    let chains = DefUse::new(func);
    let divergence = Divergence::new(func, &graph, &walk, &nest, &chains);
    let dominators = DominatorTree::new(&graph, &walk);
    let alone = lone_blocks(func, &graph);
    let needs = |&(block, inst, repeated): &(Block, Inst, Repeated)| {
        if !walk.is_reachable(block) {
            return false;
        }
        if alone.iter().any(|&head| dominators.dominates(head, block)) {
            return !func.inst(inst).guard().is_always();
        }
        let same = func
            .value_uses(inst)
            .into_iter()
            .all(|value| divergence.is_uniform_at(value, block, &nest));
        let guarded = !func.inst(inst).guard().is_always();
        repeated == Repeated::Counts || !same || guarded
    };
    insts
        .iter()
        .filter(|each| needs(each))
        .map(|&(_, inst, _)| inst)
        .collect()
}

/// Blocks that only the lane goes to which `elect` has chosen.
fn lone_blocks(func: &Function, graph: &FlowGraph) -> Vec<Block> {
    let elects = |operand: Operand| {
        let value = operand.as_value()?;
        let inst = func.defining_inst(value)?;
        let elected = func.opcode(inst).as_abstract() == Some(AbstractOp::Elect)
            && func.inst(inst).guard().is_always()
            && func.operands(inst)[1].as_value() == Some(value);
        elected.then_some(operand.mods().is_empty())
    };
    func.blocks()
        .filter_map(|block| {
            let last = func.layout.last_inst(block)?;
            if func.opcode(last).as_abstract() != Some(AbstractOp::CondBr) {
                return None;
            }
            let taken = elects(func.operands(last)[0])?;
            let edges = func.edges(last);
            let [yes, no] = [edges[0], edges[1]].map(|edge| func.edge_target(edge));
            let way = if taken { yes } else { no };
            (yes != no && graph.preds(way).len() == 1).then_some(way)
        })
        .collect()
}

fn take_turns(func: &mut Function, inst: Inst) -> Result<(), PhaseError> {
    let Some(head) = func.layout.inst_block(inst) else {
        return Ok(());
    };
    let guard = func.inst(inst).guard();
    let span = func.inst(inst).span();
    let tail = func.split_block(inst);
    func.layout.remove_inst(inst);
    let mut maker = Maker {
        func,
        at: head,
        span,
    };
    let around = maker.block();
    let waiting = maker.func.append_block_param(around, Type::P);
    match guard.reg() {
        None => {
            let all = maker
                .cursor()
                .build(AbstractOp::Mov)
                .with(Scalar::Pred)
                .imm(1)
                .value()
                .map_err(refused)?;
            maker.jump(around, &[all])?;
        }
        // Nobody may be there: then nothing runs.
        Some(reg) => {
            let condition = match guard.is_negated() {
                true => not(reg.into()),
                false => reg.into(),
            };
            let these = maker.binary(AbstractOp::And, Scalar::Pred, condition, condition)?;
            let some = maker
                .cursor()
                .build(AbstractOp::AnyRunning)
                .operand(these)
                .value()
                .map_err(refused)?;
            maker.branch(some, (around, &[these]), (tail, &[]))?;
        }
    }
    maker.at = around;
    let turn = maker
        .cursor()
        .build(AbstractOp::ElectTurn)
        .operand(waiting)
        .value()
        .map_err(refused)?;
    maker.func.set_guard(inst, Guard::when(turn));
    maker.func.layout.append_inst(inst, around);
    let left = maker.binary(
        AbstractOp::And,
        Scalar::Pred,
        waiting.into(),
        not(turn.into()),
    )?;
    let any = maker
        .cursor()
        .build(AbstractOp::AnyRunning)
        .operand(left)
        .value()
        .map_err(refused)?;
    maker.branch(any, (around, &[left]), (tail, &[]))
}
