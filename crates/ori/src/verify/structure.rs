//! Blocks, terminators and edges.

use super::{Invariant, Report};
use crate::entity::{Block, Inst};
use crate::function::{Function, FunctionKind, Level};
use crate::instruction::Opcode;
use crate::machine::Falls;
use crate::operation::{AbstractOp, Edges};

/// Whether blocks and edges are sound enough for a control-flow graph.
pub(super) fn check(report: &mut Report<'_>) -> bool {
    let func = report.func;
    let Some(entry) = func.entry() else {
        report.add(Invariant::Entry, "the function has no block".to_owned());
        return false;
    };
    report.at(Some(entry), None);
    if func.kind == FunctionKind::Entry && !func.block_params(entry).is_empty() {
        let message = "the entry block of a kernel has no parameters";
        report.add(Invariant::Entry, message.to_owned());
    }
    let mut sound = true;
    for block in func.blocks() {
        sound &= check_block(report, block, entry);
    }
    report.at(None, None);
    sound
}

fn check_block(report: &mut Report<'_>, block: Block, entry: Block) -> bool {
    let func = report.func;
    let mut sound = true;
    if !func.level.is_ssa() && !func.block_params(block).is_empty() {
        report.at(Some(block), None);
        let message = "blocks have no parameters after allocation";
        report.add(Invariant::Level, message.to_owned());
    }
    for inst in func.block_insts(block) {
        let is_last = func.layout.last_inst(block) == Some(inst);
        let is_terminator = func.opcode(inst).is_terminator();
        report.at(Some(block), Some(inst));
        if is_terminator && !is_last {
            let message = "a terminator stands before the end of its block";
            report.add(Invariant::Terminator, message.to_owned());
            sound = false;
        }
        if !is_terminator && !func.edges(inst).is_empty() {
            let message = "only a terminator has edges";
            report.add(Invariant::Edge, message.to_owned());
            sound = false;
        }
        if is_terminator {
            check_edge_count(report, inst);
            sound &= check_edges(report, inst, entry);
            check_falls_to_next(report, block, inst);
        }
    }
    if func.terminator(block).is_none() {
        report.at(Some(block), None);
        let message = "the block does not end with a terminator";
        report.add(Invariant::Terminator, message.to_owned());
        sound = false;
    }
    sound
}

fn check_edge_count(report: &mut Report<'_>, inst: Inst) {
    let func = report.func;
    let count = func.edges(inst).len();
    let wrong = match func.opcode(inst) {
        Opcode::Abstract(op) => match op.row().edges {
            Edges::Exactly(wanted) if count != usize::from(wanted) => {
                Some(format!("the operation has {wanted} edges, not {count}"))
            }
            Edges::Some if count == 0 => Some("the operation has at least one edge".to_owned()),
            Edges::Exactly(_) | Edges::Some => None,
        },
        Opcode::Machine(op) => {
            let rule = func.machine_edges(inst, op);
            (!rule.allows(count)).then(|| {
                let targets = if rule.indirect {
                    "the targets it may reach".to_owned()
                } else {
                    format!("{} jump targets", rule.targets)
                };
                let falls = match rule.falls {
                    Falls::Never => "",
                    Falls::Maybe => ", and perhaps where it goes on if it does not jump",
                    Falls::Yes => ", and where it goes on if it does not jump",
                };
                format!("the instruction has {count} edges, but needs {targets}{falls}")
            })
        }
    };
    if let Some(message) = wrong {
        report.add(Invariant::Edge, message);
    }
}

fn check_edges(report: &mut Report<'_>, inst: Inst, entry: Block) -> bool {
    let func = report.func;
    let mut sound = true;
    for &edge in func.edges(inst) {
        let to = func.edge_target(edge);
        if !func.layout.contains_block(to) {
            report.add(Invariant::Edge, format!("{to} is not in the function"));
            sound = false;
            continue;
        }
        if to == entry {
            let message = "no edge goes to the entry block";
            report.add(Invariant::Entry, message.to_owned());
        }
        let (args, params) = (func.edge_args(edge), func.block_params(to));
        if args.len() != params.len() {
            let message = format!(
                "{to} has {} parameters, the edge {} arguments",
                params.len(),
                args.len()
            );
            report.add(Invariant::EdgeArgs, message);
            sound = false;
            continue;
        }
        for (&arg, &param) in args.iter().zip(params) {
            let (have, want) = (func.value_type(arg), func.value_type(param));
            if have != want {
                let message = format!("{arg} is {have}, but {to}'s parameter {param} is {want}");
                report.add(Invariant::EdgeArgs, message);
            }
        }
    }
    sound
}

/// In the final order, falling through means going to the next block.
fn check_falls_to_next(report: &mut Report<'_>, block: Block, inst: Inst) {
    let func = report.func;
    if func.level != Level::Final {
        return;
    }
    let Some(to) = fall_through(func, inst) else {
        return;
    };
    if func.layout.next_block(block) != Some(to) {
        let message = format!("falls through to {to}, which does not follow");
        report.add(Invariant::Control, message);
    }
}

/// Where the code goes on without a jump.
fn fall_through(func: &Function, inst: Inst) -> Option<Block> {
    let edge = match func.opcode(inst) {
        Opcode::Abstract(AbstractOp::FallThrough) => func.edges(inst).last().copied(),
        Opcode::Abstract(_) => None,
        Opcode::Machine(op) => func.machine_fall_through(inst, op),
    };
    edge.map(|edge| func.edge_target(edge))
}
