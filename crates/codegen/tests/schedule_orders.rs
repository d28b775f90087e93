//! Orders: legal, within their budget, the same every time, and found in linear time.

use orias_codegen::knobs::Knobs;
use orias_codegen::pipeline::Context;
use orias_codegen::schedule::budget::Occupancy;
use orias_codegen::schedule::build::{Builder, Exits, Fences};
use orias_codegen::schedule::graph::{Graph, Timeline};
use orias_codegen::schedule::instructions::{plan, schedule_instructions};
use orias_codegen::schedule::live::{BlockValues, Numbering};
use orias_codegen::schedule::options::Options;
use orias_codegen::schedule::priority::Mode;
use orias_codegen::schedule::strategies::{Strategy, Task};
use orias_generate::ori::{self as generate, Size};
use orias_ori::analysis::{FlowGraph, Liveness, Pressure};
use orias_ori::{Class, Function, Level, parse_function, print_function, verify_function};
use std::fmt::Write;
use std::time::Instant;

const SIZE: Size = Size {
    blocks: 5,
    insts: 20,
};

fn context(knobs: &Knobs) -> Context<'_> {
    Context {
        opt_level: 3,
        knobs,
        machine: orias_machine::Machine::of(orias_sass::Target::DEFAULT),
    }
}

fn registers(func: &Function) -> u32 {
    let flow = FlowGraph::of(func);
    let live = Liveness::new(func, &flow);
    Pressure::new(func, &live).overall()[Class::R]
}

/// A block of `count` chains of a load and some arithmetic, each stored.
fn chains(count: usize) -> Function {
    let mut text = "entry k machine sm_90a {\nblock0:\n    S2R v0:r, SR_TID.X\n".to_owned();
    let mut value = 1;
    for chain in 0..count {
        let offset = chain * 8;
        let _ = write!(
            text,
            "    LDL v{}:r, [v0+{offset:#x}]\n    FADD v{}:r, v{}, 0x3f800000\n    FMUL v{}:r, v{}, v{}\n    STL [v0+{:#x}], v{}\n",
            value,
            value + 1,
            value,
            value + 2,
            value + 1,
            value + 1,
            offset + 4,
            value + 2
        );
        value += 3;
    }
    text += "    EXIT PT\n}\n";
    parse_function(&text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn generated_functions_stay_valid_and_within_what_they_may_use() {
    let knobs = Knobs::default();
    let mut changed = 0;
    for seed in 0..300 {
        let mut func = generate::function(seed, Level::Machine, SIZE);
        if verify_function(&func).is_err() {
            continue;
        }
        let before = print_function(&func);
        let had = registers(&func);
        let copy = func.clone();
        schedule_instructions(&mut func, &context(&knobs))
            .unwrap_or_else(|error| panic!("{seed}: {error}"));
        if let Err(errors) = verify_function(&func) {
            panic!("{seed}: {errors:?}\n{before}\n{}", print_function(&func));
        }
        let has = registers(&func);
        assert!(has <= had.max(253), "{seed}: {had} -> {has}");
        let mut again = copy;
        schedule_instructions(&mut again, &context(&knobs))
            .unwrap_or_else(|error| panic!("{seed}: {error}"));
        assert_eq!(print_function(&func), print_function(&again), "{seed}");
        changed += usize::from(print_function(&func) != before);
    }
    assert!(changed > 100, "{changed} of 300 changed");
}

#[test]
fn every_strategy_gives_a_legal_order_and_the_engine_rarely_needs_more_than_its_budget() {
    let knobs = Knobs::default();
    let context = context(&knobs);
    let mut ran = [0; Strategy::ALL.len()];
    let (mut within, mut above) = (0, Vec::new());
    for seed in 0..200 {
        let func = generate::function(seed, Level::Machine, SIZE);
        let flow = FlowGraph::of(&func);
        let live = Liveness::new(&func, &flow);
        let mut builder = Builder::new(&func, Exits::Values(&live), Fences::none());
        let mut numbers = Numbering::default();
        let options = Options::new(&func, &context).expect("default knobs");
        for block in func.blocks() {
            let graph: Graph = builder.build(block);
            let timeline = Timeline::new(&graph);
            let values = BlockValues::new(&func, &graph, &live, &mut numbers);
            let reference: Vec<u32> = (0..graph.len() as u32).collect();
            let peak = values.peak(reference.iter().copied());
            for slack in [0, 4] {
                let limits = peak.map(|registers| registers + slack);
                for (strategy, ran) in Strategy::ALL.into_iter().zip(&mut ran) {
                    let task = Task {
                        graph: &graph,
                        timeline: &timeline,
                        values: &values,
                        reference: &reference,
                        known: None,
                        settings: options.settings(Mode::Ilp, block, false, limits),
                        carried: &[],
                    };
                    let Some(found) = strategy.run(&task) else {
                        continue;
                    };
                    let order = found.order;
                    assert_eq!(
                        found.peak,
                        values.peak(order.iter().copied()),
                        "{seed} {}",
                        strategy.name()
                    );
                    *ran += 1;
                    assert_eq!(graph.illegal(&order), None, "{seed} {}", strategy.name());
                    if matches!(strategy, Strategy::Latency | Strategy::Batch) {
                        let needs = values.peak(order.iter().copied());
                        let classes = [Class::R, Class::P, Class::UR, Class::UP];
                        let fits = |&class: &Class| needs[class as usize] <= limits[class as usize];
                        match classes.iter().all(fits) {
                            true => within += 1,
                            false => above.push((seed, block, strategy.name())),
                        }
                    }
                }
            }
        }
    }
    // Where nothing fits, the next instruction of the reference order goes, after others did: `plan` turns such an order down.
    assert!(above.len() * 20 < within, "{within} within, {above:?}");
    for (strategy, ran) in Strategy::ALL.into_iter().zip(ran) {
        // Generated functions have no loops of one block.
        assert!(
            ran > 0
                || matches!(
                    strategy,
                    Strategy::Loop | Strategy::Tensor | Strategy::Prefetch
                ),
            "{}",
            strategy.name()
        );
    }
}

#[test]
fn loads_are_issued_before_anybody_waits_for_them() {
    let knobs = Knobs::default();
    let func = chains(8);
    let decided = plan(&func, &context(&knobs)).expect("a plan");
    let block = &decided.blocks[0];
    assert!(block.cycles.1 * 3 < block.cycles.0, "{block:?}");
    let occupancy = Occupancy::new(
        &func,
        orias_machine::Machine::of(orias_sass::Target::DEFAULT).registers,
    );
    assert!(block.registers.1 <= occupancy.free(), "{block:?}");
}

#[test]
fn time_grows_with_the_number_of_instructions() {
    let knobs = Knobs::default();
    let time = |chains_count: usize| {
        let func = chains(chains_count);
        let start = Instant::now();
        plan(&func, &context(&knobs)).expect("a plan");
        start.elapsed()
    };
    time(500);
    let (small, large) = (time(2000), time(16000));
    // Eight times as many instructions; a quadratic scheduler would take 64 times as long.
    assert!(large < small * 32, "{small:?} -> {large:?}");
}
