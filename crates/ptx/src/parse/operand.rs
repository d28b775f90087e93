//! Operands, read without looking at the tables: what they are shows in their first token.
//!
//! Operands with parts are written to the pool bottom-up: while a part list is open its members wait on a scratch stack,
//! and when it closes they move to the pool together, so that the parts of one operand lie side by side. The nesting is
//! that of the grammar (a vector inside brackets), not of the input.

use super::function::LabelUse;
use super::scope::Binding;
use super::{Parsed, Parser};
use crate::ast::{Constant, LabelId, Operand, OperandKind, Parts, RegisterId, VariableId};
use crate::diagnostic::{Diagnostic, Span};
use crate::grammar::Modifier;
use crate::lex::{Token, TokenKind};
use crate::name::Name;
use crate::special::Special;

/// A label operand that waits for its label: the name's position in the source stands in for the label.
const PENDING: LabelId = LabelId(u32::MAX);

/// More operands than any instruction has in one list.
const MAX_PARTS: usize = 512;

impl Parser<'_> {
    /// What a name means here.
    #[inline]
    pub(super) fn lookup(&mut self, name: Name) -> Binding {
        let bound = self.scopes.get(name);
        if bound != Binding::Unbound && !self.scopes.hidden_by_range(&self.module.names, name) {
            return bound;
        }
        match self.scopes.range_register(
            &self.module.names,
            name,
            &mut self.function.body.registers,
        ) {
            Some(register) => Binding::Register(register),
            None => bound,
        }
    }

    /// A list of operands up to the semicolon.
    pub(super) fn operands(&mut self) -> Parsed<()> {
        loop {
            let operand = self.operand()?;
            self.push_operand(operand)?;
            if !self.eat(b',') {
                return Ok(());
            }
        }
    }

    /// `(result), function, (arguments), prototype`
    pub(super) fn call_operands(&mut self) -> Parsed<()> {
        loop {
            let start = self.token.start;
            let operand = if self.eat(b'(') {
                let base = self.function.scratch.len();
                if !self.token.is(b')') {
                    loop {
                        let operand = self.operand()?;
                        self.push_operand(operand)?;
                        if !self.eat(b',') {
                            break;
                        }
                    }
                }
                self.expect(b')')?;
                let parts = self.close_parts(base);
                Operand {
                    kind: OperandKind::Arguments(parts),
                    span: Span::new(start, self.last_end),
                }
            } else {
                self.operand()?
            };
            self.push_operand(operand)?;
            if !self.eat(b',') {
                return Ok(());
            }
        }
    }

    #[inline]
    fn push_operand(&mut self, operand: Operand) -> Parsed<()> {
        if self.function.scratch.len() >= MAX_PARTS {
            return Err(self.fail(Diagnostic::error(
                operand.span,
                "Too many operands for an instruction",
            )));
        }
        self.function.scratch.push(operand);
        Ok(())
    }

    /// Moves the operands of a statement to the pool, where `first` is their place.
    #[inline]
    pub(super) fn finish_operands(&mut self, first: u32) {
        let count = self.function.scratch.len();
        self.close_parts(0);
        debug_assert_eq!(self.function.body.operands.len(), first as usize + count);
    }

    /// Moves the scratch operands from `base` on to the pool. Labels among them learn where they will be filled in.
    fn close_parts(&mut self, base: usize) -> Parts {
        let first = self.function.body.operands.len() as u32;
        let count = (self.function.scratch.len() - base) as u16;
        for at in base..self.function.scratch.len() {
            let operand = self.function.scratch[at];
            if operand.kind == OperandKind::Label(PENDING) {
                let token = Token {
                    kind: TokenKind::Word,
                    start: operand.span.start,
                    end: operand.span.end,
                };
                let place = self.function.body.operands.len() as u32;
                self.use_label(token, LabelUse::Operand(place));
            }
            self.function.body.operands.push(operand);
        }
        self.function.scratch.truncate(base);
        Parts { first, count }
    }

    /// One operand with what may follow it: `|second`, `.suffix`.
    fn operand(&mut self) -> Parsed<Operand> {
        let start = self.token.start;
        let operand = self.simple_operand()?;
        let operand = self.suffixes(operand)?;
        if !self.token.is(b'|') {
            return Ok(operand);
        }
        if matches!(operand.kind, OperandKind::Component(..)) {
            return Err(self.unexpected("','"));
        }
        self.advance();
        let base = self.function.scratch.len();
        self.push_operand(operand)?;
        let second = self.simple_operand()?;
        self.push_operand(second)?;
        let parts = self.close_parts(base);
        Ok(Operand {
            kind: OperandKind::Pair(parts.first),
            span: Span::new(start, self.last_end),
        })
    }

    fn suffixes(&mut self, mut operand: Operand) -> Parsed<Operand> {
        while self.token.kind == TokenKind::Dotted {
            let token = self.token;
            let text = std::str::from_utf8(&self.current()[1..]).unwrap_or_default();
            let Some(modifier) = Modifier::from_name(text) else {
                let text = self.shown(token);
                return Err(self.fail(Diagnostic::error(
                    token.span(),
                    format!("Unknown modifier '{text}'"),
                )));
            };
            self.advance();
            let inner = self.function.body.operands.len() as u32;
            self.function.body.operands.push(operand);
            operand = Operand {
                kind: OperandKind::Suffixed(inner, modifier),
                span: Span::new(operand.span.start, token.end),
            };
        }
        Ok(operand)
    }

    #[inline]
    fn simple_operand(&mut self) -> Parsed<Operand> {
        let start = self.token.start;
        let kind = match self.token.kind {
            TokenKind::Word => self.named_operand()?,
            TokenKind::Punctuation(b'[') => self.bracket()?,
            TokenKind::Punctuation(b'{') => self.vector()?,
            TokenKind::Punctuation(sign @ (b'!' | b'-')) if self.register_follows() => {
                self.advance();
                let register = self.register()?;
                if sign == b'!' {
                    OperandKind::Not(register)
                } else {
                    OperandKind::Negated(register)
                }
            }
            _ if self.at_constant() => constant_operand(self.constant()?),
            _ => return Err(self.unexpected("an operand")),
        };
        Ok(Operand {
            kind,
            span: Span::new(start, self.last_end),
        })
    }

    /// Whether a word other than a constant's name follows the current sign.
    fn register_follows(&self) -> bool {
        let mut ahead = self.lexer.clone();
        let token = ahead.next_token();
        token.kind == TokenKind::Word && self.bytes(token) != b"WARP_SZ"
    }

    fn register(&mut self) -> Parsed<RegisterId> {
        let token = self.name("a register")?;
        let name = self.intern(token);
        match self.lookup(name) {
            Binding::Register(register) => Ok(register),
            Binding::Unbound => {
                self.unknown_symbol(name, token.span());
                Err(super::GivenUp)
            }
            _ => {
                let text = self.shown(token);
                Err(self.fail(
                    Diagnostic::error(token.span(), format!("'{text}' is not a register"))
                        .expected("a register"),
                ))
            }
        }
    }

    #[inline]
    fn named_operand(&mut self) -> Parsed<OperandKind> {
        let token = self.token;
        let name = self.intern(token);
        match self.lookup(name) {
            Binding::Register(register) => {
                self.advance();
                let vector = self.function.body.registers[register.index()].vector;
                if vector > 1 && self.token.kind == TokenKind::Dotted {
                    return self.component(register, vector);
                }
                let kind = OperandKind::Register(register);
                if vector <= 1 && self.token.is(b'+') {
                    return self.sum(kind, token.span());
                }
                Ok(kind)
            }
            Binding::Variable(variable) => {
                self.advance();
                self.variable_operand(variable)
            }
            Binding::Function(function) => {
                self.advance();
                Ok(OperandKind::Function(function))
            }
            Binding::List(list) => {
                self.advance();
                Ok(OperandKind::List(list))
            }
            Binding::Unbound => self.free_name(token, name),
        }
    }

    /// `%r+4`: what stands before the sign, and a constant.
    fn sum(&mut self, first: OperandKind, span: Span) -> Parsed<OperandKind> {
        self.advance();
        let constant = self.integer_constant("a constant")?;
        let inner = self.function.body.operands.len() as u32;
        self.function
            .body
            .operands
            .push(Operand { kind: first, span });
        Ok(OperandKind::Sum(inner, constant))
    }

    fn component(&mut self, register: RegisterId, vector: u8) -> Parsed<OperandKind> {
        let index = component_index(self.current());
        match index.filter(|&index| index < vector) {
            Some(index) => {
                self.advance();
                Ok(OperandKind::Component(register, index))
            }
            None => Ok(OperandKind::Register(register)),
        }
    }

    /// A name that nothing declares: `_`, a special register, a constant's name, or a label.
    fn free_name(&mut self, token: Token, name: Name) -> Parsed<OperandKind> {
        let text = self.current();
        if text == b"_" {
            self.advance();
            return Ok(OperandKind::Sink);
        }
        if text == b"WARP_SZ" {
            return Ok(constant_operand(self.constant()?));
        }
        if text[0] == b'%' {
            let Some(special) = Special::from_name(text) else {
                self.unknown_register(name, token.span());
                self.advance();
                if self.token.kind == TokenKind::Dotted && component_index(self.current()).is_some()
                {
                    self.advance();
                }
                return Ok(OperandKind::Error);
            };
            self.advance();
            let mut component = u8::MAX;
            if self.token.kind == TokenKind::Dotted {
                match component_index(self.current()) {
                    Some(index) if special.register().vector => {
                        component = index;
                        self.advance();
                    }
                    _ => {
                        let at = self.token;
                        let text = self.shown(at);
                        return Err(self.fail(Diagnostic::error(
                            at.span(),
                            format!("Unknown field '{text}'"),
                        )));
                    }
                }
            }
            let kind = OperandKind::Special(special, component);
            if !special.register().vector && self.token.is(b'+') {
                return self.sum(kind, token.span());
            }
            return Ok(kind);
        }
        self.advance();
        Ok(OperandKind::Label(PENDING))
    }

    fn unknown_register(&mut self, name: Name, span: Span) {
        let text = self.module.names.text(name);
        let mut diagnostic = Diagnostic::error(span, format!("Unknown symbol '{text}'"));
        let specials = crate::special::SPECIAL_REGISTERS.iter().map(|it| it.name);
        let prefix = text.trim_end_matches(|c: char| c.is_ascii_digit());
        let range = self
            .function
            .body
            .declarations
            .iter()
            .rev()
            .take(200)
            .find(|it| it.count.is_some() && self.module.names.text(it.name) == prefix);
        if let Some(range) = range {
            let count = range.count.unwrap_or(0);
            diagnostic = diagnostic.suggest(format!(
                "only {prefix}0 to {prefix}{} are declared",
                count.saturating_sub(1)
            ));
        } else if let Some(near) = crate::diagnostic::nearest(text, specials) {
            diagnostic = diagnostic.suggest(format!("did you mean '{near}'?"));
        }
        self.report(diagnostic);
    }

    /// `name`, `name+4`, `name[3]`
    fn variable_operand(&mut self, variable: VariableId) -> Parsed<OperandKind> {
        if self.token.is(b'+') {
            self.advance();
            let offset = self.integer_constant("an offset")?;
            return Ok(OperandKind::Offset(variable, offset));
        }
        if self.token.is(b'[') {
            let span = self.token.span();
            self.advance();
            let index = self.integer_constant("an index")?;
            self.expect(b']')?;
            let of = self.module.variable(variable);
            let bytes = of.element_bytes() as i64;
            if of.dimensions.is_empty() {
                self.report(Diagnostic::error(span, "Array indexing on non-array"));
            }
            return Ok(OperandKind::Element(variable, index.wrapping_mul(bytes)));
        }
        Ok(OperandKind::Variable(variable))
    }

    fn vector(&mut self) -> Parsed<OperandKind> {
        self.advance();
        let base = self.function.scratch.len();
        loop {
            if self.token.is(b'{') || self.token.is(b'[') {
                return Err(self.unexpected("an element of a vector"));
            }
            let element = self.simple_operand()?;
            if let OperandKind::Sum(..) | OperandKind::Offset(..) = element.kind {
                self.report(
                    Diagnostic::error(
                        element.span,
                        "Parsing error near '+': syntax error; nothing is added to an element of a vector",
                    )
                    .expected("',' or '}'"),
                );
            }
            self.push_operand(element)?;
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b'}')?;
        let parts = self.close_parts(base);
        Ok(OperandKind::Vector(parts))
    }

    /// `[%r+4]`, `[name]`, `[map, {%x, %y}]`
    fn bracket(&mut self) -> Parsed<OperandKind> {
        self.advance();
        let start = self.token.start;
        let first = self.address()?;
        if self.eat(b']') {
            return Ok(first);
        }
        if matches!(first, OperandKind::AtConstant(_)) {
            return Err(self.unexpected("']'"));
        }
        let base = self.function.scratch.len();
        self.push_operand(Operand {
            kind: first,
            span: Span::new(start, self.last_end),
        })?;
        while self.eat(b',') {
            let start = self.token.start;
            let kind = match self.token.kind {
                TokenKind::Punctuation(b'{') => self.vector()?,
                // Constants belong in braces here.
                TokenKind::Word if self.current() != b"WARP_SZ" => self.simple_operand()?.kind,
                _ => return Err(self.unexpected("a register, or coordinates in braces")),
            };
            self.push_operand(Operand {
                kind,
                span: Span::new(start, self.last_end),
            })?;
        }
        self.expect(b']')?;
        let parts = self.close_parts(base);
        Ok(OperandKind::Bracket(parts))
    }

    fn address(&mut self) -> Parsed<OperandKind> {
        if self.token.kind == TokenKind::Word && self.current() != b"WARP_SZ" {
            let token = self.token;
            let name = self.intern(token);
            let base = self.lookup(name);
            self.advance();
            let mut offset = 0;
            if self.eat(b'+') {
                offset = self.integer_constant("an offset")?;
            }
            return match base {
                Binding::Register(register) => Ok(OperandKind::AtRegister(register, offset)),
                Binding::Variable(variable) => Ok(OperandKind::AtVariable(variable, offset)),
                Binding::Unbound if Special::from_name(self.bytes(token)).is_some() => {
                    self.report(
                        Diagnostic::error(token.span(), "A special register is not an address")
                            .suggest("read it into a register with mov first"),
                    );
                    Ok(OperandKind::Error)
                }
                Binding::Unbound => {
                    self.unknown_symbol(name, token.span());
                    Ok(OperandKind::Error)
                }
                _ => {
                    let text = self.shown(token);
                    self.report(
                        Diagnostic::error(token.span(), format!("'{text}' is not an address"))
                            .expected("a register or variable"),
                    );
                    Ok(OperandKind::Error)
                }
            };
        }
        let value = self.integer_constant("an address")?;
        Ok(OperandKind::AtConstant(value))
    }
}

fn constant_operand(value: Constant) -> OperandKind {
    match value {
        Constant::Signed(value) => OperandKind::Signed(value),
        Constant::Unsigned(value) => OperandKind::Unsigned(value),
        Constant::Single(bits) => OperandKind::Single(bits),
        Constant::Double(bits) => OperandKind::Double(bits),
    }
}

/// `.x` to `.w`, or `.r` to `.a`.
fn component_index(text: &[u8]) -> Option<u8> {
    match text {
        b".x" | b".r" => Some(0),
        b".y" | b".g" => Some(1),
        b".z" | b".b" => Some(2),
        b".w" | b".a" => Some(3),
        _ => None,
    }
}
