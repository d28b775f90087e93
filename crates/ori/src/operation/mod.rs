//! Abstract operations: typed, close to PTX, and free of any chip's encodings.
//!
//! Each is one row of `table`: name, modifiers, the types it takes, what its results and operands are, its effects, and
//! the levels it may appear on. The text form, the builder, the verifier and the generator of random functions all read the
//! same rows, so an operation is added by adding a row.
//!
//! Values carry no scalar type. An operation on a type narrower than 32 bits reads the low bits of a register and leaves
//! the high bits of its result unspecified; one on 64 bits reads and writes a pair.

mod modifier;
mod table;

pub use modifier::*;
pub use table::{AbstractOp, ROWS};

use crate::function::Level;
use crate::register::{Class, Type};
use std::fmt;

/// What a result or an operand of an abstract operation is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A value of the operation's type ([`Scalar`]).
    Ty,
    /// A value of the source type ([`SourceType`]).
    Src,
    /// A value of twice the operation's type if the [`Half`] is `wide`, else of the type.
    Product,
    /// [`Vector`] elements of the operation's type, at least one register.
    Elements,
    /// This many general registers.
    Regs(u8),
    /// General registers, as many as the instruction has there.
    Tuple,
    /// A predicate.
    Pred,
    /// A convergence token.
    Token,
    /// A register of any type.
    Any,
    /// A memory operand.
    Address,
    /// An immediate.
    Imm,
    /// A name outside the function.
    Symbol,
    /// A callee: a name, or a general register or pair that holds an address.
    Callee,
    /// A block that is named, not jumped to.
    Block,
}

/// A place for a result or an operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slot {
    /// What stands there.
    pub kind: Kind,
    /// How often.
    pub arity: Arity,
}

/// How often what a [`Slot`] describes is there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Arity {
    /// Once.
    One,
    /// Once, or `_`.
    Optional,
    /// Any number of times; only in the last place.
    Many,
}

/// What an operation does besides computing its results.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Effects(u16);

impl Effects {
    /// Nothing: the operation may be removed, repeated and moved.
    pub const NONE: Effects = Effects(0);
    /// Reads memory.
    pub const READS: Effects = Effects(1);
    /// Writes memory.
    pub const WRITES: Effects = Effects(1 << 1);
    /// Has an effect that is not a result, even if it touches no memory.
    pub const SIDE: Effects = Effects(1 << 2);
    /// Depends on which lanes run together: must not be moved into or out of control flow.
    pub const CONVERGENT: Effects = Effects(1 << 3);
    /// Waits for other lanes, warps or units, and orders memory around it.
    pub const BARRIER: Effects = Effects(1 << 4);
    /// Ends a block.
    pub const TERMINATOR: Effects = Effects(1 << 5);
    /// Runs another function.
    pub const CALL: Effects = Effects(1 << 6);
    /// Yields another value each time it runs (a clock), or in each lane without an operand that differs.
    pub const VARIES: Effects = Effects(1 << 7);
    /// What keeps an instruction alive whose results nothing reads.
    pub const BEYOND_RESULTS: Effects = Effects::WRITES
        .with(Effects::SIDE)
        .with(Effects::CONVERGENT)
        .with(Effects::BARRIER)
        .with(Effects::CALL)
        .with(Effects::TERMINATOR);

    /// Both.
    #[must_use]
    pub const fn with(self, other: Effects) -> Effects {
        Effects(self.0 | other.0)
    }

    /// Whether all of `other` are among these.
    pub const fn contains(self, other: Effects) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is among these.
    pub const fn intersects(self, other: Effects) -> bool {
        self.0 & other.0 != 0
    }
}

impl fmt::Debug for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            "reads",
            "writes",
            "side",
            "convergent",
            "barrier",
            "terminator",
            "call",
            "varies",
        ];
        f.debug_set()
            .entries(
                names
                    .iter()
                    .enumerate()
                    .filter(|(bit, _)| self.0 >> bit & 1 != 0)
                    .map(|(_, name)| name),
            )
            .finish()
    }
}

/// How many edges a terminator has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Edges {
    /// Exactly this many.
    Exactly(u8),
    /// At least one.
    Some,
}

/// A set of levels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Levels(u8);

impl Levels {
    /// The levels from `first` to `last`.
    pub const fn range(first: Level, last: Level) -> Levels {
        Levels(((1 << (last as u8 + 1)) - 1) & !((1 << first as u8) - 1))
    }

