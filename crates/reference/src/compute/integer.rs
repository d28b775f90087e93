//! Integer arithmetic, with and without carries, bit counts and fields.

use super::{first_type, integer_of, one, two};
use crate::step::{Function, Update};
use orias_eval::float::convert::Integer;
use orias_eval::{bits, integer, number};
use orias_ptx::grammar::{Modifier, Op};
use orias_ptx::opcode::Form;
use orias_ptx::types::Type;

pub(super) fn definition(op: Op, form: &Form) -> Option<Function> {
    let ty = first_type(form)?;
    match op {
        Op::Dp4a => return dp4a(form),
        Op::Dp2aLo => return dp2a(form, false),
        Op::Dp2aHi => return dp2a(form, true),
        Op::Add | Op::Min | Op::Max => {
            if let Some(function) = packed(op, ty, form) {
                return Some(function);
            }
        }
        _ => {}
    }
    let int = integer_of(ty)?;
    let sat = form.has(Modifier::Sat);
    match op {
        Op::Add if form.has(Modifier::Cc) => carry(int, |a, b, _| (a, b)),
        Op::Addc if sat => addc_sat(int),
        Op::Addc => carry(int, |a, b, flag| (a, b + flag)),
        Op::Sub if form.has(Modifier::Cc) => {
            carry(int, move |a, b, _| (a, (b ^ u128::from(int.mask())) + 1))
        }
        Op::Subc if sat => subc_sat(int),
        Op::Subc => carry(int, move |a, b, flag| {
            (a, (b ^ u128::from(int.mask())) + flag)
        }),
        Op::MadLo if form.has(Modifier::Cc) => mad_carry(int, Integer::multiply_low),
        Op::MadHi if form.has(Modifier::Cc) => mad_carry(int, Integer::multiply_high),
        Op::MadcLo => mad_carry(int, Integer::multiply_low),
        Op::MadcHi if sat => madc_hi_sat(int),
        Op::MadcHi => mad_carry(int, Integer::multiply_high),
        Op::Add if sat => one(move |[a, b, ..]| int.clamp(int.value(a) + int.value(b))),
        Op::Add => one(move |[a, b, ..]| int.add(a, b)),
        Op::Sub if sat => one(move |[a, b, ..]| int.clamp(int.value(a) - int.value(b))),
        Op::Sub => one(move |[a, b, ..]| int.subtract(a, b)),
        Op::MulLo => one(move |[a, b, ..]| int.multiply_low(a, b)),
        Op::MulHi => one(move |[a, b, ..]| int.multiply_high(a, b)),
        Op::MulWide => one(move |[a, b, ..]| (int.value(a) * int.value(b)) as u64),
        Op::MadLo => one(move |[a, b, c, ..]| int.add(int.multiply_low(a, b), c)),
        Op::MadHi if sat => {
            one(move |[a, b, c, ..]| int.clamp(int.value(int.multiply_high(a, b)) + int.value(c)))
        }
        Op::MadHi => one(move |[a, b, c, ..]| int.add(int.multiply_high(a, b), c)),
        Op::MadWide => {
            one(move |[a, b, c, ..]| ((int.value(a) * int.value(b)) as u64).wrapping_add(c))
        }
        Op::Mul24Lo => one(move |[a, b, ..]| mul24(int, a, b, false)),
        Op::Mul24Hi => one(move |[a, b, ..]| mul24(int, a, b, true)),
        Op::Mad24Lo => one(move |[a, b, c, ..]| int.add(mul24(int, a, b, false), c)),
        Op::Mad24Hi if sat => {
            one(move |[a, b, c, ..]| int.clamp(int.value(mul24(int, a, b, true)) + int.value(c)))
        }
        Op::Mad24Hi => one(move |[a, b, c, ..]| int.add(mul24(int, a, b, true), c)),
        Op::Sad => one(move |[a, b, c, ..]| int.absolute_difference(a, b, c)),
        Op::Div => one(move |[a, b, ..]| int.divide(a, b)),
        Op::Rem => one(move |[a, b, ..]| int.remainder(a, b)),
        Op::Abs => one(move |[a, ..]| int.wrap(int.value(a).abs())),
        Op::Neg => one(move |[a, ..]| int.wrap(-int.value(a))),
        Op::Min if form.has(Modifier::Relu) => {
            one(move |[a, b, ..]| int.maximum(int.minimum(a, b), 0))
        }
        Op::Min => one(move |[a, b, ..]| int.minimum(a, b)),
        Op::Max if form.has(Modifier::Relu) => {
            one(move |[a, b, ..]| int.maximum(int.maximum(a, b), 0))
        }
        Op::Max => one(move |[a, b, ..]| int.maximum(a, b)),
        Op::Popc => one(move |[a, ..]| (a & int.mask()).count_ones().into()),
        Op::Clz => one(move |[a, ..]| int.leading_zeros(a).into()),
        Op::Brev => one(move |[a, ..]| int.reverse_bits(a)),
        Op::Bfind => bfind(int, form.has(Modifier::Shiftamt)),
        Op::Bfe => one(move |[a, b, c, ..]| int.extract_bits(a, field(int, b), field(int, c))),
        Op::Bfi => one(move |[a, b, c, d, _]| int.insert_bits(a, b, field(int, c), field(int, d))),
        Op::Fns => one(move |[mask, base, offset, ..]| {
            number::nth_set_bit(mask as u32, base as u32, (offset as u32).cast_signed()).into()
        }),
        Op::Szext => szext(int, form.has(Modifier::Wrap)),
        Op::Bmsk => {
            let wrap = form.has(Modifier::Wrap);
            one(move |[a, b, ..]| bits::mask(a as u32, b as u32, wrap).into())
        }
        _ => None,
    }
}

