//! Register counts that change while a kernel runs (`setmaxnreg`).
//!
//! Each instruction that changes the count starts a region: all blocks that can be reached from it without passing another one. A block may use as many registers as the
//! smallest count it can be reached with. The allocator works with the largest count of all; afterwards [`fits`] asks whether each region keeps to its own. Regions of different
//! warps have no values in common but those from before the counts changed, so they usually do. Where they do not, the counts stay as they were at the start:
//! [`drop_changes`] takes the instructions out, and allocation starts again.
//!
//! Linear in blocks and instructions for each change.

use crate::pipeline::PhaseError;
use orias_machine::registers::RegisterFiles;
use orias_ori::builder::Cursor;
use orias_ori::{Block, Class, Function, Inst, Operand, PhysReg, Reg, Type};
use orias_sass::Op;

/// The table of three predicates that is true where all are.
const ALWAYS: u64 = 0x80;

/// The count that an instruction sets.
fn change(func: &Function, inst: Inst) -> Option<u32> {
    let op = func.opcode(inst).as_machine()?;
    let at = match op {
        Op::USETMAXREG_DEALLOC => 0,
        Op::USETMAXREG_TRY_ALLOC => 1,
        _ => return None,
    };
    match func.operands(inst)[at] {
        Operand::Imm(count) => u32::try_from(count.bits()).ok(),
        _ => None,
    }
}

/// Places that change the count, in the order of the layout.
fn changes(func: &Function) -> Vec<(Block, Inst, u32)> {
    let places = func
        .blocks()
        .flat_map(|block| func.block_insts(block).map(move |inst| (block, inst)));
    places
        .filter_map(|(block, inst)| Some((block, inst, change(func, inst)?)))
        .collect()
}

/// The largest count that the function asks for, if it asks for any.
pub(super) fn largest(func: &Function) -> Option<u32> {
    changes(func).into_iter().map(|(_, _, count)| count).max()
}

/// Whether every instruction names only registers that its warp has there, if it starts with `entry`.
pub(super) fn fits(func: &Function, entry: u32, files: &RegisterFiles) -> bool {
    let Some(start) = func.entry() else {
        return true;
    };
    let mut starts: Vec<(Block, Option<Inst>, u32)> = vec![(start, None, entry)];
    starts.extend(
        changes(func)
            .into_iter()
            .map(|(block, inst, count)| (block, Some(inst), count)),
    );
    starts.into_iter().all(|(block, behind, count)| {
        region_fits(func, block, behind, count.saturating_sub(files.reserved))
    })
}

/// Whether what is reached from behind an instruction, or from the start of a block, keeps to so many registers up to the next change.
fn region_fits(func: &Function, block: Block, behind: Option<Inst>, count: u32) -> bool {
    let mut seen = cranelift_entity::EntitySet::new();
    let mut pending = vec![(block, behind)];
    while let Some((block, behind)) = pending.pop() {
        let mut running = behind.is_none();
        let mut ended = false;
        for inst in func.block_insts(block) {
            if !running {
                running = Some(inst) == behind;
                continue;
            }
            let mut within = true;
            let mut look = |reg: Reg| {
                if let Some(reg) = reg.phys()
                    && reg.class() == Class::R
                    && !reg.is_constant()
                {
                    within &= u32::from(reg.index()) + u32::from(reg.len()) <= count;
                }
            };
            func.for_each_use(inst, &mut look);
            func.for_each_def(inst, &mut look);
            if !within {
                return false;
            }
            if change(func, inst).is_some() {
                ended = true;
                break;
            }
        }
        if !ended {
            for next in func.successors(block) {
                if seen.insert(next) {
                    pending.push((next, None));
                }
            }
        }
    }
    true
}

/// Takes the changes out: what was asked for is granted at once.
pub(super) fn drop_changes(func: &mut Function) -> Result<(), PhaseError> {
    for (_, inst, _) in changes(func) {
        let granted = func.operands(inst)[0].as_value();
        if func.opcode(inst).as_machine() == Some(Op::USETMAXREG_TRY_ALLOC)
            && let Some(granted) = granted
        {
            let fresh = Cursor::before(func, inst)
                .build(Op::UPLOP3)
                .define(Type::UP)
                .none()
                .operands([PhysReg::UPT; 3].map(Operand::from))
                .imm(ALWAYS)
                .imm(0)
                .value()
                .map_err(super::refused)?;
            func.map_all_uses(|reg| match reg.value() {
                Some(value) if value == granted => Reg::from(fresh),
                _ => reg,
            });
        }
        func.remove_inst(inst);
    }
    Ok(())
}
