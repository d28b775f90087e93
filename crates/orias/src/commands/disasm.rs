//! `orias disasm`: a cubin, or raw words, as SASS.

use crate::report::Report;
use clap::Parser;
use orias::{disassemble, disassemble_json, disassemble_words, target_of, words};
use orias_cubin::Cubin;
use orias_sass::Target;
use orias_sass::text::ListingStyle;

/// Prints the code of a cubin as `nvdisasm -c` does.
#[derive(Parser)]
#[command(name = "disasm", bin_name = "orias disasm")]
struct Arguments {
    /// The cubin; `-` is standard input
    file: String,
    /// Print the control field before each instruction, so that `orias asm` gives the same words
    #[arg(long)]
    control: bool,
    /// Print JSON: each instruction with its word, text, control field and registers
    #[arg(long, conflicts_with_all = ["control", "raw"])]
    json: bool,
    /// The file holds words and no container
    #[arg(long, requires = "arch")]
    raw: bool,
    /// The target of raw words
    #[arg(long, requires = "raw")]
    arch: Option<String>,
}

pub fn run(arguments: &[String]) -> Report {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    let file = &arguments.file;
    let bytes = match super::read_input(file) {
        Ok(bytes) => bytes,
        Err(error) => return Report::failure("disasm", format_args!("{file}: {error}")),
    };
    let style = ListingStyle {
        control: arguments.control,
    };
    if let Some(arch) = &arguments.arch {
        let Some(target) = Target::from_name(arch) else {
            return Report::usage("disasm", format_args!("no target is named '{arch}'"));
        };
        if !bytes.len().is_multiple_of(16) {
            let size = bytes.len();
            return Report::failure(
                "disasm",
                format_args!("{file}: {size} bytes are not a whole number of instructions"),
            );
        }
        return Report::success(disassemble_words(&words(&bytes), target, style));
    }
    let cubin = match Cubin::read(&bytes) {
        Ok(cubin) => cubin,
        Err(error) => return Report::failure("disasm", format_args!("{file}: {error}")),
    };
    let Some(target) = target_of(&cubin) else {
        let sm = cubin.header.flags.sm();
        return Report::failure(
            "disasm",
            format_args!("{file}: not supported yet: code for sm_{sm}"),
        );
    };
    if arguments.json {
        Report::success(format!("{:#}\n", disassemble_json(&cubin, target)))
    } else {
        Report::success(disassemble(&cubin, target, style))
    }
}
