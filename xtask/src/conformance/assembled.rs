//! Whatever ptxas assembles for a chip, Orias assembles: verdicts on generated programs, down to the cubin.
//!
//! `conformance assembled [COUNT] [--seed=N] [--arch=NAME]...` (sm_90a and sm_90 unless told) makes COUNT programs for each chip:
//!
//! - of every row of the instruction tables, combinations of its modifiers, a few from each row and the more the larger COUNT is; every
//!   register is loaded before the instruction and stored behind it, so that nothing is left out as dead,
//! - the same of rows that only an older chip has (`vote` without `.sync`), in PTX for that chip,
//! - programs about declarations (`orias_generate::ptx::declarations`),
//! - mutants of samples of rows and of statements of the corpus, as `conformance ptx` spoils them.
//!
//! `ptxas -arch=NAME -O0 -o` says what is right (its verdicts are kept in `target/ptx-oracle`); we compile at -O3. A table counts what only we
//! refuse, by what we say, and what only ptxas refuses. The suite fails where we refuse something, unless `conformance ptx` explains it, or
//! stop with an internal error. Programs of both kinds are kept in `target/assembled-disagreements.txt`.

use super::ptx::verdict::{Oracle, Verdict};
use super::ptx::{self, class_of, is_nonsense};
use crate::{oracle, parallel};
use orias_generate::synth;
use orias_ptx::NEWEST_VERSION;
use orias_ptx::grammar::ROWS;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How many programs a run has unless told otherwise.
const COUNT: usize = 20_000;

/// The last chip before instructions were taken away, and a PTX version of its time.
const OLDER_CHIP: &str = "sm_60";
const OLDER_VERSION: orias_ptx::grammar::PtxVersion = 60;

pub fn run(args: &[String]) -> Result<(), String> {
    let (mut count, mut seed) = (COUNT, 0_u64);
    let mut chips = Vec::new();
    for arg in args {
        let number = |text: &str| text.parse().map_err(|_| format!("'{text}' is no number"));
        match arg.split_once('=') {
            Some(("--seed", text)) => seed = number(text)?,
            Some(("--arch", name)) => chips.push(name.to_owned()),
            None => count = number(arg)? as usize,
            _ => return Err(format!("not understood: {arg}")),
        }
    }
    if chips.is_empty() {
        chips = vec!["sm_90a".to_owned(), "sm_90".to_owned()];
    }
    let mut report = String::new();
    let mut failures = Vec::new();
    for chip in &chips {
        let programs = programs(chip, count, seed)?;
        let refused = compare(chip, &programs, &mut report)?;
        if refused > 0 {
            failures.push(format!("{chip}: {refused} programs that only we refuse"));
        }
    }
    let path = oracle::repository().join("target/assembled-disagreements.txt");
    std::fs::write(&path, report).map_err(|error| format!("{}: {error}", path.display()))?;
    match failures.is_empty() {
        true => Ok(()),
        false => Err(format!("{}; see {}", failures.join(", "), path.display())),
    }
}

/// The programs for a chip: half of them from rows, an eighth about declarations, the rest mutants.
fn programs(chip: &str, count: usize, seed: u64) -> Result<Vec<String>, String> {
    let target =
        orias_ptx::target::Target::from_name(chip).ok_or_else(|| format!("{chip} is no target"))?;
    let most = (count / 2).div_ceil(ROWS.len()).max(1);
    let mut programs = Vec::new();
    for row in ROWS {
        let mut choices = synth::choices(row, NEWEST_VERSION, target, most * 4);
        // Which of them is the seed's to say; the plainest is tried with the first seed.
        let skip = (seed as usize * most).min(choices.len().saturating_sub(most));
        choices.drain(..skip);
        choices.truncate(most);
        let gone = choices.is_empty();
        for choice in choices {
            programs.push(synth::sample(&choice, NEWEST_VERSION, target).used());
        }
        // Code for an older chip is compiled for this one with what that one had.
        if gone && let Some(older) = orias_ptx::target::Target::from_name(OLDER_CHIP) {
            for choice in synth::choices(row, OLDER_VERSION, older, most) {
                programs.push(synth::sample(&choice, OLDER_VERSION, older).used());
            }
        }
    }
    let step = programs.len().div_ceil(count.div_ceil(2)).max(1);
    programs = programs.into_iter().step_by(step).collect();
    for number in 0..count / 8 {
        let program =
            orias_generate::ptx::declarations::program(seed * COUNT as u64 + number as u64);
        programs.push(program.text.replace("sm_90a", chip));
    }
    let rest = count.saturating_sub(programs.len());
    let (_, mutants) = ptx::programs(rest, seed)?;
    programs.extend(mutants.into_iter().map(|text| text.replace("sm_90a", chip)));
    Ok(programs)
}

/// What we say of a program, if we refuse it.
fn ours(program: &str, options: &orias::Options) -> Option<String> {
    let source = orias::Source {
        name: "program.ptx",
        text: program.as_bytes(),
    };
    let compiled = std::panic::catch_unwind(|| orias::compile(&source, options).map(|_| ()));
    match compiled {
        Ok(Ok(())) => None,
        Ok(Err(errors)) => Some(
            (errors.iter())
                .find(|it| it.severity >= orias::Severity::Error)
                .map_or_else(|| "nothing".to_owned(), |first| first.message.clone()),
        ),
        Err(_) => Some("panic".to_owned()),
    }
}

/// Compares the verdicts, prints the table and returns how many programs only we refuse.
fn compare(chip: &str, programs: &[String], report: &mut String) -> Result<usize, String> {
    let options = orias::Options {
        target: orias::Target::parse(chip).ok_or_else(|| format!("{chip} is no target"))?,
        ..orias::Options::default()
    };
    let mut oracle = Oracle::open(&oracle::find("ptxas")?, chip)?;
    let theirs = oracle.judge(programs)?;
    let ours = parallel::map(programs, |program| ours(program, &options));
    let (mut both, mut neither, mut meaningless) = (0, 0, 0);
    let mut classes: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
    let mut refused = 0;
    for (at, (theirs, ours)) in theirs.iter().zip(ours).enumerate() {
        let (who, message) = match (theirs, ours) {
            (Verdict::Accepted, None) => {
                both += 1;
                continue;
            }
            (Verdict::Refused(_), Some(message)) if !is_broken(&message) => {
                neither += 1;
                continue;
            }
            (Verdict::Accepted, Some(message)) if is_nonsense(&message) => {
                meaningless += 1;
                continue;
            }
            (_, Some(message)) => {
                refused += 1;
                ("only we refuse", message)
            }
            (Verdict::Refused(message), None) => ("only ptxas refuses", message.clone()),
        };
        let class = format!("{who}: {}", class_of(&message));
        classes.entry(class).or_default().push((at, message));
    }
    println!(
        "{chip}: {} programs, {both} assembled by both, {neither} refused by both, {meaningless} that mean nothing, {refused} refused by us only",
        programs.len()
    );
    let mut sorted: Vec<_> = classes.into_iter().collect();
    sorted.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
    for (class, cases) in &sorted {
        println!("  {:>5} {class}", cases.len());
        let _ = writeln!(report, "=== {chip}: {} × {class}", cases.len());
        for (at, message) in cases.iter().take(6) {
            let _ = writeln!(report, "--- {message}\n{}", programs[*at]);
        }
    }
    Ok(refused)
}

/// Whether a message is about ourselves.
fn is_broken(message: &str) -> bool {
    message.starts_with("Internal error") || message == "panic"
}
