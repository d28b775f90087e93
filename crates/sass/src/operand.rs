//! Operands of a machine instruction.

use crate::register::Register;
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// What is done to a source value on its way in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct SourceModifiers {
    /// Arithmetic negation, printed `-R4`.
    pub negate: bool,
    /// Absolute value, printed `|R4|`; applied before the negation.
    pub absolute: bool,
    /// Bitwise or logical complement, printed `~R4` or `!P4`.
    pub invert: bool,
    /// Which part of the register: an index into [`crate::Slot::selects`] (`.H0_H0`, `.B1`, …), 0 where there is no choice.
    pub select: u8,
}

impl SourceModifiers {
    /// No modifier.
    pub const NONE: SourceModifiers = SourceModifiers {
        negate: false,
        absolute: false,
        invert: false,
        select: 0,
    };
}

/// A register operand. Of a tuple, the first register.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RegisterOperand {
    /// The register.
    pub register: Register,
    /// What is done to its value.
    pub modifiers: SourceModifiers,
}

/// Where a constant lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConstantBank {
    /// `c[0x3]`.
    Index(u8),
    /// `cx[UR4]`: the bank whose handle is in a uniform register pair.
    Bindless(Register),
}

/// `c[bank][index + offset]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Constant {
    /// The bank.
    pub bank: ConstantBank,
    /// A register added to the offset.
    pub index: Option<Register>,
    /// Offset in bytes.
    pub offset: i32,
    /// What is done to the value.
    pub modifiers: SourceModifiers,
}

/// How the base register of an address is read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BaseKind {
    /// `[R2]`; the operation's row says whether one register or a pair is read.
    Plain,
    /// `[R2.64]`: a pair.
    Wide,
    /// `[R2.U32]`: one register, zero-extended.
    Zero,
}

/// A memory address: `desc[descriptor][base + uniform + offset]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Address {
    /// The base register, RZ for none. `None` where the form has no base at all.
    pub base: Option<Register>,
    /// How the base is read.
    pub kind: BaseKind,
    /// A uniform register added to it, URZ for none. `None` where the form has no uniform part.
    pub uniform: Option<Register>,
    /// The uniform register pair that holds the memory descriptor.
    pub descriptor: Option<Register>,
    /// Offset in bytes.
    pub offset: i32,
}

/// One operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// A register or the first of a tuple.
    Register(RegisterOperand),
    /// The bits of an immediate field, zero-extended; the slot says how they are to be read.
    Immediate(u64),
    /// A value in a constant bank.
    Constant(Constant),
    /// A memory address.
    Address(Address),
    /// `gdesc[UR4]`: a matrix descriptor in uniform registers.
    Descriptor(Register),
    /// A code address, in bytes from the end of this instruction.
    Target(i64),
    /// A special register by number (see [`crate::special`]).
    Special(u8),
}

/// One piece, or two: what tells operands apart is small.
impl Hash for Operand {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let register = |register: Register| u64::from(register.index) << 3 | register.class as u64;
        let maybe = |part: Option<Register>| part.map_or(0, |part| register(part) << 1 | 1);
        let modifiers = |modifiers: SourceModifiers| {
            u64::from(modifiers.negate)
                | u64::from(modifiers.absolute) << 1
                | u64::from(modifiers.invert) << 2
                | u64::from(modifiers.select) << 3
        };
        // The upper half of a piece is an offset where there is one.
        let offset = |offset: i32| u64::from(offset as u32) << 32;
        let kind = u64::from(self.shape()) << 28;
        match self {
            Operand::Register(operand) => state
                .write_u64(kind | register(operand.register) | modifiers(operand.modifiers) << 11),
            Operand::Immediate(value) => {
                state.write_u64(kind);
                state.write_u64(*value);
            }
            Operand::Constant(constant) => {
                let bank = match constant.bank {
                    ConstantBank::Index(bank) => u64::from(bank),
                    ConstantBank::Bindless(handle) => register(handle),
                };
                let modifiers = modifiers(constant.modifiers) << 11;
                state.write_u64(kind | bank | modifiers | offset(constant.offset));
                if constant.index.is_some() {
                    state.write_u64(maybe(constant.index));
                }
            }
            Operand::Address(address) => {
                let base = maybe(address.base) | (address.kind as u64) << 12;
                state.write_u64(kind | base | offset(address.offset));
                state.write_u64(maybe(address.uniform) | maybe(address.descriptor) << 12);
            }
            Operand::Descriptor(handle) => state.write_u64(kind | register(*handle)),
            Operand::Target(distance) => {
                state.write_u64(kind);
                state.write_u64(*distance as u64);
            }
            Operand::Special(number) => state.write_u64(kind | u64::from(*number)),
        }
    }
}

