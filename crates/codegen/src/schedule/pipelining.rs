//! Software pipelining: loads of the next iteration under way while this one computes.
//!
//! ```text
//! loop:                       before: a = load p
//!   a = load p                loop(p, a):
//!   x = x + f(a)                q = p + 4
//!   q = p + 4                   c = q < end
//!   branch loop if q < end      x = x + f(a)
//!                               b = load q   if c
//!                               branch loop(q, b) if c
//! ```
//!
//! Two stages. The first holds loads and what leads to their addresses, the second everything else. A block before the loop, the
//! *prologue*, runs the first stage of the first iteration; an iteration of the new loop runs its own second stage and the first stage of the
//! iteration behind it. There is no code for the *epilogue*: on the last iteration the branch's own predicate turns the loads off, so
//! that nothing is read which the loop would not have read, and arithmetic that leads to them has no effect but results nobody looks
//! at. What is loaded crosses the way back as a parameter of the block.
//!
//! **Which loops.** One block that ends in a guarded branch to itself, entered by one edge, with at most [`LARGEST`] instructions. It need
//! not be a counted one: the branch's predicate says whether there is another iteration, whatever it was computed from.
//!
//! **Which loads.** From global memory, unguarded, results in general registers, addresses made in the block by arithmetic alone, and not
//! held back by anything in the block that touches memory or keeps lanes in step: no store that may write the same bytes
//! and no barrier stands before them. Then all accesses keep their order, since the first stage of an iteration comes before everything else
//! of it that could matter and stays behind everything of the iteration before.
//!
//! **Whether it pays.** The *initiation interval* is what an iteration takes at least: the issue slots and the busiest pipe (resources), or the
//! longest circle of dependences through a value that the loop carries (recurrence). A loop is taken if its longest chain is longer than that,
//! because a load lies on it, and if the registers for what is under way keep the number of warps.
//!
//! **What it cannot do.** A load is at most one iteration ahead: the register that a value is loaded into is the one it is read from an iteration
//! later, so the load waits for this iteration's readers. Further ahead the loop would have to be unrolled.

use super::budget::Occupancy;
use super::build::{Builder, Exits, Fences};
use super::cross_block;
use super::estimate::estimate;
use super::graph::{Graph, Kinds, Timeline};
use super::live::{BlockValues, Numbering};
use super::strategies::Carried;
use cranelift_entity::SecondaryMap;
use orias_ori::analysis::{FlowGraph, Liveness};
use orias_ori::{
    AbstractMods, AbstractOp, Block, Class, Edge, Function, Guard, Inst, Operand, Operation, Reg,
    RegKind, Value,
};
use orias_sass::{Mods, Op, Space};
use rustc_hash::{FxHashMap, FxHashSet};

/// Loops with more instructions are left alone.
pub const LARGEST: usize = 256;

/// A loop that can be taken.
#[derive(Clone, Debug)]
struct Candidate {
    block: Block,
    /// The way into the loop.
    entering: Edge,
    /// The way back.
    back: Edge,
    /// When there is another iteration.
    again: Guard,
    /// The first stage, in order.
    stage: Vec<Inst>,
    /// Those of it that load.
    loads: FxHashSet<Inst>,
}

/// What was found out about a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Cycles an iteration takes at least because something is busy.
    pub resources: u32,
    /// Cycles an iteration takes at least because it needs something of the iteration before.
    pub recurrence: u32,
    /// Its longest chain of dependences.
    pub chain: u32,
}

impl Interval {
    /// The initiation interval.
    pub fn cycles(&self) -> u32 {
        self.resources.max(self.recurrence)
    }

    /// The interval of a block with these dependences on the iteration before.
    pub fn new(graph: &Graph, carried: &[Carried]) -> Interval {
        let alone = estimate(graph, 0..graph.len() as u32, 1);
        let circle = |carried: &Carried| {
            let path = longest_path(graph, carried.to as usize, carried.from as usize)?;
            Some(path + u32::from(carried.latency))
        };
        Interval {
            resources: alone.busy.max(alone.usage.most()),
            recurrence: carried.iter().filter_map(circle).max().unwrap_or(0),
            chain: Timeline::new(graph).length,
        }
    }
}

