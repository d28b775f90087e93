//! `gpu programs FOLDER`: generated programs on the chip against the interpreter.
//!
//! The folder comes from `cargo xtask conformance programs COUNT --write=FOLDER`. Each program runs as ptxas -O0 and -O3 made
//! it; an output that differs is written beside the cubin, as `SEED.LEVEL.out`. Programs run in processes of their own: what
//! faults or never ends is reported, and the others go on.

use super::driver::{Buffer, DriverError, Gpu};
use super::job::hash;
use super::shards;
use crate::programs::{LEVELS, Plan, SHAPE, buffers, seed_of};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// How long one program may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Contexts on the device at a time; each takes some gigabytes for the stacks of its threads.
const CONTEXTS: usize = 8;

pub fn run(folder: &str, limit: Duration) -> Result<(), String> {
    let count = expectations(Path::new(folder))?.len();
    let jobs = std::thread::available_parallelism().map_or(4, usize::from);
    let jobs = jobs.min(CONTEXTS);
    let words = ["programs".to_owned(), folder.to_owned()];
    let summary = shards::run(&words, count, jobs, PATIENCE, limit)?;
    for (what, count) in &summary.counts {
        println!("{what}: {count}");
    }
    match summary.findings {
        0 if count > 0 => Ok(()),
        n => Err(format!("{n} findings in {count} programs")),
    }
}

/// Names of programs and hashes of the outputs they should leave.
fn expectations(folder: &Path) -> Result<Vec<(String, u64)>, String> {
    let path = folder.join("expected.txt");
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.lines()
        .map(|line| {
            let (name, hash) = line.split_once(' ')?;
            Some((name.to_owned(), u64::from_str_radix(hash, 16).ok()?))
        })
        .collect::<Option<_>>()
        .ok_or_else(|| format!("{}: not names and hashes", path.display()))
}

/// The programs of a range, in this process.
pub fn shard(range: Range<usize>, folder: &str) -> Result<(), String> {
    let folder = Path::new(folder);
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let expectations = expectations(folder)?;
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    for number in range {
        let Some((name, expected)) = expectations.get(number) else {
            break;
        };
        let seed = seed_of(name).ok_or_else(|| format!("{name}: no seed in the name"))?;
        let source = std::fs::read_to_string(folder.join(format!("{name}.ptx")));
        let plan = Plan::of(&source.map_err(failed)?)?;
        for level in LEVELS {
            println!("@{number} {name} {level}");
            let image = std::fs::read(folder.join(format!("{name}.{level}.cubin")));
            // After a fault the context is lost: the parent starts another process.
            let output = on_the_chip(&gpu, &image.map_err(failed)?, &plan, seed)
                .map_err(|error| format!("program {name} {level}: {error}"))?;
            if hash(&output) == *expected {
                println!("+{level} equal");
            } else {
                println!("program {name} {level}: differs");
                println!("+{level} different");
                std::fs::write(folder.join(format!("{name}.{level}.out")), output)
                    .map_err(failed)?;
            }
        }
    }
    Ok(())
}

/// What one program leaves: the outputs of all kernels, then the variables.
fn on_the_chip(gpu: &Gpu, image: &[u8], plan: &Plan, seed: u64) -> Result<Vec<u8>, DriverError> {
    let module = gpu.load(image)?;
    let mut seen = Vec::new();
    for name in &plan.kernels {
        let kernel = module.kernel(name, 0)?;
        let mut held: Vec<Buffer> = Vec::new();
        for bytes in buffers(seed) {
            held.push(gpu.buffer(&bytes)?);
        }
        let arguments: Vec<Vec<u8>> = held
            .iter()
            .map(|buffer| buffer.address().to_le_bytes().to_vec())
            .collect();
        kernel.launch(SHAPE.0, SHAPE.1, &arguments)?;
        seen.extend(held[1].read()?);
    }
    for (name, bytes) in &plan.variables {
        seen.extend(module.variable(name, *bytes)?);
    }
    Ok(seen)
}
