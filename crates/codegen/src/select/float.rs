//! Single and double precision. Pairs of halves go on to [`super::half`].
//!
//! Negation and absolute value of a source are read as modifiers. Approximate functions flush subnormals; where the
//! operation does not, the source is scaled into the normal range first and the result scaled back, by the factors ptxas
//! uses.

use super::arithmetic::flexible_last;
use super::emission::Mod;
use super::selector::{Selector, not_pt, pt, rz};
use super::source::Source;
use super::{WORD, half, sources};
use crate::pipeline::PhaseError;
use orias_ori::operation::{Ftz, MinMax, Precision, Property, Round, Sat, Scalar};
use orias_ori::{AbstractOp, Operand, SourceMods, Type, Value};
use orias_sass::Op;
use orias_sass::ValueName;
use orias_sass::modifier_names as name;
use orias_sass::modifier_values as value;

type Done = Result<(), PhaseError>;

/// The rounding of arithmetic, as the machine names it.
pub(super) fn rounding(s: &Selector<'_>, round: Round) -> Result<ValueName, PhaseError> {
    Ok(match round {
        Round::Default | Round::Rn => value::RN,
        Round::Rz => value::RZ,
        Round::Rm => value::RM,
        Round::Rp => value::RP,
        _ => return Err(s.unsupported()),
    })
}

pub(super) fn flushes(s: &Selector<'_>) -> bool {
    s.func.modifier::<Ftz>(s.at) == Some(Ftz::Ftz)
}

pub(super) fn ftz_name(ftz: bool) -> ValueName {
    if ftz { value::FTZ } else { value::NO }
}

/// Whether the result is clamped to 0…1.
fn saturation(s: &Selector<'_>) -> Result<ValueName, PhaseError> {
    match s.func.modifier::<Sat>(s.at) {
        None | Some(Sat::Wrap) => Ok(value::NO),
        Some(Sat::Sat) => Ok(value::SAT),
        Some(_) => Err(s.unsupported()),
    }
}

/// The bit of the sign in an immediate: of a double, the instruction holds the upper half.
const SIGN: u64 = 1 << 31;

impl Selector<'_> {
    /// Source `index` as a number of this type. An immediate is what the instruction holds of it: of a double the upper
    /// half, and only if the lower is zero.
    pub(super) fn number(&mut self, index: usize, scalar: Scalar) -> Result<Source, PhaseError> {
        let ftz = flushes(self);
        let source = self.float(self.operand(index), ftz, scalar);
        match source.operand {
            Operand::Imm(imm) if scalar == Scalar::F64 => match imm.bits() & 0xffff_ffff {
                0 => Ok(Source {
                    operand: Operand::imm(imm.bits() >> 32),
                    register: source.register,
                }),
                _ => self.through_register(source, 2),
            },
            _ => Ok(source),
        }
    }

    /// A zero with a sign: adding it changes nothing but what rounding and flushing do.
    pub(super) fn minus_zero(&self) -> Source {
        rz().with_mods(SourceMods::NEGATE).unwrap_or(rz()).into()
    }

    /// A double in registers.
    pub(super) fn double_register(&mut self, source: Source) -> Result<Source, PhaseError> {
        match (source.register, source.operand) {
            _ if source.is_register() => Ok(source),
            (Some(register), _) => Ok(register.into()),
            (None, Operand::Imm(imm)) => {
                self.through_register(Operand::imm(imm.bits() << 32).into(), 2)
            }
            _ => self.through_register(source, 2),
        }
    }
}

/// The opposite of a number.
fn opposite(source: Source) -> Option<Source> {
    let register = source
        .register
        .and_then(|register| Source::from(register).negated())
        .map(|source| source.operand);
    let operand = match source.operand {
        Operand::Imm(imm) => Operand::imm(imm.bits() ^ SIGN),
        _ => source.negated()?.operand,
    };
    Some(Source { operand, register })
}

pub(super) fn add(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    if half::is_half(scalar) {
        return half::add(s);
    }
    let rnd = rounding(s, s.modifier()?)?;
    let subtract = s.op() == Some(AbstractOp::Fsub);
    let a = s.number(0, scalar)?;
    let mut b = s.number(1, scalar)?;
    if subtract {
        b = match opposite(b) {
            Some(opposite) => opposite,
            None => return Err(s.broken("a source cannot be negated")),
        };
    }
    let [a, b] = flexible_last([a, b]);
    match scalar {
        Scalar::F32 => {
            let ftz = ftz_name(flushes(s));
            let mods = [
                (name::FTZ, ftz),
                (name::RND, rnd),
                (name::SAT, saturation(s)?),
            ];
            s.emit(Op::FADD, &mods, sources![s.result(0), a, b])?;
        }
        _ => {
            if saturation(s)? != value::NO {
                return Err(s.unsupported());
            }
            let a = s.double_register(a)?;
            s.emit(Op::DADD, &[(name::RND, rnd)], sources![s.result(0), a, b])?;
        }
    }
    Ok(())
}

