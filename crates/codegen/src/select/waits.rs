//! Spin-loop detection: where lanes may wait for what other lanes of their warp do.
//!
//! In a loop that lanes leave at different times, or that only some of the lanes come to, lanes may go around until another one has written
//! something: a lock, a ticket, a flag. The other lane may be elsewhere, so those that go around have to let it run: such blocks begin with YIELD,
//! as ptxas's do. Whether a loop waits is seen from what decides whether it is left: a load that another thread may change (volatile,
//! relaxed, acquiring), or what an atomic operation found. Loops that retry an update of memory until nobody interferes wait for nobody
//! ([`super::retries`]).
//!
//! On the chip, YIELD also lets lanes go on that wait for their region's others at BSYNC. Behind it a warp may be in parts until it
//! is brought together again, whatever regions say ([`super::gathering`]).
//!
//! **Algorithm.** For each such loop that has such an operation and does not retry:
//!
//! 1. The branches that decide whether it is left: those that no block of the loop and not the next iteration post-dominates, on the graph of
//!    one iteration.
//! 2. Backwards from their conditions to everything in the loop that they are made from. Where a block parameter has several
//!    arguments, the branches between the block and its immediate dominator choose among them.
//!
//! Cost: linear in the size of each loop, that is in blocks times the depth of loops, and for each join on the way once more in what lies between it and its dominator.

use super::retries;
use cranelift_entity::{EntitySet, SecondaryMap};
use orias_ori::analysis::{
    DepthFirst, Divergence, DominatorTree, FlowGraph, Loop, LoopNest, sees_other_threads,
};
use orias_ori::{Block, Function, Inst, Value, ValueDef};

/// By block: whether it begins with YIELD, because lanes may wait in it. `apart` says of each block whether other lanes of the warp may be elsewhere.
pub(super) fn find(
    func: &Function,
    graph: &FlowGraph,
    nest: &LoopNest,
    dominators: &DominatorTree,
    divergence: &Divergence,
    apart: &[bool],
) -> SecondaryMap<Block, bool> {
    let mut yielding = SecondaryMap::new();
    let mut seen: Vec<(Block, Inst)> = Vec::new();
    for block in func.blocks() {
        if nest.innermost(block).is_some() {
            let insts = func.block_insts(block);
            seen.extend(
                insts
                    .filter(|&inst| sees_other_threads(func, inst))
                    .map(|inst| (block, inst)),
            );
        }
    }
    if seen.is_empty() {
        return yielding;
    }
    let retrying = retries::find(func, graph, nest, dominators);
    for each in nest.loops() {
        let header = nest.header(each);
        let others = apart[header.as_u32() as usize] && !divergence.is_whole(header);
        let elsewhere = divergence.is_divergent_loop(each) || others;
        if !elsewhere || retrying.contains(each) {
            continue;
        }
        let inside = |&&(block, _): &&(Block, Inst)| nest.contains(each, block);
        if !seen.iter().any(|it| inside(&it)) {
            continue;
        }
        let mut slice = Slice {
            func,
            graph,
            nest,
            dominators,
            each,
            deciding: EntitySet::new(),
            pending: Vec::new(),
            chosen: EntitySet::new(),
        };
        slice.trace_exits();
        for &(block, inst) in seen.iter().filter(inside) {
            let mut values = func.value_defs(inst);
            yielding[block] |= values.any(|value| slice.deciding.contains(value));
        }
    }
    yielding
}

/// Everything in a loop that decides whether it is left.
struct Slice<'a> {
    func: &'a Function,
    graph: &'a FlowGraph,
    nest: &'a LoopNest,
    dominators: &'a DominatorTree,
    each: Loop,
    deciding: EntitySet<Value>,
    pending: Vec<Value>,
    /// Joins whose branches have been added.
    chosen: EntitySet<Block>,
}

