//! `orias reschedule`: a cubin gets new control words.

use crate::report::Report;
use clap::Parser;
use orias::reschedule::reschedule_control;
use orias_cubin::Cubin;
use std::path::Path;

/// Lifts every function of a cubin and schedules it anew.
#[derive(Parser)]
#[command(name = "reschedule", bin_name = "orias reschedule")]
struct Arguments {
    /// The cubin; `-` is standard input
    file: String,
    /// Keep the order of instructions: drop all control words and compute them anew
    #[arg(long)]
    control_only: bool,
    /// Where the cubin goes; `-` is standard output
    #[arg(short, long)]
    output: Option<String>,
    /// Print what the control words ask for, before and after
    #[arg(long)]
    statistics: bool,
}

pub fn run(arguments: &[String]) -> Report {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    let failure = |message: std::fmt::Arguments<'_>| Report::failure("reschedule", message);
    if !arguments.control_only {
        return failure(format_args!(
            "changing the order of instructions is not supported yet: --control-only is needed"
        ));
    }
    if arguments.output.is_none() && !arguments.statistics {
        return Report::usage("reschedule", "--output or --statistics is needed");
    }
    let file = &arguments.file;
    let bytes = match super::read_input(file) {
        Ok(bytes) => bytes,
        Err(error) => return failure(format_args!("{file}: {error}")),
    };
    let cubin = match Cubin::read(&bytes) {
        Ok(cubin) => cubin,
        Err(error) => return failure(format_args!("{file}: {error}")),
    };
    let (changed, statistics) = match reschedule_control(&cubin) {
        Ok(done) => done,
        Err(error) => return failure(format_args!("{file}: {error}")),
    };
    let mut report = Report::default();
    if arguments.statistics {
        report.messages = statistics.to_string();
    }
    let Some(output) = arguments.output else {
        return report;
    };
    let bytes = match changed.write() {
        Ok(bytes) => bytes,
        Err(error) => return failure(format_args!("{file}: {error}")),
    };
    if output == "-" {
        report.output = bytes;
    } else if let Err(error) = crate::output::write_whole(Path::new(&output), &bytes) {
        return failure(format_args!("{output}: {error}"));
    }
    report
}
