//! Analyses of control and data flow.
//!
//! Two layers. The lower one looks at the shape of control flow alone: a [`FlowGraph`] of dense block numbers, its
//! [`DepthFirst`] orders, [`DominatorTree`], [`PostDominatorTree`] and [`LoopNest`]. The upper one looks at a function.
//! Nothing here changes a function, and nothing is kept up to date when one changes: an analysis is a snapshot.
//!
//! Each is near-linear in the size of what it looks at and keeps its results in flat arrays; none recurses. Each is tested on
//! thousands of generated graphs against a slow version that follows the definition word for word.

mod components;
mod csr;
mod dominance;
mod flow;
mod forest;
mod loops;
mod order;
mod split;
#[cfg(test)]
mod tests;
mod trips;
mod union_find;

pub use components::Components;
pub use csr::Csr;
pub use dominance::{DominatorTree, PostDominatorTree};
pub use flow::FlowGraph;
pub use loops::{Loop, LoopNest};
pub use order::DepthFirst;
pub use split::{Consequence, Split};
