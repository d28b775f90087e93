//! Dominators and post-dominators.
//!
//! Block `a` *dominates* `b` when every path from the entry to `b` goes through `a`; it *post-dominates* `b` when every path
//! from `b` to the end of the function does.
//!
//! **Algorithm.** Lengauer and Tarjan's, with path compression and plain linking: O(edges · log blocks) on every graph. The
//! iterative scheme of Cooper, Harvey and Kennedy and the semi-NCA scheme are shorter, but both have quadratic cases, and
//! generated code finds them (a ladder for the first, a deep nest of loops that all leave to one block for the second).
//! The tree is then numbered in preorder, so that [`DominatorTree::dominates`] is two comparisons.
//!
//! **The virtual exit.** Post-dominance is dominance on the reversed graph from one exit that follows every block without
//! successors. A loop that can never be left has no such block. For each group of blocks that control cannot leave (a
//! strongly connected component without an edge out), every block of the group gets an edge to the virtual exit: execution
//! may be observed to stay forever anywhere in it, so no block of the group is promised to be met again, while everything
//! outside the group still sees the group's way in. The result does not depend on the order in which blocks were visited.
//!
//! **Unreachable blocks.** No path leads to them, so every block dominates them, and they dominate only each other. They do
//! take part in post-dominance, as every block has a way to the virtual exit.

use super::components::Components;
use super::flow::{FlowGraph, NONE};
use super::forest::Forest;
use super::order::DepthFirst;
use crate::Block;
use cranelift_entity::EntityRef;

/// The immediate dominator of each node of `graph`; `NONE` for the entry and for unreachable nodes.
pub(crate) fn immediate_dominators<N: EntityRef>(
    graph: &FlowGraph<N>,
    walk: &DepthFirst<N>,
) -> Vec<u32> {
    // Everything below is in preorder numbers of the walk, so that "smaller" means "met earlier".
    let count = walk.preorder().len();
    let number = |node: N| walk.preorder_number(node);
    let mut semi: Vec<u32> = (0..count as u32).collect();
    let mut links = LinkForest::new(count);
    // Nodes waiting in the bucket of their semidominator, as linked lists.
    let mut bucket = vec![NONE; count];
    let mut bucket_next = vec![NONE; count];
    let mut idom = vec![NONE; count];
    let parent: Vec<u32> = walk
        .preorder()
        .iter()
        .map(|&node| walk.parent(node).and_then(number).unwrap_or(NONE))
        .collect();
    for node in (1..count as u32).rev() {
        for &pred in graph.preds(walk.preorder()[node as usize]) {
            if let Some(pred) = number(pred) {
                let candidate = semi[links.eval(pred, &semi) as usize];
                semi[node as usize] = semi[node as usize].min(candidate);
            }
        }
        let semidominator = semi[node as usize];
        bucket_next[node as usize] = bucket[semidominator as usize];
        bucket[semidominator as usize] = node;
        let parent = parent[node as usize];
        links.link(parent, node);
        let mut waiting = std::mem::replace(&mut bucket[parent as usize], NONE);
        while waiting != NONE {
            let best = links.eval(waiting, &semi);
            // Either the answer itself, or a node with the same answer, settled in the second pass.
            idom[waiting as usize] = if semi[best as usize] < semi[waiting as usize] {
                best
            } else {
                parent
            };
            waiting = bucket_next[waiting as usize];
        }
    }
    for node in 1..count {
        if idom[node] != semi[node] {
            idom[node] = idom[idom[node] as usize];
        }
    }
    let mut by_node = vec![NONE; graph.block_count()];
    for node in 1..count {
        by_node[walk.preorder()[node].index()] =
            walk.preorder()[idom[node] as usize].index() as u32;
    }
    by_node
}

/// The forest Lengauer and Tarjan grow: `eval` finds the node of least semidominator on the linked path above a node.
struct LinkForest {
    ancestor: Vec<u32>,
    label: Vec<u32>,
    path: Vec<u32>,
}

impl LinkForest {
    fn new(count: usize) -> Self {
        LinkForest {
            ancestor: vec![NONE; count],
            label: (0..count as u32).collect(),
            path: Vec::new(),
        }
    }

    fn link(&mut self, parent: u32, node: u32) {
        self.ancestor[node as usize] = parent;
    }

    fn eval(&mut self, node: u32, semi: &[u32]) -> u32 {
        // Collect the nodes whose ancestor has an ancestor, then compress from the top down.
        let mut at = node;
        loop {
            let above = self.ancestor[at as usize];
            if above == NONE || self.ancestor[above as usize] == NONE {
                break;
            }
            self.path.push(at);
            at = above;
        }
        while let Some(at) = self.path.pop() {
            let above = self.ancestor[at as usize];
            if semi[self.label[above as usize] as usize] < semi[self.label[at as usize] as usize] {
                self.label[at as usize] = self.label[above as usize];
            }
            self.ancestor[at as usize] = self.ancestor[above as usize];
        }
        self.label[node as usize]
    }
}

