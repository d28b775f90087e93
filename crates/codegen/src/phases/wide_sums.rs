//! 64-bit sums, as terms of which one is a product of 32-bit numbers.
//!
//! The address of a row is `p + 2 * x + q`, where `x` is the number of its first element and all else is the same for every row. Kept as a sum it takes two registers, and a sum and
//! a carry to add something to it; kept as `x` it takes one, and one multiply-add.

use orias_ori::operation::{Half, Sat, Scalar};
use orias_ori::{AbstractOp, Function, Operand, SourceMods, Value};

/// How deep sums are looked into.
const DEPTH: usize = 4;

/// A product of two 32-bit numbers in 64 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Product {
    pub(super) factor: Value,
    pub(super) by: Operand,
    pub(super) scalar: Scalar,
}

/// A product and what is added to it, in order.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    pub(super) product: Product,
    pub(super) rest: Vec<Value>,
}

/// Each way to read `value` as a sum with a product.
pub(super) fn sums(func: &Function, value: Value) -> Vec<Sum> {
    let mut terms = Vec::new();
    find_terms(func, value, DEPTH, &mut terms);
    let products = terms.iter().enumerate();
    products
        .filter_map(|(at, &(_, product))| {
            // Of a multiply-add the addend is a term of its own.
            let product = product?;
            let others = terms.iter().enumerate().filter(|&(other, _)| other != at);
            let mut rest: Vec<Value> = others.map(|(_, &(term, _))| term).collect::<Option<_>>()?;
            rest.sort_unstable();
            (!rest.is_empty()).then_some(Sum { product, rest })
        })
        .collect()
}

/// A term: the value it is, if there is one, and the product it is, if it is one.
type Term = (Option<Value>, Option<Product>);

fn find_terms(func: &Function, value: Value, depth: usize, terms: &mut Vec<Term>) {
    let whole = (Some(value), None);
    let Some(inst) = func.defining_inst(value) else {
        terms.push(whole);
        return;
    };
    let bare = |operand: Operand| operand.mods() == SourceMods::NONE;
    let operands = func.operands(inst);
    let scalar = func.modifier::<Scalar>(inst);
    let wraps = func
        .modifier::<Sat>(inst)
        .is_none_or(|sat| sat == Sat::Wrap);
    let plain = func.inst(inst).guard().is_always() && wraps && operands.iter().all(|&it| bare(it));
    let wide = func.modifier::<Half>(inst) == Some(Half::Wide);
    match (func.opcode(inst).as_abstract(), operands, scalar) {
        (Some(AbstractOp::Add), &[_, a, b], Some(scalar))
            if plain && depth > 0 && scalar.bits() == 64 =>
        {
            if let (Some(a), Some(b)) = (a.as_value(), b.as_value()) {
                find_terms(func, a, depth - 1, terms);
                find_terms(func, b, depth - 1, terms);
                return;
            }
        }
        (Some(AbstractOp::Mul), &[_, a, by], Some(scalar))
            if plain && wide && scalar.bits() == 32 =>
        {
            if let Some(factor) = a.as_value() {
                let product = Product { factor, by, scalar };
                terms.push((Some(value), Some(product)));
                return;
            }
        }
        (Some(AbstractOp::Mad), &[_, a, by, c], Some(scalar))
            if plain && wide && depth > 0 && scalar.bits() == 32 =>
        {
            if let (Some(factor), Some(c)) = (a.as_value(), c.as_value()) {
                let product = Product { factor, by, scalar };
                terms.push((None, Some(product)));
                find_terms(func, c, depth - 1, terms);
                return;
            }
        }
        _ => {}
    }
    terms.push(whole);
}
