//! `--schedule-report`, which several subcommands have.

use clap::ValueEnum;
use orias::timeline;
use orias_codegen::schedule::post::FunctionSchedule;

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
    pub fn render(self, functions: &[FunctionSchedule]) -> String {
        match self {
            Form::Text => timeline::text(functions),
            Form::Html => timeline::html(functions),
        }
    }
}
