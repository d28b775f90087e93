//! Divergence: what is the same in all lanes of a warp, and what may differ.
//!
//! **What is meant.** Two lanes are together at a block when both are there in the same iteration of every loop around it (see [`super::iteration_graph`]). A
//! value is *uniform* when lanes that are together at its definition get the same; a branch is uniform when lanes that are
//! together at it go the same way. Nothing is said about lanes that are not together: a uniform value may differ between
//! two sides of a divergent branch, and that is why a uniform register must not live across branches in a [partial](Divergence::is_partial)
//! block.
//!
//! **Where divergence comes from.** From operations whose results differ between lanes ([`super::uniformity`]); from parameters of
//! device functions; through operands, guards, kept values and arguments; into parameters of blocks that lanes enter along different edges
//! ([joins](Divergence::is_join)), unless all edges bring the same value; and out of loops that lanes leave in different iterations: a value may be uniform in the loop and
//! differ outside, as each lane has it from another iteration; and from loads and looks at mbarriers where lanes may come in parts ([`super::meeting`]). So uniformity is asked for at a place ([`Divergence::is_uniform_at`]). A register of a uniform class holds one value for the warp: it can
//! diverge only as a block parameter, through another such register, or by leaving a loop.
//!
//! Where one lane comes alone ([`super::lone_lane`]), nothing differs and nobody parts. Where lanes come in [company](super::company) to a look at one mbarrier, all of them see the same,
//! though others of the warp may come at other times.
//!
//! Lanes are assumed to come together again at each branch's [reconvergence point](Divergence::reconvergence_point) and not before. Whoever places convergence
//! barriers uses these points; meeting later, or never, makes no uniform value differ, but lanes in different iterations must not be
//! brought together.
//!
//! **Algorithm.** A worklist over values and branches, each entered once; a divergent branch is handed to [`Split`], which answers with the joins and
//! loops that follow. The uses of a value outside the loops of its definition wait in a tree ordered by loop, from which a loop that
//! becomes divergent takes those that leave it, each once. Cost: that of [`Split`], plus O(operands · log operands).
//!
//! For irreducible loops see [`super::split`]: if lanes may part inside, all values made there are divergent.
//!
//! Works on the two levels in SSA form. Physical registers other than constant ones are taken to differ between lanes.

use super::company::{Company, Facts, behind, companies};
use super::csr::Csr;
use super::def_use::{DefUse, Place, Use};
use super::dominance::DominatorTree;
use super::flow::{FlowGraph, NONE};
use super::lone_lane::lone_blocks;
use super::loops::{Loop, LoopNest};
use super::meeting::{LaneNeeds, PartialWarpCauses, PartialWarps, sees_other_threads};
use super::order::DepthFirst;
use super::split::{Consequence, Split};
use super::uniformity::{Spread, loads_what_may_change, spread};
use crate::{AbstractOp, Block, Edge, Function, FunctionKind, Inst, Level, Value, ValueDef};
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntityRef, EntitySet};

/// The answer for one function; see the module.
#[derive(Clone, Debug)]
pub struct Divergence {
    divergent: Vec<bool>,
    /// By value: whether a use outside sees it from different iterations.
    temporal: Vec<bool>,
    branches: Vec<bool>,
    joins: Vec<bool>,
    partial: Vec<bool>,
    /// By block: whether the whole warp is there; empty if that is only said by what is not partial.
    whole: Vec<bool>,
    /// By block: whether lanes may come or leave in parts.
    in_parts: Vec<bool>,
    /// By block: whether one lane comes there alone; empty if there is no such block.
    lone: Vec<bool>,
    points: Vec<PackedOption<Block>>,
    loops: Vec<bool>,
    /// By loop: the innermost divergent loop that is it or around it.
    innermost_divergent: Vec<u32>,
    /// By value: the innermost loop around its definition.
    home: Vec<u32>,
}

