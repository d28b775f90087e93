//! Control words: everything ptxas made gets new ones, which ask for no more than its own did.
//!
//! Every cubin is rescheduled with `--control-only` and judged by `verify`, which must find nothing; the sums of stalls and waits are
//! compared over all of them.

use super::finished::{self, LEVELS};
use orias::reschedule::{Statistics, reschedule_control};
use orias_cubin::Cubin;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Stalls may be longer by this factor over the whole corpus.
const STALLS_AT_MOST: f64 = 1.02;

/// `cargo xtask conformance control [--sample | CUBIN…]`: the whole corpus at every level, every eighth module, or the given files.
pub fn run(args: &[String]) -> Result<(), String> {
    if args.first().is_some_and(|first| first != "--sample") {
        let paths = args.iter().map(|path| (path.clone(), PathBuf::from(path)));
        return judge("given files", &paths.collect::<Vec<_>>(), false);
    }
    let every = if args.is_empty() { 1 } else { 8 };
    for level in LEVELS {
        let cubins = finished::cubins(&[level], every)?;
        let paths: Vec<_> = cubins.into_iter().map(|one| (one.name, one.path)).collect();
        // -O0 code stalls for 15 cycles everywhere: nothing to compare with.
        judge(&format!("-O{level}"), &paths, level > 0)?;
    }
    Ok(())
}

fn judge(title: &str, paths: &[(String, PathBuf)], compare: bool) -> Result<(), String> {
    let mut total = Statistics::default();
    let mut wrong = Vec::new();
    let (mut time, mut findings) = (Duration::ZERO, 0);
    for (name, path) in paths {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let cubin = Cubin::read(&bytes).map_err(|error| format!("{name}: {error}"))?;
        let start = Instant::now();
        match reschedule_control(&cubin) {
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
    if compare {
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
