//! Barriers that all threads of a block come to equally often and in the same order.
//!
//! A barrier counts arrivals, wherever they come from: a thread that waits at it twice may meet others that wait for it in two other places. So one of two can go only if no thread comes to
//! that barrier in any other way. It is sure where every place that names the barrier is in a block that every way through the kernel goes through (it post-dominates the entry) and that is in no loop,
//! without a guard: then each thread comes to each of these places exactly once, in the order in which they dominate each other. Threads that leave early break it, as their way
//! goes round the rest; so does a call, unless what is called does not synchronise; and so does a barrier whose number is not known.
//!
//! Cost: one post-dominator tree, one loop nest and a walk over the instructions.

use orias_ori::analysis::{DepthFirst, FlowGraph, LoopNest, PostDominatorTree};
use orias_ori::{AbstractOp, Block, Effects, Function, FunctionKind, Inst, Operand};

/// Barriers of a thread block that have a number.
pub(crate) const BARRIERS: u32 = 16;

/// Which barriers all threads come to alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AlignedBarriers {
    /// The thread block's, one bit each.
    numbered: u16,
    /// Those of all lanes of a warp.
    warp: bool,
}

impl AlignedBarriers {
    /// Finds them in `func`. `calls_sync`: whether functions that lie elsewhere may synchronise.
    pub(crate) fn of(func: &Function, calls_sync: bool) -> Self {
        let mut found = Self::default();
        if func.kind != FunctionKind::Entry || func.entry().is_none() {
            return found;
        }
        let barriers: Vec<(Block, Inst)> = func
            .blocks()
            .flat_map(|block| func.block_insts(block).map(move |inst| (block, inst)))
            .filter(|&(_, inst)| is_barrier(func, inst))
            .collect();
        if barriers.is_empty() || may_sync_in_calls(func, calls_sync) {
            return found;
        }
        let graph = FlowGraph::of(func);
        let walk = DepthFirst::new(&graph);
        let nest = LoopNest::new(&graph, &walk);
        let ends = PostDominatorTree::new(&graph);
        found = Self {
            numbered: u16::MAX,
            warp: true,
        };
        for (block, inst) in barriers {
            let once = ends.post_dominates(block, graph.entry())
                && nest.innermost(block).is_none()
                && func.inst(inst).guard().is_always();
            if once {
                continue;
            }
            match (func.opcode(inst).as_abstract(), number(func, inst)) {
                (Some(AbstractOp::BarWarp), _) => found.warp = false,
                (_, Some(number)) => found.numbered &= !(1 << number),
                (_, None) => found.numbered = 0,
            }
        }
        found
    }

    /// The fact that `inst` waits for everyone, as a number from 0 to [`BARRIERS`]; nothing if that is not sure.
    pub(crate) fn waits(self, func: &Function, inst: Inst) -> Option<u32> {
        let sure = func.inst(inst).guard().is_always();
        match func.opcode(inst).as_abstract() {
            Some(AbstractOp::Bar) if sure && func.operands(inst).get(1) == Some(&Operand::None) => {
                number(func, inst).filter(|&number| self.numbered >> number & 1 == 1)
            }
            Some(AbstractOp::BarWarp) if sure && self.warp => match func.operands(inst) {
                &[Operand::Imm(mask)] if mask.bits() as u32 == u32::MAX => Some(BARRIERS),
                _ => None,
            },
            _ => None,
        }
    }
}

/// The number of a barrier that has one.
fn number(func: &Function, inst: Inst) -> Option<u32> {
    let at = func.result_count(inst);
    match func.operands(inst).get(at) {
        Some(Operand::Imm(number)) => u32::try_from(number.bits())
            .ok()
            .filter(|&it| it < BARRIERS),
        _ => None,
    }
}

fn is_barrier(func: &Function, inst: Inst) -> bool {
    use AbstractOp as A;
    matches!(
        func.opcode(inst).as_abstract(),
        Some(A::Bar | A::BarArrive | A::BarRed | A::BarRedPopc | A::BarWarp)
    )
}

/// Functions that lie elsewhere: all that a whole program may call without defining them.
const ELSEWHERE: [&str; 4] = ["vprintf", "malloc", "free", "__assertfail"];

/// Whether a call may come to a barrier.
fn may_sync_in_calls(func: &Function, calls_sync: bool) -> bool {
    let mut insts = func.blocks().flat_map(|block| func.block_insts(block));
    insts.any(|inst| {
        let elsewhere = || match func.operands(inst).get(func.result_count(inst)) {
            Some(&Operand::Symbol { symbol, .. }) => ELSEWHERE.contains(&func.symbol_name(symbol)),
            _ => false,
        };
        func.opcode(inst).effects().intersects(Effects::CALL) && (calls_sync || !elsewhere())
    })
}
