//! Runs every analysis on functions of two sizes, one twice the other, and prints how the time grows.
//!
//! ```text
//! cargo run --release -p orias-ori --example analysis_scale [blocks]
//! ```
//!
//! The larger function has `blocks` blocks (100,000 unless given) of ten instructions; `straight` has the same number of
//! instructions in blocks of ten thousand. A ratio of about 2 is linear growth. Each time is the best of five by the clock on
//! the wall: on a busy machine runs longer than a time slice are interrupted, and ratios come out too high.

use orias_ori::analysis::{
    DefUse, DepthFirst, Divergence, DominatorTree, FlowGraph, Liveness, LoopNest,
    PostDominatorTree, Pressure, RegisterLiveness,
};
use orias_ori::operation::{Modifier, Scalar, Special};
use orias_ori::{
    AbstractMods, AbstractOp, Block, Class, Edge, Function, FunctionKind, Level, Operand, PhysReg,
    Type, Value,
};
use std::time::{Duration, Instant};

/// A shape of control flow: its name and, for a number of blocks, its edges.
type Shape = (&'static str, fn(usize) -> Vec<(usize, usize)>);

const SHAPES: &[Shape] = &[
    ("chain", chain),
    ("loop nest", loop_nest),
    ("branch nest", branch_nest),
    ("loops in a row", loops_in_a_row),
    ("wide switch", wide_switch),
    ("early exits", early_exits),
    ("breaks", breaks),
    ("ladder", ladder),
    ("random", random),
];

fn chain(blocks: usize) -> Vec<(usize, usize)> {
    (1..blocks).map(|block| (block - 1, block)).collect()
}

/// Headers going in, latches coming out; every loop is inside the one before.
fn loop_nest(blocks: usize) -> Vec<(usize, usize)> {
    let depth = (blocks - 1) / 2;
    let mut edges = chain(2 * depth + 1);
    edges.extend((0..depth).map(|level| (2 * depth - 1 - level, level)));
    edges
}

/// One branch inside the other: in, a two-way branch; out, the blocks where the ways meet.
fn branch_nest(blocks: usize) -> Vec<(usize, usize)> {
    let depth = (blocks - 1) / 2;
    let mut edges = chain(2 * depth + 1);
    edges.extend((0..depth).map(|level| (level, 2 * depth - level)));
    edges
}

/// Loops of three blocks with an if inside, one after the other.
fn loops_in_a_row(blocks: usize) -> Vec<(usize, usize)> {
    let mut edges = chain(blocks);
    for first in (0..blocks.saturating_sub(4)).step_by(4) {
        edges.push((first + 1, first + 3));
        edges.push((first + 3, first + 1));
    }
    edges
}

fn wide_switch(blocks: usize) -> Vec<(usize, usize)> {
    (1..blocks - 1)
        .flat_map(|block| [(0, block), (block, blocks - 1)])
        .collect()
}

/// Each block goes on or jumps to the end.
fn early_exits(blocks: usize) -> Vec<(usize, usize)> {
    let mut edges = chain(blocks);
    edges.extend((0..blocks - 2).map(|block| (block, blocks - 1)));
    edges
}

/// One loop around blocks that each go on or leave it.
fn breaks(blocks: usize) -> Vec<(usize, usize)> {
    let mut edges = early_exits(blocks);
    edges.push((blocks - 2, 1));
    edges
}

/// Two rails with rungs from one to the other.
fn ladder(blocks: usize) -> Vec<(usize, usize)> {
    let mut edges = Vec::new();
    for rung in (0..blocks.saturating_sub(3)).step_by(2) {
        edges.extend([(rung, rung + 2), (rung, rung + 1), (rung + 1, rung + 3)]);
    }
    edges
}

/// Forward jumps of a few blocks, one back edge in ten blocks; irreducible loops here and there.
fn random(blocks: usize) -> Vec<(usize, usize)> {
    let mut state = 1u64;
    let mut below = |bound: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % bound as u64) as usize
    };
    let mut edges = chain(blocks);
    for block in 0..blocks - 20 {
        if below(2) == 0 {
            edges.push((block, block + 1 + below(20)));
        }
        if below(10) == 0 {
            edges.push((block, block - below(block.min(20) + 1)));
        }
    }
    edges
}

