//! The subcommands: one module and one row each.

mod asm;
mod check;
mod disasm;
mod elf;
mod knobs;
mod opt;
mod phases;
mod reschedule;
mod run;
mod schedule_report;
mod shell;
mod toolkit;
mod verify;
mod view;

use crate::report::Report;
use std::fmt::Write as _;
use std::io::Read as _;

/// A subcommand.
pub struct Command {
    /// The word that chooses it.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Runs it. The first argument is its name.
    pub run: fn(&[String]) -> Report,
}

/// Every subcommand there is.
#[rustfmt::skip]
pub const COMMANDS: &[Command] = &[
    Command { name: "check", about: "explain what is wrong with PTX", run: check::run },
    Command { name: "opt", about: "run phases on Ori text", run: opt::run },
    Command { name: "phases", about: "list the phases of the pipeline and when each runs", run: phases::run },
    Command { name: "disasm", about: "print the code of a cubin as nvdisasm does, with control fields on request", run: disasm::run },
    Command { name: "asm", about: "turn a SASS listing into a cubin or raw words", run: asm::run },
    Command { name: "elf", about: "print a cubin: header, sections, symbols, attributes, parameters, relocations", run: elf::run },
    Command { name: "reschedule", about: "compute the control words of a cubin anew", run: reschedule::run },
    Command { name: "verify", about: "prove that a cubin's code leaves no hazard and that lanes meet where they must, or say what is wrong", run: verify::run },
    Command { name: "run", about: "run a kernel on the CPU: PTX in the interpreter, a cubin in the emulator", run: run::run },
    Command { name: "view", about: "write a page that shows PTX or a cubin: code, timeline, findings, a run", run: view::run },
    Command { name: "toolkit", about: "make a shadow of a CUDA toolkit whose ptxas is Orias", run: toolkit::run },
    Command { name: "manual", about: "print a manual page, of the command or of a subcommand", run: shell::manual },
    Command { name: "completions", about: "print what a shell needs to complete command lines", run: shell::completions },
    Command { name: "knobs", about: "list the knobs, or explain one", run: knobs::run },
];

/// The subcommand called `name`.
pub fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// The subcommands, one a line.
pub fn list() -> String {
    let mut text = String::new();
    for command in COMMANDS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {:<10} {}", command.name, command.about);
    }
    text
}

/// `orias help`, or `orias help SUBCOMMAND`.
pub fn help(arguments: &[String]) -> Report {
    match arguments {
        [] => Report::success(crate::compile_mode::help()),
        [name, ..] => match find(name) {
            Some(command) => (command.run)(&[name.clone(), "--help".into()]),
            None => Report::usage(
                "help",
                format_args!(
                    "no subcommand is named '{name}'{}",
                    orias_codegen::names::suggestion(
                        name,
                        COMMANDS.iter().map(|command| command.name)
                    )
                ),
            ),
        },
    }
}

/// The contents of a file, or of standard input when it is `-`.
fn read_input(file: &str) -> std::io::Result<Vec<u8>> {
    if file != "-" {
        return std::fs::read(file);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}
