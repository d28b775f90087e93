//! Vectors: their length, and which elements go together.
//!
//! All elements of a vector are equally wide. One untyped register makes the whole vector untyped, and integers then pass
//! for floating point of the same size. Matrix instructions have rules of their own, by the format of the matrix
//! ([`ElementRule`]); a vector of constants alone has the type of its constants there.

use super::agree::{register_agrees, special_agrees};
use super::{Context, Misfit, Reason};
use crate::ast::{Operand, OperandKind};
use crate::opcode::{ElementRule, ValuePattern};
use crate::types::{Type, TypeClass};

/// What the registers of a vector have in common.
#[derive(Default)]
struct Common {
    /// How wide the registers are.
    bits: Option<u32>,
    /// One of them is untyped.
    untyped: bool,
    /// Something other than `_` stands there.
    any: bool,
    integers: bool,
    /// The first type of floating point.
    float: Option<Type>,
    /// There are two types of floating point.
    floats: bool,
}

impl Common {
    fn add(&mut self, ty: Type) -> bool {
        self.untyped |= ty.class() == TypeClass::Bits;
        self.integers |= ty.is_integer();
        if ty.class() == TypeClass::Float {
            self.floats |= *self.float.get_or_insert(ty) != ty;
        }
        *self.bits.get_or_insert(ty.bits()) == ty.bits()
    }
}

/// The type a constant has where nothing else says it.
fn constant_type(kind: OperandKind) -> Option<Type> {
    match kind {
        OperandKind::Signed(_) | OperandKind::Unsigned(_) => Some(Type::S64),
        OperandKind::Single(_) => Some(Type::F32),
        OperandKind::Double(_) => Some(Type::F64),
        _ => None,
    }
}

fn fail(part: &Operand, reason: Reason) -> Result<(), Misfit> {
    Err(Misfit {
        span: part.span,
        reason,
        progress: 0,
    })
}

