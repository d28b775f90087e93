//! `orias run`: a kernel on the CPU.

use crate::output::write_whole;
use crate::report::Report;
use clap::Parser;
use orias::run::Request;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Runs a kernel on the CPU: a cubin or compiled PTX in the emulator, or PTX directly with --interpret.
///
/// Buffers among the arguments are printed, written to files or compared with files after the run. Exit code 1 means that the
/// kernel did something wrong or that a comparison failed.
#[derive(Parser)]
#[command(name = "run", bin_name = "orias run")]
struct Arguments {
    /// A cubin or PTX; '-' is standard input
    file: String,
    #[command(flatten)]
    request: Request,
}

/// A run that takes longer than this tells how far it is.
const PATIENCE: Duration = Duration::from_secs(2);

pub fn run(arguments: &[String]) -> Report {
    let Arguments { file, request } = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    let code = match super::read_input(&file) {
        Ok(code) => code,
        Err(error) => return Report::failure("run", format_args!("{file}: {error}")),
    };
    let watched = std::io::stderr().is_terminal();
    let started = Instant::now();
    let mut told = started;
    let mut progress = |done: u64, total: u64| {
        if watched && told.elapsed() > PATIENCE {
            told = Instant::now();
            // Progress is a courtesy: where it cannot be shown the run goes on.
            let _ = write!(
                std::io::stderr(),
                "\rorias run: {done} of {total} CTAs, {:.0} s ",
                started.elapsed().as_secs_f64()
            );
        }
    };
    let answer = match request.execute(&code, &mut progress) {
        Ok(answer) => answer,
        Err(error) => return Report::failure("run", format_args!("{file}: {error}")),
    };
    let mut report = Report::success(answer.output);
    for (file, bytes) in answer.files {
        if let Err(error) = write_whole(Path::new(&file), &bytes) {
            report.messages += &format!("orias run: {file}: {error}\n");
            report.code = 1;
        }
    }
    if let Some(failure) = answer.failure {
        report.messages += &format!("orias run: {failure}\n");
        report.code = 1;
    }
    report
}
