//! Conversions between floating-point types, wide and narrow.

use super::bits::emit_table;
use super::convert::{float_rounding, give, integer_rounding, rounds_to_integer, unpack};
use super::float::{flushes, ftz_name};
use super::half::is_half;
use super::selector::{Selector, not_pt, pt, rz};
use super::source::Source;
use super::{WORD, sources};
use crate::pipeline::PhaseError;
use orias_ori::operation::{Round, Sat, Scalar};
use orias_ori::{Operand, SourceMods, Type};
use orias_sass::Op;
use orias_sass::ValueName;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

/// The upper half of a word.
const UPPER_HALF: u32 = 0xffff_0000;

/// The table of LOP3 for what the first two inputs have in common.
const AND: u8 = 0xf0 & 0xcc;

type Done = Result<(), PhaseError>;

pub(super) fn float_to_float(s: &mut Selector<'_>, from: Scalar, to: Scalar) -> Done {
    let round: Round = s.modifier()?;
    if from == to {
        return same_float(s, from, round);
    }
    if matches!(to, Scalar::E4m3x2 | Scalar::E5m2x2) {
        return halves_to_narrow(s, from, to);
    }
    if from != to && matches!(from, Scalar::E4m3x2 | Scalar::E5m2x2) {
        return unpack(s);
    }
    if to == Scalar::Tf32 {
        return to_tf32(s, from, round);
    }
    let sat: Sat = s.modifier()?;
    match (from, to) {
        (Scalar::F32, Scalar::F16 | Scalar::Bf16) => narrow_single(s, to, sat),
        (Scalar::F16, Scalar::F32) => {
            let source = s.halves(0, Scalar::F16)?;
            let zero = s.minus_zero();
            saturated(s, sat, |s, result| {
                s.emit(Op::HADD2_F32, &[], sources![result, zero, source])?;
                Ok(())
            })
        }
        (Scalar::Bf16, Scalar::F32) => {
            let source = s.word(0);
            let above = s.shifted_down(source);
            saturated(s, sat, |s, result| {
                if let Some(word) = above {
                    let upper = [word.into(), Source::imm(UPPER_HALF)];
                    return emit_table(s, result, &upper, AND);
                }
                let factor = Source::imm(0x1_0000);
                s.emit(
                    Op::IMAD,
                    &[(name::SIGN, value::U32)],
                    sources![result, source, factor, rz()],
                )?;
                Ok(())
            })
        }
        (Scalar::F64, Scalar::F16 | Scalar::Bf16) if sat == Sat::Sat => {
            let mods = [(name::DST, float_name(to)), (name::RND, float_rounding(s)?)];
            let source = s.number(0, from)?;
            let raw = Operand::from(s.temporary(WORD));
            s.emit(Op::F2F_FROM_F64, &mods, sources![raw, source])?;
            clamp_half(s, raw, to)
        }
        _ if sat != Sat::Wrap && to != Scalar::F32 => Err(s.unsupported()),
        (Scalar::F64, Scalar::F32 | Scalar::F16 | Scalar::Bf16) => {
            let rnd = float_rounding(s)?;
            let dst = float_name(to);
            let ftz = ftz_name(flushes(s));
            let source = s.number(0, from)?;
            saturated(s, sat, |s, result| {
                let mods = [(name::DST, dst), (name::RND, rnd), (name::FTZ, ftz)];
                s.emit(Op::F2F_FROM_F64, &mods, sources![result, source])?;
                Ok(())
            })
        }
        (Scalar::F32, Scalar::F64) => {
            let ftz = ftz_name(flushes(s));
            let source = s.number(0, from)?;
            s.emit(
                Op::F2F_F64_F32,
                &[(name::FTZ, ftz)],
                sources![s.result(0), source],
            )?;
            Ok(())
        }
        (Scalar::F16 | Scalar::Bf16, Scalar::F64) => {
            let source = s.word(0);
            let source = s.in_register(source)?;
            let mods = [(name::SRC, float_name(from))];
            s.emit(Op::F2F_F64_F16, &mods, sources![s.result(0), source])?;
            Ok(())
        }
        (Scalar::F16, Scalar::Bf16) | (Scalar::Bf16, Scalar::F16) => {
            let rnd = float_rounding(s)?;
            let source = s.word(0);
            let source = s.in_register(source)?;
            let op = match to {
                Scalar::Bf16 => Op::F2F_BF16_F16,
                _ => Op::F2F_F16_BF16,
            };
            s.emit(op, &[(name::RND, rnd)], sources![s.result(0), source])?;
            Ok(())
        }
        _ => Err(s.unsupported()),
    }
}

/// What a pair of numbers of 8 bits is called where it is made.
pub(super) fn narrow_name(to: Scalar) -> ValueName {
    match to {
        Scalar::E4m3x2 => value::E4M3,
        _ => value::E5M2,
    }
}

