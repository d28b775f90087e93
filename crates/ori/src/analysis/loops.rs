//! The loop nest: natural loops, and irreducible ones marked.
//!
//! **What a loop is.** Take the depth-first walk of the graph. Each strongly connected component with a cycle is a loop; its
//! *header* is the block the walk met first. Take away the edges to the header from inside (the loop's back edges); the
//! components that remain inside are the loops nested in it, and so on. For a loop with one way in this is the natural loop of its
//! header, all back edges to one header together. A loop that can be entered past its header is *irreducible*: it is found
//! and nested like any other and marked, because no block in it stands for "the next iteration". A pass that needs a
//! header that dominates its loop must ask [`LoopNest::is_irreducible`] first.
//!
//! **Algorithm.** Tarjan's, as Havlak extended it to irreducible graphs and Ramalingam made it near-linear: headers are taken
//! from the last met to the first; a loop's body is collected backward from its back edges over already folded inner loops
//! (disjoint sets). An edge that is neither tree nor back edge plays no part until the closest common ancestor of its ends
//! is reached, so each edge is looked at once. Then each edge into a loop past its header marks the loops it enters, climbing over
//! loops marked before. Cost: O(edges · log blocks), whatever the depth of nesting.
//!
//! Unreachable blocks are in no loop.

use super::csr::Csr;
use super::flow::{FlowGraph, NONE};
use super::forest::Forest;
use super::order::DepthFirst;
use super::union_find::DisjointSets;
use crate::Block;
use cranelift_entity::{EntityRef, entity_impl};

/// A loop of a [`LoopNest`]. Outer loops have lower numbers than the loops in them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Loop(u32);
entity_impl!(Loop, "loop");

/// Every loop of a graph, as a forest.
///
/// Loops are numbered in preorder of that forest: the loops inside a loop are the numbers that follow it.
#[derive(Clone, Debug)]
pub struct LoopNest {
    headers: Vec<Block>,
    parents: Vec<u32>,
    /// By loop: one past the last loop inside it.
    ends: Vec<u32>,
    depths: Vec<u32>,
    irreducible: Vec<bool>,
    /// By block: the innermost loop, or `NONE`.
    innermost: Vec<u32>,
    /// By loop: the blocks whose innermost loop it is.
    own_blocks: Csr<Block>,
    latches: Csr<Block>,
    /// By loop: the edges that leave it from one of its own blocks.
    own_exits: Csr<(Block, Block)>,
    children: Csr<Loop>,
    top_level: Vec<Loop>,
}

impl LoopNest {
    /// Finds the loops of `graph`, whose depth-first walk is `walk`.
    pub fn new(graph: &FlowGraph, walk: &DepthFirst) -> Self {
        let folded = fold_loops(graph, walk);
        // Loops by header in preorder, then renumbered in preorder of the nest.
        let headers: Vec<Block> = walk
            .preorder()
            .iter()
            .copied()
            .filter(|block| folded.is_header[block.index()])
            .collect();
        let mut headed = vec![NONE; graph.block_count()];
        for (number, header) in headers.iter().enumerate() {
            headed[header.index()] = number as u32;
        }
        let outer = |block: Block| match folded.header[block.index()] {
            NONE => None,
            header => Some(headed[header as usize]),
        };
        let forest = Forest::new(
            headers.len(),
            |_| true,
            |number| outer(headers[number as usize]),
        );
        let mut renumbered = vec![NONE; headers.len()];
        for (new, &old) in forest.preorder().iter().enumerate() {
            renumbered[old as usize] = new as u32;
        }
        let in_order = || forest.preorder().iter().copied();
        let mut ends: Vec<u32> = (1..=headers.len() as u32).collect();
        let parents: Vec<u32> = in_order()
            .map(|old| {
                outer(headers[old as usize]).map_or(NONE, |above| renumbered[above as usize])
            })
            .collect();
        for number in (0..headers.len()).rev() {
            if parents[number] != NONE {
                let end = ends[number];
                let above = &mut ends[parents[number] as usize];
                *above = end.max(*above);
            }
        }
        let mut innermost = vec![NONE; graph.block_count()];
        for &block in walk.preorder() {
            let number = match headed[block.index()] {
                NONE => outer(block),
                own => Some(own),
            };
            innermost[block.index()] = number.map_or(NONE, |old| renumbered[old as usize]);
        }
        let mut nest = LoopNest {
            depths: in_order().map(|old| forest.depth(old) + 1).collect(),
            headers: in_order().map(|old| headers[old as usize]).collect(),
            irreducible: vec![false; headers.len()],
            own_blocks: Csr::from_pairs(
                headers.len(),
                walk.reverse_postorder()
                    .map(|block| (innermost[block.index()], block))
                    .filter(|&(number, _)| number != NONE),
            ),
            latches: Csr::default(),
            own_exits: Csr::default(),
            children: Csr::from_pairs(
                headers.len(),
                (0..headers.len())
                    .filter(|&number| parents[number] != NONE)
                    .map(|number| (parents[number], Loop::new(number))),
            ),
            top_level: (0..headers.len())
                .filter(|&number| parents[number] == NONE)
                .map(Loop::new)
                .collect(),
            parents,
            ends,
            innermost,
        };
        nest.find_edges(graph, walk);
        nest
    }

