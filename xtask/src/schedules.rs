//! `cargo xtask schedules …`: does the cycle model rank orders as the chip does?
//!
//! | command | what it does |
//! | --- | --- |
//! | `schedules make MANIFEST CUBINS OUT [--most N] [--steps N]` | ten orders of every kernel that a manifest launches, and what the model says of each |
//! | `schedules compare ESTIMATES TIMES` | the rank correlation of that with what `gpu times` measured |
//!
//! `make` writes below OUT a folder of cubins for each order, `0` to `9`, the launches as `manifest.json` with their files, and
//! `estimates.txt`. Orders are legal permutations within blocks of the code of CUBINS, from a greedy one to one that waits as long as it
//! can ([`Alternative`]), each with control words of its own. On a machine with a GPU, `gpu times OUT/manifest.json OUT/0
//! OUT/1,…,OUT/9` times them.
//!
//! **The estimate of a launch.** The emulator runs it once and counts how often each block is entered; as blocks keep their place and
//! length, the counts hold for every order. A block costs what its control words ask of a warp alone, or, if that is more, the issue
//! slots of all warps that share a scheduler. The sum over all entries of a warp is the estimate.
//!
//! **Which launches.** Of each kernel the longest; of those, the ones whose orders differ most by the model, in cycles: where all
//! orders take the same time there is nothing to rank.

use crate::conformance::sim::emulate;
use crate::gpu::job::Job;
use crate::gpu::{cubin_of, tests};
use crate::parallel;
use orias::reschedule::{Alternative, FunctionCycles, Knobs, Request, cycles, reschedule};
use orias_cubin::Cubin;
use orias_sim::{Options, Profile};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Orders of a module: each as a cubin, with what the models say of its functions.
type Orders = Vec<(Vec<u8>, Vec<FunctionCycles>)>;

/// Of 100 choices, how many are the worst: one number for each order.
const ORDERS: [u8; 10] = [0, 6, 13, 21, 30, 40, 52, 66, 82, 100];

/// Multiprocessors of the chip, and schedulers of each.
const MULTIPROCESSORS: u64 = 132;
const SCHEDULERS: u64 = 4;
/// Threads of a multiprocessor.
const THREADS: u64 = 2048;

pub fn run(args: &[String]) -> Result<(), String> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["make", manifest, cubins, out, rest @ ..] => make(manifest, cubins, Path::new(out), rest),
        ["compare", estimates, times] => compare(estimates, times),
        _ => Err(
            "usage: schedules make MANIFEST CUBINS OUT [--most N] [--steps N] | schedules compare ESTIMATES TIMES"
                .to_owned(),
        ),
    }
}

/// A launch with what the model says of its orders.
struct Case {
    name: String,
    kernel: (String, String),
    estimates: Vec<f64>,
}

impl Case {
    /// By how many cycles its orders differ.
    fn spread(&self) -> f64 {
        let most = self.estimates.iter().copied().fold(0.0, f64::max);
        most - self.estimates.iter().copied().fold(f64::MAX, f64::min)
    }
}

fn make(manifest: &str, cubins: &str, out: &Path, words: &[&str]) -> Result<(), String> {
    let (mut most, mut steps) = (50usize, 400_000_000u64);
    for pair in words.chunks(2) {
        let number = |text: &str| {
            text.parse()
                .map_err(|_| format!("'{text}' is not a number"))
        };
        match pair {
            ["--most", n] => most = number(n)? as usize,
            ["--steps", n] => steps = number(n)?,
            other => return Err(format!("not understood: {other:?}")),
        }
    }
    let tests = tests(manifest)?;
    let mut files: Vec<String> = Vec::new();
    for test in &tests {
        let file = cubin_of(test, cubins)?;
        if !files.contains(&file) {
            files.push(file);
        }
    }
    let made = parallel::map(&files, |file| orders(file));
    let mut models: BTreeMap<&str, Orders> = BTreeMap::new();
    for (file, orders) in files.iter().zip(made) {
        match orders {
            Ok(orders) => {
                models.insert(file, orders);
            }
            Err(why) => println!("{file}: left out: {why}"),
        }
    }
    let indices: Vec<usize> = (0..tests.len()).collect();
    let found = parallel::map(&indices, |&index| {
        let job = Job::from_test(&tests[index], cubin_of(&tests[index], cubins)?)?;
        let Some(orders) = models.get(job.cubin.as_str()) else {
            return Err(format!("{}: no orders", job.name));
        };
        let profile = profile(&job, steps)?;
        let estimates = orders.iter().map(|(_, functions)| {
            let function = functions
                .iter()
                .find(|function| function.name == job.kernel);
            function.map_or(0.0, |function| estimate(&job, function, &profile))
        });
        Ok(Case {
            estimates: estimates.collect(),
            name: job.name.clone(),
            kernel: (job.cubin.clone(), job.kernel.clone()),
        })
    });
    let mut cases: Vec<Case> = Vec::new();
    for case in found {
        match case {
            Ok(case) => cases.push(case),
            Err(why) => println!("{why}"),
        }
    }
    cases.sort_by(|a, b| b.spread().total_cmp(&a.spread()).then(a.name.cmp(&b.name)));
    let mut seen: Vec<(String, String)> = Vec::new();
    cases.retain(|case| {
        let new = !seen.contains(&case.kernel);
        seen.push(case.kernel.clone());
        new
    });
    cases.truncate(most);
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    write(manifest, out, &cases, &models)?;
    println!("{} kernels, {} orders each", cases.len(), ORDERS.len());
    Ok(())
}

