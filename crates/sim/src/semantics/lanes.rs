//! Exchange and votes between the lanes of a warp.

use super::{Table, bits};
use crate::operand::{Lack, Reader};
use crate::program::Action;

pub(super) const TABLE: Table = &[
    ("SHFL", shuffle),
    ("VOTE", vote),
    ("VOTEU", vote),
    ("MATCH.ALL", match_all),
    ("MATCH.ANY", match_any),
    ("REDUX", reduce),
    ("ELECT", elect),
];

fn shuffle(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (p, d) = (reader.target("p")?, reader.target("d")?);
    let [a, b, c] = reader.sources(["a", "b", "c"])?;
    let mode = reader.modifier("mode")?;
    let from: fn(u32, u32, u32, u32) -> (u32, bool) = match mode {
        "IDX" => |lane, by, limit, segment| {
            let source = lane & segment | by & !segment;
            (source, source <= limit)
        },
        "UP" => |lane, by, limit, _| {
            (
                lane.wrapping_sub(by),
                lane.cast_signed() - by.cast_signed() >= limit.cast_signed(),
            )
        },
        "DOWN" => |lane, by, limit, _| (lane + by, lane + by <= limit),
        "BFLY" => |lane, by, limit, _| (lane ^ by, lane ^ by <= limit),
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
        reader.target("d")?,
        reader.target("p")?,
        reader.condition("q")?,
    );
    let mode = reader.modifier("mode")?;
    if !matches!(mode, "ALL" | "ANY" | "EQ") {
        return Err(format!("mode {mode}"));
    }
    Ok(Box::new(move |core| {
        let ballot = core.condition(&q) & core.active;
        let (all, none) = (ballot == core.active, ballot == 0);
        let verdict = match mode {
            "ALL" => all,
            "ANY" => !none,
            _ => all || none,
        };
        core.put(&d, 0, &[ballot; 32]);
        core.put_condition(&p, if verdict { u32::MAX } else { 0 });
        Ok(())
    }))
}

fn match_any(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, a) = (reader.target("d")?, reader.source("a")?);
    let wide = reader.is("type", "U64");
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
    let [p, d] = reader.targets(["p", "d"])?;
    let a = reader.source("a")?;
    let wide = reader.is("type", "U64");
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
    let (d, a) = (reader.target("d")?, reader.source("a")?);
    let signed = reader.is("sign", "S32");
    let function: fn(u32, u32) -> u32 = match (reader.modifier("fn")?, signed) {
        ("AND", _) => |x, y| x & y,
        ("OR", _) => |x, y| x | y,
        ("XOR", _) => |x, y| x ^ y,
        ("SUM", _) => u32::wrapping_add,
        ("MIN", false) => |x, y| x.min(y),
        ("MAX", false) => |x, y| x.max(y),
        ("MIN", true) => |x, y| x.cast_signed().min(y.cast_signed()).cast_unsigned(),
        ("MAX", true) => |x, y| x.cast_signed().max(y.cast_signed()).cast_unsigned(),
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
        reader.target("p")?,
        reader.target("d")?,
        reader.condition("q")?,
    );
    Ok(Box::new(move |core| {
        let lanes = core.active & core.condition(&q);
        let leader = lanes & lanes.wrapping_neg();
        core.put(&d, 0, &[leader.trailing_zeros(); 32]);
        core.put_condition(&p, leader);
        Ok(())
    }))
}
