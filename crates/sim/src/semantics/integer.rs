//! Integer arithmetic.

use super::{SetPredicate, Table, bits, zip2, zip3};
use crate::core::Core;
use crate::operand::{Lack, Reader, Source, Target};
use crate::program::Action;
use orias_eval::integer::{add3, compare, dot2, dot4, multiply_wide};
use orias_sass::slot_names as slot;
use orias_sass::{Op, ValueName, modifier_names as name, modifier_values as value};
use std::cmp::Ordering;

pub(super) const TABLE: Table = &[
    (Op::IADD3, add_three),
    (Op::UIADD3, add_three),
    (Op::IADD3_X, add_three_extended),
    (Op::UIADD3_X, add_three_extended),
    (Op::UIADD3_64, add_three_wide),
    (Op::IMAD, multiply_add),
    (Op::UIMAD, multiply_add),
    (Op::IMAD_X, multiply_add_extended),
    (Op::UIMAD_X, multiply_add_extended),
    (Op::IMAD_WIDE, multiply_wide_add),
    (Op::UIMAD_WIDE, multiply_wide_add),
    (Op::IMAD_WIDE_X, multiply_wide_add),
    (Op::UIMAD_WIDE_X, multiply_wide_add),
    (Op::IMAD_HI, multiply_high_add),
    (Op::IMAD_HI_X, multiply_high_add),
    (Op::IDP_4A, dot_product),
    (Op::IDP_2A, dot_product),
    (Op::VIADD, vector_add),
    (Op::VIADDMNMX, add_extreme),
    (Op::VIMNMX, extreme),
    (Op::VIMNMX_PRED, extreme_with_origin),
    (Op::VIMNMX3, extreme_of_three),
    (Op::IMNMX, extreme),
    (Op::VABSDIFF, absolute_difference),
    (Op::VABSDIFF4, absolute_differences),
    (Op::IABS, absolute),
    (Op::LEA, scaled_add),
    (Op::ULEA, scaled_add),
    (Op::LEA_X, scaled_add),
    (Op::ULEA_X, scaled_add),
    (Op::LEA_HI, scaled_add_high),
    (Op::ULEA_HI, scaled_add_high),
    (Op::LEA_HI_X, scaled_add_high),
    (Op::ULEA_HI_X, scaled_add_high),
    (Op::LEA_HI_SX32, scaled_add_high),
    (Op::ULEA_HI_SX32, scaled_add_high),
    (Op::LEA_HI_X_SX32, scaled_add_high),
    (Op::ULEA_HI_X_SX32, scaled_add_high),
    (Op::ISETP, set_predicate),
    (Op::UISETP, set_predicate),
    (Op::ISETP_EX, set_predicate),
    (Op::UISETP_EX, set_predicate),
];

/// A summand that may be negated: its complement, with a one to be carried in.
fn summand(core: &mut crate::core::Core<'_>, source: &Source) -> (crate::operand::Lanes, u32) {
    let value = core.word(source, 0);
    match (source.negate, source.invert) {
        (true, _) => (value.map(|x| !x), 1),
        (_, true) => (value.map(|x| !x), 0),
        _ => (value, 0),
    }
}

fn add_three(reader: &Reader<'_>) -> Result<Action, Lack> {
    let [d, co, cp] = reader.targets([slot::D, slot::CO, slot::CP])?;
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    let plain = co.register.is_constant() && cp.register.is_constant();
    if plain {
        return Ok(Box::new(move |core| {
            let (x, y, z) = (core.integer(&a), core.integer(&b), core.integer(&c));
            let sum = zip3(&x, &y, &z, |x, y, z| x.wrapping_add(y).wrapping_add(z));
            core.put(&d, 0, &sum);
            Ok(())
        }));
    }
    Ok(Box::new(move |core| {
        let ((x, i), (y, j), (z, k)) = (summand(core, &a), summand(core, &b), summand(core, &c));
        let carry = i + j + k;
        let sums: [_; 32] = std::array::from_fn(|l| add3(x[l], y[l], z[l], carry));
        core.put(&d, 0, &sums.map(|sum| sum.value));
        core.put_condition(&co, bits(|l| sums[l].carries >= 1));
        core.put_condition(&cp, bits(|l| sums[l].carries >= 2));
        Ok(())
    }))
}

