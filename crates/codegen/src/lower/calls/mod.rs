//! Calls: inlining of functions that the module defines, and the abstract `call` for others.
//!
//! Arguments and results are bytes in parameter space. A parameter in variables is copied word by word, which makes no
//! code; one in the frame is copied through registers. A register has the bytes that a store of all its components would
//! write: one word for each 32 bits, components of 8 and 16 bits packed. Predicates travel as they are.
//!
//! Functions that are not inlined ([`super::graph`]) are called by the ABI, be they of the module, reached through a pointer or of the driver. [`Convention`]
//! says where each parameter travels, on both sides: in words from R4 on, each at the first free place that its alignment allows, or on the
//! stack, where it finds none. A result that is too large for registers lies in the caller's frame, and its address is the first argument.

mod abi;
mod arguments;
mod convention;
mod parameters;

use super::body::{Body, Frame, Lowered, Statement, unsupported};
use crate::module::near_name;
use abi::{Callee, Signature, never_returns};
use orias_ori::operation::AbstractOp;
use orias_ptx::ast::{OperandKind, TargetListKind};
use orias_ptx::opcode::PatternKind;
use orias_ptx::types::Type as PtxType;

pub(super) use convention::Convention;
pub(super) use parameters::{load_words, store_words};

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
    let (named, id) = match callee {
        Some(OperandKind::Function(id)) => (id, body.graph.definition(id)),
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
                // What the linker makes a pointer of is an address; in a whole program it is a place in a table.
                let callee = Callee::Pointer(match body.graph.is_relocatable() {
                    true => pointer,
                    false => body.with(|emit| emit.words(pointer))?[0],
                });
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
            let name = |id| body.module.name(body.module.function(id).name);
            let callee = Callee::Name(match body.graph.is_relocatable() {
                // An alias may come to stand for something else.
                true => name(named).to_owned(),
                false => near_name(name(id)),
            });
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
impl<'m> Body<'m, '_> {
    /// Takes the results of a function that was lowered in place, back in the caller.
    pub fn take_results(&mut self, frame: &Frame<'m>) -> Lowered {
        let results = self.results_of(frame)?;
        for (argument, actual) in results.into_iter().zip(&frame.returns) {
            self.receive(actual, argument)?;
        }
        Ok(())
    }
}
