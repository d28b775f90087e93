//! What computing instructions compute: from an opcode with its modifiers to a function on bits.
//!
//! One short function an instruction, grouped as the manual groups them. A function gets the operands in the order they are
//! written and returns the result, and a second one where the instruction has it: `p|q` of `setp`, the carry of `add.cc`.

mod compare;
mod convert;
mod float;
mod integer;
mod logic;
mod video;

use crate::step::{Function, OPERANDS};
use orias_eval::float::convert::Integer;
use orias_eval::float::{Format, Rounding};
use orias_ptx::grammar::{Modifier, Op};
use orias_ptx::opcode::Form;
use orias_ptx::types::{Type, TypeClass};

pub(crate) use video::Selector;

/// The bits of the operands.
type Operands = [u64; OPERANDS];

/// The function of an instruction; `None` where this is no computing instruction or it is not covered.
///
/// `selectors` are the modifiers behind the operands of video instructions, the result first.
pub(crate) fn definition(op: Op, form: &Form, selectors: &[Selector]) -> Option<Function> {
    integer::definition(op, form)
        .or_else(|| logic::definition(op, form))
        .or_else(|| float::definition(op, form))
        .or_else(|| compare::definition(op, form))
        .or_else(|| convert::definition(op, form))
        .or_else(|| video::definition(op, form, selectors))
}

pub(crate) use float::atomic as float_atomic;
pub(crate) use integer::{atomic as integer_atomic, reduce};

/// A function with one result.
fn one(function: impl Fn(Operands) -> u64 + Send + Sync + 'static) -> Option<Function> {
    Some(Box::new(move |operands| [function(*operands), 0]))
}

/// A function with two results.
fn two(function: impl Fn(Operands) -> [u64; 2] + Send + Sync + 'static) -> Option<Function> {
    Some(Box::new(move |operands| function(*operands)))
}

/// The first type the opcode names.
fn first_type(form: &Form) -> Option<Type> {
    form.types().next()
}

/// The integer type that computing with `ty` means; untyped bits count as unsigned.
pub(crate) fn integer_of(ty: Type) -> Option<Integer> {
    match ty.class() {
        TypeClass::Unsigned | TypeClass::Bits if ty.bits() <= 64 => {
            Some(Integer::unsigned(ty.bits()))
        }
        TypeClass::Signed => Some(Integer::signed(ty.bits())),
        _ => None,
    }
}

/// The format of a floating-point type, and how many of them lie side by side.
pub(crate) fn format_of(ty: Type) -> Option<(Format, u32)> {
    Some(match ty {
        Type::F16 => (Format::F16, 1),
        Type::F16x2 => (Format::F16, 2),
        Type::Bf16 => (Format::BF16, 1),
        Type::Bf16x2 => (Format::BF16, 2),
        Type::F32 => (Format::F32, 1),
        Type::F32x2 => (Format::F32, 2),
        Type::F64 => (Format::F64, 1),
        Type::Tf32 => (Format::TF32, 1),
        Type::E4m3x2 => (Format::E4M3, 2),
        Type::E5m2x2 => (Format::E5M2, 2),
        Type::E4m3 => (Format::E4M3, 1),
        Type::E5m2 => (Format::E5M2, 1),
        _ => return None,
    })
}

/// The rounding that the modifiers name, if they do.
pub(crate) fn rounding_of(form: &Form) -> Option<Rounding> {
    form.modifiers().find_map(|modifier| {
        Some(match modifier {
            Modifier::Rn | Modifier::Rni => Rounding::NearestEven,
            Modifier::Rz | Modifier::Rzi => Rounding::Zero,
            Modifier::Rm | Modifier::Rmi => Rounding::Down,
            Modifier::Rp | Modifier::Rpi => Rounding::Up,
            Modifier::Rna => Rounding::NearestAway,
            _ => return None,
        })
    })
}

/// Applies a function to each of `count` elements of `width` bits that lie side by side in the operands.
fn elementwise(
    width: u32,
    count: u32,
    function: impl Fn(Operands) -> u64 + Send + Sync + 'static,
) -> impl Fn(Operands) -> u64 + Send + Sync {
    let mask = u64::MAX >> (64 - width);
    move |operands| {
        (0..count).fold(0, |result, element| {
            let at = element * width;
            let parts = operands.map(|operand| operand >> at & mask);
            result | (function(parts) & mask) << at
        })
    }
}