/// Cycles of the longest chain from one node to another; none if there is no chain.
fn longest_path(graph: &Graph, from: usize, to: usize) -> Option<u32> {
    let mut longest: Vec<Option<u32>> = vec![None; graph.len()];
    longest[from] = Some(0);
    for node in from..=to {
        let Some(so_far) = longest[node] else {
            continue;
        };
        for edge in graph.succs(node) {
            let slot = &mut longest[edge.to as usize];
            *slot = (*slot).max(Some(so_far + u32::from(edge.latency)));
        }
    }
    longest[to]
}

/// Pipelines the loops for which it pays, and says how many those were.
pub fn pipeline_loops(func: &mut Function, occupancy: Occupancy) -> usize {
    let candidates = find(func, occupancy);
    for candidate in &candidates {
        transform(func, candidate);
    }
    candidates.len()
}

fn find(func: &Function, occupancy: Occupancy) -> Vec<Candidate> {
    let flow = FlowGraph::of(func);
    let live = Liveness::new(func, &flow);
    let mut builder = Builder::new(func, Exits::Values(&live), Fences::none());
    let mut numbers = Numbering::default();
    let mut found = Vec::new();
    let ways = ways_in(func);
    for block in func.blocks() {
        let Some((entering, back, again)) = shape(func, block, &ways) else {
            continue;
        };
        if func.block_insts(block).count() > LARGEST {
            continue;
        }
        let graph = builder.build(block);
        let interval = Interval::new(&graph, &super::instructions::carried(func, &graph));
        if interval.chain <= interval.cycles() {
            continue;
        }
        let (stage, loads) = first_stage(func, &graph);
        if loads.is_empty() {
            continue;
        }
        let values = BlockValues::new(func, &graph, &live, &mut numbers);
        let order: Vec<u32> = (0..graph.len() as u32).collect();
        let registers = values.peak(order.iter().copied())[Class::R as usize].max(0) as u32;
        let results = loads.iter().flat_map(|&load| func.value_defs(load));
        let under_way: u32 = results
            .map(|value| u32::from(func.value_type(value).len()))
            .sum();
        if !occupancy.affords(func, registers, registers + under_way) {
            continue;
        }
        found.push(Candidate {
            block,
            entering,
            back,
            again,
            stage,
            loads,
        });
    }
    found
}

/// The edges into each block, and the blocks that somebody names without an edge.
#[derive(Debug, Default)]
struct Predecessors {
    into: SecondaryMap<Block, Vec<(Block, Edge)>>,
    named: FxHashSet<Block>,
}

fn ways_in(func: &Function) -> Predecessors {
    let mut ways = Predecessors::default();
    for block in func.blocks() {
        for &edge in func.successor_edges(block) {
            ways.into[func.edge_target(edge)].push((block, edge));
        }
        for inst in func.block_insts(block) {
            for operand in func.operands(inst) {
                if let Operand::Block(named) = operand {
                    ways.named.insert(*named);
                }
            }
        }
    }
    ways
}

