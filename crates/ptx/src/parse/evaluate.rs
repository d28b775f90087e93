//! What the operators of constant expressions give.
//!
//! Integers have 64 bits and are signed unless their literal is marked or too large. The manual's rules decide which operations are
//! signed: sums, products, quotients, bit operations and ordered comparisons are unsigned if one operand is; `%` and `~` always are; a shift has
//! the type of what is shifted; comparisons and logical operators give a signed 0 or 1. Floating point is computed in double precision,
//! and never meets an integer. Where ptxas and the manual differ (amounts of shifts, the type of `?:`), this is ptxas.

use crate::ast::Constant;
use std::cmp::Ordering;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Plus,
    Minus,
    Not,
    Complement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
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

/// Why an expression has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    DivisionByZero,
    /// The smallest integer divided by -1.
    Overflow,
    /// Floating point where only integers have a meaning.
    NotInteger,
    /// An integer and a floating point operand.
    Mixed,
}

impl Refusal {
    pub(super) const fn message(self) -> &'static str {
        match self {
            Refusal::DivisionByZero => "Constant expression has division by zero",
            Refusal::Overflow => "Constant expression overflows",
            Refusal::NotInteger => "Integer constant expression expected",
            Refusal::Mixed => "Constant expression type mismatch",
        }
    }
}

/// An integer operand: its bits, and whether it is unsigned.
fn integer(value: Constant) -> Result<(u64, bool), Refusal> {
    match value {
        Constant::Signed(value) => Ok((value.cast_unsigned(), false)),
        Constant::Unsigned(value) => Ok((value, true)),
        Constant::Single(_) | Constant::Double(_) => Err(Refusal::NotInteger),
    }
}

/// A floating-point operand. The bits of a single are those of a very small double: so ptxas takes them.
fn float(value: Constant) -> Option<f64> {
    match value {
        Constant::Single(bits) => Some(f64::from_bits(bits.into())),
        Constant::Double(bits) => Some(f64::from_bits(bits)),
        Constant::Signed(_) | Constant::Unsigned(_) => None,
    }
}

fn of_type(value: u64, unsigned: bool) -> Constant {
    if unsigned {
        Constant::Unsigned(value)
    } else {
        Constant::Signed(value.cast_signed())
    }
}

fn truth(value: bool) -> Constant {
    Constant::Signed(value.into())
}

/// `(.s64) value` or `(.u64) value`.
pub(super) fn cast(signed: bool, value: Constant) -> Result<Constant, Refusal> {
    Ok(of_type(integer(value)?.0, !signed))
}

pub(super) fn unary(operator: Unary, value: Constant) -> Result<Constant, Refusal> {
    if let (Some(number), Unary::Plus | Unary::Minus) = (float(value), operator) {
        let number = if operator == Unary::Minus {
            -number
        } else {
            number
        };
        return Ok(Constant::Double(number.to_bits()));
    }
    let (bits, unsigned) = integer(value)?;
    Ok(match operator {
        Unary::Plus => value,
        Unary::Minus => of_type(bits.wrapping_neg(), unsigned),
        Unary::Not => truth(bits == 0),
        Unary::Complement => Constant::Unsigned(!bits),
    })
}

/// `condition ? yes : no`, all three integers. The result has the type of the operand it is.
pub(super) fn conditional(
    condition: Constant,
    yes: Constant,
    no: Constant,
) -> Result<Constant, Refusal> {
    let (condition, _) = integer(condition)?;
    integer(yes)?;
    integer(no)?;
    Ok(if condition != 0 { yes } else { no })
}

pub(super) fn binary(
    operator: Binary,
    left: Constant,
    right: Constant,
) -> Result<Constant, Refusal> {
    match (float(left), float(right)) {
        (Some(x), Some(y)) => floats(operator, x, y),
        (None, None) => integers(operator, integer(left)?, integer(right)?),
        _ => Err(Refusal::Mixed),
    }
}

/// Whether a comparison holds for an order; `None` for what is no comparison. NaN has no order and is unequal to all.
fn compares(operator: Binary, order: Option<Ordering>) -> Option<bool> {
    Some(match operator {
        Binary::Lt => order == Some(Ordering::Less),
        Binary::Gt => order == Some(Ordering::Greater),
        Binary::Le => order.is_some_and(Ordering::is_le),
        Binary::Ge => order.is_some_and(Ordering::is_ge),
        Binary::Eq => order == Some(Ordering::Equal),
        Binary::Ne => order != Some(Ordering::Equal),
        _ => return None,
    })
}

fn floats(operator: Binary, x: f64, y: f64) -> Result<Constant, Refusal> {
    if let Some(holds) = compares(operator, x.partial_cmp(&y)) {
        return Ok(truth(holds));
    }
    let value = match operator {
        Binary::Mul => x * y,
        Binary::Div if y == 0.0 => return Err(Refusal::DivisionByZero),
        Binary::Div => x / y,
        Binary::Add => x + y,
        Binary::Sub => x - y,
        _ => return Err(Refusal::NotInteger),
    };
    Ok(Constant::Double(value.to_bits()))
}

fn integers(
    operator: Binary,
    (a, left_unsigned): (u64, bool),
    (b, right_unsigned): (u64, bool),
) -> Result<Constant, Refusal> {
    let unsigned = left_unsigned || right_unsigned;
    let (x, y) = (a.cast_signed(), b.cast_signed());
    let order = if unsigned { a.cmp(&b) } else { x.cmp(&y) };
    if let Some(holds) = compares(operator, Some(order)) {
        return Ok(truth(holds));
    }
    // The chip's assembler is a program of a host that shifts modulo the width.
    let amount = (b % 64) as u32;
    let value = match operator {
        Binary::Mul => a.wrapping_mul(b),
        Binary::Div | Binary::Rem if b == 0 => return Err(Refusal::DivisionByZero),
        Binary::Div if unsigned => a / b,
        Binary::Div => x.checked_div(y).ok_or(Refusal::Overflow)?.cast_unsigned(),
        Binary::Rem => return Ok(Constant::Unsigned(a % b)),
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::Shl => return Ok(of_type(a << amount, left_unsigned)),
        Binary::Shr if left_unsigned => return Ok(Constant::Unsigned(a >> amount)),
        Binary::Shr => return Ok(Constant::Signed(x >> amount)),
        Binary::And => a & b,
        Binary::Xor => a ^ b,
        Binary::Or => a | b,
        Binary::AndAnd => return Ok(truth(a != 0 && b != 0)),
        Binary::OrOr => return Ok(truth(a != 0 || b != 0)),
        Binary::Lt | Binary::Gt | Binary::Le | Binary::Ge | Binary::Eq | Binary::Ne => {
            return Err(Refusal::NotInteger);
        }
    };
    Ok(of_type(value, unsigned))
}
