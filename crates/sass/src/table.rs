//! The shape of a row: what the tables under `tables/` are compiled into.
//!
//! `build.rs` reads the `.isa` files and writes static values of these types; nothing is interpreted from text at run
//! time. Encoder, decoder, printer and parser all walk the same rows.

use crate::modifier::{Modifier, ModifierName, ModifierValue, ValueName};
use crate::op::{Mnemonic, Mods};
use crate::register::{Register, RegisterClass};
use crate::target::TargetSet;

/// A field of an instruction word: up to three runs of bits, the least significant run first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// First bit and length of each run; unused runs have length 0.
    pub runs: [(u8, u8); 3],
}

impl Field {
    /// How many bits the field has.
    #[must_use]
    pub const fn len(self) -> u8 {
        self.runs[0].1 + self.runs[1].1 + self.runs[2].1
    }

    /// Whether the field has no bits.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The field's value in `word`.
    #[inline]
    #[must_use]
    pub const fn get(self, word: u128) -> u64 {
        let (at, len) = self.runs[0];
        let mut value = bits(word, at, len);
        if self.runs[1].1 != 0 {
            value |= bits(word, self.runs[1].0, self.runs[1].1) << len;
            if self.runs[2].1 != 0 {
                value |= bits(word, self.runs[2].0, self.runs[2].1) << (len + self.runs[1].1);
            }
        }
        value
    }

    /// The word bits that hold `value`, which must fit.
    #[inline]
    #[must_use]
    pub const fn put(self, value: u64) -> u128 {
        let (at, len) = self.runs[0];
        let mut word = ((value & mask(len)) as u128) << at;
        if self.runs[1].1 != 0 {
            word |= (((value >> len) & mask(self.runs[1].1)) as u128) << self.runs[1].0;
            if self.runs[2].1 != 0 {
                let above = len + self.runs[1].1;
                word |= (((value >> above) & mask(self.runs[2].1)) as u128) << self.runs[2].0;
            }
        }
        word
    }

    /// The largest value that fits.
    #[inline]
    #[must_use]
    pub const fn max(self) -> u64 {
        mask(self.len())
    }

    /// The value in `word`, sign-extended.
    #[inline]
    #[must_use]
    pub const fn get_signed(self, word: u128) -> i64 {
        let shift = 64 - self.len() as u32;
        ((self.get(word) << shift) as i64) >> shift
    }

    /// Whether `value` fits as a two's-complement number.
    #[inline]
    #[must_use]
    pub const fn fits_signed(self, value: i64) -> bool {
        let shift = 64 - self.len() as u32;
        (value << shift) >> shift == value
    }
}

const fn bits(word: u128, at: u8, len: u8) -> u64 {
    (word >> at) as u64 & mask(len)
}

const fn mask(len: u8) -> u64 {
    if len >= 64 { u64::MAX } else { (1 << len) - 1 }
}

/// A single optional bit of the word: [`Bit::NONE`] where a form has no such bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bit(pub u8);

impl Bit {
    /// There is no such bit.
    pub const NONE: Bit = Bit(255);

    /// Whether there is such a bit.
    #[must_use]
    pub const fn exists(self) -> bool {
        self.0 != 255
    }

    #[inline]
    pub(crate) const fn get(self, word: u128) -> bool {
        self.exists() && (word >> (self.0 & 127)) & 1 == 1
    }

    #[inline]
    pub(crate) const fn put(self, value: bool) -> u128 {
        if value && self.exists() {
            1 << (self.0 & 127)
        } else {
            0
        }
    }
}

/// How an immediate's bits are written in text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImmediateFormat {
    /// Two's complement, in hexadecimal: `-0x1`.
    Signed,
    /// Unsigned, in hexadecimal.
    Unsigned,
    /// Unsigned, in decimal.
    Decimal,
    /// A single-precision number.
    F32,
    /// The upper half of a double-precision number.
    F64High,
    /// Two half-precision numbers, the upper one first: `1, 1`.
    F16x2,
    /// Two bfloat16 numbers, the upper one first.
    Bf16x2,
    /// A half-precision number.
    F16,
    /// A bfloat16 number.
    Bf16,
    /// A scoreboard: `SB0`.
    Scoreboard,
    /// A warp-group scoreboard: `gsb0`.
    GroupScoreboard,
    /// A set of scoreboards, the highest first: `{5,0}`.
    ScoreboardSet,
}

