//! Reads constant expressions and computes them where they stand; [`super::evaluate`] says what operators give.
//!
//! The reader keeps one stack of values and one of pending operators, so that parentheses may nest as deep as the input
//! likes. `?:` is two operators: `?` waits for its `:`, which then waits for the third value.

use super::evaluate::{self, Binary, Refusal, Unary};
use super::variable::WARP_SIZE;
use super::{GivenUp, Parsed, Parser};
use crate::ast::Constant;
use crate::diagnostic::{Diagnostic, Span};
use crate::lex::{self, TokenKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Open,
    Unary(Unary),
    /// `(.s64)` or `(.u64)`.
    Cast {
        signed: bool,
    },
    Binary(Binary),
    Question,
    Colon,
}

impl Unary {
    const fn of(sign: u8) -> Unary {
        match sign {
            b'-' => Unary::Minus,
            b'!' => Unary::Not,
            b'~' => Unary::Complement,
            _ => Unary::Plus,
        }
    }
}

impl Binary {
    fn of(kind: TokenKind) -> Option<Binary> {
        Some(match kind {
            TokenKind::Punctuation(b'*') => Binary::Mul,
            TokenKind::Punctuation(b'/') => Binary::Div,
            TokenKind::Punctuation(b'%') => Binary::Rem,
            TokenKind::Punctuation(b'+') => Binary::Add,
            TokenKind::Punctuation(b'-') => Binary::Sub,
            TokenKind::Punctuation(b'<') => Binary::Lt,
            TokenKind::Punctuation(b'>') => Binary::Gt,
            TokenKind::Punctuation(b'&') => Binary::And,
            TokenKind::Punctuation(b'^') => Binary::Xor,
            TokenKind::Punctuation(b'|') => Binary::Or,
            TokenKind::Operator([b'<', b'<']) => Binary::Shl,
            TokenKind::Operator([b'>', b'>']) => Binary::Shr,
            TokenKind::Operator([b'<', b'=']) => Binary::Le,
            TokenKind::Operator([b'>', b'=']) => Binary::Ge,
            TokenKind::Operator([b'=', b'=']) => Binary::Eq,
            TokenKind::Operator([b'!', b'=']) => Binary::Ne,
            TokenKind::Operator([b'&', b'&']) => Binary::AndAnd,
            TokenKind::Operator([b'|', b'|']) => Binary::OrOr,
            _ => return None,
        })
    }

    const fn precedence(self) -> u8 {
        match self {
            Binary::Mul | Binary::Div | Binary::Rem => 10,
            Binary::Add | Binary::Sub => 9,
            Binary::Shl | Binary::Shr => 8,
            Binary::Lt | Binary::Gt | Binary::Le | Binary::Ge => 7,
            Binary::Eq | Binary::Ne => 6,
            Binary::And => 5,
            Binary::Xor => 4,
            Binary::Or => 3,
            Binary::AndAnd => 2,
            Binary::OrOr => 1,
        }
    }
}

impl Pending {
    /// How tightly it binds what stands before it; what waits for a closing sign never yields to an operator.
    const fn precedence(self) -> u8 {
        match self {
            Pending::Open | Pending::Question => 0,
            Pending::Colon => 0,
            Pending::Unary(_) | Pending::Cast { .. } => 11,
            Pending::Binary(binary) => binary.precedence(),
        }
    }
}

