//! Region planning: which convergence regions there are, from where to where.
//!
//! **Where lanes meet.** Loop by loop, on graphs of one iteration (`ori::analysis::IterationReconvergence`): lanes that part and stay in the loop meet at the
//! post-dominator of the branch in a graph without the edges that leave the loop, at the loop's header at the latest. Lanes that leave
//! are met by those that follow in the graph around, where the whole loop counts as a branch. So each divergent branch has a region within its
//! iteration, and each loop that lanes leave at different times one around it, level by level. Ways that can only end are taken out before: a
//! lane that exits or traps is nobody's to wait for, so a block from which every way ends soon does not count, except that the last one of
//! a function stays.
//!
//! **Where a region opens.** At the branch, or before the loop. What lies between must be entered through the opening only, else it moves up to
//! the next block that dominates it all (or before the outermost loop around that block that is left before lanes meet).
//!
//! **Who leaves.** Edges that lead out of what lies between, and not to the meeting, take lanes out of the region for good: those
//! that leave the loop, and side exits of a region that opened further up.
//!
//! **Meeting early.** Some ways from a branch may lead to a block that others go round: the `default` of a `switch`, the target of several `goto`s. Lanes
//! that come there by different ways run it, and what follows up to where all meet, once for each way. So there are regions that open at the block's
//! immediate dominator and meet at the block; lanes that go round it leave. They come last, where lanes are apart that come there (they parted and have not met before), where they do not cross others, where no lane waits for others inside, and where what they save
//! (instructions behind the block that nobody else comes to, for each way but one) is worth BSSY, BSYNC and BREAK. ptxas has them, too.
//!
//! **Which are left out.** A branch inside a region that meets at the same place, or where nothing but jumps leads there, needs no region of its own. Regions deeper than
//! the machine's registers allow are left out; the lanes meet where the one around does. A lane that has left a region may open
//! others while the region's own lanes still need its register, so a region also counts in the blocks behind its leaving edges, up
//! to where the lanes of a region around it meet. A region that lanes leave lies in a loop that they leave at different times,
//! where no block counts on the whole warp, so leaving it out costs time and nothing else.
//!
//! Cost: O(blocks · depth of regions), the depth being bounded by the number of registers.

use crate::convergence::{ending_blocks, without_ends};
use cranelift_entity::EntityRef;
use orias_ori::analysis::{
    DepthFirst, Divergence, DominatorTree, FlowGraph, LaneNeeds, Loop, LoopNest, Split,
};
use orias_ori::{AbstractOp, Block, Edge, Function, Opcode};

/// What is known about the control flow of a function.
pub(super) struct FlowAnalyses<'a> {
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
pub(super) fn plan(func: &Function, shape: &FlowAnalyses<'_>, most: usize) -> Vec<Region> {
    let ending = ending_blocks(func, shape.graph, shape.walk, shape.divergence);
    let graph = without_ends(shape.graph, &ending);
    let walk = DepthFirst::new(&graph);
    let nest = LoopNest::new(&graph, &walk);
    let mut split = Split::new(&graph, &walk, &nest);
    for block in graph.blocks() {
        let parts = walk.is_reachable(block) && shape.divergence.is_divergent_branch(block);
        if parts && graph.succs(block).len() > 1 {
            split.diverge(block);
        }
    }
    let meetings = split.iteration_reconvergence();
    let mut planner = Planner {
        func,
        shape,
        ending,
        most,
        depth: vec![0; func.block_count()],
        around: vec![Vec::new(); func.block_count()],
        opened: vec![Vec::new(); func.block_count()],
        met: vec![Vec::new(); func.block_count()],
        marks: Marks::new(func.block_count()),
        regions: Vec::new(),
    };
    // What dominates first, and a loop before what is in it: outer regions before inner ones.
    for block in shape.dominators.preorder() {
        let headed = nest.headed_by(block);
        if let Some(meeting) = headed.and_then(|each| meetings.of_loop(each)) {
            planner.consider(Opening::Before(block), meeting);
        }
        if let Some(meeting) = meetings.of_branch(block) {
            planner.consider(Opening::End(block), meeting);
        }
    }
    for &join in walk.postorder() {
        let entered = graph.preds(join).len() > 1 && nest.headed_by(join).is_none();
        if entered && let Some(above) = shape.dominators.immediate_dominator(join) {
            planner.consider_early(above, join, &|block| {
                let of_loop = nest
                    .headed_by(block)
                    .and_then(|each| meetings.of_loop(each));
                (meetings.of_branch(block), of_loop)
            });
        }
    }
    // Outer ones first: of two around the same blocks the one whose opening dominates that of the other.
    let mut regions = planner.regions;
    let mut place = vec![0; func.block_count()];
    for (number, block) in shape.dominators.preorder().enumerate() {
        place[block.index()] = number;
    }
    regions.sort_by_key(|region| {
        let at_end = matches!(region.opening, Opening::End(_));
        let opens = (place[first(region.opening).index()], at_end);
        (std::cmp::Reverse(region.inside.len()), opens)
    });
    regions
}

