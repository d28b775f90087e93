//! Loads from far memory first, and before them only what leads to them.
//!
//! While the first loads of a block wait for an address, a scheduler that sees one warp fills the time with whatever is at hand: that costs
//! this warp nothing. But where several warps take turns each of these instructions delays the loads of all of them, and behind the
//! loads, where everybody waits, they would cost nobody anything. (A kernel of 48 registers with 22 constants took 1.05 times as long
//! with the constants in front of its loads.)
//!
//! So this is one more way of scheduling a block of which nothing is known but that it starts with loads: what does not lead to them is no
//! candidate before they have issued. If the order is hardly longer for a warp alone it is taken.

use crate::schedule::graph::{Graph, Node};

/// A load from which it takes at least so many cycles until its result is there is one from far memory.
const FAR: u16 = 200;

/// What leads to the first loads of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct Early {
    /// By node: whether it leads to one of them, or is one.
    leads: Vec<bool>,
    /// By node: whether it is one.
    loads: Vec<bool>,
    /// How many there are.
    pub(super) count: u32,
}

impl Early {
    /// Finds them; nothing if all that comes before them leads to them in any case.
    pub(super) fn new(graph: &Graph) -> Early {
        let count = graph.len();
        let is_far = |node: &Node| node.loads && !node.stores && node.latency >= FAR;
        // Whether a far load comes before, on some path.
        let mut behind = vec![false; count];
        let mut loads = vec![false; count];
        for node in graph.body() {
            let mut edges = graph.preds(node).iter().map(|edge| edge.from as usize);
            behind[node] = edges.any(|from| behind[from] || is_far(&graph.nodes[from]));
            loads[node] = is_far(&graph.nodes[node]) && !behind[node];
        }
        let mut leads = loads.clone();
        for node in graph.body().rev() {
            if leads[node] {
                for edge in graph.preds(node) {
                    leads[edge.from as usize] = true;
                }
                // Runs are issued as one.
                if graph.nodes[node].with_previous && node > 0 {
                    leads[node - 1] = true;
                }
            }
        }
        let number = loads.iter().filter(|load| **load).count();
        if number == 0 || graph.body().all(|node| leads[node]) {
            return Early::default();
        }
        Early {
            leads,
            loads,
            count: number as u32,
        }
    }

    /// Whether a node is put off until the loads have issued.
    pub(super) fn waits(&self, node: u32) -> bool {
        !self.leads[node as usize]
    }

    /// Whether a node is one of the loads.
    pub(super) fn is_load(&self, node: u32) -> bool {
        self.loads[node as usize]
    }
}
