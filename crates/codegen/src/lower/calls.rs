//! Calls: inlining of functions that the module defines, and the abstract `call` for others.
//!
//! Arguments and results are bytes in parameter space. A parameter in variables is copied word by word, which makes no
//! code; one in the frame is copied through registers. A register has the bytes that a store of all its components would
//! write: one word for each 32 bits, components of 8 and 16 bits packed. Predicates travel as they are.

use super::body::{Body, Destination, Frame, Lowered, Statement, Storage, unsupported};
use super::movement::pack_word;
use super::ssa::Variable;
use crate::emit::imm;
use crate::module::Extern;
use orias_ori::operation::{AbstractOp, Scalar, Space, Vector};
use orias_ori::{Address, Class, Operand, SymbolPart, Type, Value};
use orias_ptx::ast::{
    self, FunctionDirectiveKind, FunctionId, OperandKind, RegisterId, VariableId,
};
use orias_ptx::opcode::PatternKind;
use orias_ptx::types::Type as PtxType;

/// `call`
pub(super) fn call(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let mut results = Vec::new();
    let mut arguments = Vec::new();
    let mut callee = None;
    for (operand, pattern) in statement.operands.iter().zip(statement.patterns) {
        match (&pattern.kind, operand.kind) {
            (PatternKind::CallReturn, OperandKind::Arguments(parts)) => {
                results = statement.body.parts(parts).to_vec();
            }
            (PatternKind::CallArguments, OperandKind::Arguments(parts)) => {
                arguments = statement.body.parts(parts).to_vec();
            }
            (PatternKind::Function, OperandKind::Function(id)) => callee = Some(id),
            (PatternKind::Function, _) => return unsupported("indirect calls"),
            _ => {}
        }
    }
    let Some(id) = callee.map(|id| body.definition(id)) else {
        return unsupported("");
    };
    let name = body.module.name(body.module.function(id).name);
    if body.frames.iter().any(|frame| frame.id == id) {
        return unsupported(format!("recursive call of {name}"));
    }
    if body.module.function(id).body.is_none() {
        return body
            .branch_if_guarded(|body| body.call_extern(statement, id, &results, &arguments));
    }
    // Where the guard does not hold, control goes on behind the call, past where its results are taken.
    let after = body.func.create_block();
    let on = body.guard.take().map(|guard| {
        let taken = body.func.create_block();
        let on = body.func.create_block();
        body.end(AbstractOp::CondBr, &[guard], &[taken, on]);
        body.open(taken);
        on
    });
    let values = body.arguments(statement, id, &arguments)?;
    body.enter(id, Some(after), results);
    if let Some(frame) = body.frames.last_mut() {
        frame.on = on;
    }
    body.pass(id, values)
}

/// An argument on its way into the callee.
pub(super) enum Argument {
    /// The words of a parameter, or of a register, as many bytes.
    Words(Vec<Value>),
    /// So many bytes in the frame, from there on.
    Frame(u32, u64),
}

