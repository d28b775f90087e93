//! Which branch parted the lanes of a warp, and where they met again.
//!
//! Each lane has a stack of the divergences it has not come back from: the branch, and the lanes that ran together before it. Lanes
//! that meet take those divergences off whose lanes are all there again, or have ended. So the stacks tell what each issue with few
//! lanes is due to. Cost: a step for each lane at every divergence and meeting.

use crate::core::LaneIterator;
use std::collections::BTreeMap;

/// One divergence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Divergence {
    /// Index of the instruction.
    branch: u32,
    /// The lanes that ran together before.
    before: u32,
}

/// What became of the lanes that a branch parted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DivergenceCounts {
    /// How often it parted lanes.
    pub parted: u64,
    /// Instructions that were issued while this was the last branch that kept lanes apart.
    pub issues: u64,
    /// Lanes that were alive and not among those issued for, summed over these instructions.
    pub lost: u64,
    /// How often its lanes were together again, by the index of the instruction where they met.
    pub met: BTreeMap<u32, u64>,
}

impl DivergenceCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.parted += other.parted;
        self.issues += other.issues;
        self.lost += other.lost;
        for (place, times) in &other.met {
            *self.met.entry(*place).or_insert(0) += times;
        }
    }
}

/// The divergences of a warp.
#[derive(Clone, Debug)]
pub(crate) struct DivergenceStacks {
    stacks: [Vec<Divergence>; 32],
    /// By the index of the branch.
    pub counts: BTreeMap<u32, DivergenceCounts>,
}

impl Default for DivergenceStacks {
    fn default() -> Self {
        Self {
            stacks: [const { Vec::new() }; 32],
            counts: BTreeMap::new(),
        }
    }
}

impl DivergenceStacks {
    /// The lanes that ran together until `branch` go on apart.
    pub fn part(&mut self, branch: u32, lanes: u32) {
        let divergence = Divergence {
            branch,
            before: lanes,
        };
        for lane in LaneIterator(lanes) {
            let stack = &mut self.stacks[lane];
            // Lanes that are here are no longer apart for what happened among some of them.
            stack.retain(|old| old.before & !lanes != 0);
            stack.push(divergence);
        }
        self.counts.entry(branch).or_default().parted += 1;
    }

    /// Lanes run together from `place` on.
    pub fn meet(&mut self, place: u32, lanes: u32, live: u32) {
        let mut over: Vec<Divergence> = Vec::new();
        for lane in LaneIterator(lanes) {
            self.stacks[lane].retain(|divergence| {
                let apart = divergence.before & live & !lanes != 0;
                if !apart && !over.contains(divergence) {
                    over.push(*divergence);
                }
                apart
            });
        }
        for divergence in over {
            let counts = self.counts.entry(divergence.branch).or_default();
            *counts.met.entry(place).or_insert(0) += 1;
        }
    }

    /// Charges an issue for `lanes` to the branch that parted them last.
    pub fn charge(&mut self, lanes: u32, live: u32) {
        let lost = (live & !lanes).count_ones();
        if lost == 0 {
            return;
        }
        let lane = lanes.trailing_zeros().min(31) as usize;
        let last = (self.stacks[lane].iter().rev())
            .find(|divergence| divergence.before & live & !lanes != 0)
            .map(|divergence| divergence.branch);
        if let Some(branch) = last {
            let counts = self.counts.entry(branch).or_default();
            counts.issues += 1;
            counts.lost += u64::from(lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issue_is_charged_to_the_last_branch_whose_lanes_are_apart() {
        let mut divergences = DivergenceStacks::default();
        let live = u32::MAX;
        divergences.part(10, u32::MAX);
        divergences.part(20, 0xffff);
        divergences.charge(0xff, live);
        divergences.meet(30, 0xffff, live);
        divergences.charge(0xffff, live);
        divergences.charge(0xffff_0000, live);
        divergences.meet(40, u32::MAX, live);
        divergences.charge(u32::MAX, live);
        let counts = |branch: u32| {
            let counts = &divergences.counts[&branch];
            (
                counts.parted,
                counts.issues,
                counts.lost,
                counts.met.clone(),
            )
        };
        assert_eq!(counts(10), (1, 2, 32, BTreeMap::from([(40, 1)])));
        assert_eq!(counts(20), (1, 1, 24, BTreeMap::from([(30, 1)])));
    }

    #[test]
    fn lanes_that_have_ended_keep_nobody_apart() {
        let mut divergences = DivergenceStacks::default();
        divergences.part(10, u32::MAX);
        divergences.charge(0xffff, 0xffff);
        assert_eq!(divergences.counts[&10].issues, 0);
    }
}
