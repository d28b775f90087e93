//! Block parameters that live in memory, and predicates that are passed in general registers.
//!
//! A spilled parameter is not passed at all: each edge stores its argument into the parameter's place in the frame, and each
//! use of the parameter loads it from there. On an edge that leaves a block with several ways out, the stores get a block of
//! their own, because the place may hold what another way still needs. Arguments that are themselves spilled parameters of
//! the same block, for parameters in memory or in registers, are loaded before anything is stored: their places are about to be overwritten.

use super::super::assign::Stop;
use super::super::edges::before_end;
use super::{SpillLocation, load, load_predicate, slot, store_before};
use crate::pipeline::PhaseError;
use orias_ori::analysis::{DefUse, FlowGraph};
use orias_ori::{
    AbstractMods, AbstractOp, Block, Edge, Function, Inst, Opcode, Reg, Type, Value, ValueDef,
};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Passes predicates in general registers where they are too many: to blocks with more than `most` parameters of class P, and from branches
/// that read more than `most` predicates. Whether there were any.
pub(super) fn widen_predicates(
    func: &mut Function,
    graph: &FlowGraph,
    most: u8,
) -> Result<bool, Stop> {
    let is_predicate = |func: &Function, value: Value| func.value_type(value) == Type::P;
    let mut targets: BTreeSet<Block> = BTreeSet::new();
    for block in func.blocks() {
        let params = func.block_params(block).iter();
        if params.filter(|&&it| is_predicate(func, it)).count() > usize::from(most) {
            targets.insert(block);
        }
        let Some(terminator) = func.terminator(block) else {
            continue;
        };
        let mut reads: Vec<Value> = (func.value_uses(terminator))
            .filter(|&it| is_predicate(func, it))
            .collect();
        reads.sort_unstable();
        reads.dedup();
        if reads.len() > usize::from(most) {
            let edges = func.successor_edges(block);
            targets.extend(edges.iter().map(|&edge| func.edge_target(edge)));
        }
    }
    let mut widened = false;
    for block in targets {
        let entering = entering_edges(func, graph, block);
        let mut index = 0;
        while let Some(&param) = func.block_params(block).get(index) {
            if !is_predicate(func, param) {
                index += 1;
                continue;
            }
            widened = true;
            let general = func.append_block_param(block, Type::R);
            for &(pred, edge) in &entering {
                let Some(terminator) = func.terminator(pred) else {
                    return Err(unterminated(pred));
                };
                let arg = func.edge_args(edge)[index];
                let passed = func.create_value(Type::R);
                let before = before_end(func, terminator);
                if is_undefined(func, arg) {
                    let inst = func.create_abstract(
                        AbstractOp::Undef,
                        AbstractMods::NONE,
                        1,
                        &[passed.into()],
                    );
                    func.layout.insert_inst_before(inst, before);
                } else {
                    store_before(func, before, arg, SpillLocation::General(passed), Type::P)?;
                }
                func.push_edge_arg(edge, passed);
            }
            let edges: Vec<Edge> = entering.iter().map(|&(_, edge)| edge).collect();
            func.remove_block_param(block, index, &edges);
            let Some(first) = func.layout.first_inst(block) else {
                return Err(unterminated(block));
            };
            load_predicate(func, first, general, param)?;
        }
    }
    Ok(widened)
}

pub(super) fn unterminated(block: Block) -> Stop {
    Stop::Error(PhaseError::Broken {
        at: block.to_string(),
        what: "a block that ends without a terminator".to_owned(),
    })
}

/// The edges that lead to `block`, and where they come from.
pub(super) fn entering_edges(
    func: &Function,
    graph: &FlowGraph,
    block: Block,
) -> Vec<(Block, Edge)> {
    let mut preds = graph.preds(block).to_vec();
    preds.dedup();
    let mut edges: Vec<(Block, Edge)> = Vec::new();
    for pred in preds {
        let to_block = |edge: &&Edge| func.edge_target(**edge) == block;
        let leaving = func.successor_edges(pred).iter().filter(to_block);
        edges.extend(leaving.map(|&edge| (pred, edge)));
    }
    edges
}

/// Moves the parameters `chosen` into the frame.
pub(super) fn spill(
    func: &mut Function,
    graph: &FlowGraph,
    chains: &DefUse,
    chosen: &[Value],
) -> Result<(), Stop> {
    let mut places: FxHashMap<Value, u32> = FxHashMap::default();
    let mut by_block: BTreeMap<Block, Vec<usize>> = BTreeMap::new();
    for &param in chosen {
        if let ValueDef::Param(block, index) = func.value_def(param) {
            let ty = func.value_type(param);
            places.insert(param, slot(func, ty));
            by_block.entry(block).or_default().push(usize::from(index));
        }
    }
    let mut made: Vec<Inst> = Vec::new();
    for (&block, indices) in &by_block {
        let edges = entering_edges(func, graph, block);
        for &(pred, edge) in &edges {
            made.extend(pass(func, &places, pred, edge, indices)?);
        }
        // Edges that got a block of their own reach the target through another edge now.
        let mut entering: Vec<Edge> = Vec::new();
        for (_, edge) in edges {
            match func.edge_target(edge) {
                target if target == block => entering.push(edge),
                middle => entering.extend(func.successor_edges(middle)),
            }
        }
        let mut descending = indices.clone();
        descending.sort_unstable_by(|a, b| b.cmp(a));
        for index in descending {
            func.remove_block_param(block, index, &entering);
        }
    }
    for &param in chosen {
        let Some(&place) = places.get(&param) else {
            continue;
        };
        let ty = func.value_type(param);
        let mut insts: Vec<Inst> = chains.uses(param).iter().map(|read| read.inst).collect();
        insts.dedup();
        insts.extend(&made);
        for inst in insts {
            if !func.value_uses(inst).any(|value| value == param) {
                continue;
            }
            let fresh = load(func, inst, SpillLocation::Frame(place), ty)?;
            func.map_uses(inst, |reg| {
                if reg == Reg::from(param) {
                    Reg::from(fresh)
                } else {
                    reg
                }
            });
        }
    }
    Ok(())
}

