//! Saturation as part of arithmetic: `cvt.sat.f32.f32` of a sum or product of singles that nobody else reads is done by the instruction that makes it. Exponentials of
//! CUDA's library limit their argument so.
//!
//! Rounding comes first in both, so the number is the same; what the conversion flushes the arithmetic must flush, too. One look at each conversion: linear.

use cranelift_entity::EntitySet;
use orias_ori::analysis::DefUse;
use orias_ori::operation::{Ftz, Round, Sat, Scalar, SourceType};
use orias_ori::{AbstractMods, AbstractOp, Function, Inst, Operation};

/// Lets arithmetic saturate what is only read saturated; whether there was something.
pub(super) fn saturate_at_once(func: &mut Function) -> bool {
    let conversions: Vec<Inst> = (func.blocks().flat_map(|block| func.block_insts(block)))
        .filter(|&inst| is_saturation(func, inst))
        .collect();
    if conversions.is_empty() {
        return false;
    }
    let chains = DefUse::new(func);
    let mut taken: EntitySet<Inst> = EntitySet::new();
    for conversion in conversions {
        let Some((inst, op, mods)) = saturated(func, &chains, conversion) else {
            continue;
        };
        if taken.contains(inst) {
            continue;
        }
        taken.insert(inst);
        let result = func.operands(conversion)[0];
        let mut operands = func.operands(inst).to_vec();
        operands[0] = result;
        func.remove_inst(conversion);
        func.replace_with_abstract(inst, op, mods, 1, &operands);
    }
    !taken.is_empty()
}

/// Whether `inst` always brings a single into the range from zero to one, and does nothing else.
fn is_saturation(func: &Function, inst: Inst) -> bool {
    func.opcode(inst).as_abstract() == Some(AbstractOp::Cvt)
        && func.inst(inst).guard().is_always()
        && func.modifier::<Sat>(inst) == Some(Sat::Sat)
        && func.modifier::<Scalar>(inst) == Some(Scalar::F32)
        && func.modifier::<SourceType>(inst) == Some(SourceType::from(Scalar::F32))
        && matches!(
            func.modifier::<Round>(inst),
            None | Some(Round::Default | Round::Rn)
        )
}

/// The arithmetic that can do what `conversion` does, with what it becomes.
fn saturated(
    func: &Function,
    chains: &DefUse,
    conversion: Inst,
) -> Option<(Inst, AbstractOp, AbstractMods)> {
    use AbstractOp::{Fadd, Ffma, Fmul, Fsub};
    let &[_, source] = func.operands(conversion) else {
        return None;
    };
    let value = source.as_value().filter(|_| source.mods().is_empty())?;
    let inst = func.defining_inst(value)?;
    let Operation::Abstract(op @ (Fadd | Fsub | Fmul | Ffma), mods) = func.inst(inst).operation()
    else {
        return None;
    };
    let flushes = |inst: Inst| func.modifier::<Ftz>(inst) == Some(Ftz::Ftz);
    let fits = func.inst(inst).guard().is_always()
        && chains.uses(value).len() == 1
        && func.modifier::<Scalar>(inst) == Some(Scalar::F32)
        && func.modifier::<Sat>(inst) == Some(Sat::Wrap)
        && (flushes(inst) || !flushes(conversion));
    let mods = op.row().with_modifier(mods, Sat::Sat)?;
    fits.then_some((inst, op, mods))
}
