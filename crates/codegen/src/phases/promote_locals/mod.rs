//! PromoteLocals (10035): scalar replacement of local memory (SROA and mem2reg in one).
//!
//! Arrays that a program indexes lie in local memory, the stack frame of each thread, whatever their size: a register has no address. Once loops are
//! unrolled, many of these indices are numbers. A word of the frame of which every access is known becomes a value, and the
//! frame of a function that is left without accesses goes.
//!
//! **What is known** ([`frame`]). Every address that is made from the frame's, as a place in the frame plus at most one index, with its known bits. If such
//! an address goes anywhere but into weak loads and stores (into memory, a call, a block parameter), nothing is promoted; nor where something is called, which reads
//! arguments from the frame.
//!
//! **Indices.** An access by an index touches each place that its known bits, its alignment and the size of the frame leave possible: what
//! lies outside the frame is no access that a program may make. A load becomes a tree of selects by the bits of the index, a store a comparison and a
//! select for each place, as long as that takes no more than [`MOST_SLOTS`] instructions.
//!
//! **What stays in memory**: accesses of less than a word, of more than four, and by indices with too many places, and with them each word that they touch and
//! every other access to these words. All words that are promoted must fit into the registers that the function may use beside what it needs anyway.
//!
//! One visit of each instruction, and SSA construction for the words: linear in the function times the words of the frame, which are at
//! most [`MOST_BYTES`] / 4. The rewrites of EliminateCommonSubexpressions follow where something was promoted.

mod frame;
mod rewrite;

use super::common_subexpressions::eliminate_common_subexpressions;
use super::general_optimize::optimize_general;
use crate::pipeline::{Context, PhaseError};
use crate::reachability::remove_unreachable;
use crate::schedule::budget::hard_limit;
use frame::Access;
use orias_ori::analysis::{FlowGraph, Liveness, Pressure};
use orias_ori::{AbstractOp, Class, Function};

/// A frame that is larger is left alone: it would not fit into registers.
const MOST_BYTES: u32 = 1024;

/// The most instructions that may stand for an access: those that ptxas 13.0 puts in the place of a load from eight words, a comparison and a move for each.
const MOST_SLOTS: usize = 16;

/// Runs the phase.
pub fn promote_locals(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    let size = func.attributes.local;
    if func.entry().is_none() || size == 0 || size > MOST_BYTES {
        return Ok(());
    }
    remove_unreachable(func, |_, _| false);
    let Some(mut accesses) = frame::accesses(func, size) else {
        return Ok(());
    };
    let promoted = promotable(&mut accesses, size);
    let words = promoted.iter().filter(|&&promoted| promoted).count();
    if words == 0 || !fits(func, context, words) {
        return Ok(());
    }
    let all = accesses.iter().all(|access| access.promoted);
    rewrite::promote(func, &accesses, &promoted).map_err(|error| PhaseError::Broken {
        at: func.name.clone(),
        what: error.to_string(),
    })?;
    optimize_general(func, context)?;
    eliminate_common_subexpressions(func, context)?;
    if all {
        func.attributes.local = 0;
        func.attributes.local_align = 0;
        remove_stack_pointer(func);
    }
    Ok(())
}

/// Decides which accesses go, until none that goes shares a word with one that stays. Returns whether each word of the frame is promoted.
fn promotable(accesses: &mut [Access], size: u32) -> Vec<bool> {
    let mut promoted = vec![false; size.div_ceil(4) as usize];
    for access in accesses.iter() {
        access.touched().for_each(|word| promoted[word] = true);
    }
    loop {
        let mut changed = false;
        for access in accesses.iter_mut() {
            let stays = !access.promoted || access.touched().any(|word| !promoted[word]);
            if stays {
                access.promoted = false;
                for word in access.touched() {
                    changed |= std::mem::replace(&mut promoted[word], false);
                }
            }
        }
        if !changed {
            return promoted;
        }
    }
}

/// Whether so many words more fit into registers.
fn fits(func: &Function, context: &Context<'_>, words: usize) -> bool {
    let graph = FlowGraph::of(func);
    let live = Liveness::new(func, &graph);
    let most = Pressure::new(func, &live).overall()[Class::R];
    let words = u32::try_from(words).unwrap_or(u32::MAX);
    most.saturating_add(words) <= hard_limit(func, context.machine.registers, 0)
}

/// Takes out reads of the stack pointer whose result nobody reads.
fn remove_stack_pointer(func: &mut Function) {
    let uses = orias_ori::analysis::DefUse::new(func);
    let unused: Vec<_> = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .filter(|&inst| func.opcode(inst).as_abstract() == Some(AbstractOp::StackSave))
        .filter(|&inst| func.value_defs(inst).all(|value| uses.is_unused(value)))
        .collect();
    for inst in unused {
        func.remove_inst(inst);
    }
}
