//! OriRemoveRedundantBarriers (26): redundant synchronisation elimination, for fences and barriers that repeat one before them.
//!
//! What may go, and why, is said in [`crate::sync`]. Facts are the fences that are covered and the barriers at which aligned has met; whatever another thread could see, or could be seen
//! through, undoes them all, and so does synchronisation of another kind. Parameters and constants are read by nobody else's leave.
//!
//! Knob 358 says how far it goes: 0 nowhere, 1 within blocks, 2 fences across blocks, too, 3 and above the thread block's barriers as well. A fence
//! directly before one that covers it goes in any case but 0. Knob 472 (off) keeps the facts within blocks whatever the mode.
//!
//! Cost: the analysis of [`crate::sync::available`].

use crate::knobs::registry::{ASSUME_EXTERN_DO_NOT_SYNC, BARRIER_LIVENESS, SYNC_MODE};
use crate::pipeline::{Context, PhaseError};
use crate::sync::aligned_barriers::AlignedBarriers;
use crate::sync::available;
use crate::sync::fences;
use orias_ori::operation::{Order, Scope, Space};
use orias_ori::{AbstractOp, Effects, Function, Inst};

/// What was taken out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Fences.
    pub fences: usize,
    /// Barriers of the thread block or the warp.
    pub barriers: usize,
}

/// Runs the phase.
pub fn remove_redundant_barriers(
    func: &mut Function,
    context: &Context<'_>,
) -> Result<(), PhaseError> {
    for inst in redundant(func, context).0 {
        func.remove_inst(inst);
    }
    Ok(())
}

/// What the phase would take out, in words.
pub fn explain(func: &Function, context: &Context<'_>) -> Vec<String> {
    let counts = redundant(func, context).1;
    match counts {
        Counts {
            fences: 0,
            barriers: 0,
        } => Vec::new(),
        _ => vec![format!(
            "{} fences and {} barriers repeat one before them",
            counts.fences, counts.barriers
        )],
    }
}

fn redundant(func: &Function, context: &Context<'_>) -> (Vec<Inst>, Counts) {
    let mode = context.knobs.int(&SYNC_MODE);
    let mut counts = Counts::default();
    if mode <= 0 || func.entry().is_none() {
        return (Vec::new(), counts);
    }
    let aligned = match mode {
        3.. => AlignedBarriers::of(func, !context.knobs.bool(&ASSUME_EXTERN_DO_NOT_SYNC)),
        _ => AlignedBarriers::default(),
    };
    let step = |inst: Inst, held: u64| step(func, aligned, inst, held);
    let across = mode > 1 && context.knobs.bool(&BARRIER_LIVENESS);
    let starts = match across {
        true => available::at_starts(func, step),
        false => Vec::new(),
    };
    let mut found = Vec::new();
    for block in func.blocks() {
        let start = starts.get(block.as_u32() as usize).copied().flatten();
        let mut held = start.unwrap_or(0);
        // The fence that nothing has followed in this block.
        let mut last: Option<(Inst, u64)> = None;
        for inst in func.block_insts(block) {
            let own = facts(func, aligned, inst);
            let after = step(inst, held);
            if own != 0 && held & own == own {
                found.push(inst);
                match is_fence(func, inst) {
                    true => counts.fences += 1,
                    false => counts.barriers += 1,
                }
            } else if own != 0 && is_fence(func, inst) {
                if let Some((before, covered)) = last
                    && own & covered == covered
                {
                    found.push(before);
                    counts.fences += 1;
                }
                last = Some((inst, own));
            } else if after != held || undoes(func, inst) {
                last = None;
            }
            held = after;
        }
    }
    (found, counts)
}

/// The facts that hold once `inst` has run.
fn facts(func: &Function, aligned: AlignedBarriers, inst: Inst) -> u64 {
    if is_fence(func, inst) {
        let order = func.modifier::<Order>(inst).unwrap_or(Order::Weak);
        let scope = func.modifier::<Scope>(inst).unwrap_or(Scope::None);
        return match func.inst(inst).guard().is_always() {
            true => fences::covered(order, scope),
            false => 0,
        };
    }
    let waits = aligned.waits(func, inst);
    waits.map_or(0, |number| 1 << (fences::COUNT + number))
}

fn is_fence(func: &Function, inst: Inst) -> bool {
    func.opcode(inst).as_abstract() == Some(AbstractOp::Fence)
}

fn step(func: &Function, aligned: AlignedBarriers, inst: Inst, held: u64) -> u64 {
    let own = facts(func, aligned, inst);
    let all_fences = (1 << fences::COUNT) - 1;
    match own {
        0 if undoes(func, inst) => 0,
        0 => held,
        // It goes, or what it adds is added.
        own if held & own == own => held,
        own if is_fence(func, inst) => held & all_fences | own,
        own => own,
    }
}

/// Whether another thread could see `inst`, or be seen through it.
fn undoes(func: &Function, inst: Inst) -> bool {
    let effects = func.opcode(inst).effects();
    let silent = [
        Effects::NONE,
        Effects::VARIES,
        Effects::TERMINATOR,
        Effects::TERMINATOR.with(Effects::SIDE),
    ];
    let fixed = func.opcode(inst).as_abstract() == Some(AbstractOp::Ld)
        && matches!(func.modifier(inst), Some(Space::Param | Space::Const));
    !fixed && !silent.contains(&effects)
}
