//! `conformance convergence [COUNT [FIRST]] [--verbose] [--manifests FILES] [--folders FOLDERS]`: mutants of where lanes meet, judged and run in the
//! emulator.
//!
//! The launches of the CUDA corpora as ptxas -O3 makes them (below `target/mutants`, once), or of other manifests and folders (with commas between them);
//! those that end soon and that the emulator runs. A mutant that the emulator does not bring to its end, or that leaves something else, must have been
//! reported by the judge. The emulator has one order of lanes where the chip has many: what it shows is shown, what it does not show may still be wrong
//! (`cargo xtask gpu mutants --convergence` asks the chip).

use super::{corpus, sim};
use crate::lanes::{self, Outcome};
use crate::{oracle, parallel};
use orias_sim::Options;

/// Thread-instructions of a launch that is worth mutating.
const SHORT: u64 = 2_000_000;

/// A mutant that takes so many times as long as the kernel as it was hangs.
const PATIENCE: u64 = 8;

/// Mutants of a full run.
const COUNT: u64 = 300;

pub fn run(args: &[String]) -> Result<(), String> {
    let mut numbers = Vec::new();
    let (mut manifests, mut folders, mut verbose) = (None, None, false);
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--verbose" => verbose = true,
            "--manifests" => manifests = words.next().cloned(),
            "--folders" => folders = words.next().cloned(),
            number => numbers
                .push((number.parse::<u64>()).map_err(|_| format!("'{number}' is not a number"))?),
        }
    }
    let manifests = manifests.unwrap_or_else(|| {
        let all = corpus::CUDA.map(|set| corpus::packed().join(set).join("manifest.json"));
        all.map(|path| path.to_string_lossy().into_owned())
            .join(",")
    });
    let folders = match folders {
        Some(folders) => folders,
        None => assembled()?,
    };
    let first = numbers.get(1).copied().unwrap_or(0);
    let count = numbers.first().copied().unwrap_or(COUNT);
    let all = lanes::sources(&manifests, &folders)?;
    let lengths = parallel::map(&all, |source| {
        let options = limited(SHORT);
        let (outcome, left) = sim::emulate(&source.job, &source.image, &options)?;
        let outcome = outcome.ok().filter(|outcome| outcome.fault.is_none());
        Ok::<_, String>(outcome.map(|outcome| (outcome.thread_instructions, left)))
    });
    let mut sources = Vec::new();
    let mut expected = Vec::new();
    for (source, length) in all.into_iter().zip(lengths) {
        if let Some(length) = length? {
            sources.push(source);
            expected.push(length);
        }
    }
    println!("{} launches", sources.len());
    if sources.is_empty() {
        return Err("nothing to mutate".to_owned());
    }
    let numbers: Vec<u64> = (first..first + count).collect();
    let tried = parallel::map(&numbers, |number| {
        let mutant = lanes::choose(&sources, *number);
        let source = &sources[mutant.source];
        let (length, left) = &expected[mutant.source];
        let image = source.image(&mutant)?;
        let judgement = source.judge(&image)?;
        let options = limited(length.saturating_mul(PATIENCE).max(100_000));
        let (outcome, found) = sim::emulate(&source.job, &image, &options)?;
        let outcome = match outcome.map(|outcome| outcome.fault) {
            Ok(None) if found == *left => Outcome::Same,
            Ok(None) => Outcome::Different,
            Ok(Some(fault)) if is_hang(&fault.kind) => Outcome::Hangs,
            _ => Outcome::Failed,
        };
        Ok::<_, String>((mutant, judgement, outcome))
    });
    let tried = tried.into_iter().collect::<Result<Vec<_>, String>>()?;
    if verbose {
        for (mutant, judgement, outcome) in &tried {
            let what = sources[mutant.source].describe(mutant);
            println!("{outcome:?}: {what}: {}", judgement.first);
        }
    }
    lanes::report(&sources, &tried)
}

fn limited(steps: u64) -> Options {
    Options {
        max_steps: Some(steps),
        ..Options::default()
    }
}

fn is_hang(fault: &orias_sim::FaultKind) -> bool {
    matches!(
        fault,
        orias_sim::FaultKind::Deadlock(_) | orias_sim::FaultKind::StepLimit(_)
    )
}

/// The folder with the CUDA corpora as ptxas -O3 makes them.
fn assembled() -> Result<String, String> {
    let folder = oracle::repository().join("target/mutants");
    for set in corpus::CUDA {
        for module in corpus::files(&corpus::packed().join(set), "ptx")? {
            sim::assemble(&module, &folder, "O3")?;
        }
    }
    Ok(folder.join("O3").to_string_lossy().into_owned())
}
