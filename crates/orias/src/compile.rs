//! PTX in, cubin out.

use crate::check::{check, translate};
use crate::container::{self, Finished};
use crate::diagnostics::{Diagnostic, Diagnostics, Kind};
use crate::options::Options;
use crate::target::TargetKind;
use crate::usage;
use orias_codegen::Kernel;
use orias_codegen::lower::{LowerOptions, lower};
use orias_codegen::pipeline::{Context, Failure, PhaseError, Pipeline};
use orias_ptx::diagnostic::LineIndex;
use rayon::prelude::*;
use std::time::Instant;

/// A PTX module and the name that messages call it by.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// A path, or whatever the user knows the module by.
    pub name: &'a str,
    /// The PTX.
    pub text: &'a [u8],
}

/// What a compilation made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// The cubin; nothing when the target is virtual and the input was only checked.
    pub cubin: Option<Vec<u8>>,
    /// Warnings and remarks.
    pub diagnostics: Diagnostics,
}

/// Compiles one module.
///
/// Nothing is printed and nothing is shared between calls, so any number of threads may compile at once. An error holds
/// everything there is to say, warnings included.
///
/// ```
/// use orias::{Kind, Options, Source, Target, compile};
///
/// let options = Options {
///     target: Target::parse("sm_90a").unwrap(),
///     ..Options::default()
/// };
/// let source = Source {
///     name: "empty.ptx",
///     text: b".version 8.0\n.target sm_90a\n.address_size 64\n",
/// };
/// match compile(&source, &options) {
///     Ok(compiled) => assert!(compiled.cubin.is_some()),
///     Err(diagnostics) => {
///         assert!(matches!(diagnostics.0[0].kind, Kind::Unsupported { .. }));
///     }
/// }
/// ```
pub fn compile(source: &Source<'_>, options: &Options) -> Result<Compiled, Diagnostics> {
    compile_all(std::slice::from_ref(source), options)
}

/// Compiles several modules into one cubin.
pub fn compile_all(sources: &[Source<'_>], options: &Options) -> Result<Compiled, Diagnostics> {
    let mut diagnostics = Diagnostics::default();
    for source in sources {
        diagnostics.0.extend(check(source, options).0);
    }
    let mut diagnostics = options.treat_warnings(diagnostics);
    if diagnostics.has_errors() {
        return Err(diagnostics);
    }
    if options.target.kind == TargetKind::Virtual {
        return Ok(Compiled {
            cubin: None,
            diagnostics,
        });
    }
    match generate(sources, options) {
        Ok((cubin, report)) => {
            diagnostics.0.extend(report);
            Ok(Compiled {
                cubin: Some(cubin),
                diagnostics,
            })
        }
        Err(errors) => {
            diagnostics.0.extend(errors);
            Err(diagnostics)
        }
    }
}

/// Lowers checked modules, takes every kernel through the pipeline, and puts the code into a container. The second result
/// is the report of `-v`, if it is asked for.
fn generate(
    sources: &[Source<'_>],
    options: &Options,
) -> Result<(Vec<u8>, Vec<Diagnostic>), Vec<Diagnostic>> {
    let name = options.target.to_string();
    let Some(target) = orias_sass::Target::from_name(&name) else {
        let feature = format!("code for {name}");
        return Err(vec![Diagnostic::unsupported(feature)]);
    };
    let mut module = orias_codegen::Module::default();
    let mut errors = Vec::new();
    for source in sources {
        match lower_source(source, options, &name) {
            Ok(lowered) => merge(&mut module, lowered),
            Err(found) => errors.extend(found),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let finished: Vec<Result<Finished<'_>, Diagnostic>> = module
        .kernels
        .par_iter()
        .map(|kernel| finish(kernel, options))
        .collect();
    let mut kernels = Vec::with_capacity(finished.len());
    for kernel in finished {
        match kernel {
            Ok(kernel) => kernels.push(kernel),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let cubin = container::build(&module, &kernels, target).map_err(|error| vec![error])?;
    let report = if options.verbose {
        usage::report(&module, &kernels, target)
    } else {
        Vec::new()
    };
    Ok((cubin, report))
}

fn lower_source(
    source: &Source<'_>,
    options: &Options,
    target: &str,
) -> Result<orias_codegen::Module, Vec<Diagnostic>> {
    let (ptx, _) = orias_ptx::parse(source.text);
    let how = LowerOptions {
        target: target.to_owned(),
        contract: options.contracts(),
        entries: options.entries.clone(),
    };
    lower(&ptx, &how).map_err(|problems| {
        let lines = LineIndex::new(source.text);
        problems
            .iter()
            .map(|problem| not_lowered(problem, source.name, &lines))
            .collect()
    })
}

/// What lowering refuses is right PTX that is not compiled yet.
fn not_lowered(problem: &orias_ptx::Diagnostic, source: &str, lines: &LineIndex<'_>) -> Diagnostic {
    let said = translate(problem, source, lines);
    Diagnostic {
        kind: Kind::Unsupported {
            feature: said.message.clone(),
        },
        ..said
    }
}

fn merge(module: &mut orias_codegen::Module, lowered: orias_codegen::Module) {
    module.target = lowered.target;
    module.ptx_version = module.ptx_version.max(lowered.ptx_version);
    module.kernels.extend(lowered.kernels);
    module.symbols.extend(lowered.symbols);
    module.externs.extend(lowered.externs);
    module.files.extend(lowered.files);
}

/// Takes a kernel through the pipeline and encodes it.
fn finish<'a>(kernel: &'a Kernel, options: &Options) -> Result<Finished<'a>, Diagnostic> {
    let start = Instant::now();
    let mut function = kernel.code.clone();
    let own = &mut function.attributes;
    // What the source says about an entry goes before the command line.
    if own.max_registers == 0 && own.max_threads == [0; 3] {
        own.max_registers = options.max_registers.unwrap_or(0);
    }
    let context = Context {
        opt_level: options.opt_level,
        knobs: &options.knobs,
    };
    Pipeline::default()
        .run(&mut function, &context, &mut |_| ())
        .map_err(|failure| not_finished(kernel, failure))?;
    let code = orias_mercury::emit(&function)
        .map_err(|error| Diagnostic::internal("MercGenerateSassUCode", None, error))?;
    Ok(Finished {
        kernel,
        function,
        code,
        time: start.elapsed(),
    })
}

fn not_finished(kernel: &Kernel, failure: Failure) -> Diagnostic {
    let name = &kernel.code.name;
    match failure {
        Failure::Phase {
            error: PhaseError::Unsupported(what),
            ..
        } => Diagnostic::unsupported(format!("{what} in '{name}'")),
        Failure::Phase {
            phase,
            error: PhaseError::Broken { at, what },
        } => Diagnostic::internal(phase, Some(at), format!("{what} in '{name}'")),
        Failure::Invalid { after, errors } => {
            Diagnostic::internal(after, None, format!("{errors} in '{name}'"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_can_be_called_from_many_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Options>();
        shared::<Compiled>();
        shared::<Diagnostics>();
        shared::<Source<'_>>();
    }
}
