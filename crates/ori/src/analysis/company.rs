//! Company: where the lanes that come to a block come at once.
//!
//! Behind a branch at which lanes part, those that go one way are still together, though they are not the whole warp: a group of consumers, or the producer. They stay so while
//! no branch parts them and nothing sends them on one by one. What they ask in company of one place of memory has one answer.
//!
//! **Criterion.** Lanes in company are told apart by where they parted from the others last:
//!
//! | block | its lanes |
//! | --- | --- |
//! | the whole warp is there, and not in parts | all |
//! | behind an operation that brings the warp together | all |
//! | a way to it from a branch at which lanes in company part, which leads into a loop at most | those that take it |
//! | a way to it from another block in company | those of that block |
//! | all ways to it bring the same lanes | these |
//! | another | not in company |
//!
//! Calls, sleeps, operations on the lanes of a mask, barriers that lanes come to in several places, and looks at mbarriers that may tell them different things end it. Lanes that leave a loop in different iterations come one after the other, so no way out of a loop begins it.
//!
//! **Algorithm.** Forward data flow over these, from none known down to not in company. Cost: linear, times the few rounds until it stays.

use super::flow::FlowGraph;
use super::loops::{Loop, LoopNest};
use super::order::DepthFirst;
use crate::{Block, Function, Inst};
use cranelift_entity::EntityRef;

/// Which lanes are together in a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Company {
    /// No way there has been followed yet.
    Unknown,
    /// All lanes of the warp.
    All,
    /// Those that parted from others at the end of the first of these blocks, on the way to the second.
    Since(Block, Block),
    /// Some may come later than others.
    Apart,
}

/// What is known of the lanes of a function besides.
pub(super) struct Facts<'a> {
    /// Whether all lanes come to a block, and at once.
    pub whole: &'a dyn Fn(Block) -> bool,
    /// Whether lanes that are together at the end of a block may go different ways.
    pub parts: &'a dyn Fn(Block) -> bool,
    /// Whether all lanes of the warp are together behind an operation.
    pub gathers: &'a dyn Fn(Inst) -> bool,
    /// Whether lanes may go on one by one behind an operation.
    pub scatters: &'a dyn Fn(Inst) -> bool,
}

/// By block: which lanes are together at its start.
pub(super) fn companies(
    function: &Function,
    graph: &FlowGraph,
    walk: &DepthFirst,
    nest: &LoopNest,
    facts: &Facts<'_>,
) -> Vec<Company> {
    let mut starts = vec![Company::Unknown; graph.block_count()];
    loop {
        let mut changed = false;
        for block in walk.reverse_postorder() {
            let ways = graph.preds(block);
            let before = ways.iter().filter(|&&from| walk.is_reachable(from));
            let now = match (facts.whole)(block) {
                true => Company::All,
                false if block == graph.entry() => Company::Apart,
                false => before.fold(Company::Unknown, |known, &from| {
                    let start = starts[from.index()];
                    let end = (function.block_insts(from))
                        .fold(start, |lanes, inst| behind(lanes, inst, facts));
                    let parts = (facts.parts)(from);
                    let comes = match end {
                        Company::All | Company::Since(..) if parts => {
                            match nest.innermost(from) == around(nest, block) {
                                true => Company::Since(from, block),
                                false => Company::Apart,
                            }
                        }
                        other => other,
                    };
                    match (known, comes) {
                        (Company::Unknown, other) | (other, Company::Unknown) => other,
                        (one, other) if one == other => one,
                        _ => Company::Apart,
                    }
                }),
            };
            changed |= std::mem::replace(&mut starts[block.index()], now) != now;
        }
        if !changed {
            return starts;
        }
    }
}

/// The loop in which `block` is, besides the one that it heads.
fn around(nest: &LoopNest, block: Block) -> Option<Loop> {
    match nest.headed_by(block) {
        Some(headed) => nest.parent(headed),
        None => nest.innermost(block),
    }
}

/// Which lanes are together behind `inst`, if `lanes` are before it.
pub(super) fn behind(lanes: Company, inst: Inst, facts: &Facts<'_>) -> Company {
    match lanes {
        Company::Unknown => lanes,
        _ if (facts.gathers)(inst) => Company::All,
        _ if (facts.scatters)(inst) => Company::Apart,
        lanes => lanes,
    }
}
