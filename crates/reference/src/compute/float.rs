//! Floating-point arithmetic in all formats.

use super::{Operands, elementwise, first_type, format_of, one, rounding_of};
use crate::step::{Function, Update};
use orias_eval::approximate::{self, Approximate};
use orias_eval::float::arithmetic::rectify;
use orias_eval::float::compare::{Extreme, extreme};
use orias_eval::float::{Arithmetic, Format, Rounding, Value};
use orias_ptx::grammar::slot_names as slot;
use orias_ptx::grammar::{Modifier, Op};
use orias_ptx::opcode::Form;
use orias_ptx::types::Type;

pub(super) fn definition(op: Op, form: &Form) -> Option<Function> {
    let ty = first_type(form)?;
    // Operands of two formats are not covered.
    if form.types().any(|other| other != ty) {
        return None;
    }
    let (format, count) = format_of(ty)?;
    if matches!(ty, Type::Tf32 | Type::E4m3x2 | Type::E5m2x2) {
        return None;
    }
    let packed = |function: Box<dyn Fn(Operands) -> u64 + Send + Sync>| match count {
        1 => one(function),
        _ => one(elementwise(ty.bits() / count, count, function)),
    };
    let bounded = form.has(Modifier::Approx);
    packed(match op {
        Op::Add => add(form, format),
        Op::Sub => sub(form, format),
        Op::Mul => mul(form, format),
        Op::Fma | Op::Mad => fma(form, format),
        Op::Div if !bounded => div(form, format),
        Op::Div => div_approximate(form, false),
        Op::DivFull => div_approximate(form, true),
        Op::Rcp if !bounded => rcp(form, format),
        Op::Rcp => approximately(form, format, Approximate::Reciprocal)?,
        Op::Sqrt if !bounded => sqrt(form, format),
        Op::Sqrt => approximately(form, format, Approximate::SquareRoot)?,
        Op::Rsqrt => approximately(form, format, Approximate::ReciprocalSquareRoot)?,
        Op::Sin => approximately(form, format, Approximate::Sine)?,
        Op::Cos => approximately(form, format, Approximate::Cosine)?,
        Op::Lg2 => approximately(form, format, Approximate::Log2)?,
        Op::Ex2 => approximately(form, format, Approximate::Exp2)?,
        Op::Tanh => approximately(form, format, Approximate::Tanh)?,
        Op::Abs => signed(form, format, |bits, sign| bits & !sign),
        Op::Neg => signed(form, format, |bits, sign| bits ^ sign),
        Op::Min => min_max(form, format, Extreme::Minimum),
        Op::Max => min_max(form, format, Extreme::Maximum),
        Op::Copysign => copysign(format),
        Op::Testp => testp(form, format)?,
        _ => return None,
    })
}

type Element = Box<dyn Fn(Operands) -> u64 + Send + Sync>;

/// How an instruction computes: its format, and what its modifiers say.
fn arithmetic(form: &Form, format: Format) -> Arithmetic {
    Arithmetic {
        rounding: rounding_of(form).unwrap_or(Rounding::NearestEven),
        flush: form.has(Modifier::Ftz),
        saturate: form.has(Modifier::Sat),
        ..Arithmetic::plain(format)
    }
}

fn add(form: &Form, format: Format) -> Element {
    let how = arithmetic(form, format);
    Box::new(move |[a, b, ..]| how.add(a, b))
}

fn sub(form: &Form, format: Format) -> Element {
    let how = arithmetic(form, format);
    Box::new(move |[a, b, ..]| how.subtract(a, b))
}

fn mul(form: &Form, format: Format) -> Element {
    let how = arithmetic(form, format);
    Box::new(move |[a, b, ..]| how.multiply(a, b))
}

fn fma(form: &Form, format: Format) -> Element {
    let mut how = arithmetic(form, format);
    if format == Format::BF16 {
        // A direction may be named and has no meaning: docs/errata.md.
        how.rounding = Rounding::NearestEven;
    }
    let (bounded, relu) = (form.has(Modifier::Oob), form.has(Modifier::Relu));
    Box::new(move |[a, b, c, ..]| {
        let sum = if bounded {
            how.fused_in_bounds(a, b, c)
        } else {
            how.fused(a, b, c)
        };
        if relu { rectify(format, sum) } else { sum }
    })
}

fn div(form: &Form, format: Format) -> Element {
    let how = arithmetic(form, format);
    Box::new(move |[a, b, ..]| how.divide(a, b))
}