impl Operand {
    /// Which kind of operand it is, a number below 16: the class for a register, and from 5 on an immediate, a constant of a
    /// numbered bank, one of a bindless bank, an address, a matrix descriptor, a code address, a special register. Only a place
    /// of the same shape takes it.
    #[inline]
    #[must_use]
    pub const fn shape(&self) -> u8 {
        match self {
            Operand::Register(operand) => operand.register.class as u8,
            Operand::Immediate(_) => 5,
            Operand::Constant(constant) => match constant.bank {
                ConstantBank::Index(_) => 6,
                ConstantBank::Bindless(_) => 7,
            },
            Operand::Address(_) => 8,
            Operand::Descriptor(_) => 9,
            Operand::Target(_) => 10,
            Operand::Special(_) => 11,
        }
    }

    /// A plain register.
    #[must_use]
    pub const fn register(register: Register) -> Self {
        Operand::Register(RegisterOperand {
            register,
            modifiers: SourceModifiers::NONE,
        })
    }

    /// General register `index`.
    #[must_use]
    pub const fn r(index: u8) -> Self {
        Operand::register(Register::r(index))
    }

    /// Predicate `index`.
    #[must_use]
    pub const fn p(index: u8) -> Self {
        Operand::register(Register::p(index))
    }

    /// Uniform register `index`.
    #[must_use]
    pub const fn ur(index: u8) -> Self {
        Operand::register(Register::ur(index))
    }

    /// A complemented predicate.
    #[must_use]
    pub const fn not(register: Register) -> Self {
        Operand::Register(RegisterOperand {
            register,
            modifiers: SourceModifiers {
                invert: true,
                ..SourceModifiers::NONE
            },
        })
    }

    /// A 32-bit immediate.
    #[must_use]
    pub const fn imm32(value: i32) -> Self {
        Operand::Immediate(value as u32 as u64)
    }

    /// A single-precision immediate.
    #[must_use]
    pub const fn f32(value: f32) -> Self {
        Operand::Immediate(value.to_bits() as u64)
    }

    /// `c[bank][offset]`.
    #[must_use]
    pub const fn constant(bank: u8, offset: i32) -> Self {
        Operand::Constant(Constant {
            bank: ConstantBank::Index(bank),
            index: None,
            offset,
            modifiers: SourceModifiers::NONE,
        })
    }

    /// `desc[descriptor][base.64 + offset]`.
    #[must_use]
    pub const fn global(descriptor: Register, base: Register, offset: i32) -> Self {
        Operand::Address(Address {
            base: Some(base),
            kind: BaseKind::Wide,
            uniform: None,
            descriptor: Some(descriptor),
            offset,
        })
    }

    /// `[base + offset]`.
    #[must_use]
    pub const fn memory(base: Register, offset: i32) -> Self {
        Operand::Address(Address {
            base: Some(base),
            kind: BaseKind::Plain,
            uniform: None,
            descriptor: None,
            offset,
        })
    }

    /// The source modifiers, where the operand can have some.
    #[must_use]
    pub const fn modifiers(&self) -> SourceModifiers {
        match self {
            Operand::Register(operand) => operand.modifiers,
            Operand::Constant(constant) => constant.modifiers,
            _ => SourceModifiers::NONE,
        }
    }

    /// The same operand with other source modifiers; unchanged where it cannot have any.
    #[must_use]
    pub const fn with_modifiers(mut self, modifiers: SourceModifiers) -> Self {
        match &mut self {
            Operand::Register(operand) => operand.modifiers = modifiers,
            Operand::Constant(constant) => constant.modifiers = modifiers,
            _ => {}
        }
        self
    }

    /// The register, if this is one.
    #[must_use]
    pub const fn as_register(&self) -> Option<Register> {
        match self {
            Operand::Register(operand) => Some(operand.register),
            _ => None,
        }
    }
}

impl From<Register> for Operand {
    fn from(register: Register) -> Self {
        Operand::register(register)
    }
}

/// The operands of one instruction, in the order of the operation's slots.
pub type Operands = SmallVec<[Operand; 8]>;
