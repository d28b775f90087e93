//! Abstract interpretation of lanes: where those of a warp are together, proved from finished code.
//!
//! Lanes part at branches and meet at BSYNC, for the lanes that BSSY counted and that have neither left (BREAK) nor ended, and
//! at WARPSYNC. Lanes that execute YIELD or NANOSLEEP are not waited for: those at BSYNC may go on without them, for good.
//! Three things are proved:
//!
//! - **reopened**: no lane opens a convergence barrier (by BSSY, or by a call of what opens it) that it has open: others may
//!   wait at it. That lanes which were not waited for are still in a region whose barrier others open again is no fault: a
//!   barrier belongs to the lanes that opened it, and ptxas does so behind YIELD.
//! - **apart**: whatever needs the whole warp (BAR, SHFL, VOTE, REDUX, MATCH, matrix operations) is not executed where lanes
//!   from different arms of a branch have come together without BSYNC or WARPSYNC. Inside one arm such an operation is the
//!   program's promise that whole warps take it.
//! - **regions**: waits form no cycle. A BSYNC is open on every path, BSSY names the place behind it, and no lane waits at an
//!   outer barrier, or returns, while it is counted in an inner one whose lanes would wait for it.
//!
//! **Lattice.** Before each instruction ([`state::State`]): registers, or flags in them, that may differ between lanes that run together; the
//! branches at which lanes parted and have not met since, each with the arm taken (none < one < several), whether somebody has
//! yielded since, and the registers written since; the barriers that may be open, each with the set of BSSYs that may have
//! opened it, whether some path comes with it closed, what its lanes parted by since and what they wrote; barriers kept in general registers by BMOV.
//! Everything grows when paths join. Where lanes from several arms join, the registers written since the branch become different. Behind a place
//! that all lanes of a branch come through ([`postdominators`]), if at different times, they go the same ways as long as they decide by equal
//! values: what is written there is different only if its sources are, until they come to the branch again.
//!
//! **Transfer** ([`walk::Walk`]). A branch on a predicate that may differ parts lanes: each successor gets its arm, and whoever
//! comes to the branch again with another arm already has several (lanes leave a loop in different iterations). BSYNC takes back
//! every divergence since its BSSY except where somebody has yielded; what was apart at the BSSY still is. Lanes that left by
//! BREAK, and those that met where others have left, part by that, unless no branch has parted them since the BSSY: then all of them leave. WARPSYNC, and the way past BRA.DIV, end all divergences; with a
//! mask that is not known to name all lanes they make one arm of those that are here; behind WARPSYNC.EXCLUSIVE and the one
//! exchange it is for, those of different masks are apart. Between WARPSYNC.COLLECTIVE and ENDCOLLECTIVE lanes are together, behind it as before. A predicated BREAK holds for the edges of the branch on the same
//! predicates. Calls are stepped over ([`procedures`]).
//!
//! **Limits.** Which lanes a mask names is not known. Loads from one address give all lanes that come together one value. A function is judged as
//! if its caller had brought the lanes together. A barrier that comes back from a register nobody followed, or that lanes left
//! under a condition that is lost, is trusted. That a loop yields which waits for a lane of its own warp is not asked.
//!
//! **Cost.** A worklist over blocks in address order. An instruction costs a look at its registers; a block what is open and
//! apart there, which is few: only branches of which two arms come to something that needs whole warps are followed. The
//! lattice is as high as branches nest without meeting.

mod acts;
mod differing;
mod frame;
mod postdominators;
mod procedures;
mod registers;
mod report;
mod state;
mod uniform;
mod walk;

use crate::facts::Facts;
use crate::finding::Finding;
use crate::program::Program;
use acts::{Act, Acts};
use differing::Differing;
use orias_sass::{Effects, Op};
use postdominators::PostDominators;
use procedures::{Procedures, successors};
use state::State;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use walk::{Fault, Site, Walk};

/// What is wrong with where lanes meet.
pub(crate) fn check(program: &Program, facts: &Facts) -> Vec<Finding> {
    let acts = Acts::new(program);
    let any = acts
        .all()
        .any(|act| matches!(act, Act::Open { .. } | Act::Meet { .. } | Act::Collective));
    if !any {
        return Vec::new();
    }
    let procedures = Procedures::new(program, facts, &acts);
    let sameness = uniform::of_program(program);
    let following: Vec<Vec<usize>> = (0..program.blocks.len())
        .map(|block| successors(program, block).collect())
        .collect();
    let matters = matters(program, &acts, &following);
    let passed = PostDominators::new(&onward(program, &following), &matters);
    let walk = Walk {
        program,
        facts,
        acts: &acts,
        procedures: &procedures,
        sameness: &sameness,
        matters: &matters,
        passed: &passed,
    };
    let solved = solve(&walk, &following);
    let mut faults: Vec<(usize, Fault)> = Vec::new();
    let mut sites = solved.sites.clone();
    for (block, state) in solved.before.iter().enumerate() {
        if let Some(state) = state {
            let mut state = state.clone();
            let observe = |index, fault| faults.push((index, fault));
            walk.block(block, &mut state, &mut sites, |_| {}, observe);
        }
    }
    report::Reporter {
        walk: &walk,
        solved: &solved,
        following: &following,
    }
    .findings(&faults)
}

