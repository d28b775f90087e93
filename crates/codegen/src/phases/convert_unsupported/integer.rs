//! Integer operations that are several: saturation, absolute differences, products of 24 bits, high halves of 64-bit
//! products, choices by sign.

use super::{Asked, Expander, Expansion, Results, is_integer, is_signed, quotient};
use crate::emit::{Emit, imm};
use orias_ori::operation::{AbstractOp, Compare, Ftz, Half, Sat, Scalar};
use orias_ori::{Operand, Type};

pub(super) fn rule(asked: Asked) -> Option<Expansion> {
    use AbstractOp as A;
    let scalar = asked.scalar();
    let half = asked.modifier::<Half>();
    let saturates = asked.modifier::<Sat>() == Some(Sat::Sat);
    let relu = asked.modifier::<Sat>() == Some(Sat::Relu);
    match asked.op {
        A::Div | A::Rem if scalar.bits() >= 32 => Some(quotient::divide),
        // PTX saturates sums of this type only; others are left for selection to refuse.
        A::Add | A::Sub if saturates => {
            (scalar == Scalar::S32).then_some(add_saturated as Expansion)
        }
        A::Min | A::Max if relu && scalar == Scalar::S32 => Some(extreme_above_zero),
        A::Sad if scalar.bits() != 32 => Some(sum_of_difference),
        A::Mul24 | A::Mad24 => Some(product_24),
        A::Mul if half == Some(Half::Hi) && scalar.bits() == 64 => Some(product_high_64),
        A::Mad if half == Some(Half::Hi) && scalar.bits() == 64 => Some(product_high_64),
        // Of other saturated sums of products there is no PTX: they are left for selection to refuse.
        A::Mad if saturates => {
            let exists = scalar == Scalar::S32 && half == Some(Half::Hi);
            exists.then_some(product_sum_saturated as Expansion)
        }
        A::MadC if half == Some(Half::Wide) => None,
        A::MadC if scalar.bits() == 64 || half == Some(Half::Hi) => Some(product_with_carry),
        A::Cnot if is_integer(scalar, 32) || is_integer(scalar, 64) => Some(is_zero),
        A::Slct => Some(choose_by_sign),
        A::Cvt if saturates => {
            let integers = is_whole(scalar) && is_whole(asked.source());
            integers.then_some(convert_saturated as Expansion)
        }
        A::Fns => Some(find_nth_set),
        A::Szext => Some(extend_low_bits),
        // One instruction compares halves and tells by numbers, of single ones the lower.
        A::Set if is_set_of_halves(scalar, asked.source()) => None,
        A::Set => Some(set),
        _ => None,
    }
}

/// Whether the machine compares such halves and tells by such numbers.
fn is_set_of_halves(to: Scalar, from: Scalar) -> bool {
    match from {
        Scalar::F16x2 | Scalar::Bf16x2 => true,
        Scalar::F16 | Scalar::Bf16 => to == from,
        _ => false,
    }
}

/// Whether a type holds whole numbers of 8 to 64 bits.
fn is_whole(scalar: Scalar) -> bool {
    matches!(
        scalar,
        Scalar::U8
            | Scalar::S8
            | Scalar::U16
            | Scalar::S16
            | Scalar::U32
            | Scalar::S32
            | Scalar::U64
            | Scalar::S64
    )
}

/// `add.sat.s32` and `sub.sat.s32`: on overflow the result is the greatest number of the first operand's sign.
fn add_saturated(expander: &mut Expander<'_>) -> Results {
    let subtracts = expander.op == AbstractOp::Sub;
    let (a, b) = (expander.operand(0), expander.operand(1));
    expander.one(|emit| {
        let sum = if subtracts {
            emit.sub(a, b)
        } else {
            emit.add(a, b)
        };
        saturated(emit, a, b, sum, subtracts)
    })
}

/// The sum, or where its sign shows that it overflowed, the number nearest to it.
fn saturated(
    emit: &mut Emit<'_>,
    a: Operand,
    b: Operand,
    sum: Operand,
    subtracts: bool,
) -> Operand {
    // Overflow: the sum's sign differs from the first operand's, and the second's is the one (add) or the other (sub).
    let changed = emit.xor(a, sum);
    let other = emit.xor(a, b);
    let same = if subtracts {
        other
    } else {
        emit.op(AbstractOp::Not, (Scalar::B32,), &[other])
    };
    let overflow = emit.and(changed, same);
    let overflowed = emit.setp(Compare::Lt, Scalar::S32, overflow, imm(0));
    let sign = emit.shr(Scalar::S32, a, imm(31));
    let limit = emit.xor(sign, imm(0x7fff_ffff));
    emit.selp(Scalar::B32, limit, sum, overflowed)
}

