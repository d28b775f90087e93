//! The emulator: every launch of the CUDA corpus, assembled by ptxas -O3 and -O0, leaves in `sim` the buffers it left on an H200.
//!
//! `conformance sim [--sample] [--timing off|strict|random:SEED|random:FIRST..END,…] [--schedule S] [--level O3|O0] [--check] [--verbose]
//! [--manifest FILE --digests FILE] [--cubins FOLDER] [--mutants FILE] [FILTER]`. The digests of the buffers after each launch were
//! written down once by `cargo xtask gpu digests` (`xtask/data/launches-sm90.txt.gz`). Launches of another manifest need their own
//! digests. With `--cubins` there need be no ptxas: the folder has subfolders `O3` and `O0`. With `--mutants` see [`super::mutants`].

use super::corpus;
use crate::gpu::job::{Argument, Job, hash};
use crate::{oracle, parallel};
use orias_sim::{Checks, Device, Launch, LaunchError, Options, Outcome, Schedule, Timing};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Thread-instructions after which a launch counts as endless.
const MOST_STEPS: u64 = 4_000_000_000;

/// Features that the emulator does not have yet: launches that stop on them are counted apart.
const LATER: &[&str] = &["cluster", "GMMA", "WARPGROUP", "UBLK", "UTMA", "TMASK"];

struct Request {
    sample: bool,
    timings: Vec<Timing>,
    schedule: Schedule,
    levels: Vec<&'static str>,
    checks: Checks,
    verbose: bool,
    manifest: Option<PathBuf>,
    digests: PathBuf,
    cubins: PathBuf,
    mutants: Option<PathBuf>,
    filter: String,
}

impl Request {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut request = Self {
            sample: false,
            timings: vec![Timing::Off],
            schedule: Schedule::InOrder,
            levels: vec!["O3", "O0"],
            checks: Checks::NONE,
            verbose: false,
            manifest: None,
            digests: oracle::repository().join("xtask/data/launches-sm90.txt.gz"),
            cubins: oracle::repository().join("target/sim"),
            mutants: None,
            filter: String::new(),
        };
        let mut words = args.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let mut path = || {
                let path = words.next().map(PathBuf::from);
                path.ok_or_else(|| format!("{word} wants a path"))
            };
            match word {
                "--manifest" => request.manifest = Some(path()?),
                "--digests" => request.digests = path()?,
                "--cubins" => request.cubins = path()?,
                "--mutants" => request.mutants = Some(path()?),
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
                "--schedule" => request.schedule = words.next().unwrap_or_default().parse()?,
                "--timing" => {
                    let text = words.next().unwrap_or_default();
                    request.timings.clear();
                    for part in text.split(',') {
                        request.timings.extend(timings(part)?);
                    }
                }
                flag if flag.starts_with('-') => return Err(format!("not understood: {flag}")),
                filter => request.filter = filter.to_owned(),
            }
        }
        Ok(request)
    }
}

/// `off`, `strict`, `random:SEED` or `random:FIRST..END`.
fn timings(text: &str) -> Result<Vec<Timing>, String> {
    let seed = |text: &str| text.parse().map_err(|_| format!("'{text}' is not a seed"));
    Ok(match text.split_once(':') {
        None if text == "off" => vec![Timing::Off],
        None if text == "strict" => vec![Timing::Strict],
        Some(("random", seeds)) => match seeds.split_once("..") {
            Some((first, end)) => (seed(first)?..seed(end)?).map(Timing::Random).collect(),
            None => vec![Timing::Random(seed(seeds)?)],
        },
        _ => return Err(format!("no timing is called '{text}'")),
    })
}

/// The digests of the chip, by launch.
pub(super) fn recorded() -> Result<BTreeMap<String, Vec<u64>>, String> {
    digests(&oracle::repository().join("xtask/data/launches-sm90.txt.gz"))
}

/// The digests of a file, compressed or not, by launch.
fn digests(path: &Path) -> Result<BTreeMap<String, Vec<u64>>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let bytes = std::fs::read(path).map_err(failed)?;
    let mut text = String::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text)
    } else {
        bytes.as_slice().read_to_string(&mut text)
    }
    .map_err(failed)?;
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
pub(super) fn assemble(module: &Path, cubins: &Path, level: &str) -> Result<PathBuf, String> {
    let folder = cubins.join(level);
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let name = module.file_stem().ok_or("a module without a name")?;
    let cubin = folder.join(name).with_extension("cubin");
    if !cubin.exists() {
        let output = oracle::bounded(&oracle::find("ptxas")?)
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
    pub(crate) findings: Vec<String>,
}

/// Runs one launch and compares the buffers it leaves with `expected`.
pub(crate) fn launch(
    job: &Job,
    image: &[u8],
    expected: &[u64],
    timing: Timing,
    checks: Checks,
) -> Result<Ran, String> {
    let options = Options {
        timing,
        checks,
        ..bounded()
    };
    launch_with(job, image, expected, &options)
}

/// Options that let no launch run for ever.
pub(crate) fn bounded() -> Options {
    Options {
        max_steps: Some(MOST_STEPS),
        ..Options::default()
    }
}

/// The same with all options.
pub(super) fn launch_with(
    job: &Job,
    image: &[u8],
    expected: &[u64],
    options: &Options,
) -> Result<Ran, String> {
    let start = Instant::now();
    let (outcome, found) = emulate(job, image, options)?;
    let time = start.elapsed();
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            return Ok(Ran {
                verdict: Verdict::Stopped(error.to_string()),
                steps: 0,
                time,
                findings: Vec::new(),
            });
        }
    };
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

