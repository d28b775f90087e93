//! Lists of lists in two flat arrays ("compressed sparse rows").
//!
//! Every analysis keeps its per-block or per-loop lists this way: one allocation for all rows, rows in order of their
//! number, items of a row in the order they were given.

use std::ops::Range;

/// Row `r` is `items[offsets[r]..offsets[r + 1]]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Csr<T> {
    offsets: Vec<u32>,
    items: Vec<T>,
}

impl<T> Default for Csr<T> {
    fn default() -> Self {
        Csr {
            offsets: vec![0],
            items: Vec::new(),
        }
    }
}

impl<T: Copy> Csr<T> {
    /// Sorts `pairs` of (row, item) into `rows` rows. Items of one row keep their order, so the result is deterministic.
    ///
    /// `pairs` is walked twice: once to count, once to place.
    ///
    /// # Panics
    /// If a pair names a row that does not exist, or there are more than `u32::MAX` pairs.
    pub fn from_pairs<I>(rows: usize, pairs: I) -> Self
    where
        I: Iterator<Item = (u32, T)> + Clone,
    {
        let mut offsets = vec![0u32; rows + 1];
        for (row, _) in pairs.clone() {
            offsets[row as usize + 1] += 1;
        }
        let total = accumulate(&mut offsets);
        let mut items = match pairs.clone().next() {
            Some((_, filler)) => vec![filler; total as usize],
            None => Vec::new(),
        };
        // Each offset runs to the end of its row, where the next row starts.
        for (row, item) in pairs {
            let slot = &mut offsets[row as usize];
            items[*slot as usize] = item;
            *slot += 1;
        }
        offsets.copy_within(..rows, 1);
        offsets[0] = 0;
        Csr { offsets, items }
    }

    /// Makes `rows` rows of runs, each given as (row, length); runs of one row stand in their order. `fill` writes the items of the
    /// run of a number, over `filler`.
    ///
    /// # Panics
    /// If a run names a row that does not exist, or there are more than `u32::MAX` items.
    pub fn from_runs<I>(
        rows: usize,
        runs: I,
        filler: T,
        mut fill: impl FnMut(usize, &mut [T]),
    ) -> Self
    where
        I: Iterator<Item = (u32, u32)> + Clone,
    {
        let mut offsets = vec![0u32; rows + 1];
        for (row, len) in runs.clone() {
            offsets[row as usize + 1] += len;
        }
        let total = accumulate(&mut offsets);
        let mut items = vec![filler; total as usize];
        // Each offset runs to the end of its row, where the next row starts.
        for (number, (row, len)) in runs.enumerate() {
            let slot = &mut offsets[row as usize];
            let start = *slot as usize;
            fill(number, &mut items[start..start + len as usize]);
            *slot += len;
        }
        offsets.copy_within(..rows, 1);
        offsets[0] = 0;
        Csr { offsets, items }
    }

    /// Puts another item in the place of each, or none; rows, which are in ascending order, stay so.
    pub fn replace(&mut self, by: impl Fn(T) -> Option<T>)
    where
        T: Ord,
    {
        let mut kept = 0;
        let mut start = 0;
        let mut others: Vec<T> = Vec::new();
        for row in 0..self.rows() {
            let first = kept;
            let end = self.offsets[row + 1] as usize;
            for index in start..end {
                let item = self.items[index];
                match by(item) {
                    Some(same) if same == item => {
                        self.items[kept] = item;
                        kept += 1;
                    }
                    Some(other) => others.push(other),
                    None => {}
                }
            }
            if !others.is_empty() {
                // Two sorted runs: a stable sort merges them.
                others.sort_unstable();
                let count = others.len();
                self.items[kept..kept + count].copy_from_slice(&others);
                kept += count;
                others.clear();
                self.items[first..kept].sort();
            }
            start = end;
            self.offsets[row + 1] = kept as u32;
        }
        self.items.truncate(kept);
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The items of `row`.
    #[inline]
    pub fn row(&self, row: u32) -> &[T] {
        &self.items[self.range(row)]
    }

    /// Where the items of `row` lie among [`items`](Csr::items).
    #[inline]
    pub fn range(&self, row: u32) -> Range<usize> {
        self.offsets[row as usize] as usize..self.offsets[row as usize + 1] as usize
    }

    /// The items of every row in `rows`, which lie side by side.
    pub fn rows_slice(&self, rows: Range<u32>) -> &[T] {
        &self.items
            [self.offsets[rows.start as usize] as usize..self.offsets[rows.end as usize] as usize]
    }

    /// Every item, row by row.
    pub fn items(&self) -> &[T] {
        &self.items
    }
}

/// Replaces each number by the sum of all up to it, and returns the sum of all.
fn accumulate(offsets: &mut [u32]) -> u32 {
    let mut total = 0u32;
    for offset in offsets {
        total = total
            .checked_add(*offset)
            .expect("more than u32::MAX items in one analysis");
        *offset = total;
    }
    total
}
