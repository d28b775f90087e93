//! What the library can be told.

use crate::diagnostics::{Diagnostics, Severity};
use crate::target::Target;
use orias_codegen::knobs::Knobs;

/// How to compile. Cheap to clone; the default is what ptxas does without options.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// What to compile for. A virtual target stops after the checks.
    pub target: Target,
    /// How much to optimise, from 0 to 3.
    pub opt_level: u8,
    /// The entry functions to compile; all of them when empty.
    pub entries: Vec<String>,
    /// Whether a product and a sum may become one operation with one rounding; by default above -O0.
    pub contract: Option<bool>,
    /// The most registers a thread may have, where the source does not ask for fewer.
    pub max_registers: Option<u32>,
    /// What steers single decisions of single phases.
    pub knobs: Knobs,
    /// Report what each kernel uses.
    pub verbose: bool,
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
            contract: None,
            max_registers: None,
            knobs: Knobs::default(),
            verbose: false,
            no_warnings: false,
            warnings_are_errors: false,
        }
    }
}

impl Options {
    /// Whether a product and a sum may become one operation with one rounding.
    pub fn contracts(&self) -> bool {
        self.contract.unwrap_or(self.opt_level > 0)
    }

    /// Leaves warnings out or makes errors of them, as asked.
    #[must_use]
    pub fn treat_warnings(&self, diagnostics: Diagnostics) -> Diagnostics {
        let mut kept = diagnostics.0;
        if self.no_warnings {
            kept.retain(|diagnostic| diagnostic.severity != Severity::Warning);
        }
        if self.warnings_are_errors {
            for diagnostic in &mut kept {
                if diagnostic.severity == Severity::Warning {
                    diagnostic.severity = Severity::Error;
                }
            }
        }
        Diagnostics(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::Diagnostic;

    #[test]
    fn warnings_can_be_left_out_or_made_errors() {
        let warning = || Diagnostics::from(Diagnostic::new(Severity::Warning, "w"));
        let plain = Options::default();
        assert!(!plain.treat_warnings(warning()).has_errors());
        let strict = Options {
            warnings_are_errors: true,
            ..plain
        };
        assert!(strict.treat_warnings(warning()).has_errors());
        let quiet = Options {
            no_warnings: true,
            ..strict
        };
        assert_eq!(quiet.treat_warnings(warning()), Diagnostics::default());
    }
}
