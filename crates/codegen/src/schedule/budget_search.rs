//! The search for a function's budget of general registers: for each candidate, every block gets its cheapest order within it, and the
//! budget whose orders cost least over all blocks, weighted by how often they run, is taken. Cost: budgets × blocks without an order that
//! fits, each a run of the list scheduler.

use super::budget;
use super::build::Builder;
use super::choice::{Choice, cheapest, cheapest_of, leanest};
use super::estimate::{Estimate, estimate};
use super::instructions::{Candidates, FixedBlock, Scheduler, Variant};
use super::priority::Mode;
use super::strategies::{Asked, Strategy};
use crate::register_usage::RegisterUsage;

/// An order is near to one more block on a multiprocessor if it needs no more than this part too many registers.
const NEAR: u32 = 2;

/// How many numbers of warps below that of the order before are tried.
const BEYOND: usize = 2;

/// An order that costs warps has to cost less than this share of one that does not: what an order takes is a guess, how many warps there are is not.
const GAIN: f64 = 0.9;

impl Scheduler<'_> {
    pub(super) fn choose_budget(
        &self,
        movable: &mut [Candidates],
        fixed: &mut [FixedBlock],
        builder: &mut Builder<'_>,
    ) -> i32 {
        let had = movable
            .iter()
            .map(|candidates| candidates.choices[0].registers())
            .max();
        let fixed_peak = fixed.iter().map(|block| block.registers).max();
        let fixed_peak = fixed_peak.unwrap_or(0).max(self.called);
        let had = had.unwrap_or(0).max(fixed_peak);
        // As many warps as before, unless knob 763 asks for something else.
        let same = self.occupancy.ceiling(had as u32) as i32;
        let roomy = match self.options.register_target() {
            None => self.hard.min(same).max(1),
            Some(_) => self.hard.max(1),
        };
        let mut least = fixed_peak;
        let mut most = fixed_peak;
        let (reduce, only_reduce) = self.options.reduce_limits();
        for candidates in movable.iter_mut() {
            let now = candidates.choices[0].registers();
            // Below what costs nothing, and below what blocks need that keep their order, there is nothing to reduce.
            let crowded = (now > reduce
                || now > self.occupancy.free().max(fixed_peak)
                || now > self.hard_in(candidates.graph.block))
                && self.options.asked == Asked::Cascade;
            if crowded && self.options.runs(Mode::ReduceReg, candidates.graph.block) {
                self.try_mode(candidates, Mode::ReduceReg, budget::tightened(now));
                self.try_depth_first(candidates, now);
            }
            if now <= only_reduce {
                self.fill(candidates, roomy);
            }
            let leanest = leanest(&candidates.small, &candidates.choices);
            least = least.max(candidates.choices[leanest].registers());
            most = most.max(cheapest(&candidates.small, &candidates.choices, i32::MAX).registers());
        }
        if let Some(target) = self.options.register_target() {
            let budget = if target == 0 {
                self.hard
            } else {
                target as i32
            };
            self.refill(movable, budget);
            return budget.max(least);
        }
        let ceiling = roomy.max(had.min(self.hard)).max(least);
        let most = most.min(ceiling).max(least);
        let candidates = self
            .occupancy
            .candidates(least as u32, had as u32, most as u32);
        let mut budgets: Vec<i32> = candidates
            .into_iter()
            .map(|budget| (budget as i32).min(ceiling))
            .collect();
        budgets.dedup();
        let beyond = self.beyond(movable, same);
        if let ([only], []) = (&budgets[..], &beyond[..]) {
            self.refill(movable, *only);
            return *only;
        }
        self.estimate_fixed(fixed, builder);
        let mut best: Option<(f64, i32)> = None;
        for budget in budgets {
            self.refill(movable, budget);
            let cost = self.cost(movable, fixed, budget, had);
            if best.is_none_or(|(known, _)| cost < known) {
                best = Some((cost, budget));
            }
        }
        for budget in beyond {
            for candidates in movable.iter_mut() {
                let now = candidates.choices[0].registers();
                if now <= only_reduce && self.does_badly(candidates) {
                    self.fill(candidates, budget);
                }
            }
            let cost = self.cost(movable, fixed, budget, had);
            if best.is_none_or(|(known, _)| cost < known * GAIN) {
                best = Some((cost, budget));
            }
        }
        best.map_or(least, |(_, budget)| budget)
    }

    /// The most live registers of each of the next smaller numbers of warps, where some block waits for what more registers could keep in flight.
    fn beyond(&self, movable: &[Candidates], same: i32) -> Vec<i32> {
        let mut budgets = Vec::new();
        if !movable.iter().any(|candidates| self.does_badly(candidates)) {
            return budgets;
        }
        let mut most = same.max(1) as u32;
        for _ in 0..BEYOND {
            let Some(next) = self.occupancy.above(most) else {
                break;
            };
            most = next;
            if most as i32 > self.hard {
                break;
            }
            budgets.push(most as i32);
        }
        budgets
    }

    /// Adds the order of each result right before its reader if that may let more warps run.
    fn try_depth_first(&self, candidates: &mut Candidates, now: i32) {
        let Some(below) = self.occupancy.below(now as u32) else {
            return;
        };
        let leanest = leanest(&candidates.small, &candidates.choices);
        let least = candidates.choices[leanest].registers();
        if least > below as i32 && least <= (below + below / NEAR) as i32 {
            let strategy = Strategy::DepthFirst;
            let variant = Variant::plain(strategy.name());
            self.try_strategy(candidates, strategy, variant, Mode::ReduceReg, below as i32);
        }
    }

    /// What the function costs if every block has its cheapest order within `budget`, where the orders before needed `had` registers.
    fn cost(&self, movable: &[Candidates], fixed: &[FixedBlock], budget: i32, had: i32) -> f64 {
        let warps = self.occupancy.warps(budget.max(0) as u32);
        let few = self.options.register_usage() == RegisterUsage::Few;
        let among = |estimate: &Estimate| match few {
            true => estimate.shared(warps),
            false => estimate.among(warps),
        };
        let mut cycles = 0.0;
        let mut needed = 0;
        for candidates in movable {
            // Orders with a window are for blocks of many alike pieces; that they need few registers as well is no reason to have fewer.
            let may = |choice: &Choice| budget >= had || !choice.windowed;
            let choice = cheapest_of(&candidates.small, &candidates.choices, budget, may);
            needed = needed.max(choice.registers());
            cycles += among(&choice.estimate) * candidates.frequency;
        }
        for block in fixed {
            let estimate = block.estimate.as_ref();
            let each = estimate.map_or(0.0, among);
            cycles += each * block.frequency;
        }
        let extra = f64::from((needed - had).max(0));
        let price = match self.occupancy.is_given() {
            true => 0.0,
            false => self.options.bump_scale(),
        };
        cycles * (1.0 + price * extra)
    }

    /// Adds orders within `budget` where none of the cheap ones fits.
    pub(super) fn refill(&self, movable: &mut [Candidates], budget: i32) {
        for candidates in movable {
            let fits =
                |choice: &Choice| choice.registers() <= budget && !choice.lean && !choice.windowed;
            if !candidates.choices[1..].iter().any(fits) {
                self.fill(candidates, budget);
            }
        }
    }

    /// What blocks cost that keep their order.
    pub(super) fn estimate_fixed(&self, fixed: &mut [FixedBlock], builder: &mut Builder<'_>) {
        for block in fixed {
            let graph = builder.build(block.block);
            let order = 0..graph.len() as u32;
            block.estimate = Some(estimate(&graph, order, self.sharing));
        }
    }
}
