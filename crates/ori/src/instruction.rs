//! Instructions: an operation, its modifiers, and where its operands are.

use crate::control::ControlWord;
use crate::entity::{Edge, Span};
use crate::operation::{AbstractMods, AbstractOp, Effects};
use crate::register::Guard;
use cranelift_entity::EntityList;
use cranelift_entity::packed_option::PackedOption;
use std::fmt;

/// What an instruction does: an abstract operation before selection, a machine operation after it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Opcode {
    /// A row of [`crate::operation`].
    Abstract(AbstractOp),
}

impl Opcode {
    /// The abstract operation, if it is one.
    pub const fn as_abstract(self) -> Option<AbstractOp> {
        match self {
            Opcode::Abstract(op) => Some(op),
        }
    }

    /// What the operation does besides computing results.
    pub fn effects(self) -> Effects {
        match self {
            Opcode::Abstract(op) => op.row().effects,
        }
    }

    /// Whether the operation ends a block.
    pub fn is_terminator(self) -> bool {
        self.effects().contains(Effects::TERMINATOR)
    }
}

impl From<AbstractOp> for Opcode {
    fn from(op: AbstractOp) -> Opcode {
        Opcode::Abstract(op)
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Opcode::Abstract(op) => fmt::Display::fmt(op, f),
        }
    }
}

/// One instruction. Its operands lie in the function's pool, four groups in a row: the operation's own (results first in
/// abstract operations, the row's order in machine operations), the kept values, implicit uses, implicit definitions.
#[derive(Clone, Copy, Debug)]
pub struct InstData {
    pub(crate) mods: u64,
    pub(crate) opcode: Opcode,
    pub(crate) guard: Guard,
    pub(crate) span: PackedOption<Span>,
    pub(crate) control: ControlWord,
    pub(crate) edges: EdgeList,
    pub(crate) start: u32,
    pub(crate) results: u16,
    pub(crate) slots: u16,
    pub(crate) kept: u16,
    pub(crate) uses: u16,
    pub(crate) defs: u16,
}

/// The edges of a terminator; a handle into the function's pool of edge lists.
pub(crate) type EdgeList = EntityList<Edge>;

impl InstData {
    /// The operation.
    pub const fn opcode(&self) -> Opcode {
        self.opcode
    }

    /// The modifiers of an abstract operation.
    pub const fn abstract_mods(&self) -> AbstractMods {
        AbstractMods::from_bits(self.mods)
    }

    /// The guard.
    pub const fn guard(&self) -> Guard {
        self.guard
    }

    /// Where in the source it comes from.
    pub fn span(&self) -> Option<Span> {
        self.span.expand()
    }

    /// The control word, in finished code.
    pub const fn control(&self) -> ControlWord {
        self.control
    }
}