fn add_three_extended(reader: &Reader<'_>) -> Result<Action, Lack> {
    let [d, co, cp] = reader.targets([slot::D, slot::CO, slot::CP])?;
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    let (ci, cj) = (reader.condition(slot::CI)?, reader.condition(slot::CJ)?);
    Ok(Box::new(move |core| {
        let (x, y, z) = (core.integer(&a), core.integer(&b), core.integer(&c));
        let (ci, cj) = (core.condition(&ci), core.condition(&cj));
        let sums: [_; 32] =
            std::array::from_fn(|l| add3(x[l], y[l], z[l], (ci >> l & 1) + (cj >> l & 1)));
        core.put(&d, 0, &sums.map(|sum| sum.value));
        core.put_condition(&co, bits(|l| sums[l].carries >= 1));
        core.put_condition(&cp, bits(|l| sums[l].carries >= 2));
        Ok(())
    }))
}

fn add_three_wide(reader: &Reader<'_>) -> Result<Action, Lack> {
    let [d, co, cp] = reader.targets([slot::D, slot::CO, slot::CP])?;
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    Ok(Box::new(move |core| {
        let mut sums = [0u128; 32];
        for source in [&a, &b, &c] {
            let value = core.pair(source);
            for (sum, x) in sums.iter_mut().zip(value) {
                *sum += if source.negate {
                    u128::from(!x) + 1
                } else {
                    u128::from(x)
                };
            }
        }
        core.put_pair(&d, &sums.map(|sum| sum as u64));
        core.put_condition(&co, bits(|l| sums[l] >> 64 >= 1));
        core.put_condition(&cp, bits(|l| sums[l] >> 64 >= 2));
        Ok(())
    }))
}

