//! `orias opt`: phases on Ori text, or on PTX after lowering.

use super::schedule_report::Form;
use crate::output::write_whole;
use crate::report::Report;
use clap::Parser;
use orias_codegen::knobs::Knobs;
use orias_codegen::lower::{LowerOptions, lower};
use orias_codegen::mercury::{Mercury, TRACES};
use orias_codegen::phases::{
    explain_fences, explain_frequencies, explain_hoisted_loads, explain_redundant_barriers,
    explain_shared_constants, explain_unrolling, explain_unswitching,
};
use orias_codegen::pipeline::{
    Context, Event, Failure, PHASES, Phase, Pipeline, Stage, find_phase,
};
use orias_codegen::schedule::post::{self, FunctionSchedule};
use orias_machine::Machine;
use orias_mercury::Stream;
use orias_ori::{
    Function, Level, Module, VerifyError, parse_module, print_function, verify_module,
};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// Reads Ori text or PTX, takes each function through the pipeline, and prints what comes out.
///
/// A file whose name ends in '.ptx' is lowered first; its kernels are the functions. '--print-after=lower' and
/// '--stop-after=lower' name that step.
///
/// A file whose name ends in '.merc' is a stream of Mercury's, the form of the last stage. Functions only become streams when a
/// phase of that stage is named by '--stop-after' or '--print-after'.
///
/// Phases run when their gates say so and when the function is at a level they work on; 'orias phases' lists them. They are
/// named in any case, or by number.
#[derive(Parser)]
#[command(name = "opt", bin_name = "orias opt")]
struct Arguments {
    /// A file of Ori text, or of PTX if its name ends in '.ptx'; '-' is standard input
    file: String,
    /// The target that PTX is lowered for; that of the PTX when not given
    #[arg(long, value_name = "NAME")]
    arch: Option<String>,
    /// Whether products and sums of PTX may be rounded once; by default above -O0
    #[arg(long, value_name = "BOOL")]
    fmad: Option<bool>,
    /// Where the result goes; standard output when not given
    #[arg(short, long, value_name = "FILE")]
    output: Option<String>,
    /// How much to optimise, from 0 to 3
    #[arg(short = 'O', long, value_name = "LEVEL", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=3))]
    opt_level: u8,
    /// Print functions before this phase, or before 'all'
    #[arg(long, value_name = "PHASE")]
    print_before: Vec<String>,
    /// Print functions after this phase, or after 'all'
    #[arg(long, value_name = "PHASE")]
    print_after: Vec<String>,
    /// Begin with this phase
    #[arg(long, value_name = "PHASE")]
    start_from: Option<String>,
    /// End with this phase
    #[arg(long, value_name = "PHASE")]
    stop_after: Option<String>,
    /// Pass this phase over
    #[arg(long, value_name = "PHASE")]
    disable_phase: Vec<String>,
    /// Set a knob
    #[arg(long, value_name = "NAME=VALUE")]
    knob: Vec<String>,
    /// Set knobs from a file, one NAME=VALUE a line
    #[arg(long, value_name = "FILE")]
    knob_file: Vec<String>,
    /// Verify functions after each phase, not only at the beginning and the end
    #[arg(long)]
    verify_each: bool,
    /// Print what becomes of each innermost loop, and why, and how often blocks are thought to run
    #[arg(long)]
    explain: bool,
    /// Print how long each phase took, in all functions together
    #[arg(long)]
    time_phases: bool,
    /// Instead of the functions, which must have physical registers then: when every instruction issues and what it waits for
    #[arg(long, value_name = "FORM")]
    schedule_report: Option<Form>,
}

