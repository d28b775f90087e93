//! Control divergence: what follows when branches split the warp.
//!
//! Given the branches whose outcome may differ between lanes, [`Split`] finds
//!
//! - the **joins**: blocks that lanes which parted may enter along different edges, in the same iteration of every loop around. The
//!   value of a block parameter there depends on the lane even if every argument is uniform;
//! - the **divergent loops**: loops that lanes leave in different iterations. A value made inside is seen outside from
//!   different iterations;
//! - the **partial blocks**: blocks that may run with only some of the lanes that entered the function;
//! - for each branch, its **reconvergence point**: where the lanes it parts are all together again.
//!
//! Branches may be added one at a time as they are found to diverge; each is looked at once.
//!
//! **Definition.** On the one-iteration graphs of [`super::iteration_graph`], let `b` be a node with a divergent outcome and two edges or more.
//! A node is a join when two paths from `b` lead to it that share nothing else (Rosemann, Moll and Hack, "An abstract
//! interpretation for SPMD divergence on reducible control flow graphs", POPL 2021). Let `w` be the immediate post-dominator of `b`. It is
//! always a join. If `w` is no block but the end of everything, some lanes go on to the next iteration while others leave: the loop
//! is divergent. A loop that is divergent, or left by different exits, is itself such a node in the graph around it. Nodes on the
//! way from `b` before `w` are partial, as is all that runs in them.
//!
//! An irreducible loop with a divergent branch anywhere inside, or entered at different places, is given up on: it is *scattered*, its
//! blocks are joins, partial, and every value made inside must be taken as divergent.
//!
//! **Why this is sound.** Take two lanes that are together at some block and entered it along different edges. Follow both ways back
//! to the last node they have in common: there the lanes were together and went apart, so it had a divergent outcome, and the
//! two ways from it share nothing: the block was marked. For lanes that leave a loop in different iterations, take the last iteration
//! they made together; one way ends in the next iteration, the other outside.
//!
//! **Cost.** Joins other than `w` are found by spreading labels from `b`'s successors in topological order, each node keeping the
//! label that reached it or, where two meet, a new one of its own. The walk steps over any part with one way in and one way out, ignores
//! parts that lead nowhere else, and ends when one label is left; on nested code this costs in total as much as the code is
//! long. Ladders of jumps across each other can still make it quadratic, so the steps are counted, and after
//! [`STEPS_PER_EDGE`] steps for each node and edge all joins in partial blocks are taken as joins without looking further. That is
//! coarser, never wrong. Everything else is near-linear: partial nodes are marked along the post-dominator tree, each once.

use super::flow::{FlowGraph, NONE};
use super::iteration_graph::{IterationGraph, Kind, Node};
use super::loops::{Loop, LoopNest};
use super::order::DepthFirst;
use super::union_find::DisjointSets;
use crate::Block;
use cranelift_entity::EntityRef;
use cranelift_entity::packed_option::PackedOption;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How many label steps are spent for each node and edge before joins are no longer told apart.
const STEPS_PER_EDGE: usize = 16;

/// Something that changed when a branch was found to diverge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Consequence {
    /// The block became a join.
    Join(Block),
    /// The loop is left in different iterations.
    DivergentLoop(Loop),
    /// The irreducible loop is given up on: everything made inside is divergent.
    Scattered(Loop),
}

/// Where lanes that part are together again within one iteration of the loop around, if those that leave the loop do not count.
///
/// The [reconvergence point](Split::reconvergence_point) is where *all* lanes meet: once a way leaves the loop, it lies outside.
/// Here each one-iteration graph is asked for itself, without the edges into `Kind::Out`: what is left always has a meeting point, the next
/// iteration at the latest. Lanes that leave are the business of the graph around, where the folded loop parts them.
#[derive(Clone, Debug)]
pub struct IterationReconvergence {
    branches: Vec<PackedOption<Block>>,
    loops: Vec<PackedOption<Block>>,
}

impl IterationReconvergence {
    /// Where lanes that part at the end of `block` meet in this iteration, or the header of the loop for the next iteration. None if it parts no
    /// lanes that stay, or if they meet at the end of the function only; and inside irreducible loops, which have no iterations.
    pub fn of_branch(&self, block: Block) -> Option<Block> {
        self.branches[block.index()].expand()
    }

