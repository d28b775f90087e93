//! From statements to steps.
//!
//! [`Decoder::step`] looks at an instruction's name and hands it to the family it belongs to. What none of them takes is
//! "not supported yet", with the opcode as it is written.

mod bulk;
mod control;
mod mbarrier;
mod memory;
mod movement;
mod operands;
mod policy;
mod texture;
mod warp;

use crate::compute;
use crate::error::{LoadError, line_of};
use crate::program::{Layout, Place};
use crate::step::{Action, Destination, OPERANDS, Source, Step};
use orias_ptx::Module;
use orias_ptx::ast::{Body, Function, Instruction, LabelId, Operand, Statement};
use orias_ptx::grammar::OperandName;
use orias_ptx::grammar::{Access, Modifier, Op};
use orias_ptx::opcode::{Form, Pattern, PatternKind};

pub(crate) use operands::Registers;

/// What is known while a function is decoded.
pub(crate) struct Decoder<'m, 'a> {
    pub module: &'m Module<'a>,
    pub layout: &'m Layout,
    pub function: &'m Function,
    pub body: &'m Body,
    pub registers: &'m Registers,
    /// The step each label stands before.
    labels: Vec<Option<usize>>,
}

/// One instruction with everything the tables say about it.
pub(super) struct Statics<'m> {
    instruction: &'m Instruction,
    op: Op,
    form: &'m Form,
    patterns: &'m [Pattern],
    operands: &'m [Operand],
}

impl<'m> Statics<'m> {
    /// The operand that the row calls `name`, with its pattern.
    fn named(&self, name: OperandName) -> Option<(&'m Pattern, &'m Operand)> {
        let pairs = self.patterns.iter().zip(self.operands);
        pairs.into_iter().find(|(pattern, _)| pattern.is(name))
    }

    fn has(&self, modifier: Modifier) -> bool {
        self.form.has(modifier)
    }
}

impl<'m, 'a> Decoder<'m, 'a> {
    /// A decoder for a function's body.
    pub fn new(
        module: &'m Module<'a>,
        layout: &'m Layout,
        function: &'m Function,
        body: &'m Body,
        registers: &'m Registers,
    ) -> Self {
        let mut labels = vec![None; body.labels.len()];
        let mut steps = 0;
        for statement in &body.statements {
            match statement {
                Statement::Label(id) => labels[id.index()] = Some(steps),
                Statement::Instruction(_) => steps += 1,
                _ => {}
            }
        }
        Self {
            module,
            layout,
            function,
            body,
            registers,
            labels,
        }
    }

    /// The steps of the body; a function that runs off its end returns.
    pub fn steps(&self) -> Result<Vec<Step>, LoadError> {
        let mut steps = Vec::with_capacity(self.body.instructions.len() + 1);
        for statement in &self.body.statements {
            if let Statement::Instruction(id) = statement {
                steps.push(self.step(&self.body.instructions[id.index()])?);
            }
        }
        steps.push(Step {
            guard: None,
            action: Action::Return,
            span: self.function.span,
        });
        Ok(steps)
    }

    fn step(&self, instruction: &'m Instruction) -> Result<Step, LoadError> {
        let op = self.module.opcode(instruction).op;
        let op = op.ok_or_else(|| self.invalid(instruction, "an unknown instruction"))?;
        let form = self.module.form(instruction);
        let shape = form.shapes.get(instruction.shape as usize);
        let shape = shape.ok_or_else(|| self.invalid(instruction, "operands that fit no form"))?;
        let statics = Statics {
            instruction,
            op,
            form,
            patterns: &shape.operands,
            operands: self.body.operands(instruction),
        };
        let guard = instruction
            .guard
            .get()
            .map(|(register, negated)| (self.registers.slot(register), !negated));
        // What is not covered stops the thread that comes there, not the kernels beside it.
        let action = match self.action(&statics) {
            Err(LoadError::Unsupported { what, .. }) => Action::Unsupported(what),
            action => action?,
        };
        Ok(Step {
            guard,
            action,
            span: instruction.span(),
        })
    }

    fn action(&self, it: &Statics<'m>) -> Result<Action, LoadError> {
        let families = [
            Self::movement,
            Self::memory,
            Self::control,
            Self::mbarriers,
            Self::bulk,
            Self::images,
            Self::warp,
            Self::compute,
        ];
        for family in families {
            if let Some(action) = family(self, it)? {
                return Ok(action);
            }
        }
        Err(self.unsupported(it.instruction))
    }

