//! Floating-point operations and conversions.

use super::compute::Operands;
use super::integer::{is_signed, number};
use super::{Approximation, narrow};
use orias_eval::float::arithmetic::clamp_to_unit;
use orias_eval::float::compare::{Extreme, Relation, compare, extreme};
use orias_eval::float::convert::{self, Integer};
use orias_eval::float::{Arithmetic, Format, Overflow, Rounding};
use orias_ori::operation::{
    AbstractOp, Compare, Ftz, MinMax, Precision, Property, Round, Sat, Scalar, SourceType,
};
use std::cmp::Ordering;

/// The format of a floating-point type, and of how many such a register has.
pub(super) fn format(scalar: Scalar) -> Option<(Format, u32)> {
    Some(match scalar {
        Scalar::F16 => (Format::F16, 1),
        Scalar::F16x2 => (Format::F16, 2),
        Scalar::Bf16 => (Format::BF16, 1),
        Scalar::Bf16x2 => (Format::BF16, 2),
        Scalar::F32 => (Format::F32, 1),
        Scalar::F64 => (Format::F64, 1),
        _ => return None,
    })
}

fn rounding(round: Round) -> Rounding {
    match round {
        Round::Default | Round::Rn | Round::Rni => Rounding::NearestEven,
        Round::Rna => Rounding::NearestAway,
        Round::Rz | Round::Rzi => Rounding::Zero,
        Round::Rm | Round::Rmi => Rounding::Down,
        Round::Rp | Round::Rpi => Rounding::Up,
    }
}

pub(super) fn relation(compare: Compare) -> Relation {
    match compare {
        Compare::Eq => Relation::Eq,
        Compare::Ne => Relation::Ne,
        Compare::Lt | Compare::Lo => Relation::Lt,
        Compare::Le | Compare::Ls => Relation::Le,
        Compare::Gt | Compare::Hi => Relation::Gt,
        Compare::Ge | Compare::Hs => Relation::Ge,
        Compare::Equ => Relation::Equ,
        Compare::Neu => Relation::Neu,
        Compare::Ltu => Relation::Ltu,
        Compare::Leu => Relation::Leu,
        Compare::Gtu => Relation::Gtu,
        Compare::Geu => Relation::Geu,
        Compare::Num => Relation::Num,
        Compare::Nan => Relation::Nan,
    }
}

/// A pattern with subnormal numbers made zero where `flush` says so.
pub(super) fn flushed(scalar: Scalar, bits: u64, flush: bool) -> u64 {
    match format(scalar) {
        Some((format, _)) if flush => format.flush(bits),
        _ => bits,
    }
}

/// The sum of two numbers of a floating-point type, rounded to the nearest.
pub(super) fn add(scalar: Scalar, a: u64, b: u64) -> Option<u64> {
    let (format, count) = format(scalar)?;
    (count == 1).then(|| Arithmetic::plain(format).add(a, b))
}

