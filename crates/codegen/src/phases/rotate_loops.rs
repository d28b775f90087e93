//! RotateLoops (10021): loops that test before each iteration test after it instead.
//!
//! `while (c) body` takes two jumps an iteration: the test's, and the one back to it. `if (c) do body while (c)` takes one. The header, with the test, becomes the
//! guard before the loop, and a copy of it follows the latch; what was behind the test is the new header, executed whenever the loop is entered: loads there may leave the loop.
//!
//! Rotated is a reducible loop with one way back, a plain jump, whose header ends in a branch out of the loop and takes at most [`MOST`] instructions, none of which lanes do together.
//! The copy runs instead of the header from the second time on, so nothing is executed more often than before, and lanes that were together in an iteration are together in it still.
//!
//! The loop is brought into closed form first, then the header (see [`crate::loops`]). Loops of one depth have no blocks in common and are done at once, the innermost first: linear
//! in the function times the depth of nesting, of which [`DEPTH`] are looked at.

use super::general_optimize::optimize_general;
use crate::loops::{LoopAnalyses, Region, close, copy};
use crate::pipeline::{Context, PhaseError};
use orias_ori::analysis::{DefUse, Loop};
use orias_ori::{AbstractOp, Block, Edge, Effects, Function, Operand};

/// Instructions of a header that is copied.
const MOST: usize = 8;

/// Depths of loops that are looked at, from the innermost.
const DEPTH: u32 = 8;

/// A loop that can be rotated.
struct Rotation {
    of: Loop,
    header: Block,
    back: Edge,
}

/// Runs the phase.
pub fn rotate_loops(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    let Some(mut shape) = func.entry().map(|_| LoopAnalyses::of(func)) else {
        return Ok(());
    };
    let nest = &shape.nest;
    let deepest = nest.loops().map(|each| nest.depth(each)).max().unwrap_or(0);
    let mut rotated = false;
    for depth in (1..=deepest).rev().take(DEPTH as usize) {
        if rotate(func, &shape, depth) {
            rotated = true;
            shape = LoopAnalyses::of(func);
        }
    }
    match rotated {
        true => optimize_general(func, context),
        false => Ok(()),
    }
}

/// Rotates the loops of this depth. Returns whether there were any.
fn rotate(func: &mut Function, shape: &LoopAnalyses, depth: u32) -> bool {
    let nest = &shape.nest;
    let found: Vec<Rotation> = nest
        .loops()
        .filter(|&each| nest.depth(each) == depth)
        .filter_map(|each| rotation(func, shape, each))
        .collect();
    if found.is_empty() {
        return false;
    }
    let uses = DefUse::new(func);
    let mut closed = Vec::new();
    for rotation in found {
        let region = Region::new(nest.blocks(rotation.of).to_vec());
        if let Some(closing) = close(func, shape, &uses, &region) {
            closed.push((rotation, closing));
        }
    }
    for (_, closing) in &closed {
        closing.apply(func, shape);
    }
    let uses = DefUse::new(func);
    let mut rotations = Vec::new();
    for (rotation, _) in closed {
        let header = Region::new(vec![rotation.header]);
        if let Some(closing) = close(func, shape, &uses, &header) {
            rotations.push((rotation, header, closing));
        }
    }
    for (_, _, closing) in &rotations {
        closing.apply(func, shape);
    }
    for (rotation, header, _) in &rotations {
        let latch = shape.nest.latches(rotation.of)[0];
        let copied = copy(func, header, rotation.header, latch);
        let args = func.edge_args(rotation.back).to_vec();
        func.set_edge(rotation.back, copied.block(rotation.header), &args);
        // What the source says of the loop holds of its new header.
        let staying = func
            .successors(rotation.header)
            .find(|&next| shape.nest.contains(rotation.of, next));
        if let Some(body) = staying
            && func.attributes.rolled.contains(&rotation.header)
        {
            func.attributes.rolled.push(body);
        }
    }
    !rotations.is_empty()
}

/// How `of` is rotated, if it can be and that spares a jump.
fn rotation(func: &Function, shape: &LoopAnalyses, of: Loop) -> Option<Rotation> {
    let nest = &shape.nest;
    let header = nest.header(of);
    let (&[latch], &[back]) = (nest.latches(of), &shape.back_edges(of)[..]) else {
        return None;
    };
    let branch = func.terminator(header)?;
    let stays = func
        .successors(header)
        .filter(|&next| nest.contains(of, next));
    let jumps = func.opcode(func.terminator(latch)?).as_abstract() == Some(AbstractOp::Br);
    let tests = func.opcode(branch).as_abstract() == Some(AbstractOp::CondBr);
    if nest.is_irreducible(of) || latch == header || !jumps || !tests || stays.count() != 1 {
        return None;
    }
    let small = func.block_insts(header).count() <= MOST;
    let together = Effects::CONVERGENT
        .with(Effects::BARRIER)
        .with(Effects::CALL);
    let copied = func.block_insts(header).all(|inst| {
        let named = func
            .operands(inst)
            .iter()
            .any(|operand| matches!(operand, Operand::Block(_)));
        !named && !func.opcode(inst).effects().intersects(together)
    });
    (small && copied).then_some(Rotation { of, header, back })
}
