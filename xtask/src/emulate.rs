//! `cargo xtask emulate MANIFEST [--level N]... [--random SEED] [--against FOLDER] [FILTER]`: a manifest's launches without a GPU.
//!
//! The PTX beside the manifest is compiled at each level (-O0 and -O3 unless told) and runs in the emulator, with strict timing or
//! with random latencies; what it leaves in its buffers must be what the interpreter of PTX leaves there. Products and sums are not
//! contracted: the interpreter does what the text says.
//!
//! `--against` compares with what cubins of a folder leave in the emulator instead, such as ptxas's (`ptxas --fmad=false`), each named like its PTX: for launches that take the interpreter too long.

use crate::conformance::sim::{Verdict, bounded, emulate, launch};
use crate::gpu::job::Job;
use crate::gpu::tests;
use crate::programs::interpreted_job;
use orias::{Options, Source, Target, compile};
use orias_sim::{Checks, Timing};
use std::collections::BTreeMap;
use std::path::Path;

pub fn run(args: &[String]) -> Result<(), String> {
    let mut words = args.iter().map(String::as_str);
    let manifest = words.next().ok_or("a manifest is needed")?;
    let (mut levels, mut timing, mut filter) = (Vec::new(), Timing::Strict, "");
    let mut against: Option<&Path> = None;
    while let Some(word) = words.next() {
        let mut number = || {
            let text = words.next().unwrap_or_default();
            let n: Result<u64, _> = text.parse();
            n.map_err(|_| format!("'{text}' is not a number"))
        };
        match word {
            "--level" => levels.push(number()?.min(3) as u8),
            "--random" => timing = Timing::Random(number()?),
            "--against" => {
                let folder = words.next().ok_or("--against needs a folder of cubins")?;
                against = Some(Path::new(folder));
            }
            flag if flag.starts_with('-') => return Err(format!("not understood: {flag}")),
            text => filter = text,
        }
    }
    if levels.is_empty() {
        levels = vec![0, 3];
    }
    let folder = Path::new(manifest).parent().unwrap_or(Path::new("."));
    let mut expected: BTreeMap<String, Result<Vec<u64>, String>> = BTreeMap::new();
    let mut wrong = 0;
    for level in levels {
        let (mut images, mut equal) = (BTreeMap::new(), 0);
        for test in tests(manifest)? {
            let job = Job::from_test(&test, String::new())?;
            if !job.name.contains(filter) {
                continue;
            }
            let file = test["ptx"].as_str().ok_or("a test without ptx")?;
            if !images.contains_key(file) {
                let path = folder.join(file);
                let text =
                    std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                let image = image(file, &text, level);
                images.insert(file.to_owned(), (text, image));
            }
            let (text, image) = &images[file];
            if !expected.contains_key(&job.name) {
                let hashes = match against {
                    Some(folder) => left_by(&folder.join(file).with_extension("cubin"), &job),
                    None => interpreted_job(text, &job),
                };
                expected.insert(job.name.clone(), hashes);
            }
            let verdict = match (image, &expected[&job.name]) {
                (Err(why), _) => Err(format!("refused: {why}")),
                (_, Err(why)) => Err(format!("nothing to compare with: {why}")),
                (Ok(image), Ok(expected)) => {
                    match launch(&job, image, expected, timing, Checks::NONE)?.verdict {
                        Verdict::Equal => Ok(()),
                        Verdict::Different(what) => Err(format!("different: {what}")),
                        Verdict::Stopped(why) => Err(format!("stopped: {why}")),
                    }
                }
            };
            match verdict {
                Ok(()) => equal += 1,
                Err(what) => {
                    wrong += 1;
                    println!("-O{level} {}: {what}", job.name);
                }
            }
        }
        println!("-O{level}: {equal} equal");
    }
    match wrong {
        0 => Ok(()),
        n => Err(format!("{n} launches do not leave what they should")),
    }
}

/// What the code of a cubin leaves in the buffers of a launch, in the emulator.
fn left_by(cubin: &Path, job: &Job) -> Result<Vec<u64>, String> {
    let image = std::fs::read(cubin).map_err(|error| format!("{}: {error}", cubin.display()))?;
    let (outcome, found) = emulate(job, &image, &bounded())?;
    let outcome = outcome.map_err(|error| error.to_string())?;
    match outcome.fault {
        Some(fault) => Err(fault.to_string()),
        None => Ok(found),
    }
}

fn image(name: &str, text: &[u8], level: u8) -> Result<Vec<u8>, String> {
    let options = Options {
        target: Target::parse("sm_90a").ok_or("sm_90a is no target")?,
        opt_level: level,
        contract: Some(false),
        ..Options::default()
    };
    let compiled = compile(&Source { name, text }, &options).map_err(|errors| {
        let first = errors.0.first().map(ToString::to_string);
        first.unwrap_or_else(|| "no reason given".to_owned())
    })?;
    compiled.cubin.ok_or_else(|| "no cubin was made".to_owned())
}
