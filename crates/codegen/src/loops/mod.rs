//! What the loop phases share: the shape of a function's loops, closed form, and copies of regions.
//!
//! - [`LoopAnalyses`]: the control flow graph with its dominator tree and loop nest, and the edges by target.
//! - [`preheader`]: a block that every way into a loop goes through just before the header.
//! - [`close`]: after it, whatever a region computes leaves it through parameters of the blocks it leads to, so that a copy of the region may lead there, too.
//! - [`copy`]: a copy of a region, with its blocks, values and edges; [`is_singular`] says what has none, [`instructions`] what it costs.
//! - [`part`] and [`go`]: ends of blocks that become a branch, or a jump.
//! - [`start`]: what an induction variable starts with.
//!
//! Each is linear in what it looks at. Snapshots are not kept up to date: whoever changes the graph of one loop may go on with loops that have no block in common with it.

mod branch;
mod close;
mod copy;
mod preheader;
mod start;

pub use branch::{go, part};
pub use close::{Closing, close};
pub use copy::{Copied, copy, instructions, is_singular};
pub use preheader::{new_block_before, preheader};
pub use start::start;

use cranelift_entity::SecondaryMap;
use orias_ori::analysis::{Csr, DepthFirst, DominatorTree, FlowGraph, Loop, LoopNest};
use orias_ori::{Block, Edge, Function};

/// The control flow of a function, as the loop phases look at it.
#[derive(Debug)]
pub struct LoopAnalyses {
    /// The blocks and what follows them.
    pub graph: FlowGraph,
    /// Its depth-first walk.
    pub walk: DepthFirst,
    /// Its dominators.
    pub tree: DominatorTree,
    /// Its loops.
    pub nest: LoopNest,
    incoming: Csr<(Block, Edge)>,
}

impl LoopAnalyses {
    /// The shape of `func`, which has an entry.
    pub fn of(func: &Function) -> Self {
        let graph = FlowGraph::of(func);
        let walk = DepthFirst::new(&graph);
        let tree = DominatorTree::new(&graph, &walk);
        let nest = LoopNest::new(&graph, &walk);
        let edges = walk.reverse_postorder().flat_map(|from| {
            let edges = func.successor_edges(from).iter();
            edges.map(move |&edge| (func.edge_target(edge).as_u32(), (from, edge)))
        });
        let incoming = Csr::from_pairs(graph.block_count(), edges.collect::<Vec<_>>().into_iter());
        Self {
            graph,
            walk,
            tree,
            nest,
            incoming,
        }
    }

    /// The edges to `block` from reachable blocks, with the blocks they leave.
    pub fn incoming(&self, block: Block) -> &[(Block, Edge)] {
        self.incoming.row(block.as_u32())
    }

    /// The edges to the header of `of` from inside.
    pub fn back_edges(&self, of: Loop) -> Vec<Edge> {
        self.header_edges(of, true)
    }

    /// The edges to the header of `of` from outside.
    pub fn entering_edges(&self, of: Loop) -> Vec<Edge> {
        self.header_edges(of, false)
    }

    fn header_edges(&self, of: Loop, inside: bool) -> Vec<Edge> {
        let edges = self.incoming(self.nest.header(of)).iter();
        edges
            .filter(|(from, _)| self.nest.contains(of, *from) == inside)
            .map(|&(_, edge)| edge)
            .collect()
    }
}

/// A set of blocks that is copied as one: a loop, or part of one.
#[derive(Clone, Debug)]
pub struct Region {
    /// Its blocks, in an order in which a block comes after those that dominate it.
    pub blocks: Vec<Block>,
    member: SecondaryMap<Block, bool>,
}

impl Region {
    /// The region of these blocks.
    pub fn new(blocks: Vec<Block>) -> Self {
        let mut member = SecondaryMap::new();
        for &block in &blocks {
            member[block] = true;
        }
        Self { blocks, member }
    }

    /// Whether `block` belongs to it.
    pub fn contains(&self, block: Block) -> bool {
        self.member[block]
    }
}