impl Divergence {
    /// Finds out what diverges in `function`.
    ///
    /// A kernel is entered by whole warps. A device function may be called by part of a warp, with other arguments in each lane.
    pub fn new(
        function: &Function,
        graph: &FlowGraph,
        walk: &DepthFirst,
        nest: &LoopNest,
        chains: &DefUse,
    ) -> Self {
        let waits: Vec<(Block, Inst)> = (walk.preorder().iter())
            .filter(|&&block| nest.innermost(block).is_some())
            .flat_map(|&block| function.block_insts(block).map(move |inst| (block, inst)))
            .filter(|&(_, inst)| waits_for_phase(function, inst))
            .collect();
        let mut finder = Finder::new(function, graph, walk, nest, chains);
        if function.kind == FunctionKind::Device {
            finder.split.enter_partial(walk);
            for &param in function.block_params(graph.entry()) {
                finder.mark(param);
            }
        }
        // Whole warps that wait for one phase of one barrier go on together, and so do lanes in company. Which do is not known before: all, until one is found that does not. What diverges
        // because of that comes to what does anyway.
        let mut looks = Looks::default();
        loop {
            if function.level == Level::Abstract {
                finder.find_all_sources(walk, &looks);
            } else {
                // Machine loads are divergent anyway.
                for &block in walk.preorder() {
                    let insts = function.block_insts(block);
                    insts.for_each(|inst| finder.find_sources(inst, false, false));
                }
            }
            finder.settle();
            let mut found = finder.found();
            if waits.is_empty() {
                return found;
            }
            found.whole = found.whole_blocks(function, graph, walk);
            let alone = found.looks_alone(function, (graph, walk, nest), &waits, &looks);
            let mut more = false;
            for (&(block, wait), alone) in waits.iter().zip(alone) {
                let differs = |over: Value| !found.is_uniform(over);
                let differs = function.value_defs(wait).any(differs);
                if !found.is_whole(block) || differs {
                    more |= looks.parting.insert(wait);
                }
                if alone || differs {
                    more |= looks.alone.insert(wait);
                }
            }
            if !more {
                return found;
            }
        }
    }

    /// Of each of `waits`, whether lanes may come to it that are not in company.
    fn looks_alone(
        &self,
        function: &Function,
        (graph, walk, nest): (&FlowGraph, &DepthFirst, &LoopNest),
        waits: &[(Block, Inst)],
        looks: &Looks,
    ) -> Vec<bool> {
        let facts = Facts {
            whole: &|block| self.is_whole(block) && !self.in_parts[block.index()],
            parts: &|block| self.is_divergent_branch(block),
            gathers: &|inst| {
                function.inst(inst).guard().is_always()
                    && LaneNeeds::of(function, inst) == LaneNeeds::AllLanes
            },
            scatters: &|inst| match LaneNeeds::of(function, inst) {
                LaneNeeds::SomeLanes { .. } | LaneNeeds::Threads => true,
                LaneNeeds::Nothing | LaneNeeds::AllLanes => match waits_for_phase(function, inst) {
                    true => looks.alone.contains(inst),
                    false => match function.opcode(inst).as_abstract() {
                        Some(AbstractOp::Call | AbstractOp::Nanosleep) => true,
                        // Each part waits for itself.
                        Some(AbstractOp::RegionMeet) => {
                            let block = function.layout.inst_block(inst);
                            block.is_none_or(|block| self.in_parts[block.index()])
                        }
                        _ => false,
                    },
                },
            },
        };
        let starts = companies(function, graph, walk, nest, &facts);
        let alone = |&(block, wait): &(Block, Inst)| {
            let before = function.block_insts(block).take_while(|&inst| inst != wait);
            let lanes = before.fold(starts[block.index()], |lanes, inst| {
                behind(lanes, inst, &facts)
            });
            lanes == Company::Apart
        };
        waits.iter().map(alone).collect()
    }

    /// By block: whether all lanes of the warp are there that have not ended. Besides blocks that are not partial, those are behind an
    /// operation that brings the warp together, as far as no lanes part.
    fn whole_blocks(&self, function: &Function, graph: &FlowGraph, walk: &DepthFirst) -> Vec<bool> {
        let gathers = |inst: Inst| {
            let op = function.opcode(inst).as_abstract();
            let asks = matches!(op, Some(AbstractOp::SetMaxNReg | AbstractOp::RegistersTake));
            function.inst(inst).guard().is_always()
                && (asks || LaneNeeds::of(function, inst) == LaneNeeds::AllLanes)
        };
        let gathered: Vec<bool> = (0..graph.block_count())
            .map(|number| function.block_insts(Block::new(number)).any(gathers))
            .collect();
        let dominators = DominatorTree::new(graph, walk);
        let mut whole = vec![true; graph.block_count()];
        loop {
            let mut changed = false;
            for block in walk.reverse_postorder() {
                let at_end = |from: Block| gathered[from.index()] || whole[from.index()];
                let stays = |&from: &Block| {
                    !walk.is_reachable(from) || at_end(from) && !self.is_divergent_branch(from)
                };
                let meets =
                    |above: Block| at_end(above) && self.reconvergence_point(above) == Some(block);
                let now = !self.is_partial(block)
                    || block != graph.entry()
                        && (graph.preds(block).iter().all(stays)
                            || dominators.immediate_dominator(block).is_some_and(meets));
                if whole[block.index()] && !now {
                    whole[block.index()] = false;
                    changed = true;
                }
            }
            if !changed {
                return whole;
            }
        }
    }

