//! Pairs of half-precision and bfloat16 numbers. A single one is the low half of a register, read twice.

use super::float::{flushes, ftz_name, min_max_names, rounding};
use super::selector::{Selector, not_pt, pt, rz};
use super::source::Source;
use super::{WORD, sources};
use crate::pipeline::PhaseError;
use orias_ori::operation::{Sat, Scalar};
use orias_ori::{AbstractOp, Operand, SourceMods};
use orias_sass::Op;
use orias_sass::ValueName;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

/// Whether the type is one or two 16-bit floats.
pub(super) fn is_half(scalar: Scalar) -> bool {
    matches!(
        scalar,
        Scalar::F16 | Scalar::Bf16 | Scalar::F16x2 | Scalar::Bf16x2
    )
}

pub(super) fn is_bfloat(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::Bf16 | Scalar::Bf16x2)
}

pub(super) fn is_pair(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::F16x2 | Scalar::Bf16x2)
}

/// The part of a register that is read: `H0_H0` in the order of every row's select field.
const LOW_TWICE: u8 = 2;

/// `H1_H1` in the same order.
const HIGH_TWICE: u8 = 3;

/// The permutation that joins the lower halves of two words.
const LOWER_HALVES: u64 = 0x5410;

/// Bits of a half.
const HALF: u64 = 16;

impl Selector<'_> {
    /// Source `index` as one or two halves, in a register or as an immediate.
    pub(super) fn halves(&mut self, index: usize, scalar: Scalar) -> Result<Source, PhaseError> {
        let operand = self.operand(index);
        self.halves_of(operand, scalar)
    }

    /// `operand` as one or two halves; signs are read as modifiers.
    pub(super) fn halves_of(
        &mut self,
        operand: Operand,
        scalar: Scalar,
    ) -> Result<Source, PhaseError> {
        let ftz = flushes(self);
        let source = self.float_sign(operand, ftz, scalar);
        self.halves_from(source, scalar)
    }

    /// Source `index` as one or two halves, with the sign it has: for what looks at signs itself.
    fn plain_halves(&mut self, index: usize, scalar: Scalar) -> Result<Source, PhaseError> {
        let source = self.word(index);
        self.halves_from(source, scalar)
    }

    fn halves_from(&mut self, source: Source, scalar: Scalar) -> Result<Source, PhaseError> {
        if let Some(bits) = source.constant() {
            let bits = bits as u32;
            let both = match is_pair(scalar) {
                true => bits,
                false => bits & 0xffff | bits << 16,
            };
            return Ok(Source::imm(both));
        }
        if is_pair(scalar) {
            return match self.repeated(source) {
                Some(half) => self.halves_from(half, Scalar::F16),
                None => Ok(source),
            };
        }
        let (register, part) = match (self.shifted_down(source), source.operand) {
            (Some(word), operand) => (
                word.with_mods(operand.mods()).unwrap_or(operand),
                HIGH_TWICE,
            ),
            (None, operand @ Operand::Reg { .. }) => (operand, LOW_TWICE),
            _ => (Operand::from(self.in_register(source)?), LOW_TWICE),
        };
        let mods = register.mods().with_select(part);
        Ok(mods
            .and_then(|mods| register.with_mods(mods))
            .unwrap_or(register)
            .into())
    }

    /// The half that a pair is made of twice, with the pair's signs.
    fn repeated(&mut self, pair: Source) -> Option<Source> {
        let value = pair.operand.as_value()?;
        let (inst, op) = self.definition(value)?;
        let &[_, half, again, Operand::Imm(select)] = self.func.operands(inst) else {
            return None;
        };
        let twice = op == AbstractOp::Prmt && half == again && select.bits() == LOWER_HALVES;
        let plain = twice && half.mods().is_empty();
        let register = half.as_value().filter(|_| plain)?;
        let register = self.word_of(register.into()).operand;
        register.as_value()?;
        Some(register.with_mods(pair.operand.mods())?.into())
    }

    /// The word whose upper half `source` is the lower one of: what unpacking a pair makes by a shift is read in place.
    pub(super) fn shifted_down(&mut self, source: Source) -> Option<Operand> {
        let (inst, op) = self.definition(source.operand.as_value()?)?;
        let scalar = self.func.modifier::<Scalar>(inst);
        let words = matches!(scalar, Some(Scalar::B32 | Scalar::U32 | Scalar::S32));
        match (op, self.func.operands(inst)) {
            (AbstractOp::Shr, &[_, word, Operand::Imm(by)]) if words && by.bits() == HALF => {
                let word = self.word_of(word).operand;
                (word.as_value().is_some() && word.mods().is_empty()).then_some(word)
            }
            _ => None,
        }
    }

    /// Signs of halves are read as modifiers if the source is a register.
    fn float_sign(&mut self, operand: Operand, ftz: bool, scalar: Scalar) -> Source {
        let source = self.float(operand, ftz, scalar);
        match source.operand {
            Operand::Imm(_) | Operand::Const { .. }
                if source.register.is_some() || !source.operand.mods().is_empty() =>
            {
                // The sign of a known pattern would have to change in both halves.
                self.word_of(operand)
            }
            _ => source,
        }
    }

    /// A zero with a sign in both halves.
    fn minus_zero_halves(&self) -> Source {
        let mods = SourceMods::NEGATE.with_select(LOW_TWICE);
        mods.and_then(|mods| rz().with_mods(mods))
            .unwrap_or(rz())
            .into()
    }
}

