//! The small ids everything in a function is named by.
//!
//! Each is a `u32` into one pool of the function that owns it. Ids are never reused while a function lives, so a phase may
//! keep side tables keyed by them (`cranelift_entity::SecondaryMap`).

use cranelift_entity::entity_impl;

/// A basic block: parameters, then instructions of which the last is a terminator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block(u32);
entity_impl!(Block, "block");

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Inst(u32);
entity_impl!(Inst, "inst");

/// A virtual register with one definition: a block parameter or an operand of one instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(u32);
entity_impl!(Value, "v");

/// A control-flow edge: the target block and the arguments its parameters take.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge(u32);
entity_impl!(Edge, "edge");

/// The parts of one memory operand; see [`crate::Address`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressId(u32);
entity_impl!(AddressId, "address");

/// A name outside the function: a callee, a variable, a branch table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(u32);
entity_impl!(Symbol, "symbol");

/// A source location: an index into [`crate::Function::locations`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u32);
entity_impl!(Span, "#");
