//! Analyses of control and data flow.
//!
//! Two layers. The lower one looks at the shape of control flow alone: a [`FlowGraph`] of dense block numbers, its
//! [`DepthFirst`] orders, [`DominatorTree`], [`PostDominatorTree`], [`LoopNest`], and [`Split`], which says what follows when
//! branches split a warp. The upper one looks at a function: [`DefUse`] chains, [`Liveness`] of values and [`RegisterLiveness`] of physical
//! registers, [`Pressure`], [`Frequencies`] of blocks, [`Divergence`], and [`uniform_misuses`], which checks uniform registers against it. Nothing here changes a function, and nothing is kept up to date when one
//! changes: an analysis is a snapshot.
//!
//! Each is near-linear in the size of what it looks at and keeps its results in flat arrays; none recurses. Each is tested on
//! thousands of generated graphs against a slow version that follows the definition word for word. `docs/analyses.md` lists
//! what each computes, how, at what cost, and what it does not do.

mod company;
mod components;
mod csr;
mod def_use;
mod divergence;
mod dominance;
mod flow;
mod forest;
mod frequency;
mod iteration_graph;
mod iterations;
mod liveness;
mod lone_lane;
mod loops;
mod meeting;
mod order;
mod pressure;
mod registers;
mod split;
mod uniform_registers;
mod uniformity;
mod union_find;

pub use components::Components;
pub use csr::Csr;
pub use def_use::{DefUse, Place, Use};
pub use divergence::Divergence;
pub use dominance::{DominatorTree, PostDominatorTree};
pub use flow::FlowGraph;
pub use frequency::Frequencies;
pub use iterations::{Iterations, Refusal, Stay};
pub use liveness::{Liveness, of_class};
pub use loops::{Loop, LoopNest};
pub use meeting::{
    LaneArrival, LaneNeeds, PartialWarpCauses, PartialWarps, lane_mask, names_all_lanes,
    sees_other_threads,
};
pub use order::DepthFirst;
pub use pressure::{Counts, Pressure};
pub use registers::{RegisterLiveness, RegisterSet, step_back};
pub use split::{Consequence, IterationReconvergence, Split};
pub use uniform_registers::{Reason, UniformMisuse, uniform_misuses};
pub use uniformity::{Spread, loads_what_may_change, spread};