    /// Where lanes that leave `each` at different times or places meet, in the iteration of the loop around it.
    pub fn of_loop(&self, each: Loop) -> Option<Block> {
        self.loops[each.index()].expand()
    }
}

/// The consequences of a set of divergent branches; see the module.
#[derive(Clone, Debug)]
pub struct Split<'a> {
    nest: &'a LoopNest,
    iterations: IterationGraph,
    /// By node: whether its outcome differs between lanes.
    divergent: Vec<bool>,
    joins: Vec<bool>,
    divergent_loops: Vec<bool>,
    scattered: Vec<bool>,
    partial: Vec<bool>,
    /// Partial nodes are folded into their immediate post-dominator.
    not_partial: DisjointSets,
    partial_pending: Vec<Node>,
    divergent_pending: Vec<Node>,
    consequences: Vec<Consequence>,
    labels: Labels,
    steps_left: usize,
    /// By node: where lanes that part there are together again.
    points: Vec<PackedOption<Block>>,
}

impl<'a> Split<'a> {
    /// No branch diverges yet and the whole warp enters the function.
    pub fn new(graph: &FlowGraph, walk: &DepthFirst, nest: &'a LoopNest) -> Self {
        let iterations = IterationGraph::new(graph, walk, nest);
        let count = iterations.node_count();
        Split {
            nest,
            divergent: vec![false; count],
            joins: vec![false; graph.block_count()],
            divergent_loops: vec![false; nest.len()],
            scattered: vec![false; nest.len()],
            partial: vec![false; count],
            not_partial: DisjointSets::new(count),
            partial_pending: Vec::new(),
            divergent_pending: Vec::new(),
            consequences: Vec::new(),
            labels: Labels::new(count),
            steps_left: STEPS_PER_EDGE * (count + iterations.edge_count()),
            points: reconvergence_points(&iterations, nest),
            iterations,
        }
    }

    /// Takes every block as partial, for a function that may be called by part of a warp.
    pub fn enter_partial(&mut self, walk: &DepthFirst) {
        for &block in walk.preorder() {
            match self.iterations.hiding_block(self.nest, block) {
                Some(hiding) => self.mark_partial(self.iterations.node(Kind::Folded(hiding))),
                None => self.mark_partial(self.iterations.node(Kind::Block(block))),
            }
        }
        self.settle();
    }

    /// The terminator of `block` may take different lanes to different successors. Returns what that changed.
    ///
    /// # Panics
    /// If `block` is unreachable.
    pub fn diverge(&mut self, block: Block) -> Vec<Consequence> {
        match self.iterations.hiding_block(self.nest, block) {
            Some(hiding) => self.scatter(hiding),
            None => self
                .divergent_pending
                .push(self.iterations.node(Kind::Block(block))),
        }
        self.settle();
        std::mem::take(&mut self.consequences)
    }

    /// Whether lanes that are together at `block` may have come along different edges.
    pub fn is_join(&self, block: Block) -> bool {
        self.joins[block.index()]
    }

    /// Whether `block` may run with part of the warp.
    pub fn is_partial(&self, block: Block) -> bool {
        self.partial[block.index()]
    }

    /// Whether lanes may leave `each` in different iterations.
    pub fn is_divergent_loop(&self, each: Loop) -> bool {
        self.divergent_loops[each.index()]
    }

    /// Whether `each` is or lies in an irreducible loop that is given up on.
    pub fn is_scattered(&self, each: Loop) -> bool {
        self.iterations
            .hiding(each)
            .is_some_and(|hiding| self.scattered[hiding.index()])
    }

    /// Where lanes that leave `block` along different edges are all together again: a block they all come to, or the
    /// header of a loop around `block` when they meet in the next iteration. None when they meet only at the end of the function,
    /// or when `block` is unreachable or has one successor at most.
    ///
    /// For a block inside an irreducible loop this is where lanes are together after the loop.
    pub fn reconvergence_point(&self, block: Block) -> Option<Block> {
        let node = match self.iterations.hiding_block(self.nest, block) {
            Some(hiding) => self.iterations.node(Kind::Folded(hiding)),
            None => self.iterations.node(Kind::Block(block)),
        };
        self.points[node.index()].expand()
    }

