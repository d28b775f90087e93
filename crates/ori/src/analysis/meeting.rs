//! Convergence requirements: what operations need of the lanes of their warp, and where lanes may come to a block at different times.
//!
//! Regions bring lanes together that parted at a branch, but not for good: lanes that wait for others in a loop yield, and those that wait
//! for them at the end of a region go on; operations on the lanes of a mask let those of other masks go on by themselves. Behind these the
//! lanes of a warp are *in parts* until an operation on all of them brings them together. What they load there from one address is what
//! each part finds when it comes.
//!
//! **Algorithm.** Forward data flow over one bit, its union over the edges; again while more regions turn out to be opened in parts. Cost: linear,
//! times the depth of regions that depend on one another so, which is small.

use super::flow::FlowGraph;
use crate::operation::{Aligned, Order};
use crate::{AbstractOp, Block, Function, Inst, Operand, Value};
use cranelift_entity::EntitySet;

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
            A::Ldmatrix
            | A::Stmatrix
            | A::Movmatrix
            | A::Mma
            | A::MmaSparse
            | A::Wgmma
            | A::WgmmaSparse
            | A::WgmmaFence
            | A::WgmmaCommit
            | A::WgmmaWait
            | A::ClusterArrive
            | A::ClusterWait => Self::AllLanes,
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

/// How lanes come to an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneArrival {
    /// Others of the warp may be elsewhere, at other operations of the kind too.
    pub apart: bool,
    /// They may come in parts.
    pub in_parts: bool,
}

/// What sends lanes on in parts.
pub struct PartialWarpCauses<'a> {
    /// Whether lanes go on in parts from the start of a block.
    pub at_start: &'a dyn Fn(Block) -> bool,
    /// Whether they do from the end of a block.
    pub at_end: &'a dyn Fn(Block) -> bool,
    /// Whether they do behind an operation that needs nothing of them.
    pub behind: &'a dyn Fn(Inst) -> bool,
    /// Whether other lanes of the warp may be elsewhere while some run a block.
    pub apart: &'a dyn Fn(Block) -> bool,
}

/// Where lanes may come in parts.
pub struct PartialWarps {
    /// By block: at its start.
    at_start: Vec<bool>,
    /// The regions that lanes open in parts. Each part waits for itself at their ends, and goes on by itself though all may have been together
    /// in between.
    opened: EntitySet<Value>,
}

impl PartialWarps {
    /// Those of `func`, on the abstract level.
    pub fn new(func: &Function, graph: &FlowGraph, causes: &PartialWarpCauses<'_>) -> Self {
        let mut opened = EntitySet::new();
        loop {
            let mut seen = opened.clone();
            let at_start = flow(func, graph, causes, &opened, &mut seen);
            if seen == opened {
                return Self { at_start, opened };
            }
            opened = seen;
        }
    }

    /// Whether lanes may come to `block` in parts.
    pub(super) fn come_to(&self, block: Block) -> bool {
        self.at_start[block.as_u32() as usize]
    }

    /// Tells `each` of every operation of `block` what it needs and how lanes come to it. Returns whether they leave it in parts.
    pub fn walk(
        &self,
        func: &Function,
        causes: &PartialWarpCauses<'_>,
        block: Block,
        each: impl FnMut(Inst, LaneNeeds, LaneArrival),
    ) -> bool {
        let parted = self.at_start[block.as_u32() as usize];
        walk(func, causes, block, parted, &self.opened, each)
    }
}

/// By block: whether lanes come to it in parts, if those of `opened` are the regions that they open in parts. Those found are added to `seen`.
fn flow(
    func: &Function,
    graph: &FlowGraph,
    causes: &PartialWarpCauses<'_>,
    opened: &EntitySet<Value>,
    seen: &mut EntitySet<Value>,
) -> Vec<bool> {
    let mut at_start = vec![false; graph.block_count()];
    let mut leave = |block, parted| {
        walk(func, causes, block, parted, opened, |inst, _, arrival| {
            if arrival.in_parts && func.opcode(inst).as_abstract() == Some(AbstractOp::RegionOpen) {
                seen.extend(func.value_defs(inst));
            }
        })
    };
    let mut pending: Vec<Block> = func.blocks().filter(|&block| leave(block, false)).collect();
    while let Some(block) = pending.pop() {
        for &next in graph.succs(block) {
            let known = &mut at_start[next.as_u32() as usize];
            if !std::mem::replace(known, true) && leave(next, true) {
                pending.push(next);
            }
        }
    }
    at_start
}

/// Walks through `block`, which lanes come to in parts if `parted`; returns whether they leave it in parts.
fn walk(
    func: &Function,
    causes: &PartialWarpCauses<'_>,
    block: Block,
    parted: bool,
    opened: &EntitySet<Value>,
    mut each: impl FnMut(Inst, LaneNeeds, LaneArrival),
) -> bool {
    let mut arrival = LaneArrival {
        apart: (causes.apart)(block),
        in_parts: parted || (causes.at_start)(block),
    };
    for inst in func.block_insts(block) {
        let needs = LaneNeeds::of(func, inst);
        each(inst, needs, arrival);
        let gathers = match needs {
            LaneNeeds::Nothing => {
                let meets = || {
                    func.opcode(inst).as_abstract() == Some(AbstractOp::RegionMeet)
                        && func.value_uses(inst).any(|token| opened.contains(token))
                };
                arrival.in_parts = arrival.in_parts || meets() || (causes.behind)(inst);
                false
            }
            // The selector may yet find that the mask names all.
            LaneNeeds::SomeLanes { parts } => {
                arrival.in_parts |= parts;
                false
            }
            LaneNeeds::AllLanes => true,
            LaneNeeds::Threads => !arrival.apart,
        };
        if gathers && func.inst(inst).guard().is_always() {
            arrival = LaneArrival {
                apart: false,
                in_parts: false,
            };
        }
    }
    arrival.in_parts || (causes.at_end)(block)
}
