//! `conformance sim --mutants FILE`: hazards that gave wrong results on the chip, in the emulator with strict timing.
//!
//! The file comes from `cargo xtask gpu mutants` (`xtask/data/mutants-sm90.txt`): each line is a launch, the offset of an instruction,
//! its word before and after one control field was made to ask for less, and what the chip did. The emulator shows the hazard when
//! the launch leaves other buffers than the chip left without the change, or stops. It must show 95 of 100.

use super::sim::{Case, Verdict, launch_with};
use crate::parallel;
use orias_cubin::Cubin;
use orias_sim::{Options, Timing};
use std::path::Path;

/// Thread-instructions after which a mutant hangs.
const MOST_STEPS: u64 = 300_000_000;

/// Of a hundred, how many must be shown.
const WANTED: usize = 95;

struct Mutant<'a> {
    case: &'a Case,
    /// The cubin with the changed word.
    image: Vec<u8>,
    line: String,
}

/// Replays the mutants of a file on the launches they were made from.
pub(super) fn replay(file: &Path, cases: &[Case], verbose: bool) -> Result<(), String> {
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut mutants = Vec::new();
    for line in text.lines() {
        if let Some(mutant) = read(line, cases).map_err(|why| format!("{line}: {why}"))? {
            mutants.push(mutant);
        }
    }
    let options = Options {
        timing: Timing::Strict,
        max_steps: Some(MOST_STEPS),
        ..Options::default()
    };
    let results = parallel::map(&mutants, |mutant| {
        let (job, expected) = (&mutant.case.job, &mutant.case.expected);
        launch_with(job, &mutant.image, expected, &options)
    });
    let mut shown = 0;
    for (mutant, ran) in mutants.iter().zip(results) {
        match ran?.verdict {
            Verdict::Equal => println!("not shown: {}", mutant.line),
            Verdict::Different(how) | Verdict::Stopped(how) => {
                shown += 1;
                if verbose {
                    println!("shown: {}: {how}", mutant.line);
                }
            }
        }
    }
    let all = mutants.len();
    println!("{shown} of {all} mutants that go wrong on the chip go wrong with strict timing");
    if all > 0 && shown * 100 >= all * WANTED {
        Ok(())
    } else {
        Err(format!("less than {WANTED} of 100 are shown"))
    }
}

/// A line of the file; none where its launch was not asked for.
fn read<'a>(line: &str, cases: &'a [Case]) -> Result<Option<Mutant<'a>>, String> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [name, offset, before, after, verdict, change] = fields[..] else {
        return Err("six fields are expected".to_owned());
    };
    let Some(case) = cases.iter().find(|case| case.job.name == name) else {
        return Ok(None);
    };
    let number = |text: &str| {
        u128::from_str_radix(text, 16).map_err(|_| format!("'{text}' is not a number"))
    };
    let cubin = Cubin::read(&case.image).map_err(|error| error.to_string())?;
    let functions = cubin.functions();
    let function = (functions.iter())
        .find(|function| function.name == case.job.kernel)
        .ok_or("the kernel is not there")?;
    let start = (case.image.windows(function.code.len()))
        .position(|window| window == function.code)
        .ok_or("the code is not in one piece")?;
    let at = start + number(offset)? as usize;
    let mut image = case.image.clone();
    match image.get_mut(at..at + 16) {
        Some(word) if word == number(before)?.to_le_bytes() => {
            word.copy_from_slice(&number(after)?.to_le_bytes());
        }
        _ => return Err("the code is not that of which the mutant was made".to_owned()),
    }
    Ok(Some(Mutant {
        case,
        image,
        line: format!("{name} +{offset} {verdict} {change}"),
    }))
}
