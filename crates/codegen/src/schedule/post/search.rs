//! Branch and bound over orders of a block: which are tried, and which is taken.
//!
//! An order is judged by cycles alone times cycles together, as the estimates before allocation are. Much is known before it is: that it is the
//! one there is, that it has been tried, that more neighbours are apart in it, or, on the way, that it takes longer than the best.
//!
//! As many neighbours may be apart as there are in the order there is; where that is one nobody chose, as few as can be, and whatever
//! is found is better.
//!
//! **Effort.** Over the 153 kernels that compile time is measured with, weights without regard to the register file were best in 5 of 3,000
//! blocks, by less than a thousandth in the large ones, and another look at a block that starts with the same in flight found something in
//! one of 2,000. Somebody who compiles goes without both; they are for those who want the best order ([`Options::thorough`]).

use super::block::{Rank, State};
use super::list::Scheduler;
use super::model::{Cost, Limit, Simulation};
use super::stores::Look;
use super::{Options, Weights};
use smallvec::SmallVec;

/// Room for orders; made once and used for all blocks.
#[derive(Debug, Default)]
pub(super) struct Search {
    scheduler: Scheduler,
    look: Look,
    alone: Simulation,
    together: Simulation,
    /// The best order so far, and how it runs alone.
    best: Vec<u32>,
    best_alone: Simulation,
}

impl Search {
    /// Gives the block an order that is cheaper than the one it has, if one is found, or the cheapest if nobody chose the one it has.
    pub(super) fn improve(&mut self, state: &mut State, options: &Options<'_>) -> bool {
        if state.keep || state.settled || state.parts.has_one_order {
            return false;
        }
        let fresh = std::mem::take(&mut state.fresh);
        let again = std::mem::replace(&mut state.tried, true) || options.thorough;
        let warps = options.warps.max(1);
        let judge = Judge {
            state,
            warps,
            torn: match fresh {
                true => 0,
                false => state.torn(&state.order, &mut self.look),
            },
            least: [1, warps].map(|warps| state.parts.slots.issue_cycles(warps)),
        };
        let present = match state.cost {
            _ if fresh => (usize::MAX, u128::MAX, u64::MAX, u64::MAX),
            Some(cost) => cost,
            None => judge.present(&mut self.together),
        };
        let mut best: Option<(Rank, Option<usize>)> = None;
        let mut best_is_early = state.starts_early;
        for (way, (weights, warps, early)) in ways(state, options).into_iter().enumerate() {
            if state.found_by == Some(way) {
                continue;
            }
            let found =
                self.scheduler
                    .schedule(state.model(), state.present(), &weights, warps, early);
            let Some(found) = found else { continue };
            let order = &mut self.scheduler.order;
            let parts = &state.parts;
            let sank = self
                .look
                .gather(&parts.graph, &parts.accesses, &state.ranks, order);
            if !fresh && *order == state.order || best.is_some() && *order == self.best {
                continue;
            }
            let known = match best {
                // The cycles of a warp alone are squared here.
                Some((known, _)) if best_is_early && !early => {
                    (known.0, known.1 - known.1 / (100 / (2 * WORTH)), 0, 0)
                }
                Some((known, _)) => known,
                None => present,
            };
            let torn = state.torn(order, &mut self.look);
            let cost = judge.cheaper(order, torn, known, &mut self.alone, &mut self.together);
            if let Some(cost) = cost {
                best = Some((cost, (found.stable && !sank).then_some(way)));
                best_is_early = early;
                std::mem::swap(&mut self.best, order);
                std::mem::swap(&mut self.best_alone, &mut self.alone);
            }
        }
        if let Some((cost, found_by)) = best {
            state.take(&self.best, &mut self.best_alone, cost, found_by);
            state.starts_early = best_is_early;
        }
        state.settled = best.is_none() || !again;
        best.is_some()
    }
}

/// So many of a hundred cycles of a warp alone it may cost that loads go first.
const WORTH: u128 = 1;

/// The ways of scheduling a block: weights, warps that take turns, and whether loads go first, which comes first because the others
/// have to be better by more than a little. A block that was given such an order keeps to that.
fn ways(state: &State, options: &Options<'_>) -> SmallVec<[(Weights, u32, bool); 4]> {
    let weights = if state.cold {
        options.cold
    } else {
        options.hot
    };
    let plain = weights.plain();
    let weights = if state.parts.slots.plain {
        plain
    } else {
        weights
    };
    let mut ways = SmallVec::new();
    if state.early.count > 0 {
        ways.push((weights, 1, true));
        if state.starts_early {
            return ways;
        }
    }
    ways.push((weights, 1, false));
    if options.thorough && weights != plain {
        ways.push((plain, 1, false));
    }
    if options.warps > 1 {
        ways.push((weights, options.warps, false));
    }
    ways
}

/// Compares orders of a block.
struct Judge<'a> {
    state: &'a State,
    warps: u32,
    /// How many neighbours are apart in the order there is.
    torn: usize,
    /// No order takes fewer cycles alone, and none fewer together.
    least: [u32; 2],
}

impl Judge<'_> {
    /// What the order there is costs.
    fn present(&self, together: &mut Simulation) -> Rank {
        let alone = self.state.now.cost;
        let mut weighted = alone.weighted;
        if self.warps > 1 {
            let model = self.state.model();
            model.simulate(&self.state.order, self.warps, together);
            weighted = together.cost.weighted;
        }
        let product = u128::from(alone.weighted) * u128::from(weighted);
        (0, product, alone.long, alone.reads)
    }

    /// What `order` costs, in which so many are `torn`, if that is less than what is `known`.
    fn cheaper(
        &self,
        order: &[u32],
        torn: usize,
        known: Rank,
        alone: &mut Simulation,
        together: &mut Simulation,
    ) -> Option<Rank> {
        let torn = torn.saturating_sub(self.torn);
        if torn > known.0 {
            return None;
        }
        // The product decides if as many are torn: neither factor may be so large that the other one cannot make up for it.
        let most = |other: u64| match torn == known.0 {
            true => u64::try_from(known.1 / u128::from(other.max(1))).unwrap_or(u64::MAX),
            false => u64::MAX,
        };
        let model = self.state.model();
        let limit = Limit {
            most: most(5 * u64::from(self.least[1])),
            least: self.least[0],
        };
        if !model.simulate_within(order, 1, limit, alone) {
            return None;
        }
        let Cost {
            weighted,
            long,
            reads,
        } = alone.cost;
        let mut product = u128::from(weighted);
        if self.warps > 1 {
            let limit = Limit {
                most: most(weighted),
                least: self.least[1],
            };
            if !model.simulate_within(order, self.warps, limit, together) {
                return None;
            }
            product *= u128::from(together.cost.weighted);
        } else {
            product *= u128::from(weighted);
        }
        let cost = (torn, product, long, reads);
        (cost < known).then_some(cost)
    }
}
