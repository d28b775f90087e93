//! PostFixForMercTargets (113): jump threading through empty blocks and branch fix-up, what follows from the final order of blocks.
//!
//! Until here a block may fall through to any block. Now that the order is final:
//!
//! - from -O1 on, what goes to a block that does nothing but go on goes on itself (jump threading); a block that nothing leads to or names any more is left out;
//! - falling through to a block that does not come next becomes a jump;
//! - a jump to the block that comes next is left out;
//! - a conditional jump to the block that comes next, with another block to fall to, is turned around;
//! - where an instruction with another way to go on (a conditional exit, say) falls to a block elsewhere, a block with a
//!   jump is put behind it;
//! - a branch to itself stands behind the last instruction, so that instruction fetch never runs into nothing.
//!
//! A few passes over the blocks.

use crate::pipeline::{Context, PhaseError};
use crate::reachability::remove_unreachable;
use cranelift_entity::SecondaryMap;
use orias_ori::builder::{BuildError, Cursor};
use orias_ori::{
    AbstractMods, AbstractOp, Block, Edge, Function, Guard, Inst, Opcode, Operand, PhysReg, machine,
};
use orias_sass::Op;

/// Runs the phase.
pub fn fix_positions(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    if context.opt_level > 0 {
        thread_jumps(func);
    }
    let mut block = func.entry();
    while let Some(current) = block {
        let next = func.layout.next_block(current);
        if let Some(terminator) = func.terminator(current) {
            fix(func, current, terminator, next)?;
        }
        block = next;
    }
    end_with_self_branch(func)
}

/// Lets every edge to a block that only goes on lead where that block goes.
fn thread_jumps(func: &mut Function) {
    let mut leads: SecondaryMap<Block, Option<Block>> = SecondaryMap::new();
    let mut any = false;
    for block in func.blocks() {
        let Some(terminator) = func.terminator(block) else {
            continue;
        };
        let plain = match func.opcode(terminator) {
            Opcode::Abstract(AbstractOp::FallThrough) => true,
            Opcode::Machine(Op::BRA) => {
                is_plain(func, terminator) && func.edges(terminator).len() == 1
            }
            _ => false,
        };
        if plain && func.layout.first_inst(block) == Some(terminator) {
            leads[block] = Some(func.edge_target(func.edges(terminator)[0]));
            any = true;
        }
    }
    if !any {
        return;
    }
    // A region names the block behind its BSYNC: that one stays between the two.
    for block in func.blocks() {
        for inst in func.block_insts(block) {
            for operand in func.operands(inst) {
                if let Operand::Block(named) = operand {
                    leads[*named] = None;
                }
            }
        }
    }
    let blocks: Vec<Block> = func.blocks().collect();
    for block in blocks {
        let Some(terminator) = func.terminator(block) else {
            continue;
        };
        let edges: Vec<Edge> = func.edges(terminator).to_vec();
        for edge in edges {
            let mut target = func.edge_target(edge);
            // Empty blocks may lead in a circle: the program says so, and a few steps are enough for all others.
            for _ in 0..LONGEST_CHAIN {
                match leads[target] {
                    Some(next) if next != target => target = next,
                    _ => break,
                }
            }
            if target != func.edge_target(edge) {
                func.set_edge(edge, target, &[]);
            }
        }
    }
    remove_unreachable(func, |_, _| false);
}

/// How many empty blocks in a row are passed.
const LONGEST_CHAIN: usize = 16;