fn trouble(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}

/// The orders of a cubin: its bytes, and the cycles of its blocks.
fn orders(file: &str) -> Result<Orders, String> {
    let bytes = std::fs::read(file).map_err(trouble(Path::new(file)))?;
    let cubin = Cubin::read(&bytes).map_err(|error| error.to_string())?;
    let knobs = Knobs::default();
    let each = |(number, &worse): (usize, &u8)| {
        let request = Request {
            knobs: &knobs,
            shuffle: None,
            alternative: Some(Alternative {
                worse,
                seed: number as u64,
            }),
            stories: false,
        };
        let done = reschedule(&cubin, &request).map_err(|error| error.to_string())?;
        let blocks = cycles(&done.cubin).map_err(|error| error.to_string())?;
        let bytes = done.cubin.write().map_err(|error| error.to_string())?;
        Ok((bytes, blocks))
    };
    ORDERS.iter().enumerate().map(each).collect()
}

/// How often each instruction of a launch is issued.
fn profile(job: &Job, steps: u64) -> Result<Profile, String> {
    let named = |what: String| format!("{}: {what}", job.name);
    let image = std::fs::read(&job.cubin).map_err(trouble(Path::new(&job.cubin)))?;
    let options = Options {
        max_steps: Some(steps),
        profile: true,
        ..Options::default()
    };
    let (outcome, _) = emulate(job, &image, &options)?;
    let outcome = outcome.map_err(|error| named(error.to_string()))?;
    match (outcome.fault, outcome.profile) {
        (None, Some(profile)) => Ok(profile),
        (Some(fault), _) => Err(named(fault.to_string())),
        (None, None) => Err(named("nothing was counted".to_owned())),
    }
}

/// Cycles of a warp of a launch.
fn estimate(job: &Job, function: &FunctionCycles, profile: &Profile) -> f64 {
    let count = |sides: [u32; 3]| sides.iter().map(|&side| u64::from(side)).product::<u64>();
    let (blocks, threads) = (count(job.grid), count(job.block).max(1));
    let warps = threads.div_ceil(32);
    let together = blocks
        .div_ceil(MULTIPROCESSORS)
        .min((THREADS / threads).max(1));
    let sharing = (together * warps).div_ceil(SCHEDULERS);
    let mut sum = 0.0;
    for (range, cycles) in &function.blocks {
        let entered = profile.instructions.get(range.start);
        let entered = entered.map_or(0, |counts| counts.issued) as f64 / (blocks * warps) as f64;
        let slots = sharing * range.len() as u64;
        sum += entered * u64::from(*cycles).max(slots) as f64;
    }
    sum
}

/// Writes the orders, the launches and the estimates.
fn write(
    manifest: &str,
    out: &Path,
    cases: &[Case],
    models: &BTreeMap<&str, Orders>,
) -> Result<(), String> {
    for case in cases {
        let stem = Path::new(&case.kernel.0);
        let stem = stem.file_name().ok_or("a cubin without a name")?;
        for (number, (bytes, _)) in models[case.kernel.0.as_str()].iter().enumerate() {
            let folder = out.join(number.to_string());
            std::fs::create_dir_all(&folder).map_err(trouble(&folder))?;
            let path = folder.join(stem);
            std::fs::write(&path, bytes).map_err(trouble(&path))?;
        }
    }
    let text = std::fs::read_to_string(manifest).map_err(trouble(Path::new(manifest)))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let all = value["tests"].as_array().ok_or("no list of tests")?;
    let is_chosen = |test: &&Value| cases.iter().any(|case| test["name"] == case.name.as_str());
    let tests: Vec<&Value> = all.iter().filter(is_chosen).collect();
    let source = Path::new(manifest).parent().unwrap_or(Path::new("."));
    let arguments = tests.iter().filter_map(|test| test["args"].as_array());
    for file in arguments.flatten().filter_map(|arg| arg["file"].as_str()) {
        let to = out.join(file);
        std::fs::copy(source.join(file), &to).map_err(trouble(&to))?;
    }
    let path = out.join("manifest.json");
    std::fs::write(&path, json!({ "tests": tests }).to_string()).map_err(trouble(&path))?;
    let lines: String = cases
        .iter()
        .map(|case| {
            let numbers: Vec<String> = case.estimates.iter().map(|n| format!("{n:.1}")).collect();
            format!("{} {}\n", case.name, numbers.join(" "))
        })
        .collect();
    let path = out.join("estimates.txt");
    std::fs::write(&path, lines).map_err(trouble(&path))
}

