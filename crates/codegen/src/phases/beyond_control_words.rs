//! OriCalcDependantTex (91) and ApplyPostRegAllocWars (105): what control words cannot express.
//!
//! **91** marks what depends on textures, for a phase 114 that gives their results barriers of their own. That is for targets on which textures end in a way that no barrier of the control word
//! tells; where one does, 115 treats them as every operation of variable latency, and there is nothing to mark ([`has_untold_textures`]).
//!
//! **105** separates a write from an earlier instruction that still reads the register, which allocation has given to both. Where the reader tells by a read barrier, and the writer can wait for it, 115 does
//! that in their control words. What is left are readers that tell nobody and writers that cannot wait ([`has_unguarded_reads`]). On sm_90 the only readers of that kind are the matrix products of warpgroups, whose waits are
//! WarpgroupWaits (10008), at every level; for others the row is closed.
//!
//! Both ask the tables, so a target that needs the phases cannot be added without them.

use crate::pipeline::{Context, PhaseError};
use orias_machine::Machine;
use orias_machine::timing::{Completion, Timing};
use orias_ori::Function;
use orias_sass::{Access, Mnemonic, Op, Target};

/// Whether textures or surfaces end on `target` without a barrier that tells.
pub fn has_untold_textures(target: Target) -> bool {
    let machine = Machine::of(target);
    let untold = |timing: Timing| timing.texture && !is_told(timing.completion);
    operations(machine, untold).next().is_some()
}

/// Whether a register may be overwritten on `target` too early in spite of anything that control words say.
pub fn has_unguarded_reads(target: Target) -> bool {
    let machine = Machine::of(target);
    let is_silent =
        |timing: Timing| !is_told(timing.completion) && timing.completion != Completion::Fixed;
    let mut silent = operations(machine, is_silent);
    let writes = |op: Op| {
        let mut slots = op.row().slots.iter();
        slots.any(|slot| slot.access != Access::Read)
    };
    silent.any(|op| !is_warpgroup_product(op)) || machine.operations_that_never_wait().any(writes)
}

/// The operations of classes with such a timing. Classes are few, operations thousands, and this is asked for each function.
fn operations(
    machine: &'static Machine,
    wanted: impl Fn(Timing) -> bool,
) -> impl Iterator<Item = Op> {
    let classes = machine.classes().map(|(class, _)| class);
    let classes = classes.filter(move |&class| wanted(machine.class_timing(class)));
    classes.flat_map(|class| machine.operations_of(class))
}

/// Whether a barrier of the control word tells when an operation has read its sources and when its result is there.
const fn is_told(completion: Completion) -> bool {
    matches!(completion, Completion::Variable | Completion::InOrder(_))
}

/// What WarpgroupWaits looks after.
fn is_warpgroup_product(op: Op) -> bool {
    use Mnemonic::{BGMMA, HGMMA, IGMMA, QGMMA};
    matches!(op.mnemonic(), HGMMA | IGMMA | QGMMA | BGMMA)
}

/// Runs phase 91, on a target that needs it.
pub fn mark_texture_results(_: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    Err(PhaseError::Unsupported(
        "textures whose end no barrier tells".to_owned(),
    ))
}

/// Runs phase 105, on a target that needs it.
pub fn apply_allocation_wars(_: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    Err(PhaseError::Unsupported(
        "registers that are read late without a barrier that tells".to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_words_express_every_wait_of_hopper_but_those_of_matrix_products() {
        for target in [Target::Sm90, Target::Sm90a] {
            assert!(!has_untold_textures(target));
            assert!(!has_unguarded_reads(target));
        }
        let machine = Machine::of(Target::Sm90a);
        let textures = operations(machine, |timing| timing.texture);
        assert!(textures.count() > 10);
        // There is something that neither row sees to.
        let products: Vec<Op> = Op::all()
            .filter(|&op| is_warpgroup_product(op) && machine.has(op))
            .collect();
        let told = |op: &&Op| {
            machine
                .timing(**op)
                .is_some_and(|it| is_told(it.completion))
        };
        assert!(!products.is_empty());
        assert_eq!(products.iter().find(told), None);
        // And something that cannot wait, but writes no register.
        assert!(!machine.issue_of_operation(Op::WARPGROUP_DEPBAR).waits);
    }
}
