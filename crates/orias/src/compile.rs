//! PTX in, cubin out.

use crate::abi;
use crate::check::{parse_and_check, translate};
use crate::container::{self, Called, Finished};
use crate::debug::Sections;
use crate::diagnostics::{Diagnostic, Diagnostics, Kind, Severity};
use crate::limits::{self, limit, smaller};
use crate::lines::LineTables;
use crate::modules;
use crate::options::Options;
use crate::shared_spills;
use crate::stack_size;
use crate::statistics::{Counter, Stage, Statistics};
use crate::target::TargetKind;
use crate::tools_patch;
use crate::usage::{self, Usage};
use crate::warpgroup;
use orias_codegen::knobs::registry::{GEN_ERRBAR_AT_EXIT, STEER_THREADS};
use orias_codegen::lower::{LowerOptions, lower};
use orias_codegen::phases::{is_slow_path, slow_path};
use orias_codegen::pipeline::{Context, Failure, PhaseError, Pipeline, Stop};
use orias_codegen::stopwatch::Stopwatch;
use orias_codegen::{DeviceFunction, Kernel, adopt_externs, constant_places, most_registers};
use orias_machine::Machine;
use orias_mercury::Code;
use orias_ptx::diagnostic::LineIndex;
use rayon::prelude::*;
use std::collections::BTreeSet;

/// The first GPU with tensor memory.
const FIRST_WITH_TENSOR_MEMORY: u16 = 100;

/// A PTX module and the name that messages call it by.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// A path, or whatever the user knows the module by.
    pub name: &'a str,
    /// The PTX.
    pub text: &'a [u8],
}

impl Source<'_> {
    /// What ptxas calls a module that comes from no file.
    pub const IN_MEMORY: &'static str = "application ptx input";
}

/// What a compilation made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// The cubin; nothing when the target is virtual and the input was only checked.
    pub cubin: Option<Vec<u8>>,
    /// Warnings and remarks.
    pub diagnostics: Diagnostics,
    /// What each kernel uses, in the order of the source.
    pub kernels: Vec<Usage>,
    /// What was to be counted on the way.
    pub statistics: Option<Statistics>,
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
    compile_until(sources, options, &|| false)
}

