//! Register reservations: an interval structure that knows which registers are booked, and when.
//!
//! The file ([`super::file`]) says what is free at the point the scan has reached. That is not enough: a register that is free now may be
//! awaited by a value that the scan has yet to meet, in the midst of the life of the one to be placed. So whoever is given a register,
//! or promised one ([`super::coalesce`]), books it here for all points at which it is live, and a value is placed where nobody has
//! booked before, if there is such a place.
//!
//! **Algorithm.** A segment tree over the points of [`super::ranges`], with sets of registers at its nodes: `whole` is booked at every point
//! below the node, `some` at one of them at least. Cost: O(log points) for each run that is booked or asked for.

use super::ranges::Run;

#[derive(Clone, Copy)]
struct Node<const WORDS: usize> {
    whole: [u64; WORDS],
    some: [u64; WORDS],
}

/// The reservations of registers that are bits of so many words.
pub(super) struct Timeline<const WORDS: usize> {
    /// The root is 1, the children of `n` are `2 n` and `2 n + 1`.
    nodes: Vec<Node<WORDS>>,
    /// The first leaf: a power of two.
    leaves: usize,
}

fn add<const WORDS: usize>(to: &mut [u64; WORDS], units: &[u64; WORDS]) {
    for (to, unit) in to.iter_mut().zip(units) {
        *to |= unit;
    }
}

impl<const WORDS: usize> Timeline<WORDS> {
    /// Nothing is booked at any of so many points.
    pub(super) fn new(points: u32) -> Timeline<WORDS> {
        let leaves = (points as usize).next_power_of_two().max(2);
        let nothing = Node {
            whole: [0; WORDS],
            some: [0; WORDS],
        };
        Timeline {
            nodes: vec![nothing; 2 * leaves],
            leaves,
        }
    }

    /// Books `units` for all of `run`.
    pub(super) fn book(&mut self, run: Run, units: &[u64; WORDS]) {
        let (mut low, mut high) = self.ends(run);
        while low < high {
            let first = (low & 1 == 1).then_some(low);
            let last = (high & 1 == 1).then(|| high - 1);
            for node in [first, last].into_iter().flatten() {
                add(&mut self.nodes[node].whole, units);
                add(&mut self.nodes[node].some, units);
            }
            (low, high) = (low.div_ceil(2), high / 2);
        }
        let (low, high) = self.ends(run);
        let (mut first, mut last) = (low / 2, (high - 1) / 2);
        while first != last {
            add(&mut self.nodes[first].some, units);
            add(&mut self.nodes[last].some, units);
            (first, last) = (first / 2, last / 2);
        }
        while first > 0 {
            add(&mut self.nodes[first].some, units);
            first /= 2;
        }
    }

    /// What is booked at any point of `run`.
    pub(super) fn booked(&self, run: Run) -> [u64; WORDS] {
        let mut units = [0; WORDS];
        let (mut low, mut high) = self.ends(run);
        // The way up from both ends is one way from where they meet.
        let (mut first, mut last) = (low, high - 1);
        while first != last {
            add(&mut units, &self.nodes[first].whole);
            add(&mut units, &self.nodes[last].whole);
            (first, last) = (first / 2, last / 2);
        }
        while first > 0 {
            add(&mut units, &self.nodes[first].whole);
            first /= 2;
        }
        while low < high {
            if low & 1 == 1 {
                add(&mut units, &self.nodes[low].some);
            }
            if high & 1 == 1 {
                add(&mut units, &self.nodes[high - 1].some);
            }
            (low, high) = (low.div_ceil(2), high / 2);
        }
        units
    }

    /// The leaf of the first point, and the one behind that of the last.
    fn ends(&self, run: Run) -> (usize, usize) {
        let (start, end) = (run.start as usize, run.end as usize);
        (self.leaves + start, self.leaves + end + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_booked_is_found_at_each_of_its_points_and_nowhere_else() {
        const POINTS: u32 = 13;
        let runs: Vec<Run> = (0..POINTS)
            .flat_map(|start| (start..POINTS).map(move |end| Run { start, end }))
            .collect();
        for (one, &booked) in runs.iter().enumerate() {
            let mut timeline = Timeline::new(POINTS);
            let other = runs[(one * 31 + 7) % runs.len()];
            timeline.book(booked, &[1, 0, 0, 0]);
            timeline.book(other, &[0, 0, 0, 2]);
            for &asked in &runs {
                let meets = |run: Run| run.start <= asked.end && asked.start <= run.end;
                let expected = [meets(booked) as u64, 0, 0, 2 * meets(other) as u64];
                assert_eq!(
                    timeline.booked(asked),
                    expected,
                    "{booked:?} {other:?} {asked:?}"
                );
            }
        }
    }
}
