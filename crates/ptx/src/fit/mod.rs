//! Comparing operands with what a form wants.
//!
//! The rules for registers are ptxas's: an untyped register or instruction type agrees with any type of the same size,
//! signedness does not matter, integers and floating point do not mix, and formats without registers of their own live
//! in untyped ones. Where a row says `relaxed`, a register may be wider than the type, unless both are floating point.

mod agree;
mod elements;

pub use agree::{addresses, in_space, register_agrees};

use crate::ast::{Body, Operand, OperandKind, Space, Variable, VariableId};
use crate::diagnostic::Span;
use crate::grammar::{Access, Modifier};
use crate::opcode::{AddressRule, Elements, OperandPatterns, Pattern, PatternKind, ValuePattern};
use crate::types::{Type, TypeClass};
use agree::{constant_agrees, special_agrees};

/// Why operands do not fit.
#[derive(Clone, Debug)]
pub struct Misfit {
    /// The operand, or its part.
    pub span: Span,
    /// What kind of trouble.
    pub reason: Reason,
    /// How many operands fitted before it: the best of several shapes is the one that got furthest.
    pub progress: usize,
}

/// What kind of trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// So many operands are wanted.
    Count(usize),
    /// An operand of another kind is wanted.
    Kind(String),
    /// A register of another type is wanted.
    Type(Type, Type),
    /// A vector of another length is wanted.
    Length(u16, u16),
    /// A special register where none may stand.
    Special,
    /// `_` where it may not stand.
    Sink,
    /// The variable is in another space.
    Space(String),
    /// A constant address where none may stand.
    ConstantAddress,
    /// A register of a type that holds no address.
    AddressType(Type),
    /// A constant outside its range.
    Range(i64, i64),
    /// A constant that is not a multiple of this.
    Step(i64),
    /// A constant that is none of these.
    OneOf(&'static [i64]),
    /// Elements of a vector that do not go together.
    Elements,
    /// A predicate as element of a vector. ptxas takes it for a 32-bit register.
    PredicateElement,
    /// A vector where one value is wanted. ptxas takes it in a few places.
    Vector,
    /// A function's name where no address may stand. ptxas takes it for any constant.
    FunctionValue,
    /// A special register that would be written.
    SpecialResult,
    /// A constant added to something else than an integer of at most 64 bits. ptxas crashes or takes words that nothing set.
    Sum(Type),
    /// A modifier behind the operand that may not stand there.
    Suffix(Modifier),
    /// A modifier behind the operand is missing.
    SuffixMissing,
}

/// What operands refer to.
pub struct Context<'m> {
    /// The function's body, with its registers and operand pool.
    pub body: &'m Body,
    /// The module's variables.
    pub variables: &'m [Variable],
    /// Which registers may be elements of vectors.
    pub elements: Elements,
    /// What may be an address.
    pub address: &'m AddressRule,
}