/// Sets of blocks that are emptied without touching each block.
struct Marks {
    stamps: Vec<u32>,
    current: u32,
}

impl Marks {
    fn new(blocks: usize) -> Self {
        Marks {
            stamps: vec![0; blocks],
            current: 0,
        }
    }

    /// Starts an empty set, and returns what its members are marked with.
    fn start(&mut self) -> u32 {
        self.current += 1;
        self.current
    }

    fn has(&self, set: u32, block: Block) -> bool {
        self.stamps[block.index()] == set
    }

    fn insert(&mut self, set: u32, block: Block) {
        self.stamps[block.index()] = set;
    }
}

/// How many blocks that only jump are followed to see that lanes meet at the same place.
const FORWARDING_BLOCKS: usize = 4;

/// So many times the instructions that a region takes, those that it saves must be: each way is taken by some lanes in half of the cases.
const EARLY_GAIN: usize = 2;

/// Blocks that are looked at for such a region, at most.
const EARLY_BLOCKS: usize = 256;

/// The edges out of what lies between opening and meeting.
struct Sides {
    /// Those that lead to the meeting.
    arriving: Vec<Edge>,
    /// The others.
    leaving: Vec<Edge>,
}

struct Planner<'a> {
    func: &'a Function,
    shape: &'a FlowAnalyses<'a>,
    ending: Vec<bool>,
    /// How many regions a block may be in.
    most: usize,
    /// By block: how many regions need their registers there.
    depth: Vec<usize>,
    /// By block: the regions it is in.
    around: Vec<Vec<usize>>,
    /// By block: the regions that open there, and those that meet there.
    opened: Vec<Vec<usize>>,
    met: Vec<Vec<usize>>,
    marks: Marks,
    regions: Vec<Region>,
}

