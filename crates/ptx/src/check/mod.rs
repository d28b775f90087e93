//! What depends on versions, targets and limits, or on the module as a whole.
//!
//! [`crate::parse`] has matched every statement with the grammar already. The checks here look at the finished tree: may
//! this version and target have these instructions, do calls agree with what they call, do initialisers fit their
//! variables, are sizes within bounds. Gates are looked up once for each distinct form of an opcode, so a long program
//! costs a table look-up an instruction.

mod calls;
mod functions;
mod gates;
mod intrinsics;
mod lines;
mod named;
mod parameters;
mod pragmas;
mod variables;

use crate::ast::{Module, TargetOption};
use crate::diagnostic::{Diagnostic, Diagnostics, Span};
use crate::target::{Target, Version};

/// How much is asked of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// As `ptxas -arch=compute_90a`: the language and its types.
    #[default]
    Virtual,
    /// As `ptxas -arch=sm_90a`: also the limits of the machine, and that nothing external is left over.
    Real,
    /// As `ptxas -c -arch=sm_90a`: the limits of the machine; what is external is for a linker to find.
    Object,
    /// As `ptxas -ewp -arch=sm_90a`: the same, but no function from elsewhere may be a pointer.
    Extensible,
}

impl Mode {
    /// Whether a program is to run on a machine.
    pub const fn is_real(self) -> bool {
        !matches!(self, Mode::Virtual)
    }
}

/// What a module is checked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The architecture to compile for; `None` takes what the module names.
    pub architecture: Option<Target>,
    /// How much is asked.
    pub mode: Mode,
}

impl Options {
    /// The options for an architecture as on ptxas's command line: `compute_90a` or `sm_90a`.
    pub fn for_architecture(name: &str) -> Option<Options> {
        let mode = if name.starts_with("compute_") {
            Mode::Virtual
        } else {
            Mode::Real
        };
        Some(Options {
            architecture: Some(Target::from_name(name)?),
            mode,
        })
    }
}

/// Checks a parsed module. The messages are about what [`crate::parse`] could not see.
pub fn check(module: &Module<'_>, options: &Options) -> Diagnostics {
    let mut checker = Checker {
        module,
        options: *options,
        diagnostics: Diagnostics::default(),
    };
    checker.header();
    checker.variables();
    checker.functions();
    checker.pragmas();
    checker.lines();
    if options.mode == Mode::Object && !checker.diagnostics.has_errors() {
        checker.object_version();
    }
    checker.diagnostics.sort();
    checker.diagnostics
}

/// The first version whose modules become objects.
const FIRST_WITH_OBJECTS: u16 = 31;

struct Checker<'m, 'a> {
    module: &'m Module<'a>,
    options: Options,
    diagnostics: Diagnostics,
}

impl Checker<'_, '_> {
    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::error(span, message));
    }

    fn warning(&mut self, span: Span, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::warning(span, message));
    }

    /// Reports that something needs a newer version than the module's.
    fn needs_version(&mut self, span: Span, what: &str, version: u16) {
        if self.module.version != 0 && self.module.version < version {
            let version = Version(version);
            self.diagnostics.push(
                Diagnostic::error(
                    span,
                    format!("Feature '{what}' requires PTX ISA .version {version} or later"),
                )
                .suggest(format!(
                    "write `.version {version}` at the start of the file"
                )),
            );
        }
    }

    /// Objects came with calls by an ABI.
    fn object_version(&mut self) {
        let version = self.module.version;
        if version != 0 && version < FIRST_WITH_OBJECTS {
            let version = Version(FIRST_WITH_OBJECTS);
            let message =
                format!("'Compile only(-c)' requires PTX ISA .version {version} or later");
            self.diagnostics
                .push(Diagnostic::fatal(self.module.target_span, message));
        }
    }

    fn header(&mut self) {
        let module = self.module;
        let Some(target) = module.target else { return };
        if let Some(since) = target.since()
            && module.version != 0
            && module.version < since
        {
            self.diagnostics.push(
                Diagnostic::error(
                    module.target_span,
                    format!(
                        "PTX .version {} does not support .target {target}",
                        Version(module.version)
                    ),
                )
                .suggest(format!("{target} needs `.version {}`", Version(since))),
            );
        }
        if let Some(span) = module.address_size_span {
            self.needs_version(span, ".address_size directive", 23);
        }
        if module.target_options.contains(&TargetOption::MapF64ToF32) && target.sm >= 13 {
            self.error(
                module.target_span,
                "Directive map_f64_to_f32 is not supported with SM 1.3 or higher",
            );
        }
        if module.target_options.contains(&TargetOption::Debug) && module.sections.is_empty() {
            self.error(
                module.target_span,
                "Debug information not found in presence of .target debug",
            );
        }
        let Some(architecture) = self.options.architecture else {
            return;
        };
        if !target.runs_on(architecture) {
            self.diagnostics.push(
                Diagnostic::error(
                    module.target_span,
                    "SM version specified by .target is higher than default SM version assumed",
                )
                .expected(format!("a target that runs on {architecture}")),
            );
        }
        if self.options.mode.is_real() && module.address_size == 32 && architecture.sm >= 90 {
            let span = module.address_size_span.unwrap_or(module.target_span);
            self.error(
                span,
                "32-Bit ABI is not supported on sm_90 or higher architectures",
            );
        }
    }
}
