//! Bit fields and counts of 64 bits, from those of 32; and fields of 32 bits where the lengths are not constants.

use super::{Asked, Expander, Expansion, Results, is_signed};
use crate::emit::{Emit, imm};
use orias_ori::Operand;
use orias_ori::operation::{AbstractOp, Compare, Scalar};

pub(super) fn rule(asked: Asked) -> Option<Expansion> {
    use AbstractOp as A;
    let wide = asked.scalar().bits() == 64;
    match asked.op {
        A::Popc if wide => Some(count_ones),
        A::Clz if wide => Some(leading_zeros_64),
        A::Clz => Some(leading_zeros_32),
        A::Bfind | A::BfindShift if wide => Some(find_64),
        A::Brev if wide => Some(reverse_64),
        A::Bfe => Some(extract),
        A::Bfi => Some(insert),
        _ => None,
    }
}

/// `popc.b64`
fn count_ones(expander: &mut Expander<'_>) -> Results {
    let a = expander.operand(0);
    expander.one(|emit| {
        let (low, high) = emit.halves(a);
        let low = emit.op(AbstractOp::Popc, (Scalar::B32,), &[low]);
        let high = emit.op(AbstractOp::Popc, (Scalar::B32,), &[high]);
        emit.add(low, high)
    })
}

/// `clz.b32`: the shift that brings the highest bit to the top is -1 for zero, and else the count.
fn leading_zeros_32(expander: &mut Expander<'_>) -> Results {
    let a = expander.operand(0);
    expander.one(|emit| {
        let shift = emit.op(AbstractOp::BfindShift, (Scalar::U32,), &[a]);
        emit.binary(AbstractOp::Min, Scalar::U32, shift, imm(32))
    })
}

/// `clz.b64`: what the shift of the high word is where that is zero does not matter.
fn leading_zeros_64(expander: &mut Expander<'_>) -> Results {
    let a = expander.operand(0);
    expander.one(|emit| {
        let (low, high) = emit.halves(a);
        let low = emit.op(AbstractOp::Clz, (Scalar::B32,), &[low]);
        let low = emit.add(low, imm(32));
        let top = emit.op(AbstractOp::BfindShift, (Scalar::U32,), &[high]);
        let empty = emit.setp(Compare::Eq, Scalar::U32, high, imm(0));
        emit.selp(Scalar::B32, low, top, empty)
    })
}

/// `bfind` of 64 bits: in the high word, or where nothing is found there in the low one. A negative number's bits are
/// turned first.
fn find_64(expander: &mut Expander<'_>) -> Results {
    let shift = expander.op == AbstractOp::BfindShift;
    let signed = is_signed(expander.scalar());
    let a = expander.operand(0);
    expander.one(|emit| {
        let (mut low, mut high) = emit.halves(a);
        if signed {
            let sign = emit.shr(Scalar::S32, high, imm(31));
            low = emit.xor(low, sign);
            high = emit.xor(high, sign);
        }
        let in_low = emit.op(AbstractOp::Bfind, (Scalar::U32,), &[low]);
        let in_high = emit.op(AbstractOp::Bfind, (Scalar::U32,), &[high]);
        let in_high = emit.add(in_high, imm(32));
        let empty = emit.setp(Compare::Eq, Scalar::U32, high, imm(0));
        let found = emit.selp(Scalar::B32, in_low, in_high, empty);
        if !shift {
            return found;
        }
        let none = emit.setp(Compare::Eq, Scalar::U32, found, imm(0xffff_ffff));
        let by = emit.sub(imm(63), found);
        emit.selp(Scalar::B32, imm(0xffff_ffff), by, none)
    })
}

/// `brev.b64`
fn reverse_64(expander: &mut Expander<'_>) -> Results {
    let a = expander.operand(0);
    expander.one(|emit| {
        let (low, high) = emit.halves(a);
        let low = emit.op(AbstractOp::Brev, (Scalar::B32,), &[low]);
        let high = emit.op(AbstractOp::Brev, (Scalar::B32,), &[high]);
        emit.join(high, low)
    })
}

/// A position or length as it counts: of 32-bit fields by its low eight bits, of 64-bit fields as a whole, where everything
/// beyond the width means the same.
fn place(emit: &mut Emit<'_>, scalar: Scalar, number: Operand) -> Operand {
    if scalar.bits() == 64 {
        emit.binary(AbstractOp::Min, Scalar::U32, number, imm(0xff))
    } else {
        emit.and(number, imm(0xff))
    }
}

