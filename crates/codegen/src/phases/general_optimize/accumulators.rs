//! Accumulators that take no part: a product of a warp group that starts from zero does not read what was there.
//!
//! PTX names the accumulator of such a product all the same, and in a loop those are registers that the product of the iteration before has left: parameters of
//! the loop that nobody needs, and that nobody could know to be needless as long as the product reads them.

use super::Keep;
use super::branches::known_predicate;
use orias_ori::{AbstractMods, AbstractOp, Function, Inst, Opcode, Operand, Value};

/// Where operands of a product are: its accumulator, and whether it takes part.
const SUM: usize = 0;
const SCALE: usize = 4;

/// Lets products that start from zero read an accumulator that may be anything. Returns whether there were any that read another.
pub(super) fn forget(function: &mut Function, keep: &Keep<'_>) -> bool {
    let mut found: Vec<(Inst, Value)> = Vec::new();
    for block in function.blocks() {
        for inst in function.block_insts(block) {
            let opcode = function.opcode(inst);
            if matches!(
                opcode,
                Opcode::Abstract(AbstractOp::Wgmma | AbstractOp::WgmmaSparse)
            ) && let Some(sum) = unread_sum(function, inst)
                && !keep.inst(function, inst)
            {
                found.push((inst, sum));
            }
        }
    }
    for &(inst, sum) in &found {
        let anything = function.create_value(function.value_type(sum));
        let operands = [Operand::from(anything)];
        let undef = function.create_abstract(AbstractOp::Undef, AbstractMods::NONE, 1, &operands);
        function.set_span(undef, function.inst(inst).span());
        function.layout.insert_inst_before(undef, inst);
        let at = function.result_count(inst) + SUM;
        function.set_operand(inst, at, anything.into());
    }
    !found.is_empty()
}

/// The accumulator of a product that starts from zero, unless it may be anything as it is.
fn unread_sum(function: &Function, inst: Inst) -> Option<Value> {
    let sources = &function.operands(inst)[function.result_count(inst)..];
    let sum = sources.get(SUM)?.as_value()?;
    let adds = known_predicate(function, *sources.get(SCALE)?)?;
    let by = function.defining_inst(sum);
    let undefined = by.is_some_and(|by| function.opcode(by) == Opcode::Abstract(AbstractOp::Undef));
    (!adds && !undefined && function.inst(inst).guard().is_always()).then_some(sum)
}
