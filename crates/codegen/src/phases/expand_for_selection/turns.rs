//! Waterfall loops: lanes take turns at bulk copies, and at accesses to several textures or surfaces.
//!
//! An instruction of the copy engine runs once for the warp, with operands in uniform registers; in PTX every thread that comes makes a copy of its own.
//! So lanes take turns. The first is that of the lowest running lane, whose words a move to a uniform register takes and which is elected: for it nothing has to be chosen, and mostly
//! nobody else is there. The others go around a loop together:
//!
//! ```text
//! head:                turn = elect_turn true
//!                      any = any_running !turn
//!                      cp_async_bulk …                  what the first lane says
//!                      cbr any, others, tail
//! others:              left = and !turn, !turn          rare
//!                      br around(left)
//! around(waiting):     turn = elect_turn waiting        rare
//!                      @turn cp_async_bulk …            what the lane whose turn it is says
//!                      left = and waiting, !turn
//!                      any = any_running left
//!                      cbr any, around(left), tail
//! ```
//!
//! Under a guard those lanes wait for which it holds: all turns are in the loop, and there is none if it holds for nobody.
//!
//! No loop is needed where one lane comes (behind a branch on `elect` or on one thread's number), nor where every lane says the same and the same copy once more changes nothing:
//! copies to global memory and prefetches, unlike reductions, and unlike copies that a barrier counts.
//!
//! The numbers of a texture, a sampler and a surface are in uniform registers, too. Where they may differ between lanes, those with the same
//! numbers as the lane whose turn it is go with it, and results go around with the lanes that have theirs:
//!
//! ```text
//! around(waiting, r):  turn = elect_turn waiting
//!                      number = turn_word turn, texture
//!                      same = setp.eq texture, number
//!                      these = and waiting, same
//!                      @these r' = tex number, …        keeps r
//!                      left = and waiting, !these
//! ```
//!
//! Linear in what it makes, besides the analyses, which are made only for functions with such operations.

use super::loops::BlockWriter;
use super::refused;
use crate::emit::not;
use crate::pipeline::PhaseError;
use orias_ori::analysis::{DefUse, DepthFirst, Divergence, FlowGraph, LoopNest};
use orias_ori::operation::{Compare, Route, Scalar};
use orias_ori::{
    AbstractMods, AbstractOp, Block, Function, Guard, Inst, Operand, Reg, Type, Value,
};

/// How an operation with operands in uniform registers counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeated {
    /// The same once more is the same.
    Idle,
    /// Every lane's counts.
    Counts,
    /// All lanes at once, if these first sources are the same in all.
    Numbers(usize),
}

fn repeated(func: &Function, inst: Inst) -> Option<Repeated> {
    Some(match func.opcode(inst).as_abstract()? {
        AbstractOp::BulkCopy | AbstractOp::TensorCopy => match func.modifier::<Route>(inst) {
            Some(Route::SharedToGlobal) => Repeated::Idle,
            _ => Repeated::Counts,
        },
        AbstractOp::BulkReduce | AbstractOp::TensorReduce => Repeated::Counts,
        AbstractOp::BulkPrefetch
        | AbstractOp::TensorPrefetch
        | AbstractOp::PrefetchTensormap
        | AbstractOp::MapInvalidate => Repeated::Idle,
        // A texture and its sampler; one texture or surface.
        AbstractOp::Tex | AbstractOp::Tld4 => Repeated::Numbers(2),
        AbstractOp::Txq | AbstractOp::Suld | AbstractOp::Sust | AbstractOp::Sured => {
            Repeated::Numbers(1)
        }
        _ => return None,
    })
}

/// Lets lanes take turns at operations with operands in uniform registers.
pub(super) fn expand(func: &mut Function) -> Result<(), PhaseError> {
    for (inst, numbers) in taking_turns(func) {
        take_turns(func, inst, numbers)?;
    }
    Ok(())
}

