//! Where the lanes of a warp are together, if lanes that have ended count no more.
//!
//! A lane that exits or traps is nobody's to wait for. So the ways that can only end are taken out of the graph before asking where lanes meet and where
//! only some of them run.

use orias_ori::analysis::{DepthFirst, Divergence, FlowGraph, LoopNest, Split};
use orias_ori::{AbstractOp, Block, Function, FunctionKind, Opcode};

/// By block: whether only some lanes come to it and every way from it ends without coming back, unless it is the way the
/// function ends.
pub(crate) fn ending_blocks(
    func: &Function,
    graph: &FlowGraph,
    walk: &DepthFirst,
    divergence: &Divergence,
) -> Vec<bool> {
    let mut ending = vec![false; func.block_count()];
    let ends_well = |block: Block| {
        let last = func.terminator(block).map(|inst| func.opcode(inst));
        matches!(
            last,
            Some(Opcode::Abstract(AbstractOp::Exit | AbstractOp::Ret))
        )
    };
    // Of the blocks that end well, the one that most of the function comes to: the last in reverse postorder.
    let main = walk.reverse_postorder().rfind(|&block| ends_well(block));
    // Successors first.
    for &block in walk.postorder() {
        let successors = graph.succs(block);
        let ends = match successors.is_empty() {
            true => Some(block) != main,
            false => successors
                .iter()
                .all(|&next| ending[next.as_u32() as usize]),
        };
        ending[block.as_u32() as usize] = ends && divergence.is_partial(block);
    }
    if let Some(entry) = func.entry() {
        ending[entry.as_u32() as usize] = false;
    }
    ending
}

/// The graph without edges into blocks that only end.
pub(crate) fn without_ends(graph: &FlowGraph, ending: &[bool]) -> FlowGraph {
    let edges: Vec<(Block, Block)> = graph
        .edges()
        .filter(|(_, to)| !ending[to.as_u32() as usize])
        .collect();
    FlowGraph::from_edges(graph.block_count(), graph.entry(), &edges)
}

/// By block: whether lanes of the warp that have not ended may be elsewhere while others run it.
pub(crate) fn blocks_apart(
    func: &Function,
    graph: &FlowGraph,
    walk: &DepthFirst,
    divergence: &Divergence,
) -> Vec<bool> {
    let ending = ending_blocks(func, graph, walk, divergence);
    if !ending.contains(&true) {
        // Nothing is taken out: lanes part and meet as they do for divergence.
        let apart = |block| !walk.is_reachable(block) || divergence.is_partial(block);
        return graph.blocks().map(apart).collect();
    }
    let pruned = without_ends(graph, &ending);
    let pruned_walk = DepthFirst::new(&pruned);
    let nest = LoopNest::new(&pruned, &pruned_walk);
    let mut split = Split::new(&pruned, &pruned_walk, &nest);
    if func.kind == FunctionKind::Device {
        split.enter_partial(&pruned_walk);
    }
    for block in pruned.blocks() {
        let parts = pruned_walk.is_reachable(block) && divergence.is_divergent_branch(block);
        if parts && pruned.succs(block).len() > 1 {
            split.diverge(block);
        }
    }
    // What was taken out is only run by lanes that are about to end.
    pruned
        .blocks()
        .map(|block| !pruned_walk.is_reachable(block) || split.is_partial(block))
        .collect()
}
