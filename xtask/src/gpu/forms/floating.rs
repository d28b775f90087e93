//! Floating-point operations, comparisons and conversions.

use super::Width::{B16, B32, B64, Pred};
use super::{Form, Kind, Operand, form};
use orias_eval::approximate::{Approximate, divide};
use orias_eval::float::arithmetic::clamp_to_unit;
use orias_eval::float::compare::{Extreme, Relation, compare, extreme};
use orias_eval::float::convert::{Integer, from_integer, to_format, to_integer, to_integral};
use orias_eval::float::{Arithmetic, Format, Overflow, Rounding};

const ROUNDINGS: [(&str, Rounding); 4] = [
    ("rn", Rounding::NearestEven),
    ("rz", Rounding::Zero),
    ("rm", Rounding::Down),
    ("rp", Rounding::Up),
];

const F32: Operand = (B32, Kind::F32);
const F64: Operand = (B64, Kind::F64);
const F16: Operand = (B16, Kind::F16);
const BF16: Operand = (B16, Kind::BF16);
const F16X2: Operand = (B32, Kind::F16);
const BF16X2: Operand = (B32, Kind::BF16);

/// All floating-point forms.
pub fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    single_and_double(&mut forms);
    halves(&mut forms);
    extremes(&mut forms);
    comparisons(&mut forms);
    between_floats(&mut forms);
    integers_and_floats(&mut forms);
    eight_bits(&mut forms);
    approximations(&mut forms);
    forms
}

/// Functions with a bound in the manual, which the multifunction unit makes.
fn approximations(forms: &mut Vec<Form>) {
    use Approximate::{
        Cosine, Exp2, Log2, Reciprocal, ReciprocalSquareRoot, Sine, SquareRoot, Tanh,
    };
    let mut push = |opcode: &str, operand: Operand, format: Format, function: Approximate| {
        let flush = opcode.contains(".ftz");
        // A form without a value would differ from whatever the chip gives.
        let definition = move |a| function.apply(format, a, flush).unwrap_or(u64::MAX);
        forms.push(form(opcode, operand.0, &[operand], move |[a, ..]| {
            definition(a)
        }));
    };
    let functions = [
        ("rcp", Reciprocal),
        ("sqrt", SquareRoot),
        ("rsqrt", ReciprocalSquareRoot),
        ("sin", Sine),
        ("cos", Cosine),
        ("lg2", Log2),
        ("ex2", Exp2),
    ];
    for ftz in ["", ".ftz"] {
        for (name, function) in functions {
            push(
                &format!("{name}.approx{ftz}.f32"),
                F32,
                Format::F32,
                function,
            );
        }
    }
    push("tanh.approx.f32", F32, Format::F32, Tanh);
    push("tanh.approx.f16", F16, Format::F16, Tanh);
    push("tanh.approx.bf16", BF16, Format::BF16, Tanh);
    push("ex2.approx.f16", F16, Format::F16, Exp2);
    push("ex2.approx.ftz.bf16", BF16, Format::BF16, Exp2);
    push("rcp.approx.ftz.f64", F64, Format::F64, Reciprocal);
    push(
        "rsqrt.approx.ftz.f64",
        F64,
        Format::F64,
        ReciprocalSquareRoot,
    );
    push("rsqrt.approx.f64", F64, Format::F64, ReciprocalSquareRoot);
    for flush in [false, true] {
        let ftz = if flush { ".ftz" } else { "" };
        for (name, full) in [("approx", false), ("full", true)] {
            forms.push(form(
                &format!("div.{name}{ftz}.f32"),
                B32,
                &[F32, F32],
                move |[a, b, _]| divide(a as u32, b as u32, flush, full).into(),
            ));
        }
    }
}

/// Addition, subtraction, multiplication and the fused one, with the suffix that `how` stands for.
fn basic(forms: &mut Vec<Form>, suffix: &str, how: Arithmetic, operand: Operand) {
    let width = operand.0;
    let two = [operand, operand];
    forms.push(form(
        &format!("add.{suffix}"),
        width,
        &two,
        move |[a, b, _]| how.add(a, b),
    ));
    forms.push(form(
        &format!("sub.{suffix}"),
        width,
        &two,
        move |[a, b, _]| how.subtract(a, b),
    ));
    forms.push(form(
        &format!("mul.{suffix}"),
        width,
        &two,
        move |[a, b, _]| how.multiply(a, b),
    ));
    forms.push(form(
        &format!("fma.{suffix}"),
        width,
        &[operand; 3],
        move |[a, b, c]| how.fused(a, b, c),
    ));
}

