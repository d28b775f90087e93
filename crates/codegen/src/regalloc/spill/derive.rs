//! Rematerialisation: values that one instruction makes of one other value.
//!
//! The halves of a word as two numbers, a comparison with a constant: instead of keeping such a value it is made again where
//! it is read, as long as the value it comes from stays. That pays off
//!
//! - for numbers if several come from one value: then one register stands for all of them, and if it has to go to memory
//!   as well, it is stored once;
//! - for predicates always: storing one takes an instruction and a general register, loading it a comparison.

use super::only_computes;
use orias_ori::analysis::DefUse;
use orias_ori::{Function, Inst, PhysReg, Reg, Type, Value};

/// What `value` is made of again; none if it is better stored. What is made of a value that must not be spilled (`short`) is stored:
/// that value would have to stay for good.
pub(super) fn source(
    func: &Function,
    chains: &DefUse,
    short: &[bool],
    value: Value,
) -> Option<Value> {
    let (_, source) = made_of_one(func, func.defining_inst(value)?)?;
    if short[source.as_u32() as usize] {
        return None;
    }
    let is_number = |inst: Inst| {
        let made = made_of_one(func, inst);
        made.is_some_and(|(value, _)| func.value_type(value) == Type::R)
    };
    let alone = func.value_type(value) == Type::R && {
        let numbers = chains.uses(source).iter();
        numbers.filter(|read| is_number(read.inst)).nth(1).is_none()
    };
    (!alone).then_some(source)
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
