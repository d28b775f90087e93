//! Branches around barriers for threads that have a guard.
//!
//! Lanes of a warp may come to several barriers without `.aligned` at the same time; then one is executed for all of them (`select/scattered.rs`),
//! and its guard would be read from the registers of lanes that come from elsewhere. So where a function has more than one barrier of a kind,
//! those with guards are branched around.

use super::refused;
use crate::pipeline::PhaseError;
use crate::select::scattered::{Kind, kind_for_threads};
use orias_ori::builder::Cursor;
use orias_ori::{AbstractOp, Function, Guard, Inst, Operand, Reg, SourceMods, Value};

/// Makes branches of the guards of barriers that are not alone of their kind. Linear, but for a pass over all uses for each barrier with a
/// guard and a result.
pub(super) fn expand(func: &mut Function) -> Result<(), PhaseError> {
    let mut counts = [0; Kind::COUNT];
    let mut guarded = Vec::new();
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        if let Some(kind) = kind_for_threads(func, inst) {
            counts[kind as usize] += 1;
            if !func.inst(inst).guard().is_always() {
                guarded.push((inst, kind));
            }
        }
    }
    for (inst, kind) in guarded {
        if counts[kind as usize] > 1 {
            branch_around(func, inst)?;
        }
    }
    Ok(())
}

/// Gives `inst` a block of its own, entered where its guard holds. What it keeps where not is passed to what follows.
fn branch_around(func: &mut Function, inst: Inst) -> Result<(), PhaseError> {
    let guard = func.inst(inst).guard();
    let (Some(predicate), Some(before)) = (guard.reg(), func.layout.inst_block(inst)) else {
        return Ok(());
    };
    let span = func.inst(inst).span();
    let results: Vec<Value> = func.value_defs(inst).collect();
    let kept: Vec<Value> = (func.kept(inst).iter())
        .filter_map(|operand| operand.as_value())
        .collect();
    let own = func.split_block(inst);
    let behind = match func.layout.next_inst(inst) {
        Some(next) => func.split_block(next),
        None => return Ok(()),
    };
    func.set_kept(inst, &[]);
    func.set_guard(inst, Guard::ALWAYS);
    let params: Vec<(Value, Value)> = results
        .iter()
        .map(|&result| {
            (
                result,
                func.append_block_param(behind, func.value_type(result)),
            )
        })
        .collect();
    func.map_all_uses(|reg| {
        let renamed = params
            .iter()
            .find(|(result, _)| reg.value() == Some(*result));
        renamed.map_or(reg, |&(_, param)| Reg::from(param))
    });
    let mods = match guard.is_negated() {
        true => SourceMods::NOT,
        false => SourceMods::NONE,
    };
    let mut cursor = Cursor::at_end(func, before);
    cursor.set_span(span);
    let condition = Operand::Reg {
        reg: predicate,
        mods,
    };
    let branch = cursor.build(AbstractOp::CondBr).operand(condition);
    let branch = branch.edge(own, &[]).edge(behind, &kept);
    branch.finish().map_err(refused)?;
    let mut cursor = Cursor::at_end(func, own);
    cursor.set_span(span);
    let jump = cursor.build(AbstractOp::Br).edge(behind, &results);
    jump.finish().map_err(refused)?;
    Ok(())
}
