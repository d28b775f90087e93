//! MergeInductions (10034): simplification of induction variables. Addresses that a loop advances need fewer additions, and fewer accesses to spilled registers.
//!
//! A loop over a matrix advances one 64-bit address for each row it reads. Two rewrites of induction variables that go up by the same in every iteration:
//!
//! **Addends.** Where all that reads the variable `p` is its own step and sums `p + c` with one `c` that does not change in the loop, `p` starts at `p + c`
//! instead and the sums go: one 64-bit addition less in every iteration, and `c` is not needed in the loop.
//!
//! ```text
//! loop(p):                      before: q = p + c
//!   ld [p + c]                  loop(q):
//!   branch loop(p + 128)          ld [q]
//!                                 branch loop(q + 128)
//! ```
//!
//! **Steps.** Where a loop needs more registers than there are, [`GROUP`] and more variables of one step that are read by one instruction each become
//! numbers that do not change, and one variable `t` from zero on is added to each where it is read. There are as many additions as before;
//! but what is spilled is only loaded in the loop and never stored. Where what they start from is one product of 32-bit numbers each and a sum that is the same for all (rows of a matrix: `p + 2 * x`), `t` starts from that sum
//! and `x` is what is kept: one register instead of two, and one multiply-add instead of a sum and its carry.
//!
//! Innermost loops with one edge back are looked at. Uses are found once, and each parameter of a header is looked at with what reads it: linear.

use super::general_optimize::optimize_general;
use super::wide_sums::{Product, Sum, sums};
use crate::emit::{Emit, Mods, imm};
use crate::loops::{LoopAnalyses, preheader};
use crate::pipeline::{Context, PhaseError};
use crate::schedule::budget::hard_limit;
use cranelift_entity::EntitySet;
use orias_ori::analysis::{DefUse, Liveness, Loop, Place, Pressure, Use};
use orias_ori::operation::{Half, Sat, Scalar};
use orias_ori::{
    AbstractOp, Block, Class, Edge, Function, Guard, Inst, Operand, Reg, SourceMods, Type, Value,
    ValueDef,
};
use rustc_hash::FxHashMap;

/// How many variables share a step at least: the shared one needs a register pair of its own.
const GROUP: usize = 4;

/// Runs the phase.
pub fn merge_inductions(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    if func.entry().is_none() {
        return Ok(());
    }
    let loops = LoopAnalyses::of(func);
    if loops.nest.is_empty() {
        return Ok(());
    }
    let addends = add_before_loops(func, &loops)?;
    if addends {
        optimize_general(func, context)?;
    }
    // What was simplified may have changed the graph.
    let loops = LoopAnalyses::of(func);
    let limit = hard_limit(func, context.machine.registers, 0);
    if share_steps(func, &loops, limit)? {
        optimize_general(func, context)?;
    }
    Ok(())
}

/// A 64-bit parameter of a loop's header that every iteration advances by the same.
struct Induction {
    /// Which parameter of the header.
    index: usize,
    param: Value,
    step: Operand,
    /// What else reads it.
    uses: Vec<Use>,
}

/// Where a loop goes round.
struct Edges {
    header: Block,
    back: Edge,
}

/// The innermost loops that can be changed, with their inductions.
fn inductions(func: &Function, loops: &LoopAnalyses) -> Vec<(Loop, Edges, Vec<Induction>)> {
    let uses = DefUse::new(func);
    let nest = &loops.nest;
    let mut outer: EntitySet<Loop> = EntitySet::new();
    outer.extend(nest.loops().filter_map(|inner| nest.parent(inner)));
    let mut found = Vec::new();
    for each in nest.loops() {
        let back = loops.back_edges(each);
        let &[back] = &back[..] else { continue };
        if outer.contains(each) || nest.is_irreducible(each) {
            continue;
        }
        let header = nest.header(each);
        if func.entry() == Some(header) {
            continue;
        }
        let params = func.block_params(header).iter().enumerate();
        let all: Vec<Induction> = params
            .filter_map(|(index, &param)| induction(func, loops, &uses, each, back, index, param))
            .collect();
        if !all.is_empty() {
            found.push((each, Edges { header, back }, all));
        }
    }
    found
}

