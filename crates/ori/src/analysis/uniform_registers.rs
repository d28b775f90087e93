//! A check of uniform registers: where they are used against the rule.
//!
//! A uniform register exists once for the warp. While lanes are apart, each group of lanes that gets its turn writes the same register, so
//! between two branches its contents belong to the group that runs and after a branch to whoever ran last. The rule: a uniform register
//! that is written in a block that may run with part of the warp is not read after that block; and a value that is not the same for
//! all lanes that are together, because they came along different edges or from different iterations, is in none.
//!
//! What is written while the whole warp runs may be read anywhere below. Convergence barriers (class B) are made to live across branches and are not looked
//! at. Results of the operations that work across lanes (ELECT, VOTE, REDUX) are the same for the lanes that run together there, whatever those read;
//! they are not carried behind a branch. Cost: O(operands).

use super::def_use::{DefUse, Place, Use};
use super::divergence::Divergence;
use super::loops::LoopNest;
use super::order::DepthFirst;
use crate::{AbstractOp, Block, Class, Function, Inst, Opcode, Value};
use cranelift_entity::EntityRef;
use orias_sass as sass;
use std::fmt;

/// One breach of the rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UniformMisuse {
    /// The value in a uniform register.
    pub value: Value,
    /// The block to blame: where it is read, or, for a value that differs between lanes, where it is defined.
    pub block: Block,
    /// The reading to blame, where it is one.
    pub read: Option<Use>,
    /// What is wrong.
    pub reason: Reason,
}

/// Why a uniform register may not hold a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Lanes that are together have different values.
    Differs,
    /// Lanes that are together have it from different iterations of a loop.
    FromDifferentIterations,
    /// It is written with part of the warp running and read after a branch.
    AcrossBranch,
}

impl fmt::Display for UniformMisuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UniformMisuse { value, block, .. } = self;
        match self.reason {
            Reason::Differs => write!(
                f,
                "{value} is in a uniform register and differs between lanes in {block}"
            ),
            Reason::FromDifferentIterations => write!(
                f,
                "{value} is in a uniform register and comes to {block} from different iterations of a loop"
            ),
            Reason::AcrossBranch => write!(
                f,
                "{value} is in a uniform register, is written with part of the warp, and is read after a branch in {block}"
            ),
        }
    }
}

/// Every breach in `function`, which is in SSA form, by value and in layout order.
pub fn uniform_misuses(
    function: &Function,
    walk: &DepthFirst,
    nest: &LoopNest,
    chains: &DefUse,
    divergence: &Divergence,
) -> Vec<UniformMisuse> {
    let mut found = Vec::new();
    for value in (0..function.value_count()).map(Value::new) {
        if !matches!(function.value_type(value).class(), Class::UR | Class::UP) {
            continue;
        }
        let Some(home) = function
            .defining_block(value)
            .filter(|&home| walk.is_reachable(home))
        else {
            continue;
        };
        // What lanes that run together found out together (who is elected, how they voted) is theirs until they part.
        let of_the_group =
            (function.defining_inst(value)).is_some_and(|inst| works_across_lanes(function, inst));
        if !divergence.is_uniform(value) && !of_the_group {
            found.push(UniformMisuse {
                value,
                block: home,
                read: None,
                reason: Reason::Differs,
            });
            continue;
        }
        for &read in chains.uses(value) {
            // An argument is read where it arrives, after the branch.
            let (block, after_branch) = match read.place {
                Place::Argument { edge, .. } => {
                    let edge = function.edges(read.inst)[usize::from(edge)];
                    (function.edge_target(edge), true)
                }
                _ => {
                    let block = read.block(function);
                    (block, block != home)
                }
            };
            let reason = if !walk.is_reachable(read.block(function)) {
                continue;
            } else if !divergence.is_uniform(value) {
                match after_branch {
                    true => Reason::Differs,
                    false => continue,
                }
            } else if !divergence.is_uniform_at(value, block, nest) {
                Reason::FromDifferentIterations
            } else if divergence.is_partial(home) && after_branch {
                Reason::AcrossBranch
            } else {
                continue;
            };
            found.push(UniformMisuse {
                value,
                block,
                read: Some(read),
                reason,
            });
        }
    }
    found
}

/// Whether `inst` gives one result to all lanes that execute it together.
fn works_across_lanes(function: &Function, inst: Inst) -> bool {
    match function.opcode(inst) {
        Opcode::Machine(op) => op.row().effects.intersects(sass::Effects::CONVERGENT),
        // Nobody reads what it holds.
        Opcode::Abstract(op) => op == AbstractOp::Undef,
    }
}
