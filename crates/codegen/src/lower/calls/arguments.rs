//! Arguments and results of calls as words: how they are read where they are, and put where they are wanted.

use super::super::body::{Body, Frame, Lowered, Statement, Storage, unsupported};
use super::super::movement::pack_word;
use crate::emit::imm;
use crate::ssa::Variable;
use orias_ori::operation::{AbstractOp, Scalar, Space, Vector};
use orias_ori::{Address, Operand, Type, Value};
use orias_ptx::ast::{self, FunctionId, OperandKind, RegisterId, VariableId};
use orias_ptx::types::Type as PtxType;

/// An argument on its way into the callee.
pub(in crate::lower) enum Argument {
    /// The words of a parameter, or of a register, as many bytes.
    Words(Vec<Value>),
    /// So many bytes in the frame, from there on.
    Frame(u32, u64),
}

impl<'m> Body<'m, '_> {
    /// Reads the arguments of a call in the caller.
    pub(super) fn arguments(
        &mut self,
        statement: &Statement<'_>,
        formals: &[VariableId],
        arguments: &[ast::Operand],
    ) -> Lowered<Vec<Argument>> {
        formals
            .iter()
            .zip(arguments)
            .map(|(&formal, argument)| {
                let ty = constant_type(self.module.variable(formal), argument.kind);
                self.argument(statement, argument, ty)
            })
            .collect()
    }

    fn argument(
        &mut self,
        statement: &Statement<'_>,
        argument: &ast::Operand,
        ty: PtxType,
    ) -> Lowered<Argument> {
        if let OperandKind::Variable(id) = argument.kind
            && self.module.variable(id).space == ast::Space::Param
        {
            return match self.kept(id)? {
                Some(argument) => Ok(argument),
                None => unsupported("a kernel parameter as argument"),
            };
        }
        if let OperandKind::Register(register) = argument.kind {
            let shape = &statement.body.registers[register.index()];
            let words = self.register_words(self.variable(register, 0), shape)?;
            return Ok(Argument::Words(words));
        }
        let value = self.value_of(statement, argument.kind, ty)?;
        let value = self.in_registers(value, ty.bits())?;
        if self.func.value_type(value) == Type::P {
            return Ok(Argument::Words(vec![value]));
        }
        Ok(Argument::Words(self.with(|emit| emit.words(value))?))
    }

    /// What a parameter has where it is kept; none for one of the kernel.
    fn kept(&mut self, id: VariableId) -> Lowered<Option<Argument>> {
        Ok(match self.place(id)? {
            Storage::Words(first, count) => Some(Argument::Words(
                (0..count)
                    .map(|word| self.read(Variable(first.0 + word)))
                    .collect(),
            )),
            Storage::Frame(start) => Some(Argument::Frame(start, self.module.variable(id).bytes())),
            Storage::Kernel(_) => None,
        })
    }

    /// The words of a register whose components are the variables from `first` on.
    fn register_words(&mut self, first: Variable, register: &ast::Register) -> Lowered<Vec<Value>> {
        let components: Vec<Value> = (0..u32::from(register.vector.max(1)))
            .map(|component| self.read(Variable(first.0 + component)))
            .collect();
        if let ([one], PtxType::Pred) = (&components[..], register.ty) {
            return Ok(vec![*one]);
        }
        let width = register.ty.bits();
        self.with(|emit| {
            if width >= 32 {
                let words = components.into_iter().map(|value| emit.words(value));
                return words.flatten().collect();
            }
            let elements: Vec<Operand> = components.into_iter().map(Operand::from).collect();
            elements
                .chunks((32 / width.max(8)) as usize)
                .map(|chunk| {
                    let word = pack_word(emit, chunk, width);
                    emit.as_value(Scalar::B32, word)
                })
                .collect()
        })
    }

    /// Gives a register whose components are the variables from `first` on its words.
    fn set_register(
        &mut self,
        first: Variable,
        register: &ast::Register,
        words: &[Value],
    ) -> Lowered {
        let width = register.ty.bits();
        let count = u32::from(register.vector.max(1));
        let per_component = width.div_ceil(32) as usize;
        for component in 0..count {
            let variable = Variable(first.0 + component);
            let value = match width * component {
                _ if count == 1 || width >= 32 => {
                    let start = component as usize * per_component;
                    match words.get(start..start + per_component) {
                        Some(own) => self.gather(own, self.ssa.ty(variable))?,
                        None => return unsupported("an argument shorter than its parameter"),
                    }
                }
                bit => {
                    let Some(&word) = words.get(bit as usize / 32) else {
                        return unsupported("an argument shorter than its parameter");
                    };
                    let shift = imm(u64::from(bit % 32));
                    let part = self.with(|emit| emit.shr(Scalar::U32, word.into(), shift))?;
                    part.as_value().unwrap_or(word)
                }
            };
            self.set(variable, value);
        }
        Ok(())
    }

    /// Gives the parameters of the function just entered their values.
    pub(super) fn pass(&mut self, callee: FunctionId, arguments: Vec<Argument>) -> Lowered {
        let function = self.module.function(callee);
        for &id in &function.returns {
            if self.module.variable(id).space == ast::Space::Param {
                self.place_parameter(id, self.module.variable(id).bytes())?;
            }
        }
        // An array of open length that is left out has no bytes.
        let rest = std::iter::repeat_with(|| Argument::Words(Vec::new()));
        for (&id, argument) in function
            .parameters
            .iter()
            .zip(arguments.into_iter().chain(rest))
        {
            self.give(id, argument)?;
        }
        Ok(())
    }

    /// Puts an argument where a parameter, of the function being lowered, is kept.
    fn give(&mut self, id: VariableId, argument: Argument) -> Lowered {
        let variable = self.module.variable(id);
        if let Some(register) = variable.register {
            return self.put_in_register(register, argument);
        }
        // An array of open length is as long as what is passed for it.
        let bytes = match (&argument, variable.dimensions.first()) {
            (Argument::Words(words), Some(0)) => 4 * words.len() as u64,
            (&Argument::Frame(_, bytes), Some(0)) => bytes,
            _ => variable.bytes(),
        };
        let storage = self.place_parameter(id, bytes)?;
        self.put_in_storage(storage, bytes, argument)
    }

    /// Puts an argument or a result in a register of the function being lowered.
    fn put_in_register(&mut self, register: RegisterId, argument: Argument) -> Lowered {
        let Some(body) = self.frames.last().map(|frame| frame.body) else {
            return unsupported("");
        };
        let shape = &body.registers[register.index()];
        let words = match argument {
            Argument::Words(words) => words,
            Argument::Frame(start, _) => self.load_all(start, bytes_of(shape))?,
        };
        self.set_register(self.variable(register, 0), shape, &words)
    }

    /// Puts an argument or a result of so many bytes where a parameter is kept.
    fn put_in_storage(&mut self, storage: Storage, bytes: u64, argument: Argument) -> Lowered {
        match (argument, storage) {
            (argument, Storage::Words(first, count)) => {
                let words = match argument {
                    Argument::Words(words) => words,
                    Argument::Frame(from, _) => self.load_all(from, bytes)?,
                };
                for (word, value) in (0..count).zip(words) {
                    self.set(Variable(first.0 + word), value);
                }
                Ok(())
            }
            (Argument::Words(words), Storage::Frame(start)) => self.store_all(start, bytes, words),
            (Argument::Frame(from, _), Storage::Frame(to)) => {
                for word in 0..bytes.div_ceil(4) {
                    let left = bytes.saturating_sub(4 * word);
                    let value = self.load_word(from + 4 * word as u32, left)?;
                    self.store_word(to + 4 * word as u32, value, left)?;
                }
                Ok(())
            }
            (_, Storage::Kernel(_)) => unsupported("a kernel parameter in a call"),
        }
    }

    /// The words of so many bytes in the frame.
    pub(super) fn load_all(&mut self, start: u32, bytes: u64) -> Lowered<Vec<Value>> {
        (0..bytes.div_ceil(4))
            .map(|word| self.load_word(start + 4 * word as u32, bytes - 4 * word))
            .collect()
    }

    /// Writes the words of so many bytes to the frame.
    pub(super) fn store_all(&mut self, start: u32, bytes: u64, words: Vec<Value>) -> Lowered {
        for (index, word) in words.into_iter().enumerate() {
            let left = bytes.saturating_sub(4 * index as u64);
            self.store_word(start + 4 * index as u32, word, left)?;
        }
        Ok(())
    }

    /// A value of type `ty` of words.
    fn gather(&mut self, words: &[Value], ty: Type) -> Lowered<Value> {
        if words.len() == 1 && self.func.value_type(words[0]) == ty {
            return Ok(words[0]);
        }
        self.with(|emit| emit.collect(words))
    }

    /// The scalar that an access to what is left of a parameter has.
    fn piece(left: u64) -> Scalar {
        match left {
            1 => Scalar::U8,
            2 => Scalar::U16,
            _ => Scalar::B32,
        }
    }

    fn store_word(&mut self, offset: u32, value: Value, left: u64) -> Lowered {
        let scalar = match Self::piece(left) {
            Scalar::U8 => Scalar::B8,
            Scalar::U16 => Scalar::B16,
            other => other,
        };
        self.with(|emit| {
            let address = frame_address(offset);
            let address = emit.func().create_address(address);
            let mods = (Space::Local, Vector::V1, scalar);
            let operands = [address, value.into()];
            emit.put(
                AbstractOp::St,
                mods,
                &[],
                &operands,
                orias_ori::Guard::ALWAYS,
                &[],
            );
        })
    }

    fn load_word(&mut self, offset: u32, left: u64) -> Lowered<Value> {
        let scalar = Self::piece(left);
        self.with(|emit| {
            let address = emit.func().create_address(frame_address(offset));
            emit.value(
                AbstractOp::Ld,
                (Space::Local, Vector::V1, scalar),
                &[address],
            )
        })
    }

    /// What a function that was lowered gives back.
    pub(super) fn results_of(&mut self, frame: &Frame<'m>) -> Lowered<Vec<Argument>> {
        let mut results = Vec::with_capacity(frame.function.returns.len());
        for &formal in &frame.function.returns {
            let variable = self.module.variable(formal);
            results.push(match variable.register {
                Some(register) => {
                    // The callee's frame is gone; its variables are not.
                    let shape = &frame.body.registers[register.index()];
                    Argument::Words(self.register_words(frame.variable(register), shape)?)
                }
                None => match self.kept(formal)? {
                    Some(argument) => argument,
                    None => return unsupported("a call of a kernel"),
                },
            });
        }
        Ok(results)
    }

    /// Puts a result where the caller wants it.
    pub(super) fn receive(&mut self, actual: &ast::Operand, argument: Argument) -> Lowered {
        match actual.kind {
            OperandKind::Register(register) => self.put_in_register(register, argument),
            OperandKind::Variable(id) => {
                let storage = self.place(id)?;
                self.put_in_storage(storage, self.module.variable(id).bytes(), argument)
            }
            OperandKind::Sink => Ok(()),
            _ => unsupported("such a result of a call"),
        }
    }

    /// The words of an argument, wherever they are.
    pub(super) fn words_of(&mut self, argument: Argument) -> Lowered<Vec<Value>> {
        match argument {
            Argument::Words(words) => {
                let predicate = |&word: &Value| self.func.value_type(word) == Type::P;
                if words.iter().any(predicate) {
                    return unsupported("a predicate as argument of a call that is not inlined");
                }
                Ok(words)
            }
            Argument::Frame(start, bytes) => self.load_all(start, bytes),
        }
    }
}

/// The type of a constant that is passed for a parameter. For a vector it is as long as the constant: integers and doubles
/// have 64 bits.
fn constant_type(formal: &ast::Variable, kind: OperandKind) -> PtxType {
    let whole = formal.vector > 1 || formal.ty == PtxType::F16x2;
    match kind {
        OperandKind::Single(_) if whole => PtxType::B32,
        OperandKind::Signed(_) | OperandKind::Unsigned(_) | OperandKind::Double(_) if whole => {
            PtxType::B64
        }
        _ => formal.ty,
    }
}

/// The bytes a register has as an argument.
fn bytes_of(register: &ast::Register) -> u64 {
    u64::from(register.ty.bits().div_ceil(8)) * u64::from(register.vector.max(1))
}

fn frame_address(offset: u32) -> Address {
    Address {
        offset: offset as i32,
        ..Address::default()
    }
}
