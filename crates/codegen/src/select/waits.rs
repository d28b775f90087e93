//! Where lanes may wait for what other lanes of their warp do.
//!
//! In a loop that lanes leave at different times, some of them may go around until another one has written something: a lock, a
//! ticket, a flag. The other lane may be behind the loop, so those that go around have to let it run: such blocks begin with YIELD,
//! as ptxas's do. Whether a loop waits is seen from what decides its branches: a load that another thread may change (volatile,
//! relaxed, acquiring), or what an atomic operation found.
//!
//! On the chip, YIELD also lets lanes go on that wait for their region's others at BSYNC. Behind it a warp may be in parts until it
//! is brought together again, whatever regions say: a barrier of the thread block after such a loop counted warps of which some
//! lanes were still in the loop. [`Waits::parted`] is where that may be so.
//!
//! **Algorithm.** Backwards from the conditions of branches in such loops to everything they are made from; forwards over the
//! graph from the blocks found. Cost: linear.

use cranelift_entity::{EntitySet, SecondaryMap};
use orias_ori::analysis::{Divergence, FlowGraph, LoopNest};
use orias_ori::operation::{AbstractOp, Order};
use orias_ori::{Block, Function, Inst, Value, ValueDef};

/// What is known of waiting.
pub(super) struct Waits {
    /// Blocks that begin with YIELD.
    pub(super) yielding: SecondaryMap<Block, bool>,
    /// Blocks that a warp may come to in parts because of that.
    pub(super) parted: SecondaryMap<Block, bool>,
}

/// Looks for loops in which lanes may wait.
pub(super) fn find(
    func: &Function,
    graph: &FlowGraph,
    nest: &LoopNest,
    divergence: &Divergence,
) -> Waits {
    let spins = |block: Block| {
        let mut around = nest.innermost(block);
        while let Some(each) = around {
            if divergence.is_divergent_loop(each) {
                return true;
            }
            around = nest.parent(each);
        }
        false
    };
    let spinning: Vec<Block> = func.blocks().filter(|&block| spins(block)).collect();
    let mut waits = Waits {
        yielding: SecondaryMap::new(),
        parted: SecondaryMap::new(),
    };
    let seen: Vec<(Block, Inst)> = spinning
        .iter()
        .flat_map(|&block| func.block_insts(block).map(move |inst| (block, inst)))
        .filter(|&(_, inst)| sees_others(func, inst))
        .collect();
    if seen.is_empty() {
        return waits;
    }
    let deciding = deciding_values(func, graph, &spinning);
    for (block, inst) in seen {
        let decides = func.value_defs(inst).any(|value| deciding.contains(value));
        waits.yielding[block] |= decides;
    }
    let mut pending: Vec<Block> = spinning;
    pending.retain(|&block| waits.yielding[block]);
    while let Some(block) = pending.pop() {
        if !std::mem::replace(&mut waits.parted[block], true) {
            pending.extend_from_slice(graph.succs(block));
        }
    }
    waits
}

/// Whether what `inst` reads may be what another thread wrote in the meantime.
fn sees_others(func: &Function, inst: Inst) -> bool {
    let ordered = func
        .modifier::<Order>(inst)
        .is_some_and(|order| order != Order::Weak);
    ordered || func.opcode(inst).as_abstract() == Some(AbstractOp::Atom)
}

/// Everything that the branches at the end of some blocks are decided by.
fn deciding_values(func: &Function, graph: &FlowGraph, blocks: &[Block]) -> EntitySet<Value> {
    let mut deciding = EntitySet::new();
    let mut pending: Vec<Value> = Vec::new();
    for &block in blocks {
        if let Some(last) = func.terminator(block) {
            let conditions = func.operands(last).iter();
            pending.extend(conditions.filter_map(|operand| operand.as_value()));
        }
    }
    while let Some(value) = pending.pop() {
        if !deciding.insert(value) {
            continue;
        }
        match func.value_def(value) {
            ValueDef::Inst(inst, _) => pending.extend(func.value_uses(inst)),
            ValueDef::Param(block, index) => {
                for &from in graph.preds(block) {
                    for &edge in func.successor_edges(from) {
                        if func.edge_target(edge) == block {
                            let args = func.edge_args(edge);
                            pending.extend(args.get(usize::from(index)));
                        }
                    }
                }
            }
            ValueDef::None => {}
        }
    }
    deciding
}
