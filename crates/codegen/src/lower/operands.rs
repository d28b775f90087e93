//! PTX operands as Ori has them: values, immediates, addresses.

use super::body::{Body, Lowered, Statement, register_type, unsupported};
use crate::emit::imm;
use crate::lower::movement::pack_elements;
use crate::module::near_name;
use orias_ori::operation::{AbstractOp, Modifier, Scalar};
use orias_ori::{Operand, SourceMods, SymbolPart, Type, Value};
use orias_ptx::ast::{self, OperandKind, RegisterId};
use orias_ptx::opcode::PatternKind;
use orias_ptx::types::Type as PtxType;

/// Ori's type of a PTX type, by name.
pub(super) fn scalar(ty: PtxType) -> Lowered<Scalar> {
    let names = Scalar::KIND.names();
    match names.iter().position(|&name| name == ty.name()) {
        Some(number) => Ok(Scalar::ALL[number]),
        None => unsupported(format!("type {ty}")),
    }
}

/// The untyped type of so many bits, at least 16.
pub(super) const fn bits(width: u32) -> Scalar {
    match width {
        0..=16 => Scalar::B16,
        17..=32 => Scalar::B32,
        33..=64 => Scalar::B64,
        _ => Scalar::B128,
    }
}

/// An integer type of 8 to 64 bits.
pub(super) const fn integer(width: u32, signed: bool) -> Scalar {
    match (width, signed) {
        (0..=8, false) => Scalar::U8,
        (0..=8, true) => Scalar::S8,
        (9..=16, false) => Scalar::U16,
        (9..=16, true) => Scalar::S16,
        (17..=32, false) => Scalar::U32,
        (17..=32, true) => Scalar::S32,
        (_, false) => Scalar::U64,
        (_, true) => Scalar::S64,
    }
}

/// What a constant is as a pattern of a type.
fn constant(kind: OperandKind, ty: PtxType) -> Option<u64> {
    let mask = match ty.bits() {
        1 => 1,
        width if width < 32 => (1 << width) - 1,
        32 => 0xffff_ffff,
        _ => u64::MAX,
    };
    Some(match kind {
        OperandKind::Signed(value) if ty == PtxType::Pred => u64::from(value != 0),
        OperandKind::Unsigned(value) if ty == PtxType::Pred => u64::from(value != 0),
        OperandKind::Signed(value) => value as u64 & mask,
        OperandKind::Unsigned(value) => value & mask,
        // Where a double is wanted, too.
        OperandKind::Single(pattern) => u64::from(pattern),
        OperandKind::Double(pattern) if ty.bits() <= 32 => {
            u64::from((f64::from_bits(pattern) as f32).to_bits())
        }
        OperandKind::Double(pattern) => pattern,
        _ => return None,
    })
}

impl Body<'_, '_> {
    // What is read.

    /// The operand of that number, as a value of the type its pattern says.
    pub fn source(&mut self, statement: &Statement<'_>, index: usize) -> Lowered<Operand> {
        let (Some(operand), Some(pattern)) =
            (statement.operands.get(index), statement.patterns.get(index))
        else {
            return unsupported("");
        };
        match pattern.kind {
            PatternKind::Value(value) | PatternKind::Vector(_, _, value) => {
                self.value_of(statement, operand.kind, value.ty)
            }
            _ => unsupported(""),
        }
    }

    /// The operand of that number as an immediate.
    pub fn immediate(&mut self, statement: &Statement<'_>, index: usize) -> Lowered<u64> {
        match self.source(statement, index)? {
            Operand::Imm(bits) => Ok(bits.bits()),
            _ => unsupported(""),
        }
    }

    /// The operand of that number as a value in registers.
    pub fn source_value(&mut self, statement: &Statement<'_>, index: usize) -> Lowered<Value> {
        let ty = match statement.patterns.get(index).map(|it| &it.kind) {
            Some(PatternKind::Value(value) | PatternKind::Vector(_, _, value)) => value.ty,
            _ => return unsupported(""),
        };
        let operand = self.source(statement, index)?;
        self.in_registers(operand, ty.bits())
    }

    /// An operand of so many bits in registers.
    pub fn in_registers(&mut self, operand: Operand, width: u32) -> Lowered<Value> {
        let scalar = if width == 1 {
            Scalar::Pred
        } else {
            bits(width.max(32))
        };
        self.with(|emit| emit.as_value(scalar, operand))
    }

