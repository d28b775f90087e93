//! Pressure look-ahead: whether an instruction can go ahead of its turn without breaking the register budget.
//!
//! A list scheduler that looks only at what is live now paints itself into corners: it starts what cannot be finished within the budget.
//! So there is a *reference*: an order of the block that keeps the budget. The forecast knows how many registers will be live at each
//! instruction still to come if they came in that order from now on. Taking one of them ahead of its turn makes its results
//! live until the place it had, and may end what it reads earlier; if no place before it gets above the budget by that, it may go. The
//! first one of the reference can always go. So the budget holds at every step, and in the end, if it held for the reference.
//!
//! Places are the leaves of a tree, each with the difference to the place before it; a node has the sum of its differences and the
//! largest of their partial sums. Adding to a row of places changes two leaves, and one if the row starts with the first: asking and
//! moving cost O(log n) for each operand.

use super::live::{BlockValues, Pressure};
use orias_ori::Class;

/// A number for each class that has a limit: R, P, UR and UP.
type Four = [i32; 4];

/// What a place holds whose instruction has gone.
const GONE: i32 = i32::MIN / 4;

/// A node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sums {
    /// All its differences.
    sum: Four,
    /// The largest sum of its first differences that ends with a place still to come.
    most: Four,
}

impl Sums {
    const NOTHING: Sums = Sums {
        sum: [0; 4],
        most: [GONE; 4],
    };

    fn join(left: Sums, right: Sums) -> Sums {
        Sums {
            sum: sum(left.sum, right.sum),
            most: max(left.most, sum(left.sum, right.most)),
        }
    }
}

/// What will be live.
#[derive(Clone, Debug)]
pub struct Forecast<'a> {
    values: &'a BlockValues,
    /// By node: its place in the reference.
    rank: Vec<u32>,
    /// By node: whether it has gone.
    gone: Vec<bool>,
    /// The readers of each value, by place, where the books have its users.
    readers: Vec<u32>,
    /// By value: the end of those readers that are still looked at.
    reader_ends: Vec<u32>,
    /// The tree: node 1 is the root, leaves start at `leaves`.
    leaves: usize,
    tree: Vec<Sums>,
    /// What is added to all places.
    base: Four,
}

fn lane(class: Class) -> Option<usize> {
    match class {
        Class::R => Some(0),
        Class::P => Some(1),
        Class::UR => Some(2),
        Class::UP => Some(3),
        Class::B => None,
    }
}

impl<'a> Forecast<'a> {
    /// The forecast of `reference`, with nothing gone yet.
    pub fn new(values: &'a BlockValues, reference: &[u32]) -> Self {
        let count = reference.len();
        let mut rank = vec![0u32; count];
        let leaves = count.next_power_of_two();
        let mut tree = vec![Sums::NOTHING; 2 * leaves];
        let mut pressure = Pressure::new(values);
        let mut reader_ends: Vec<u32> = values.user_starts()[..values.len()].to_vec();
        let mut readers = vec![0u32; values.all_users()];
        let mut before = [0; 4];
        for (place, &node) in reference.iter().enumerate() {
            rank[node as usize] = place as u32;
            let live = pressure.during(node as usize);
            let step = std::array::from_fn(|lane| live[lane] - before[lane]);
            tree[leaves + place] = Sums {
                sum: step,
                most: step,
            };
            before = live;
            for &value in values.uses(node as usize) {
                let end = &mut reader_ends[value as usize];
                readers[*end as usize] = node;
                *end += 1;
            }
            pressure.schedule(node as usize, &mut |_| {});
        }
        for node in (1..leaves).rev() {
            tree[node] = Sums::join(tree[2 * node], tree[2 * node + 1]);
        }
        Forecast {
            values,
            rank,
            gone: vec![false; count],
            readers,
            reader_ends,
            leaves,
            tree,
            base: [0; 4],
        }
    }

    /// The place of `node` in the reference.
    pub fn rank(&self, node: usize) -> u32 {
        self.rank[node]
    }

    /// The most that will be live before the turn of `node`, by class.
    pub fn before(&self, node: usize) -> Four {
        sum(self.base, self.prefix(self.rank[node] as usize))
    }

    /// The most that will be live, by class.
    pub fn most(&self) -> Four {
        sum(self.base, self.tree[1].most)
    }

    /// The maximum over the places before `end`, without what is added to all.
    fn prefix(&self, end: usize) -> Four {
        // Down from the root towards `end`: left children passed on the way are before it.
        let mut result = [GONE; 4];
        let mut passed = [0; 4];
        let mut node = 1;
        let mut width = self.leaves;
        let mut start = 0;
        while node < self.leaves {
            width /= 2;
            node *= 2;
            if end >= start + width {
                let left = &self.tree[node];
                result = max(result, sum(passed, left.most));
                passed = sum(passed, left.sum);
                start += width;
                node += 1;
            }
        }
        result
    }

    /// Adds to the difference of a place.
    fn add(&mut self, place: usize, lane: usize, amount: i32) {
        let leaf = &mut self.tree[self.leaves + place];
        leaf.sum[lane] += amount;
        leaf.most[lane] += amount;
        self.mend(place);
    }

    /// Computes anew what stands above a leaf, as far as it changes.
    fn mend(&mut self, place: usize) {
        let mut node = (self.leaves + place) / 2;
        while node > 0 {
            let joined = Sums::join(self.tree[2 * node], self.tree[2 * node + 1]);
            if self.tree[node] == joined {
                break;
            }
            self.tree[node] = joined;
            node /= 2;
        }
    }

    /// `node` goes now.
    pub fn go(&mut self, node: usize) {
        let values = self.values;
        let rank = self.rank[node] as usize;
        self.gone[node] = true;
        // What is added to the places before `rank`.
        let mut added = values.made(node);
        for &value in values.uses(node) {
            let first = values.user_starts()[value as usize] as usize;
            let mut end = self.reader_ends[value as usize] as usize;
            if end == first || self.readers[end - 1] != node as u32 {
                continue;
            }
            while end > first && self.gone[self.readers[end - 1] as usize] {
                end -= 1;
            }
            self.reader_ends[value as usize] = end as u32;
            if values.is_live_out(value) {
                continue;
            }
            let (class, width) = values.kind(value);
            let Some(lane) = lane(class) else { continue };
            if end == first {
                added[lane] -= width;
                continue;
            }
            let from = self.rank[self.readers[end - 1] as usize] as usize + 1;
            if from < rank {
                self.add(from, lane, -width);
                self.tree[self.leaves + rank].sum[lane] += width;
            }
        }
        self.base = sum(self.base, added);
        let leaf = &mut self.tree[self.leaves + rank];
        leaf.sum = std::array::from_fn(|lane| leaf.sum[lane] - added[lane]);
        leaf.most = [GONE; 4];
        self.mend(rank);
    }
}

fn max(a: Four, b: Four) -> Four {
    std::array::from_fn(|lane| a[lane].max(b[lane]))
}

fn sum(a: Four, b: Four) -> Four {
    std::array::from_fn(|lane| a[lane] + b[lane])
}
