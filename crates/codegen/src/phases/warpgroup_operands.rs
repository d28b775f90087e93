//! WarpgroupOperands (10010): what a warp group's matrix products read stays in its registers until they are over.
//!
//! A product reads A from registers, and the metadata of a sparse one, after it has been issued, until WARPGROUP.DEPBAR says that its group is over. To
//! the code the last reader is the product: the scheduler and the allocator would give the registers away behind it, and WarpgroupWaits (10008) would have to
//! wait for each product before the next operand is written. So the wait that covers a product reads these registers, too, without naming them; where no wait of the
//! block does, the branch at its end reads them. (A block that the branch goes to may still write them before it waits. Then WarpgroupWaits adds a wait there.)
//!
//! WarpgroupWaits, which follows allocation, takes these uses away; the allocator does so before where keeping to them takes more accesses to spilled registers.
//!
//! Cost: one walk.

use super::warpgroup::{is_product, slot_operand, waits_for};
use crate::pipeline::{Context, PhaseError};
use orias_ori::{Block, Class, Function, Inst, Operand, Value};
use orias_sass::slot_names as slot;
use orias_sass::{Op, modifier_names as name, modifier_values as value};

/// A register that a product under way reads.
struct Held {
    value: Value,
    /// How many groups have ended since, its own included.
    age: u64,
}

/// Runs the phase.
pub fn hold_warpgroup_operands(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    let blocks: Vec<Block> = func.blocks().collect();
    for block in blocks {
        let mut held: Vec<Held> = Vec::new();
        let insts: Vec<Inst> = func.block_insts(block).collect();
        for &inst in &insts {
            if let Some(groups) = waits_for(func, inst) {
                let (over, rest) = held.into_iter().partition(|it| it.age > u64::from(groups));
                held = rest;
                read_there(func, inst, over);
            } else if is_product(func, inst) {
                held.extend(operands(func, inst).map(|value| Held { value, age: 0 }));
                if func.machine_modifier(inst, name::GSB) == Some(value::GSB0) {
                    held.iter_mut().for_each(|it| it.age += 1);
                }
            }
        }
        if let Some(&last) = insts.last()
            && func.opcode(last).as_machine() == Some(Op::BRA)
        {
            read_there(func, last, held);
        }
    }
    Ok(())
}

/// What a product reads from general registers beside its accumulator.
fn operands(func: &Function, inst: Inst) -> impl Iterator<Item = Value> + use<> {
    let found = [slot::A, slot::E].map(|name| {
        let (_, operand) = slot_operand(func, inst, name)?;
        let value = operand.as_value()?;
        (func.value_type(value).class() == Class::R).then_some(value)
    });
    found.into_iter().flatten()
}

/// Lets `inst` read all that is held, each value once.
fn read_there(func: &mut Function, inst: Inst, held: Vec<Held>) {
    let mut uses: Vec<Operand> = func.implicit_uses(inst).to_vec();
    for operand in held.into_iter().map(|it| Operand::from(it.value)) {
        if !uses.contains(&operand) {
            uses.push(operand);
        }
    }
    if uses.is_empty() {
        return;
    }
    let defs = func.implicit_defs(inst).to_vec();
    func.set_implicit(inst, &uses, &defs);
}

/// What reads registers that [`hold_warpgroup_operands`] lets it read.
fn readers(func: &Function) -> impl Iterator<Item = Inst> + '_ {
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    insts.filter(|&inst| {
        matches!(
            func.opcode(inst).as_machine(),
            Some(Op::WARPGROUP_DEPBAR | Op::BRA)
        ) && !func.implicit_uses(inst).is_empty()
    })
}

/// Whether there is anything that [`hold_warpgroup_operands`] added.
pub(crate) fn holds_warpgroup_operands(func: &Function) -> bool {
    readers(func).next().is_some()
}

/// Takes away what [`hold_warpgroup_operands`] added.
pub(crate) fn release_warpgroup_operands(func: &mut Function) {
    let readers: Vec<Inst> = readers(func).collect();
    for inst in readers {
        let defs = func.implicit_defs(inst).to_vec();
        func.set_implicit(inst, &[], &defs);
    }
}
