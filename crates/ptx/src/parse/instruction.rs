//! Instructions: guard, opcode, operands, and the row they fit.

use super::scope::Binding;
use super::{Parsed, Parser};
use crate::ast::{Guard, Instruction, InstructionId, OpcodeId, Operand, Statement};
use crate::diagnostic::{Diagnostic, Span};
use crate::fit::{Context, Misfit, Reason};
use crate::grammar::Op;
use crate::lex::TokenKind;
use crate::opcode;
use crate::types::Type;

impl Parser<'_> {
    pub(super) fn instruction(&mut self) -> Parsed<()> {
        let start = self.token.start;
        let guard = if self.token.is(b'@') {
            self.guard()?
        } else {
            Guard::ALWAYS
        };
        if self.token.kind != TokenKind::Word {
            return Err(self.unexpected("an instruction"));
        }
        let opcode_start = self.token.start;
        let (opcode, opcode_end) = self.opcode();
        let is_call = self.module.opcodes[opcode.index()].op == Some(Op::Call);
        self.function.scratch.clear();
        if !self.token.is(b';') {
            if is_call {
                self.call_operands()?;
            } else {
                self.operands()?;
            }
        }
        self.expect(b';')?;

        let count = self.function.scratch.len();
        let first = self.function.body.operands.len() as u32;
        self.finish_operands(first);
        let mut instruction = Instruction {
            opcode,
            operands: first,
            operand_count: count.min(u8::MAX as usize) as u8,
            form: 0,
            shape: 0,
            guard,
            start,
            opcode_start,
            end: self.last_end,
        };
        self.fit(&mut instruction, opcode_end, count);
        let id = InstructionId(self.function.body.instructions.len() as u32);
        self.function.body.instructions.push(instruction);
        self.function
            .body
            .statements
            .push(Statement::Instruction(id));
        Ok(())
    }

    fn guard(&mut self) -> Parsed<Guard> {
        self.advance();
        let negated = self.eat(b'!');
        let token = self.name("a predicate")?;
        let name = self.intern(token);
        match self.lookup(name) {
            Binding::Register(register) => {
                let ty = self.function.body.registers[register.index()].ty;
                if ty != Type::Pred {
                    let text = self.shown(token);
                    self.report(
                        Diagnostic::error(
                            token.span(),
                            format!("Guard '{text}' is not a predicate"),
                        )
                        .expected("a .pred register"),
                    );
                }
                Ok(Guard::new(register, negated))
            }
            Binding::Unbound => {
                self.unknown_symbol(name, token.span());
                Ok(Guard::ALWAYS)
            }
            _ => {
                let text = self.shown(token);
                self.report(
                    Diagnostic::error(token.span(), format!("Guard '{text}' is not a predicate"))
                        .expected("a .pred register"),
                );
                Ok(Guard::ALWAYS)
            }
        }
    }

    /// Reads an opcode and looks it up, matching it with the tables when it is new.
    #[inline]
    fn opcode(&mut self) -> (OpcodeId, u32) {
        let start = self.token.start;
        let mut end = self.lexer.opcode_end();
        self.last_end = end;
        self.token = self.lexer.next_token();
        while self.token.kind == TokenKind::Dotted {
            // `add .s32`: a blank inside an opcode.
            end = self.token.end;
            self.advance();
        }
        let text = &self.source[start as usize..end as usize];
        let name = self.module.names.intern(text);
        let known = self.opcode_of.get(name.index()).copied().unwrap_or(0);
        if known != 0 {
            return (OpcodeId(known - 1), end);
        }
        let id = OpcodeId(self.module.opcodes.len() as u32);
        self.module.opcodes.push(opcode::resolve(name, text));
        if self.opcode_of.len() <= name.index() {
            self.opcode_of
                .resize((name.index() + 1).next_power_of_two(), 0);
        }
        self.opcode_of[name.index()] = id.0 + 1;
        (id, end)
    }

    /// Finds the first form and shape that the operands fit.
    #[inline]
    fn fit(&mut self, instruction: &mut Instruction, opcode_end: u32, count: usize) {
        let opcode = &self.module.opcodes[instruction.opcode.index()];
        let opcode_span = Span::new(instruction.opcode_start, opcode_end);
        if let Some(problem) = &opcode.problem {
            let mut diagnostic = Diagnostic::error(opcode_span, problem.message.clone());
            diagnostic.suggestion.clone_from(&problem.suggestion);
            self.diagnostics.push(diagnostic);
            return;
        }
        let context = Context {
            body: &self.function.body,
            variables: &self.module.variables,
            elements: opcode.elements,
            address: opcode.address,
        };
        let first = instruction.operands as usize;
        let operands: &[Operand] = &context.body.operands[first..first + count];
        let mut best: Option<Misfit> = None;
        for (form_index, form) in opcode.forms.iter().enumerate() {
            for (shape_index, shape) in form.shapes.iter().enumerate() {
                match context.fits(operands, shape, opcode_span) {
                    Ok(()) => {
                        instruction.form = form_index as u8;
                        instruction.shape = shape_index as u8;
                        return;
                    }
                    Err(misfit) => {
                        if best
                            .as_ref()
                            .is_none_or(|best| misfit.progress > best.progress)
                            || matches!(
                                misfit.reason,
                                Reason::PredicateElement | Reason::SpecialResult
                            )
                        {
                            best = Some(misfit);
                        }
                    }
                }
            }
        }
        let op = opcode.op.map_or("", Op::name);
        if let Some(misfit) = best {
            let diagnostic = explain(op, &misfit);
            self.diagnostics.push(diagnostic);
        }
    }
}