impl ImmediateFormat {
    /// Whether the machine has `value`: there are six scoreboards.
    #[must_use]
    pub const fn exists(self, value: u64) -> bool {
        !matches!(self, ImmediateFormat::Scoreboard) || value < 6
    }
}

/// Where the base register of an address is, and how it is read and printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BasePlace {
    /// The register's class.
    pub class: RegisterClass,
    /// Where its index is.
    pub field: Field,
    /// How it is read.
    pub kind: crate::operand::BaseKind,
    /// How many registers are read.
    pub width: u8,
    /// A modifier of the operation printed after it (`.X4`).
    pub scale: Option<u8>,
}

/// How an address is laid out in a form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressPlace {
    /// The base register.
    pub base: Option<BasePlace>,
    /// The uniform register added to it.
    pub uniform: Option<Field>,
    /// The register that holds the memory descriptor.
    pub descriptor: Option<Field>,
    /// The descriptor has no field of its own: it is the register after the uniform register that another operand has in this
    /// field, and only that one register is read.
    pub tied: bool,
    /// The signed offset; empty where there is none.
    pub offset: Field,
    /// How many uniform registers the uniform part reads.
    pub uniform_width: u8,
    /// Whether URZ as the uniform part is not printed.
    pub hide_urz: bool,
    /// Whether an offset that stands alone keeps its sign in text.
    pub signed_alone: bool,
}

impl AddressPlace {
    /// Whether it is a cache policy standing alone (`desc[UR4]`), not an address.
    #[must_use]
    pub const fn is_policy(&self) -> bool {
        self.base.is_none()
            && self.uniform.is_none()
            && self.offset.is_empty()
            && self.descriptor.is_some()
    }
}

/// How a constant reference is laid out in a form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConstantPlace {
    /// The bank number; empty for a bindless bank.
    pub bank: Field,
    /// The uniform register with the handle of a bindless bank.
    pub handle: Option<Field>,
    /// The register added to the offset.
    pub index: Option<(RegisterClass, Field)>,
    /// The offset.
    pub offset: Field,
    /// Whether the offset is signed.
    pub signed: bool,
    /// Bytes per unit of the offset.
    pub scale: u8,
    /// Whether text has a space between bank and offset.
    pub spaced: bool,
}

/// What a slot holds in one form, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlaceKind {
    /// A register.
    Register {
        /// Its class.
        class: RegisterClass,
        /// Where its index is.
        field: Field,
        /// Whether the index is stored complemented, so that zero stands for PT.
        complemented: bool,
    },
    /// An immediate.
    Immediate {
        /// Where it is.
        field: Field,
        /// How it is written.
        format: ImmediateFormat,
    },
    /// A reference to a constant bank.
    Constant(ConstantPlace),
    /// A memory address.
    Address(AddressPlace),
    /// A matrix descriptor in uniform registers.
    Descriptor {
        /// Where the register's index is.
        field: Field,
        /// How many registers from there on are not read.
        skip: u8,
    },
    /// A code address.
    Target {
        /// Where the signed distance is.
        field: Field,
        /// Bytes per unit of it.
        scale: u8,
        /// Whether text shows the distance itself instead of the address it leads to.
        relative: bool,
        /// Whether it is an address by itself: not signed, and counted from zero.
        absolute: bool,
    },
    /// A special register.
    Special {
        /// Where its number is.
        field: Field,
    },
}

/// What a slot holds in one form, with the bits of its source modifiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The operand itself.
    pub kind: PlaceKind,
    /// The bit that negates it.
    pub negate: Bit,
    /// The bit that takes its absolute value.
    pub absolute: Bit,
    /// The bit that complements it.
    pub invert: Bit,
    /// The operand-reuse bit it owns.
    pub reuse: Bit,
    /// The bits that select a part of it; empty where there is no choice.
    pub select: Field,
    /// Whether the register must be a real one, not RZ, PT, URZ or UPT.
    pub named: bool,
}

/// Whether an instruction reads or writes a slot's registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Read.
    Read,
    /// Written.
    Write,
    /// Read, then written.
    ReadWrite,
}

impl Access {
    /// Whether it reads.
    #[must_use]
    pub const fn reads(self) -> bool {
        !matches!(self, Access::Write)
    }

    /// Whether it writes.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Access::Read)
    }
}