pub fn run(arguments: &[String]) -> Report {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return error.into(),
    };
    let plan = match Plan::new(&arguments) {
        Ok(plan) => plan,
        Err(message) => return Report::usage("opt", message),
    };
    if has_extension(&arguments.file, "merc") {
        return run_stream(&arguments, &plan);
    }
    let mut module = match read_module(&arguments) {
        Ok(module) => module,
        Err(message) => return Report::failure("opt", message),
    };
    let mut watch = Watch::default();
    // Phases take sound functions for granted.
    if let Err(errors) = verify_module(&module) {
        return unsound(&arguments, &errors, watch);
    }
    if plan.after_lowering && has_extension(&arguments.file, "ptx") {
        for function in &module.functions {
            // Writing to a string cannot fail.
            let _ = writeln!(watch.printed, "; after lower\n{}", print_function(function));
        }
    }
    let mut streams = Vec::new();
    for function in &mut module.functions {
        let context = Context {
            opt_level: arguments.opt_level,
            knobs: &plan.knobs,
            machine: Machine::of(function.target),
        };
        let outcome = plan
            .pipeline
            .run_to_mercury(function, &context, &mut |event| watch.see(&plan, event));
        match outcome {
            Ok(mercury) => streams.extend(mercury),
            Err(failure) => return stopped(&arguments, &function.name, &failure, watch),
        }
    }
    if let Err(errors) = verify_module(&module) {
        return unsound(&arguments, &errors, watch);
    }
    if let Some(form) = arguments.schedule_report {
        return match stories(&module, &plan.knobs) {
            Ok(stories) => finish(&arguments, &[form.render(&stories)], watch),
            Err(message) => Report::failure("opt", message),
        };
    }
    let texts: Vec<String> = if streams.is_empty() {
        module.functions.iter().map(print_function).collect()
    } else {
        streams.iter().map(print_mercury).collect()
    };
    finish(&arguments, &texts, watch)
}

/// Takes a stream through the phases of Mercury.
fn run_stream(arguments: &Arguments, plan: &Plan) -> Report {
    let file = &arguments.file;
    let text = match super::read_input(file).map(String::from_utf8) {
        Ok(Ok(text)) => text,
        Ok(Err(_)) => return Report::failure("opt", format_args!("{file} is not UTF-8 text")),
        Err(error) => return Report::failure("opt", format_args!("{file}: {error}")),
    };
    let mut mercury = match Stream::parse(&text) {
        Ok(stream) => Mercury::new(stream),
        Err(error) => return Report::failure("opt", format_args!("{file}:{error}")),
    };
    let context = Context {
        opt_level: arguments.opt_level,
        knobs: &plan.knobs,
        machine: Machine::of(mercury.stream.target),
    };
    let mut watch = Watch::default();
    let all = Pipeline {
        end: match arguments.stop_after {
            Some(_) => plan.pipeline.end,
            None => PHASES.len(),
        },
        ..plan.pipeline.clone()
    };
    let outcome = all.run_mercury(&mut mercury, &context, &mut |event| watch.see(plan, event));
    match outcome {
        Ok(()) => finish(arguments, &[print_mercury(&mercury)], watch),
        Err(failure) => stopped(arguments, &mercury.stream.name, &failure, watch),
    }
}

fn stopped(arguments: &Arguments, function: &str, failure: &Failure, watch: Watch) -> Report {
    Report {
        output: watch.printed.into_bytes(),
        messages: explain(&arguments.file, function, failure),
        code: 1,
    }
}

/// A stream, after what its phases noted of it.
fn print_mercury(mercury: &Mercury) -> String {
    let mut text = String::new();
    for line in mercury.stream.trace.iter().flatten() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "// {line}");
    }
    text + &mercury.stream.print()
}

/// The command line, looked up in the tables.
struct Plan {
    pipeline: Pipeline<'static>,
    knobs: Knobs,
    /// Whether functions are printed before and after each row.
    before: Vec<bool>,
    after: Vec<bool>,
    /// Whether functions are printed after lowering.
    after_lowering: bool,
    /// The level at which decisions are explained, if they are.
    explain: Option<u8>,
}

