//! Operands: registers as slots, constants as bits, variables as addresses.

use super::{Decoder, Statics};
use crate::error::LoadError;
use crate::memory::{FUNCTION_BASE, LOCAL_WINDOW, SHARED_WINDOW};
use crate::program::{Place, is_reference};
use crate::step::{Address, Destination, Piece, Source, Space};
use crate::thread::Special;
use orias_ptx::ast::{Body, Operand, OperandKind, RegisterId, VariableId};
use orias_ptx::grammar::Modifier;
use orias_ptx::grammar::OperandName;
use orias_ptx::grammar::slot_names as slot;
use orias_ptx::opcode::{Pattern, PatternKind};
use orias_ptx::types::Type;

/// Which slots a function's registers have: one for each element, two for each of 128 bits.
pub(crate) struct Registers {
    slots: Vec<u32>,
    types: Vec<(Type, u8)>,
    count: u32,
}

impl Registers {
    pub fn of(body: &Body) -> Self {
        let mut registers = Self {
            slots: Vec::with_capacity(body.registers.len()),
            types: Vec::with_capacity(body.registers.len()),
            count: 0,
        };
        for register in &body.registers {
            registers.slots.push(registers.count);
            registers.types.push((register.ty, register.vector));
            registers.count += words(register.ty) * u32::from(register.vector.max(1));
        }
        registers
    }

    /// How many slots there are.
    pub const fn count(&self) -> u32 {
        self.count
    }

    pub fn slot(&self, id: RegisterId) -> u32 {
        self.slots[id.index()]
    }

    pub fn ty(&self, id: RegisterId) -> Type {
        self.types[id.index()].0
    }

    /// Elements of a vector register.
    pub fn elements(&self, id: RegisterId) -> u32 {
        self.types[id.index()].1.max(1).into()
    }

    /// The slots of a register, all its elements, the lowest bytes first.
    pub fn pieces(&self, id: RegisterId) -> Vec<Piece> {
        let (ty, first) = (self.ty(id), self.slot(id));
        (first..first + words(ty) * self.elements(id))
            .map(|slot| Piece {
                slot,
                mask: mask(ty),
                bytes: ty.bits().min(64).div_ceil(8),
            })
            .collect()
    }

    /// For each slot, the register it belongs to.
    pub fn owners(&self) -> Vec<u32> {
        let mut owners = vec![0; self.count as usize];
        for (number, &slot) in self.slots.iter().enumerate() {
            let (ty, vector) = self.types[number];
            for place in 0..words(ty) * u32::from(vector.max(1)) {
                owners[(slot + place) as usize] = number as u32;
            }
        }
        owners
    }
}

/// Slots that one value of a type takes.
pub(super) const fn words(ty: Type) -> u32 {
    if ty.bits() > 64 { 2 } else { 1 }
}

/// The bits of a slot that a type uses.
pub(super) const fn mask(ty: Type) -> u64 {
    match ty.bits() {
        bits if bits >= 64 => u64::MAX,
        bits => (1 << bits) - 1,
    }
}

/// A constant as a value of a type.
fn constant(kind: OperandKind, ty: Type) -> Option<u64> {
    let bits = match (kind, ty) {
        (OperandKind::Signed(value), Type::Pred) => (value != 0).into(),
        (OperandKind::Unsigned(value), Type::Pred) => (value != 0).into(),
        (OperandKind::Signed(value), Type::F32) => (value as f32).to_bits().into(),
        (OperandKind::Unsigned(value), Type::F32) => (value as f32).to_bits().into(),
        (OperandKind::Signed(value), Type::F64) => (value as f64).to_bits(),
        (OperandKind::Unsigned(value), Type::F64) => (value as f64).to_bits(),
        (OperandKind::Signed(value), _) => value.cast_unsigned(),
        (OperandKind::Unsigned(value), _) => value,
        (OperandKind::Single(bits), _) => bits.into(),
        (OperandKind::Double(bits), Type::F32) => (f64::from_bits(bits) as f32).to_bits().into(),
        (OperandKind::Double(bits), _) => bits,
        _ => return None,
    };
    Some(bits & mask(ty))
}