impl Operands<'_> {
    /// Whether subnormal numbers become zeros.
    pub(super) fn flushes(&self) -> bool {
        self.modifier::<Ftz>() == Some(Ftz::Ftz)
    }

    /// How two floats, or the halves of pairs, stand to each other; `None` if they are no floats.
    pub(super) fn float_orders(&self, scalar: Scalar) -> Option<Vec<Option<Ordering>>> {
        let (format, count) = format(scalar)?;
        let flush = self.flushes();
        Some(
            (0..count)
                .map(|index| {
                    let part = |operand: usize| {
                        let bits = element(self.values[operand], format, count, index);
                        if flush { format.flush(bits) } else { bits }
                    };
                    compare(format, part(0), part(1))
                })
                .collect(),
        )
    }

    /// Floating-point operations; `None` for what is none.
    pub(super) fn float(&self) -> Option<Vec<u128>> {
        let scalar = self.scalar()?;
        let (format, count) = format(scalar)?;
        if self.op == AbstractOp::Testp {
            return Some(vec![u128::from(self.has_property(format)?)]);
        }
        let mut result = 0;
        for index in 0..count {
            let parts: Vec<u64> = self
                .values
                .iter()
                .map(|&value| element(value, format, count, index))
                .collect();
            let bits = self.one_float(scalar, format, &parts)?;
            result |= u128::from(bits) << (16 * index);
        }
        Some(vec![if format.width() < 32 && count == 1 {
            narrow(result, 16)
        } else {
            result
        }])
    }

    fn one_float(&self, scalar: Scalar, format: Format, parts: &[u64]) -> Option<u64> {
        use AbstractOp as A;
        let flush = self.flushes();
        let sat: Sat = self.modifier().unwrap_or(Sat::Wrap);
        let way = Arithmetic {
            rounding: rounding(self.modifier().unwrap_or(Round::Default)),
            flush,
            saturate: sat == Sat::Sat,
            ..Arithmetic::plain(format)
        };
        let flushed = |bits: u64| if flush { format.flush(bits) } else { bits };
        let exact = self.modifier::<Precision>() == Some(Precision::Ieee);
        let approximate = |bits: u64| {
            let which = Approximation {
                op: self.op,
                scalar,
                flush,
            };
            (self.approximate)(which, bits)
        };
        let result = match self.op {
            A::Fadd => way.add(parts[0], parts[1]),
            A::Fsub => way.subtract(parts[0], parts[1]),
            A::Fmul => way.multiply(parts[0], parts[1]),
            A::Ffma => way.fused(parts[0], parts[1], parts[2]),
            A::FfmaOob => way.fused_in_bounds(parts[0], parts[1], parts[2]),
            A::Fdiv if exact => way.divide(parts[0], parts[1]),
            A::Rcp if exact => {
                let one = convert::from_integer(
                    Integer {
                        bits: 8,
                        signed: false,
                    },
                    1,
                    format,
                    Rounding::NearestEven,
                );
                way.divide(one, parts[0])
            }
            A::Sqrt if exact => way.square_root(parts[0]),
            A::Rcp | A::Sqrt | A::Rsqrt | A::Sin | A::Cos | A::Lg2 | A::Ex2 | A::Tanh => {
                approximate(parts[0])
            }
            // These are additions of zero to the machine: a NaN comes out as the format's own, except of a double.
            A::Fabs | A::Fneg if format != Format::F64 && format.is_nan(parts[0]) => {
                format.nan()?
            }
            A::Fabs => flushed(parts[0]) & !format.sign_mask(),
            A::Fneg => flushed(parts[0]) ^ format.sign_mask(),
            A::Copysign => {
                let sign = format.sign_mask();
                parts[0] & sign | parts[1] & !sign
            }
            A::Fmin | A::Fmax => {
                let rule: MinMax = self.modifier()?;
                let which = if self.op == A::Fmin {
                    Extreme::Minimum
                } else {
                    Extreme::Maximum
                };
                let propagate = matches!(rule, MinMax::Nan | MinMax::NanXorSign);
                let (mut a, mut b) = (flushed(parts[0]), flushed(parts[1]));
                let sign = (a ^ b) & format.sign_mask();
                let signs = matches!(rule, MinMax::XorSign | MinMax::NanXorSign);
                if signs {
                    a &= !format.sign_mask();
                    b &= !format.sign_mask();
                }
                let chosen = extreme(format, a, b, which, propagate);
                if signs && !format.is_nan(chosen) {
                    chosen | sign
                } else {
                    chosen
                }
            }
            _ => return None,
        };
        let negative = result & format.sign_mask() != 0;
        Some(match sat {
            // Not above zero becomes zero, NaN stays one.
            Sat::Relu if negative && !format.is_nan(result) => 0,
            _ => result,
        })
    }

    fn has_property(&self, format: Format) -> Option<bool> {
        let bits = self.values[0] as u64;
        let magnitude = bits & (format.sign_mask() - 1);
        let infinity = format.infinity()?;
        Some(match self.modifier::<Property>()? {
            Property::Finite => magnitude < infinity,
            Property::Infinite => magnitude == infinity,
            Property::Number => magnitude <= infinity,
            Property::NotANumber => magnitude > infinity,
            // Zero counts as normal.
            Property::Normal => {
                magnitude < infinity && (magnitude == 0 || magnitude >= 1 << format.fraction_bits)
            }
            Property::Subnormal => magnitude != 0 && format.is_subnormal(bits),
        })
    }

    /// Conversions.
    pub(super) fn convert(&self) -> Option<Vec<u128>> {
        let to = self.scalar()?;
        let from = Scalar::from(self.modifier::<SourceType>()?);
        let sat: Sat = self.modifier().unwrap_or(Sat::Wrap);
        let flush = self.flushes();
        let round: Round = self.modifier().unwrap_or(Round::Default);
        let value = self.values[0];
        let is_float = |scalar: Scalar| {
            format(scalar).is_some_and(|(_, count)| count == 1) || scalar == Scalar::Tf32
        };
        if self.op == AbstractOp::CvtPair {
            let pair = narrow_format(to)?;
            let high = to_float(from, self.values[0] as u64, pair, round, sat, false)?;
            let low = to_float(from, self.values[1] as u64, pair, round, sat, false)?;
            let packed = u128::from(high) << pair.width() | u128::from(low);
            return Some(vec![if to.bits() < 32 {
                narrow(packed, 16)
            } else {
                packed
            }]);
        }
        if self.op == AbstractOp::CvtUnpack
            || narrow_format(to).is_some() && to.bits() == 16 && !is_float(to)
        {
            let (source, target) = (narrow_format(from)?, narrow_format(to)?);
            let part = |shift: u32| {
                let bits = (value >> shift) as u64 & ((1 << source.width()) - 1);
                to_format(source, bits, target, round, sat)
            };
            let packed = u128::from(part(source.width())) << target.width() | u128::from(part(0));
            return Some(vec![if to.bits() < 32 {
                narrow(packed, 16)
            } else {
                packed
            }]);
        }
        let result = match (is_float(from), is_float(to)) {
            (false, false) => {
                let number = number(from, value);
                let (least, greatest) = super::integer::range(to);
                (match sat {
                    Sat::Wrap => number,
                    _ => number.clamp(least, greatest),
                }) as u128
            }
            (true, false) => {
                let (format, _) = format(from)?;
                let bits = value as u64 & (u64::MAX >> (64 - format.width()));
                let bits = if flush { format.flush(bits) } else { bits };
                let target = Integer {
                    bits: u32::from(to.bits()),
                    signed: is_signed(to),
                };
                // NaN: zero from single precision to 32 bits or fewer, the integer's top bit to 64 bits or from doubles.
                let nan = if to.bits() == 64 || from == Scalar::F64 {
                    1 << (to.bits() - 1)
                } else {
                    0
                };
                u128::from(convert::to_integer(
                    format,
                    bits,
                    target,
                    rounding(round),
                    nan,
                ))
            }
            (false, true) => {
                let (format, _) = format(to)?;
                let source = Integer {
                    bits: u32::from(from.bits()),
                    signed: is_signed(from),
                };
                let bits = convert::from_integer(source, value as u64, format, rounding(round));
                u128::from(if sat == Sat::Sat {
                    clamp_to_unit(format, bits)
                } else {
                    bits
                })
            }
            (true, true) => {
                let integral = matches!(round, Round::Rni | Round::Rzi | Round::Rmi | Round::Rpi);
                let target = if to == Scalar::Tf32 {
                    Format::TF32
                } else {
                    format(to)?.0
                };
                let bits = to_float(from, value as u64, target, round, sat, flush)?;
                let bits = if integral {
                    let (format, _) = format(from)?;
                    let whole = if flush {
                        format.flush(value as u64)
                    } else {
                        value as u64
                    };
                    let whole = convert::to_integral(format, whole, rounding(round));
                    if sat == Sat::Sat {
                        clamp_to_unit(format, whole)
                    } else {
                        whole
                    }
                } else if to == Scalar::Tf32 {
                    bits << 13
                } else {
                    bits
                };
                u128::from(bits)
            }
        };
        Some(vec![if to.bits() < 32 {
            narrow(result, to.bits().into())
        } else {
            result
        }])
    }
}

