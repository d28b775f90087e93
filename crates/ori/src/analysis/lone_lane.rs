//! Lone lanes: blocks to which at most one lane of a warp comes.
//!
//! A producer of a pipeline is one lane, which a branch on `tid.x == 0` or on `elect` lets through. It cannot part from itself: it needs no region around
//! its waits and no turns at its copies.
//!
//! **Criterion.** One lane comes to a block, and to all that it dominates, if the only way to it, besides such as come from there, is a branch that goes there if
//!
//! | condition | one lane because |
//! | --- | --- |
//! | `elect` of all lanes | it chooses one of them |
//! | the lane's number is equal to a number | lanes have different ones |
//! | `tid.x` is equal to a number | so do they there, where the thread block has one row or rows of a warp at least |
//! | the low bits of these | five of them tell the lanes of a warp apart, if rows are whole warps |
//! | one of these and something else | |
//!
//! How the block is laid out in rows `.reqntid` alone says: `.maxntid 256, 1, 1` limits the number of threads, and blocks of 16 by 16 may be launched with it.
//!
//! Sums with a number tell lanes apart as well as what is added to.
//!
//! Cost: linear, and the dominator tree where there is such a branch.

use super::dominance::DominatorTree;
use super::flow::FlowGraph;
use super::meeting::names_all_lanes;
use super::order::DepthFirst;
use crate::operation::{Combine, Compare, Scalar, Special};
use crate::{AbstractOp, Function, FunctionKind, Inst, Level, Operand, SourceMods};
use cranelift_entity::EntityRef;

/// How many copies, sums, masks and conjunctions are looked through.
const STEPS: usize = 4;

/// The lanes of a warp, as a mask of their numbers.
const LANES: u64 = 31;

/// By block: whether at most one lane of a warp comes to it; empty if that is told of no block.
pub(super) fn lone_blocks(function: &Function, graph: &FlowGraph, walk: &DepthFirst) -> Vec<bool> {
    if function.level != Level::Abstract {
        return Vec::new();
    }
    let rows = Rows::of(function);
    let mut let_through = Vec::new();
    for &block in walk.preorder() {
        let Some(last) = function.terminator(block) else {
            continue;
        };
        if function.opcode(last).as_abstract() != Some(AbstractOp::CondBr) {
            continue;
        }
        let condition = function.operands(last)[0];
        let ways = [0, 1].map(|way| function.edge_target(function.edges(last)[way]));
        for (way, truth) in ways.into_iter().zip([true, false]) {
            if ways[0] != ways[1] && names_one_lane(function, rows, condition, truth, STEPS) {
                let_through.push((block, way));
            }
        }
    }
    if let_through.is_empty() {
        return Vec::new();
    }
    let tree = DominatorTree::new(graph, walk);
    let mut lone = vec![false; graph.block_count()];
    for (block, way) in let_through {
        // Who comes back to it has been there.
        let mut from = graph.preds(way).iter();
        lone[way.index()] |= from.all(|&from| from == block || tree.dominates(way, from));
    }
    for block in tree.preorder() {
        let above = tree.immediate_dominator(block);
        lone[block.index()] |= above.is_some_and(|above| lone[above.index()]);
    }
    lone
}

/// What is known of how the threads of a block are counted.
#[derive(Clone, Copy)]
struct Rows {
    /// The lanes of a warp have different `tid.x`.
    differ: bool,
    /// The low bits of `tid.x` are the lane's number.
    are_whole_warps: bool,
}

impl Rows {
    fn of(function: &Function) -> Self {
        let attributes = &function.attributes;
        let [x, y, z] = attributes.max_threads;
        let known = function.kind != FunctionKind::Device && attributes.required_threads;
        let one = (y, z) == (1, 1);
        Rows {
            differ: known && (one || u64::from(x) > LANES),
            are_whole_warps: known && (one || x > 0 && u64::from(x) & LANES == 0),
        }
    }
}