/// `bfe`: a field, shifted to the top and back down.
///
/// With the end of the field `e = min(position + length, width)`, the bits below `e` are shifted up by `width − e`, which drops
/// what is above, and down by `width − length`. A field that reaches past the top is filled by the sign, or zero, of the
/// shift down: it is `min(e − position, …)` long and the rest of its length is above the top. A field of no bits is zero.
fn extract(expander: &mut Expander<'_>) -> Results {
    let scalar = expander.scalar();
    let width = u64::from(scalar.bits());
    let [a, position, length] = [0, 1, 2].map(|index| expander.operand(index));
    let bits = if width == 64 {
        Scalar::B64
    } else {
        Scalar::B32
    };
    if let (Operand::Imm(position), Operand::Imm(length)) = (position, length) {
        let (position, length) = (position.bits() & 0xff, length.bits() & 0xff);
        return expander.one(|emit| extract_known(emit, scalar, a, position, length));
    }
    expander.one(|emit| {
        let position = place(emit, scalar, position);
        let length = place(emit, scalar, length);
        let end = emit.add(position, length);
        let end = emit.binary(AbstractOp::Min, Scalar::U32, end, imm(width));
        let up = emit.sub(imm(width), end);
        let raised = emit.binary(AbstractOp::Shl, bits, a, up);
        // Down again so far that bit `position` comes to the bottom.
        let down = emit.add(up, position);
        let field = emit.binary(AbstractOp::Shr, scalar, raised, down);
        let none = emit.setp(Compare::Eq, Scalar::U32, length, imm(0));
        emit.selp(bits, imm(0), field, none)
    })
}

/// A field whose place is known: one shift and a mask, or two shifts where it has a sign.
fn extract_known(
    emit: &mut Emit<'_>,
    scalar: Scalar,
    a: Operand,
    position: u64,
    length: u64,
) -> Operand {
    let width = u64::from(scalar.bits());
    let bits = if width == 64 {
        Scalar::B64
    } else {
        Scalar::B32
    };
    if length == 0 {
        return imm(0);
    }
    let end = (position + length).min(width);
    if is_signed(scalar) {
        let up = width - end;
        let raised = match up {
            0 => a,
            up => emit.binary(AbstractOp::Shl, bits, a, imm(up)),
        };
        return emit.binary(AbstractOp::Shr, scalar, raised, imm(up + position));
    }
    let down = match position {
        0 => a,
        position => emit.binary(AbstractOp::Shr, scalar, a, imm(position)),
    };
    if end == width {
        return down;
    }
    emit.binary(AbstractOp::And, bits, down, imm((1 << length) - 1))
}

/// `bfi`: under a mask of the field.
fn insert(expander: &mut Expander<'_>) -> Results {
    let scalar = expander.scalar();
    let [field, into, position, length] = [0, 1, 2, 3].map(|index| expander.operand(index));
    if let (Operand::Imm(position), Operand::Imm(length)) = (position, length) {
        let width = u64::from(scalar.bits());
        let (position, length) = (position.bits() & 0xff, length.bits() & 0xff);
        let all = u128::from(u64::MAX >> (64 - width));
        let mask = (((1_u128 << length.min(64)) - 1) << position.min(64) & all) as u64;
        return expander.one(|emit| {
            let placed = match position {
                0 => field,
                position => emit.binary(AbstractOp::Shl, scalar, field, imm(position)),
            };
            let placed = emit.binary(AbstractOp::And, scalar, placed, imm(mask));
            let kept = emit.binary(AbstractOp::And, scalar, into, imm(!mask & all as u64));
            emit.binary(AbstractOp::Or, scalar, kept, placed)
        });
    }
    expander.one(|emit| {
        let position = place(emit, scalar, position);
        let length = place(emit, scalar, length);
        let ones = imm(u64::MAX >> (64 - scalar.bits()));
        // Ones below the length: all but what is shifted out of all ones. Too long a shift leaves nothing of them.
        let above = emit.binary(AbstractOp::Shl, scalar, ones, length);
        let low = emit.op(AbstractOp::Not, (scalar,), &[above]);
        let mask = emit.binary(AbstractOp::Shl, scalar, low, position);
        let placed = emit.binary(AbstractOp::Shl, scalar, field, position);
        let kept = emit.op(AbstractOp::Not, (scalar,), &[mask]);
        let kept = emit.binary(AbstractOp::And, scalar, into, kept);
        let placed = emit.binary(AbstractOp::And, scalar, placed, mask);
        emit.binary(AbstractOp::Or, scalar, kept, placed)
    })
}
