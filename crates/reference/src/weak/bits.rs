//! A relation on numbered things, as a square of bits.

/// Which thing is related to which.
#[derive(Clone, Debug)]
pub(crate) struct Square {
    words: usize,
    rows: Vec<u64>,
}

impl Square {
    /// Nothing is related.
    pub fn new(count: usize) -> Self {
        let words = count.div_ceil(64);
        Self {
            words,
            rows: vec![0; words * count],
        }
    }

    pub fn has(&self, a: usize, b: usize) -> bool {
        self.rows[a * self.words + b / 64] >> (b % 64) & 1 == 1
    }

    pub fn set(&mut self, a: usize, b: usize) {
        self.rows[a * self.words + b / 64] |= 1 << (b % 64);
    }

    /// What `a` is related to.
    pub fn row(&self, a: usize) -> impl Iterator<Item = usize> {
        let row = &self.rows[a * self.words..(a + 1) * self.words];
        row.iter().enumerate().flat_map(|(at, &word)| {
            (0..64)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| at * 64 + bit)
        })
    }

    fn count(&self) -> usize {
        self.rows.len().checked_div(self.words).unwrap_or(0)
    }

    /// Adds a row to another.
    fn join(&mut self, into: usize, from: usize) {
        for word in 0..self.words {
            self.rows[into * self.words + word] |= self.rows[from * self.words + word];
        }
    }

    /// The transitive closure, by Warshall's algorithm.
    pub fn close(&mut self) {
        for middle in 0..self.count() {
            for start in 0..self.count() {
                if self.has(start, middle) {
                    self.join(start, middle);
                }
            }
        }
    }

    /// First this, then `next`.
    pub fn then(&self, next: &Self) -> Self {
        let mut both = Self::new(self.count());
        for start in 0..self.count() {
            for middle in self.row(start) {
                for word in 0..self.words {
                    both.rows[start * self.words + word] |= next.rows[middle * self.words + word];
                }
            }
        }
        both
    }

    /// This or another.
    pub fn or(mut self, other: &Self) -> Self {
        for (word, more) in self.rows.iter_mut().zip(&other.rows) {
            *word |= more;
        }
        self
    }
}
