//! Which operations find the lanes of the warp together.
//!
//! What works on the whole warp (barriers of the thread block, moves of matrices, shuffles, votes and their like with a mask of all lanes) needs its lanes together; where
//! they may not be, WARPSYNC.ALL brings them together first. They may be apart
//!
//! - in blocks that only some of the lanes run (`convergence::blocks_apart`), until an operation in the same block has brought
//!   them together, or, where mbarriers are waited for, one before it ([`Divergence::is_whole`]);
//! - behind a branch at which lanes part that do something before they end: nobody waits for those at a BSYNC, but they are part of the thread
//!   block until they end;
//! - behind YIELD, which lets lanes go on that wait at BSYNC for those that yield, behind a call, as the function called may
//!   yield (slow paths do not), and behind WARPSYNC with a mask of some lanes outside a region of its own;
//! - behind the end of a region that they opened in parts.
//!
//! In the last three cases they are, until an operation on the whole warp has brought them together again, however far behind.
//!
//! ptxas does the same: of a loop with a lock, a barrier behind it in an outer loop, and another barrier behind that, the first barrier has a WARPSYNC.
//!
//! **Algorithm.** That of [`PartialWarps`]; then one walk through each block.

use crate::phases::is_slow_path;
use cranelift_entity::{EntitySet, SecondaryMap};
use orias_ori::analysis::{Divergence, FlowGraph, LaneNeeds, PartialWarpCauses, PartialWarps};
use orias_ori::{AbstractOp, Block, Function, Inst, Operand};

/// What is known of operations on lanes.
pub(super) struct Gathering {
    /// The operations that find the lanes they need together.
    pub together: EntitySet<Inst>,
    /// The operations that lanes come to while others may be elsewhere, at an operation of the same kind perhaps.
    pub apart: EntitySet<Inst>,
    /// The reductions that lanes come to in one part, as far as they come there at all.
    pub unparted: EntitySet<Inst>,
}

/// How lanes come to the operations of a function; see the module.
pub(super) fn find(
    func: &Function,
    graph: &FlowGraph,
    apart: &[bool],
    left: &[bool],
    yielding: &SecondaryMap<Block, bool>,
    divergence: &Divergence,
) -> Gathering {
    let causes = PartialWarpCauses {
        at_start: &|block| yielding[block],
        at_end: &|block| left[block.as_u32() as usize],
        behind: &|inst| may_yield(func, inst),
        apart: &|block| apart[block.as_u32() as usize] && !divergence.is_whole(block),
    };
    let parts = PartialWarps::new(func, graph, &causes);
    let mut found = Gathering {
        together: EntitySet::new(),
        apart: EntitySet::new(),
        unparted: EntitySet::new(),
    };
    for block in func.blocks() {
        parts.walk(func, &causes, block, |inst, needs, arrival| {
            if needs == LaneNeeds::Nothing {
                let updates = [AbstractOp::Red, AbstractOp::Atom].map(Some);
                if !arrival.in_parts && updates.contains(&func.opcode(inst).as_abstract()) {
                    found.unparted.insert(inst);
                }
                return;
            }
            if arrival.apart {
                found.apart.insert(inst);
            } else if !arrival.in_parts {
                found.together.insert(inst);
            }
        });
    }
    found
}

/// Whether `inst` calls a function that may yield.
fn may_yield(func: &Function, inst: Inst) -> bool {
    if func.opcode(inst).as_abstract() != Some(AbstractOp::Call) {
        return false;
    }
    match func.operands(inst).get(func.result_count(inst)) {
        Some(&Operand::Symbol { symbol, .. }) => !is_slow_path(func.symbol_name(symbol)),
        _ => true,
    }
}
