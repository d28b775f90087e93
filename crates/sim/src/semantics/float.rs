//! Single- and double-precision arithmetic.
//!
//! What is rounded to the nearest runs on the host's own arithmetic where that cannot differ from `eval`'s: the host is
//! IEEE as well, and results that are NaN, or so small that flushing decides, go to `eval`.

use super::{Combine, SetPredicate, Table, bits, zip2};
use crate::operand::{Lack, Reader};
use crate::program::Action;
use orias_eval::float::compare::{Extreme, Relation, compare, extreme};
use orias_eval::float::{Arithmetic, Format, Rounding, convert};
use orias_eval::mufu;
use orias_sass::slot_names as slot;
use orias_sass::{Op, modifier_names as name, modifier_values as value};

pub(super) const TABLE: Table = &[
    (Op::FADD, add),
    (Op::FMUL, multiply),
    (Op::FFMA, fused),
    (Op::FSEL, select),
    (Op::FMNMX, minimum),
    (Op::FSET, set),
    (Op::FSETP, set_predicate),
    (Op::FCHK, check_division),
    (Op::MUFU, function),
    (Op::MUFU_64H, function),
    (Op::MUFU_F16, function_half),
    (Op::MUFU_BF16, function_half),
    (Op::FRND, integral),
    (Op::FRND_F16, integral_half),
    (Op::FRND_BF16, integral_half),
    (Op::FRND_F64, integral_double),
    (Op::DADD, double_add),
    (Op::DMUL, double_multiply),
    (Op::DFMA, double_fused),
    (Op::DSETP, double_set_predicate),
];

/// The rounding of a row's modifier `rnd`.
pub(super) fn rounding(reader: &Reader<'_>) -> Result<Rounding, Lack> {
    Ok(
        match reader.instruction.modifier(name::RND).unwrap_or(value::RN) {
            value::RN | value::ROUND => Rounding::NearestEven,
            value::RM | value::FLOOR => Rounding::Down,
            value::RP | value::CEIL => Rounding::Up,
            value::RZ | value::TRUNC => Rounding::Zero,
            other => return Err(format!("rounding {other}")),
        },
    )
}

/// Whether subnormal numbers are flushed; a row has `ftz`, or `fmz` with more values.
pub(super) fn flushes(reader: &Reader<'_>) -> Result<bool, Lack> {
    if reader.is(name::FMZ, value::FMZ) {
        return Err("multiplication with its own zeros (.FMZ)".to_owned());
    }
    Ok(reader.is(name::FTZ, value::FTZ) || reader.is(name::FMZ, value::FTZ))
}

/// Single-precision arithmetic as an instruction's modifiers say.
#[derive(Clone, Copy)]
struct Single {
    how: Arithmetic,
    /// The host's arithmetic may be used.
    native: bool,
}

const NAN: u32 = 0x7fff_ffff;
const SMALLEST_NORMAL: u32 = 0x0080_0000;

impl Single {
    fn of(reader: &Reader<'_>) -> Result<Self, Lack> {
        let how = Arithmetic {
            rounding: rounding(reader)?,
            flush: flushes(reader)?,
            saturate: reader.is(name::SAT, value::SAT),
            ..Arithmetic::plain(Format::F32)
        };
        Ok(Self {
            how,
            native: how.rounding == Rounding::NearestEven && !how.saturate,
        })
    }

    #[inline]
    fn operand(self, x: u32) -> u32 {
        if self.how.flush && x & 0x7f80_0000 == 0 {
            x & 0x8000_0000
        } else {
            x
        }
    }

    /// A result of the host, unless it must be looked at more closely.
    #[inline]
    fn accept(self, result: f32, exact: impl Fn() -> u64) -> u32 {
        if result.is_nan() {
            return NAN;
        }
        let bits = result.to_bits();
        if self.how.flush && bits & 0x7fff_ffff <= SMALLEST_NORMAL && bits & 0x7fff_ffff != 0 {
            return exact() as u32;
        }
        bits
    }