/// The way subnormals are treated, where products have a field for it.
fn fmz(ftz: bool) -> ValueName {
    if ftz { value::FTZ } else { value::NO }
}

pub(super) fn mul(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    if half::is_half(scalar) {
        return half::mul(s);
    }
    let rnd = rounding(s, s.modifier()?)?;
    let [a, b] = flexible_last([s.number(0, scalar)?, s.number(1, scalar)?]);
    match scalar {
        Scalar::F32 => {
            let mods = [
                (name::FMZ, fmz(flushes(s))),
                (name::RND, rnd),
                (name::SAT, saturation(s)?),
            ];
            s.emit(Op::FMUL, &mods, sources![s.result(0), a, b])?;
        }
        _ => {
            let a = s.double_register(a)?;
            s.emit(Op::DMUL, &[(name::RND, rnd)], sources![s.result(0), a, b])?;
        }
    }
    Ok(())
}

pub(super) fn fma(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    if half::is_half(scalar) {
        return half::fma(s);
    }
    let rnd = rounding(s, s.modifier()?)?;
    let [a, b] = flexible_last([s.number(0, scalar)?, s.number(1, scalar)?]);
    let c = s.number(2, scalar)?;
    match scalar {
        Scalar::F32 => {
            let mods = [
                (name::FMZ, fmz(flushes(s))),
                (name::RND, rnd),
                (name::SAT, saturation(s)?),
            ];
            s.emit(Op::FFMA, &mods, sources![s.result(0), a, b, c])?;
        }
        _ => {
            let a = s.double_register(a)?;
            // Only one of the two may be no register.
            let c = match b.is_register() {
                true => c,
                false => s.double_register(c)?,
            };
            s.emit(
                Op::DFMA,
                &[(name::RND, rnd)],
                sources![s.result(0), a, b, c],
            )?;
        }
    }
    Ok(())
}

/// Negation and absolute value.
pub(super) fn sign(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    if half::is_half(scalar) {
        return half::sign(s);
    }
    let negate = s.op() == Some(AbstractOp::Fneg);
    let ftz = flushes(s);
    let source = s.number(0, scalar)?;
    let mods = source.operand.mods();
    let changed = match (negate, mods.contains(SourceMods::NEGATE)) {
        (true, true) => mods.without(SourceMods::NEGATE),
        (true, false) => mods.with(SourceMods::NEGATE),
        (false, _) => mods.without(SourceMods::NEGATE).with(SourceMods::ABSOLUTE),
    };
    let changed = match source.operand.with_mods(changed) {
        Some(operand) => Source::from(operand),
        None => {
            // A known number: its sign is known, too.
            let bits = match source.operand {
                Operand::Imm(imm) => imm.bits(),
                _ => return Err(s.unsupported()),
            };
            Operand::imm(if negate { bits ^ SIGN } else { bits & !SIGN }).into()
        }
    };
    let zero = s.minus_zero();
    match scalar {
        Scalar::F32 => {
            // The first place takes registers only.
            let mods = [(name::FTZ, ftz_name(ftz))];
            let (a, b) = match changed.is_register() {
                true => (changed, zero),
                false => (zero, changed),
            };
            s.emit(Op::FADD, &mods, sources![s.result(0), a, b])?;
        }
        _ => {
            s.emit(Op::DADD, &[], sources![s.result(0), zero, changed])?;
        }
    }
    Ok(())
}

pub(super) fn min_max(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    if half::is_half(scalar) {
        return half::min_max(s);
    }
    let smaller = s.op() == Some(AbstractOp::Fmin);
    let (nan, xorsign) = min_max_names(s)?;
    if scalar == Scalar::F64 {
        if nan != value::NO || xorsign != value::NO {
            return Err(s.unsupported());
        }
        return min_max_double(s, smaller);
    }
    let pair = match xorsign {
        value::NO => [s.number(0, scalar)?, s.number(1, scalar)?],
        // The signs of the operands count: none may have become a modifier.
        _ => {
            let [a, b] = [s.word(0), s.word(1)];
            [s.magnitude(a)?, s.magnitude(b)?]
        }
    };
    let [a, b] = flexible_last(pair);
    let which = if smaller { pt() } else { not_pt() };
    let mods = [
        (name::FTZ, ftz_name(flushes(s))),
        (name::NAN, nan),
        (name::XORSIGN, xorsign),
    ];
    s.emit(Op::FMNMX, &mods, sources![s.result(0), a, b, which])?;
    Ok(())
}

