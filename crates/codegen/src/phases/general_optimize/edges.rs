//! The edges that enter each block.

use orias_ori::{Block, Edge, Function};

/// Every edge of the layout, sorted by the block it enters.
pub(super) struct Incoming {
    edges: Vec<Edge>,
    /// Where the edges of each block start, and one more.
    starts: Vec<usize>,
}

impl Incoming {
    /// Counts, then fills: linear.
    pub(super) fn new(function: &Function) -> Self {
        let mut starts = vec![0; function.block_count() + 1];
        for edge in all_edges(function) {
            starts[function.edge_target(edge).as_u32() as usize + 1] += 1;
        }
        for index in 1..starts.len() {
            starts[index] += starts[index - 1];
        }
        let mut filled = starts.clone();
        let total = starts.last().copied().unwrap_or(0);
        let mut edges = vec![Edge::from_u32(0); total];
        for edge in all_edges(function) {
            let target = function.edge_target(edge).as_u32() as usize;
            edges[filled[target]] = edge;
            filled[target] += 1;
        }
        Self { edges, starts }
    }

    /// The edges that enter `block`.
    pub(super) fn of(&self, block: Block) -> &[Edge] {
        let index = block.as_u32() as usize;
        &self.edges[self.starts[index]..self.starts[index + 1]]
    }
}

fn all_edges(function: &Function) -> impl Iterator<Item = Edge> + '_ {
    function
        .blocks()
        .flat_map(|block| function.successor_edges(block).iter().copied())
}
