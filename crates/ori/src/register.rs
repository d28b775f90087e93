//! Register classes, register types, and registers before and after allocation.
//!
//! A value's type is a class and a number of registers, the same notion from lowering to the last byte. What the bits
//! mean (`s32`, `f16x2`) is said by the operation that reads them, as on the chip.

use crate::Value;
use orias_sass as sass;
use std::fmt;

/// The five register files of an SM.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Class {
    /// General registers, 32 bits in each lane.
    R,
    /// Predicates, one bit in each lane.
    P,
    /// Uniform registers, 32 bits for the warp.
    UR,
    /// Uniform predicates, one bit for the warp.
    UP,
    /// Convergence barriers, a set of lanes for the warp.
    B,
}

impl Class {
    /// Every class, in a fixed order.
    pub const ALL: [Class; 5] = [Class::R, Class::P, Class::UR, Class::UP, Class::B];

    /// The class in the instruction set, which knows names, counts and constant registers.
    #[inline]
    const fn file(self) -> sass::RegisterClass {
        sass::RegisterClass::ALL[self as usize]
    }

    /// The prefix of physical registers: `R`, `P`, `UR`, `UP`, `B`.
    pub const fn name(self) -> &'static str {
        self.file().prefix()
    }

    /// The name of the type of one virtual register: `r`, `p`, `ur`, `up`, `b`.
    pub const fn type_name(self) -> &'static str {
        match self {
            Class::R => "r",
            Class::P => "p",
            Class::UR => "ur",
            Class::UP => "up",
            Class::B => "b",
        }
    }

    /// How many registers of this class hold state: as many as encodings can name (a target's limits are `machine`'s),
    /// without the constant register, which is the last.
    #[inline]
    pub const fn count(self) -> u8 {
        match self.file().constant_index() {
            Some(last) => last,
            None => 1 << self.file().bits(),
        }
    }

    /// The register that always reads as zero (`RZ`, `URZ`) or true (`PT`, `UPT`), where the class has one.
    pub const fn constant(self) -> Option<PhysReg> {
        match self.file().constant_index() {
            Some(index) => Some(PhysReg {
                class: self,
                index,
                len: 1,
            }),
            None => None,
        }
    }

    /// The name of the constant register; empty where there is none.
    pub const fn constant_name(self) -> &'static str {
        match self {
            Class::R => "RZ",
            Class::P => "PT",
            Class::UR => "URZ",
            Class::UP => "UPT",
            Class::B => "",
        }
    }

    /// Whether a register of this class holds one value for the whole warp.
    pub const fn is_uniform(self) -> bool {
        matches!(self, Class::UR | Class::UP | Class::B)
    }

    /// Whether this class holds predicates, and so can guard an instruction.
    pub const fn is_predicate(self) -> bool {
        matches!(self, Class::P | Class::UP)
    }
}

/// The type of a value: `len` contiguous registers of one class, aligned as [`Type::alignment`] says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Type {
    class: Class,
    len: u8,
}

impl Type {
    /// One general register.
    pub const R: Type = Type::single(Class::R);
    /// Two general registers: a 64-bit value.
    pub const R2: Type = Type {
        class: Class::R,
        len: 2,
    };
    /// Four general registers: a 128-bit value.
    pub const R4: Type = Type {
        class: Class::R,
        len: 4,
    };
    /// One predicate.
    pub const P: Type = Type::single(Class::P);
    /// One uniform register.
    pub const UR: Type = Type::single(Class::UR);
    /// One uniform predicate.
    pub const UP: Type = Type::single(Class::UP);
    /// One convergence barrier.
    pub const B: Type = Type::single(Class::B);

    /// One register of `class`.
    pub const fn single(class: Class) -> Type {
        Type { class, len: 1 }
    }

    /// `len` registers of `class`; `None` when the class has not so many (or none are asked for).
    pub const fn tuple(class: Class, len: u8) -> Option<Type> {
        if len == 0 || len > class.count() {
            None
        } else {
            Some(Type { class, len })
        }
    }

    /// The class.
    #[inline]
    pub const fn class(self) -> Class {
        self.class
    }

