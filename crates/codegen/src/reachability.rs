//! Unreachable code elimination: blocks that no path from the entry reaches. A walk over the graph, twice where some are not reached.

use orias_ori::{Block, Function, Inst, Operand};

/// Marks `pending` and what can be reached from there, along edges and to where `named` says a block leads besides.
fn reach(
    function: &Function,
    reached: &mut [bool],
    pending: &mut Vec<Block>,
    named: impl Fn(Block, &mut Vec<Block>),
) {
    while let Some(block) = pending.pop() {
        if !std::mem::replace(&mut reached[block.as_u32() as usize], true) {
            pending.extend(function.successors(block));
            named(block, pending);
        }
    }
}

/// Takes out blocks that cannot be reached and that `keep` does not name. Returns whether there were any.
///
/// A block that a reachable instruction names without jumping to it, as regions name the block where lanes meet, counts as
/// reached.
pub(crate) fn remove_unreachable(
    function: &mut Function,
    keep: impl Fn(&Function, Block) -> bool,
) -> bool {
    let mut reached = vec![false; function.block_count()];
    let mut pending: Vec<Block> = function
        .blocks()
        .filter(|&block| Some(block) == function.entry() || keep(function, block))
        .collect();
    reach(function, &mut reached, &mut pending, |_, _| ());
    if function
        .blocks()
        .all(|block| reached[block.as_u32() as usize])
    {
        return false;
    }
    pending.extend(
        function
            .blocks()
            .filter(|block| reached[block.as_u32() as usize]),
    );
    reached.fill(false);
    reach(function, &mut reached, &mut pending, |block, pending| {
        for inst in function.block_insts(block) {
            let operands = function.operands(inst).iter();
            pending.extend(operands.filter_map(|operand| match operand {
                Operand::Block(block) => Some(*block),
                _ => None,
            }));
        }
    });
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
