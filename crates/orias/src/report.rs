//! What a mode or subcommand has to say when it is done.

/// Text for the two streams, and the exit code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// For standard output.
    pub output: Vec<u8>,
    /// For standard error.
    pub messages: String,
    /// The exit code. Subcommands: 0 for success, 1 for findings and bad input, 2 for bad usage. Compile mode: 0 or 255.
    pub code: u8,
}

impl Report {
    /// Success, with text for standard output.
    pub fn success(output: impl Into<Vec<u8>>) -> Self {
        Self {
            output: output.into(),
            ..Self::default()
        }
    }

    /// Failure, with one message of a subcommand.
    pub fn failure(subcommand: &str, message: impl std::fmt::Display) -> Self {
        Self {
            messages: format!("orias {subcommand}: {message}\n"),
            code: 1,
            ..Self::default()
        }
    }

    /// A subcommand that was called wrongly.
    pub fn usage(subcommand: &str, message: impl std::fmt::Display) -> Self {
        Self {
            code: 2,
            ..Self::failure(subcommand, message)
        }
    }
}

/// Help goes to standard output with exit code 0, everything else that clap stops for is bad usage.
impl From<clap::Error> for Report {
    fn from(error: clap::Error) -> Self {
        let text = error.render().to_string();
        if error.use_stderr() {
            Self {
                messages: text,
                code: 2,
                ..Self::default()
            }
        } else {
            Self::success(text)
        }
    }
}
