//! Finished code in a new order: the same results, no hazards, and containers that still say the truth about it.

mod kernels;

use kernels::{KERNELS, Kernel};
use orias::reschedule::{Knobs, Request, Rescheduled, reschedule};
use orias::run::{Code, Engine, Finished, run};
use orias_cubin::Cubin;
use orias_cubin::attribute::{Value, id};
use orias_sass::{Op, Target};

fn assembled(kernel: &Kernel) -> Cubin {
    orias::assemble_cubin(&kernel.source("sass"), Target::Sm90a)
        .unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn named(name: &str) -> &'static Kernel {
    let found = KERNELS.iter().find(|kernel| kernel.name == name);
    found.expect("a kernel of this name")
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

fn emulate(cubin: &Cubin, kernel: &Kernel) -> Finished {
    let bytes = cubin.write().expect("a cubin that can be written");
    run(
        Code::Cubin(&bytes),
        &kernel.launch(),
        Engine::Emulator,
        &mut |_, _| {},
    )
    .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn kernels_from_random_orders_leave_what_they_left_before() {
    let mut changed = 0;
    for kernel in KERNELS {
        let (name, cubin) = (kernel.name, assembled(kernel));
        let before = emulate(&cubin, kernel);
        for shuffle in [None, Some(0), Some(1), Some(2), Some(3)] {
            let done = rescheduled(&cubin, shuffle);
            let verdict = orias_verify::judge(&done.cubin).expect("code that can be judged");
            assert!(
                verdict.findings.is_empty(),
                "{name}: {:?}",
                verdict.findings
            );
            changed += done.report.changed().1;
            let after = emulate(&done.cubin, kernel);
            assert_eq!(after.buffers, before.buffers, "{name}, {shuffle:?}");
        }
    }
    assert!(changed > 20, "{changed}");
}

#[test]
fn without_a_shuffle_no_function_gets_longer() {
    for kernel in KERNELS {
        let name = kernel.name;
        let done = rescheduled(&assembled(kernel), None);
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
fn what_comes_of_random_orders_is_the_same_for_all_of_them() {
    for kernel in KERNELS {
        let cubin = assembled(kernel);
        let bytes = |seed| {
            let done = rescheduled(&cubin, Some(seed));
            done.cubin.write().expect("a cubin that can be written")
        };
        let expected = bytes(5);
        for seed in [5, 6, 7] {
            assert!(bytes(seed) == expected, "{}, {seed}", kernel.name);
        }
    }
}

#[test]
fn attributes_name_the_instructions_they_named() {
    for kernel in KERNELS {
        let name = kernel.name;
        let done = rescheduled(&assembled(kernel), Some(9));
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
    let done = rescheduled(&assembled(named("axpy")), Some(1));
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
