//! Calls: inlining of functions that the module defines, and the abstract `call` for others.
//!
//! Arguments and results are bytes in parameter space. A parameter in variables is copied word by word, which makes no
//! code; one in the frame is copied through registers. A register has the bytes that a store of all its components would
//! write: one word for each 32 bits, components of 8 and 16 bits packed. Predicates travel as they are.
//!
//! Functions that are not inlined ([`super::graph`]) are called by the ABI, be they of the module, reached through a pointer or of the driver. [`Convention`]
//! says where each parameter travels, on both sides: in words from R4 on, each at the first free place that its alignment allows, or on the
//! stack, where it finds none. A result that is too large for registers lies in the caller's frame, and its address is the first argument.

use super::body::{Body, Destination, Frame, Lowered, Statement, Storage, unsupported};
use super::data::alignment;
use super::movement::pack_word;
use super::ssa::Variable;
use crate::emit::imm;
use crate::module::{Extern, INCOMING, is_near, near_name};
use orias_machine::Machine;
use orias_machine::abi::Abi;
use orias_ori::operation::{AbstractOp, Scalar, Space, Vector};
use orias_ori::{Address, Operand, SymbolPart, Type, Value};
use orias_ptx::ast::{
    self, FunctionDirectiveKind, FunctionId, OperandKind, RegisterId, TargetListKind, VariableId,
};
use orias_ptx::opcode::PatternKind;
use orias_ptx::types::Type as PtxType;

/// Bytes of a register.
const WORD: u64 = 4;

/// Where something travels in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In registers: the first, counted from that of the first argument.
    Registers(u32),
    /// On the stack, from that byte on.
    Stack(u32),
}

/// How a call passes its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Convention {
    /// Where the parameters are.
    pub parameters: Vec<Place>,
    /// Registers for arguments, gaps included.
    pub registers: u32,
    /// Bytes on the stack.
    pub stack: u32,
    /// Whether the result lies in memory, at the address in the first argument register.
    pub result_in_memory: bool,
    /// Registers for results.
    pub results: u32,
}

impl Convention {
    /// The convention of a signature; none for one that the ABI has no way for.
    pub fn new(
        module: &orias_ptx::Module<'_>,
        abi: &Abi,
        returns: &[VariableId],
        parameters: &[VariableId],
    ) -> Option<Convention> {
        let most = u32::from(abi.arguments_end - abi.first_argument);
        let shape = |id: &VariableId| {
            let variable = module.variable(*id);
            (variable.ty != PtxType::Pred)
                .then(|| (variable.bytes(), u64::from(alignment(variable))))
        };
        let results = match returns {
            [] => 0,
            [one] => u32::try_from(shape(one)?.0.div_ceil(WORD)).ok()?,
            _ => return None,
        };
        let result_in_memory = results > most;
        let mut free = vec![true; most as usize];
        if result_in_memory {
            free[0] = false;
        }
        let mut convention = Convention {
            parameters: Vec::with_capacity(parameters.len()),
            registers: u32::from(result_in_memory),
            stack: 0,
            result_in_memory,
            results: if result_in_memory { 0 } else { results },
        };
        for id in parameters {
            let (bytes, align) = shape(id)?;
            let words = u32::try_from(bytes.div_ceil(WORD)).ok()?;
            let step = (align / WORD).clamp(1, 4) as usize;
            let fits = |&first: &usize| {
                let run = free.get(first..first + words as usize);
                run.is_some_and(|run| run.iter().all(|&free| free))
            };
            let found = (0..free.len()).step_by(step).find(fits);
            convention.parameters.push(match found {
                Some(first) => {
                    free[first..first + words as usize].fill(false);
                    let end = first as u32 + words;
                    convention.registers = convention.registers.max(end);
                    Place::Registers(first as u32)
                }
                None => {
                    let align = u32::try_from(align.max(WORD)).ok()?;
                    let start = convention.stack.next_multiple_of(align);
                    convention.stack = start.checked_add(words * WORD as u32)?;
                    Place::Stack(start)
                }
            });
        }
        Some(convention)
    }
}

/// Whom a call reaches.
enum Callee {
    /// A function, here or elsewhere, by its name.
    Name(String),
    /// What a pointer says.
    Pointer(Value),
}

/// What a call of something is told by.
struct Signature {
    returns: Vec<VariableId>,
    parameters: Vec<VariableId>,
    no_return: bool,
}

fn never_returns(directives: &[ast::FunctionDirective]) -> bool {
    let mut directives = directives.iter();
    directives.any(|it| it.kind == FunctionDirectiveKind::NoReturn)
}