/// What a minimum does with NaNs and signs, as the machine names it.
pub(super) fn min_max_names(s: &Selector<'_>) -> Result<(ValueName, ValueName), PhaseError> {
    Ok(match s.modifier::<MinMax>()? {
        MinMax::Number => (value::NO, value::NO),
        MinMax::Nan => (value::NAN, value::NO),
        MinMax::XorSign => (value::NO, value::XORSIGN),
        MinMax::NanXorSign => (value::NAN, value::XORSIGN),
    })
}

impl Selector<'_> {
    /// A pair in registers.
    pub(super) fn through_pair(&mut self, source: Source) -> Result<Source, PhaseError> {
        match source.is_register() {
            true => Ok(source),
            false => self.through_register(source, 2),
        }
    }

    /// The absolute value of a one-word source, as the instruction reads it.
    fn magnitude(&mut self, source: Source) -> Result<Source, PhaseError> {
        let mods = source.operand.mods().with(SourceMods::ABSOLUTE);
        match source.operand {
            Operand::Imm(_) => {
                let value = self.in_register(source)?;
                Ok(Operand::from(value)
                    .with_mods(mods)
                    .unwrap_or(value.into())
                    .into())
            }
            operand => Ok(operand.with_mods(mods).unwrap_or(operand).into()),
        }
    }
}

/// DSETP.MIN tells which is smaller, and whether the second is a NaN that must become quiet.
fn min_max_double(s: &mut Selector<'_>, smaller: bool) -> Done {
    let (a, b) = (s.pair(0), s.pair(1));
    let (wa, wb) = (s.words(0), s.words(1));
    let first = s.temporary(Type::P);
    let quiet = s.temporary(Type::P);
    let cmp = if smaller { value::MIN } else { value::MAX };
    let (a, b) = (s.through_pair(a)?, s.through_pair(b)?);
    s.emit(
        Op::DSETP,
        &[(name::CMP, cmp)],
        sources![first, quiet, a, b, pt()],
    )?;
    let low = s.choose(wa[0], wb[0], first.into())?;
    let high = s.choose(wa[1], wb[1], first.into())?;
    let quieted = s.temporary(WORD);
    let or = Operand::imm(0xfc);
    let bit = Source::imm(0x0008_0000);
    s.emit(
        Op::LOP3,
        &[],
        sources![pt(), quieted, wb[1], bit, rz(), or, not_pt()],
    )?;
    let high = s.choose(quieted.into(), high.into(), quiet.into())?;
    s.set_pair(0, low.into(), high.into())
}

/// The smallest normal single.
const SMALLEST_NORMAL: u32 = 0x0080_0000;

/// How a source is scaled before an approximate function that flushes subnormals, and the result after it.
struct Scaling {
    /// The source is scaled where it compares so with `limit`.
    absolute: bool,
    limit: u32,
    factor: u32,
    after: After,
}

enum After {
    /// Times a number.
    Times(u32),
    /// Plus a number.
    Plus(u32),
    /// Times itself.
    Squared,
}

/// Factors are ptxas's: 2^24 before, 2^-12, 2^12, -24 or a square after.
fn scaling(op: AbstractOp) -> Option<Scaling> {
    let (absolute, limit, factor, after) = match op {
        AbstractOp::Sqrt => (
            true,
            SMALLEST_NORMAL,
            0x4b80_0000,
            After::Times(0x3980_0000),
        ),
        AbstractOp::Rsqrt => (
            true,
            SMALLEST_NORMAL,
            0x4b80_0000,
            After::Times(0x4580_0000),
        ),
        AbstractOp::Lg2 => (true, SMALLEST_NORMAL, 0x4b80_0000, After::Plus(0xc1c0_0000)),
        AbstractOp::Ex2 => (false, 0xc2fc_0000, 0x3f00_0000, After::Squared),
        _ => return None,
    };
    Some(Scaling {
        absolute,
        limit,
        factor,
        after,
    })
}

/// The name of an approximate function in the machine.
fn function_name(op: AbstractOp) -> ValueName {
    match op {
        AbstractOp::Rcp => value::RCP,
        AbstractOp::Sqrt => value::SQRT,
        AbstractOp::Rsqrt => value::RSQ,
        AbstractOp::Sin => value::SIN,
        AbstractOp::Cos => value::COS,
        AbstractOp::Lg2 => value::LG2,
        AbstractOp::Ex2 => value::EX2,
        _ => value::TANH,
    }
}