fn multiply_add(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    Ok(Box::new(move |core| {
        let (x, y, z) = (core.integer(&a), core.integer(&b), core.integer(&c));
        let value = zip3(&x, &y, &z, |x, y, z| x.wrapping_mul(y).wrapping_add(z));
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn multiply_add_extended(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, ci) = (reader.target(slot::D)?, reader.condition(slot::CI)?);
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    Ok(Box::new(move |core| {
        let (x, y, z) = (core.integer(&a), core.integer(&b), core.integer(&c));
        let carry = core.condition(&ci);
        let value: [u32; 32] = std::array::from_fn(|l| {
            x[l].wrapping_mul(y[l])
                .wrapping_add(z[l])
                .wrapping_add(carry >> l & 1)
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

/// The product plus a wide summand and a carry, with the carry out.
fn wide_sum(
    core: &mut crate::core::Core<'_>,
    [a, b, c]: [&Source; 3],
    signed: bool,
    carry: u32,
) -> [(u64, bool); 32] {
    let (x, y, z) = (core.word(a, 0), core.word(b, 0), core.pair(c));
    std::array::from_fn(|l| {
        let product = multiply_wide(x[l], y[l], signed);
        let (summand, one) = match (c.negate, c.invert) {
            (true, _) => (!z[l], 1),
            (_, true) => (!z[l], 0),
            _ => (z[l], 0),
        };
        let sum =
            u128::from(product) + u128::from(summand) + u128::from(one + u64::from(carry >> l & 1));
        (sum as u64, sum >> 64 != 0)
    })
}

fn multiply_wide_add(reader: &Reader<'_>) -> Result<Action, Lack> {
    multiply_sum(reader, |core, d, sums| core.put_pair(d, sums))
}

fn multiply_high_add(reader: &Reader<'_>) -> Result<Action, Lack> {
    multiply_sum(reader, |core, d, sums| {
        core.put(d, 0, &sums.map(|sum| (sum >> 32) as u32));
    })
}

/// A product of 64 bits and a sum, of which `put` writes what the operation keeps.
fn multiply_sum(
    reader: &Reader<'_>,
    put: fn(&mut Core<'_>, &Target, &[u64; 32]),
) -> Result<Action, Lack> {
    let (d, co) = (reader.target(slot::D)?, reader.target(slot::CO)?);
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    let signed = reader.is(name::SIGN, value::S32);
    let ci = reader.condition_if_any(slot::CI)?;
    Ok(Box::new(move |core| {
        let carry = ci.map_or(0, |ci| core.condition(&ci));
        let sums = wide_sum(core, [&a, &b, &c], signed, carry);
        put(core, &d, &sums.map(|(sum, _)| sum));
        core.put_condition(&co, bits(|l| sums[l].1));
        Ok(())
    }))
}

fn dot_product(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    let four = reader.instruction.op() == Op::IDP_4A;
    let signed_a = super::is_signed(reader.modifier(name::TA)?);
    let signed_b = super::is_signed(reader.modifier(name::TB)?);
    let upper = reader.is(name::PART, value::HI);
    Ok(Box::new(move |core| {
        let (x, y, z) = (core.word(&a, 0), core.word(&b, 0), core.integer(&c));
        let value = zip3(&x, &y, &z, |x, y, z| {
            if four {
                dot4(x, signed_a, y, signed_b, z)
            } else {
                dot2(x, signed_a, y, signed_b, upper, z)
            }
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

/// A function of both half words.
fn halves(x: u32, y: u32, f: impl Fn(u32, u32) -> u32) -> u32 {
    f(x >> 16, y >> 16) << 16 | f(x & 0xffff, y & 0xffff) & 0xffff
}

fn negate_halves(x: u32) -> u32 {
    halves(x, 0, |x, _| x.wrapping_neg())
}

fn vector_add(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b] = reader.sources([slot::A, slot::B])?;
    if reader.is(name::TYPE, value::_32) {
        return Ok(Box::new(move |core| {
            let (x, y) = (core.integer(&a), core.integer(&b));
            core.put(&d, 0, &zip2(&x, &y, u32::wrapping_add));
            Ok(())
        }));
    }
    Ok(Box::new(move |core| {
        let (x, mut y) = (core.word(&a, 0), core.word(&b, 0));
        if b.negate {
            y = y.map(negate_halves);
        }
        core.put(&d, 0, &zip2(&x, &y, |x, y| halves(x, y, u32::wrapping_add)));
        Ok(())
    }))
}

/// The types of minimum and maximum.
#[derive(Clone, Copy)]
struct Extreme {
    signed: bool,
    packed: bool,
    relu: bool,
}

impl Extreme {
    fn of(reader: &Reader<'_>) -> Result<Self, Lack> {
        let name = if reader.instruction.op() == Op::IMNMX {
            name::SIGN
        } else {
            name::TYPE
        };
        let ty = reader.modifier(name)?;
        Ok(Self {
            signed: super::is_signed(ty),
            packed: matches!(ty, value::S16X2 | value::U16X2),
            relu: reader.is(name::RELU, value::RELU),
        })
    }

    /// The smaller or the larger of two.
    fn pick(self, x: u32, y: u32, smaller: bool) -> u32 {
        if self.packed {
            let extend = |x: u32| {
                if self.signed {
                    (x as i16 as i32).cast_unsigned()
                } else {
                    x
                }
            };
            halves(x, y, |x, y| self.choose(extend(x), extend(y), smaller))
        } else {
            self.choose(x, y, smaller)
        }
    }

    fn choose(self, x: u32, y: u32, smaller: bool) -> u32 {
        let less = compare(x, y, self.signed) == Ordering::Less;
        let value = if less == smaller { x } else { y };
        if self.relu && value.cast_signed() < 0 {
            0
        } else {
            value
        }
    }
}

fn extreme(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b] = reader.sources([slot::A, slot::B])?;
    let (p, how) = (reader.condition(slot::P)?, Extreme::of(reader)?);
    Ok(Box::new(move |core| {
        let (x, y) = (core.word(&a, 0), core.word(&b, 0));
        let smaller = core.condition(&p);
        let value: [u32; 32] = std::array::from_fn(|l| how.pick(x[l], y[l], smaller >> l & 1 == 1));
        core.put(&d, 0, &value);
        Ok(())
    }))
}

/// The predicates tell whether the low and the high half came from the first source.
fn extreme_with_origin(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b] = reader.sources([slot::A, slot::B])?;
    let (u, v) = (reader.target(slot::U)?, reader.target(slot::V)?);
    let (p, how) = (reader.condition(slot::P)?, Extreme::of(reader)?);
    if !how.packed || how.relu {
        return Err("a type other than pairs of half words".to_owned());
    }
    Ok(Box::new(move |core| {
        let (x, y) = (core.word(&a, 0), core.word(&b, 0));
        let smaller = core.condition(&p);
        let value: [u32; 32] = std::array::from_fn(|l| how.pick(x[l], y[l], smaller >> l & 1 == 1));
        core.put(&d, 0, &value);
        core.put_condition(&u, bits(|l| value[l] & 0xffff == x[l] & 0xffff));
        core.put_condition(&v, bits(|l| value[l] >> 16 == x[l] >> 16));
        Ok(())
    }))
}

fn extreme_of_three(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    let (p, how) = (reader.condition(slot::P)?, Extreme::of(reader)?);
    Ok(Box::new(move |core| {
        let (x, y, z) = (core.word(&a, 0), core.word(&b, 0), core.word(&c, 0));
        let smaller = core.condition(&p);
        let value: [u32; 32] = std::array::from_fn(|l| {
            let smaller = smaller >> l & 1 == 1;
            how.pick(how.pick(x[l], y[l], smaller), z[l], smaller)
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn add_extreme(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    let (p, how) = (reader.condition(slot::P)?, Extreme::of(reader)?);
    Ok(Box::new(move |core| {
        let (x, mut y, z) = (core.word(&a, 0), core.word(&b, 0), core.word(&c, 0));
        if b.negate {
            y = y.map(|y| {
                if how.packed {
                    negate_halves(y)
                } else {
                    y.wrapping_neg()
                }
            });
        }
        let smaller = core.condition(&p);
        let value: [u32; 32] = std::array::from_fn(|l| {
            let sum = if how.packed {
                halves(x[l], y[l], u32::wrapping_add)
            } else {
                x[l].wrapping_add(y[l])
            };
            how.pick(sum, z[l], smaller >> l & 1 == 1)
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn absolute_difference(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, p) = (reader.target(slot::D)?, reader.target(slot::P)?);
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    if !p.register.is_constant() {
        return Err("its predicate".to_owned());
    }
    let signed = reader.is(name::SIGN, value::S32);
    Ok(Box::new(move |core| {
        let (x, y, z) = (core.word(&a, 0), core.word(&b, 0), core.word(&c, 0));
        let value = zip3(&x, &y, &z, |x, y, z| {
            let difference = if signed {
                x.cast_signed().abs_diff(y.cast_signed())
            } else {
                x.abs_diff(y)
            };
            difference.wrapping_add(z)
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn absolute_differences(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, p) = (reader.target(slot::D)?, reader.target(slot::P)?);
    let [a, b, c] = reader.sources([slot::A, slot::B, slot::C])?;
    if !p.register.is_constant() {
        return Err("its predicate".to_owned());
    }
    let (signed, sum) = (
        reader.is(name::TYPE, value::S8),
        reader.is(name::ACC, value::ACC),
    );
    Ok(Box::new(move |core| {
        let (x, y, z) = (core.word(&a, 0), core.word(&b, 0), core.word(&c, 0));
        let value = zip3(&x, &y, &z, |x, y, z| {
            let differences: [u8; 4] = std::array::from_fn(|i| {
                let (x, y) = (x.to_le_bytes()[i], y.to_le_bytes()[i]);
                if signed {
                    x.cast_signed().abs_diff(y.cast_signed())
                } else {
                    x.abs_diff(y)
                }
            });
            if sum {
                differences
                    .iter()
                    .fold(z, |z, x| z.wrapping_add(u32::from(*x)))
            } else {
                u32::from_le_bytes(differences).wrapping_add(z)
            }
        });
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn absolute(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, b) = (reader.target(slot::D)?, reader.source(slot::B)?);
    Ok(Box::new(move |core| {
        let x = core.word(&b, 0);
        core.put(&d, 0, &x.map(|x| x.cast_signed().unsigned_abs()));
        Ok(())
    }))
}

fn scaled_add(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, co) = (reader.target(slot::D)?, reader.target(slot::CO)?);
    let (a, b) = (reader.source(slot::A)?, reader.source(slot::B)?);
    let shift = reader.immediate(slot::N)? as u32;
    let ci = reader.condition_if_any(slot::CI)?;
    Ok(Box::new(move |core| {
        let x = core.word(&a, 0);
        let x = x.map(|x| x << shift);
        let x = if a.negate || a.invert {
            x.map(|x| !x)
        } else {
            x
        };
        let (y, one) = summand(core, &b);
        let carry = ci.map_or(0, |ci| core.condition(&ci));
        let sums: [_; 32] = std::array::from_fn(|l| {
            add3(x[l], y[l], 0, u32::from(a.negate) + one + (carry >> l & 1))
        });
        core.put(&d, 0, &sums.map(|sum| sum.value));
        core.put_condition(&co, bits(|l| sums[l].carries >= 1));
        Ok(())
    }))
}

/// The high word of a shifted pair, added.
fn scaled_add_high(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, co) = (reader.target(slot::D)?, reader.target(slot::CO)?);
    let (a, b) = (reader.source(slot::A)?, reader.source(slot::B)?);
    let c = reader.source_if_any(slot::C)?;
    let shift = reader.immediate(slot::N)? as u32;
    let ci = reader.condition_if_any(slot::CI)?;
    Ok(Box::new(move |core| {
        let low = core.word(&a, 0);
        let high = match &c {
            Some(c) => core.word(c, 0),
            None => low.map(|x| (x.cast_signed() >> 31).cast_unsigned()),
        };
        let mut x: [u32; 32] = std::array::from_fn(|l| {
            let mut pair = u64::from(high[l]) << 32 | u64::from(low[l]);
            if a.negate {
                pair = pair.wrapping_neg();
            }
            ((pair << shift) >> 32) as u32
        });
        if a.invert {
            x = x.map(|x| !x);
        }
        let (y, one) = summand(core, &b);
        let carry = ci.map_or(0, |ci| core.condition(&ci));
        let sums: [_; 32] = std::array::from_fn(|l| add3(x[l], y[l], 0, one + (carry >> l & 1)));
        core.put(&d, 0, &sums.map(|sum| sum.value));
        core.put_condition(&co, bits(|l| sums[l].carries >= 1));
        Ok(())
    }))
}

/// Whether an order satisfies a comparison; `equal` is what equality gives for the high half of a wide comparison.
fn holds(comparison: ValueName) -> Result<fn(Ordering, bool) -> bool, Lack> {
    use Ordering::{Equal, Greater, Less};
    Ok(match comparison {
        value::F => |_, _| false,
        value::LT => |order, low| order == Less || order == Equal && low,
        value::EQ => |order, low| order == Equal && low,
        value::LE => |order, low| order == Less || order == Equal && low,
        value::GT => |order, low| order == Greater || order == Equal && low,
        value::NE => |order, low| order != Equal || low,
        value::GE => |order, low| order == Greater || order == Equal && low,
        value::T => |_, _| true,
        other => return Err(format!("comparison {other}")),
    })
}

fn set_predicate(reader: &Reader<'_>) -> Result<Action, Lack> {
    let set = SetPredicate::of(reader)?;
    let comparison = reader.modifier(name::CMP)?;
    let holds = holds(comparison)?;
    let signed = reader.is(name::SIGN, value::S32);
    let low = reader.condition_if_any(slot::S)?;
    // Without a lower half, equality satisfies what the comparison's name says.
    let equal = matches!(comparison, value::EQ | value::LE | value::GE);
    Ok(Box::new(move |core| {
        let (x, y) = (core.integer(&set.a), core.integer(&set.b));
        let low = low.map_or(if equal { u32::MAX } else { 0 }, |low| core.condition(&low));
        let result = bits(|l| holds(compare(x[l], y[l], signed), low >> l & 1 == 1));
        set.put(core, result, !result);
        Ok(())
    }))
}
