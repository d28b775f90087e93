//! Blocks that no path from the entry reaches.

use super::Keep;
use orias_ori::{Block, Function, Inst, Operand};

/// Takes out blocks that cannot be reached. Returns whether there were any.
///
/// A block that a reachable instruction names without jumping to it, as regions name the block where lanes meet, counts as
/// reached.
pub(super) fn remove_unreachable(function: &mut Function, keep: &Keep<'_>) -> bool {
    let mut reached = vec![false; function.block_count()];
    let mut pending: Vec<Block> = function
        .blocks()
        .filter(|&block| Some(block) == function.entry() || keep.block(function, block))
        .collect();
    while let Some(block) = pending.pop() {
        if std::mem::replace(&mut reached[block.as_u32() as usize], true) {
            continue;
        }
        pending.extend(function.successors(block));
        for inst in function.block_insts(block) {
            pending.extend(
                function
                    .operands(inst)
                    .iter()
                    .filter_map(|operand| match operand {
                        Operand::Block(block) => Some(*block),
                        _ => None,
                    }),
            );
        }
    }
    let unreachable: Vec<Block> = function
        .blocks()
        .filter(|block| !reached[block.as_u32() as usize])
        .collect();
    for &block in &unreachable {
        let insts: Vec<Inst> = function.block_insts(block).collect();
        for inst in insts {
            function.remove_inst(inst);
        }
        function.layout.remove_block(block);
    }
    !unreachable.is_empty()
}