/// One over two pi: MUFU.SIN and MUFU.COS count turns.
const TURNS: u32 = 0x3e22_f983;

pub(super) fn function(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let Some(op) = s.op() else {
        return Err(s.unsupported());
    };
    if s.modifier::<Precision>()? != Precision::Approx {
        return Err(s.unsupported());
    }
    if half::is_half(scalar) {
        return half::function(s, function_name(op));
    }
    let ftz = flushes(s);
    if scalar == Scalar::F64 {
        return function_double(s, op, ftz);
    }
    let fn_mod = [(name::FN, function_name(op))];
    let source = s.number(0, scalar)?;
    let result = s.result(0);
    match op {
        AbstractOp::Sin | AbstractOp::Cos => {
            let turns = s.temporary(WORD);
            // Subnormals are kept here, whatever the operation says: ptxas flushes them in neither form.
            let mods = [(name::RND, value::RZ)];
            s.emit(Op::FMUL, &mods, sources![turns, source, Source::imm(TURNS)])?;
            s.emit(Op::MUFU, &fn_mod, sources![result, turns])?;
        }
        AbstractOp::Rcp if !ftz => reciprocal(s, source, result)?,
        _ => match scaling(op).filter(|_| !ftz) {
            None => {
                s.emit(Op::MUFU, &fn_mod, sources![result, source])?;
            }
            Some(scaling) => scaled(s, &fn_mod, scaling, source, result)?,
        },
    }
    Ok(())
}

/// A function on a scaled source where that is needed.
fn scaled(
    s: &mut Selector<'_>,
    function: &[Mod],
    scaling: Scaling,
    source: Source,
    result: Operand,
) -> Done {
    let source = s.float_register(source)?;
    let compared = match scaling.absolute {
        true => source.with_mods(SourceMods::ABSOLUTE).unwrap_or(source),
        false => source,
    };
    let normal = s.temporary(Type::P);
    let limit = Source::imm(scaling.limit);
    s.emit(
        Op::FSETP,
        &[(name::CMP, value::GEU)],
        sources![normal, pt(), compared, limit, pt()],
    )?;
    let times = s.temporary(WORD);
    s.emit(
        Op::FMUL,
        &[],
        sources![times, source, Source::imm(scaling.factor)],
    )?;
    let argument = s.choose(source.into(), times.into(), normal.into())?;
    let raw = s.temporary(WORD);
    s.emit(Op::MUFU, function, sources![raw, argument])?;
    let back = s.temporary(WORD);
    match scaling.after {
        After::Times(factor) => {
            s.emit(Op::FMUL, &[], sources![back, raw, Source::imm(factor)])?;
        }
        After::Plus(term) => {
            s.emit(Op::FADD, &[], sources![back, raw, Source::imm(term)])?;
        }
        After::Squared => {
            s.emit(Op::FMUL, &[], sources![back, raw, raw])?;
        }
    }
    s.choose_to(result, raw.into(), back.into(), normal.into())
}

impl Selector<'_> {
    /// A single-precision source in a register without modifiers.
    fn float_register(&mut self, source: Source) -> Result<Operand, PhaseError> {
        if source.operand.mods().is_empty() && source.is_register() {
            return Ok(source.operand);
        }
        if let Some(register) = source.register {
            return Ok(register);
        }
        let value: Value = self.in_register(source)?;
        Ok(value.into())
    }
}

/// 1/x for any x: subnormal sources are scaled up, those whose reciprocal is subnormal down.
fn reciprocal(s: &mut Selector<'_>, source: Source, result: Operand) -> Done {
    let source = s.float_register(source)?;
    let magnitude = source.with_mods(SourceMods::ABSOLUTE).unwrap_or(source);
    let normal = s.temporary(Type::P);
    let large = s.temporary(Type::P);
    let least = Source::imm(SMALLEST_NORMAL);
    s.emit(
        Op::FSETP,
        &[(name::CMP, value::GEU)],
        sources![normal, pt(), magnitude, least, pt()],
    )?;
    // 2^126.
    let most = Source::imm(0x7e80_0000);
    s.emit(
        Op::FSETP,
        &[(name::CMP, value::GT)],
        sources![large, pt(), magnitude, most, pt()],
    )?;
    // 2^24 for small ones, 1/4 for large ones, else 1.
    let up = s.choose(
        Source::imm(0x3f80_0000),
        Source::imm(0x4b80_0000),
        normal.into(),
    )?;
    let factor = s.choose(Source::imm(0x3e80_0000), up.into(), large.into())?;
    let argument = s.temporary(WORD);
    s.emit(Op::FMUL, &[], sources![argument, source, factor])?;
    let raw = s.temporary(WORD);
    s.emit(Op::MUFU, &[(name::FN, value::RCP)], sources![raw, argument])?;
    s.emit(Op::FMUL, &[], sources![result, factor, raw])?;
    Ok(())
}

