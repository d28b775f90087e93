//! Standing in for ptxas below another program: who compiled what, and whom to ask where Orias cannot.
//!
//! Clients run ptxas as a process, often below other processes, so they are told by the environment: see [`VARIABLES`].
//! Without them nothing is done. A line is written by one call to a file that is open for appending, so that processes do not mix theirs.

use crate::report::Report;
use orias::command_line::{Input, Invocation};
use serde_json::json;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const LOG: &str = "ORIAS_LOG";
const FALLBACK: &str = "ORIAS_FALLBACK";
const RELEASE: &str = "ORIAS_RELEASE";

/// Each variable, and what it does.
pub const VARIABLES: &[(&str, &str)] = &[
    (
        LOG,
        "A file that gets a line of JSON for each compilation: by whom, with what end, of what, for how long.",
    ),
    (
        FALLBACK,
        "A ptxas that is given what Orias does not compile; its messages and its verdict count then.",
    ),
    (
        RELEASE,
        "The release that --version names, as 12.8.93: a client writes PTX that both understand if it is the fallback's.",
    ),
];

/// The release to name instead of Orias's own, as `major.minor.build`.
pub fn release() -> Option<(u32, u32, u32)> {
    let text = std::env::var(RELEASE).ok()?;
    let mut parts = text.split('.').map(|part| part.parse().ok());
    let mut next = || parts.next().flatten();
    Some((next()?, next()?, next()?))
}

/// Lets `compile` work, asks the fallback where it fails, and writes down who did it. Without an invocation the command line itself was
/// refused.
pub fn around(
    arguments: &[String],
    invocation: Option<&Invocation>,
    compile: impl FnOnce() -> Report,
) -> Report {
    let (log, fallback) = (std::env::var_os(LOG), std::env::var_os(FALLBACK));
    if log.is_none() && fallback.is_none() {
        return compile();
    }
    let started = Instant::now();
    let mut report = compile();
    let mut by = "orias";
    let refusal = (report.code != 0).then(|| first_line(&report.messages).to_owned());
    // Standard input was read already.
    let can_ask = !arguments.iter().any(|argument| argument == "-");
    if report.code != 0
        && can_ask
        && let Some(fallback) = &fallback
    {
        by = "ptxas";
        report = ask(Path::new(fallback), arguments, &report);
    }
    if let Some(log) = log {
        let name = |input: &Input| match input {
            Input::File(name) => name.clone(),
            Input::StandardInput => "-".into(),
            Input::Text(_) => orias::Source::IN_MEMORY.into(),
        };
        let line = json!({
            "by": by,
            "code": report.code,
            "refusal": refusal,
            "arch": invocation.map(|it| it.options.target.to_string()),
            "inputs": invocation.map(|it| it.inputs.iter().map(name).collect::<Vec<_>>()),
            "output": invocation.map(|it| it.output.clone()),
            "seconds": started.elapsed().as_secs_f64(),
        });
        let written = File::options()
            .append(true)
            .create(true)
            .open(&log)
            .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        if let Err(error) = written {
            let log = Path::new(&log).display();
            report.messages += &format!("orias: {log}: {error}\n");
        }
    }
    report
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// What the other ptxas makes of the same command line. It is told nothing of this one, so it may even be Orias.
fn ask(fallback: &Path, arguments: &[String], own: &Report) -> Report {
    let asked = Command::new(fallback)
        .args(arguments)
        .env_remove(FALLBACK)
        .env_remove(LOG)
        .output();
    match asked {
        Ok(output) => Report {
            output: output.stdout,
            messages: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output
                .status
                .code()
                .and_then(|code| u8::try_from(code).ok())
                .unwrap_or(own.code),
        },
        Err(error) => Report {
            messages: format!(
                "{}orias: {}: {error} ({FALLBACK})\n",
                own.messages,
                fallback.display()
            ),
            ..own.clone()
        },
    }
}