    fn find_edges(&mut self, graph: &FlowGraph, walk: &DepthFirst) {
        let mut latches: Vec<(u32, Block)> = Vec::new();
        let mut exits: Vec<(u32, (Block, Block))> = Vec::new();
        // A loop marked irreducible is folded into the loop around it: `unmarked.find` climbs to the next to mark. The
        // last number stands for "no loop".
        let outside = self.headers.len() as u32;
        let mut unmarked = DisjointSets::new(self.headers.len() + 1);
        for &from in walk.preorder() {
            let from_loop = self.innermost[from.index()];
            for &to in graph.succs(from) {
                if from_loop != NONE && !self.contains(Loop::from_u32(from_loop), to) {
                    exits.push((from_loop, (from, to)));
                }
                let mut entered = self.innermost[to.index()];
                if entered == NONE {
                    continue;
                }
                if self.headers[entered as usize] == to {
                    if self.contains(Loop::from_u32(entered), from) {
                        if latches.last() != Some(&(entered, from)) {
                            latches.push((entered, from));
                        }
                        continue;
                    }
                    entered = self.parents[entered as usize];
                    if entered == NONE {
                        continue;
                    }
                }
                entered = unmarked.find(entered);
                while entered != outside && !self.contains(Loop::from_u32(entered), from) {
                    self.irreducible[entered as usize] = true;
                    let above = self.parents[entered as usize];
                    unmarked.absorb(if above == NONE { outside } else { above }, entered);
                    entered = unmarked.find(entered);
                }
            }
        }
        // A switch may have several edges to one header; they make one latch.
        latches.sort_unstable();
        latches.dedup();
        self.latches = Csr::from_pairs(self.headers.len(), latches.iter().copied());
        self.own_exits = Csr::from_pairs(self.headers.len(), exits.iter().copied());
    }

    /// How many loops there are.
    pub fn len(&self) -> usize {
        self.headers.len()
    }

    /// Whether there is no loop.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// Every loop, outer loops before the loops in them.
    pub fn loops(&self) -> impl DoubleEndedIterator<Item = Loop> + ExactSizeIterator + use<> {
        (0..self.headers.len()).map(Loop::new)
    }

    /// The loops in no other loop.
    pub fn top_level(&self) -> &[Loop] {
        &self.top_level
    }

    /// The loops directly in `of`, in ascending order.
    pub fn children(&self, of: Loop) -> &[Loop] {
        self.children.row(of.0)
    }

    /// The smallest loop `block` is in.
    pub fn innermost(&self, block: Block) -> Option<Loop> {
        Some(self.innermost[block.index()])
            .filter(|&number| number != NONE)
            .map(Loop::from_u32)
    }

    /// How many loops `block` is in.
    pub fn block_depth(&self, block: Block) -> u32 {
        self.innermost(block).map_or(0, |around| self.depth(around))
    }

    /// The block of `of` that the depth-first walk meets first. It dominates the loop unless the loop is irreducible.
    pub fn header(&self, of: Loop) -> Block {
        self.headers[of.index()]
    }

    /// The loop `block` is the header of.
    pub fn headed_by(&self, block: Block) -> Option<Loop> {
        self.innermost(block)
            .filter(|&around| self.header(around) == block)
    }

    /// The smallest loop around `of`.
    pub fn parent(&self, of: Loop) -> Option<Loop> {
        Some(self.parents[of.index()])
            .filter(|&number| number != NONE)
            .map(Loop::from_u32)
    }

    /// How many loops `of` is in, itself included.
    pub fn depth(&self, of: Loop) -> u32 {
        self.depths[of.index()]
    }

    /// Whether `of` can be entered past its header.
    pub fn is_irreducible(&self, of: Loop) -> bool {
        self.irreducible[of.index()]
    }

    /// `of` and every loop in it, outer before inner.
    pub fn subtree(
        &self,
        of: Loop,
    ) -> impl DoubleEndedIterator<Item = Loop> + ExactSizeIterator + use<> {
        (of.0..self.ends[of.index()]).map(Loop)
    }

