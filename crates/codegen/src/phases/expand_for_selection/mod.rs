//! ExpandForSelection: operations that the chip has no instruction for and that need control flow become branches and
//! loops of operations it has.
//!
//! - `brx` becomes a test of bits or a tree of comparisons, unless a jump through a table is sooner done ([`switches`]).
//! - Atomic updates that memory cannot do by itself become loops ([`updates`]).
//! - Guards of barriers that lanes may come to from several places become branches ([`barriers`]).
//! - Lanes take turns at bulk copies ([`turns`]).
//! - Requests for registers are repeated until they are granted ([`register_counts`]).
//! - Who waits at an mbarrier looks once before the loop that waits ([`first_looks`]).
//! - A branch to the block where a kernel ends gets an exit of its own: lanes that go there are nobody's to wait for (`convergence`).
//!
//! Runs before convergence regions are placed, which see the branches made here. Linear in what it makes.

mod barriers;
mod first_looks;
mod loops;
mod register_counts;
mod switches;
mod turns;
mod updates;

pub use register_counts::{
    asks as asks_for_register_counts, is_ignored as ignores_register_counts,
};

pub(super) use switches::{Destination, SwitchCosts};

use crate::convergence::separate_exits;
use crate::pipeline::{Context, PhaseError};
use orias_ori::builder::BuildError;
use orias_ori::{AbstractOp, Block, Function, Inst};

/// Makes branches and loops of operations that need them.
pub fn expand_for_selection(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    switches::expand(func, context)?;
    let blocks: Vec<Block> = func.blocks().collect();
    for block in blocks {
        let insts: Vec<Inst> = func.block_insts(block).collect();
        for inst in insts {
            let Some(op) = func.opcode(inst).as_abstract() else {
                continue;
            };
            match op {
                AbstractOp::SetMaxNReg => register_counts::expand(func, inst)?,
                AbstractOp::Atom | AbstractOp::Red => updates::expand(func, inst)?,
                _ => {}
            }
        }
    }
    barriers::expand(func)?;
    turns::expand(func)?;
    if context.opt_level > 0 {
        first_looks::expand(func);
    }
    separate_exits(func).map_err(refused)
}

fn refused(error: BuildError) -> PhaseError {
    PhaseError::Broken {
        at: error.inst.clone(),
        what: error.to_string(),
    }
}
