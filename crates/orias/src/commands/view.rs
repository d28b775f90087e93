//! `orias view`: one file as a page for a browser.

use crate::report::Report;
use clap::Parser;
use orias::view::{Subject, View, page};
use serde_json::Value;
use std::path::Path;

/// Writes a page that shows a PTX module or a cubin: its code with control words explained, the lines it comes from, a timeline of issue
/// slots, units and barriers, the judge's findings, and perhaps a comparison and a run.
///
/// The page is one HTML file that needs nothing but a browser.
#[derive(Parser)]
#[command(name = "view", bin_name = "orias view")]
struct Arguments {
    /// PTX or a cubin; `-` is standard input
    file: String,
    /// Where the page goes; `-` is standard output. Without it, beside the file, with the ending .html
    #[arg(short, long)]
    output: Option<String>,
    /// Options to compile PTX by, as for compiling: "-arch=sm_90a -O1 --knob NAME=VALUE"
    #[arg(
        long,
        value_name = "OPTIONS",
        default_value = "",
        allow_hyphen_values = true
    )]
    options: String,
    /// What to compare with: another file, options to compile the same PTX by ("-O1"), or 'rescheduled'
    #[arg(long, value_name = "WITH", allow_hyphen_values = true)]
    compare: Option<String>,
    /// Run a kernel and keep the steps of one warp: options and arguments of `orias run`
    #[arg(long, value_name = "LAUNCH", allow_hyphen_values = true)]
    run: Option<String>,
    /// The block whose warp is kept: X, X,Y or X,Y,Z
    #[arg(
        long,
        value_name = "X,Y,Z",
        requires = "run",
        default_value = "0",
        value_delimiter = ','
    )]
    run_block: Vec<u32>,
    /// The warp of that block
    #[arg(long, value_name = "N", requires = "run", default_value_t = 0)]
    run_warp: u32,
}

pub fn run(arguments: &[String]) -> Report {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    let failure = |message: std::fmt::Arguments<'_>| Report::failure("view", message);
    let file = &arguments.file;
    let bytes = match super::read_input(file) {
        Ok(bytes) => bytes,
        Err(error) => return failure(format_args!("{file}: {error}")),
    };
    let name = match file.as_str() {
        "-" => "input",
        path => path.rsplit(['/', '\\']).next().unwrap_or(path),
    };
    let words = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let view = View {
        name,
        subject: subject(&bytes),
        options: words(&arguments.options),
        reschedule: None,
    };
    let mut documents = match view.inspect() {
        Ok(document) => vec![document],
        Err(said) => return refused(file, &said),
    };
    if let Some(with) = &arguments.compare {
        let other;
        let second = if with == "rescheduled" {
            View {
                reschedule: Some(None),
                ..view.clone()
            }
        } else if with.starts_with('-') {
            View {
                options: words(with),
                ..view.clone()
            }
        } else {
            other = match super::read_input(with) {
                Ok(bytes) => bytes,
                Err(error) => return failure(format_args!("{with}: {error}")),
            };
            View {
                name: with,
                subject: subject(&other),
                options: Vec::new(),
                reschedule: None,
            }
        };
        match second.inspect() {
            Ok(document) => documents.push(document),
            Err(said) => return refused(with, &said),
        }
    }
    let mut trace = None;
    if let Some(launch) = &arguments.run {
        let mut block = [0; 3];
        if arguments.run_block.len() > block.len() {
            return Report::usage("view", "--run-block has at most three numbers");
        }
        for (slot, number) in block.iter_mut().zip(&arguments.run_block) {
            *slot = *number;
        }
        let launch: Vec<&str> = launch.split_whitespace().collect();
        match view.trace(&launch, (block, arguments.run_warp), true) {
            Ok(traced) => trace = Some(traced),
            Err(said) => return refused(file, &said),
        }
    }
    let page = page(name, &documents, trace.as_ref());
    let output = match &arguments.output {
        Some(output) => output.clone(),
        None if file == "-" => "-".to_owned(),
        None => Path::new(file).with_extension("html").display().to_string(),
    };
    if output == "-" {
        return Report::success(page);
    }
    match crate::output::write_whole(Path::new(&output), page.as_bytes()) {
        Ok(()) => Report::default(),
        Err(error) => failure(format_args!("{output}: {error}")),
    }
}

fn subject(bytes: &[u8]) -> Subject<'_> {
    match orias::run::Code::of(bytes) {
        orias::run::Code::Ptx(text) => Subject::Ptx(text),
        orias::run::Code::Cubin(image) => Subject::Cubin(image),
    }
}

/// What the library said, a line a message.
fn refused(file: &str, said: &[Value]) -> Report {
    let lines = said.iter().filter(|it| it["severity"] != "info").map(|it| {
        let text = it["text"].as_str().unwrap_or_default().trim_end();
        match it["line"].as_u64() {
            Some(line) => format!("{file}, line {line}: {text}"),
            None => format!("{file}: {text}"),
        }
    });
    let lines: Vec<String> = lines.collect();
    Report::failure("view", lines.join("\n"))
}
