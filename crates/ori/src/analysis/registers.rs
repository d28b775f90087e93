//! Liveness of physical registers.
//!
//! Works on any level; values are ignored, so it is meant for functions after allocation. A tuple is its registers one by
//! one, implicit uses and definitions count, constant registers do not. A guarded instruction may write nothing, so its
//! definitions end no live range: what was there before may be what is read after.
//!
//! **Algorithm.** Backward data flow over sets of 384 bits, in which only what is new travels: a block hands each register to its
//! predecessors once. Cost: O(operands + edges), with a factor of at most the number of registers that are ever live
//! on one edge, whatever the depth of loops.

use super::flow::FlowGraph;
use super::order::DepthFirst;
use crate::{Block, Class, Function, Inst, PhysReg};
use cranelift_entity::EntityRef;
use std::fmt;

const WORDS: usize = 6;

/// A set of physical registers, constant ones never among them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RegisterSet([u64; WORDS]);

/// By class: where its registers start in a [`RegisterSet`]. No class but R crosses a word.
const FIRST_BIT: [u16; 5] = {
    let mut first = [0; 5];
    first[Class::P as usize] = 256;
    first[Class::UP as usize] = 264;
    first[Class::B as usize] = 272;
    first[Class::UR as usize] = 320;
    first
};

/// By class: the bits of its registers.
const CLASS_BITS: [RegisterSet; 5] = {
    let mut sets = [RegisterSet([0; WORDS]); 5];
    let mut class = 0;
    while class < 5 {
        let mut index = 0;
        while index < Class::ALL[class].count() as u16 {
            let bit = FIRST_BIT[Class::ALL[class] as usize] + index;
            sets[Class::ALL[class] as usize].0[bit as usize / 64] |= 1 << (bit % 64);
            index += 1;
        }
        class += 1;
    }
    sets
};

impl RegisterSet {
    /// No register.
    pub const EMPTY: RegisterSet = RegisterSet([0; WORDS]);

    #[inline]
    fn bits(reg: PhysReg) -> std::ops::Range<usize> {
        let first = usize::from(FIRST_BIT[reg.class() as usize]) + usize::from(reg.index());
        let count = if reg.is_constant() { 0 } else { reg.len() };
        first..first + usize::from(count)
    }

    /// Adds each register of `reg`.
    pub fn insert(&mut self, reg: PhysReg) {
        for bit in RegisterSet::bits(reg) {
            self.0[bit / 64] |= 1 << (bit % 64);
        }
    }

    /// Takes each register of `reg` away.
    pub fn remove(&mut self, reg: PhysReg) {
        for bit in RegisterSet::bits(reg) {
            self.0[bit / 64] &= !(1 << (bit % 64));
        }
    }

    /// Whether any register of `reg` is in the set.
    pub fn intersects(&self, reg: PhysReg) -> bool {
        RegisterSet::bits(reg).any(|bit| self.0[bit / 64] >> (bit % 64) & 1 != 0)
    }

    /// Whether the set has no register.
    pub fn is_empty(&self) -> bool {
        *self == RegisterSet::EMPTY
    }

    /// How many registers of `class` are in the set.
    pub fn count(&self, class: Class) -> u32 {
        let bits = &CLASS_BITS[class as usize].0;
        self.0
            .iter()
            .zip(bits)
            .map(|(word, bits)| (word & bits).count_ones())
            .sum()
    }

