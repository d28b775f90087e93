//! Multiples of words by known numbers that nothing but sums reads: `x * 264 + y`, `x * 264 + z`, `w - (x << 3)`.
//!
//! A sum takes in a product that nobody else reads (IMAD, LEA). One that several sums read, or a sum in another block, would stay an instruction of its own. Where every reader
//! is a sum that has room for it, it goes into each of them and nobody asks for it by itself: one instruction less, and one register waits for all of the sums as before.
//!
//! A sum has no room if it is part of something else by itself (a sum of three, a minimum, an address with an offset), or if what is added is no register or comes in by such a form, too.
//!
//! One look at each reading of each multiple: linear.

use cranelift_entity::EntitySet;
use orias_ori::analysis::DefUse;
use orias_ori::operation::{Half, Sat, Scalar, Space};
use orias_ori::{AbstractOp, Effects, Function, Inst, Operand, Value};

/// The multiples that go into all of their readers.
pub(super) fn find(func: &Function, chains: &DefUse) -> EntitySet<Value> {
    let mut found = EntitySet::new();
    for inst in func.blocks().flat_map(|block| func.block_insts(block)) {
        let value = multiple(func, inst).and_then(|_| func.result(inst, 0));
        if let Some(value) = value
            && !chains.uses(value).is_empty()
            && (chains.uses(value).iter()).all(|read| has_room(func, chains, read.inst, value))
        {
            found.insert(value);
        }
    }
    found
}

/// The register that `inst`, which always runs, multiplies by a known number, or shifts to the left by one.
fn multiple(func: &Function, inst: Inst) -> Option<Value> {
    let op = func.opcode(inst).as_abstract()?;
    let &[_, word, Operand::Imm(number)] = func.operands(inst) else {
        return None;
    };
    let is_multiple = match op {
        AbstractOp::Mul => {
            func.modifier::<Half>(inst) == Some(Half::Lo) && is_word(func.modifier::<Scalar>(inst)?)
        }
        AbstractOp::Shl => func.modifier::<Scalar>(inst) == Some(Scalar::B32) && number.bits() < 32,
        _ => false,
    };
    let plain = is_multiple && func.inst(inst).guard().is_always() && word.mods().is_empty();
    word.as_value()
        .filter(|&word| plain && is_in_a_register(func, word))
}

fn is_word(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::B32 | Scalar::U32 | Scalar::S32)
}

/// Whether `value` stays a register where it is read: no number, parameter or name that instructions read in another way.
fn is_in_a_register(func: &Function, value: Value) -> bool {
    use AbstractOp as A;
    let Some(inst) = func.defining_inst(value) else {
        return true;
    };
    match func.opcode(inst).as_abstract() {
        Some(A::Mov | A::Undef | A::Sreg | A::AddressOf | A::Name | A::Neg) => false,
        Some(A::Ld) => !matches!(
            func.modifier::<Space>(inst),
            Some(Space::Param | Space::Const)
        ),
        _ => true,
    }
}

/// Whether `inst` is a sum of words that wraps and always runs.
fn is_sum(func: &Function, inst: Inst) -> bool {
    matches!(
        func.opcode(inst).as_abstract(),
        Some(AbstractOp::Add | AbstractOp::Sub)
    ) && func.modifier::<Scalar>(inst).is_some_and(is_word)
        && func.modifier::<Sat>(inst) == Some(Sat::Wrap)
        && func.inst(inst).guard().is_always()
}

/// Whether `sum` is a sum of a register and `value`, its multiple, that is an instruction of its own and has no other term that comes in.
fn has_room(func: &Function, chains: &DefUse, sum: Inst, value: Value) -> bool {
    if !is_sum(func, sum) {
        return false;
    }
    let &[_, a, b] = func.operands(sum) else {
        return false;
    };
    let adds = func.opcode(sum).as_abstract() == Some(AbstractOp::Add);
    let other = match (a.as_value() == Some(value), b.as_value() == Some(value)) {
        (true, false) if adds => b,
        (false, true) => a,
        _ => return false,
    };
    let plain = |operand: Operand| operand.mods().is_empty();
    if matches!(other, Operand::Imm(_)) {
        return adds
            && takes_numbers(func, value)
            && !is_address(func, chains, sum)
            && stands(func, chains, sum);
    }
    let Some(other) = other.as_value().filter(|_| plain(a) && plain(b)) else {
        return false;
    };
    is_in_a_register(func, other) && !comes_in(func, chains, other) && stands(func, chains, sum)
}

/// Whether what adds `value`, a multiple, has a form that adds a number: LEA does, IMAD needs its only one for the factor.
fn takes_numbers(func: &Function, value: Value) -> bool {
    let inst = func.defining_inst(value);
    inst.is_some_and(|inst| func.opcode(inst).as_abstract() == Some(AbstractOp::Shl))
}

/// Whether an access to memory reads `sum`: a number that it adds is an offset there.
fn is_address(func: &Function, chains: &DefUse, sum: Inst) -> bool {
    func.result(sum, 0).is_some_and(|value| {
        (chains.uses(value).iter()).any(|read| {
            let effects = func.opcode(read.inst).effects();
            effects.intersects(Effects::READS.with(Effects::WRITES))
        })
    })
}

/// Whether `term` may be part of the sum that reads it.
fn comes_in(func: &Function, chains: &DefUse, term: Value) -> bool {
    use AbstractOp as A;
    let op = func
        .defining_inst(term)
        .and_then(|inst| func.opcode(inst).as_abstract());
    let once = chains.uses(term).len() == 1;
    match op {
        Some(A::Mul | A::Shl) => true,
        Some(A::Add | A::Sub | A::Shr | A::Shf | A::Selp) => once,
        _ => false,
    }
}

/// Whether `sum` is an instruction of its own: nothing that reads it takes it in.
fn stands(func: &Function, chains: &DefUse, sum: Inst) -> bool {
    use AbstractOp as A;
    let Some(value) = func.result(sum, 0) else {
        return false;
    };
    let readers = chains.uses(value);
    let once = readers.len() == 1;
    readers.iter().all(|read| {
        let op = func.opcode(read.inst).as_abstract();
        match op {
            // With a known number it is an offset of an address or one more term.
            Some(A::Add | A::Sub | A::Min | A::Max) => {
                let sources = &func.operands(read.inst)[func.result_count(read.inst)..];
                let known = |operand: &Operand| match operand {
                    Operand::Imm(_) => true,
                    operand => (operand.as_value()).is_some_and(|it| !is_in_a_register(func, it)),
                };
                !once && !sources.iter().any(known)
            }
            _ => true,
        }
    })
}
