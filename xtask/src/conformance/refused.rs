//! Bad PTX and PTX that is not supported yet: the command says what and where, exits as ptxas does, and leaves no file.
//!
//! `conformance refused [MUTANTS] [--seed=N] [--sample]`. The command itself runs, as `target/release/orias` (`ORIAS_BIN` names another), on
//!
//! - the modules of the corpus, and each of them cut off or with some bytes replaced at a random place,
//! - the PTX below `tests/`,
//! - samples of every row of the instruction tables and statements of the corpus,
//! - MUTANTS of those, spoiled as `conformance ptx` does it.
//!
//! What it accepts must be a cubin that the judge finds nothing in. What it refuses must end with exit code 255 and leave no file, and
//! every message must hold: an error names a line that the file has, one about an instruction that is not supported names the
//! instruction of that line, and nothing is an internal error, a panic, or silence. Nothing may take longer than [`PATIENCE`].

use super::{corpus, ptx};
use crate::{oracle, parallel};
use orias_cubin::Cubin;
use orias_generate::synth::Random;
use orias_ptx::grammar::ROWS;
use orias_verify::{Check, Finding};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How many mutants a run has unless told otherwise.
const MUTANTS: usize = 5_000;

/// How long one program may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What ptxas exits with when it refuses its input.
const REFUSED: i32 = 255;

pub(super) struct Program {
    pub(super) name: String,
    pub(super) text: Vec<u8>,
}

/// What became of a program.
pub(super) enum Verdict {
    Compiled,
    /// Refused: because something is not supported yet, or because it is wrong.
    Unsupported,
    Wrong,
}

pub fn run(args: &[String]) -> Result<(), String> {
    let (mut mutants, mut seed, mut every) = (MUTANTS, 0, 1);
    for arg in args {
        if let Some(number) = arg.strip_prefix("--seed=") {
            seed = number
                .parse()
                .map_err(|_| format!("'{arg}' does not end in a number"))?;
        } else if arg == "--sample" {
            (mutants, every) = (200, 12);
        } else {
            mutants = arg
                .parse()
                .map_err(|_| format!("'{arg}' is neither a number nor an option"))?;
        }
    }
    let command = command()?;
    let modules: Vec<Program> = read(&corpus::modules()?)?
        .into_iter()
        .step_by(every)
        .collect();
    let (samples, mutants) = ptx::programs(mutants, seed)?;
    let sets = [
        ("spoiled modules of the corpus", spoiled(&modules, seed)),
        ("modules of the corpus", modules),
        (
            "tests",
            read(&corpus::files(&oracle::repository().join("tests"), "ptx")?)?,
        ),
        (
            "samples of instructions",
            named("sample", samples.into_iter().step_by(every)),
        ),
        ("mutants of them", named("mutant", mutants.into_iter())),
    ];
    let mut failures = Vec::new();
    for (what, programs) in &sets {
        let (mut compiled, mut unsupported, mut wrong) = (0, 0, 0);
        for (program, result) in programs
            .iter()
            .zip(parallel::map(programs, |program| judge(&command, program)))
        {
            match result {
                Ok(Verdict::Compiled) => compiled += 1,
                Ok(Verdict::Unsupported) => unsupported += 1,
                Ok(Verdict::Wrong) => wrong += 1,
                Err(complaint) => failures.push(keep(program, &complaint)?),
            }
        }
        println!(
            "{what}: {} programs, {compiled} compiled, {unsupported} refused as not supported yet, {wrong} refused as wrong",
            programs.len()
        );
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n"))
    }
}

/// The command that is tried: built like this one, and built now where it is missing.
pub(super) fn command() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("ORIAS_BIN") {
        return Ok(PathBuf::from(path));
    }
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let path = own.with_file_name("orias");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--package", "orias"]);
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    let built = build
        .current_dir(oracle::repository())
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if built.success() && path.exists() {
        Ok(path)
    } else {
        Err(format!("{} could not be built", path.display()))
    }
}

