//! Integer, logic and bit operations.

use super::Width::{B16, B32, B64, Pred};
use super::{Form, Kind, Operand, Width, form};
use core::cmp::Ordering;
use orias_eval::bits::{self, Permutation};
use orias_eval::integer::{self, Beyond};

const INT: [Operand; 4] = [
    (B16, Kind::Int),
    (B32, Kind::Int),
    (B64, Kind::Int),
    (Pred, Kind::Int),
];

fn int(width: Width) -> Operand {
    match width {
        B16 => INT[0],
        B32 => INT[1],
        B64 => INT[2],
        Pred => INT[3],
    }
}

const COUNT: Operand = (B32, Kind::Count);

fn bits_of(width: Width) -> u32 {
    match width {
        B16 => 16,
        B32 => 32,
        B64 => 64,
        Pred => 1,
    }
}

fn mask(width: Width) -> u64 {
    u64::MAX >> (64 - bits_of(width))
}

/// `bits` as a signed number of its width.
fn signed(width: Width, bits: u64) -> i128 {
    let up = 64 - bits_of(width);
    i128::from((bits << up).cast_signed() >> up)
}

/// `bits` as a number of its type.
fn number(width: Width, is_signed: bool, bits: u64) -> i128 {
    if is_signed {
        signed(width, bits)
    } else {
        i128::from(bits & mask(width))
    }
}

/// The low bits of a number.
fn low(width: Width, number: i128) -> u64 {
    number as u64 & mask(width)
}

/// A form whose statements are more than an opcode and its operands.
fn written(
    name: &str,
    ptx: &str,
    result: Width,
    operands: &[Operand],
    definition: impl Fn([u64; 3]) -> u64 + Send + Sync + 'static,
) -> Form {
    Form {
        name: name.to_owned(),
        ptx: ptx.to_owned(),
        result,
        operands: operands.to_vec(),
        definition: Box::new(definition),
    }
}

/// All integer forms.
pub fn forms() -> Vec<Form> {
    let mut forms = Vec::new();
    for width in [B16, B32, B64] {
        for is_signed in [false, true] {
            arithmetic(&mut forms, width, is_signed);
        }
        shifts(&mut forms, width);
    }
    saturating(&mut forms);
    carries(&mut forms);
    dot_products(&mut forms);
    bit_fields(&mut forms);
    permutations(&mut forms);
    logic(&mut forms);
    forms
}

