//! Every phase leaves random functions sound, and what it leaves it would leave again.

use orias_codegen::knobs::Knobs;
use orias_codegen::pipeline::{Context, PHASES, Pipeline, Stage, find_phase};
use orias_generate::ori::{Size, function};
use orias_ori::{Effects, Function, print_function, verify_function};

/// The opcodes of instructions that must survive whatever happens, in reachable blocks or not.
fn count_with_effects(function: &Function) -> usize {
    function
        .blocks()
        .flat_map(|block| function.block_insts(block))
        .filter(|&inst| function.opcode(inst).effects().intersects(Effects::WRITES))
        .count()
}

/// Phases that copy instructions with effects, or add waits, which have some.
const COPYING: [&str; 5] = [
    "RotateLoops",
    "UnswitchLoops",
    "LoopUnrolling",
    "WidenAccesses",
    "WarpgroupWaits",
];

/// Phases that decide by pressure or size, which they change: a second run may find more to do.
const UNSETTLED: [&str; 4] = [
    "HoistInvariants",
    "UnswitchLoops",
    "HoistLoads",
    "LoopUnrolling",
];

/// Runs one row on a function of a level it works on.
fn run_row(row: usize, function: &mut Function) {
    let pipeline = Pipeline {
        first: row,
        end: row + 1,
        verify_each: true,
        ..Pipeline::default()
    };
    let context = Context {
        opt_level: *PHASES[row].gate.opt_levels.start(),
        knobs: &Knobs::default(),
        machine: orias_machine::Machine::of(orias_sass::Target::DEFAULT),
    };
    let mut ran = false;
    let before = print_function(function);
    let outcome = pipeline.run(function, &context, &mut |event| {
        ran |= matches!(event, orias_codegen::pipeline::Event::After(..));
    });
    assert_eq!(outcome, Ok(()), "{}\n{before}", PHASES[row].name);
    assert!(ran);
}

#[test]
fn phases_leave_random_functions_sound_and_are_done_after_one_run() {
    let sizes = [
        Size::default(),
        Size {
            blocks: 30,
            insts: 12,
        },
    ];
    // Phases that take a function to another level, or make something once, are not run twice.
    let in_place = |stage| matches!(stage, Stage::Optimize | Stage::PostRa);
    let rows = PHASES.iter().enumerate();
    for (row, phase) in rows.filter(|(_, phase)| in_place(phase.stage)) {
        let copies = COPYING.contains(&phase.name);
        for seed in 0..400 {
            let mut function = function(seed, *phase.levels.start(), sizes[(seed % 2) as usize]);
            if verify_function(&function).is_err() {
                panic!("the generator made something broken from {seed}");
            }
            let effects = count_with_effects(&function);
            run_row(row, &mut function);
            assert!(
                copies || count_with_effects(&function) <= effects,
                "{} on the function of seed {seed}",
                phase.name
            );
            let once = print_function(&function);
            run_row(row, &mut function);
            assert!(
                print_function(&function) == once || UNSETTLED.contains(&phase.name),
                "{} on the function of seed {seed}:\n{once}",
                phase.name
            );
        }
    }
}

#[test]
fn phases_only_remove_what_nobody_reaches_or_needs() {
    // Where every block is reachable, stores survive GeneralOptimize one for one.
    let row = find_phase(PHASES, "GeneralOptimize").unwrap();
    let mut compared = 0;
    for seed in 0..400 {
        let mut function = function(seed, orias_ori::Level::Abstract, Size::default());
        let blocks = function.blocks().count();
        let stores = count_with_effects(&function);
        run_row(row, &mut function);
        if function.blocks().count() == blocks {
            compared += 1;
            assert_eq!(count_with_effects(&function), stores, "seed {seed}");
        }
    }
    assert!(compared > 30, "{compared}");
}

#[test]
fn unsupported_operations_are_gone_after_their_phase_and_stay_so() {
    let row = find_phase(PHASES, "ConvertUnsupportedOps").unwrap();
    for seed in 0..400 {
        let mut function = function(seed, orias_ori::Level::Abstract, Size::default());
        run_row(row, &mut function);
        let once = print_function(&function);
        run_row(row, &mut function);
        assert_eq!(print_function(&function), once, "seed {seed}");
    }
}
