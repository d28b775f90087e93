//! How long loads from local memory take.
//!
//! What a thread keeps in local memory, spilled registers above all, is kept for all threads of a multiprocessor in the cache that it
//! shares with shared memory. If all of that fits, a load takes as long as one from shared memory, and otherwise as long as the
//! next cache. Nobody knows here how much shared memory a launch asks for, so a quarter of it all is taken for local memory. (On an H200,
//! matrix products that spill 350 bytes with 256 threads beside 64 KB of shared memory found 2 % of their loads in the cache; an order
//! made for short loads, with two or three of them under way at a time, took 1.11 times as long as one with a dozen.)

use super::budget::{Occupancy, named_registers};
use orias_machine::Machine;
use orias_ori::{Class, Function, Inst, Operand};
use orias_sass::{Op, Space};

/// The most an access touches.
const WIDEST: i64 = 16;

/// Whether an operation loads from local memory.
pub(super) fn is_load(op: Op) -> bool {
    let memory = op.row().memory;
    memory.iter().any(|it| it.space == Space::Local && it.reads)
}

/// Cycles of a load from local memory in a physical function, if that is more than usual.
pub(super) fn latency(func: &Function) -> Option<u16> {
    let insts = func.blocks().flat_map(|block| func.block_insts(block));
    let frame = insts.filter_map(|inst| extent(func, inst)).max()?;
    let machine = Machine::of(func.target);
    let files = machine.registers;
    let warps = Occupancy::new(func, files).warps_with(named_registers(func, Class::R));
    let threads = u64::from(warps * files.schedulers * files.warp);
    (frame * threads > machine.limits.local_cache).then_some(machine.limits.next_cache)
}

/// The end of what an instruction touches of local memory at most, if it does.
fn extent(func: &Function, inst: Inst) -> Option<u64> {
    let op = func.opcode(inst).as_machine()?;
    let memory = op.row().memory;
    if !memory.iter().any(|memory| memory.space == Space::Local) {
        return None;
    }
    let end = func
        .operands(inst)
        .iter()
        .find_map(|operand| match operand {
            Operand::Address(id) => Some(i64::from(func.address(*id).offset) + WIDEST),
            _ => None,
        });
    u64::try_from(end?).ok()
}