fn arithmetic(forms: &mut Vec<Form>, width: Width, is_signed: bool) {
    let ty = format!("{}{}", if is_signed { 's' } else { 'u' }, bits_of(width));
    let two = [int(width), int(width)];
    let three = [int(width), int(width), int(width)];
    let of = move |bits| number(width, is_signed, bits);
    let to = move |n| low(width, n);
    let half = bits_of(width);
    forms.push(form(&format!("add.{ty}"), width, &two, move |[a, b, _]| {
        to(of(a) + of(b))
    }));
    forms.push(form(&format!("sub.{ty}"), width, &two, move |[a, b, _]| {
        to(of(a) - of(b))
    }));
    forms.push(form(
        &format!("mul.lo.{ty}"),
        width,
        &two,
        move |[a, b, _]| to(of(a).wrapping_mul(of(b))),
    ));
    forms.push(form(
        &format!("mad.lo.{ty}"),
        width,
        &three,
        move |[a, b, c]| to(of(a).wrapping_mul(of(b)).wrapping_add(of(c))),
    ));
    let high = move |a: u64, b: u64| match width {
        B64 => i128::from(integer::multiply_high_64(a, b, is_signed)),
        _ => (of(a) * of(b)) >> half,
    };
    forms.push(form(
        &format!("mul.hi.{ty}"),
        width,
        &two,
        move |[a, b, _]| to(high(a, b)),
    ));
    forms.push(form(
        &format!("mad.hi.{ty}"),
        width,
        &three,
        move |[a, b, c]| to(high(a, b) + of(c)),
    ));
    forms.push(form(&format!("min.{ty}"), width, &two, move |[a, b, _]| {
        to(of(a).min(of(b)))
    }));
    forms.push(form(&format!("max.{ty}"), width, &two, move |[a, b, _]| {
        to(of(a).max(of(b)))
    }));
    forms.push(form(
        &format!("div.{ty}"),
        width,
        &two,
        move |[a, b, _]| match of(b) {
            0 => mask(width),
            divisor => to(of(a) / divisor),
        },
    ));
    forms.push(form(
        &format!("rem.{ty}"),
        width,
        &two,
        move |[a, b, _]| match of(b) {
            0 => mask(width),
            divisor => to(of(a) % divisor),
        },
    ));
    forms.push(form(
        &format!("sad.{ty}"),
        width,
        &three,
        move |[a, b, c]| to((of(a) - of(b)).abs() + of(c)),
    ));
    if width != B64 {
        let double = if width == B16 { B32 } else { B64 };
        forms.push(form(
            &format!("mul.wide.{ty}"),
            double,
            &two,
            move |[a, b, _]| low(double, of(a) * of(b)),
        ));
        let operands = [int(width), int(width), int(double)];
        forms.push(form(
            &format!("mad.wide.{ty}"),
            double,
            &operands,
            move |[a, b, c]| low(double, of(a) * of(b) + number(double, is_signed, c)),
        ));
    }
    if is_signed {
        forms.push(form(
            &format!("abs.{ty}"),
            width,
            &two[..1],
            move |[a, ..]| to(of(a).abs()),
        ));
        forms.push(form(
            &format!("neg.{ty}"),
            width,
            &two[..1],
            move |[a, ..]| to(-of(a)),
        ));
    }
    if width == B32 {
        for (name, upper) in [("lo", false), ("hi", true)] {
            let product = move |a: u64, b: u64| {
                let of24 = |bits: u64| number(B64, is_signed, bits << 40) >> 40;
                let full = if is_signed {
                    of24(a) * of24(b)
                } else {
                    i128::from(a & 0xff_ffff) * i128::from(b & 0xff_ffff)
                };
                if upper { full >> 16 } else { full }
            };
            forms.push(form(
                &format!("mul24.{name}.{ty}"),
                width,
                &two,
                move |[a, b, _]| to(product(a, b)),
            ));
            forms.push(form(
                &format!("mad24.{name}.{ty}"),
                width,
                &three,
                move |[a, b, c]| to(product(a, b) + of(c)),
            ));
        }
    }
    comparisons(forms, width, is_signed, &ty);
}

