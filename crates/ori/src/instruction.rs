//! Instructions: an operation, its modifiers, and where its operands are.

use crate::control::ControlWord;
use crate::entity::{Edge, Span};
use crate::machine;
use crate::operation::{AbstractMods, AbstractOp, Effects};
use crate::register::Guard;
use cranelift_entity::EntityList;
use cranelift_entity::packed_option::PackedOption;
use orias_sass as sass;
use std::fmt;

/// What an instruction does: an abstract operation before selection, a machine operation after it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Opcode {
    /// A row of [`crate::operation`].
    Abstract(AbstractOp),
    /// A row of the instruction set.
    Machine(sass::Op),
}

impl Opcode {
    /// The abstract operation, if it is one.
    pub const fn as_abstract(self) -> Option<AbstractOp> {
        match self {
            Opcode::Abstract(op) => Some(op),
            Opcode::Machine(_) => None,
        }
    }

    /// The machine operation, if it is one.
    pub const fn as_machine(self) -> Option<sass::Op> {
        match self {
            Opcode::Abstract(_) => None,
            Opcode::Machine(op) => Some(op),
        }
    }

    /// What the operation does besides computing results.
    pub fn effects(self) -> Effects {
        match self {
            Opcode::Abstract(op) => op.row().effects,
            Opcode::Machine(op) => machine::effects(op),
        }
    }

    /// Whether the operation ends a block.
    pub fn is_terminator(self) -> bool {
        match self {
            Opcode::Abstract(op) => op.row().effects.contains(Effects::TERMINATOR),
            Opcode::Machine(op) => machine::ends_block(op),
        }
    }
}

impl From<AbstractOp> for Opcode {
    fn from(op: AbstractOp) -> Opcode {
        Opcode::Abstract(op)
    }
}

impl From<sass::Op> for Opcode {
    fn from(op: sass::Op) -> Opcode {
        Opcode::Machine(op)
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Opcode::Abstract(op) => fmt::Display::fmt(op, f),
            Opcode::Machine(op) => fmt::Display::fmt(op, f),
        }
    }
}

/// An operation with its modifiers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// A row of [`crate::operation`].
    Abstract(AbstractOp, AbstractMods),
    /// A row of the instruction set.
    Machine(sass::Op, sass::Mods),
}

impl Operation {
    /// The operation without its modifiers.
    #[inline]
    pub const fn opcode(self) -> Opcode {
        match self {
            Operation::Abstract(op, _) => Opcode::Abstract(op),
            Operation::Machine(op, _) => Opcode::Machine(op),
        }
    }
}

/// One instruction. Its operands lie in the function's pool, four groups in a row: the operation's own (results first in
/// abstract operations, the row's order in machine operations), the kept values, implicit uses, implicit definitions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct InstData {
    pub(crate) operation: Operation,
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
    pub(crate) strong: bool,
}

/// The edges of a terminator; a handle into the function's pool of edge lists.
pub(crate) type EdgeList = EntityList<Edge>;

impl InstData {
    /// Leaves an instruction that names nothing.
    pub(crate) fn forget_operands(&mut self) {
        self.guard = Guard::ALWAYS;
        self.edges = EdgeList::new();
        (self.results, self.slots, self.kept, self.uses, self.defs) = (0, 0, 0, 0, 0);
    }

    /// Whether other accesses to memory must stay on their side of it, though nothing in the operation says so.
    pub const fn is_strong(&self) -> bool {
        self.strong
    }

    /// The operation with its modifiers.
    pub const fn operation(&self) -> Operation {
        self.operation
    }

    /// The operation without its modifiers.
    #[inline]
    pub const fn opcode(&self) -> Opcode {
        self.operation.opcode()
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
