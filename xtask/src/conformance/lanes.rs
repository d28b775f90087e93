//! Lanes per issue: how many lanes an issued instruction serves in our code, and in ptxas's, launch by launch.
//!
//! `conformance lanes [--level N] [--least X] [--manifest FILE]... [--relatives COUNT] [--profile FOLDER] [--knob NAME=VALUE]... [FILTER]`. Every launch of the CUDA corpora (or of the manifests given)
//! runs in the emulator as we compile it (at -O3 unless told otherwise) and as ptxas -O3 makes it, both without contraction so that the
//! buffers they leave can be compared. A line for each launch, the worst first:
//!
//! ```text
//! ratio  lanes  ptxas  issues  ptxas  buffers  launch
//! ```
//!
//! With `--relatives` the launches are generated parsers, root finders and tree walks with several exits (`orias_generate::relatives`).
//!
//! With `--profile` the code of each launch is written to a folder twice, ours and ptxas's, with how often each instruction was issued, for how many threads, and how long
//! warps stood before it for the stall count of the instruction before and for barriers.
//!
//! Lanes per issue count the lanes of the group that issues, whatever their guards. Launches that one side cannot do are listed by
//! reason. The suite fails if a launch leaves something else than ptxas's code does, or has less than `--least` of its lanes per issue and issues more:
//! code that comes to the same results with fewer issues has lost nothing, however full ptxas's are. (A lane that spins on a lock
//! while all others wait is one lane per issue; ptxas lets all of them spin.) Such launches are marked `fewer`.

use super::compile::Images;
use super::{corpus, sim};
use crate::gpu::job::Job;
use crate::{oracle, parallel};
use orias_cubin::Cubin;
use orias_generate::relatives;
use orias_sass::Target;
use orias_sass::text::print_instruction;
use orias_sim::{Options, Timing};
use orias_verify::program::{Program, WORD};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The share of ptxas's lanes per issue that a launch should have.
const LEAST: f64 = 0.95;

struct Request {
    level: u8,
    least: f64,
    manifests: Vec<PathBuf>,
    profile: Option<PathBuf>,
    /// Knobs that are set for our code.
    knobs: Vec<String>,
    filter: String,
}

impl Request {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut request = Self {
            level: 3,
            least: LEAST,
            manifests: Vec::new(),
            profile: None,
            knobs: Vec::new(),
            filter: String::new(),
        };
        let mut words = args.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
            match word {
                "--level" => {
                    let level = value()?.trim_start_matches('O');
                    request.level = level
                        .parse()
                        .map_err(|_| format!("'{level}' is no level"))?;
                }
                "--least" => {
                    let least = value()?;
                    request.least = least
                        .parse()
                        .map_err(|_| format!("'{least}' is no number"))?;
                }
                "--profile" => request.profile = Some(PathBuf::from(value()?)),
                "--knob" => request.knobs.push(value()?.to_owned()),
                "--manifest" => request.manifests.push(PathBuf::from(value()?)),
                "--relatives" => {
                    let count = value()?;
                    let count = count
                        .parse()
                        .map_err(|_| format!("'{count}' is no number"))?;
                    request.manifests.push(write_relatives(count)?);
                }
                flag if flag.starts_with('-') => return Err(format!("not understood: {flag}")),
                filter => request.filter = filter.to_owned(),
            }
        }
        if request.manifests.is_empty() {
            request.manifests = ["cuda-sm90a", "cuda-second-sm90a"]
                .map(|folder| corpus::packed().join(folder).join("manifest.json"))
                .into();
        }
        Ok(request)
    }
}

/// A launch with both codes, or why there is none of ours.
struct Case {
    job: Job,
    ours: Result<Vec<u8>, String>,
    theirs: Vec<u8>,
}

/// What one code of a launch did.
struct Counted {
    issues: u64,
    lanes: f64,
    buffers: Vec<u64>,
}

