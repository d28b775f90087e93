//! Quotients and remainders of integers by numbers that are not known.
//!
//! The reciprocal `z ≈ 2^w / b` comes from the approximate `rcp` of `b` rounded up: with the divisor rounded up, an
//! approximation within one unit in the last place and two units taken off, `z` is too small, by less than 2⁻²⁰ of its
//! value. A Newton step in fixed point, `z += ⌊z · (2^w − b·z) / 2^w⌋`, squares the error and, being cut, keeps `z` too small.
//! One step suffices for 32 bits, two for 64. Then `q = ⌊a·z / 2^w⌋` is the quotient, or one or two less, which the
//! remainder shows.
//!
//! Division by zero is undefined in PTX; quotient and remainder are all ones, as ptxas has it.

use super::{Expander, Results, is_signed};
use crate::emit::{Emit, imm};
use orias_ori::analysis::FlowGraph;
use orias_ori::builder::BuildError;
use orias_ori::operation::{AbstractOp, Compare, Ftz, Half, Precision, Round, Scalar, SourceType};
use orias_ori::{Block, Function, Guard, Inst, Operand, Type};
use rustc_hash::{FxHashMap, FxHashSet};

/// `⌊2^w / b⌋`, less up to 2⁻²⁰ of it: the bits of the approximate reciprocal with the exponent raised by `w`.
fn reciprocal(emit: &mut Emit<'_>, scalar: Scalar, b: Operand) -> Operand {
    let raise = if scalar.bits() == 64 {
        0x1fff_fffe
    } else {
        0x0fff_fffe
    };
    let float = emit.op(
        AbstractOp::Cvt,
        (Round::Rp, Scalar::F32, SourceType::from(scalar)),
        &[b],
    );
    let inverse = emit.op(
        AbstractOp::Rcp,
        (Precision::Approx, Ftz::Ftz, Scalar::F32),
        &[float],
    );
    let raised = emit.add(inverse, imm(raise));
    emit.op(
        AbstractOp::Cvt,
        (Round::Rzi, Ftz::Ftz, scalar, SourceType::F32),
        &[raised],
    )
}

/// Quotient and remainder of unsigned numbers.
fn unsigned(emit: &mut Emit<'_>, scalar: Scalar, a: Operand, b: Operand) -> (Operand, Operand) {
    let wide = scalar.bits() == 64;
    let bits = if wide { Scalar::B64 } else { Scalar::B32 };
    let low = |emit: &mut Emit<'_>, x: Operand, y: Operand| {
        emit.op(AbstractOp::Mul, (Half::Lo, scalar), &[x, y])
    };
    let high = |emit: &mut Emit<'_>, x: Operand, y: Operand| {
        emit.op(AbstractOp::Mul, (Half::Hi, scalar), &[x, y])
    };
    let mut z = reciprocal(emit, scalar, b);
    for _ in 0..if wide { 2 } else { 1 } {
        let product = low(emit, b, z);
        let error = emit.binary(AbstractOp::Sub, scalar, imm(0), product);
        let step = high(emit, z, error);
        z = emit.binary(AbstractOp::Add, scalar, z, step);
    }
    let mut quotient = high(emit, a, z);
    let product = low(emit, quotient, b);
    let mut rest = emit.binary(AbstractOp::Sub, scalar, a, product);
    for _ in 0..2 {
        let more = emit.setp(Compare::Ge, scalar, rest, b);
        let next = emit.binary(AbstractOp::Add, scalar, quotient, imm(1));
        let less = emit.binary(AbstractOp::Sub, scalar, rest, b);
        quotient = emit.selp(bits, next, quotient, more);
        rest = emit.selp(bits, less, rest, more);
    }
    (quotient, rest)
}

/// Division or remainder of 32 bits.
fn divide_32(
    emit: &mut Emit<'_>,
    scalar: Scalar,
    a: Operand,
    b: Operand,
    quotient: bool,
) -> Operand {
    if !is_signed(scalar) {
        let (q, r) = unsigned(emit, Scalar::U32, a, b);
        return if quotient { q } else { r };
    }
    let x = emit.op(AbstractOp::Abs, (Scalar::S32,), &[a]);
    let y = emit.op(AbstractOp::Abs, (Scalar::S32,), &[b]);
    let (q, r) = unsigned(emit, Scalar::U32, x, y);
    signed_result(emit, Scalar::S32, a, b, q, r, quotient)
}

