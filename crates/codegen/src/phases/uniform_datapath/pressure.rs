//! Whether uniform registers have room for what is to lie in them: register pressure.
//!
//! Values that live across blocks and those that do not never share a register ([`crate::regalloc`]: lanes may be apart), so the most there is of the one and of the
//! other has to fit side by side. One walk over each block from its end: linear.

use cranelift_entity::EntitySet;
use orias_machine::Machine;
use orias_ori::analysis::{FlowGraph, Liveness};
use orias_ori::{Block, Class, Function, Reg, Value};

/// Registers in use by values that live across blocks, and by others.
#[derive(Clone, Copy, Default)]
struct Pressure {
    crossing: u32,
    local: u32,
}

/// Whether the uniform registers are three quarters full at most: the rest goes to the alignment of tuples.
pub(super) fn fits(func: &Function, machine: &Machine) -> bool {
    let graph = FlowGraph::of(func);
    let live = Liveness::new(func, &graph);
    let mut crossing = EntitySet::new();
    for block in func.blocks() {
        for &value in live.live_in(block).iter().chain(func.block_params(block)) {
            crossing.insert(value);
        }
    }
    let mut most = Pressure::default();
    for block in func.blocks() {
        let here = of_block(func, &live, block, &crossing);
        most.crossing = most.crossing.max(here.crossing);
        most.local = most.local.max(here.local);
    }
    let usable = u32::from(machine.registers.usable(Class::UR.into()));
    most.crossing + most.local <= usable / 4 * 3
}

/// The most that are in use at any point of a block.
fn of_block(
    func: &Function,
    live: &Liveness,
    block: Block,
    crossing: &EntitySet<Value>,
) -> Pressure {
    let words = |value: Value| {
        let ty = func.value_type(value);
        match ty.class() {
            Class::UR => u32::from(ty.len().next_multiple_of(ty.alignment())),
            _ => 0,
        }
    };
    let mut living = EntitySet::new();
    let mut now = Pressure::default();
    for &value in live.live_out(block) {
        living.insert(value);
        now.crossing += words(value);
    }
    let mut most = now;
    for inst in func.block_insts(block).rev() {
        func.for_each_use(inst, |reg: Reg| {
            if let Some(value) = reg.value()
                && living.insert(value)
            {
                match crossing.contains(value) {
                    true => now.crossing += words(value),
                    false => now.local += words(value),
                }
            }
        });
        most.crossing = most.crossing.max(now.crossing);
        most.local = most.local.max(now.local);
        func.for_each_def(inst, |reg: Reg| {
            if let Some(value) = reg.value()
                && living.remove(value)
            {
                match crossing.contains(value) {
                    true => now.crossing -= words(value),
                    false => now.local -= words(value),
                }
            }
        });
    }
    most
}
