//! Chores for people who work on Orias: `cargo xtask NAME`.
//!
//! Nothing here is part of the product, and nothing in the product depends on it.

mod ablate;
mod bench;
mod conformance;
mod declarations;
mod dist;
mod emulate;
mod exercise;
mod gpu;
mod hosts;
mod lanes;
mod matrix;
mod mine;
mod oracle;
mod parallel;
mod probe;
mod programs;
mod rewrite;
mod schedules;
mod timing;

use std::process::ExitCode;

/// One chore: its name, what it is for, and the function that does it.
struct Chore {
    name: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<(), String>,
}

const CHORES: &[Chore] = &[
    Chore {
        name: "oracle",
        about: "install NVIDIA's public tools below target/oracle, for conformance tests",
        run: oracle::install,
    },
    Chore {
        name: "ablate",
        about: "write one cubin for each thing that can be left out of a cubin, for `gpu ablation`",
        run: ablate::run,
    },
    Chore {
        name: "rewrite",
        about: "take cubins through our reader and writer, or through our builder, for `gpu launches`",
        run: rewrite::run,
    },
    Chore {
        name: "bench",
        about: "compile times beside ptxas's (`compile`), and time and memory of functions of growing size (`scale`)",
        run: bench::run,
    },
    Chore {
        name: "hosts",
        about: "check that command and library build for other systems, where Rust's library for them is installed",
        run: hosts::run,
    },
    Chore {
        name: "dist",
        about: "build what is handed out below target/dist: the command, optimised by a profile of itself, the C library (`library`), the Python package (`wheel`), manual pages and completions (`manual`); the page in the browser (`page`), the book (`book`); `all` makes everything",
        run: dist::run,
    },
    Chore {
        name: "corpus",
        about: "unpack the corpus beside the repository below target/corpus",
        run: conformance::unpack_corpus,
    },
    Chore {
        name: "conformance",
        about: "compare the rooms with NVIDIA's public tools: all suites, or one with its arguments",
        run: conformance::run,
    },
    Chore {
        name: "mine",
        about: "the smallest distances between dependent instructions in finished cubins",
        run: mine::run,
    },
    Chore {
        name: "timing",
        about: "the latencies of the tables, with where they come from; those assumed, those measured smaller than mined",
        run: timing::run,
    },
    Chore {
        name: "emulate",
        about: "compile the launches of a manifest and run them in the emulator against the interpreter",
        run: emulate::run,
    },
    Chore {
        name: "schedules",
        about: "orders of kernels with what the cycle model says of them (`make`), and its rank correlation with times (`compare`)",
        run: schedules::run,
    },
    Chore {
        name: "gpu",
        about: "launch cubins on a GPU and compare: needs a GPU and its driver",
        run: gpu::run,
    },
    Chore {
        name: "probe",
        about: "learn what every bit of an instruction word does from what nvdisasm prints, below target/probe",
        run: probe::run,
    },
    Chore {
        name: "exercise",
        about: "assemble PTX that makes ptxas show its instruction set, below target/exercise",
        run: exercise::run,
    },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(name) = args.first() else {
        print_chores();
        return ExitCode::from(2);
    };
    let Some(chore) = CHORES.iter().find(|chore| chore.name == name) else {
        eprintln!("xtask: no chore is named '{name}'");
        print_chores();
        return ExitCode::from(2);
    };
    match (chore.run)(&args[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask {name}: {message}");
            ExitCode::FAILURE
        }
    }
}

fn print_chores() {
    eprintln!("usage: cargo xtask CHORE [ARGUMENTS]\n");
    for chore in CHORES {
        eprintln!("  {:<14} {}", chore.name, chore.about);
    }
}
