//! That uniform registers hold what lanes elsewhere have yet to read. Names on the ways of one lane do not tell: the register exists once for the
//! warp, and lanes in another arm of a branch write it, too.

use crate::pipeline::PhaseError;
use cranelift_entity::{EntityRef, EntitySet};
use orias_ori::analysis::{DefUse, DepthFirst, Divergence, FlowGraph, LoopNest, RegisterSet};
use orias_ori::{AbstractOp, Block, Class, Function, Opcode, Value, ValueDef, print_inst};

/// Checks that no block that may run with part of the warp writes a uniform register in which values come from another block: lanes elsewhere
/// may have yet to read it.
pub(super) fn keeps_what_others_read(
    before: &Function,
    after: &Function,
) -> Result<(), PhaseError> {
    let graph = FlowGraph::of(before);
    let walk = DepthFirst::new(&graph);
    let nest = LoopNest::new(&graph, &walk);
    let divergence = Divergence::new(before, &graph, &walk, &nest, &DefUse::new(before));
    let of_warps = |class: Class| class.is_uniform() && class != Class::B;
    let comes_from_elsewhere = |value: Value, block: Block| match before.value_def(value) {
        ValueDef::Inst(inst, _) => {
            before.layout.inst_block(inst) != Some(block)
                && before.opcode(inst) != Opcode::Abstract(AbstractOp::Undef)
        }
        ValueDef::Param(..) => true,
        ValueDef::None => false,
    };
    let remaining = |block: Block| {
        let insts = before.block_insts(block);
        insts.filter(|&inst| after.layout.inst_block(inst).is_some())
    };
    let mut carried = RegisterSet::default();
    let mut carrying: EntitySet<Value> = EntitySet::new();
    for block in before.blocks() {
        // What was brought back or made again in the block comes from nowhere else.
        let mut own = RegisterSet::default();
        for inst in after.block_insts(block) {
            if inst.index() < before.inst_count() {
                for (was, is) in before.uses(inst).zip(after.uses(inst)) {
                    if let (Some(value), Some(register)) = (was.value(), is.phys())
                        && of_warps(register.class())
                        && !register.units().all(|unit| own.intersects(unit))
                        && comes_from_elsewhere(value, block)
                    {
                        carried.insert(register);
                        carrying.insert(value);
                    }
                }
            }
            if after.inst(inst).guard().is_always() {
                after.for_each_def(inst, |reg| {
                    if let Some(register) = reg.phys() {
                        own.insert(register);
                    }
                });
            }
        }
    }
    for block in before.blocks().filter(|&it| divergence.is_partial(it)) {
        for inst in remaining(block) {
            // What is carried itself breaks the rule before allocation.
            if before
                .value_defs(inst)
                .any(|value| carrying.contains(value))
            {
                continue;
            }
            let mut lost = false;
            after.for_each_def(inst, |reg| {
                let register = reg.phys().filter(|reg| of_warps(reg.class()));
                lost |= register.is_some_and(|register| carried.intersects(register));
            });
            if lost {
                return Err(PhaseError::Broken {
                    at: print_inst(after, inst),
                    what: "writes, with part of the warp, a uniform register that other lanes read"
                        .into(),
                });
            }
        }
    }
    Ok(())
}
