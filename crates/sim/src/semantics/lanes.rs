//! Exchange and votes between the lanes of a warp.

use super::{Table, bits};
use crate::operand::{Lack, Reader};
use crate::program::Action;
use orias_sass::slot_names as slot;
use orias_sass::{Op, modifier_names as name, modifier_values as value};

pub(super) const TABLE: Table = &[
    (Op::SHFL, shuffle),
    (Op::VOTE, vote),
    (Op::VOTEU, vote),
    (Op::MATCH_ALL, match_all),
    (Op::MATCH_ANY, match_any),
    (Op::REDUX, reduce),
    (Op::ELECT, elect),
];

fn shuffle(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (p, d) = (reader.target(slot::P)?, reader.target(slot::D)?);
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    let mode = reader.modifier(name::MODE)?;
    let from: fn(u32, u32, u32, u32) -> (u32, bool) = match mode {
        value::IDX => |lane, by, limit, segment| {
            let source = lane & segment | by & !segment;
            (source, source <= limit)
        },
        value::UP => |lane, by, limit, _| {
            (
                lane.wrapping_sub(by),
                lane.cast_signed() - by.cast_signed() >= limit.cast_signed(),
            )
        },
        value::DOWN => |lane, by, limit, _| (lane + by, lane + by <= limit),
        value::BFLY => |lane, by, limit, _| (lane ^ by, lane ^ by <= limit),
        other => return Err(format!("mode {other}")),
    };
    Ok(Box::new(move |core| {
        let (x, by, bounds) = (core.word(&a, 0), core.word(&b, 0), core.word(&c, 0));
        let sources: [(u32, bool); 32] = std::array::from_fn(|l| {
            let lane = l as u32;
            let segment = bounds[l] >> 8 & 0x1f;
            let clamp = bounds[l] & 0x1f;
            let limit = lane & segment | clamp & !segment;
            let (source, inside) = from(lane, by[l] & 0x1f, limit, segment);
            if inside {
                (source & 31, true)
            } else {
                (lane, false)
            }
        });
        let value: [u32; 32] = std::array::from_fn(|l| x[sources[l].0 as usize]);
        core.put(&d, 0, &value);
        core.put_condition(&p, bits(|l| sources[l].1));
        Ok(())
    }))
}

fn vote(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, p, q) = (
        reader.target(slot::D)?,
        reader.target(slot::P)?,
        reader.condition(slot::Q)?,
    );
    let mode = reader.modifier(name::MODE)?;
    if !matches!(mode, value::ALL | value::ANY | value::EQ) {
        return Err(format!("mode {mode}"));
    }
    Ok(Box::new(move |core| {
        let ballot = core.condition(&q) & core.active;
        let (all, none) = (ballot == core.active, ballot == 0);
        let verdict = match mode {
            value::ALL => all,
            value::ANY => !none,
            _ => all || none,
        };
        core.put(&d, 0, &[ballot; 32]);
        core.put_condition(&p, if verdict { u32::MAX } else { 0 });
        Ok(())
    }))
}

fn match_any(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, a) = (reader.target(slot::D)?, reader.source(slot::A)?);
    let wide = reader.is(name::TYPE, value::U64);
    Ok(Box::new(move |core| {
        let x = if wide {
            core.pair(&a)
        } else {
            core.word(&a, 0).map(u64::from)
        };
        let active = core.active;
        let value: [u32; 32] = std::array::from_fn(|l| bits(|m| x[l] == x[m]) & active);
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn match_all(reader: &Reader<'_>) -> Result<Action, Lack> {
    let [p, d] = reader.targets([slot::P, slot::D])?;
    let a = reader.source(slot::A)?;
    let wide = reader.is(name::TYPE, value::U64);
    Ok(Box::new(move |core| {
        let x = if wide {
            core.pair(&a)
        } else {
            core.word(&a, 0).map(u64::from)
        };
        let first = x[core.active.trailing_zeros() as usize];
        let all = core.lanes().all(|lane| x[lane] == first);
        core.put(&d, 0, &[if all { core.active } else { 0 }; 32]);
        core.put_condition(&p, if all { u32::MAX } else { 0 });
        Ok(())
    }))
}

fn reduce(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, a) = (reader.target(slot::D)?, reader.source(slot::A)?);
    let signed = reader.is(name::SIGN, value::S32);
    let function: fn(u32, u32) -> u32 = match (reader.modifier(name::FN)?, signed) {
        (value::AND, _) => |x, y| x & y,
        (value::OR, _) => |x, y| x | y,
        (value::XOR, _) => |x, y| x ^ y,
        (value::SUM, _) => u32::wrapping_add,
        (value::MIN, false) => |x, y| x.min(y),
        (value::MAX, false) => |x, y| x.max(y),
        (value::MIN, true) => |x, y| x.cast_signed().min(y.cast_signed()).cast_unsigned(),
        (value::MAX, true) => |x, y| x.cast_signed().max(y.cast_signed()).cast_unsigned(),
        (other, _) => return Err(format!("operation {other}")),
    };
    Ok(Box::new(move |core| {
        let x = core.word(&a, 0);
        let value = core
            .lanes()
            .map(|lane| x[lane])
            .reduce(function)
            .unwrap_or(0);
        core.put(&d, 0, &[value; 32]);
        Ok(())
    }))
}

/// The lowest lane that runs, of those that the condition names.
fn elect(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (p, d, q) = (
        reader.target(slot::P)?,
        reader.target(slot::D)?,
        reader.condition(slot::Q)?,
    );
    Ok(Box::new(move |core| {
        let lanes = core.active & core.condition(&q);
        let leader = lanes & lanes.wrapping_neg();
        core.put(&d, 0, &[leader.trailing_zeros(); 32]);
        core.put_condition(&p, leader);
        Ok(())
    }))
}
