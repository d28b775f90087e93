//! Calls by the ABI, from both sides: of functions that are not inlined, and into them.

use super::super::body::{Body, Frame, Lowered, Statement, unsupported};
use super::super::data::alignment;
use super::arguments::Argument;
use super::convention::{Convention, Place, WORD};
use crate::emit::imm;
use crate::module::{Extern, INCOMING, is_near};
use orias_machine::Machine;
use orias_ori::operation::{AbstractOp, Scalar, Space, Vector};
use orias_ori::{Address, Operand, SymbolPart, Type, Value};
use orias_ptx::ast::{self, FunctionDirectiveKind, FunctionId, VariableId};

/// Whom a call reaches.
pub(super) enum Callee {
    /// A function, here or elsewhere, by its name.
    Name(String),
    /// What a pointer says.
    Pointer(Value),
}

/// What a call of something is told by.
pub(super) struct Signature {
    pub returns: Vec<VariableId>,
    pub parameters: Vec<VariableId>,
    pub no_return: bool,
}

/// What the driver ends the kernel in, though CUDA's headers do not declare it so.
const ENDS_THE_KERNEL: &str = "__assertfail";

pub(super) fn never_returns(directives: &[ast::FunctionDirective]) -> bool {
    let mut directives = directives.iter();
    directives.any(|it| it.kind == FunctionDirectiveKind::NoReturn)
}

impl<'m> Body<'m, '_> {
    pub(super) fn signature(&self, id: FunctionId) -> Signature {
        let function = self.module.function(id);
        Signature {
            returns: function.returns.clone(),
            parameters: function.parameters.clone(),
            no_return: never_returns(&function.directives),
        }
    }

    /// Calls a function that is defined elsewhere.
    pub(super) fn call_extern(
        &mut self,
        statement: &Statement<'_>,
        callee: FunctionId,
        results: &[ast::Operand],
        arguments: &[ast::Operand],
    ) -> Lowered {
        let function = self.module.function(callee);
        let name = self.module.name(function.name);
        let size = |id: &VariableId| self.module.variable(*id).bytes() as u32;
        let mut signature = self.signature(callee);
        signature.no_return |= name == ENDS_THE_KERNEL;
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

    /// Calls a function by the ABI.
    pub(super) fn call_out(
        &mut self,
        statement: &Statement<'_>,
        callee: Callee,
        signature: &Signature,
        results: &[ast::Operand],
        arguments: &[ast::Operand],
    ) -> Lowered {
        let convention = self.convention(signature)?;
        let mut slots: Vec<Option<Value>> = vec![None; convention.registers as usize];
        let given = self.arguments(statement, &signature.parameters, arguments)?;
        // An array of open length may be left out: nothing is passed for it.
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
                    // Who is called finds it where its own frame ends, aligned.
                    let align = alignment(self.module.variable(*id));
                    self.memory.2 = self.memory.2.max(align);
                    self.store_all(start, self.module.variable(*id).bytes(), words)?;
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
