//! PairProducts (10096): strength reduction of two products to one.
//!
//! `mul.lo` and `mul.hi` of the same factors become one `mul.wide` whose words they are: IMAD.WIDE keeps the multiplier no longer than IMAD.HI alone does.
//! Generators of random numbers and arithmetic of long numbers are full of them. Products far apart stay: a pair of registers would be taken from the one to
//! the other. So does a low half that only a sum reads, which is part of it (IMAD).
//!
//! Each block is read once, with a window of bounded size: linear.

use crate::emit::Emit;
use crate::pipeline::{Context, PhaseError};
use orias_ori::analysis::DefUse;
use orias_ori::operation::{Half, Scalar};
use orias_ori::{AbstractOp, Function, Guard, Inst, Opcode, Operand, Value};

/// How many instructions lie between two products at most.
const WINDOW: usize = 16;

/// One half of a product.
#[derive(Clone, Copy)]
struct Product {
    at: usize,
    inst: Inst,
    high: bool,
    scalar: Scalar,
    factors: [Operand; 2],
    result: Value,
}

/// Runs the phase.
pub fn pair_products(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    for [first, second] in find(func) {
        let (low, high) = match first.high {
            true => (second, first),
            false => (first, second),
        };
        let mut emit = Emit::before(func, first.inst);
        let mods = (Half::Wide, high.scalar);
        let wide = emit.op(AbstractOp::Mul, mods, &first.factors);
        let words = [low.result.into(), high.result.into()];
        emit.put(AbstractOp::Split, (), &words, &[wide], Guard::ALWAYS, &[]);
        emit.finish().map_err(|error| PhaseError::Broken {
            at: first.inst.to_string(),
            what: error.to_string(),
        })?;
        func.remove_inst(first.inst);
        func.remove_inst(second.inst);
    }
    Ok(())
}

/// Pairs of halves of the same product, the earlier one first.
fn find(func: &Function) -> Vec<[Product; 2]> {
    let is_product = |inst: Inst| func.opcode(inst) == Opcode::Abstract(AbstractOp::Mul);
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    if insts.filter(|&inst| is_product(inst)).count() < 2 {
        return Vec::new();
    }
    let chains = DefUse::new(func);
    let mut pairs = Vec::new();
    for block in func.blocks() {
        let mut recent: Vec<Product> = Vec::new();
        for (at, inst) in func.block_insts(block).enumerate() {
            let Some(product) = product(func, &chains, inst, at) else {
                continue;
            };
            recent.retain(|other| other.at + WINDOW >= at);
            match recent.iter().position(|other| belong(*other, product)) {
                Some(place) => pairs.push([recent.remove(place), product]),
                None => recent.push(product),
            }
        }
    }
    pairs
}

/// Whether two products are the halves of one.
fn belong(a: Product, b: Product) -> bool {
    let [x, y] = b.factors;
    a.high != b.high && (a.factors == [x, y] || a.factors == [y, x])
}

/// The half of a product of words that `inst` computes.
fn product(func: &Function, chains: &DefUse, inst: Inst, at: usize) -> Option<Product> {
    if func.opcode(inst) != Opcode::Abstract(AbstractOp::Mul)
        || !func.inst(inst).guard().is_always()
    {
        return None;
    }
    let scalar = func.modifier::<Scalar>(inst)?;
    let high = match func.modifier::<Half>(inst)? {
        Half::Hi => true,
        Half::Lo => false,
        _ => return None,
    };
    let &[_, a, b] = func.operands(inst) else {
        return None;
    };
    let [a, b] = [a, b].map(|factor| known(func, factor));
    let result = func.result(inst, 0)?;
    let words = matches!(scalar, Scalar::U32 | Scalar::S32);
    // Two numbers are folded elsewhere, and a negated factor is no part of a wide product.
    let plain = a.mods().is_empty() && b.mods().is_empty();
    let factors = a.as_value().is_some() || b.as_value().is_some();
    let wanted = high || !is_summand(func, chains, inst, result);
    (words && plain && factors && wanted).then_some(Product {
        at,
        inst,
        high,
        scalar,
        factors: [a, b],
        result,
    })
}

/// The number that `operand` is, if it is a copy of one.
fn known(func: &Function, operand: Operand) -> Operand {
    let value = operand.as_value().filter(|_| operand.mods().is_empty());
    let Some(inst) = value.and_then(|value| func.defining_inst(value)) else {
        return operand;
    };
    let plain = func.inst(inst).guard().is_always();
    match (func.opcode(inst), func.operands(inst)) {
        (Opcode::Abstract(AbstractOp::Mov), &[_, number @ Operand::Imm(_)]) if plain => number,
        _ => operand,
    }
}

/// Whether nothing but a sum of the same block reads `value`, which `inst` makes.
fn is_summand(func: &Function, chains: &DefUse, inst: Inst, value: Value) -> bool {
    let [read] = chains.uses(value) else {
        return false;
    };
    let sum = matches!(
        func.opcode(read.inst),
        Opcode::Abstract(AbstractOp::Add | AbstractOp::Sub)
    );
    sum && func.layout.inst_block(read.inst) == func.layout.inst_block(inst)
}
