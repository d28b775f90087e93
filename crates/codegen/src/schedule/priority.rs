//! The priority function of the list scheduler: who goes first.
//!
//! A priority is one integer of eight 8-bit fields; comparing two integers compares the fields from the most to the least important. The
//! mode decides which factor lies in which field, and nothing else:
//!
//! | field | ReduceReg | ILP | DynBatch |
//! | --- | --- | --- | --- |
//! | 7 | live registers it frees | pressure against the budget | the batch byte |
//! | 6 | pressure against the budget | critical-path bit | critical-path bit |
//! | 5 | recency of its operands | cycles it would stall | cycles it would stall |
//! | 4 | latency it starts | latency it starts | latency it starts |
//! | 3 | contention for its pipe | contention for its pipe | contention for its pipe |
//! | 2 | hot or cold memory | hot or cold memory | hot or cold memory |
//! | 1 | not a fence | not a fence | not a fence |
//! | 0 | cycles it would stall | registers it frees (last-use credit) | registers it frees |
//!
//! The batch byte, bit 7 first: a matrix operation whose unit is free; the end of a warpgroup's group (two bits); matrix operations
//! where knob 10981 wants them first; pressure within the budget; member of the batch; not deeper than the batch; tie-break.
//!
//! Between equals: the one that does not stall, then the one with the earlier deadline, then program order.

use std::cmp::Ordering;

/// What the order is to achieve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Few live registers.
    ReduceReg,
    /// Latencies hidden within the register budget.
    Ilp,
    /// The same, with memory and matrix operations in batches.
    DynBatch,
}

impl Mode {
    /// What reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::ReduceReg => "ReduceReg",
            Mode::Ilp => "ILP",
            Mode::DynBatch => "DynBatch",
        }
    }
}

/// What is known of a candidate; each factor from 0 to 255, larger is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Factors {
    /// Live registers it frees; 128 is none.
    pub frees: u8,
    /// How well the budget takes it.
    pub pressure: u8,
    /// 255 if the block gets longer unless it goes now.
    pub critical: u8,
    /// 255 less the cycles until it could issue.
    pub stall: u8,
    /// The latency that starts with it, of the block's longest.
    pub latency: u8,
    /// How idle its pipe is.
    pub contention: u8,
    /// Global memory above all else, constant memory below.
    pub heat: u8,
    /// 0 for a fence.
    pub barrier: u8,
    /// How recently its operands were made.
    pub recency: u8,
    /// The batch byte.
    pub batch: u8,
}

impl Factors {
    /// The packed priority.
    #[inline(always)]
    pub fn pack(&self, mode: Mode) -> u64 {
        let fields = match mode {
            Mode::ReduceReg => [
                self.frees,
                self.pressure,
                self.recency,
                self.latency,
                self.contention,
                self.heat,
                self.barrier,
                self.stall,
            ],
            Mode::Ilp => [
                self.pressure,
                self.critical,
                self.stall,
                self.latency,
                self.contention,
                self.heat,
                self.barrier,
                self.frees,
            ],
            Mode::DynBatch => [
                self.batch,
                self.critical,
                self.stall,
                self.latency,
                self.contention,
                self.heat,
                self.barrier,
                self.frees,
            ],
        };
        u64::from_be_bytes(fields)
    }
}

/// A candidate, ready to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The node.
    pub node: u32,
    /// Its packed priority.
    pub priority: u64,
    /// Whether it can issue at once.
    pub stall_free: bool,
    /// The last cycle in which it can issue without making the block longer.
    pub deadline: u32,
}

impl Candidate {
    /// Whether it goes before the other one.
    #[inline]
    pub fn is_before(&self, other: &Candidate) -> bool {
        match self.priority == other.priority {
            true => self.compare(other).is_gt(),
            false => self.priority > other.priority,
        }
    }

    /// Greater is better; no two nodes are equal.
    pub fn compare(&self, other: &Candidate) -> Ordering {
        self.priority
            .cmp(&other.priority)
            .then(self.stall_free.cmp(&other.stall_free))
            .then(other.deadline.cmp(&self.deadline))
            .then(other.node.cmp(&self.node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_field_of_a_mode_decides() {
        let frees = Factors {
            frees: 130,
            stall: 0,
            ..Factors::default()
        };
        let waits_not = Factors {
            frees: 128,
            stall: 255,
            latency: 255,
            ..Factors::default()
        };
        assert!(frees.pack(Mode::ReduceReg) > waits_not.pack(Mode::ReduceReg));
        assert!(frees.pack(Mode::Ilp) < waits_not.pack(Mode::Ilp));
    }

    #[test]
    fn equals_are_told_apart_by_stall_deadline_and_place() {
        let candidate = |node, stall_free, deadline| Candidate {
            node,
            priority: 7,
            stall_free,
            deadline,
        };
        let best = [
            candidate(4, false, 1),
            candidate(3, true, 9),
            candidate(2, true, 5),
            candidate(1, true, 5),
        ]
        .into_iter()
        .max_by(Candidate::compare);
        assert_eq!(best.map(|candidate| candidate.node), Some(1));
    }
}
