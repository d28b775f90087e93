//! How long finished code takes by its control words.
//!
//! A second cycle model, with nothing in common with the first but typical latencies: it looks at stalls, barriers and waits only, as
//! the warp scheduler does. It can be asked of anybody's code, so it is the one by which an order of ours is compared with the order a
//! cubin came with. What barriers are held by is carried from block to block; where paths meet, the later one counts.

use crate::schedule::local;
use cranelift_entity::SecondaryMap;
use orias_machine::Machine;
use orias_machine::issue::Unit;
use orias_machine::timing::Completion;
use orias_ori::{Block, Function};
use orias_sass::Barrier;

const BARRIERS: usize = Barrier::COUNT as usize;

/// Sweeps over the function: forward, and once around the loops.
const SWEEPS: usize = 2;

/// A stall of 0 waits until the pipelines are empty: so many cycles for the slowest of fixed latency.
const DRAIN: u32 = 24;

/// Cycles of a block by its control words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordCycles {
    /// The block.
    pub block: Block,
    /// Cycles from the issue of its first instruction until the next block can start.
    pub cycles: u32,
    /// Those of them spent waiting for barriers.
    pub waited: u32,
}

/// When each barrier is released, counted from the start of a block.
type Held = [u32; BARRIERS];

/// The cycles of each block of a final function, in layout order.
pub fn cycles_by_words(func: &Function) -> Vec<WordCycles> {
    let blocks: Vec<Block> = func.blocks().collect();
    let mut preds: Vec<Vec<usize>> = vec![Vec::new(); blocks.len()];
    let mut numbers: SecondaryMap<Block, usize> = SecondaryMap::new();
    for (number, &block) in blocks.iter().enumerate() {
        numbers[block] = number;
    }
    for (number, &block) in blocks.iter().enumerate() {
        for to in func.successors(block) {
            preds[numbers[to]].push(number);
        }
    }
    let local = local::latency(func);
    let mut ends: Vec<Held> = vec![[0; BARRIERS]; blocks.len()];
    let mut found = Vec::new();
    for _ in 0..SWEEPS {
        found.clear();
        for (number, &block) in blocks.iter().enumerate() {
            let mut held: Held = [0; BARRIERS];
            for &pred in &preds[number] {
                for (mine, theirs) in held.iter_mut().zip(ends[pred]) {
                    *mine = (*mine).max(theirs);
                }
            }
            let cycles = walk(func, block, local, &mut held);
            ends[number] = held.map(|at| at.saturating_sub(cycles.cycles));
            found.push(cycles);
        }
    }
    found
}

fn walk(func: &Function, block: Block, local: Option<u16>, held: &mut Held) -> WordCycles {
    let machine = Machine::of(func.target);
    let mut now = 0u32;
    let mut waited = 0u32;
    // The queue of the memory pipes takes one every few cycles.
    let mut memory_free = 0u32;
    for inst in func.block_insts(block) {
        let Some(op) = func.opcode(inst).as_machine() else {
            continue;
        };
        let control = func.inst(inst).control();
        let mask = control.wait_mask();
        for (barrier, until) in held.iter().enumerate() {
            if mask >> barrier & 1 == 1 && *until > now {
                waited += until - now;
                now = *until;
            }
        }
        let timing = machine.timing(op);
        let mut start = now;
        let issue = machine.issue_of_operation(op);
        if issue.unit == Unit::Memory {
            let kept = issue.keeps.iter().find(|(unit, _)| *unit == issue.unit);
            start = start.max(memory_free);
            memory_free = start + kept.map_or(1, |(_, cycles)| u32::from(*cycles));
        }
        let typical = timing
            .and_then(|timing| timing.typical)
            .map_or(0, |typical| u32::from(typical.cycles));
        let typical = match local {
            Some(latency) if local::is_load(op) => u32::from(latency),
            _ => typical,
        };
        let sets = [
            (control.write_barrier(), typical),
            (
                control.read_barrier(),
                u32::from(machine.limits.source_read),
            ),
        ];
        for (barrier, cycles) in sets {
            if let Some(barrier) = barrier {
                let until = &mut held[usize::from(barrier.index())];
                *until = (*until).max(start + cycles);
            }
        }
        now += match control.stall() {
            0 if timing.is_some_and(|timing| timing.completion == Completion::Fixed) => DRAIN,
            stall => u32::from(stall.max(1)),
        };
    }
    WordCycles {
        block,
        cycles: now,
        waited,
    }
}
