//! One thread block more: an allocation that is tried where a kernel misses an occupancy edge by a few registers.
//!
//! A register more than an edge allows costs a whole block of each multiprocessor: with 256 threads and 130 registers one block runs instead of two. What is live at once may be
//! a little more than the edge allows, or aligned runs may not fit below it. So the function is allocated once more with as many registers as the edge has. What does not fit is
//! made again where it is read, or moved. The second allocation is kept if nothing went to memory and it issues little more, measured by how many more
//! blocks it lets run. Where many warps run anyway, more of them hide less than moves and registers in use by operations that read late cost.
//!
//! Cost: an allocation more for kernels whose threads are known and that are a few registers above an edge; nothing for others.

use super::packing::is_counted;
use super::{Aims, attempt};
use crate::knobs::registry;
use crate::schedule::budget::{Occupancy, named_registers};
use orias_machine::Machine;
use orias_machine::registers::RegisterFiles;
use orias_ori::analysis::Frequencies;
use orias_ori::{AbstractOp, Class, Function, Level, Opcode};

/// An edge is near if it is missed by so many registers and an eighth.
const NEAR: u32 = 2;

/// So many warps of a scheduler hide what one waits for.
const MANY: u32 = 12;

/// How much more may be issued so that more blocks fit, as a share of how many more.
const WORTH: f64 = 1.0 / 32.0;

/// Replaces `allocated`, which was made of `before`, by an allocation with which more blocks fit, if one is near and costs little.
pub(super) fn reach(
    allocated: &mut Function,
    before: &Function,
    files: &RegisterFiles,
    aims: Aims<'_>,
) {
    let known = before.attributes.max_threads != [0; 3];
    if !known
        || !aims.knobs.bool(&registry::REACH_EDGES)
        || !is_counted(before)
        || allocated.attributes.local > before.attributes.local
    {
        return;
    }
    let occupancy = Occupancy::new(before, Machine::of(before.target).registers);
    let named = named_registers(allocated, Class::R);
    let blocks = occupancy.blocks(named);
    if occupancy.warps_with(named) >= MANY {
        return;
    }
    let near = named.saturating_sub(named / 8 + NEAR);
    let edge = (near..named)
        .rev()
        .find(|&fewer| occupancy.blocks(fewer) > blocks);
    let Some(edge) = edge.filter(|&edge| edge + files.reserved >= files.fewest) else {
        return;
    };
    let mut packed = before.clone();
    packed.attributes.max_registers = edge + files.reserved;
    let more = f64::from(occupancy.blocks(edge)) / f64::from(blocks.max(1)) - 1.0;
    let known = issued(allocated).max(1.0);
    // What was spilled stays so, and registers add moves.
    let pays = |packed: &Function| {
        let dearer = issued(packed) / known - 1.0;
        packed.attributes.local <= before.attributes.local && dearer <= more * WORTH
    };
    if matches!(attempt(&mut packed, files, aims, Some(&pays)), Ok(true)) {
        packed.attributes.max_registers = before.attributes.max_registers;
        *allocated = packed;
    }
}

/// How many instructions and moves are issued, by how often they run, of those that become moves only these.
fn issued(func: &Function) -> f64 {
    let frequencies = Frequencies::of(func);
    let is_allocated = func.level == Level::Physical;
    let mut sum = 0.0;
    for block in func.blocks() {
        let costs = func.block_insts(block).map(|inst| match func.opcode(inst) {
            Opcode::Abstract(AbstractOp::ParCopy) if is_allocated => func.result_count(inst) as f64,
            Opcode::Abstract(
                AbstractOp::ParCopy | AbstractOp::Undef | AbstractOp::Collect | AbstractOp::Split,
            ) => 0.0,
            _ => 1.0,
        });
        sum += costs.sum::<f64>() * frequencies.times(block);
    }
    sum
}
