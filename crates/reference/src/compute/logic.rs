//! Logic, shifts and byte permutation.

use super::{first_type, integer_of, one, two};
use crate::step::Function;
use orias_eval::bits::{Permutation, logic3, permute};
use orias_eval::float::convert::Integer;
use orias_eval::integer::{Beyond, funnel_left, funnel_right};
use orias_ptx::grammar::slot_names as slot;
use orias_ptx::grammar::{Modifier, Op};
use orias_ptx::opcode::Form;
use orias_ptx::types::Type;

pub(super) fn definition(op: Op, form: &Form) -> Option<Function> {
    match op {
        Op::Prmt => return prmt(form),
        Op::ShfL | Op::ShfR => return funnel(op, form),
        Op::Lop3 => return lop3(form),
        _ => {}
    }
    let ty = first_type(form)?;
    let mask = match ty {
        Type::Pred => 1,
        _ => integer_of(ty)?.mask(),
    };
    match op {
        Op::And => one(|[a, b, ..]| a & b),
        Op::Or => one(|[a, b, ..]| a | b),
        Op::Xor => one(|[a, b, ..]| a ^ b),
        Op::Not => one(move |[a, ..]| !a & mask),
        Op::Cnot => one(|[a, ..]| u64::from(a == 0)),
        Op::Shl => shift_left(integer_of(ty)?),
        Op::Shr => shift_right(integer_of(ty)?),
        _ => None,
    }
}

/// Nothing is left of a shift by the width or more.
fn shift_left(int: Integer) -> Option<Function> {
    one(move |[a, b, ..]| int.shift_left(a, b))
}

/// A shift by the width or more leaves copies of the sign, or nothing.
fn shift_right(int: Integer) -> Option<Function> {
    one(move |[a, b, ..]| int.shift_right(a, b))
}

/// Any function of three bits. With a Boolean operation the second result is whether any bit is set, combined with `q`.
fn lop3(form: &Form) -> Option<Function> {
    let and = form.has(Modifier::And);
    let or = form.has(Modifier::Or);
    two(move |[a, b, c, table, q]| {
        let result = logic3(a as u32, b as u32, c as u32, table as u8);
        let any = u64::from(result != 0);
        let combined = match (and, or) {
            (true, _) => any & q,
            (_, true) => any | q,
            _ => 0,
        };
        [result.into(), combined]
    })
}

/// A shift of two words as one.
fn funnel(op: Op, form: &Form) -> Option<Function> {
    let beyond = if form.has(Modifier::Wrap) {
        Beyond::Wrap
    } else {
        Beyond::Clamp
    };
    let shift = if op == Op::ShfL {
        funnel_left
    } else {
        funnel_right
    };
    one(move |[a, b, c, ..]| shift(a as u32, b as u32, c as u32, beyond).into())
}

/// Four bytes of eight.
fn prmt(form: &Form) -> Option<Function> {
    let mode = match form.get(slot::MODE) {
        None => Permutation::Index,
        Some(Modifier::F4e) => Permutation::Forward4,
        Some(Modifier::B4e) => Permutation::Backward4,
        Some(Modifier::Rc8) => Permutation::Replicate8,
        Some(Modifier::Ecl) => Permutation::EdgeClampLeft,
        Some(Modifier::Ecr) => Permutation::EdgeClampRight,
        Some(Modifier::Rc16) => Permutation::Replicate16,
        Some(_) => return None,
    };
    one(move |[a, b, c, ..]| permute(a as u32, b as u32, c as u32, mode).into())
}
