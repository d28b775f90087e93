//! What Orias has to say about an input, and the three kinds of error it keeps apart.
//!
//! A diagnostic is data: the library never prints. [`Diagnostic`]'s `Display` is ptxas's one-line form, which clients
//! parse; a command may show the same diagnostic with a source excerpt instead.

use std::fmt;

/// How bad it is, in ptxas's four words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A remark, such as the report of `-v`.
    Info,
    /// The output is made, but something deserves a look.
    Warning,
    /// No output is made; further errors may follow.
    Error,
    /// No output is made, and nothing more was looked at.
    Fatal,
}

impl Severity {
    /// The word as ptxas pads it.
    fn word(self) -> &'static str {
        match self {
            Self::Info => "info    ",
            Self::Warning => "warning ",
            Self::Error => "error   ",
            Self::Fatal => "fatal   ",
        }
    }
}

/// Whose problem a diagnostic is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The input or the options are wrong: the user can fix it.
    Input,
    /// The input is right, but Orias cannot do this yet; `feature` names what is missing.
    Unsupported {
        /// What would have to be written, in the words of the book: a phase, an option, a target.
        feature: String,
    },
    /// A broken invariant inside Orias: a bug, whatever the input was.
    Internal {
        /// The phase after which the invariant did not hold.
        phase: String,
        /// The instruction or block it broke at, as the text form names it, when one is to blame.
        at: Option<String>,
    },
    /// Whoever asked for the compilation does not want it any more.
    Stopped,
}

/// A place in a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name the source was given: a path, or ptxas's words for one without a path.
    pub source: String,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1; 0 when only the line is known.
    pub column: u32,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Whose problem it is.
    pub kind: Kind,
    /// Where in the input, when it is about a place.
    pub place: Option<Box<Place>>,
    /// One line of text, without severity or place.
    pub message: String,
    /// What would have been right, when that says more than the message.
    pub hint: Option<String>,
}

impl Diagnostic {
    /// A message about the input as a whole, or about the options.
    pub fn new(severity: Severity, message: impl Into<String>) -> Self {
        Self {
            severity,
            kind: Kind::Input,
            place: None,
            message: message.into(),
            hint: None,
        }
    }

    /// The same message, about a place.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.place = Some(Box::new(place));
        self
    }

    /// What to say when `feature` is asked for and not written yet.
    pub fn unsupported(feature: impl Into<String>) -> Self {
        let feature = feature.into();
        Self {
            severity: Severity::Fatal,
            message: format!("Not supported yet: {feature}"),
            kind: Kind::Unsupported { feature },
            place: None,
            hint: None,
        }
    }

    /// What to say when a compilation was stopped on the way.
    pub fn stopped() -> Self {
        Self {
            kind: Kind::Stopped,
            ..Self::new(Severity::Fatal, "Compilation was stopped")
        }
    }

    /// What to say when `phase` left something broken behind.
    pub fn internal(phase: impl Into<String>, at: Option<String>, what: impl fmt::Display) -> Self {
        let phase = phase.into();
        let place = at
            .as_ref()
            .map(|at| format!(" at {at}"))
            .unwrap_or_default();
        Self {
            severity: Severity::Fatal,
            message: format!("Internal error after {phase}{place}: {what}"),
            kind: Kind::Internal { phase, at },
            place: None,
            hint: None,
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.severity.word();
        match &self.place {
            Some(place) => write!(
                f,
                "ptxas {}, line {}; {word}: {}",
                place.source, place.line, self.message
            ),
            None => write!(f, "ptxas {word}: {}", self.message),
        }?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl Diagnostic {
    /// The message as a JSON object on one line: `severity`, `kind` and `message`, and where there is one, `file`, `line`, `column`
    /// and `hint`.
    pub fn to_json(&self) -> String {
        let kind = match self.kind {
            Kind::Input => "input",
            Kind::Unsupported { .. } => "unsupported",
            Kind::Internal { .. } => "internal",
            Kind::Stopped => "stopped",
        };
        let mut object = serde_json::json!({
            "severity": self.severity.word().trim_end(),
            "kind": kind,
            "message": self.message,
        });
        if let Some(place) = &self.place {
            object["file"] = place.source.as_str().into();
            object["line"] = place.line.into();
            object["column"] = place.column.into();
        }
        if let Some(hint) = &self.hint {
            object["hint"] = hint.as_str().into();
        }
        object.to_string()
    }
}

/// How messages are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageFormat {
    /// As ptxas writes them.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl MessageFormat {
    /// The messages, each with the end of its line.
    pub fn lines<'a>(self, diagnostics: impl IntoIterator<Item = &'a Diagnostic>) -> String {
        let line = |diagnostic: &Diagnostic| match self {
            Self::Text => format!("{diagnostic}\n"),
            Self::Json => diagnostic.to_json() + "\n",
        };
        diagnostics.into_iter().map(line).collect()
    }
}

/// Messages in the order they arose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Whether any of them forbids an output.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|d| d.severity >= Severity::Error)
    }

    /// ptxas's last word about a module that is refused, when the errors themselves are not the last.
    pub fn last_word(&self) -> Option<Diagnostic> {
        let final_already = self
            .0
            .last()
            .is_some_and(|last| last.severity == Severity::Fatal && last.place.is_none());
        let aborted = "Ptx assembly aborted due to errors";
        (!final_already).then(|| Diagnostic::new(Severity::Fatal, aborted))
    }

    /// The messages, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self(vec![diagnostic])
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{diagnostic}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_form_that_clients_of_ptxas_parse() {
        let place = Place {
            source: "b.ptx".into(),
            line: 4,
            column: 24,
        };
        let at = Diagnostic::new(Severity::Error, "Unknown modifier '.bar'").at(place);
        assert_eq!(
            at.to_string(),
            "ptxas b.ptx, line 4; error   : Unknown modifier '.bar'"
        );
        let fatal = Diagnostic::new(Severity::Fatal, "Ptx assembly aborted due to errors");
        assert_eq!(
            fatal.to_string(),
            "ptxas fatal   : Ptx assembly aborted due to errors"
        );
        assert_eq!(
            Diagnostic::new(Severity::Info, "0 bytes gmem").to_string(),
            "ptxas info    : 0 bytes gmem"
        );
        assert_eq!(
            Diagnostic::new(Severity::Warning, "x").to_string(),
            "ptxas warning : x"
        );
    }

    #[test]
    fn a_message_in_json_is_one_line() {
        let place = Place {
            source: "a \"b\".ptx".into(),
            line: 4,
            column: 24,
        };
        let at = Diagnostic::new(Severity::Error, "one\ntwo").at(place);
        assert_eq!(
            MessageFormat::Json.lines(&[at]),
            "{\"column\":24,\"file\":\"a \\\"b\\\".ptx\",\"kind\":\"input\",\"line\":4,\"message\":\"one\\ntwo\",\"severity\":\"error\"}\n"
        );
    }

    #[test]
    fn an_internal_error_names_phase_and_instruction() {
        let bug = Diagnostic::internal("GeneralOptimize", Some("inst7".into()), "no such value");
        assert_eq!(
            bug.to_string(),
            "ptxas fatal   : Internal error after GeneralOptimize at inst7: no such value"
        );
    }
}