impl Parser<'_> {
    /// Whether a constant expression may start here.
    pub(super) fn at_constant(&self) -> bool {
        match self.token.kind {
            TokenKind::Integer | TokenKind::Float => true,
            TokenKind::Punctuation(b'+' | b'-' | b'!' | b'~' | b'(') => true,
            TokenKind::Word => self.current() == b"WARP_SZ",
            TokenKind::Dotted => self.at_fraction(),
            _ => false,
        }
    }

    /// Whether a number without digits before its point stands here: `.5`.
    fn at_fraction(&self) -> bool {
        self.token.kind == TokenKind::Dotted && self.current()[1].is_ascii_digit()
    }

    /// A constant expression.
    pub(super) fn constant(&mut self) -> Parsed<Constant> {
        let start = self.token.start;
        // Nearly all constants are one number.
        if matches!(self.token.kind, TokenKind::Integer | TokenKind::Float) {
            let value = self.number()?;
            if !self.at_operator() {
                return Ok(value);
            }
            if matches!(value, Constant::Single(_)) {
                return Err(self.unexpected("the end of the constant"));
            }
            return self.expression(start, Some(value));
        }
        self.expression(start, None)
    }

    /// A constant expression that must be an integer.
    pub(super) fn integer_constant(&mut self, what: &str) -> Parsed<i64> {
        let start = self.token.start;
        match self.constant()? {
            Constant::Signed(value) => Ok(value),
            Constant::Unsigned(value) => Ok(value as i64),
            Constant::Single(_) | Constant::Double(_) => {
                let span = Span::new(start, self.last_end);
                Err(self.fail(
                    Diagnostic::error(span, Refusal::NotInteger.message())
                        .expected(what.to_owned()),
                ))
            }
        }
    }

    fn at_operator(&self) -> bool {
        Binary::of(self.token.kind).is_some() || self.token.is(b'?')
    }

    pub(super) fn number(&mut self) -> Parsed<Constant> {
        if self.token.kind == TokenKind::Dotted {
            self.token = self.lexer.fraction(self.token.start);
        }
        let token = self.token;
        let text = self.current();
        let value = if token.kind == TokenKind::Float {
            lex::float(text).map(|it| match it {
                lex::Float::Single(bits) => Constant::Single(bits),
                lex::Float::Double(bits) => Constant::Double(bits),
            })
        } else {
            lex::integer(text).map(|it| {
                if it.unsigned {
                    Constant::Unsigned(it.value)
                } else {
                    Constant::Signed(it.value as i64)
                }
            })
        };
        let Some(value) = value else {
            let malformed = text.iter().any(|byte| !byte.is_ascii_alphanumeric())
                || lex::integer(&text[..text.len().min(8)]).is_none();
            let text = self.shown(token);
            let message = if malformed {
                format!("Parsing error near '{text}': syntax error")
            } else {
                format!("Integer constant '{text}' does not fit 64 bits")
            };
            return Err(self.fail(Diagnostic::error(token.span(), message)));
        };
        if let Constant::Double(bits) = value
            && lex::is_out_of_range(text, f64::from_bits(bits))
        {
            return Err(self.fail(Diagnostic::error(token.span(), "Constant overflow")));
        }
        self.advance();
        Ok(value)
    }

    fn expression(&mut self, start: u32, first: Option<Constant>) -> Parsed<Constant> {
        let mut values: Vec<Constant> = Vec::new();
        let mut pending: Vec<Pending> = Vec::new();
        let mut operand_next = first.is_none();
        values.extend(first);
        let mut open = 0_usize;
        loop {
            if operand_next {
                match self.token.kind {
                    TokenKind::Integer | TokenKind::Float | TokenKind::Dotted
                        if self.at_constant() =>
                    {
                        let (token, value) = (self.token, self.number()?);
                        if matches!(value, Constant::Single(_)) {
                            // An exact single is an operand only in parentheses of its own.
                            if pending.last().is_some_and(|it| *it != Pending::Open) {
                                return Err(self.unexpected_at(token, "a constant"));
                            }
                            if self.at_operator() {
                                return Err(self.unexpected("')'"));
                            }
                        }
                        values.push(value);
                        operand_next = false;
                    }
                    TokenKind::Word if self.current() == b"WARP_SZ" => {
                        self.advance();
                        values.push(Constant::Signed(WARP_SIZE.cast_signed()));
                        operand_next = false;
                    }
                    TokenKind::Punctuation(sign @ (b'+' | b'-' | b'!' | b'~')) => {
                        self.advance();
                        pending.push(Pending::Unary(Unary::of(sign)));
                    }
                    TokenKind::Punctuation(b'(') => {
                        self.advance();
                        if self.token.kind == TokenKind::Dotted && !self.at_fraction() {
                            pending.push(self.cast()?);
                        } else {
                            pending.push(Pending::Open);
                            open += 1;
                        }
                    }
                    _ => return Err(self.unexpected("a constant")),
                }
                continue;
            }
            if let Some(binary) = Binary::of(self.token.kind) {
                self.reduce(&mut values, &mut pending, binary.precedence(), start)?;
                self.advance();
                pending.push(Pending::Binary(binary));
                operand_next = true;
            } else if self.token.is(b'?') {
                self.reduce(&mut values, &mut pending, 1, start)?;
                self.advance();
                pending.push(Pending::Question);
                operand_next = true;
            } else if self.token.is(b':') && pending.contains(&Pending::Question) {
                self.reduce(&mut values, &mut pending, 1, start)?;
                self.close_conditionals(&mut values, &mut pending, start)?;
                match pending.last_mut() {
                    Some(last @ Pending::Question) => *last = Pending::Colon,
                    _ => return Err(self.unexpected("')'")),
                }
                self.advance();
                operand_next = true;
            } else if self.token.is(b')') && open > 0 {
                self.reduce(&mut values, &mut pending, 1, start)?;
                self.close_conditionals(&mut values, &mut pending, start)?;
                if pending.pop() != Some(Pending::Open) {
                    return Err(self.unexpected("':'"));
                }
                open -= 1;
                self.advance();
            } else {
                break;
            }
        }
        self.reduce(&mut values, &mut pending, 1, start)?;
        self.close_conditionals(&mut values, &mut pending, start)?;
        match pending.last() {
            None => {}
            Some(Pending::Open) => return Err(self.unexpected("')'")),
            Some(_) => return Err(self.unexpected("':'")),
        }
        values.pop().ok_or(GivenUp)
    }

    /// The type of a cast, from behind its parenthesis on.
    fn cast(&mut self) -> Parsed<Pending> {
        let token = self.token;
        let signed = match self.current() {
            b".s64" => true,
            b".u64" => false,
            text if super::variable::type_of(text).is_some() => {
                let message = "Unsupported cast operation";
                return Err(self
                    .fail(Diagnostic::error(token.span(), message).expected("(.s64) or (.u64)")));
            }
            _ => return Err(self.unexpected("a constant")),
        };
        self.advance();
        self.expect(b')')?;
        Ok(Pending::Cast { signed })
    }

    /// Computes finished `a ? b : c` on top of the stacks.
    fn close_conditionals(
        &mut self,
        values: &mut Vec<Constant>,
        pending: &mut Vec<Pending>,
        start: u32,
    ) -> Parsed<()> {
        while pending.last() == Some(&Pending::Colon) {
            pending.pop();
            let (Some(no), Some(yes), Some(condition)) = (values.pop(), values.pop(), values.pop())
            else {
                return Err(GivenUp);
            };
            let chosen = evaluate::conditional(condition, yes, no);
            values.push(self.computed(chosen, start)?);
        }
        Ok(())
    }

    /// Computes what binds at least as tightly as `precedence`.
    fn reduce(
        &mut self,
        values: &mut Vec<Constant>,
        pending: &mut Vec<Pending>,
        precedence: u8,
        start: u32,
    ) -> Parsed<()> {
        while let Some(&top) = pending.last() {
            if top.precedence() < precedence.max(1) {
                return Ok(());
            }
            pending.pop();
            let value = values.pop().ok_or(GivenUp)?;
            let computed = match top {
                Pending::Unary(operator) => evaluate::unary(operator, value),
                Pending::Cast { signed } => evaluate::cast(signed, value),
                Pending::Binary(operator) => {
                    evaluate::binary(operator, values.pop().ok_or(GivenUp)?, value)
                }
                Pending::Open | Pending::Question | Pending::Colon => return Err(GivenUp),
            };
            values.push(self.computed(computed, start)?);
        }
        Ok(())
    }

    /// The value, or a message about the expression from `start` to here.
    fn computed(&mut self, value: Result<Constant, Refusal>, start: u32) -> Parsed<Constant> {
        value.map_err(|refusal| {
            let span = Span::new(start.min(self.last_end), self.last_end);
            self.fail(Diagnostic::error(span, refusal.message()))
        })
    }
}
