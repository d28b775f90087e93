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

/// Whether an order needs no more of the small register files than it may, or than the order before did.
pub(super) fn keeps_files(files: &RegisterFiles, choice: &Choice, had: &Choice) -> bool {
    let mut small = small_files(files).into_iter();
    small.all(|(class, usable)| choice.peak[class as usize] <= had.peak[class as usize].max(usable))
}

/// The cheapest of the orders that need at most `limit` registers, or the one that needs least. Of equals, the first.
pub(super) fn cheapest<'a>(files: &RegisterFiles, choices: &'a [Choice], limit: i32) -> &'a Choice {
    cheapest_of(files, choices, limit, |_| true)
}

/// The same, of those that `may` be taken, and the one before.
pub(super) fn cheapest_of<'a>(
    files: &RegisterFiles,
    choices: &'a [Choice],
    limit: i32,
    may: impl Fn(&Choice) -> bool,
) -> &'a Choice {
    let had = &choices[0];
    let rank = |choice: &Choice| {
        let over = (choice.registers() - limit).max(0);
        (
            !keeps_files(files, choice, had),
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
