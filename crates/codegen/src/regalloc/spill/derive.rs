//! Values that one instruction makes of one other value.
//!
//! The halves of a word as two numbers, a comparison with a constant: instead of keeping such a value it is made again where
//! it is read, as long as the value it comes from stays. That pays off
//!
//! - for numbers if several come from one value: then one register stands for all of them, and if it has to go to memory in
//!   a later round, it is stored once;
//! - for predicates always: storing one takes an instruction and a general register, loading it a comparison.

use super::only_computes;
use cranelift_entity::EntityRef;
use orias_ori::{Function, Inst, PhysReg, Reg, Type, Value};

/// Which values are made again rather than stored.
#[derive(Default)]
pub(super) struct Derived {
    /// By value: what it is made of.
    source: Vec<Option<Value>>,
    /// By value: how many numbers are made of it.
    numbers: Vec<u32>,
}

impl Derived {
    /// Looks at all of `func`. What is made of a value that must not be spilled is stored: that value would have to stay for good.
    pub(super) fn new(func: &Function, short: &[bool]) -> Derived {
        let mut found = Derived {
            source: vec![None; func.value_count()],
            numbers: vec![0; func.value_count()],
        };
        for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
            let Some((value, source)) = made_of_one(func, inst) else {
                continue;
            };
            if short[source.index()] {
                continue;
            }
            found.source[value.index()] = Some(source);
            if func.value_type(value) == Type::R {
                found.numbers[source.index()] += 1;
            }
        }
        for (number, source) in found.source.iter_mut().enumerate() {
            let single = source.is_some_and(|source| found.numbers[source.index()] < 2);
            if single && func.value_type(Value::new(number)) == Type::R {
                *source = None;
            }
        }
        found
    }

    /// What `value` is made of again; none if it is better stored.
    pub(super) fn source(&self, value: Value) -> Option<Value> {
        self.source.get(value.index()).copied().flatten()
    }
}

/// The result of `inst`, and the one value it reads, if that is all there is to it.
fn made_of_one(func: &Function, inst: Inst) -> Option<(Value, Value)> {
    let constant = |reg: &Reg| reg.phys().is_some_and(PhysReg::is_constant);
    let mut uses = func.uses(inst).filter(|reg| !constant(reg));
    let (source, None) = (uses.next()?.value()?, uses.next()) else {
        return None;
    };
    let value = func.value_defs(inst).next()?;
    let plain = matches!(func.value_type(value), Type::R | Type::P)
        && func.value_type(source) == Type::R
        && only_computes(func, inst);
    plain.then_some((value, source))
}
