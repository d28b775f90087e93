//! The order of blocks and of the instructions in each: two levels of doubly linked lists.
//!
//! Inserting and removing cost the same anywhere, which is what phases do all day; the nodes live in side tables keyed by
//! entity, so an instruction that is in no block still has its data.

use crate::entity::{Block, Inst};
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;

#[derive(Clone, Copy, Default, Debug)]
struct BlockNode {
    prev: PackedOption<Block>,
    next: PackedOption<Block>,
    first: PackedOption<Inst>,
    last: PackedOption<Inst>,
    placed: bool,
}

#[derive(Clone, Copy, Default, Debug)]
struct InstNode {
    block: PackedOption<Block>,
    prev: PackedOption<Inst>,
    next: PackedOption<Inst>,
}

/// Which blocks a function consists of, in which order, and the instructions of each.
#[derive(Clone, Default, Debug)]
pub struct Layout {
    blocks: SecondaryMap<Block, BlockNode>,
    insts: SecondaryMap<Inst, InstNode>,
    first: PackedOption<Block>,
    last: PackedOption<Block>,
}

impl Layout {
    /// The first block: the function's entry.
    #[inline]
    pub fn entry(&self) -> Option<Block> {
        self.first.expand()
    }

    /// The last block.
    pub fn last_block(&self) -> Option<Block> {
        self.last.expand()
    }

    /// The block after `block`.
    #[inline]
    pub fn next_block(&self, block: Block) -> Option<Block> {
        self.blocks[block].next.expand()
    }

    /// Whether `block` is part of the function.
    #[inline]
    pub fn contains_block(&self, block: Block) -> bool {
        self.blocks[block].placed
    }

