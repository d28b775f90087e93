//! Products and sums that are rounded once.
//!
//! PTX leaves it open whether `mul` and `add` without a rounding modifier are one operation. Contraction makes `a * b + c`
//! an `ffma` where ptxas does (seen in what it makes of small kernels):
//!
//! - neither has a rounding modifier, both are of one type and flush alike, the product is not saturated and not guarded;
//! - both stand in one block of the PTX;
//! - every use of the product is such a sum, so that the product itself goes; several sums each get it;
//! - where both operands of a sum are products, the first becomes part of it; the sum of a product with itself stays;
//! - a negation between product and sum is taken along;
//! - an approximate quotient of singles (`div.approx`, `div.full`) is the product of a reciprocal and the numerator.

use crate::emit::Emit;
use crate::phases::{copied_number, quotient_factors};
use cranelift_entity::SecondaryMap;
use orias_ori::builder::BuildError;
use orias_ori::operation::{AbstractOp, Ftz, Precision, Round, Sat, Scalar};
use orias_ori::{Block, Function, Inst, Opcode, Operand, Value};

/// A product that may become part of the sums that use it.
#[derive(Clone, Copy)]
struct Product {
    factors: [Operand; 2],
    negative: bool,
    /// The product, and the negation behind it.
    insts: [Option<Inst>; 2],
}

/// What is known of the values of a function.
#[derive(Default)]
struct Uses {
    all: SecondaryMap<Value, u32>,
    /// As an operand of a sum that could take it in, if it is a product.
    in_sums: SecondaryMap<Value, u32>,
    /// Products that stay because a sum takes in its other operand.
    spoiled: SecondaryMap<Value, bool>,
}

/// Contracts what may be contracted.
pub(super) fn contract(func: &mut Function) -> Result<(), BuildError> {
    multiply_quotients(func)?;
    let mut uses = Uses::default();
    let mut sums: Vec<Inst> = Vec::new();
    for block in func.blocks() {
        for inst in func.block_insts(block) {
            for value in func.value_uses(inst) {
                uses.all[value] += 1;
            }
            let Some([a, b]) = sum_operands(func, inst) else {
                continue;
            };
            sums.push(inst);
            if a != b {
                for value in [a, b].into_iter().filter_map(Operand::as_value) {
                    if product(func, block, value, inst).is_some() {
                        uses.in_sums[value] += 1;
                    }
                }
            }
        }
    }
    for &sum in &sums {
        if let Some([Some(a), Some(b)]) =
            sum_operands(func, sum).map(|both| both.map(Operand::as_value))
            && taken(func, sum, a, &uses).is_some()
        {
            uses.spoiled[b] = true;
        }
    }
    let mut gone: Vec<Inst> = Vec::new();
    for sum in sums {
        contract_sum(func, sum, &uses, &mut gone);
    }
    gone.sort_unstable_by_key(|inst| inst.as_u32());
    gone.dedup();
    for inst in gone {
        func.remove_inst(inst);
    }
    Ok(())
}

/// Makes approximate quotients products, so that sums can take them in.
fn multiply_quotients(func: &mut Function) -> Result<(), BuildError> {
    let quotients: Vec<Inst> = func
        .blocks()
        .flat_map(|block| func.block_insts(block))
        .filter(|&inst| {
            let approximate = matches!(
                func.modifier::<Precision>(inst),
                Some(Precision::Approx | Precision::Full)
            );
            func.opcode(inst) == Opcode::Abstract(AbstractOp::Fdiv)
                && func.modifier::<Scalar>(inst) == Some(Scalar::F32)
                && approximate
                && func.inst(inst).guard().is_always()
        })
        .collect();
    for inst in quotients {
        let &[result, a, b] = func.operands(inst) else {
            continue;
        };
        let precision = func
            .modifier::<Precision>(inst)
            .unwrap_or(Precision::Approx);
        let ftz = func.modifier::<Ftz>(inst).unwrap_or(Ftz::Keep);
        let b = copied_number(func, b).unwrap_or(b);
        let mut emit = Emit::before(func, inst);
        let [inverse, a] = quotient_factors(&mut emit, precision, ftz, a, b);
        emit.finish()?;
        let row = AbstractOp::Fmul.row();
        let mods = orias_ori::AbstractMods::NONE;
        let mods = row.with_modifier(mods, ftz).unwrap_or(mods);
        let mods = row.with_modifier(mods, Scalar::F32).unwrap_or(mods);
        func.replace_with_abstract(inst, AbstractOp::Fmul, mods, 1, &[result, inverse, a]);
    }
    Ok(())
}

/// The operands of a sum or difference that may be contracted.
fn sum_operands(func: &Function, inst: Inst) -> Option<[Operand; 2]> {
    let adds = matches!(
        func.opcode(inst),
        Opcode::Abstract(AbstractOp::Fadd | AbstractOp::Fsub)
    );
    let free = adds && func.modifier::<Round>(inst) == Some(Round::Default);
    match (free, func.operands(inst)) {
        (true, &[_, a, b]) => Some([a, b]),
        _ => None,
    }
}