    /// An instruction that computes results from operands.
    fn compute(&self, it: &Statics<'m>) -> Result<Option<Action>, LoadError> {
        let mut sources = Vec::new();
        let mut results = [None; 2];
        let mut written = 0;
        let mut selectors = Vec::new();
        for (pattern, operand) in it.patterns.iter().zip(it.operands) {
            let (operand, selector) = self.unsuffixed(operand);
            selectors.push(selector);
            let parts = match &pattern.kind {
                PatternKind::Pair(both, _) => match self.pair(operand) {
                    Some([first, second]) => vec![(&both[0], first), (&both[1], second)],
                    None => vec![(&both[0], operand)],
                },
                PatternKind::Value(_) => vec![(pattern, operand)],
                _ => return Ok(None),
            };
            for (pattern, operand) in parts {
                let PatternKind::Value(value) = &pattern.kind else {
                    return Ok(None);
                };
                if pattern.access == Access::Read {
                    if matches!(operand.kind, orias_ptx::ast::OperandKind::Negated(_)) {
                        return Ok(None);
                    }
                    sources.push(self.source(it, operand, value.ty)?);
                } else if written < results.len() {
                    results[written] = self.destination(it, operand, value.ty)?;
                    written += 1;
                }
            }
        }
        let Some(function) = compute::definition(it.op, it.form, &selectors) else {
            return Ok(None);
        };
        if matches!(it.op, Op::Addc | Op::Subc | Op::MadcLo | Op::MadcHi) {
            sources.push(Source::Carry);
        }
        if sources.len() > OPERANDS {
            return Ok(None);
        }
        Ok(Some(Action::Compute {
            function,
            sources,
            results,
            carry: it.has(Modifier::Cc),
        }))
    }

    /// The step a label stands before.
    fn target(&self, it: &Statics<'_>, label: LabelId) -> Result<usize, LoadError> {
        self.labels[label.index()]
            .ok_or_else(|| self.invalid(it.instruction, "a label that stands nowhere"))
    }

    /// Where a variable is.
    fn place(&self, variable: orias_ptx::ast::VariableId) -> Place {
        self.layout.place(variable)
    }

    fn result(
        &self,
        it: &Statics<'m>,
        name: OperandName,
    ) -> Result<Option<Destination>, LoadError> {
        match it.named(name) {
            Some((
                Pattern {
                    kind: PatternKind::Value(value),
                    ..
                },
                operand,
            )) => self.destination(it, operand, value.ty),
            _ => Err(self.unsupported(it.instruction)),
        }
    }

    fn value(&self, it: &Statics<'m>, name: OperandName) -> Result<Source, LoadError> {
        self.optional_value(it, name)?
            .ok_or_else(|| self.unsupported(it.instruction))
    }

    fn optional_value(
        &self,
        it: &Statics<'m>,
        name: OperandName,
    ) -> Result<Option<Source>, LoadError> {
        match it.named(name) {
            None => Ok(None),
            Some((
                Pattern {
                    kind: PatternKind::Value(value),
                    ..
                },
                operand,
            )) => self.source(it, operand, value.ty).map(Some),
            Some(_) => Err(self.unsupported(it.instruction)),
        }
    }

    fn line(&self, instruction: &Instruction) -> usize {
        line_of(self.module.source, instruction.span())
    }

    fn unsupported(&self, instruction: &Instruction) -> LoadError {
        let opcode = self.module.opcode(instruction);
        LoadError::Unsupported {
            what: format!("'{}' in the interpreter", self.module.name(opcode.name)),
            line: self.line(instruction),
        }
    }

    fn unsupported_because(&self, instruction: &Instruction, why: &str) -> LoadError {
        let opcode = self.module.opcode(instruction);
        LoadError::Unsupported {
            what: format!(
                "'{}' {why} in the interpreter",
                self.module.name(opcode.name)
            ),
            line: self.line(instruction),
        }
    }

    fn invalid(&self, instruction: &Instruction, what: &str) -> LoadError {
        LoadError::Invalid {
            what: what.to_owned(),
            line: self.line(instruction),
        }
    }
}
