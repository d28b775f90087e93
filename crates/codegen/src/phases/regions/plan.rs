//! Which regions there are.
//!
//! **Where lanes meet.** At the reconvergence point of the branch (`ori::analysis::Split`), on a graph without the ways that can only
//! end: a lane that exits or traps is nobody's to wait for, so a block from which every way ends soon is taken out, except that the
//! last one of a function stays.
//!
//! **Where a region opens.** At the branch; if the lanes meet outside a loop the branch is in, before the outermost such loop,
//! for lanes leave it in different trips (an irreducible loop has no trips: lanes meet behind it). What lies between must be entered through the opening only, else it moves up to
//! the next block that dominates it all (or before the loop that block is in, again). Ways that lead out of what lies between, and not to the meeting, take lanes out of
//! the region.
//!
//! **Which are left out.** A branch inside a region that meets at the same place needs no region of its own. Regions
//! deeper than the machine's registers allow are left out; the lanes meet where the one around does.
//!
//! Cost: O(blocks · depth of regions), the depth being bounded by the number of registers.

use crate::convergence::{ending_blocks, without_ends};
use orias_ori::analysis::{
    DepthFirst, Divergence, DominatorTree, FlowGraph, Loop, LoopNest, Split,
};
use orias_ori::{AbstractOp, Block, Edge, Function, Opcode};

/// What is known about the control flow of a function.
pub(super) struct Shape<'a> {
    pub(super) graph: &'a FlowGraph,
    pub(super) walk: &'a DepthFirst,
    pub(super) nest: &'a LoopNest,
    pub(super) dominators: &'a DominatorTree,
    pub(super) divergence: &'a Divergence,
}

/// Where a region opens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Opening {
    /// At the end of a block.
    End(Block),
    /// On the edges that enter the loop with this header.
    Before(Block),
}

/// A region to be made.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) opening: Opening,
    /// Edges into the loop, if it opens before one.
    pub(super) entering: Vec<Edge>,
    /// Where lanes meet.
    pub(super) meeting: Block,
    /// The edges along which they come there.
    pub(super) arriving: Vec<Edge>,
    /// The edges along which lanes leave for good.
    pub(super) leaving: Vec<Edge>,
    /// The blocks lanes may be in before they meet.
    inside: Vec<Block>,
}

/// The regions of `func`, outer ones before those in them; at most `most` around any place.
pub(super) fn plan(func: &Function, shape: &Shape<'_>, most: usize) -> Vec<Region> {
    let ending = ending_blocks(func, shape.graph, shape.walk, shape.divergence);
    let graph = without_ends(shape.graph, &ending);
    let walk = DepthFirst::new(&graph);
    let nest = LoopNest::new(&graph, &walk);
    let points = Split::new(&graph, &walk, &nest);
    let mut planner = Planner {
        func,
        shape,
        ending,
        depth: vec![0; func.block_count()],
        around: vec![Vec::new(); func.block_count()],
        regions: Vec::new(),
    };
    for block in shape.dominators.preorder() {
        let parts = shape.divergence.is_divergent_branch(block) && walk.is_reachable(block);
        if !parts || graph.succs(block).len() < 2 {
            continue;
        }
        let Some(meeting) = points.reconvergence_point(block) else {
            continue;
        };
        planner.consider(block, meeting, most);
    }
    // Outer ones first.
    let mut regions = planner.regions;
    regions.sort_by_key(|region| std::cmp::Reverse(region.inside.len()));
    regions
}

struct Planner<'a> {
    func: &'a Function,
    shape: &'a Shape<'a>,
    ending: Vec<bool>,
    /// By block: how many regions it is in.
    depth: Vec<usize>,
    /// By block: the regions it is in.
    around: Vec<Vec<usize>>,
    regions: Vec<Region>,
}