/// `call`
pub(super) fn call(body: &mut Body<'_, '_>, statement: &Statement<'_>) -> Lowered {
    let mut results = Vec::new();
    let mut arguments = Vec::new();
    let mut callee = None;
    let mut list = None;
    for (operand, pattern) in statement.operands.iter().zip(statement.patterns) {
        match (&pattern.kind, operand.kind) {
            (PatternKind::CallReturn, OperandKind::Arguments(parts)) => {
                results = statement.body.parts(parts).to_vec();
            }
            (PatternKind::CallArguments, OperandKind::Arguments(parts)) => {
                arguments = statement.body.parts(parts).to_vec();
            }
            (PatternKind::Function, kind) => callee = Some(kind),
            (_, OperandKind::List(id)) => list = Some(&statement.body.lists[id.index()].kind),
            _ => {}
        }
    }
    let id = match callee {
        Some(OperandKind::Function(id)) => body.graph.definition(id),
        Some(pointer @ OperandKind::Register(_)) => {
            let signature = match list {
                Some(TargetListKind::Prototype(prototype)) => Signature {
                    returns: prototype.returns.clone(),
                    parameters: prototype.parameters.clone(),
                    no_return: never_returns(&prototype.directives),
                },
                Some(TargetListKind::Call(functions)) if !functions.is_empty() => {
                    body.signature(functions[0])
                }
                _ => return unsupported("a call through a pointer without a prototype"),
            };
            return body.branch_if_guarded(|body| {
                let pointer = body.value_of(statement, pointer, PtxType::B64)?;
                let pointer = body.in_registers(pointer, 64)?;
                let word = body.with(|emit| emit.words(pointer))?[0];
                let callee = Callee::Pointer(word);
                body.call_out(statement, callee, &signature, &results, &arguments)
            });
        }
        _ => return unsupported(""),
    };
    if body.module.function(id).body.is_none() {
        return body
            .branch_if_guarded(|body| body.call_extern(statement, id, &results, &arguments));
    }
    if body.graph.is_called(id) {
        return body.branch_if_guarded(|body| {
            let name = body.module.name(body.module.function(id).name);
            let callee = Callee::Name(near_name(name));
            let signature = body.signature(id);
            body.call_out(statement, callee, &signature, &results, &arguments)
        });
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
    let formals = &body.module.function(id).parameters;
    let values = body.arguments(statement, formals, &arguments)?;
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
    /// Reads the arguments of a call in the caller.
    fn arguments(
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

    /// What a function that was lowered gives back.
    fn results_of(&mut self, frame: &Frame<'m>) -> Lowered<Vec<Argument>> {
        let mut results = Vec::with_capacity(frame.function.returns.len());
        for &formal in &frame.function.returns {
            let variable = self.module.variable(formal);
            results.push(match variable.register {
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
            });
        }
        Ok(results)
    }

    /// Takes the results of a function that was lowered in place, back in the caller.
    pub fn take_results(&mut self, frame: &Frame<'m>) -> Lowered {
        let results = self.results_of(frame)?;
        for (argument, actual) in results.into_iter().zip(&frame.returns) {
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

    fn signature(&self, id: FunctionId) -> Signature {
        let function = self.module.function(id);
        Signature {
            returns: function.returns.clone(),
            parameters: function.parameters.clone(),
            no_return: never_returns(&function.directives),
        }
    }

    /// Calls a function that is defined elsewhere.
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
        let signature = self.signature(callee);
        let record = Extern {
            name: name.to_owned(),
            parameters: function.parameters.iter().map(size).collect(),
            results: function.returns.iter().map(size).collect(),
            no_return: signature.no_return,
        };
        if is_near(name) {
            return unsupported(format!("a function of the name {name} that lies elsewhere"));
        }
        if !self.externs.contains(&record) {
            self.externs.push(record);
        }
        let callee = Callee::Name(name.to_owned());
        self.call_out(statement, callee, &signature, results, arguments)
    }

    /// The convention of a call.
    fn convention(&self, signature: &Signature) -> Lowered<Convention> {
        let abi = Machine::of(self.func.target).abi;
        match Convention::new(self.module, abi, &signature.returns, &signature.parameters) {
            Some(convention) => Ok(convention),
            None => unsupported("a call with such parameters that is not inlined"),
        }
    }

    /// The words of an argument, wherever they are.
    fn words_of(&mut self, argument: Argument) -> Lowered<Vec<Value>> {
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

    /// Calls a function by the ABI.
    fn call_out(
        &mut self,
        statement: &Statement<'_>,
        callee: Callee,
        signature: &Signature,
        results: &[ast::Operand],
        arguments: &[ast::Operand],
    ) -> Lowered {
        let convention = self.convention(signature)?;
        if convention.stack > 0 && self.alloca {
            return unsupported("arguments on a stack that grows at run time");
        }
        let mut slots: Vec<Option<Value>> = vec![None; convention.registers as usize];
        let given = self.arguments(statement, &signature.parameters, arguments)?;
        if given.len() < signature.parameters.len() {
            return unsupported("a call that leaves arguments out");
        }
        for ((argument, &place), id) in
            (given.into_iter().zip(&convention.parameters)).zip(&signature.parameters)
        {
            let words = self.words_of(argument)?;
            match place {
                Place::Registers(first) => {
                    for (slot, word) in slots[first as usize..].iter_mut().zip(words) {
                        *slot = Some(word);
                    }
                }
                Place::Stack(start) => {
                    let bytes = self.module.variable(*id).bytes();
                    for (index, word) in words.into_iter().enumerate() {
                        let left = bytes.saturating_sub(4 * index as u64);
                        self.store_word(start + 4 * index as u32, word, left)?;
                    }
                }
            }
        }
        let mut in_memory = None;
        if let (true, &[id]) = (convention.result_in_memory, &signature.returns[..]) {
            let bytes = self.module.variable(id).bytes();
            let align = alignment(self.module.variable(id));
            let start = self.frame_space(bytes, align)?;
            let base = self.frame_base();
            let address = self.with(|emit| {
                let offset = imm(u64::from(start));
                let sum = emit.binary(AbstractOp::Add, Scalar::U32, base.into(), offset);
                emit.as_value(Scalar::B32, sum)
            })?;
            slots[0] = Some(address);
            in_memory = Some(Argument::Frame(start, bytes));
        }
        let mut operands = vec![match callee {
            Callee::Name(name) => Operand::Symbol {
                symbol: self.func.symbol(&name),
                part: SymbolPart::Whole,
                addend: 0,
            },
            Callee::Pointer(value) => value.into(),
        }];
        for slot in slots {
            operands.push(match slot {
                Some(value) => value.into(),
                None => self.undefined(Type::R)?.into(),
            });
        }
        let values: Vec<Value> = (0..convention.results)
            .map(|_| self.func.create_value(Type::R))
            .collect();
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
        if let Some(actual) = results.first() {
            self.receive(actual, in_memory.unwrap_or(Argument::Words(values)))?;
        }
        if signature.no_return {
            self.end(AbstractOp::Unreachable, &[], &[]);
        }
        Ok(())
    }

    /// Takes the parameters of a function that is called: those of its entry block, and what lies on the stack.
    pub fn take_parameters(&mut self, id: FunctionId) -> Lowered {
        let signature = self.signature(id);
        let convention = self.convention(&signature)?;
        let Some(entry) = self.block else {
            return unsupported("");
        };
        let words: Vec<Value> = (0..convention.registers)
            .map(|_| self.func.append_block_param(entry, Type::R))
            .collect();
        if convention.result_in_memory {
            let pointer = self.ssa.declare(Type::R);
            self.set(pointer, words[0]);
            self.result_pointer = Some(pointer);
        }
        self.func.results = vec![Type::R; convention.results as usize];
        let mut arguments = Vec::with_capacity(signature.parameters.len());
        for (&id, &place) in signature.parameters.iter().zip(&convention.parameters) {
            let bytes = self.module.variable(id).bytes();
            arguments.push(Argument::Words(match place {
                Place::Registers(first) => {
                    let count = bytes.div_ceil(WORD) as usize;
                    words[first as usize..first as usize + count].to_vec()
                }
                Place::Stack(start) => self.load_all(INCOMING + start, bytes)?,
            }));
        }
        self.pass(id, arguments)
    }

    /// Returns from a function that is called, which was lowered.
    pub fn give_results(&mut self, frame: &Frame<'m>) -> Lowered {
        let mut values = Vec::new();
        for argument in self.results_of(frame)? {
            let words = self.words_of(argument)?;
            match self.result_pointer {
                None => values.extend(words),
                Some(pointer) => {
                    let pointer = self.read(pointer);
                    for (index, word) in words.into_iter().enumerate() {
                        self.with(|emit| {
                            let address = Address::base(pointer, 4 * index as i32);
                            let address = emit.func().create_address(address);
                            let mods = (Space::Local, Vector::V1, Scalar::B32);
                            let operands = [address, word.into()];
                            let always = orias_ori::Guard::ALWAYS;
                            emit.put(AbstractOp::St, mods, &[], &operands, always, &[]);
                        })?;
                    }
                }
            }
        }
        let operands: Vec<Operand> = values.into_iter().map(Operand::from).collect();
        self.end(AbstractOp::Ret, &operands, &[]);
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
