//! Convergence analysis: where the lanes of a warp are together, if lanes that have ended count no more.
//!
//! A lane that exits or traps is nobody's to wait for. So the ways that can only end are taken out of the graph before asking where lanes meet and where
//! only some of them run. What is taken out are blocks: a guard (`if (…) return`) and the end of the kernel usually share the block that exits, so
//! [`separate_exits`] gives each branch an exit of its own first.

use orias_ori::analysis::{DepthFirst, Divergence, FlowGraph, LoopNest, Split};
use orias_ori::builder::{BuildError, Cursor};
use orias_ori::{AbstractOp, Block, Edge, Function, FunctionKind, Opcode};

/// Gives every way of a branch into a block that only exits such a block of its own. Selection makes EXIT under a guard of it.
///
/// Cost: linear.
pub(crate) fn separate_exits(func: &mut Function) -> Result<(), BuildError> {
    let graph = FlowGraph::of(func);
    let mut shared: Vec<Edge> = Vec::new();
    for block in func.blocks() {
        let edges = func.successor_edges(block);
        shared.extend(edges.iter().filter(|&&edge| {
            let to = func.edge_target(edge);
            edges.len() > 1 && graph.preds(to).len() > 1 && only_exits(func, to)
        }));
    }
    for edge in shared {
        let to = func.edge_target(edge);
        let span = func.terminator(to).and_then(|exit| func.inst(exit).span());
        let own = func.create_block();
        func.layout.insert_block_after(own, to);
        func.set_edge(edge, own, &[]);
        let mut cursor = Cursor::at_end(func, own);
        cursor.set_span(span);
        cursor.build(AbstractOp::Exit).finish()?;
    }
    Ok(())
}

/// The first operation of `block`, if nothing guards it.
fn first_op(func: &Function, block: Block) -> Option<AbstractOp> {
    let first = func.layout.first_inst(block)?;
    let op = func.opcode(first).as_abstract()?;
    func.inst(first).guard().is_always().then_some(op)
}

/// Whether `block` does nothing but exit.
fn only_exits(func: &Function, block: Block) -> bool {
    first_op(func, block) == Some(AbstractOp::Exit)
}

/// By block: whether lanes that come to it are nobody's to wait for. Every way from it ends without coming back, and either only some lanes
/// come to it and it is not the way the function ends, or it does nothing and each lane comes to it when a branch sends it there.
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
    // An exit of a branch.
    let is_way_out = |block: Block| {
        only_exits(func, block)
            && graph
                .preds(block)
                .iter()
                .all(|&from| graph.succs(from).len() > 1)
    };
    let parts_there = |block: Block| {
        let mut from = graph.preds(block).iter();
        from.all(|&from| divergence.is_divergent_branch(from))
    };
    // Of the blocks that end well, the one that most of the function comes to: the last in reverse postorder.
    let main = walk
        .reverse_postorder()
        .rfind(|&block| ends_well(block) && !is_way_out(block));
    // Successors first.
    for &block in walk.postorder() {
        let successors = graph.succs(block);
        let partial = divergence.is_partial(block);
        ending[block.as_u32() as usize] = match successors.is_empty() {
            true if is_way_out(block) => partial || parts_there(block),
            true => partial && Some(block) != main,
            false => {
                let mut ends = successors.iter();
                partial && ends.all(|&next| ending[next.as_u32() as usize])
            }
        };
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

/// By block: whether lanes part at its end of which some are about to end, but do something before. The others do not wait for them at
/// a BSYNC, so the warp is in parts until an operation gathers it.
pub(crate) fn blocks_left_by_lanes_that_end(
    func: &Function,
    graph: &FlowGraph,
    divergence: &Divergence,
    ending: &[bool],
) -> Vec<bool> {
    let ends_later = |&to: &Block| {
        let at_once = matches!(
            first_op(func, to),
            Some(AbstractOp::Exit | AbstractOp::Trap)
        );
        ending[to.as_u32() as usize] && !at_once
    };
    let parts = |block| divergence.is_divergent_branch(block);
    graph
        .blocks()
        .map(|block| parts(block) && graph.succs(block).iter().any(ends_later))
        .collect()
}

/// The blocks of `apart` and those that come behind blocks of `left`: whether any lane of the warp that has not ended may be elsewhere.
pub(crate) fn blocks_apart_or_behind(
    graph: &FlowGraph,
    apart: &[bool],
    left: &[bool],
) -> Vec<bool> {
    let mut found = apart.to_vec();
    let mut seen = left.to_vec();
    let mut pending: Vec<Block> = graph
        .blocks()
        .filter(|block| left[block.as_u32() as usize])
        .collect();
    while let Some(block) = pending.pop() {
        for &next in graph.succs(block) {
            found[next.as_u32() as usize] = true;
            if !std::mem::replace(&mut seen[next.as_u32() as usize], true) {
                pending.push(next);
            }
        }
    }
    found
}

/// By block: whether lanes of the warp that have not ended and are not `ending` may be elsewhere while others run it.
pub(crate) fn blocks_apart(
    func: &Function,
    graph: &FlowGraph,
    walk: &DepthFirst,
    divergence: &Divergence,
    ending: &[bool],
) -> Vec<bool> {
    if !ending.contains(&true) {
        // Nothing is taken out: lanes part and meet as they do for divergence.
        let apart = |block| !walk.is_reachable(block) || divergence.is_partial(block);
        return graph.blocks().map(apart).collect();
    }
    let pruned = without_ends(graph, ending);
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
