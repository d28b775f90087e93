//! Waits for a warp group's matrix products, before allocation: what has to stay behind them, and how long they take.
//!
//! On registers nothing passes WARPGROUP.DEPBAR: anything may touch what products work on. On values it is known who does. What a product makes, all or in parts, through parameters of blocks as
//! well, is read behind the wait; so is memory, which products may read until then, and what speaks to other threads. Arithmetic on anything else may go between the last product and the
//! wait: addresses and guards of the next stage's copies, as in ptxas's code. Before the products it would delay them.
//!
//! The wait is over when its products are. One takes the tensor cores for half as many cycles as it has columns where they serve two warp groups, as a rule as many as
//! its sums have words. A block lasts until its products are over, too: what has nothing to do with them goes behind them.

use super::Builder;
use crate::phases::{ends_group, is_product, product_sum, waits_for};
use crate::schedule::graph::{EdgeClass, Kinds, Reasons};
use cranelift_entity::EntityRef as _;
use orias_ori::{AbstractOp, Function, Inst, Value};

/// Cycles from the last product's turn to the end of the wait for it.
const LATENCY: u32 = 32;

/// A product that has been issued.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    node: u32,
    cycles: u32,
    ends_group: bool,
}

/// What is known of the products of a block so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Products {
    /// By value: whether a product makes it, or it is a part of what one makes. Empty where there is no product.
    results: Vec<bool>,
    /// The products since the start of the block.
    under_way: Vec<UnderWay>,
    /// The last wait, and the product before it.
    wait: Option<(u32, u32)>,
    /// Cycles of the products since then.
    queued: u32,
}

impl Products {
    pub(super) fn of(func: &Function) -> Products {
        let mut results = vec![false; func.value_count()];
        let mut open: Vec<Value> = func
            .blocks()
            .flat_map(|block| func.block_insts(block))
            .filter(|&inst| is_product(func, inst))
            .filter_map(|inst| product_sum(func, inst))
            .collect();
        if open.is_empty() {
            return Products::default();
        }
        let readers = passes_on(func);
        while let Some(value) = open.pop() {
            if std::mem::replace(&mut results[value.index()], true) {
                continue;
            }
            let from = readers.partition_point(|&(of, _)| of < value);
            let passed = readers[from..].iter().take_while(|&&(of, _)| of == value);
            open.extend(passed.map(|&(_, to)| to));
        }
        Products {
            results,
            ..Products::default()
        }
    }

    /// Whether products of this block may be under way.
    pub(super) fn are_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    pub(super) fn begin_block(&mut self) {
        self.under_way.clear();
        self.wait = None;
        self.queued = 0;
    }
}

/// Which values are others, or parts of others: sorted pairs of a value and what it is passed on to.
fn passes_on(func: &Function) -> Vec<(Value, Value)> {
    let mut pairs = Vec::new();
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        if let Some(AbstractOp::Split | AbstractOp::Collect | AbstractOp::Mov) =
            func.opcode(inst).as_abstract()
        {
            for from in func.value_uses(inst) {
                pairs.extend(func.value_defs(inst).map(|to| (from, to)));
            }
        }
        for &edge in func.edges(inst) {
            let params = func.block_params(func.edge_target(edge)).iter();
            pairs.extend(func.edge_args(edge).iter().copied().zip(params.copied()));
        }
    }
    pairs.sort_unstable();
    pairs
}

impl Builder<'_> {
    /// Edges to and from waits for products.
    pub(super) fn products(&mut self, node: u32, inst: Inst) {
        if self.products.results.is_empty() {
            return;
        }
        if is_product(self.func, inst) {
            let sum = product_sum(self.func, inst);
            let cycles = sum.map_or(0, |sum| u32::from(self.func.value_type(sum).len()));
            self.products.under_way.push(UnderWay {
                node,
                cycles,
                ends_group: ends_group(self.func, inst),
            });
            // Behind the block somebody waits for it, as a rule the next iteration.
            self.products.queued += cycles;
            let over = LATENCY + self.products.queued;
            self.nodes[node as usize].signals = u16::try_from(over).unwrap_or(u16::MAX);
        } else if let Some(groups) = waits_for(self.func, inst) {
            let mut cycles = LATENCY;
            let mut ended = 0;
            for index in (0..self.products.under_way.len()).rev() {
                let product = self.products.under_way[index];
                ended += u32::from(product.ends_group);
                if ended <= u32::from(groups) {
                    continue;
                }
                cycles += product.cycles;
                let latency = u16::try_from(cycles).unwrap_or(u16::MAX);
                self.edge(
                    product.node,
                    node,
                    Kinds::BARRIER,
                    EdgeClass::Order,
                    Reasons(0),
                    latency,
                );
            }
            let last = self.products.under_way.last();
            self.products.wait = last.map(|product| (node, product.node));
            self.products.queued = 0;
        } else if let Some((wait, product)) = self.products.wait
            && self.nodes[node as usize].op.is_some()
        {
            let mut uses = self.func.value_uses(inst);
            let (from, latency) = match uses.any(|it| self.products.results[it.index()]) {
                true => (wait, self.after_fence(wait)),
                false => (product, 1),
            };
            self.edge(
                from,
                node,
                Kinds::BARRIER,
                EdgeClass::Order,
                Reasons(0),
                latency,
            );
        }
    }
}
