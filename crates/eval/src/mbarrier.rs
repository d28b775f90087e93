//! An mbarrier: 64 bits that count arrivals and transactions, and change phase when none is missing.
//!
//! The bits are those of Hopper, as ptxas's code for `mbarrier.init`, `.pending_count` and the waits takes them for granted. Counts of
//! arrivals are negative numbers of 20 bits that go up to zero:
//!
//! | bits | what |
//! | --- | --- |
//! | 1 to 20 | arrivals of each phase |
//! | 21 to 41 | transactions that are missing, modulo 2 to the power of 21 |
//! | 43 to 62 | arrivals that are missing in this phase |
//! | 63 | the phase, 0 at first |
//!
//! Nothing in ptxas's code looks at the transactions: that they stand there is a guess. Bits 0 and 42 are kept as they are.
//!
//! ```
//! use orias_eval::mbarrier::{Change, Mbarrier};
//!
//! let barrier = Mbarrier::new(2);
//! let barrier = barrier.after(Change { arrivals: 2, transactions: 64, drops: false });
//! assert_eq!(barrier.phase, 0, "64 bytes are missing");
//! assert_eq!(barrier.after(Change::completed(64)).phase, 1);
//! ```

/// Bits of a count of arrivals, which is kept as what is missing from one past the largest.
pub const COUNT_BITS: u32 = 20;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
const TRANSACTION_BITS: u32 = 21;
const TRANSACTIONS: u64 = (1 << TRANSACTION_BITS) - 1;
/// Where the count of each phase stands.
pub const EXPECTED_AT: u32 = 1;
const TRANSACTIONS_AT: u32 = 21;
/// Where the count of this phase stands.
pub const PENDING_AT: u32 = 43;
const PHASE_AT: u32 = 63;
/// The bits without a known meaning.
const REST: u64 = 1 | 1 << 42;

/// The most arrivals a phase can wait for.
pub const MOST_ARRIVALS: u32 = COUNT as u32;
/// The most transactions that can be missing, or have come too early.
pub const MOST_TRANSACTIONS: i64 = COUNT as i64;

/// An mbarrier taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mbarrier {
    /// Arrivals that are missing in this phase.
    pub pending: u32,
    /// Arrivals of each phase.
    pub expected: u32,
    /// Transactions that are missing; negative when more came than were announced.
    pub transactions: i64,
    /// The phase: 0 or 1.
    pub phase: u32,
    rest: u64,
}

/// What happens to an mbarrier in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Arrivals.
    pub arrivals: u32,
    /// Transactions announced; those that complete are negative.
    pub transactions: i64,
    /// Whether those who arrive do not come again in later phases.
    pub drops: bool,
}

impl Change {
    /// Transactions that are complete: what an asynchronous copy tells its mbarrier.
    pub const fn completed(transactions: i64) -> Self {
        Self {
            arrivals: 0,
            transactions: -transactions,
            drops: false,
        }
    }
}

impl Mbarrier {
    /// One that waits for so many arrivals in each phase.
    pub const fn new(arrivals: u32) -> Self {
        Self {
            pending: arrivals & MOST_ARRIVALS,
            expected: arrivals & MOST_ARRIVALS,
            transactions: 0,
            phase: 0,
            rest: 0,
        }
    }

    /// The mbarrier in a word of memory.
    pub fn unpack(word: u64) -> Self {
        let count = |at: u32| ((1 << COUNT_BITS) - (word >> at & COUNT)) as u32 & MOST_ARRIVALS;
        let up = 64 - TRANSACTION_BITS;
        let transactions = (word >> TRANSACTIONS_AT & TRANSACTIONS) << up;
        Self {
            pending: count(PENDING_AT),
            expected: count(EXPECTED_AT),
            transactions: transactions.cast_signed() >> up,
            phase: (word >> PHASE_AT) as u32,
            rest: word & REST,
        }
    }

    /// The word of memory that holds it.
    pub fn pack(self) -> u64 {
        let count = |n: u32| (n as u64).wrapping_neg() & COUNT;
        self.rest
            | count(self.expected) << EXPECTED_AT
            | (self.transactions.cast_unsigned() & TRANSACTIONS) << TRANSACTIONS_AT
            | count(self.pending) << PENDING_AT
            | (self.phase as u64) << PHASE_AT
    }

    /// The mbarrier after a change: the next phase begins when nothing is missing any more. Counts wrap as the bits do.
    #[must_use]
    pub const fn after(mut self, change: Change) -> Self {
        self.pending = self.pending.wrapping_sub(change.arrivals) & MOST_ARRIVALS;
        self.transactions = self.transactions.wrapping_add(change.transactions);
        if change.drops {
            self.expected = self.expected.wrapping_sub(change.arrivals) & MOST_ARRIVALS;
        }
        if self.pending == 0 && self.transactions == 0 {
            self.pending = self.expected;
            self.phase ^= 1;
        }
        self
    }

    /// What the definition forbids about a change, if anything.
    pub fn objection(&self, change: Change) -> Option<String> {
        if change.arrivals > self.pending {
            return Some(format!(
                "{} arrivals where {} are missing",
                change.arrivals, self.pending
            ));
        }
        let transactions = self.transactions + change.transactions;
        (transactions.abs() > MOST_TRANSACTIONS)
            .then(|| format!("{transactions} transactions under way"))
    }

    /// Whether the phase of that parity is over.
    pub const fn is_over(&self, parity: u32) -> bool {
        self.phase != parity & 1
    }

    /// What it waits for, in words.
    pub fn describe(&self) -> String {
        format!(
            "phase {}, {} of {} arrivals and {} transactions missing",
            self.phase, self.pending, self.expected, self.transactions
        )
    }
}

/// The number of missing arrivals in the upper half of a state, as `mbarrier.pending_count` takes it out.
pub const fn pending_count(state: u64) -> u32 {
    (1 << COUNT_BITS) - (state >> PENDING_AT & COUNT) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_changes_phase_after_all_arrivals_and_transactions() {
        let mut barrier = Mbarrier::new(3);
        let arrive = |arrivals, transactions, drops| Change {
            arrivals,
            transactions,
            drops,
        };
        barrier = barrier.after(arrive(1, 64, false));
        assert_eq!(pending_count(barrier.pack()), 2);
        barrier = barrier.after(arrive(2, 0, false));
        assert_eq!(barrier.phase, 0, "64 transactions are missing");
        assert!(barrier.objection(arrive(1, 0, false)).is_some());
        barrier = barrier.after(Change::completed(64));
        assert_eq!((barrier.phase, barrier.pending), (1, 3));
        assert!(barrier.is_over(0) && !barrier.is_over(1));
        barrier = barrier.after(arrive(1, 0, true));
        assert_eq!(
            (barrier.pending, barrier.expected),
            (2, 2),
            "one less in the next phase"
        );
    }

    #[test]
    fn a_word_of_memory_holds_it_as_ptxas_initialises_it() {
        let word = Mbarrier::new(7).pack();
        let negative = 0x10_0000 - 7;
        assert_eq!(word, negative << 1 | (negative << 11) << 32);
        let early = Mbarrier::new(7).after(Change::completed(48));
        assert_eq!(Mbarrier::unpack(early.pack()), early);
        assert_eq!(early.transactions, -48);
    }
}
