//! Every optimisation has a knob that turns it off, and programs mean the same without it: generated programs and those of `tests/run`, compiled with one optimisation off at a time, leave in
//! the emulator what the interpreter says.

mod generated;

use orias::run::{Code, Emulation, Engine, Launch, Request, run};
use orias::{Options, Source, Target, compile};
use orias_codegen::knobs::{DefaultValue, Knobs, registry::KNOBS};
use orias_filetests::parse_case;
use orias_sim::{Schedule, Timing};
use std::path::Path;

/// Generated programs that are tried with each switch.
const SEEDS: std::ops::Range<u64> = 0..6;

/// Tests with loops, branches, calls and barriers that are tried with each switch.
const FILES: [&str; 7] = [
    "calls.ptx",
    "control.ptx",
    "counted.ptx",
    "guarded_elements.ptx",
    "hoisted_loads.ptx",
    "local_arrays.ptx",
    "staged_rows.ptx",
];

/// Knobs that are on by default and are no optimisations: code without them is wrong, or other than asked for.
const NEEDED: [&str; 1] = ["MercGenerateWARs"];

/// Optimisations that are limited by a number, and the number that leaves nothing of them.
const LIMITS: [(&str, &str); 9] = [
    ("HoistLoadsBlocks", "0"),
    ("HoistLoadsWords", "0"),
    ("IfConversionSize", "0"),
    ("IfConversionUniformSize", "0"),
    ("SchedCrossBlock", "2"),
    ("SchedCrossBlockInstsToSpeculate", "0"),
    ("UnrollFactor", "1"),
    ("UnrollFullSize", "0"),
    ("UnrollKnownFactor", "1"),
];

/// What turns one optimisation off, for each of them.
fn switches() -> Vec<String> {
    let on = |knob: &&&orias_codegen::knobs::Knob| {
        matches!(knob.default, DefaultValue::Bool(true)) && !NEEDED.contains(&knob.name)
    };
    let bools = KNOBS
        .iter()
        .filter(on)
        .map(|knob| format!("{}=off", knob.name));
    let limits = LIMITS.map(|(name, value)| format!("{name}={value}"));
    bools.chain(limits).collect()
}

fn cubin(text: &[u8], switch: Option<&str>) -> Vec<u8> {
    let mut knobs = Knobs::default();
    if let Some(switch) = switch {
        knobs.set(switch).expect("a knob");
    }
    let options = Options {
        target: Target::parse("sm_90a").expect("a target"),
        contract: Some(false),
        knobs,
        ..Options::default()
    };
    let source = Source { name: "p", text };
    let compiled = compile(&source, &options);
    let compiled = compiled.unwrap_or_else(|errors| panic!("{switch:?}: {errors:?}"));
    compiled.cubin.expect("code")
}

/// Runs PTX in the interpreter, or a cubin in the emulator, and says what came of it.
type Run = dyn Fn(&[u8], bool) -> String;

/// A program, and how it is run.
struct Sample {
    name: String,
    text: String,
    run: Box<Run>,
}

fn of_seed(seed: u64) -> Sample {
    let (text, launch) = generated::program(seed);
    let launch = Launch {
        emulation: Emulation {
            timing: Timing::Strict,
            schedule: Schedule::Adversarial,
            ..Emulation::default()
        },
        ..launch
    };
    let run = move |code: &[u8], compiled: bool| {
        let (code, engine) = match compiled {
            true => (Code::Cubin(code), Engine::Emulator),
            false => (Code::Ptx(code), Engine::Interpreter),
        };
        let done = run(code, &launch, engine, &mut |_, _| ()).expect("a sound program");
        format!("{:?} {:?} {:?}", done.fault, done.findings, done.buffers[1])
    };
    Sample {
        name: format!("seed {seed}"),
        text,
        run: Box::new(run),
    }
}

fn of_file(file: &str) -> Sample {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/run");
    let path = folder.join(file);
    let text = std::fs::read_to_string(&path).expect("a readable test");
    let case = parse_case(&path, &text).expect("a sound test");
    let input = case.input.to_owned();
    let common: Vec<String> = case.arguments.iter().map(|&word| word.to_owned()).collect();
    let lines: Vec<Vec<String>> = (input.lines())
        .filter_map(|line| line.strip_prefix("//")?.trim_start().strip_prefix("run:"))
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .filter(|words: &Vec<String>| !words.iter().any(|word| word.starts_with("-O")))
        .collect();
    assert!(!lines.is_empty(), "{file} says nothing of how it is run");
    let run = move |code: &[u8], compiled: bool| {
        let engine: &[&str] = match compiled {
            true => &["--timing", "strict"],
            false => &["--interpret"],
        };
        let mut all = String::new();
        for line in &lines {
            // Whoever runs it is chosen here.
            let words = common.iter().chain(line).map(String::as_str);
            let words =
                words.filter(|word| !["--interpret", "--check-uninitialised"].contains(word));
            let words: Vec<&str> = engine.iter().copied().chain(words).collect();
            let request = Request::parse_words(&words).expect("a sound request");
            let done = request.execute(code, &mut |_, _| ()).expect("it runs");
            all += &format!("{}{:?}\n", done.output, done.failure);
        }
        all
    };
    Sample {
        name: file.to_owned(),
        text: input,
        run: Box::new(run),
    }
}

#[test]
fn programs_mean_the_same_with_each_optimisation_off() {
    let samples: Vec<Sample> = (SEEDS.map(of_seed)).chain(FILES.map(of_file)).collect();
    let meant: Vec<String> = (samples.iter())
        .map(|sample| (sample.run)(sample.text.as_bytes(), false))
        .collect();
    let usual: Vec<Vec<u8>> = (samples.iter())
        .map(|sample| cubin(sample.text.as_bytes(), None))
        .collect();
    let mut idle = Vec::new();
    for switch in switches() {
        let mut changed = false;
        for (sample, (meant, usual)) in samples.iter().zip(meant.iter().zip(&usual)) {
            let code = cubin(sample.text.as_bytes(), Some(&switch));
            // The same code was run with another switch, or will be without any.
            if code == *usual {
                continue;
            }
            changed = true;
            let done = (sample.run)(&code, true);
            assert_eq!(&done, meant, "{} with {switch}", sample.name);
        }
        if !changed {
            idle.push(switch);
        }
    }
    for (sample, (meant, usual)) in samples.iter().zip(meant.iter().zip(&usual)) {
        assert_eq!(&(sample.run)(usual, true), meant, "{}", sample.name);
    }
    println!("without effect on the samples: {idle:?}");
    for switch in ACTIVE {
        assert!(
            !idle.iter().any(|it| it == switch),
            "{switch} changes nothing"
        );
    }
}

/// Switches that change the code of a sample for sure.
const ACTIVE: [&str; 4] = [
    "HoistLoads=off",
    "LoopUnrolling=off",
    "SchedulingEnable=off",
    "ShareConstants=off",
];
