//! Uniform registers where lanes go different ways: the rule is [`uniform_misuses`]'s.

use super::{Invariant, Report};
use crate::analysis::{
    DefUse, DepthFirst, Divergence, FlowGraph, LoopNest, Place, uniform_misuses,
};
use crate::entity::Value;
use crate::function::{Function, Level, ValueDef};
use crate::register::Class;

pub(super) fn check(report: &mut Report<'_>, graph: &FlowGraph, walk: &DepthFirst) {
    let func = report.func;
    if func.level != Level::Machine || !uniform_values(func).any(|_| true) {
        return;
    }
    let chains = DefUse::new(func);
    // What stays in its block cannot be wrong, and then divergence need not be looked for.
    if !uniform_values(func).any(|value| leaves_block(func, &chains, value)) {
        return;
    }
    let nest = LoopNest::new(graph, walk);
    let divergence = Divergence::new(func, graph, walk, &nest, &chains);
    for misuse in uniform_misuses(func, walk, &nest, &chains, &divergence) {
        let inst = misuse.read.map(|read| read.inst);
        let block = inst.and_then(|inst| func.layout.inst_block(inst));
        report.at(block.or(Some(misuse.block)), inst);
        report.add(Invariant::Uniform, misuse.to_string());
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
