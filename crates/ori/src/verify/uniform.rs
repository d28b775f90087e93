//! Uniform registers where lanes go different ways.
//!
//! A uniform register holds one value for the warp. Where only part of the warp runs, lanes that come later overwrite what
//! earlier ones left there, whatever the values: so a uniform register written in such a place must be dead before the next
//! branch. Written where the warp is whole, it may live on, but only to places where lanes that are together agree on it.

use super::{Invariant, Report};
use crate::analysis::{DefUse, DepthFirst, Divergence, FlowGraph, LoopNest, Place};
use crate::entity::Value;
use crate::function::{Function, Level, ValueDef};
use crate::register::Class;

pub(super) fn check(report: &mut Report<'_>, graph: &FlowGraph, walk: &DepthFirst) {
    let func = report.func;
    if func.level != Level::Machine {
        return;
    }
    let uniform: Vec<Value> = uniform_values(func)
        .filter(|&value| {
            func.defining_block(value)
                .is_some_and(|block| walk.is_reachable(block))
        })
        .collect();
    if uniform.is_empty() {
        return;
    }
    let chains = DefUse::new(func);
    if !uniform
        .iter()
        .any(|&value| leaves_block(func, &chains, value))
    {
        return;
    }
    let nest = LoopNest::new(graph, walk);
    let divergence = Divergence::new(func, graph, walk, &nest, &chains);
    for value in uniform {
        let Some(home) = func.defining_block(value) else {
            continue;
        };
        let partial = divergence.is_partial(home);
        if partial && matches!(func.value_def(value), ValueDef::Param(..)) {
            report.at(Some(home), None);
            let message = format!("{value} is a uniform parameter where the warp may be parted");
            report.add(Invariant::Uniform, message);
            continue;
        }
        for each in chains.uses(value) {
            let Some(block) = func.layout.inst_block(each.inst) else {
                continue;
            };
            if !walk.is_reachable(block) {
                continue;
            }
            let crosses = block != home || matches!(each.place, Place::Argument { .. });
            let wrong = if partial && crosses {
                Some(format!(
                    "{value} is written in {home}, where the warp may be parted, and lives across a branch"
                ))
            } else if !divergence.is_uniform_at(value, block, &nest) {
                Some(format!("{value} may differ between lanes here"))
            } else {
                None
            };
            if let Some(message) = wrong {
                report.at(Some(block), Some(each.inst));
                report.add(Invariant::Uniform, message);
            }
        }
    }
    report.at(None, None);
}

fn uniform_values(func: &Function) -> impl Iterator<Item = Value> + '_ {
    (0..func.value_count() as u32)
        .map(Value::from_u32)
        .filter(|&value| matches!(func.value_type(value).class(), Class::UR | Class::UP))
}

/// Whether a value is a parameter, an argument, or read in another block.
fn leaves_block(func: &Function, chains: &DefUse, value: Value) -> bool {
    let home = func.defining_block(value);
    matches!(func.value_def(value), ValueDef::Param(..))
        || chains.uses(value).iter().any(|each| {
            matches!(each.place, Place::Argument { .. })
                || func.layout.inst_block(each.inst) != home
        })
}