/// The result with its sign: the quotient's is negative where the operands' signs differ, the remainder's is the
/// numerator's.
fn signed_result(
    emit: &mut Emit<'_>,
    scalar: Scalar,
    a: Operand,
    b: Operand,
    q: Operand,
    r: Operand,
    quotient: bool,
) -> Operand {
    let bits = if scalar == Scalar::S64 {
        Scalar::B64
    } else {
        Scalar::B32
    };
    let (value, sign) = if quotient {
        let sign = emit.binary(AbstractOp::Xor, bits, a, b);
        (q, sign)
    } else {
        (r, a)
    };
    let negated = emit.op(AbstractOp::Neg, (scalar,), &[value]);
    let negative = emit.setp(Compare::Lt, scalar, sign, imm(0));
    emit.selp(bits, negated, value, negative)
}

/// All ones where the divisor is zero, else the result.
fn unless_zero(emit: &mut Emit<'_>, scalar: Scalar, b: Operand, result: Operand) -> Operand {
    let bits = if scalar.bits() == 64 {
        Scalar::B64
    } else {
        Scalar::B32
    };
    let zero = emit.setp(Compare::Eq, scalar, b, imm(0));
    let ones = imm(u64::MAX >> (64 - scalar.bits()));
    emit.selp(bits, ones, result, zero)
}

/// Where quotient and remainder of the same 64-bit numbers are asked for in one block, the remainder becomes `a - q·b`: each would take branches of its own, which
/// common subexpression elimination does not see through. The first of them divides.
pub(super) fn share_quotients(func: &mut Function) -> Result<(), BuildError> {
    let blocks: Vec<Block> = func.blocks().collect();
    let mut seen: FxHashMap<(Scalar, [Operand; 2]), Inst> = FxHashMap::default();
    let mut pairs = Vec::new();
    for block in blocks {
        seen.clear();
        for inst in func.block_insts(block) {
            let Some(op @ (AbstractOp::Div | AbstractOp::Rem)) = func.opcode(inst).as_abstract()
            else {
                continue;
            };
            let (Some(scalar), &[_, a, b]) = (func.modifier::<Scalar>(inst), func.operands(inst))
            else {
                continue;
            };
            let known = matches!(b, Operand::Imm(_)) || super::copied_number(func, b).is_some();
            if scalar.bits() != 64 || known || !func.inst(inst).guard().is_always() {
                continue;
            }
            match seen.get(&(scalar, [a, b])) {
                Some(&first) if func.opcode(first).as_abstract() != Some(op) => {
                    pairs.push((first, inst));
                    seen.remove(&(scalar, [a, b]));
                }
                Some(_) => {}
                None => {
                    seen.insert((scalar, [a, b]), inst);
                }
            }
        }
    }
    for (first, second) in pairs {
        let divides = func.opcode(first).as_abstract() == Some(AbstractOp::Div);
        let (&[one, a, b], Some(scalar)) = (func.operands(first), func.modifier::<Scalar>(first))
        else {
            continue;
        };
        let Some(&other) = func.operands(second).first() else {
            continue;
        };
        let (quotient, remainder) = if divides { (one, other) } else { (other, one) };
        // The remainder is computed where the second of them stood, or, if it came first, with the quotient in its place.
        let at = if divides { second } else { first };
        let mut emit = Emit::before(func, at);
        if !divides {
            emit.put(
                AbstractOp::Div,
                (scalar,),
                &[quotient],
                &[a, b],
                Guard::ALWAYS,
                &[],
            );
        }
        let product = emit.op(AbstractOp::Mul, (Half::Lo, scalar), &[quotient, b]);
        let rest = emit.binary(AbstractOp::Sub, scalar, a, product);
        let rest = unless_zero(&mut emit, scalar, b, rest);
        emit.put(
            AbstractOp::Mov,
            (Scalar::B64,),
            &[remainder],
            &[rest],
            Guard::ALWAYS,
            &[],
        );
        emit.finish()?;
        func.remove_inst(at);
        if !divides {
            func.remove_inst(second);
        }
    }
    Ok(())
}

/// Divisions of 64 bits of which a branch has asked whether both numbers have 32, and which stand where they have not: LLVM writes such branches around every division
/// (bypass of slow divisions), with one of 32 bits on the other way, so that to ask again is of little use.
pub(super) fn long_divisions(func: &Function) -> FxHashSet<Inst> {
    let mut found = FxHashSet::default();
    let is_wide = |inst: Inst| {
        matches!(
            func.opcode(inst).as_abstract(),
            Some(AbstractOp::Div | AbstractOp::Rem)
        ) && func
            .modifier::<Scalar>(inst)
            .is_some_and(|it| it.bits() == 64)
    };
    let insts = || func.blocks().flat_map(|block| func.block_insts(block));
    if !insts().any(is_wide) {
        return found;
    }
    let graph = FlowGraph::of(func);
    for block in func.blocks() {
        let Some((long, numbers)) = long_way(func, block) else {
            continue;
        };
        if graph.preds(long).len() != 1 {
            continue;
        }
        let divisions = func.block_insts(long).filter(|&inst| is_wide(inst));
        found.extend(divisions.filter(|&inst| {
            let of = func.operands(inst);
            of.get(1..3)
                .is_some_and(|of| of == numbers || of == [numbers[1], numbers[0]])
        }));
    }
    found
}