    /// Where lanes meet loop by loop; see [`IterationReconvergence`]. The branches that part lanes must be known by now.
    pub fn iteration_reconvergence(&self) -> IterationReconvergence {
        let staying = self.iterations.staying_post_dominators();
        let meets_at = |node: Node| match self.divergent[node.index()] && self.parts_staying(node) {
            true => self.staying_meeting(node, &staying),
            false => None.into(),
        };
        let blocks = self.joins.len();
        let branches = (0..blocks).map(|number| {
            let block = Block::from_u32(number as u32);
            match self.iterations.hiding_block(self.nest, block) {
                Some(_) => None.into(),
                None => meets_at(self.iterations.node(Kind::Block(block))),
            }
        });
        let loops = self.nest.loops().map(|each| {
            let folded = match self.iterations.hiding(each) {
                Some(hiding) => hiding == each,
                None => true,
            };
            match folded {
                true => meets_at(self.iterations.node(Kind::Folded(each))),
                false => None.into(),
            }
        });
        IterationReconvergence {
            branches: branches.collect(),
            loops: loops.collect(),
        }
    }

    /// Whether lanes that part at `node` and stay in the loop around it may be apart.
    fn parts_staying(&self, node: Node) -> bool {
        self.iterations.staying_ways(node) > 1
            || matches!(self.iterations.kind(node), Kind::Folded(each) if self.divergent_loops[each.index()])
    }

    fn staying_meeting(&self, mut node: Node, staying: &[u32]) -> PackedOption<Block> {
        loop {
            node = match staying[node.index()] {
                NONE => return None.into(),
                meet => Node::from_u32(meet),
            };
            match self.iterations.kind(node) {
                Kind::Block(block) => return Some(block).into(),
                Kind::Next(each) => return Some(self.nest.header(each)).into(),
                // An irreducible loop is entered at several places: lanes meet behind it.
                Kind::Folded(each) if self.iterations.hiding(each).is_some() => {}
                Kind::Folded(each) => return Some(self.nest.header(each)).into(),
                Kind::Out(_) | Kind::Root | Kind::End => return None.into(),
            }
        }
    }

    /// Sets how many steps are left: when they run out, the answer is coarser, never wrong. From the start there are as many for each edge
    /// as real code needs.
    pub fn limit_steps(&mut self, steps: usize) {
        self.steps_left = steps;
    }

    fn settle(&mut self) {
        loop {
            if let Some(node) = self.divergent_pending.pop() {
                self.part_at(node);
            } else if let Some(node) = self.partial_pending.pop() {
                self.spread_partial(node);
            } else {
                break;
            }
        }
    }

    /// Lanes part at `node`.
    fn part_at(&mut self, node: Node) {
        if std::mem::replace(&mut self.divergent[node.index()], true)
            || self.iterations.succs(node).len() < 2
        {
            return;
        }
        let meet = self.iterations.immediate_post_dominator(node);
        match self.iterations.kind(meet) {
            Kind::Block(_) | Kind::Folded(_) | Kind::Next(_) => self.join(meet),
            Kind::Out(left) => self
                .divergent_pending
                .push(self.iterations.node(Kind::Folded(left))),
            Kind::Root | Kind::End => {
                if let Some(around) = self.iterations.region(self.nest, node) {
                    self.leave_in_different_iterations(around);
                }
            }
        }
        self.spread_partial(node);
        if self.steps_left > 0 {
            self.spread_labels(node, meet);
        }
    }

    fn leave_in_different_iterations(&mut self, around: Loop) {
        if std::mem::replace(&mut self.divergent_loops[around.index()], true) {
            return;
        }
        self.consequences.push(Consequence::DivergentLoop(around));
        self.mark_loop_partial(around);
        self.divergent_pending
            .push(self.iterations.node(Kind::Folded(around)));
    }

    fn scatter(&mut self, each: Loop) {
        if std::mem::replace(&mut self.scattered[each.index()], true) {
            return;
        }
        for inner in self.nest.subtree(each) {
            self.divergent_loops[inner.index()] = true;
        }
        for block in self.nest.blocks(each) {
            self.joins[block.index()] = true;
        }
        self.consequences.push(Consequence::Scattered(each));
        self.mark_loop_partial(each);
        self.divergent_pending
            .push(self.iterations.node(Kind::Folded(each)));
    }

