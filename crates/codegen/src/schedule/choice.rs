//! The orders that a block could have, and which of them is the cheapest within a number of registers.

use super::estimate::Estimate;
use super::live::Counts;
use orias_machine::registers::RegisterFiles;
use orias_ori::Class;

/// An order that a block could have.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) by: &'static str,
    pub(super) order: Vec<u32>,
    pub(super) peak: Counts,
    pub(super) estimate: Estimate,
    /// Whether the engine had a window.
    pub(super) windowed: bool,
    /// Whether it was found to have a reference with few live registers, whatever that costs.
    pub(super) lean: bool,
}

impl Choice {
    pub(super) fn registers(&self) -> i32 {
        self.peak[Class::R as usize]
    }
}

/// The small register files, and how many registers of each an order may need: one is left for what the allocator may have to move.
pub(super) fn small_files(files: &RegisterFiles) -> [(Class, i32); 3] {
    [Class::P, Class::UR, Class::UP].map(|class| (class, i32::from(files.usable(class.into())) - 1))
}

/// How many registers of the small files are missing where so much is live, and spilled therefore.
pub(super) fn missing(files: &RegisterFiles, peak: &Counts) -> i32 {
    let small = small_files(files).into_iter();
    small
        .map(|(class, usable)| (peak[class as usize] - usable - 1).max(0))
        .sum()
}

/// How many registers of each of the small files an order may need: what there is, or what an order needs that is known.
pub(super) fn small_limits(files: &RegisterFiles, known: &Counts) -> Counts {
    let mut limits = [i32::MAX; 5];
    for (class, usable) in small_files(files) {
        limits[class as usize] = usable.max(known[class as usize]);
    }
    limits
}

/// Whether an order needs no more of the small register files than it may.
pub(super) fn keeps_files(small: &Counts, choice: &Choice) -> bool {
    choice.peak.iter().zip(small).all(|(has, may)| has <= may)
}

/// Which of the orders that keep the small register files needs the fewest general registers.
pub(super) fn leanest(small: &Counts, choices: &[Choice]) -> usize {
    let kept = (0..choices.len()).filter(|&index| keeps_files(small, &choices[index]));
    kept.min_by_key(|&index| choices[index].registers())
        .unwrap_or(0)
}

/// The cheapest of the orders that need at most `limit` registers, or the one that needs least. Of equals, the first.
pub(super) fn cheapest<'a>(small: &Counts, choices: &'a [Choice], limit: i32) -> &'a Choice {
    cheapest_of(small, choices, limit, |_| true)
}

/// The same, of those that `may` be taken, and the one before.
pub(super) fn cheapest_of<'a>(
    small: &Counts,
    choices: &'a [Choice],
    limit: i32,
    may: impl Fn(&Choice) -> bool,
) -> &'a Choice {
    let had = &choices[0];
    let rank = |choice: &Choice| {
        let over = (choice.registers() - limit).max(0);
        (
            !keeps_files(small, choice),
            over,
            choice.estimate.product(),
            choice.estimate.cycles,
            choice.registers(),
        )
    };
    let mut best = had;
    for choice in choices[1..].iter().filter(|choice| may(choice)) {
        if rank(choice) < rank(best) {
            best = choice;
        }
    }
    best
}