/// The saturation of the instruction being selected: name for `sat`, and whether negative results become zero.
fn saturation(s: &Selector<'_>) -> Result<(ValueName, bool), PhaseError> {
    match s.func.modifier::<Sat>(s.at) {
        None | Some(Sat::Wrap) => Ok((value::NO, false)),
        Some(Sat::Sat) => Ok((value::SAT, false)),
        Some(Sat::Relu) => Ok((value::NO, true)),
        Some(_) => Err(s.unsupported()),
    }
}

/// Only rounding to nearest exists.
fn check_rounding(s: &Selector<'_>) -> Result<(), PhaseError> {
    match rounding(s, s.modifier()?)? {
        value::RN => Ok(()),
        _ => Err(s.unsupported()),
    }
}

/// Two sources that may change places, with what is no register in the second.
fn flexible_second(a: Source, b: Source) -> (Source, Source) {
    match a.is_register() {
        true => (a, b),
        false => (b, a),
    }
}

pub(super) fn add(s: &mut Selector<'_>) -> Done {
    check_rounding(s)?;
    let scalar: Scalar = s.modifier()?;
    let a = s.halves(0, scalar)?;
    let mut b = s.halves(1, scalar)?;
    if s.op() == Some(AbstractOp::Fsub) {
        b = match b.constant() {
            Some(bits) => Operand::imm(u64::from(bits as u32 ^ 0x8000_8000)).into(),
            None => b.negated().unwrap_or(b),
        };
    }
    let (a, b) = flexible_second(a, b);
    let (sat, relu) = saturation(s)?;
    if relu {
        return Err(s.unsupported());
    }
    let op = if is_bfloat(scalar) {
        Op::HADD2_BF16
    } else {
        Op::HADD2
    };
    let mods = [(name::FTZ, ftz_name(flushes(s))), (name::SAT, sat)];
    s.emit(op, &mods, sources![s.result(0), a, b])?;
    Ok(())
}

pub(super) fn mul(s: &mut Selector<'_>) -> Done {
    check_rounding(s)?;
    let scalar: Scalar = s.modifier()?;
    let (a, b) = flexible_second(s.halves(0, scalar)?, s.halves(1, scalar)?);
    let (sat, relu) = saturation(s)?;
    if relu {
        return Err(s.unsupported());
    }
    let op = if is_bfloat(scalar) {
        Op::HMUL2_BF16
    } else {
        Op::HMUL2
    };
    let mods = [(name::FMZ, ftz_name(flushes(s))), (name::SAT, sat)];
    s.emit(op, &mods, sources![s.result(0), a, b])?;
    Ok(())
}

pub(super) fn fma(s: &mut Selector<'_>) -> Done {
    check_rounding(s)?;
    let scalar: Scalar = s.modifier()?;
    let (a, b) = flexible_second(s.halves(0, scalar)?, s.halves(1, scalar)?);
    let c = s.halves(2, scalar)?;
    let (sat, relu) = saturation(s)?;
    let fmz = match s.op() {
        Some(AbstractOp::FfmaOob) => value::OOB,
        _ => ftz_name(flushes(s)),
    };
    let bfloat = is_bfloat(scalar);
    if relu {
        let op = if bfloat {
            Op::HFMA2_RELU_BF16
        } else {
            Op::HFMA2_RELU
        };
        s.emit(
            op,
            &[(name::FMZ, fmz)],
            sources![s.result(0), a, b, c, pt()],
        )?;
    } else {
        let op = if bfloat { Op::HFMA2_BF16 } else { Op::HFMA2 };
        s.emit(
            op,
            &[(name::FMZ, fmz), (name::SAT, sat)],
            sources![s.result(0), a, b, c],
        )?;
    }
    Ok(())
}

