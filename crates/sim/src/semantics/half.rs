//! Two half-precision or bfloat16 numbers in a register.

use super::float::{MinMax, flushes, relation, stands};
use super::{Combine, SetPredicate, Table, bits};
use crate::core::Core;
use crate::operand::{Lack, Lanes, Reader, Source};
use crate::program::Action;
use orias_eval::float::arithmetic::rectify;
use orias_eval::float::{Arithmetic, Format, Overflow, Rounding, convert};
use orias_sass::slot_names as slot;
use orias_sass::{Op, modifier_names as name, modifier_values as value};

pub(super) const TABLE: Table = &[
    (Op::HADD2, add),
    (Op::HADD2_BF16, add),
    (Op::HADD2_F32, add_single),
    (Op::HMUL2, multiply),
    (Op::HMUL2_BF16, multiply),
    (Op::HFMA2, fused),
    (Op::HFMA2_BF16, fused),
    (Op::HFMA2_RELU, fused),
    (Op::HFMA2_RELU_BF16, fused),
    (Op::HFMA2_MMA, fused),
    (Op::HFMA2_MMA_BF16, fused),
    (Op::HFMA2_MMA_RELU, fused),
    (Op::HFMA2_MMA_RELU_BF16, fused),
    (Op::HMNMX2, minimum),
    (Op::HMNMX2_BF16, minimum),
    (Op::VHMNMX, minimum),
    (Op::VHMNMX_BF16, minimum),
    (Op::HSET2, set),
    (Op::HSET2_BF16, set),
    (Op::HSETP2, set_predicate),
    (Op::HSETP2_BF16, set_predicate),
];

/// The format that an operation works in.
pub(super) fn format_of(op: Op) -> Format {
    match op {
        Op::MUFU_BF16
        | Op::FRND_BF16
        | Op::HADD2_BF16
        | Op::HMUL2_BF16
        | Op::HFMA2_BF16
        | Op::HFMA2_RELU_BF16
        | Op::HFMA2_MMA_BF16
        | Op::HFMA2_MMA_RELU_BF16
        | Op::HMNMX2_BF16
        | Op::HMNMX2_BF16_IS_A
        | Op::VHMNMX_BF16
        | Op::HSET2_BF16
        | Op::HSETP2_BF16 => Format::BF16,
        _ => Format::F16,
    }
}

/// The half that a source of one number selects, sign and absolute value applied.
pub(super) fn one(core: &mut Core<'_>, source: &Source) -> [u64; 32] {
    let word = core.word(source, 0);
    word.map(|x| {
        let mut half = if source.select == 1 {
            x >> 16
        } else {
            x & 0xffff
        };
        if source.absolute {
            half &= 0x7fff;
        }
        if source.negate {
            half ^= 0x8000;
        }
        u64::from(half)
    })
}

/// Both halves of a source as its select, absolute value and sign make them.
fn both(core: &mut Core<'_>, source: &Source) -> Lanes {
    let word = core.word(source, 0);
    word.map(|x| {
        let (low, high) = (x & 0xffff, x >> 16);
        // 0: as they are; 2: the low one twice; 3: the high one twice; 4 (H0_NH1): the low one above, the high one negated below.
        let mut x = match source.select {
            2 => low << 16 | low,
            3 => high << 16 | high,
            4 => low << 16 | (high ^ 0x8000),
            _ => x,
        };
        if source.absolute {
            x &= 0x7fff_7fff;
        }
        if source.negate {
            x ^= 0x8000_8000;
        }
        x
    })
}

fn check_select(source: &Source) -> Result<(), Lack> {
    match source.select {
        1 => Err("a single-precision operand of a half-precision operation".to_owned()),
        4 if source.absolute => Err("the absolute value of a turned operand".to_owned()),
        _ => Ok(()),
    }
}

fn how(reader: &Reader<'_>) -> Result<Arithmetic, Lack> {
    Ok(Arithmetic {
        flush: flushes(reader)?,
        saturate: reader.is(name::SAT, value::SAT),
        ..Arithmetic::plain(format_of(reader.instruction.op()))
    })
}

/// A function of both halves.
fn halves(x: u32, y: u32, z: u32, f: impl Fn(u64, u64, u64) -> u64) -> u32 {
    let low = f(
        (x & 0xffff).into(),
        (y & 0xffff).into(),
        (z & 0xffff).into(),
    ) as u32;
    let high = f((x >> 16).into(), (y >> 16).into(), (z >> 16).into()) as u32;
    high << 16 | low & 0xffff
}

fn add(reader: &Reader<'_>) -> Result<Action, Lack> {
    on_both_halves(reader, Arithmetic::add)
}