impl Context<'_> {
    /// Compares operands with a shape.
    pub fn fits(
        &self,
        operands: &[Operand],
        shape: &OperandPatterns,
        at: Span,
    ) -> Result<(), Misfit> {
        if operands.len() != shape.operands.len() {
            return Err(Misfit {
                span: at,
                reason: Reason::Count(shape.operands.len()),
                progress: 0,
            });
        }
        for (index, (operand, pattern)) in operands.iter().zip(&shape.operands).enumerate() {
            self.operand(operand, pattern).map_err(|mut misfit| {
                misfit.progress = index + 1;
                misfit
            })?;
        }
        Ok(())
    }

    fn operand(&self, operand: &Operand, pattern: &Pattern) -> Result<(), Misfit> {
        let (operand, suffix) = match operand.kind {
            OperandKind::Suffixed(inner, suffix) => {
                (&self.body.operands[inner as usize], Some(suffix))
            }
            _ => (operand, None),
        };
        let fail = |reason| {
            Err(Misfit {
                span: operand.span,
                reason,
                progress: 0,
            })
        };
        // Where selectors may follow, `.x` is one, and not the component of a vector.
        if !pattern.suffixes.is_empty() && matches!(operand.kind, OperandKind::Component(..)) {
            return fail(Reason::Kind("an operand without components".to_owned()));
        }
        match suffix {
            Some(suffix)
                if !pattern
                    .suffixes
                    .iter()
                    .any(|it| it.modifiers.contains(&suffix)) =>
            {
                return fail(Reason::Suffix(suffix));
            }
            None if pattern.suffixes.iter().any(|it| !it.optional) => {
                return fail(Reason::SuffixMissing);
            }
            _ => {}
        }
        if operand.kind == OperandKind::Error {
            return Ok(());
        }
        if matches!(operand.kind, OperandKind::Sum(..) | OperandKind::Offset(..))
            && pattern.access != Access::Read
        {
            return fail(Reason::Kind("a register".to_owned()));
        }
        match &pattern.kind {
            PatternKind::Value(value) => self.value(operand, value),
            PatternKind::Vector(low, high, element) => self.vector(operand, *low, *high, element),
            PatternKind::Bracket(inner) => self.bracket(operand, inner),
            PatternKind::Pair(both, optional) => match operand.kind {
                OperandKind::Pair(first) => {
                    let first = first as usize;
                    self.operand(&self.body.operands[first], &both[0])?;
                    self.operand(&self.body.operands[first + 1], &both[1])
                }
                _ if *optional => self.operand(operand, &both[0]),
                _ => fail(Reason::Kind(
                    "two operands with '|' between them".to_owned(),
                )),
            },
            PatternKind::Address(space) => self.address(operand, *space),
            PatternKind::Label => match operand.kind {
                OperandKind::Label(_) => Ok(()),
                _ => fail(Reason::Kind("a label".to_owned())),
            },
            PatternKind::Function => match operand.kind {
                OperandKind::Function(_) => Ok(()),
                OperandKind::Register(register)
                    if addresses(self.body.registers[register.index()].ty) =>
                {
                    Ok(())
                }
                _ => fail(Reason::Kind("a function or a register".to_owned())),
            },
            PatternKind::TargetList => match operand.kind {
                OperandKind::List(_) => Ok(()),
                _ => fail(Reason::Kind(
                    "the label of a target list or prototype".to_owned(),
                )),
            },
            PatternKind::Texture => self.handle(operand, Type::Texref),
            PatternKind::Sampler => self.handle(operand, Type::Samplerref),
            PatternKind::Surface => self.handle(operand, Type::Surfref),
            PatternKind::CallReturn | PatternKind::CallArguments => match operand.kind {
                OperandKind::Arguments(_) => Ok(()),
                _ => fail(Reason::Kind("a list in parentheses".to_owned())),
            },
        }
    }

    fn value(&self, operand: &Operand, wanted: &ValuePattern) -> Result<(), Misfit> {
        let form = &wanted.form;
        let fail = |reason| {
            Err(Misfit {
                span: operand.span,
                reason,
                progress: 0,
            })
        };
        let kind = || Reason::Kind(expectation(wanted));
        let register_type = |ty: Type| {
            if !form.register {
                fail(kind())
            } else if register_agrees(ty, wanted.ty, form.relaxed, wanted.named)
                || (form.lenient && ty.is_integer() && ty.bits() == wanted.ty.bits())
            {
                Ok(())
            } else {
                fail(Reason::Type(ty, wanted.ty))
            }
        };
        match operand.kind {
            OperandKind::Register(register) => {
                let register = &self.body.registers[register.index()];
                if register.vector > 1 {
                    return fail(Reason::Vector);
                }
                register_type(register.ty)
            }
            OperandKind::Vector(_) => fail(Reason::Vector),
            OperandKind::Component(register, _) => {
                register_type(self.body.registers[register.index()].ty)
            }
            // ptxas takes a predicate negated wherever it takes a constant for it.
            OperandKind::Not(register)
                if form.not || (form.constant && wanted.ty == Type::Pred) =>
            {
                register_type(self.body.registers[register.index()].ty)
            }
            OperandKind::Not(_) => fail(Reason::Type(Type::Pred, wanted.ty)),
            OperandKind::Negated(register) if form.negate => {
                register_type(self.body.registers[register.index()].ty)
            }
            OperandKind::Sum(inner, _) => {
                let inner = &self.body.operands[inner as usize];
                let ty = match inner.kind {
                    OperandKind::Register(register) => self.body.registers[register.index()].ty,
                    OperandKind::Special(special, _) => special.register().ty,
                    _ => return fail(kind()),
                };
                let integer = matches!(
                    ty.class(),
                    TypeClass::Unsigned | TypeClass::Signed | TypeClass::Bits
                );
                if !integer || ty.bits() > 64 || ty == Type::F16x2 {
                    return fail(Reason::Sum(ty));
                }
                // ptxas takes a sum of any width where the opcode names the type: a wider one is cut off, above a narrower
                // one is what the register file holds there, zeros for us. Elsewhere the register must have the type.
                let of_register = matches!(inner.kind, OperandKind::Register(_));
                let any_width = match wanted.ty.class() {
                    TypeClass::Unsigned | TypeClass::Signed | TypeClass::Bits => {
                        wanted.ty.bits() <= 64
                    }
                    _ => false,
                };
                if of_register && any_width && form.register && (form.name || wanted.named) {
                    return Ok(());
                }
                self.value(inner, wanted)
            }
            OperandKind::Sink if form.sink => Ok(()),
            OperandKind::Sink => fail(Reason::Sink),
            OperandKind::Special(special, component) => {
                if !form.special {
                    return fail(Reason::Special);
                }
                let row = special.register();
                if row.vector && component == u8::MAX && wanted.ty != Type::B128 {
                    return fail(Reason::Length(1, 1));
                }
                let whole = row.vector && component == u8::MAX;
                if whole || special_agrees(row, wanted) {
                    Ok(())
                } else {
                    fail(Reason::Type(row.ty, wanted.ty))
                }
            }
            OperandKind::Signed(value) => self.constant(operand, wanted, value),
            OperandKind::Unsigned(value) => {
                self.constant(operand, wanted, i64::try_from(value).unwrap_or(i64::MAX))
            }
            OperandKind::Single(_) | OperandKind::Double(_) => {
                if !form.constant {
                    fail(kind())
                } else if constant_agrees(&operand.kind, wanted.ty) {
                    Ok(())
                } else {
                    fail(kind())
                }
            }
            OperandKind::Variable(variable)
            | OperandKind::Offset(variable, _)
            | OperandKind::Element(variable, _) => {
                let sum = matches!(operand.kind, OperandKind::Offset(..));
                let integer = matches!(
                    wanted.ty.class(),
                    TypeClass::Unsigned | TypeClass::Signed | TypeClass::Bits
                );
                let taken = form.name || (sum && form.register);
                if taken && integer && self.variable(variable).space != Space::Reg {
                    Ok(())
                } else {
                    fail(kind())
                }
            }
            OperandKind::Function(_) => {
                let address = matches!(
                    wanted.ty.class(),
                    TypeClass::Unsigned | TypeClass::Signed | TypeClass::Bits
                );
                let fits = wanted.ty.bits() >= 32 && wanted.ty != Type::B128;
                if form.name && form.special && address && fits {
                    Ok(())
                } else {
                    fail(Reason::FunctionValue)
                }
            }
            _ => fail(kind()),
        }
    }

    fn constant(&self, operand: &Operand, wanted: &ValuePattern, value: i64) -> Result<(), Misfit> {
        let fail = |reason| {
            Err(Misfit {
                span: operand.span,
                reason,
                progress: 0,
            })
        };
        let agrees = constant_agrees(&operand.kind, wanted.ty) || wanted.form.lenient;
        if !wanted.form.constant || !agrees {
            return fail(Reason::Kind(expectation(wanted)));
        }
        let form = &wanted.form;
        if !form.one_of.is_empty() && !form.one_of.contains(&value) {
            return fail(Reason::OneOf(form.one_of));
        }
        match form.range {
            Some((low, high)) if value < low || value > high => fail(Reason::Range(low, high)),
            Some((low, _))
                if value.rem_euclid(form.step.max(1)) != low.rem_euclid(form.step.max(1)) =>
            {
                fail(Reason::Step(form.step))
            }
            _ => Ok(()),
        }
    }

    fn bracket(&self, operand: &Operand, inner: &[Pattern]) -> Result<(), Misfit> {
        match operand.kind {
            OperandKind::Bracket(parts) => {
                let parts = self.body.parts(parts);
                if parts.len() != inner.len() {
                    return Err(Misfit {
                        span: operand.span,
                        reason: Reason::Count(inner.len()),
                        progress: 0,
                    });
                }
                parts
                    .iter()
                    .zip(inner)
                    .try_for_each(|(part, pattern)| self.in_brackets(part, pattern))
            }
            OperandKind::AtRegister(..)
            | OperandKind::AtVariable(..)
            | OperandKind::AtConstant(_)
            | OperandKind::Element(..)
                if inner.len() == 1 =>
            {
                self.in_brackets(operand, &inner[0])
            }
            _ => Err(Misfit {
                span: operand.span,
                reason: Reason::Kind("an address in brackets".to_owned()),
                progress: 0,
            }),
        }
    }

    /// What stands first in brackets is read as an address; a row may want a plain value there.
    fn in_brackets(&self, operand: &Operand, pattern: &Pattern) -> Result<(), Misfit> {
        match (operand.kind, &pattern.kind) {
            (OperandKind::AtRegister(register, 0), PatternKind::Value(value)) => {
                let plain = Operand {
                    kind: OperandKind::Register(register),
                    span: operand.span,
                };
                self.value(&plain, value)
            }
            _ => self.operand(operand, pattern),
        }
    }

    fn address(&self, operand: &Operand, space: Option<&'static str>) -> Result<(), Misfit> {
        let fail = |reason| {
            Err(Misfit {
                span: operand.span,
                reason,
                progress: 0,
            })
        };
        match operand.kind {
            OperandKind::AtRegister(register, _) | OperandKind::Register(register) => {
                let register = &self.body.registers[register.index()];
                // Tensor memory has addresses of its own, of 32 bits.
                let wide = space == Some("tensor") && register.ty.bits() != 32;
                let bits = match space {
                    None => self.address.generic_bits,
                    Some(_) => self.address.bits,
                };
                let holds = addresses(register.ty) && register.ty.bits() >= bits;
                if register.vector == 1 && holds && !wide {
                    Ok(())
                } else if wide {
                    fail(Reason::Kind(
                        "a 32-bit register that holds an address in tensor memory".to_owned(),
                    ))
                } else if register.vector == 1 && !addresses(register.ty) {
                    fail(Reason::AddressType(register.ty))
                } else {
                    fail(Reason::Kind("a register that holds an address".to_owned()))
                }
            }
            OperandKind::AtVariable(variable, _)
            | OperandKind::Variable(variable)
            | OperandKind::Offset(variable, _)
            | OperandKind::Element(variable, _) => {
                let place = self.variable(variable);
                if place.ty.class() == TypeClass::Opaque && place.dimensions.is_empty() {
                    return fail(Reason::Kind("a variable in memory".to_owned()));
                }
                if in_space(place.space, space, self.address.generic) {
                    Ok(())
                } else {
                    fail(Reason::Space(match space {
                        Some(space) => format!("a variable in .{space}"),
                        None => "a variable in .global, .shared or .local".to_owned(),
                    }))
                }
            }
            OperandKind::AtConstant(_) | OperandKind::Signed(_) | OperandKind::Unsigned(_) => {
                if space == Some("local") || (space.is_none() && self.address.constant) {
                    Ok(())
                } else {
                    fail(Reason::ConstantAddress)
                }
            }
            _ => fail(Reason::Kind("an address".to_owned())),
        }
    }

    fn handle(&self, operand: &Operand, ty: Type) -> Result<(), Misfit> {
        let fits = match operand.kind {
            OperandKind::Register(register) | OperandKind::AtRegister(register, 0) => {
                let register = &self.body.registers[register.index()];
                register.vector == 1 && register.ty.bits() == 64 && addresses(register.ty)
            }
            OperandKind::Variable(variable) | OperandKind::AtVariable(variable, 0) => {
                let variable = self.variable(variable);
                variable.ty == ty && variable.dimensions.is_empty() || variable.space == Space::Tex
            }
            _ => false,
        };
        if fits {
            Ok(())
        } else {
            Err(Misfit {
                span: operand.span,
                reason: Reason::Kind(format!("a {ty} or a 64-bit register with its handle")),
                progress: 0,
            })
        }
    }

    fn variable(&self, id: VariableId) -> &Variable {
        &self.variables[id.index()]
    }
}

/// What may stand at a value's place, in words.
pub fn expectation(wanted: &ValuePattern) -> String {
    let form = &wanted.form;
    let mut kinds: Vec<String> = Vec::new();
    if form.register {
        kinds.push(format!("a {} register", wanted.ty));
    }
    if form.constant {
        kinds.push(match wanted.ty.class() {
            TypeClass::Float => "a floating point constant".to_owned(),
            _ => "an integer constant".to_owned(),
        });
    }
    if form.name {
        kinds.push("the address of a variable".to_owned());
    }
    if form.sink {
        kinds.push("'_'".to_owned());
    }
    kinds.join(" or ")
}