/// A function in SSA form with the control flow of `graph` and `per_block` instructions in each block.
///
/// Sixteen values of the entry are read everywhere; each block takes two parameters and hands two values on. Every other
/// branch depends on the lane.
fn function_of(graph: &FlowGraph, per_block: usize) -> Function {
    let mut function = Function::new(
        "scale",
        FunctionKind::Entry,
        Level::Abstract,
        orias_sass::Target::Sm90a,
    );
    for block in graph.blocks() {
        function.append_block();
        if block != graph.entry() {
            function.append_block_param(block, Type::R);
            function.append_block_param(block, Type::R);
        }
    }
    let mut common: Vec<Value> = Vec::new();
    for block in graph.blocks() {
        if block == graph.entry() {
            let registers = [Special::TidX, Special::CtaidX];
            common.extend((0..16).map(|number| {
                let mods = with(AbstractOp::Sreg, registers[number % 2]);
                emit(&mut function, block, AbstractOp::Sreg, mods, Type::R, &[])
            }));
        }
        let mut recent: Vec<Value> = function.block_params(block).to_vec();
        if recent.is_empty() {
            recent.extend(&common[..2]);
        }
        for number in 0..per_block.saturating_sub(2) {
            let sources = [
                recent[recent.len() - 1],
                common[(number + block.as_u32() as usize) % 16],
            ];
            let value = emit(
                &mut function,
                block,
                AbstractOp::Add,
                with(AbstractOp::Add, Scalar::U32),
                Type::R,
                &sources,
            );
            recent.push(value);
        }
        let by_lane = block.as_u32() as usize % 2;
        let sources = [common[by_lane], common[by_lane + 2]];
        let setp = with(AbstractOp::Setp, Scalar::U32);
        let predicate = emit(
            &mut function,
            block,
            AbstractOp::Setp,
            setp,
            Type::P,
            &sources,
        );
        let succs = graph.succs(block);
        let args = [recent[recent.len() - 1], recent[recent.len() - 2]];
        let edges: Vec<Edge> = succs
            .iter()
            .map(|&to| function.create_edge(to, if to == graph.entry() { &[] } else { &args }))
            .collect();
        let (op, operands) = match succs.len() {
            0 => (AbstractOp::Exit, Vec::new()),
            1 => (AbstractOp::Br, Vec::new()),
            2 => (AbstractOp::CondBr, vec![Operand::value(predicate)]),
            _ => (AbstractOp::Switch, vec![Operand::value(common[by_lane])]),
        };
        let inst = function.create_abstract(op, AbstractMods::NONE, 0, &operands);
        function.set_edges(inst, &edges);
        function.layout.append_inst(inst, block);
    }
    function
}

fn emit(
    function: &mut Function,
    block: Block,
    op: AbstractOp,
    mods: AbstractMods,
    ty: Type,
    sources: &[Value],
) -> Value {
    let value = function.create_value(ty);
    let mut operands = vec![Operand::value(value)];
    operands.extend(sources.iter().map(|&source| Operand::value(source)));
    let inst = function.create_abstract(op, mods, 1, &operands);
    function.layout.append_inst(inst, block);
    value
}

fn with<M: Modifier>(op: AbstractOp, value: M) -> AbstractMods {
    op.row()
        .with_modifier(AbstractMods::NONE, value)
        .expect("the row has this modifier")
}

/// The same control flow on physical registers: copies among the first 64, guarded or not.
fn physical_function_of(graph: &FlowGraph, per_block: usize) -> Function {
    let mut function = Function::new(
        "scale",
        FunctionKind::Entry,
        Level::Physical,
        orias_sass::Target::Sm90a,
    );
    for _ in graph.blocks() {
        function.append_block();
    }
    let register = |number: usize| {
        let reg = PhysReg::new(Class::R, (number % 64) as u8);
        Operand::from(reg.expect("there are 64 registers"))
    };
    for block in graph.blocks() {
        let first = block.as_u32() as usize;
        for number in 0..per_block - 1 {
            let operands = [
                register(first * 7 + number),
                register(first * 5 + 3 * number),
            ];
            let inst =
                function.create_abstract(AbstractOp::ParCopy, AbstractMods::NONE, 1, &operands);
            function.layout.append_inst(inst, block);
        }
        let edges: Vec<Edge> = graph
            .succs(block)
            .iter()
            .map(|&to| function.create_edge(to, &[]))
            .collect();
        let op = [AbstractOp::Exit, AbstractOp::Br, AbstractOp::Switch][edges.len().min(2)];
        let operands: &[Operand] = if edges.len() > 1 {
            &[register(first)]
        } else {
            &[]
        };
        let inst = function.create_abstract(op, AbstractMods::NONE, 0, operands);
        function.set_edges(inst, &edges);
        function.layout.append_inst(inst, block);
    }
    function
}

