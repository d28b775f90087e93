//! Which values are live where, in SSA form.
//!
//! A value is *live in* at a block that is not its definition's when a path leads from the block's start to a use. It is *live out* of a
//! block when it is live in at a successor. The arguments of an edge are read at the end of the block it leaves, and a parameter is defined at
//! the start of its block: neither makes a value live on the edge itself.
//!
//! **Algorithm.** Value by value, from each use backward to the definition, entering a block once for each value (Boissinot, Brandner,
//! Darte, de Dinechin and Rastello, "Computing liveness sets for SSA-form programs", 2011). Nothing iterates to a fixed point, and a block
//! where a value is not live is never looked at. Cost: O(operands + live pairs of value and block), which is the
//! size of the answer; the sets are kept sparse, as a bit for each pair would be 10¹¹ bits for 100,000 blocks and a million values.

use super::csr::Csr;
use super::def_use::DefUse;
use super::flow::{FlowGraph, NONE};
use crate::{Block, Class, Function, Value};
use cranelift_entity::EntityRef;

/// The values live at the start and at the end of each block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Liveness {
    live_in: Csr<Value>,
    live_out: Csr<Value>,
}

impl Liveness {
    /// Finds the live values of `function`, which is in SSA form.
    pub fn new(function: &Function, graph: &FlowGraph, chains: &DefUse) -> Self {
        let mut live_in: Vec<(u32, Value)> = Vec::new();
        let mut live_out: Vec<(u32, Value)> = Vec::new();
        // By block: the last value found live at its start and at its end.
        let mut last_in = vec![NONE; graph.block_count()];
        let mut last_out = vec![NONE; graph.block_count()];
        let mut pending: Vec<Block> = Vec::new();
        for number in 0..function.value_count() as u32 {
            let value = Value::from_u32(number);
            let uses = chains.uses(value);
            if uses.is_empty() {
                continue;
            }
            // The definition needs nothing at the start of its block.
            if let Some(home) = function.defining_block(value) {
                last_in[home.index()] = number;
            }
            for read in uses {
                pending.push(read.block(function));
                while let Some(block) = pending.pop() {
                    if std::mem::replace(&mut last_in[block.index()], number) == number {
                        continue;
                    }
                    live_in.push((block.as_u32(), value));
                    for &pred in graph.preds(block) {
                        if std::mem::replace(&mut last_out[pred.index()], number) != number {
                            live_out.push((pred.as_u32(), value));
                            pending.push(pred);
                        }
                    }
                }
            }
        }
        Liveness {
            live_in: Csr::from_pairs(graph.block_count(), live_in.iter().copied()),
            live_out: Csr::from_pairs(graph.block_count(), live_out.iter().copied()),
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

    /// Whether `value` is live at the start of `block`.
    pub fn is_live_in(&self, value: Value, block: Block) -> bool {
        self.live_in(block).binary_search(&value).is_ok()
    }

    /// Whether `value` is live at the end of `block`.
    pub fn is_live_out(&self, value: Value, block: Block) -> bool {
        self.live_out(block).binary_search(&value).is_ok()
    }
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
