//! Depth-first orders of a control-flow graph.
//!
//! One iterative walk from the entry, successors in their order, gives the preorder, the postorder, each block's parent in
//! the walk's tree and the reachable set. Reverse postorder visits every block before its successors except along
//! retreating edges, which is the order forward analyses want; postorder is the one for backward analyses.
//! Cost: O(blocks + edges).

use super::flow::{FlowGraph, NONE};
use crate::Block;
use cranelift_entity::EntityRef;

/// The depth-first walk of a graph from its entry.
#[derive(Clone, Debug)]
pub struct DepthFirst<N: EntityRef = Block> {
    preorder: Vec<N>,
    postorder: Vec<N>,
    pre_number: Vec<u32>,
    post_number: Vec<u32>,
    parent: Vec<u32>,
    /// By preorder number: one past the last preorder number in the block's subtree.
    subtree_end: Vec<u32>,
}

impl<N: EntityRef> DepthFirst<N> {
    /// Walks `graph` from its entry.
    pub fn new(graph: &FlowGraph<N>) -> Self {
        let count = graph.block_count();
        let mut walk = DepthFirst {
            preorder: Vec::with_capacity(count),
            postorder: Vec::with_capacity(count),
            pre_number: vec![NONE; count],
            post_number: vec![NONE; count],
            parent: vec![NONE; count],
            subtree_end: Vec::with_capacity(count),
        };
        let mut stack: Vec<(N, u32)> = Vec::new();
        walk.enter(graph.entry(), &mut stack);
        while let Some((block, next)) = stack.last_mut() {
            let block = *block;
            if let Some(&succ) = graph.succs(block).get(*next as usize) {
                *next += 1;
                if walk.pre_number[succ.index()] == NONE {
                    walk.parent[succ.index()] = block.index() as u32;
                    walk.enter(succ, &mut stack);
                }
            } else {
                stack.pop();
                walk.post_number[block.index()] = walk.postorder.len() as u32;
                walk.postorder.push(block);
                walk.subtree_end[walk.pre_number[block.index()] as usize] =
                    walk.preorder.len() as u32;
            }
        }
        walk
    }

    fn enter(&mut self, block: N, stack: &mut Vec<(N, u32)>) {
        self.pre_number[block.index()] = self.preorder.len() as u32;
        self.preorder.push(block);
        self.subtree_end.push(NONE);
        stack.push((block, 0));
    }

    /// Whether control can get to `block`.
    pub fn is_reachable(&self, block: N) -> bool {
        self.pre_number[block.index()] != NONE
    }

    /// Reachable blocks, each when first met.
    pub fn preorder(&self) -> &[N] {
        &self.preorder
    }

    /// Reachable blocks, each after everything first met below it.
    pub fn postorder(&self) -> &[N] {
        &self.postorder
    }

    /// Reachable blocks in reverse postorder: the entry first.
    pub fn reverse_postorder(
        &self,
    ) -> impl DoubleEndedIterator<Item = N> + ExactSizeIterator + Clone + '_ {
        self.postorder.iter().rev().copied()
    }

    /// The place of `block` in [`preorder`](Self::preorder).
    pub fn preorder_number(&self, block: N) -> Option<u32> {
        Some(self.pre_number[block.index()]).filter(|&number| number != NONE)
    }

    /// The place of `block` in [`postorder`](Self::postorder).
    pub fn postorder_number(&self, block: N) -> Option<u32> {
        Some(self.post_number[block.index()]).filter(|&number| number != NONE)
    }

    /// The block from which the walk first met `block`.
    pub fn parent(&self, block: N) -> Option<N> {
        Some(self.parent[block.index()])
            .filter(|&parent| parent != NONE)
            .map(|parent| N::new(parent as usize))
    }

    /// Whether `below` was first met while `above` was being explored, or is `above`. Unreachable blocks are below nothing.
    pub fn is_ancestor(&self, above: N, below: N) -> bool {
        let (above, below) = (
            self.pre_number[above.index()],
            self.pre_number[below.index()],
        );
        above != NONE && below != NONE && above <= below && below < self.subtree_end[above as usize]
    }
}