/// `div.approx.f32` and `div.full.f32`.
fn div_approximate(form: &Form, full: bool) -> Element {
    let flush = form.has(Modifier::Ftz);
    Box::new(move |[a, b, ..]| approximate::divide(a as u32, b as u32, flush, full).into())
}

fn rcp(form: &Form, format: Format) -> Element {
    let how = arithmetic(form, format);
    let unit = match format {
        Format::F64 => 1f64.to_bits(),
        _ => 1f32.to_bits().into(),
    };
    Box::new(move |[a, ..]| how.divide(unit, a))
}

fn sqrt(form: &Form, format: Format) -> Element {
    let how = arithmetic(form, format);
    Box::new(move |[a, ..]| how.square_root(a))
}

/// Functions with a documented error bound; none where the format has no such function.
fn approximately(form: &Form, format: Format, function: Approximate) -> Option<Element> {
    let flush = form.has(Modifier::Ftz);
    function.apply(format, 0, flush)?;
    Some(Box::new(move |[a, ..]| {
        // The format has the function: see above.
        function.apply(format, a, flush).unwrap_or_default()
    }))
}

/// Only the sign changes; a NaN becomes the format's own in single precision and narrower.
fn signed(form: &Form, format: Format, change: fn(u64, u64) -> u64) -> Element {
    let flush = form.has(Modifier::Ftz);
    Box::new(move |[a, ..]| {
        let a = if flush { format.flush(a) } else { a };
        match format.nan() {
            Some(nan) if format != Format::F64 && format.is_nan(a) => nan,
            _ => change(a, format.sign_mask()),
        }
    })
}

/// The smaller or larger; with `.xorsign.abs` of the magnitudes, with the product's sign.
fn min_max(form: &Form, format: Format, which: Extreme) -> Element {
    let flush = form.has(Modifier::Ftz);
    let propagate = form.has(Modifier::NaN);
    let magnitudes = form.has(Modifier::Xorsign);
    Box::new(move |[a, b, ..]| {
        let of = |bits| if flush { format.flush(bits) } else { bits };
        if !magnitudes {
            return extreme(format, of(a), of(b), which, propagate);
        }
        let sign = format.sign_mask();
        let result = extreme(format, of(a) & !sign, of(b) & !sign, which, propagate);
        if format.is_nan(result) {
            result
        } else {
            result | (a ^ b) & sign
        }
    })
}

/// The magnitude of the second with the sign of the first.
fn copysign(format: Format) -> Element {
    let sign = format.sign_mask();
    Box::new(move |[a, b, ..]| a & sign | b & !sign)
}

fn testp(form: &Form, format: Format) -> Option<Element> {
    let test: fn(Format, u64) -> bool = match form.get(slot::OP)? {
        Modifier::Finite => |format, a| matches!(format.unpack(a), Value::Finite(_)),
        Modifier::Infinite => |format, a| matches!(format.unpack(a), Value::Infinity { .. }),
        Modifier::Number => |format, a| !format.is_nan(a),
        Modifier::Notanumber => |format, a| format.is_nan(a),
        // Zero counts as normal.
        Modifier::Normal => {
            |format, a| matches!(format.unpack(a), Value::Finite(_)) && !format.is_subnormal(a)
        }
        Modifier::Subnormal => |format, a| format.is_subnormal(a),
        _ => return None,
    };
    Some(Box::new(move |[a, ..]| test(format, a).into()))
}

/// What an atomic of a floating-point type does with the old value: additions round to the nearest. In single precision
/// subnormals are flushed in global memory (`flush`), nowhere else.
pub(crate) fn atomic(operation: Modifier, ty: Type, flush: bool) -> Option<Update> {
    let (format, count) = format_of(ty)?;
    let how = Arithmetic {
        flush: flush && ty == Type::F32,
        ..Arithmetic::plain(format)
    };
    let element: Element = match operation {
        Modifier::Add => Box::new(move |[old, b, ..]| how.add(old, b)),
        Modifier::Min => {
            Box::new(move |[old, b, ..]| extreme(format, old, b, Extreme::Minimum, false))
        }
        Modifier::Max => {
            Box::new(move |[old, b, ..]| extreme(format, old, b, Extreme::Maximum, false))
        }
        _ => return None,
    };
    let whole = elementwise(ty.bits() / count, count, element);
    Some(Box::new(move |old, [b, _]| whole([old, b, 0, 0, 0])))
}