    /// Whether lanes that are together where `value` is defined get the same.
    pub fn is_uniform(&self, value: Value) -> bool {
        !self.divergent[value.index()]
    }

    /// Whether lanes that are together in `block` have the same in `value`, which is defined on every way there.
    pub fn is_uniform_at(&self, value: Value, block: Block, nest: &LoopNest) -> bool {
        self.is_uniform(value)
            && match self.home[value.index()] {
                NONE => true,
                home => match self.innermost_divergent[home as usize] {
                    NONE => true,
                    left => nest.contains(Loop::from_u32(left), block),
                },
            }
    }

    /// Whether `value` is uniform where it is defined and is read where lanes have it from different iterations.
    pub fn is_temporal(&self, value: Value) -> bool {
        self.is_uniform(value) && self.temporal[value.index()]
    }

    /// Whether lanes that are together at the end of `block` may go different ways.
    pub fn is_divergent_branch(&self, block: Block) -> bool {
        self.branches[block.index()]
    }

    /// Whether lanes that are together at `block` may have come along different edges.
    pub fn is_join(&self, block: Block) -> bool {
        self.joins[block.index()]
    }

    /// Whether `block` may run with only part of the warp.
    pub fn is_partial(&self, block: Block) -> bool {
        self.partial[block.index()]
    }

    /// Whether the whole warp comes to `block`, but for lanes that have ended: of functions that wait at mbarriers in loops, also behind operations that
    /// bring it together.
    pub fn is_whole(&self, block: Block) -> bool {
        match self.whole.get(block.index()) {
            Some(&whole) => whole,
            None => !self.is_partial(block),
        }
    }

    /// Whether at most one lane of the warp comes to `block`, so far as the branches before it tell.
    pub fn is_lone(&self, block: Block) -> bool {
        self.lone.get(block.index()).is_some_and(|&lone| lone)
    }

    /// Whether lanes may leave `each` in different iterations.
    pub fn is_divergent_loop(&self, each: Loop) -> bool {
        self.loops[each.index()]
    }

    /// Where lanes that part at the end of `block` are all together again; see [`Split::reconvergence_point`].
    pub fn reconvergence_point(&self, block: Block) -> Option<Block> {
        self.points[block.index()].expand()
    }
}

/// What is known of looks at mbarriers in loops.
#[derive(Default)]
struct Looks {
    /// Those behind which the warp may be in parts.
    parting: EntitySet<Inst>,
    /// Those to which lanes may come that are not in company.
    alone: EntitySet<Inst>,
}

struct Finder<'a> {
    function: &'a Function,
    graph: &'a FlowGraph,
    walk: &'a DepthFirst,
    nest: &'a LoopNest,
    chains: &'a DefUse,
    split: Split<'a>,
    /// By block: the edges that lead to it from reachable blocks.
    incoming: Csr<Edge>,
    leaving: LeavingUses,
    divergent: Vec<bool>,
    temporal: Vec<bool>,
    branches: Vec<bool>,
    /// By block: whether lanes may come or leave in parts.
    in_parts: Vec<bool>,
    /// By block: whether one lane comes there alone; empty if there is no such block.
    lone: Vec<bool>,
    /// By value: the innermost loop around its definition.
    home: Vec<u32>,
    pending_values: Vec<Value>,
    pending_branches: Vec<Block>,
}

