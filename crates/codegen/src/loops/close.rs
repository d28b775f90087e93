//! Loop-closed SSA form (LCSSA): what a region computes leaves it through parameters.
//!
//! A region is *closed* if values defined in it are read outside only as arguments of edges that leave it. Every reading outside is dominated by one of the blocks the region
//! leads to, all of whose ways in come from the region: that block gets a parameter, its edges pass the value, and the reading takes the parameter. A value that is read where ways from several such
//! blocks have met, past all of them, would need more parameters on the way; such a region is left as it is.
//!
//! Cost: the uses of the region's values, times the number of blocks it leads to, of which [`MOST_TARGETS`] are looked at.

use super::{LoopAnalyses, Region};
use orias_ori::analysis::DefUse;
use orias_ori::{Block, Function, Inst, Reg, Value};
use rustc_hash::FxHashMap;

/// Blocks that a region may lead to.
const MOST_TARGETS: usize = 16;

/// What has to be done to close a region.
#[derive(Debug, Default)]
pub struct Closing {
    /// Values, and the block at which each becomes a parameter.
    passed: Vec<(Value, Block)>,
    /// Readings, with what they read and the block that dominates them.
    readings: Vec<(Inst, Value, Block)>,
}

/// What has to be done to close `region`; nothing if it cannot be.
pub fn close(
    func: &Function,
    shape: &LoopAnalyses,
    uses: &DefUse,
    region: &Region,
) -> Option<Closing> {
    let mut targets: Vec<Block> = Vec::new();
    for &block in &region.blocks {
        for next in func.successors(block) {
            if !region.contains(next) && !targets.contains(&next) {
                targets.push(next);
            }
        }
    }
    if targets.len() > MOST_TARGETS {
        return None;
    }
    // Only these can dominate what reads a value of the region.
    targets.retain(|&target| {
        let mut ways = shape.incoming(target).iter();
        ways.all(|&(from, _)| region.contains(from))
    });
    let mut closing = Closing::default();
    for &block in &region.blocks {
        let params = func.block_params(block).iter().copied();
        for value in params.chain(
            func.block_insts(block)
                .flat_map(|inst| func.value_defs(inst)),
        ) {
            let first = closing.passed.len();
            for reading in uses.uses(value) {
                let place = reading.block(func);
                if region.contains(place) || !shape.walk.is_reachable(place) {
                    continue;
                }
                let mut over = targets.iter().copied();
                let over = over.find(|&target| shape.tree.dominates(target, place))?;
                if !closing.passed[first..].contains(&(value, over)) {
                    closing.passed.push((value, over));
                }
                closing.readings.push((reading.inst, value, over));
            }
        }
    }
    Some(closing)
}

impl Closing {
    /// Does it. `shape` is that of the function when the closing was planned; edges may have got more arguments since.
    pub fn apply(&self, func: &mut Function, shape: &LoopAnalyses) {
        let mut params: FxHashMap<(Value, Block), Value> = FxHashMap::default();
        for &(value, target) in &self.passed {
            let ty = func.value_type(value);
            let param = func.append_block_param(target, ty);
            params.insert((value, target), param);
            for &(_, edge) in shape.incoming(target) {
                func.push_edge_arg(edge, value);
            }
        }
        for &(inst, value, target) in &self.readings {
            let param = params[&(value, target)];
            func.map_uses(inst, |reg| match reg.value() {
                Some(read) if read == value => Reg::from(param),
                _ => reg,
            });
        }
    }
}