fn single_and_double(forms: &mut Vec<Form>) {
    let one32 = u64::from(1f32.to_bits());
    let one64 = 1f64.to_bits();
    for (name, rounding) in ROUNDINGS {
        for flush in [false, true] {
            let ftz = if flush { ".ftz" } else { "" };
            for saturate in [false, true] {
                let sat = if saturate { ".sat" } else { "" };
                let how = Arithmetic {
                    rounding,
                    flush,
                    saturate,
                    ..Arithmetic::plain(Format::F32)
                };
                basic(forms, &format!("{name}{ftz}{sat}.f32"), how, F32);
            }
            let how = Arithmetic {
                rounding,
                flush,
                ..Arithmetic::plain(Format::F32)
            };
            forms.push(form(
                &format!("div.{name}{ftz}.f32"),
                B32,
                &[F32, F32],
                move |[a, b, _]| how.divide(a, b),
            ));
            forms.push(form(
                &format!("rcp.{name}{ftz}.f32"),
                B32,
                &[F32],
                move |[a, ..]| how.divide(one32, a),
            ));
            forms.push(form(
                &format!("sqrt.{name}{ftz}.f32"),
                B32,
                &[F32],
                move |[a, ..]| how.square_root(a),
            ));
        }
        let how = Arithmetic {
            rounding,
            ..Arithmetic::plain(Format::F64)
        };
        basic(forms, &format!("{name}.f64"), how, F64);
        forms.push(form(
            &format!("div.{name}.f64"),
            B64,
            &[F64, F64],
            move |[a, b, _]| how.divide(a, b),
        ));
        forms.push(form(
            &format!("rcp.{name}.f64"),
            B64,
            &[F64],
            move |[a, ..]| how.divide(one64, a),
        ));
        forms.push(form(
            &format!("sqrt.{name}.f64"),
            B64,
            &[F64],
            move |[a, ..]| how.square_root(a),
        ));
    }
}

/// Negative results become positive zero (`.relu`); a NaN stays what it is.
fn rectify(format: Format, bits: u64) -> u64 {
    if format.is_nan(bits) {
        bits
    } else if bits & format.sign_mask() != 0 {
        0
    } else {
        bits
    }
}

/// Applies a definition to both halves of packed operands.
fn both(
    definition: impl Fn([u64; 3]) -> u64 + Send + Sync + 'static,
) -> impl Fn([u64; 3]) -> u64 + Send + Sync {
    move |operands| {
        let low = definition(operands.map(|bits| bits & 0xffff));
        let high = definition(operands.map(|bits| bits >> 16 & 0xffff));
        high << 16 | low
    }
}

fn halves(forms: &mut Vec<Form>) {
    for flush in [false, true] {
        let ftz = if flush { ".ftz" } else { "" };
        for saturate in [false, true] {
            let sat = if saturate { ".sat" } else { "" };
            let how = Arithmetic {
                flush,
                saturate,
                ..Arithmetic::plain(Format::F16)
            };
            basic(forms, &format!("rn{ftz}{sat}.f16"), how, F16);
            let suffix = format!("rn{ftz}{sat}.f16x2");
            let (two, three) = ([F16X2; 2], [F16X2; 3]);
            forms.push(form(
                &format!("add.{suffix}"),
                B32,
                &two,
                both(move |[a, b, _]| how.add(a, b)),
            ));
            forms.push(form(
                &format!("mul.{suffix}"),
                B32,
                &two,
                both(move |[a, b, _]| how.multiply(a, b)),
            ));
            forms.push(form(
                &format!("fma.{suffix}"),
                B32,
                &three,
                both(move |[a, b, c]| how.fused(a, b, c)),
            ));
        }
        let how = Arithmetic {
            flush,
            ..Arithmetic::plain(Format::F16)
        };
        let relu = both(move |[a, b, c]| rectify(Format::F16, how.fused(a, b, c)));
        forms.push(form(
            &format!("fma.rn{ftz}.relu.f16x2"),
            B32,
            &[F16X2; 3],
            relu,
        ));
    }
    let how = Arithmetic::plain(Format::BF16);
    basic(forms, "rn.bf16", how, BF16);
    forms.push(form(
        "fma.rn.bf16x2",
        B32,
        &[BF16X2; 3],
        both(move |[a, b, c]| how.fused(a, b, c)),
    ));
    let relu = both(move |[a, b, c]| rectify(Format::BF16, how.fused(a, b, c)));
    forms.push(form("fma.rn.relu.bf16x2", B32, &[BF16X2; 3], relu));
}