impl<'m> Body<'m, '_> {
    /// The function that defines what `id` declares, if the module has it.
    fn definition(&self, id: FunctionId) -> FunctionId {
        let function = self.module.function(id);
        if function.body.is_some() {
            return id;
        }
        let found = self
            .module
            .functions
            .iter()
            .position(|it| it.name == function.name && it.body.is_some());
        match found {
            Some(index) => FunctionId(index as u32),
            None => {
                let alias = self
                    .module
                    .aliases
                    .iter()
                    .find(|it| it.name == function.name);
                let target = alias.and_then(|alias| {
                    let functions = &self.module.functions;
                    functions
                        .iter()
                        .position(|it| it.name == alias.of && it.body.is_some())
                });
                target.map_or(id, |index| FunctionId(index as u32))
            }
        }
    }

    /// Reads the arguments of a call in the caller.
    fn arguments(
        &mut self,
        statement: &Statement<'_>,
        callee: FunctionId,
        arguments: &[ast::Operand],
    ) -> Lowered<Vec<Argument>> {
        let formals = &self.module.function(callee).parameters;
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
            return match self.place(id)? {
                Storage::Words(first, count) => Ok(Argument::Words(
                    (0..count)
                        .map(|word| self.read(Variable(first.0 + word)))
                        .collect(),
                )),
                Storage::Frame(start) => {
                    Ok(Argument::Frame(start, self.module.variable(id).bytes()))
                }
                Storage::Kernel(_) => unsupported("a kernel parameter as argument"),
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
    fn pass(&mut self, callee: FunctionId, arguments: Vec<Argument>) -> Lowered {
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
            (Argument::Words(words), Storage::Words(first, count)) => {
                for (word, value) in (0..count).zip(words) {
                    self.set(Variable(first.0 + word), value);
                }
                Ok(())
            }
            (Argument::Words(words), Storage::Frame(start)) => {
                for (index, value) in words.into_iter().enumerate() {
                    let left = bytes.saturating_sub(4 * index as u64);
                    self.store_word(start + 4 * index as u32, value, left)?;
                }
                Ok(())
            }
            (Argument::Frame(from, _), Storage::Words(first, _)) => {
                let words = self.load_all(from, bytes)?;
                for (word, value) in (0..).zip(words) {
                    self.set(Variable(first.0 + word), value);
                }
                Ok(())
            }
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
    fn load_all(&mut self, start: u32, bytes: u64) -> Lowered<Vec<Value>> {
        (0..bytes.div_ceil(4))
            .map(|word| self.load_word(start + 4 * word as u32, bytes - 4 * word))
            .collect()
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

    /// Takes the results of a function that was lowered in place, back in the caller.
    pub fn take_results(&mut self, frame: &Frame<'m>) -> Lowered {
        for (&formal, actual) in frame.function.returns.iter().zip(&frame.returns) {
            let variable = self.module.variable(formal);
            let argument = match variable.register {
                Some(register) => {
                    // The callee's frame is gone; its variables are not.
                    let shape = &frame.body.registers[register.index()];
                    Argument::Words(self.register_words(frame.variable(register), shape)?)
                }
                None => match self.place(formal)? {
                    Storage::Words(first, count) => Argument::Words(
                        (0..count)
                            .map(|word| self.read(Variable(first.0 + word)))
                            .collect(),
                    ),
                    Storage::Frame(start) => Argument::Frame(start, variable.bytes()),
                    Storage::Kernel(_) => return unsupported("a call of a kernel"),
                },
            };
            self.receive(actual, argument)?;
        }
        Ok(())
    }

    /// Puts a result where the caller wants it.
    fn receive(&mut self, actual: &ast::Operand, argument: Argument) -> Lowered {
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

    /// Calls a function that is defined elsewhere: scalar arguments and results are values, longer ones tuples.
    fn call_extern(
        &mut self,
        statement: &Statement<'_>,
        callee: FunctionId,
        results: &[ast::Operand],
        arguments: &[ast::Operand],
    ) -> Lowered {
        let function = self.module.function(callee);
        let name = self.module.name(function.name);
        let size = |id: &VariableId| self.module.variable(*id).bytes() as u32;
        let record = Extern {
            name: name.to_owned(),
            parameters: function.parameters.iter().map(size).collect(),
            results: function.returns.iter().map(size).collect(),
            no_return: function
                .directives
                .iter()
                .any(|it| it.kind == FunctionDirectiveKind::NoReturn),
        };
        let no_return = record.no_return;
        if !self.externs.contains(&record) {
            self.externs.push(record);
        }
        let mut operands = vec![Operand::Symbol {
            symbol: self.func.symbol(name),
            part: SymbolPart::Whole,
            addend: 0,
        }];
        for argument in self.arguments(statement, callee, arguments)? {
            let Argument::Words(words) = argument else {
                return unsupported(format!("an argument in memory for {name}"));
            };
            operands.push(self.gather(&words, Type::R)?.into());
        }
        let mut values = Vec::new();
        for &id in &function.returns {
            let words = self.module.variable(id).bytes().div_ceil(4);
            let ty = u8::try_from(words)
                .ok()
                .and_then(|words| Type::tuple(Class::R, words));
            let Some(ty) = ty else {
                return unsupported(format!("a result as large as that of {name}"));
            };
            values.push(self.func.create_value(ty));
        }
        self.with(|emit| {
            let results: Vec<Operand> = values.iter().map(|&value| value.into()).collect();
            emit.put(
                AbstractOp::Call,
                (),
                &results,
                &operands,
                orias_ori::Guard::ALWAYS,
                &[],
            );
        })?;
        for (actual, value) in results.iter().zip(values) {
            let words = self.with(|emit| emit.words(value))?;
            self.receive(actual, Argument::Words(words))?;
        }
        if no_return {
            self.end(AbstractOp::Unreachable, &[], &[]);
        }
        Ok(())
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

/// Reads bytes of a parameter in variables: a load with an offset known now.
pub(super) fn load_words(
    body: &mut Body<'_, '_>,
    first: Variable,
    offset: u32,
    ty: PtxType,
) -> Lowered<Operand> {
    let word = body.read(Variable(first.0 + offset / 4));
    match ty.bits() {
        64 | 128 => {
            let words: Vec<Value> = (0..ty.bits() / 32)
                .map(|index| body.read(Variable(first.0 + offset / 4 + index)))
                .collect();
            body.with(|emit| emit.collect(&words).into())
        }
        32 => Ok(word.into()),
        _ => match 8 * u64::from(offset % 4) {
            0 => Ok(word.into()),
            shift => body.with(|emit| emit.shr(Scalar::U32, word.into(), imm(shift))),
        },
    }
}

/// Writes bytes of a parameter in variables, under the guard.
pub(super) fn store_words(
    body: &mut Body<'_, '_>,
    first: Variable,
    offset: u32,
    value: Operand,
    ty: PtxType,
) -> Lowered {
    let place = |word: u32| Variable(first.0 + offset / 4 + word);
    match ty.bits() {
        64 | 128 => {
            let value = body.in_registers(value, ty.bits())?;
            let words = body.with(|emit| emit.words(value))?;
            for (index, word) in (0..).zip(words) {
                body.write(place(index), word.into())?;
            }
            Ok(())
        }
        32 => body.write(place(0), value),
        narrow => {
            let old = body.read(place(0));
            let shift = imm(8 * u64::from(offset % 4));
            let inserted = body.compute(
                AbstractOp::Bfi,
                (Scalar::B32,),
                &[value, old.into(), shift, imm(u64::from(narrow))],
            )?;
            body.write(place(0), inserted)
        }
    }
}

/// Where a result that nobody wants would go.
pub(super) fn unused(destination: Destination, ty: Type) -> Destination {
    match destination {
        Destination::None => Destination::Unused(ty),
        other => other,
    }
}