/// How many consecutive registers a slot names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// Always so many.
    Fixed(u8),
    /// As many as the first rule whose condition holds says, 1 if none does.
    Rules(&'static [WidthRule]),
}

/// So many registers when every named modifier has one of the named values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WidthRule {
    /// How many registers.
    pub registers: u8,
    /// Modifier index and the set of its values (bit `v` for value `v`; values from 64 on are not allowed in rules).
    pub when: &'static [(u8, u64)],
}

/// The value of a slot that is not printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotDefault {
    /// A register, complemented or not.
    Register(Register, bool),
    /// An immediate.
    Immediate(u64),
    /// A code address or distance.
    Target(i64),
}

/// The name of an operand slot that some row has; [`crate::slot_names`] holds them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotName(pub(crate) &'static str);

impl SlotName {
    /// As the tables write it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        self.0
    }
}

impl std::fmt::Display for SlotName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// One operand of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// What it is called in the table.
    pub name: &'static str,
    /// Read or written.
    pub access: Access,
    /// How many registers it names.
    pub width: Width,
    /// The value that is not printed, where text may leave the slot out.
    pub default: Option<SlotDefault>,
    /// What the select field's values are called; `None` is a value the machine does not have.
    pub selects: &'static [Option<&'static str>],
}

/// One way to encode an operation: the kinds its slots have, and where everything is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Form {
    /// Bits 0–11 of the word.
    pub opcode: u16,
    /// The targets that have it.
    pub targets: TargetSet,
    /// The bits with a fixed value, the opcode and everything unused included.
    pub fixed_mask: u128,
    /// That value.
    pub fixed_value: u128,
    /// The bits of [`crate::Mods`] whose place in the word is fixed.
    pub mods_mask: u64,
    /// The value they must have.
    pub mods_value: u64,
    /// The [shape](crate::Operand::shape) of each place, four bits for each from the lowest on.
    pub shapes: u64,
    /// One place per slot.
    pub places: &'static [Place],
}

/// A memory space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Space {
    /// Global memory.
    Global,
    /// Shared memory of this thread block or, by address, of its cluster.
    Shared,
    /// Local memory.
    Local,
    /// Constant banks.
    Constant,
    /// A generic address: global, shared or local.
    Generic,
    /// Texture memory.
    Texture,
    /// Surface memory.
    Surface,
}

/// What an operation does to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryEffect {
    /// Where.
    pub space: Space,
    /// Whether it reads there.
    pub reads: bool,
    /// Whether it writes there.
    pub writes: bool,
    /// Whether the read and the write are one step.
    pub atomic: bool,
}

bitflags::bitflags! {
    /// What an operation does besides writing its destination registers and memory.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub struct Effects: u16 {
        /// May continue at another address.
        const BRANCH = 1 << 0;
        /// Enters a function that returns here.
        const CALL = 1 << 1;
        /// Leaves a function.
        const RETURN = 1 << 2;
        /// Ends the thread.
        const EXIT = 1 << 3;
        /// Never continues at the next instruction when its guard is true.
        const TERMINATOR = 1 << 4;
        /// Waits for, or tells, other threads (BAR, mbarrier, cluster barrier).
        const BARRIER = 1 << 5;
        /// Its result depends on which lanes run it together.
        const CONVERGENT = 1 << 6;
        /// Orders memory accesses.
        const FENCE = 1 << 7;
        /// Finishes some of its work after the warp went on, beyond what a register scoreboard covers.
        const ASYNC = 1 << 8;
        /// Waits for a scoreboard or an asynchronous group.
        const WAIT = 1 << 9;
        /// Reads state that changes by itself (clocks, timers) or is set elsewhere.
        const VOLATILE = 1 << 10;
        /// Stops, debugs or traps.
        const TRAP = 1 << 11;
        /// Any other effect: it must not be removed, duplicated or reordered with its like.
        const OTHER = 1 << 12;
    }
}

/// Registers an operation touches without naming them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Implicit {
    /// Read or written.
    pub access: Access,
    /// The first register.
    pub register: Register,
    /// How many.
    pub count: u8,
}

/// Which class of predicate may guard an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GuardRule {
    /// A predicate: `@P0`.
    Predicate,
    /// A uniform predicate: `@UP0`.
    Uniform,
    /// None; the guard field is not decoded as one.
    None,
}

