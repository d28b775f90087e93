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
use orias_ori::{Block, Function, Inst};
use orias_sass::Barrier;

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

/// A barrier that an instruction holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBarrier {
    /// The barrier.
    pub barrier: Barrier,
    /// Whether until its result is there; otherwise until its sources have been read.
    pub writes: bool,
    /// The cycle in which it is released.
    pub until: u32,
}

/// An instruction, by its control word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordLine {
    /// The instruction.
    pub inst: Inst,
    /// The cycle it issues in.
    pub issue: u32,
    /// Cycles it waited for barriers before.
    pub waited: u32,
    /// The line of the block that released the last of them; none if it comes from before the block.
    pub blamed: Option<usize>,
    /// The barriers it holds from now on.
    pub holds: [Option<HeldBarrier>; 2],
}

/// A block, by its control words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockWords {
    /// Its cycles.
    pub cycles: WordCycles,
    /// By barrier: until when it is held by what comes before the block.
    pub entry: [u32; Barrier::COUNT as usize],
    /// Its instructions.
    pub lines: Vec<WordLine>,
}

/// The cycles of each block of a final function, in layout order.
pub fn cycles_by_words(func: &Function) -> Vec<WordCycles> {
    walk_all(func, |found| found.cycles)
}

/// The same with every instruction of the blocks.
pub fn timeline_by_words(func: &Function) -> Vec<BlockWords> {
    walk_all(func, |found| found)
}

/// Walks over all blocks until what they hand on has gone around the loops; what is kept of each is the caller's choice.
fn walk_all<T>(func: &Function, keep: impl Fn(BlockWords) -> T) -> Vec<T> {
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
            let walked = walk(func, block, local, &mut held);
            ends[number] = held.since(walked.cycles.cycles);
            found.push(keep(walked));
        }
    }
    found
}

/// Who releases each barrier last: a line of the block, and when.
type Holders = [Option<(usize, u32)>; Barrier::COUNT as usize];

/// The line that releases the last barrier of a mask, if it is one of the block's.
fn last_of(holders: &Holders, held: &Barriers, mask: u8) -> Option<usize> {
    let until = held.released(mask);
    let waited = holders.iter().enumerate();
    let waited = waited.filter(|(barrier, _)| mask >> barrier & 1 == 1);
    let mut lines = waited.filter_map(|(_, holder)| *holder);
    lines.find(|(_, at)| *at == until).map(|(line, _)| line)
}

fn walk(func: &Function, block: Block, local: Option<u16>, held: &mut Barriers) -> BlockWords {
    let machine = Machine::of(func.target);
    let mut clock = Clock::new(1);
    let mut total = 0u32;
    let entry = std::array::from_fn(|barrier| held.released(1 << barrier));
    let mut holders = Holders::default();
    let mut lines = Vec::new();
    for inst in func.block_insts(block) {
        let Some(op) = func.opcode(inst).as_machine() else {
            continue;
        };
        let control = func.inst(inst).control();
        let mask = control.wait_mask();
        let waited = clock.wait(held, mask);
        total += waited;
        let mut line = WordLine {
            inst,
            issue: clock.next,
            waited,
            blamed: (waited > 0)
                .then(|| last_of(&holders, held, mask))
                .flatten(),
            holds: [None; 2],
        };
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
            (control.write_barrier(), true, typical),
            (
                control.read_barrier(),
                false,
                u32::from(machine.limits.source_read),
            ),
        ];
        for (slot, (barrier, writes, cycles)) in line.holds.iter_mut().zip(sets) {
            if let Some(barrier) = barrier {
                let until = start + cycles;
                held.hold(barrier, until);
                let holder = &mut holders[usize::from(barrier.index())];
                if holder.is_none_or(|(_, at)| until > at) {
                    *holder = Some((lines.len(), until));
                }
                *slot = Some(HeldBarrier {
                    barrier,
                    writes,
                    until,
                });
            }
        }
        lines.push(line);
        clock.next += match control.stall() {
            0 if timing.is_some_and(|timing| timing.completion == Completion::Fixed) => DRAIN,
            stall => u32::from(stall.max(1)),
        };
    }
    BlockWords {
        cycles: WordCycles {
            block,
            cycles: clock.next,
            waited: total,
        },
        entry,
        lines,
    }
}
