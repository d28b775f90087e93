//! The driver runs the rows it should, in order, and says what it does.

use orias_codegen::knobs::{Key, Knob, Knobs};
use orias_codegen::pipeline::{
    Context, Event, Failure, Feature, Gate, PHASES, Phase, PhaseError, Pipeline, Run, Stage,
    find_phase,
};
use orias_ori::{Function, FunctionKind, Level};

static SWITCH: Key<bool> = Key::<bool>::new(1, "Switch", true, "P", "");
static REGISTRY: &[&Knob] = &[&SWITCH.knob];

/// A phase that leaves its mark in the function's name.
fn mark(function: &mut Function, context: &Context<'_>) -> Result<(), PhaseError> {
    function.name += &format!("+O{}", context.opt_level);
    Ok(())
}

fn fail(_: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    Err(PhaseError::Broken {
        at: "inst7".into(),
        what: "has no operands".into(),
    })
}

fn select(function: &mut Function, _: &Context<'_>) -> Result<(), PhaseError> {
    function.level = Level::Machine;
    Ok(())
}

fn row(name: &'static str) -> Phase {
    Phase {
        number: 1,
        name,
        stage: Stage::Optimize,
        levels: Level::Abstract..=Level::Final,
        gate: Gate {
            opt_levels: 0..=3,
            feature: None,
            knobs: [None, None],
        },
        run: Run::Ori(mark),
        about: "",
    }
}

/// Runs `pipeline` and lists what happened.
fn trace(
    pipeline: &Pipeline<'_>,
    opt_level: u8,
    knobs: &Knobs,
) -> (Vec<String>, Result<(), Failure>) {
    let mut function = Function::new(
        "f",
        FunctionKind::Entry,
        Level::Abstract,
        orias_sass::Target::Sm90,
    );
    let mut events = Vec::new();
    let context = Context {
        opt_level,
        knobs,
        machine: orias_machine::Machine::of(function.target),
    };
    let outcome = pipeline.run(&mut function, &context, &mut |event| {
        events.push(match event {
            Event::Before(phase, function) => format!("before {} {}", phase.name, function.name),
            Event::After(phase, function, _) => format!("after {} {}", phase.name, function.name),
            Event::BeforeMercury(phase, _) => format!("before {}", phase.name),
            Event::AfterMercury(phase, ..) => format!("after {}", phase.name),
            Event::Skipped(phase, why) => format!("skip {}: {why}", phase.name),
        });
    });
    (events, outcome)
}

#[test]
fn rows_run_in_order_and_tell_what_they_did() {
    let table = [row("A"), row("B")];
    let (events, outcome) = trace(&Pipeline::new(&table), 2, &Knobs::default());
    assert_eq!(
        events,
        [
            "before A f",
            "after A f+O2",
            "before B f+O2",
            "after B f+O2+O2"
        ]
    );
    assert_eq!(outcome, Ok(()));
}

#[test]
fn a_closed_gate_passes_a_row_over_and_says_why() {
    let mut level = row("Level");
    level.gate.opt_levels = 2..=3;
    let mut knob = row("Knob");
    knob.gate.knobs[0] = Some(&SWITCH);
    // The second of two knobs, where the first is open.
    let mut second = row("Second");
    second.gate.knobs[1] = Some(&SWITCH);
    let mut feature = row("Feature");
    feature.gate.feature = Some(Feature {
        name: "wings",
        present: |_| false,
    });
    let table = [level, knob, second, feature];
    let mut knobs = Knobs::new(REGISTRY);
    knobs.set("Switch=off").expect("a good knob");
    let (events, _) = trace(&Pipeline::new(&table), 1, &knobs);
    assert_eq!(
        events,
        [
            "skip Level: not at -O1",
            "skip Knob: knob Switch is off",
            "skip Second: knob Switch is off",
            "skip Feature: the target has no wings",
        ]
    );
    let gates: Vec<String> = table.iter().map(|phase| phase.gate.to_string()).collect();
    assert_eq!(
        gates,
        [
            "-O2 and above",
            "always, knob Switch",
            "always, knob Switch",
            "always, target has wings",
        ]
    );
}