/// Stores the arguments of `edge` for the parameters `indices` of its target. Returns the end of the block made for it, if
/// one was.
fn pass(
    func: &mut Function,
    places: &FxHashMap<Value, u32>,
    pred: Block,
    edge: Edge,
    indices: &[usize],
) -> Result<Option<Inst>, Stop> {
    let target = func.edge_target(edge);
    let params = func.block_params(target).to_vec();
    let args = func.edge_args(edge).to_vec();
    let pairs: Vec<(Value, Value)> = indices
        .iter()
        .map(|&index| (params[index], args[index]))
        .filter(|(param, arg)| param != arg && !is_undefined(func, *arg))
        .collect();
    if pairs.is_empty() {
        return Ok(None);
    }
    let Some(before) = room_on(func, pred, edge) else {
        return Err(unterminated(pred));
    };
    let middle = func.edge_target(edge);
    // Parameters of the same block first: this edge overwrites their places.
    let last = if middle == target { pred } else { middle };
    load_kept(func, places, before, last, &params, indices)?;
    let mut sources: Vec<Value> = pairs.iter().map(|&(_, arg)| arg).collect();
    for source in &mut sources {
        if params.contains(source) {
            *source = loaded(func, places, before, *source)?;
        }
    }
    for (&(param, _), source) in pairs.iter().zip(sources) {
        if let Some(&place) = places.get(&param) {
            let source = loaded(func, places, before, source)?;
            let ty = func.value_type(param);
            store_before(func, before, source, SpillLocation::Frame(place), ty)?;
        }
    }
    Ok((middle != target).then_some(before))
}

/// Loads, before anything is stored, what the end of `block` reads, and passes to those of `params` that stay in registers, where that is itself one of them
/// and being spilled.
fn load_kept(
    func: &mut Function,
    places: &FxHashMap<Value, u32>,
    before: Inst,
    block: Block,
    params: &[Value],
    indices: &[usize],
) -> Result<(), Stop> {
    let Some(end) = func.terminator(block) else {
        return Err(unterminated(block));
    };
    let &[edge] = func.edges(end) else {
        return Ok(());
    };
    let mut kept: Vec<Value> = Vec::new();
    func.for_each_own_use(end, |reg| kept.extend(reg.value()));
    let args = func.edge_args(edge).iter().enumerate();
    kept.extend(
        args.filter(|(index, _)| !indices.contains(index))
            .map(|(_, &arg)| arg),
    );
    kept.retain(|value| params.contains(value) && places.contains_key(value));
    kept.sort_unstable();
    kept.dedup();
    for value in kept {
        let fresh = loaded(func, places, before, value)?;
        func.map_uses(end, |reg| {
            if reg == Reg::from(value) {
                Reg::from(fresh)
            } else {
                reg
            }
        });
    }
    Ok(())
}

/// `value`, or what its place holds if it is being spilled.
fn loaded(
    func: &mut Function,
    places: &FxHashMap<Value, u32>,
    before: Inst,
    value: Value,
) -> Result<Value, Stop> {
    match places.get(&value) {
        Some(&place) => {
            let ty = func.value_type(value);
            load(func, before, SpillLocation::Frame(place), ty)
        }
        None => Ok(value),
    }
}

fn is_undefined(func: &Function, value: Value) -> bool {
    func.defining_inst(value)
        .is_some_and(|inst| func.opcode(inst) == Opcode::Abstract(AbstractOp::Undef))
}

/// The instruction before which code for `edge` alone goes; a block is made for it if need be.
pub(super) fn room_on(func: &mut Function, pred: Block, edge: Edge) -> Option<Inst> {
    let terminator = func.terminator(pred)?;
    if func.edges(terminator).len() == 1 {
        return Some(before_end(func, terminator));
    }
    let target = func.edge_target(edge);
    let args = func.edge_args(edge).to_vec();
    let falls = func.edges(terminator).last() == Some(&edge);
    let middle = func.create_block();
    if falls {
        func.layout.insert_block_after(middle, pred);
    } else {
        func.layout.append_block(middle);
    }
    let next = func.create_abstract(AbstractOp::FallThrough, AbstractMods::NONE, 0, &[]);
    let onward = func.create_edge(target, &args);
    func.set_edges(next, &[onward]);
    func.layout.append_inst(next, middle);
    func.set_edge(edge, middle, &[]);
    Some(next)
}
