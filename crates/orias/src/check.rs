//! Everything that can be said about a module without compiling it.

use crate::compile::Source;
use crate::diagnostics::{Diagnostic, Diagnostics, Place, Severity};
use crate::options::Options;
use crate::target::{TargetKind, check_module_target};
use orias_ptx::diagnostic::{self as ptx, LineIndex};

/// Reads one module and checks it for the target.
///
/// A module that does not fit the target is refused as a whole, as ptxas does, after what is wrong with its text.
pub fn check(source: &Source<'_>, options: &Options) -> Diagnostics {
    parse_and_check(source, options).1
}

/// The same; the module comes with what is said about it.
pub(crate) fn parse_and_check<'s>(
    source: &Source<'s>,
    options: &Options,
) -> (orias_ptx::Module<'s>, Diagnostics) {
    let (module, mut found) = orias_ptx::parse(source.text);
    let misfit = module
        .target
        .and_then(|target| check_module_target(&target.to_string(), options.target).err());
    if misfit.is_none() {
        found.append(orias_ptx::check(
            &module,
            &checker_options(&module, options),
        ));
        found.sort();
    }
    let mut diagnostics: Vec<Diagnostic> = Vec::new();
    if found.iter().next().is_some() {
        let lines = LineIndex::new(source.text);
        let translated = found.iter();
        diagnostics.extend(translated.map(|diagnostic| translate(diagnostic, source.name, &lines)));
    }
    diagnostics.extend(misfit.map(|message| Diagnostic::new(Severity::Fatal, message)));
    (module, Diagnostics(diagnostics))
}

/// What the PTX checker is told. It is stricter than ptxas about families, so it learns of the target only where both agree.
pub(crate) fn checker_options(
    module: &orias_ptx::Module<'_>,
    options: &Options,
) -> orias_ptx::Options {
    let target = options.target.to_string();
    let architecture = orias_ptx::target::Target::from_name(&target).filter(|&architecture| {
        module
            .target
            .is_some_and(|target| target.runs_on(architecture))
    });
    orias_ptx::Options {
        architecture,
        mode: match options.target.kind {
            TargetKind::Virtual | TargetKind::LinkTime => orias_ptx::Mode::Virtual,
            TargetKind::Real if options.tools_patch => orias_ptx::Mode::Real,
            TargetKind::Real if options.extensible => orias_ptx::Mode::Extensible,
            TargetKind::Real if options.relocatable => orias_ptx::Mode::Object,
            TargetKind::Real => orias_ptx::Mode::Real,
        },
    }
}

/// A message of the PTX room in the front door's words.
pub(crate) fn translate(
    diagnostic: &ptx::Diagnostic,
    source: &str,
    lines: &LineIndex<'_>,
) -> Diagnostic {
    let (line, column) = lines.position(diagnostic.span.start);
    let number = |position: usize| u32::try_from(position).unwrap_or(u32::MAX);
    let severity = match diagnostic.severity {
        ptx::Severity::Fatal => Severity::Fatal,
        ptx::Severity::Error => Severity::Error,
        ptx::Severity::Warning => Severity::Warning,
    };
    let hint = diagnostic.suggestion.clone().or_else(|| {
        let expected = diagnostic.expected.as_ref();
        expected.map(|expected| format!("expected {expected}"))
    });
    Diagnostic {
        hint,
        ..Diagnostic::new(severity, diagnostic.message.clone()).at(Place {
            source: source.to_owned(),
            line: number(line),
            column: number(column),
        })
    }
}
