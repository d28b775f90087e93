//! Operation ids and the compiled tables.

use crate::operand::BaseKind;
use crate::register::{Register, RegisterClass};
use crate::table::*;
use crate::target::{Target, TargetSet};
use std::fmt;

/// An operation: the index of a row.
///
/// Rows tell apart what a scheduler or an emulator must: `IADD3` and `IADD3.X` are two operations, `IADD3` with a
/// register and with an immediate are one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Op(u16);

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

impl Op {
    /// Every operation, in the order of the tables.
    pub fn all() -> impl Iterator<Item = Op> {
        (0..OPERATIONS.len() as u16).map(Op)
    }

    /// How many operations there are: their indices are below it.
    pub const COUNT: usize = OPERATIONS.len();

    /// The row.
    #[inline]
    #[must_use]
    pub fn row(self) -> &'static Operation {
        &OPERATIONS[usize::from(self.0)]
    }

    /// The row's unique name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The first component of what it is printed as: its family.
    #[must_use]
    pub fn mnemonic(self) -> Mnemonic {
        self.row().mnemonic
    }

    /// The row's index, for tables keyed by operation.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The operation called `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Op> {
        let mnemonic = name.split('.').next().unwrap_or_default();
        Op::with_mnemonic(mnemonic)
            .find(|op| op.name() == name)
            .or_else(|| Op::all().find(|op| op.name() == name))
    }

    /// Every operation whose printed mnemonic starts with the component `mnemonic`.
    pub fn with_mnemonic(mnemonic: &str) -> impl Iterator<Item = Op> {
        let start = MNEMONICS.partition_point(|(name, _)| *name < mnemonic);
        let end = MNEMONICS.partition_point(|(name, _)| *name <= mnemonic);
        MNEMONICS[start..end].iter().map(|(_, op)| Op(*op))
    }

    /// The rows and forms that a 12-bit opcode may stand for.
    pub(crate) fn candidates(opcode: u16) -> impl Iterator<Item = (Op, u8)> {
        let (start, len) = OPCODES[usize::from(opcode & 0xfff)];
        let start = usize::from(start);
        CANDIDATES[start..start + usize::from(len)]
            .iter()
            .map(|(op, form)| (Op(*op), *form))
    }

    /// Whether `target` has the operation in any form.
    #[must_use]
    pub fn exists_on(self, target: Target) -> bool {
        self.row()
            .forms
            .iter()
            .any(|form| form.targets.contains(target))
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The modifiers of an instruction: one small value for each modifier of its operation, packed.
///
/// A value means something only together with the operation whose [`Modifier`] reads it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Mods(pub(crate) u64);

impl Mods {
    /// Every modifier zero.
    pub const ZERO: Mods = Mods(0);

    /// The encoding of `modifier`'s value.
    #[inline]
    #[must_use]
    pub const fn get(self, modifier: &Modifier) -> u16 {
        ((self.0 >> modifier.shift) & modifier.field.max()) as u16
    }

    /// The same modifiers with another value for `modifier`. Bits that do not fit are dropped; the checks of
    /// [`crate::Instruction::new`] refuse an encoding that has no name.
    #[inline]
    #[must_use]
    pub const fn with(self, modifier: &Modifier, value: u16) -> Self {
        let mask = modifier.field.max();
        Mods(self.0 & !(mask << modifier.shift) | (value as u64 & mask) << modifier.shift)
    }

    /// The packed bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The inverse of [`Mods::bits`].
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Mods(bits)
    }
}