    /// Lanes that parted come to `node` along different edges.
    fn join(&mut self, node: Node) {
        let block = match self.iterations.kind(node) {
            Kind::Block(block) => block,
            Kind::Folded(each) if self.iterations.hiding(each).is_some() => {
                return self.scatter(each);
            }
            Kind::Folded(each) | Kind::Next(each) => self.nest.header(each),
            Kind::Out(_) | Kind::Root | Kind::End => return,
        };
        if !std::mem::replace(&mut self.joins[block.index()], true) {
            self.consequences.push(Consequence::Join(block));
        }
    }

    fn mark_partial(&mut self, node: Node) {
        if std::mem::replace(&mut self.partial[node.index()], true) {
            return;
        }
        self.not_partial.absorb(
            self.iterations.immediate_post_dominator(node).as_u32(),
            node.as_u32(),
        );
        self.partial_pending.push(node);
        if self.steps_left == 0 {
            self.join_if_several_ways_lead_to(node);
        }
    }

    fn mark_loop_partial(&mut self, each: Loop) {
        if self.iterations.hiding(each).is_some() {
            for block in self.nest.blocks(each) {
                self.partial[block.index()] = true;
            }
            return;
        }
        for &block in self.nest.own_blocks(each) {
            self.mark_partial(self.iterations.node(Kind::Block(block)));
        }
        for &inner in self.nest.children(each) {
            self.mark_partial(self.iterations.node(Kind::Folded(inner)));
        }
    }

    /// Marks what may run before all lanes that leave `node` are together again, and what `node` holds inside.
    fn spread_partial(&mut self, node: Node) {
        let meet = self.iterations.immediate_post_dominator(node);
        let depth = self.iterations.post_dominator_depth(meet);
        for at in 0..self.iterations.succs(node).len() {
            let succ = self.iterations.succs(node)[at];
            // Climb from the successor towards `meet`, over what is marked already.
            let mut on_the_way = Node::from_u32(self.not_partial.find(succ.as_u32()));
            while self.iterations.post_dominator_depth(on_the_way) > depth {
                self.mark_partial(on_the_way);
                on_the_way = Node::from_u32(self.not_partial.find(on_the_way.as_u32()));
            }
        }
        if let Kind::Folded(each) = self.iterations.kind(node)
            && self.partial[node.index()]
        {
            self.mark_loop_partial(each);
        }
    }

    /// Finds the joins of `node` before `meet`, where its lanes are together again.
    fn spread_labels(&mut self, node: Node, meet: Node) {
        let mut joins = std::mem::take(&mut self.labels.joins);
        let steps = self
            .labels
            .spread(&self.iterations, node, meet, self.steps_left, &mut joins);
        for join in joins.drain(..) {
            self.join(join);
        }
        self.labels.joins = joins;
        self.steps_left = self.steps_left.saturating_sub(steps);
        if self.steps_left == 0 {
            for number in 0..self.iterations.node_count() {
                if self.partial[number] {
                    self.join_if_several_ways_lead_to(Node::new(number));
                }
            }
        }
    }

    fn join_if_several_ways_lead_to(&mut self, node: Node) {
        if self.iterations.preds(node).len() >= 2 {
            self.join(node);
        }
    }
}

/// For each node, where lanes that part there are together again.
fn reconvergence_points(iterations: &IterationGraph, nest: &LoopNest) -> Vec<PackedOption<Block>> {
    let mut points: Vec<Option<PackedOption<Block>>> = vec![None; iterations.node_count()];
    let mut asking: Vec<Node> = Vec::new();
    for number in 0..iterations.node_count() {
        let mut node = Node::new(number);
        if !iterations.is_used(node) {
            points[number] = Some(None.into());
            continue;
        }
        // The answer for a node that leads out of its loop is that of the folded loop.
        let point = loop {
            if let Some(point) = points[node.index()] {
                break point;
            }
            asking.push(node);
            let meet = iterations.immediate_post_dominator(node);
            node = match iterations.kind(meet) {
                Kind::Block(block) => break Some(block).into(),
                Kind::Folded(each) if iterations.hiding(each).is_none() => {
                    break Some(nest.header(each)).into();
                }
                Kind::Folded(_) => meet,
                Kind::Next(each) => break Some(nest.header(each)).into(),
                Kind::Out(each) => iterations.node(Kind::Folded(each)),
                Kind::Root | Kind::End => match iterations.region(nest, node) {
                    Some(around) => iterations.node(Kind::Folded(around)),
                    None => break None.into(),
                },
            };
        };
        for asked in asking.drain(..) {
            points[asked.index()] = Some(point);
        }
    }
    points.into_iter().map(Option::unwrap_or_default).collect()
}

