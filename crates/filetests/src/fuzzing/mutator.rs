//! Inputs that are almost right: seeds, broken at random.
//!
//! The same number gives the same input on every machine, so a failure in a test is reproduced by running it again.

use orias_random::Rng;

/// Makes inputs from seeds and words that mean something to the reader.
pub struct Mutator<'a> {
    seeds: &'a [Vec<u8>],
    words: &'a [&'a str],
    random: Rng,
}

/// No input grows beyond this, so that many can be tried.
const MAX_LENGTH: usize = 1 << 14;

impl<'a> Mutator<'a> {
    /// Inputs from `seeds`, the `stream`-th sequence of them.
    pub fn new(seeds: &'a [Vec<u8>], words: &'a [&'a str], stream: u64) -> Self {
        Self {
            seeds,
            words,
            random: Rng::new(stream),
        }
    }

    /// A number below `limit`, or 0 when there is none.
    fn below(&mut self, limit: usize) -> usize {
        match limit {
            0 => 0,
            _ => (self.random.next_u64() % limit as u64) as usize,
        }
    }

    /// A range within `length`, mostly short.
    fn range(&mut self, length: usize) -> std::ops::Range<usize> {
        let start = self.below(length + 1);
        let longest = (length - start).min(1 << self.below(9));
        start..start + self.below(longest + 1)
    }

    /// The next input: a seed, changed in up to eight places.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = match self.below(self.seeds.len() + 1) {
            0 => Vec::new(),
            seed => self.seeds[seed - 1].clone(),
        };
        for _ in 0..=self.below(8) {
            self.change(&mut input);
        }
        input.truncate(MAX_LENGTH);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.below(input.len() + 1);
        match self.below(8) {
            0 if at < input.len() => input[at] ^= 1 << self.below(8),
            1 if at < input.len() => input[at] = self.random.next_u64() as u8,
            2 => {
                let range = self.range(input.len());
                input.drain(range);
            }
            3 => {
                let copied = input[self.range(input.len())].to_vec();
                input.splice(at..at, copied);
            }
            4 => input.truncate(at),
            5 if !self.seeds.is_empty() => {
                let other = &self.seeds[self.below(self.seeds.len())];
                let piece = other[self.range(other.len())].to_vec();
                input.splice(at..at, piece);
            }
            6 => {
                let bytes: Vec<u8> = (0..self.below(9))
                    .map(|_| self.random.next_u64() as u8)
                    .collect();
                input.splice(at..at, bytes);
            }
            _ if !self.words.is_empty() => {
                let word = self.words[self.below(self.words.len())];
                input.splice(at..at, word.bytes());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_the_same_each_time_and_differ_from_each_other() {
        let seeds = vec![b"-arch=sm_90a a.ptx".to_vec()];
        let run = || {
            let mut mutator = Mutator::new(&seeds, &["-O3"], 7);
            (0..100).map(|_| mutator.next_input()).collect::<Vec<_>>()
        };
        let first = run();
        assert_eq!(first, run());
        let distinct: std::collections::BTreeSet<_> = first.iter().collect();
        assert!(distinct.len() > 80);
        assert!(
            first
                .iter()
                .any(|input| input.windows(3).any(|w| w == b"-O3"))
        );
    }
}
