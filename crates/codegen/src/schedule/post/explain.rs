//! What the scheduler saw: for each instruction of a physical function when it issues by the cycle model, why not earlier, which pipe it
//! takes, how many registers are live, and whether it is on the longest chain of its block.
//!
//! Graphs, registers and what is in flight are those the scheduler itself uses; nothing is estimated a second time.

use super::block::{Parts, State};
use super::sweep::Sweeps;
use super::{Cause, Options, PostScheduleError};
use crate::schedule::build::{Builder, Exits};
use crate::schedule::graph::Timeline;
use crate::schedule::units::Pipe;
use orias_ori::analysis::{
    DepthFirst, FlowGraph, Frequencies, LoopNest, RegisterLiveness, step_back,
};
use orias_ori::{Block, Class, Function, print_inst};

/// A function in the order it has.
#[derive(Clone, Debug)]
pub struct FunctionSchedule {
    /// Its name.
    pub name: String,
    /// Its blocks, in layout order.
    pub blocks: Vec<BlockSchedule>,
}

/// A block in the order it has.
#[derive(Clone, Debug)]
pub struct BlockSchedule {
    /// The block.
    pub block: Block,
    /// How many loops it is in.
    pub depth: u32,
    /// Whether it hardly ever runs.
    pub cold: bool,
    /// Cycles until the next block can start.
    pub length: u32,
    /// Cycles of the longest chain.
    pub chain: u32,
    /// Cycles lost to bank conflicts.
    pub conflicts: u32,
    /// Sources found in the operand cache.
    pub hits: u32,
    /// Issue slots taken by each pipe.
    pub pipes: [u32; Pipe::COUNT],
    /// Its instructions.
    pub lines: Vec<Line>,
    /// The longest chain: indices of lines, and what leads to each of them but the first.
    pub path: Vec<(usize, Option<String>)>,
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its text, control word included where it has one.
    pub text: String,
    /// The cycle it issues in.
    pub issue: u32,
    /// Cycles since the instruction before in which nothing issued.
    pub idle: u32,
    /// Why it did not issue earlier.
    pub cause: String,
    /// The line that is to blame, if one is.
    pub blamed: Option<usize>,
    /// The pipe it takes.
    pub pipe: Pipe,
    /// For how long it keeps its unit.
    pub keeps: u32,
    /// Cycles until its slowest result is there.
    pub latency: u32,
    /// General registers live behind it.
    pub live: u32,
    /// Whether it is on the longest chain.
    pub critical: bool,
}

/// Tells about every block of a physical or final function.
pub fn tell(func: &Function, options: &Options<'_>) -> Result<FunctionSchedule, PostScheduleError> {
    let flow = FlowGraph::of(func);
    let walk = DepthFirst::new(&flow);
    let nest = LoopNest::new(&flow, &walk);
    let live = RegisterLiveness::new(func, &flow, &walk);
    let frequencies = Frequencies::new(func, &flow, &walk, &nest);
    let mut states = Vec::new();
    let mut builder = Builder::new(func, Exits::Registers(&live), options.fences);
    for block in func.blocks() {
        let parts = Parts::new(
            func,
            builder.build(block),
            func.target,
            false,
            options.thorough,
        )?;
        states.push(State {
            cold: frequencies.is_cold(block),
            ..State::new(block, parts)
        });
    }
    Sweeps::new(func, &states).run(&mut states, true);
    let blocks = states
        .iter()
        .map(|state| block_story(func, state, nest.block_depth(state.block), &live))
        .collect();
    Ok(FunctionSchedule {
        name: func.name.clone(),
        blocks,
    })
}

fn block_story(
    func: &Function,
    state: &State,
    depth: u32,
    live: &RegisterLiveness,
) -> BlockSchedule {
    let graph = &state.parts.graph;
    let simulation = &state.now;
    let causes = state.model().causes(&state.order, simulation);
    let timeline = Timeline::new(graph);
    let critical = timeline.critical_path(graph);
    // Lines are the nodes that take a slot.
    let mut line_of: Vec<Option<usize>> = vec![None; graph.len()];
    let mut count = 0;
    for (node, data) in graph.nodes.iter().enumerate() {
        if !data.is_pseudo() {
            line_of[node] = Some(count);
            count += 1;
        }
    }
    let mut counts = vec![0; graph.len()];
    let mut now = *live.live_out(state.block);
    for (node, data) in graph.nodes.iter().enumerate().rev() {
        counts[node] = now.count(Class::R);
        step_back(func, data.inst, &mut now);
    }
    let mut pipes = [0; Pipe::COUNT];
    let mut lines = Vec::with_capacity(count);
    let mut before: Option<u32> = None;
    for (node, data) in graph.nodes.iter().enumerate() {
        if data.is_pseudo() {
            continue;
        }
        pipes[data.pipe as usize] += 1;
        let issue = simulation.issue[node];
        let blamed = match causes[node] {
            Cause::Edge(from) | Cause::Unit(from) => line_of.get(from as usize).copied().flatten(),
            _ => None,
        };
        let cause = match causes[node] {
            Cause::Start => String::new(),
            Cause::Previous => match before.map(|before| issue - before) {
                None | Some(1) => String::new(),
                Some(cycles) => format!("{cycles} cycles behind the instruction before"),
            },
            Cause::Unit(_) => format!("{} unit busy", data.pipe.name()),
            Cause::Entry => "a register in flight from the block before".to_owned(),
            Cause::Edge(from) => graph
                .preds(node)
                .iter()
                .find(|edge| edge.from == from)
                .map_or_else(String::new, |edge| {
                    format!("{} {} cycles", edge.kinds.name(), edge.latency)
                }),
        };
        let keeps = data
            .issue
            .keeps
            .iter()
            .map(|(_, cycles)| u32::from(*cycles));
        lines.push(Line {
            text: print_inst(func, data.inst),
            issue,
            idle: before.map_or(issue, |before| issue - before - 1),
            cause,
            blamed,
            pipe: data.pipe,
            keeps: keeps.max().unwrap_or(0),
            latency: u32::from(data.latency),
            live: counts[node],
            critical: critical.iter().any(|(at, _)| *at as usize == node),
        });
        before = Some(issue);
    }
    let path = critical
        .iter()
        .filter_map(|(node, edge)| {
            let why = edge.map(|edge| format!("{} {}", edge.kinds.name(), edge.latency));
            Some((line_of[*node as usize]?, why))
        })
        .collect();
    BlockSchedule {
        block: state.block,
        depth,
        cold: state.cold,
        length: simulation.length,
        chain: timeline.length,
        conflicts: simulation.conflicts,
        hits: simulation.hits,
        pipes,
        lines,
        path,
    }
}
