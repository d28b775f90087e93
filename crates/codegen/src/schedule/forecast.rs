//! Whether an instruction can go ahead of its turn without breaking the register budget.
//!
//! A list scheduler that looks only at what is live now paints itself into corners: it starts what cannot be finished within the budget.
//! So there is a *reference*: an order of the block that keeps the budget. The forecast knows how many registers will be live at each
//! instruction still to come if they came in that order from now on. Taking one of them ahead of its turn makes its results
//! live until the place it had, and may end what it reads earlier; if no place before it gets above the budget by that, it may go. The
//! first one of the reference can always go. So the budget holds at every step, and in the end, if it held for the reference.
//!
//! Places are the leaves of a tree of maxima with pending additions: asking and moving cost O(log n) for each operand.

use super::live::{BlockValues, Pressure};
use orias_ori::Class;

/// Classes that have a limit.
pub const CLASSES: [Class; 4] = [Class::R, Class::P, Class::UR, Class::UP];

type Four = [i32; 4];

/// What a place holds whose instruction has gone.
const GONE: i32 = i32::MIN / 4;

/// What will be live.
#[derive(Clone, Debug)]
pub struct Forecast<'a> {
    values: &'a BlockValues,
    /// By node: its place in the reference.
    rank: Vec<u32>,
    /// By node: whether it has gone.
    gone: Vec<bool>,
    /// By value: its readers, by place, and how many of them are still looked at from the end.
    readers: Vec<Vec<u32>>,
    /// The tree: node 1 is the root, leaves start at `leaves`.
    leaves: usize,
    most: Vec<Four>,
    pending: Vec<Four>,
}

fn lane(class: Class) -> Option<usize> {
    CLASSES.iter().position(|&known| known == class)
}

impl<'a> Forecast<'a> {
    /// The forecast of `reference`, with nothing gone yet.
    pub fn new(values: &'a BlockValues, reference: &[u32]) -> Self {
        let count = reference.len();
        let mut rank = vec![0u32; count];
        let leaves = count.next_power_of_two();
        let mut most = vec![[GONE; 4]; 2 * leaves];
        let mut pressure = Pressure::new(values);
        for (place, &node) in reference.iter().enumerate() {
            rank[node as usize] = place as u32;
            most[leaves + place] = CLASSES.map(|class| pressure.at(node as usize, class));
            pressure.schedule(node as usize, &mut |_| {});
        }
        for node in (1..leaves).rev() {
            most[node] = max(most[2 * node], most[2 * node + 1]);
        }
        let readers = (0..values.len() as u32)
            .map(|value| {
                let mut readers = values.users(value).to_vec();
                readers.sort_unstable_by_key(|&reader| rank[reader as usize]);
                readers
            })
            .collect();
        Forecast {
            values,
            rank,
            gone: vec![false; count],
            readers,
            leaves,
            most,
            pending: vec![[0; 4]; 2 * leaves],
        }
    }

    /// The place of `node` in the reference.
    pub fn rank(&self, node: usize) -> u32 {
        self.rank[node]
    }

    /// The most that will be live before the turn of `node`, by class.
    pub fn before(&self, node: usize) -> [i32; 4] {
        self.prefix(self.rank[node] as usize)
    }

    /// The maximum over the places before `end`.
    fn prefix(&self, end: usize) -> Four {
        // Down from the root towards `end`: left children passed on the way are before it.
        let mut result = [GONE; 4];
        if end >= self.leaves {
            return self.most[1];
        }
        let mut added = [0; 4];
        let mut node = 1;
        let mut width = self.leaves;
        let mut start = 0;
        while node < self.leaves {
            added = sum(added, self.pending[node]);
            width /= 2;
            if end >= start + width {
                result = max(result, sum(added, self.most[2 * node]));
                start += width;
                node = 2 * node + 1;
            } else {
                node *= 2;
            }
        }
        result
    }

    /// Adds to the places `start..end`.
    fn add(&mut self, start: usize, end: usize, amount: Four) {
        if start < end && amount != [0; 4] {
            self.add_below(1, 0, self.leaves, start, end, amount);
        }
    }

    fn add_below(
        &mut self,
        node: usize,
        at: usize,
        width: usize,
        start: usize,
        end: usize,
        amount: Four,
    ) {
        if end <= at || at + width <= start {
            return;
        }
        if start <= at && at + width <= end {
            self.most[node] = sum(self.most[node], amount);
            self.pending[node] = sum(self.pending[node], amount);
            return;
        }
        let half = width / 2;
        self.add_below(2 * node, at, half, start, end, amount);
        self.add_below(2 * node + 1, at + half, half, start, end, amount);
        let below = max(self.most[2 * node], self.most[2 * node + 1]);
        self.most[node] = sum(below, self.pending[node]);
    }

    /// `node` goes now.
    pub fn go(&mut self, node: usize) {
        let values = self.values;
        let rank = self.rank[node] as usize;
        self.gone[node] = true;
        let mut made = [0; 4];
        for &value in values.defs(node) {
            let (class, width) = values.kind(value);
            if let Some(lane) = lane(class)
                && (values.is_live_out(value) || !values.users(value).is_empty())
            {
                made[lane] += width;
            }
        }
        self.add(0, rank, made);
        for &value in values.uses(node) {
            let readers = &mut self.readers[value as usize];
            if readers.last() != Some(&(node as u32)) {
                continue;
            }
            while readers
                .last()
                .is_some_and(|&reader| self.gone[reader as usize])
            {
                readers.pop();
            }
            if values.is_live_out(value) {
                continue;
            }
            let from = match readers.last() {
                Some(&reader) => self.rank[reader as usize] as usize + 1,
                None => 0,
            };
            let (class, width) = values.kind(value);
            if let Some(lane) = lane(class) {
                let mut freed = [0; 4];
                freed[lane] = -width;
                self.add(from, rank, freed);
            }
        }
        self.add(rank, rank + 1, [GONE; 4]);
    }
}

fn max(a: Four, b: Four) -> Four {
    std::array::from_fn(|lane| a[lane].max(b[lane]))
}

fn sum(a: Four, b: Four) -> Four {
    std::array::from_fn(|lane| (a[lane] + b[lane]).max(GONE))
}
