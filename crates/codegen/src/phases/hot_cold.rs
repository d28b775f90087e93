//! OptimizeHotColdInLoop (108) and OptimizeHotColdFlow (109): code layout by hot and cold blocks, so that what runs often lies together.
//!
//! Instruction fetch goes on from one line to the next, so blocks that run in a row should lie in a row. How often blocks run is what
//! [`Frequencies`] guesses.
//!
//! - **In loops.** A block that lies between the first and the last block of a loop without belonging to it goes behind the loop: what
//!   lies in a loop is listed in the order it has, inner loops as one thing, and the lists are put one into the other.
//! - **In the function.** Cold blocks go behind all others, so that hot code falls through past branches to them. Among themselves they keep their order.
//!
//! Blocks keep their order otherwise, the entry stays first, and no instruction changes: until PostFixForMercTargets (113) a block may
//! fall through to any other. Both are linear in blocks.

use crate::pipeline::{Context, PhaseError};
use cranelift_entity::SecondaryMap;
use orias_ori::analysis::{DepthFirst, FlowGraph, Frequencies, Loop, LoopNest};
use orias_ori::{Block, Function};

/// What lies in a loop, or in none: blocks, and loops with all that lies in them.
#[derive(Clone, Copy)]
enum Item {
    Block(Block),
    Loop(Loop),
}

/// Phase 108.
pub fn optimize_hot_cold_in_loops(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    let flow = FlowGraph::of(func);
    let walk = DepthFirst::new(&flow);
    let nest = LoopNest::new(&flow, &walk);
    if nest.loops().next().is_none() {
        return Ok(());
    }
    let before: Vec<Block> = func.blocks().collect();
    // Each list in the order in which the blocks lay: a loop stands where its first block did.
    let mut outside: Vec<Item> = Vec::new();
    let mut inside: SecondaryMap<Loop, Vec<Item>> = SecondaryMap::new();
    let mut met: SecondaryMap<Loop, bool> = SecondaryMap::new();
    for &block in &before {
        let mut item = Item::Block(block);
        let mut around = nest.innermost(block);
        while let Some(of) = around {
            inside[of].push(item);
            if std::mem::replace(&mut met[of], true) {
                break;
            }
            item = Item::Loop(of);
            around = nest.parent(of);
        }
        if around.is_none() {
            outside.push(item);
        }
    }
    let mut after: Vec<Block> = Vec::with_capacity(before.len());
    let mut open = vec![outside.into_iter()];
    while let Some(items) = open.last_mut() {
        match items.next() {
            Some(Item::Block(block)) => after.push(block),
            Some(Item::Loop(of)) => open.push(std::mem::take(&mut inside[of]).into_iter()),
            None => {
                open.pop();
            }
        }
    }
    if after != before {
        for &block in &before {
            func.layout.remove_block(block);
        }
        for block in after {
            func.layout.append_block(block);
        }
    }
    Ok(())
}

/// Phase 109.
pub fn optimize_hot_cold_flow(func: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    let frequencies = Frequencies::of(func);
    let entry = func.entry();
    let moved: Vec<Block> = func
        .blocks()
        .filter(|&block| frequencies.is_cold(block) && Some(block) != entry)
        .collect();
    for block in moved {
        func.layout.remove_block(block);
        func.layout.append_block(block);
    }
    Ok(())
}

/// How often the blocks of `func` run, in words, and which go behind the others.
pub fn explain_frequencies(func: &Function, _: &Context<'_>) -> Vec<String> {
    let frequencies = Frequencies::of(func);
    let explain = |block: Block| {
        let times = frequencies.times(block);
        let why = match frequencies.is_cold(block) {
            true => ", cold: behind the others",
            false => "",
        };
        format!("{block} runs {} times{why}", short(times))
    };
    func.blocks().map(explain).collect()
}

/// A number of times with as many digits as say something.
fn short(times: f64) -> String {
    match times {
        0.0 => "0".to_owned(),
        _ if times >= 10.0 => format!("{times:.0}"),
        _ if times >= 0.01 => format!("{times:.2}"),
        _ => format!("{times:.0e}"),
    }
}