/// The labels of one spread, kept between spreads so that starting one costs nothing.
#[derive(Clone, Debug)]
struct Labels {
    /// By node: the spread that last reached it.
    reached_in: Vec<u32>,
    spread: u32,
    /// By node: the last node at which all ways that lead here were one. Itself, where several met.
    label: Vec<Node>,
    joined: Vec<bool>,
    /// By label: how many waiting nodes bear it.
    waiting: Vec<u32>,
    /// How many labels waiting nodes bear.
    distinct: usize,
    queue: BinaryHeap<Reverse<(u32, Node)>>,
    joins: Vec<Node>,
}

impl Labels {
    fn new(count: usize) -> Self {
        Labels {
            reached_in: vec![0; count],
            spread: 0,
            label: vec![Node::from_u32(0); count],
            joined: vec![false; count],
            waiting: vec![0; count],
            distinct: 0,
            queue: BinaryHeap::new(),
            joins: Vec::new(),
        }
    }

    /// Spreads labels from the successors of `from` until one is left, adding to `joins` each node other than `meet` where two
    /// met. Returns the steps spent, which are at least one and may pass `limit` by one node's edges.
    fn spread(
        &mut self,
        iterations: &IterationGraph,
        from: Node,
        meet: Node,
        limit: usize,
        joins: &mut Vec<Node>,
    ) -> usize {
        self.spread += 1;
        let mut steps = 1;
        for &succ in iterations.succs(from) {
            steps += 1;
            if self.reached_in[succ.index()] == self.spread {
                // Two edges of one branch to one block are two ways.
                self.meet_at(iterations, succ, joins);
            } else {
                self.reach(iterations, succ, succ, meet, joins);
            }
        }
        while self.distinct > 1 && steps <= limit {
            let Some(Reverse((_, node))) = self.queue.pop() else {
                break;
            };
            let label = self.label[node.index()];
            if self.joined[node.index()] && iterations.is_closed(node) {
                continue;
            }
            self.no_longer_waits(label);
            let past = iterations.immediate_post_dominator(node);
            if iterations.is_closed(node) {
                steps += 1;
            } else if iterations.dominates(node, past) {
                steps += 1;
                self.reach(iterations, past, label, meet, joins);
            } else {
                for &succ in iterations.succs(node) {
                    steps += 1;
                    self.reach(iterations, succ, label, meet, joins);
                }
            }
        }
        for Reverse((_, node)) in self.queue.drain() {
            self.waiting[self.label[node.index()].index()] = 0;
        }
        self.distinct = 0;
        steps
    }

    fn reach(
        &mut self,
        iterations: &IterationGraph,
        node: Node,
        label: Node,
        meet: Node,
        joins: &mut Vec<Node>,
    ) {
        let ignored = node == meet
            || matches!(iterations.kind(node), Kind::Out(_) | Kind::End)
            || iterations.is_closed(node) && iterations.preds(node).len() < 2;
        if ignored {
            return;
        }
        if self.reached_in[node.index()] != self.spread {
            self.reached_in[node.index()] = self.spread;
            self.label[node.index()] = label;
            self.joined[node.index()] = false;
            self.queue
                .push(Reverse((iterations.topological(node), node)));
            self.waits(label);
        } else if self.label[node.index()] != label {
            self.meet_at(iterations, node, joins);
        }
    }

    /// Two labels met at `node`, which is waiting.
    fn meet_at(&mut self, iterations: &IterationGraph, node: Node, joins: &mut Vec<Node>) {
        if std::mem::replace(&mut self.joined[node.index()], true) {
            return;
        }
        joins.push(node);
        self.no_longer_waits(self.label[node.index()]);
        self.label[node.index()] = node;
        // What follows a closed node meets no other label.
        if !iterations.is_closed(node) {
            self.waits(node);
        }
    }

    fn waits(&mut self, label: Node) {
        self.waiting[label.index()] += 1;
        self.distinct += usize::from(self.waiting[label.index()] == 1);
    }

    fn no_longer_waits(&mut self, label: Node) {
        self.waiting[label.index()] -= 1;
        self.distinct -= usize::from(self.waiting[label.index()] == 0);
    }
}
