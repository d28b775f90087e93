//! Orders: legal, within their budget, the same every time, and found in linear time.

use orias_codegen::knobs::Knobs;
use orias_codegen::pipeline::Context;
use orias_codegen::schedule::budget::{Occupancy, hard_limit};
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

/// What was tried for the only block of `func`.
fn tried(func: &Function, opt_level: u8, settings: &[&str]) -> Vec<&'static str> {
    let mut knobs = Knobs::default();
    for setting in settings {
        knobs.set(setting).expect("a knob");
    }
    let context = Context {
        opt_level,
        ..context(&knobs)
    };
    let decided = plan(func, &context).expect("a plan");
    decided.blocks[0].tried.iter().map(|it| it.0).collect()
}

#[test]
fn modes_run_where_their_options_let_them() {
    let func = chains(8);
    let reduces = |opt_level, settings: &[&str]| {
        let settings = [&["SchedReduceIncLimit=0"], settings].concat();
        tried(&func, opt_level, &settings).contains(&Mode::ReduceReg.name())
    };
    assert!(reduces(3, &[]));
    assert!(!reduces(2, &[]));
    assert!(!reduces(3, &["ScheduleInstructionsReduceReg=false"]));
    assert!(!reduces(
        3,
        &["ScheduleInstructionsReduceRegNot=WHEN=block:0"]
    ));
    assert!(reduces(
        3,
        &["ScheduleInstructionsReduceRegNot=WHEN=block:1"]
    ));

    let func = products();
    let batches = |settings: &[&str]| tried(&func, 3, settings).contains(&Mode::DynBatch.name());
    assert!(batches(&[]));
    assert!(!batches(&["ScheduleInstructionsDynBatch=false"]));
    assert!(!batches(&["ScheduleInstructionsDynBatchNot=WHEN=block:0"]));
    assert!(batches(&["ScheduleInstructionsDynBatchNot=WHEN=block:1"]));
    // ILP has no gate.
    assert!(tried(&func, 1, &["ScheduleInstructionsDynBatch=false"]).contains(&Mode::Ilp.name()));
}

#[test]
fn other_numbers_of_registers_that_are_said_to_make_no_difference_make_none() {
    const R: usize = Class::R as usize;
    let knobs = Knobs::default();
    let context = context(&knobs);
    let (mut fewer, mut more, mut other) = (0, 0, 0);
    for seed in 0..150 {
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
            let find = |spare: i32, window: Option<usize>| {
                let mut limits = peak;
                limits[R] += spare;
                let mut settings = options.settings(Mode::Ilp, block, false, limits);
                settings.window = window;
                let task = Task {
                    graph: &graph,
                    timeline: &timeline,
                    values: &values,
                    reference: &reference,
                    known: None,
                    settings,
                    carried: &[],
                };
                Strategy::Latency.run(&task).expect("an order")
            };
            for window in [None, Some(6)] {
                let orders: Vec<_> = (0..12).map(|spare| find(spare, window)).collect();
                for (spare, known) in orders.iter().enumerate() {
                    assert!(known.same.contains(&(peak[R] + spare as i32)), "{seed}");
                    for (asked, found) in orders.iter().enumerate() {
                        if known.same.contains(&(peak[R] + asked as i32)) {
                            assert_eq!(known.order, found.order, "{seed} {block} {spare} {asked}");
                            fewer += usize::from(asked < spare);
                            more += usize::from(asked > spare);
                        } else {
                            other += usize::from(known.order != found.order);
                        }
                    }
                }
            }
        }
    }
    assert!(
        fewer > 100 && more > 100 && other > 100,
        "{fewer} {more} {other}"
    );
}

/// Two matrix products of loaded operands.
fn products() -> Function {
    let text = "entry k machine sm_90a {\nblock0:\n    S2R v0:r, SR_TID.X\n    \
        LDS.128 v1:rx4, [v0]\n    LDS.64 v2:rx2, [v0+0x10]\n    LDS.128 v3:rx4, [v0+0x20]\n    \
        HMMA.16816.F32 v4:rx4, v1, v2, v3, UPT\n    LDS.128 v5:rx4, [v0+0x30]\n    \
        HMMA.16816.F32 v6:rx4, v1, v2, v5, UPT\n    STS.128 [v0+0x40], v4\n    STS.128 [v0+0x50], v6\n    EXIT PT\n}\n";
    parse_function(text).unwrap_or_else(|error| panic!("{error}"))
}

/// How many blocks of generated functions get another order from ILP with a knob set.
fn differs(setting: &str) -> usize {
    let usual = Knobs::default();
    let mut other = Knobs::default();
    other.set(setting).expect("a knob");
    let size = Size {
        blocks: 3,
        insts: 60,
    };
    let mut changed = 0;
    for seed in 0..200 {
        let func = generate::function(seed, Level::Machine, size);
        let flow = FlowGraph::of(&func);
        let live = Liveness::new(&func, &flow);
        let mut builder = Builder::new(&func, Exits::Values(&live), Fences::none());
        let mut numbers = Numbering::default();
        for block in func.blocks() {
            let graph: Graph = builder.build(block);
            let timeline = Timeline::new(&graph);
            let values = BlockValues::new(&func, &graph, &live, &mut numbers);
            let reference: Vec<u32> = (0..graph.len() as u32).collect();
            let limits = values.peak(reference.iter().copied());
            let [before, after] = [&usual, &other].map(|knobs| {
                let options = Options::new(&func, &context(knobs)).expect("right knobs");
                let task = Task {
                    graph: &graph,
                    timeline: &timeline,
                    values: &values,
                    reference: &reference,
                    known: None,
                    settings: options.settings(Mode::Ilp, block, false, limits),
                    carried: &[],
                };
                Strategy::Latency.run(&task).map(|found| found.order)
            });
            changed += usize::from(before != after);
        }
    }
    changed
}

