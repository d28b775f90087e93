//! `cargo xtask bench compile | scale`: how long compilations take, beside ptxas in the same run.
//!
//! Both compilers are started as commands and pinned to one processor, so that starting up counts and threads do not. Of several runs
//! the fastest counts. `ORIAS_BIN` names the command to measure; it is `target/release/orias` otherwise, which must be there.

mod compile;
mod generated;
mod scale;

use crate::oracle;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub fn run(args: &[String]) -> Result<(), String> {
    match args.split_first() {
        Some((name, rest)) if name == "compile" => compile::run(rest),
        Some((name, rest)) if name == "scale" => scale::run(rest),
        _ => Err("usage: bench compile [RUNS] | bench scale [--ptxas] [MOST]".to_owned()),
    }
}

/// The command that is measured.
fn orias() -> Result<PathBuf, String> {
    let path = match std::env::var_os("ORIAS_BIN") {
        Some(path) => PathBuf::from(path),
        None => oracle::repository().join("target/release/orias"),
    };
    if path.exists() {
        Ok(path)
    } else {
        Err(format!(
            "{} is missing: run `cargo build --release`",
            path.display()
        ))
    }
}

/// What one run took.
#[derive(Clone, Copy)]
struct Cost {
    time: Duration,
    /// Kibibytes.
    memory: u64,
}

/// Compiles `input` once, on one processor; nothing where the compiler refuses.
fn measure(compiler: &Path, input: &Path, folder: &Path) -> Result<Option<Cost>, String> {
    let peak = folder.join("peak");
    let mut command = Command::new("taskset");
    command
        .args(["-c", "0", "/usr/bin/time", "-f", "%M", "-o"])
        .arg(&peak)
        .arg(compiler)
        .args(["-arch=sm_90a", "-O3"])
        .arg(input)
        .arg("-o")
        .arg(folder.join("out.cubin"))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let start = Instant::now();
    let status = command
        .status()
        .map_err(|error| format!("taskset: {error}"))?;
    let time = start.elapsed();
    if !status.success() {
        return Ok(None);
    }
    let memory = std::fs::read_to_string(&peak).map_err(|error| error.to_string())?;
    let memory = memory
        .trim()
        .parse()
        .map_err(|_| format!("/usr/bin/time says '{}', not a number", memory.trim()))?;
    Ok(Some(Cost { time, memory }))
}

/// The fastest of several runs.
fn fastest(
    compiler: &Path,
    input: &Path,
    folder: &Path,
    runs: usize,
) -> Result<Option<Cost>, String> {
    let mut best: Option<Cost> = None;
    for _ in 0..runs {
        let Some(cost) = measure(compiler, input, folder)? else {
            return Ok(None);
        };
        if best.is_none_or(|best| cost.time < best.time) {
            best = Some(cost);
        }
    }
    Ok(best)
}
