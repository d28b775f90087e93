//! The compiler: the corpus's PTX becomes cubins that the judge finds nothing in and that compute what the H200 did.
//!
//! `conformance compile [--sample] [--level N]... [--schedule S]... [--verbose] [FILTER]`. Every module of the corpus is compiled at -O0 and -O3 (or
//! the levels given). A module that uses what is not compiled yet is counted by the first feature that was missing; an internal
//! error, a finding of the judge, an instruction that nvdisasm calls illegal and a wrong result fail the suite. Of the CUDA programs every launch of the manifest runs in
//! the emulator, with strict timing, and is compared with the chip's digests. Registers are compared with ptxas -O3's.

use super::sim::{self, Verdict};
use super::{corpus, finished};
use crate::gpu::job::Job;
use crate::oracle;
use orias::{Diagnostics, Kind, Options, Source, Target, compile};
use orias_cubin::Cubin;
use orias_sim::{Schedule, Timing};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

#[derive(Default)]
struct Request {
    sample: bool,
    levels: Vec<u8>,
    schedules: Vec<Schedule>,
    verbose: bool,
    filter: String,
}

impl Request {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut request = Self::default();
        let mut words = args.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                "--sample" => request.sample = true,
                "--verbose" => request.verbose = true,
                "--schedule" => {
                    let schedule = words.next().unwrap_or_default();
                    request.schedules.push(schedule.parse()?);
                }
                "--level" => {
                    let level = words.next().unwrap_or_default();
                    let level = level
                        .parse()
                        .map_err(|_| format!("'{level}' is no level"))?;
                    request.levels.push(level);
                }
                flag if flag.starts_with('-') => return Err(format!("not understood: {flag}")),
                filter => request.filter = filter.to_owned(),
            }
        }
        if request.levels.is_empty() {
            request.levels = vec![0, 3];
        }
        if request.schedules.is_empty() {
            request.schedules.push(Schedule::InOrder);
        }
        Ok(request)
    }
}

/// What became of the modules at one level.
#[derive(Default)]
struct Tally {
    compiled: usize,
    /// Modules that use something not compiled yet, by feature.
    missing: BTreeMap<String, usize>,
    /// What is wrong, one line each.
    wrong: Vec<String>,
    instructions: usize,
    time: Duration,
    /// Logarithms of our registers over ptxas's, one for each kernel.
    registers: Vec<f64>,
    equal: usize,
    approximate: usize,
    launches_missing: usize,
}

pub fn run(args: &[String]) -> Result<(), String> {
    let request = Request::parse(args)?;
    let modules = corpus::selected(&request.filter, request.sample.then_some(8))?;
    let mut failures = 0;
    for &level in &request.levels {
        let mut tally = Tally::default();
        for module in &modules {
            compile_module(module, level, &request, &mut tally)?;
        }
        run_launches(level, &request, &mut tally)?;
        tally.print(level, modules.len());
        failures += tally.wrong.len();
    }
    if failures == 0 {
        Ok(())
    } else {
        Err(format!("{failures} failures"))
    }
}