/// The product that `value` is, or is the negation of, if a sum like `sum` in `block` could take it in.
fn product(func: &Function, block: Block, value: Value, sum: Inst) -> Option<Product> {
    let plain = |inst: Inst| {
        let same = func.modifier::<Scalar>(inst) == func.modifier::<Scalar>(sum)
            && func.modifier::<Ftz>(inst) == func.modifier::<Ftz>(sum);
        same && func.inst(inst).guard().is_always() && func.layout.inst_block(inst) == Some(block)
    };
    let inst = func.defining_inst(value).filter(|&inst| plain(inst))?;
    let (multiply, turn) = match (func.opcode(inst), func.operands(inst)) {
        (Opcode::Abstract(AbstractOp::Fneg), &[_, of]) => {
            let of = func.defining_inst(of.as_value()?)?;
            (of, Some(inst))
        }
        _ => (inst, None),
    };
    let free = func.opcode(multiply) == Opcode::Abstract(AbstractOp::Fmul)
        && plain(multiply)
        && func.modifier::<Round>(multiply) == Some(Round::Default)
        && func.modifier::<Sat>(multiply) == Some(Sat::Wrap);
    match (free, func.operands(multiply)) {
        (true, &[_, x, y]) => Some(Product {
            factors: [x, y],
            negative: turn.is_some(),
            insts: [Some(multiply), turn],
        }),
        _ => None,
    }
}

/// The product that `value` is, if `sum` takes it in.
fn taken(func: &Function, sum: Inst, value: Value, uses: &Uses) -> Option<Product> {
    let block = func.layout.inst_block(sum)?;
    let product = product(func, block, value, sum)?;
    let all = uses.all[value] == uses.in_sums[value] && !uses.spoiled[value];
    // What a negation turns is used by nothing else.
    let turned = match product.insts {
        [Some(multiply), Some(_)] => func
            .result(multiply, 0)
            .is_some_and(|value| uses.all[value] == 1),
        _ => true,
    };
    (all && turned).then_some(product)
}

fn contract_sum(func: &mut Function, sum: Inst, uses: &Uses, gone: &mut Vec<Inst>) {
    let subtracts = func.opcode(sum) == Opcode::Abstract(AbstractOp::Fsub);
    let &[result, a, b] = func.operands(sum) else {
        return;
    };
    let found = [(a, b, false, subtracts), (b, a, subtracts, false)]
        .into_iter()
        .find_map(|(operand, rest, negate_product, negate_rest)| {
            let product = taken(func, sum, operand.as_value()?, uses)?;
            Some((product, rest, negate_product, negate_rest))
        });
    let Some((product, rest, negate_product, negate_rest)) = found else {
        return;
    };
    let Some(scalar) = func.modifier::<Scalar>(sum) else {
        return;
    };
    let ftz = func.modifier::<Ftz>(sum).unwrap_or(Ftz::Keep);
    let sat = func.modifier::<Sat>(sum).unwrap_or(Sat::Wrap);
    let [mut x, y] = product.factors;
    if product.negative != negate_product {
        let Some(negated) = negate(func, sum, x, scalar) else {
            return;
        };
        x = negated;
    }
    let rest = if negate_rest {
        let Some(negated) = negate(func, sum, rest, scalar) else {
            return;
        };
        negated
    } else {
        rest
    };
    let row = AbstractOp::Ffma.row();
    let mods = orias_ori::AbstractMods::NONE;
    let mods = row.with_modifier(mods, Round::Rn).unwrap_or(mods);
    let mods = row.with_modifier(mods, ftz).unwrap_or(mods);
    let mods = row.with_modifier(mods, sat).unwrap_or(mods);
    let mods = row.with_modifier(mods, scalar).unwrap_or(mods);
    let kept = func.kept(sum).to_vec();
    func.replace_with_abstract(sum, AbstractOp::Ffma, mods, 1, &[result, x, y, rest]);
    if !kept.is_empty() {
        func.set_kept(sum, &kept);
    }
    gone.extend(product.insts.into_iter().flatten());
}

/// `operand` with its sign turned, computed before `before`.
fn negate(func: &mut Function, before: Inst, operand: Operand, scalar: Scalar) -> Option<Operand> {
    let sign = match scalar {
        Scalar::F32 => 1 << 31,
        Scalar::F64 => 1 << 63,
        Scalar::F16 | Scalar::Bf16 => 1 << 15,
        Scalar::F16x2 | Scalar::Bf16x2 => 0x8000_8000,
        _ => return None,
    };
    if let Operand::Imm(bits) = operand {
        return Some(Operand::imm(bits.bits() ^ sign));
    }
    let mut emit = Emit::before(func, before);
    let value = emit.op(AbstractOp::Fneg, (scalar,), &[operand]);
    emit.finish().ok()?;
    Some(value)
}