/// What a phase would do with a function, in words.
type Explain = fn(&Function, &Context<'_>) -> Vec<String>;

/// The phases whose decisions are explained, by number.
const EXPLAINED: [(u16, Explain); 7] = [
    (10102, explain_unswitching),
    (24, explain_unrolling),
    (25, explain_fences),
    (26, explain_redundant_barriers),
    (10086, explain_hoisted_loads),
    (10089, explain_shared_constants),
    (109, explain_frequencies),
];

/// The step before the table.
const LOWER: &str = "lower";

impl Plan {
    fn new(arguments: &Arguments) -> Result<Self, String> {
        let mut pipeline = Pipeline {
            verify_each: arguments.verify_each,
            ..Pipeline::default()
        };
        if let Some(name) = &arguments.start_from {
            pipeline.first = find_phase(PHASES, name)?;
        }
        let mut only_lower = false;
        if let Some(name) = &arguments.stop_after {
            only_lower = name.eq_ignore_ascii_case(LOWER);
            pipeline.end = if only_lower {
                0
            } else {
                find_phase(PHASES, name)? + 1
            };
        }
        let mercury = PHASES.iter().position(|row| row.stage == Stage::Mercury);
        let after = chosen_rows(&arguments.print_after)?;
        let named = mercury.is_some_and(|first| {
            pipeline.first >= first || !all_rows(arguments) && after[first..].contains(&true)
        });
        if let (Some(first), None, false) = (mercury, &arguments.stop_after, named) {
            pipeline.end = first;
        }
        if pipeline.first >= pipeline.end && !(only_lower && pipeline.first == 0) {
            return Err("the phase to start from comes after the one to stop after".to_owned());
        }
        for name in &arguments.disable_phase {
            pipeline.disabled.push(find_phase(PHASES, name)?);
        }
        let mut knobs = Knobs::default();
        for file in &arguments.knob_file {
            let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
            knobs
                .set_from_file(&text)
                .map_err(|error| format!("{file}, {error}"))?;
        }
        for assignment in &arguments.knob {
            knobs.set(assignment).map_err(|error| error.to_string())?;
        }
        Ok(Self {
            pipeline,
            knobs,
            explain: arguments.explain.then_some(arguments.opt_level),
            before: chosen_rows(&arguments.print_before)?,
            after,
            after_lowering: arguments
                .print_after
                .iter()
                .any(|name| name.eq_ignore_ascii_case(LOWER) || name.eq_ignore_ascii_case("all")),
        })
    }
}

/// Whether functions are printed after all phases, which names none.
fn all_rows(arguments: &Arguments) -> bool {
    let mut names = arguments.print_after.iter();
    names.any(|name| name.eq_ignore_ascii_case("all"))
}

/// For each row of the table, whether `names` choose it.
fn chosen_rows(names: &[String]) -> Result<Vec<bool>, String> {
    let mut chosen = vec![false; PHASES.len()];
    for name in names {
        if name.eq_ignore_ascii_case("all") {
            chosen.fill(true);
        } else if !name.eq_ignore_ascii_case(LOWER) {
            chosen[find_phase(PHASES, name)?] = true;
        }
    }
    Ok(chosen)
}

/// What is seen of the pipeline on the way.
#[derive(Default)]
struct Watch {
    printed: String,
    /// Time and number of runs of each row.
    times: Vec<(Duration, usize)>,
}

impl Watch {
    fn see(&mut self, plan: &Plan, event: Event<'_>) {
        let row = |phase: &Phase| PHASES.iter().position(|row| row.number == phase.number);
        match event {
            Event::Before(phase, function) => {
                if row(phase).is_some_and(|row| plan.before[row]) {
                    self.print("before", phase, function);
                }
                if let Some(opt_level) = plan.explain
                    && let Some((_, explain)) = EXPLAINED.iter().find(|it| it.0 == phase.number)
                {
                    let context = Context {
                        opt_level,
                        knobs: &plan.knobs,
                        machine: Machine::of(function.target),
                    };
                    for line in explain(function, &context) {
                        // Writing to a string cannot fail.
                        let _ = writeln!(self.printed, "; {}: {line}", function.name);
                    }
                }
            }
            Event::After(phase, function, time) => {
                let Some(row) = row(phase) else { return };
                self.took(row, time);
                if plan.after[row] {
                    self.print("after", phase, function);
                }
            }
            Event::BeforeMercury(phase, mercury) => {
                if row(phase).is_some_and(|row| plan.before[row]) {
                    self.print_stream(&format!("before {}", phase.name), phase, mercury);
                }
            }
            Event::AfterMercury(phase, mercury, time) => {
                let Some(row) = row(phase) else { return };
                self.took(row, time);
                if plan.after[row] {
                    let known = TRACES.iter().find(|(number, _)| *number == phase.number);
                    let said = known.map_or(String::new(), |(_, texts)| texts.join(", "));
                    let own = format!("after {}", phase.name);
                    let title = if said.is_empty() { own } else { said };
                    self.print_stream(&title, phase, mercury);
                }
            }
            Event::Skipped(..) => {}
        }
    }

    fn took(&mut self, row: usize, time: Duration) {
        self.times.resize(PHASES.len(), (Duration::ZERO, 0));
        self.times[row].0 += time;
        self.times[row].1 += 1;
    }

    fn print_stream(&mut self, title: &str, phase: &Phase, mercury: &Mercury) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.printed,
            "// {title} ({})\n{}",
            phase.number,
            mercury.stream.print()
        );
    }

    fn print(&mut self, when: &str, phase: &Phase, function: &Function) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.printed,
            "; {when} {} ({})\n{}",
            phase.name,
            phase.number,
            print_function(function)
        );
    }
}