#[test]
fn constant_memory_is_cold_while_the_budget_lasts() {
    assert_eq!(differs("SchedColdBudget=64"), 0);
    assert!(differs("SchedColdBudget=0") > 0);
    // The budget counts down: one cold instruction is told from others, the rest is not.
    assert!(differs("SchedColdBudget=1") > 0);
}

#[test]
fn nothing_passes_the_end_of_a_piece_of_a_large_block() {
    // Sums that need nothing but the first instruction.
    let last_first = |count: u32| {
        let mut text = "entry k machine sm_90a {\nblock0:\n    S2R v0:r, SR_TID.X\n".to_owned();
        for number in 1..=count {
            let _ = writeln!(text, "    FADD v{number}:r, v0, 0x3f800000");
        }
        text += "    EXIT PT\n}\n";
        let func = parse_function(&text).unwrap_or_else(|error| panic!("{error}"));
        let flow = FlowGraph::of(&func);
        let live = Liveness::new(&func, &flow);
        let mut builder = Builder::new(&func, Exits::Values(&live), Fences::none());
        let graph: Graph = builder.build(func.blocks().next().expect("a block"));
        let rest = (1..graph.len() as u32).filter(|&node| node != count);
        let order: Vec<u32> = [0, count].into_iter().chain(rest).collect();
        graph.illegal(&order).is_none()
    };
    assert!(last_first(4000));
    assert!(!last_first(4200));
}

#[test]
fn a_large_function_is_scheduled_block_by_block_under_one_budget() {
    let knobs = Knobs::default();
    let budget = |count| {
        let decided = plan(&chains(count), &context(&knobs)).expect("a plan");
        decided.budget
    };
    let files = orias_machine::Machine::of(orias_sass::Target::DEFAULT).registers;
    let hard = hard_limit(&chains(1), files, 0);
    assert!(budget(4000) < hard);
    assert_eq!(budget(4200), hard);
}

/// A block that adds up `count` words of a list, whose places it computes first and which it loads then.
fn listed(count: usize) -> Function {
    let mut text = "entry k machine sm_90a {\nblock0:\n    S2R v0:r, SR_TID.X\n".to_owned();
    for number in 0..count {
        let _ = writeln!(
            text,
            "    IADD3 v{}:r, PT, PT, v{number}, {}, RZ",
            number + 1,
            4 + number % 3
        );
    }
    for number in 0..count {
        let _ = writeln!(text, "    LDS v{}:r, [v{}]", 1000 + number, number + 1);
    }
    let _ = writeln!(text, "    MOV v2000:r, 7, 15");
    for number in 0..count {
        let (sum, load) = (2000 + number, 1000 + number);
        let _ = writeln!(text, "    IMAD v{}:r, v{sum}, v{load}, RZ", sum + 1);
    }
    let _ = writeln!(text, "    STS [v0], v{}\n    EXIT PT\n}}", 2000 + count);
    parse_function(&text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_budget_that_lets_more_warps_run_is_kept() {
    let knobs = Knobs::default();
    let func = listed(34);
    let had = registers(&func);
    let decided = plan(&func, &context(&knobs)).expect("a plan");
    let files = orias_machine::Machine::of(orias_sass::Target::DEFAULT).registers;
    let occupancy = Occupancy::new(&func, files);
    let below = occupancy
        .below(had)
        .expect("more warps with fewer registers");
    assert!(decided.budget <= below, "{had}: {decided:?}");
    assert!(decided.needed <= below, "{had}: {decided:?}");
}

/// A block that loads `count` words of global memory, raises two to each `times` times, and stores what comes out.
fn streamed(count: usize, times: usize) -> Function {
    let mut text =
        "entry k machine sm_90a {\n  max_threads 128 1 1\n  required_threads\nblock0:\n    \
        ULDC.64 v0:urx2, c[0x0][0x208]\n    LDC.64 v1:rx2, c[0x0][RZ+0x210]\n"
            .to_owned();
    for number in 0..count {
        let (value, offset) = (2 + number, number * 512);
        let _ = writeln!(
            text,
            "    LDG.E PT, v{value}:r, desc[v0][v1.64+{offset:#x}], PT"
        );
    }
    for number in 0..count {
        let mut last = 2 + number;
        for time in 1..=times {
            let next = 2 + number + time * count;
            let _ = writeln!(text, "    MUFU.EX2 v{next}:r, v{last}");
            last = next;
        }
        let offset = 0x10000 + number * 512;
        let _ = writeln!(text, "    STG.E desc[v0][v1.64+{offset:#x}], v{last}");
    }
    text += "    EXIT PT\n}\n";
    parse_function(&text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn warps_are_kept_where_memory_is_as_busy_as_the_units() {
    let knobs = Knobs::default();
    let func = streamed(34, 8);
    let had = registers(&func);
    let decided = plan(&func, &context(&knobs)).expect("a plan");
    let files = orias_machine::Machine::of(orias_sass::Target::DEFAULT).registers;
    let occupancy = Occupancy::new(&func, files);
    // All loads at once would be quicker for a warp alone.
    assert!(
        occupancy.warps(had) < occupancy.warps(decided.needed),
        "{had}: {decided:?}"
    );
}