/// `min.relu` and `max.relu`
fn extreme_above_zero(expander: &mut Expander<'_>) -> Results {
    let op = expander.op;
    let (a, b) = (expander.operand(0), expander.operand(1));
    expander.one(|emit| {
        let chosen = emit.binary(op, Scalar::S32, a, b);
        emit.binary(AbstractOp::Max, Scalar::S32, chosen, imm(0))
    })
}

/// `sad`: the greater less the smaller, plus the third.
fn sum_of_difference(expander: &mut Expander<'_>) -> Results {
    let scalar = expander.scalar();
    let [a, b, c] = [0, 1, 2].map(|index| expander.operand(index));
    expander.one(|emit| {
        let greater = emit.binary(AbstractOp::Max, scalar, a, b);
        let smaller = emit.binary(AbstractOp::Min, scalar, a, b);
        let difference = emit.binary(AbstractOp::Sub, scalar, greater, smaller);
        emit.binary(AbstractOp::Add, scalar, difference, c)
    })
}

/// `mul24` and `mad24`: the low 24 bits, moved to the top so that a high half of a product is bits 16 to 47 of theirs.
fn product_24(expander: &mut Expander<'_>) -> Results {
    let scalar = expander.scalar();
    let signed = is_signed(scalar);
    let half: Half = expander.modifier().unwrap_or(Half::Lo);
    let saturates = expander.modifier::<Sat>() == Some(Sat::Sat);
    let adds = expander.op == AbstractOp::Mad24;
    let [a, b, c] = [0, 1, 2].map(|index| expander.operand(index));
    expander.one(|emit| {
        let product = match half {
            Half::Hi => {
                // (a·2⁸)·(b·2⁸) / 2³² = a·b / 2¹⁶.
                let x = emit.shl(a, imm(8));
                let y = emit.shl(b, imm(8));
                emit.mul_hi(scalar, x, y)
            }
            _ => {
                let field = |emit: &mut Emit<'_>, value: Operand| {
                    let up = emit.shl(value, imm(8));
                    emit.shr(if signed { Scalar::S32 } else { Scalar::U32 }, up, imm(8))
                };
                let x = field(emit, a);
                let y = field(emit, b);
                emit.mul(x, y)
            }
        };
        if !adds {
            return product;
        }
        let sum = emit.add(product, c);
        if saturates {
            saturated(emit, product, c, sum, false)
        } else {
            sum
        }
    })
}

/// What the low and the high half of an unsigned 64-bit product have in common.
///
/// With `a = aₕ·2³² + aₗ` and likewise `b`, the product is `aₕ·bₕ·2⁶⁴ + m·2³² + aₗ·bₗ`, where `m = aₕ·bₗ + aₗ·bₕ` has 65 bits. The low words
/// of `m` and the high word of `aₗ·bₗ` add up to the second word of the product and a carry.
struct Products {
    /// The low half of the product.
    low: Operand,
    /// The words of `m` above its lowest.
    above: Operand,
    /// The carry out of the low half.
    carry: Operand,
}

impl Products {
    fn new(
        emit: &mut Emit<'_>,
        [a_low, a_high]: [Operand; 2],
        [b_low, b_high]: [Operand; 2],
    ) -> Self {
        let wide = (Half::Wide, Scalar::U32);
        let lowest = emit.op(AbstractOp::Mul, wide, &[a_low, b_low]);
        let one = emit.op(AbstractOp::Mul, wide, &[a_high, b_low]);
        let (mixed, mixed_carry) = emit.pair(
            AbstractOp::MadC,
            wide,
            (Type::R2, Type::P),
            &[a_low, b_high, one, imm(0)],
        );
        let (word0, lowest_high) = emit.halves(lowest);
        let (mixed_low, mixed_high) = emit.halves(mixed);
        let word = (Type::R, Type::P);
        let add = (Scalar::U32,);
        let terms = [lowest_high, mixed_low, imm(0)];
        let (word1, carry) = emit.pair(AbstractOp::AddC, add, word, &terms);
        let terms = [imm(0), imm(0), mixed_carry];
        let (top, _) = emit.pair(AbstractOp::AddC, add, word, &terms);
        Self {
            low: emit.join(word0, word1),
            above: emit.join(mixed_high, top),
            carry,
        }
    }
}