impl Planner<'_> {
    fn index(block: Block) -> usize {
        block.as_u32() as usize
    }

    fn consider(&mut self, branch: Block, meeting: Block, most: usize) {
        // Nothing but the end is left: nobody has to wait.
        if self.only_ends(meeting) {
            return;
        }
        let met = self.around[Self::index(branch)]
            .iter()
            .any(|&region| self.regions[region].meeting == meeting);
        if met || self.depth[Self::index(branch)] >= most {
            return;
        }
        let mut opening = self.opening(branch, meeting);
        // What lies between is entered through the opening only.
        for _ in 0..self.func.block_count() {
            let inside = self.between(opening, meeting);
            let Some(above) = self.outsider(opening, &inside) else {
                self.add(opening, meeting, inside, most);
                return;
            };
            let higher = self.opening(above, meeting);
            if higher == opening {
                return;
            }
            opening = higher;
        }
    }

    /// Where a region around what `block` does opens: there, or before the outermost loop around it that is left before the lanes
    /// meet.
    fn opening(&self, block: Block, meeting: Block) -> Opening {
        let nest = self.shape.nest;
        let mut left = None;
        let mut around = nest.innermost(block);
        while let Some(each) = around {
            if nest.contains(each, meeting) {
                break;
            }
            left = Some(each);
            around = nest.parent(each);
        }
        match left {
            Some(each) => Opening::Before(nest.header(each)),
            None => Opening::End(block),
        }
    }

    fn only_ends(&self, block: Block) -> bool {
        let first = self.func.layout.first_inst(block);
        first.is_some_and(|inst| {
            matches!(
                self.func.opcode(inst),
                Opcode::Abstract(AbstractOp::Exit | AbstractOp::Trap | AbstractOp::Unreachable)
            )
        })
    }

    /// The first block inside.
    fn first(&self, opening: Opening) -> Block {
        match opening {
            Opening::End(block) => block,
            Opening::Before(header) => header,
        }
    }

    /// The innermost loop around the opening in which the meeting is, too: what happens in other trips of it is not between
    /// the two.
    fn scope(&self, opening: Opening, meeting: Block) -> Option<Loop> {
        let nest = self.shape.nest;
        let mut around = match opening {
            Opening::End(block) => nest.innermost(block),
            Opening::Before(header) => nest.headed_by(header).and_then(|each| nest.parent(each)),
        };
        while let Some(each) = around {
            if nest.contains(each, meeting) {
                break;
            }
            around = nest.parent(each);
        }
        around
    }

    /// The blocks on ways from the opening to the meeting in one trip of the loop around both, the block it opens in not
    /// counted.
    fn between(&self, opening: Opening, meeting: Block) -> Vec<Block> {
        let graph = self.shape.graph;
        let scope = self.scope(opening, meeting);
        let outside = |block: Block| {
            scope.is_some_and(|scope| {
                let nest = self.shape.nest;
                !nest.contains(scope, block) || nest.header(scope) == block
            })
        };
        // Forward from the opening …
        let mut forward = vec![false; graph.block_count()];
        let mut pending: Vec<Block> = match opening {
            Opening::End(block) => graph.succs(block).to_vec(),
            Opening::Before(header) => vec![header],
        };
        let mut reached = Vec::new();
        while let Some(block) = pending.pop() {
            if block == meeting
                || self.ending[Self::index(block)]
                || outside(block)
                || std::mem::replace(&mut forward[Self::index(block)], true)
            {
                continue;
            }
            reached.push(block);
            pending.extend_from_slice(graph.succs(block));
        }
        // … and backward from the meeting.
        let mut backward = vec![false; graph.block_count()];
        let mut pending: Vec<Block> = graph.preds(meeting).to_vec();
        while let Some(block) = pending.pop() {
            if !forward[Self::index(block)]
                || std::mem::replace(&mut backward[Self::index(block)], true)
            {
                continue;
            }
            pending.extend_from_slice(graph.preds(block));
        }
        reached.retain(|&block| backward[Self::index(block)]);
        reached
    }

    /// If a block inside is not dominated by the opening: the block where the region has to open instead.
    fn outsider(&self, opening: Opening, inside: &[Block]) -> Option<Block> {
        let dominators = self.shape.dominators;
        let first = self.first(opening);
        let mut above = first;
        for &block in inside {
            while !dominators.dominates(above, block) {
                above = dominators.immediate_dominator(above)?;
            }
        }
        (above != first).then_some(above)
    }

    fn add(&mut self, opening: Opening, meeting: Block, inside: Vec<Block>, most: usize) {
        let (func, nest) = (self.func, self.shape.nest);
        if inside
            .iter()
            .any(|&block| self.depth[Self::index(block)] >= most)
        {
            return;
        }
        let mut member = vec![false; func.block_count()];
        for &block in &inside {
            member[Self::index(block)] = true;
        }
        let mut from: Vec<Block> = inside.clone();
        if let Opening::End(block) = opening
            && !member[Self::index(block)]
        {
            from.push(block);
        }
        let mut arriving = Vec::new();
        let mut leaving = Vec::new();
        for &block in &from {
            for &edge in func.successor_edges(block) {
                let to = func.edge_target(edge);
                if to == meeting {
                    arriving.push(edge);
                } else if !member[Self::index(to)] && !self.ending[Self::index(to)] {
                    leaving.push(edge);
                }
            }
        }
        let entering = match opening {
            Opening::End(_) => Vec::new(),
            Opening::Before(header) => {
                let inner = |block: Block| {
                    nest.headed_by(header)
                        .is_some_and(|each| nest.contains(each, block))
                };
                let preds = self.shape.graph.preds(header).iter().copied();
                let mut outside: Vec<Block> = preds.filter(|&block| !inner(block)).collect();
                outside.sort_unstable();
                outside.dedup();
                outside
                    .into_iter()
                    .flat_map(|block| func.successor_edges(block))
                    .copied()
                    .filter(|&edge| func.edge_target(edge) == header)
                    .collect()
            }
        };
        let number = self.regions.len();
        for &block in &inside {
            self.depth[Self::index(block)] += 1;
            self.around[Self::index(block)].push(number);
        }
        self.regions.push(Region {
            opening,
            entering,
            meeting,
            arriving,
            leaving,
            inside,
        });
    }
}
