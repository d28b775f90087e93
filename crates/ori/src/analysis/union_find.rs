//! Disjoint sets whose representative the caller chooses.

/// Disjoint sets over `0..len`, with path halving. `absorb` makes the second argument's representative the first's, so sets
/// keep a meaningful representative (a loop's header, the next unmarked node) at O(log len) amortised a step.
#[derive(Clone, Debug)]
pub(crate) struct DisjointSets {
    up: Vec<u32>,
}

impl DisjointSets {
    pub(crate) fn new(len: usize) -> Self {
        DisjointSets {
            up: (0..len as u32).collect(),
        }
    }

    pub(crate) fn find(&mut self, mut node: u32) -> u32 {
        while self.up[node as usize] != node {
            let above = self.up[node as usize];
            self.up[node as usize] = self.up[above as usize];
            node = self.up[node as usize];
        }
        node
    }

    /// Puts `member`'s set into that of `into`, whose representative stands for both.
    pub(crate) fn absorb(&mut self, into: u32, member: u32) {
        let (into, member) = (self.find(into), self.find(member));
        self.up[member as usize] = into;
    }
}
