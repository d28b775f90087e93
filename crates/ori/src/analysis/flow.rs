//! The shape of control flow: blocks as dense numbers, successors and predecessors in flat arrays.
//!
//! A [`FlowGraph`] is a snapshot. It knows nothing of instructions, so every analysis of shape alone (orders, dominance,
//! loops, reconvergence) can be built and tested on graphs without code in them. Two edges between the same two blocks
//! stay two edges: a switch may pass different arguments along each.

use super::csr::Csr;
use crate::{Block, Function};
use cranelift_entity::EntityRef;

/// Marks "none" in arrays of block numbers, tree positions and the like.
pub(crate) const NONE: u32 = u32::MAX;

/// A control-flow graph over the blocks `0..block_count`, with one entry.
///
/// The type of its nodes is a parameter because some analyses build graphs of their own (a reversed graph with a virtual
/// exit, a loop body with inner loops folded) and run the same algorithms on them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowGraph<N: EntityRef = Block> {
    entry: N,
    succs: Csr<N>,
    preds: Csr<N>,
}

impl<N: EntityRef> FlowGraph<N> {
    /// The graph with `block_count` blocks and `edges`, given as (from, to).
    ///
    /// Successors of a block keep the order of `edges`; predecessors are ordered by the number of the block they come
    /// from, then by successor order.
    ///
    /// # Panics
    /// If `entry` or an edge names a block that does not exist.
    pub fn from_edges(block_count: usize, entry: N, edges: &[(N, N)]) -> Self {
        assert!(entry.index() < block_count, "the entry is not a block");
        let succs = Csr::from_pairs(
            block_count,
            edges.iter().map(|&(from, to)| (from.index() as u32, to)),
        );
        let preds = Csr::from_pairs(
            block_count,
            (0..block_count).flat_map(|from| {
                succs
                    .row(from as u32)
                    .iter()
                    .map(move |to| (to.index() as u32, N::new(from)))
            }),
        );
        FlowGraph {
            entry,
            succs,
            preds,
        }
    }

    /// Where execution begins. It may have predecessors.
    pub fn entry(&self) -> N {
        self.entry
    }

    /// How many block numbers the graph spans, unreachable ones included.
    pub fn block_count(&self) -> usize {
        self.succs.rows()
    }

    /// How many edges there are.
    pub fn edge_count(&self) -> usize {
        self.succs.items().len()
    }

    /// Every block number, in order.
    pub fn blocks(&self) -> impl Iterator<Item = N> + Clone + use<N> {
        (0..self.block_count()).map(N::new)
    }

    /// Where control may go from `block`, in the order of its terminator.
    pub fn succs(&self, block: N) -> &[N] {
        self.succs.row(block.index() as u32)
    }

    /// The blocks control may come from, one for each edge.
    pub fn preds(&self, block: N) -> &[N] {
        self.preds.row(block.index() as u32)
    }

    /// Every edge as (from, to), by number of the block it leaves, then in successor order.
    pub fn edges(&self) -> impl Iterator<Item = (N, N)> + Clone + '_ {
        self.blocks()
            .flat_map(|from| self.succs(from).iter().map(move |&to| (from, to)))
    }
}

impl FlowGraph {
    /// The graph of `function`. Blocks that are not in its layout have no edges.
    ///
    /// # Panics
    /// If the function has no block.
    pub fn of(function: &Function) -> Self {
        let entry = function.entry().expect("a function with code has an entry");
        let edges: Vec<(Block, Block)> = function
            .blocks()
            .flat_map(|from| function.successors(from).map(move |to| (from, to)))
            .collect();
        FlowGraph::from_edges(function.block_count(), entry, &edges)
    }
}
