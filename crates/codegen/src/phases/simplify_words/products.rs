//! Masks before matrix products of tf32: of each word of A and B these look at the upper nineteen bits only, so the cut at the end of
//! `cvt.rna.tf32.f32` is for others to see.
//!
//! Words reach a product one by one or collected; a collection is rebuilt only if nothing but such products reads it. Linear.

use cranelift_entity::EntitySet;
use orias_ori::operation::{Scalar, SourceType};
use orias_ori::{AbstractOp, Function, Inst, Operand, Type, Value};

/// The bits of a word that a product of tf32 looks at.
const LOOKED_AT: u64 = 0xffff_e000;

/// Lets products read what was masked for them; whether there was something.
pub(super) fn unmask_products(func: &mut Function) -> bool {
    let products: Vec<Inst> = (func.blocks().flat_map(|block| func.block_insts(block)))
        .filter(|&inst| is_product(func, inst))
        .collect();
    if products.is_empty() {
        return false;
    }
    let elsewhere = read_elsewhere(func);
    let mut changed = false;
    for product in products {
        let first = func.result_count(product);
        for place in factors(func, product).map(|place| first + place) {
            let Some(value) = func.operands(product)[place].as_value() else {
                continue;
            };
            changed |= unmask(func, product, place);
            let collected = func.defining_inst(value).filter(|&inst| {
                func.opcode(inst).as_abstract() == Some(AbstractOp::Collect)
                    && !elsewhere.contains(value)
            });
            if let Some(inst) = collected {
                for word in func.result_count(inst)..func.operands(inst).len() {
                    changed |= unmask(func, inst, word);
                }
            }
        }
    }
    changed
}

/// Whether an instruction multiplies matrices of tf32.
fn is_product(func: &Function, inst: Inst) -> bool {
    use AbstractOp::{Mma, MmaSparse, Wgmma, WgmmaSparse};
    let op = func.opcode(inst).as_abstract();
    matches!(op, Some(Mma | MmaSparse | Wgmma | WgmmaSparse))
        && func.modifier::<SourceType>(inst) == Some(SourceType::from(Scalar::Tf32))
}

/// Which sources of a product hold numbers to multiply: A and B; of a warp group's, where B lies in memory, A alone, and nothing where A is a descriptor, too.
fn factors(func: &Function, product: Inst) -> std::ops::Range<usize> {
    match func.opcode(product).as_abstract() {
        Some(AbstractOp::Wgmma | AbstractOp::WgmmaSparse) => {
            let first = func.operands(product).get(func.result_count(product) + 1);
            let left = first.and_then(|operand| operand.as_value());
            match left.is_some_and(|left| func.value_type(left) == Type::R4) {
                true => 1..2,
                false => 1..1,
            }
        }
        _ => 0..2,
    }
}

/// The values that something else than a product of tf32 reads as a factor.
fn read_elsewhere(func: &Function) -> EntitySet<Value> {
    let mut read = EntitySet::new();
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        let factors = match is_product(func, inst) {
            true => {
                let first = func.result_count(inst);
                factors(func, inst)
                    .map(|place| func.operands(inst)[first + place].as_value())
                    .collect()
            }
            false => Vec::new(),
        };
        let mut left = factors;
        func.for_each_value_use(inst, |value| {
            match left.iter().position(|&factor| factor == Some(value)) {
                Some(at) => {
                    left.swap_remove(at);
                }
                None => {
                    read.insert(value);
                }
            }
        });
    }
    read
}

/// Puts what a mask was applied to in the place of the masked word.
fn unmask(func: &mut Function, reader: Inst, place: usize) -> bool {
    let mask =
        (func.operands(reader)[place].as_value()).and_then(|value| func.defining_inst(value));
    let Some(mask) = mask.filter(|&inst| {
        func.opcode(inst).as_abstract() == Some(AbstractOp::And)
            && func.inst(inst).guard().is_always()
            && func.modifier::<Scalar>(inst).map(Scalar::bits) == Some(32)
    }) else {
        return false;
    };
    match *func.operands(mask) {
        [_, word, Operand::Imm(bits)]
            if bits.bits() & LOOKED_AT == LOOKED_AT
                && word.as_value().is_some()
                && word.mods().is_empty() =>
        {
            func.set_operand(reader, place, word);
            true
        }
        _ => false,
    }
}
