//! `orias reschedule`: a cubin gets a new order of instructions and new control words.

use super::schedule_report::Form;
use crate::report::Report;
use clap::Parser;
use orias::reschedule::{Request, reschedule, reschedule_control};
use orias_codegen::knobs::Knobs;
use orias_cubin::Cubin;
use std::path::Path;

/// Lifts every function of a cubin and schedules it anew.
#[derive(Parser)]
#[command(name = "reschedule", bin_name = "orias reschedule")]
struct Arguments {
    /// The cubin; `-` is standard input
    file: String,
    /// Keep the order of instructions: drop all control words and compute them anew
    #[arg(long, conflicts_with_all = ["shuffle", "report", "schedule_report"])]
    control_only: bool,
    /// Start from a random order that the dependences allow; the same number gives the same order
    #[arg(long, value_name = "SEED")]
    shuffle: Option<u64>,
    /// Where the cubin goes; `-` is standard output
    #[arg(short, long)]
    output: Option<String>,
    /// Print for each block what changed and the estimated cycles, before and after
    #[arg(long)]
    report: bool,
    /// Print what the control words ask for, before and after
    #[arg(long)]
    statistics: bool,
    /// Tell for each block when every instruction issues and what it waits for
    #[arg(long, value_name = "FORM")]
    schedule_report: Option<Form>,
    /// Where the schedule report goes; standard output without it
    #[arg(long, value_name = "FILE", requires = "schedule_report")]
    schedule_report_file: Option<String>,
    /// Set a knob: NAME=VALUE
    #[arg(long = "knob", value_name = "NAME=VALUE")]
    knobs: Vec<String>,
}

pub fn run(arguments: &[String]) -> Report {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    let failure = |message: std::fmt::Arguments<'_>| Report::failure("reschedule", message);
    let prints = arguments.statistics || arguments.report || arguments.schedule_report.is_some();
    if arguments.output.is_none() && !prints {
        return Report::usage(
            "reschedule",
            "--output, --report, --statistics or --schedule-report is needed",
        );
    }
    let mut knobs = Knobs::default();
    for knob in &arguments.knobs {
        if let Err(error) = knobs.set(knob) {
            return failure(format_args!("{error}"));
        }
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
    let mut report = Report::default();
    let mut told = None;
    let (changed, statistics) = if arguments.control_only {
        match reschedule_control(&cubin) {
            Ok(done) => done,
            Err(error) => return failure(format_args!("{file}: {error}")),
        }
    } else {
        let request = Request {
            knobs: &knobs,
            shuffle: arguments.shuffle,
            alternative: None,
            stories: arguments.schedule_report.is_some(),
        };
        match reschedule(&cubin, &request) {
            Ok(done) => {
                if arguments.report {
                    report.messages += &done.report.to_string();
                }
                told = arguments
                    .schedule_report
                    .map(|form| form.render(&done.stories));
                (done.cubin, done.statistics)
            }
            Err(error) => return failure(format_args!("{file}: {error}")),
        }
    };
    if arguments.statistics {
        report.messages += &statistics.to_string();
    }
    if let Some(told) = told {
        match &arguments.schedule_report_file {
            None => report.output = told.into_bytes(),
            Some(path) => {
                if let Err(error) = crate::output::write_whole(Path::new(path), told.as_bytes()) {
                    return failure(format_args!("{path}: {error}"));
                }
            }
        }
    }
    let Some(output) = arguments.output else {
        return report;
    };
    let bytes = match changed.write() {
        Ok(bytes) => bytes,
        Err(error) => return failure(format_args!("{file}: {error}")),
    };
    if output == "-" {
        if !report.output.is_empty() {
            return Report::usage(
                "reschedule",
                "the schedule report and the cubin cannot both go to standard output",
            );
        }
        report.output = bytes;
    } else if let Err(error) = crate::output::write_whole(Path::new(&output), &bytes) {
        return failure(format_args!("{output}: {error}"));
    }
    report
}