/// Where the branch that ends `block` goes if one of two numbers of 64 bits has more than 32, and the numbers.
fn long_way(func: &Function, block: Block) -> Option<(Block, [Operand; 2])> {
    let branch = func.terminator(block)?;
    let (&[condition], &[taken, other]) = (func.operands(branch), func.edges(branch)) else {
        return None;
    };
    let made = |operand: Operand, op: AbstractOp| {
        let inst = func.defining_inst(operand.as_value().filter(|_| operand.mods().is_empty())?)?;
        let is_it = func.opcode(inst).as_abstract() == Some(op)
            && func.inst(inst).guard().is_always()
            && func.modifier::<Scalar>(inst)?.bits() == 64;
        match func.operands(inst)[func.result_count(inst)..] {
            [a, b] | [a, b, Operand::None] if is_it => Some((inst, a, b)),
            _ => None,
        }
    };
    let (test, high, zero) = made(condition, AbstractOp::Setp)?;
    let (_, joined, mask) = made(high, AbstractOp::And)?;
    let (_, a, b) = made(joined, AbstractOp::Or)?;
    if zero != imm(0) || mask != imm(0xffff_ffff_0000_0000) {
        return None;
    }
    let long = match func.modifier::<Compare>(test)? {
        Compare::Ne => taken,
        Compare::Eq => other,
        _ => return None,
    };
    Some((func.edge_target(long), [a, b]))
}

/// `div` and `rem` of 32 and 64 bits.
pub(super) fn divide(expander: &mut Expander<'_>) -> Results {
    let scalar = expander.scalar();
    let quotient = expander.op == AbstractOp::Div;
    let (a, b) = (expander.operand(0), expander.operand(1));
    if let Operand::Imm(divisor) = b
        && divisor.bits() & (u64::MAX >> (64 - scalar.bits())) != 0
    {
        return expander.one(|emit| {
            let q = super::constant::quotient(emit, scalar, a, divisor.bits());
            if quotient {
                return q;
            }
            let product = emit.op(AbstractOp::Mul, (Half::Lo, scalar), &[q, b]);
            emit.binary(AbstractOp::Sub, scalar, a, product)
        });
    }
    if scalar.bits() == 32 {
        return expander.one(|emit| {
            let result = divide_32(emit, scalar, a, b, quotient);
            unless_zero(emit, scalar, b, result)
        });
    }
    // Most 64-bit numbers are short: where both have 32 bits, so has the work.
    let signed = is_signed(scalar);
    let (x, y) = expander.write(|emit| {
        let magnitude = |emit: &mut Emit<'_>, value: Operand| {
            if signed {
                emit.op(AbstractOp::Abs, (Scalar::S64,), &[value])
            } else {
                value
            }
        };
        (magnitude(emit, a), magnitude(emit, b))
    })?;
    let long = |emit: &mut Emit<'_>| {
        let (q, r) = unsigned(emit, Scalar::U64, x, y);
        if quotient { q } else { r }
    };
    if expander.long {
        return expander.one(|emit| {
            let value = long(emit);
            let value = match signed {
                true => signed_result(emit, Scalar::S64, a, b, value, value, quotient),
                false => value,
            };
            unless_zero(emit, scalar, b, value)
        });
    }
    let result = expander.one_of_two(
        Type::R2,
        |emit| {
            let (_, x_high) = emit.halves(x);
            let (_, y_high) = emit.halves(y);
            let high = emit.or(x_high, y_high);
            emit.setp(Compare::Eq, Scalar::U32, high, imm(0))
        },
        |emit| {
            let (x_low, _) = emit.halves(x);
            let (y_low, _) = emit.halves(y);
            let (q, r) = unsigned(emit, Scalar::U32, x_low, y_low);
            let word = if quotient { q } else { r };
            emit.join(word, imm(0))
        },
        long,
    )?;
    let value = result[0];
    expander.one(|emit| {
        let value = match signed {
            true => signed_result(emit, Scalar::S64, a, b, value, value, quotient),
            false => value,
        };
        unless_zero(emit, scalar, b, value)
    })
}
