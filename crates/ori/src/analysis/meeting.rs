//! What operations need of the lanes of their warp, and where lanes may come to a block at different times.
//!
//! Regions bring lanes together that parted at a branch, but not for good: lanes that wait for others in a loop yield, and those that wait
//! for them at the end of a region go on; operations on the lanes of a mask let those of other masks go on by themselves. Behind these the
//! lanes of a warp are *in parts* until an operation on all of them brings them together. What they load there from one address is what
//! each part finds when it comes.
//!
//! **Algorithm.** Forward data flow over one bit, its union over the edges. Cost: linear.

use super::flow::FlowGraph;
use super::loops::LoopNest;
use crate::operation::{Aligned, Order};
use crate::{AbstractOp, Block, Function, Inst, Operand};

/// What an operation needs of the lanes of its warp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaneNeeds {
    /// Nothing.
    Nothing,
    /// All of them together.
    AllLanes,
    /// Those of a mask together.
    SomeLanes {
        /// Whether lanes of different masks are apart then.
        parts: bool,
    },
    /// Those that come to it, together: a barrier of the thread block that lanes of one warp may wait at in several places. The chip counts
    /// a warp as soon as part of it comes.
    Threads,
}

impl LaneNeeds {
    /// What `inst` needs.
    pub fn of(func: &Function, inst: Inst) -> Self {
        use AbstractOp as A;
        let Some(op) = func.opcode(inst).as_abstract() else {
            return Self::Nothing;
        };
        match op {
            A::Bar | A::BarArrive | A::BarRed | A::BarRedPopc => {
                match func.modifier::<Aligned>(inst) {
                    Some(Aligned::Aligned) => Self::AllLanes,
                    _ => Self::Threads,
                }
            }
            A::Ldmatrix | A::Stmatrix | A::Movmatrix => Self::AllLanes,
            _ => match lane_mask(func, inst) {
                None => Self::Nothing,
                Some(mask) if names_all_lanes(func, mask) => Self::AllLanes,
                Some(_) => Self::SomeLanes {
                    parts: matches!(op, A::BarWarp | A::Shfl),
                },
            },
        }
    }
}

/// The mask of an operation on the lanes of a mask.
pub fn lane_mask(func: &Function, inst: Inst) -> Option<Operand> {
    use AbstractOp as A;
    let place = match func.opcode(inst).as_abstract()? {
        A::BarWarp | A::Elect => 0,
        A::VotePred | A::Ballot | A::MatchLanes | A::Redux => 1,
        A::Shfl => 3,
        _ => return None,
    };
    func.operands(inst)
        .get(func.result_count(inst) + place)
        .copied()
}

/// Whether a mask is known to name all lanes.
pub fn names_all_lanes(func: &Function, mask: Operand) -> bool {
    let number = |operand: Operand| match operand {
        Operand::Imm(imm) => imm.bits() as u32 == u32::MAX,
        _ => false,
    };
    let moved = mask.as_value().and_then(|value| func.defining_inst(value));
    number(mask)
        || moved.is_some_and(|inst| {
            func.opcode(inst).as_abstract() == Some(AbstractOp::Mov)
                && func.inst(inst).guard().is_always()
                && number(func.operands(inst)[1])
        })
}

/// Whether what `inst` reads may be what another thread wrote in the meantime: what a loop must read that waits for another thread.
pub fn sees_other_threads(func: &Function, inst: Inst) -> bool {
    let ordered = func
        .modifier::<Order>(inst)
        .is_some_and(|order| order != Order::Weak);
    ordered || func.opcode(inst).as_abstract() == Some(AbstractOp::Atom)
}

/// Where lanes may come in parts.
pub(super) struct Parts {
    /// By block: at its start.
    at_start: Vec<bool>,
}

impl Parts {
    /// Those of `func`, on the abstract level.
    pub(super) fn new(func: &Function, graph: &FlowGraph, nest: &LoopNest) -> Self {
        let mut parts = Self {
            at_start: vec![false; graph.block_count()],
        };
        let leave = |block, parted| walk(func, nest, block, parted, |_, _| {});
        let mut pending: Vec<Block> = func.blocks().filter(|&block| leave(block, false)).collect();
        while let Some(block) = pending.pop() {
            for &next in graph.succs(block) {
                let known = &mut parts.at_start[next.as_u32() as usize];
                if !std::mem::replace(known, true) && leave(next, true) {
                    pending.push(next);
                }
            }
        }
        parts
    }

    /// Tells `each` of every operation of `block` whether lanes may come to it in parts.
    pub(super) fn walk(
        &self,
        func: &Function,
        nest: &LoopNest,
        block: Block,
        each: impl FnMut(Inst, bool),
    ) {
        let parted = self.at_start[block.as_u32() as usize];
        walk(func, nest, block, parted, each);
    }
}

/// Walks through `block`, which lanes come to in parts if `parted`; returns whether they leave it in parts.
fn walk(
    func: &Function,
    nest: &LoopNest,
    block: Block,
    mut parted: bool,
    mut each: impl FnMut(Inst, bool),
) -> bool {
    use AbstractOp as A;
    let in_loop = nest.innermost(block).is_some();
    for inst in func.block_insts(block) {
        each(inst, parted);
        match LaneNeeds::of(func, inst) {
            LaneNeeds::AllLanes if func.inst(inst).guard().is_always() => parted = false,
            LaneNeeds::SomeLanes { parts } => parted |= parts,
            _ => {
                let yields = matches!(
                    func.opcode(inst).as_abstract(),
                    Some(A::Call | A::Nanosleep)
                );
                parted |= yields || in_loop && sees_other_threads(func, inst);
            }
        }
    }
    parted
}
