//! Instruction scheduling: the order of instructions.
//!
//! [`graph`] says what must stay in order and how many cycles lie between, and [`build`] finds it out; [`alias`] and [`order`] tell it
//! about memory and fences. [`engine`] puts a block into an order, with [`priority`] saying who goes first, [`live`] how many registers are
//! live, [`forecast`] how many will be, [`batch`] what goes together and [`units`] which pipes are busy. [`frontier`] is what every list scheduler
//! counts, `crate::clock` the clock they all go by. [`estimate`] says how long an order
//! takes, [`budget`] how many registers it may need, [`options`] what the knobs ask for. [`cross_block`] moves instructions into the block before,
//! [`pipelining`] loads into the iteration before, [`stores`] stores to where others of their kind are; [`flow`] is what they ask of the function.
//! `crowded` chooses where registers do not suffice. [`strategies`] lists the ways to find an order and says which block gets which.
//! [`instructions`] is the phase before allocation. [`post`]
//! orders instructions on physical registers, and tells what it saw ([`post::tell`]).

pub mod alias;
pub mod batch;
pub mod budget;
mod budget_search;
pub mod build;
mod choice;
pub mod cross_block;
mod crowded;
pub mod engine;
pub mod estimate;
pub mod flow;
pub mod forecast;
pub mod frontier;
pub mod graph;
pub mod instructions;
pub mod join;
pub mod live;
mod local;
pub mod options;
pub mod order;
pub mod pipelining;
pub mod post;
pub mod priority;
mod relink;
pub mod stores;
pub mod strategies;
mod throughput;
mod trial;
pub mod units;

pub use instructions::schedule_instructions;
