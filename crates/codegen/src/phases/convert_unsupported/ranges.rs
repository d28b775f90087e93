//! What is known of the range of singles: numbers that are not negative, and those that are normal, so that no subnormal operand has to be looked for.
//!
//! One plus an exponential, a square plus a number that keeps it from zero, extremes with a number: the divisors of sigmoids and norms.

use super::copied_number;
use orias_ori::operation::{MinMax, Sat, Scalar, SourceType};
use orias_ori::{AbstractOp, Function, Inst, Operand};

/// How many definitions are looked through at most.
const DEPTH: u32 = 4;

/// Whether `operand` is a NaN or at least the least normal number.
pub(super) fn is_normal_and_positive(func: &Function, operand: Operand) -> bool {
    let operand = number_or(func, operand);
    if let Some(value) = number(operand) {
        return value >= f32::MIN_POSITIVE;
    }
    let Some((inst, op)) = single(func, operand) else {
        return false;
    };
    let sources = &func.operands(inst)[1..];
    let at_least = |source: &Operand| {
        number(number_or(func, *source)).is_some_and(|value| value >= f32::MIN_POSITIVE)
    };
    match (op, sources) {
        // Rounded to any side, a sum of numbers without sign is not below one of them that is a single.
        (AbstractOp::Fadd, [a, b]) => {
            at_least(b) && is_positive(func, *a, DEPTH)
                || at_least(a) && is_positive(func, *b, DEPTH)
        }
        (AbstractOp::Ffma, [a, b, c]) => at_least(c) && is_product_positive(func, *a, *b, DEPTH),
        (AbstractOp::Fmax, [a, b]) => at_least(a) || at_least(b),
        _ => false,
    }
}

/// Whether `operand` is a NaN, a zero of any sign, or above zero.
fn is_positive(func: &Function, operand: Operand, depth: u32) -> bool {
    let operand = number_or(func, operand);
    if let Some(value) = number(operand) {
        return value >= 0.0;
    }
    let Some(depth) = depth.checked_sub(1) else {
        return false;
    };
    let Some((inst, op)) = single(func, operand) else {
        return false;
    };
    let positive = |source: &Operand| is_positive(func, *source, depth);
    match (op, &func.operands(inst)[1..]) {
        (AbstractOp::Ex2 | AbstractOp::Fabs | AbstractOp::Sqrt, _) => true,
        (AbstractOp::Fmul, [a, b]) => is_product_positive(func, *a, *b, depth),
        (AbstractOp::Fadd, [a, b]) => positive(a) && positive(b),
        (AbstractOp::Ffma, [a, b, c]) => is_product_positive(func, *a, *b, depth) && positive(c),
        (AbstractOp::Fmax, [a, b]) => {
            positive(a) && number(number_or(func, *a)).is_some()
                || positive(b) && number(number_or(func, *b)).is_some()
                || positive(a) && positive(b)
        }
        (AbstractOp::Fmin, [a, b]) => positive(a) && positive(b),
        (AbstractOp::Selp, [a, b, _]) => positive(a) && positive(b),
        (AbstractOp::Cvt, _) => {
            let from = func.modifier::<SourceType>(inst).map(Scalar::from);
            matches!(
                from,
                Some(Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64)
            )
        }
        _ => false,
    }
}

/// Whether the product of both is none below zero: squares, and products of two such.
fn is_product_positive(func: &Function, a: Operand, b: Operand, depth: u32) -> bool {
    let square = a == b && a.as_value().is_some();
    square || is_positive(func, a, depth) && is_positive(func, b, depth)
}

/// The number that was copied to `operand`, or what it is.
fn number_or(func: &Function, operand: Operand) -> Operand {
    copied_number(func, operand).unwrap_or(operand)
}

fn number(operand: Operand) -> Option<f32> {
    match operand {
        Operand::Imm(bits) => Some(f32::from_bits(bits.bits() as u32)),
        _ => None,
    }
}

/// What makes `operand` in all lanes, if that works on singles or chooses words.
fn single(func: &Function, operand: Operand) -> Option<(Inst, AbstractOp)> {
    let value = operand.as_value().filter(|_| operand.mods().is_empty())?;
    let inst = func.defining_inst(value)?;
    let op = func.opcode(inst).as_abstract()?;
    let scalar = func.modifier::<Scalar>(inst)?;
    let fits = scalar == Scalar::F32 || op == AbstractOp::Selp && scalar.bits() == 32;
    // Saturation makes zero of NaNs; some extremes have the sign of a product.
    let plain = (func.modifier::<Sat>(inst)).is_none_or(|sat| sat == Sat::Wrap)
        && (func.modifier::<MinMax>(inst))
            .is_none_or(|kind| matches!(kind, MinMax::Number | MinMax::Nan));
    (fits && plain && func.inst(inst).guard().is_always()).then_some((inst, op))
}
