//! The compile mode: ptxas's command line, messages and exit codes.

use crate::commands;
use crate::output::write_whole;
use crate::report::Report;
use crate::stand_in;
use orias::command_line::{self, Action, Input, Invocation};
use orias::{Diagnostic, Diagnostics, MessageFormat, Severity, Source, Statistics, compile_all};
use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::path::Path;

/// The exit code of every failure.
const FAILED: u8 = 255;

/// What standard input is called in messages.
const STANDARD_INPUT: &str = "<stdin>";

/// Runs the compile mode. `as_ptxas` is whether the command was invoked under that name.
pub fn run(arguments: Vec<String>, as_ptxas: bool) -> Report {
    // What is wrong with the command line is written as its last words on the matter ask for.
    let asked = |it: &&String| it.contains("-message-format=");
    let json = (arguments.iter().rfind(asked)).is_some_and(|it| it.ends_with("=json"));
    let words = arguments.clone();
    let invocation = match command_line::parse(arguments, &mut |name| std::fs::read(name).ok()) {
        Ok(invocation) => invocation,
        Err(diagnostics) => {
            let format = match json {
                true => MessageFormat::Json,
                false => MessageFormat::Text,
            };
            return stand_in::around(&words, None, || failure(format, &[], &diagnostics));
        }
    };
    let mut report = match invocation.action {
        Action::Help if as_ptxas => Report::success(command_line::help()),
        Action::Help => Report::success(help()),
        Action::Version => Report::success(version()),
        Action::ListVersions => Report::success(ptx_versions()),
        Action::Compile => {
            return stand_in::around(&words, Some(&invocation), || compile(&invocation));
        }
    };
    report.messages = invocation.message_format.lines(&invocation.remarks);
    report
}

/// What to say about an argument that is not text.
pub fn not_text(argument: &OsStr) -> Report {
    let message = format!(
        "Argument '{}' is not UTF-8 text",
        argument.to_string_lossy()
    );
    let said = Diagnostic::new(Severity::Fatal, message);
    failure(MessageFormat::Text, &[], &said.into())
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
    let (major, minor, build) = stand_in::release().unwrap_or(orias::versions::PTXAS);
    format!(
        "ptxas: Orias {orias}, an open PTX assembler\n\
         Takes the place of NVIDIA's ptxas of the\n\
         Cuda compilation tools, release {major}.{minor}, V{major}.{minor}.{build}\n\
         Build orias_{orias}\n"
    )
}

fn compile(invocation: &Invocation) -> Report {
    let warnings = Diagnostics(invocation.warnings.clone());
    let warnings = invocation.options.treat_warnings(warnings);
    let mut remarks = invocation.remarks.clone();
    let format = invocation.message_format;
    if warnings.has_errors() {
        return failure(format, &remarks, &warnings);
    }
    remarks.extend(warnings.0);
    let (modules, unreadable) = read_inputs(&invocation.inputs);
    if !unreadable.0.is_empty() {
        return failure(format, &remarks, &unreadable);
    }
    let sources: Vec<Source<'_>> = modules
        .iter()
        .map(|(name, text)| Source { name, text })
        .collect();
    let compiled = match compile_all(&sources, &invocation.options) {
        Ok(compiled) => compiled,
        Err(diagnostics) => return failure(format, &remarks, &diagnostics),
    };
    if let Some(cubin) = &compiled.cubin
        && write_whole(Path::new(&invocation.output), cubin).is_err()
    {
        let message = format!("Output file '{}' could not be opened", invocation.output);
        return failure(
            format,
            &remarks,
            &Diagnostic::new(Severity::Fatal, message).into(),
        );
    }
    remarks.extend(compiled.diagnostics.0);
    if let Some(statistics) = &compiled.statistics {
        let Some(file) = &invocation.statistics_file else {
            remarks.extend(statistics.remarks());
            return said(format, &remarks);
        };
        let of = sources.first().map_or("", |source| source.name);
        if add_statistics(Path::new(file), of, statistics).is_err() {
            let message = format!("Output file '{file}' could not be opened");
            return failure(
                format,
                &remarks,
                &Diagnostic::new(Severity::Fatal, message).into(),
            );
        }
    }
    said(format, &remarks)
}

fn said(format: MessageFormat, remarks: &[Diagnostic]) -> Report {
    Report {
        messages: format.lines(remarks),
        ..Report::default()
    }
}

/// Adds what was counted for the module `of` to a file, in ptxas's form.
fn add_statistics(file: &Path, of: &str, statistics: &Statistics) -> std::io::Result<()> {
    let mut text = format!("{of} >>\n\n");
    for counted in statistics.texts() {
        text += &counted;
        text.push('\n');
    }
    let mut file = std::fs::File::options()
        .append(true)
        .create(true)
        .open(file)?;
    file.write_all(text.as_bytes())
}

/// The modules with their names, and complaints about those that cannot be read.
fn read_inputs(inputs: &[Input]) -> (Vec<(String, Vec<u8>)>, Diagnostics) {
    let mut modules = Vec::new();
    let mut unreadable = Diagnostics::default();
    for input in inputs {
        let (name, bytes) = match input {
            Input::Text(text) => (Source::IN_MEMORY, Ok(text.clone().into_bytes())),
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
        unreadable.0.extend(Diagnostics::default().last_word());
    }
    (modules, unreadable)
}

/// Everything that was said, and ptxas's last word when the errors themselves were not the last.
fn failure(format: MessageFormat, remarks: &[Diagnostic], diagnostics: &Diagnostics) -> Report {
    let last = diagnostics.last_word();
    Report {
        messages: format.lines(remarks.iter().chain(diagnostics).chain(&last)),
        code: FAILED,
        ..Report::default()
    }
}

/// The PTX versions there are, one a line.
fn ptx_versions() -> String {
    let lines = orias::versions::ptx();
    lines
        .map(|(major, minor)| format!("{major}.{minor}\n"))
        .collect()
}
