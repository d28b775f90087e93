//! `bench against COMMAND [RUNS]`: compile time and memory of a change, against the command before it.
//!
//! Every module of the corpora is compiled by both, in turn, so that both have the same share of whatever else the machine does. A round
//! is all modules once; the median over the rounds (21 by default) is what counts, as the sum over all modules of processor time, and
//! of peak memory, which is taken once. Modules that either refuses are left out.

use super::{measure, orias, peak_memory};
use crate::conformance::corpus;
use std::path::PathBuf;

/// Rounds when nothing else is said.
const ROUNDS: usize = 21;

pub(super) fn run(args: &[String]) -> Result<(), String> {
    let (before, rounds) = match args {
        [before] => (before, ROUNDS),
        [before, rounds] => match rounds.parse() {
            Ok(rounds) if rounds > 0 => (before, rounds),
            _ => return Err(format!("'{rounds}' is no number of rounds")),
        },
        _ => return Err("usage: bench against COMMAND [ROUNDS]".to_owned()),
    };
    let compilers = [PathBuf::from(before), orias()?];
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut modules = Vec::new();
    let mut memory = [0u64; 2];
    for module in corpus::modules()? {
        let mut peaks = [None; 2];
        for (peak, compiler) in peaks.iter_mut().zip(&compilers) {
            *peak = peak_memory(compiler, &module, folder.path())?;
        }
        if let [Some(old), Some(new)] = peaks {
            memory[0] += old;
            memory[1] += new;
            modules.push(module);
        }
    }
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let mut sums = [0.0; 2];
        for module in &modules {
            for (sum, compiler) in sums.iter_mut().zip(&compilers) {
                let cost = measure(compiler, module, folder.path())?;
                *sum += cost.map_or(0.0, |cost| cost.seconds);
            }
        }
        for (times, sum) in times.iter_mut().zip(sums) {
            times.push(sum);
        }
    }
    let [old, new] = times.map(median);
    println!(
        "{} modules, median of {rounds} rounds: {old:.3} s before, {new:.3} s now, {:+.1} %",
        modules.len(),
        (new / old - 1.0) * 100.0
    );
    let [old, new] = memory.map(|kib| kib as f64 / 1024.0);
    println!(
        "peak memory, summed up: {old:.1} MiB before, {new:.1} MiB now, {:+.1} %",
        (new / old - 1.0) * 100.0
    );
    Ok(())
}

/// The middle one of some numbers.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}