    #[inline]
    fn add(self, a: u32, b: u32) -> u32 {
        let exact = || self.how.add(u64::from(a), u64::from(b));
        if !self.native {
            return exact() as u32;
        }
        let (x, y) = (self.operand(a), self.operand(b));
        self.accept(f32::from_bits(x) + f32::from_bits(y), exact)
    }

    #[inline]
    fn multiply(self, a: u32, b: u32) -> u32 {
        let exact = || self.how.multiply(u64::from(a), u64::from(b));
        if !self.native {
            return exact() as u32;
        }
        let (x, y) = (self.operand(a), self.operand(b));
        self.accept(f32::from_bits(x) * f32::from_bits(y), exact)
    }

    #[inline]
    fn fused(self, a: u32, b: u32, c: u32) -> u32 {
        let exact = || self.how.fused(u64::from(a), u64::from(b), u64::from(c));
        if !self.native {
            return exact() as u32;
        }
        let (x, y, z) = (self.operand(a), self.operand(b), self.operand(c));
        self.accept(fused_native(x, y, z), exact)
    }
}

/// The host's fused multiply-add: the product of two single-precision numbers is exact in double precision, and the sum
/// is rounded to odd there, so that rounding it again to single precision rounds once.
#[inline]
fn fused_native(a: u32, b: u32, c: u32) -> f32 {
    let product = f64::from(f32::from_bits(a)) * f64::from(f32::from_bits(b));
    let summand = f64::from(f32::from_bits(c));
    let sum = product + summand;
    if !sum.is_finite() {
        return sum as f32;
    }
    // What the rounding of the sum lost (Knuth's two-sum): exact for finite numbers.
    let other = sum - product;
    let lost = (product - (sum - other)) + (summand - other);
    let bits = sum.to_bits();
    if lost == 0.0 || bits & 1 == 1 {
        return sum as f32;
    }
    // Rounding to odd: away from zero when the lost part has the sign of the sum, towards zero otherwise.
    let odd = if (lost > 0.0) == (sum > 0.0) {
        bits + 1
    } else {
        bits - 1
    };
    f64::from_bits(odd) as f32
}

fn add(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b] = reader.sources([slot::A, slot::B])?;
    let how = Single::of(reader)?;
    Ok(Box::new(move |core| {
        let (x, y) = (core.single(&a), core.single(&b));
        core.put(&d, 0, &zip2(&x, &y, |x, y| how.add(x, y)));
        Ok(())
    }))
}

fn multiply(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b] = reader.sources([slot::A, slot::B])?;
    let how = Single::of(reader)?;
    if !reader.is(name::SCALE, value::M1) {
        return Err(format!(
            "scale {:?}",
            reader.instruction.modifier(name::SCALE)
        ));
    }
    Ok(Box::new(move |core| {
        let (x, y) = (core.single(&a), core.single(&b));
        core.put(&d, 0, &zip2(&x, &y, |x, y| how.multiply(x, y)));
        Ok(())
    }))
}

fn fused(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    let how = Single::of(reader)?;
    Ok(Box::new(move |core| {
        let (x, y, z) = (core.single(&a), core.single(&b), core.single(&c));
        core.put(
            &d,
            0,
            &super::zip3(&x, &y, &z, |x, y, z| how.fused(x, y, z)),
        );
        Ok(())
    }))
}

