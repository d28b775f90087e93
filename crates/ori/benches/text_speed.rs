//! How many instructions a second the text form prints and parses, at each level.
//!
//! `cargo bench -p orias-ori --bench text_speed`. The goal is one million a second for printing and parsing together; a
//! level that misses it fails the run.

use orias_generate::ori::{Size, function};
use orias_ori::{Function, Level, parse_function, print_function};
use std::time::{Duration, Instant};

const GOAL: f64 = 1e6;

fn instructions(func: &Function) -> usize {
    func.blocks()
        .map(|block| func.block_insts(block).count())
        .sum()
}

/// The shortest of a few runs: what the machine can do when nothing else runs. Each run is short enough to fit between
/// two interruptions.
fn shortest(mut run: impl FnMut()) -> Duration {
    (0..7)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .min()
        .unwrap_or_default()
}

fn main() {
    let size = Size {
        blocks: 60,
        insts: 60,
    };
    let mut missed = false;
    println!("level      instructions  bytes each  print/s   parse/s   together/s");
    for level in Level::ALL {
        let functions: Vec<Function> = (0..100).map(|seed| function(seed, level, size)).collect();
        let count: usize = functions.iter().map(instructions).sum();
        let texts: Vec<String> = functions.iter().map(print_function).collect();
        let bytes: usize = texts.iter().map(String::len).sum();
        let print: Duration = functions
            .iter()
            .map(|func| {
                shortest(|| {
                    std::hint::black_box(print_function(func));
                })
            })
            .sum();
        let parse: Duration = texts
            .iter()
            .map(|text| {
                shortest(|| {
                    let read = parse_function(text).expect("what was printed can be read");
                    std::hint::black_box(read);
                })
            })
            .sum();
        let rate = |time: Duration| count as f64 / time.as_secs_f64();
        let together = rate(print + parse);
        println!(
            "{:<10} {count:>12}  {:>10.1}  {:>7.2}M  {:>7.2}M  {:>9.2}M",
            level.name(),
            bytes as f64 / count as f64,
            rate(print) / 1e6,
            rate(parse) / 1e6,
            together / 1e6,
        );
        missed |= together < GOAL;
    }
    if missed {
        eprintln!("slower than {GOAL} instructions a second");
        std::process::exit(1);
    }
}
