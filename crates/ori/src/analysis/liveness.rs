//! Liveness: which values are live where, in SSA form.
//!
//! A value is *live in* at a block that is not its definition's when a path leads from the block's start to a use. It is *live out* of a
//! block when it is live in at a successor. The arguments of an edge are read at the end of the block it leaves, and a parameter is defined at
//! the start of its block: neither makes a value live on the edge itself.
//!
//! **Algorithm.** From each use backward to the definition, entering a block once for each value (Boissinot, Brandner, Darte, de Dinechin
//! and Rastello, "Computing liveness sets for SSA-form programs", 2011), for 64 values that leave their blocks at a time: values with
//! neighbouring numbers live in the same places, so a step backward serves many of them. A block where none of them is live is never looked at. Cost:
//! O(operands + live pairs of value and block), which is the size of the answer; the sets are kept sparse, as a bit for each pair would
//! be 10¹¹ bits for 100,000 blocks and a million values.

use super::csr::Csr;
use super::flow::FlowGraph;
use crate::{Block, Class, Function, Value};
use cranelift_entity::EntityRef;
use cranelift_entity::packed_option::PackedOption;
use std::ops::Range;

/// The values live at the start and at the end of each block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Liveness {
    live_in: Csr<Value>,
    live_out: Csr<Value>,
}

impl Liveness {
    /// Finds the live values of `function`, which is in SSA form.
    pub fn new(function: &Function, graph: &FlowGraph) -> Self {
        let reads = reads_elsewhere(function);
        // Most values do not leave the block that defines them.
        let leaving: Vec<Value> = (0..function.value_count() as u32)
            .filter(|&value| !reads.row(value).is_empty())
            .map(Value::from_u32)
            .collect();
        let mut walk = Backward::new(graph);
        for (number, values) in leaving.chunks(64).enumerate() {
            for (place, &value) in values.iter().enumerate() {
                let bit = 1 << place;
                for &block in reads.row(value.as_u32()) {
                    walk.read(block, bit);
                }
                if let Some(home) = function.defining_block(value) {
                    walk.define(home, bit);
                }
            }
            walk.run(graph);
            walk.finish(number as u32);
        }
        Liveness {
            live_in: rows(graph.block_count(), &walk.live_in, &leaving),
            live_out: rows(graph.block_count(), &walk.live_out, &leaving),
        }
    }

    /// Puts another value in the place of each, or none: for a change after which the new value is live wherever the old one was.
    pub fn replace(&mut self, by: impl Fn(Value) -> Option<Value>) {
        for sets in [&mut self.live_in, &mut self.live_out] {
            sets.replace(&by);
        }
    }

    /// The values live at the start of `block`, its parameters not among them, in ascending order.
    #[inline]
    pub fn live_in(&self, block: Block) -> &[Value] {
        self.live_in.row(block.as_u32())
    }

    /// The values live at the end of `block`, in ascending order.
    #[inline]
    pub fn live_out(&self, block: Block) -> &[Value] {
        self.live_out.row(block.as_u32())
    }

    /// Where the values live at the start of `block` lie among those of all blocks: the place for what somebody knows of each.
    #[inline]
    pub fn live_in_range(&self, block: Block) -> Range<usize> {
        self.live_in.range(block.as_u32())
    }

    /// Where the values live at the end of `block` lie among those of all blocks.
    #[inline]
    pub fn live_out_range(&self, block: Block) -> Range<usize> {
        self.live_out.range(block.as_u32())
    }

    /// How many values are live at the starts of all blocks together.
    pub fn live_in_count(&self) -> usize {
        self.live_in.items().len()
    }

    /// How many values are live at the ends of all blocks together.
    pub fn live_out_count(&self) -> usize {
        self.live_out.items().len()
    }

    /// Whether `value` is live at the start of `block`.
    pub fn is_live_in(&self, value: Value, block: Block) -> bool {
        self.live_in(block).binary_search(&value).is_ok()
    }

    /// Whether `value` is live at the end of `block`.
    pub fn is_live_out(&self, value: Value, block: Block) -> bool {
        self.live_out(block).binary_search(&value).is_ok()
    }
}