/// One measured launch: how far two copies of one order differ, and the orders' times.
struct Measured {
    floor: f64,
    times: Vec<f64>,
}

/// A row of the table of `gpu times`: `| launch | microseconds | floor | ratio | … |`.
fn measured(line: &str) -> Option<(String, Measured)> {
    let mut cells = line.trim().strip_prefix('|')?.strip_suffix('|')?.split('|');
    let name = cells.next()?.trim().to_owned();
    let mut numbers = Vec::new();
    for cell in cells {
        numbers.push(cell.trim().parse::<f64>().ok()?);
    }
    let [_, floor, ratios @ ..] = numbers.as_slice() else {
        return None;
    };
    let times = std::iter::once(1.0).chain(ratios.iter().copied());
    let measured = Measured {
        floor: *floor,
        times: times.collect(),
    };
    Some((name, measured))
}

fn compare(estimates: &str, times: &str) -> Result<(), String> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(trouble(Path::new(path)));
    let measured: BTreeMap<String, Measured> = read(times)?.lines().filter_map(measured).collect();
    println!(
        "| launch | cycles, best | estimated spread | measured spread | floor | rank correlation |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    let mut all = Vec::new();
    let mut apart = Vec::new();
    for line in read(estimates)?.lines() {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let numbers: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
        let Some(Measured { floor, times }) = measured.get(name) else {
            println!("| {name} | not measured |");
            continue;
        };
        if times.len() != numbers.len() {
            return Err(format!(
                "{name}: {} times of {}",
                times.len(),
                numbers.len()
            ));
        }
        let correlation = rank_correlation(&numbers, times);
        let ratio = |values: &[f64]| {
            let most = values.iter().copied().fold(0.0, f64::max);
            most / values.iter().copied().fold(f64::MAX, f64::min)
        };
        let best = numbers.iter().copied().fold(f64::MAX, f64::min);
        println!(
            "| {name} | {best:.0} | {:.3} | {:.3} | {floor:.3} | {correlation:.3} |",
            ratio(&numbers),
            ratio(times)
        );
        all.push(correlation);
        if ratio(times) - 1.0 > 3.0 * floor {
            apart.push(correlation);
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    println!(
        "\n{} launches: mean rank correlation {:.3}; {} whose orders differ by more than three times the floor: {:.3}",
        all.len(),
        mean(&all),
        apart.len(),
        mean(&apart)
    );
    Ok(())
}

/// Spearman's: the correlation of the ranks, equals sharing theirs.
fn rank_correlation(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 + 1.0) / 2.0;
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        a.iter().zip(&b).map(|(a, b)| f(a - mean, b - mean)).sum()
    };
    let deviations = (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt();
    if deviations == 0.0 {
        return 0.0;
    }
    sum(&|a, b| a * b) / deviations
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        below as f64 + (equal as f64 + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn correlation_is_of_ranks_and_equals_share_theirs() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0]), [2.5, 1.0, 2.5]);
        assert!((rank_correlation(&[1.0, 2.0, 9.0], &[5.0, 6.0, 7.0]) - 1.0).abs() < 1e-12);
        assert!((rank_correlation(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]) + 1.0).abs() < 1e-12);
        assert_eq!(rank_correlation(&[1.0, 1.0], &[1.0, 2.0]), 0.0);
    }

    #[test]
    fn rows_of_the_table_of_times_are_read_and_nothing_else_is() {
        let (name, row) = measured("| a.b | 2.50 | 0.010 | 1.100 | 0.900 |").expect("a row");
        assert_eq!((name.as_str(), row.floor), ("a.b", 0.010));
        assert_eq!(row.times, [1.0, 1.1, 0.9]);
        assert!(measured("| launch | 0, us | floor | 1 |").is_none());
        assert!(measured("| a | failed: no |").is_none());
        assert!(measured("12 launches timed").is_none());
    }
}
