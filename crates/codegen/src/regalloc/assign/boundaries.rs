//! Where values lie where blocks begin and end.

use cranelift_entity::EntityRef;
use cranelift_entity::packed_option::PackedOption;
use orias_ori::{Block, Edge, Function};

/// Where values lie at the borders of blocks.
#[derive(Debug)]
pub(in super::super) struct BlockBoundaries {
    /// Beside the values live at the starts of blocks: where each lies.
    pub(in super::super) entry: Vec<u8>,
    /// Beside the values live at the ends of blocks.
    pub(in super::super) exit: Vec<u8>,
    /// Where parameters lie at the starts of blocks.
    pub(in super::super) params: Lists,
    /// Where the arguments of all edges lie at the ends of blocks.
    pub(in super::super) args: Lists,
    /// By block: the one that left all live values where this one has them.
    pub(in super::super) follows: Vec<PackedOption<Block>>,
    /// How many general registers are used, from the first to the highest.
    pub(in super::super) named: u8,
    /// How many values of a block get registers that an operation still reads.
    pub(in super::super) delayed: Vec<(Block, u32)>,
}

/// A list of places for each block.
#[derive(Debug)]
pub(in super::super) struct Lists {
    start: Vec<u32>,
    pub(super) places: Vec<u8>,
}

impl Lists {
    pub(super) fn new(blocks: usize) -> Lists {
        Lists {
            start: vec![0; blocks],
            places: Vec::new(),
        }
    }

    /// The places of `block`, and of those that came after it.
    pub(in super::super) fn of(&self, block: Block) -> &[u8] {
        &self.places[self.start[block.index()] as usize..]
    }

    pub(super) fn begin(&mut self, block: Block) {
        self.start[block.index()] = self.places.len() as u32;
    }
}

impl BlockBoundaries {
    /// By edge that leaves `block`: where its arguments lie.
    pub(in super::super) fn args<'a>(
        &'a self,
        func: &'a Function,
        block: Block,
    ) -> impl Iterator<Item = (Edge, &'a [u8])> + 'a {
        let mut rest = self.args.of(block);
        func.successor_edges(block).iter().map(move |&edge| {
            let (places, others) = rest.split_at(func.edge_args(edge).len());
            rest = others;
            (edge, places)
        })
    }
}