fn select(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b] = reader.sources([slot::A, slot::B])?;
    let (p, flush) = (reader.condition(slot::P)?, flushes(reader)?);
    Ok(Box::new(move |core| {
        let p = core.condition(&p);
        let x = core.chosen(p, |core| core.single(&a));
        let y = core.chosen(!p, |core| core.single(&b));
        let value: [u32; 32] = std::array::from_fn(|l| {
            let value = if p >> l & 1 == 1 { x[l] } else { y[l] };
            if flush {
                Format::F32.flush(u64::from(value)) as u32
            } else {
                value
            }
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

/// What a minimum or maximum does besides comparing.
#[derive(Clone, Copy)]
pub(super) struct MinMax {
    format: Format,
    flush: bool,
    nan: bool,
    /// Whether the result's sign is that of the product.
    pub signs: bool,
}

impl MinMax {
    pub(super) fn of(reader: &Reader<'_>, format: Format) -> Result<Self, Lack> {
        Ok(Self {
            format,
            flush: flushes(reader)?,
            nan: reader.is(name::NAN, value::NAN),
            signs: reader.is(name::XORSIGN, value::XORSIGN),
        })
    }

    /// The smaller or larger of two numbers. The signs that are combined are those of `raw`: before absolute values were taken.
    pub(super) fn apply(self, smaller: bool, [x, y]: [u64; 2], raw: [u64; 2]) -> u64 {
        let of = |x| {
            if self.flush { self.format.flush(x) } else { x }
        };
        let which = if smaller {
            Extreme::Minimum
        } else {
            Extreme::Maximum
        };
        let value = extreme(self.format, of(x), of(y), which, self.nan);
        if self.signs {
            let sign = self.format.sign_mask();
            value & !sign | (raw[0] ^ raw[1]) & sign
        } else {
            value
        }
    }
}

fn minimum(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b] = reader.sources([slot::A, slot::B])?;
    let (p, rule) = (reader.condition(slot::P)?, MinMax::of(reader, Format::F32)?);
    Ok(Box::new(move |core| {
        let (x, y) = (core.single(&a), core.single(&b));
        let (raw_x, raw_y) = if rule.signs {
            (core.word(&a, 0), core.word(&b, 0))
        } else {
            (x, y)
        };
        let smaller = core.condition(&p);
        let value: [u32; 32] = std::array::from_fn(|l| {
            let raw = [raw_x[l].into(), raw_y[l].into()];
            rule.apply(smaller >> l & 1 == 1, [x[l].into(), y[l].into()], raw) as u32
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

/// The relation of a row's modifier `cmp`; `None` and `Some` for always false and always true.
pub(super) fn relation(reader: &Reader<'_>) -> Result<Result<Relation, bool>, Lack> {
    Ok(Ok(match reader.modifier(name::CMP)? {
        value::F => return Ok(Err(false)),
        value::T => return Ok(Err(true)),
        value::LT => Relation::Lt,
        value::EQ => Relation::Eq,
        value::LE => Relation::Le,
        value::GT => Relation::Gt,
        value::NE => Relation::Ne,
        value::GE => Relation::Ge,
        value::NUM => Relation::Num,
        value::NAN => Relation::Nan,
        value::LTU => Relation::Ltu,
        value::EQU => Relation::Equ,
        value::LEU => Relation::Leu,
        value::GTU => Relation::Gtu,
        value::NEU => Relation::Neu,
        value::GEU => Relation::Geu,
        other => return Err(format!("comparison {other}")),
    }))
}

/// Whether two patterns stand in a relation.
pub(super) fn stands(
    relation: Result<Relation, bool>,
    format: Format,
    flush: bool,
    a: u64,
    b: u64,
) -> bool {
    let of = |x: u64| if flush { format.flush(x) } else { x };
    match relation {
        Ok(relation) => relation.holds(compare(format, of(a), of(b))),
        Err(always) => always,
    }
}

fn set_predicate(reader: &Reader<'_>) -> Result<Action, Lack> {
    let set = SetPredicate::of(reader)?;
    let (relation, flush) = (relation(reader)?, flushes(reader)?);
    Ok(Box::new(move |core| {
        let (x, y) = (core.single(&set.a), core.single(&set.b));
        let result = bits(|l| stands(relation, Format::F32, flush, x[l].into(), y[l].into()));
        set.put(core, result, !result);
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
    let combine = Combine::of(reader)?;
    Ok(Box::new(move |core| {
        let (x, y) = (core.single(&a), core.single(&b));
        let result = bits(|l| stands(relation, Format::F32, flush, x[l].into(), y[l].into()));
        let other = core.condition(&p);
        let result = combine.apply(result, other);
        let value: [u32; 32] = std::array::from_fn(|l| {
            if result >> l & 1 == 1 {
                1f32.to_bits()
            } else {
                0
            }
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

/// Whether a quotient needs the long way: the operands are special, or a step of the short way could leave the range.
fn check_division(reader: &Reader<'_>) -> Result<Action, Lack> {
    let p = reader.target(slot::P)?;
    let [a, b] = reader.sources([slot::A, slot::B])?;
    Ok(Box::new(move |core| {
        let (x, y) = (core.single(&a), core.single(&b));
        let long = bits(|l| mufu::division_needs_care(x[l], y[l]));
        core.put_condition(&p, long);
        Ok(())
    }))
}

/// The function that a row's modifier `fn` names.
fn function_of(reader: &Reader<'_>) -> Result<fn(u32) -> u32, Lack> {
    Ok(match reader.modifier(name::FN)? {
        value::COS => mufu::cosine,
        value::SIN => mufu::sine,
        value::EX2 => mufu::exponential,
        value::LG2 => mufu::logarithm,
        value::RCP => mufu::reciprocal,
        value::RSQ => mufu::reciprocal_root,
        value::RCP64H => mufu::reciprocal_high,
        value::RSQ64H => mufu::reciprocal_root_high,
        value::SQRT => mufu::root,
        value::TANH => mufu::hyperbolic_tangent,
        other => return Err(format!("function {other}")),
    })
}

/// Single precision, and the upper halves of doubles.
fn function(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, b) = (reader.target(slot::D)?, reader.source(slot::B)?);
    let function = function_of(reader)?;
    Ok(Box::new(move |core| {
        let x = core.single(&b);
        let mut value = [0; 32];
        for lane in core.lanes() {
            value[lane] = function(x[lane]);
        }
        core.put(&d, 0, &value);
        Ok(())
    }))
}

/// One number of 16 bits; the upper half of the result is zero.
fn function_half(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, b) = (reader.target(slot::D)?, reader.source(slot::B)?);
    let function = function_of(reader)?;
    let format = super::half::format_of(reader.instruction.op());
    Ok(Box::new(move |core| {
        let x = super::half::one(core, &b);
        let mut value = [0; 32];
        for lane in core.lanes() {
            value[lane] = mufu::half(format, function, x[lane] as u16).into();
        }
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn integral(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, b) = (reader.target(slot::D)?, reader.source(slot::B)?);
    let (rounding, flush) = (rounding(reader)?, flushes(reader)?);
    Ok(Box::new(move |core| {
        let x = core.single(&b);
        let value = x.map(|x| {
            let x = if flush {
                Format::F32.flush(x.into())
            } else {
                x.into()
            };
            convert::to_integral(Format::F32, x, rounding) as u32
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn integral_half(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, b) = (reader.target(slot::D)?, reader.source(slot::B)?);
    let (rounding, flush) = (rounding(reader)?, flushes(reader)?);
    let format = super::half::format_of(reader.instruction.op());
    Ok(Box::new(move |core| {
        let x = super::half::one(core, &b);
        let value = x.map(|x| {
            let x = if flush { format.flush(x) } else { x };
            convert::to_integral(format, x, rounding) as u32
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn integral_double(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, b) = (reader.target(slot::D)?, reader.source(slot::B)?);
    let rounding = rounding(reader)?;
    Ok(Box::new(move |core| {
        let x = core.double(&b);
        core.put_pair(
            &d,
            &x.map(|x| convert::to_integral(Format::F64, x, rounding)),
        );
        Ok(())
    }))
}

fn double_how(reader: &Reader<'_>) -> Result<Arithmetic, Lack> {
    Ok(Arithmetic {
        rounding: rounding(reader)?,
        ..Arithmetic::plain(Format::F64)
    })
}

/// A result of the host in double precision, unless it is a NaN, whose payload `eval` decides.
#[inline]
fn accept_double(native: bool, result: impl Fn() -> f64, exact: impl Fn() -> u64) -> u64 {
    if native {
        let value = result();
        if !value.is_nan() {
            return value.to_bits();
        }
    }
    exact()
}

/// A sum or a product of doubles: what the host makes of them where that is the same, and how it is defined.
fn double_arithmetic(
    reader: &Reader<'_>,
    host: fn(f64, f64) -> f64,
    exact: fn(&Arithmetic, u64, u64) -> u64,
) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b] = reader.sources([slot::A, slot::B])?;
    let how = double_how(reader)?;
    let native = how.rounding == Rounding::NearestEven;
    Ok(Box::new(move |core| {
        let (x, y) = (core.double(&a), core.double(&b));
        let mut value = [0; 32];
        for l in core.lanes() {
            let host = || host(f64::from_bits(x[l]), f64::from_bits(y[l]));
            value[l] = accept_double(native, host, || exact(&how, x[l], y[l]));
        }
        core.put_pair(&d, &value);
        Ok(())
    }))
}

fn double_add(reader: &Reader<'_>) -> Result<Action, Lack> {
    double_arithmetic(reader, |x, y| x + y, |how, x, y| how.add(x, y))
}

fn double_multiply(reader: &Reader<'_>) -> Result<Action, Lack> {
    double_arithmetic(reader, |x, y| x * y, |how, x, y| how.multiply(x, y))
}

fn double_fused(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    let how = double_how(reader)?;
    let native = how.rounding == Rounding::NearestEven;
    Ok(Box::new(move |core| {
        let (x, y, z) = (core.double(&a), core.double(&b), core.double(&c));
        let mut value = [0; 32];
        for l in core.lanes() {
            let host = || f64::from_bits(x[l]).mul_add(f64::from_bits(y[l]), f64::from_bits(z[l]));
            value[l] = accept_double(native, host, || how.fused(x[l], y[l], z[l]));
        }
        core.put_pair(&d, &value);
        Ok(())
    }))
}

fn double_set_predicate(reader: &Reader<'_>) -> Result<Action, Lack> {
    let set = SetPredicate::of(reader)?;
    let which = match reader.modifier(name::CMP)? {
        value::MIN => Some(Extreme::Minimum),
        value::MAX => Some(Extreme::Maximum),
        _ => None,
    };
    if let Some(which) = which {
        // Whether the first operand is the one to take, and whether neither is a number: then the second is taken and made
        // quiet. The predicates choose between the halves afterwards.
        return Ok(Box::new(move |core| {
            let (x, y) = (core.double(&set.a), core.double(&set.b));
            let result = bits(|l| extreme(Format::F64, x[l], y[l], which, false) == x[l]);
            let neither = bits(|l| f64::from_bits(x[l]).is_nan() && f64::from_bits(y[l]).is_nan());
            set.put(core, result & !neither, neither);
            Ok(())
        }));
    }
    let relation = relation(reader)?;
    Ok(Box::new(move |core| {
        let (x, y) = (core.double(&set.a), core.double(&set.b));
        let result = bits(|l| stands(relation, Format::F64, false, x[l], y[l]));
        set.put(core, result, !result);
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_fused_step_rounds_once() {
        let how = Arithmetic::plain(Format::F32);
        let mut state = 1u64;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        for round in 0..200_000 {
            let near = |x: u32| x & 0x807f_ffff | (0x70 + (x >> 23) % 0x20) << 23;
            let any = |x: u32| if round % 2 == 0 { near(x) } else { x };
            let (a, b, c) = (any(next()), any(next()), any(next()));
            let exact = how.fused(a.into(), b.into(), c.into()) as u32;
            let fast = fused_native(a, b, c);
            let fast = if fast.is_nan() { NAN } else { fast.to_bits() };
            assert_eq!(fast, exact, "{a:08x} {b:08x} {c:08x}");
        }
    }
}
