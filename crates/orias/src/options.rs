//! What the library can be told.

use crate::diagnostics::{Diagnostics, Severity};
use crate::statistics::Counts;
use crate::target::Target;
use orias_codegen::knobs::Knobs;
use orias_codegen::lower::Caches;

/// How to compile. Cheap to clone; the default is what ptxas does without options.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// What to compile for. A virtual target stops after the checks.
    pub target: Target,
    /// How much to optimise, from 0 to 3; code for debuggers is not optimised.
    pub opt_level: u8,
    /// Whether that level was asked for. Optimised code for debuggers is refused.
    pub level_is_asked: bool,
    /// Make code and information for debuggers; PTX whose target is `debug` asks for it by itself.
    pub debug: bool,
    /// The entry functions to compile; all of them when empty.
    pub entries: Vec<String>,
    /// Whether a product and a sum may become one operation with one rounding; by default above -O0.
    pub contract: Option<bool>,
    /// The most registers a thread may have, where the source does not ask for fewer.
    pub max_registers: Option<u32>,
    /// Make an object for a linker, not a program for the driver.
    pub relocatable: bool,
    /// Nothing is said about stacks of unknown size.
    pub no_stack_size_warning: bool,
    /// Make functions that a tool patches into programs. Goes with `relocatable`: every function has a text of its own.
    pub tools_patch: bool,
    /// The object is a whole program that a linker adds system functions to: nobody outside sees its functions.
    pub extensible: bool,
    /// The most registers a function of an object may use that is no kernel, where that differs.
    pub function_registers: Option<u32>,
    /// What steers single decisions of single phases.
    pub knobs: Knobs,
    /// No more than this level is reached, for the sake of a faster compile.
    pub fast_compile: Option<u8>,
    /// Most threads of a block, where the source does not say.
    pub max_threads: Option<[u32; 3]>,
    /// Least blocks that must fit on a multiprocessor, where the source does not say.
    pub min_blocks: Option<u32>,
    /// Whether the limits above go before what the source says.
    pub override_directives: bool,
    /// How global memory is cached where the source does not say, or whatever it says.
    pub caches: Caches,
    /// How many threads compile functions; as many as there are processors by default. The output does not depend on it.
    pub threads: Option<usize>,
    /// Whether checks of tensor memory were asked for or forbidden, which Hopper does not have.
    pub tensor_memory_checks: bool,
    /// Warn about registers that are spilled.
    pub warn_on_spills: bool,
    /// Warn about kernels with local memory.
    pub warn_on_local_memory: bool,
    /// Warn about instructions with double precision.
    pub warn_on_double: bool,
    /// Say in the output how many instructions and registers each kernel has.
    pub annotate: bool,
    /// Line tables even where the PTX names no source lines; they are made anyway where it does.
    pub line_info: bool,
    /// No line tables in any case.
    pub no_debug_info: bool,
    /// Report what each kernel uses.
    pub verbose: bool,
    /// What is counted on the way.
    pub statistics: Counts,
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
            level_is_asked: false,
            debug: false,
            entries: Vec::new(),
            contract: None,
            max_registers: None,
            relocatable: false,
            no_stack_size_warning: false,
            tools_patch: false,
            extensible: false,
            function_registers: None,
            knobs: Knobs::default(),
            fast_compile: None,
            max_threads: None,
            min_blocks: None,
            override_directives: false,
            caches: Caches::default(),
            threads: None,
            tensor_memory_checks: false,
            warn_on_spills: false,
            warn_on_local_memory: false,
            warn_on_double: false,
            annotate: false,
            line_info: false,
            no_debug_info: false,
            verbose: false,
            statistics: Counts::default(),
            no_warnings: false,
            warnings_are_errors: false,
        }
    }
}

impl Options {
    /// Whether a product and a sum may become one operation with one rounding.
    pub fn contracts(&self) -> bool {
        self.contract.unwrap_or(self.level() > 0)
    }

    /// How much to optimise, once everything is considered.
    pub fn level(&self) -> u8 {
        if self.debug {
            return 0;
        }
        self.opt_level.min(self.fast_compile.unwrap_or(u8::MAX))
    }

    /// Whether there is information for debuggers in the output, besides lines.
    pub(crate) fn writes_debug_info(&self) -> bool {
        self.debug && !self.no_debug_info
    }

    /// Whether every function is compiled, whatever entries are asked for: those of objects, and those a debugger is to follow.
    pub(crate) fn compiles_all(&self) -> bool {
        self.relocatable && !self.extensible || self.debug
    }

    /// Whether optimised code for debuggers is asked for.
    pub(crate) fn contradicts_debugging(&self) -> bool {
        self.debug && self.level_is_asked && self.opt_level > 0
    }

    /// The same for modules of which one may be meant for debuggers.
    #[must_use]
    pub(crate) fn for_modules(&self, debug: bool) -> Options {
        let mut options = self.clone();
        options.debug |= debug;
        if options.debug {
            // Faults must be seen while there is a kernel to see them in. The knob exists.
            let _ = options.knobs.set("GenErrbarAtExit=true");
        }
        options
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