fn induction(
    func: &Function,
    loops: &LoopAnalyses,
    uses: &DefUse,
    each: Loop,
    back: Edge,
    index: usize,
    param: Value,
) -> Option<Induction> {
    if func.value_type(param) != Type::R2 {
        return None;
    }
    let next = func.edge_args(back)[index];
    let advance = func.defining_inst(next)?;
    let step = other_addend(func, advance, param)?;
    let only_goes_back =
        matches!(uses.uses(next), [only] if matches!(only.place, Place::Argument { .. }));
    if !is_steady(func, loops, each, step) || !only_goes_back {
        return None;
    }
    let rest = uses.uses(param).iter().copied();
    Some(Induction {
        index,
        param,
        step,
        uses: rest.filter(|it| it.inst != advance).collect(),
    })
}

/// What `inst`, a 64-bit sum that wraps, adds to `value`.
fn other_addend(func: &Function, inst: Inst, value: Value) -> Option<Operand> {
    let plain = func.opcode(inst).as_abstract() == Some(AbstractOp::Add)
        && func.inst(inst).guard().is_always()
        && func.modifier::<Sat>(inst).is_none_or(|it| it == Sat::Wrap)
        && func.modifier::<Scalar>(inst)?.bits() == 64;
    let &[_, a, b] = func.operands(inst) else {
        return None;
    };
    let bare = |operand: Operand| operand.mods() == SourceMods::NONE;
    if !plain || !bare(a) || !bare(b) {
        return None;
    }
    match (a.as_value() == Some(value), b.as_value() == Some(value)) {
        (true, false) => Some(b),
        (false, true) => Some(a),
        _ => None,
    }
}

/// Whether `operand` does not change in the loop.
fn is_steady(func: &Function, loops: &LoopAnalyses, each: Loop, operand: Operand) -> bool {
    match operand.as_value() {
        Some(value) => {
            let block = match func.value_def(value) {
                ValueDef::Param(block, _) => Some(block),
                ValueDef::Inst(inst, _) => func.layout.inst_block(inst),
                ValueDef::None => None,
            };
            block.is_some_and(|block| !loops.nest.contains(each, block))
        }
        None => matches!(operand, Operand::Imm(_)),
    }
}

fn broken(error: orias_ori::builder::BuildError) -> PhaseError {
    PhaseError::Broken {
        at: error.inst.clone(),
        what: error.to_string(),
    }
}

/// Where a loop is entered: the block before it and the edge from there.
fn entrance(
    func: &mut Function,
    loops: &LoopAnalyses,
    each: Loop,
    header: Block,
) -> Option<(Block, Edge)> {
    let before = preheader(func, loops, each)?;
    let edge = func
        .successor_edges(before)
        .iter()
        .copied()
        .find(|&edge| func.edge_target(edge) == header)?;
    Some((before, edge))
}

/// Brings addends in front of loops. Returns whether there were any.
fn add_before_loops(func: &mut Function, loops: &LoopAnalyses) -> Result<bool, PhaseError> {
    let mut changed = false;
    for (each, place, all) in inductions(func, loops) {
        let mergeable: Vec<(Induction, Value)> = all
            .into_iter()
            .filter_map(|it| {
                let addend = common_addend(func, loops, each, &it)?;
                Some((it, addend))
            })
            .collect();
        if mergeable.is_empty() {
            continue;
        }
        let Some((before, edge)) = entrance(func, loops, each, place.header) else {
            continue;
        };
        for (it, addend) in mergeable {
            let start = func.edge_args(edge)[it.index];
            let Some(end) = func.terminator(before) else {
                continue;
            };
            let mut emit = Emit::before(func, end);
            let sum = emit.value(
                AbstractOp::Add,
                (Scalar::S64,),
                &[start.into(), addend.into()],
            );
            emit.finish().map_err(broken)?;
            set_argument(func, edge, it.index, sum);
            for each in it.uses {
                let result = func.operands(each.inst)[0];
                let mut emit = Emit::before(func, each.inst);
                let copied = [it.param.into()];
                emit.put(
                    AbstractOp::Mov,
                    (Scalar::B64,),
                    &[result],
                    &copied,
                    Guard::ALWAYS,
                    &[],
                );
                emit.finish().map_err(broken)?;
                func.remove_inst(each.inst);
            }
            changed = true;
        }
    }
    Ok(changed)
}

