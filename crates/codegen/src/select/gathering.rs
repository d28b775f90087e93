//! Which operations find the lanes of the warp together.
//!
//! What works on the whole warp (barriers of the thread block, moves of matrices, shuffles, votes and their like with a mask of all lanes) needs its lanes together; where
//! they may not be, WARPSYNC.ALL brings them together first. They may be apart
//!
//! - in blocks that only some of the lanes run (`convergence::blocks_apart`), until an operation in the same block has brought
//!   them together;
//! - behind a branch at which lanes part that do something before they end: nobody waits for those at a BSYNC, but they are part of the thread
//!   block until they end;
//! - behind YIELD, which lets lanes go on that wait at BSYNC for those that yield, behind a call, as the function called may
//!   yield, and behind WARPSYNC with a mask of some lanes outside a region of its own.
//!
//! In the last two cases they are, until an operation on the whole warp has brought them together again, however far behind.
//!
//! ptxas does the same: of a loop with a lock, a barrier behind it in an outer loop, and another barrier behind that, the first barrier has a WARPSYNC.
//!
//! **Algorithm.** Forward data flow over one bit, its union over the edges; then one walk through each block. Cost: linear.

use cranelift_entity::{EntitySet, SecondaryMap};
use orias_ori::analysis::{FlowGraph, LaneNeeds};
use orias_ori::{AbstractOp, Block, Function, Inst};

/// How lanes come to an operation on lanes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Coming {
    Together,
    /// All of them, but in parts.
    InParts,
    /// Others may be elsewhere, at other operations of the kind too.
    Apart,
}

/// Walks through `block`, which lanes come to in parts if `parted`, and tells `each` of every operation on lanes how they come to it.
/// Returns whether they leave the block in parts.
fn walk(
    func: &Function,
    block: Block,
    mut apart: bool,
    mut parted: bool,
    mut each: impl FnMut(Inst, Coming),
) -> bool {
    for inst in func.block_insts(block) {
        let coming = match (apart, parted) {
            (true, _) => Coming::Apart,
            (false, true) => Coming::InParts,
            (false, false) => Coming::Together,
        };
        let gathers = match LaneNeeds::of(func, inst) {
            LaneNeeds::Nothing => {
                parted |= func.opcode(inst).as_abstract() == Some(AbstractOp::Call);
                continue;
            }
            LaneNeeds::SomeLanes { parts } => {
                // The selector may yet find that the mask names all.
                each(inst, coming);
                parted |= parts;
                continue;
            }
            LaneNeeds::AllLanes => {
                each(inst, coming);
                true
            }
            LaneNeeds::Threads => {
                each(inst, coming);
                !apart
            }
        };
        if gathers && func.inst(inst).guard().is_always() {
            apart = false;
            parted = false;
        }
    }
    parted
}

/// What is known of operations on lanes.
pub(super) struct Gathering {
    /// The operations that find the lanes they need together.
    pub together: EntitySet<Inst>,
    /// The operations that lanes come to while others may be elsewhere, at an operation of the same kind perhaps.
    pub apart: EntitySet<Inst>,
}

/// How lanes come to the operations of a function; see the module.
pub(super) fn find(
    func: &Function,
    graph: &FlowGraph,
    apart: &[bool],
    left: &[bool],
    yielding: &SecondaryMap<Block, bool>,
) -> Gathering {
    let is_apart = |block: Block| apart[block.as_u32() as usize];
    // By block: whether lanes may come to it in parts.
    let mut parted: SecondaryMap<Block, bool> = SecondaryMap::new();
    let leave = |block: Block, parted: bool| {
        let parted = parted || yielding[block];
        walk(func, block, is_apart(block), parted, |_, _| {}) || left[block.as_u32() as usize]
    };
    let mut pending: Vec<Block> = func.blocks().filter(|&block| leave(block, false)).collect();
    while let Some(block) = pending.pop() {
        for &next in graph.succs(block) {
            if !std::mem::replace(&mut parted[next], true) && leave(next, true) {
                pending.push(next);
            }
        }
    }
    let mut found = Gathering {
        together: EntitySet::new(),
        apart: EntitySet::new(),
    };
    for block in func.blocks() {
        let parts = parted[block] || yielding[block];
        walk(func, block, is_apart(block), parts, |inst, coming| {
            match coming {
                Coming::Together => found.together.insert(inst),
                Coming::Apart => found.apart.insert(inst),
                Coming::InParts => false,
            };
        });
    }
    found
}
