//! `orias knobs`: what can be set with `--knob`.

use crate::report::Report;
use clap::Parser;
use orias_codegen::knobs::registry::KNOBS;
use orias_codegen::names;
use std::fmt::Write as _;

/// Lists the knobs: number, name, type, default, and the phase that reads each.
#[derive(Parser)]
#[command(name = "knobs", bin_name = "orias knobs")]
struct Arguments {
    /// Explain this knob only, by name or number
    knob: Option<String>,
}

pub fn run(arguments: &[String]) -> Report {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    let Some(wanted) = arguments.knob else {
        return Report::success(table());
    };
    let found = KNOBS
        .iter()
        .find(|knob| knob.name.eq_ignore_ascii_case(&wanted) || wanted.parse() == Ok(knob.number));
    match found {
        Some(knob) => Report::success(format!(
            "{} ({})\n  type     {}\n  default  {}\n  read by  {}\n  {}\n",
            knob.name,
            knob.number,
            knob.default.type_name(),
            knob.default,
            knob.phase,
            knob.about
        )),
        None => Report::failure(
            "knobs",
            format_args!(
                "no knob is named '{wanted}'{}",
                names::suggestion(&wanted, KNOBS.iter().map(|knob| knob.name))
            ),
        ),
    }
}

fn table() -> String {
    let mut text = format!(
        "{:>6}  {:<28} {:<10} {:<10} {:<24} what it does\n",
        "number", "name", "type", "default", "read by"
    );
    for knob in KNOBS {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:>6}  {:<28} {:<10} {:<10} {:<24} {}",
            knob.number,
            knob.name,
            knob.default.type_name(),
            knob.default.to_string(),
            knob.phase,
            knob.about
        );
    }
    text
}