/// The operations at which lanes must take turns, each with how many of its first sources lanes may share a turn by.
fn taking_turns(func: &Function) -> Vec<(Inst, usize)> {
    let insts: Vec<(Block, Inst, Repeated)> = func
        .blocks()
        .flat_map(|block| func.block_insts(block).map(move |inst| (block, inst)))
        .filter_map(|(block, inst)| Some((block, inst, repeated(func, inst)?)))
        .collect();
    if insts.is_empty() {
        return Vec::new();
    }
    let graph = FlowGraph::of(func);
    let walk = DepthFirst::new(&graph);
    let nest = LoopNest::new(&graph, &walk);
    let chains = DefUse::new(func);
    let divergence = Divergence::new(func, &graph, &walk, &nest, &chains);
    let needs = |&(block, inst, repeated): &(Block, Inst, Repeated)| {
        if !walk.is_reachable(block) {
            return false;
        }
        if let Repeated::Numbers(count) = repeated {
            return !numbers(func, inst, count)
                .into_iter()
                .all(|(_, value)| divergence.is_uniform_at(value, block, &nest));
        }
        if divergence.is_lone(block) {
            return !func.inst(inst).guard().is_always();
        }
        let same = func
            .value_uses(inst)
            .into_iter()
            .all(|value| divergence.is_uniform_at(value, block, &nest));
        let guarded = !func.inst(inst).guard().is_always();
        repeated == Repeated::Counts || !same || guarded
    };
    insts
        .iter()
        .filter(|each| needs(each))
        .map(|&(_, inst, repeated)| match repeated {
            Repeated::Numbers(count) => (inst, count),
            Repeated::Idle | Repeated::Counts => (inst, 0),
        })
        .collect()
}

/// The places and values of the first `count` sources.
fn numbers(func: &Function, inst: Inst, count: usize) -> Vec<(usize, Value)> {
    let first = func.result_count(inst);
    let sources = func.operands(inst).iter().enumerate();
    sources
        .skip(first)
        .take(count)
        .filter_map(|(place, operand)| Some((place, operand.as_value()?)))
        .collect()
}

fn take_turns(func: &mut Function, inst: Inst, shared: usize) -> Result<(), PhaseError> {
    let Some(head) = func.layout.inst_block(inst) else {
        return Ok(());
    };
    let guard = func.inst(inst).guard();
    let span = func.inst(inst).span();
    let tail = func.split_block(inst);
    func.layout.remove_inst(inst);
    let results: Vec<Value> = func
        .operands(inst)
        .iter()
        .take(func.result_count(inst))
        .filter_map(|operand| operand.as_value())
        .collect();
    let Carried { results, before } = carry_results(func, inst, tail, &results);
    let mut maker = BlockWriter {
        func,
        at: head,
        span,
    };
    let around = maker.block();
    let waiting = maker.func.append_block_param(around, Type::P);
    let kept: Vec<Value> = results
        .iter()
        .map(|&result| {
            let ty = maker.func.value_type(result);
            maker.func.append_block_param(around, ty)
        })
        .collect();
    // Who shares a turn is not known before, and results would have to be chosen among.
    let first_is_known = guard.is_always() && shared == 0 && kept.is_empty();
    match guard.reg() {
        None if first_is_known => {}
        None => {
            let all = maker
                .cursor()
                .build(AbstractOp::Mov)
                .with(Scalar::Pred)
                .imm(1)
                .value()
                .map_err(refused)?;
            let before = match before {
                Some(before) => before,
                None => undefined(&mut maker, &results),
            };
            maker.jump(around, &with(all, &before))?;
        }
        // Nobody may be there: then nothing runs.
        Some(reg) => {
            let condition = match guard.is_negated() {
                true => not(reg.into()),
                false => reg.into(),
            };
            let these = maker.binary(AbstractOp::And, Scalar::Pred, condition, condition)?;
            let some = maker
                .cursor()
                .build(AbstractOp::AnyRunning)
                .operand(these)
                .value()
                .map_err(refused)?;
            let before = match before {
                Some(before) => before,
                None => undefined(&mut maker, &results),
            };
            let first = with(these, &before);
            maker.branch(some, (around, &first), (tail, &before))?;
        }
    }
    if first_is_known {
        // The lowest running lane has had its turn.
        let turn = maker
            .cursor()
            .build(AbstractOp::ElectTurn)
            .imm(1)
            .value()
            .map_err(refused)?;
        let any = maker
            .cursor()
            .build(AbstractOp::AnyRunning)
            .operand(not(turn.into()))
            .value()
            .map_err(refused)?;
        let first = maker.func.copy_inst(inst);
        maker.func.layout.append_inst(first, head);
        let others = maker.block();
        maker.branch(any, (others, &[]), (tail, &[]))?;
        maker.at = others;
        let others_turn = not(turn.into());
        let left = maker.binary(AbstractOp::And, Scalar::Pred, others_turn, others_turn)?;
        maker.jump(around, &[left])?;
        maker.func.attributes.rare.extend([others, around]);
    }
    maker.at = around;
    let turn = maker
        .cursor()
        .build(AbstractOp::ElectTurn)
        .operand(waiting)
        .value()
        .map_err(refused)?;
    let mut these = turn;
    let numbers = numbers(maker.func, inst, shared);
    if !numbers.is_empty() {
        these = waiting;
        for (place, own) in numbers {
            let number = maker
                .cursor()
                .build(AbstractOp::TurnWord)
                .operand(turn)
                .operand(own)
                .value()
                .map_err(refused)?;
            let same = maker.compare(Compare::Eq, Scalar::B32, own.into(), number.into())?;
            these = maker.binary(AbstractOp::And, Scalar::Pred, these.into(), same.into())?;
            maker.func.set_operand(inst, place, number.into());
        }
    }
    maker.func.set_guard(inst, Guard::when(these));
    let operands: Vec<Operand> = kept.iter().map(|&kept| kept.into()).collect();
    maker.func.set_kept(inst, &operands);
    maker.func.layout.append_inst(inst, around);
    let left = maker.binary(
        AbstractOp::And,
        Scalar::Pred,
        waiting.into(),
        not(these.into()),
    )?;
    let any = maker
        .cursor()
        .build(AbstractOp::AnyRunning)
        .operand(left)
        .value()
        .map_err(refused)?;
    maker.branch(any, (around, &with(left, &results)), (tail, &results))
}

