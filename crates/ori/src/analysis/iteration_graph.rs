//! The loop body as an acyclic graph, one iteration at a time: where lanes part and meet.
//!
//! Two lanes of a warp are *together* at a block when both are there in the same iteration of every loop around it. To see where lanes
//! that part at a branch meet again, each loop body is looked at for one iteration only, as an acyclic graph of its own:
//!
//! - a block of the loop stands for itself, an inner loop is *folded* into one node;
//! - an edge back to the header leads to the node [`Kind::Next`]: the lane waits there for the next iteration;
//! - an edge out of the loop leads to the node [`Kind::Out`]: the lane has left.
//!
//! The blocks in no loop, with the outermost loops folded, make up one more such graph. An irreducible loop has no iterations to count; it is
//! folded with everything in it, and whoever asks about its inside gets the careful answer.
//!
//! All these graphs together have at most a few nodes and edges per block and edge of the function. They are kept as one graph
//! under a common root, so that one walk, one dominator tree and one post-dominator tree serve all of them. Cost:
//! O(edges · log blocks).

use super::dominance::immediate_dominators;
use super::flow::{FlowGraph, NONE};
use super::forest::Forest;
use super::loops::{Loop, LoopNest};
use super::order::DepthFirst;
use crate::Block;
use cranelift_entity::{EntityRef, entity_impl};

/// A node of [`IterationGraph`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node(u32);
entity_impl!(Node, "node");

/// What a [`Node`] stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A block, in the graph of its innermost loop.
    Block(Block),
    /// A loop, in the graph of the loop around it.
    Folded(Loop),
    /// The end of an iteration that leads to another.
    Next(Loop),
    /// The end of the last iteration.
    Out(Loop),
    /// Above every graph.
    Root,
    /// After every graph.
    End,
}

/// The one-iteration graphs of a function; see the module.
#[derive(Clone, Debug)]
pub(crate) struct IterationGraph {
    blocks: u32,
    loops: u32,
    graph: FlowGraph<Node>,
    /// By node: its place in a topological order, `NONE` when the node is not in use.
    topological: Vec<u32>,
    dominators: Forest,
    /// By node: the closest node every way to the end goes through.
    ipdom: Vec<u32>,
    post_dominators: Forest,
    /// By node: whether all that follows it is dominated by it, [`Kind::Out`] aside.
    closed: Vec<bool>,
    /// By loop: the outermost irreducible loop around it or itself.
    opaque: Vec<u32>,
}

impl IterationGraph {
    pub(crate) fn new(graph: &FlowGraph, walk: &DepthFirst, nest: &LoopNest) -> Self {
        let mut opaque: Vec<u32> = Vec::with_capacity(nest.len());
        for each in nest.loops() {
            let above = nest
                .parent(each)
                .map_or(NONE, |parent| opaque[parent.index()]);
            opaque.push(match above {
                NONE if nest.is_irreducible(each) => each.as_u32(),
                above => above,
            });
        }
        let mut iterations = IterationGraph {
            blocks: graph.block_count() as u32,
            loops: nest.len() as u32,
            graph: FlowGraph::from_edges(1, Node(0), &[]),
            topological: Vec::new(),
            dominators: Forest::new(0, |_| false, |_| None),
            ipdom: Vec::new(),
            post_dominators: Forest::new(0, |_| false, |_| None),
            closed: Vec::new(),
            opaque,
        };
        let edges = iterations.edges(graph, walk, nest);
        let count = iterations.node(Kind::End).index() + 1;
        iterations.graph = FlowGraph::from_edges(count, iterations.node(Kind::Root), &edges);
        let walk = DepthFirst::new(&iterations.graph);
        iterations.topological = vec![NONE; count];
        for (place, node) in walk.reverse_postorder().enumerate() {
            iterations.topological[node.index()] = place as u32;
        }
        iterations.find_dominators(&walk);
        iterations.find_post_dominators(&walk);
        iterations
    }