/// Which block every path from the entry must have gone through.
#[derive(Clone, Debug)]
pub struct DominatorTree {
    idom: Vec<u32>,
    tree: Forest,
}

impl DominatorTree {
    /// Builds the tree of `graph`, whose depth-first walk is `walk`.
    pub fn new(graph: &FlowGraph, walk: &DepthFirst) -> Self {
        let idom = immediate_dominators(graph, walk);
        let tree = Forest::new(
            graph.block_count(),
            |node| walk.is_reachable(Block::from_u32(node)),
            |node| Some(idom[node as usize]).filter(|&above| above != NONE),
        );
        DominatorTree { idom, tree }
    }

    /// The closest block other than `block` that dominates it; none for the entry and for unreachable blocks.
    pub fn immediate_dominator(&self, block: Block) -> Option<Block> {
        Some(self.idom[block.index()])
            .filter(|&above| above != NONE)
            .map(Block::from_u32)
    }

    /// Whether every path from the entry to `b` goes through `a`. Each block dominates itself; see the module on
    /// unreachable ones.
    pub fn dominates(&self, a: Block, b: Block) -> bool {
        self.tree.is_ancestor(a.as_u32(), b.as_u32()) || !self.tree.is_present(b.as_u32())
    }

    /// Whether `a` dominates `b` and is another block.
    pub fn strictly_dominates(&self, a: Block, b: Block) -> bool {
        a != b && self.dominates(a, b)
    }

    /// The blocks whose immediate dominator is `block`, in ascending order.
    pub fn children(&self, block: Block) -> impl ExactSizeIterator<Item = Block> + '_ {
        self.tree
            .children(block.as_u32())
            .iter()
            .copied()
            .map(Block::from_u32)
    }

    /// How many blocks strictly dominate `block`; zero for unreachable ones.
    pub fn depth(&self, block: Block) -> u32 {
        self.tree.depth(block.as_u32())
    }

    /// Reachable blocks, each before those it dominates.
    pub fn preorder(&self) -> impl DoubleEndedIterator<Item = Block> + ExactSizeIterator + '_ {
        self.tree.preorder().iter().copied().map(Block::from_u32)
    }
}

/// Which block every path to the end of the function must go through.
#[derive(Clone, Debug)]
pub struct PostDominatorTree {
    /// As for dominators, over one node more than there are blocks: the virtual exit.
    ipdom: Vec<u32>,
    tree: Forest,
    exit: u32,
}

impl PostDominatorTree {
    /// Builds the tree of `graph`.
    pub fn new(graph: &FlowGraph) -> Self {
        let exit = Block::from_u32(graph.block_count() as u32);
        let mut edges: Vec<(Block, Block)> = virtual_exit_predecessors(graph)
            .into_iter()
            .map(|block| (exit, block))
            .collect();
        edges.extend(graph.edges().map(|(from, to)| (to, from)));
        let reversed = FlowGraph::from_edges(graph.block_count() + 1, exit, &edges);
        let ipdom = immediate_dominators(&reversed, &DepthFirst::new(&reversed));
        let tree = Forest::new(
            ipdom.len(),
            |_| true,
            |node| Some(ipdom[node as usize]).filter(|&below| below != NONE),
        );
        PostDominatorTree {
            ipdom,
            tree,
            exit: exit.as_u32(),
        }
    }

    /// The closest block other than `block` that post-dominates it; none when only the end of the function does.
    pub fn immediate_post_dominator(&self, block: Block) -> Option<Block> {
        Some(self.ipdom[block.index()])
            .filter(|&below| below != self.exit)
            .map(Block::from_u32)
    }

    /// Whether every path from `b` to the virtual exit goes through `a`. Each block post-dominates itself.
    pub fn post_dominates(&self, a: Block, b: Block) -> bool {
        self.tree.is_ancestor(a.as_u32(), b.as_u32())
    }

    /// The blocks whose immediate post-dominator is `block`, in ascending order.
    pub fn children(&self, block: Block) -> impl ExactSizeIterator<Item = Block> + '_ {
        self.tree
            .children(block.as_u32())
            .iter()
            .copied()
            .map(Block::from_u32)
    }

    /// How many blocks strictly post-dominate `block`.
    pub fn depth(&self, block: Block) -> u32 {
        self.tree.depth(block.as_u32()) - 1
    }
}

/// The blocks after which the function may end or be taken to stay forever, in ascending order.
fn virtual_exit_predecessors(graph: &FlowGraph) -> Vec<Block> {
    let components = Components::new(graph);
    let mut left = vec![false; components.count()];
    for (from, to) in graph.edges() {
        if components.component(from) != components.component(to) {
            left[components.component(from) as usize] = true;
        }
    }
    graph
        .blocks()
        .filter(|&block| !left[components.component(block) as usize])
        .collect()
}
