//! LoopUnrolling (24): loop unrolling. Several iterations of a loop in a row, with fewer tests between them.
//!
//! Each iteration of a loop pays for a comparison, a jump and the counting, and nothing moves from one iteration into another. Innermost loops whose iterations are
//! counted ([`Iterations`]) are copied:
//!
//! - *All of it*, where the number of iterations is known and the copies are few enough: no test is left.
//! - *By a factor*, where the number is known but large. The tests are made at the same place every time, and of each row of copies one at most is the last: only that
//!   copy keeps its test, whether or not the factor divides the number.
//! - *By a factor with a remainder*, where the number depends on a value: a new loop of copies without the counted test runs as long as at least as many iterations
//!   are left, then the loop as it was does the rest.
//!
//! Other exits stay in every copy. [`plan`] decides, [`apply`] copies; the phases that fold and share follow, and another look, since a loop around one that is gone may be innermost now.
//! A loop that was unrolled is noted in the function's attributes, as is one that PTX's `nounroll` names: neither is touched again.
//!
//! **Lanes.** The number of the copy an iteration runs in depends on nothing but the number of the iteration, so lanes that are together in an iteration are together in its copy. Where
//! lanes may leave in different iterations or come in parts, loops with operations that lanes do together are left alone.
//!
//! Cost: linear in the function and the copies made, which [`plan`] limits.

mod apply;
mod copies;
mod plan;

use super::common_subexpressions::eliminate_common_subexpressions;
use super::fold_addresses::fold_addresses;
use super::general_optimize::optimize_general;
use crate::knobs::registry::FOLD_ADDRESSES;
use crate::loops::LoopAnalyses;
use crate::pipeline::{Context, PhaseError};
use orias_ori::Function;

/// How often loops are looked for: loops in loops in loops may all go.
const ROUNDS: usize = 4;

/// Runs the phase.
pub fn unroll_loops(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    let mut unrolled = false;
    let mut room = plan::room(func);
    for _ in 0..ROUNDS {
        let Some(shape) = func.entry().map(|_| LoopAnalyses::of(func)) else {
            break;
        };
        let plans: Vec<_> = plan::decide(func, &shape, context, &mut room)
            .into_iter()
            .filter_map(|decision| Some((decision.of, decision.way.ok()?)))
            .collect();
        if !apply::unroll(func, &shape, &plans) {
            break;
        }
        unrolled = true;
        optimize_general(func, context)?;
        eliminate_common_subexpressions(func, context)?;
    }
    let fold = unrolled && context.knobs.bool(&FOLD_ADDRESSES);
    match fold {
        true => fold_addresses(func, context),
        false => Ok(()),
    }
}

/// What the phase would do with each innermost loop of `func`, in words.
pub fn explain(func: &Function, context: &Context<'_>) -> Vec<String> {
    let Some(shape) = func.entry().map(|_| LoopAnalyses::of(func)) else {
        return Vec::new();
    };
    plan::decide(func, &shape, context, &mut plan::room(func))
        .iter()
        .map(|decision| decision.in_words(&shape))
        .collect()
}
