//! Addresses of PTX as Ori has them: of variables, of symbols, and in memory operands.

use super::body::{Body, Lowered, Statement, Storage, unsupported};
use crate::emit::imm;
use crate::module::SymbolSpace;
use cranelift_entity::packed_option::PackedOption;
use orias_ori::operation::{AbstractOp, Scalar, SourceType, Space};
use orias_ori::{Address, Operand, OptReg, SymbolPart, Type, Value};
use orias_ptx::ast::{self, OperandKind, VariableId};
use orias_ptx::types::Type as PtxType;

impl Body<'_, '_> {
    /// The address of a variable in its own space, as a number of type `ty`.
    pub(super) fn address_of(
        &mut self,
        id: VariableId,
        offset: i64,
        ty: PtxType,
    ) -> Lowered<Operand> {
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
    pub(super) fn linked_address(
        &mut self,
        name: &str,
        addend: i32,
        ty: PtxType,
    ) -> Lowered<Operand> {
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
        if own == Space::Global && i32::try_from(offset).is_err() {
            let base = self.address_of(id, 0, PtxType::U64)?;
            let base = self.in_registers(base, 64)?;
            return Ok((self.based(base, offset, own)?, own));
        }
        // Addresses in the other spaces have 32 bits.
        let short = offset as i32;
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
}
