//! The frontier of a list scheduler: which nodes of a block nothing holds back any more, and when what they need is there.
//!
//! Predecessor counts: each edge whose earlier end has been placed takes one off; a node without any is ready for its scheduler's lists. The
//! tail never is, and of a run only the first: the others come with it. Placing a node costs as many steps as edges leave it.

use super::graph::Graph;

/// What keeps a node back.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    /// How many edges still do, and one more if it comes with the node before it or stays last.
    missing: u32,
    /// When what it needs is there, as far as that has issued.
    ready: u32,
}

/// What is held back, and until when, by node.
#[derive(Clone, Debug, Default)]
pub struct Frontier(Vec<Pending>);

impl Frontier {
    /// Before anything is placed.
    pub fn new(graph: &Graph) -> Frontier {
        let pending = (0..graph.len()).map(|node| Pending {
            missing: held_by(graph, node),
            ready: 0,
        });
        Frontier(pending.collect())
    }

    /// Starts again, with these counts ([`held_by`]) and what is there not before a cycle.
    pub fn restart(&mut self, missing: &[u32], floors: &[u32]) {
        let nodes = missing.iter().zip(floors);
        self.0.clear();
        self.0
            .extend(nodes.map(|(&missing, &ready)| Pending { missing, ready }));
    }

    /// Whether nothing but time holds a node back.
    #[inline]
    pub fn is_free(&self, node: usize) -> bool {
        self.0[node].missing == 0
    }

    /// The nodes that nothing but time holds back.
    pub fn free(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.0.len() as u32).filter(|&node| self.is_free(node as usize))
    }

    /// When what a node needs is there, as far as that has issued.
    #[inline]
    pub fn ready_at(&self, node: usize) -> u32 {
        self.0[node].ready
    }

    /// The earlier end of an edge to `node` has been placed, and lets it issue at `ready`; says whether that was the last one.
    #[inline]
    pub fn meet(&mut self, node: usize, ready: u32) -> bool {
        let pending = &mut self.0[node];
        pending.ready = pending.ready.max(ready);
        pending.missing -= 1;
        pending.missing == 0
    }
}

/// How much holds a node back before anything is placed.
pub fn held_by(graph: &Graph, node: usize) -> u32 {
    let own = &graph.nodes[node];
    graph.preds(node).len() as u32 + u32::from(own.with_previous || own.tail)
}
