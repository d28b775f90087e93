//! `.pragma` strings: which are known, where they may stand, and what they take.

use super::{Checker, Mode};
use crate::ast::Statement;
use crate::diagnostic::Span;

/// The pragma that keeps loops from being unrolled, which stands anywhere.
const NO_UNROLLING: &str = "nounroll";

/// The pragma that says how often a block runs, which is never 0.
const FREQUENCY: &str = "frequency";

/// The pragma that lets a kernel's spilled registers lie in shared memory.
pub const SHARED_SPILLS: &str = "enable_smem_spilling";

/// Pragmas that stand among statements only, whether they take a number, and the version that has them first.
const OF_STATEMENTS: [(&str, bool, u16); 3] = [
    (SHARED_SPILLS, false, 87),
    (FREQUENCY, true, 90),
    ("used_bytes_mask", true, 83),
];

/// Where a pragma stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Module,
    Head,
    Body,
}

impl Checker<'_, '_> {
    pub(super) fn pragmas(&mut self) {
        let module = self.module;
        for &span in &module.pragmas {
            self.pragma(span, Scope::Module);
        }
        for function in &module.functions {
            for directive in &function.directives {
                if directive.kind == crate::ast::FunctionDirectiveKind::Pragma {
                    self.pragma(directive.span, Scope::Head);
                }
            }
            let Some(body) = &function.body else { continue };
            for statement in &body.statements {
                if let Statement::Pragma(at) = *statement {
                    let span = body.pragmas[at as usize];
                    self.pragma(span, Scope::Body);
                    if !function.entry && self.has_text(span, SHARED_SPILLS) {
                        let message = format!(
                            "Pragma '{SHARED_SPILLS}' cannot be specified for device functions"
                        );
                        self.error(span, message);
                    }
                }
            }
        }
    }

    fn has_text(&self, span: Span, wanted: &str) -> bool {
        quoted(&self.module.text(span)).any(|it| it == wanted)
    }

    fn pragma(&mut self, span: Span, scope: Scope) {
        let text = self.module.text(span).into_owned();
        for text in quoted(&text) {
            self.pragma_text(span, scope, text);
        }
    }

    fn pragma_text(&mut self, span: Span, scope: Scope, text: &str) {
        if text == NO_UNROLLING {
            return;
        }
        let (name, argument) = text.split_once(' ').unwrap_or((text, ""));
        let argument = argument.trim();
        let known = OF_STATEMENTS.iter().find(|(known, ..)| *known == name);
        let Some(&(name, takes_number, version)) = known else {
            // What is compiled only is not asked what compiling thinks of it.
            match (self.options.mode, scope) {
                (Mode::Virtual, _) => {}
                (_, Scope::Module) => {
                    self.error(span, format!("Pragma '{text}' not supported"));
                }
                _ => self.warning(span, format!("Pragma '{text}' unsupported")),
            }
            return;
        };
        self.needs_version(span, name, version);
        if scope != Scope::Body {
            let message = format!("Pragma '{text}' is allowed only within function scope");
            self.error(span, message);
        } else if takes_number && argument.is_empty() {
            let message = format!("Argument(s) to pragma '{name}' cannot be empty");
            self.error(span, message);
        } else if takes_number && (!is_number(argument) || name == FREQUENCY && is_zero(argument)) {
            let message = format!("Invalid value '{argument}' specified for .pragma '{text}'");
            self.error(span, message);
        }
    }
}

/// The strings in a text.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

fn is_number(text: &str) -> bool {
    match text.strip_prefix("0x") {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_hexdigit()),
        None => text.bytes().all(|it| it.is_ascii_digit()),
    }
}

fn is_zero(number: &str) -> bool {
    let digits = number.strip_prefix("0x").unwrap_or(number);
    digits.bytes().all(|it| it == b'0')
}
