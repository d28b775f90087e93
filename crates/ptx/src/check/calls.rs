//! Calls: the callee exists and the arguments are what it declares.

use super::Checker;
use super::functions::passes_for;
use super::variables::alignment;
use crate::ast::{
    Body, Function, Instruction, Operand, OperandKind, Space, TargetListKind, VariableId,
};
use crate::diagnostic::Span;
use crate::grammar::Op;
use crate::types::{Type, TypeClass};

impl Checker<'_, '_> {
    /// Checks the calls of a body, and that it does not write its parameters or read its results.
    pub(super) fn calls(&mut self, function: &Function, body: &Body) {
        let module = self.module;
        for instruction in &body.instructions {
            if instruction.guard.get().is_some() {
                self.guarded_parameter(function, body, instruction);
            }
            match module.opcode(instruction).op {
                Some(Op::Call) => self.call(body, instruction),
                Some(Op::St) => self.parameter_access(
                    body,
                    instruction,
                    0,
                    &function.parameters,
                    "Illegal to write to function input parameter",
                ),
                Some(Op::Ld) => self.parameter_access(
                    body,
                    instruction,
                    1,
                    &function.returns,
                    "Illegal to read function return parameter",
                ),
                _ => {}
            }
        }
    }

    fn parameter_access(
        &mut self,
        body: &Body,
        instruction: &Instruction,
        at: usize,
        forbidden: &[VariableId],
        message: &str,
    ) {
        let Some(operand) = body.operands(instruction).get(at) else {
            return;
        };
        if let OperandKind::AtVariable(id, _) = operand.kind
            && forbidden.contains(&id)
        {
            let name = self.module.name(self.module.variable(id).name);
            self.error(operand.span, format!("{message} '{name}'"));
        }
    }

    /// The parameters of a call are filled and read unconditionally.
    fn guarded_parameter(&mut self, function: &Function, body: &Body, instruction: &Instruction) {
        let module = self.module;
        let op = match module.opcode(instruction).op {
            Some(op @ (Op::Ld | Op::St)) => op,
            _ => return,
        };
        for operand in body.operands(instruction) {
            if let OperandKind::AtVariable(id, _) = operand.kind
                && module.variable(id).space == Space::Param
                && !function.parameters.contains(&id)
                && !function.returns.contains(&id)
            {
                let name = module.name(module.variable(id).name);
                self.error(
                    operand.span,
                    format!("Illegal to predicate instruction '{op}.param' with operand '{name}'"),
                );
            }
        }
    }

    fn call(&mut self, body: &Body, instruction: &Instruction) {
        let module = self.module;
        let operands = body.operands(instruction);
        let span = instruction.span();
        // (results), callee, (arguments), list: the lists in parentheses may each be missing.
        let callee = operands
            .iter()
            .position(|it| !matches!(it.kind, OperandKind::Arguments(_)));
        let Some(callee) = callee else {
            self.error(span, "Call target not recognized");
            return;
        };
        let list = |operand: Option<&Operand>| match operand.map(|it| it.kind) {
            Some(OperandKind::Arguments(parts)) => body.parts(parts),
            _ => &[],
        };
        let results = if callee > 0 {
            list(operands.first())
        } else {
            &[]
        };
        let arguments = list(operands.get(callee + 1));
        let prototype = operands[callee + 1..].iter().find_map(|it| match it.kind {
            OperandKind::List(id) => Some(&body.lists[id.index()].kind),
            _ => None,
        });
        match operands[callee].kind {
            OperandKind::Function(id) => {
                let target = module.function(id);
                if prototype.is_some() {
                    self.error(
                        operands[callee].span,
                        "Argument 1 of instruction 'call': must be register",
                    );
                }
                if target.entry {
                    self.error(
                        operands[callee].span,
                        "Illegal call target, device function expected",
                    );
                    return;
                }
                self.arguments(body, span, results, &target.returns);
                self.arguments(body, span, arguments, &target.parameters);
            }
            OperandKind::Register(_) => match prototype {
                Some(TargetListKind::Prototype(prototype)) => {
                    self.arguments(body, span, results, &prototype.returns);
                    self.arguments(body, span, arguments, &prototype.parameters);
                }
                Some(TargetListKind::Call(functions)) => {
                    if let Some(first) = functions.first() {
                        let target = module.function(*first);
                        self.arguments(body, span, results, &target.returns);
                        self.arguments(body, span, arguments, &target.parameters);
                    }
                }
                _ => self.error(operands[callee].span, "Call target not recognized"),
            },
            _ => {}
        }
    }

    fn arguments(&mut self, body: &Body, span: Span, given: &[Operand], formal: &[VariableId]) {
        let module = self.module;
        if given.len() != formal.len() {
            self.error(span, "Call has wrong number of parameters");
            return;
        }
        for (operand, id) in given.iter().zip(formal) {
            let formal = module.variable(*id);
            let name = module.name(formal.name);
            let fits = match operand.kind {
                OperandKind::Sink | OperandKind::Error => true,
                OperandKind::Variable(id, _) => {
                    let actual = module.variable(id);
                    if actual.space == Space::Param && alignment(actual) != alignment(formal) {
                        self.error(
                            operand.span,
                            format!(
                                "Alignment of argument does not match formal parameter '{name}'"
                            ),
                        );
                    }
                    actual.space == Space::Param
                        && actual.bytes() == formal.bytes()
                        && actual.dimensions.is_empty() == formal.dimensions.is_empty()
                }
                OperandKind::Register(register) => {
                    let register = &body.registers[register.index()];
                    formal.dimensions.is_empty() && passes_for(register.ty, formal.ty)
                }
                OperandKind::Signed(_) | OperandKind::Unsigned(_) => matches!(
                    formal.ty.class(),
                    TypeClass::Unsigned | TypeClass::Signed | TypeClass::Bits
                ),
                OperandKind::Single(_) => {
                    matches!(formal.ty, Type::F32 | Type::F64 | Type::B32)
                }
                OperandKind::Double(_) => {
                    matches!(formal.ty, Type::F32 | Type::F64 | Type::B64)
                }
                _ => false,
            };
            if !fits {
                self.error(
                    operand.span,
                    format!("Type of argument does not match formal parameter '{name}'"),
                );
            }
        }
    }
}