/// The best of five runs.
fn time<T>(mut run: impl FnMut() -> T) -> (Duration, T) {
    let mut best: Option<(Duration, T)> = None;
    for _ in 0..5 {
        let start = Instant::now();
        let result = run();
        let elapsed = start.elapsed();
        if best.as_ref().is_none_or(|(time, _)| elapsed < *time) {
            best = Some((elapsed, result));
        }
    }
    best.expect("five runs were made")
}

/// The time of each analysis on one function.
fn times(graph: &FlowGraph, per_block: usize) -> Vec<(&'static str, Duration)> {
    let function = function_of(graph, per_block);
    let physical = physical_function_of(graph, per_block);
    let mut times = Vec::new();
    let (taken, graph) = time(|| FlowGraph::of(&function));
    times.push(("graph", taken));
    let (taken, walk) = time(|| DepthFirst::new(&graph));
    times.push(("orders", taken));
    times.push(("dominators", time(|| DominatorTree::new(&graph, &walk)).0));
    times.push(("post-dominators", time(|| PostDominatorTree::new(&graph)).0));
    let (taken, nest) = time(|| LoopNest::new(&graph, &walk));
    times.push(("loops", taken));
    let (taken, chains) = time(|| DefUse::new(&function));
    times.push(("def-use", taken));
    let (taken, live) = time(|| Liveness::new(&function, &graph));
    times.push(("liveness", taken));
    times.push(("pressure", time(|| Pressure::new(&function, &live)).0));
    let (taken, live) = time(|| RegisterLiveness::new(&physical, &graph, &walk));
    times.push(("registers", taken));
    times.push((
        "register pressure",
        time(|| Pressure::of_registers(&physical, &live)).0,
    ));
    times.push((
        "divergence",
        time(|| Divergence::new(&function, &graph, &walk, &nest, &chains)).0,
    ));
    times
}

fn graph_of(blocks: usize, edges: &[(usize, usize)]) -> FlowGraph {
    let block = |number: usize| Block::from_u32(number as u32);
    let edges: Vec<(Block, Block)> = edges
        .iter()
        .map(|&(from, to)| (block(from), block(to)))
        .collect();
    FlowGraph::from_edges(blocks, block(0), &edges)
}

fn main() {
    let blocks: usize = match std::env::args().nth(1).map(|argument| argument.parse()) {
        None => 100_000,
        Some(Ok(blocks)) if blocks >= 1000 => blocks,
        Some(_) => {
            eprintln!("the number of blocks must be 1000 or more");
            std::process::exit(2);
        }
    };
    println!(
        "{:<16}{:<20}{:>12}{:>12}{:>8}",
        "shape",
        "analysis",
        blocks / 2,
        blocks,
        "ratio"
    );
    let mut worst = (0.0, "");
    let mut report = |shape: &'static str,
                      small: Vec<(&'static str, Duration)>,
                      large: Vec<(&'static str, Duration)>| {
        let total = |times: &[(&'static str, Duration)]| times.iter().map(|&(_, time)| time).sum();
        let totals = ("all", total(&small), total(&large));
        let rows = small
            .into_iter()
            .zip(large)
            .map(|((analysis, small), (_, large))| (analysis, small, large));
        for (analysis, small, large) in rows.chain([totals]) {
            let ratio = large.as_secs_f64() / small.as_secs_f64();
            let milliseconds = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
            println!(
                "{shape:<16}{analysis:<20}{:>12}{:>12}{ratio:>8.2}",
                milliseconds(small),
                milliseconds(large)
            );
            if analysis == "all" && ratio > worst.0 {
                worst = (ratio, shape);
            }
        }
    };
    for &(name, edges) in SHAPES {
        let [small, large] =
            [blocks / 2, blocks].map(|blocks| times(&graph_of(blocks, &edges(blocks)), 10));
        report(name, small, large);
    }
    let [small, large] = [blocks / 2000, blocks / 1000]
        .map(|blocks| times(&graph_of(blocks, &chain(blocks)), 10_000));
    report("straight", small, large);
    println!(
        "largest ratio of all analyses together: {:.2} ({})",
        worst.0, worst.1
    );
}
