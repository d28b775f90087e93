//! Parameters and results of functions, entries and prototypes, and the registers and `.param` variables that are passed
//! for them: which types they may be declared with.

use super::Checker;
use crate::ast::{
    Body, Function, FunctionDirectiveKind, Space, Statement, TargetListKind, TargetOption,
    Variable, VariableId,
};
use crate::diagnostic::Span;
use crate::types::{Type, TypeClass};

/// The widest vector, in bits.
const WIDEST_VECTOR: u32 = 128;

impl Checker<'_, '_> {
    /// The parameters of a function and what its body declares to pass.
    pub(super) fn parameters(&mut self, function: &Function) {
        let module = self.module;
        self.lists(&function.returns, &function.parameters, function.entry);
        for &id in function.returns.iter().chain(&function.parameters) {
            let parameter = module.variable(id);
            let text = module.name(parameter.name);
            if !function.entry && parameter.space == Space::Param {
                self.passed_in_memory(parameter);
            }
            if function.entry && parameter.space == Space::Reg {
                self.error(
                    parameter.span,
                    format!("Entry parameter '{text}' must have .param state space"),
                );
            }
            if function.body.is_some() {
                self.in_parameter_space(parameter);
            }
            if !function.entry && parameter.pointer.is_some() {
                self.error(
                    parameter.span,
                    "Illegal placement of kernel parameter attribute",
                );
            }
            self.managed(parameter);
        }
        if let Some(body) = &function.body {
            self.passed_variables(body);
        }
    }

    /// Functions before PTX 2.0 pass registers only.
    fn passed_in_memory(&mut self, parameter: &Variable) {
        if (1..20).contains(&self.module.version) {
            let name = self.module.name(parameter.name);
            let message = format!("Function parameter '{name}' has illegal state space");
            self.error(parameter.span, message);
        }
    }

    /// A texture, sampler or surface is a parameter of kernels only.
    fn reference(&mut self, parameter: &Variable, entry: bool) {
        let name = self.module.name(parameter.name);
        if !entry {
            let message = format!("Variable '{name}' cannot be allocated in .param state space");
            self.error(parameter.span, message);
        }
        let independent = self
            .module
            .target_options
            .contains(&TargetOption::TexmodeIndependent);
        if parameter.ty == Type::Samplerref && !independent {
            self.error(
                parameter.span,
                "Instruction or declaration violates .target texmode_unified setting",
            );
        }
    }

    /// Rules that hold for prototypes, too.
    fn lists(&mut self, returns: &[VariableId], parameters: &[VariableId], entry: bool) {
        let module = self.module;
        for &id in returns.iter().chain(parameters) {
            let parameter = module.variable(id);
            self.vector_type(parameter.span, parameter.ty, parameter.vector);
            let array = parameter.vector > 1 || !parameter.dimensions.is_empty();
            if parameter.ty == Type::Pred && parameter.space != Space::Reg && !array {
                let text = module.name(parameter.name);
                self.error(
                    parameter.span,
                    format!("Predicate variable '{text}' must be in register state space"),
                );
            }
            if parameter.ty == Type::Pred && !parameter.dimensions.is_empty() {
                self.error(
                    parameter.span,
                    "Predicate type can only be used to define scalar register variables",
                );
            }
            if parameter.ty.class() == TypeClass::Opaque {
                self.reference(parameter, entry);
            }
            if !entry {
                self.parameter_alignment(parameter);
            }
        }
        let in_memory = |id: &&VariableId| module.variable(**id).space != Space::Reg;
        if let (Some(id), true) = (returns.iter().find(in_memory), returns.len() > 1) {
            let message = "Multiple return parameters require .register state space";
            self.error(module.variable(*id).span, message);
        }
        let is_open = |id: &VariableId| module.variable(*id).dimensions.contains(&0);
        for id in returns.iter().filter(|id| is_open(id)) {
            let message = "Output parameter cannot be an incomplete array.";
            self.error(module.variable(*id).span, message);
        }
        for (at, id) in parameters.iter().enumerate().filter(|(_, id)| is_open(id)) {
            let message = if entry {
                "Parameter to entry function cannot be an incomplete array."
            } else if at + 1 < parameters.len() {
                "Only the last input parameter can be an incomplete array."
            } else {
                continue;
            };
            self.error(module.variable(*id).span, message);
        }
    }

    /// Registers, variables in parameter space and prototypes that a body declares.
    fn passed_variables(&mut self, body: &Body) {
        let module = self.module;
        for declaration in &body.declarations {
            self.vector_type(declaration.span, declaration.ty, declaration.vector);
        }
        for statement in &body.statements {
            if let Statement::Variable(id) = statement {
                self.in_parameter_space(module.variable(*id));
            }
        }
        for list in &body.lists {
            if let TargetListKind::Prototype(prototype) = &list.kind {
                self.lists(&prototype.returns, &prototype.parameters, false);
                let mut directives = prototype.directives.iter();
                if let (Some(directive), false) = (
                    directives.find(|it| it.kind == FunctionDirectiveKind::NoReturn),
                    prototype.returns.is_empty(),
                ) {
                    let message = "Invalid directive '.noreturn' for function 'protoype with return parameters'";
                    self.error(directive.span, message);
                }
            }
        }
    }

    fn vector_type(&mut self, span: Span, ty: Type, vector: u8) {
        if vector <= 1 {
            return;
        }
        if ty == Type::Pred {
            self.error(
                span,
                "Predicate type can only be used to define scalar register variables",
            );
        } else if ty.bits() * u32::from(vector) > WIDEST_VECTOR {
            self.error(span, "Vector type too large, exceeds 128 bit limit");
        }
    }

    /// Parameter space has single numbers and arrays, but no single vectors.
    fn in_parameter_space(&mut self, variable: &Variable) {
        let single = variable.dimensions.is_empty();
        let several = variable.vector > 1 || variable.ty == Type::F16x2;
        if variable.space == Space::Param && single && several {
            let name = self.module.name(variable.name);
            self.error(
                variable.span,
                format!("Variable '{name}' cannot be allocated in .param state space"),
            );
        }
    }

    /// The bytes that the parameters take, one behind the other.
    pub(super) fn parameter_bytes(&self, parameters: &[VariableId]) -> u64 {
        parameters.iter().fold(0, |total: u64, &id| {
            let parameter = self.module.variable(id);
            let align = u64::from(parameter.alignment());
            total
                .div_ceil(align)
                .saturating_mul(align)
                .saturating_add(super::variables::size(parameter))
        })
    }
}
