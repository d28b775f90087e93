//! GeneralOptimize (29): dead code, copy propagation and control-flow simplification, the clean-up that every phase before selection may rely on.
//!
//! Six rewrites, none of which changes what a program does, are repeated until none of them finds anything:
//!
//! 1. *Branches* whose condition is known, or whose targets are all the same, become jumps ([`branches`]).
//! 2. *Blocks* that cannot be reached are taken out ([`reachability`]).
//! 3. *Values* that are another value under another name (copies, choices between equals, tuples taken apart and put together
//!    again, block parameters that get the same argument from everywhere) are replaced by that value ([`values`]).
//! 4. *Accumulators* of warp-group products that start from zero may be anything ([`accumulators`]).
//! 5. *Instructions* without an effect whose results nobody needs are removed, and so are block parameters that nobody
//!    needs, in loops too: what only keeps itself alive is dead ([`dead_code`]).
//! 6. *Straight-line code* that stands in several blocks comes into one ([`blocks`]).
//!
//! It does not compute constants, look for equal expressions or move anything. Instructions that depend on
//! which lanes run together stay, needed or not.
//!
//! Each round is linear in the function (removing a block parameter also costs the number of parameters beside it). A round
//! usually finds all there is; a chain of branches that become known one after the other needs one round each and is given
//! up after [`MAX_ROUNDS`], so the whole phase is linear too.
//!
//! The knob GeneralOptimizeKeep names instructions and blocks to leave alone.

mod accumulators;
pub(super) mod blocks;
mod branches;
mod dead_code;
mod edges;
mod values;

use crate::knobs::registry::GENERAL_OPTIMIZE_KEEP;
use crate::knobs::{Point, WhenList};
use crate::pipeline::{Context, PhaseError};
use crate::reachability::remove_unreachable;
use dead_code::Removed;
use orias_ori::{Block, Function, Inst};

/// More rounds than programs need.
const MAX_ROUNDS: usize = 16;

/// Runs the phase.
pub fn optimize_general(function: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    let keep = Keep(context.knobs.when(&GENERAL_OPTIMIZE_KEEP));
    for round in 0..MAX_ROUNDS {
        // What a rewrite has looked at need not be looked at again unless something that it depends on has changed.
        let mut changed = branches::fold(function, &keep);
        if round == 0 || changed {
            changed |= remove_unreachable(function, |function, block| keep.block(function, block));
        }
        changed |= values::unify(function, &keep);
        changed |= accumulators::forget(function, &keep);
        if round > 0 && !changed {
            break;
        }
        // Instructions that go leave nothing to find; without parameters two ways of a branch may be the same.
        changed |= dead_code::remove(function, &keep) == Removed::Parameters;
        changed |= blocks::merge(function, |function, block| keep.block(function, block));
        if !changed {
            break;
        }
    }
    Ok(())
}

/// What must be left alone.
struct Keep<'a>(&'a WhenList);

impl Keep<'_> {
    #[inline]
    fn inst(&self, function: &Function, inst: Inst) -> bool {
        !self.0.is_never()
            && function.layout.inst_block(inst).is_some_and(|block| {
                let operation = function.opcode(inst).to_string();
                self.0.holds(Point {
                    function: &function.name,
                    block: block.as_u32(),
                    instruction: Some((inst.as_u32(), &operation)),
                })
            })
    }

    #[inline]
    fn block(&self, function: &Function, block: Block) -> bool {
        !self.0.is_never()
            && self.0.holds(Point {
                function: &function.name,
                block: block.as_u32(),
                instruction: None,
            })
    }
}