fn fix(
    func: &mut Function,
    block: Block,
    terminator: Inst,
    next: Option<Block>,
) -> Result<(), PhaseError> {
    match func.opcode(terminator) {
        Opcode::Abstract(AbstractOp::FallThrough) => {
            let target = func.edge_target(func.edges(terminator)[0]);
            if Some(target) != next {
                jump_instead(func, terminator, target)?;
            }
        }
        // Control never gets here; the chip stops if it does.
        Opcode::Abstract(AbstractOp::Unreachable) => {
            let span = func.inst(terminator).span();
            func.remove_inst(terminator);
            let mut at = Cursor::at_end(func, block);
            at.set_span(span);
            at.build(Op::EXIT)
                .operand(PhysReg::PT)
                .finish()
                .map_err(refused)?;
        }
        Opcode::Abstract(_) => {}
        Opcode::Machine(op) => {
            let falls = machine::falls_through(func, terminator);
            let target = |edge| func.edge_target(edge);
            match falls {
                None if op == Op::BRA && is_plain(func, terminator) => {
                    let to = target(func.edges(terminator)[0]);
                    if Some(to) == next {
                        fall_instead(func, block, terminator, to);
                    }
                }
                Some(edge)
                    if Some(target(edge)) != next && !turn_around(func, terminator, edge, next) =>
                {
                    jump_behind(func, block, edge)?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether a branch has no condition but its guard.
fn is_plain(func: &Function, branch: Inst) -> bool {
    func.operands(branch).first() == Some(&Operand::from(PhysReg::PT))
        && func.edges(branch).len() <= 2
        && func.inst(branch).operation() == plain_branch()
}

/// A branch without modifiers.
fn plain_branch() -> orias_ori::Operation {
    orias_ori::Operation::Machine(Op::BRA, orias_sass::Mods::ZERO)
}

fn jump_instead(func: &mut Function, next: Inst, target: Block) -> Result<(), PhaseError> {
    Cursor::before(func, next)
        .build(Op::BRA)
        .operand(PhysReg::PT)
        .target(target, &[])
        .finish()
        .map_err(refused)?;
    func.remove_inst(next);
    Ok(())
}

fn fall_instead(func: &mut Function, block: Block, branch: Inst, target: Block) {
    let next = func.create_abstract(AbstractOp::FallThrough, AbstractMods::NONE, 0, &[]);
    let edge = func.create_edge(target, &[]);
    func.set_edges(next, &[edge]);
    func.remove_inst(branch);
    func.layout.append_inst(next, block);
}

/// Turns `@P0 BRA next -> elsewhere` into `@!P0 BRA elsewhere -> next`.
fn turn_around(func: &mut Function, branch: Inst, falls: Edge, next: Option<Block>) -> bool {
    let guard = func.inst(branch).guard();
    let edges: Vec<Edge> = func.edges(branch).to_vec();
    let ([jump, _], Some(next), Some(predicate)) = (&edges[..], next, guard.reg()) else {
        return false;
    };
    if !is_plain(func, branch) || func.edge_target(*jump) != next {
        return false;
    }
    let elsewhere = func.edge_target(falls);
    func.set_edge(*jump, elsewhere, &[]);
    func.set_edge(falls, next, &[]);
    let opposite = if guard.is_negated() {
        Guard::when(predicate)
    } else {
        Guard::unless(predicate)
    };
    func.set_guard(branch, opposite);
    true
}

/// Puts a jump to where `edge` goes behind `block`, and lets the edge go there.
fn jump_behind(func: &mut Function, block: Block, edge: Edge) -> Result<(), PhaseError> {
    let target = func.edge_target(edge);
    let behind = func.create_block();
    func.layout.insert_block_after(behind, block);
    func.set_edge(edge, behind, &[]);
    Cursor::at_end(func, behind)
        .build(Op::BRA)
        .operand(PhysReg::PT)
        .target(target, &[])
        .finish()
        .map_err(refused)?;
    Ok(())
}

fn end_with_self_branch(func: &mut Function) -> Result<(), PhaseError> {
    let ends_so = func.layout.last_block().is_some_and(|last| {
        func.layout.first_inst(last) == func.layout.last_inst(last)
            && func.successors(last).eq([last])
    });
    if ends_so {
        return Ok(());
    }
    let block = func.append_block();
    Cursor::at_end(func, block)
        .build(Op::BRA)
        .operand(PhysReg::PT)
        .target(block, &[])
        .finish()
        .map_err(refused)?;
    Ok(())
}

fn refused(error: BuildError) -> PhaseError {
    PhaseError::Broken {
        at: error.inst.clone(),
        what: error.to_string(),
    }
}
