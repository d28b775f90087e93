//! OptimizeHotColdInLoop (108) and OptimizeHotColdFlow (109): code layout by hot and cold blocks, so that what runs often lies together.
//!
//! Instruction fetch goes on from one line to the next, so blocks that run in a row should lie in a row. Nothing is measured here: that a
//! loop runs more often than what is around it, and that a path which ends in a trap hardly ever runs, is all that is known.
//!
//! - **In loops.** A block that lies between the first and the last block of a loop without belonging to it goes behind the loop: what
//!   lies in a loop is listed in the order it has, inner loops as one thing, and the lists are put one into the other.
//! - **In the function.** Cold blocks, from which every path ends in a trap, go behind all others.
//!
//! Blocks keep their order otherwise, the entry stays first, and no instruction changes: until PostFixForMercTargets (113) a block may
//! fall through to any other. Both are linear in blocks.

use crate::pipeline::{Context, PhaseError};
use cranelift_entity::SecondaryMap;
use orias_ori::analysis::{DepthFirst, FlowGraph, Loop, LoopNest};
use orias_ori::{AbstractOp, Block, Function, Opcode};
use orias_sass::Effects;

/// The blocks from which every path ends in a trap.
#[derive(Clone, Debug, Default)]
pub struct ColdBlocks(SecondaryMap<Block, bool>);

impl ColdBlocks {
    /// Finds them: backwards from the traps, a block as soon as all that may follow it are known to be cold.
    pub fn new(func: &Function) -> ColdBlocks {
        let mut cold = ColdBlocks::default();
        let mut warm: SecondaryMap<Block, u32> = SecondaryMap::new();
        let mut preds: SecondaryMap<Block, Vec<Block>> = SecondaryMap::new();
        let mut found = Vec::new();
        for block in func.blocks() {
            for to in func.successors(block) {
                warm[block] += 1;
                preds[to].push(block);
            }
            if warm[block] == 0 && ends_in_trap(func, block) {
                found.push(block);
            }
        }
        while let Some(block) = found.pop() {
            if std::mem::replace(&mut cold.0[block], true) {
                continue;
            }
            for &pred in &preds[block] {
                warm[pred] -= 1;
                if warm[pred] == 0 {
                    found.push(pred);
                }
            }
        }
        cold
    }

    /// Whether `block` is one of them.
    pub fn contains(&self, block: Block) -> bool {
        self.0[block]
    }
}

/// Whether a block without successors stops the kernel, or is never reached to its end.
fn ends_in_trap(func: &Function, block: Block) -> bool {
    func.block_insts(block).any(|inst| match func.opcode(inst) {
        Opcode::Abstract(op) => op == AbstractOp::Unreachable,
        Opcode::Machine(op) => {
            op.row().effects.contains(Effects::TRAP) && func.inst(inst).guard().is_always()
        }
    })
}

/// What lies in a loop, or in none: blocks, and loops with all that lies in them.
#[derive(Clone, Copy)]
enum Item {
    Block(Block),
    Loop(Loop),
}

/// Phase 108.
pub fn optimize_hot_cold_in_loops(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    let flow = FlowGraph::of(func);
    let walk = DepthFirst::new(&flow);
    let nest = LoopNest::new(&flow, &walk);
    if nest.loops().next().is_none() {
        return Ok(());
    }
    let before: Vec<Block> = func.blocks().collect();
    // Each list in the order in which the blocks lay: a loop stands where its first block did.
    let mut outside: Vec<Item> = Vec::new();
    let mut inside: SecondaryMap<Loop, Vec<Item>> = SecondaryMap::new();
    let mut met: SecondaryMap<Loop, bool> = SecondaryMap::new();
    for &block in &before {
        let mut item = Item::Block(block);
        let mut around = nest.innermost(block);
        while let Some(of) = around {
            inside[of].push(item);
            if std::mem::replace(&mut met[of], true) {
                break;
            }
            item = Item::Loop(of);
            around = nest.parent(of);
        }
        if around.is_none() {
            outside.push(item);
        }
    }
    let mut after: Vec<Block> = Vec::with_capacity(before.len());
    let mut open = vec![outside.into_iter()];
    while let Some(items) = open.last_mut() {
        match items.next() {
            Some(Item::Block(block)) => after.push(block),
            Some(Item::Loop(of)) => open.push(std::mem::take(&mut inside[of]).into_iter()),
            None => {
                open.pop();
            }
        }
    }
    if after != before {
        for &block in &before {
            func.layout.remove_block(block);
        }
        for block in after {
            func.layout.append_block(block);
        }
    }
    Ok(())
}

/// Phase 109.
pub fn optimize_hot_cold_flow(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    let cold = ColdBlocks::new(func);
    let entry = func.entry();
    let moved: Vec<Block> = func
        .blocks()
        .filter(|&block| cold.contains(block) && Some(block) != entry)
        .collect();
    for block in moved {
        func.layout.remove_block(block);
        func.layout.append_block(block);
    }
    Ok(())
}
