//! The compile mode: ptxas's command line, messages and exit codes.

use crate::commands;
use crate::output::write_whole;
use crate::report::Report;
use orias::command_line::{self, Action, Input, Invocation};
use orias::{Diagnostic, Diagnostics, Severity, Source, compile_all};
use std::ffi::OsStr;
use std::io::Read as _;
use std::path::Path;

/// The exit code of every failure.
const FAILED: u8 = 255;

/// What standard input and module strings are called in messages; the latter is ptxas's name for them.
const STANDARD_INPUT: &str = "<stdin>";
const STRING_INPUT: &str = "application ptx input";

/// Runs the compile mode. `as_ptxas` is whether the command was invoked under that name.
pub fn run(arguments: Vec<String>, as_ptxas: bool) -> Report {
    let invocation = match command_line::parse(arguments, &mut |name| std::fs::read(name).ok()) {
        Ok(invocation) => invocation,
        Err(diagnostics) => return failure(&[], &diagnostics),
    };
    let mut report = match invocation.action {
        Action::Help if as_ptxas => Report::success(command_line::help()),
        Action::Help => Report::success(help()),
        Action::Version => Report::success(version()),
        Action::ListVersions => Report::success(ptx_versions()),
        Action::Compile => return compile(&invocation),
    };
    report.messages = lines(&invocation.remarks);
    report
}

/// What to say about an argument that is not text.
pub fn not_text(argument: &OsStr) -> Report {
    let message = format!(
        "Argument '{}' is not UTF-8 text",
        argument.to_string_lossy()
    );
    failure(&[], &Diagnostic::new(Severity::Fatal, message).into())
}

/// The help text of the command: subcommands, then the options of the compile mode.
pub fn help() -> String {
    format!(
        "Orias {}: an open PTX assembler\n\nSubcommands ('orias help SUBCOMMAND' explains one)\n{}\n{}",
        env!("CARGO_PKG_VERSION"),
        commands::list(),
        command_line::help()
    )
}

/// ptxas's form, because clients search it for `release 13.0` and `V13.0.88`.
fn version() -> String {
    let orias = env!("CARGO_PKG_VERSION");
    format!(
        "ptxas: Orias {orias}, an open PTX assembler\n\
         Takes the place of NVIDIA's ptxas of the\n\
         Cuda compilation tools, release 13.0, V13.0.88\n\
         Build orias_{orias}\n"
    )
}

fn compile(invocation: &Invocation) -> Report {
    let warnings = Diagnostics(invocation.warnings.clone());
    let warnings = invocation.options.treat_warnings(warnings);
    let mut remarks = invocation.remarks.clone();
    if warnings.has_errors() {
        return failure(&remarks, &warnings);
    }
    remarks.extend(warnings.0);
    let (modules, unreadable) = read_inputs(&invocation.inputs);
    if !unreadable.0.is_empty() {
        return failure(&remarks, &unreadable);
    }
    let sources: Vec<Source<'_>> = modules
        .iter()
        .map(|(name, text)| Source { name, text })
        .collect();
    let compiled = match compile_all(&sources, &invocation.options) {
        Ok(compiled) => compiled,
        Err(diagnostics) => return failure(&remarks, &diagnostics),
    };
    if let Some(cubin) = &compiled.cubin
        && write_whole(Path::new(&invocation.output), cubin).is_err()
    {
        let message = format!("Output file '{}' could not be opened", invocation.output);
        return failure(&remarks, &Diagnostic::new(Severity::Fatal, message).into());
    }
    Report {
        messages: lines(&remarks) + &lines(compiled.diagnostics.iter()),
        ..Report::default()
    }
}

/// The modules with their names, and complaints about those that cannot be read.
fn read_inputs(inputs: &[Input]) -> (Vec<(String, Vec<u8>)>, Diagnostics) {
    let mut modules = Vec::new();
    let mut unreadable = Diagnostics::default();
    for input in inputs {
        let (name, bytes) = match input {
            Input::Text(text) => (STRING_INPUT, Ok(text.clone().into_bytes())),
            Input::File(name) => (name.as_str(), std::fs::read(name)),
            Input::StandardInput => {
                let mut bytes = Vec::new();
                let read = std::io::stdin().lock().read_to_end(&mut bytes);
                (STANDARD_INPUT, read.map(|_| bytes))
            }
        };
        match bytes {
            Ok(bytes) => modules.push((name.to_owned(), bytes)),
            Err(_) => unreadable.0.push(Diagnostic::new(
                Severity::Fatal,
                format!("Input file '{name}' could not be opened"),
            )),
        }
    }
    if !unreadable.0.is_empty() {
        unreadable.0.push(aborted());
    }
    (modules, unreadable)
}

fn aborted() -> Diagnostic {
    Diagnostic::new(Severity::Fatal, "Ptx assembly aborted due to errors")
}

/// Everything that was said, and ptxas's last word when the errors themselves were not the last.
fn failure(remarks: &[Diagnostic], diagnostics: &Diagnostics) -> Report {
    let mut messages = lines(remarks) + &lines(diagnostics.iter());
    let last = diagnostics.0.last();
    if last.is_none_or(|last| last.severity != Severity::Fatal || last.place.is_some()) {
        messages += &lines([&aborted()]);
    }
    Report {
        messages,
        code: FAILED,
        ..Report::default()
    }
}

fn lines<'a>(diagnostics: impl IntoIterator<Item = &'a Diagnostic>) -> String {
    diagnostics
        .into_iter()
        .map(|diagnostic| format!("{diagnostic}\n"))
        .collect()
}

/// The PTX versions there are, up to that of CUDA 13.0, one a line.
fn ptx_versions() -> String {
    const VERSIONS: &[(u32, &[u32])] = &[
        (1, &[0, 1, 2, 3, 4, 5]),
        (2, &[0, 1, 2, 3]),
        (3, &[0, 1, 2]),
        (4, &[0, 1, 2, 3]),
        (5, &[0, 1]),
        (6, &[0, 1, 2, 3, 4, 5]),
        (7, &[0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (8, &[0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (9, &[0]),
    ];
    VERSIONS
        .iter()
        .flat_map(|(major, minors)| minors.iter().map(move |minor| format!("{major}.{minor}\n")))
        .collect()
}
