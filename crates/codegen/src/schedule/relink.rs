//! Writing a new order of a block back.

use super::graph::Graph;
use orias_ori::{AbstractOp, Block, Function, Inst};

/// The instructions of an order, with values that may be anything right before whoever reads them first.
pub(super) fn undefs_late(func: &Function, graph: &Graph, order: &[u32]) -> Vec<Inst> {
    let is_undef = |node: usize| {
        let opcode = func.opcode(graph.nodes[node].inst);
        opcode.as_abstract() == Some(AbstractOp::Undef)
    };
    let mut placed = vec![false; graph.len()];
    let mut insts = Vec::with_capacity(order.len());
    let last = order.last().copied();
    for &node in order {
        let node = node as usize;
        if is_undef(node) && Some(node as u32) != last {
            continue;
        }
        for edge in graph.preds(node) {
            let from = edge.from as usize;
            if is_undef(from) && !std::mem::replace(&mut placed[from], true) {
                insts.push(graph.nodes[from].inst);
            }
        }
        if Some(node as u32) == last {
            // Read only in other blocks.
            for other in (0..graph.len()).filter(|&other| is_undef(other)) {
                if !std::mem::replace(&mut placed[other], true) {
                    insts.push(graph.nodes[other].inst);
                }
            }
        }
        placed[node] = true;
        insts.push(graph.nodes[node].inst);
    }
    insts
}

/// Puts the instructions of `block` into this order.
pub fn relink(func: &mut Function, block: Block, order: &[Inst]) {
    for &inst in order {
        func.layout.remove_inst(inst);
    }
    for &inst in order {
        func.layout.append_inst(inst, block);
    }
}