/// Negation and absolute value. The sign of a bfloat16 is changed where it is added to minus zero times zero, as its sum
/// would make subnormals normal.
pub(super) fn sign(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let negate = s.op() == Some(AbstractOp::Fneg);
    let source = s.halves(0, scalar)?;
    let zero = s.minus_zero_halves();
    let changed = match source.constant() {
        Some(bits) => {
            let bits = bits as u32;
            let bits = if negate {
                bits ^ 0x8000_8000
            } else {
                bits & 0x7fff_7fff
            };
            Operand::imm(u64::from(bits)).into()
        }
        None => {
            let mods = source.operand.mods();
            let mods = match (negate, mods.contains(SourceMods::NEGATE)) {
                (true, true) => mods.without(SourceMods::NEGATE),
                (true, false) => mods.with(SourceMods::NEGATE),
                (false, _) => mods.without(SourceMods::NEGATE).with(SourceMods::ABSOLUTE),
            };
            Source::from(source.operand.with_mods(mods).unwrap_or(source.operand))
        }
    };
    let ftz = ftz_name(flushes(s));
    if is_bfloat(scalar) {
        let low_twice = SourceMods::NONE.with_select(LOW_TWICE);
        let plain = low_twice
            .and_then(|mods| rz().with_mods(mods))
            .unwrap_or(rz());
        let mods = [(name::FMZ, ftz)];
        s.emit(
            Op::HFMA2_BF16,
            &mods,
            sources![s.result(0), zero, plain, changed],
        )?;
    } else {
        let (a, b) = match changed.is_register() {
            true => (changed, zero),
            false => (zero, changed),
        };
        s.emit(Op::HADD2, &[(name::FTZ, ftz)], sources![s.result(0), a, b])?;
    }
    Ok(())
}

pub(super) fn min_max(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let (nan, xorsign) = min_max_names(s)?;
    let mut pair = match xorsign {
        value::NO => [s.halves(0, scalar)?, s.halves(1, scalar)?],
        _ => [s.plain_halves(0, scalar)?, s.plain_halves(1, scalar)?],
    };
    if xorsign != value::NO {
        for source in &mut pair {
            *source = match source.constant() {
                Some(_) => {
                    let value = s.in_register(*source)?;
                    let operand = Operand::from(value).with_mods(SourceMods::ABSOLUTE);
                    operand.unwrap_or(value.into()).into()
                }
                None => {
                    let mods = source.operand.mods().with(SourceMods::ABSOLUTE);
                    source
                        .operand
                        .with_mods(mods)
                        .unwrap_or(source.operand)
                        .into()
                }
            };
        }
    }
    let (a, b) = flexible_second(pair[0], pair[1]);
    let which = match s.op() {
        Some(AbstractOp::Fmin) => pt(),
        _ => not_pt(),
    };
    let op = if is_bfloat(scalar) {
        Op::HMNMX2_BF16
    } else {
        Op::HMNMX2
    };
    let mods = [
        (name::FTZ, ftz_name(flushes(s))),
        (name::NAN, nan),
        (name::XORSIGN, xorsign),
    ];
    s.emit(op, &mods, sources![s.result(0), a, b, which])?;
    Ok(())
}

/// An approximate function of one half, or of both one after the other.
pub(super) fn function(s: &mut Selector<'_>, name: ValueName) -> Done {
    let scalar: Scalar = s.modifier()?;
    let op = if is_bfloat(scalar) {
        Op::MUFU_BF16
    } else {
        Op::MUFU_F16
    };
    let mods = [(name::FN, name)];
    let source = s.word(0);
    let source = Operand::from(s.in_register(source)?);
    if !is_pair(scalar) {
        s.emit(op, &mods, sources![s.result(0), source])?;
        return Ok(());
    }
    let (low, high) = (s.temporary(WORD), s.temporary(WORD));
    // Select 1 of this place is the upper half.
    let upper = SourceMods::NONE.with_select(1);
    let upper = upper
        .and_then(|mods| source.with_mods(mods))
        .unwrap_or(source);
    s.emit(op, &mods, sources![low, source])?;
    s.emit(op, &mods, sources![high, upper])?;
    let both = Source::imm(0x5410);
    s.emit(Op::PRMT, &[], sources![s.result(0), low, both, high])?;
    Ok(())
}