    /// Whether `level` is one of them.
    pub const fn contains(self, level: Level) -> bool {
        self.0 >> level as u8 & 1 != 0
    }
}

/// A set of scalar types.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scalars(u64);

impl Scalars {
    /// The types listed.
    pub const fn of(list: &[Scalar]) -> Scalars {
        let mut set = 0;
        let mut i = 0;
        while i < list.len() {
            set |= 1 << list[i] as u8;
            i += 1;
        }
        Scalars(set)
    }

    /// The types of either set.
    #[must_use]
    pub const fn or(self, other: Scalars) -> Scalars {
        Scalars(self.0 | other.0)
    }

    /// Whether `scalar` is in the set.
    pub const fn contains(self, scalar: Scalar) -> bool {
        self.0 >> scalar as u8 & 1 != 0
    }

    /// The members.
    pub fn iter(self) -> impl Iterator<Item = Scalar> {
        Scalar::ALL
            .iter()
            .copied()
            .filter(move |&scalar| self.contains(scalar))
    }
}

/// One abstract operation.
#[derive(Debug)]
pub struct Row {
    /// Its name in the text form.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub doc: &'static str,
    /// Its modifiers, in the order of the text form.
    pub modifiers: &'static [ModifierKind],
    /// The types its [`Scalar`] modifier may take.
    pub types: Scalars,
    /// The types its [`SourceType`] modifier may take.
    pub sources: Scalars,
    /// Its results.
    pub results: &'static [Slot],
    /// Its operands.
    pub operands: &'static [Slot],
    /// Its effects.
    pub effects: Effects,
    /// Its edges, if it is a terminator.
    pub edges: Edges,
    /// The levels it belongs to.
    pub levels: Levels,
    /// Whether it may be guarded.
    pub takes_guard: bool,
}

impl Row {
    /// The place of a modifier in this row.
    pub fn modifier_index(&self, kind: ModifierKind) -> Option<usize> {
        self.modifiers.iter().position(|&have| have == kind)
    }

    /// The value of a modifier in `mods`; `None` where the row has no such modifier.
    pub fn modifier<M: Modifier>(&self, mods: AbstractMods) -> Option<M> {
        M::from_number(mods.get(self.modifier_index(M::KIND)?))
    }

    /// `mods` with a modifier set; `None` where the row has no such modifier.
    pub fn with_modifier<M: Modifier>(&self, mods: AbstractMods, value: M) -> Option<AbstractMods> {
        Some(mods.with(self.modifier_index(M::KIND)?, value.number()))
    }

    /// The register type that `kind` asks for under `mods`: `None` where any number or no register will do.
    pub fn register_type(&self, kind: Kind, mods: AbstractMods) -> Option<Type> {
        let scalar = |scalar: Scalar| match scalar {
            Scalar::Pred => Some(Type::P),
            other => Type::tuple(Class::R, other.registers()),
        };
        match kind {
            Kind::Ty => scalar(self.modifier::<Scalar>(mods)?),
            Kind::Src => scalar(self.modifier::<SourceType>(mods)?.into()),
            Kind::Product => {
                let bits = self.modifier::<Scalar>(mods)?.bits();
                let wide = self.modifier::<Half>(mods) == Some(Half::Wide);
                let bits = if wide { 2 * bits } else { bits };
                Type::tuple(Class::R, bits.div_ceil(32) as u8)
            }
            Kind::Elements => {
                let count: u16 = match self.modifier::<Vector>(mods)? {
                    Vector::V1 => 1,
                    Vector::V2 => 2,
                    Vector::V4 => 4,
                    Vector::V8 => 8,
                };
                let bits = count * self.modifier::<Scalar>(mods)?.bits();
                Type::tuple(Class::R, bits.div_ceil(32) as u8)
            }
            Kind::Regs(count) => Type::tuple(Class::R, count),
            Kind::Pred => Some(Type::P),
            Kind::Token => Some(Type::B),
            Kind::Tuple
            | Kind::Any
            | Kind::Address
            | Kind::Imm
            | Kind::Symbol
            | Kind::Callee
            | Kind::Block => None,
        }
    }
}

impl AbstractOp {
    /// The operation's row.
    pub const fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

impl fmt::Display for AbstractOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().name)
    }
}
