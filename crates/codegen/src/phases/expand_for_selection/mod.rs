//! ExpandForSelection: operations that the chip has no instruction for and that need control flow become branches and
//! loops of operations it has.
//!
//! - `brx` becomes a tree of comparisons, as deep as the logarithm of the number of ways. (A table of addresses is faster for many
//!   ways, and needs one more load.)
//! - Atomic updates that memory cannot do by itself become loops ([`updates`]).
//! - Guards of barriers that lanes may come to from several places become branches ([`barriers`]).
//! - Lanes take turns at bulk copies ([`turns`]).
//! - Requests for registers are repeated until they are granted ([`register_counts`]).
//! - A branch to the block where a kernel ends gets an exit of its own: lanes that go there are nobody's to wait for (`convergence`).
//!
//! Runs before convergence regions are placed, which see the branches made here. Linear in what it makes.

mod barriers;
mod loops;
mod register_counts;
mod turns;
mod updates;

pub use register_counts::{
    asks as asks_for_register_counts, is_ignored as ignores_register_counts,
};

use crate::convergence::separate_exits;
use crate::pipeline::{Context, PhaseError};
use orias_ori::builder::{BuildError, Cursor};
use orias_ori::operation::{Combine, Compare, Scalar};
use orias_ori::{AbstractOp, Block, Function, Inst, Value};

/// Makes branches and loops of operations that need them.
pub fn expand_for_selection(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    let blocks: Vec<Block> = func.blocks().collect();
    for block in blocks {
        let insts: Vec<Inst> = func.block_insts(block).collect();
        for inst in insts {
            let Some(op) = func.opcode(inst).as_abstract() else {
                continue;
            };
            match op {
                AbstractOp::SetMaxNReg => register_counts::expand(func, inst)?,
                AbstractOp::Switch => expand_switch(func, inst)?,
                AbstractOp::Atom | AbstractOp::Red => updates::expand(func, inst)?,
                _ => {}
            }
        }
    }
    barriers::expand(func)?;
    turns::expand(func)?;
    separate_exits(func).map_err(refused)
}

fn refused(error: BuildError) -> PhaseError {
    PhaseError::Broken {
        at: error.inst.clone(),
        what: error.to_string(),
    }
}

/// A tree of comparisons with the middle of what is left.
fn expand_switch(func: &mut Function, inst: Inst) -> Result<(), PhaseError> {
    let index = func.operands(inst)[0];
    let ways: Vec<(Block, Vec<Value>)> = func
        .edges(inst)
        .iter()
        .map(|&edge| (func.edge_target(edge), func.edge_args(edge).to_vec()))
        .collect();
    let span = func.inst(inst).span();
    let Some(block) = func.layout.inst_block(inst) else {
        return Ok(());
    };
    func.remove_inst(inst);
    // (block to fill, first way, one past the last)
    let mut pending = vec![(block, 0, ways.len())];
    while let Some((at, first, end)) = pending.pop() {
        let (block, args) = &ways[first];
        if end - first == 1 {
            let mut cursor = Cursor::at_end(func, at);
            cursor.set_span(span);
            cursor
                .build(AbstractOp::Br)
                .edge(*block, args)
                .finish()
                .map_err(refused)?;
            continue;
        }
        let middle = first + (end - first) / 2;
        let below = func.create_block();
        let above = func.create_block();
        func.layout.insert_block_after(above, at);
        func.layout.insert_block_after(below, at);
        let mut cursor = Cursor::at_end(func, at);
        cursor.set_span(span);
        let less = cursor
            .build(AbstractOp::Setp)
            .with(Compare::Lt)
            .with(Combine::None)
            .with(Scalar::U32)
            .operand(index)
            .imm(middle as u64)
            .value()
            .map_err(refused)?;
        cursor
            .build(AbstractOp::CondBr)
            .operand(less)
            .edge(below, &[])
            .edge(above, &[])
            .finish()
            .map_err(refused)?;
        pending.push((below, first, middle));
        pending.push((above, middle, end));
    }
    Ok(())
}
