//! Block merging: straight-line code in one block.
//!
//! Where a block jumps to one that nobody else comes to, the two are merged: what the second does follows the first, and its parameters are
//! the jump's arguments. Later phases work on blocks: they find more to share, to order and to choose in one than in two.
//!
//! Cost: linear.

use orias_ori::{AbstractOp, Block, Function, Inst, Operand, Reg, Value};
use rustc_hash::FxHashMap;

/// Merges the blocks of `function`, except those that are to be kept as they are. Returns whether there were any.
pub(crate) fn merge(function: &mut Function, keep: impl Fn(&Function, Block) -> bool) -> bool {
    let mut entries = vec![0_u32; function.block_count()];
    if let Some(entry) = function.entry() {
        entries[entry.as_u32() as usize] = 1;
    }
    for block in function.blocks() {
        for next in function.successors(block) {
            entries[next.as_u32() as usize] += 1;
        }
        // A block that an operation names keeps its place.
        for operand in function
            .block_insts(block)
            .flat_map(|inst| function.operands(inst))
        {
            if let Operand::Block(named) = operand {
                entries[named.as_u32() as usize] += 1;
            }
        }
    }
    let mut renamed: FxHashMap<Value, Value> = FxHashMap::default();
    let blocks: Vec<Block> = function.blocks().collect();
    let mut merged = vec![false; function.block_count()];
    for block in blocks {
        if merged[block.as_u32() as usize] {
            continue;
        }
        while let Some((jump, next)) = only_way(function, block) {
            if entries[next.as_u32() as usize] != 1
                || next == block
                || keep(function, next)
                || keep(function, block)
            {
                break;
            }
            let edge = function.edges(jump)[0];
            let args = function.edge_args(edge).to_vec();
            renamed.extend(function.block_params(next).iter().copied().zip(args));
            function.remove_inst(jump);
            for index in (0..function.block_params(next).len()).rev() {
                function.remove_block_param(next, index, &[]);
            }
            let insts: Vec<Inst> = function.block_insts(next).collect();
            for inst in insts {
                function.layout.remove_inst(inst);
                function.layout.append_inst(inst, block);
            }
            function.layout.remove_block(next);
            merged[next.as_u32() as usize] = true;
        }
    }
    rename(function, &renamed);
    merged.contains(&true)
}

/// The jump at the end of `block`, and where it leads.
fn only_way(function: &Function, block: Block) -> Option<(Inst, Block)> {
    let jump = function.terminator(block)?;
    let is_jump = function.opcode(jump).as_abstract() == Some(AbstractOp::Br)
        && function.inst(jump).guard().is_always();
    let &[edge] = function.edges(jump) else {
        return None;
    };
    is_jump.then(|| (jump, function.edge_target(edge)))
}

/// Puts values in the place of parameters that are no more.
fn rename(function: &mut Function, renamed: &FxHashMap<Value, Value>) {
    if renamed.is_empty() {
        return;
    }
    let last = |mut value: Value| {
        while let Some(&other) = renamed.get(&value) {
            value = other;
        }
        value
    };
    function.map_all_uses(|reg| reg.value().map_or(reg, |value| Reg::from(last(value))));
}