    /// How many registers.
    #[inline]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// Never: a type has at least one register.
    pub const fn is_empty(self) -> bool {
        false
    }

    /// What the first register's index is a multiple of: the length up to 2, then 4. (A matrix accumulator of 64
    /// registers starts at a multiple of 4, too.) More than four uniform registers, which only tensor copies read, start at a
    /// multiple of 8 in all code seen.
    #[inline]
    pub const fn alignment(self) -> u8 {
        match self.len {
            1 => 1,
            2 => 2,
            _ => match self.class {
                Class::UR if self.len > 4 => 8,
                Class::R | Class::UR => 4,
                Class::P | Class::UP | Class::B => 1,
            },
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.class.type_name())?;
        if self.len > 1 {
            write!(f, "x{}", self.len)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A physical register, or a tuple of them: `R4`, `R4..R7`, `PT`.
///
/// The constant registers (`RZ`, `PT`, `URZ`, `UPT`) have length 1 and stand for a tuple of any length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysReg {
    class: Class,
    index: u8,
    len: u8,
}

impl PhysReg {
    /// `RZ`
    pub const RZ: PhysReg = Class::R.constant().unwrap();
    /// `PT`
    pub const PT: PhysReg = Class::P.constant().unwrap();
    /// `URZ`
    pub const URZ: PhysReg = Class::UR.constant().unwrap();
    /// `UPT`
    pub const UPT: PhysReg = Class::UP.constant().unwrap();

    /// Register `index` of `class`, the constant register included; `None` when there is no such register.
    #[inline]
    pub const fn new(class: Class, index: u8) -> Option<PhysReg> {
        let is_constant = match class.file().constant_index() {
            Some(constant) => constant == index,
            None => false,
        };
        if index < class.count() || is_constant {
            Some(PhysReg {
                class,
                index,
                len: 1,
            })
        } else {
            None
        }
    }

    /// The `len` registers from `index` on; `None` when the class ends before. Alignment is the verifier's business.
    #[inline]
    pub const fn tuple(class: Class, index: u8, len: u8) -> Option<PhysReg> {
        if len == 1 {
            return PhysReg::new(class, index);
        }
        if len == 0 || index as u16 + len as u16 > class.count() as u16 {
            None
        } else {
            Some(PhysReg { class, index, len })
        }
    }

    /// The class.
    #[inline]
    pub const fn class(self) -> Class {
        self.class
    }

    /// The index of the first register.
    #[inline]
    pub const fn index(self) -> u8 {
        self.index
    }

    /// How many registers; 1 for a constant register.
    #[inline]
    pub const fn len(self) -> u8 {
        self.len
    }

    /// Never: a register is at least one.
    pub const fn is_empty(self) -> bool {
        false
    }

    /// The type of a value this register could hold.
    #[inline]
    pub const fn ty(self) -> Type {
        Type {
            class: self.class,
            len: self.len,
        }
    }

    /// Whether this is `RZ`, `PT`, `URZ` or `UPT`.
    #[inline]
    pub const fn is_constant(self) -> bool {
        self.index >= self.class.count()
    }

    /// Whether the first register's index is a multiple of what its length asks for.
    pub const fn is_aligned(self) -> bool {
        self.is_constant() || self.index.is_multiple_of(self.ty().alignment())
    }

    /// Whether the two name a common register that holds state.
    pub const fn overlaps(self, other: PhysReg) -> bool {
        self.class as u8 == other.class as u8
            && !self.is_constant()
            && !other.is_constant()
            && (self.index as u16) < other.index as u16 + other.len as u16
            && (other.index as u16) < self.index as u16 + self.len as u16
    }

    /// The registers of a tuple one by one; nothing for a constant register, which holds no state.
    pub fn units(self) -> impl ExactSizeIterator<Item = PhysReg> + use<> {
        let len = if self.is_constant() { 0 } else { self.len };
        (0..len).map(move |offset| PhysReg {
            class: self.class,
            index: self.index + offset,
            len: 1,
        })
    }
}

impl fmt::Display for PhysReg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_constant() {
            return f.write_str(self.class.constant_name());
        }
        let name = self.class.name();
        write!(f, "{name}{}", self.index)?;
        if self.len > 1 {
            let last = u16::from(self.index) + u16::from(self.len) - 1;
            write!(f, "..{name}{last}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for PhysReg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A register operand: a value before allocation, a physical register after it (and the constant registers always).
///
/// Four bytes: the top bit tells the two apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(u32);

/// The two kinds of [`Reg`], for matching.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RegKind {
    /// A virtual register.
    Value(Value),
    /// A physical register or tuple.
    Phys(PhysReg),
}

impl Reg {
    const PHYSICAL: u32 = 1 << 31;

    /// Which of the two this is.
    #[inline]
    pub fn kind(self) -> RegKind {
        if self.0 & Reg::PHYSICAL == 0 {
            RegKind::Value(Value::from_u32(self.0))
        } else {
            RegKind::Phys(PhysReg {
                class: Class::ALL[(self.0 >> 16 & 7) as usize],
                index: (self.0 >> 8) as u8,
                len: self.0 as u8,
            })
        }
    }

    /// The value, if virtual.
    #[inline]
    pub fn value(self) -> Option<Value> {
        (self.0 & Reg::PHYSICAL == 0).then(|| Value::from_u32(self.0))
    }

    /// Whether this is `RZ`, `PT`, `URZ` or `UPT`.
    #[inline]
    pub fn is_constant(self) -> bool {
        matches!(self.kind(), RegKind::Phys(reg) if reg.is_constant())
    }

    /// The physical register, if there is one already.
    #[inline]
    pub fn phys(self) -> Option<PhysReg> {
        match self.kind() {
            RegKind::Value(_) => None,
            RegKind::Phys(reg) => Some(reg),
        }
    }

    /// The packed form, never `u32::MAX`.
    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// The inverse of [`Reg::bits`].
    pub(crate) const fn from_bits(bits: u32) -> Reg {
        Reg(bits)
    }
}

impl From<Value> for Reg {
    fn from(value: Value) -> Reg {
        debug_assert!(
            value.as_u32() < Guard::NEGATED,
            "a function has fewer than 2^30 values"
        );
        Reg(value.as_u32())
    }
}

impl From<PhysReg> for Reg {
    fn from(reg: PhysReg) -> Reg {
        Reg(Reg::PHYSICAL
            | (reg.class as u32) << 16
            | u32::from(reg.index) << 8
            | u32::from(reg.len))
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            RegKind::Value(value) => fmt::Display::fmt(&value, f),
            RegKind::Phys(reg) => fmt::Display::fmt(&reg, f),
        }
    }
}

impl fmt::Debug for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A [`Reg`] that may be absent, in four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OptReg(u32);

impl OptReg {
    /// No register.
    pub const NONE: OptReg = OptReg(u32::MAX);

    /// The register, if there is one.
    #[inline]
    pub const fn get(self) -> Option<Reg> {
        if self.0 == u32::MAX {
            None
        } else {
            Some(Reg(self.0))
        }
    }
}

impl Default for OptReg {
    fn default() -> OptReg {
        OptReg::NONE
    }
}

impl<T: Into<Reg>> From<T> for OptReg {
    fn from(reg: T) -> OptReg {
        OptReg(reg.into().bits())
    }
}

impl From<Option<Reg>> for OptReg {
    fn from(reg: Option<Reg>) -> OptReg {
        reg.map_or(OptReg::NONE, OptReg::from)
    }
}

impl fmt::Debug for OptReg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(reg) => fmt::Display::fmt(&reg, f),
            None => f.write_str("none"),
        }
    }
}

