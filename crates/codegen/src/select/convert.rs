//! Conversions between all types.

use super::arithmetic::is_signed;
use super::float::{flushes, ftz_name};
use super::half::is_half;
use super::narrowing::{float_name, float_to_float, narrow_name};
use super::selector::{Selector, rz};
use super::source::Source;
use super::{WORD, sources};
use crate::pipeline::PhaseError;
use orias_ori::operation::{self, Round, Sat, Scalar};
use orias_ori::{Operand, SourceMods};
use orias_sass::Op;
use orias_sass::ValueName;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

fn is_float(scalar: Scalar) -> bool {
    use Scalar::{E4m3x2, E5m2x2, F32, F64, Tf32, Ue8m0x2};
    is_half(scalar) || matches!(scalar, F32 | F64 | Tf32 | E4m3x2 | E5m2x2 | Ue8m0x2)
}

/// The rounding of a result that is a float.
pub(super) fn float_rounding(s: &Selector<'_>) -> Result<ValueName, PhaseError> {
    Ok(match s.modifier::<Round>()? {
        Round::Default | Round::Rn => value::RN,
        Round::Rz => value::RZ,
        Round::Rm => value::RM,
        Round::Rp => value::RP,
        _ => return Err(s.unsupported()),
    })
}

/// The rounding of a result that is a whole number.
pub(super) fn integer_rounding(s: &Selector<'_>) -> Result<ValueName, PhaseError> {
    Ok(match s.modifier::<Round>()? {
        Round::Rni | Round::Rn => value::ROUND,
        Round::Default | Round::Rzi | Round::Rz => value::TRUNC,
        Round::Rmi | Round::Rm => value::FLOOR,
        Round::Rpi | Round::Rp => value::CEIL,
        Round::Rna => return Err(s.unsupported()),
    })
}

pub(super) fn rounds_to_integer(round: Round) -> bool {
    matches!(round, Round::Rni | Round::Rzi | Round::Rmi | Round::Rpi)
}

pub(super) fn cvt(s: &mut Selector<'_>) -> Done {
    let to: Scalar = s.modifier()?;
    let from: Scalar = s.modifier::<operation::SourceType>()?.into();
    match (is_float(from), is_float(to)) {
        (false, false) => integer_to_integer(s, from, to),
        (false, true) => integer_to_float(s, from, to),
        (true, false) => float_to_integer(s, from, to),
        (true, true) => float_to_float(s, from, to),
    }
}

// Integers.

fn integer_to_integer(s: &mut Selector<'_>, from: Scalar, to: Scalar) -> Done {
    if !is_integer(from) || !is_integer(to) {
        return Err(s.unsupported());
    }
    match s.modifier::<Sat>()? {
        Sat::Wrap => {}
        Sat::Sat => return saturate(s, from, to),
        _ => return Err(s.unsupported()),
    }
    if to.bits() == 64 {
        if from.bits() == 64 {
            let [low, high] = s.words(0);
            return s.set_pair(0, low, high);
        }
        let low = s.extended(0, from)?;
        let high = sign_word(s, low, is_signed(from))?;
        return s.set_pair(0, low, high);
    }
    let low = match from.bits() {
        64 => s.words(0)[0],
        _ => s.word(0),
    };
    // The result has the bits of the narrower type, extended as that type is where it grows.
    let narrow = match to.bits() > from.bits() {
        true => from,
        false => to,
    };
    let result = s.result(0);
    if narrow.bits() < 32 && (to.bits() > from.bits() || to.bits() == 8) {
        let operand = match from.bits() {
            64 => low.operand,
            _ => s.operand(0),
        };
        let extended = s.extended_of(operand, narrow)?;
        return give(s, result, extended);
    }
    give(s, result, low)
}

fn is_integer(scalar: Scalar) -> bool {
    use Scalar::{S8, S16, S32, S64, U8, U16, U32, U64};
    matches!(scalar, U8 | S8 | U16 | S16 | U32 | S32 | U64 | S64)
}

/// Makes `source` the result: under another name if it is a value.
pub(super) fn give(s: &mut Selector<'_>, result: Operand, source: Source) -> Done {
    let Some(result) = result.as_value() else {
        return Ok(());
    };
    let value = source
        .operand
        .as_value()
        .filter(|_| source.operand.mods().is_empty())
        .or(source.register.and_then(Operand::as_value));
    match value {
        Some(value) => {
            s.rename(result, value);
            Ok(())
        }
        None => match source.operand {
            Operand::Const { .. } => {
                let source = s.through_register(source, 1)?;
                give(s, result.into(), source)
            }
            _ => s.copy(result, source),
        },
    }
}