/// A launch that both codes did.
struct Row {
    name: String,
    ours: Counted,
    theirs: Counted,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.ours.lanes / self.theirs.lanes
    }

    /// Whether lanes run apart and that costs issues.
    fn falls_short(&self, least: f64) -> bool {
        self.ratio() < least && self.ours.issues > self.theirs.issues
    }

    fn is_equal(&self) -> bool {
        self.ours.buffers == self.theirs.buffers
    }
}

pub fn run(args: &[String]) -> Result<(), String> {
    let request = Request::parse(args)?;
    let mut cases = Vec::new();
    for manifest in &request.manifests {
        cases.extend(read_cases(manifest, &request)?);
    }
    let results = parallel::map(&cases, |case| {
        let ours = match &case.ours {
            Ok(image) => count(&case.job, image).map_err(|why| format!("ours: {why}")),
            Err(refusal) => Err(format!("refused: {refusal}")),
        }?;
        let theirs = count(&case.job, &case.theirs).map_err(|why| format!("ptxas's: {why}"))?;
        Ok(Row {
            name: case.job.name.clone(),
            ours,
            theirs,
        })
    });
    if let Some(folder) = &request.profile {
        for case in &cases {
            write_profiles(case, folder)?;
        }
    }
    let mut rows = Vec::new();
    let mut left_out: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (case, result) in cases.iter().zip(results) {
        match result {
            Ok(row) => rows.push(row),
            Err(reason) => left_out.entry(reason).or_default().push(&case.job.name),
        }
    }
    rows.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    print(&rows, &left_out, request.least);
    let few = (rows.iter())
        .filter(|row| row.falls_short(request.least))
        .count();
    let excused = (rows.iter())
        .filter(|row| row.ratio() < request.least && !row.falls_short(request.least))
        .count();
    let different = rows.iter().filter(|row| !row.is_equal()).count();
    println!(
        "{} launches: {few} below {} of ptxas's lanes per issue with more issues, {excused} with fewer, {different} different; {} not compared",
        rows.len(),
        request.least,
        cases.len() - rows.len()
    );
    match (rows.len(), few + different) {
        (0, _) => Err("nothing was compared".to_owned()),
        (_, 0) => Ok(()),
        _ => Err(format!(
            "{few} launches have too few lanes per issue, {different} are different"
        )),
    }
}

/// Writes generated kernels and their manifest.
fn write_relatives(count: u64) -> Result<PathBuf, String> {
    let folder = oracle::repository().join("target/relatives");
    let broken = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(broken)?;
    let mut tests = Vec::new();
    for seed in 0..count {
        let relative = relatives::relative(seed);
        let file = format!("{}.ptx", relative.name);
        std::fs::write(folder.join(&file), relative.ptx).map_err(broken)?;
        tests.push(json!({
            "name": relative.name,
            "ptx": file,
            "kernel": relatives::KERNEL,
            "grid": [2, 1, 1],
            "block": [128, 1, 1],
            "smem": 0,
            "args": [
                { "rand": "i32", "n": relatives::WORDS, "seed": seed },
                { "poison": 2048 },
                { "i32": relatives::WORDS },
            ],
            "esize": 4,
        }));
    }
    let manifest = folder.join("manifest.json");
    let text = json!({ "tests": tests }).to_string();
    std::fs::write(&manifest, text).map_err(broken)?;
    Ok(manifest)
}

/// The launches of a manifest that the filter fits, compiled by both.
fn read_cases(manifest: &Path, request: &Request) -> Result<Vec<Case>, String> {
    let folder = manifest.parent().unwrap_or(Path::new("."));
    let mut images = Images::new(folder, request.level).with_knobs(&request.knobs);
    let cubins = oracle::repository().join("target/sim");
    let mut cases = Vec::new();
    for test in crate::gpu::tests(&manifest.to_string_lossy())? {
        let job = Job::from_test(&test, String::new())?;
        let file = test["ptx"].as_str().ok_or("a test without ptx")?;
        if !(job.name.contains(&request.filter) || file.contains(&request.filter)) {
            continue;
        }
        let theirs = sim::assemble(&folder.join(file), &cubins, "O3")?;
        let theirs =
            std::fs::read(&theirs).map_err(|error| format!("{}: {error}", theirs.display()))?;
        let ours = images.of(file, &job.kernel)?.map(<[u8]>::to_vec);
        cases.push(Case { job, ours, theirs });
    }
    Ok(cases)
}

