//! Constant expressions, by PTX's rules: 64-bit integers that are signed unless marked, computed where they stand.
//!
//! The reader keeps one stack of values and one of pending operators, so that parentheses may nest as deep as the input
//! likes. `?:` is two operators: `?` waits for its `:`, which then waits for the third value.

use super::{GivenUp, Parsed, Parser};
use crate::ast::Constant;
use crate::diagnostic::{Diagnostic, Span};
use crate::lex::{self, TokenKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Open,
    Unary(u8),
    /// `(.s64)` or `(.u64)`.
    Cast(bool),
    Binary(Binary),
    Question,
    Colon,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binary {
    Mul,
    Div,
    Rem,
    Add,
    Sub,
    Shl,
    Shr,
    Lt,
    Gt,
    Le,
    Ge,
    Eq,
    Ne,
    And,
    Xor,
    Or,
    AndAnd,
    OrOr,
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
            Pending::Unary(_) | Pending::Cast(_) => 11,
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
            _ => false,
        }
    }

    /// A constant expression.
    pub(super) fn constant(&mut self) -> Parsed<Constant> {
        // Nearly all constants are one number.
        if matches!(self.token.kind, TokenKind::Integer | TokenKind::Float) {
            let value = self.number()?;
            if Binary::of(self.token.kind).is_none() && !self.token.is(b'?') {
                return Ok(value);
            }
            return self.expression(Some(value));
        }
        self.expression(None)
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
                    Diagnostic::error(span, "Integer constant expected").expected(what.to_owned()),
                ))
            }
        }
    }

    fn number(&mut self) -> Parsed<Constant> {
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
        self.advance();
        Ok(value)
    }

    fn expression(&mut self, first: Option<Constant>) -> Parsed<Constant> {
        let start = self.token.start;
        let mut values: Vec<Constant> = Vec::new();
        let mut pending: Vec<Pending> = Vec::new();
        let mut operand_next = first.is_none();
        values.extend(first);
        let mut open = 0_usize;
        loop {
            if operand_next {
                match self.token.kind {
                    TokenKind::Integer | TokenKind::Float => {
                        let value = self.number()?;
                        values.push(value);
                        operand_next = false;
                    }
                    TokenKind::Word if self.current() == b"WARP_SZ" => {
                        self.advance();
                        values.push(Constant::Signed(32));
                        operand_next = false;
                    }
                    TokenKind::Punctuation(sign @ (b'+' | b'-' | b'!' | b'~')) => {
                        self.advance();
                        pending.push(Pending::Unary(sign));
                    }
                    TokenKind::Punctuation(b'(') => {
                        self.advance();
                        let cast = match self.current() {
                            b".s64" => Some(true),
                            b".u64" => Some(false),
                            _ => None,
                        };
                        if let Some(signed) = cast {
                            self.advance();
                            self.expect(b')')?;
                            pending.push(Pending::Cast(signed));
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
                self.close_conditionals(&mut values, &mut pending);
                match pending.last_mut() {
                    Some(last @ Pending::Question) => *last = Pending::Colon,
                    _ => return Err(self.unexpected("')'")),
                }
                self.advance();
                operand_next = true;
            } else if self.token.is(b')') && open > 0 {
                self.reduce(&mut values, &mut pending, 1, start)?;
                self.close_conditionals(&mut values, &mut pending);
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
        self.close_conditionals(&mut values, &mut pending);
        match pending.last() {
            None => {}
            Some(Pending::Open) => return Err(self.unexpected("')'")),
            Some(_) => return Err(self.unexpected("':'")),
        }
        values.pop().ok_or(GivenUp)
    }

    /// Computes finished `a ? b : c` on top of the stacks.
    fn close_conditionals(&mut self, values: &mut Vec<Constant>, pending: &mut Vec<Pending>) {
        while pending.last() == Some(&Pending::Colon) {
            pending.pop();
            let (Some(no), Some(yes), Some(condition)) = (values.pop(), values.pop(), values.pop())
            else {
                return;
            };
            values.push(if bits(condition) != 0 { yes } else { no });
        }
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
            let computed = match top {
                Pending::Unary(sign) => values.pop().and_then(|value| unary(sign, value)),
                Pending::Cast(signed) => values.pop().map(|value| {
                    if signed {
                        Constant::Signed(bits(value) as i64)
                    } else {
                        Constant::Unsigned(bits(value))
                    }
                }),
                Pending::Binary(operator) => match (values.pop(), values.pop()) {
                    (Some(right), Some(left)) => binary(operator, left, right),
                    _ => None,
                },
                Pending::Open | Pending::Question | Pending::Colon => None,
            };
            let Some(computed) = computed else {
                let span = Span::new(start.min(self.last_end), self.last_end);
                return Err(self.fail(Diagnostic::error(
                    span,
                    "Constant expression cannot be computed: it divides by zero or uses floating point operands",
                )));
            };
            values.push(computed);
        }
        Ok(())
    }
}

fn bits(value: Constant) -> u64 {
    match value {
        Constant::Signed(value) => value as u64,
        Constant::Unsigned(value) => value,
        Constant::Single(bits) => u64::from(bits),
        Constant::Double(bits) => bits,
    }
}

fn unary(sign: u8, value: Constant) -> Option<Constant> {
    Some(match (sign, value) {
        (b'+', value) => value,
        (b'-', Constant::Signed(value)) => Constant::Signed(value.wrapping_neg()),
        (b'-', Constant::Unsigned(value)) => Constant::Unsigned(value.wrapping_neg()),
        (b'-', Constant::Single(bits)) => Constant::Single(bits ^ 0x8000_0000),
        (b'-', Constant::Double(bits)) => Constant::Double(bits ^ 0x8000_0000_0000_0000),
        (b'!', Constant::Signed(value)) => Constant::Signed(i64::from(value == 0)),
        (b'!', Constant::Unsigned(value)) => Constant::Signed(i64::from(value == 0)),
        (b'~', Constant::Signed(value)) => Constant::Signed(!value),
        (b'~', Constant::Unsigned(value)) => Constant::Unsigned(!value),
        _ => return None,
    })
}

fn binary(operator: Binary, left: Constant, right: Constant) -> Option<Constant> {
    let float = |value: Constant| matches!(value, Constant::Single(_) | Constant::Double(_));
    if float(left) || float(right) {
        return None;
    }
    let unsigned = matches!(left, Constant::Unsigned(_)) || matches!(right, Constant::Unsigned(_));
    let (a, b) = (bits(left), bits(right));
    let (x, y) = (a as i64, b as i64);
    let truth = |value: bool| Some(Constant::Signed(i64::from(value)));
    let number = |value: u64| {
        Some(if unsigned {
            Constant::Unsigned(value)
        } else {
            Constant::Signed(value as i64)
        })
    };
    let compare = |ordering: std::cmp::Ordering, wanted: &[std::cmp::Ordering]| {
        truth(wanted.contains(&ordering))
    };
    let ordering = if unsigned { a.cmp(&b) } else { x.cmp(&y) };
    use std::cmp::Ordering::{Equal, Greater, Less};
    match operator {
        Binary::Mul => number(a.wrapping_mul(b)),
        Binary::Div if b == 0 => None,
        Binary::Div => number(if unsigned {
            a / b
        } else {
            x.wrapping_div(y) as u64
        }),
        Binary::Rem if b == 0 => None,
        Binary::Rem => number(if unsigned {
            a % b
        } else {
            x.wrapping_rem(y) as u64
        }),
        Binary::Add => number(a.wrapping_add(b)),
        Binary::Sub => number(a.wrapping_sub(b)),
        // A shift keeps the type of what is shifted.
        Binary::Shl | Binary::Shr => {
            let amount = b.min(64) as u32;
            let signed = matches!(left, Constant::Signed(_));
            let value = match (operator, signed) {
                (Binary::Shl, _) => a.checked_shl(amount).unwrap_or(0),
                (_, true) => (x >> amount.min(63)) as u64,
                (_, false) => a.checked_shr(amount).unwrap_or(0),
            };
            Some(if signed {
                Constant::Signed(value as i64)
            } else {
                Constant::Unsigned(value)
            })
        }
        Binary::Lt => compare(ordering, &[Less]),
        Binary::Gt => compare(ordering, &[Greater]),
        Binary::Le => compare(ordering, &[Less, Equal]),
        Binary::Ge => compare(ordering, &[Greater, Equal]),
        Binary::Eq => compare(ordering, &[Equal]),
        Binary::Ne => compare(ordering, &[Less, Greater]),
        Binary::And => number(a & b),
        Binary::Xor => number(a ^ b),
        Binary::Or => number(a | b),
        Binary::AndAnd => truth(a != 0 && b != 0),
        Binary::OrOr => truth(a != 0 || b != 0),
    }
}