fn extremes(forms: &mut Vec<Form>) {
    for (name, which) in [("min", Extreme::Minimum), ("max", Extreme::Maximum)] {
        for flush in [false, true] {
            let ftz = if flush { ".ftz" } else { "" };
            for propagate in [false, true] {
                let nan = if propagate { ".NaN" } else { "" };
                for (ty, format, operand) in [("f32", Format::F32, F32), ("f16", Format::F16, F16)]
                {
                    let definition = move |[a, b, _]: [u64; 3]| {
                        let of = |bits| if flush { format.flush(bits) } else { bits };
                        extreme(format, of(a), of(b), which, propagate)
                    };
                    forms.push(form(
                        &format!("{name}{ftz}{nan}.{ty}"),
                        operand.0,
                        &[operand; 2],
                        definition,
                    ));
                }
            }
        }
        for propagate in [false, true] {
            let nan = if propagate { ".NaN" } else { "" };
            let definition =
                move |[a, b, _]: [u64; 3]| extreme(Format::BF16, a, b, which, propagate);
            forms.push(form(
                &format!("{name}{nan}.bf16"),
                B16,
                &[BF16; 2],
                definition,
            ));
        }
        let definition = move |[a, b, _]: [u64; 3]| extreme(Format::F64, a, b, which, false);
        forms.push(form(&format!("{name}.f64"), B64, &[F64; 2], definition));
    }
}

const RELATIONS: [(&str, Relation); 14] = [
    ("eq", Relation::Eq),
    ("ne", Relation::Ne),
    ("lt", Relation::Lt),
    ("le", Relation::Le),
    ("gt", Relation::Gt),
    ("ge", Relation::Ge),
    ("equ", Relation::Equ),
    ("neu", Relation::Neu),
    ("ltu", Relation::Ltu),
    ("leu", Relation::Leu),
    ("gtu", Relation::Gtu),
    ("geu", Relation::Geu),
    ("num", Relation::Num),
    ("nan", Relation::Nan),
];

fn comparisons(forms: &mut Vec<Form>) {
    for (name, relation) in RELATIONS {
        let mut push = |suffix: &str, format: Format, operand: Operand, flush: bool| {
            let definition = move |[a, b, _]: [u64; 3]| {
                let of = |bits| if flush { format.flush(bits) } else { bits };
                relation.holds(compare(format, of(a), of(b))).into()
            };
            forms.push(form(
                &format!("setp.{name}{suffix}"),
                Pred,
                &[operand; 2],
                definition,
            ));
        };
        push(".f32", Format::F32, F32, false);
        push(".ftz.f32", Format::F32, F32, true);
        push(".f64", Format::F64, F64, false);
        push(".f16", Format::F16, F16, false);
        push(".ftz.f16", Format::F16, F16, true);
        push(".bf16", Format::BF16, BF16, false);
    }
}

fn between_floats(forms: &mut Vec<Form>) {
    for (name, rounding) in ROUNDINGS {
        for saturate in [false, true] {
            let sat = if saturate { ".sat" } else { "" };
            let narrow = move |from: Format, to: Format, bits: u64| {
                let out = to_format(from, bits, to, rounding, Overflow::Ieee);
                if saturate {
                    clamp_to_unit(to, out)
                } else {
                    out
                }
            };
            forms.push(form(
                &format!("cvt.{name}{sat}.f32.f64"),
                B32,
                &[F64],
                move |[a, ..]| narrow(Format::F64, Format::F32, a),
            ));
            forms.push(form(
                &format!("cvt.{name}{sat}.f16.f32"),
                B16,
                &[F32],
                move |[a, ..]| narrow(Format::F32, Format::F16, a),
            ));
            forms.push(form(
                &format!("cvt.{name}{sat}.f16.f64"),
                B16,
                &[F64],
                move |[a, ..]| narrow(Format::F64, Format::F16, a),
            ));
        }
        forms.push(form(
            &format!("cvt.{name}i.f32.f32"),
            B32,
            &[F32],
            move |[a, ..]| to_integral(Format::F32, a, rounding),
        ));
        forms.push(form(
            &format!("cvt.{name}i.ftz.f32.f32"),
            B32,
            &[F32],
            move |[a, ..]| to_integral(Format::F32, Format::F32.flush(a), rounding),
        ));
        forms.push(form(
            &format!("cvt.{name}i.f64.f64"),
            B64,
            &[F64],
            move |[a, ..]| to_integral(Format::F64, a, rounding),
        ));
        forms.push(form(
            &format!("cvt.{name}i.f16.f16"),
            B16,
            &[F16],
            move |[a, ..]| to_integral(Format::F16, a, rounding),
        ));
    }
    let widen = |from: Format, to: Format| {
        move |[a, ..]: [u64; 3]| to_format(from, a, to, Rounding::NearestEven, Overflow::Ieee)
    };
    forms.push(form(
        "cvt.f64.f32",
        B64,
        &[F32],
        widen(Format::F32, Format::F64),
    ));
    forms.push(form(
        "cvt.f32.f16",
        B32,
        &[F16],
        widen(Format::F16, Format::F32),
    ));
    forms.push(form(
        "cvt.f64.f16",
        B64,
        &[F16],
        widen(Format::F16, Format::F64),
    ));
    // The sixteen bits are moved up, whatever they mean: a NaN keeps its payload and stays signalling.
    forms.push(form("cvt.f32.bf16", B32, &[BF16], |[a, ..]| a << 16));
    for (name, rounding) in [("rn", Rounding::NearestEven), ("rz", Rounding::Zero)] {
        for relu in [false, true] {
            let suffix = if relu { ".relu" } else { "" };
            for (ty, format) in [("f16", Format::F16), ("bf16", Format::BF16)] {
                let narrow = move |bits: u64| {
                    let out = to_format(Format::F32, bits, format, rounding, Overflow::Ieee);
                    if relu { rectify(format, out) } else { out }
                };
                if ty == "bf16" || relu {
                    forms.push(form(
                        &format!("cvt.{name}{suffix}.{ty}.f32"),
                        B16,
                        &[F32],
                        move |[a, ..]| narrow(a),
                    ));
                }
                forms.push(form(
                    &format!("cvt.{name}{suffix}.{ty}x2.f32"),
                    B32,
                    &[F32, F32],
                    move |[a, b, _]| narrow(a) << 16 | narrow(b),
                ));
            }
        }
    }
    forms.push(form("cvt.rna.tf32.f32", B32, &[F32], |[a, ..]| {
        if Format::F32.is_nan(a) {
            // Thirteen bits are cut off, nothing else: a NaN whose payload stands there only becomes an infinity.
            a & !0x1fff
        } else {
            to_format(
                Format::F32,
                a,
                Format::TF32,
                Rounding::NearestAway,
                Overflow::Ieee,
            ) << 13
        }
    }));
}