    fn edges(&self, graph: &FlowGraph, walk: &DepthFirst, nest: &LoopNest) -> Vec<(Node, Node)> {
        let mut edges = Vec::with_capacity(graph.edge_count() + 2 * nest.len());
        // How many edges leave each loop together with the loop around it: counted as a difference along the way from the innermost loop
        // left to the outermost, then summed up the nest.
        let mut leaving_both = vec![0i64; nest.len()];
        for &from in walk.preorder() {
            // The loop whose one-iteration graph `from` is in, or the folded loop that hides it.
            let from_loop = nest
                .innermost(from)
                .map(|around| self.hiding(around).unwrap_or(around));
            let hidden = self.hiding_block(nest, from).is_some();
            for &to in graph.succs(from) {
                if hidden && self.hiding_block(nest, to) == self.hiding_block(nest, from) {
                    continue;
                }
                let (target, region) = self.landing(nest, from, to);
                match from_loop {
                    inner if inner == region => edges.push((self.node(Kind::Block(from)), target)),
                    Some(inner) => {
                        let outermost = child_towards(nest, region, inner);
                        edges.push((self.node(Kind::Folded(outermost)), target));
                        if !hidden {
                            edges.push((self.node(Kind::Block(from)), self.node(Kind::Out(inner))));
                        }
                        leaving_both[inner.index()] += 1;
                        leaving_both[outermost.index()] -= 1;
                    }
                    None => unreachable!("a block in no loop is in the outermost graph"),
                }
            }
        }
        for inner in nest.loops().rev() {
            let Some(outer) = nest.parent(inner) else {
                continue;
            };
            let count = leaving_both[inner.index()];
            leaving_both[outer.index()] += count;
            // One edge will do: a loop inside another has a way to stay in it as well.
            if count > 0 && self.hiding(outer).is_none() {
                edges.push((self.node(Kind::Folded(inner)), self.node(Kind::Out(outer))));
            }
        }
        let root = self.node(Kind::Root);
        let entry = graph.entry();
        let folded = self.hiding_block(nest, entry).or(nest.headed_by(entry));
        edges.push((
            root,
            self.node(folded.map_or(Kind::Block(entry), Kind::Folded)),
        ));
        for each in nest.loops().filter(|&each| self.hiding(each).is_none()) {
            edges.push((root, self.node(Kind::Block(nest.header(each)))));
        }
        edges
    }

    /// Where the edge `from` → `to` ends: the node, and the loop whose graph it is in.
    fn landing(&self, nest: &LoopNest, from: Block, to: Block) -> (Node, Option<Loop>) {
        let folded = |each: Loop| (self.node(Kind::Folded(each)), nest.parent(each));
        if let Some(hiding) = self.hiding_block(nest, to) {
            return folded(hiding);
        }
        match nest.headed_by(to) {
            Some(headed) if nest.contains(headed, from) => {
                (self.node(Kind::Next(headed)), Some(headed))
            }
            Some(headed) => folded(headed),
            None => (self.node(Kind::Block(to)), nest.innermost(to)),
        }
    }

    fn find_dominators(&mut self, walk: &DepthFirst<Node>) {
        let count = self.graph.block_count();
        let idom = immediate_dominators(&self.graph, walk);
        let above = |node: u32| Some(idom[node as usize]).filter(|&above| above != NONE);
        self.dominators = Forest::new(count, |node| walk.is_reachable(Node(node)), above);
        // The least depth at which something following a node hangs in the tree.
        let mut escape = vec![u32::MAX; count];
        for &node in self.dominators.preorder().iter().rev() {
            let mut least = escape[node as usize];
            for &succ in self.graph.succs(Node(node)) {
                if !matches!(self.kind(succ), Kind::Out(_)) {
                    let hangs = above(succ.as_u32()).expect("a successor is not the root");
                    least = least.min(self.dominators.depth(hangs));
                }
            }
            escape[node as usize] = least;
            if let Some(above) = above(node) {
                escape[above as usize] = escape[above as usize].min(least);
            }
        }
        self.closed = (0..count as u32)
            .map(|node| escape[node as usize] >= self.dominators.depth(node))
            .collect();
    }

    fn find_post_dominators(&mut self, walk: &DepthFirst<Node>) {
        let end = self.node(Kind::End);
        let mut reversed: Vec<(Node, Node)> = Vec::with_capacity(2 * self.graph.edge_count());
        for &node in walk.preorder() {
            if self.graph.succs(node).is_empty() {
                reversed.push((end, node));
            }
        }
        reversed.extend(self.graph.edges().map(|(from, to)| (to, from)));
        let reversed = FlowGraph::from_edges(self.graph.block_count(), end, &reversed);
        self.ipdom = immediate_dominators(&reversed, &DepthFirst::new(&reversed));
        self.post_dominators = Forest::new(
            self.ipdom.len(),
            |node| node == end.as_u32() || self.ipdom[node as usize] != NONE,
            |node| Some(self.ipdom[node as usize]).filter(|&below| below != NONE),
        );
    }

    /// The node that stands for `kind`.
    pub(crate) fn node(&self, kind: Kind) -> Node {
        let (blocks, loops) = (self.blocks, self.loops);
        Node(match kind {
            Kind::Block(block) => block.as_u32(),
            Kind::Folded(each) => blocks + each.as_u32(),
            Kind::Next(each) => blocks + loops + each.as_u32(),
            Kind::Out(each) => blocks + 2 * loops + each.as_u32(),
            Kind::Root => blocks + 3 * loops,
            Kind::End => blocks + 3 * loops + 1,
        })
    }