/// By value: the blocks that read it and do not define it, each once.
fn reads_elsewhere(function: &Function) -> Csr<Block> {
    // The block that read a value last.
    let mut last: Vec<PackedOption<Block>> = vec![None.into(); function.value_count()];
    let mut reads: Vec<(u32, Block)> = Vec::new();
    for block in function.blocks() {
        for inst in function.block_insts(block) {
            function.for_each_use(inst, |reg| {
                let Some(value) = reg.value() else { return };
                let last = &mut last[value.index()];
                if last.expand() != Some(block) {
                    *last = block.into();
                    if function.defining_block(value) != Some(block) {
                        reads.push((value.as_u32(), block));
                    }
                }
            });
        }
    }
    Csr::from_pairs(function.value_count(), reads.iter().copied())
}

/// Some of 64 values that leave their blocks, in one block.
struct Group {
    block: u32,
    /// Which 64.
    number: u32,
    values: u64,
}

/// What is known of a block about the 64 values at hand.
#[derive(Clone, Copy, Default)]
struct Words {
    defined: u64,
    live_in: u64,
    live_out: u64,
    /// Those of `live_in` whose way to the predecessors is still to be gone.
    pending: u64,
    touched: bool,
}

/// The way back from uses to definitions, for 64 values at a time.
struct Backward {
    words: Vec<Words>,
    /// Blocks with anything in `words`.
    touched: Vec<Block>,
    pending: Vec<Block>,
    live_in: Vec<Group>,
    live_out: Vec<Group>,
}

impl Backward {
    fn new(graph: &FlowGraph) -> Backward {
        Backward {
            words: vec![Words::default(); graph.block_count()],
            touched: Vec::new(),
            pending: Vec::new(),
            live_in: Vec::new(),
            live_out: Vec::new(),
        }
    }

    fn touch(&mut self, block: Block) -> &mut Words {
        let words = &mut self.words[block.index()];
        if !std::mem::replace(&mut words.touched, true) {
            self.touched.push(block);
        }
        words
    }

    fn define(&mut self, block: Block, bit: u64) {
        self.touch(block).defined |= bit;
    }

    /// A value read in a block that does not define it.
    fn read(&mut self, block: Block, bit: u64) {
        let words = self.touch(block);
        words.live_in |= bit;
        if words.pending == 0 {
            self.pending.push(block);
        }
        self.words[block.index()].pending |= bit;
    }

    fn run(&mut self, graph: &FlowGraph) {
        while let Some(block) = self.pending.pop() {
            let values = std::mem::take(&mut self.words[block.index()].pending);
            for &pred in graph.preds(block) {
                let words = self.touch(pred);
                let leave = values & !words.live_out;
                if leave == 0 {
                    continue;
                }
                words.live_out |= leave;
                let enter = leave & !words.defined & !words.live_in;
                if enter != 0 {
                    words.live_in |= enter;
                    let waits = words.pending != 0;
                    words.pending |= enter;
                    if !waits {
                        self.pending.push(pred);
                    }
                }
            }
        }
    }

    /// Takes down what was found of the 64 values at hand.
    fn finish(&mut self, number: u32) {
        for block in self.touched.drain(..) {
            let words = std::mem::take(&mut self.words[block.index()]);
            for (values, groups) in [
                (words.live_in, &mut self.live_in),
                (words.live_out, &mut self.live_out),
            ] {
                if values != 0 {
                    groups.push(Group {
                        block: block.as_u32(),
                        number,
                        values,
                    });
                }
            }
        }
    }
}

/// The values of all groups by block. Groups come in ascending order of their values.
fn rows(blocks: usize, groups: &[Group], leaving: &[Value]) -> Csr<Value> {
    let runs = groups
        .iter()
        .map(|group| (group.block, group.values.count_ones()));
    Csr::from_runs(blocks, runs, Value::from_u32(0), |run, items| {
        let group = &groups[run];
        let all = &leaving[64 * group.number as usize..];
        let mut values = group.values;
        for item in items {
            *item = all[values.trailing_zeros() as usize];
            values &= values - 1;
        }
    })
}

/// Those of `values` that live in registers of `class`, in the same order.
pub fn of_class<'a>(
    function: &'a Function,
    values: &'a [Value],
    class: Class,
) -> impl DoubleEndedIterator<Item = Value> + 'a {
    values
        .iter()
        .copied()
        .filter(move |&value| function.value_type(value).class() == class)
}
