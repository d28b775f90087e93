//! `--schedule-report`, which several subcommands have.

use clap::ValueEnum;
use orias_codegen::schedule::post::FunctionStory;
use orias_codegen::schedule::report;

/// The forms of a schedule report.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Lines of text.
    Text,
    /// One page for a browser.
    Html,
}

impl Form {
    /// The report.
    pub fn render(self, functions: &[FunctionStory]) -> String {
        match self {
            Form::Text => report::text(functions),
            Form::Html => report::html(functions),
        }
    }
}