    /// Whether `block` is in `of` or in a loop inside it.
    pub fn contains(&self, of: Loop, block: Block) -> bool {
        let number = self.innermost[block.index()];
        number != NONE && of.0 <= number && number < self.ends[of.index()]
    }

    /// Whether `inner` is `outer` or inside it.
    pub fn encloses(&self, outer: Loop, inner: Loop) -> bool {
        outer <= inner && inner.0 < self.ends[outer.index()]
    }

    /// Every block of `of`, inner loops' included, the header first.
    pub fn blocks(&self, of: Loop) -> &[Block] {
        self.own_blocks.rows_slice(of.0..self.ends[of.index()])
    }

    /// The blocks of `of` that are in no inner loop, the header first, in reverse postorder.
    pub fn own_blocks(&self, of: Loop) -> &[Block] {
        self.own_blocks.row(of.0)
    }

    /// The blocks inside `of` with an edge to its header, in ascending order.
    pub fn latches(&self, of: Loop) -> &[Block] {
        self.latches.row(of.0)
    }

    /// The edges that leave `of`, as (block inside, block outside).
    ///
    /// An edge out of several loops at once is stored once, with the innermost, so this looks through the exits of the loops inside
    /// `of` too; a pass that wants the exits of every loop should take each loop's [`own_exits`](Self::own_exits).
    pub fn exits(&self, of: Loop) -> impl Iterator<Item = (Block, Block)> + '_ {
        self.own_exits
            .rows_slice(of.0..self.ends[of.index()])
            .iter()
            .copied()
            .filter(move |&(_, to)| !self.contains(of, to))
    }

    /// The edges that leave `of` from a block that is in no inner loop. They may leave outer loops as well.
    pub fn own_exits(&self, of: Loop) -> &[(Block, Block)] {
        self.own_exits.row(of.0)
    }
}

/// For each block, whether it heads a loop, and the header of the smallest loop around it other than its own.
struct Folded {
    is_header: Vec<bool>,
    header: Vec<u32>,
}

fn fold_loops(graph: &FlowGraph, walk: &DepthFirst) -> Folded {
    let count = graph.block_count();
    let mut folded = Folded {
        is_header: vec![false; count],
        header: vec![NONE; count],
    };
    // Forward, tree and cross edges by the closest common ancestor of their ends; back edges by their target.
    let mut edges: Vec<(u32, (Block, Block))> = Vec::with_capacity(graph.edge_count());
    let mut back_edges: Vec<(u32, Block)> = Vec::new();
    let mut finished = DisjointSets::new(count);
    for &from in walk.postorder() {
        for &to in graph.succs(from) {
            if walk.is_ancestor(to, from) {
                back_edges.push((to.as_u32(), from));
            } else {
                // Finished blocks are in the set of their lowest unfinished ancestor, and the unfinished ones are `from`
                // and its ancestors.
                edges.push((finished.find(to.as_u32()), (from, to)));
            }
        }
        if let Some(parent) = walk.parent(from) {
            finished.absorb(parent.as_u32(), from.as_u32());
        }
    }
    let edges = Csr::from_pairs(count, edges.iter().copied());
    let back_edges = Csr::from_pairs(count, back_edges.iter().copied());

    // Edges that have come into play, as linked lists by the folded block they lead to.
    let mut incoming = vec![NONE; count];
    let mut incoming_next = vec![NONE; edges.items().len()];
    let mut sets = DisjointSets::new(count);
    let mut pending: Vec<u32> = Vec::new();
    for &block in walk.preorder().iter().rev() {
        let header = block.as_u32();
        for edge in edges.range(header) {
            let to = sets.find(edges.items()[edge].1.as_u32());
            incoming_next[edge] = incoming[to as usize];
            incoming[to as usize] = edge as u32;
        }
        folded.is_header[block.index()] = !back_edges.row(header).is_empty();
        let mut fold = |from: Block, sets: &mut DisjointSets, pending: &mut Vec<u32>| {
            let member = sets.find(from.as_u32());
            if member != header {
                folded.header[member as usize] = header;
                sets.absorb(header, member);
                pending.push(member);
            }
        };
        for &latch in back_edges.row(header) {
            fold(latch, &mut sets, &mut pending);
        }
        while let Some(member) = pending.pop() {
            let mut edge = std::mem::replace(&mut incoming[member as usize], NONE);
            while edge != NONE {
                fold(edges.items()[edge as usize].0, &mut sets, &mut pending);
                edge = incoming_next[edge as usize];
            }
        }
    }
    folded
}