impl<'a> Finder<'a> {
    fn new(
        function: &'a Function,
        graph: &'a FlowGraph,
        walk: &'a DepthFirst,
        nest: &'a LoopNest,
        chains: &'a DefUse,
    ) -> Self {
        let edges = walk.preorder().iter().flat_map(|&from| {
            let edges = function.successor_edges(from).iter();
            edges.map(|&edge| (function.edge_target(edge).as_u32(), edge))
        });
        let home: Vec<u32> = (0..function.value_count())
            .map(|number| {
                let block = function.defining_block(Value::new(number));
                block
                    .and_then(|block| nest.innermost(block))
                    .map_or(NONE, |around| around.as_u32())
            })
            .collect();
        Finder {
            split: Split::new(graph, walk, nest),
            incoming: Csr::from_pairs(graph.block_count(), edges),
            leaving: LeavingUses::new(function, nest, chains, &home),
            divergent: vec![false; function.value_count()],
            temporal: vec![false; function.value_count()],
            branches: vec![false; graph.block_count()],
            in_parts: vec![false; graph.block_count()],
            lone: lone_blocks(function, graph, walk),
            home,
            pending_values: Vec::new(),
            pending_branches: Vec::new(),
            function,
            graph,
            walk,
            nest,
            chains,
        }
    }

    fn mark(&mut self, value: Value) {
        let home = self.function.defining_block(value);
        if home.is_some_and(|block| self.is_lone(block)) {
            return;
        }
        if !std::mem::replace(&mut self.divergent[value.index()], true) {
            self.pending_values.push(value);
        }
    }

    /// Whether no two lanes are together in `block`.
    fn is_lone(&self, block: Block) -> bool {
        self.lone.get(block.index()).is_some_and(|&lone| lone)
    }

    /// Marks what differs between lanes by itself in all of an abstract function, whose loops may wait for other threads.
    fn find_all_sources(&mut self, walk: &DepthFirst, looks: &Looks) {
        let (function, nest, chains) = (self.function, self.nest, self.chains);
        let waits = |inst: Inst| {
            let in_loop = || {
                let block = function.layout.inst_block(inst);
                block.is_some_and(|block| nest.innermost(block).is_some())
            };
            if waits_for_phase(function, inst) {
                return looks.parting.contains(inst);
            }
            let op = function.opcode(inst).as_abstract();
            let unread = |value| chains.uses(value).is_empty();
            if op == Some(AbstractOp::MbarrierArrive) && function.value_defs(inst).all(unread) {
                return false;
            }
            matches!(op, Some(AbstractOp::Call | AbstractOp::Nanosleep))
                || in_loop() && sees_other_threads(function, inst)
        };
        let causes = PartialWarpCauses {
            at_start: &|_| false,
            at_end: &|_| false,
            behind: &waits,
            apart: &|_| true,
        };
        let parts = PartialWarps::new(function, self.graph, &causes);
        for &block in walk.preorder() {
            let in_loop = nest.innermost(block).is_some();
            let leave = parts.walk(function, &causes, block, |inst, _, arrival| {
                self.find_sources(
                    inst,
                    arrival.in_parts,
                    in_loop && !looks.alone.contains(inst),
                );
            });
            self.in_parts[block.index()] = parts.come_to(block) || leave;
        }
    }

    /// Marks the results of `inst` that differ between lanes by themselves, and what follows from physical registers it reads. If lanes may
    /// come to it `in_parts`, each part loads what memory holds when it comes; those that look at a barrier `in_company` are one part.
    fn find_sources(&mut self, inst: Inst, in_parts: bool, in_company: bool) {
        let function = self.function;
        let looks = || waits_for_phase(function, inst) && !in_company;
        let changes = in_parts && (loads_what_may_change(function, inst) || looks());
        function.for_each_def(inst, |reg| {
            if let Some(value) = reg.value() {
                let per_warp = function.value_type(value).class().is_uniform();
                let index = || result_index(function, value);
                if !per_warp && (changes || spread(function, inst, index()) == Spread::Lanes) {
                    self.mark(value);
                }
            }
        });
        // Abstract code names no physical registers.
        let mut reads_lanes = false;
        if function.level != Level::Abstract {
            function.for_each_use(inst, |reg| {
                reads_lanes |= reg.phys().is_some_and(|reg| !reg.class().is_uniform());
            });
        }
        if reads_lanes {
            // Like an implicit use, it is taken to be part of every result.
            let place = Place::Implicit(0);
            self.read_divergent(Use { inst, place }, false);
        }
    }

    fn settle(&mut self) {
        loop {
            if let Some(value) = self.pending_values.pop() {
                let per_warp = self.function.value_type(value).class().is_uniform();
                let chains = self.chains;
                for &read in chains.uses(value) {
                    self.read_divergent(read, per_warp);
                }
            } else if let Some(block) = self.pending_branches.pop() {
                for consequence in self.split.diverge(block) {
                    match consequence {
                        Consequence::Join(block) => self.join(block),
                        Consequence::DivergentLoop(each) => {
                            self.leave_in_different_iterations(each)
                        }
                        Consequence::Scattered(each) => self.scatter(each),
                    }
                }
            } else {
                break;
            }
        }
    }

