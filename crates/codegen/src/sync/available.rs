//! Available facts: a forward must-analysis over sets of at most 64 facts, which hold on every way to a block.
//!
//! Facts are bits. At the entry none holds; where ways meet, those that hold on all of them do; a block that no way has come to yet does not object. Sets
//! only shrink, so the rounds end: blocks times facts bounds them, two or three are the rule.

use orias_ori::analysis::{DepthFirst, FlowGraph};
use orias_ori::{Block, Function, Inst};

/// Facts that hold at the start of each block, by its number; nothing for blocks that no way leads to. `step` takes the facts before an instruction to those after it.
pub(crate) fn at_starts(func: &Function, step: impl Fn(Inst, u64) -> u64) -> Vec<Option<u64>> {
    let graph = FlowGraph::of(func);
    let walk = DepthFirst::new(&graph);
    let order: Vec<Block> = walk.reverse_postorder().collect();
    let mut starts: Vec<Option<u64>> = vec![None; graph.block_count()];
    if let Some(&entry) = order.first() {
        starts[entry.as_u32() as usize] = Some(0);
    }
    let mut again = true;
    while again {
        again = false;
        for &block in &order {
            let Some(start) = starts[block.as_u32() as usize] else {
                continue;
            };
            let end = func
                .block_insts(block)
                .fold(start, |held, inst| step(inst, held));
            for &next in graph.succs(block) {
                let start = &mut starts[next.as_u32() as usize];
                let met = start.map_or(end, |held| held & end);
                again |= *start != Some(met);
                *start = Some(met);
            }
        }
    }
    starts
}