/// A relation's name and when it holds.
type Relation = (&'static str, fn(Ordering) -> bool);

fn comparisons(forms: &mut Vec<Form>, width: Width, is_signed: bool, ty: &str) {
    let relations: [Relation; 6] = [
        ("eq", Ordering::is_eq),
        ("ne", Ordering::is_ne),
        ("lt", Ordering::is_lt),
        ("le", Ordering::is_le),
        ("gt", Ordering::is_gt),
        ("ge", Ordering::is_ge),
    ];
    for (name, holds) in relations {
        let two = [int(width), int(width)];
        forms.push(form(
            &format!("setp.{name}.{ty}"),
            Pred,
            &two,
            move |[a, b, _]| {
                let order = match width {
                    B32 => integer::compare(a as u32, b as u32, is_signed),
                    _ => number(width, is_signed, a).cmp(&number(width, is_signed, b)),
                };
                holds(order).into()
            },
        ));
    }
}

fn shifts(forms: &mut Vec<Form>, width: Width) {
    let n = bits_of(width);
    let operands = [int(width), COUNT];
    forms.push(form(
        &format!("shl.b{n}"),
        width,
        &operands,
        move |[a, by, _]| match width {
            B32 => integer::shift_left(a as u32, by as u32).into(),
            _ if by >= u64::from(n) => 0,
            _ => a << by & mask(width),
        },
    ));
    for is_signed in [false, true] {
        let ty = if is_signed { 's' } else { 'u' };
        forms.push(form(
            &format!("shr.{ty}{n}"),
            width,
            &operands,
            move |[a, by, _]| match width {
                B32 => integer::shift_right(a as u32, by as u32, is_signed).into(),
                _ => low(width, number(width, is_signed, a) >> by.min(100)),
            },
        ));
    }
}

fn saturating(forms: &mut Vec<Form>) {
    let clamp = |n: i128| low(B32, n.clamp(i128::from(i32::MIN), i128::from(i32::MAX)));
    let two = [int(B32), int(B32)];
    let of = |bits| signed(B32, bits);
    forms.push(form("add.sat.s32", B32, &two, move |[a, b, _]| {
        clamp(of(a) + of(b))
    }));
    forms.push(form("sub.sat.s32", B32, &two, move |[a, b, _]| {
        clamp(of(a) - of(b))
    }));
    let three = [int(B32), int(B32), int(B32)];
    forms.push(form("mad.hi.sat.s32", B32, &three, move |[a, b, c]| {
        clamp(((of(a) * of(b)) >> 32) + of(c))
    }));
}

fn carries(forms: &mut Vec<Form>) {
    let three = [int(B32), int(B32), int(B32)];
    forms.push(written(
        "add.cc addc.u32",
        "add.cc.u32 %t0, %a, %b; addc.u32 %d, %c, %t0;",
        B32,
        &three,
        |[a, b, c]| {
            let first = integer::add3(a as u32, b as u32, 0, 0);
            integer::add3(c as u32, first.value, 0, first.carries)
                .value
                .into()
        },
    ));
    forms.push(written(
        "sub.cc subc.u32",
        "sub.cc.u32 %t0, %a, %b; subc.u32 %d, %c, %t0;",
        B32,
        &three,
        |[a, b, c]| {
            // A borrow is a missing carry of a + !b + 1.
            let first = integer::add3(a as u32, !(b as u32), 0, 1);
            integer::add3(c as u32, !first.value, 0, first.carries)
                .value
                .into()
        },
    ));
    forms.push(written(
        "mad.lo.cc madc.hi.u32",
        "mad.lo.cc.u32 %t0, %a, %b, %c; madc.hi.u32 %d, %a, %b, %t0;",
        B32,
        &three,
        |[a, b, c]| {
            let product = integer::multiply_wide(a as u32, b as u32, false);
            let low = integer::add3(product as u32, c as u32, 0, 0);
            integer::add3((product >> 32) as u32, low.value, 0, low.carries)
                .value
                .into()
        },
    ));
    let wide = [int(B64), int(B64), int(B64)];
    forms.push(written(
        "add.cc addc.u64",
        "add.cc.u64 %u0, %a, %b; addc.u64 %d, %c, %u0;",
        B64,
        &wide,
        |[a, b, c]| {
            let (sum, carry) = a.overflowing_add(b);
            c.wrapping_add(sum).wrapping_add(carry.into())
        },
    ));
}

fn dot_products(forms: &mut Vec<Form>) {
    let three = [int(B32), int(B32), int(B32)];
    for (a_type, a_signed) in [("u32", false), ("s32", true)] {
        for (b_type, b_signed) in [("u32", false), ("s32", true)] {
            forms.push(form(
                &format!("dp4a.{a_type}.{b_type}"),
                B32,
                &three,
                move |[a, b, c]| {
                    integer::dot4(a as u32, a_signed, b as u32, b_signed, c as u32).into()
                },
            ));
            for (part, upper) in [("lo", false), ("hi", true)] {
                forms.push(form(
                    &format!("dp2a.{part}.{a_type}.{b_type}"),
                    B32,
                    &three,
                    move |[a, b, c]| {
                        integer::dot2(a as u32, a_signed, b as u32, b_signed, upper, c as u32)
                            .into()
                    },
                ));
            }
        }
    }
}

fn bit_fields(forms: &mut Vec<Form>) {
    let one = [int(B32)];
    forms.push(form("popc.b32", B32, &one, |[a, ..]| {
        (a as u32).count_ones().into()
    }));
    forms.push(form("clz.b32", B32, &one, |[a, ..]| {
        (a as u32).leading_zeros().into()
    }));
    forms.push(form("brev.b32", B32, &one, |[a, ..]| {
        (a as u32).reverse_bits().into()
    }));
    let wide = [int(B64)];
    forms.push(form("popc.b64", B32, &wide, |[a, ..]| {
        a.count_ones().into()
    }));
    forms.push(form("clz.b64", B32, &wide, |[a, ..]| {
        a.leading_zeros().into()
    }));
    forms.push(form("brev.b64", B64, &wide, |[a, ..]| a.reverse_bits()));
    for (ty, is_signed) in [("u32", false), ("s32", true)] {
        forms.push(form(&format!("bfind.{ty}"), B32, &one, move |[a, ..]| {
            integer::leading_bit(a as u32, is_signed)
                .unwrap_or(u32::MAX)
                .into()
        }));
        forms.push(form(
            &format!("bfind.shiftamt.{ty}"),
            B32,
            &one,
            move |[a, ..]| {
                integer::leading_bit(a as u32, is_signed)
                    .map_or(u32::MAX, |place| 31 - place)
                    .into()
            },
        ));
        let operands = [int(B32), COUNT, COUNT];
        forms.push(form(
            &format!("bfe.{ty}"),
            B32,
            &operands,
            move |[a, start, length]| {
                integer::extract_bits(
                    a as u32,
                    start as u32 & 0xff,
                    length as u32 & 0xff,
                    is_signed,
                )
                .into()
            },
        ));
    }
    forms.push(written(
        "bfi.b32",
        "and.b32 %t0, %c, 0xff; shr.u32 %t1, %c, 8; and.b32 %t1, %t1, 0xff; bfi.b32 %d, %a, %b, %t0, %t1;",
        B32,
        &[int(B32), int(B32), COUNT],
        |[a, base, field]| integer::insert_bits(a as u32, base as u32, field as u32 & 0xff, field as u32 >> 8 & 0xff).into(),
    ));
    for (mode, wrap) in [("clamp", false), ("wrap", true)] {
        forms.push(form(
            &format!("bmsk.{mode}.b32"),
            B32,
            &[COUNT, COUNT],
            move |[start, length, _]| bits::mask(start as u32, length as u32, wrap).into(),
        ));
    }
}

fn permutations(forms: &mut Vec<Form>) {
    let operands = [int(B32), int(B32), int(B32)];
    let modes = [
        ("", Permutation::Index),
        (".f4e", Permutation::Forward4),
        (".b4e", Permutation::Backward4),
        (".rc8", Permutation::Replicate8),
        (".ecl", Permutation::EdgeClampLeft),
        (".ecr", Permutation::EdgeClampRight),
        (".rc16", Permutation::Replicate16),
    ];
    for (suffix, mode) in modes {
        forms.push(form(
            &format!("prmt.b32{suffix}"),
            B32,
            &operands,
            move |[a, b, selector]| bits::permute(a as u32, b as u32, selector as u32, mode).into(),
        ));
    }
    for (name, beyond) in [("clamp", Beyond::Clamp), ("wrap", Beyond::Wrap)] {
        let operands = [int(B32), int(B32), COUNT];
        forms.push(form(
            &format!("shf.l.{name}.b32"),
            B32,
            &operands,
            move |[low, high, by]| {
                integer::funnel_left(low as u32, high as u32, by as u32, beyond).into()
            },
        ));
        forms.push(form(
            &format!("shf.r.{name}.b32"),
            B32,
            &operands,
            move |[low, high, by]| {
                integer::funnel_right(low as u32, high as u32, by as u32, beyond).into()
            },
        ));
    }
}

fn logic(forms: &mut Vec<Form>) {
    let operands = [int(B32), int(B32), int(B32)];
    for table in [0x00u8, 0x01, 0x1b, 0x3c, 0x69, 0x80, 0x96, 0xca, 0xe8, 0xfe] {
        let ptx = format!("lop3.b32 %d, %a, %b, %c, {table};");
        forms.push(written(
            &format!("lop3.b32 {table:#04x}"),
            &ptx,
            B32,
            &operands,
            move |[a, b, c]| bits::logic3(a as u32, b as u32, c as u32, table).into(),
        ));
    }
    forms.push(form(
        "selp.b32",
        B32,
        &[int(B32), int(B32), int(Pred)],
        |[a, b, p]| if p == 1 { a } else { b },
    ));
    forms.push(form("slct.b32.s32", B32, &operands, |[a, b, c]| {
        if (c as u32).cast_signed() >= 0 { a } else { b }
    }));
}
