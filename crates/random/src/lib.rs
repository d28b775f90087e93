//! SplitMix64, a pseudo-random number generator: numbers that look random and are the same on every machine.
//!
//! **For:** everything that draws: generators of programs, mutators, schedules and latencies of the emulator and the interpreter,
//! buffers, shuffled orders. A result that was drawn is told by its seed.
//!
//! **May know:** nobody.
//!
//! **Must never know:** what its numbers are for.
//!
//! Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014: the state goes up by a constant, and each state
//! is mixed. One addition and two multiplications a number; any seed is as good as another. Not for secrets.

/// 2^64 divided by the golden ratio, made odd: what the state goes up by. Multiplying by it spreads small numbers over all bits, too.
pub const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence of numbers.
///
/// ```
/// let mut dice = orias_random::Rng::new(7);
/// let throws: Vec<usize> = (0..3).map(|_| 1 + dice.below(6)).collect();
/// assert!(throws.iter().all(|throw| (1..=6).contains(throw)));
/// assert_eq!(dice.clone().next_u64(), dice.next_u64());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Rng(u64);

impl Rng {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_RATIO);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`; 0 if there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of `items`.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Puts items into an order in which each order is as likely as another (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// 128 bits.
    pub fn next_u128(&mut self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // The numbers that the authors' program prints for seed 1234567.
        let mut random = Rng::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
        ];
        assert_eq!(first, published);
    }

    #[test]
    fn a_number_is_below_its_bound() {
        let mut random = Rng::new(0);
        assert!((1..200).all(|bound| random.below(bound) < bound));
        assert_eq!(random.below(0), 0);
    }
}