/// `d = a + b`, with the carry out; `operands` says what is added given the carry in. A difference is the sum with the complement: the
/// flag is a carry after differences, too, so that it is set where nothing is borrowed.
fn carry(
    int: Integer,
    operands: impl Fn(u128, u128, u128) -> (u128, u128) + Copy + Send + Sync + 'static,
) -> Option<Function> {
    two(move |[a, b, flag, ..]| {
        let (a, b) = operands(a.into(), b.into(), flag.into());
        let sum = a + b;
        [sum as u64 & int.mask(), (sum >> int.bits) as u64 & 1]
    })
}

/// `addc.sat`: the sum with the carry, clamped.
fn addc_sat(int: Integer) -> Option<Function> {
    one(move |[a, b, flag, ..]| int.clamp(int.value(a) + int.value(b) + i128::from(flag)))
}

/// `subc.sat`: the difference, less one without a carry, clamped.
fn subc_sat(int: Integer) -> Option<Function> {
    one(move |[a, b, flag, ..]| int.clamp(int.value(a) - int.value(b) - i128::from(1 - flag)))
}

/// Half of a product plus `c` plus the carry, with the carry out of that sum.
fn mad_carry(int: Integer, half: fn(Integer, u64, u64) -> u64) -> Option<Function> {
    two(move |[a, b, c, flag, _]| {
        let sum = u128::from(half(int, a, b)) + u128::from(c) + u128::from(flag);
        [sum as u64 & int.mask(), (sum >> int.bits) as u64 & 1]
    })
}

/// `madc.hi.sat`: clamped.
fn madc_hi_sat(int: Integer) -> Option<Function> {
    one(move |[a, b, c, flag, _]| {
        int.clamp(int.value(int.multiply_high(a, b)) + int.value(c) + i128::from(flag))
    })
}

/// The low 32 bits of the product of 24-bit numbers, or the 32 bits from bit 16 on.
fn mul24(int: Integer, a: u64, b: u64, upper: bool) -> u64 {
    let factor = Integer { bits: 24, ..int };
    let product = factor.value(a) * factor.value(b);
    int.wrap(if upper { product >> 16 } else { product })
}

