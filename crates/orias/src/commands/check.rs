//! `orias check`: what is wrong with PTX.

use crate::report::Report;
use clap::Parser;
use orias_ptx::diagnostic::Diagnostics;
use std::fmt::Write as _;

/// Reads PTX and explains what is wrong with it: nothing is printed when all is well.
///
/// Without --arch a module is checked for the target it names itself. Exit code 1 means errors.
#[derive(Parser)]
#[command(name = "check", bin_name = "orias check")]
struct Arguments {
    /// PTX files; '-' is standard input
    #[arg(required = true)]
    files: Vec<String>,
    /// The architecture to check for: sm_90a for everything a compilation asks, compute_90a for the language only
    #[arg(long)]
    arch: Option<String>,
    /// One JSON object a message
    #[arg(long)]
    json: bool,
    /// Print the module back in a canonical form when it has no errors
    #[arg(long)]
    print: bool,
}

pub fn run(arguments: &[String]) -> Report {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    let options = match &arguments.arch {
        None => orias_ptx::Options::default(),
        Some(name) => match orias_ptx::Options::for_architecture(name) {
            Some(options) => options,
            None => {
                return Report::usage("check", format_args!("'{name}' is no architecture"));
            }
        },
    };
    let mut report = Report::default();
    for file in &arguments.files {
        let source = match super::read_input(file) {
            Ok(source) => source,
            Err(error) => {
                // Writing to a string cannot fail.
                let _ = writeln!(report.messages, "orias check: {file}: {error}");
                report.code = 1;
                continue;
            }
        };
        let (module, mut found) = orias_ptx::parse(&source);
        found.append(orias_ptx::check(&module, &options));
        found.sort();
        if found.has_errors() {
            report.code = 1;
        } else if arguments.print {
            report.output.extend(orias_ptx::print(&module).bytes());
        }
        show(&mut report, &arguments, file, &source, &found);
    }
    report
}

/// JSON is what was asked for and goes to standard output; messages for people go to standard error.
fn show(
    report: &mut Report,
    arguments: &Arguments,
    file: &str,
    source: &[u8],
    found: &Diagnostics,
) {
    if arguments.json {
        report.output.extend(found.to_json(file, source).bytes());
    } else {
        report.messages += &found.to_excerpts(file, source);
    }
}
