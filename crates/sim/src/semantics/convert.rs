//! Conversions between formats.

use super::Table;
use super::float::{flushes, rounding};
use super::half::one;
use crate::core::Core;
use crate::operand::{From, Lack, Reader, Source};
use crate::program::Action;
use orias_eval::float::convert::{Integer, from_integer, to_format, to_integer};
use orias_eval::float::{Format, Overflow, Rounding};
use orias_sass::slot_names as slot;
use orias_sass::{ModifierName, Op, ValueName, modifier_names as name, modifier_values as value};

pub(super) const TABLE: Table = &[
    (Op::F2F_FROM_F32, float_to_float),
    (Op::F2F_TO_F32, float_to_float),
    (Op::F2F_BF16_F16, float_to_float),
    (Op::F2F_F16_BF16, float_to_float),
    (Op::F2F_FROM_F64, float_to_float),
    (Op::F2F_F64_F32, float_to_float),
    (Op::F2F_F64_F16, float_to_float),
    (Op::F2I, float_to_integer),
    (Op::F2I_F16, float_to_integer),
    (Op::F2I_F64, float_to_integer),
    (Op::F2I_64, float_to_integer),
    (Op::F2I_64_F16, float_to_integer),
    (Op::F2I_64_F64, float_to_integer),
    (Op::I2F, integer_to_float),
    (Op::I2F_8, integer_to_float),
    (Op::I2F_16, integer_to_float),
    (Op::I2F_64, integer_to_float),
    (Op::I2F_F64, integer_to_float),
    (Op::I2F_F64_8, integer_to_float),
    (Op::I2F_F64_16, integer_to_float),
    (Op::I2F_F64_64, integer_to_float),
    (Op::I2FP, integer_to_float),
    (Op::I2I, clamp),
    (Op::I2IP, clamp_pack),
    (Op::I2IP_4, clamp_pack),
    (Op::I2IP_2, clamp_pack),
    (Op::F2IP, float_to_packed_integers),
    (Op::F2FP, pack),
    (Op::F2FP_MERGE_C, merge),
    (Op::F2FP_PACK_AB_MERGE_C, pack),
    (Op::F2FP_UNPACK_B, unpack),
    (Op::F2FP_UNPACK_B_MERGE_C, narrow_pair),
    (Op::F2FP_PACK_B, to_tf32),
];

/// A source of any format, as patterns of that format.
fn read(core: &mut Core<'_>, source: &Source, format: Format) -> [u64; 32] {
    match format.width() {
        64 => core.double(source),
        32 => core.single(source).map(u64::from),
        _ => one(core, source),
    }
}

fn format_named(name: ValueName) -> Result<Format, Lack> {
    Ok(match name {
        value::F16 => Format::F16,
        value::BF16 => Format::BF16,
        value::F32 => Format::F32,
        value::F64 => Format::F64,
        value::TF32 => Format::TF32,
        value::E5M2 => Format::E5M2,
        value::E4M3 => Format::E4M3,
        other => return Err(format!("format {other}")),
    })
}

fn float_to_float(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, b) = (reader.target(slot::D)?, reader.source(slot::B)?);
    let named = |modifier: ModifierName| format_named(reader.modifier(modifier)?);
    let (from, to) = match reader.instruction.op() {
        Op::F2F_FROM_F32 => (Format::F32, named(name::DST)?),
        Op::F2F_TO_F32 => (named(name::SRC)?, Format::F32),
        Op::F2F_BF16_F16 => (Format::F16, Format::BF16),
        Op::F2F_F16_BF16 => (Format::BF16, Format::F16),
        Op::F2F_FROM_F64 => (Format::F64, named(name::DST)?),
        Op::F2F_F64_F32 => (Format::F32, Format::F64),
        _ => (named(name::SRC)?, Format::F64),
    };
    let (rounding, flush) = (rounding(reader)?, flushes(reader)?);
    Ok(Box::new(move |core| {
        let x = read(core, &b, from);
        let value = x.map(|x| {
            let x = if flush { from.flush(x) } else { x };
            let value = match (from, to) {
                // Sixteen bits are moved up, whatever they mean.
                (Format::BF16, Format::F32) => x << 16,
                _ => to_format(from, x, to, rounding, Overflow::Ieee),
            };
            if flush && to == Format::F32 {
                to.flush(value)
            } else {
                value
            }
        });
        if to == Format::F64 {
            core.put_pair(&d, &value);
        } else {
            core.put(&d, 0, &value.map(|x| x as u32));
        }
        Ok(())
    }))
}

fn integer_named(name: ValueName) -> Result<Integer, Lack> {
    let (bits, signed) = match name {
        value::U2 => (2, false),
        value::S2 => (2, true),
        value::U4 => (4, false),
        value::S4 => (4, true),
        value::U8 => (8, false),
        value::S8 => (8, true),
        value::U16 => (16, false),
        value::S16 => (16, true),
        value::U32 => (32, false),
        value::S32 => (32, true),
        value::U64 => (64, false),
        value::S64 => (64, true),
        other => return Err(format!("integer type {other}")),
    };
    Ok(Integer { bits, signed })
}