/// The words of the factors of a 64-bit product, the factors in an order that does not depend on how they were written.
fn factors(emit: &mut Emit<'_>, a: Operand, b: Operand) -> [[Operand; 2]; 2] {
    let rank = |operand: Operand| operand.as_value().map(|value| value.as_u32());
    let ordered = if rank(a) <= rank(b) { [a, b] } else { [b, a] };
    ordered.map(|factor| {
        let (low, high) = emit.halves(factor);
        [low, high]
    })
}

/// The high half of an unsigned 64-bit product, from products of halves.
fn high_product(emit: &mut Emit<'_>, a: Operand, b: Operand) -> Operand {
    let [a, b] = factors(emit, a, b);
    let Products { above, carry, .. } = Products::new(emit, a, b);
    let wide = (Half::Wide, Scalar::U32);
    let types = (Type::R2, Type::P);
    let operands = [a[1], b[1], above, carry];
    emit.pair(AbstractOp::MadC, wide, types, &operands).0
}

/// `mul.lo` of 64 bits next to `mul.hi` of the same factors: what both need is written alike in both, so that common subexpression elimination
/// leaves it once.
pub(super) fn product_low_64(expander: &mut Expander<'_>) -> Results {
    let [a, b] = [0, 1].map(|index| expander.operand(index));
    expander.one(|emit| {
        let [a, b] = factors(emit, a, b);
        Products::new(emit, a, b).low
    })
}

/// The high half of a 64-bit product, with sign or without.
fn high_product_of(emit: &mut Emit<'_>, scalar: Scalar, a: Operand, b: Operand) -> Operand {
    let mut high = high_product(emit, a, b);
    if is_signed(scalar) {
        // A negative factor was taken for one 2⁶⁴ too large: the other is taken off the high half.
        for (x, y) in [(a, b), (b, a)] {
            let negative = emit.setp(Compare::Lt, Scalar::S64, x, imm(0));
            let off = emit.selp(Scalar::B64, y, imm(0), negative);
            high = emit.binary(AbstractOp::Sub, Scalar::U64, high, off);
        }
    }
    high
}

/// `mul.hi` and `mad.hi` of 64 bits.
fn product_high_64(expander: &mut Expander<'_>) -> Results {
    let scalar = expander.scalar();
    let adds = expander.op == AbstractOp::Mad;
    let [a, b, c] = [0, 1, 2].map(|index| expander.operand(index));
    expander.one(|emit| {
        let high = high_product_of(emit, scalar, a, b);
        if adds {
            emit.binary(AbstractOp::Add, Scalar::U64, high, c)
        } else {
            high
        }
    })
}

/// `mad.hi.sat.s32`
fn product_sum_saturated(expander: &mut Expander<'_>) -> Results {
    let half: Half = expander.modifier().unwrap_or(Half::Hi);
    let scalar = expander.scalar();
    let [a, b, c] = [0, 1, 2].map(|index| expander.operand(index));
    expander.one(|emit| {
        let product = emit.op(AbstractOp::Mul, (half, scalar), &[a, b]);
        let sum = emit.add(product, c);
        saturated(emit, product, c, sum, false)
    })
}

/// `madc`: the part of the product, then a sum with carries.
fn product_with_carry(expander: &mut Expander<'_>) -> Results {
    let scalar = expander.scalar();
    let half: Half = expander.modifier().unwrap_or(Half::Lo);
    let [a, b, c, carry] = [0, 1, 2, 3].map(|index| expander.operand(index));
    let ty = if scalar.bits() == 64 {
        Type::R2
    } else {
        Type::R
    };
    let (sum, out) = expander.write(|emit| {
        let part = match half {
            Half::Hi if scalar.bits() == 64 => high_product_of(emit, scalar, a, b),
            _ => emit.op(AbstractOp::Mul, (half, scalar), &[a, b]),
        };
        emit.pair(
            AbstractOp::AddC,
            (scalar,),
            (ty, Type::P),
            &[part, c, carry],
        )
    })?;
    Ok(vec![sum, out])
}