fn options(level: u8, contract: Option<bool>) -> Result<Options, String> {
    Ok(Options {
        target: Target::parse("sm_90a").ok_or("sm_90a is no target")?,
        opt_level: level,
        contract,
        ..Options::default()
    })
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn compile_module(
    module: &Path,
    level: u8,
    request: &Request,
    tally: &mut Tally,
) -> Result<(), String> {
    let name = module.file_stem().unwrap_or_default().to_string_lossy();
    let text = read(module)?;
    let source = Source {
        name: &name,
        text: &text,
    };
    let start = Instant::now();
    let compiled = compile(&source, &options(level, None)?);
    tally.time += start.elapsed();
    let image = match compiled.map(|compiled| compiled.cubin) {
        Ok(Some(image)) => image,
        Ok(None) => return Err(format!("{name}: no cubin")),
        Err(diagnostics) => {
            match missing_feature(&diagnostics) {
                Some(feature) => {
                    if request.verbose {
                        println!("{name}: {feature}");
                    }
                    *tally.missing.entry(feature).or_insert(0) += 1;
                }
                None => tally.wrong.push(format!("{name}: {}", first(&diagnostics))),
            }
            return Ok(());
        }
    };
    tally.compiled += 1;
    let cubin = Cubin::read(&image).map_err(|error| format!("{name}: {error}"))?;
    match orias_verify::judge(&cubin) {
        Ok(verdict) => {
            tally.instructions += verdict.instructions;
            let more = verdict.findings.len().saturating_sub(1);
            if let Some(finding) = verdict.findings.first() {
                tally
                    .wrong
                    .push(format!("{name}: {finding} (and {more} more)"));
            }
        }
        Err(error) => tally.wrong.push(format!("{name}: {error}")),
    }
    if let Some(complaint) = illegal(&image)? {
        tally.wrong.push(format!("{name}: {complaint}"));
    }
    let theirs = finished::cubin_of(module, 3)?;
    if let Some(theirs) = theirs {
        let theirs = Cubin::read(&read(&theirs)?).map_err(|error| format!("{name}: {error}"))?;
        tally.compare_registers(&cubin, &theirs);
    }
    Ok(())
}

/// What nvdisasm has to say against a cubin.
fn illegal(image: &[u8]) -> Result<Option<String>, String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut file = tempfile::NamedTempFile::new().map_err(failed)?;
    file.write_all(image).map_err(failed)?;
    let output = Command::new(oracle::find("nvdisasm")?)
        .arg("-c")
        .arg(file.path())
        .output()
        .map_err(failed)?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    Ok(complaints.lines().next().map(str::to_owned))
}

/// The feature a module asks for in vain; none if something else is wrong.
fn missing_feature(diagnostics: &Diagnostics) -> Option<String> {
    let mut found = None;
    for diagnostic in diagnostics.iter() {
        match &diagnostic.kind {
            Kind::Unsupported { feature } => {
                // Names of kernels, registers and the like say nothing about the feature.
                let feature = feature.split(" in '").next().unwrap_or_default();
                let words: Vec<&str> = feature.split_whitespace().take(6).collect();
                found.get_or_insert(words.join(" "));
            }
            Kind::Internal { .. } | Kind::Stopped => return None,
            Kind::Input => {}
        }
    }
    found
}

fn first(diagnostics: &Diagnostics) -> String {
    diagnostics
        .iter()
        .find(|diagnostic| !matches!(diagnostic.kind, Kind::Unsupported { .. }))
        .map_or_else(String::new, |diagnostic| diagnostic.message.clone())
}

impl Tally {
    fn compare_registers(&mut self, ours: &Cubin, theirs: &Cubin) {
        let theirs: BTreeMap<String, u32> = theirs
            .functions()
            .iter()
            .filter_map(|function| Some((function.name.to_string(), function.registers?)))
            .collect();
        for function in ours.functions() {
            if let (Some(own), Some(other)) = (function.registers, theirs.get(function.name)) {
                self.registers
                    .push((f64::from(own) / f64::from(*other)).ln());
            }
        }
    }

    fn print(&self, level: u8, modules: usize) {
        println!(
            "-O{level}: {} of {modules} modules compiled, {} instructions, in {:.2?}",
            self.compiled, self.instructions, self.time
        );
        for (feature, count) in &self.missing {
            println!("  {count:4} not supported yet: {feature}");
        }
        if !self.registers.is_empty() {
            let mean = self.registers.iter().sum::<f64>() / self.registers.len() as f64;
            println!(
                "  registers: {:.3} times ptxas -O3's over {} kernels",
                mean.exp(),
                self.registers.len()
            );
        }
        println!(
            "  launches: {} equal, {} differ in approximate functions, {} not compiled yet",
            self.equal, self.approximate, self.launches_missing
        );
        for wrong in &self.wrong {
            println!("  wrong: {wrong}");
        }
    }
}

/// The modules of a folder as they are compiled at one level, without contraction: the chip's digests are of such code. Where a
/// kernel of a module is not compiled yet, the others are, one by one.
pub(super) struct Images {
    folder: PathBuf,
    level: u8,
    /// Knobs that are set, as `NAME=VALUE`.
    knobs: Vec<String>,
    /// By file for whole modules, by file and kernel for parts; why there is none in its place.
    known: BTreeMap<(String, Option<String>), Result<Vec<u8>, String>>,
}