/// The message for operands that fit no shape.
pub(crate) fn explain(op: &str, misfit: &Misfit) -> Diagnostic {
    let mismatch = format!("Arguments mismatch for instruction '{op}'");
    let error = |message: String| Diagnostic::error(misfit.span, message);
    match &misfit.reason {
        Reason::Count(wanted) => error(mismatch).expected(match wanted {
            0 => "no operand".to_owned(),
            1 => "1 operand".to_owned(),
            _ => format!("{wanted} operands"),
        }),
        Reason::Kind(wanted) => error(mismatch).expected(wanted.clone()),
        Reason::Type(Type::Pred, wanted) => error(format!(
            "A predicate is not a value of type {wanted} for instruction '{op}'"
        )),
        Reason::Type(Type::F16x2, Type::Pred) => error(format!(
            "A pair of f16 is not a predicate for instruction '{op}'"
        )),
        Reason::Type(found, wanted) => {
            error(mismatch).expected(format!("type {wanted}, the register is {found}"))
        }
        Reason::Length(low, high) => {
            let wanted = match (low, high) {
                (0 | 1, 1) => "a single value, not a vector".to_owned(),
                (low, high) if low == high => format!("a vector of {low}"),
                (low, high) => format!("a vector of {low} to {high}"),
            };
            error(format!(
                "Argument vector size mismatch for instruction '{op}'"
            ))
            .expected(wanted)
        }
        Reason::Special => error(format!(
            "Special register argument not allowed for instruction '{op}'"
        ))
        .suggest("read it into a register with mov first"),
        Reason::Sink => error(format!(
            "Result discard mode is not allowed for instruction '{op}'"
        )),
        Reason::Space(wanted) => error(format!(
            "State space mismatch between instruction and address in instruction '{op}'"
        ))
        .expected(wanted.clone()),
        Reason::ConstantAddress => {
            error("Immediate addresses allowed only for .local state space".to_owned())
        }
        Reason::AddressType(ty) => error(format!(
            "Illegal to use a register of type {ty} as an address"
        ))
        .expected("an integer or untyped register of at most 64 bits"),
        Reason::Range(low, high) => error(format!("Argument out of range for instruction '{op}'"))
            .expected(format!("a value from {low} to {high}")),
        Reason::Step(step) => error(format!("Argument out of range for instruction '{op}'"))
            .expected(format!("a multiple of {step}")),
        Reason::OneOf(values) => error(format!("Argument out of range for instruction '{op}'"))
            .expected(format!("one of {values:?}")),
        Reason::Elements => error("Incompatible elements of vector expression".to_owned())
            .expected("registers of one width"),
        Reason::Vector => error(format!(
            "Vector is not expected for an argument of instruction '{op}'"
        ))
        .expected("a single value"),
        Reason::PredicateElement => error("A predicate is not an element of a vector".to_owned()),
        Reason::Sum(ty) => error(format!(
            "Arguments mismatch for instruction '{op}': a constant is added to integers of at most 64 bits only, not to a {ty}"
        )),
        Reason::FunctionValue => error(format!(
            "The name of a function is not a value for instruction '{op}'"
        )),
        Reason::SpecialResult => error(format!(
            "A special register is not a result of instruction '{op}'"
        )),
        Reason::Suffix(modifier) => error(format!(
            "Illegal modifier '{modifier}' behind an operand of instruction '{op}'"
        )),
        Reason::SuffixMissing => error(format!(
            "A modifier is missing behind an operand of instruction '{op}'"
        )),
    }
}
