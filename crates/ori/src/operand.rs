//! What an instruction reads and writes: registers, immediates, constant banks, addresses, special registers, names.

use crate::Value;
use crate::entity::{AddressId, Block, Symbol};
use crate::register::{OptReg, PhysReg, Reg};
use cranelift_entity::packed_option::PackedOption;
use std::fmt;

/// How a source is changed on the way into the operation, and whether its register stays in the reuse cache.
///
/// Which of these a place allows is said by the operation's row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SourceMods(u8);

impl SourceMods {
    /// Unchanged.
    pub const NONE: SourceMods = SourceMods(0);
    /// Arithmetic negation: `-v1`.
    pub const NEGATE: SourceMods = SourceMods(1);
    /// Absolute value, applied before negation: `|v1|`.
    pub const ABSOLUTE: SourceMods = SourceMods(1 << 1);
    /// Complement of a predicate or of every bit: `!v1`.
    pub const NOT: SourceMods = SourceMods(1 << 2);
    /// The operand is kept in the reuse cache for the next instruction: `R4.reuse`.
    pub const REUSE: SourceMods = SourceMods(1 << 3);

    const SELECT_SHIFT: u32 = 4;

    /// The packed form.
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// The flags of both.
    #[must_use]
    pub const fn with(self, other: SourceMods) -> SourceMods {
        SourceMods(self.0 | other.0)
    }

    /// Without the flags of `other`.
    #[must_use]
    pub const fn without(self, other: SourceMods) -> SourceMods {
        SourceMods(self.0 & !other.0)
    }

    /// Whether every flag of `other` is set.
    pub const fn contains(self, other: SourceMods) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether nothing is changed.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Which part of the register is read: a number whose name (`H0_H0`, `B1`) the machine operation's row knows; 0 where
    /// there is no choice.
    pub const fn select(self) -> u8 {
        self.0 >> SourceMods::SELECT_SHIFT
    }

    /// The same, reading another part of the register: a number below 16, or `None`.
    pub const fn with_select(self, select: u8) -> Option<SourceMods> {
        if select < 16 {
            Some(SourceMods(
                self.0 & 0xf | select << SourceMods::SELECT_SHIFT,
            ))
        } else {
            None
        }
    }
}

impl fmt::Debug for SourceMods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = [
            (SourceMods::NEGATE, "-"),
            (SourceMods::ABSOLUTE, "||"),
            (SourceMods::NOT, "!"),
            (SourceMods::REUSE, ".reuse"),
        ];
        for (flag, text) in flags {
            if self.contains(flag) {
                f.write_str(text)?;
            }
        }
        match self.select() {
            0 => Ok(()),
            select => write!(f, ".{select}"),
        }
    }
}

/// An immediate: a bit pattern of up to 64 bits. Floats are their patterns.
///
/// Two words rather than a `u64`, so that an [`Operand`] stays at twelve bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Imm([u32; 2]);

impl Imm {
    /// The pattern `bits`.
    pub const fn new(bits: u64) -> Imm {
        Imm([bits as u32, (bits >> 32) as u32])
    }

    /// The pattern.
    pub const fn bits(self) -> u64 {
        self.0[0] as u64 | (self.0[1] as u64) << 32
    }
}

impl fmt::Debug for Imm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.bits())
    }
}

/// Which part of a symbol's address an operand stands for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SymbolPart {
    /// All of it.
    Whole,
    /// Bits 0 to 31.
    Low,
    /// Bits 32 to 63.
    High,
}

/// One operand of an instruction; twelve bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operand {
    /// An operand that is left out, or a result nobody wants: `_`.
    None,
    /// A register, virtual or physical. In a place that defines, the register defined.
    Reg {
        /// The register.
        reg: Reg,
        /// How it is changed on the way in; empty in a place that defines.
        mods: SourceMods,
    },
    /// A bit pattern.
    Imm(Imm),
    /// A word of a constant bank: `c[0x0][0x210]`, `c[0x3][R4+0x10]`.
    Const {
        /// How it is changed on the way in.
        mods: SourceMods,
        /// The bank.
        bank: u8,
        /// The offset in bytes.
        offset: i32,
        /// A register added to the offset.
        index: OptReg,
    },
    /// A word of a constant bank named by a descriptor in a uniform register: `cx[UR4][0x10]`.
    Bindless {
        /// How it is changed on the way in.
        mods: SourceMods,
        /// The register that holds the descriptor.
        descriptor: Reg,
        /// The offset in bytes.
        offset: i32,
    },
    /// A memory operand, whose parts are in the function's pool. Each belongs to one operand only.
    Address(AddressId),
    /// A matrix descriptor in uniform registers: `gdesc[UR4]`.
    Descriptor(Reg),
    /// A special register, by the number the machine gives it.
    Special(u8),
    /// The address of a name outside the function: `&name`, `lo(&name+8)`. In a place that takes a word of a constant bank only, the word
    /// behind the parameters in bank 0 that belongs to the name.
    Symbol {
        /// The name.
        symbol: Symbol,
        /// Which part of the address.
        part: SymbolPart,
        /// A constant added to it.
        addend: i32,
    },
    /// A block that is named but not jumped to from here, such as the place where lanes meet again.
    Block(Block),
    /// The edge of this number among the instruction's edges: a jump target written in the place of an operand.
    Edge(u32),
}