impl<'m> Decoder<'m, '_> {
    /// An operand without the modifier behind it, and the modifier.
    pub(super) fn unsuffixed(&self, operand: &'m Operand) -> (&'m Operand, Option<Modifier>) {
        match operand.kind {
            OperandKind::Suffixed(inner, modifier) => {
                (&self.body.operands[inner as usize], Some(modifier))
            }
            _ => (operand, None),
        }
    }

    /// Both sides of `a|b`.
    pub(super) fn pair(&self, operand: &Operand) -> Option<[&'m Operand; 2]> {
        match operand.kind {
            OperandKind::Pair(first) => {
                let first = first as usize;
                Some([&self.body.operands[first], &self.body.operands[first + 1]])
            }
            _ => None,
        }
    }

    /// What an instruction reads there, as a value of a type of up to 64 bits.
    pub(super) fn source(
        &self,
        it: &Statics<'_>,
        operand: &'m Operand,
        ty: Type,
    ) -> Result<Source, LoadError> {
        let (operand, _) = self.unsuffixed(operand);
        let register = |id: RegisterId, element: u8| Source::Register {
            slot: self.registers.slot(id) + u32::from(element) * words(self.registers.ty(id)),
            mask: mask(self.registers.ty(id)) & mask(ty),
        };
        Ok(match operand.kind {
            OperandKind::Register(id) => register(id, 0),
            OperandKind::Component(id, element) => register(id, element),
            OperandKind::Not(id) => Source::Not {
                slot: self.registers.slot(id),
            },
            OperandKind::Negated(id) => Source::Negated {
                slot: self.registers.slot(id),
                mask: mask(ty),
            },
            OperandKind::Sum(inner, constant) => {
                let constant = constant.cast_unsigned();
                match self.body.operands[inner as usize].kind {
                    OperandKind::Register(id) => Source::Sum {
                        slot: self.registers.slot(id),
                        mask: mask(self.registers.ty(id)) & mask(ty),
                        constant,
                    },
                    OperandKind::Special(special, component) => Source::SpecialSum {
                        special: self.special(it, special, component)?,
                        mask: mask(special.register().ty) & mask(ty),
                        constant,
                    },
                    _ => return Err(self.unsupported(it.instruction)),
                }
            }
            OperandKind::Special(special, component) => {
                Source::Special(self.special(it, special, component)?)
            }
            OperandKind::Variable(id) => self.variable_address(it, id, 0)?,
            OperandKind::Offset(id, offset) | OperandKind::Element(id, offset) => {
                self.variable_address(it, id, offset)?
            }
            OperandKind::Function(id) => {
                let number = self.layout.function(id).ok_or_else(|| {
                    self.unsupported_because(it.instruction, "of a function without body")
                })?;
                Source::Constant(FUNCTION_BASE + 16 * number as u64)
            }
            OperandKind::Vector(parts) if parts.count == 1 => {
                return self.source(it, &self.body.parts(parts)[0], ty);
            }
            kind => {
                let bits = constant(kind, ty);
                Source::Constant(bits.ok_or_else(|| self.unsupported(it.instruction))?)
            }
        })
    }

    fn special(
        &self,
        it: &Statics<'_>,
        special: orias_ptx::special::Special,
        component: u8,
    ) -> Result<Special, LoadError> {
        Special::of(special, component)
            .ok_or_else(|| self.unsupported_because(it.instruction, &format!("of {special}")))
    }

    /// The address of a variable in its own space.
    pub(super) fn variable_address(
        &self,
        it: &Statics<'_>,
        id: VariableId,
        offset: i64,
    ) -> Result<Source, LoadError> {
        let add = |base: u64| base.wrapping_add_signed(offset);
        Ok(match self.place(id) {
            Place::Absolute(base) if is_reference(self.module.variable(id).ty) => {
                Source::Stored(base)
            }
            Place::Absolute(base) => Source::Constant(add(base)),
            Place::Shared(base) => Source::Shared(add(base)),
            Place::Frame(base) => Source::Frame(add(base)),
            Place::Register(id) => Source::Register {
                slot: self.registers.slot(id),
                mask: mask(self.registers.ty(id)),
            },
            Place::Nowhere => {
                let name = self.module.name(self.module.variable(id).name);
                return Err(self.unsupported_because(
                    it.instruction,
                    &format!("of '{name}', which is defined elsewhere,"),
                ));
            }
        })
    }

    /// Where a result of a type of up to 64 bits goes; nowhere for `_`.
    pub(super) fn destination(
        &self,
        it: &Statics<'_>,
        operand: &'m Operand,
        ty: Type,
    ) -> Result<Option<Destination>, LoadError> {
        let (operand, _) = self.unsuffixed(operand);
        let (id, element) = match operand.kind {
            OperandKind::Register(id) => (id, 0),
            OperandKind::Component(id, element) => (id, element),
            OperandKind::Sink => return Ok(None),
            OperandKind::Vector(parts) if parts.count == 1 => {
                return self.destination(it, &self.body.parts(parts)[0], ty);
            }
            _ => return Err(self.unsupported(it.instruction)),
        };
        let register = self.registers.ty(id);
        let narrower = ty.is_signed() && ty.bits() < register.bits();
        Ok(Some(Destination {
            slot: self.registers.slot(id) + u32::from(element) * words(register),
            mask: mask(register),
            signed_bits: narrower.then_some(ty.bits()),
        }))
    }

    /// The elements of a vector operand, or the operand itself where it is one value.
    pub(super) fn elements(&self, operand: &'m Operand) -> Elements<'m> {
        let (operand, _) = self.unsuffixed(operand);
        match operand.kind {
            OperandKind::Vector(parts) => Elements::List(self.body.parts(parts)),
            OperandKind::Register(id) if self.registers.elements(id) > 1 => {
                Elements::Register(id, self.registers.elements(id))
            }
            _ => Elements::List(std::slice::from_ref(operand)),
        }
    }

    /// The values a vector operand reads; those of 128 bits as two words each, the lower first.
    pub(super) fn sources(
        &self,
        it: &Statics<'_>,
        operand: &'m Operand,
        ty: Type,
    ) -> Result<Vec<Source>, LoadError> {
        let mut sources = Vec::new();
        match self.elements(operand) {
            Elements::Register(id, count) => {
                for element in 0..count * words(self.registers.ty(id)) {
                    sources.push(Source::Register {
                        slot: self.registers.slot(id) + element,
                        mask: mask(ty),
                    });
                }
            }
            Elements::List(list) => {
                for operand in list {
                    let source = self.source(it, operand, ty)?;
                    sources.push(source);
                    if words(ty) == 2 {
                        sources.push(match source {
                            Source::Register { slot, mask } => Source::Register {
                                slot: slot + 1,
                                mask,
                            },
                            Source::Constant(_) => Source::Constant(0),
                            _ => return Err(self.unsupported(it.instruction)),
                        });
                    }
                }
            }
        }
        Ok(sources)
    }

    /// Where the elements of a vector result go; those of 128 bits as two words each.
    pub(super) fn destinations(
        &self,
        it: &Statics<'_>,
        operand: &'m Operand,
        ty: Type,
    ) -> Result<Vec<Option<Destination>>, LoadError> {
        let mut destinations = Vec::new();
        match self.elements(operand) {
            Elements::Register(id, count) => {
                let register = self.registers.ty(id);
                let narrower = ty.is_signed() && ty.bits() < register.bits();
                for element in 0..count * words(register) {
                    destinations.push(Some(Destination {
                        slot: self.registers.slot(id) + element,
                        mask: mask(register),
                        signed_bits: narrower.then_some(ty.bits()),
                    }));
                }
            }
            Elements::List(list) => {
                for operand in list {
                    let destination = self.destination(it, operand, ty)?;
                    destinations.push(destination);
                    if words(ty) == 2 {
                        destinations.push(destination.map(|it| Destination {
                            slot: it.slot + 1,
                            ..it
                        }));
                    }
                }
            }
        }
        Ok(destinations)
    }

    /// The address in an operand, which the row calls `name`.
    pub(super) fn address(
        &self,
        it: &Statics<'m>,
        name: OperandName,
    ) -> Result<Address, LoadError> {
        let named = it.named(name);
        let (pattern, operand) = named.ok_or_else(|| self.unsupported(it.instruction))?;
        self.address_in(it, pattern, operand)
    }

    /// The address in an operand of that pattern.
    pub(super) fn address_in(
        &self,
        it: &Statics<'m>,
        pattern: &Pattern,
        operand: &'m Operand,
    ) -> Result<Address, LoadError> {
        match &pattern.kind {
            PatternKind::Address(space) => self.address_of(it, operand, *space),
            PatternKind::Bracket(inner) => match &inner[..] {
                [
                    Pattern {
                        kind: PatternKind::Address(space),
                        ..
                    },
                ] => self.address_of(it, operand, *space),
                _ => Err(self.unsupported(it.instruction)),
            },
            _ => Err(self.unsupported(it.instruction)),
        }
    }

    pub(super) fn address_of(
        &self,
        it: &Statics<'_>,
        operand: &'m Operand,
        space: Option<&str>,
    ) -> Result<Address, LoadError> {
        let (operand, _) = self.unsuffixed(operand);
        let space = match space {
            None | Some("global") => Space::Generic,
            Some("const") => Space::Const,
            Some("shared" | "shared::cta") => Space::Shared,
            Some("shared::cluster") => Space::Cluster,
            Some("local") => Space::Local,
            // The parameters of a kernel have addresses of their own, those of functions lie in frames.
            Some("param" | "param::entry" | "param::func") if self.function.entry => Space::Generic,
            Some("param" | "param::entry" | "param::func") => Space::Local,
            Some(other) => {
                return Err(self.unsupported_because(it.instruction, &format!("of {other} memory")));
            }
        };
        Ok(match operand.kind {
            OperandKind::AtRegister(id, offset) => Address {
                space,
                base: Source::Register {
                    slot: self.registers.slot(id),
                    mask: mask(self.registers.ty(id)),
                },
                offset,
            },
            OperandKind::AtConstant(value) => Address {
                space,
                base: Source::Constant(value.cast_unsigned()),
                offset: 0,
            },
            OperandKind::AtVariable(id, offset) | OperandKind::Element(id, offset) => {
                let space = match self.place(id) {
                    Place::Shared(_) => Space::Shared,
                    Place::Frame(_) => Space::Local,
                    Place::Register(_) => space,
                    Place::Absolute(_) | Place::Nowhere => Space::Generic,
                };
                Address {
                    space,
                    base: self.variable_address(it, id, 0)?,
                    offset,
                }
            }
            _ => return Err(self.unsupported(it.instruction)),
        })
    }

    /// How far a space's addresses are from generic ones.
    pub(super) fn window(&self, it: &Statics<'_>) -> Result<u64, LoadError> {
        match it.form.get(slot::SPACE) {
            Some(Modifier::Shared | Modifier::SharedCta | Modifier::SharedCluster) => {
                Ok(SHARED_WINDOW)
            }
            Some(Modifier::Local) => Ok(LOCAL_WINDOW),
            Some(Modifier::Param) if !self.function.entry => Ok(LOCAL_WINDOW),
            Some(Modifier::Global | Modifier::Const | Modifier::Param | Modifier::ParamEntry) => {
                Ok(0)
            }
            _ => Err(self.unsupported(it.instruction)),
        }
    }
}

/// The elements of a vector operand.
pub(super) enum Elements<'m> {
    /// Written one by one.
    List(&'m [Operand]),
    /// All elements of a vector register.
    Register(RegisterId, u32),
}