    /// What is read at `read` differs between lanes; `per_warp` if it is in a register of a uniform class.
    fn read_divergent(&mut self, read: Use, per_warp: bool) {
        let function = self.function;
        let block = read.block(function);
        if !self.walk.is_reachable(block) {
            return;
        }
        if let Place::Argument { edge, index } = read.place {
            let edge = function.edges(read.inst)[usize::from(edge)];
            let param = function.block_params(function.edge_target(edge))[usize::from(index)];
            self.mark(param);
            return;
        }
        function.for_each_def(read.inst, |reg| {
            let Some(value) = reg.value() else {
                return;
            };
            let known = self.divergent[value.index()];
            if known || function.value_type(value).class().is_uniform() && !per_warp {
                return;
            }
            let index = result_index(function, value);
            let follows = match (spread(function, read.inst, index), read.place) {
                (Spread::Lanes, _) => true,
                (Spread::Sources(sources), Place::Operand(place)) => {
                    let source =
                        usize::from(place).saturating_sub(function.result_count(read.inst));
                    source >= 32 || sources >> source & 1 != 0
                }
                // Guards, kept values and implicit uses take part in every result.
                (Spread::Sources(_), _) => true,
            };
            if follows {
                self.mark(value);
            }
        });
        let ends_block = function.layout.last_inst(block) == Some(read.inst);
        if ends_block && self.graph.succs(block).len() > 1 {
            self.split_at(block);
        }
    }

    fn split_at(&mut self, block: Block) {
        if self.is_lone(block) {
            return;
        }
        if !std::mem::replace(&mut self.branches[block.index()], true) {
            self.pending_branches.push(block);
        }
    }

    /// Lanes that are together at `block` may have come along different edges.
    fn join(&mut self, block: Block) {
        let function = self.function;
        for (index, &param) in function.block_params(block).iter().enumerate() {
            // A parameter that is passed on to itself brings nothing new.
            let mut brought = self
                .incoming
                .row(block.as_u32())
                .iter()
                .map(|&edge| function.edge_args(edge)[index])
                .filter(|&arg| arg != param);
            let first = brought.next();
            if brought.any(|arg| Some(arg) != first) {
                self.mark(param);
            }
        }
    }

    fn leave_in_different_iterations(&mut self, each: Loop) {
        let mut found = std::mem::take(&mut self.leaving.found);
        self.leaving.take(self.nest, each, &mut found);
        for (value, read) in found.drain(..) {
            self.temporal[value.index()] = true;
            let per_warp = self.function.value_type(value).class().is_uniform();
            self.read_divergent(read, per_warp);
        }
        self.leaving.found = found;
    }

    /// Everything made in the irreducible loop `each` differs between lanes.
    fn scatter(&mut self, each: Loop) {
        let (function, nest) = (self.function, self.nest);
        for &block in nest.blocks(each) {
            for &param in function.block_params(block) {
                self.mark(param);
            }
            for inst in function.block_insts(block) {
                for value in function.value_defs(inst) {
                    self.mark(value);
                }
            }
            if self.graph.succs(block).len() > 1 {
                self.branches[block.index()] = true;
            }
        }
    }

    /// What is known by now.
    fn found(&self) -> Divergence {
        let loops: Vec<bool> = self
            .nest
            .loops()
            .map(|each| self.split.is_divergent_loop(each))
            .collect();
        let mut innermost_divergent = Vec::with_capacity(loops.len());
        for each in self.nest.loops() {
            innermost_divergent.push(match self.nest.parent(each) {
                _ if loops[each.index()] => each.as_u32(),
                Some(parent) => innermost_divergent[parent.index()],
                None => NONE,
            });
        }
        let blocks = || self.graph.blocks();
        Divergence {
            joins: blocks().map(|block| self.split.is_join(block)).collect(),
            partial: blocks().map(|block| self.split.is_partial(block)).collect(),
            whole: Vec::new(),
            in_parts: self.in_parts.clone(),
            lone: self.lone.clone(),
            points: blocks()
                .map(|block| match self.graph.succs(block).len() {
                    0 | 1 => None.into(),
                    _ => self.split.reconvergence_point(block).into(),
                })
                .collect(),
            loops,
            innermost_divergent,
            divergent: self.divergent.clone(),
            temporal: self.temporal.clone(),
            branches: self.branches.clone(),
            home: self.home.clone(),
        }
    }
}