    /// Every block, in order.
    #[inline]
    pub fn blocks(&self) -> impl Iterator<Item = Block> + '_ {
        std::iter::successors(self.entry(), |&block| self.next_block(block))
    }

    /// Places `block` at the end.
    ///
    /// # Panics
    /// If it is placed already.
    pub fn append_block(&mut self, block: Block) {
        self.link_block(block, self.last, PackedOption::default());
    }

    /// Places `block` just before `next`.
    ///
    /// # Panics
    /// If it is placed already, or `next` is not.
    pub fn insert_block_before(&mut self, block: Block, next: Block) {
        assert!(self.blocks[next].placed, "{next} is not in the layout");
        self.link_block(block, self.blocks[next].prev, next.into());
    }

    /// Places `block` just after `prev`.
    ///
    /// # Panics
    /// If it is placed already, or `prev` is not.
    pub fn insert_block_after(&mut self, block: Block, prev: Block) {
        assert!(self.blocks[prev].placed, "{prev} is not in the layout");
        self.link_block(block, prev.into(), self.blocks[prev].next);
    }

    fn link_block(&mut self, block: Block, prev: PackedOption<Block>, next: PackedOption<Block>) {
        let node = &mut self.blocks[block];
        assert!(!node.placed, "{block} is in the layout already");
        node.placed = true;
        node.prev = prev;
        node.next = next;
        match prev.expand() {
            Some(prev) => self.blocks[prev].next = block.into(),
            None => self.first = block.into(),
        }
        match next.expand() {
            Some(next) => self.blocks[next].prev = block.into(),
            None => self.last = block.into(),
        }
    }

    /// Takes `block` out of the order. Its instructions stay in it and come back when it is placed again.
    ///
    /// # Panics
    /// If it is not placed.
    pub fn remove_block(&mut self, block: Block) {
        let node = &mut self.blocks[block];
        assert!(node.placed, "{block} is not in the layout");
        let (prev, next) = (node.prev, node.next);
        node.placed = false;
        node.prev = PackedOption::default();
        node.next = PackedOption::default();
        match prev.expand() {
            Some(prev) => self.blocks[prev].next = next,
            None => self.first = next,
        }
        match next.expand() {
            Some(next) => self.blocks[next].prev = prev,
            None => self.last = prev,
        }
    }

    /// The block `inst` is in.
    #[inline]
    pub fn inst_block(&self, inst: Inst) -> Option<Block> {
        self.insts[inst].block.expand()
    }

    /// The first instruction of `block`.
    #[inline]
    pub fn first_inst(&self, block: Block) -> Option<Inst> {
        self.blocks[block].first.expand()
    }

    /// The last instruction of `block`: its terminator, once the block is complete.
    #[inline]
    pub fn last_inst(&self, block: Block) -> Option<Inst> {
        self.blocks[block].last.expand()
    }

    /// The instruction after `inst` in its block.
    #[inline]
    pub fn next_inst(&self, inst: Inst) -> Option<Inst> {
        self.insts[inst].next.expand()
    }

    /// The instruction before `inst` in its block.
    #[inline]
    pub fn prev_inst(&self, inst: Inst) -> Option<Inst> {
        self.insts[inst].prev.expand()
    }

    /// The instructions of `block`, in order, from either end.
    #[inline]
    pub fn insts(&self, block: Block) -> Insts<'_> {
        let node = &self.blocks[block];
        Insts {
            layout: self,
            front: node.first,
            back: node.last,
        }
    }

    /// Places `inst` at the end of `block`.
    ///
    /// # Panics
    /// If it is in a block already.
    pub fn append_inst(&mut self, inst: Inst, block: Block) {
        self.link_inst(
            inst,
            block,
            self.blocks[block].last,
            PackedOption::default(),
        );
    }

    /// Places `inst` at the start of `block`.
    ///
    /// # Panics
    /// If it is in a block already.
    pub fn prepend_inst(&mut self, inst: Inst, block: Block) {
        self.link_inst(
            inst,
            block,
            PackedOption::default(),
            self.blocks[block].first,
        );
    }

    /// Places `inst` just before `next`.
    ///
    /// # Panics
    /// If `inst` is in a block already, or `next` is in none.
    pub fn insert_inst_before(&mut self, inst: Inst, next: Inst) {
        let block = self.block_of(next);
        self.link_inst(inst, block, self.insts[next].prev, next.into());
    }

    /// Places `inst` just after `prev`.
    ///
    /// # Panics
    /// If `inst` is in a block already, or `prev` is in none.
    pub fn insert_inst_after(&mut self, inst: Inst, prev: Inst) {
        let block = self.block_of(prev);
        self.link_inst(inst, block, prev.into(), self.insts[prev].next);
    }

    fn block_of(&self, inst: Inst) -> Block {
        match self.inst_block(inst) {
            Some(block) => block,
            None => panic!("{inst} is in no block"),
        }
    }

    fn link_inst(
        &mut self,
        inst: Inst,
        block: Block,
        prev: PackedOption<Inst>,
        next: PackedOption<Inst>,
    ) {
        let node = &mut self.insts[inst];
        assert!(node.block.is_none(), "{inst} is in a block already");
        *node = InstNode {
            block: block.into(),
            prev,
            next,
        };
        match prev.expand() {
            Some(prev) => self.insts[prev].next = inst.into(),
            None => self.blocks[block].first = inst.into(),
        }
        match next.expand() {
            Some(next) => self.insts[next].prev = inst.into(),
            None => self.blocks[block].last = inst.into(),
        }
    }

    /// Takes `inst` out of its block.
    ///
    /// # Panics
    /// If it is in none.
    pub fn remove_inst(&mut self, inst: Inst) {
        let block = self.block_of(inst);
        let InstNode { prev, next, .. } = std::mem::take(&mut self.insts[inst]);
        match prev.expand() {
            Some(prev) => self.insts[prev].next = next,
            None => self.blocks[block].first = next,
        }
        match next.expand() {
            Some(next) => self.insts[next].prev = prev,
            None => self.blocks[block].last = prev,
        }
    }

    /// Moves `inst` and everything after it in its block to the end of `to`, in a time that grows with their number.
    ///
    /// # Panics
    /// If `inst` is in no block, or in `to`.
    pub fn move_tail(&mut self, inst: Inst, to: Block) {
        let from = self.block_of(inst);
        assert!(from != to, "{inst} is in {to} already");
        let before = self.insts[inst].prev;
        let last = self.blocks[from].last;
        self.blocks[from].last = before;
        match before.expand() {
            Some(before) => self.insts[before].next = PackedOption::default(),
            None => self.blocks[from].first = PackedOption::default(),
        }
        let end = self.blocks[to].last;
        self.insts[inst].prev = end;
        match end.expand() {
            Some(end) => self.insts[end].next = inst.into(),
            None => self.blocks[to].first = inst.into(),
        }
        self.blocks[to].last = last;
        let mut moved = Some(inst);
        while let Some(inst) = moved {
            self.insts[inst].block = to.into();
            moved = self.next_inst(inst);
        }
    }
}

