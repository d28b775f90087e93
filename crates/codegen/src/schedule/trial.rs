//! Trial allocation: orders that come close to the last register are tried on the allocator.
//!
//! A budget counts registers that are live, and the allocator may need more: pairs and quadruples start at even numbers, and what lies
//! between them is lost. So where an order needs almost as many as there are, the allocator is asked. If it spills more than it does
//! in the order before, that order stays; where registers are few, so do blocks that were joined and instructions that went to others.

use super::alias;
use crate::pipeline::Context;
use crate::regalloc;
use orias_machine::Machine;
use orias_ori::analysis::Frequencies;
use orias_ori::{Block, Class, Function, Operation};
use orias_sass::Space;

/// So many registers below the limit an order is safe.
const SAFE: u32 = 8;

/// A function with at most so many registers is compared with what it was before anything moved.
const FEW: u32 = 64;

/// Bytes that are counted before every value has its register are more than in the end by less than what this takes off.
const SURE: f64 = 0.999;

/// Whether a function may use few registers only.
pub(super) fn has_few(func: &Function) -> bool {
    usable(func) <= FEW
}

/// Whether an order that needs so many registers has to be tried.
pub(super) fn is_close(func: &Function, needed: u32) -> bool {
    needed + SAFE > usable(func)
}

/// The registers a function may use.
fn usable(func: &Function) -> u32 {
    let files = Machine::of(func.target).registers;
    u32::from(regalloc::limit(func, files, Class::R))
}

/// Gives `func` its order `before` if the allocator spills less in that. What the allocator made of the one that stays is kept for it. Of functions it
/// does not take nothing is known here; it says so itself when their turn comes.
pub(super) fn keep_better(func: &mut Function, before: Function, context: &Context<'_>) {
    let Some((spilled, allocated)) = spills(func, context) else {
        return;
    };
    if spilled > 0
        && let Some((had, better)) = spills(&before, context)
        && spilled > had
    {
        *func = before;
        func.keep_tried(better);
        return;
    }
    func.keep_tried(allocated);
}

/// How many bytes of accesses to local memory allocation adds, and what it makes of `func`.
fn spills(func: &Function, context: &Context<'_>) -> Option<(u32, Function)> {
    let mut allocated = func.clone();
    regalloc::allocate_registers(&mut allocated, context).ok()?;
    let bytes = local_bytes(&allocated).saturating_sub(local_bytes(func));
    Some((bytes, allocated))
}

/// The bytes that all accesses to local memory touch together.
fn local_bytes(func: &Function) -> u32 {
    let blocks = func.blocks();
    blocks.map(|block| block_bytes(func, block)).sum()
}

/// The bytes that accesses of one block to local memory touch together.
fn block_bytes(func: &Function, block: Block) -> u32 {
    let machine = Machine::of(func.target);
    let bytes = func.block_insts(block).filter_map(|inst| {
        let Operation::Machine(op, mods) = func.inst(inst).operation() else {
            return None;
        };
        let memory = op.row().memory;
        let local = memory.iter().any(|memory| memory.space == Space::Local);
        local.then(|| alias::access_size(machine, op, mods).unwrap_or(4))
    });
    bytes.map(u32::from).sum()
}

/// How many bytes of accesses to local memory a run of the function has that allocation added, by how often blocks run, and what it made of `func`. None too if they are more than
/// `most`, as far as that shows before every value has its register.
pub(super) fn weighted_spills(
    func: &Function,
    context: &Context<'_>,
    most: f64,
) -> Option<(f64, Function)> {
    let weighted = |func: &Function| {
        let bytes = func.blocks().map(|it| (it, block_bytes(func, it)));
        let accessed: Vec<(Block, u32)> = bytes.filter(|&(_, bytes)| bytes > 0).collect();
        if accessed.is_empty() {
            return 0.0;
        }
        let frequencies = Frequencies::of(func);
        let accessed = accessed.into_iter();
        accessed
            .map(|(block, bytes)| f64::from(bytes) * frequencies.times(block))
            .sum::<f64>()
    };
    let given = weighted(func);
    // Blocks that are made for moves may change how often others run, as a guess, in the last digits.
    let worth = |func: &Function| (weighted(func) - given) * SURE <= most;
    let mut allocated = func.clone();
    let done = regalloc::try_allocation(&mut allocated, context, &worth);
    let done = done.ok()?;
    done.then(|| (weighted(&allocated) - given, allocated))
}