/// When an operand is left out of the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Omission {
    /// Never.
    Never,
    /// When it has its default value.
    Default,
    /// When it has its default value and the item after it is left out as well.
    DefaultChain,
    /// When it has its default value or is RZ; exact text keeps RZ.
    DefaultOrZero,
}

/// One comma-separated item of an operation's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextItem {
    /// What it shows.
    pub shown: Shown,
    /// When it is left out.
    pub omission: Omission,
    /// Whether a space stands before it instead of a comma.
    pub after_space: bool,
    /// Modifiers printed right after it.
    pub suffixes: &'static [u8],
}

/// What an item of an operation's text shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// The slot with this index.
    Slot(u8),
    /// The same words always.
    Literal(&'static str),
    /// The value of the modifier with this index, as an operand; nothing where the value is not printed.
    Modifier(u8),
}

/// One part of a printed mnemonic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MnemonicPart {
    /// The same letters always.
    Literal(&'static str),
    /// The modifier with this index.
    Modifier(u8),
    /// The alias whose condition holds, if any.
    Alias,
}

/// A condition on one operand of an alias.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AliasCondition {
    /// The slot is this register, whatever its source modifiers.
    Register(u8, Register),
    /// The slot is this immediate.
    Immediate(u8, u64),
    /// The slot is an immediate with exactly one bit set: not the lowest, not the highest, and not bit 16, which
    /// nvdisasm prints as a multiplication.
    PowerOfTwo(u8),
    /// The slot is a register of this class, whichever.
    Class(u8, RegisterClass),
    /// The slot is an immediate, whichever.
    AnyImmediate(u8),
    /// The slot is a constant of a numbered bank, whichever.
    AnyConstant(u8),
    /// The slot needs no uniform register.
    NotUniform(u8),
}

/// A different spelling nvdisasm gives an operation when its operands make it a simpler one (`IMAD.MOV`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Alias {
    /// What is printed at [`MnemonicPart::Alias`].
    pub text: &'static str,
    /// What must hold.
    pub when: &'static [AliasCondition],
}

/// A row: everything the tables say about one operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    /// The operation's unique name.
    pub name: &'static str,
    /// The first component of the printed mnemonic.
    pub mnemonic: Mnemonic,
    /// Operands in the order of the table; the text's order where it prints them all.
    pub slots: &'static [Slot],
    /// The slots it reads: bit `n` for slot `n`.
    pub read: u16,
    /// The slots it writes.
    pub written: u16,
    /// Modifiers.
    pub modifiers: &'static [Modifier],
    /// Effects besides registers and memory.
    pub effects: Effects,
    /// Effects on memory.
    pub memory: &'static [MemoryEffect],
    /// Registers touched without being named.
    pub implicit: &'static [Implicit],
    /// What may guard it.
    pub guard: GuardRule,
    /// The encodings, in order of preference.
    pub forms: &'static [Form],
    /// The printed mnemonic.
    pub mnemonic_parts: &'static [MnemonicPart],
    /// The printed operands.
    pub items: &'static [TextItem],
    /// Alternative spellings.
    pub aliases: &'static [Alias],
}

impl Operation {
    /// The modifier called `name`.
    #[must_use]
    pub fn modifier(&self, name: ModifierName) -> Option<&'static Modifier> {
        self.modifiers
            .iter()
            .find(|modifier| modifier.name == name.0)
    }

    /// The name of the value that the modifier called `name` has in `mods`.
    #[must_use]
    pub fn value_of(&self, name: ModifierName, mods: Mods) -> Option<ValueName> {
        let modifier = self.modifier(name)?;
        modifier.value(mods.get(modifier)).map(ModifierValue::id)
    }

    /// `mods` with that value for the modifier called `name`; none if the operation has no such modifier or value.
    #[must_use]
    pub fn with_value(&self, name: ModifierName, value: ValueName, mods: Mods) -> Option<Mods> {
        let modifier = self.modifier(name)?;
        Some(mods.with(modifier, modifier.value_of(value)?.value))
    }

    /// The index of the slot called `name`.
    #[must_use]
    pub fn slot_index(&self, name: SlotName) -> Option<usize> {
        self.slot_index_of_text(name.0)
    }

    /// The index of the slot that a text calls `name`.
    #[must_use]
    pub fn slot_index_of_text(&self, name: &str) -> Option<usize> {
        self.slots.iter().position(|slot| slot.name == name)
    }
}