/// `cnot`
fn is_zero(expander: &mut Expander<'_>) -> Results {
    let scalar = expander.scalar();
    let a = expander.operand(0);
    expander.one(|emit| {
        let unsigned = if scalar.bits() == 64 {
            Scalar::U64
        } else {
            Scalar::U32
        };
        let zero = emit.setp(Compare::Eq, unsigned, a, imm(0));
        emit.selp(scalar, imm(1), imm(0), zero)
    })
}

/// `slct`: a comparison and a choice. A NaN chooses the second operand.
fn choose_by_sign(expander: &mut Expander<'_>) -> Results {
    let (scalar, source) = (expander.scalar(), expander.source());
    let ftz: Ftz = expander.modifier().unwrap_or(Ftz::Keep);
    let [a, b, c] = [0, 1, 2].map(|index| expander.operand(index));
    expander.one(|emit| {
        let first = emit.op(AbstractOp::Setp, (Compare::Ge, ftz, source), &[c, imm(0)]);
        emit.selp(scalar, a, b, first)
    })
}

/// Saturating conversion between integers: limits that the source can pass, then the low bits.
fn convert_saturated(expander: &mut Expander<'_>) -> Results {
    let (to, from) = (expander.scalar(), expander.source());
    let a = expander.operand(0);
    let width = u32::from(from.bits());
    let from_signed = matches!(from, Scalar::S8) || is_signed(from);
    let to_signed = matches!(to, Scalar::S8) || is_signed(to);
    expander.one(|emit| {
        // In 32 bits at least, where the source's values are themselves.
        let (ty, bits) = match (width, from_signed) {
            (64, true) => (Scalar::S64, Scalar::B64),
            (64, false) => (Scalar::U64, Scalar::B64),
            (_, true) => (Scalar::S32, Scalar::B32),
            (_, false) => (Scalar::U32, Scalar::B32),
        };
        let mut value = match width {
            32 | 64 => a,
            _ => emit.cvt(ty, from, a),
        };
        let to_width = u32::from(to.bits());
        let greatest: u128 = if to_signed {
            (1 << (to_width - 1)) - 1
        } else {
            (1 << to_width) - 1
        };
        let source_greatest: u128 = if from_signed {
            (1 << (width - 1)) - 1
        } else {
            (1 << width) - 1
        };
        if from_signed {
            let least: i64 = match (to_signed, to_width) {
                (false, _) => 0,
                (true, width) => i64::MIN >> (64 - width),
            };
            let source_least = i64::MIN >> (64 - width);
            if source_least < least {
                let mask = u64::MAX >> (64 - u32::from(bits.bits()));
                value = emit.binary(AbstractOp::Max, ty, value, imm(least as u64 & mask));
            }
        }
        if source_greatest > greatest {
            value = emit.binary(AbstractOp::Min, ty, value, imm(greatest as u64));
        }
        match (bits, to_width) {
            (Scalar::B64, 64) | (Scalar::B32, 0..=32) => value,
            (Scalar::B64, _) => emit.halves(value).0,
            // What is left is not negative, or keeps its sign.
            _ if to_signed && from_signed => emit.cvt(Scalar::S64, Scalar::S32, value),
            _ => emit.cvt(Scalar::U64, Scalar::U32, value),
        }
    })
}