/// The high word of a number that fits the low one.
fn sign_word(s: &mut Selector<'_>, low: Source, signed: bool) -> Result<Source, PhaseError> {
    if !signed {
        return Ok(rz().into());
    }
    if let Some(bits) = low.constant() {
        return Ok(Source::imm((bits as u32 as i32 >> 31) as u32));
    }
    let value = s.temporary(WORD);
    let mods = [
        (name::DIR, value::R),
        (name::TYPE, value::S32),
        (name::PART, value::HI),
    ];
    s.emit(Op::SHF, &mods, sources![value, rz(), Source::imm(31), low])?;
    Ok(value.into())
}

/// The smallest and the largest number of a type, as 64-bit patterns.
fn limits(scalar: Scalar) -> (i128, i128) {
    let bits = u32::from(scalar.bits());
    match is_signed(scalar) {
        true => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => (0, (1 << bits) - 1),
    }
}

/// The number of the other type nearest to the source.
fn saturate(s: &mut Selector<'_>, from: Scalar, to: Scalar) -> Done {
    let (least, most) = limits(to);
    let (from_least, from_most) = limits(from);
    let mut words = match from.bits() {
        64 => s.words(0),
        _ => {
            let low = s.extended(0, from)?;
            let high = sign_word(s, low, is_signed(from))?;
            [low, high]
        }
    };
    let wide = from.bits() == 64;
    let sign = if is_signed(from) {
        value::S32
    } else {
        value::U32
    };
    // Only limits the source's type can pass are looked at.
    for (limit, over, passable) in [
        (most, true, most < from_most),
        (least, false, least > from_least),
    ] {
        if !passable {
            continue;
        }
        let cmp = if over { value::GT } else { value::LT };
        let limit = [Source::imm(limit as u32), Source::imm((limit >> 32) as u32)];
        let passed = match wide {
            true => {
                let scalar = if is_signed(from) {
                    Scalar::S64
                } else {
                    Scalar::U64
                };
                super::wide::compare_words(s, cmp, scalar, words, limit)?
            }
            false => s.compare(cmp, sign, words[0], limit[0])?,
        };
        words[0] = s.choose(limit[0], words[0], passed.into())?.into();
        if to.bits() == 64 || wide {
            words[1] = s.choose(limit[1], words[1], passed.into())?.into();
        }
    }
    if to.bits() == 64 {
        // What became zero or a limit is not negative any more; unchanged words kept their sign.
        let high = match (wide, is_signed(from), is_signed(to)) {
            (false, true, false) => rz().into(),
            _ => words[1],
        };
        return s.set_pair(0, words[0], high);
    }
    let result = s.result(0);
    give(s, result, words[0])
}