/// The way in, the way back and the predicate under which that is taken, if `block` is a loop by itself.
fn shape(func: &Function, block: Block, ways: &Predecessors) -> Option<(Edge, Edge, Guard)> {
    let end = func.terminator(block)?;
    // What all lanes do together is not told by the guard of one.
    let plain = func.inst(end).operation() == Operation::Machine(Op::BRA, Mods::ZERO);
    if !plain || ways.named.contains(&block) {
        return None;
    }
    let before = func.layout.prev_inst(end);
    if before.is_some_and(|inst| crate::tail::goes_on_elsewhere(func, inst)) {
        return None;
    }
    let guard = func.inst(end).guard();
    let is_value = matches!(guard.reg()?.kind(), RegKind::Value(value)
        if func.value_type(value).class() == Class::P);
    // Any other predicate that the branch asks for.
    let asks_more = func
        .value_uses(end)
        .filter(|&value| func.value_type(value).class() == Class::P)
        .any(|value| Some(Reg::from(value)) != guard.reg());
    let &[taken, behind] = func.successor_edges(block) else {
        return None;
    };
    if !is_value || asks_more {
        return None;
    }
    let (back, again) = match (func.edge_target(taken), func.edge_target(behind)) {
        (to, other) if to == block && other != block => (taken, guard),
        _ => return None,
    };
    let mut entering = ways.into[block].iter().filter(|(from, _)| *from != block);
    let (&(_, edge), None) = (entering.next()?, entering.next()) else {
        return None;
    };
    Some((edge, back, again))
}

/// The loads that can go ahead, with all that leads to their addresses.
fn first_stage(func: &Function, graph: &Graph) -> (Vec<Inst>, FxHashSet<Inst>) {
    let mut made: FxHashMap<Value, usize> = FxHashMap::default();
    for (node, own) in graph.nodes.iter().enumerate() {
        made.extend(func.value_defs(own.inst).map(|value| (value, node)));
    }
    let mut stage: FxHashSet<usize> = FxHashSet::default();
    let mut loads = FxHashSet::default();
    for node in graph.body() {
        if !is_load(func, graph, node) {
            continue;
        }
        let mut slice = vec![node];
        let mut next = 0;
        let mut fits = true;
        while let Some(&at) = slice.get(next) {
            next += 1;
            fits &= at == node || is_arithmetic(func, graph.nodes[at].inst);
            fits &= !graph.nodes[at].with_previous;
            let held = Kinds::MEMORY.with(Kinds::BARRIER);
            fits &= graph
                .preds(at)
                .iter()
                .all(|edge| !edge.kinds.intersects(held));
            if !fits {
                break;
            }
            for value in func.value_uses(graph.nodes[at].inst) {
                if let Some(&maker) = made.get(&value)
                    && !slice.contains(&maker)
                {
                    slice.push(maker);
                }
            }
        }
        if fits {
            stage.extend(slice);
            loads.insert(graph.nodes[node].inst);
        }
    }
    let mut stage: Vec<usize> = stage.into_iter().collect();
    stage.sort_unstable();
    let insts = stage.iter().map(|&node| graph.nodes[node].inst).collect();
    (insts, loads)
}

fn is_load(func: &Function, graph: &Graph, node: usize) -> bool {
    let own = &graph.nodes[node];
    let Some(op) = own.op else {
        return false;
    };
    let row = op.row();
    let global = row.memory.len() == 1 && row.memory[0].space == Space::Global;
    let mut results = func.value_defs(own.inst).peekable();
    own.loads
        && !own.stores
        && global
        && !own.is_fence()
        && func.inst(own.inst).guard().is_always()
        && func.kept(own.inst).is_empty()
        && results.peek().is_some()
        && results.all(|value| func.value_type(value).class() == Class::R)
}

/// Whether it computes something from values and does nothing else.
fn is_arithmetic(func: &Function, inst: Inst) -> bool {
    let pseudo = matches!(
        func.opcode(inst).as_abstract(),
        Some(AbstractOp::Split | AbstractOp::Collect)
    );
    // Uniform registers must not be written where lanes may have gone apart, and nobody knows that of the prologue.
    let mut classes = func
        .value_defs(inst)
        .map(|value| func.value_type(value).class());
    classes.all(|class| matches!(class, Class::R | Class::P))
        && (pseudo || cross_block::has_no_effect(func, inst))
}