fn set_argument(func: &mut Function, edge: Edge, index: usize, value: Value) {
    let mut args = func.edge_args(edge).to_vec();
    args[index] = value;
    let target = func.edge_target(edge);
    func.set_edge(edge, target, &args);
}

/// What all that reads the variable adds to it, if that does not change in the loop. A number is no addend: it is part of an address for nothing.
fn common_addend(
    func: &Function,
    loops: &LoopAnalyses,
    each: Loop,
    it: &Induction,
) -> Option<Value> {
    let mut common = None;
    for each in &it.uses {
        let addend = other_addend(func, each.inst, it.param)?.as_value()?;
        if common.is_some_and(|common| common != addend) {
            return None;
        }
        common = Some(addend);
    }
    common.filter(|&addend| is_steady(func, loops, each, addend.into()))
}

/// Lets variables share their steps in loops that need more than `limit` registers. Returns whether any do.
fn share_steps(func: &mut Function, loops: &LoopAnalyses, limit: u32) -> Result<bool, PhaseError> {
    let found = inductions(func, loops);
    if found.iter().all(|(_, _, all)| all.len() < GROUP) {
        return Ok(false);
    }
    let live = Liveness::new(func, &loops.graph);
    let pressure = Pressure::new(func, &live);
    let mut changed = false;
    for (each, place, all) in found {
        let blocks = loops.nest.own_blocks(each).iter();
        let most = blocks
            .map(|&block| pressure.in_block(block)[Class::R])
            .max();
        if most.is_none_or(|most| most <= limit) {
            continue;
        }
        let mut groups: Vec<(Operand, Vec<Induction>)> = Vec::new();
        for it in all.into_iter().filter(|it| is_read_once(func, it)) {
            match groups.iter_mut().find(|(step, _)| *step == it.step) {
                Some((_, members)) => members.push(it),
                None => groups.push((it.step, vec![it])),
            }
        }
        groups.retain(|(_, members)| members.len() >= GROUP);
        if groups.is_empty() {
            continue;
        }
        let Some((before, edge)) = entrance(func, loops, each, place.header) else {
            continue;
        };
        for (step, members) in groups {
            let (products, rest, members) = take_products(func, edge, members);
            if !products.is_empty() {
                share_products(func, &place, (before, edge), step, products, &rest)?;
            }
            if members.len() >= GROUP {
                share(func, &place, (before, edge), step, members)?;
            }
            changed = true;
        }
    }
    Ok(changed)
}

/// Whether one instruction reads the variable beside its step, as the base of an address.
fn is_read_once(func: &Function, it: &Induction) -> bool {
    let &[only] = &it.uses[..] else {
        return false;
    };
    let Place::Operand(index) = only.place else {
        return false;
    };
    let Operand::Address(id) = func.operands(only.inst)[usize::from(index)] else {
        return false;
    };
    func.address(id).base.get() == Some(Reg::from(it.param))
}

/// Those that start from a product and a sum that is the same for all of them, with the product; that sum; and the others.
fn take_products(
    func: &Function,
    edge: Edge,
    members: Vec<Induction>,
) -> (Vec<(Induction, Product)>, Vec<Value>, Vec<Induction>) {
    let starts = members
        .iter()
        .map(|it| sums(func, func.edge_args(edge)[it.index]));
    let starts: Vec<Vec<Sum>> = starts.collect();
    let mut counts: FxHashMap<&[Value], usize> = FxHashMap::default();
    for sum in starts.iter().flatten() {
        *counts.entry(&sum.rest).or_default() += 1;
    }
    // Of equals the one that a map does not decide about.
    let best = counts
        .into_iter()
        .max_by_key(|&(rest, count)| (count, rest));
    let Some((rest, _)) = best.filter(|&(_, count)| count >= GROUP) else {
        return (Vec::new(), Vec::new(), members);
    };
    let rest = rest.to_vec();
    let (mut products, mut others) = (Vec::new(), Vec::new());
    for (it, sums) in members.into_iter().zip(&starts) {
        match sums.iter().find(|sum| sum.rest == rest) {
            Some(sum) => products.push((it, sum.product)),
            None => others.push(it),
        }
    }
    (products, rest, others)
}