impl Planner<'_> {
    fn consider(&mut self, mut opening: Opening, meeting: Block) {
        // Nothing but the end is left: nobody has to wait.
        if self.only_ends(meeting) {
            return;
        }
        let first = first(opening);
        let onward = self.onward(meeting);
        let met = self.around[first.index()]
            .iter()
            .map(|&region| self.regions[region].meeting)
            .any(|outer| outer == meeting || outer == onward);
        if met || self.depth[first.index()] >= self.most {
            return;
        }
        // What lies between is entered through the opening only.
        for _ in 0..self.func.block_count() {
            let inside = self.between(opening, meeting);
            let Some(above) = self.outsider(opening, &inside) else {
                self.add(opening, meeting, inside);
                return;
            };
            let higher = self.opening(above, meeting);
            if higher == opening {
                return;
            }
            opening = higher;
        }
    }

    /// Adds a region that meets at `join`, where some of the lanes come that part behind `above`, its dominator, if that pays: see the module. `meetings` says
    /// where those meet that part at a block, and those that leave the loop with this header.
    fn consider_early(
        &mut self,
        above: Block,
        join: Block,
        meetings: &dyn Fn(Block) -> (Option<Block>, Option<Block>),
    ) {
        let opening = self.opening(above, join);
        if opening != Opening::End(above) || self.ending[join.index()] || self.only_ends(join) {
            return;
        }
        let Some(inside) = self.up_to(above, join) else {
            return;
        };
        // Lanes that part and meet before, or at the join, come there together as they are.
        let met = |meeting: Block| meeting == join || inside.contains(&meeting);
        let decides = |block: Block, within: bool| {
            let (of_branch, of_loop) = meetings(block);
            let branches = self.shape.divergence.is_divergent_branch(block);
            let leaves = within && of_loop.is_some_and(|meeting| !met(meeting));
            branches && !of_branch.is_some_and(met) || leaves
        };
        if !decides(above, false) && !inside.iter().any(|&block| decides(block, true)) {
            return;
        }
        let Sides { arriving, leaving } = self.sides(opening, join, &inside);
        let made = EARLY_GAIN * (1 + arriving.len() + leaving.len());
        let saved = arriving.len().saturating_sub(1) * self.weight(join, made);
        let pays = saved > made && !leaving.is_empty();
        let waits = |&block: &Block| self.waits_for_lanes(block);
        if pays && !inside.iter().any(waits) && !self.crosses(above, join, &inside) {
            self.add(opening, join, inside);
        }
    }

    /// The blocks on ways from `above`, which dominates `join`, to that in one iteration, if they are not too many and none of them comes behind it.
    fn up_to(&mut self, above: Block, join: Block) -> Option<Vec<Block>> {
        let (graph, nest) = (self.shape.graph, self.shape.nest);
        let header = nest.innermost(above).map(|scope| nest.header(scope));
        let seen = self.marks.start();
        self.marks.insert(seen, above);
        self.marks.insert(seen, join);
        let mut inside = Vec::new();
        let mut pending: Vec<Block> = graph.preds(join).to_vec();
        while let Some(block) = pending.pop() {
            if self.marks.has(seen, block) || !self.shape.walk.is_reachable(block) {
                continue;
            }
            let dominated = self.shape.dominators.dominates(above, block);
            if !dominated || Some(block) == header || inside.len() == EARLY_BLOCKS {
                return None;
            }
            self.marks.insert(seen, block);
            inside.push(block);
            pending.extend_from_slice(graph.preds(block));
        }
        // Who has met and comes again without passing the opening is in no region.
        let mut next = graph.succs(join).iter();
        let again = next.any(|&block| block != above && self.marks.has(seen, block));
        (!again).then_some(inside)
    }

    /// Whether `block` has an operation at which lanes may wait for others.
    fn waits_for_lanes(&self, block: Block) -> bool {
        self.func.block_insts(block).any(|inst| {
            LaneNeeds::of(self.func, inst) != LaneNeeds::Nothing
                || self.func.opcode(inst).as_abstract() == Some(AbstractOp::Call)
        })
    }

    /// Whether a region that is there opens inside of one and ends elsewhere, or opens elsewhere and ends inside, or is the same.
    fn crosses(&mut self, above: Block, join: Block, inside: &[Block]) -> bool {
        let members = self.marks.start();
        for &block in inside {
            self.marks.insert(members, block);
        }
        let opens_inside = |region: &Region| self.marks.has(members, first(region.opening));
        let ends_inside =
            |region: &Region| region.meeting == join || self.marks.has(members, region.meeting);
        let at = |places: &[Vec<usize>], block: Block| places[block.index()].clone();
        let mut touching = (inside.iter()).flat_map(|&block| {
            let opened = at(&self.opened, block).into_iter();
            opened.chain(at(&self.met, block))
        });
        let same = |&region: &usize| self.regions[region].meeting == join;
        at(&self.opened, above).iter().any(same)
            || touching.any(|region| {
                let region = &self.regions[region];
                opens_inside(region) != ends_inside(region)
            })
    }

    /// How many instructions lanes run from `join` on where nobody else comes to, in the same iteration; not all if there are more than `enough`.
    fn weight(&self, join: Block, enough: usize) -> usize {
        let (nest, dominators) = (self.shape.nest, self.shape.dominators);
        let scope = nest.innermost(join);
        let mut weight = 0;
        let mut pending = vec![join];
        while let Some(block) = pending.pop().filter(|_| weight <= enough) {
            weight += self.func.block_insts(block).count();
            let next = dominators.children(block);
            pending.extend(next.filter(|&block| nest.innermost(block) == scope));
        }
        weight
    }

    /// Where lanes that meet at `block` go without doing anything, in the same iteration.
    fn onward(&self, mut block: Block) -> Block {
        let nest = self.shape.nest;
        for _ in 0..FORWARDING_BLOCKS {
            let only = self.func.layout.first_inst(block);
            let jumps = only.is_some_and(|inst| {
                self.func.opcode(inst) == Opcode::Abstract(AbstractOp::Br)
                    && self.func.inst(inst).guard().is_always()
            });
            let [next] = *self.shape.graph.succs(block) else {
                break;
            };
            if !jumps || nest.innermost(next) != nest.innermost(block) {
                break;
            }
            block = next;
            if nest.headed_by(block).is_some() {
                break;
            }
        }
        block
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

    /// The innermost loop around the opening in which the meeting is, too: what happens in other iterations of it is not between
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

    /// The blocks on ways from the opening to the meeting in one iteration of the loop around both, the block it opens in not
    /// counted.
    fn between(&mut self, opening: Opening, meeting: Block) -> Vec<Block> {
        let (graph, nest) = (self.shape.graph, self.shape.nest);
        let scope = self.scope(opening, meeting);
        let outside = |block: Block| {
            scope.is_some_and(|scope| !nest.contains(scope, block) || nest.header(scope) == block)
        };
        // Forward from the opening …
        let forward = self.marks.start();
        let mut pending: Vec<Block> = match opening {
            Opening::End(block) => graph.succs(block).to_vec(),
            Opening::Before(header) => vec![header],
        };
        let mut reached = Vec::new();
        while let Some(block) = pending.pop() {
            let stops = block == meeting || self.ending[block.index()] || outside(block);
            if stops || self.marks.has(forward, block) {
                continue;
            }
            self.marks.insert(forward, block);
            reached.push(block);
            pending.extend_from_slice(graph.succs(block));
        }
        // … and backward from the meeting.
        let backward = self.marks.start();
        let mut pending: Vec<Block> = graph.preds(meeting).to_vec();
        while let Some(block) = pending.pop() {
            if self.marks.has(forward, block) {
                self.marks.insert(backward, block);
                pending.extend_from_slice(graph.preds(block));
            }
        }
        reached.retain(|&block| self.marks.has(backward, block));
        reached
    }

    /// If a block inside is not dominated by the opening: the block where the region has to open instead.
    fn outsider(&self, opening: Opening, inside: &[Block]) -> Option<Block> {
        let dominators = self.shape.dominators;
        let first = first(opening);
        let mut above = first;
        for &block in inside {
            while !dominators.dominates(above, block) {
                above = dominators.immediate_dominator(above)?;
            }
        }
        (above != first).then_some(above)
    }

    fn add(&mut self, opening: Opening, meeting: Block, inside: Vec<Block>) {
        let Sides { arriving, leaving } = self.sides(opening, meeting, &inside);
        let needed = self.needed(opening, meeting, &inside, &leaving);
        let full = |&block: &Block| self.depth[block.index()] >= self.most;
        if needed.iter().any(full) {
            return;
        }
        let number = self.regions.len();
        for &block in &needed {
            self.depth[block.index()] += 1;
        }
        for &block in &inside {
            self.around[block.index()].push(number);
        }
        self.opened[first(opening).index()].push(number);
        self.met[meeting.index()].push(number);
        self.regions.push(Region {
            opening,
            entering: self.entering(opening),
            meeting,
            arriving,
            leaving,
            inside,
        });
    }

    /// The edges along which lanes come to the meeting, and those along which they leave.
    fn sides(&mut self, opening: Opening, meeting: Block, inside: &[Block]) -> Sides {
        let func = self.func;
        let members = self.marks.start();
        for &block in inside {
            self.marks.insert(members, block);
        }
        let mut from: Vec<Block> = inside.to_vec();
        if let Opening::End(block) = opening
            && !self.marks.has(members, block)
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
                } else if !self.marks.has(members, to) && !self.only_ends(to) {
                    leaving.push(edge);
                }
            }
        }
        Sides { arriving, leaving }
    }

    /// The blocks in which lanes of a region may be, or lanes that have left it while others are in it.
    fn needed(
        &mut self,
        opening: Opening,
        meeting: Block,
        inside: &[Block],
        leaving: &[Edge],
    ) -> Vec<Block> {
        let mut needed = inside.to_vec();
        let reached = self.marks.start();
        for &block in inside {
            self.marks.insert(reached, block);
        }
        // Lanes of a region around this one meet when none of them is in this one any more.
        self.marks.insert(reached, meeting);
        for &region in &self.around[first(opening).index()] {
            let outer = &self.regions[region];
            self.marks.insert(reached, outer.meeting);
        }
        let targets = leaving.iter().map(|&edge| self.func.edge_target(edge));
        let mut pending: Vec<Block> = targets.collect();
        while let Some(block) = pending.pop() {
            if !self.marks.has(reached, block) {
                self.marks.insert(reached, block);
                needed.push(block);
                pending.extend_from_slice(self.shape.graph.succs(block));
            }
        }
        needed
    }

    /// The edges into the loop before which a region opens.
    fn entering(&self, opening: Opening) -> Vec<Edge> {
        let (func, nest) = (self.func, self.shape.nest);
        let Opening::Before(header) = opening else {
            return Vec::new();
        };
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
}

/// The first block inside, or the one at whose end a region opens.
fn first(opening: Opening) -> Block {
    match opening {
        Opening::End(block) => block,
        Opening::Before(header) => header,
    }
}
