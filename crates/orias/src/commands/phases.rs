//! `orias phases`: the pipeline, one row a phase.

use crate::report::Report;
use clap::Parser;
use orias_codegen::pipeline::PHASES;
use std::fmt::Write as _;

/// Prints the phases in the order they run: number, name, stage, when each runs, and what it takes care of.
///
/// A phase that is not written yet is not listed.
#[derive(Parser)]
#[command(name = "phases", bin_name = "orias phases")]
struct Arguments {}

pub fn run(arguments: &[String]) -> Report {
    if let Err(error) = Arguments::try_parse_from(arguments) {
        return error.into();
    }
    let mut text = format!(
        "{:>6}  {:<28} {:<16} {:<10} {:<16} what it takes care of\n",
        "number", "name", "stage", "works on", "runs"
    );
    for phase in PHASES {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:>6}  {:<28} {:<16} {:<10} {:<16} {}",
            phase.number,
            phase.name,
            phase.stage,
            phase.levels.start().name(),
            phase.gate,
            phase.about
        );
    }
    Report::success(text)
}