#[test]
fn rows_can_be_disabled_and_the_way_can_start_late_and_stop_early() {
    let table = [row("A"), row("B"), row("C"), row("D")];
    let pipeline = Pipeline {
        first: 1,
        end: 3,
        disabled: vec![2],
        ..Pipeline::new(&table)
    };
    let (events, _) = trace(&pipeline, 0, &Knobs::default());
    assert_eq!(events, ["before B f", "after B f+O0", "skip C: disabled"]);
}

#[test]
fn a_row_runs_only_on_functions_that_have_come_so_far() {
    let mut early = row("Early");
    early.levels = Level::Abstract..=Level::Abstract;
    let mut selection = row("Selection");
    selection.run = Run::Ori(select);
    let table = [early.clone(), selection, early];
    let (events, _) = trace(&Pipeline::new(&table), 0, &Knobs::default());
    assert_eq!(
        events.last().map(String::as_str),
        Some("skip Early: not on machine functions")
    );
}

#[test]
fn a_phase_that_gives_up_stops_the_pipeline_by_name() {
    let mut broken = row("Broken");
    broken.run = Run::Ori(fail);
    let table = [broken, row("Never")];
    let (events, outcome) = trace(&Pipeline::new(&table), 0, &Knobs::default());
    assert_eq!(events, ["before Broken f"]);
    assert_eq!(
        outcome.expect_err("a failure").to_string(),
        "Broken: inst7: has no operands"
    );
}

#[test]
fn phases_are_found_by_name_and_number_and_slips_are_noticed() {
    let row = PHASES.iter().position(|phase| phase.number == 29);
    assert_eq!(find_phase(PHASES, "generaloptimize").ok(), row);
    assert_eq!(find_phase(PHASES, "29").ok(), row);
    // Names that were given up.
    for (old, number) in [
        ("PredicateBranches", "10006"),
        ("shareEqualValues", "10005"),
    ] {
        let row = find_phase(PHASES, number);
        assert!(row.is_ok());
        assert_eq!(find_phase(PHASES, old), row);
    }
    assert_eq!(
        find_phase(PHASES, "GeneralOptimise"),
        Err("no phase is named 'GeneralOptimise', did you mean 'GeneralOptimize'?".into())
    );
    assert_eq!(find_phase(PHASES, "3"), Err("no phase is named '3'".into()));
}

#[test]
fn stages_follow_each_other_and_names_are_unique() {
    for pair in PHASES.windows(2) {
        assert!(pair[0].stage <= pair[1].stage);
        assert!(pair[0].levels.start() <= pair[1].levels.start());
    }
    for (index, phase) in PHASES.iter().enumerate() {
        assert_eq!(find_phase(PHASES, phase.name), Ok(index));
        assert_eq!(find_phase(PHASES, &phase.number.to_string()), Ok(index));
        assert!(phase.gate.opt_levels.start() <= phase.gate.opt_levels.end());
        assert!(*phase.gate.opt_levels.end() <= 3);
    }
}

#[test]
fn phases_of_synchronisation_have_their_gates() {
    let gates = [
        (
            25,
            "-O3 and above, knob LoopUnrolling, knob SchedulingEnable",
        ),
        (26, "-O2 and above"),
        (42, "always, target has mbarriers"),
        (71, "-O3 and above, knob SchedulingEnable"),
        (72, "always"),
        (
            91,
            "-O2 and above, target has textures whose end no barrier tells",
        ),
        (99, "-O2 and above"),
        (
            100,
            "-O2 and above, target has synchronisation that reads registers",
        ),
        (
            105,
            "-O2 and above, target has late reads that no control word protects",
        ),
        (114, "-O2 and above"),
    ];
    for (number, gate) in gates {
        let place = find_phase(PHASES, &number.to_string()).expect("a row");
        assert_eq!(PHASES[place].gate.to_string(), gate, "{number}");
    }
}

/// Between which rows of other kinds they stand: unrolling, selection (10003), the two schedulers (97, 110), the allocator (101), control words (115).
#[test]
fn phases_of_synchronisation_stand_at_their_places() {
    let order = [
        24, 25, 26, 42, 10003, 71, 72, 91, 97, 99, 100, 101, 105, 110, 114, 115,
    ];
    let places = order.map(|number| find_phase(PHASES, &number.to_string()).expect("a row"));
    assert!(places.is_sorted(), "{places:?}");
}
