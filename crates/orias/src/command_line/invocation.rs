//! What a command line asks for.

use crate::diagnostics::{Diagnostic, MessageFormat};
use crate::options::Options;

/// What to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// Compile the inputs, or only check them when the target is virtual.
    #[default]
    Compile,
    /// Print the options.
    Help,
    /// Print the version.
    Version,
    /// Print the PTX versions that are understood.
    ListVersions,
}

/// One PTX module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// In a file.
    File(String),
    /// Whatever standard input holds.
    StandardInput,
    /// The argument itself.
    Text(String),
}

/// A command line, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    /// What to do.
    pub action: Action,
    /// The modules, in the order given.
    pub inputs: Vec<Input>,
    /// Where the cubin goes.
    pub output: String,
    /// Where statistics are added instead of being said.
    pub statistics_file: Option<String>,
    /// What the library is told.
    pub options: Options,
    /// How messages are written.
    pub message_format: MessageFormat,
    /// Remarks about how the command line is written, which neither `-w` nor `-Werror` touches.
    pub remarks: Vec<Diagnostic>,
    /// Warnings about the values of options, to be treated like all others.
    pub warnings: Vec<Diagnostic>,
}

impl Default for Invocation {
    fn default() -> Self {
        Self {
            action: Action::Compile,
            inputs: Vec::new(),
            output: "elf.o".into(),
            statistics_file: None,
            options: Options::default(),
            message_format: MessageFormat::Text,
            remarks: Vec::new(),
            warnings: Vec::new(),
        }
    }
}