/// The same, unless `stop` says yes on the way: then the last message is of [`Kind::Stopped`], and nothing is made.
///
/// It is asked after each module is read, before each is lowered and before each phase of each function, by several threads at once
/// where functions are compiled in parallel.
pub fn compile_until(
    sources: &[Source<'_>],
    options: &Options,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Compiled, Diagnostics> {
    let mut counter = Counter::start(options.statistics);
    let mut diagnostics = Diagnostics::default();
    let mut modules = Vec::with_capacity(sources.len());
    for source in sources {
        let (module, said) = parse_and_check(source, options);
        diagnostics.0.extend(said.0);
        if stop() {
            diagnostics.0.push(Diagnostic::stopped());
            return Err(diagnostics);
        }
        modules.push((source, module));
    }
    counter.ends(Stage::Parse);
    let is_debug = |(_, module): &(&Source<'_>, orias_ptx::Module<'_>)| {
        let options = &module.target_options;
        options.contains(&orias_ptx::ast::TargetOption::Debug)
    };
    let options = &options.for_modules(modules.iter().any(is_debug));
    if !diagnostics.has_errors() {
        diagnostics.0.extend(modules::defined_twice(&modules));
    }
    if !diagnostics.has_errors() && options.target.kind == TargetKind::Real {
        (diagnostics.0).extend(modules::missing_entry(&modules, options));
    }
    if !diagnostics.has_errors() && options.tensor_memory_checks {
        let last = modules.last().and_then(|(_, module)| module.target);
        diagnostics.0.extend(last.and_then(no_tensor_memory));
    }
    let mut diagnostics = options.treat_warnings(diagnostics);
    if options.contradicts_debugging() {
        let what = "Optimized debugging not supported";
        diagnostics.0.push(Diagnostic::new(Severity::Fatal, what));
    }
    if diagnostics.has_errors() {
        return Err(diagnostics);
    }
    if options.target.kind != TargetKind::Real {
        return Ok(Compiled {
            cubin: None,
            diagnostics,
            kernels: Vec::new(),
            // As with ptxas, checking alone is not counted.
            statistics: None,
        });
    }
    match generate(&modules, options, stop, &mut counter) {
        Ok((cubin, report, kernels)) => {
            diagnostics
                .0
                .extend(options.treat_warnings(Diagnostics(report)).0);
            if diagnostics.has_errors() {
                return Err(diagnostics);
            }
            Ok(Compiled {
                cubin: Some(cubin),
                diagnostics,
                kernels,
                statistics: counter.finish(),
            })
        }
        Err(errors) => {
            diagnostics.0.extend(errors);
            Err(diagnostics)
        }
    }
}

/// ptxas's remark on checks of tensor memory in code for a GPU without.
fn no_tensor_memory(target: orias_ptx::target::Target) -> Option<Diagnostic> {
    let what = format!(
        "Command line option '--g-tensor-memory-access-check / --gno-tensor-memory-access-check' not supported for '.target {target}', will be ignored"
    );
    (target.sm < FIRST_WITH_TENSOR_MEMORY).then(|| Diagnostic::new(Severity::Info, what))
}

/// A cubin, what there is to say about it, and what each kernel uses.
type Generated = (Vec<u8>, Vec<Diagnostic>, Vec<Usage>);

/// Lowers checked modules, takes every kernel through the pipeline, and puts the code into a container. The second result
/// is the report of `-v`, if it is asked for, the third what each kernel uses.
fn generate(
    sources: &[(&Source<'_>, orias_ptx::Module<'_>)],
    options: &Options,
    stop: &(dyn Fn() -> bool + Sync),
    counter: &mut Counter,
) -> Result<Generated, Vec<Diagnostic>> {
    let name = options.target.to_string();
    let Some(target) = orias_sass::Target::from_name(&name) else {
        let feature = format!("code for {name}");
        return Err(vec![Diagnostic::unsupported(feature)]);
    };
    let mut module = orias_codegen::LoweredModule::new(target);
    let mut errors = Vec::new();
    let whole = sources.iter().any(|(_, ptx)| abi::is_impossible(ptx));
    let without_abi = (options.extensible && whole).then(|| Options {
        relocatable: false,
        extensible: false,
        ..options.clone()
    });
    let asked = options;
    let options = without_abi.as_ref().unwrap_or(options);
    let mut lines = LineTables::new(options);
    let mut sections = options.debug.then(Sections::default);
    let mut warnings = Vec::new();
    counter.ends(Stage::Setup);
    for (source, ptx) in sources {
        if stop() {
            return Err(vec![Diagnostic::stopped()]);
        }
        if let Some(sections) = &mut sections {
            sections.take(ptx);
        }
        counter.ends(Stage::DebugInfo);
        if options.tools_patch {
            let problems = tools_patch::problems(ptx, options);
            if !problems.is_empty() {
                return Err(problems);
            }
        }
        let said = abi::remarks(ptx, asked);
        if said.iter().any(|it| it.severity >= Severity::Error) {
            return Err(said);
        }
        warnings.extend(said);
        let before = constant_places(&module.symbols).1;
        let how = LowerOptions {
            target,
            constants_before: (sources.len() > 1).then_some(before),
            ..how_to_lower(options)
        };
        match lower_source(source, ptx, options, how, &mut lines, &mut warnings) {
            Ok(lowered) => modules::merge(&mut module, lowered).map_err(|error| vec![error])?,
            Err(found) => errors.extend(found),
        }
        counter.ends(Stage::Lower);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if !options.relocatable {
        adopt_externs(&mut module.symbols);
    }
    if let Some(sections) = &sections {
        warnings.extend(sections.remarks());
    }
    let sections = sections.filter(|_| options.writes_debug_info());
    for (_, ptx) in sources {
        warnings.extend(stack_size::warnings(ptx, options));
    }
    warnings.extend(limits::local_counts(&mut module, options, target));
    let mut lowered = std::mem::take(&mut module.kernels);
    let mut problems = lowered
        .iter()
        .filter_map(|it| shared_spills::problem(it, options));
    if let Some(problem) = problems.next() {
        return Err(vec![problem]);
    }
    for kernel in &mut lowered {
        warnings.extend(limits::bounded(kernel, options, target));
    }
    warnings.extend(lowered.iter().filter_map(|kernel| {
        let mut limits = kernel.code.attributes.clone();
        limit(&mut limits, options, Machine::of(target));
        let ignored = orias_codegen::phases::ignores_register_counts(&kernel.code, &limits);
        let what = "(C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.";
        ignored.then(|| Diagnostic::new(crate::Severity::Info, what.to_owned()))
    }));
    let asking: Vec<bool> = lowered
        .iter()
        .map(|kernel| {
            let mut limits = kernel.code.attributes.clone();
            limit(&mut limits, options, Machine::of(target));
            orias_codegen::phases::asks_for_register_counts(&kernel.code)
                && !orias_codegen::phases::ignores_register_counts(&kernel.code, &limits)
        })
        .collect();
    let stop = Stop(stop);
    counter.ends(Stage::Setup);
    let finished = in_parallel(lowered, options, |kernel| finish(kernel, options, stop))
        .map_err(|error| vec![error])?;
    let mut kernels = Vec::with_capacity(finished.len());
    for (kernel, asks) in finished.into_iter().zip(asking) {
        match kernel {
            Ok(kernel) => {
                if asks && !container::changes_register_count(&kernel.code) {
                    let what = format!(
                        "Potential Performance Loss: 'setmaxnreg' ignored in '{}'; some code needs more registers than it would have there.",
                        kernel.kernel.code.name
                    );
                    warnings.push(Diagnostic::new(crate::Severity::Info, what));
                }
                let name = &kernel.kernel.code.name;
                if let Some(wait) = &kernel.added_wait
                    && !warpgroup::announces_wait(&warnings, name)
                {
                    warnings.push(warpgroup::too_few_registers(name, wait));
                }
                kernels.push(kernel);
            }
            // One is as good as all: every kernel was stopped.
            Err(error) if error.kind == Kind::Stopped => return Err(vec![error]),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let functions = std::mem::take(&mut module.functions);
    let mut functions =
        finish_functions(functions, &kernels, options, stop).map_err(|error| vec![error])?;
    let slow_paths = slow_paths(&mut kernels, &functions, target).map_err(|error| vec![error])?;
    functions.extend(
        finish_functions(slow_paths, &kernels, options, stop).map_err(|error| vec![error])?,
    );
    if options.tools_patch {
        warnings.extend(tools_patch::uniform_registers(&functions));
    }
    counter.ends(Stage::Generate);
    if let Some(links) = &mut module.links {
        links.extensible = options.extensible;
        links.tools_patch = options.tools_patch;
    }
    let cubin = container::build(&module, &kernels, &functions, (lines, sections), target)
        .map_err(|error| vec![error])?;
    counter.ends(Stage::Container);
    let mut report = warnings;
    let used = usage::usage(&module, &kernels, &functions, options, target);
    if options.verbose {
        report.extend(usage::report(
            &module, &kernels, &used, &functions, options, target,
        ));
    }
    report.extend(usage::warnings(&kernels, &functions, options));
    counter.ends(Stage::Setup);
    Ok((cubin, report, used))
}

/// What lowering is told of every module.
fn how_to_lower(options: &Options) -> LowerOptions {
    LowerOptions {
        contract: options.contracts(),
        entries: match options.compiles_all() {
            true => Vec::new(),
            false => options.entries.clone(),
        },
        caches: options.caches,
        debug: options.debug,
        relocatable: options.relocatable,
        ..LowerOptions::default()
    }
}

fn lower_source(
    source: &Source<'_>,
    ptx: &orias_ptx::Module<'_>,
    options: &Options,
    how: LowerOptions,
    lines: &mut LineTables,
    warnings: &mut Vec<Diagnostic>,
) -> Result<orias_codegen::LoweredModule, Vec<Diagnostic>> {
    if !options.compiles_all() {
        warnings.extend(limits::ignored_counts(ptx));
    }
    if options.warn_on_double {
        warnings.extend(double_precision(ptx, source));
    }
    let ptx_lines = lines.take(source.text, !ptx.files.is_empty());
    let how = LowerOptions {
        ptx_lines: ptx_lines.or_else(|| warpgroup::has_products(ptx).then_some(0)),
        ..how
    };
    let mut module = lower(ptx, &how).map_err(|problems| {
        let lines = LineIndex::new(source.text);
        let said = problems
            .iter()
            .map(|problem| not_lowered(problem, source.name, &lines));
        said.collect::<Vec<_>>()
    })?;
    warnings.extend(warpgroup::missing(ptx, &module, ptx_lines.unwrap_or(0)));
    for kernel in &mut module.kernels {
        kernel.code.renumber_values();
    }
    for function in &mut module.functions {
        function.code.renumber_values();
    }
    Ok(module)
}

/// A warning for each instruction that computes in double precision.
fn double_precision(ptx: &orias_ptx::Module<'_>, source: &Source<'_>) -> Vec<Diagnostic> {
    let lines = LineIndex::new(source.text);
    let mut found = Vec::new();
    for body in ptx
        .functions
        .iter()
        .filter_map(|function| function.body.as_ref())
    {
        for instruction in &body.instructions {
            let opcode = ptx.opcode(instruction);
            let form = opcode.forms.get(usize::from(instruction.form));
            let double = |ty| ty == orias_ptx::types::Type::F64;
            if form.is_some_and(|form| form.types().any(double)) {
                let message = "Program is doing double precision computations.".to_owned();
                let said = orias_ptx::Diagnostic::warning(instruction.span(), message);
                found.push(translate(&said, source.name, &lines));
            }
        }
    }
    found
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

/// The slow paths that kernels call, and functions that they call. Each kernel is told of its own.
fn slow_paths(
    kernels: &mut [Finished],
    functions: &[Called],
    target: orias_sass::Target,
) -> Result<Vec<DeviceFunction>, Diagnostic> {
    let called = |code: &Code| {
        let symbols = code.relocations.iter().map(|it| it.symbol.clone());
        symbols.filter(|it| is_slow_path(it)).collect::<Vec<_>>()
    };
    let mut all: BTreeSet<String> = BTreeSet::new();
    for finished in kernels {
        let mut own: BTreeSet<String> = called(&finished.code).into_iter().collect();
        let callees = &finished.kernel.callees;
        let reached = functions
            .iter()
            .filter(|it| callees.contains(&it.function.name));
        own.extend(reached.flat_map(|it| called(&it.code)));
        finished.kernel.callees.extend(own.iter().cloned());
        all.extend(own);
    }
    let mut found = Vec::new();
    for name in all {
        let code = slow_path(&name, target).transpose();
        let code = code.map_err(|error| Diagnostic::internal("slow paths", None, error))?;
        found.extend(code.map(DeviceFunction::of));
    }
    Ok(found)
}

/// Takes the functions that kernels call through the pipeline. None may use more registers than each of its callers may have.
fn finish_functions(
    functions: Vec<DeviceFunction>,
    kernels: &[Finished],
    options: &Options,
    stop: Stop<'_>,
) -> Result<Vec<Called>, Diagnostic> {
    let finish = |function: DeviceFunction| {
        let start = Stopwatch::start();
        let DeviceFunction {
            code: mut function,
            debug,
            linkage,
            local_registers,
            ..
        } = function;
        let declared = function.attributes.clone();
        let callers = kernels
            .iter()
            .filter(|it| it.kernel.callees.contains(&function.name));
        let target = function.target;
        let limits = callers.map(|it| most_registers(&it.kernel.code.attributes, target));
        let own = match options.tools_patch {
            true => Some(tools_patch::REGISTERS),
            false => options.function_registers.or(options.max_registers),
        };
        function.attributes.max_registers = match options.relocatable {
            // Who calls it is not known.
            true => local_registers.or(own).unwrap_or(0),
            false => smaller(limits.min().unwrap_or(0), local_registers),
        };
        let mut watch = warpgroup::Watch::default();
        let code = encode(&mut function, options, stop, &mut watch)?;
        Ok(Called {
            function,
            debug,
            declared,
            code,
            linkage,
            time: start.elapsed(),
        })
    };
    in_parallel(functions, options, finish)?
        .into_iter()
        .collect()
}

/// Takes a kernel through the pipeline and encodes it.
fn finish(mut kernel: Kernel, options: &Options, stop: Stop<'_>) -> Result<Finished, Diagnostic> {
    let start = Stopwatch::start();
    let declared = kernel.code.attributes.clone();
    let machine = Machine::of(kernel.code.target);
    limit(&mut kernel.code.attributes, options, machine);
    // The kernel's own code keeps to it; what it calls need not, and the launch is not told.
    let launched_with = kernel.code.attributes.max_registers;
    kernel.code.attributes.max_registers = smaller(launched_with, kernel.local_registers);
    let mut watch = warpgroup::Watch::default();
    let code = encode(&mut kernel.code, options, stop, &mut watch)?;
    kernel.code.attributes.max_registers = launched_with;
    Ok(Finished {
        added_wait: watch.added,
        kernel,
        declared,
        code,
        reports_at_exit: options.knobs.bool(&GEN_ERRBAR_AT_EXIT),
        steered: options.knobs.bool(&STEER_THREADS),
        annotated: options.annotate,
        time: start.elapsed(),
    })
}

/// Takes a function through the pipeline and encodes it.
fn encode(
    function: &mut orias_ori::Function,
    options: &Options,
    stop: Stop<'_>,
    watch: &mut warpgroup::Watch,
) -> Result<Code, Diagnostic> {
    let context = Context {
        opt_level: options.level(),
        knobs: &options.knobs,
        machine: Machine::of(function.target),
    };
    let pipeline = Pipeline {
        stop,
        ..Pipeline::default()
    };
    let mercury = pipeline
        .run_to_mercury(function, &context, &mut |event| watch.see(&event))
        .map_err(|failure| not_finished(&function.name, failure))?;
    mercury.and_then(|mercury| mercury.code).ok_or_else(|| {
        let what = format!("'{}' has no code", function.name);
        Diagnostic::internal("MercGenerateSassUCode", None, what)
    })
}

/// Does `work` for each of several, in parallel where there are threads for them. The results are in the order of the inputs, whatever the
/// number of threads.
fn in_parallel<T: Send, R: Send>(
    inputs: Vec<T>,
    options: &Options,
    work: impl Fn(T) -> R + Sync + Send,
) -> Result<Vec<R>, Diagnostic> {
    if inputs.len() < 2 || options.threads == Some(1) {
        return Ok(inputs.into_iter().map(work).collect());
    }
    let parallel = || inputs.into_par_iter().map(work).collect();
    match options.threads {
        None => Ok(parallel()),
        Some(threads) => {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            let pool = pool
                .build()
                .map_err(|error| Diagnostic::internal("threads", None, error))?;
            Ok(pool.install(parallel))
        }
    }
}

fn not_finished(name: &str, failure: Failure) -> Diagnostic {
    match failure {
        Failure::Stopped { .. } => Diagnostic::stopped(),
        Failure::Phase {
            error: PhaseError::Unsupported(what),
            ..
        } => Diagnostic::unsupported(format!("{what} in '{name}'")),
        Failure::Phase {
            error: PhaseError::Refused(what),
            ..
        } => Diagnostic::new(Severity::Fatal, what),
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