fn read(paths: &[PathBuf]) -> Result<Vec<Program>, String> {
    let program = |path: &PathBuf| {
        let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_stem().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        Ok(Program { name, text })
    };
    paths.iter().map(program).collect()
}

fn named(what: &str, texts: impl Iterator<Item = String>) -> Vec<Program> {
    let program = |(number, text): (usize, String)| Program {
        name: format!("{what}-{number}"),
        text: text.into_bytes(),
    };
    texts.enumerate().map(program).collect()
}

/// Each module cut off at a random place, and with a few bytes replaced behind one.
fn spoiled(modules: &[Program], seed: u64) -> Vec<Program> {
    const BYTES: usize = 4;
    let mut programs = Vec::new();
    for (number, module) in modules.iter().enumerate() {
        let mut random = Random::new(seed ^ ((number as u64) << 20));
        let at = random.below(module.text.len());
        programs.push(Program {
            name: format!("{}-cut", module.name),
            text: module.text[..at].to_vec(),
        });
        let mut text = module.text.clone();
        let place = random.below(text.len());
        for byte in text.iter_mut().skip(place).take(BYTES) {
            *byte = random.below(256) as u8;
        }
        programs.push(Program {
            name: format!("{}-bytes", module.name),
            text,
        });
    }
    programs
}

/// Writes down a program that something is wrong with; what and where.
fn keep(program: &Program, complaint: &str) -> Result<String, String> {
    let folder = oracle::repository().join("target/refused");
    let path = folder.join(format!("{}.ptx", program.name));
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&path, &program.text))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(format!("{}: {complaint}", path.display()))
}

