//! Branch folding: branches that go one way only become jumps.

use super::Keep;
use orias_ori::{
    AbstractMods, AbstractOp, Block, Edge, Function, Inst, Opcode, Operand, SourceMods,
};

/// Makes jumps of branches whose target is known. Returns whether there were any.
pub(super) fn fold(function: &mut Function, keep: &Keep<'_>) -> bool {
    let known: Vec<(Inst, Edge)> = function
        .blocks()
        .filter_map(|block| {
            let inst = function.terminator(block)?;
            let edge = only_way(function, inst)?;
            (!keep.inst(function, inst)).then_some((inst, edge))
        })
        .collect();
    for &(inst, edge) in &known {
        function.replace_with_abstract(inst, AbstractOp::Br, AbstractMods::NONE, 0, &[]);
        function.set_edges(inst, &[edge]);
    }
    !known.is_empty()
}

/// The edge a branch always takes, or nothing when it is no branch or may go several ways.
fn only_way(function: &Function, inst: Inst) -> Option<Edge> {
    if !function.inst(inst).guard().is_always() {
        return None;
    }
    let edges = function.edges(inst);
    let condition = function.operands(inst).first().copied();
    let taken = match function.opcode(inst) {
        Opcode::Abstract(AbstractOp::CondBr) => {
            known_predicate(function, condition?).map(|holds| usize::from(!holds))
        }
        Opcode::Abstract(AbstractOp::Switch) => {
            // A number past the last edge is undefined; such a branch is left as it is.
            known_number(function, condition?).and_then(|number| usize::try_from(number).ok())
        }
        _ => return None,
    };
    match taken {
        Some(index) => edges.get(index).copied(),
        None => {
            let (&first, rest) = edges.split_first()?;
            rest.iter()
                .all(|&edge| destination(function, edge) == destination(function, first))
                .then_some(first)
        }
    }
}

/// Where an edge goes and what it takes there.
fn destination(function: &Function, edge: Edge) -> (Block, &[orias_ori::Value]) {
    (function.edge_target(edge), function.edge_args(edge))
}

/// The value of a predicate operand, if it is always the same.
pub(super) fn known_predicate(function: &Function, operand: Operand) -> Option<bool> {
    constant_predicate(operand).or_else(|| {
        let copied = copied_operand(function, function.defining_inst(operand.as_value()?)?)?;
        let negated = operand.mods().contains(SourceMods::NOT);
        Some(constant_predicate(copied)? != negated)
    })
}

/// The value of a predicate operand that is an immediate, `PT` or `!PT`.
fn constant_predicate(operand: Operand) -> Option<bool> {
    match operand {
        Operand::Imm(imm) => Some(imm.bits() & 1 == 1),
        Operand::Reg { reg, mods } if reg.phys().is_some_and(|reg| reg.is_constant()) => {
            Some(!mods.contains(SourceMods::NOT))
        }
        _ => None,
    }
}

/// The value of an operand that is a number, if it is always the same.
fn known_number(function: &Function, operand: Operand) -> Option<u64> {
    match operand {
        Operand::Imm(imm) => Some(imm.bits()),
        Operand::Reg { reg, mods } if mods.is_empty() => {
            match copied_operand(function, function.defining_inst(reg.value()?)?)? {
                Operand::Imm(imm) => Some(imm.bits()),
                _ => None,
            }
        }
        _ => None,
    }
}

/// What an unconditional copy copies.
pub(super) fn copied_operand(function: &Function, inst: Inst) -> Option<Operand> {
    match function.opcode(inst) {
        Opcode::Abstract(AbstractOp::Mov) if function.inst(inst).guard().is_always() => {
            function.operands(inst).get(1).copied()
        }
        _ => None,
    }
}
