//! The slow, obvious side: reachability by flooding, and what can be said with it.

use cranelift_entity::EntityRef;
use orias_ori::Block;
use orias_ori::analysis::FlowGraph;

/// The blocks that a path from one of `from` leads to (these included) without going through a block `barred` forbids.
pub(crate) fn reach(
    graph: &FlowGraph,
    from: &[Block],
    barred: impl Fn(Block) -> bool,
) -> Vec<bool> {
    let mut seen = vec![false; graph.block_count()];
    let mut pending: Vec<Block> = from
        .iter()
        .copied()
        .filter(|&block| !barred(block))
        .collect();
    for block in &pending {
        seen[block.index()] = true;
    }
    while let Some(block) = pending.pop() {
        for &succ in graph.succs(block) {
            if !barred(succ) && !seen[succ.index()] {
                seen[succ.index()] = true;
                pending.push(succ);
            }
        }
    }
    seen
}

/// `reaches[a][b]`: a path of at least one edge leads from `a` to `b`.
pub(crate) fn reaches(graph: &FlowGraph) -> Vec<Vec<bool>> {
    graph
        .blocks()
        .map(|block| reach(graph, graph.succs(block), |_| false))
        .collect()
}
