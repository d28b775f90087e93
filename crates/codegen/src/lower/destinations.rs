//! Destinations: where the results of a PTX instruction go.

use super::body::{Body, Destination, Lowered, Statement, unsupported};
use super::operands::integer;
use crate::emit::imm;
use crate::ssa::Variable;
use orias_ori::Operand;
use orias_ori::operation::{AbstractOp, Scalar, SourceType};
use orias_ptx::ast::{self, OperandKind, RegisterId};
use orias_ptx::types::{Type as PtxType, TypeClass};

impl Body<'_, '_> {
    /// Where the result in the operand of that number goes; a place for `_` is made where the operation needs one.
    pub fn destination(&mut self, statement: &Statement<'_>, index: usize) -> Lowered<Destination> {
        match statement.operands.get(index) {
            Some(operand) => self.destination_of(statement, operand.kind),
            None => Ok(Destination::None),
        }
    }

    /// Where a result goes.
    pub fn destination_of(
        &mut self,
        statement: &Statement<'_>,
        kind: OperandKind,
    ) -> Lowered<Destination> {
        match kind {
            OperandKind::Register(register) => {
                Ok(Destination::Variable(self.variable(register, 0)))
            }
            OperandKind::Component(register, component) => {
                Ok(Destination::Variable(self.variable(register, component)))
            }
            OperandKind::Sink => Ok(Destination::None),
            OperandKind::Vector(parts) if parts.count == 1 => {
                match statement.body.parts(parts)[0].kind {
                    OperandKind::Register(register) => {
                        Ok(Destination::Variable(self.variable(register, 0)))
                    }
                    OperandKind::Component(register, component) => {
                        Ok(Destination::Variable(self.variable(register, component)))
                    }
                    OperandKind::Sink => Ok(Destination::None),
                    _ => unsupported(""),
                }
            }
            _ => unsupported(""),
        }
    }

    /// Both destinations of `a|b`; one alone has no second.
    pub fn destinations(
        &mut self,
        statement: &Statement<'_>,
        index: usize,
    ) -> Lowered<(Destination, Destination)> {
        let Some(operand) = statement.operands.get(index) else {
            return unsupported("");
        };
        match operand.kind {
            OperandKind::Pair(first) => {
                let first = first as usize;
                let (a, b) = (
                    statement.body.operands[first].kind,
                    statement.body.operands[first + 1].kind,
                );
                Ok((
                    self.destination_of(statement, a)?,
                    self.destination_of(statement, b)?,
                ))
            }
            kind => Ok((self.destination_of(statement, kind)?, Destination::None)),
        }
    }

    /// The destinations of a vector operand, or the one of a scalar, each with the bits of its register.
    pub fn element_destinations(
        &mut self,
        statement: &Statement<'_>,
        index: usize,
    ) -> Lowered<Vec<(Destination, u32)>> {
        match statement.operands.get(index) {
            Some(operand) => self.element_destinations_of(statement, operand),
            None => unsupported(""),
        }
    }

    /// The same of an operand that may be part of another.
    pub fn element_destinations_of(
        &mut self,
        statement: &Statement<'_>,
        operand: &ast::Operand,
    ) -> Lowered<Vec<(Destination, u32)>> {
        let width = |register: RegisterId| statement.body.registers[register.index()].ty.bits();
        match operand.kind {
            OperandKind::Vector(parts) => statement
                .body
                .parts(parts)
                .iter()
                .map(|part| {
                    let bits = match part.kind {
                        OperandKind::Register(register) | OperandKind::Component(register, _) => {
                            width(register)
                        }
                        _ => 0,
                    };
                    Ok((self.destination_of(statement, part.kind)?, bits))
                })
                .collect(),
            OperandKind::Register(register) => {
                let count = statement.body.registers[register.index()].vector.max(1);
                Ok((0..count)
                    .map(|component| {
                        let variable = self.variable(register, component);
                        (Destination::Variable(variable), width(register))
                    })
                    .collect())
            }
            OperandKind::Component(register, component) => {
                let variable = self.variable(register, component);
                Ok(vec![(Destination::Variable(variable), width(register))])
            }
            OperandKind::Sink => Ok(vec![(Destination::None, 0)]),
            _ => unsupported(""),
        }
    }

    /// Writes a result of type `ty` to a register of so many bits: a wider one is filled up by the type's sign.
    pub fn write_extended(
        &mut self,
        variable: Variable,
        width: u32,
        value: Operand,
        ty: PtxType,
    ) -> Lowered {
        let narrow = ty.bits();
        if width <= narrow || ty.class() == TypeClass::Pred {
            return self.write(variable, value);
        }
        let signed = ty.is_signed();
        let from = SourceType::from(integer(narrow, signed));
        if width > 64 {
            let value = match narrow {
                64 => value,
                _ => self.compute(AbstractOp::Cvt, (integer(64, signed), from), &[value])?,
            };
            let value = self.in_registers(value, 64)?;
            let wide = self.with(|emit| {
                let words = emit.words(value);
                let fill = match signed {
                    true => emit.shr(Scalar::S32, words[1].into(), imm(31)),
                    false => imm(0),
                };
                let fill = emit.as_value(Scalar::B32, fill);
                emit.collect(&[words[0], words[1], fill, fill])
            })?;
            return self.write(variable, wide.into());
        }
        // A register of 16 bits for a type of 8 is one of 32 whose high half nobody reads.
        let to = integer(width.max(32), signed);
        let value = self.compute(AbstractOp::Cvt, (to, from), &[value])?;
        self.write(variable, value)
    }
}