    /// An operand as a value of type `ty`.
    pub fn value_of(
        &mut self,
        statement: &Statement<'_>,
        kind: OperandKind,
        ty: PtxType,
    ) -> Lowered<Operand> {
        // Constants and addresses have 64 bits; above them are zeros, below a sign too.
        let narrow = matches!(
            kind,
            OperandKind::Signed(_)
                | OperandKind::Unsigned(_)
                | OperandKind::Variable(_)
                | OperandKind::Offset(..)
                | OperandKind::Element(..)
        );
        if ty.bits() == 128 && narrow {
            let low = self.value_of(statement, kind, PtxType::B64)?;
            let pair = self.with(|emit| pack_elements(emit, &[low, imm(0)], 64))?;
            return Ok(pair.into());
        }
        match kind {
            OperandKind::Register(register) => self.register(register, 0, ty),
            OperandKind::Component(register, component) => self.register(register, component, ty),
            OperandKind::Not(register) => {
                let value = self.read(self.variable(register, 0));
                Ok(Operand::from(value)
                    .with_mods(SourceMods::NOT)
                    .unwrap_or(value.into()))
            }
            OperandKind::Negated(register) => {
                let value = self.register(register, 0, ty)?;
                self.compute(AbstractOp::Neg, (integer(ty.bits(), true),), &[value])
            }
            OperandKind::Sum(inner, constant) => {
                let inner = statement.body.operands[inner as usize].kind;
                let own = match inner {
                    OperandKind::Register(register) => {
                        statement.body.registers[register.index()].ty
                    }
                    OperandKind::Special(special, _) => special.register().ty,
                    _ => return unsupported(""),
                };
                let value = self.value_of(statement, inner, own)?;
                let (scalar, mask) = match own.bits() {
                    64 => (Scalar::U64, u64::MAX),
                    _ => (Scalar::U32, 0xffff_ffff),
                };
                let constant = imm(constant as u64 & mask);
                let mut sum = self.compute(AbstractOp::Add, (scalar,), &[value, constant])?;
                if own.bits() < 32 && ty.bits() > own.bits() {
                    let mask = imm((1 << own.bits()) - 1);
                    sum = self.compute(AbstractOp::And, (Scalar::B32,), &[sum, mask])?;
                }
                self.fit(sum, ty)
            }
            OperandKind::Special(special, component) => {
                let value = self.special(special, component)?;
                self.fit(value.into(), ty)
            }
            OperandKind::Variable(id) => self.address_of(id, 0, ty),
            OperandKind::Offset(id, offset) | OperandKind::Element(id, offset) => {
                self.address_of(id, offset, ty)
            }
            OperandKind::Function(id) => {
                if self.graph.is_relocatable() {
                    let name = self.module.name(self.module.function(id).name);
                    return self.linked_address(name, 0, ty);
                }
                let function = self.module.function(self.graph.definition(id));
                let name = self.module.name(function.name);
                if function.body.is_none() {
                    return unsupported(format!("the address of function {name}"));
                }
                if function.entry {
                    // A kernel is known to the driver, by its descriptor.
                    let operand = Operand::Symbol {
                        symbol: self.func.symbol(name),
                        part: SymbolPart::Whole,
                        addend: 0,
                    };
                    let address =
                        self.compute(AbstractOp::AddressOf, (Scalar::B64,), &[operand])?;
                    return self.fit(address, ty);
                }
                let operand = Operand::Symbol {
                    symbol: self.func.symbol(&near_name(name)),
                    part: SymbolPart::Whole,
                    addend: 0,
                };
                let wide = ty.bits() == 64;
                let scalar = if wide { Scalar::B64 } else { Scalar::B32 };
                self.compute(AbstractOp::AddressOf, (scalar,), &[operand])
            }
            OperandKind::Label(_) | OperandKind::List(_) => unsupported("the address of a label"),
            OperandKind::Suffixed(inner, _) => {
                let inner = statement.body.operands[inner as usize].kind;
                match inner {
                    OperandKind::Suffixed(..) => unsupported(""),
                    _ => self.value_of(statement, inner, ty),
                }
            }
            OperandKind::Vector(parts) if parts.count == 1 => {
                let inner = statement.body.parts(parts)[0].kind;
                match inner {
                    OperandKind::Vector(_) => unsupported(""),
                    _ => self.value_of(statement, inner, ty),
                }
            }
            _ => match constant(kind, ty) {
                Some(pattern) => Ok(imm(pattern)),
                None => unsupported(""),
            },
        }
    }

    fn register(&mut self, register: RegisterId, component: u8, ty: PtxType) -> Lowered<Operand> {
        let value = self.read(self.variable(register, component));
        self.fit(value.into(), ty)
    }

    /// The low registers of a value, as many as type `ty` has; a short one is extended with zeroes.
    pub(super) fn fit(&mut self, operand: Operand, ty: PtxType) -> Lowered<Operand> {
        let Some(value) = operand.as_value() else {
            return Ok(operand);
        };
        let (have, want) = (self.func.value_type(value), register_type(ty));
        if have == want || have == Type::P || want == Type::P {
            return Ok(operand);
        }
        self.with(|emit| {
            let words = emit.words(value);
            match (have.len(), want.len()) {
                (1, 2) => emit.cvt(Scalar::U64, Scalar::U32, operand),
                (_, 1) => words[0].into(),
                (_, 2) => emit.collect(&words[..2]).into(),
                _ => operand,
            }
        })
    }

    /// The elements of a vector operand, or the one of a scalar.
    pub fn elements(
        &mut self,
        statement: &Statement<'_>,
        operand: &ast::Operand,
        ty: PtxType,
    ) -> Lowered<Vec<Operand>> {
        match operand.kind {
            OperandKind::Vector(parts) => statement
                .body
                .parts(parts)
                .iter()
                .map(|part| self.value_of(statement, part.kind, ty))
                .collect(),
            OperandKind::Register(register) => {
                let count = statement.body.registers[register.index()].vector.max(1);
                (0..count)
                    .map(|component| self.register(register, component, ty))
                    .collect()
            }
            kind => Ok(vec![self.value_of(statement, kind, ty)?]),
        }
    }

    // Addresses.
}