fn has_extension(file: &str, wanted: &str) -> bool {
    Path::new(file)
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
}

fn read_module(arguments: &Arguments) -> Result<Module, String> {
    let file = &arguments.file;
    let bytes = super::read_input(file).map_err(|error| format!("{file}: {error}"))?;
    if has_extension(file, "ptx") {
        return lower_ptx(arguments, &bytes);
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("{file} is not UTF-8 text"))?;
    parse_module(&text).map_err(|error| format!("{file}:{error}"))
}

/// Reads, checks and lowers PTX.
fn lower_ptx(arguments: &Arguments, source: &[u8]) -> Result<Module, String> {
    let (ptx, mut found) = orias_ptx::parse(source);
    let target = match (&arguments.arch, ptx.target) {
        (Some(name), _) => name.clone(),
        (None, Some(target)) => target.to_string(),
        (None, None) => orias_sass::Target::DEFAULT.to_string(),
    };
    let Some(options) = orias_ptx::Options::for_architecture(&target) else {
        return Err(format!("'{target}' is no architecture"));
    };
    found.append(orias_ptx::check(&ptx, &options));
    found.sort();
    let Some(target) = orias_sass::Target::from_name(&target) else {
        return Err(format!("not supported yet: code for {target}"));
    };
    let debug = (ptx.target_options).contains(&orias_ptx::ast::TargetOption::Debug);
    let options = LowerOptions {
        target,
        debug,
        ptx_lines: debug.then_some(0),
        contract: arguments.fmad.unwrap_or(arguments.opt_level > 0),
        ..LowerOptions::default()
    };
    if !found.has_errors() {
        match lower(&ptx, &options) {
            Ok(module) => {
                let kernels = module.kernels.into_iter().map(|kernel| kernel.code);
                let functions = kernels.chain(module.functions.into_iter().map(|it| it.code));
                return Ok(Module {
                    functions: functions.collect(),
                });
            }
            Err(problems) => {
                for problem in problems {
                    found.push(problem);
                }
            }
        }
    }
    Err(found.to_excerpts(&arguments.file, source))
}

fn explain(file: &str, function: &str, failure: &Failure) -> String {
    format!("orias opt: {file}: function {function}: {failure}\n")
}

/// Prints or writes what came out.
fn finish(arguments: &Arguments, texts: &[String], watch: Watch) -> Report {
    let mut report = Report::success(watch.printed);
    if arguments.time_phases {
        report.messages = time_table(&watch.times);
    }
    let text = texts.join("\n");
    match &arguments.output {
        None => report.output.extend(text.bytes()),
        Some(file) => {
            if let Err(error) = write_whole(Path::new(file), text.as_bytes()) {
                return Report::failure("opt", format_args!("{file}: {error}"));
            }
        }
    }
    report
}

/// What the scheduler of physical code sees in each function.
fn stories(module: &Module, knobs: &Knobs) -> Result<Vec<FunctionSchedule>, String> {
    let options = post::Options::of(knobs);
    let functions = module.functions.iter();
    functions
        .map(|function| {
            let name = &function.name;
            if function.level < Level::Physical {
                return Err(format!(
                    "{name} is {}: a schedule report needs physical registers",
                    function.level.name()
                ));
            }
            post::tell(function, &options).map_err(|error| format!("{name}: {error}"))
        })
        .collect()
}

/// What was printed on the way, and what the verifier says.
fn unsound(arguments: &Arguments, errors: &[VerifyError], watch: Watch) -> Report {
    let mut messages = String::new();
    for error in errors {
        // Writing to a string cannot fail.
        let _ = writeln!(messages, "orias opt: {}: {error}", arguments.file);
    }
    Report {
        output: watch.printed.into_bytes(),
        messages,
        code: 1,
    }
}

fn time_table(times: &[(Duration, usize)]) -> String {
    let mut text = format!("{:>12} {:>6}  phase\n", "microseconds", "runs");
    for (phase, (time, runs)) in PHASES.iter().zip(times) {
        if *runs > 0 {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:>12} {runs:>6}  {}", time.as_micros(), phase.name);
        }
    }
    text
}
