//! The emulator: every launch of the CUDA corpus, assembled by ptxas -O3 and -O0, leaves in `sim` the buffers it left on an H200.
//!
//! `conformance sim [--sample] [--timing off|strict|random:SEED,…] [--level O3|O0] [--check] [--verbose] [FILTER]`. The digests of the
//! buffers after each launch were written down once by `cargo xtask gpu digests` (`xtask/data/launches-sm90.txt.gz`). Launches
//! whose kernels use approximate functions (tag `approx`) are compared as well: where they differ, they are counted apart, because the
//! multifunction unit's own tables are not known to `eval`.

use super::corpus;
use crate::gpu::job::{Argument, Job, hash};
use crate::oracle;
use orias_sim::{Checks, Device, Launch, Module, Options, Timing};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Thread-instructions after which a launch counts as endless.
const MOST_STEPS: u64 = 4_000_000_000;

/// Features that the emulator does not have yet: launches that stop on them are counted apart.
const LATER: &[&str] = &["cluster", "GMMA", "WARPGROUP", "UBLK", "UTMA", "TMASK"];

struct Request {
    sample: bool,
    timings: Vec<Timing>,
    levels: Vec<&'static str>,
    checks: Checks,
    verbose: bool,
    filter: String,
}

impl Request {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut request = Self {
            sample: false,
            timings: vec![Timing::Off],
            levels: vec!["O3", "O0"],
            checks: Checks::NONE,
            verbose: false,
            filter: String::new(),
        };
        let mut words = args.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                "--sample" => request.sample = true,
                "--check" => request.checks = Checks::ALL,
                "--verbose" => request.verbose = true,
                "--level" => {
                    let level = words.next().unwrap_or_default();
                    request.levels.retain(|known| *known == level);
                    if request.levels.is_empty() {
                        return Err(format!("no level is called '{level}'; there are O3 and O0"));
                    }
                }
                "--timing" => {
                    let text = words.next().unwrap_or_default();
                    request.timings = text.split(',').map(timing).collect::<Result<_, _>>()?;
                }
                flag if flag.starts_with('-') => return Err(format!("not understood: {flag}")),
                filter => request.filter = filter.to_owned(),
            }
        }
        Ok(request)
    }
}

/// `off`, `strict`, or `random:SEED`.
fn timing(text: &str) -> Result<Timing, String> {
    match text.split_once(':') {
        None if text == "off" => Ok(Timing::Off),
        None if text == "strict" => Ok(Timing::Strict),
        Some(("random", seed)) => seed
            .parse()
            .map(Timing::Random)
            .map_err(|_| format!("'{seed}' is not a seed")),
        _ => Err(format!("no timing is called '{text}'")),
    }
}

/// The digests of the chip, by launch.
pub(super) fn recorded() -> Result<BTreeMap<String, Vec<u64>>, String> {
    let path = oracle::repository().join("xtask/data/launches-sm90.txt.gz");
    let file =
        std::fs::File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    text.lines()
        .map(|line| {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default().to_owned();
            let hashes = words
                .map(|word| u64::from_str_radix(word, 16).map_err(|_| format!("'{line}'")))
                .collect::<Result<_, _>>()?;
            Ok((name, hashes))
        })
        .collect()
}

/// The cubin of a module of the corpus, assembled if it is not there yet.
fn assemble(module: &Path, level: &str) -> Result<PathBuf, String> {
    let folder = oracle::repository().join("target/sim").join(level);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let name = module.file_stem().ok_or("a module without a name")?;
    let cubin = folder.join(name).with_extension("cubin");
    if !cubin.exists() {
        let output = Command::new(oracle::find("ptxas")?)
            .args(["-arch=sm_90a", &format!("-{level}"), "--fmad=false"])
            .arg(module)
            .arg("-o")
            .arg(&cubin)
            .output()
            .map_err(|error| format!("ptxas: {error}"))?;
        if !output.status.success() {
            return Err(format!(
                "ptxas {}: {}",
                module.display(),
                String::from_utf8_lossy(&output.stderr)
            ));
        }
    }
    Ok(cubin)
}

/// What came of a launch.
pub(crate) enum Verdict {
    Equal,
    Different(String),
    Stopped(String),
}

pub(crate) struct Ran {
    pub(crate) verdict: Verdict,
    steps: u64,
    time: Duration,
    findings: Vec<String>,
}

