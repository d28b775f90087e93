//! What the compiler makes of a program does in the emulator what the interpreter says the program means.

mod generated;

use orias::run::{Code, Emulation, Engine, Launch, Request, run};
use orias::{Options, Source, Target, compile};
use orias_filetests::{find_files, parse_case};
use orias_sim::{Schedule, Timing};
use std::path::{Path, PathBuf};

/// The cubin of a module without contraction, which the interpreter does not do; or what is not compiled.
fn cubin(text: &[u8], level: u8) -> Result<Vec<u8>, String> {
    let options = Options {
        target: Target::parse("sm_90a").expect("a target"),
        opt_level: level,
        contract: Some(false),
        ..Options::default()
    };
    match compile(&Source { name: "p", text }, &options) {
        Ok(compiled) => Ok(compiled.cubin.expect("a cubin was asked for")),
        Err(diagnostics) => Err(format!("{diagnostics:?}")),
    }
}

#[test]
fn generated_programs_do_what_they_mean() {
    for seed in 0..100 {
        let (text, launch) = generated::program(seed);
        let meant = run(
            Code::Ptx(text.as_bytes()),
            &launch,
            Engine::Interpreter,
            &mut |_, _| (),
        )
        .expect("the program is sound");
        assert_eq!(meant.fault, None, "seed {seed}");
        for (level, timing, schedule) in [
            (0, Timing::Strict, Schedule::InOrder),
            (3, Timing::Strict, Schedule::InOrder),
            (3, Timing::Random(seed), Schedule::InOrder),
            (0, Timing::Off, Schedule::Adversarial),
            (3, Timing::Strict, Schedule::Adversarial),
            (3, Timing::Strict, Schedule::Random(seed)),
        ] {
            let image = cubin(text.as_bytes(), level).expect("it is compiled");
            let timed = Launch {
                emulation: Emulation {
                    timing,
                    schedule,
                    ..Emulation::default()
                },
                ..launch.clone()
            };
            let done = run(
                Code::Cubin(&image),
                &timed,
                Engine::Emulator,
                &mut |_, _| (),
            )
            .expect("the emulator takes it");
            assert_eq!(done.fault, None, "seed {seed}, -O{level}, {schedule:?}");
            assert!(done.findings.is_empty(), "{:?}", done.findings);
            assert!(
                done.buffers[1] == meant.buffers[1],
                "seed {seed}, -O{level}, {timing:?}, {schedule:?}: another result"
            );
        }
    }
}

#[test]
fn kernels_of_the_run_tests_do_what_the_interpreter_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/run");
    let mut compared = 0;
    let mut refused = Vec::new();
    // Some say themselves who runs them, and how: those of `schedules`, and lines with such an option.
    let chosen = ["--interpret", "-O", "--timing", "--schedule"];
    let chooses = |word: &&str| chosen.iter().any(|option| word.starts_with(option));
    let files = find_files(&folder).expect("the tests are there");
    let is_compiled = |path: &&PathBuf| {
        path.extension().is_some_and(|it| it == "ptx")
            && !path.starts_with(folder.join("schedules"))
    };
    for path in files.iter().filter(is_compiled) {
        let text = std::fs::read_to_string(path).expect("a readable test");
        let case = parse_case(path, &text).expect("a sound test");
        let image = match cubin(case.input.as_bytes(), 3) {
            Ok(image) => image,
            Err(why) => {
                refused.push(format!("{}: {why}", path.display()));
                continue;
            }
        };
        let lines = case.input.lines().filter_map(|line| {
            let line = line.strip_prefix("//")?;
            line.trim_start().strip_prefix("run:")
        });
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.iter().any(chooses) {
                continue;
            }
            let interpreted = ["--interpret"].iter().chain(&words).copied();
            let meant = Request::parse_words(&interpreted.collect::<Vec<_>>())
                .expect("a sound request")
                .execute(case.input.as_bytes(), &mut |_, _| ());
            let Ok(meant) = meant else { continue };
            if meant.failure.is_some() {
                continue;
            }
            for schedule in ["in-order", "adversarial", "random:1"] {
                let emulated = ["--timing", "strict", "--schedule", schedule];
                let emulated = emulated.iter().chain(&words).copied();
                let done = Request::parse_words(&emulated.collect::<Vec<_>>())
                    .expect("a sound request")
                    .execute(&image, &mut |_, _| ())
                    .expect("the emulator takes it");
                let place = format!("{}: {line}, {schedule}", path.display());
                assert_eq!(done.failure, None, "{place}");
                assert_eq!(done.output, meant.output, "{place}");
            }
            compared += 1;
        }
    }
    assert!(refused.is_empty(), "not compiled:\n{}", refused.join("\n"));
    assert!(compared > 10, "only {compared} launches were compared");
}