/// The format of each part of a packed narrow type.
fn narrow_format(scalar: Scalar) -> Option<Format> {
    Some(match scalar {
        Scalar::F16x2 => Format::F16,
        Scalar::Bf16x2 => Format::BF16,
        Scalar::E4m3x2 => Format::E4M3,
        Scalar::E5m2x2 => Format::E5M2,
        _ => return None,
    })
}

/// A number in another format, with what `sat` asks for.
fn to_format(from: Format, bits: u64, to: Format, round: Round, sat: Sat) -> u64 {
    let overflow = match sat {
        Sat::Satfinite | Sat::SatfiniteRelu => Overflow::Largest,
        _ => Overflow::Ieee,
    };
    let result = if from == to {
        bits
    } else {
        convert::to_format(from, bits, to, rounding(round), overflow)
    };
    let negative = result & to.sign_mask() != 0;
    match sat {
        Sat::Sat => clamp_to_unit(to, result),
        Sat::Relu | Sat::SatfiniteRelu if negative && !to.is_nan(result) => 0,
        _ => result,
    }
}

fn to_float(
    from: Scalar,
    bits: u64,
    to: Format,
    round: Round,
    sat: Sat,
    flush: bool,
) -> Option<u64> {
    let (format, _) = format(from)?;
    let bits = bits & (u64::MAX >> (64 - format.width()));
    let bits = if flush && format == Format::F32 {
        format.flush(bits)
    } else {
        bits
    };
    let result = match (format, to, round) {
        // Sixteen bits moved up, whatever they mean.
        (Format::BF16, Format::F32, _) => bits << 16,
        // Thirteen bits cut off a NaN, nothing else.
        (Format::F32, Format::TF32, Round::Rna) if format.is_nan(bits) => bits >> 13,
        _ => to_format(format, bits, to, round, sat),
    };
    Some(if flush && to == Format::F32 {
        to.flush(result)
    } else {
        result
    })
}

/// One of the numbers in a register.
fn element(value: u128, format: Format, count: u32, index: u32) -> u64 {
    let shift = if count == 2 { 16 * index } else { 0 };
    (value >> shift) as u64 & (u64::MAX >> (64 - format.width()))
}
