//! Scheduling on physical registers: legal, never worse by its own model, at rest after one run, and what its reports say.

use orias_codegen::knobs::{Knobs, WhenList};
use orias_codegen::schedule::build::{Builder, Exits, Fences};
use orias_codegen::schedule::post::{self, Alternative, Options};
use orias_codegen::scoreboard::{Insertions, schedule_waits};
use orias_generate::ori::{Size, function};
use orias_machine::Machine;
use orias_ori::analysis::{DepthFirst, FlowGraph, RegisterLiveness};
use orias_ori::{Function, Inst, Level, parse_function, print_function, verify_function};
use orias_sass::{Op, Target};
use std::collections::BTreeMap;

fn parsed(lines: &[&str]) -> Function {
    let text = format!(
        "entry k physical sm_90a {{\n  fixed R1\nblock0:\n    {}\n    EXIT PT\n}}\n",
        lines.join("\n    ")
    );
    let func = parse_function(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    if let Err(errors) = verify_function(&func) {
        panic!("{errors:?}");
    }
    func
}

fn random_functions() -> impl Iterator<Item = Function> {
    let sizes = [
        Size::default(),
        Size {
            blocks: 12,
            insts: 30,
        },
    ];
    (0..120).map(move |seed| function(seed, Level::Physical, sizes[(seed % 2) as usize]))
}

/// Whether `after` is `before` with the instructions of each block in an order that the graphs of `before` allow.
fn assert_legal(before: &Function, after: &Function) {
    let flow = FlowGraph::of(before);
    let walk = DepthFirst::new(&flow);
    let live = RegisterLiveness::new(before, &flow, &walk);
    let mut builder = Builder::new(before, Exits::Registers(&live), Fences::none());
    for block in before.blocks() {
        let graph = builder.build(block);
        let nodes: BTreeMap<Inst, u32> = graph
            .nodes
            .iter()
            .enumerate()
            .map(|(index, node)| (node.inst, index as u32))
            .collect();
        let order: Vec<u32> = after.block_insts(block).map(|inst| nodes[&inst]).collect();
        assert_eq!(graph.illegal(&order), None, "{}", print_function(after));
    }
}

#[test]
fn random_orders_are_legal_and_depend_on_the_seed_alone() {
    let mut moved = 0;
    for func in random_functions() {
        let mut first = func.clone();
        post::shuffle(&mut first, 7).expect("an order");
        let mut again = func.clone();
        post::shuffle(&mut again, 7).expect("an order");
        assert_eq!(print_function(&first), print_function(&again));
        assert_legal(&func, &first);
        moved += usize::from(print_function(&first) != print_function(&func));
    }
    assert!(moved > 60, "{moved}");
}

#[test]
fn the_canonical_order_of_a_block_is_the_same_whatever_order_it_comes_in() {
    let knobs = Knobs::default();
    let options = Options::of(&knobs);
    let mut moved = 0;
    for func in random_functions() {
        let mut expected = func.clone();
        post::canonical(&mut expected, &options).expect("an order");
        assert_legal(&func, &expected);
        moved += usize::from(print_function(&expected) != print_function(&func));
        for seed in 0..3 {
            let mut other = func.clone();
            post::shuffle(&mut other, seed).expect("an order");
            post::canonical(&mut other, &options).expect("an order");
            assert_eq!(print_function(&other), print_function(&expected));
        }
    }
    assert!(moved > 60, "{moved}");
}

#[test]
fn alternative_orders_are_legal_and_bad_ones_wait_longer() {
    let (mut good, mut bad) = (0, 0);
    let knobs = Knobs::default();
    let mut options = Options::of(&knobs);
    let keep = WhenList::always();
    options.keep = &keep;
    for func in random_functions() {
        let cycles = |worse| {
            let mut other = func.clone();
            post::alternative(&mut other, Alternative { worse, seed: 7 }).expect("an order");
            assert_legal(&func, &other);
            let kept = post::reorder(&mut other, &options).expect("what it costs");
            kept.iter().map(|block| block.after).sum::<u32>()
        };
        good += cycles(0);
        bad += cycles(100);
    }
    assert!(good < bad, "{good} {bad}");
}

#[test]
fn new_orders_are_legal_never_longer_by_the_model_and_final() {
    let knobs = Knobs::default();
    let options = Options::of(&knobs);
    let mut shorter = 0;
    for func in random_functions() {
        let mut scheduled = func.clone();
        let changes = post::reorder(&mut scheduled, &options).expect("an order");
        assert_legal(&func, &scheduled);
        shorter += changes
            .iter()
            .filter(|change| change.after < change.before)
            .count();
        let once = print_function(&scheduled);
        post::reorder(&mut scheduled, &options).expect("an order");
        assert_eq!(print_function(&scheduled), once);
    }
    assert!(shorter > 100, "{shorter}");
}

#[test]
fn a_shuffled_block_gets_back_to_what_scheduling_makes_of_it() {
    let knobs = Knobs::default();
    let options = Options::of(&knobs);
    let func = parsed(&[
        "LDS R4, [R2]",
        "LDS R5, [R2+0x4]",
        "FADD R6, R4, R5",
        "FADD R7, R8, R9",
        "FADD R10, R7, R6",
        "STS [R2+0x8], R10",
    ]);
    let mut lengths = Vec::new();
    for seed in 0..10 {
        let mut shuffled = func.clone();
        post::shuffle(&mut shuffled, seed).expect("an order");
        let changes = post::reorder(&mut shuffled, &options).expect("an order");
        lengths.push(changes[0].after);
    }
    assert!(
        lengths.windows(2).all(|pair| pair[0] == pair[1]),
        "{lengths:?}"
    );
}

#[test]
fn cycles_by_words_count_stalls_and_waits() {
    let mut func = parsed(&["LDS R4, [R2]", "FADD R5, R4, R4", "STS [R2+0x4], R5"]);
    schedule_waits(&mut func, Insertions::Forbidden).expect("control words");
    let cycles = post::cycles_by_words(&func);
    assert_eq!(cycles.len(), 1);
    // The load takes a while, of which its own stall is a small part.
    let load = Machine::of(Target::DEFAULT)
        .timing(Op::LDS)
        .and_then(|timing| timing.typical);
    let load = u32::from(load.expect("a variable latency").cycles);
    assert!(cycles[0].waited + 8 >= load, "{cycles:?}");
    assert!(cycles[0].cycles > load + 4, "{cycles:?}");
}

fn story() -> Vec<post::FunctionSchedule> {
    let func = parsed(&[
        "LDS R4, [R2]",
        "FADD R5, R4, R4",
        "ISETP.LT.AND P0, PT, R5, R4, PT",
        "@P0 STS [R2+0x4], R5",
    ]);
    let knobs = Knobs::default();
    vec![post::tell(&func, &Options::of(&knobs)).expect("a story")]
}

#[test]
fn the_report_names_cycles_causes_registers_and_the_longest_chain() {
    let story = story();
    let block = &story[0].blocks[0];
    let load = block.lines[0].latency;
    assert!(load > 10, "{load}");
    assert_eq!(block.lines[1].issue, load);
    assert_eq!(block.lines[1].blamed, Some(0));
    assert!(
        block.lines[1].cause.contains("RAW"),
        "{}",
        block.lines[1].cause
    );
    assert_eq!(block.lines[0].live, 2);
    assert!(block.lines.iter().take(4).all(|line| line.critical));
}

#[test]
fn long_blocks_are_scheduled_in_linear_time() {
    let time = |instructions: usize| {
        let mut text = vec!["S2R R2, SR_TID.X".to_owned()];
        for index in 1..instructions {
            let register = 4 + index % 64;
            text.push(match index % 4 {
                0 => format!("STS [R2+0x{:x}], R{register}", index % 1024 * 4),
                1 => format!("LDS R{register}, [R2+0x{:x}]", index % 1024 * 4),
                _ => format!(
                    "IADD3 R{register}, PT, PT, R{}, R2, RZ",
                    4 + (index + 7) % 64
                ),
            });
        }
        let lines: Vec<&str> = text.iter().map(String::as_str).collect();
        let mut func = parsed(&lines);
        let knobs = Knobs::default();
        let start = std::time::Instant::now();
        post::reorder(&mut func, &Options::of(&knobs)).expect("an order");
        start.elapsed().as_secs_f64()
    };
    time(1000);
    let (small, large) = (time(4000), time(64000));
    assert!(
        large < small * 16.0 * 8.0 + 1.0,
        "{small} s, then {large} s"
    );
}

/// The operations of a block in order, by name.
fn operations(func: &Function, number: usize) -> Vec<&'static str> {
    let block = func.blocks().nth(number).expect("a block");
    let ops = func.block_insts(block).map(|inst| func.opcode(inst));
    ops.filter_map(|op| op.as_machine()).map(Op::name).collect()
}

