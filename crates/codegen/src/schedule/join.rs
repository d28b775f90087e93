//! Block merging: straight-line blocks become one.
//!
//! Labels of the source that nobody jumps to leave blocks that only fall into each other. The scheduler moves instructions within
//! blocks, so every such seam costs it. A block is joined to the one before it if that one does nothing but fall into it, nobody else
//! does, and nobody names it; a block that ends with BSYNC or a collective operation stays as it is, since lanes go on behind it.

use crate::tail::goes_on_elsewhere;
use cranelift_entity::SecondaryMap;
use orias_ori::{AbstractOp, Block, Function, Inst, Operand, Reg, Value};

/// Joins blocks; linear.
pub fn join_blocks(func: &mut Function) {
    let mut entries: SecondaryMap<Block, u32> = SecondaryMap::new();
    for block in func.blocks() {
        for successor in func.successors(block) {
            entries[successor] += 1;
        }
        for inst in func.block_insts(block) {
            for operand in func.operands(inst) {
                if let Operand::Block(named) = operand {
                    entries[*named] += 2;
                }
            }
        }
    }
    // What each parameter of a joined block stands for.
    let mut renamed: SecondaryMap<Value, Option<Value>> = SecondaryMap::new();
    let mut any_renamed = false;
    let mut block = func.entry();
    while let Some(at) = block {
        let Some((end, next)) = falls_into(func, at).filter(|&(_, next)| {
            entries[next] == 1 && next != at && func.layout.next_block(at) == Some(next)
        }) else {
            block = func.layout.next_block(at);
            continue;
        };
        let edge = func.edges(end)[0];
        let params = func.block_params(next).to_vec();
        let args = func.edge_args(edge).to_vec();
        for (param, argument) in params.into_iter().zip(args) {
            renamed[param] = Some(argument);
            any_renamed = true;
        }
        func.remove_inst(end);
        if let Some(first) = func.layout.first_inst(next) {
            func.layout.move_tail(first, at);
        }
        func.layout.remove_block(next);
    }
    if any_renamed {
        func.map_all_uses(|reg| match reg.value() {
            Some(mut value) => {
                while let Some(known) = renamed[value] {
                    value = known;
                }
                Reg::from(value)
            }
            None => reg,
        });
    }
}

/// The `next` that ends `block`, and where it leads.
fn falls_into(func: &Function, block: Block) -> Option<(Inst, Block)> {
    let end = func.layout.last_inst(block)?;
    if func.opcode(end).as_abstract() != Some(AbstractOp::FallThrough) {
        return None;
    }
    let before = func.layout.prev_inst(end);
    if before.is_some_and(|inst| goes_on_elsewhere(func, inst)) {
        return None;
    }
    let edge = *func.edges(end).first()?;
    Some((end, func.edge_target(edge)))
}