fn transform(func: &mut Function, candidate: &Candidate) {
    let block = candidate.block;
    let loaded: Vec<Value> = candidate
        .stage
        .iter()
        .filter(|inst| candidate.loads.contains(inst))
        .flat_map(|&load| func.value_defs(load))
        .collect();
    let params = func.block_params(block).to_vec();
    // The prologue: the first stage of the first iteration.
    let (before, leaving) = func.split_edge(candidate.entering);
    let first: FxHashMap<Value, Value> = params
        .iter()
        .copied()
        .zip(func.edge_args(leaving).to_vec())
        .collect();
    let next = func.create_abstract(AbstractOp::FallThrough, AbstractMods::NONE, 0, &[]);
    func.set_edges(next, &[leaving]);
    func.layout.append_inst(next, before);
    let names = copy_stage(func, candidate, first, next, Guard::ALWAYS);
    for value in &loaded {
        func.push_edge_arg(leaving, names[value]);
    }
    // The loop: what was loaded an iteration ago comes in, and the first stage of the next iteration stands at the end.
    let arrived: FxHashMap<Value, Value> = loaded
        .iter()
        .map(|&value| {
            (
                value,
                func.append_block_param(block, func.value_type(value)),
            )
        })
        .collect();
    func.map_all_uses(
        |reg| match reg.value().and_then(|value| arrived.get(&value)) {
            Some(&param) => Reg::from(param),
            None => reg,
        },
    );
    let later: FxHashMap<Value, Value> = params
        .iter()
        .copied()
        .zip(func.edge_args(candidate.back).to_vec())
        .collect();
    let end = func.terminator(block).expect("a loop ends in a branch");
    let names = copy_stage(func, candidate, later, end, candidate.again);
    for value in &loaded {
        func.push_edge_arg(candidate.back, names[value]);
    }
    remove_unused(func, candidate);
}

/// Copies the first stage before `place`, with values read as `names` says and loads under `guard`; says what each copy is called.
fn copy_stage(
    func: &mut Function,
    candidate: &Candidate,
    mut names: FxHashMap<Value, Value>,
    place: Inst,
    guard: Guard,
) -> FxHashMap<Value, Value> {
    for &inst in &candidate.stage {
        let copy = func.copy_inst(inst);
        func.map_uses(copy, |reg| {
            match reg.value().and_then(|value| names.get(&value)) {
                Some(&name) => Reg::from(name),
                None => reg,
            }
        });
        let results: Vec<Value> = func.value_defs(inst).collect();
        for &value in &results {
            let name = func.create_value(func.value_type(value));
            names.insert(value, name);
        }
        func.map_defs(copy, |reg| {
            match reg.value().and_then(|value| names.get(&value)) {
                Some(&name) => Reg::from(name),
                None => reg,
            }
        });
        if candidate.loads.contains(&inst) && !guard.is_always() {
            let mut kept = Vec::new();
            for &value in &results {
                let anything = func.create_value(func.value_type(value));
                let undef = func.create_abstract(
                    AbstractOp::Undef,
                    AbstractMods::NONE,
                    1,
                    &[Operand::from(anything)],
                );
                func.layout.insert_inst_before(undef, place);
                kept.push(Operand::from(anything));
            }
            func.set_guard(copy, guard);
            func.set_kept(copy, &kept);
        }
        func.layout.insert_inst_before(copy, place);
    }
    names
}

/// Removes the loads, and what led to their addresses and to nothing else.
fn remove_unused(func: &mut Function, candidate: &Candidate) {
    let mut uses: FxHashMap<Value, u32> = FxHashMap::default();
    for inst in &candidate.stage {
        uses.extend(func.value_defs(*inst).map(|value| (value, 0)));
    }
    for block in func.blocks() {
        for inst in func.block_insts(block) {
            for value in func.value_uses(inst) {
                if let Some(count) = uses.get_mut(&value) {
                    *count += 1;
                }
            }
        }
    }
    for &inst in candidate.stage.iter().rev() {
        if func.value_defs(inst).any(|value| uses[&value] > 0) {
            continue;
        }
        for value in func.value_uses(inst) {
            if let Some(count) = uses.get_mut(&value) {
                *count -= 1;
            }
        }
        func.remove_inst(inst);
    }
}