fn integers_and_floats(forms: &mut Vec<Form>) {
    let types = [(8, B32), (16, B16), (32, B32), (64, B64)];
    for (bits, width) in types {
        for signed in [false, true] {
            let integer = Integer { bits, signed };
            let ty = format!("{}{bits}", if signed { 's' } else { 'u' });
            for (name, rounding) in ROUNDINGS {
                for (float, format, operand) in [
                    ("f32", Format::F32, F32),
                    ("f64", Format::F64, F64),
                    ("f16", Format::F16, F16),
                ] {
                    // The manual: a NaN becomes zero, unless either side has 64 bits: then the highest bit alone.
                    let nan = if bits == 64 || float == "f64" {
                        1 << (bits - 1)
                    } else {
                        0
                    };
                    let definition = move |[a, ..]: [u64; 3]| {
                        let out = to_integer(format, a, integer, rounding, nan);
                        // A narrow result is extended to the register it goes to.
                        if signed && bits == 8 && out & 0x80 != 0 {
                            out | 0xffff_ff00
                        } else {
                            out
                        }
                    };
                    forms.push(form(
                        &format!("cvt.{name}i.{ty}.{float}"),
                        width,
                        &[operand],
                        definition,
                    ));
                    let result = operand.0;
                    forms.push(form(
                        &format!("cvt.{name}.{float}.{ty}"),
                        result,
                        &[(width, Kind::Int)],
                        move |[a, ..]| from_integer(integer, a, format, rounding),
                    ));
                }
            }
        }
    }
}

fn eight_bits(forms: &mut Vec<Form>) {
    for (ty, format) in [("e4m3x2", Format::E4M3), ("e5m2x2", Format::E5M2)] {
        for relu in [false, true] {
            let suffix = if relu { ".relu" } else { "" };
            let narrow = move |from: Format, bits: u64| {
                let out = to_format(from, bits, format, Rounding::NearestEven, Overflow::Largest);
                if relu { rectify(format, out) } else { out }
            };
            forms.push(form(
                &format!("cvt.rn.satfinite{suffix}.{ty}.f32"),
                B16,
                &[F32, F32],
                move |[a, b, _]| narrow(Format::F32, a) << 8 | narrow(Format::F32, b),
            ));
            forms.push(form(
                &format!("cvt.rn.satfinite{suffix}.{ty}.f16x2"),
                B16,
                &[F16X2],
                move |[a, ..]| narrow(Format::F16, a >> 16) << 8 | narrow(Format::F16, a & 0xffff),
            ));
        }
        forms.push(form(
            &format!("cvt.rn.f16x2.{ty}"),
            B32,
            &[(B16, Kind::Int)],
            move |[a, ..]| {
                let widen = |bits| {
                    to_format(
                        format,
                        bits,
                        Format::F16,
                        Rounding::NearestEven,
                        Overflow::Ieee,
                    )
                };
                widen(a >> 8) << 16 | widen(a & 0xff)
            },
        ));
    }
}