impl Operand {
    /// A value read (or defined) unchanged.
    #[inline]
    pub fn value(value: Value) -> Operand {
        Operand::from(Reg::from(value))
    }

    /// An immediate.
    pub const fn imm(bits: u64) -> Operand {
        Operand::Imm(Imm::new(bits))
    }

    /// A word of constant bank `bank`.
    pub const fn constant(bank: u8, offset: i32) -> Operand {
        Operand::Const {
            mods: SourceMods::NONE,
            bank,
            offset,
            index: OptReg::NONE,
        }
    }

    /// The register, where the operand is one.
    #[inline]
    pub const fn reg(self) -> Option<Reg> {
        match self {
            Operand::Reg { reg, .. } => Some(reg),
            _ => None,
        }
    }

    /// The value, where the operand is one.
    #[inline]
    pub fn as_value(self) -> Option<Value> {
        self.reg().and_then(Reg::value)
    }

    /// The source modifiers.
    #[inline]
    pub const fn mods(self) -> SourceMods {
        match self {
            Operand::Reg { mods, .. }
            | Operand::Const { mods, .. }
            | Operand::Bindless { mods, .. } => mods,
            _ => SourceMods::NONE,
        }
    }

    /// The same operand with other source modifiers; `None` where this kind of operand has none and some are asked for.
    pub const fn with_mods(self, new: SourceMods) -> Option<Operand> {
        Some(match self {
            Operand::Reg { reg, .. } => Operand::Reg { reg, mods: new },
            Operand::Const {
                bank,
                offset,
                index,
                ..
            } => Operand::Const {
                mods: new,
                bank,
                offset,
                index,
            },
            Operand::Bindless {
                descriptor, offset, ..
            } => Operand::Bindless {
                mods: new,
                descriptor,
                offset,
            },
            other if new.is_empty() => other,
            _ => return None,
        })
    }
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Operand {
        Operand::Reg {
            reg,
            mods: SourceMods::NONE,
        }
    }
}

impl From<Value> for Operand {
    fn from(value: Value) -> Operand {
        Operand::value(value)
    }
}

impl From<PhysReg> for Operand {
    fn from(reg: PhysReg) -> Operand {
        Operand::from(Reg::from(reg))
    }
}

/// How the base register of an address is read. Scales such as `.X4` are modifiers of the operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum BaseForm {
    /// As the operation reads it: one register in most, a pair in those whose addresses are always 64 bits wide.
    #[default]
    Plain,
    /// A pair of registers, a 64-bit address: `R2.64`.
    Wide,
    /// One register, extended with zeroes and added to a 64-bit uniform base: `R2.U32`.
    Unsigned,
}

impl BaseForm {
    /// Every form.
    pub const ALL: [BaseForm; 3] = [BaseForm::Plain, BaseForm::Wide, BaseForm::Unsigned];

    /// How the text form writes it after the base register.
    pub const fn suffix(self) -> &'static str {
        match self {
            BaseForm::Plain => "",
            BaseForm::Wide => ".64",
            BaseForm::Unsigned => ".U32",
        }
    }
}

/// The parts of a memory operand: `desc[descriptor][base + uniform + symbol + offset]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Address {
    /// The base, of class R.
    pub base: OptReg,
    /// The uniform base, of class UR.
    pub uniform: OptReg,
    /// The memory descriptor, of class UR.
    pub descriptor: OptReg,
    /// A name whose address is added.
    pub symbol: PackedOption<Symbol>,
    /// A constant number of bytes.
    pub offset: i32,
    /// How the base is read.
    pub form: BaseForm,
}

impl Address {
    /// `[base+offset]`
    pub fn base(base: impl Into<Reg>, offset: i32) -> Address {
        Address {
            base: OptReg::from(base.into()),
            offset,
            ..Address::default()
        }
    }

    /// The registers read: base, uniform base, descriptor.
    pub fn regs(&self) -> impl Iterator<Item = Reg> + use<> {
        [self.base, self.uniform, self.descriptor]
            .into_iter()
            .filter_map(OptReg::get)
    }
}