    /// The registers of either set.
    #[must_use]
    pub fn union(self, other: RegisterSet) -> RegisterSet {
        RegisterSet(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// The registers of this set that are not in `other`.
    #[must_use]
    pub fn without(self, other: RegisterSet) -> RegisterSet {
        RegisterSet(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// The registers one by one, class by class, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = PhysReg> + '_ {
        Class::ALL
            .into_iter()
            .flat_map(|class| {
                (0..class.count()).filter_map(move |index| PhysReg::new(class, index))
            })
            .filter(|&reg| self.intersects(reg))
    }
}

impl fmt::Debug for RegisterSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The registers live at the start and at the end of each block.
#[derive(Clone, Debug)]
pub struct RegisterLiveness {
    live_in: Vec<RegisterSet>,
    live_out: Vec<RegisterSet>,
}

impl RegisterLiveness {
    /// Finds the live registers of `function`.
    pub fn new(function: &Function, graph: &FlowGraph, walk: &DepthFirst) -> Self {
        RegisterLiveness::find(function, graph, walk, |_| true)
    }

    /// The same for somebody who asks what is live at the ends of blocks only: blocks that nobody comes from elsewhere are not looked at.
    pub fn at_ends(function: &Function, graph: &FlowGraph, walk: &DepthFirst) -> Self {
        RegisterLiveness::find(function, graph, walk, |block| {
            !graph.preds(block).is_empty()
        })
    }

    fn find(
        function: &Function,
        graph: &FlowGraph,
        walk: &DepthFirst,
        counts: impl Fn(Block) -> bool,
    ) -> Self {
        let count = graph.block_count();
        let mut live = RegisterLiveness {
            live_in: vec![RegisterSet::EMPTY; count],
            live_out: vec![RegisterSet::EMPTY; count],
        };
        // Registers that a block certainly overwrites.
        let mut ends = vec![RegisterSet::EMPTY; count];
        // Registers found live at the end of a block that the block has not seen yet.
        let mut news = vec![RegisterSet::EMPTY; count];
        for block in function.blocks().filter(|block| counts(*block)) {
            let mut set = RegisterSet::EMPTY;
            let mut inst = function.layout.last_inst(block);
            while let Some(at) = inst {
                overwritten(function, at, |reg| {
                    set.remove(reg);
                    ends[block.index()].insert(reg);
                });
                read(function, at, &mut set);
                inst = function.layout.prev_inst(at);
            }
            live.live_in[block.index()] = set;
        }
        // Later blocks first. Unreachable ones follow, so that their sets are right as well.
        let unreachable = graph.blocks().filter(|&block| !walk.is_reachable(block));
        let order: Vec<Block> = walk
            .postorder()
            .iter()
            .copied()
            .chain(unreachable)
            .collect();
        let mut pending: std::collections::VecDeque<Block> = std::collections::VecDeque::new();
        let mut waits = vec![false; count];
        for &block in &order {
            hand_up(
                graph,
                block,
                live.live_in[block.index()],
                &mut news,
                &mut waits,
                &mut pending,
            );
        }
        while let Some(block) = pending.pop_front() {
            let at = block.index();
            waits[at] = false;
            let new = std::mem::take(&mut news[at]).without(live.live_out[at]);
            live.live_out[at] = live.live_out[at].union(new);
            let through = new.without(ends[at]).without(live.live_in[at]);
            live.live_in[at] = live.live_in[at].union(through);
            hand_up(graph, block, through, &mut news, &mut waits, &mut pending);
        }
        live
    }

    /// The registers live at the start of `block`.
    pub fn live_in(&self, block: Block) -> &RegisterSet {
        &self.live_in[block.index()]
    }

    /// The registers live at the end of `block`.
    pub fn live_out(&self, block: Block) -> &RegisterSet {
        &self.live_out[block.index()]
    }
}

/// Tells the predecessors of `block` that `set` is live at its start.
fn hand_up(
    graph: &FlowGraph,
    block: Block,
    set: RegisterSet,
    news: &mut [RegisterSet],
    waits: &mut [bool],
    pending: &mut std::collections::VecDeque<Block>,
) {
    if set.is_empty() {
        return;
    }
    for &pred in graph.preds(block) {
        news[pred.index()] = news[pred.index()].union(set);
        if !std::mem::replace(&mut waits[pred.index()], true) {
            pending.push_back(pred);
        }
    }
}

/// Calls `found` with the registers `inst` certainly overwrites: none if it is guarded.
fn overwritten(function: &Function, inst: Inst, mut found: impl FnMut(PhysReg)) {
    if function.inst(inst).guard().is_always() {
        function.for_each_def(inst, |reg| {
            if let Some(reg) = reg.phys() {
                found(reg);
            }
        });
    }
}

/// Turns the registers live after `inst` into those live before it.
pub fn step_back(function: &Function, inst: Inst, live: &mut RegisterSet) {
    overwritten(function, inst, |reg| live.remove(reg));
    read(function, inst, live);
}

/// Adds the registers that `inst` reads.
fn read(function: &Function, inst: Inst, live: &mut RegisterSet) {
    function.for_each_use(inst, |reg| {
        if let Some(reg) = reg.phys() {
            live.insert(reg);
        }
    });
}
