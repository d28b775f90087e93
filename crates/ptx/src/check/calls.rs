//! Calls: the callee exists and the arguments are what it declares.

use super::Checker;
use crate::ast::{
    Body, Function, Instruction, Operand, OperandKind, Register, Space, TargetListKind, Variable,
    VariableId,
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
            let op = module.opcode(instruction).op;
            if op != Some(Op::Call) {
                self.addresses_of_arguments(function, body, instruction);
            }
            match op {
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

    /// What a body declares in parameter space is for calls and has no address.
    fn addresses_of_arguments(
        &mut self,
        function: &Function,
        body: &Body,
        instruction: &Instruction,
    ) {
        for operand in body.operands(instruction) {
            let (OperandKind::Variable(id) | OperandKind::Offset(id, _)) = operand.kind else {
                continue;
            };
            let variable = self.module.variable(id);
            let own = function.parameters.contains(&id) || function.returns.contains(&id);
            if variable.space == Space::Param && !own {
                let name = self.module.name(variable.name);
                let message = format!("Illegal to take address of parameter '{name}'");
                self.error(operand.span, message);
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
        if let OperandKind::AtVariable(id, _) = operand.kind {
            let variable = self.module.variable(id);
            let name = variable.name;
            let same = |id: &VariableId| self.module.variable(*id).name == name;
            // ptxas goes by the name, though a variable of a block hides the parameter.
            if variable.space == Space::Param && forbidden.iter().any(same) {
                let name = self.module.name(name);
                self.error(operand.span, format!("{message} '{name}'"));
            }
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
                self.arguments(body, span, results, &target.returns, Way::Result);
                self.arguments(body, span, arguments, &target.parameters, Way::Argument);
            }
            OperandKind::Register(_) => match prototype {
                Some(TargetListKind::Prototype(prototype)) => {
                    self.arguments(body, span, results, &prototype.returns, Way::Result);
                    self.arguments(body, span, arguments, &prototype.parameters, Way::Argument);
                }
                Some(TargetListKind::Call(functions)) => {
                    for function in functions {
                        let target = module.function(*function);
                        self.arguments(body, span, results, &target.returns, Way::Result);
                        self.arguments(body, span, arguments, &target.parameters, Way::Argument);
                    }
                }
                _ => self.error(operands[callee].span, "Call target not recognized"),
            },
            _ => {}
        }
    }

    fn arguments(
        &mut self,
        body: &Body,
        span: Span,
        given: &[Operand],
        formal: &[VariableId],
        way: Way,
    ) {
        let module = self.module;
        // An array of open length may be left out behind others.
        let open = |id: &VariableId| module.variable(*id).dimensions.first() == Some(&0);
        let least = match formal.last() {
            Some(last) if way == Way::Argument && open(last) => (formal.len() - 1).max(1),
            _ => formal.len(),
        };
        if !(least..=formal.len()).contains(&given.len()) {
            self.error(span, "Call has wrong number of parameters");
            return;
        }
        for (operand, id) in given.iter().zip(formal) {
            let formal = module.variable(*id);
            let name = module.name(formal.name);
            let wanted = PassedShape::of_variable(formal);
            let fits = match operand.kind {
                OperandKind::Error => true,
                OperandKind::Sink if way == Way::Result => true,
                OperandKind::Sink => {
                    self.error(
                        operand.span,
                        format!("Illegal argument for formal parameter '{name}'"),
                    );
                    true
                }
                OperandKind::Variable(id) => {
                    let actual = module.variable(id);
                    if !matches!(actual.space, Space::Param | Space::Reg) {
                        let text = module.name(actual.name);
                        self.error(
                            operand.span,
                            format!("Call argument '{text}' has illegal state space"),
                        );
                        continue;
                    }
                    let given = PassedShape::of_variable(actual);
                    self.same_alignment(operand.span, given, wanted, name);
                    given.passes_for(wanted)
                }
                OperandKind::Register(register) => {
                    let given = PassedShape::of_register(&body.registers[register.index()]);
                    let fits = given.passes_for(wanted);
                    if fits {
                        self.same_alignment(operand.span, given, wanted, name);
                    }
                    fits
                }
                OperandKind::Special(special, _) => {
                    self.error(
                        operand.span,
                        format!("Call argument '{special}' has illegal state space"),
                    );
                    continue;
                }
                OperandKind::Function(id) => {
                    let text = module.name(module.function(id).name);
                    self.error(
                        operand.span,
                        format!("Call argument '{text}' has illegal state space"),
                    );
                    continue;
                }
                kind => way == Way::Argument && wanted.takes_constant(kind),
            };
            if !fits {
                self.error(
                    operand.span,
                    format!("Type of argument does not match formal parameter '{name}'"),
                );
            }
        }
    }

    fn same_alignment(&mut self, span: Span, given: PassedShape, wanted: PassedShape, name: &str) {
        if given.alignment != wanted.alignment {
            self.error(
                span,
                format!("Alignment of argument does not match formal parameter '{name}'"),
            );
        }
    }
}

/// Which way a value goes in a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Argument,
    Result,
}

/// What decides whether one variable or register may be passed for another.
#[derive(Clone, Copy)]
struct PassedShape {
    ty: Type,
    vector: u8,
    /// How many dimensions it has as an array.
    dimensions: usize,
    /// All bytes; none for an array of open length.
    bytes: Option<u64>,
    alignment: u32,
}

impl PassedShape {
    fn of_variable(variable: &Variable) -> Self {
        let natural = variable.element_bytes().clamp(1, 128) as u32;
        Self {
            ty: variable.ty,
            vector: variable.vector.max(1),
            dimensions: variable.dimensions.len(),
            bytes: (variable.dimensions.first() != Some(&0)).then(|| variable.bytes()),
            alignment: variable.alignment().max(natural),
        }
    }

    fn of_register(register: &Register) -> Self {
        let vector = register.vector.max(1);
        let bytes = u64::from(register.ty.bits().div_ceil(8)) * u64::from(vector);
        Self {
            ty: register.ty,
            vector,
            dimensions: 0,
            bytes: Some(bytes),
            alignment: bytes as u32,
        }
    }

    /// Whether it counts as so many bits without type: vectors do, and pairs of halves.
    fn is_untyped(self) -> bool {
        self.vector > 1 || self.ty == Type::F16x2 || self.ty.class() == TypeClass::Bits
    }

    /// Whether this may be passed where `formal` is declared. Single values need the same size, and the same kind of
    /// number unless one of them has no type. Arrays need the same size unless the formal's length is open, and the same
    /// type of elements unless one of them is of untyped bits; arrays of vectors are never passed.
    fn passes_for(self, formal: Self) -> bool {
        if self.dimensions != formal.dimensions || self.dimensions > 1 {
            return false;
        }
        if formal.bytes.is_some() && self.bytes != formal.bytes {
            return false;
        }
        if self.dimensions == 1 {
            let whole = |it: Self| it.vector == 1 && it.ty != Type::F16x2;
            let untyped = |it: Self| it.ty.class() == TypeClass::Bits;
            return whole(self)
                && whole(formal)
                && (self.ty == formal.ty || untyped(self) || untyped(formal));
        }
        let is_predicate = |it: Self| it.ty == Type::Pred;
        if is_predicate(self) || is_predicate(formal) {
            return is_predicate(self) && is_predicate(formal);
        }
        let is_integer =
            |it: Self| matches!(it.ty.class(), TypeClass::Unsigned | TypeClass::Signed);
        self.is_untyped() || formal.is_untyped() || is_integer(self) == is_integer(formal)
    }

    /// Whether a constant may be passed. For a vector it must have as many bits: integers and doubles have 64.
    fn takes_constant(self, kind: OperandKind) -> bool {
        let integer = matches!(kind, OperandKind::Signed(_) | OperandKind::Unsigned(_));
        let bytes = match kind {
            OperandKind::Single(_) => 4,
            OperandKind::Signed(_) | OperandKind::Unsigned(_) | OperandKind::Double(_) => 8,
            _ => return false,
        };
        if self.dimensions > 0 {
            return false;
        }
        if self.vector > 1 || self.ty == Type::F16x2 {
            return self.bytes == Some(bytes);
        }
        match self.ty.class() {
            TypeClass::Bits => true,
            TypeClass::Unsigned | TypeClass::Signed => integer,
            TypeClass::Float => !integer,
            _ => false,
        }
    }
}
