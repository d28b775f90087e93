//! Counts by instruction: how often it was issued, how long the warp stood before it, and why.

use crate::divergence::DivergenceCounts;
use std::collections::BTreeMap;

/// Counts of one instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times a warp issued it.
    pub issued: u64,
    /// Threads that ran it, guard included.
    pub threads: u64,
    /// Cycles spent before its issue because of the stall count of the instruction before.
    pub stalled: u64,
    /// Cycles spent before its issue waiting for barriers.
    pub waited: u64,
}

/// The counts of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// By instruction, in the order of the code.
    pub instructions: Vec<Counts>,
    /// Cycles from the first to the last issue of a warp, summed over warps.
    pub warp_cycles: u64,
    /// The longest of them.
    pub longest_warp: u64,
    /// Warps.
    pub warps: u64,
    /// Instructions issued.
    pub issues: u64,
    /// Lanes they were issued for, whatever their guards.
    pub lanes: u64,
    /// What branches cost that parted lanes, by the index of the instruction.
    pub divergences: BTreeMap<u32, DivergenceCounts>,
}

impl Profile {
    pub(crate) fn new(instructions: usize) -> Self {
        Self {
            instructions: vec![Counts::default(); instructions],
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, other: &Profile) {
        for (to, from) in self.instructions.iter_mut().zip(&other.instructions) {
            to.issued += from.issued;
            to.threads += from.threads;
            to.stalled += from.stalled;
            to.waited += from.waited;
        }
        self.warp_cycles += other.warp_cycles;
        self.longest_warp = self.longest_warp.max(other.longest_warp);
        self.warps += other.warps;
        self.issues += other.issues;
        self.lanes += other.lanes;
        self.add_divergences(&other.divergences);
    }
    pub(crate) fn add_divergences(&mut self, other: &BTreeMap<u32, DivergenceCounts>) {
        for (branch, counts) in other {
            self.divergences.entry(*branch).or_default().add(counts);
        }
    }

    /// Issues and lanes in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        format!(
            "{} instructions issued, {:.1} a warp, for {:.2} lanes each\n",
            self.issues,
            self.issues as f64 / self.warps.max(1) as f64,
            self.lanes_per_issue()
        )
    }

    /// Lanes per issued instruction.
    #[must_use]
    pub fn lanes_per_issue(&self) -> f64 {
        self.lanes as f64 / self.issues.max(1) as f64
    }
}