/// The upper half of a double: the lower becomes zero.
fn function_double(s: &mut Selector<'_>, op: AbstractOp, ftz: bool) -> Done {
    let name = match op {
        AbstractOp::Rcp if ftz => value::RCP64H,
        AbstractOp::Rsqrt if ftz => value::RSQ64H,
        _ => return Err(s.unsupported()),
    };
    let [_, high] = s.words(0);
    let value = s.temporary(WORD);
    let high = s.in_register(high)?;
    s.emit(Op::MUFU_64H, &[(name::FN, name)], sources![value, high])?;
    s.set_pair(0, rz().into(), value.into())
}

/// The second operand with the sign of the first: `a` where the mask is set, else `b`.
pub(super) fn copysign(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let sign = Source::imm(SIGN as u32);
    // Inputs: magnitude, mask, sign.
    let take = Operand::imm(0xaa & 0xcc | 0xf0 & !0xcc & 0xff);
    if scalar == Scalar::F64 {
        let (a, b) = (s.words(0), s.words(1));
        let high = s.temporary(WORD);
        let operands = sources![pt(), high, b[1], sign, a[1], take, not_pt()];
        s.emit(Op::LOP3, &[], operands)?;
        return s.set_pair(0, b[0], high.into());
    }
    let (a, b) = (s.word(0), s.word(1));
    let operands = sources![pt(), s.result(0), b, sign, a, take, not_pt()];
    s.emit(Op::LOP3, &[], operands)?;
    Ok(())
}

/// Whether a float has a property: a comparison of its magnitude as a number.
pub(super) fn test(s: &mut Selector<'_>) -> Done {
    let scalar: Scalar = s.modifier()?;
    let property: Property = s.modifier()?;
    let wide = scalar == Scalar::F64;
    let (low, high) = match wide {
        true => {
            let [low, high] = s.words(0);
            (low, high)
        }
        false => (rz().into(), s.word(0)),
    };
    let (infinity, normal) = match wide {
        true => (0x7ff0_0000, 0x0010_0000),
        false => (0x7f80_0000, 0x0080_0000),
    };
    let magnitude = s.temporary(WORD);
    let clear = sources![
        pt(),
        magnitude,
        high,
        Source::imm(0x7fff_ffff),
        rz(),
        Operand::imm(0xc0),
        not_pt()
    ];
    s.emit(Op::LOP3, &[], clear)?;
    let result = s.result(0);
    let against = |s: &mut Selector<'_>, cmp, limit: u32, result: Operand, with: Source| {
        let limit = Source::imm(limit);
        match wide {
            true => {
                let below = s.compare(cmp, value::U32, low, rz().into())?;
                let mods = [(name::CMP, cmp), (name::SIGN, value::U32)];
                let operands = sources![result, pt(), magnitude, limit, with, below];
                s.emit(Op::ISETP_EX, &mods, operands)?;
            }
            false => {
                let mods = [(name::CMP, cmp), (name::SIGN, value::U32)];
                s.emit(
                    Op::ISETP,
                    &mods,
                    sources![result, pt(), magnitude, limit, with],
                )?;
            }
        }
        Ok::<(), PhaseError>(())
    };
    let always = Source::from(pt());
    match property {
        Property::Finite => against(s, value::LT, infinity, result, always),
        Property::Infinite => against(s, value::EQ, infinity, result, always),
        Property::Number => against(s, value::LE, infinity, result, always),
        Property::NotANumber => against(s, value::GT, infinity, result, always),
        Property::Normal => {
            // ptxas counts zero as normal.
            let below = s.temporary(Type::P);
            against(s, value::LT, infinity, below.into(), always)?;
            let above = s.temporary(Type::P);
            against(s, value::GE, normal, above.into(), below.into())?;
            let zero = s.temporary(Type::P);
            against(s, value::EQ, 0, zero.into(), always)?;
            let or = Operand::imm(0xfc);
            let operands = sources![result, pt(), above, zero, pt(), or, Operand::imm(0)];
            s.emit(Op::PLOP3, &[], operands)?;
            Ok(())
        }
        Property::Subnormal => {
            let below = s.temporary(Type::P);
            against(s, value::LT, normal, below.into(), always)?;
            against(s, value::GT, 0, result, below.into())
        }
    }
}