/// What goes around with the lanes.
struct Carried {
    /// The results that something reads.
    results: Vec<Value>,
    /// What they are where the guard does not hold, if there is one.
    before: Option<Vec<Value>>,
}

/// Lets what follows read the results of `inst` from parameters of its block. Those that nothing reads are results no more.
fn carry_results(func: &mut Function, inst: Inst, tail: Block, all: &[Value]) -> Carried {
    if all.is_empty() {
        return Carried {
            results: Vec::new(),
            before: None,
        };
    }
    let mut read = vec![false; all.len()];
    func.map_all_uses(|reg| {
        if let Some(place) = all.iter().position(|&result| reg.value() == Some(result)) {
            read[place] = true;
        }
        reg
    });
    let kept: Vec<Value> = func
        .kept(inst)
        .iter()
        .filter_map(|operand| operand.as_value())
        .collect();
    // Textures may leave out results, surfaces may not.
    let optional = matches!(
        func.opcode(inst).as_abstract(),
        Some(AbstractOp::Tex | AbstractOp::Tld4)
    );
    let wanted: Vec<usize> = (0..all.len())
        .filter(|&place| read[place] || !optional)
        .collect();
    let results: Vec<Value> = wanted.iter().map(|&place| all[place]).collect();
    let before =
        (kept.len() == all.len()).then(|| wanted.iter().map(|&place| kept[place]).collect());
    for place in 0..func.result_count(inst) {
        let value = func.operands(inst)[place].as_value();
        if value.is_some_and(|value| !results.contains(&value)) {
            func.set_operand(inst, place, Operand::None);
        }
    }
    let params: Vec<Value> = results
        .iter()
        .map(|&result| {
            let ty = func.value_type(result);
            func.append_block_param(tail, ty)
        })
        .collect();
    func.map_all_uses(|reg| {
        let place = results
            .iter()
            .position(|&result| reg.value() == Some(result));
        place.map_or(reg, |place| Reg::from(params[place]))
    });
    Carried { results, before }
}

/// Values of the types of others that nobody relies on.
fn undefined(maker: &mut BlockWriter<'_>, like: &[Value]) -> Vec<Value> {
    like.iter()
        .map(|&like| {
            let ty = maker.func.value_type(like);
            let value = maker.func.create_value(ty);
            let mods = AbstractMods::NONE;
            let inst = maker
                .func
                .create_abstract(AbstractOp::Undef, mods, 1, &[value.into()]);
            maker.func.layout.append_inst(inst, maker.at);
            value
        })
        .collect()
}

/// One value and others.
fn with(first: Value, others: &[Value]) -> Vec<Value> {
    let mut all = vec![first];
    all.extend(others);
    all
}