/// `fns`: the position of the n-th set bit from a base upwards or downwards.
///
/// Downwards it is the search upwards in the reversed mask. Upwards, bits below the base are cleared and the position is
/// found by halving: if the low half of what is left has fewer bits than asked for, they are counted off and the search
/// goes on in the high half.
fn find_nth_set(expander: &mut Expander<'_>) -> Results {
    let [mask, base, offset] = [0, 1, 2].map(|index| expander.operand(index));
    expander.one(|emit| {
        let down = emit.setp(Compare::Lt, Scalar::S32, offset, imm(0));
        let reversed = emit.op(AbstractOp::Brev, (Scalar::B32,), &[mask]);
        let from_top = emit.sub(imm(31), base);
        let word = emit.selp(Scalar::B32, reversed, mask, down);
        let start = emit.selp(Scalar::B32, from_top, base, down);
        let count = emit.op(AbstractOp::Abs, (Scalar::S32,), &[offset]);
        // No offset asks for the base itself: the first bit from there, if it is there.
        let none = emit.setp(Compare::Eq, Scalar::U32, offset, imm(0));
        let count = emit.selp(Scalar::B32, imm(1), count, none);
        let cleared = emit.shr(Scalar::U32, word, start);
        let mut rest = cleared;
        let mut left = count;
        let mut position = start;
        for width in [16_u64, 8, 4, 2, 1] {
            let low = emit.and(rest, imm((1 << width) - 1));
            let have = emit.op(AbstractOp::Popc, (Scalar::B32,), &[low]);
            let beyond = emit.setp(Compare::Lt, Scalar::U32, have, left);
            let fewer = emit.sub(left, have);
            left = emit.selp(Scalar::B32, fewer, left, beyond);
            let above = emit.shr(Scalar::U32, rest, imm(width));
            rest = emit.selp(Scalar::B32, above, low, beyond);
            let further = emit.add(position, imm(width));
            position = emit.selp(Scalar::B32, further, position, beyond);
        }
        // Found if one is left to find and the bit is set.
        let bit = emit.and(rest, imm(1));
        let set = emit.setp(Compare::Ne, Scalar::U32, bit, imm(0));
        let last = emit.setp(Compare::Eq, Scalar::U32, left, imm(1));
        let found = emit.binary(AbstractOp::And, Scalar::Pred, set, last);
        let inside = emit.setp(Compare::Lt, Scalar::U32, base, imm(32));
        let found = emit.binary(AbstractOp::And, Scalar::Pred, found, inside);
        let at_base = emit.setp(Compare::Eq, Scalar::U32, position, start);
        let wanted = emit.binary(
            AbstractOp::Or,
            Scalar::Pred,
            crate::emit::not(none),
            at_base,
        );
        let found = emit.binary(AbstractOp::And, Scalar::Pred, found, wanted);
        let back = emit.sub(imm(31), position);
        let result = emit.selp(Scalar::B32, back, position, down);
        emit.selp(Scalar::B32, result, imm(0xffff_ffff), found)
    })
}

/// `szext`: a field from bit 0.
fn extend_low_bits(expander: &mut Expander<'_>) -> Results {
    let scalar = expander.scalar();
    let clamp: orias_ori::operation::Clamp = expander
        .modifier()
        .unwrap_or(orias_ori::operation::Clamp::Clamp);
    let (a, length) = (expander.operand(0), expander.operand(1));
    expander.one(|emit| {
        let length = match clamp {
            orias_ori::operation::Clamp::Clamp => {
                emit.binary(AbstractOp::Min, Scalar::U32, length, imm(32))
            }
            orias_ori::operation::Clamp::Wrap => emit.and(length, imm(31)),
        };
        // Shifted to the top and back; no bits at all leave nothing of a shift by 32.
        let by = emit.sub(imm(32), length);
        let up = emit.shl(a, by);
        emit.shr(scalar, up, by)
    })
}

/// `set`: a comparison, and all ones or 1.0 where it holds.
fn set(expander: &mut Expander<'_>) -> Results {
    let (to, from) = (expander.scalar(), expander.source());
    let [a, b, c] = [0, 1, 2].map(|index| expander.operand(index));
    let mods = comparison(expander, from);
    expander.one(|emit| {
        let holds = emit.op(AbstractOp::Setp, mods, &[a, b, c]);
        let bits = if to.bits() == 16 {
            Scalar::B16
        } else {
            Scalar::B32
        };
        emit.selp(bits, imm(one(to)), imm(0), holds)
    })
}

/// The pattern that `set` yields where the comparison holds.
const fn one(scalar: Scalar) -> u64 {
    match scalar {
        Scalar::F32 => 0x3f80_0000,
        Scalar::F16 => 0x3c00,
        Scalar::Bf16 => 0x3f80,
        Scalar::U16 | Scalar::S16 => 0xffff,
        _ => 0xffff_ffff,
    }
}

/// The modifiers of the `setp` that compares as a `set` does.
fn comparison(expander: &Expander<'_>, from: Scalar) -> orias_ori::AbstractMods {
    use orias_ori::operation::Combine;
    let row = AbstractOp::Setp.row();
    let mods = orias_ori::AbstractMods::NONE;
    let compare: Compare = expander.modifier().unwrap_or(Compare::Eq);
    let combine: Combine = expander.modifier().unwrap_or(Combine::None);
    let ftz: Ftz = expander.modifier().unwrap_or(Ftz::Keep);
    let mods = row.with_modifier(mods, compare).unwrap_or(mods);
    let mods = row.with_modifier(mods, combine).unwrap_or(mods);
    let mods = row.with_modifier(mods, ftz).unwrap_or(mods);
    row.with_modifier(mods, from).unwrap_or(mods)
}
