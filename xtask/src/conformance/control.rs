//! Control words: everything ptxas made gets new ones, which ask for no more than its own did.
//!
//! Every cubin is rescheduled with `--control-only` and judged by `verify`, which must find nothing; the sums of stalls and waits are
//! compared over all of them. With `--order` the order of instructions is computed anew as well, with `--shuffle SEED` from a random
//! one: the judge must find nothing, and the estimated cycles are printed beside those of the order the code came with.

use super::finished::{self, LEVELS};
use orias::reschedule::{Knobs, Request, Statistics, reschedule, reschedule_control};

use orias_cubin::Cubin;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Stalls may be longer by this factor over the whole corpus.
const STALLS_AT_MOST: f64 = 1.02;

/// What is computed anew.
#[derive(Clone, Copy)]
enum Anew {
    /// Control words.
    Words,
    /// Order and control words, from the order there is.
    Order,
    /// Order and control words, from a random order.
    Shuffled(u64),
}

/// `cargo xtask conformance control [--order | --shuffle SEED] [--level N] [--sample | CUBIN…]`: the whole corpus at every level, every eighth
/// module, or the given files.
pub fn run(args: &[String]) -> Result<(), String> {
    let mut anew = Anew::Words;
    let mut every = 1;
    let mut levels = LEVELS.to_vec();
    let mut files = Vec::new();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--sample" => every = 8,
            "--order" => anew = Anew::Order,
            "--shuffle" => {
                let seed = words.next().and_then(|seed| seed.parse().ok());
                anew = Anew::Shuffled(seed.ok_or("--shuffle needs a seed")?);
            }
            "--level" => {
                let level = words.next().and_then(|level| level.parse().ok());
                levels = vec![level.ok_or("--level needs a number")?];
            }
            flag if flag.starts_with('-') => return Err(format!("not understood: {flag}")),
            path => files.push((path.to_owned(), PathBuf::from(path))),
        }
    }
    if !files.is_empty() {
        return judge("given files", &files, anew, false);
    }
    for level in levels {
        let cubins = finished::cubins(&[level], every)?;
        let paths: Vec<_> = cubins.into_iter().map(|one| (one.name, one.path)).collect();
        // -O0 code stalls for 15 cycles everywhere: nothing to compare with.
        judge(&format!("-O{level}"), &paths, anew, level > 0)?;
    }
    Ok(())
}

/// What the reports of cubins add up to.
#[derive(Default)]
struct Orders {
    blocks: usize,
    changed: usize,
    logarithms: f64,
    functions: usize,
    worst: (f64, String),
}

impl Orders {
    fn add(&mut self, report: &orias::reschedule::Report) {
        let (blocks, changed) = report.changed();
        self.blocks += blocks;
        self.changed += changed;
        for function in &report.functions {
            let (before, after) = function.cycles();
            if before > 0.0 && after > 0.0 {
                self.functions += 1;
                self.logarithms += (after / before).ln();
                if after / before > self.worst.0 {
                    self.worst = (after / before, function.name.clone());
                }
            }
        }
    }
}

fn judge(
    title: &str,
    paths: &[(String, PathBuf)],
    anew: Anew,
    compare: bool,
) -> Result<(), String> {
    let knobs = Knobs::default();
    let mut orders = Orders::default();
    let mut total = Statistics::default();
    let mut wrong = Vec::new();
    let (mut time, mut findings) = (Duration::ZERO, 0);
    for (name, path) in paths {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let cubin = Cubin::read(&bytes).map_err(|error| format!("{name}: {error}"))?;
        let start = Instant::now();
        let mut order = |shuffle| {
            let request = Request {
                knobs: &knobs,
                shuffle,
                alternative: None,
                stories: false,
            };
            reschedule(&cubin, &request).map(|done| {
                orders.add(&done.report);
                (done.cubin, done.statistics)
            })
        };
        let done = match anew {
            Anew::Words => reschedule_control(&cubin),
            Anew::Order => order(None),
            Anew::Shuffled(seed) => order(Some(seed)),
        };
        match done {
            Ok((rescheduled, statistics)) => {
                time += start.elapsed();
                total += statistics;
                match orias_verify::judge(&rescheduled) {
                    Ok(verdict) => {
                        findings += verdict.findings.len();
                        let found = verdict.findings.iter().take(3);
                        wrong.extend(found.map(|finding| format!("{name}: {finding}")));
                    }
                    Err(error) => wrong.push(format!("{name}: {error}")),
                }
            }
            Err(error) => wrong.push(format!("{name}: {error}")),
        }
    }
    print!(
        "{title}: {} cubins in {:.2} s, {findings} findings; {total}",
        paths.len(),
        time.as_secs_f64()
    );
    if orders.functions > 0 {
        println!(
            "  {} of {} blocks in another order; estimated cycles {:.3} times those before (geometric mean of {} functions; worst {:.3}, {})",
            orders.changed,
            orders.blocks,
            (orders.logarithms / orders.functions as f64).exp(),
            orders.functions,
            orders.worst.0,
            orders.worst.1
        );
    }
    for wrong in wrong.iter().take(30) {
        println!("    WRONG {wrong}");
    }
    if !wrong.is_empty() {
        return Err(format!(
            "cubins without control words, or that the judge objects to ({findings} findings)"
        ));
    }
    if total.instructions == 0 {
        return Err("there was nothing to reschedule".to_owned());
    }
    // A new order has other stalls and waits: cycles are what counts there.
    if compare && matches!(anew, Anew::Words) {
        let stalls = total.after.stalls as f64 / total.before.stalls as f64;
        if stalls > STALLS_AT_MOST {
            return Err(format!("stalls are {stalls:.3} times ptxas's"));
        }
        if total.after.waits > total.before.waits {
            return Err(format!(
                "{} instructions wait, {} did",
                total.after.waits, total.before.waits
            ));
        }
    }
    Ok(())
}
