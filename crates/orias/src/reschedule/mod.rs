//! Finished cubins through Ori: lifting their functions, and computing order and control words anew.
//!
//! [`reschedule_control`] keeps the order and replaces the control words. [`reschedule`] forgets both: within each block, the instructions
//! get the order that [`orias_codegen::schedule::post`] finds for them, starting from theirs or from a random one. Blocks keep place
//! and length, so distances stay; what names instructions by their offsets follows them (`offsets`).

mod control;
mod cycles;
mod line_table;
mod offsets;
mod report;

pub use control::{
    RescheduleError, Statistics, Totals, indirect_targets, lifted, reschedule_control,
};
pub use cycles::{FunctionCycles, cycles};
pub use offsets::{Moves, OffsetError};
pub(crate) use report::loop_weight;
pub use report::{BlockReport, FunctionReport, Report};

use crate::disassemble::target_of;
use control::compare;
pub use orias_codegen::knobs::Knobs;
use orias_codegen::knobs::WhenList;
pub use orias_codegen::schedule::post::Alternative;
use orias_codegen::schedule::post::{self, FunctionSchedule};
use orias_codegen::scoreboard::{self, Insertions};
use orias_cubin::{Body, Cubin, FunctionView};
use orias_mercury::{WORD, emit};
use orias_ori::analysis::{DepthFirst, FlowGraph, LoopNest};
use orias_ori::{Block, Function, Inst};
use std::collections::BTreeMap;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The knobs of PostSchedule.
    pub knobs: &'a Knobs,
    /// Start from a random legal order, which this number chooses, and never look at the one the code came with.
    pub shuffle: Option<u64>,
    /// Do not schedule: give each block this order, to see how long such orders take.
    pub alternative: Option<Alternative>,
    /// Tell what the scheduler saw.
    pub stories: bool,
}

/// A cubin in a new order.
#[derive(Clone, Debug)]
pub struct Rescheduled {
    /// The cubin.
    pub cubin: Cubin,
    /// What its control words ask for, before and after.
    pub statistics: Statistics,
    /// What changed.
    pub report: Report,
    /// What the scheduler saw, if that was asked for.
    pub stories: Vec<FunctionSchedule>,
}

/// Forgets the order of instructions within blocks and all control words of a cubin, and computes both.
pub fn reschedule(cubin: &Cubin, request: &Request<'_>) -> Result<Rescheduled, RescheduleError> {
    if target_of(cubin).is_none() {
        return Err(RescheduleError::Target(cubin.target()));
    }
    let mut done = Rescheduled {
        cubin: cubin.clone(),
        statistics: Statistics::default(),
        report: Report::default(),
        stories: Vec::new(),
    };
    for (number, view) in cubin.functions().iter().enumerate() {
        one(cubin, view, number, request, &mut done)?;
    }
    Ok(done)
}

/// The instructions of each block, in order.
type Orders = Vec<(Block, Vec<Inst>)>;

fn orders(func: &Function) -> Orders {
    let blocks = func.blocks();
    blocks
        .map(|block| (block, func.block_insts(block).collect()))
        .collect()
}

