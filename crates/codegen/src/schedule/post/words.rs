//! How long finished code takes by its control words.
//!
//! A second cycle model, with nothing in common with the first but the clock and typical latencies: it looks at stalls, barriers and waits only, as
//! the warp scheduler does. It can be asked of anybody's code, so it is the one by which an order of ours is compared with the order a
//! cubin came with. What barriers are held by is carried from block to block; where paths meet, the later one counts.

use crate::clock::{Barriers, Clock};
use crate::schedule::local;
use cranelift_entity::SecondaryMap;
use orias_machine::Machine;
use orias_machine::issue::Unit;
use orias_machine::timing::Completion;
use orias_ori::{Block, Function};

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
    // When barriers are released, counted from the end of each block.
    let mut ends = vec![Barriers::default(); blocks.len()];
    let mut found = Vec::new();
    for _ in 0..SWEEPS {
        found.clear();
        for (number, &block) in blocks.iter().enumerate() {
            let mut held = Barriers::default();
            for &pred in &preds[number] {
                held.join(&ends[pred]);
            }
            let cycles = walk(func, block, local, &mut held);
            ends[number] = held.since(cycles.cycles);
            found.push(cycles);
        }
    }
    found
}

fn walk(func: &Function, block: Block, local: Option<u16>, held: &mut Barriers) -> WordCycles {
    let machine = Machine::of(func.target);
    let mut clock = Clock::new(1);
    let mut waited = 0u32;
    for inst in func.block_insts(block) {
        let Some(op) = func.opcode(inst).as_machine() else {
            continue;
        };
        let control = func.inst(inst).control();
        waited += clock.wait(held, control.wait_mask());
        let timing = machine.timing(op);
        let mut start = clock.next;
        let issue = machine.issue_of_operation(op);
        // It issues when its word says so; the queue of the memory pipes takes one every few cycles.
        if issue.unit == Unit::Memory {
            start = clock.at(issue.unit, start);
            clock.units.keep(&issue, start, 1);
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
                held.hold(barrier, start + cycles);
            }
        }
        clock.next += match control.stall() {
            0 if timing.is_some_and(|timing| timing.completion == Completion::Fixed) => DRAIN,
            stall => u32::from(stall.max(1)),
        };
    }
    WordCycles {
        block,
        cycles: clock.next,
        waited,
    }
}