/// The definition of `operand`, if it is a plain value that is always defined by it.
fn plain_definition(function: &Function, operand: Operand) -> Option<Inst> {
    let plain = operand.mods() == SourceMods::NONE;
    let inst = operand
        .as_value()
        .and_then(|value| function.defining_inst(value))?;
    (plain && function.inst(inst).guard().is_always()).then_some(inst)
}

/// Whether `condition` is `truth` in one lane of a warp at most.
fn names_one_lane(
    function: &Function,
    rows: Rows,
    condition: Operand,
    truth: bool,
    steps: usize,
) -> bool {
    let truth = truth != condition.mods().contains(SourceMods::NOT);
    let Some(value) = condition.as_value() else {
        return false;
    };
    let Some(inst) = function.defining_inst(value) else {
        return false;
    };
    if steps == 0 || !function.inst(inst).guard().is_always() {
        return false;
    }
    let sources = &function.operands(inst)[function.result_count(inst)..];
    match function.opcode(inst).as_abstract() {
        Some(AbstractOp::Elect) => {
            let chosen = function.operands(inst)[1].as_value() == Some(value);
            truth && chosen && names_all_lanes(function, sources[0])
        }
        Some(AbstractOp::And) if truth => sources
            .iter()
            .any(|&part| names_one_lane(function, rows, part, truth, steps - 1)),
        Some(AbstractOp::Or) if !truth => sources
            .iter()
            .any(|&part| names_one_lane(function, rows, part, truth, steps - 1)),
        Some(AbstractOp::Setp) => {
            let equal = match function.modifier::<Compare>(inst) {
                Some(Compare::Eq) => truth,
                Some(Compare::Ne) => !truth,
                _ => false,
            };
            let words = matches!(
                function.modifier::<Scalar>(inst),
                Some(Scalar::B32 | Scalar::U32 | Scalar::S32)
            );
            let alone = function.modifier::<Combine>(inst) == Some(Combine::None);
            equal
                && words
                && alone
                && matches!(sources[1], Operand::Imm(_))
                && tells_lanes_apart(function, rows, sources[0], steps - 1)
        }
        _ => false,
    }
}

/// Whether the lanes of a warp have different words in `operand`.
fn tells_lanes_apart(function: &Function, rows: Rows, operand: Operand, steps: usize) -> bool {
    let Some(inst) = plain_definition(function, operand) else {
        return false;
    };
    let sources = &function.operands(inst)[function.result_count(inst)..];
    let word = || {
        matches!(
            function.modifier::<Scalar>(inst),
            Some(Scalar::B32 | Scalar::U32 | Scalar::S32)
        )
    };
    match function.opcode(inst).as_abstract() {
        Some(AbstractOp::Sreg) => match function.modifier::<Special>(inst) {
            Some(Special::LaneId) => true,
            Some(Special::TidX) => rows.differ,
            _ => false,
        },
        Some(AbstractOp::Mov) => {
            steps > 0 && word() && tells_lanes_apart(function, rows, sources[0], steps - 1)
        }
        Some(AbstractOp::Add) => {
            steps > 0
                && word()
                && matches!(sources[1], Operand::Imm(_))
                && tells_lanes_apart(function, rows, sources[0], steps - 1)
        }
        // Of sums, too, the low bits differ; only those of the numbers themselves are looked for.
        Some(AbstractOp::And) => match sources[1] {
            Operand::Imm(mask) => {
                word() && mask.bits() & LANES == LANES && counts_lanes(function, rows, sources[0])
            }
            _ => false,
        },
        _ => false,
    }
}

/// Whether the five low bits of `operand` are the number of the lane.
fn counts_lanes(function: &Function, rows: Rows, operand: Operand) -> bool {
    plain_definition(function, operand).is_some_and(|inst| {
        function.opcode(inst).as_abstract() == Some(AbstractOp::Sreg)
            && match function.modifier::<Special>(inst) {
                Some(Special::LaneId) => true,
                Some(Special::TidX) => rows.are_whole_warps,
                _ => false,
            }
    })
}
