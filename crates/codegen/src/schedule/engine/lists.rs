//! Sorted lists of ready instructions, as rows of integers: a key above, the node below.

/// A set of integers of which the smallest are asked for: a row with the smallest last.
#[derive(Debug, Default)]
pub(super) struct Sorted(Vec<u64>);

impl Sorted {
    fn place(&self, key: u64) -> usize {
        self.0.partition_point(|&other| other > key)
    }

    pub(super) fn insert(&mut self, key: u64) {
        let place = self.place(key);
        self.0.insert(place, key);
    }

    pub(super) fn remove(&mut self, key: u64) {
        let place = self.place(key);
        if self.0.get(place) == Some(&key) {
            self.0.remove(place);
        }
    }

    /// Takes out the node of the smallest key, if the number it is sorted by is at most `last`.
    pub(super) fn take_until(&mut self, last: u64) -> Option<u32> {
        self.0.pop_if(|key| *key >> NODE_BITS <= last).map(node_of)
    }

    /// The nodes of the smallest keys, smallest first.
    pub(super) fn nodes(&self, most: usize) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().rev().take(most).map(|&key| node_of(key))
    }
}

/// How many bits of a key say which node it is.
const NODE_BITS: u32 = 24;

fn node_of(key: u64) -> u32 {
    key as u32 & ((1 << NODE_BITS) - 1)
}

/// Sorts by a number first.
pub(super) fn key_by(number: u32, node: usize) -> u64 {
    u64::from(number) << NODE_BITS | node as u64
}

/// Sorts by what is done to the number of live registers, then the most recent first.
pub(super) fn relief_key(grows: i32, recency: u32, node: usize) -> u64 {
    const LATEST: u32 = (1 << NODE_BITS) - 1;
    let grows = (grows + 0x4000) as u64;
    grows << (2 * NODE_BITS) | u64::from(LATEST - recency) << NODE_BITS | node as u64
}
