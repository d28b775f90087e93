//! The command line: what ptxas accepts Orias accepts, what ptxas refuses Orias refuses in the same words.
//!
//! Every option is tried in four spellings (long and short name after two dashes and after one) with no value, an empty one,
//! and several kinds of value, attached and as the next argument. Explained, and counted apart: options that Orias refuses
//! because they are not supported yet.

use crate::oracle;
use orias::command_line::{Action, Input, OPTIONS, Status, parse};
use orias::{Kind, Target};
use std::collections::BTreeSet;
use std::path::Path;

/// A module that compiles for every target in no time.
const MODULE: &str = ".version 8.0\n.target sm_75\n.address_size 64\n";

/// What may follow an option's name.
const VALUES: &[&[&str]] = &[
    &[""],
    &["="],
    &["=1"],
    &["=64"],
    &["=true"],
    &["=foo"],
    &["=a,b"],
    &["", "1"],
    &["", "false"],
    &["1"],
];

/// Options that read or write files named by their value, which the invented values would litter, and Orias's own.
const NOT_TRIED: &[&str] = &[
    "compiler-stats-file",
    "output-file",
    "options-file",
    "knob",
    "knob-file",
    "message-format",
];

pub fn run(args: &[String]) -> Result<(), String> {
    if let Some(extra) = args.first() {
        return Err(format!("takes no argument, got '{extra}'"));
    }
    let ptxas = oracle::find("ptxas")?;
    compare_help(&ptxas)?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    std::fs::write(folder.path().join("m.ptx"), MODULE).map_err(|error| error.to_string())?;
    let mut tried = 0;
    let mut unsupported = 0;
    let mut wrong = Vec::new();
    for row in OPTIONS {
        if NOT_TRIED.contains(&row.long) {
            continue;
        }
        let spellings: BTreeSet<String> = ["--", "-"]
            .iter()
            .flat_map(|dashes| [row.long, row.short].map(|name| (dashes, name)))
            .filter(|(_, name)| !name.is_empty())
            .map(|(dashes, name)| format!("{dashes}{name}"))
            .collect();
        for spelling in &spellings {
            for value in VALUES {
                let mut line = vec![format!("{spelling}{}", value[0])];
                line.extend(value[1..].iter().map(|&next| next.to_owned()));
                line.extend(["m.ptx", "-o", "out"].map(String::from));
                tried += 1;
                let theirs = ptxas_says(&ptxas, folder.path(), &line)?;
                let ours = orias_says(&line);
                if ours == Answer::Unsupported && matches!(row.status, Status::Refused(_)) {
                    unsupported += 1;
                } else if ours != theirs {
                    wrong.push(format!("{}: {ours:?}, ptxas: {theirs:?}", line.join(" ")));
                }
            }
        }
    }
    println!(
        "{tried} command lines: {} alike, {unsupported} refused as not supported yet, {} different",
        tried - unsupported - wrong.len(),
        wrong.len()
    );
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(wrong.join("\n"))
    }
}

/// What becomes of a command line.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// It is taken, with these remarks about the options.
    Taken(Vec<String>),
    /// It is refused with these words.
    Refused(String),
    /// Something else is printed, such as the help text.
    Printed,
    /// It is refused as not supported yet; only Orias says so.
    Unsupported,
}

/// What Orias warns of where ptxas drops a value without a word.
fn is_ours_alone(remark: &str) -> bool {
    remark.contains("Invalid value '")
        && remark.ends_with("for option '-maxntid', option will be ignored")
}

fn orias_says(line: &[String]) -> Answer {
    match parse(line.to_vec(), &mut |_| None) {
        Ok(invocation) if invocation.action != Action::Compile => Answer::Printed,
        // With an input that is not there, ptxas does not come to warn about values.
        Ok(invocation) => {
            let readable = invocation.inputs == [Input::File("m.ptx".into())];
            let warnings = invocation.warnings.iter().filter(|_| readable);
            Answer::Taken(
                (invocation.remarks.iter().chain(warnings))
                    .map(ToString::to_string)
                    .filter(|remark| !is_ours_alone(remark))
                    .collect(),
            )
        }
        Err(diagnostics) => match diagnostics.0.last() {
            Some(last) if matches!(last.kind, Kind::Unsupported { .. }) => Answer::Unsupported,
            Some(last) => Answer::Refused(last.to_string()),
            None => Answer::Refused(String::new()),
        },
    }
}

/// The last words of a ptxas that went on to read its input.
const COMPILED: &[&str] = &[
    "could not be opened",
    "Ptx assembly aborted due to errors",
    "Unknown function",
    "Missing .version directive",
];

fn ptxas_says(ptxas: &Path, folder: &Path, line: &[String]) -> Result<Answer, String> {
    let output = oracle::bounded(ptxas)
        .args(line)
        .current_dir(folder)
        .output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.stdout.is_empty() {
        return Ok(Answer::Printed);
    }
    let fatal = said.lines().find(|line| {
        line.starts_with("ptxas fatal") && !COMPILED.iter().any(|words| line.contains(words))
    });
    let error = said.lines().find(|line| line.starts_with("ptxas error"));
    if let Some(refusal) = fatal.or(error) {
        return Ok(Answer::Refused(refusal.to_owned()));
    }
    let warning = format!("ptxas {:8}:", "warning");
    Ok(Answer::Taken(
        said.lines()
            .filter(|line| line.starts_with(&warning))
            .map(str::to_owned)
            .collect(),
    ))
}

/// The options and targets in ptxas's help are those in our tables.
fn compare_help(ptxas: &Path) -> Result<(), String> {
    let output = oracle::bounded(ptxas)
        .arg("--help")
        .output()
        .map_err(|error| error.to_string())?;
    let help = String::from_utf8_lossy(&output.stdout);
    let theirs: BTreeSet<(String, String)> = help
        .lines()
        .filter_map(|line| {
            let long = line.strip_prefix("--")?.split_whitespace().next()?;
            let short = line.rsplit_once("(-")?.1.trim_end().strip_suffix(')')?;
            Some((long.to_owned(), short.to_owned()))
        })
        .collect();
    let ours: BTreeSet<(String, String)> = OPTIONS
        .iter()
        .map(|row| (row.long.to_owned(), row.short.to_owned()))
        .collect();
    let missing: Vec<_> = theirs.difference(&ours).collect();
    if !missing.is_empty() {
        return Err(format!("options of ptxas that Orias lacks: {missing:?}"));
    }
    let listed: BTreeSet<&str> = help
        .split('\'')
        .filter(|word| {
            ["sm_", "compute_", "lto_"]
                .iter()
                .any(|prefix| word.starts_with(prefix))
        })
        .collect();
    let targets: BTreeSet<String> = Target::all().map(|target| target.to_string()).collect();
    if listed != targets.iter().map(String::as_str).collect() {
        return Err("the targets in ptxas's help are not those of Orias".into());
    }
    println!(
        "{} options and {} targets of ptxas's help are known",
        theirs.len(),
        targets.len()
    );
    Ok(())
}