/// A narrow integer as a register holds it.
fn extend(integer: Integer, value: u64) -> u32 {
    let value = value as u32;
    if integer.signed && integer.bits < 32 {
        let up = 32 - integer.bits;
        ((value << up).cast_signed() >> up).cast_unsigned()
    } else {
        value
    }
}

fn float_to_integer(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, b) = (reader.target(slot::D)?, reader.source(slot::B)?);
    let from = match reader.instruction.op() {
        Op::F2I_F64 | Op::F2I_64_F64 => Format::F64,
        Op::F2I_F16 | Op::F2I_64_F16 => format_named(reader.modifier(name::SRC)?)?,
        _ => Format::F32,
    };
    let to = integer_named(reader.modifier(name::DST)?)?;
    let (rounding, flush) = (rounding(reader)?, flushes(reader)?);
    let nan = if reader.is(name::NTZ, value::NTZ) {
        0
    } else {
        1 << (to.bits - 1)
    };
    Ok(Box::new(move |core| {
        let x = read(core, &b, from);
        let value = x.map(|x| {
            let x = if flush { from.flush(x) } else { x };
            to_integer(from, x, to, rounding, nan)
        });
        if to.bits == 64 {
            core.put_pair(&d, &value);
        } else {
            core.put(&d, 0, &value.map(|x| extend(to, x)));
        }
        Ok(())
    }))
}

fn integer_to_float(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, b) = (reader.target(slot::D)?, reader.source(slot::B)?);
    let from = integer_named(reader.modifier(name::SRC)?)?;
    let to = match reader.instruction.op() {
        Op::I2F_F64 | Op::I2F_F64_8 | Op::I2F_F64_16 | Op::I2F_F64_64 => Format::F64,
        Op::I2FP => Format::F32,
        _ => format_named(reader.modifier(name::DST)?)?,
    };
    let rounding = rounding(reader)?;
    let native = rounding == Rounding::NearestEven && to == Format::F32 && from.bits == 32;
    let shift = u32::from(b.select) * from.bits;
    Ok(Box::new(move |core| {
        if native {
            let x = core.word(&b, 0);
            let value = x.map(|x| {
                let value = if from.signed {
                    x.cast_signed() as f32
                } else {
                    x as f32
                };
                value.to_bits()
            });
            core.put(&d, 0, &value);
            return Ok(());
        }
        let x = match b.from {
            // The word holds the upper half of a 64-bit number.
            From::Immediate(..) if from.bits == 64 => core.word(&b, 0).map(|x| u64::from(x) << 32),
            _ if from.bits == 64 => core.pair(&b),
            _ => core.word(&b, 0).map(|x| u64::from(x >> shift)),
        };
        let value = x.map(|x| from_integer(from, x, to, rounding));
        if to == Format::F64 {
            core.put_pair(&d, &value);
        } else {
            core.put(&d, 0, &value.map(|x| x as u32));
        }
        Ok(())
    }))
}

/// A signed number limited to the range of a narrower type.
fn limit(value: i64, to: Integer) -> u64 {
    let max = to.max().cast_signed();
    let min = if to.signed { -max - 1 } else { 0 };
    value.clamp(min, max).cast_unsigned() & to.mask()
}

fn clamp(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, b) = (reader.target(slot::D)?, reader.source(slot::B)?);
    let to = integer_named(reader.modifier(name::DST)?)?;
    Ok(Box::new(move |core| {
        let x = core.integer(&b);
        let value = x.map(|x| extend(to, limit(x.cast_signed().into(), to)));
        core.put(&d, 0, &value);
        Ok(())
    }))
}