    /// What `node` stands for.
    pub(crate) fn kind(&self, node: Node) -> Kind {
        let Some(after_blocks) = node.0.checked_sub(self.blocks) else {
            return Kind::Block(Block::from_u32(node.0));
        };
        let each = |group: u32| Loop::from_u32(after_blocks - group * self.loops);
        match after_blocks.checked_div(self.loops) {
            Some(0) => Kind::Folded(each(0)),
            Some(1) => Kind::Next(each(1)),
            Some(2) => Kind::Out(each(2)),
            _ if after_blocks == 3 * self.loops => Kind::Root,
            _ => Kind::End,
        }
    }

    /// How many nodes there are.
    pub(crate) fn node_count(&self) -> usize {
        self.graph.block_count()
    }

    /// How many edges there are.
    pub(crate) fn edge_count(&self) -> usize {
        self.graph.edge_count()
    }

    /// Whether anything leads to `node`.
    pub(crate) fn is_used(&self, node: Node) -> bool {
        self.topological[node.index()] != NONE && node != self.node(Kind::Root)
    }

    /// The loop whose one-iteration graph `node` is in; none for the blocks and loops in no loop.
    pub(crate) fn region(&self, nest: &LoopNest, node: Node) -> Option<Loop> {
        match self.kind(node) {
            Kind::Block(block) => nest.innermost(block),
            Kind::Folded(each) => nest.parent(each),
            Kind::Next(each) | Kind::Out(each) => Some(each),
            Kind::Root | Kind::End => None,
        }
    }

    /// The outermost irreducible loop that is `each` or around it.
    pub(crate) fn hiding(&self, each: Loop) -> Option<Loop> {
        Some(self.opaque[each.index()])
            .filter(|&hiding| hiding != NONE)
            .map(Loop::from_u32)
    }

    /// The outermost irreducible loop around `block`.
    pub(crate) fn hiding_block(&self, nest: &LoopNest, block: Block) -> Option<Loop> {
        nest.innermost(block).and_then(|around| self.hiding(around))
    }

    pub(crate) fn succs(&self, node: Node) -> &[Node] {
        self.graph.succs(node)
    }

    pub(crate) fn preds(&self, node: Node) -> &[Node] {
        self.graph.preds(node)
    }

    pub(crate) fn topological(&self, node: Node) -> u32 {
        self.topological[node.index()]
    }

    /// The closest node that every way from `node` to the end of its graph goes through; [`Kind::End`] when there is none.
    pub(crate) fn immediate_post_dominator(&self, node: Node) -> Node {
        Node(self.ipdom[node.index()])
    }

    /// By node: the closest node that every way of lanes that stay in the loop goes through, [`Kind::Next`] at the latest. A graph
    /// without the edges that leave loops; every block of a loop has a way back to its header, so all of them stay connected.
    pub(crate) fn staying_post_dominators(&self) -> Vec<u32> {
        let end = self.node(Kind::End);
        let left = |node: Node| matches!(self.kind(node), Kind::Out(_));
        let mut reversed: Vec<(Node, Node)> = Vec::with_capacity(2 * self.graph.edge_count());
        for number in 0..self.node_count() {
            let node = Node::new(number);
            if self.is_used(node) && self.graph.succs(node).is_empty() && !left(node) {
                reversed.push((end, node));
            }
        }
        let staying = self.graph.edges().filter(|&(_, to)| !left(to));
        reversed.extend(staying.map(|(from, to)| (to, from)));
        let reversed = FlowGraph::from_edges(self.graph.block_count(), end, &reversed);
        immediate_dominators(&reversed, &DepthFirst::new(&reversed))
    }

    /// How many edges lead from `node` to nodes of the same loop.
    pub(crate) fn staying_ways(&self, node: Node) -> usize {
        let stays = |&&to: &&Node| !matches!(self.kind(to), Kind::Out(_));
        self.graph.succs(node).iter().filter(stays).count()
    }

    /// How many nodes post-dominate `node`.
    pub(crate) fn post_dominator_depth(&self, node: Node) -> u32 {
        self.post_dominators.depth(node.0)
    }

    pub(crate) fn dominates(&self, above: Node, below: Node) -> bool {
        self.dominators.is_ancestor(above.0, below.0)
    }

    /// Whether everything that can follow `node` in this iteration can follow nothing else: lanes that come there meet no others.
    pub(crate) fn is_closed(&self, node: Node) -> bool {
        self.closed[node.index()]
    }
}

/// The loop directly in `outer` (or in no loop) that is `inner` or around it.
fn child_towards(nest: &LoopNest, outer: Option<Loop>, inner: Loop) -> Loop {
    let candidates = match outer {
        Some(outer) => nest.children(outer),
        None => nest.top_level(),
    };
    // Loops are numbered in preorder: the last sibling that does not come after `inner` is the one.
    candidates[candidates.partition_point(|&child| child <= inner) - 1]
}