/// Makes `members` steady and adds their products, where each is read, to one variable of their step that starts from the sum of `rest`.
fn share_products(
    func: &mut Function,
    place: &Edges,
    (before, edge): (Block, Edge),
    step: Operand,
    members: Vec<(Induction, Product)>,
    rest: &[Value],
) -> Result<(), PhaseError> {
    let Some(end) = func.terminator(before) else {
        return Ok(());
    };
    let Some((&first, others)) = rest.split_first() else {
        return Ok(());
    };
    let mut emit = Emit::before(func, end);
    let start = others.iter().fold(first, |sum, &term| {
        emit.value(AbstractOp::Add, (Scalar::S64,), &[sum.into(), term.into()])
    });
    emit.finish().map_err(broken)?;
    let Some(shared) = advance_together(func, place, edge, start, step, members[0].0.index)? else {
        return Ok(());
    };
    for (it, product) in members {
        let operands = [product.factor.into(), product.by, shared.into()];
        let mods = (Half::Wide, product.scalar);
        read_instead(func, place, &it, AbstractOp::Mad, mods, &operands)?;
    }
    Ok(())
}

/// A new parameter of the header that starts from `start` and goes up by `step` where the one with number `index` does.
fn advance_together(
    func: &mut Function,
    place: &Edges,
    edge: Edge,
    start: Value,
    step: Operand,
    index: usize,
) -> Result<Option<Value>, PhaseError> {
    let advance = func.edge_args(place.back)[index];
    let Some(advance) = func.defining_inst(advance) else {
        return Ok(None);
    };
    let shared = func.append_block_param(place.header, Type::R2);
    func.push_edge_arg(edge, start);
    let mut emit = Emit::before(func, advance);
    let next = emit.value(AbstractOp::Add, (Scalar::S64,), &[shared.into(), step]);
    emit.finish().map_err(broken)?;
    func.push_edge_arg(place.back, next);
    Ok(Some(shared))
}

/// Makes a variable steady and computes what is read of it where it is read.
fn read_instead<M: Mods>(
    func: &mut Function,
    place: &Edges,
    it: &Induction,
    op: AbstractOp,
    mods: M,
    operands: &[Operand],
) -> Result<(), PhaseError> {
    // A parameter that is its own successor is what it was at the start.
    set_argument(func, place.back, it.index, it.param);
    let Use {
        inst,
        place: Place::Operand(index),
    } = it.uses[0]
    else {
        return Ok(());
    };
    let mut emit = Emit::before(func, inst);
    let sum = emit.value(op, mods, operands);
    emit.finish().map_err(broken)?;
    if let Operand::Address(id) = func.operands(inst)[usize::from(index)] {
        func.address_mut(id).base = Reg::from(sum).into();
    }
    Ok(())
}

/// Makes `members` steady and adds one variable of their step where each is read.
fn share(
    func: &mut Function,
    place: &Edges,
    (before, edge): (Block, Edge),
    step: Operand,
    members: Vec<Induction>,
) -> Result<(), PhaseError> {
    let Some(end) = func.terminator(before) else {
        return Ok(());
    };
    let mut emit = Emit::before(func, end);
    let zero = emit.as_value(Scalar::B64, imm(0));
    emit.finish().map_err(broken)?;
    let Some(shared) = advance_together(func, place, edge, zero, step, members[0].index)? else {
        return Ok(());
    };
    for it in members {
        let operands = [it.param.into(), shared.into()];
        read_instead(func, place, &it, AbstractOp::Add, (Scalar::S64,), &operands)?;
    }
    Ok(())
}
