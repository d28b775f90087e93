//! Whether lanes come to an operation from several arms of a branch that parted them.
//!
//! Lanes part at a divergent branch and meet at the end of the region that was opened before it. In between, an operation in one arm is come to by all
//! lanes of that arm together. Not so one that several arms lead to before the meeting: the place behind a loop that lanes leave in
//! different iterations, or a block that several conditions branch to.
//!
//! **Algorithm.** A walk backward from the operation, counting for each block in how many directions its branch leads there. Where lanes meet
//! they are as they were where the region was opened, so the walk goes on there. At most [`BLOCKS`] blocks are looked at.

use cranelift_entity::EntitySet;
use orias_ori::analysis::{Divergence, FlowGraph};
use orias_ori::{AbstractOp, Block, Function, Inst};
use rustc_hash::FxHashMap;

/// How many blocks are looked at before lanes count as parted.
const BLOCKS: usize = 256;

/// Whether lanes may come to `inst` in `block` from several arms of a divergent branch.
pub(super) fn lead_to(
    func: &Function,
    graph: &FlowGraph,
    divergence: &Divergence,
    block: Block,
    inst: Inst,
) -> bool {
    // What is left to walk: from above an instruction, or from the end of a block.
    let mut pending = vec![(block, Some(inst))];
    let mut whole = EntitySet::new();
    let mut opened = EntitySet::new();
    // The blocks that were walked to their start: the one of the operation may be walked from its end, too, around a loop.
    let mut entered = EntitySet::new();
    let mut directions: FxHashMap<Block, usize> = FxHashMap::default();
    let mut looked_at = 0;
    while let Some((block, below)) = pending.pop() {
        looked_at += 1;
        if looked_at > BLOCKS {
            return true;
        }
        if let Some(open) = meeting_above(func, block, below) {
            let before = func.layout.inst_block(open);
            if opened.insert(open) {
                pending.extend(before.map(|before| (before, Some(open))));
            }
            continue;
        }
        if !entered.insert(block) {
            continue;
        }
        for &above in graph.preds(block) {
            let count = directions.entry(above).or_default();
            *count += 1;
            if *count > 1 && divergence.is_divergent_branch(above) {
                return true;
            }
            if whole.insert(above) {
                pending.push((above, None));
            }
        }
    }
    false
}

/// Where the region was opened that ends last in `block` above `below`.
fn meeting_above(func: &Function, block: Block, below: Option<Inst>) -> Option<Inst> {
    let above = func.block_insts(block).take_while(|&it| Some(it) != below);
    let mut meetings =
        above.filter(|&it| func.opcode(it).as_abstract() == Some(AbstractOp::RegionMeet));
    let last = meetings.by_ref().last()?;
    func.value_uses(last)
        .find_map(|token| func.defining_inst(token))
}