#[test]
fn a_store_goes_before_what_waits_until_the_stores_of_the_block_before_have_read_their_sources() {
    let text = "entry k physical sm_90a {
  fixed R1
block0:
    STG.E [R2..R3], R4
    STG.E [R6..R7], R5
    BRA PT, block1
block1:
    FADD R7, R10, R10
    FMUL R7, R7, R10
    STG.E [R12..R13], R11
    STG.E [R14..R15], R7
    EXIT PT
}
";
    let mut func = parse_function(text).unwrap_or_else(|error| panic!("{error}"));
    let knobs = Knobs::default();
    post::reorder(&mut func, &Options::of(&knobs)).expect("an order");
    let ops = operations(&func, 1);
    assert!(ops[0].starts_with("STG"), "{}", print_function(&func));
}

#[test]
fn what_does_not_lead_to_the_first_loads_goes_behind_them_where_nobody_chose_an_order() {
    let func = parsed(&[
        "S2R R0, SR_TID.X",
        "MOV R20, 1, 0xf",
        "MOV R21, 2, 0xf",
        "MOV R22, 3, 0xf",
        "MOV R23, 4, 0xf",
        "IMAD.WIDE.U32 R4..R5, PT, R0, R6, R2..R3",
        "LDG.E PT, R8, [R4..R5], PT",
        "FADD R8, R8, R20",
        "FADD R8, R8, R21",
        "FADD R8, R8, R22",
        "FADD R8, R8, R23",
        "STG.E [R4..R5], R8",
    ]);
    let knobs = Knobs::default();
    let options = Options {
        fresh: true,
        ..Options::of(&knobs)
    };
    for seed in 0..4 {
        let mut func = func.clone();
        post::shuffle(&mut func, seed).expect("an order");
        post::canonical(&mut func, &options).expect("an order");
        post::reorder(&mut func, &options).expect("an order");
        let ops = operations(&func, 0);
        let place = |start: &str| ops.iter().position(|op| op.starts_with(start));
        assert_eq!(place("LDG"), Some(2), "{}", print_function(&func));
    }
}
