//! The `orias` command.
//!
//! Under the name `ptxas`, and whenever the first argument is no subcommand, it takes ptxas's command line; see
//! [`compile_mode`]. Each subcommand is one module of [`commands`] and one row of its table.
//!
//! Nothing prints on its way: a mode or subcommand returns a [`Report`], and `main` writes it out. A reader that closes the
//! pipe early is no error.

mod batch;
mod commands;
mod compile_mode;
mod output;
mod report;
mod stand_in;

use report::Report;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

#[cfg(target_os = "linux")]
#[global_allocator]
static MEMORY: orias_heap::Memory = orias_heap::Memory;

fn main() -> ExitCode {
    exit_when_panicking();
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    let report = match read_arguments(arguments) {
        Ok(arguments) => run(&program, &arguments),
        Err(wrong) => compile_mode::not_text(&wrong),
    };
    // Standard output first: when both go to one place, the messages are about what was printed.
    let written = std::io::stdout().lock().write_all(&report.output);
    let told = std::io::stderr()
        .lock()
        .write_all(report.messages.as_bytes());
    match written.and(told) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::from(255),
        _ => ExitCode::from(report.code),
    }
}

/// What the command ends with when something happens that must not, as any Rust program.
const PANICKED: i32 = 101;

/// Ends the command after the message of a panic. Nothing is unwound, so the command that is handed out is built without the code for it.
fn exit_when_panicking() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::exit(PANICKED);
    }));
}

/// The arguments as text, or the first one that is not.
fn read_arguments(arguments: impl Iterator<Item = OsString>) -> Result<Vec<String>, OsString> {
    arguments.map(OsString::into_string).collect()
}

fn run(program: &OsString, arguments: &[String]) -> Report {
    let as_ptxas = Path::new(program)
        .file_stem()
        .is_some_and(|stem| stem == "ptxas");
    if !as_ptxas && let Some(first) = arguments.first() {
        if first == "help" {
            return commands::help(&arguments[1..]);
        }
        if let Some(command) = commands::find(first) {
            return (command.run)(arguments);
        }
        if let Some((threads, rest)) = batch::asked(arguments) {
            return batch::run(threads, rest);
        }
    }
    compile_mode::run(arguments.to_vec(), as_ptxas)
}
