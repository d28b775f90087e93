//! `cargo xtask bench compile | scale | against`: how long compilations take, beside ptxas or another build of ours in the same run.
//!
//! Both compilers are started as commands, in turn, and kept on one processor, so that starting up counts and threads do not. What counts
//! is processor time, of the user and of the system, which does not depend on what else the machine does; of several runs the fastest.
//! `ORIAS_BIN` names the command to measure; it is `target/dist/orias` otherwise, which must be there.

mod against;
mod compile;
mod generated;
mod scale;

use crate::oracle;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

pub fn run(args: &[String]) -> Result<(), String> {
    use_one_processor()?;
    match args.split_first() {
        Some((name, rest)) if name == "compile" => compile::run(rest),
        Some((name, rest)) if name == "scale" => scale::run(rest),
        Some((name, rest)) if name == "against" => against::run(rest),
        _ => Err(
            "usage: bench compile [RUNS] | bench scale [--ptxas] [--only NAME] [--write SIZE FOLDER] [MOST] | bench against COMMAND [ROUNDS]"
                .to_owned(),
        ),
    }
}

/// The command that is measured.
fn orias() -> Result<PathBuf, String> {
    let path = match std::env::var_os("ORIAS_BIN") {
        Some(path) => PathBuf::from(path),
        None => oracle::repository().join("target/dist/orias"),
    };
    if path.exists() {
        Ok(path)
    } else {
        Err(format!(
            "{} is missing: run `cargo build --profile dist -p orias`",
            path.display()
        ))
    }
}

/// The file that compilers write; each run makes it anew.
const OUTPUT: &str = "out.cubin";

/// What one run took.
#[derive(Clone, Copy)]
struct Cost {
    /// Of processor time.
    seconds: f64,
    /// Of the clock on the wall.
    wall: f64,
}

/// Keeps this process and all it starts on one processor.
fn use_one_processor() -> Result<(), String> {
    let mut set = CpuSet::new();
    let this = Pid::from_raw(0);
    sched_getaffinity(this)
        .and_then(|allowed| {
            let first = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu) == Ok(true));
            set.set(first.unwrap_or(0))?;
            sched_setaffinity(this, &set)
        })
        .map_err(|error| format!("sched_setaffinity: {error}"))
}

/// Processor seconds of all commands that have ended.
fn processor_seconds() -> Result<f64, String> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| error.to_string())?;
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// Compiles `input` once; nothing where the compiler refuses.
fn measure(compiler: &Path, input: &Path, folder: &Path) -> Result<Option<Cost>, String> {
    let mut command = Command::new(compiler);
    compile_arguments(&mut command, input, folder);
    let old = folder.join(OUTPUT);
    if old.exists() {
        std::fs::remove_file(&old).map_err(|error| format!("{}: {error}", old.display()))?;
    }
    let before = processor_seconds()?;
    let start = Instant::now();
    let status = command
        .status()
        .map_err(|error| format!("{}: {error}", compiler.display()))?;
    let wall = start.elapsed().as_secs_f64();
    let seconds = processor_seconds()? - before;
    Ok(status.success().then_some(Cost { seconds, wall }))
}

/// Compiles `input` once and says how many KiB of memory that took at most; nothing where the compiler refuses.
fn peak_memory(compiler: &Path, input: &Path, folder: &Path) -> Result<Option<u64>, String> {
    let peak = folder.join("peak");
    let mut command = Command::new("/usr/bin/time");
    command.args(["-f", "%M", "-o"]).arg(&peak).arg(compiler);
    compile_arguments(&mut command, input, folder);
    let status = command
        .status()
        .map_err(|error| format!("/usr/bin/time: {error}"))?;
    if !status.success() {
        return Ok(None);
    }
    let memory = std::fs::read_to_string(&peak).map_err(|error| error.to_string())?;
    match memory.trim().parse() {
        Ok(memory) => Ok(Some(memory)),
        Err(_) => Err(format!(
            "/usr/bin/time says '{}', not a number",
            memory.trim()
        )),
    }
}

fn compile_arguments(command: &mut Command, input: &Path, folder: &Path) {
    command
        .args(["-arch=sm_90a", "-O3"])
        .arg(input)
        .arg("-o")
        .arg(folder.join(OUTPUT))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
}