/// Four products of bytes and `c`.
fn dp4a(form: &Form) -> Option<Function> {
    let [a_signed, b_signed] = signs(form)?;
    one(move |[a, b, c, ..]| integer::dot4(a as u32, a_signed, b as u32, b_signed, c as u32).into())
}

/// Two products of half words with bytes and `c`.
fn dp2a(form: &Form, upper: bool) -> Option<Function> {
    let [a_signed, b_signed] = signs(form)?;
    one(move |[a, b, c, ..]| {
        integer::dot2(a as u32, a_signed, b as u32, b_signed, upper, c as u32).into()
    })
}

fn signs(form: &Form) -> Option<[bool; 2]> {
    let mut types = form.types();
    Some([types.next()?.is_signed(), types.next()?.is_signed()])
}

/// A position or length of a bit field. The manual takes the low eight bits; for 64-bit fields ptxas takes them all.
fn field(int: Integer, bits: u64) -> u32 {
    match int.bits {
        64 => bits as u32,
        _ => bits as u32 & 0xff,
    }
}

/// The highest bit that differs from the sign, or the shift that brings it to the top.
fn bfind(int: Integer, shift_amount: bool) -> Option<Function> {
    one(move |[a, ..]| match int.leading_bit(a) {
        None => 0xffff_ffff,
        Some(place) if shift_amount => (int.bits - 1 - place).into(),
        Some(place) => place.into(),
    })
}

/// The low `b` bits of `a`, extended by sign or zero.
fn szext(int: Integer, wrap: bool) -> Option<Function> {
    one(move |[a, b, ..]| {
        let length = if wrap {
            b as u32 & 31
        } else {
            (b as u32).min(32)
        };
        int.extract_bits(a, 0, length)
    })
}

/// Two 16-bit integers side by side.
fn packed(op: Op, ty: Type, form: &Form) -> Option<Function> {
    let int = match ty {
        Type::U16x2 => Integer::unsigned(16),
        Type::S16x2 => Integer::signed(16),
        _ => return None,
    };
    let relu = form.has(Modifier::Relu);
    let limit = move |bits: u64| if relu { int.maximum(bits, 0) } else { bits };
    match op {
        Op::Add => one(super::elementwise(16, 2, move |[a, b, ..]| int.add(a, b))),
        Op::Min => one(super::elementwise(16, 2, move |[a, b, ..]| {
            limit(int.minimum(a, b))
        })),
        Op::Max => one(super::elementwise(16, 2, move |[a, b, ..]| {
            limit(int.maximum(a, b))
        })),
        _ => None,
    }
}

/// What an atomic of an integer type does with the old value and its operands.
pub(crate) fn atomic(operation: Modifier, ty: Type) -> Option<Update> {
    let int = integer_of(ty)?;
    Some(match operation {
        Modifier::And => Box::new(|old, [b, _]| old & b),
        Modifier::Or => Box::new(|old, [b, _]| old | b),
        Modifier::Xor => Box::new(|old, [b, _]| old ^ b),
        Modifier::Exch => Box::new(|_, [b, _]| b),
        Modifier::Cas => Box::new(|old, [b, c]| if old == b { c } else { old }),
        Modifier::Add => Box::new(move |old, [b, _]| int.add(old, b)),
        Modifier::Inc => Box::new(|old, [b, _]| if old >= b { 0 } else { old + 1 }),
        Modifier::Dec => Box::new(|old, [b, _]| if old == 0 || old > b { b } else { old - 1 }),
        Modifier::Min => Box::new(move |old, [b, _]| int.minimum(old, b)),
        Modifier::Max => Box::new(move |old, [b, _]| int.maximum(old, b)),
        _ => return None,
    })
}

/// What `redux` does with two values.
pub(crate) fn reduce(operation: Modifier, ty: Type) -> Option<Update> {
    match operation {
        Modifier::Add
        | Modifier::Min
        | Modifier::Max
        | Modifier::And
        | Modifier::Or
        | Modifier::Xor => atomic(operation, ty),
        _ => None,
    }
}
