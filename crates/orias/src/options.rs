//! What the library can be told.

use crate::target::Target;

/// How to compile. Cheap to clone; the default is what ptxas does without options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What to compile for. A virtual target stops after the checks.
    pub target: Target,
    /// How much to optimise, from 0 to 3.
    pub opt_level: u8,
    /// The entry functions to compile; all of them when empty.
    pub entries: Vec<String>,
    /// Leave warnings out.
    pub no_warnings: bool,
    /// Take warnings for errors.
    pub warnings_are_errors: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            target: Target::DEFAULT,
            opt_level: 3,
            entries: Vec::new(),
            no_warnings: false,
            warnings_are_errors: false,
        }
    }
}
