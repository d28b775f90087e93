//! One definition for each value, and it dominates every use.

use super::{Invariant, Report};
use crate::analysis::{DepthFirst, DominatorTree, FlowGraph};
use crate::entity::{Block, Inst, Value};
use crate::function::{Function, ValueDef};
use cranelift_entity::SecondaryMap;

/// A place of the layout: a block, and a position in it. Parameters are at position 0.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Place {
    /// How many definitions the value has.
    count: u8,
    position: u32,
    block: Option<Block>,
}

pub(super) fn check(report: &mut Report<'_>, graph: &FlowGraph, walk: &DepthFirst) {
    let func = report.func;
    if !func.level.is_ssa() {
        return;
    }
    let defs = definitions(report);
    let tree = DominatorTree::new(graph, walk);
    for block in func.blocks() {
        // Code that cannot be reached has no dominators; nothing in it runs.
        if !walk.is_reachable(block) {
            continue;
        }
        for (position, inst) in (1..).zip(func.block_insts(block)) {
            report.at(Some(block), Some(inst));
            for value in func.value_uses(inst) {
                let Place {
                    position: at,
                    block: from,
                    count,
                } = defs[value];
                let Some(from) = from else {
                    let message = format!("{value} is not defined in the function");
                    report.add(Invariant::SingleDef, message);
                    continue;
                };
                let dominates = if from == block {
                    at < position
                } else {
                    tree.strictly_dominates(from, block)
                };
                if count == 1 && !dominates {
                    let message = if from == block {
                        format!("{value} is defined later")
                    } else {
                        format!("{value} is defined in {from}, which is not on every way here")
                    };
                    report.add(Invariant::Dominance, message);
                }
            }
        }
    }
    report.at(None, None);
}

/// Where each value is defined, by walking the layout; values defined twice or under a wrong address are reported.
fn definitions(report: &mut Report<'_>) -> SecondaryMap<Value, Place> {
    let func = report.func;
    let mut defs: SecondaryMap<Value, Place> = SecondaryMap::with_capacity(func.value_count());
    for block in func.blocks() {
        report.at(Some(block), None);
        for (index, &value) in func.block_params(block).iter().enumerate() {
            define(report, &mut defs, value, block, 0);
            if func.value_def(value) != ValueDef::Param(block, index as u16) {
                misplaced(report, &defs, value);
            }
        }
        for (position, inst) in (1..).zip(func.block_insts(block)) {
            report.at(Some(block), Some(inst));
            for value in func.value_defs(inst) {
                define(report, &mut defs, value, block, position);
                if !is_defined_by(func, value, inst) {
                    misplaced(report, &defs, value);
                }
            }
        }
    }
    defs
}

fn is_defined_by(func: &Function, value: Value, inst: Inst) -> bool {
    func.defining_inst(value) == Some(inst)
}

fn define(
    report: &mut Report<'_>,
    defs: &mut SecondaryMap<Value, Place>,
    value: Value,
    block: Block,
    position: u32,
) {
    let place = &mut defs[value];
    if place.count > 0 {
        let message = format!("{value} has another definition");
        report.add(Invariant::SingleDef, message);
    }
    *place = Place {
        count: place.count.saturating_add(1),
        position,
        block: Some(block),
    };
}

/// The value's own record points elsewhere. That is an error of its own only if it has no second definition.
fn misplaced(report: &mut Report<'_>, defs: &SecondaryMap<Value, Place>, value: Value) {
    let recorded = match report.func.value_def(value) {
        ValueDef::Param(block, _) => report.func.layout.contains_block(block),
        ValueDef::Inst(inst, _) => report.func.layout.inst_block(inst).is_some(),
        ValueDef::None => false,
    };
    if !recorded && defs[value].count == 1 {
        let message = format!("{value} is recorded as defined elsewhere");
        report.add(Invariant::SingleDef, message);
    }
}