/// The guard of an instruction: the predicate under which it takes effect, or always.
///
/// Four bytes. Bit 30 of a [`Reg`]'s packed form is free (values stay below 2^30), and holds the negation.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Guard(u32);

impl Guard {
    const NEGATED: u32 = 1 << 30;

    /// No guard: the instruction always takes effect.
    pub const ALWAYS: Guard = Guard(u32::MAX);

    /// Takes effect when `reg` is true.
    pub fn when(reg: impl Into<Reg>) -> Guard {
        Guard(reg.into().bits())
    }

    /// Takes effect when `reg` is false.
    pub fn unless(reg: impl Into<Reg>) -> Guard {
        Guard(reg.into().bits() | Guard::NEGATED)
    }

    /// The predicate, unless the instruction always takes effect.
    #[inline]
    pub const fn reg(self) -> Option<Reg> {
        if self.is_always() {
            None
        } else {
            Some(Reg::from_bits(self.0 & !Guard::NEGATED))
        }
    }

    /// Whether the predicate is negated.
    pub const fn is_negated(self) -> bool {
        !self.is_always() && self.0 & Guard::NEGATED != 0
    }

    /// Whether there is no guard.
    #[inline]
    pub const fn is_always(self) -> bool {
        self.0 == u32::MAX
    }

