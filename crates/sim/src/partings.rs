//! Which branch parted the lanes of a warp, and where they met again.
//!
//! Each lane has a stack of the partings it has not come back from: the branch, and the lanes that ran together before it. Lanes
//! that meet take those partings off whose lanes are all there again, or have ended. So the stacks tell what each issue with few
//! lanes is due to. Cost: a step for each lane at every parting and meeting.

use crate::core::LaneIterator;
use std::collections::BTreeMap;

/// One parting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parting {
    /// Index of the instruction.
    branch: u32,
    /// The lanes that ran together before.
    before: u32,
}

/// What became of the lanes that a branch parted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartingCounts {
    /// How often it parted lanes.
    pub parted: u64,
    /// Instructions that were issued while this was the last branch that kept lanes apart.
    pub issues: u64,
    /// Lanes that were alive and not among those issued for, summed over these instructions.
    pub lost: u64,
    /// How often its lanes were together again, by the index of the instruction where they met.
    pub met: BTreeMap<u32, u64>,
}

impl PartingCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.parted += other.parted;
        self.issues += other.issues;
        self.lost += other.lost;
        for (place, times) in &other.met {
            *self.met.entry(*place).or_insert(0) += times;
        }
    }
}

/// The partings of a warp.
#[derive(Clone, Debug)]
pub(crate) struct Partings {
    stacks: [Vec<Parting>; 32],
    /// By the index of the branch.
    pub counts: BTreeMap<u32, PartingCounts>,
}

impl Default for Partings {
    fn default() -> Self {
        Self {
            stacks: [const { Vec::new() }; 32],
            counts: BTreeMap::new(),
        }
    }
}

impl Partings {
    /// The lanes that ran together until `branch` go on apart.
    pub fn part(&mut self, branch: u32, lanes: u32) {
        let parting = Parting {
            branch,
            before: lanes,
        };
        for lane in LaneIterator(lanes) {
            let stack = &mut self.stacks[lane];
            // Lanes that are here are no longer apart for what happened among some of them.
            stack.retain(|old| old.before & !lanes != 0);
            stack.push(parting);
        }
        self.counts.entry(branch).or_default().parted += 1;
    }

    /// Lanes run together from `place` on.
    pub fn meet(&mut self, place: u32, lanes: u32, live: u32) {
        let mut over: Vec<Parting> = Vec::new();
        for lane in LaneIterator(lanes) {
            self.stacks[lane].retain(|parting| {
                let apart = parting.before & live & !lanes != 0;
                if !apart && !over.contains(parting) {
                    over.push(*parting);
                }
                apart
            });
        }
        for parting in over {
            let counts = self.counts.entry(parting.branch).or_default();
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
            .find(|parting| parting.before & live & !lanes != 0)
            .map(|parting| parting.branch);
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
        let mut partings = Partings::default();
        let live = u32::MAX;
        partings.part(10, u32::MAX);
        partings.part(20, 0xffff);
        partings.charge(0xff, live);
        partings.meet(30, 0xffff, live);
        partings.charge(0xffff, live);
        partings.charge(0xffff_0000, live);
        partings.meet(40, u32::MAX, live);
        partings.charge(u32::MAX, live);
        let counts = |branch: u32| {
            let counts = &partings.counts[&branch];
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
        let mut partings = Partings::default();
        partings.part(10, u32::MAX);
        partings.charge(0xffff, 0xffff);
        assert_eq!(partings.counts[&10].issues, 0);
    }
}