/// Runs one launch and compares the buffers it leaves with `expected`.
pub(crate) fn launch(
    job: &Job,
    image: &[u8],
    expected: &[u64],
    timing: Timing,
    checks: Checks,
) -> Result<Ran, String> {
    let mut device = Device::new();
    let module: Module = device
        .load(image)
        .map_err(|error| format!("{}: {error}", job.cubin))?;
    let mut buffers = Vec::new();
    let mut arguments = Vec::new();
    for argument in job.arguments()? {
        match argument {
            Argument::Scalar(bytes) => arguments.push(bytes),
            Argument::Buffer(bytes) => {
                let address = device.allocate(&bytes);
                arguments.push(address.to_le_bytes().to_vec());
                buffers.push((address, bytes.len()));
            }
        }
    }
    let launch = Launch {
        kernel: job.kernel.clone(),
        grid: job.grid,
        block: job.block,
        dynamic_shared: job.smem,
        arguments,
    };
    let options = Options {
        timing,
        checks,
        max_steps: Some(MOST_STEPS),
        ..Options::default()
    };
    let start = Instant::now();
    let outcome = match device.launch(&module, &launch, &options) {
        Ok(outcome) => outcome,
        Err(error) => {
            return Ok(Ran {
                verdict: Verdict::Stopped(error.to_string()),
                steps: 0,
                time: start.elapsed(),
                findings: Vec::new(),
            });
        }
    };
    let time = start.elapsed();
    let found: Vec<u64> = buffers
        .iter()
        .map(|(address, length)| hash(&device.read(*address, *length).unwrap_or_default()))
        .collect();
    let verdict = match outcome.fault {
        Some(fault) => Verdict::Stopped(fault.to_string()),
        None if found == expected => Verdict::Equal,
        None => {
            let wrong: Vec<String> = found
                .iter()
                .zip(expected)
                .enumerate()
                .filter(|(_, (found, expected))| found != expected)
                .map(|(index, _)| index.to_string())
                .collect();
            Verdict::Different(format!("buffers {}", wrong.join(", ")))
        }
    };
    Ok(Ran {
        verdict,
        steps: outcome.thread_instructions,
        time,
        findings: outcome.findings.iter().map(ToString::to_string).collect(),
    })
}

#[derive(Default)]
struct Totals {
    equal: usize,
    approximate: usize,
    later: usize,
    wrong: usize,
    steps: u64,
    time: Duration,
}

pub fn run(args: &[String]) -> Result<(), String> {
    let request = Request::parse(args)?;
    let recorded = recorded()?;
    let folder = corpus::packed().join("cuda-sm90a");
    let manifest = folder.join("manifest.json");
    let tests = crate::gpu::tests(&manifest.to_string_lossy())?;
    let mut failures = 0;
    for level in &request.levels {
        for timing in &request.timings {
            let mut totals = Totals::default();
            for (number, test) in tests.iter().enumerate() {
                let mut job = Job::from_test(test, String::new())?;
                if !job.name.contains(&request.filter) || request.sample && number % 8 != 0 {
                    continue;
                }
                let Some(expected) = recorded.get(&job.name) else {
                    return Err(format!("{}: the chip's digests are not recorded", job.name));
                };
                let module = folder.join(test["ptx"].as_str().ok_or("a test without ptx")?);
                let cubin = assemble(&module, level)?;
                let image = std::fs::read(&cubin)
                    .map_err(|error| format!("{}: {error}", cubin.display()))?;
                job.cubin = cubin.to_string_lossy().into_owned();
                let ran = launch(&job, &image, expected, *timing, request.checks)?;
                totals.steps += ran.steps;
                totals.time += ran.time;
                let approximate = test["tags"]
                    .as_array()
                    .is_some_and(|tags| tags.iter().any(|tag| tag == "approx"));
                if request.verbose {
                    println!(
                        "{level} {}: {} steps, {:.2?}",
                        job.name, ran.steps, ran.time
                    );
                }
                for finding in &ran.findings {
                    println!("{level} {}: {finding}", job.name);
                }
                match ran.verdict {
                    Verdict::Equal => totals.equal += 1,
                    Verdict::Different(what) if approximate => {
                        totals.approximate += 1;
                        println!("{level} {}: approximate, {what}", job.name);
                    }
                    Verdict::Stopped(why) if LATER.iter().any(|word| why.contains(word)) => {
                        totals.later += 1;
                        if request.verbose {
                            println!("{level} {}: {why}", job.name);
                        }
                    }
                    Verdict::Different(why) => {
                        totals.wrong += 1;
                        println!("{level} {}: different, {why}", job.name);
                    }
                    Verdict::Stopped(why) => {
                        totals.wrong += 1;
                        println!("{level} {}: stopped: {why}", job.name);
                    }
                }
            }
            println!(
                "{level}, timing {timing:?}: {} equal, {} differ in approximate functions, {} need what is not emulated yet, {} wrong; {} thread-instructions in {:.1?}",
                totals.equal,
                totals.approximate,
                totals.later,
                totals.wrong,
                totals.steps,
                totals.time
            );
            if totals.equal == 0 {
                return Err("nothing was compared".to_owned());
            }
            failures += totals.wrong;
        }
    }
    if failures == 0 {
        Ok(())
    } else {
        Err(format!("{failures} launches are wrong"))
    }
}