/// `a` above `b`, each narrowed; for bytes the lower half of `c` goes above them.
fn clamp_pack(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    let to = integer_named(reader.modifier(name::DST)?)?;
    let sat = reader.modifier(name::SAT)?;
    let (saturates, relu) = (sat != value::NO, sat == value::SATRELU);
    Ok(Box::new(move |core| {
        let (x, y, z) = (core.integer(&a), core.integer(&b), core.word(&c, 0));
        let narrow = |x: u32| {
            let x = i64::from(x.cast_signed());
            let x = if relu { x.max(0) } else { x };
            if saturates {
                limit(x, to) as u32
            } else {
                x as u32 & to.mask() as u32
            }
        };
        let value = super::zip3(&x, &y, &z, |x, y, z| {
            let pair = narrow(x) << to.bits | narrow(y);
            let rest = if c.select == 1 { z >> 16 } else { z };
            match to.bits {
                16 => pair,
                bits => rest << (2 * bits) | pair & ((1 << (2 * bits)) - 1),
            }
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn float_to_packed_integers(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    let to = integer_named(reader.modifier(name::DST)?)?;
    let (rounding, relu) = (rounding(reader)?, reader.is(name::RELU, value::RELU));
    let nan = if reader.is(name::NTZ, value::NTZ) {
        0
    } else {
        1 << (to.bits - 1)
    };
    Ok(Box::new(move |core| {
        let (x, y, z) = (core.single(&a), core.single(&b), core.word(&c, 0));
        let narrow = |x: u32| {
            let x = if relu && x >> 31 == 1 { 0 } else { x };
            to_integer(Format::F32, x.into(), to, rounding, nan) as u32
        };
        let value = super::zip3(&x, &y, &z, |x, y, z| {
            let rest = if c.select == 1 { z >> 16 } else { z };
            rest << 16 | narrow(x) << 8 | narrow(y)
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

/// How numbers are narrowed when they are packed.
#[derive(Clone, Copy)]
struct Narrow {
    to: Format,
    rounding: Rounding,
    overflow: Overflow,
    relu: bool,
}

impl Narrow {
    fn of(reader: &Reader<'_>) -> Result<Self, Lack> {
        Ok(Self {
            to: format_named(reader.modifier(name::DST)?)?,
            rounding: rounding(reader)?,
            overflow: if reader.is(name::SAT, value::SATFINITE) {
                Overflow::Largest
            } else {
                Overflow::Ieee
            },
            relu: reader.is(name::RELU, value::RELU),
        })
    }

    fn apply(self, from: Format, x: u64) -> u32 {
        let value = to_format(from, x, self.to, self.rounding, self.overflow);
        let negative = value & self.to.sign_mask() != 0 && !self.to.is_nan(value);
        if self.relu && negative {
            0
        } else {
            value as u32
        }
    }
}

/// Two numbers side by side, `a` above `b`; eight-bit ones below the chosen half of `c`.
fn pack(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b] = reader.sources([slot::A, slot::B])?;
    let c = reader.source_if_any(slot::C)?;
    let narrow = Narrow::of(reader)?;
    let width = narrow.to.width();
    Ok(Box::new(move |core| {
        let (x, y) = (core.single(&a), core.single(&b));
        let rest = match &c {
            Some(c) => core
                .word(c, 0)
                .map(|z| if c.select == 1 { z >> 16 } else { z }),
            None => [0; 32],
        };
        let mut value = [0; 32];
        for l in core.lanes() {
            let pair = narrow.apply(Format::F32, x[l].into()) << width
                | narrow.apply(Format::F32, y[l].into());
            value[l] = if width == 8 {
                rest[l] << 16 | pair
            } else {
                pair
            };
        }
        core.put(&d, 0, &value);
        Ok(())
    }))
}

/// One number below the chosen half of `c`.
fn merge(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [b, c] = reader.sources([slot::B, slot::C])?;
    let narrow = Narrow::of(reader)?;
    Ok(Box::new(move |core| {
        let (x, z) = (core.single(&b), core.word(&c, 0));
        let mut value = [0; 32];
        for l in core.lanes() {
            let rest = if c.select == 1 { z[l] >> 16 } else { z[l] };
            value[l] = rest << 16 | narrow.apply(Format::F32, x[l].into());
        }
        core.put(&d, 0, &value);
        Ok(())
    }))
}

/// Two eight-bit numbers of the chosen half as two halves.
fn unpack(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, b) = (reader.target(slot::D)?, reader.source(slot::B)?);
    let from = format_named(reader.modifier(name::SRC)?)?;
    let narrow = Narrow::of(reader)?;
    Ok(Box::new(move |core| {
        let x = core.word(&b, 0);
        let value = x.map(|x| {
            let x = if b.select == 1 { x >> 16 } else { x };
            let of = |x: u32| narrow.apply(from, u64::from(x & 0xff));
            of(x >> 8) << 16 | of(x)
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

/// Two halves as two eight-bit numbers below the chosen half of `c`.
fn narrow_pair(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [b, c] = reader.sources([slot::B, slot::C])?;
    let narrow = Narrow::of(reader)?;
    if narrow.to.width() != 8 {
        return Err(format!(
            "format {:?}",
            reader.instruction.modifier(name::DST)
        ));
    }
    Ok(Box::new(move |core| {
        let (x, z) = (core.word(&b, 0), core.word(&c, 0));
        let value = super::zip2(&x, &z, |x, z| {
            let rest = if c.select == 1 { z >> 16 } else { z };
            let of = |x: u32| narrow.apply(Format::F16, u64::from(x & 0xffff));
            rest << 16 | of(x >> 16) << 8 | of(x)
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn to_tf32(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, b) = (reader.target(slot::D)?, reader.source(slot::B)?);
    let (rounding, relu) = (rounding(reader)?, reader.is(name::RELU, value::RELU));
    Ok(Box::new(move |core| {
        let x = core.single(&b);
        let value = x.map(|x| {
            let value = if Format::F32.is_nan(x.into()) {
                x & !0x1fff
            } else {
                let pattern = to_format(
                    Format::F32,
                    x.into(),
                    Format::TF32,
                    rounding,
                    Overflow::Ieee,
                );
                (pattern << 13) as u32
            };
            if relu && value >> 31 == 1 && !Format::F32.is_nan(value.into()) {
                0
            } else {
                value
            }
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}