/// Runs one launch with the code of `image`: what came of it, and the hashes of its buffers.
pub(crate) fn emulate(
    job: &Job,
    image: &[u8],
    options: &Options,
) -> Result<(Result<Outcome, LaunchError>, Vec<u64>), String> {
    let mut device = Device::new();
    let module = device
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
        cluster: None,
        dynamic_shared: job.smem,
        arguments,
    };
    let outcome = device.launch(&module, &launch, options);
    let left = buffers.iter();
    let left = left.map(|(address, length)| device.read(*address, *length).unwrap_or_default());
    Ok((outcome, left.map(|bytes| hash(&bytes)).collect()))
}

/// A launch that is to be compared.
pub(super) struct Case {
    pub(super) job: Job,
    pub(super) image: Vec<u8>,
    pub(super) expected: Vec<u64>,
}

#[derive(Default)]
struct Totals {
    equal: usize,
    later: usize,
    wrong: usize,
    steps: u64,
    time: Duration,
}

/// The launches of a request at a level, with their cubins.
fn cases(request: &Request, level: &str) -> Result<Vec<Case>, String> {
    let recorded = digests(&request.digests)?;
    let standard = corpus::packed().join("cuda-sm90a/manifest.json");
    let manifest = request.manifest.as_ref().unwrap_or(&standard);
    let folder = manifest.parent().unwrap_or(Path::new("."));
    let mut cases = Vec::new();
    for (number, test) in (crate::gpu::tests(&manifest.to_string_lossy())?.iter()).enumerate() {
        let mut job = Job::from_test(test, String::new())?;
        if !job.name.contains(&request.filter) || request.sample && number % 8 != 0 {
            continue;
        }
        let Some(expected) = recorded.get(&job.name) else {
            match request.manifest {
                // The chip may have failed on a launch, or left something else each time.
                Some(_) => continue,
                None => {
                    return Err(format!("{}: the chip's digests are not recorded", job.name));
                }
            }
        };
        let module = folder.join(test["ptx"].as_str().ok_or("a test without ptx")?);
        let cubin = assemble(&module, &request.cubins, level)?;
        let image =
            std::fs::read(&cubin).map_err(|error| format!("{}: {error}", cubin.display()))?;
        job.cubin = cubin.to_string_lossy().into_owned();
        cases.push(Case {
            job,
            image,
            expected: expected.clone(),
        });
    }
    Ok(cases)
}

pub fn run(args: &[String]) -> Result<(), String> {
    let request = Request::parse(args)?;
    if let Some(file) = &request.mutants {
        return super::mutants::replay(file, &cases(&request, "O3")?, request.verbose);
    }
    let mut failures = 0;
    for level in &request.levels {
        let cases = cases(&request, level)?;
        for timing in &request.timings {
            failures += compare(&request, level, *timing, &cases)?;
        }
    }
    if failures == 0 {
        Ok(())
    } else {
        Err(format!("{failures} launches are wrong"))
    }
}

/// How many launches with one timing are wrong.
fn compare(
    request: &Request,
    level: &str,
    timing: Timing,
    cases: &[Case],
) -> Result<usize, String> {
    let mut totals = Totals::default();
    let results = parallel::map(cases, |case| {
        let options = Options {
            timing,
            schedule: request.schedule,
            checks: request.checks,
            ..bounded()
        };
        launch_with(&case.job, &case.image, &case.expected, &options)
    });
    for (case, ran) in cases.iter().zip(results) {
        let (ran, name) = (ran?, &case.job.name);
        totals.steps += ran.steps;
        totals.time += ran.time;
        if request.verbose {
            println!("{level} {name}: {} steps, {:.2?}", ran.steps, ran.time);
        }
        for finding in &ran.findings {
            println!("{level} {name}: {finding}");
        }
        match ran.verdict {
            Verdict::Equal => totals.equal += 1,
            Verdict::Stopped(why) if LATER.iter().any(|word| why.contains(word)) => {
                totals.later += 1;
                if request.verbose {
                    println!("{level} {name}: {why}");
                }
            }
            Verdict::Different(why) => {
                totals.wrong += 1;
                println!("{level} {name}: different, {why}");
            }
            Verdict::Stopped(why) => {
                totals.wrong += 1;
                println!("{level} {name}: stopped: {why}");
            }
        }
    }
    println!(
        "{level}, timing {timing:?}, schedule {:?}: {} equal, {} need what is not emulated yet, {} wrong; {} thread-instructions in {:.1?}",
        request.schedule, totals.equal, totals.later, totals.wrong, totals.steps, totals.time
    );
    if totals.equal == 0 {
        return Err("nothing was compared".to_owned());
    }
    Ok(totals.wrong)
}
