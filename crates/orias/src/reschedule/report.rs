//! What `orias reschedule --report` prints.

use orias_ori::Block;
use std::fmt;

/// A loop is taken to run this many times as often as what is around it.
const ITERATIONS: f64 = 8.0;

/// Deeper loops count no more.
const DEEPEST: u32 = 6;

/// How often a block runs in estimates, if it is in so many loops.
pub(crate) fn loop_weight(depth: u32) -> f64 {
    ITERATIONS.powi(depth.min(DEEPEST) as i32)
}

/// What became of a block.
#[derive(Clone, Copy, Debug)]
pub struct BlockReport {
    /// The block.
    pub block: Block,
    /// How many loops it is in.
    pub depth: u32,
    /// Its instructions.
    pub instructions: usize,
    /// How many of them stand elsewhere.
    pub moved: usize,
    /// Whether the order it came with was better and was kept.
    pub kept: bool,
    /// Cycles by the scheduler's model: of the order it started from, and of the order it found.
    pub model: (u32, u32),
    /// Cycles by control words: those it came with, and those it has.
    pub words: (u32, u32),
    /// Those of them spent waiting for barriers.
    pub waited: (u32, u32),
    /// The longest chain.
    pub chain: u32,
    /// Bank conflicts, before and after.
    pub conflicts: (u32, u32),
}

/// What became of a function.
#[derive(Clone, Debug)]
pub struct FunctionReport {
    /// Its name.
    pub name: String,
    /// Its blocks.
    pub blocks: Vec<BlockReport>,
}

impl FunctionReport {
    /// Cycles by control words, blocks in loops counted more often: before and after.
    pub fn cycles(&self) -> (f64, f64) {
        let mut sums = (0.0, 0.0);
        for block in &self.blocks {
            let weight = loop_weight(block.depth);
            sums.0 += weight * f64::from(block.words.0);
            sums.1 += weight * f64::from(block.words.1);
        }
        sums
    }
}

/// What became of a cubin.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Its functions.
    pub functions: Vec<FunctionReport>,
}

impl Report {
    /// Blocks with more than one instruction that could move at all, and those of them that have another order.
    pub fn changed(&self) -> (usize, usize) {
        let blocks = self.functions.iter().flat_map(|function| &function.blocks);
        let blocks: Vec<_> = blocks.filter(|block| block.instructions > 1).collect();
        let changed = blocks.iter().filter(|block| block.moved > 0).count();
        (blocks.len(), changed)
    }

    /// The geometric mean over functions of cycles after to cycles before.
    pub fn ratio(&self) -> f64 {
        let ratios = self.functions.iter().filter_map(|function| {
            let (before, after) = function.cycles();
            (before > 0.0 && after > 0.0).then(|| (after / before).ln())
        });
        let ratios: Vec<f64> = ratios.collect();
        (ratios.iter().sum::<f64>() / ratios.len().max(1) as f64).exp()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for function in &self.functions {
            let (before, after) = function.cycles();
            writeln!(
                f,
                "{}: {before:.0} cycles, now {after:.0} ({:.3})",
                function.name,
                after / before.max(1.0)
            )?;
            writeln!(
                f,
                "  block       depth  insts  moved   cycles      now  waiting      now   model      now   chain  banks    now"
            )?;
            for block in function
                .blocks
                .iter()
                .filter(|block| block.instructions > 0)
            {
                writeln!(
                    f,
                    "  {:<10} {:>6} {:>6} {:>6} {:>8} {:>8} {:>8} {:>8} {:>7} {:>8} {:>7} {:>6} {:>6}{}",
                    block.block.to_string(),
                    block.depth,
                    block.instructions,
                    block.moved,
                    block.words.0,
                    block.words.1,
                    block.waited.0,
                    block.waited.1,
                    block.model.0,
                    block.model.1,
                    block.chain,
                    block.conflicts.0,
                    block.conflicts.1,
                    if block.kept { "  kept" } else { "" }
                )?;
            }
        }
        let (blocks, changed) = self.changed();
        writeln!(
            f,
            "{} functions, {changed} of {blocks} blocks in another order, cycles {:.3} times those before (geometric mean)",
            self.functions.len(),
            self.ratio()
        )
    }
}
