//! `orias asm`: a SASS listing becomes a cubin, or raw words.

use crate::report::Report;
use clap::Parser;
use orias::assemble_cubin;
use orias_sass::Target;
use orias_sass::text::{AssembleError, assemble};
use std::path::Path;

/// Assembles a SASS listing: what `orias disasm --control` prints, or text written by hand with the directives a kernel needs.
#[derive(Parser)]
#[command(name = "asm", bin_name = "orias asm")]
struct Arguments {
    /// The listing; `-` is standard input
    file: String,
    /// Where the output goes; `-` is standard output
    #[arg(short, long)]
    output: String,
    /// The target where the listing names none
    #[arg(long, default_value = orias_sass::Target::DEFAULT.name())]
    arch: String,
    /// Write the words of all functions, one after the other, and no container
    #[arg(long)]
    raw: bool,
}

pub fn run(arguments: &[String]) -> Report {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    let Some(target) = Target::from_name(&arguments.arch) else {
        return Report::usage(
            "asm",
            format_args!("no target is named '{}'", arguments.arch),
        );
    };
    let listing = match super::read_input(&arguments.file) {
        Ok(bytes) => bytes,
        Err(error) => return Report::failure("asm", format_args!("{}: {error}", arguments.file)),
    };
    let Ok(listing) = String::from_utf8(listing) else {
        return Report::failure("asm", format_args!("{}: not UTF-8 text", arguments.file));
    };
    let made = if arguments.raw {
        assemble(&listing, target).map(|assembly| {
            let words = assembly
                .functions
                .iter()
                .flat_map(|function| &function.words);
            words.flat_map(|word| word.to_le_bytes()).collect()
        })
    } else {
        assemble_cubin(&listing, target).and_then(|cubin| {
            cubin.write().map_err(|error| {
                vec![AssembleError {
                    line: 1,
                    column: 1,
                    message: error.to_string(),
                }]
            })
        })
    };
    match made {
        Ok(bytes) if arguments.output == "-" => Report::success(bytes),
        Ok(bytes) => match crate::output::write_whole(Path::new(&arguments.output), &bytes) {
            Ok(()) => Report::default(),
            Err(error) => Report::failure("asm", format_args!("{}: {error}", arguments.output)),
        },
        Err(errors) => {
            let lines = errors
                .iter()
                .map(|error| format!("{}:{error}\n", arguments.file));
            Report {
                messages: lines.collect(),
                code: 1,
                ..Report::default()
            }
        }
    }
}
