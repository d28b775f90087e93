//! The rule of register counts that change: no instruction names a general register that its warp may not have.
//!
//! Forward dataflow: the smallest count with which a block can be reached, which only falls. What is given back at once is lost; a request may be refused, so that
//! what stands behind it in its block has what there was before. That nothing lives in a register that is given back follows from the names: they are
//! taken out of it ([`lost`]).

use super::super::counts::count_set;
use super::super::starting_registers;
use crate::pipeline::PhaseError;
use orias_machine::Machine;
use orias_ori::{Block, Class, Function, Inst, PhysReg, Reg, print_inst};
use orias_sass::Op;
use rustc_hash::FxHashMap;

/// Checks that all instructions of `after` keep to the counts of their places.
pub(in super::super) fn are_kept(after: &Function) -> Result<(), PhaseError> {
    let (Some(entry), Some(start)) = (starting_registers(after, after.target), after.entry())
    else {
        return Ok(());
    };
    let mut counts: FxHashMap<Block, u32> = FxHashMap::default();
    let mut pending = vec![(start, entry)];
    while let Some((block, count)) = pending.pop() {
        if counts.get(&block).is_some_and(|&known| known <= count) {
            continue;
        }
        counts.insert(block, count);
        let (mut here, mut leaving) = (count, count);
        for inst in after.block_insts(block) {
            names_at_most(after, inst, here)?;
            if let Some(set) = count_set(after, inst) {
                leaving = set;
                here = match gives_back(after, inst) {
                    true => set,
                    false => here.min(set),
                };
            }
        }
        pending.extend(after.successors(block).map(|next| (next, leaving)));
    }
    Ok(())
}

/// The first general register that a warp has no more behind `inst`, if that gives registers back.
pub(super) fn lost(func: &Function, inst: Inst) -> Option<u32> {
    let set = count_set(func, inst).filter(|_| gives_back(func, inst))?;
    Some(usable(func, set))
}

fn gives_back(func: &Function, inst: Inst) -> bool {
    func.opcode(inst).as_machine() == Some(Op::USETMAXREG_DEALLOC)
}

/// How many of `count` registers are the program's.
fn usable(func: &Function, count: u32) -> u32 {
    count.saturating_sub(Machine::of(func.target).registers.reserved)
}

fn names_at_most(func: &Function, inst: Inst, count: u32) -> Result<(), PhaseError> {
    let usable = usable(func, count);
    let mut beyond: Option<PhysReg> = None;
    let mut look = |reg: Reg| {
        let named = reg
            .phys()
            .filter(|reg| reg.class() == Class::R && !reg.is_constant());
        if let Some(reg) = named
            && u32::from(reg.index()) + u32::from(reg.len()) > usable
        {
            beyond = Some(reg);
        }
    };
    func.for_each_use(inst, &mut look);
    func.for_each_def(inst, &mut look);
    match beyond {
        None => Ok(()),
        Some(reg) => Err(PhaseError::Broken {
            at: print_inst(func, inst),
            what: format!("names {reg} where its warp may have {count} registers"),
        }),
    }
}
