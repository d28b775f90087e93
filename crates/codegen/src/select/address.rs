//! Addresses of memory operations: base, offset and descriptor as the forms of loads, stores and atomics take them.

use super::selector::{Selector, Shared, pt, rz, urz, with_index};
use super::source::{Source, named_word};
use super::{WORD, sources};
use crate::pipeline::PhaseError;
use crate::policy;
use orias_ori::operation::{Scalar, Space};
use orias_ori::{
    AbstractMods, AbstractOp, Address, BaseForm, Class, Inst, Operand, OptReg, PhysReg, Reg,
    SymbolPart, Type, Value,
};
use orias_sass::Op;

/// Offsets that every address field of a memory access holds.
const OFFSET_LIMIT: i64 = 1 << 23;

/// An abstract address, sums with known numbers taken out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) base: Option<Value>,
    pub(super) symbol: Option<orias_ori::Symbol>,
    pub(super) offset: i64,
}

impl Selector<'_> {
    /// The address in source `index`.
    pub(super) fn place(&self, index: usize) -> Result<Place, PhaseError> {
        let Operand::Address(id) = self.operand(index) else {
            return Err(self.broken("not an address"));
        };
        let address = *self.func.address(id);
        let mut place = Place {
            base: address.base.get().and_then(Reg::value),
            symbol: address.symbol.expand(),
            offset: i64::from(address.offset),
        };
        for _ in 0..8 {
            let Some((base, more)) = place.base.and_then(|base| self.known_term(base)) else {
                break;
            };
            let offset = place.offset.wrapping_add(more);
            if offset.abs() >= OFFSET_LIMIT {
                break;
            }
            place.base = base;
            place.offset = offset;
        }
        Ok(place)
    }

    /// What `value` is besides a known number, and that number.
    fn known_term(&self, value: Value) -> Option<(Option<Value>, i64)> {
        let (inst, op) = self.definition(value)?;
        let operands = self.func.operands(inst);
        let number = |operand: Operand| match operand {
            Operand::Imm(imm) => match self.func.value_type(value) {
                Type::R => Some(i64::from(imm.bits() as u32 as i32)),
                _ => Some(imm.bits() as i64),
            },
            _ => None,
        };
        match op {
            AbstractOp::Mov => match operands[1] {
                Operand::Imm(_) => Some((None, number(operands[1])?)),
                operand => Some((Some(operand.as_value()?), 0)),
            },
            AbstractOp::Add if self.func.modifier::<Scalar>(inst)?.bits() >= 32 => {
                let (a, b) = (operands[1], operands[2]);
                match (a.as_value(), b.as_value()) {
                    (Some(base), None) => Some((Some(base), number(b)?)),
                    (None, Some(base)) => Some((Some(base), number(a)?)),
                    _ => None,
                }
            }
            AbstractOp::Sub if self.func.modifier::<Scalar>(inst)?.bits() >= 32 => Some((
                Some(operands[1].as_value()?),
                number(operands[2])?.checked_neg()?,
            )),
            _ => None,
        }
    }

    /// The offset of `place` if it fits the field; else it becomes part of the base.
    fn settled(&mut self, place: Place) -> Result<(Place, i32), PhaseError> {
        if place.offset.abs() < OFFSET_LIMIT {
            return Ok((place, place.offset as i32));
        }
        let base = match place.base {
            None => {
                let bits = place.offset as u64;
                match i32::try_from(place.offset) {
                    Ok(_) => self.in_register(Operand::imm(bits & 0xffff_ffff).into())?,
                    Err(_) => return Err(self.broken("an address of more than 32 bits")),
                }
            }
            Some(base) if self.func.value_type(base) == Type::R => {
                self.sum(base.into(), Source::imm(place.offset as u32))?
            }
            Some(base) => {
                let pair = self.temporary(Type::R2);
                self.count(pair);
                let words = self.words_of(base.into());
                let carry = self.temporary(Type::P);
                let low = self.temporary(WORD);
                let bits = place.offset as u64;
                let operands = sources![low, carry, pt(), words[0], Source::imm(bits as u32), rz()];
                self.emit(Op::IADD3, &[], operands)?;
                let more = Source::imm((bits >> 32) as u32);
                let high = self.add_with_carry(words[1], more, false, carry.into(), pt())?;
                self.define_pair(pair, low.into(), high.into())?;
                pair
            }
        };
        let place = Place {
            base: Some(base),
            offset: 0,
            ..place
        };
        Ok((place, 0))
    }

    /// The word a 32-bit address starts from: the low word of a pair.
    pub(super) fn base_word(&mut self, base: Option<Value>) -> Result<Option<Value>, PhaseError> {
        match base {
            Some(base) if self.func.value_type(base) != Type::R => {
                let [low, _] = self.words_of(base.into());
                Ok(Some(self.in_register(low)?))
            }
            Some(base) => {
                // A parameter or a number may stand behind the name.
                Ok(Some(base))
            }
            None => Ok(None),
        }
    }

    /// The pair a 64-bit address starts from: a name, a pair, or a word without sign.
    fn base_pair(&mut self, place: Place) -> Result<Reg, PhaseError> {
        let base = match place.base {
            Some(base) if self.func.value_type(base) == Type::R => {
                let pair = self.temporary(Type::R2);
                self.count(pair);
                self.define_pair(pair, base.into(), rz().into())?;
                Some(pair)
            }
            other => other,
        };
        let Some(symbol) = place.symbol else {
            return Ok(match base {
                Some(base) => base.into(),
                None => rz().reg().unwrap_or(Reg::from(self.temporary(Type::R2))),
            });
        };
        let parts = [SymbolPart::Low, SymbolPart::High].map(|part| Operand::Symbol {
            symbol,
            part,
            addend: 0,
        });
        let pair = self.temporary(Type::R2);
        self.count(pair);
        match base {
            None => self.define_pair(pair, parts[0].into(), parts[1].into())?,
            Some(base) => {
                let words = self.words_of(base.into());
                let carry = self.temporary(Type::P);
                let low = self.temporary(WORD);
                let operands = sources![low, carry, pt(), words[0], parts[0], rz()];
                self.emit(Op::IADD3, &[], operands)?;
                let high =
                    self.add_with_carry(words[1], parts[1].into(), false, carry.into(), pt())?;
                self.define_pair(pair, low.into(), high.into())?;
            }
        }
        Ok(pair.into())
    }

    /// A machine address in global or generic memory.
    pub(super) fn far_address(
        &mut self,
        place: Place,
        policy: Operand,
        described: bool,
    ) -> Result<Operand, PhaseError> {
        let described = described && !(self.undescribed && policy == Operand::None);
        let (place, offset) = self.settled(place)?;
        let base = self.base_pair(place)?;
        let descriptor = match (described, policy) {
            (false, _) => OptReg::NONE,
            (true, Operand::None) => self.shared(Shared::Descriptor).into(),
            (true, policy) => self.policy_register(policy)?.into(),
        };
        Ok(self.func.create_address(Address {
            base: base.into(),
            descriptor,
            offset,
            form: if described {
                BaseForm::Wide
            } else {
                BaseForm::Plain
            },
            ..Address::default()
        }))
    }

    /// A machine address in global memory without a descriptor: `[R2.64+URZ+0x8]`.
    pub(super) fn bare_address(&mut self, place: Place) -> Result<Operand, PhaseError> {
        let (place, offset) = self.settled(place)?;
        let base = self.base_pair(place)?;
        Ok(self.func.create_address(Address {
            base: base.into(),
            uniform: urz().reg().into(),
            offset,
            form: BaseForm::Wide,
            ..Address::default()
        }))
    }

    /// A cache policy in uniform registers.
    fn policy_register(&mut self, policy: Operand) -> Result<Value, PhaseError> {
        let known = policy.as_value().and_then(|value| {
            let (inst, op) = self.definition(value)?;
            (op == AbstractOp::CreatePolicy).then_some(())?;
            self.known_policy(inst)
        });
        if let Some(upper) = known {
            return Ok(self.shared(Shared::Policy(upper)));
        }
        let words = self.words_of(policy);
        let mut parts = Vec::new();
        for word in words {
            let word = self.in_register(word)?;
            let uniform = self.temporary(Type::single(Class::UR));
            self.emit(Op::R2UR, &[], sources![pt(), uniform, word])?;
            parts.push(uniform);
        }
        let Some(ty) = Type::tuple(Class::UR, 2) else {
            return Err(self.broken("no pair of uniform registers"));
        };
        let pair = self.temporary(ty);
        let operands = [pair.into(), parts[0].into(), parts[1].into()];
        let inst = self
            .func
            .create_abstract(AbstractOp::Collect, AbstractMods::NONE, 1, &operands);
        self.insert(inst);
        Ok(pair)
    }

    /// The upper word of a policy that is known when the program is compiled: priorities and sixteenths of the accesses.
    pub(super) fn known_policy(&mut self, inst: Inst) -> Option<u32> {
        let &[_, primary, secondary, fraction] = self.func.operands(inst) else {
            return None;
        };
        let fraction = match fraction {
            Operand::None => 1.0,
            operand => f32::from_bits(self.word_of(operand).constant()? as u32),
        };
        let head = policy::head(policy::Kind::Fraction, primary, secondary)?;
        let sixteenths = ((fraction * 16.0).ceil() as i32 - 1).clamp(0, 15) as u32;
        Some((head | sixteenths) << policy::HEAD)
    }

    /// A machine address in shared memory.
    pub(super) fn shared_address(&mut self, place: Place) -> Result<Operand, PhaseError> {
        let (place, offset) = self.settled(place)?;
        let base = self.base_word(place.base)?;
        let base = match base {
            Some(base) => base.into(),
            None => rz().reg().into(),
        };
        let uniform = match place.symbol {
            Some(_) => self.shared(Shared::BlockBase).into(),
            None => OptReg::NONE,
        };
        Ok(self.func.create_address(Address {
            base,
            uniform,
            symbol: place.symbol.into(),
            offset,
            ..Address::default()
        }))
    }

    /// The same address for a form that always has a uniform part.
    pub(super) fn with_uniform_part(&mut self, address: Operand) -> Operand {
        let Operand::Address(id) = address else {
            return address;
        };
        let place = *self.func.address(id);
        match place.uniform.get() {
            Some(_) => address,
            None => self.func.create_address(Address {
                uniform: urz().reg().into(),
                ..place
            }),
        }
    }

    /// The stack pointer, which the allocator leaves alone from now on.
    pub(super) fn stack_pointer(&mut self) -> Result<PhysReg, PhaseError> {
        let Some(register) = PhysReg::new(Class::R, self.machine.abi.stack_pointer) else {
            return Err(self.broken("no stack pointer"));
        };
        if !self.func.attributes.fixed.contains(&register) {
            self.func.attributes.fixed.push(register);
        }
        Ok(register)
    }

    /// A machine address in local memory. Without a base it counts from the frame, which starts at the stack pointer.
    pub(super) fn local_address(&mut self, place: Place) -> Result<Operand, PhaseError> {
        if place.symbol.is_some() {
            return Err(self.unsupported());
        }
        let (base, offset): (OptReg, i32) = match place.base {
            None if place.offset.abs() < OFFSET_LIMIT => {
                (self.stack_pointer()?.into(), place.offset as i32)
            }
            None => {
                let frame = self.stack_pointer()?;
                let far = Source::imm(place.offset as u32);
                (self.sum(Operand::from(frame).into(), far)?.into(), 0)
            }
            Some(_) => {
                let (place, offset) = self.settled(place)?;
                match self.base_word(place.base)? {
                    Some(base) => (base.into(), offset),
                    None => return Err(self.broken("a base that is gone")),
                }
            }
        };
        Ok(self.func.create_address(Address {
            base,
            offset,
            ..Address::default()
        }))
    }

    /// A place in a constant bank: an index register and an offset.
    pub(super) fn bank_place(&mut self, place: Place, space: Space) -> Result<Operand, PhaseError> {
        if let (Space::Param, Some(symbol), None, 0) =
            (space, place.symbol, place.base, place.offset)
        {
            return Ok(named_word(symbol));
        }
        let (bank, start) = match space {
            Space::Param => (self.constants.bank, self.constants.params),
            _ => (self.constants.user_bank, 0),
        };
        let mut index = self.base_word(place.base)?;
        if let Some(symbol) = place.symbol {
            let name = Operand::Symbol {
                symbol,
                part: SymbolPart::Low,
                addend: 0,
            };
            index = Some(match index {
                None => self.in_register(name.into())?,
                Some(index) => self.sum(index.into(), name.into())?,
            });
        }
        let mut offset = i64::from(start) + place.offset;
        if i16::try_from(offset).is_err() {
            let far = Source::imm(offset as u32);
            index = Some(match index {
                None => self.in_register(far)?,
                Some(index) => self.sum(index.into(), far)?,
            });
            offset = 0;
        }
        Ok(with_index(Operand::Const {
            mods: orias_ori::SourceMods::NONE,
            bank,
            offset: offset as i32,
            index: index.map(Reg::from).into(),
        }))
    }
}