    /// The same guard on another predicate.
    pub fn with_reg(self, reg: impl Into<Reg>) -> Guard {
        if self.is_negated() {
            Guard::unless(reg)
        } else {
            Guard::when(reg)
        }
    }
}

impl Default for Guard {
    fn default() -> Guard {
        Guard::ALWAYS
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reg() {
            None => Ok(()),
            Some(reg) => write!(f, "@{}{reg}", if self.is_negated() { "!" } else { "" }),
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reg() {
            None => f.write_str("always"),
            Some(_) => fmt::Display::fmt(self, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_survive_packing() {
        for class in Class::ALL {
            for index in 0..=255 {
                for len in [1, 2, 4, 64] {
                    if let Some(reg) = PhysReg::tuple(class, index, len) {
                        let packed = Reg::from(reg);
                        assert_eq!(packed.kind(), RegKind::Phys(reg));
                        assert_eq!(OptReg::from(packed).get(), Some(packed));
                        assert_eq!(Guard::unless(packed).reg(), Some(packed));
                        assert!(Guard::unless(packed).is_negated());
                        assert!(!Guard::when(packed).is_negated());
                    }
                }
            }
        }
        let value = Value::from_u32(12);
        assert_eq!(Reg::from(value).kind(), RegKind::Value(value));
    }

    #[test]
    fn classes_are_those_of_the_instruction_set() {
        for class in Class::ALL {
            let file = sass::RegisterClass::from(class);
            assert_eq!(Class::from(file), class);
            assert_eq!(format!("{class:?}"), format!("{file:?}"));
            for index in 0..=u8::MAX {
                let ours = PhysReg::new(class, index);
                let theirs = sass::Register::new(file, index);
                assert_eq!(ours.is_some(), theirs.exists(), "{theirs}");
                if let Some(ours) = ours {
                    assert_eq!(ours.to_string(), theirs.to_string());
                    assert_eq!(ours.is_constant(), theirs.is_constant());
                }
            }
        }
    }

    #[test]
    fn tuples_print_as_ranges_and_constants_by_name() {
        let text = |class, index, len| PhysReg::tuple(class, index, len).map(|r| r.to_string());
        assert_eq!(text(Class::R, 4, 4).as_deref(), Some("R4..R7"));
        assert_eq!(text(Class::UR, 6, 1).as_deref(), Some("UR6"));
        assert_eq!(text(Class::R, 255, 1).as_deref(), Some("RZ"));
        assert_eq!(text(Class::UP, 7, 1).as_deref(), Some("UPT"));
        assert_eq!(text(Class::R, 254, 2), None);
        assert_eq!(text(Class::B, 16, 1), None);
    }

    #[test]
    fn constant_registers_hold_no_state() {
        assert!(!PhysReg::RZ.overlaps(PhysReg::RZ));
        assert_eq!(PhysReg::RZ.units().len(), 0);
        let pair = PhysReg::tuple(Class::R, 4, 2).unwrap();
        assert!(pair.overlaps(PhysReg::new(Class::R, 5).unwrap()));
        assert!(!pair.overlaps(PhysReg::new(Class::UR, 5).unwrap()));
        assert_eq!(pair.units().len(), 2);
    }
}