fn integer_to_float(s: &mut Selector<'_>, from: Scalar, to: Scalar) -> Done {
    if !is_integer(from) {
        return Err(s.unsupported());
    }
    let rnd = float_rounding(s)?;
    let saturates = match s.modifier::<Sat>()? {
        Sat::Wrap => false,
        Sat::Sat if to == Scalar::F32 => true,
        _ => return Err(s.unsupported()),
    };
    let result = match saturates {
        true => Operand::from(s.temporary(WORD)),
        false => s.result(0),
    };
    let dst = match to {
        Scalar::F16 => value::F16,
        Scalar::Bf16 => value::BF16,
        Scalar::F32 => value::F32,
        Scalar::F64 => value::F64,
        _ => return Err(s.unsupported()),
    };
    let signed = is_signed(from);
    let name = |signed_name, unsigned_name| if signed { signed_name } else { unsigned_name };
    let double = to == Scalar::F64;
    let fast = to == Scalar::F32 && matches!(rnd, value::RN | value::RZ);
    match from.bits() {
        // In a known time, where that exists.
        32 if fast => {
            let source = s.word(0);
            let mods = [(name::SRC, name(value::S32, value::U32)), (name::RND, rnd)];
            s.emit(Op::I2FP, &mods, sources![result, source])?;
        }
        8 | 16 if fast => {
            let source = s.extended(0, from)?;
            let mods = [(name::SRC, name(value::S32, value::U32)), (name::RND, rnd)];
            s.emit(Op::I2FP, &mods, sources![result, source])?;
        }
        bits => {
            let source = match bits {
                64 => s.pair(0),
                _ => s.word(0),
            };
            let source = match bits {
                64 => s.through_pair(source)?,
                _ => Source::from(s.in_register(source)?),
            };
            let (op, src) = match (double, bits) {
                (false, 8) => (Op::I2F_8, name(value::S8, value::U8)),
                (false, 16) => (Op::I2F_16, name(value::S16, value::U16)),
                (false, 32) => (Op::I2F, name(value::S32, value::U32)),
                (false, _) => (Op::I2F_64, name(value::S64, value::U64)),
                (true, 8) => (Op::I2F_F64_8, name(value::S8, value::U8)),
                (true, 16) => (Op::I2F_F64_16, name(value::S16, value::U16)),
                (true, 32) => (Op::I2F_F64, name(value::S32, value::U32)),
                (true, _) => (Op::I2F_F64_64, name(value::S64, value::U64)),
            };
            match double {
                true => s.emit(
                    op,
                    &[(name::SRC, src), (name::RND, rnd)],
                    sources![result, source],
                )?,
                false => {
                    let mods = [(name::SRC, src), (name::RND, rnd), (name::DST, dst)];
                    s.emit(op, &mods, sources![result, source])?
                }
            };
        }
    }
    if saturates {
        s.emit(
            Op::FADD,
            &[(name::SAT, value::SAT)],
            sources![s.result(0), rz(), result],
        )?;
    }
    Ok(())
}

fn float_to_integer(s: &mut Selector<'_>, from: Scalar, to: Scalar) -> Done {
    if !is_integer(to) {
        return Err(s.unsupported());
    }
    let rnd = integer_rounding(s)?;
    let ftz = ftz_name(flushes(s));
    let dst = match to {
        Scalar::U8 => value::U8,
        Scalar::S8 => value::S8,
        Scalar::U16 => value::U16,
        Scalar::S16 => value::S16,
        Scalar::U32 => value::U32,
        Scalar::S32 => value::S32,
        Scalar::U64 => value::U64,
        _ => value::S64,
    };
    let result = s.result(0);
    let wide = to.bits() == 64;
    // A NaN becomes zero only where the result is one word and the source is not a double.
    match from {
        Scalar::F32 => {
            let source = s.number(0, from)?;
            let op = if wide { Op::F2I_64 } else { Op::F2I };
            let ntz = if wide { value::NO } else { value::NTZ };
            let mods = [
                (name::FTZ, ftz),
                (name::DST, dst),
                (name::RND, rnd),
                (name::NTZ, ntz),
            ];
            s.emit(op, &mods, sources![result, source])?;
        }
        Scalar::F64 => {
            let source = s.number(0, from)?;
            let op = if wide { Op::F2I_64_F64 } else { Op::F2I_F64 };
            let mods = [(name::DST, dst), (name::RND, rnd)];
            s.emit(op, &mods, sources![result, source])?;
        }
        Scalar::F16 | Scalar::Bf16 => {
            let source = s.word(0);
            let source = s.in_register(source)?;
            let src = if from == Scalar::F16 {
                value::F16
            } else {
                value::BF16
            };
            let op = if wide { Op::F2I_64_F16 } else { Op::F2I_F16 };
            let ntz = if wide { value::NO } else { value::NTZ };
            let mods = [
                (name::FTZ, ftz),
                (name::DST, dst),
                (name::SRC, src),
                (name::RND, rnd),
                (name::NTZ, ntz),
            ];
            s.emit(op, &mods, sources![result, source])?;
        }
        _ => return Err(s.unsupported()),
    }
    Ok(())
}

// Floats.