/// By block: whether it, or one behind it, asks whether lanes are apart.
fn matters(program: &Program, acts: &Acts, following: &[Vec<usize>]) -> Vec<bool> {
    let mut from: Vec<Vec<usize>> = vec![Vec::new(); program.blocks.len()];
    for (block, following) in following.iter().enumerate() {
        following.iter().for_each(|next| from[*next].push(block));
    }
    let mut matters = vec![false; program.blocks.len()];
    let mut pending: Vec<usize> = (0..program.blocks.len())
        .filter(|block| {
            acts.of(*block)
                .iter()
                .any(|(_, act)| *act == Act::Collective)
        })
        .collect();
    while let Some(block) = pending.pop() {
        if !std::mem::replace(&mut matters[block], true) {
            pending.extend(&from[block]);
        }
    }
    matters
}

/// Where lanes go on, what they do between WARPSYNC.COLLECTIVE and ENDCOLLECTIVE left out: they come back from there to the place it names.
fn onward(program: &Program, following: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let ends = |block: &usize| {
        program.instructions[program.blocks[*block].end - 1].op() == Op::ENDCOLLECTIVE
    };
    (following.iter())
        .map(|next| next.iter().copied().filter(|next| !ends(next)).collect())
        .collect()
}

/// The fixed point.
struct Solved {
    /// By block, what is known before it; none where nobody comes.
    before: Vec<Option<State>>,
    /// By number of BSSY.
    sites: Vec<Site>,
}

/// Blocks that wait to be visited, in address order.
struct Worklist {
    heap: BinaryHeap<Reverse<usize>>,
    queued: Vec<bool>,
}

impl Worklist {
    fn push(&mut self, block: usize) {
        if !std::mem::replace(&mut self.queued[block], true) {
            self.heap.push(Reverse(block));
        }
    }

    fn pop(&mut self) -> Option<usize> {
        let Reverse(block) = self.heap.pop()?;
        self.queued[block] = false;
        Some(block)
    }
}

fn solve(walk: &Walk<'_>, following: &[Vec<usize>]) -> Solved {
    let blocks = &walk.program.blocks;
    let mut solved = Solved {
        before: vec![None; blocks.len()],
        sites: vec![Site::default(); walk.acts.sites.len()],
    };
    let mut pending = Worklist {
        heap: BinaryHeap::new(),
        queued: vec![false; blocks.len()],
    };
    // A kernel starts with nothing different; functions that others call with whatever their callers have. What nothing leads
    // to is not executed.
    let called = |block: usize| walk.procedures.starts(block);
    let starts = |block: &usize| *block == 0 || blocks[*block].entry || called(*block);
    for root in (0..blocks.len()).filter(starts) {
        if solved.before[root].is_some() {
            continue;
        }
        let mut state = State::default();
        if root != 0 && !called(root) {
            state.divergent = Differing::of_lanes();
        }
        solved.before[root] = Some(state);
        pending.push(root);
        while let Some(block) = pending.pop() {
            let Some(mut state) = solved.before[block].clone() else {
                continue;
            };
            let mut again = Vec::new();
            walk.block(
                block,
                &mut state,
                &mut solved.sites,
                |block| again.push(block),
                |_, _| {},
            );
            if let Some(callee) = walk.procedures.callee(block) {
                let slot = solved.before[callee].get_or_insert_default();
                if slot.divergent.join(&state.divergent) {
                    pending.push(callee);
                }
            }
            let before = &mut solved.before;
            let go = |next: usize, state| {
                let changed = match &mut before[next] {
                    Some(known) => known.join(&state),
                    slot @ None => {
                        *slot = Some(state);
                        true
                    }
                };
                if changed {
                    pending.push(next);
                }
            };
            let sites = &mut solved.sites;
            walk.edges(
                block,
                &following[block],
                state,
                sites,
                |block| again.push(block),
                go,
            );
            again.into_iter().for_each(|block| pending.push(block));
        }
    }
    solved
}

/// Whether a block ends with a return.
fn returns(program: &Program, index: usize) -> bool {
    let effects = program.instructions[index].op().row().effects;
    effects.contains(Effects::RETURN)
}
