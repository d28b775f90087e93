//! The search for a function's budget of general registers: for each candidate, every block gets its cheapest order within it, and the
//! budget whose orders cost least over all blocks, weighted by how often they run, is taken. Cost: budgets × blocks without an order that
//! fits, each a run of the list scheduler.

use super::budget;
use super::build::Builder;
use super::choice::{Choice, cheapest, cheapest_of, leanest};
use super::estimate::estimate;
use super::instructions::{Candidates, FixedBlock, Scheduler, Variant};
use super::priority::Mode;
use super::strategies::{self, Asked, Strategy};
use super::throughput::Demand;
use crate::register_usage::RegisterUsage;

/// An order is near to one more block on a multiprocessor if it needs no more than this part too many registers.
const NEAR: u32 = 2;

/// How many numbers of warps below that of the order before are tried.
const BEYOND: usize = 2;

/// An order that costs warps has to cost less than this share of one that does not: what an order takes is a guess, how many warps there are is not.
const GAIN: f64 = 0.95;

/// By how many registers the bottom-up order is leaner than others, where it is kept for the sake of registers alone.
const LEANER: i32 = 4;

/// In functions with matrix operations, what a register fewer than the order before needed is worth, times what one more costs.
const SPARED: f64 = 0.4;

/// Where warps fill the machine, an order that costs some of them may take so many times as long, with everything in caches and with all of it in memory.
const SAME: [f64; 2] = [1.01, 1.04];

/// Orders that cost warps are looked for where the one under no budget takes a warp alone less than this share of what is known.
const PROMISES: f64 = 0.9;

/// What the orders within a budget cost.
struct Cost {
    budget: i32,
    /// The most live registers of its orders.
    needed: i32,
    /// Warps of each scheduler.
    warps: u32,
    /// What each of them takes where all of them are there: with everything in caches, and with all of it in memory.
    full: [f64; 2],
    /// What a warp takes alone.
    alone: f64,
    /// What it takes as far as one can say who does not know the launch.
    usual: f64,
    /// By how many times registers beyond those that the order before needed make that dearer.
    price: f64,
}

/// Budgets that leave fewer warps than the order before did, and the blocks that may gain by them.
struct Beyond {
    budgets: Vec<i32>,
    waiting: Vec<usize>,
}

