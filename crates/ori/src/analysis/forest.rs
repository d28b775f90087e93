//! Rooted forests with constant-time ancestor tests.
//!
//! Dominator trees, post-dominator trees and loop nests are all forests given by parent links. Numbering the nodes in
//! preorder makes each subtree an interval, so "is `a` above `b`" is two comparisons. Cost: O(nodes).

use super::csr::Csr;
use super::flow::NONE;

/// A forest over `0..len`; nodes may be absent.
#[derive(Clone, Debug)]
pub(crate) struct Forest {
    children: Csr<u32>,
    /// Nodes in preorder, roots and children in ascending order of their number.
    preorder: Vec<u32>,
    /// Per node: its place in `preorder`, or `NONE` when absent.
    first: Vec<u32>,
    /// Per node: one past the last place in its subtree.
    end: Vec<u32>,
    depth: Vec<u32>,
}

impl Forest {
    /// The forest in which `parent(node)` is the link upward, `None` for roots. Nodes for which `present` is false are not
    /// part of it.
    pub(crate) fn new(
        len: usize,
        present: impl Fn(u32) -> bool,
        parent: impl Fn(u32) -> Option<u32>,
    ) -> Self {
        let links = (0..len as u32).filter_map(|node| Some((parent(node)?, node)));
        let children = Csr::from_pairs(len, links);
        let mut forest = Forest {
            children,
            preorder: Vec::with_capacity(len),
            first: vec![NONE; len],
            end: vec![0; len],
            depth: vec![0; len],
        };
        let mut stack: Vec<(u32, usize)> = Vec::new();
        for root in (0..len as u32).filter(|&node| present(node) && parent(node).is_none()) {
            forest.enter(root, 0, &mut stack);
            while let Some((node, next)) = stack.last_mut() {
                let node = *node;
                if let Some(&child) = forest.children.row(node).get(*next) {
                    *next += 1;
                    let depth = forest.depth[node as usize] + 1;
                    forest.enter(child, depth, &mut stack);
                } else {
                    stack.pop();
                    forest.end[node as usize] = forest.preorder.len() as u32;
                }
            }
        }
        forest
    }

    fn enter(&mut self, node: u32, depth: u32, stack: &mut Vec<(u32, usize)>) {
        self.first[node as usize] = self.preorder.len() as u32;
        self.depth[node as usize] = depth;
        self.preorder.push(node);
        stack.push((node, 0));
    }

    pub(crate) fn is_present(&self, node: u32) -> bool {
        self.first[node as usize] != NONE
    }

    /// Whether `above` is `below` or an ancestor of it; false when either is absent.
    pub(crate) fn is_ancestor(&self, above: u32, below: u32) -> bool {
        let below = self.first[below as usize];
        below != NONE && self.first[above as usize] <= below && below < self.end[above as usize]
    }

    pub(crate) fn children(&self, node: u32) -> &[u32] {
        self.children.row(node)
    }

    pub(crate) fn depth(&self, node: u32) -> u32 {
        self.depth[node as usize]
    }

    /// Every present node, parents before children.
    pub(crate) fn preorder(&self) -> &[u32] {
        &self.preorder
    }
}