impl Images {
    pub(super) fn new(folder: &Path, level: u8) -> Self {
        Self {
            folder: folder.to_owned(),
            level,
            knobs: Vec::new(),
            known: BTreeMap::new(),
        }
    }

    /// The same with knobs set.
    pub(super) fn with_knobs(self, knobs: &[String]) -> Self {
        Self {
            knobs: knobs.to_vec(),
            ..self
        }
    }

    /// A cubin that has `kernel` of the module in `file`, or why it is not compiled.
    pub(super) fn of(&mut self, file: &str, kernel: &str) -> Result<Result<&[u8], String>, String> {
        let mut key = (file.to_owned(), None);
        self.compile(&key)?;
        if self.known.get(&key).is_none_or(Result::is_err) {
            key.1 = Some(kernel.to_owned());
            self.compile(&key)?;
        }
        Ok(match self.known.get(&key) {
            Some(Ok(image)) => Ok(image),
            Some(Err(why)) => Err(why.clone()),
            None => Err("not compiled".to_owned()),
        })
    }

    fn compile(&mut self, key: &(String, Option<String>)) -> Result<(), String> {
        if self.known.contains_key(key) {
            return Ok(());
        }
        let (file, entry) = key;
        let text = read(&self.folder.join(file))?;
        let source = Source {
            name: file,
            text: &text,
        };
        let mut options = Options {
            entries: entry.iter().cloned().collect(),
            ..options(self.level, Some(false))?
        };
        for knob in &self.knobs {
            options.knobs.set(knob).map_err(|error| error.to_string())?;
        }
        let image = match compile(&source, &options) {
            Ok(compiled) => compiled.cubin.ok_or_else(|| "no cubin".to_owned()),
            Err(diagnostics) => {
                Err(missing_feature(&diagnostics).unwrap_or_else(|| first(&diagnostics)))
            }
        };
        self.known.insert(key.clone(), image);
        Ok(())
    }
}

/// Runs what the manifest says of the CUDA programs that compile, in the emulator.
fn run_launches(level: u8, request: &Request, tally: &mut Tally) -> Result<(), String> {
    let recorded = sim::recorded()?;
    let folder = corpus::packed().join("cuda-sm90a");
    let tests = crate::gpu::tests(&folder.join("manifest.json").to_string_lossy())?;
    let mut images = Images::new(&folder, level);
    for (number, test) in tests.iter().enumerate() {
        let job = Job::from_test(test, String::new())?;
        let file = test["ptx"].as_str().ok_or("a test without ptx")?;
        let skipped = request.sample && number % 8 != 0;
        if skipped || !(job.name.contains(&request.filter) || file.contains(&request.filter)) {
            continue;
        }
        let Ok(image) = images.of(file, &job.kernel)? else {
            tally.launches_missing += 1;
            continue;
        };
        let expected = recorded
            .get(&job.name)
            .ok_or_else(|| format!("{}: the chip's digests are not recorded", job.name))?;
        let approximate = test["tags"]
            .as_array()
            .is_some_and(|tags| tags.iter().any(|tag| tag == "approx"));
        for &schedule in &request.schedules {
            let options = orias_sim::Options {
                timing: Timing::Strict,
                schedule,
                ..sim::bounded()
            };
            let ran = sim::launch_with(&job, image, expected, &options)?;
            let wrong = match (ran.verdict, ran.findings.into_iter().next()) {
                (Verdict::Equal, None) => {
                    tally.equal += 1;
                    continue;
                }
                (Verdict::Different(_), None) if approximate => {
                    tally.approximate += 1;
                    continue;
                }
                (_, Some(finding)) => finding,
                (Verdict::Different(what) | Verdict::Stopped(what), None) => what,
            };
            let name = &job.name;
            tally.wrong.push(format!("{name}, {schedule:?}: {wrong}"));
        }
    }
    Ok(())
}