impl Slice<'_> {
    fn trace_exits(&mut self) {
        for block in self.exit_branches() {
            self.decide(block);
        }
        while let Some(value) = self.pending.pop() {
            let inside = match self.func.value_def(value) {
                ValueDef::Inst(inst, _) => self.func.layout.inst_block(inst),
                ValueDef::Param(block, _) => Some(block),
                ValueDef::None => None,
            }
            .is_some_and(|block| self.nest.contains(self.each, block));
            if !inside || !self.deciding.insert(value) {
                continue;
            }
            match self.func.value_def(value) {
                ValueDef::Inst(inst, _) => self.pending.extend(self.func.value_uses(inst)),
                ValueDef::Param(block, index) => self.trace_parameter(block, index.into()),
                ValueDef::None => {}
            }
        }
    }

    /// The blocks of the loop from which some ways lead out of it and others do not.
    fn exit_branches(&self) -> Vec<Block> {
        let blocks = self.nest.blocks(self.each);
        let mut place: SecondaryMap<Block, Option<u32>> = SecondaryMap::new();
        for (number, &block) in blocks.iter().enumerate() {
            place[block] = Some(number as u32);
        }
        // The graph of one iteration, backwards: from the end of everything, by way of the next iteration or not.
        let (end, next) = (blocks.len() as u32, blocks.len() as u32 + 1);
        let mut edges: Vec<(Block, Block)> = vec![(Block::from_u32(end), Block::from_u32(next))];
        for (number, &block) in blocks.iter().enumerate() {
            let succs = self.graph.succs(block);
            let to = succs.iter().map(|&to| match place[to] {
                _ if to == self.nest.header(self.each) => next,
                Some(inside) => inside,
                None => end,
            });
            let ends = succs.is_empty().then_some(end);
            let from = Block::from_u32(number as u32);
            edges.extend(to.chain(ends).map(|to| (Block::from_u32(to), from)));
        }
        let iteration = FlowGraph::from_edges(blocks.len() + 2, Block::from_u32(end), &edges);
        let post_dominators = DominatorTree::new(&iteration, &DepthFirst::new(&iteration));
        let leaves = |number: usize| {
            let behind = post_dominators.immediate_dominator(Block::from_u32(number as u32));
            behind.is_none_or(|behind| behind.as_u32() == end)
        };
        let numbered = blocks.iter().enumerate();
        let branches = numbered.filter(|&(number, _)| leaves(number));
        branches.map(|(_, &block)| block).collect()
    }

    /// The branch at the end of `block` is one that counts.
    fn decide(&mut self, block: Block) {
        if let Some(last) = self.func.terminator(block)
            && self.graph.succs(block).len() > 1
        {
            let conditions = self.func.operands(last).iter();
            self.pending
                .extend(conditions.filter_map(|operand| operand.as_value()));
        }
    }

    fn trace_parameter(&mut self, block: Block, index: usize) {
        let func = self.func;
        // Whether it is the first iteration of a loop is nobody's choice.
        let headed = self.nest.headed_by(block);
        let mut from: Vec<Block> = Vec::new();
        let mut args: Vec<Value> = Vec::new();
        for &pred in self.graph.preds(block) {
            let entering = headed.is_some_and(|each| !self.nest.contains(each, pred));
            for &edge in func.successor_edges(pred) {
                if func.edge_target(edge) != block {
                    continue;
                }
                let arg = func.edge_args(edge).get(index).copied();
                self.pending.extend(arg);
                if !entering {
                    args.extend(arg);
                    from.push(pred);
                }
            }
        }
        if args.iter().all(|&arg| arg == args[0]) || !self.chosen.insert(block) {
            return;
        }
        let top = match headed {
            Some(_) => Some(block),
            None => self.dominators.immediate_dominator(block),
        };
        let mut visited: EntitySet<Block> = EntitySet::new();
        while let Some(at) = from.pop() {
            if !visited.insert(at) {
                continue;
            }
            self.decide(at);
            if Some(at) != top {
                from.extend_from_slice(self.graph.preds(at));
            }
        }
    }
}
