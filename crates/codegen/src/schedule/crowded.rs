//! Trial allocation where pressure is too high: functions that need more registers than there are in the order they have.
//!
//! Which order is best then depends on what is spilled in it, and only the allocator knows. So a few orders are found, lean ones and quick
//! ones, the allocator is tried on each, and the one is taken whose estimated cycles and accesses to spilled values together cost least.
//! Often a leaner order needs no spills at all: sixty loads whose addresses were all computed first.
//!
//! Cost: up to three trial allocations of a function that spills, and one more where registers are few and instructions went to other blocks; nothing
//! for others. AllocateRegisters takes over what was tried on the order that is taken.

use super::relink::relink;
use super::trial::weighted_spills;
use crate::pipeline::Context;
use orias_ori::{Block, Function, Inst};

/// Cycles that an access to one spilled word costs: its slot, its share of the way to memory, and of the wait for it.
const WORD: f64 = 20.0;

/// An order with more accesses has to cost less than this share of what one with fewer does.
const GAIN: f64 = 0.7;

/// Orders of some blocks, and what is estimated of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Alternative {
    /// Blocks that change, with their instructions in the new order.
    pub(super) orders: Vec<(Block, Vec<Inst>)>,
    /// Cycles of all blocks that may change, by how often they run.
    pub(super) cycles: f64,
    /// The same in the order before.
    pub(super) before: f64,
}

impl Alternative {
    pub(super) const NOTHING: Alternative = Alternative {
        orders: Vec::new(),
        cycles: 0.0,
        before: 0.0,
    };
}

/// What is tried on the allocator.
enum Candidate<'a> {
    /// The function as it is.
    Plain,
    /// What it was before anything moved.
    Given(Box<Function>),
    /// The function with other orders of some blocks.
    Ordered(&'a [(Block, Vec<Inst>)]),
}

/// Gives `func` the cheapest of these orders, or the one that it has, or, where that is known, what it was before anything moved (`given`).
pub(super) fn settle(
    func: &mut Function,
    given: Option<Function>,
    alternatives: Vec<Alternative>,
    context: &Context<'_>,
) {
    let before = alternatives.first().map_or(0.0, |first| first.before);
    let plain = func.clone();
    // What has not moved so far need not be tried twice.
    let given = given.filter(|given| !has_same_layout(given, func));
    let given = given.map(|given| (Candidate::Given(Box::new(given)), before));
    let ordered = alternatives
        .iter()
        .map(|it| (Candidate::Ordered(&it.orders), it.cycles));
    let candidates = [(Candidate::Plain, before)]
        .into_iter()
        .chain(given)
        .chain(ordered);
    let mut best: Option<(f64, f64)> = None;
    let mut kept = None;
    for (candidate, cycles) in candidates {
        // Nothing is spilled in the best one, which costs less than this one whatever the allocator makes of it.
        if best.is_some_and(|(known, fewest)| fewest == 0.0 && cycles >= known) {
            continue;
        }
        let candidate = match candidate {
            Candidate::Plain => plain.clone(),
            Candidate::Given(given) => *given,
            Candidate::Ordered(orders) => {
                let mut ordered = plain.clone();
                for (block, order) in orders {
                    relink(&mut ordered, *block, order);
                }
                ordered
            }
        };
        // More bytes than that make it no better than the best one, see below.
        let most = best.map_or(f64::INFINITY, |(known, fewest)| {
            let within = |cost: f64| (cost - cycles) * 4.0 / WORD;
            match fewest > 0.0 {
                true => within(known).min(fewest).max(within(known * GAIN)).max(0.0),
                false => 0.0,
            }
        });
        let Some((spilled, allocated)) = weighted_spills(&candidate, context, most) else {
            continue;
        };
        let cost = cycles + spilled / 4.0 * WORD;
        // More accesses are only worth while if much is gained: what an order takes is a guess.
        let spares = best.is_none_or(|(_, fewest)| spilled <= fewest);
        let gains = |known: f64| cost < if spares { known } else { known * GAIN };
        // A load whose result is stored is waited for: an order that spills nothing is the quicker one, whatever the estimate says.
        let is_better = |(known, fewest): (f64, f64)| match (spilled > 0.0, fewest > 0.0) {
            (false, true) => true,
            (true, false) => false,
            _ => gains(known),
        };
        if best.is_none_or(is_better) {
            best = Some((cost, spilled));
            *func = candidate;
            kept = Some(allocated);
        }
    }
    if let Some(allocated) = kept {
        func.keep_tried(allocated);
    }
}

/// Whether both have the same instructions in the same places; the one is a copy of the other in which some may have moved.
fn has_same_layout(one: &Function, other: &Function) -> bool {
    one.inst_count() == other.inst_count()
        && one.blocks().eq(other.blocks())
        && one
            .blocks()
            .all(|block| one.block_insts(block).eq(other.block_insts(block)))
}