fn one(
    cubin: &Cubin,
    view: &FunctionView<'_>,
    number: usize,
    request: &Request<'_>,
    done: &mut Rescheduled,
) -> Result<(), RescheduleError> {
    let mut func = lifted(cubin, view)?;
    let original = orders(&func);
    let mut old_index: BTreeMap<Inst, u32> = BTreeMap::new();
    let is_machine = |inst: &Inst| func.opcode(*inst).as_machine().is_some();
    let instructions = original.iter().flat_map(|(_, insts)| insts);
    for (index, &inst) in instructions.filter(|inst| is_machine(inst)).enumerate() {
        old_index.insert(inst, index as u32);
    }
    let before = post::cycles_by_words(&func);
    let mut options = post::Options::of(request.knobs);
    let always = WhenList::always();
    let broken = |error| RescheduleError::Order {
        function: view.name.to_owned(),
        error,
    };
    scoreboard::drop_control_words(&mut func);
    let given = post::Options {
        keep: &always,
        ..options
    };
    let model = post::reorder(&mut func.clone(), &given).map_err(broken)?;
    if let Some(seed) = request.shuffle {
        post::shuffle(&mut func, seed.wrapping_add(number as u64)).map_err(broken)?;
    }
    if let Some(mut alternative) = request.alternative {
        alternative.seed = alternative.seed.wrapping_add(number as u64);
        post::alternative(&mut func, alternative).map_err(broken)?;
        options.keep = &always;
    } else {
        options.fresh = true;
        post::canonical(&mut func, &options).map_err(broken)?;
    }
    let changes = post::reorder(&mut func, &options).map_err(broken)?;
    waits(&mut func, view)?;
    let mut after = post::cycles_by_words(&func);
    let mut kept = vec![false; original.len()];
    if request.shuffle.is_none() && request.alternative.is_none() {
        // An order that turns out longer once its barriers are chosen goes back to what it was.
        let mut same = lifted(cubin, view)?;
        scoreboard::drop_control_words(&mut same);
        waits(&mut same, view)?;
        let same = post::cycles_by_words(&same);
        for (index, (old, new)) in same.iter().zip(&after).enumerate() {
            let (block, insts) = &original[index];
            // Unless it brings stores together: that may be worth a few cycles of the warp, which the words know nothing of.
            let gathers = changes[index].separated < model[index].separated
                && new.cycles < old.cycles * 11 / 10;
            let moved = !func.block_insts(*block).eq(insts.iter().copied());
            kept[index] = new.cycles > old.cycles && moved && !gathers;
        }
        if kept.contains(&true) {
            for ((block, insts), _) in original.iter().zip(&kept).filter(|(_, kept)| **kept) {
                restore(&mut func, *block, insts);
            }
            scoreboard::drop_control_words(&mut func);
            waits(&mut func, view)?;
            after = post::cycles_by_words(&func);
        }
    }
    if request.stories {
        done.stories
            .push(post::tell(&func, &options).map_err(broken)?);
    }
    let code = emit(&func)?;
    let end = code.placed.len() * WORD;
    let placed = code.placed.iter().filter_map(|placed| placed.inst);
    let order: Vec<u32> = placed.map(|inst| old_index[&inst]).collect();
    let moves = Moves::new(&order);
    let named = |error| RescheduleError::Offsets {
        function: view.name.to_owned(),
        error,
    };
    offsets::follow(&mut done.cubin, view.section, &moves).map_err(named)?;
    line_table::follow(&mut done.cubin, view.section, &moves).map_err(named)?;
    if let Body::Bytes(bytes) = &mut done.cubin.sections[view.section].body {
        bytes[..end].copy_from_slice(&code.bytes[..end]);
    }
    done.statistics += compare(&view.code[..end], &code.bytes[..end]);
    let flow = FlowGraph::of(&func);
    let nest = LoopNest::new(&flow, &DepthFirst::new(&flow));
    let now = orders(&func);
    let blocks = (0..original.len()).map(|index| {
        let (block, was) = &original[index];
        let places = was.iter().zip(&now[index].1);
        BlockReport {
            block: *block,
            depth: nest.block_depth(*block),
            instructions: changes[index].instructions,
            moved: places.filter(|(was, is)| was != is).count(),
            kept: kept[index],
            model: (model[index].before, changes[index].after),
            words: (before[index].cycles, after[index].cycles),
            waited: (before[index].waited, after[index].waited),
            chain: changes[index].chain,
            conflicts: (model[index].conflicts.0, changes[index].conflicts.1),
        }
    });
    done.report.functions.push(FunctionReport {
        name: view.name.to_owned(),
        blocks: blocks.collect(),
    });
    Ok(())
}

fn waits(func: &mut Function, view: &FunctionView<'_>) -> Result<(), RescheduleError> {
    scoreboard::schedule_waits(func, Insertions::Forbidden).map_err(|error| {
        RescheduleError::Scoreboard {
            function: view.name.to_owned(),
            error,
        }
    })
}

/// Puts a block back into the order it had.
fn restore(func: &mut Function, block: Block, insts: &[Inst]) {
    for &inst in insts {
        func.layout.remove_inst(inst);
    }
    for &inst in insts {
        func.layout.append_inst(inst, block);
    }
}
