//! `orias elf`: a cubin for people, or as JSON.

use crate::report::Report;
use clap::Parser;
use orias_cubin::{Cubin, PrintOptions, print, to_json};
use std::path::PathBuf;

/// Prints what is in a cubin: header, functions with their parameters, sections, program headers, symbols, attributes, relocations,
/// call graph, notes and data.
#[derive(Parser)]
#[command(name = "elf", bin_name = "orias elf")]
struct Arguments {
    /// The cubin
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print all data, not just the first lines of each section
    #[arg(long, conflicts_with = "json")]
    all_data: bool,
}

pub fn run(arguments: &[String]) -> Report {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    let name = arguments.file.display();
    let file = match std::fs::read(&arguments.file) {
        Ok(file) => file,
        Err(error) => return Report::failure("elf", format_args!("{name}: {error}")),
    };
    let cubin = match Cubin::read(&file) {
        Ok(cubin) => cubin,
        Err(error) => return Report::failure("elf", format_args!("{name}: {error}")),
    };
    if arguments.json {
        Report::success(format!("{:#}\n", to_json(&cubin)))
    } else {
        let all_data = arguments.all_data;
        Report::success(print(&cubin, PrintOptions { all_data }))
    }
}