/// Runs a launch in the emulator, or says why it does not come to its end.
fn count(job: &Job, image: &[u8]) -> Result<Counted, String> {
    let (outcome, buffers) = sim::emulate(job, image, &sim::bounded())?;
    let outcome = outcome.map_err(|error| error.to_string())?;
    if let Some(fault) = outcome.fault {
        return Err(fault.kind.to_string());
    }
    Ok(Counted {
        issues: outcome.warp_instructions,
        lanes: outcome.thread_instructions as f64 / (outcome.warp_instructions.max(1)) as f64,
        buffers,
    })
}

/// Writes the code of a launch, ours and ptxas's, with the counts of each instruction.
fn write_profiles(case: &Case, folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let ours = case.ours.as_ref().map(Vec::as_slice);
    for (side, image) in [("ours", ours), ("ptxas", Ok(case.theirs.as_slice()))] {
        let Ok(image) = image else { continue };
        let file = folder.join(format!("{}.{side}.txt", case.job.name));
        let text = profile(&case.job, image)?;
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

/// The code of a launch's kernel with how often each instruction was issued and for how many threads.
fn profile(job: &Job, image: &[u8]) -> Result<String, String> {
    let options = Options {
        profile: true,
        timing: Timing::Strict,
        ..sim::bounded()
    };
    let (outcome, _) = sim::emulate(job, image, &options)?;
    let profile = outcome.map_err(|error| error.to_string())?.profile;
    let profile = profile.ok_or("no profile")?;
    let cubin = Cubin::read(image).map_err(|error| error.to_string())?;
    let functions = cubin.functions();
    let function = functions.iter().find(|one| one.name == job.kernel);
    let function = function.ok_or_else(|| format!("no kernel {}", job.kernel))?;
    let program = Program::of(function, Target::Sm90a).map_err(|error| error.to_string())?;
    let mut text = profile.summary();
    text += &format!(
        "{} cycles of all warps by the control words\n",
        profile.warp_cycles
    );
    for (index, (counts, instruction)) in
        (profile.instructions.iter().zip(&program.instructions)).enumerate()
    {
        let offset = index * WORD;
        let threads = counts.threads as f64 / counts.issued.max(1) as f64;
        let printed = print_instruction(instruction, offset as u64);
        let issued = counts.issued;
        let (stalled, waited) = (counts.stalled, counts.waited);
        text += &format!(
            "{issued:>9} {threads:6.2} {stalled:>9} {waited:>9} /*{offset:04x}*/ {printed}\n"
        );
    }
    Ok(text)
}

fn print(rows: &[Row], left_out: &BTreeMap<String, Vec<&str>>, least: f64) {
    println!(
        "{:>6} {:>6} {:>6} {:>11} {:>11} {:9} launch",
        "ratio", "lanes", "ptxas", "issues", "ptxas", "buffers"
    );
    for row in rows {
        println!(
            "{:6.3} {:6.2} {:6.2} {:11} {:11} {:9} {}{}",
            row.ratio(),
            row.ours.lanes,
            row.theirs.lanes,
            row.ours.issues,
            row.theirs.issues,
            if row.is_equal() { "equal" } else { "different" },
            row.name,
            match row.ratio() < least && !row.falls_short(least) {
                true => " fewer",
                false => "",
            }
        );
    }
    for (reason, names) in left_out {
        println!(
            "{} not compared, {reason}: {}",
            names.len(),
            names.join(" ")
        );
    }
}