/// Two halves as two narrow floats.
fn halves_to_narrow(s: &mut Selector<'_>, from: Scalar, to: Scalar) -> Done {
    if from != Scalar::F16x2 || float_rounding(s)? != value::RN {
        return Err(s.unsupported());
    }
    let relu = match s.modifier::<Sat>()? {
        Sat::Satfinite => value::NO,
        Sat::SatfiniteRelu => value::RELU,
        _ => return Err(s.unsupported()),
    };
    let source = s.word(0);
    let source = s.in_register(source)?;
    let dst = narrow_name(to);
    let mods = [
        (name::DST, dst),
        (name::RELU, relu),
        (name::SAT, value::SATFINITE),
    ];
    s.emit(
        Op::F2FP_UNPACK_B_MERGE_C,
        &mods,
        sources![s.result(0), source, rz()],
    )?;
    Ok(())
}

pub(super) fn float_name(scalar: Scalar) -> ValueName {
    match scalar {
        Scalar::F16 | Scalar::F16x2 => value::F16,
        Scalar::Bf16 | Scalar::Bf16x2 => value::BF16,
        _ => value::F32,
    }
}

/// Makes a single with `make` and clamps it to 0…1 if asked to.
fn saturated(
    s: &mut Selector<'_>,
    sat: Sat,
    make: impl FnOnce(&mut Selector<'_>, Operand) -> Done,
) -> Done {
    match sat {
        Sat::Wrap => {
            let result = s.result(0);
            make(s, result)
        }
        Sat::Sat => {
            let raw = s.temporary(WORD);
            make(s, raw.into())?;
            s.emit(
                Op::FADD,
                &[(name::SAT, value::SAT)],
                sources![s.result(0), rz(), raw],
            )?;
            Ok(())
        }
        _ => Err(s.unsupported()),
    }
}

/// A single as a half or bfloat16.
fn narrow_single(s: &mut Selector<'_>, to: Scalar, sat: Sat) -> Done {
    let rnd = float_rounding(s)?;
    let source = s.word(0);
    let dst = float_name(to);
    let (relu, finite) = match sat {
        Sat::Wrap | Sat::Sat => (value::NO, value::NO),
        Sat::Relu => (value::RELU, value::NO),
        Sat::Satfinite => (value::NO, value::SATFINITE),
        Sat::SatfiniteRelu => (value::RELU, value::SATFINITE),
    };
    let plain = relu == value::NO && finite == value::NO;
    let result = match sat {
        Sat::Sat => Operand::from(s.temporary(WORD)),
        _ => s.result(0),
    };
    match rnd {
        value::RN | value::RZ if plain => {
            let mods = [(name::DST, dst), (name::RND, rnd)];
            s.emit(Op::F2FP, &mods, sources![result, rz(), source])?;
        }
        value::RN | value::RZ => {
            let mods = [
                (name::DST, dst),
                (name::RND, rnd),
                (name::RELU, relu),
                (name::SAT, finite),
            ];
            s.emit(Op::F2FP_MERGE_C, &mods, sources![result, source, rz()])?;
        }
        _ if plain => {
            let source = s.in_register(source)?;
            let mods = [
                (name::DST, dst),
                (name::RND, rnd),
                (name::FTZ, ftz_name(flushes(s))),
            ];
            s.emit(Op::F2F_FROM_F32, &mods, sources![result, source])?;
        }
        _ => return Err(s.unsupported()),
    }
    if sat == Sat::Sat {
        clamp_half(s, result, to)?;
    }
    Ok(())
}

/// Clamps a half to 0…1: the result is the sum with minus zero.
fn clamp_half(s: &mut Selector<'_>, source: Operand, scalar: Scalar) -> Done {
    let low_twice = |operand: Operand, mods: SourceMods| {
        mods.with_select(2)
            .and_then(|mods| operand.with_mods(mods))
            .unwrap_or(operand)
    };
    let a = low_twice(source, SourceMods::NONE);
    let b = low_twice(rz(), SourceMods::NEGATE);
    let op = match scalar {
        Scalar::Bf16 => Op::HADD2_BF16,
        _ => Op::HADD2,
    };
    s.emit(op, &[(name::SAT, value::SAT)], sources![s.result(0), a, b])?;
    Ok(())
}

/// From a type to itself: rounded to a whole number, flushed, clamped.
fn same_float(s: &mut Selector<'_>, scalar: Scalar, round: Round) -> Done {
    let ftz = ftz_name(flushes(s));
    let sat: Sat = s.modifier()?;
    if rounds_to_integer(round) {
        let rnd = integer_rounding(s)?;
        let op = match scalar {
            Scalar::F32 => Op::FRND,
            Scalar::F64 => Op::FRND_F64,
            Scalar::F16 => Op::FRND_F16,
            Scalar::Bf16 => Op::FRND_BF16,
            _ => return Err(s.unsupported()),
        };
        let source = match scalar {
            Scalar::F64 => {
                let source = s.number(0, scalar)?;
                s.double_register(source)?
            }
            Scalar::F32 => s.number(0, scalar)?,
            _ => s.word(0),
        };
        let mods = [(name::RND, rnd), (name::FTZ, ftz)];
        return match sat {
            Sat::Wrap => {
                s.emit(op, &mods, sources![s.result(0), source])?;
                Ok(())
            }
            Sat::Sat if scalar == Scalar::F32 => {
                let whole = s.temporary(WORD);
                s.emit(op, &mods, sources![whole, source])?;
                let mods = [(name::SAT, value::SAT), (name::FTZ, ftz)];
                s.emit(Op::FADD, &mods, sources![s.result(0), rz(), whole])?;
                Ok(())
            }
            Sat::Sat if is_half(scalar) => {
                let whole = s.temporary(WORD);
                s.emit(op, &mods, sources![whole, source])?;
                clamp_half(s, whole.into(), scalar)
            }
            _ => Err(s.unsupported()),
        };
    }
    match (scalar, sat) {
        (Scalar::F32, Sat::Wrap) if ftz == value::NO => {
            let source = s.word(0);
            let result = s.result(0);
            give(s, result, source)
        }
        (Scalar::F32, Sat::Wrap) => {
            let source = s.number(0, scalar)?;
            let zero = s.minus_zero();
            let (a, b) = match source.is_register() {
                true => (source, zero),
                false => (zero, source),
            };
            s.emit(Op::FADD, &[(name::FTZ, ftz)], sources![s.result(0), a, b])?;
            Ok(())
        }
        (Scalar::F32, Sat::Sat) => {
            let source = s.number(0, scalar)?;
            let mods = [(name::SAT, value::SAT), (name::FTZ, ftz)];
            s.emit(Op::FADD, &mods, sources![s.result(0), rz(), source])?;
            Ok(())
        }
        (Scalar::F16 | Scalar::Bf16, Sat::Wrap) if ftz == value::NO => {
            let source = s.word(0);
            let result = s.result(0);
            give(s, result, source)
        }
        (Scalar::F16, Sat::Sat) => {
            let source = s.word(0);
            let source = s.in_register(source)?;
            clamp_half(s, source.into(), scalar)
        }
        (Scalar::F64, Sat::Wrap) => {
            let [low, high] = s.words(0);
            s.set_pair(0, low, high)
        }
        _ => Err(s.unsupported()),
    }
}

/// A single with the mantissa of a tf32.
fn to_tf32(s: &mut Selector<'_>, from: Scalar, round: Round) -> Done {
    if from != Scalar::F32 {
        return Err(s.unsupported());
    }
    let sat: Sat = s.modifier()?;
    let relu = if sat == Sat::Relu {
        value::RELU
    } else {
        value::NO
    };
    let source = s.word(0);
    match (round, sat) {
        (Round::Default | Round::Rn | Round::Rz, Sat::Wrap | Sat::Relu) => {
            let rnd = if round == Round::Rz {
                value::RZ
            } else {
                value::RN
            };
            let mods = [(name::RELU, relu), (name::RND, rnd)];
            s.emit(Op::F2FP_PACK_B, &mods, sources![s.result(0), source])?;
            Ok(())
        }
        (Round::Rna, Sat::Wrap | Sat::Satfinite) => {
            // Half of the last place that stays is added to what is finite, then the rest is cut off.
            let source = s.in_register(source)?;
            let magnitude = Operand::from(source).with_mods(SourceMods::ABSOLUTE);
            let magnitude = magnitude.unwrap_or(source.into());
            let infinity = Source::imm(0x7f80_0000);
            let special = s.temporary(Type::P);
            let mods = [(name::CMP, value::GEU)];
            s.emit(
                Op::FSETP,
                &mods,
                sources![special, pt(), magnitude, infinity, pt()],
            )?;
            let more = s.sum(source.into(), Source::imm(0x1000))?;
            let rounded = s.choose(source.into(), more.into(), special.into())?;
            let cut = match sat {
                Sat::Wrap => s.result(0),
                _ => Operand::from(s.temporary(WORD)),
            };
            let mask = Source::imm(0xffff_e000);
            let and = Operand::imm(0xc0);
            s.emit(
                Op::LOP3,
                &[],
                sources![pt(), cut, rounded, mask, rz(), and, not_pt()],
            )?;
            if sat == Sat::Satfinite {
                let magnitude = cut.with_mods(SourceMods::ABSOLUTE).unwrap_or(cut);
                let over = s.temporary(Type::P);
                s.emit(
                    Op::FSETP,
                    &mods,
                    sources![over, pt(), magnitude, infinity, pt()],
                )?;
                let less = s.sum(cut.into(), Source::imm(0xffff_e000))?;
                let result = s.result(0);
                s.choose_to(result, less.into(), cut.into(), over.into())?;
            }
            Ok(())
        }
        _ => Err(s.unsupported()),
    }
}
