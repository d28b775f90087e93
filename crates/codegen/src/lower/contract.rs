//! Products and sums that are rounded once.
//!
//! PTX leaves it open whether `mul` and `add` without a rounding modifier are one operation. Contraction makes `a * b + c`
//! an `ffma` where the product is used once, as ptxas does it: both operations without rounding, of one type, with the
//! same flushing, the product not saturated, the sum not guarded differently from the product. A product with two uses
//! stays, and so does everything written `.rn`.

use cranelift_entity::SecondaryMap;
use orias_ori::operation::{AbstractOp, Ftz, Round, Sat, Scalar};
use orias_ori::{Function, Inst, Opcode, Operand, Value};

/// A product that may become part of a sum.
struct Product {
    factors: [Operand; 2],
    negative: bool,
    /// The product and the negation in between, which nothing uses once they are part of the sum.
    insts: Vec<Inst>,
}

/// Contracts what may be contracted.
pub(super) fn contract(func: &mut Function) {
    let mut uses: SecondaryMap<Value, u32> = SecondaryMap::new();
    let mut sums: Vec<Inst> = Vec::new();
    for block in func.blocks() {
        for inst in func.block_insts(block) {
            for value in func.value_uses(inst) {
                uses[value] += 1;
            }
            if matches!(
                func.opcode(inst),
                Opcode::Abstract(AbstractOp::Fadd | AbstractOp::Fsub)
            ) && func.modifier::<Round>(inst) == Some(Round::Default)
            {
                sums.push(inst);
            }
        }
    }
    for sum in sums {
        contract_sum(func, sum, &uses);
    }
}

fn contract_sum(func: &mut Function, sum: Inst, uses: &SecondaryMap<Value, u32>) {
    let subtracts = func.opcode(sum) == Opcode::Abstract(AbstractOp::Fsub);
    let &[result, a, b] = func.operands(sum) else {
        return;
    };
    // The second operand is looked at first, as ptxas does where both are products.
    let found = [(b, a, subtracts, false), (a, b, false, subtracts)]
        .into_iter()
        .find_map(|(product, rest, negate_product, negate_rest)| {
            let product = product_of(func, product, sum, uses)?;
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
    for inst in product.insts {
        func.remove_inst(inst);
    }
}

/// The product that `operand` is, if it may become part of `sum`; a negation in between is taken along.
fn product_of(
    func: &Function,
    operand: Operand,
    sum: Inst,
    uses: &SecondaryMap<Value, u32>,
) -> Option<Product> {
    let mut value = operand.as_value()?;
    let mut negative = false;
    let mut insts = Vec::new();
    loop {
        if uses[value] != 1 {
            return None;
        }
        let inst = func.defining_inst(value)?;
        if !func.inst(inst).guard().is_always() {
            return None;
        }
        let same = func.modifier::<Scalar>(inst) == func.modifier::<Scalar>(sum)
            && func.modifier::<Ftz>(inst) == func.modifier::<Ftz>(sum);
        if !same {
            return None;
        }
        insts.push(inst);
        match (func.opcode(inst), func.operands(inst)) {
            (Opcode::Abstract(AbstractOp::Fneg), &[_, of]) if !negative => {
                negative = true;
                value = of.as_value()?;
            }
            (Opcode::Abstract(AbstractOp::Fmul), &[_, x, y]) => {
                let plain = func.modifier::<Round>(inst) == Some(Round::Default)
                    && func.modifier::<Sat>(inst) == Some(Sat::Wrap);
                return plain.then_some(Product {
                    factors: [x, y],
                    negative,
                    insts,
                });
            }
            _ => return None,
        }
    }
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
    let mut emit = crate::emit::Emit::before(func, before);
    let value = emit.op(AbstractOp::Fneg, (scalar,), &[operand]);
    emit.finish().ok()?;
    Some(value)
}