impl Context<'_> {
    pub(super) fn vector(
        &self,
        operand: &Operand,
        low: u16,
        high: u16,
        element: &ValuePattern,
    ) -> Result<(), Misfit> {
        match operand.kind {
            OperandKind::Vector(parts) => {
                if parts.count < low.max(1) || parts.count > high {
                    return fail(operand, Reason::Length(low, high));
                }
                self.elements(operand, self.body.parts(parts), element)
            }
            OperandKind::Register(register) => {
                let register = &self.body.registers[register.index()];
                let length = u16::from(register.vector);
                let length = if length == 1 { 0 } else { length };
                if length < low || length > high {
                    return fail(operand, Reason::Length(low, high));
                }
                if register_agrees(register.ty, element.ty, element.form.relaxed, element.named) {
                    Ok(())
                } else {
                    fail(operand, Reason::Type(register.ty, element.ty))
                }
            }
            OperandKind::Special(special, u8::MAX)
                if element.form.special && special.register().vector && low == 4 =>
            {
                let row = special.register();
                if special_agrees(row, element) {
                    Ok(())
                } else {
                    fail(operand, Reason::Type(row.ty, element.ty))
                }
            }
            OperandKind::Sink => fail(operand, Reason::Sink),
            _ if low == 0 => self.value(operand, element),
            _ => fail(operand, Reason::Length(low, high)),
        }
    }

    /// The type of an element, if it is one register.
    fn register_type(&self, part: &Operand) -> Option<Type> {
        match part.kind {
            OperandKind::Register(register) => {
                let register = &self.body.registers[register.index()];
                (register.vector == 1).then_some(register.ty)
            }
            OperandKind::Component(register, _) => Some(self.body.registers[register.index()].ty),
            _ => None,
        }
    }

    /// The type of an element that is read from a special register.
    fn special_type(part: &Operand) -> Option<Type> {
        match part.kind {
            OperandKind::Special(special, component) => {
                let row = special.register();
                (!row.vector || component != u8::MAX).then_some(row.ty)
            }
            _ => None,
        }
    }

    fn elements(
        &self,
        whole: &Operand,
        parts: &[Operand],
        element: &ValuePattern,
    ) -> Result<(), Misfit> {
        let form = &element.form;
        let mut common = Common::default();
        let constant = parts.iter().any(|it| constant_type(it.kind).is_some());
        for part in parts {
            common.any |= part.kind != OperandKind::Sink;
            match part.kind {
                OperandKind::Special(..) if !form.constant => {
                    return fail(part, Reason::SpecialResult);
                }
                // ptxas takes `{%tid.x, %r1}` and `{%laneid, 1}`, but not `{%tid.x, 1}`.
                OperandKind::Special(_, component) if constant && component != u8::MAX => {
                    return fail(part, Reason::Kind("a register or a constant".to_owned()));
                }
                OperandKind::Variable(..) | OperandKind::Offset(..) | OperandKind::Element(..) => {
                    return fail(part, Reason::Kind("a register or a constant".to_owned()));
                }
                _ => {}
            }
            // A special register is as wide as the others, and its type does not matter.
            if let Some(ty) = Self::special_type(part)
                && *common.bits.get_or_insert(ty.bits()) != ty.bits()
            {
                return fail(part, Reason::Elements);
            }
            let Some(ty) = self.register_type(part) else {
                continue;
            };
            if ty == Type::Pred && element.ty != Type::Pred {
                return fail(part, Reason::PredicateElement);
            }
            if !common.add(ty) {
                return fail(part, Reason::Elements);
            }
        }
        let constants = common.bits.is_none() && common.any;
        let guessed = matches!(element.ty.class(), TypeClass::Bits | TypeClass::Float);
        if self.elements.matrix && constants && guessed && form.register && !form.strict {
            return self.constant_elements(parts, element);
        }
        let mixed =
            (common.integers && common.float.is_some()) || (common.floats && self.elements.matrix);
        if (!common.any && form.sink) || (mixed && !common.untyped && form.register) {
            return fail(whole, Reason::Elements);
        }
        parts
            .iter()
            .try_for_each(|part| self.element(part, parts, element, common.untyped))
    }

    /// Constants alone, for a matrix: as good as registers of the constants' types.
    fn constant_elements(&self, parts: &[Operand], element: &ValuePattern) -> Result<(), Misfit> {
        parts.iter().try_for_each(|part| {
            let agrees = constant_type(part.kind).is_none_or(|ty| {
                let converted = element.ty == Type::F64
                    || (element.ty == Type::F32 && self.elements.expanded_sums);
                element.form.constant
                    && (self.element_agrees(ty, element, false)
                        || (converted && self.value(part, element).is_ok()))
            });
            match part.kind {
                _ if !agrees => fail(
                    part,
                    Reason::Kind("a register among the elements".to_owned()),
                ),
                _ if constant_type(part.kind).is_some() => Ok(()),
                _ => self.value(part, element),
            }
        })
    }

    fn element(
        &self,
        part: &Operand,
        parts: &[Operand],
        element: &ValuePattern,
        untyped: bool,
    ) -> Result<(), Misfit> {
        let form = &element.form;
        if let Some(ty) = self.register_type(part) {
            let agrees = if form.strict {
                let alike = element.ty.class() != TypeClass::Bits
                    || parts
                        .iter()
                        .all(|other| self.register_type(other).is_none_or(|it| it == ty));
                alike && register_agrees(ty, element.ty, form.relaxed, element.named)
            } else {
                self.element_agrees(ty, element, untyped)
            };
            return match (form.register, agrees) {
                (false, _) => self.value(part, element),
                (true, true) => Ok(()),
                (true, false) => fail(part, Reason::Type(ty, element.ty)),
            };
        }
        match part.kind {
            OperandKind::Special(..) => {
                let agrees = Self::special_type(part).is_some_and(|ty| {
                    if self.elements.matrix {
                        self.elements.takes_special(element.ty) && ty.bits() == element.ty.bits()
                    } else {
                        self.element_agrees(ty, element, untyped)
                    }
                });
                if agrees && !form.strict {
                    Ok(())
                } else {
                    fail(part, Reason::Special)
                }
            }
            // Where ptxas expands the instruction, a constant of 64 bits is too wide for a register.
            OperandKind::Double(_)
                if element.ty.class() == TypeClass::Bits
                    && (self.elements.expanded_sums || self.elements.expanded) =>
            {
                fail(part, Reason::Type(Type::F64, element.ty))
            }
            // Among untyped registers a number is a pattern of bits.
            _ if untyped && form.constant && !form.strict && constant_type(part.kind).is_some() => {
                Ok(())
            }
            _ => self.value(part, element),
        }
    }

    fn element_agrees(&self, register: Type, element: &ValuePattern, untyped: bool) -> bool {
        let wanted = element.ty;
        let rule = match wanted.class() {
            TypeClass::Bits => self.elements.factors,
            TypeClass::Float => self.elements.sums,
            _ => ElementRule::Lenient,
        };
        let wide = register.bits() == wanted.bits();
        let very_type = register_agrees(register, wanted, element.form.relaxed, element.named);
        match rule {
            ElementRule::Lenient => lenient_element(register, element, untyped) || very_type,
            _ if untyped => wide,
            ElementRule::Strict => wanted.class() != TypeClass::Bits && very_type,
            ElementRule::Half => register == Type::F16x2,
            ElementRule::Integer => wide && register.is_integer(),
            ElementRule::Any => wide,
        }
    }
}

/// Whether a register passes as an element although its class is another.
fn lenient_element(register: Type, wanted: &ValuePattern, untyped: bool) -> bool {
    let floats = wanted.ty.class() == TypeClass::Float;
    match wanted.ty.class() {
        TypeClass::Pred | TypeClass::Opaque => false,
        _ if untyped => {
            register.bits() == wanted.ty.bits()
                || (wanted.form.relaxed && register.bits() > wanted.ty.bits())
        }
        _ => floats && register.is_integer() && register.bits() == wanted.ty.bits(),
    }
}