/// Whether `inst` looks whether a phase of an mbarrier is over.
fn waits_for_phase(function: &Function, inst: Inst) -> bool {
    function.opcode(inst).as_abstract() == Some(AbstractOp::MbarrierWait)
}

/// The place of `value` among the operands of the instruction that defines it.
fn result_index(function: &Function, value: Value) -> usize {
    match function.value_def(value) {
        ValueDef::Inst(_, index) => usize::from(index),
        ValueDef::Param(..) | ValueDef::None => 0,
    }
}

/// The uses of values outside the loop of their definition, from which those that leave a given loop can be taken.
///
/// They are ordered by the loop of the definition, so the ones defined in a loop and the loops in it are neighbours. Over them stands a
/// binary tree with the least and the greatest loop number among the uses' blocks: a use leaves the loop if its number is outside
/// the loop's range. Taking `k` of `n` costs O(k · log n).
struct LeavingUses {
    /// (loop of the definition, value, use)
    uses: Vec<(u32, Value, Use)>,
    /// Position of the first leaf.
    leaves: usize,
    /// By tree position: least and greatest loop number, plus one so that zero is "in no loop".
    range: Vec<(u32, u32)>,
    found: Vec<(Value, Use)>,
}

/// The range of no use at all.
const TAKEN: (u32, u32) = (u32::MAX, 0);

impl LeavingUses {
    fn new(function: &Function, nest: &LoopNest, chains: &DefUse, home: &[u32]) -> Self {
        // Loop numbers where values are read. An argument is read where it arrives.
        let mut found: Vec<(u32, (u32, Value, Use))> = Vec::new();
        for (number, &home) in home.iter().enumerate() {
            if home == NONE {
                continue;
            }
            let value = Value::new(number);
            for &read in chains.uses(value) {
                let block = match read.place {
                    Place::Argument { edge, .. } => {
                        function.edge_target(function.edges(read.inst)[usize::from(edge)])
                    }
                    _ => read.block(function),
                };
                if !nest.contains(Loop::from_u32(home), block) {
                    let around = nest
                        .innermost(block)
                        .map_or(0, |around| around.as_u32() + 1);
                    found.push((around, (home, value, read)));
                }
            }
        }
        found.sort_by_key(|&(_, (home, ..))| home);
        let leaves = found.len().next_power_of_two();
        let mut range = vec![TAKEN; 2 * leaves];
        for (place, &(around, _)) in found.iter().enumerate() {
            range[leaves + place] = (around, around);
        }
        for at in (1..leaves).rev() {
            range[at] = hull(range[2 * at], range[2 * at + 1]);
        }
        LeavingUses {
            uses: found.into_iter().map(|(_, item)| item).collect(),
            leaves,
            range,
            found: Vec::new(),
        }
    }

    /// Moves the uses outside `each` of values defined in it to `found`.
    fn take(&mut self, nest: &LoopNest, each: Loop, found: &mut Vec<(Value, Use)>) {
        let first = each.as_u32();
        let end = first + nest.subtree(each).len() as u32;
        let from = self.uses.partition_point(|&(home, ..)| home < first);
        let to = self.uses.partition_point(|&(home, ..)| home < end);
        // (tree position, first leaf, number of leaves), from left to right.
        let mut pending = vec![(1, 0, self.leaves)];
        while let Some((at, start, len)) = pending.pop() {
            let (least, greatest) = self.range[at];
            // One is added to the numbers in the tree.
            let none_leaves = least > first && greatest <= end;
            if start >= to || start + len <= from || none_leaves || self.range[at] == TAKEN {
                continue;
            }
            if len > 1 {
                pending.push((2 * at + 1, start + len / 2, len / 2));
                pending.push((2 * at, start, len / 2));
                continue;
            }
            let (_, value, read) = self.uses[start];
            found.push((value, read));
            self.range[at] = TAKEN;
            let mut above = at / 2;
            while above >= 1 {
                self.range[above] = hull(self.range[2 * above], self.range[2 * above + 1]);
                above /= 2;
            }
        }
    }
}

fn hull(a: (u32, u32), b: (u32, u32)) -> (u32, u32) {
    (a.0.min(b.0), a.1.max(b.1))
}
