//! Lowers PTX files, takes them through the phases on abstract code, and says what came of it: `lower_files FILE…`.
//!
//! One line for each file that is not supported, with the reasons, and the sums. With `--print` the code.

use orias_codegen::knobs::Knobs;
use orias_codegen::lower::{LowerOptions, lower};
use orias_codegen::pipeline::{Context, Failure, PHASES, Pipeline, Stage};
use orias_ori::{Function, print_function, verify_function};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The phases before selection, with the verifier after each.
fn run_phases(function: &mut Function) -> Result<(), Failure> {
    let knobs = Knobs::default();
    let context = Context {
        opt_level: 3,
        knobs: &knobs,
        machine: orias_machine::Machine::of(orias_sass::Target::DEFAULT),
    };
    let end = PHASES
        .iter()
        .take_while(|phase| phase.stage <= Stage::Optimize)
        .count();
    let pipeline = Pipeline {
        end,
        verify_each: true,
        ..Pipeline::default()
    };
    pipeline.run(function, &context, &mut |_| {})
}

fn main() {
    let (flags, files): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|it| it.starts_with("--"));
    let print = flags.iter().any(|flag| flag == "--print");
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let (mut good, mut bad, mut instructions) = (0, 0, 0);
    let mut time = Duration::ZERO;
    for file in &files {
        let source = match std::fs::read(file) {
            Ok(source) => source,
            Err(error) => {
                eprintln!("{file}: {error}");
                continue;
            }
        };
        let (module, diagnostics) = orias_ptx::parse(&source);
        if diagnostics.has_errors() {
            print!("{}", diagnostics.to_excerpts(file, &source));
            bad += 1;
            continue;
        }
        let start = Instant::now();
        let lowered = lower(&module, &LowerOptions::default());
        time += start.elapsed();
        match lowered {
            Ok(mut lowered) => {
                let mut sound = true;
                for kernel in &mut lowered.kernels {
                    if let Err(failure) = run_phases(&mut kernel.code) {
                        println!("{file}: {failure}");
                        sound = false;
                    }
                    instructions += kernel.code.inst_count();
                    if print {
                        println!("{}", print_function(&kernel.code));
                    }
                    if let Err(errors) = verify_function(&kernel.code) {
                        sound = false;
                        for error in errors.iter().take(3) {
                            println!("{file}: {error}");
                        }
                    }
                }
                if sound {
                    good += 1;
                } else {
                    bad += 1;
                }
            }
            Err(problems) => {
                bad += 1;
                let mut seen: Vec<String> = Vec::new();
                for problem in &problems {
                    if !seen.contains(&problem.message) {
                        seen.push(problem.message.clone());
                    }
                }
                println!("{file}: {}", seen.join("; "));
                for message in seen {
                    *reasons.entry(message).or_default() += 1;
                }
            }
        }
    }
    println!("{good} lowered and sound, {bad} not; {instructions} instructions in {time:?}");
    for (reason, count) in reasons {
        println!("{count:6} {reason}");
    }
}