/// The instructions of a block, in order.
#[derive(Clone)]
pub struct Insts<'a> {
    layout: &'a Layout,
    front: PackedOption<Inst>,
    back: PackedOption<Inst>,
}

impl Insts<'_> {
    fn finish(&mut self) {
        self.front = PackedOption::default();
        self.back = PackedOption::default();
    }
}

impl Iterator for Insts<'_> {
    type Item = Inst;

    #[inline]
    fn next(&mut self) -> Option<Inst> {
        let inst = self.front.expand()?;
        if self.front == self.back {
            self.finish();
        } else {
            self.front = self.layout.insts[inst].next;
        }
        Some(inst)
    }
}

impl DoubleEndedIterator for Insts<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Inst> {
        let inst = self.back.expand()?;
        if self.front == self.back {
            self.finish();
        } else {
            self.back = self.layout.insts[inst].prev;
        }
        Some(inst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(layout: &Layout) -> Vec<u32> {
        layout.blocks().map(Block::as_u32).collect()
    }

    fn insts(layout: &Layout, block: u32) -> Vec<u32> {
        let block = Block::from_u32(block);
        let forward: Vec<u32> = layout.insts(block).map(Inst::as_u32).collect();
        let mut backward: Vec<u32> = layout.insts(block).rev().map(Inst::as_u32).collect();
        backward.reverse();
        assert_eq!(forward, backward);
        forward
    }

    #[test]
    fn blocks_keep_the_order_they_are_placed_in() {
        let [a, b, c, d] = [0, 1, 2, 3].map(Block::from_u32);
        let mut layout = Layout::default();
        layout.append_block(a);
        layout.append_block(b);
        layout.insert_block_before(c, a);
        layout.insert_block_after(d, a);
        assert_eq!(blocks(&layout), [2, 0, 3, 1]);
        layout.remove_block(c);
        layout.remove_block(b);
        assert_eq!(blocks(&layout), [0, 3]);
        assert_eq!(layout.last_block(), Some(d));
        layout.append_block(c);
        assert_eq!(blocks(&layout), [0, 3, 2]);
    }

    #[test]
    fn instructions_are_inserted_removed_and_moved() {
        let [a, b] = [0, 1].map(Block::from_u32);
        let i: Vec<Inst> = (0..6).map(Inst::from_u32).collect();
        let mut layout = Layout::default();
        layout.append_block(a);
        layout.append_block(b);
        layout.append_inst(i[0], a);
        layout.append_inst(i[1], a);
        layout.insert_inst_before(i[2], i[0]);
        layout.insert_inst_after(i[3], i[0]);
        layout.prepend_inst(i[4], a);
        assert_eq!(insts(&layout, 0), [4, 2, 0, 3, 1]);
        layout.remove_inst(i[2]);
        assert_eq!(layout.inst_block(i[2]), None);
        layout.append_inst(i[5], b);
        layout.move_tail(i[0], b);
        assert_eq!(insts(&layout, 0), [4]);
        assert_eq!(insts(&layout, 1), [5, 0, 3, 1]);
        assert_eq!(layout.inst_block(i[1]), Some(b));
        layout.move_tail(i[5], a);
        assert_eq!(insts(&layout, 1), []);
        assert_eq!(insts(&layout, 0), [4, 5, 0, 3, 1]);
    }
}