/// Two singles in one register of a narrower type.
pub(super) fn pair(s: &mut Selector<'_>) -> Done {
    let to: Scalar = s.modifier()?;
    let (relu, finite) = match s.modifier::<Sat>()? {
        Sat::Wrap => (value::NO, value::NO),
        Sat::Relu => (value::RELU, value::NO),
        Sat::Satfinite => (value::NO, value::SATFINITE),
        Sat::SatfiniteRelu => (value::RELU, value::SATFINITE),
        Sat::Sat => return Err(s.unsupported()),
    };
    let rnd = match float_rounding(s)? {
        rnd @ (value::RN | value::RZ) => rnd,
        _ => return Err(s.unsupported()),
    };
    let (high, low) = (s.word(0), s.word(1));
    let high = s.in_register_or_zero(high)?;
    match to {
        Scalar::F16x2 | Scalar::Bf16x2 => {
            let mods = [
                (name::DST, float_name(to)),
                (name::RND, rnd),
                (name::RELU, relu),
                (name::SAT, finite),
            ];
            s.emit(Op::F2FP, &mods, sources![s.result(0), high, low])?;
        }
        Scalar::E4m3x2 | Scalar::E5m2x2 if rnd == value::RN => {
            let dst = narrow_name(to);
            // Only with saturation; ptxas has no other.
            let mods = [
                (name::DST, dst),
                (name::RELU, relu),
                (name::SAT, value::SATFINITE),
            ];
            let operands = sources![s.result(0), high, low, rz()];
            s.emit(Op::F2FP_PACK_AB_MERGE_C, &mods, operands)?;
        }
        _ => return Err(s.unsupported()),
    }
    Ok(())
}

impl Selector<'_> {
    /// A word in a register, RZ if it is zero.
    pub(super) fn in_register_or_zero(&mut self, source: Source) -> Result<Source, PhaseError> {
        match source.is_zero() {
            true => Ok(rz().into()),
            false => Ok(self.in_register(source)?.into()),
        }
    }
}

/// `H1` in the select field of F2FP.
const UPPER_HALF: u8 = 1;

/// A pair of narrow floats as halves, or halves as narrow floats.
pub(super) fn unpack(s: &mut Selector<'_>) -> Done {
    let to: Scalar = s.modifier()?;
    let from: Scalar = s.modifier::<operation::SourceType>()?.into();
    let relu = match s.modifier::<Sat>()? {
        Sat::Relu | Sat::SatfiniteRelu => value::RELU,
        Sat::Wrap | Sat::Satfinite => value::NO,
        Sat::Sat => return Err(s.unsupported()),
    };
    let src = match from {
        Scalar::E4m3x2 => value::E4M3,
        Scalar::E5m2x2 => value::E5M2,
        _ => return Err(s.unsupported()),
    };
    if to != Scalar::F16x2 {
        return Err(s.unsupported());
    }
    let source = s.word(0);
    let source = match s.shifted_down(source) {
        // The upper half of a word is read in place.
        Some(word) => {
            let upper = word.mods().with_select(UPPER_HALF);
            upper
                .and_then(|mods| word.with_mods(mods))
                .ok_or_else(|| s.broken("half of a word has no place"))?
        }
        None => s.in_register(source)?.into(),
    };
    let mods = [
        (name::DST, value::F16),
        (name::SRC, src),
        (name::RELU, relu),
    ];
    s.emit(Op::F2FP_UNPACK_B, &mods, sources![s.result(0), source])?;
    Ok(())
}

/// Two integers, saturated and packed.
pub(super) fn pack(s: &mut Selector<'_>) -> Done {
    let to: Scalar = s.modifier()?;
    // The third source is read from its bottom: so many of its bits as the first two leave room for.
    let (op, dst, bottom) = match to {
        Scalar::U16 => (Op::I2IP, value::U16, 0),
        Scalar::S16 => (Op::I2IP, value::S16, 0),
        Scalar::U8 => (Op::I2IP, value::U8, 0),
        Scalar::S8 => (Op::I2IP, value::S8, 0),
        Scalar::U4 => (Op::I2IP_4, value::U4, 2),
        Scalar::S4 => (Op::I2IP_4, value::S4, 2),
        Scalar::U2 => (Op::I2IP_2, value::U2, 3),
        Scalar::S2 => (Op::I2IP_2, value::S2, 3),
        _ => return Err(s.unsupported()),
    };
    if s.modifier::<operation::SourceType>()? != operation::SourceType::S32 {
        return Err(s.unsupported());
    }
    let (a, b) = (s.word(0), s.word(1));
    let c = match s.operand(2) {
        Operand::None => rz().into(),
        operand => s.word_of(operand),
    };
    let c = s.in_register_or_zero(c)?;
    let c = SourceMods::NONE
        .with_select(bottom)
        .and_then(|mods| c.operand.with_mods(mods))
        .ok_or_else(|| s.unsupported())?;
    let mods = [(name::DST, dst), (name::SAT, value::SAT)];
    s.emit(op, &mods, sources![s.result(0), a, b, c])?;
    Ok(())
}
