//! PlaceBlocksInSourceOrder (112): code layout at -O1.
//!
//! Lowering numbers blocks in the order the source has them, and later phases number the blocks they make from there on.
//! This phase puts blocks back into the order of their numbers, whatever was moved in between. A block that may go on to
//! the block after it without a jump keeps its place before it: such runs move as one, by the number of their first block,
//! and the run that starts with the entry stays first.
//!
//! The phase changes no instruction: which jumps could be left out in the new order is not its business. One pass to find
//! the heads of runs and one over the numbers: linear.

use crate::pipeline::{Context, PhaseError};
use cranelift_entity::{EntityRef as _, SecondaryMap};
use orias_ori::{Block, Function};

/// Runs the phase.
pub fn place_blocks_in_source_order(
    function: &mut Function,
    _: &Context<'_>,
) -> Result<(), PhaseError> {
    let Some(entry) = function.entry() else {
        return Ok(());
    };
    // The block that must follow each block, and whether a block follows another.
    let mut follower: SecondaryMap<Block, Option<Block>> = SecondaryMap::new();
    let mut follows: SecondaryMap<Block, bool> = SecondaryMap::new();
    for block in function.blocks() {
        let next = function.layout.next_block(block);
        if next.is_some() && function.successors(block).next_back() == next {
            follower[block] = next;
            if let Some(next) = next {
                follows[next] = true;
            }
        }
    }
    let heads = (0..function.block_count())
        .map(Block::new)
        .filter(|&block| {
            function.layout.contains_block(block) && !follows[block] && block != entry
        });
    let order: Vec<Block> = std::iter::once(entry)
        .chain(heads)
        .flat_map(|head| std::iter::successors(Some(head), |&block| follower[block]))
        .collect();
    for &block in &order {
        function.layout.remove_block(block);
    }
    for &block in &order {
        function.layout.append_block(block);
    }
    Ok(())
}