/// The sum of two low halves in single precision.
fn add_single(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b] = reader.sources([slot::A, slot::B])?;
    let how = Arithmetic {
        flush: flushes(reader)?,
        saturate: reader.is(name::SAT, value::SAT),
        ..Arithmetic::plain(Format::F32)
    };
    Ok(Box::new(move |core| {
        let (x, y) = (both(core, &a), both(core, &b));
        let widen = |x: u32| {
            convert::to_format(
                Format::F16,
                u64::from(x & 0xffff),
                Format::F32,
                Rounding::NearestEven,
                Overflow::Ieee,
            )
        };
        let mut value = [0; 32];
        for l in core.lanes() {
            value[l] = how.add(widen(x[l]), widen(y[l])) as u32;
        }
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn multiply(reader: &Reader<'_>) -> Result<Action, Lack> {
    on_both_halves(reader, Arithmetic::multiply)
}

/// An operation on the low halves of two sources, and on the high halves.
fn on_both_halves(
    reader: &Reader<'_>,
    compute: fn(Arithmetic, u64, u64) -> u64,
) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b] = reader.sources([slot::A, slot::B])?;
    let how = how(reader)?;
    Ok(Box::new(move |core| {
        let (x, y) = (both(core, &a), both(core, &b));
        let mut value = [0; 32];
        for l in core.lanes() {
            value[l] = halves(x[l], y[l], 0, |x, y, _| compute(how, x, y));
        }
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn fused(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    check_select(&b)?;
    let how = how(reader)?;
    let bounded = reader.is(name::FMZ, value::OOB);
    let relu = matches!(
        reader.instruction.op(),
        Op::HFMA2_RELU
            | Op::HFMA2_RELU_BF16
            | Op::HFMA2_RELU_F32
            | Op::HFMA2_MMA_RELU
            | Op::HFMA2_MMA_RELU_BF16
    );
    if relu && !reader.optional_condition(slot::P)?.register.is_constant() {
        return Err("its predicate".to_owned());
    }
    Ok(Box::new(move |core| {
        let (x, y, z) = (both(core, &a), both(core, &b), both(core, &c));
        let mut value = [0; 32];
        for l in core.lanes() {
            value[l] = halves(x[l], y[l], z[l], |x, y, z| {
                let value = if bounded {
                    how.fused_in_bounds(x, y, z)
                } else {
                    how.fused(x, y, z)
                };
                if relu {
                    rectify(how.format, value)
                } else {
                    value
                }
            });
        }
        core.put(&d, 0, &value);
        Ok(())
    }))
}

/// The smaller or larger of two numbers, or of three.
fn minimum(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b] = reader.sources([slot::A, slot::B])?;
    let third = reader.source_if_any(slot::C)?;
    let rule = MinMax::of(reader, format_of(reader.instruction.op()))?;
    let p = reader.condition(slot::P)?;
    Ok(Box::new(move |core| {
        let (x, y) = (both(core, &a), both(core, &b));
        let z = third.as_ref().map(|c| both(core, c));
        let smaller = core.condition(&p);
        let mut value = [0; 32];
        for l in core.lanes() {
            let of_two = |x: u64, y: u64| rule.apply(smaller >> l & 1 == 1, [x, y], [x, y]);
            value[l] = halves(x[l], y[l], 0, |x, y, _| of_two(x, y));
            if let Some(z) = &z {
                value[l] = halves(value[l], z[l], 0, |x, y, _| of_two(x, y));
            }
        }
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn set(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b] = reader.sources([slot::A, slot::B])?;
    let (p, relation, flush) = (
        reader.condition(slot::P)?,
        relation(reader)?,
        flushes(reader)?,
    );
    let format = format_of(reader.instruction.op());
    let combine = Combine::of(reader)?;
    let yes = match (reader.is(name::BF, value::BF), format) {
        (false, _) => 0xffff,
        (true, Format::BF16) => 0x3f80,
        (true, _) => 0x3c00,
    };
    Ok(Box::new(move |core| {
        let (x, y) = (both(core, &a), both(core, &b));
        let other = core.condition(&p);
        let mut value = [0; 32];
        for l in core.lanes() {
            value[l] = halves(x[l], y[l], 0, |x, y, _| {
                let result = u32::from(stands(relation, format, flush, x, y));
                if combine.apply(result, other >> l & 1) == 1 {
                    yes
                } else {
                    0
                }
            });
        }
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn set_predicate(reader: &Reader<'_>) -> Result<Action, Lack> {
    let set = SetPredicate::of(reader)?;
    let (relation, flush) = (relation(reader)?, flushes(reader)?);
    let format = format_of(reader.instruction.op());
    let both_halves = reader.is(name::HAND, value::H_AND);
    Ok(Box::new(move |core| {
        let (x, y) = (both(core, &set.a), both(core, &set.b));
        let of = |shift: u32| {
            bits(|l| {
                let half = |x: u32| u64::from(x >> shift & 0xffff);
                stands(relation, format, flush, half(x[l]), half(y[l]))
            })
        };
        let (low, high) = (of(0), of(16));
        let (first, second) = if both_halves {
            (low & high, !(low & high))
        } else {
            (low, high)
        };
        set.put(core, first, second);
        Ok(())
    }))
}
