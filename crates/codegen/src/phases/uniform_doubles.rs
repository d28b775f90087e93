//! UniformDoubles (10091): doubles that are numbers go to uniform registers, where arithmetic of doubles reads them.
//!
//! A number with more than 32 bits that count has no place in an instruction, and selection moves it to two general registers for each reader. Polynomials of doubles have a
//! dozen of them, which several lanes' worth of work in one block shares: two dozen registers that live through it. DFMA, DADD, DMUL and DSETP read one operand from uniform registers, which
//! nobody else needs.
//!
//! Taken are numbers of which all readers are such instructions of one block, each with no other uniform operand. The moves stand before the first of them: a uniform register that is written in divergent
//! code must not live across a branch. Numbers that ShareConstants brings before a loop stay in general registers.
//!
//! One visit of each instruction, and one walk for the pressure of uniform registers; where they would be crowded, everything stays as it is.

use super::share_constants::double;
use super::uniform_datapath::{fits, with_uniform};
use crate::pipeline::{Context, PhaseError};
use orias_ori::analysis::{DefUse, Place};
use orias_ori::{
    AbstractMods, AbstractOp, Block, Class, Function, Inst, Operand, PhysReg, Reg, Type, Value,
};
use orias_sass::{Mods, Op};
use rustc_hash::FxHashMap;

/// How many numbers of a block lie in uniform registers at most: five eighths of these.
const MOST: usize = 20;

/// What reads doubles from uniform registers.
const READERS: [Op; 4] = [Op::DADD, Op::DFMA, Op::DMUL, Op::DSETP];

/// Runs the phase.
pub fn uniform_doubles(func: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    let uses = DefUse::new(func);
    let mut changed = None;
    let blocks: Vec<Block> = func.blocks().collect();
    for block in blocks {
        let numbers = numbers(func, &uses, block);
        if !numbers.is_empty() && changed.is_none() {
            changed = Some(func.clone());
        }
        for (bits, values) in numbers {
            apply(func, &uses, bits, &values)?;
        }
    }
    if let Some(before) = changed
        && !fits(func, context.machine)
    {
        *func = before;
    }
    Ok(())
}

/// Whether all readers of `value`, a double, are instructions of `block` that may read it from uniform registers.
fn is_for_uniform(func: &Function, uses: &DefUse, block: Block, value: Value) -> bool {
    let Some(stand_in) = PhysReg::tuple(Class::UR, 0, 2) else {
        return false;
    };
    let reads = uses.uses(value);
    reads.iter().enumerate().all(|(at, read)| {
        let once = reads[..at].iter().all(|other| other.inst != read.inst);
        let Place::Operand(index) = read.place else {
            return false;
        };
        let op = func.opcode(read.inst).as_machine();
        once && op.is_some_and(|op| READERS.contains(&op))
            && func.layout.inst_block(read.inst) == Some(block)
            && !reads_uniform(func, read.inst)
            && with_uniform(
                func,
                read.inst,
                usize::from(index),
                stand_in.into(),
                func.target,
            )
            .is_some()
    })
}

/// Whether `inst` reads a uniform register.
fn reads_uniform(func: &Function, inst: Inst) -> bool {
    let mut found = false;
    func.for_each_use(inst, |reg: Reg| {
        let class = match reg.value() {
            Some(value) => Some(func.value_type(value).class()),
            None => reg.phys().map(PhysReg::class),
        };
        found |= class == Some(Class::UR);
    });
    found
}

/// The numbers of `block` that go to uniform registers, in the order of the code, with the values that hold them now.
pub(super) fn numbers(func: &Function, uses: &DefUse, block: Block) -> Vec<(u64, Vec<Value>)> {
    let mut found: Vec<(u64, Vec<Value>)> = Vec::new();
    let mut places: FxHashMap<u64, usize> = FxHashMap::default();
    // An instruction reads one uniform operand.
    let mut taken: Vec<Inst> = Vec::new();
    for inst in func.block_insts(block) {
        let Some((bits, value)) = double(func, inst) else {
            continue;
        };
        let readers = || uses.uses(value).iter().map(|read| read.inst);
        let free = !uses.is_unused(value)
            && is_for_uniform(func, uses, block, value)
            && readers().all(|reader| !taken.contains(&reader));
        if !free {
            continue;
        }
        let known = places.get(&bits).copied();
        if known.is_none() && found.len() == MOST {
            continue;
        }
        taken.extend(readers());
        let at = known.unwrap_or(found.len());
        if known.is_none() {
            places.insert(bits, at);
            found.push((bits, Vec::new()));
        }
        found[at].1.push(value);
    }
    found
}

/// Brings `bits` to uniform registers, and lets the readers of `values` read it there.
fn apply(
    func: &mut Function,
    uses: &DefUse,
    bits: u64,
    values: &[Value],
) -> Result<(), PhaseError> {
    // The values are in the order of the code, and so is what makes them: the first reader is behind the first of them.
    let Some(place) = values.first().and_then(|&value| func.defining_inst(value)) else {
        return Ok(());
    };
    let mut words: Vec<Operand> = Vec::new();
    for word in [bits & 0xffff_ffff, bits >> 32] {
        let value = func.create_value(Type::UR);
        let operands = [Operand::from(value), Operand::imm(word)];
        let moved = func.create_machine(Op::UMOV, Mods::ZERO, &operands);
        func.set_span(moved, func.inst(place).span());
        func.layout.insert_inst_before(moved, place);
        words.push(value.into());
    }
    let Some(pair) = Type::tuple(Class::UR, 2) else {
        return Ok(());
    };
    let whole = func.create_value(pair);
    let mods = AbstractMods::NONE;
    let collect = func.create_abstract(
        AbstractOp::Collect,
        mods,
        1,
        &[whole.into(), words[0], words[1]],
    );
    func.set_span(collect, func.inst(place).span());
    func.layout.insert_inst_before(collect, place);
    for &value in values {
        for read in uses.uses(value) {
            let Place::Operand(index) = read.place else {
                continue;
            };
            let target = func.target;
            let operands = with_uniform(func, read.inst, usize::from(index), whole.into(), target)
                .ok_or_else(|| PhaseError::Broken {
                    at: orias_ori::print_inst(func, read.inst),
                    what: "has no uniform form".to_owned(),
                })?;
            for (place, operand) in operands.into_iter().enumerate() {
                func.set_operand(read.inst, place, operand);
            }
        }
        remove(func, uses, value);
    }
    Ok(())
}

/// Takes out the definition of `value`, which nobody reads any more, and of the words that were made for it.
fn remove(func: &mut Function, uses: &DefUse, value: Value) {
    let Some(maker) = func.defining_inst(value) else {
        return;
    };
    let words: Vec<Value> = func.value_uses(maker).collect();
    func.remove_inst(maker);
    for word in words {
        if uses.uses(word).iter().all(|read| read.inst == maker)
            && let Some(moved) = func.defining_inst(word)
        {
            func.remove_inst(moved);
        }
    }
}