impl Cost {
    /// Whether it is better than that of a budget that was tried before.
    fn beats(&self, known: &Cost) -> bool {
        if self.warps >= known.warps {
            return self.usual * self.price < known.usual * known.price;
        }
        // What its registers cost is the warps that are not there, which it has.
        let mut full = self.full.iter().zip(known.full).zip(SAME);
        self.usual < known.usual * GAIN && full.all(|((mine, theirs), same)| *mine <= theirs * same)
    }
}

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
        let matrix = (movable.iter()).any(|it| strategies::has_matrix(&it.graph));
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
                self.try_bottom_up(candidates, now);
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
        let beyond = self.beyond(movable, same, had);
        if let ([only], None, false) = (&budgets[..], &beyond, matrix) {
            self.refill(movable, *only);
            return *only;
        }
        self.estimate_fixed(fixed, builder);
        let mut best: Option<Cost> = None;
        for budget in budgets {
            self.refill(movable, budget);
            let cost = self.cost(movable, fixed, budget, had, matrix);
            if best.as_ref().is_none_or(|known| cost.beats(known)) {
                best = Some(cost);
            }
        }
        if let Some(beyond) = beyond {
            self.try_beyond(movable, fixed, &beyond, (had, matrix), &mut best);
        }
        if let Some(known) = &mut best
            && matrix
        {
            self.spare(movable, fixed, known, fixed_peak, had);
        }
        best.map_or(least, |cost| cost.budget)
    }

    /// Looks for orders with matrix operations that need fewer registers than those within the `best` budget and cost no more, whether that lets more warps run or not.
    fn spare(
        &self,
        movable: &mut [Candidates],
        fixed: &[FixedBlock],
        best: &mut Cost,
        fixed_peak: i32,
        had: i32,
    ) {
        let mut least = fixed_peak;
        for candidates in movable.iter_mut() {
            let known = leanest(&candidates.small, &candidates.choices);
            let known = candidates.choices[known].registers();
            let lean = candidates.lean.take();
            (candidates.choices).extend(lean.filter(|it| it.registers() + LEANER <= known));
            let leanest = leanest(&candidates.small, &candidates.choices);
            least = least.max(candidates.choices[leanest].registers());
        }
        for budget in [least + least / 16, least + least / 8] {
            if budget >= best.budget {
                break;
            }
            self.refill(movable, budget);
            let cost = self.cost(movable, fixed, budget, had, true);
            if cost.warps >= best.warps && cost.beats(best) {
                *best = cost;
            }
        }
    }

    /// The most live registers of each of the next smaller numbers of warps and the most that there are, where some block waits for what more registers could keep in
    /// flight; and these blocks.
    fn beyond(&self, movable: &[Candidates], same: i32, had: i32) -> Option<Beyond> {
        let waiting = (0..movable.len()).filter(|&it| self.does_badly(&movable[it]));
        let waiting: Vec<usize> = waiting.collect();
        let most = self
            .hard
            .min(self.occupancy.launchable(had.max(0) as u32) as i32);
        if waiting.is_empty() || most <= same {
            return None;
        }
        let mut budgets = Vec::new();
        let mut next = self.occupancy.above(same.max(1) as u32);
        while let Some(live) = next.filter(|&live| budgets.len() < BEYOND && (live as i32) < most) {
            budgets.push(live as i32);
            next = self.occupancy.above(live);
        }
        budgets.push(most);
        Some(Beyond { budgets, waiting })
    }

    /// Tries budgets that leave fewer warps: the largest first, which says whether there is something to gain.
    fn try_beyond(
        &self,
        movable: &mut [Candidates],
        fixed: &[FixedBlock],
        beyond: &Beyond,
        (had, matrix): (i32, bool),
        best: &mut Option<Cost>,
    ) {
        let (_, only_reduce) = self.options.reduce_limits();
        let Some((&most, budgets)) = beyond.budgets.split_last() else {
            return;
        };
        let mut cost_of = |budget: i32| {
            for &block in &beyond.waiting {
                if movable[block].choices[0].registers() <= only_reduce {
                    self.fill(&mut movable[block], budget);
                }
            }
            self.cost(movable, fixed, budget, had, matrix)
        };
        let unlimited = cost_of(most);
        let mut costs = Vec::new();
        let known = best.as_ref().map_or(f64::INFINITY, |known| known.alone);
        if unlimited.alone < known * PROMISES {
            let below = budgets.iter().filter(|&&budget| budget < unlimited.needed);
            costs.extend(below.map(|&budget| cost_of(budget)));
        }
        costs.push(unlimited);
        for cost in costs {
            if best.as_ref().is_none_or(|known| cost.beats(known)) {
                *best = Some(cost);
            }
        }
    }

    /// Adds the order of each result right before its reader if that may let more warps run.
    fn try_depth_first(&self, candidates: &mut Candidates, now: i32) {
        let Some(below) = self.occupancy.below(now as u32) else {
            return;
        };
        let leanest = leanest(&candidates.small, &candidates.choices);
        let least = candidates.choices[leanest].registers();
        if least > below as i32 && least <= (below + below / NEAR) as i32 {
            self.try_lean(candidates, below as i32, Strategy::DepthFirst);
        }
    }

    /// Adds the order that is found from the end if it lets more warps run than those that are known.
    fn try_bottom_up(&self, candidates: &mut Candidates, now: i32) {
        let known = leanest(&candidates.small, &candidates.choices);
        let least = candidates.choices[known].registers();
        let count = candidates.choices.len();
        self.try_lean(candidates, now, Strategy::BottomUp);
        let warps = |registers: i32| self.occupancy.warps(registers.max(0) as u32);
        let hard = self.hard_in(candidates.graph.block);
        let is_better = |choice: &Choice| {
            let registers = choice.registers();
            warps(registers) > warps(least) || (least > hard && registers < least)
        };
        if !candidates.choices[count..].iter().all(is_better) {
            candidates.lean = candidates.choices.pop();
        }
    }

    /// Adds an order that is found for the sake of few registers alone.
    fn try_lean(&self, candidates: &mut Candidates, budget: i32, strategy: Strategy) {
        let variant = Variant::plain(strategy.name());
        self.try_strategy(candidates, strategy, variant, Mode::ReduceReg, budget);
    }

    /// What the function costs if every block has its cheapest order within `budget`, where the orders before needed `had` registers.
    fn cost(
        &self,
        movable: &[Candidates],
        fixed: &[FixedBlock],
        budget: i32,
        had: i32,
        matrix: bool,
    ) -> Cost {
        let mut demand = Demand::default();
        let mut needed = self.called;
        for candidates in movable {
            // Orders with a window are for blocks of many alike pieces; that they need few registers as well is no reason to have fewer.
            let may = |choice: &Choice| budget >= had || !choice.windowed;
            let choice = cheapest_of(&candidates.small, &candidates.choices, budget, may);
            needed = needed.max(choice.registers());
            demand.add(&choice.estimate, candidates.bytes, candidates.frequency);
        }
        for block in fixed {
            needed = needed.max(block.registers);
            if let Some(estimate) = &block.estimate {
                demand.add(estimate, block.bytes, block.frequency);
            }
        }
        let warps = self.occupancy.warps(needed.max(0) as u32);
        let rate = f64::from(self.memory_bytes) / f64::from(self.files.schedulers);
        let full = [None, Some(rate)].map(|rate| demand.among(warps, rate));
        // A launch may be of few warps, or fill the machine and find its data in caches, or in memory: nobody knows, so each counts alike.
        let usual = match self.options.register_usage() {
            RegisterUsage::Few => (full[0] * full[1]).sqrt(),
            _ => (demand.alone * full[0] * full[1]).cbrt(),
        };
        let extra = match needed >= had {
            true => f64::from(needed - had),
            false if matrix => f64::from(needed - had) * SPARED,
            false => 0.0,
        };
        let price = match self.occupancy.is_given() {
            true => 0.0,
            false => self.options.bump_scale(),
        };
        Cost {
            budget,
            needed,
            warps,
            full,
            alone: demand.alone,
            usual,
            price: 1.0 + price * extra,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warps_are_given_up_only_for_what_loses_nothing_where_all_of_them_are_there() {
        let cost = |warps, full, usual, price| Cost {
            budget: 35,
            needed: 35,
            warps,
            full,
            alone: 600.0,
            usual,
            price,
        };
        let known = cost(16, [100.0, 200.0], 300.0, 1.0);
        let wins = |warps, full, usual| cost(warps, full, usual, 1.1).beats(&known);
        assert!(wins(12, [100.5, 207.0], 280.0));
        assert!(!wins(12, [102.0, 180.0], 280.0));
        assert!(!wins(12, [90.0, 210.0], 280.0));
        // What is gained has to be more than a guess may be wrong by.
        assert!(!wins(12, [100.0, 200.0], 290.0));
        // Where registers cost no warps, they have a price.
        assert!(wins(16, [103.0, 206.0], 270.0));
        assert!(!wins(16, [90.0, 190.0], 280.0));
    }
}
