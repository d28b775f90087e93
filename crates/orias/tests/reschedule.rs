//! Finished code in a new order: the same results, no hazards, and containers that still say the truth about it.

use orias::reschedule::{Knobs, Request, Rescheduled, reschedule};
use orias::run::{Argument, Code, Emulation, Engine, Finished, Launch, run};
use orias_cubin::Cubin;
use orias_cubin::attribute::{Value, id};
use orias_sass::{Op, Target};
use orias_sim::Timing;
use std::path::Path;

fn assembled(name: &str) -> Cubin {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/kernels");
    let listing = std::fs::read_to_string(folder.join(name).with_extension("sass"))
        .expect("a readable kernel");
    orias::assemble_cubin(&listing, Target::Sm90a).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn rescheduled(cubin: &Cubin, shuffle: Option<u64>) -> Rescheduled {
    let request = Request {
        knobs: &Knobs::default(),
        shuffle,
        alternative: None,
        stories: true,
    };
    reschedule(cubin, &request).unwrap_or_else(|error| panic!("{error}"))
}

fn emulate(cubin: &Cubin, grid: u32, block: u32, shared: u32, arguments: &[&str]) -> Finished {
    let launch = Launch {
        grid: [grid, 1, 1],
        block: [block, 1, 1],
        dynamic_shared: shared,
        arguments: arguments
            .iter()
            .map(|text| Argument::parse(text).expect("an argument"))
            .collect(),
        step_limit: Some(10_000_000),
        emulation: Emulation {
            timing: Timing::Strict,
            check: true,
            cycles: false,
        },
        ..Launch::default()
    };
    let bytes = cubin.write().expect("a cubin that can be written");
    run(
        Code::Cubin(&bytes),
        &launch,
        Engine::Emulator,
        &mut |_, _| {},
    )
    .unwrap_or_else(|error| panic!("{error}"))
}

/// Kernel, CTAs, threads, shared memory, arguments.
type Row = (&'static str, u32, u32, u32, &'static [&'static str]);

const ROWS: &[Row] = &[
    (
        "axpy",
        5,
        128,
        0,
        &["buf:f32:600:rand", "buf:f32:600:rand", "f32:1.5", "i32:600"],
    ),
    ("reverse_static", 4, 128, 0, &["buf:i32:512:rand"]),
    ("rotate_dynamic", 3, 96, 384, &["buf:i32:288:rand"]),
    ("polynomial", 2, 64, 0, &["buf:i32:128:fill:7", "i32:37"]),
    (
        "local_array",
        2,
        64,
        0,
        &["buf:i32:1024:rand", "buf:i32:1024:fill:3"],
    ),
    ("constant_table", 2, 128, 0, &["buf:i32:256:rand"]),
];

#[test]
fn kernels_from_random_orders_leave_what_they_left_before() {
    let mut changed = 0;
    for (name, grid, block, shared, arguments) in ROWS {
        let cubin = assembled(name);
        let before = emulate(&cubin, *grid, *block, *shared, arguments);
        for shuffle in [None, Some(0), Some(1), Some(2), Some(3)] {
            let done = rescheduled(&cubin, shuffle);
            let verdict = orias_verify::judge(&done.cubin).expect("code that can be judged");
            assert!(
                verdict.findings.is_empty(),
                "{name}: {:?}",
                verdict.findings
            );
            changed += done.report.changed().1;
            let after = emulate(&done.cubin, *grid, *block, *shared, arguments);
            assert_eq!(after.buffers, before.buffers, "{name}, {shuffle:?}");
        }
    }
    assert!(changed > 20, "{changed}");
}

#[test]
fn without_a_shuffle_no_function_gets_longer() {
    for (name, ..) in ROWS {
        let done = rescheduled(&assembled(name), None);
        for function in &done.report.functions {
            // Waiting may move from a block to the next.
            let sum = |of: fn(&(u32, u32)) -> u32| -> u32 {
                function.blocks.iter().map(|block| of(&block.words)).sum()
            };
            let (before, after) = (sum(|words| words.0), sum(|words| words.1));
            assert!(after <= before, "{name}: {before} to {after}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let cubin = assembled("local_array");
    let bytes = |seed| {
        let done = rescheduled(&cubin, Some(seed));
        done.cubin.write().expect("a cubin that can be written")
    };
    assert_eq!(bytes(5), bytes(5));
}

#[test]
fn attributes_name_the_instructions_they_named() {
    for (name, ..) in ROWS {
        let done = rescheduled(&assembled(name), Some(9));
        for function in done.cubin.functions() {
            let words = orias::words(function.code);
            let exits: Vec<u32> = words
                .iter()
                .enumerate()
                .filter(|(_, word)| {
                    orias_sass::decode(**word, Target::Sm90a).is_ok_and(|one| one.op() == Op::EXIT)
                })
                .map(|(index, _)| 16 * index as u32)
                .collect();
            let listed = function
                .attributes
                .iter()
                .find(|attribute| attribute.id == id::EXIT_INSTR_OFFSETS);
            let listed = listed.map(|attribute| attribute.value.clone());
            assert_eq!(listed, Some(Value::Offsets(exits)), "{name}");
        }
    }
}

#[test]
fn the_report_shows_every_block_and_the_sum() {
    let done = rescheduled(&assembled("axpy"), Some(1));
    let text = done.report.to_string();
    assert!(text.contains("axpy: ") && text.contains("block1"), "{text}");
    assert!(text.contains("1 functions, "), "{text}");
    assert_eq!(done.stories.len(), 1);
    assert!(done.stories[0].blocks[0].lines.len() > 3);
}

#[test]
fn code_whose_indirect_targets_are_unknown_is_refused() {
    let listing = "\
.kernel choose
.param 8
        LDC R2, c[0x0][0x210] ;
        SHF.R.S32.HI R3, RZ, 0x1f, R2 ;
        BRX R2 -0x30 ;
        EXIT ;
";
    let Ok(cubin) = orias::assemble_cubin(listing, Target::Sm90a) else {
        panic!("the listing assembles");
    };
    let request = Request {
        knobs: &Knobs::default(),
        shuffle: None,
        alternative: None,
        stories: false,
    };
    let error = reschedule(&cubin, &request).expect_err("nobody knows where it goes");
    assert!(error.to_string().contains("indirect branch"), "{error}");
}
