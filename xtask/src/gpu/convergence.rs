//! `gpu mutants --convergence MANIFESTS FOLDERS COUNT SECONDS [FIRST] [--write FILE]`: mutants of where lanes meet ([`crate::lanes`]), on the chip.
//!
//! Each mutant runs in a process of its own, which first runs the kernel as it was: that it does not answer means that the chip is busy ending
//! something else, and the mutant has to wait. A mutant runs three times and has to leave the same buffers. Beside kernels that hang others may be
//! starved, so what nobody reported and went wrong is tried again, alone.

use super::job::Outcome as Left;
use super::worker::Workers;
use crate::lanes::{self, Judgement, MutableLaunch, Mutant, Outcome, Tried};
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long the kernel as it was may take, with the start of its process.
const START: Duration = Duration::from_secs(20);

/// A mutant that has not answered after this time hangs.
const PATIENCE: Duration = Duration::from_secs(2);

/// Processes at the same time.
const WORKERS: usize = 4;

/// How often a mutant runs.
const RUNS: u32 = 3;

/// How often a mutant is tried on a chip that does not run the kernel as it was.
const TRIES: usize = 3;

pub fn run(
    manifests: &str,
    folders: &str,
    numbers: std::ops::Range<u64>,
    seconds: u64,
    file: Option<&str>,
) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let sources = lanes::sources(manifests, folders)?;
    println!("{} launches", sources.len());
    if sources.is_empty() {
        return Err("nothing to mutate".to_owned());
    }
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let next = AtomicU64::new(numbers.start);
    let tried: Mutex<Vec<(u64, Tried)>> = Mutex::new(Vec::new());
    let unstable: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let failed: Mutex<Option<String>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let path = folder.path().join(format!("{worker}.cubin"));
            let (sources, next, tried, unstable, failed) =
                (&sources, &next, &tried, &unstable, &failed);
            scope.spawn(move || {
                let path = path.to_string_lossy();
                while Instant::now() < deadline {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        return;
                    }
                    match try_one(sources, number, &path) {
                        Ok(Some(one)) => {
                            if let Ok(mut tried) = tried.lock() {
                                tried.push((number, one));
                            }
                        }
                        Ok(None) => {
                            if let Ok(mut unstable) = unstable.lock() {
                                let source = lanes::choose(sources, number).source;
                                unstable.push(sources[source].job.name.clone());
                            }
                        }
                        Err(error) => {
                            if let Ok(mut failed) = failed.lock() {
                                failed.get_or_insert(error);
                            }
                            return;
                        }
                    }
                }
            });
        }
    });
    if let Some(error) = failed.into_inner().map_err(|error| error.to_string())? {
        return Err(error);
    }
    let mut unstable = unstable.into_inner().map_err(|error| error.to_string())?;
    if !unstable.is_empty() {
        let mutants = unstable.len();
        unstable.sort();
        unstable.dedup();
        println!(
            "{mutants} mutants say nothing: as they were, these left something else each time or did not run: {}",
            unstable.join(", ")
        );
    }
    let mut tried = tried.into_inner().map_err(|error| error.to_string())?;
    tried.sort_by_key(|(number, _)| *number);
    let mut tried: Vec<Tried> = tried.into_iter().map(|(_, one)| one).collect();
    let path = folder.path().join("again.cubin");
    let path = path.to_string_lossy();
    for (mutant, judgement, outcome) in &mut tried {
        if judgement.findings == 0 && matches!(outcome, Outcome::Hangs | Outcome::Failed) {
            let source = &sources[mutant.source];
            if let Some(again) = launch(source, &source.image(mutant)?, &path)? {
                *outcome = again;
            }
        }
    }
    if let Some(file) = file {
        write(file, &sources, &tried)?;
    }
    lanes::report(&sources, &tried)
}

/// Makes, judges and runs a mutant; none if the chip does not run the kernel as it was, or not always alike.
fn try_one(sources: &[MutableLaunch], number: u64, path: &str) -> Result<Option<Tried>, String> {
    let mutant: Mutant = lanes::choose(sources, number);
    let source = &sources[mutant.source];
    let image = source.image(&mutant)?;
    let judgement: Judgement = source.judge(&image)?;
    let outcome = launch(source, &image, path)?;
    Ok(outcome.map(|outcome| (mutant, judgement, outcome)))
}

fn launch(source: &MutableLaunch, image: &[u8], path: &str) -> Result<Option<Outcome>, String> {
    std::fs::write(path, image).map_err(|error| format!("{path}: {error}"))?;
    let mut known = source.job.clone();
    known.runs = RUNS;
    let mut job = known.clone();
    job.cubin = path.to_owned();
    for _ in 0..TRIES {
        let mut workers = Workers::with_patience(START);
        let expected = match workers.run(&known)? {
            Left::Ran { buffers, .. } => buffers,
            Left::Failed(why) if why.starts_with("unstable") => return Ok(None),
            Left::Failed(_) => {
                std::thread::sleep(Duration::from_secs(1));
                continue;
            }
        };
        workers.set_patience(PATIENCE);
        return Ok(Some(match workers.run(&job)? {
            Left::Ran { buffers, .. } if buffers == expected => Outcome::Same,
            Left::Ran { .. } => Outcome::Different,
            Left::Failed(why) if why.starts_with("unstable") => Outcome::Different,
            Left::Failed(why) if why.starts_with("no answer") => Outcome::Hangs,
            Left::Failed(_) => Outcome::Failed,
        }));
    }
    Ok(None)
}

/// Writes down every mutant, what came of it and what the judge says, with tabs between them.
fn write(file: &str, sources: &[MutableLaunch], tried: &[Tried]) -> Result<(), String> {
    let mut lines = String::new();
    for (mutant, judgement, outcome) in tried {
        let what = sources[mutant.source].describe(mutant);
        // Writing to a string cannot fail.
        let _ = writeln!(
            lines,
            "{outcome:?}\t{what}\t{} findings\t{}",
            judgement.findings, judgement.first
        );
    }
    std::fs::write(file, lines).map_err(|error| format!("{file}: {error}"))
}