/// Runs the command on a program, in a folder of its own; an error is what it should not have done.
pub(super) fn judge(command: &Path, program: &Program) -> Result<Verdict, String> {
    let failed = |error: std::io::Error| error.to_string();
    let folder = tempfile::tempdir().map_err(failed)?;
    let told = tempfile::NamedTempFile::new().map_err(failed)?;
    let input = folder.path().join("m.ptx");
    let output = folder.path().join("m.cubin");
    std::fs::write(&input, &program.text).map_err(failed)?;
    let mut child = Command::new(command)
        .arg("-arch=sm_90a")
        .arg(&input)
        .arg("-o")
        .arg(&output)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(told.path()).map_err(failed)?)
        .spawn()
        .map_err(|error| format!("{}: {error}", command.display()))?;
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if started.elapsed() > PATIENCE {
            child.kill().and_then(|()| child.wait()).map_err(failed)?;
            return Err(format!("not done after {PATIENCE:?}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let messages =
        String::from_utf8_lossy(&std::fs::read(told.path()).map_err(failed)?).into_owned();
    if status.success() {
        let image = std::fs::read(&output).map_err(|_| "success, and no file".to_owned())?;
        let cubin = Cubin::read(&image).map_err(|error| format!("success, and {error}"))?;
        let judged = orias_verify::judge(&cubin).map_err(|error| error.to_string())?;
        // Whether a program waits for the copies that it begins is its own business, and samples of single instructions do not.
        let ours = |finding: &&Finding| finding.check != Check::Awaited;
        return match judged.findings.iter().find(ours) {
            Some(finding) => Err(format!("success, and {finding}")),
            None => Ok(Verdict::Compiled),
        };
    }
    if status.code() != Some(REFUSED) {
        return Err(format!("{status}: {messages}"));
    }
    let files = std::fs::read_dir(folder.path()).map_err(failed)?.count();
    if files != 1 {
        return Err(format!("refused, and {files} files are left"));
    }
    complaints(&program.text, &messages, &input)
}

/// Whether what was said about a refused program holds.
fn complaints(text: &[u8], messages: &str, input: &Path) -> Result<Verdict, String> {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.split('\n').collect();
    let place = format!("ptxas {}, line ", input.display());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for message in messages.lines() {
        let bad = |what: &str| Err(format!("{what}: {message}"));
        let (what, said) = match message.strip_prefix(&place) {
            Some(rest) => {
                let Some((number, rest)) = rest.split_once("; ") else {
                    return bad("no line");
                };
                let number: usize = number.parse().unwrap_or_default();
                let Some(line) = number.checked_sub(1).and_then(|at| lines.get(at)) else {
                    return bad("a line that is not there");
                };
                let Some((severity, said)) = rest.split_once(": ") else {
                    return bad("no severity");
                };
                match said.to_lowercase().strip_prefix("not supported yet: ") {
                    Some(feature) if !names(feature, line) => {
                        return bad(&format!("not what stands in '{line}'"));
                    }
                    Some(_) => ("unsupported", said),
                    None => (severity.trim(), said),
                }
            }
            None => match message.split_once(": ") {
                Some(("ptxas fatal   ", "Ptx assembly aborted due to errors")) => ("end", ""),
                Some(("ptxas fatal   ", said)) => match said.strip_prefix("Not supported yet: ") {
                    Some(feature) if !anywhere(feature, &text) => {
                        return bad("not what the program has");
                    }
                    Some(_) => ("unsupported", said),
                    None => ("fatal", said),
                },
                Some((start, said)) if start.starts_with("ptxas ") => {
                    (start["ptxas ".len()..].trim(), said)
                }
                _ => return bad("no message"),
            },
        };
        if said.to_lowercase().contains("internal error") {
            return bad("an internal error");
        }
        *counts.entry(what).or_insert(0) += 1;
    }
    let count = |what| counts.get(what).copied().unwrap_or_default();
    match (count("unsupported"), count("error") + count("fatal")) {
        (0, 0) => Err(format!("refused without a word why: {messages}")),
        (_, 0) => Ok(Verdict::Unsupported),
        _ => Ok(Verdict::Wrong),
    }
}

/// Whether a line holds the instruction that a message calls not supported. A message that starts with no instruction says in words what
/// is missing.
fn names(feature: &str, line: &str) -> bool {
    let instruction = feature.split([' ', '.', ',']).next().unwrap_or_default();
    let is_instruction = ROWS
        .iter()
        .any(|row| row.syntax.split(['.', ' ']).next() == Some(instruction));
    let line = line.to_lowercase();
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    !is_instruction || words.any(|word| word == instruction)
}

/// Whether a program has the names that a message about no line in particular quotes.
fn anywhere(feature: &str, text: &str) -> bool {
    feature
        .split('\'')
        .skip(1)
        .step_by(2)
        .all(|name| text.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b".version 9.0\n\twgmma.fence.sync.aligned;\n";

    fn judged(messages: &str) -> Result<&'static str, String> {
        complaints(TEXT, messages, Path::new("m.ptx")).map(|verdict| match verdict {
            Verdict::Compiled => "compiled",
            Verdict::Unsupported => "unsupported",
            Verdict::Wrong => "wrong",
        })
    }

    #[test]
    fn messages_that_name_the_line_and_its_instruction_hold() {
        let end = "ptxas fatal   : Ptx assembly aborted due to errors\n";
        let missing =
            "ptxas m.ptx, line 2; error   : not supported yet: wgmma.fence.sync.aligned\n";
        assert_eq!(judged(&format!("{missing}{end}")), Ok("unsupported"));
        let wrong = "ptxas m.ptx, line 2; error   : Unknown symbol 'x'\n";
        assert_eq!(judged(&format!("{wrong}{end}")), Ok("wrong"));
        let elsewhere = "ptxas fatal   : Not supported yet: wgmma in 'sync'\n";
        assert_eq!(judged(elsewhere), Ok("unsupported"));
    }

    #[test]
    fn messages_that_do_not_hold_are_failures() {
        for messages in [
            "",
            "ptxas fatal   : Ptx assembly aborted due to errors\n",
            "ptxas m.ptx, line 2; error   : not supported yet: mma.sync\n",
            "ptxas m.ptx, line 9; error   : Unknown symbol 'x'\n",
            "ptxas fatal   : Not supported yet: setmaxnreg in 'kernel'\n",
            "ptxas fatal   : Internal error after GeneralOptimize at inst7: no such value\n",
            "thread 'main' panicked at x.rs\n",
        ] {
            assert!(judged(messages).is_err(), "{messages}");
        }
    }
}
