//! PTX operands as Ori has them: values, immediates, addresses.

use super::body::{Body, Destination, Lowered, Statement, Storage, register_type, unsupported};
use crate::emit::imm;
use crate::lower::movement::pack_elements;
use crate::module::SymbolSpace;
use crate::module::near_name;
use crate::ssa::Variable;
use cranelift_entity::packed_option::PackedOption;
use orias_ori::operation::{AbstractOp, Modifier, Scalar, SourceType, Space};
use orias_ori::{Address, Operand, OptReg, SourceMods, SymbolPart, Type, Value};
use orias_ptx::ast::{self, OperandKind, RegisterId, VariableId};
use orias_ptx::opcode::PatternKind;
use orias_ptx::types::{Type as PtxType, TypeClass};

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
                let sum = self.compute(AbstractOp::Add, (scalar,), &[value, constant])?;
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
    fn fit(&mut self, operand: Operand, ty: PtxType) -> Lowered<Operand> {
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

    /// The address of a variable in its own space, as a number of type `ty`.
    fn address_of(&mut self, id: VariableId, offset: i64, ty: PtxType) -> Lowered<Operand> {
        let wide = ty.bits() == 64;
        let scalar = if wide { Scalar::B64 } else { Scalar::B32 };
        if let Some(handle) = self.handle_of(id) {
            let handle = handle?.into();
            if wide && offset == 0 {
                return Ok(handle);
            }
            let sum = [handle, imm(offset as u64)];
            let sum = self.compute(AbstractOp::Add, (Scalar::U64,), &sum)?;
            return self.fit(sum, ty);
        }
        if let Some(start) = self.symbols.constant(id) {
            let address = start.wrapping_add_signed(offset);
            return Ok(imm(if wide { address } else { address & 0xffff_ffff }));
        }
        if self.symbols.relocatable
            && self.module.variable(id).space == ast::Space::Const
            && let Some(symbol) = self.symbol(id)
            && let Ok(addend) = i32::try_from(offset)
        {
            return self.linked_address(&symbol, addend, ty);
        }
        if let Some(symbol) = self.symbol(id) {
            let (addend, rest) = match i32::try_from(offset) {
                Ok(offset) => (offset, 0),
                Err(_) => (0, offset),
            };
            let name = self.func.symbol(&symbol);
            let operand = Operand::Symbol {
                symbol: name,
                part: SymbolPart::Whole,
                addend,
            };
            // Addresses in shared memory have 32 bits, whatever holds them.
            let shared = self.module.variable(id).space == ast::Space::Shared;
            let own = if shared { Scalar::B32 } else { scalar };
            let mut address = self.compute(AbstractOp::AddressOf, (own,), &[operand])?;
            if own != scalar {
                let mods = (Scalar::U64, SourceType::U32);
                address = self.compute(AbstractOp::Cvt, mods, &[address])?;
            }
            if rest == 0 {
                return Ok(address);
            }
            let ty = if wide { Scalar::U64 } else { Scalar::U32 };
            return self.compute(AbstractOp::Add, (ty,), &[address, imm(rest as u64)]);
        }
        match self.place(id)? {
            Storage::Kernel(start) => Ok(imm((i64::from(start) + offset) as u64)),
            Storage::Frame(start) => {
                let base = self.frame_base();
                self.with(|emit| {
                    let offset = imm((i64::from(start) + offset) as u64 & 0xffff_ffff);
                    let address = emit.add(base.into(), offset);
                    if wide {
                        emit.cvt(Scalar::U64, Scalar::U32, address)
                    } else {
                        address
                    }
                })
            }
            Storage::Words(..) => unsupported("the address of a parameter kept in registers"),
        }
    }

    /// What the linker makes the address of a function or a constant, as a number of type `ty`.
    fn linked_address(&mut self, name: &str, addend: i32, ty: PtxType) -> Lowered<Operand> {
        let operand = Operand::Symbol {
            symbol: self.func.symbol(name),
            part: SymbolPart::Whole,
            addend,
        };
        let address = self.compute(AbstractOp::AddressOf, (Scalar::B64,), &[operand])?;
        match ty.bits() {
            64 => Ok(address),
            _ => self.compute(AbstractOp::Cvt, (Scalar::U32, SourceType::U64), &[address]),
        }
    }

    /// The name of a variable that is a symbol. One in shared memory is the kernel's from now on.
    fn symbol(&mut self, id: VariableId) -> Option<String> {
        let index = self.symbols.index(id)?;
        let symbol = &self.symbols.list[index];
        if symbol.space == SymbolSpace::Shared {
            self.shared.insert(index);
        }
        Some(symbol.name.clone())
    }

    /// Where a parameter or local variable is kept.
    pub fn place(&mut self, id: VariableId) -> Lowered<Storage> {
        match self.storage.get(&id) {
            Some(&storage) => Ok(storage),
            None => {
                let variable = self.module.variable(id);
                match variable.space {
                    ast::Space::Param => self.place_parameter(id, variable.bytes()),
                    _ => Ok(Storage::Frame(self.place_in_frame(id, variable.bytes())?)),
                }
            }
        }
    }

    /// The address where the frame begins. The entry block defines it in the end.
    pub fn frame_base(&mut self) -> Value {
        let func = &mut self.func;
        *self
            .frame_base
            .get_or_insert_with(|| func.create_value(Type::R))
    }

    /// The memory operand of that number, and the space it is in: the one the opcode names, or the variable's.
    pub fn address(
        &mut self,
        statement: &Statement<'_>,
        index: usize,
        space: Space,
    ) -> Lowered<(Address, Space)> {
        let Some(operand) = statement.operands.get(index) else {
            return unsupported("");
        };
        let mut kind = operand.kind;
        if let OperandKind::Suffixed(inner, _) = kind {
            kind = statement.body.operands[inner as usize].kind;
        }
        if let OperandKind::Bracket(parts) = kind
            && let [only] = statement.body.parts(parts)
        {
            kind = only.kind;
        }
        self.address_at(kind, space)
    }

    /// The same for a load, store or update: shared memory of the cluster is reached by generic addresses.
    pub fn reachable_address(
        &mut self,
        statement: &Statement<'_>,
        index: usize,
        space: Space,
    ) -> Lowered<(Address, Space)> {
        let (address, space) = self.address(statement, index, space)?;
        if space != Space::SharedCluster {
            return Ok((address, space));
        }
        let word = match (address.base.get(), address.symbol.expand()) {
            (Some(base), None) => match base.value() {
                Some(base) if self.func.value_type(base) == Type::R => base,
                Some(base) => self.with(|emit| emit.words(base))?[0],
                None => return unsupported(""),
            },
            (None, Some(symbol)) => {
                let name = Operand::Symbol {
                    symbol,
                    part: SymbolPart::Whole,
                    addend: 0,
                };
                let word = self.compute(AbstractOp::AddressOf, (Scalar::B32,), &[name])?;
                self.in_registers(word, 32)?
            }
            (None, None) => self.in_registers(imm(0), 32)?,
            _ => return unsupported(""),
        };
        let zero = self.in_registers(imm(0), 32)?;
        let wide = self.with(|emit| emit.collect(&[word, zero]))?;
        let mods = (Space::SharedCluster, Scalar::U64);
        let generic = self.compute(AbstractOp::Cvta, mods, &[wide.into()])?;
        let base = self.in_registers(generic, 64)?;
        Ok((Address::base(base, address.offset), Space::Generic))
    }

    /// The memory operand of that number in global memory, as the number of its first byte.
    pub fn address_value(&mut self, statement: &Statement<'_>, index: usize) -> Lowered<Operand> {
        let (address, _) = self.address(statement, index, Space::Global)?;
        let base = match (address.base.get(), address.symbol.expand()) {
            (Some(base), None) => Operand::from(base),
            (None, Some(symbol)) => {
                let part = SymbolPart::Whole;
                let name = Operand::Symbol {
                    symbol,
                    part,
                    addend: 0,
                };
                self.compute(AbstractOp::AddressOf, (Scalar::B64,), &[name])?
            }
            (None, None) => imm(0),
            _ => return unsupported(""),
        };
        let offset = imm(i64::from(address.offset) as u64);
        self.with(|emit| emit.binary(AbstractOp::Add, Scalar::U64, base, offset))
    }

    /// A memory operand.
    pub fn address_at(&mut self, kind: OperandKind, space: Space) -> Lowered<(Address, Space)> {
        match kind {
            OperandKind::AtRegister(register, offset) => {
                let value = self.read(self.variable(register, 0));
                // Parameters of functions whose address is taken are in local memory.
                let space = match space {
                    Space::Param if self.frames.len() > 1 => Space::Local,
                    other => other,
                };
                Ok((self.based(value, offset, space)?, space))
            }
            OperandKind::AtConstant(offset) => {
                let address = match i32::try_from(offset) {
                    Ok(offset) => Address {
                        offset,
                        ..Address::default()
                    },
                    Err(_) => {
                        let value = self.in_registers(imm(offset as u64), 64)?;
                        self.based(value, 0, space)?
                    }
                };
                Ok((address, space))
            }
            OperandKind::AtVariable(id, offset)
            | OperandKind::Offset(id, offset)
            | OperandKind::Element(id, offset) => self.at_variable(id, offset, space),
            OperandKind::Variable(id) => self.at_variable(id, 0, space),
            _ => unsupported(""),
        }
    }

    fn at_variable(
        &mut self,
        id: VariableId,
        offset: i64,
        space: Space,
    ) -> Lowered<(Address, Space)> {
        let own = match self.module.variable(id).space {
            ast::Space::Global => Space::Global,
            ast::Space::Const => Space::Const,
            ast::Space::Shared if space == Space::SharedCluster => space,
            ast::Space::Shared => Space::Shared,
            ast::Space::Local => Space::Local,
            ast::Space::Param => Space::Param,
            ast::Space::Reg | ast::Space::Tex => return unsupported(""),
        };
        let Ok(short) = i32::try_from(offset) else {
            return unsupported(format!("an offset of {offset} from a variable"));
        };
        let constant = self.symbols.constant(id).map(i32::try_from);
        if let Some(Ok(start)) = constant {
            let address = Address {
                offset: short.wrapping_add(start),
                ..Address::default()
            };
            return Ok((address, own));
        }
        if let Some(symbol) = self.symbol(id) {
            let address = Address {
                symbol: PackedOption::from(self.func.symbol(&symbol)),
                offset: short,
                ..Address::default()
            };
            return Ok((address, own));
        }
        let (start, space) = match self.place(id)? {
            Storage::Kernel(start) => (start, Space::Param),
            Storage::Frame(start) => (start, Space::Local),
            Storage::Words(..) => return unsupported("a parameter in registers as memory"),
        };
        let address = Address {
            offset: short.wrapping_add_unsigned(start),
            ..Address::default()
        };
        Ok((address, space))
    }

    /// An address with a base register: 64 bits wide in global and generic memory, 32 elsewhere.
    fn based(&mut self, base: Value, offset: i64, space: Space) -> Lowered<Address> {
        let wide = matches!(space, Space::Global | Space::Generic);
        let want = if wide { PtxType::U64 } else { PtxType::U32 };
        let mut base = self.fit(base.into(), want)?;
        let mut short = 0;
        match i32::try_from(offset) {
            Ok(offset) => short = offset,
            Err(_) if wide => {
                base =
                    self.compute(AbstractOp::Add, (Scalar::U64,), &[base, imm(offset as u64)])?;
            }
            Err(_) => short = offset as i32,
        }
        Ok(Address {
            base: base.reg().map_or(OptReg::NONE, OptReg::from),
            offset: short,
            ..Address::default()
        })
    }

    // What is written.

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
