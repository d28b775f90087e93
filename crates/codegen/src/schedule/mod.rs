//! The order of instructions.
//!
//! [`graph`] says what must stay in order and how many cycles lie between, and [`build`] finds it out; [`alias`] and [`order`] tell it
//! about memory and fences.

pub mod alias;
pub mod build;
pub mod graph;
pub mod order;
pub mod units;
