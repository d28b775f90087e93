//! Every option there is: one row each.

use super::invocation::{Action, Invocation};
use super::parse::read_number;
use crate::diagnostics::{Diagnostic, MessageFormat, Severity};
use crate::target::{Target, TargetKind};
use orias_codegen::lower::CacheChoice;
use orias_ori::operation::Cache;
use std::fmt::Write as _;

/// What an option does in Orias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It does what it says.
    Effective,
    /// It is accepted and its value is checked, and nothing follows from it, for the reason given.
    NoEffect(&'static str),
    /// It is refused unless its value is `false`; the text names what is missing.
    Refused(&'static str),
}

/// What value an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// None.
    Nothing,
    /// `true` or `false`.
    Truth,
    /// A 32-bit number.
    Number,
    /// One of these numbers.
    NumberOf(&'static [i32]),
    /// A number that the short spelling only takes attached: `-O` alone means `-O0`.
    Level,
    /// Any text.
    Text,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Words separated by commas; repeating the option adds to them.
    List,
    /// Some of these words, or their first letters, separated by commas; repeating the option adds to them.
    SomeOf(&'static [&'static str]),
    /// Any text, commas and all; repeating the option adds another.
    Texts,
    /// A PTX module, commas and all; repeating the option adds another.
    Module,
    /// The name of a file whose text is the value; repeating the option adds another.
    FileText,
    /// Names of options files, separated by commas.
    OptionsFiles,
}

/// A value as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The option takes none.
    Given,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(i32),
    /// A word or a text.
    Text(String),
    /// Words.
    List(Vec<String>),
}

/// Acts on an option's value, or says what is wrong with it.
pub(super) type Apply = fn(&mut Invocation, &Value) -> Result<(), Diagnostic>;

/// What there is to know about one option.
#[derive(Clone, Copy, Debug)]
pub struct OptionRow {
    /// The name after two dashes.
    pub long: &'static str,
    /// The name after one dash; empty if it has none.
    pub short: &'static str,
    /// What value it takes.
    pub takes: Takes,
    /// What stands for the value in the help text.
    pub argument: &'static str,
    /// What it does in Orias.
    pub status: Status,
    pub(super) apply: Apply,
    /// What it is for.
    pub about: &'static str,
}

const fn row(
    long: &'static str,
    short: &'static str,
    takes: Takes,
    argument: &'static str,
    status: Status,
    apply: Apply,
    about: &'static str,
) -> OptionRow {
    OptionRow {
        long,
        short,
        takes,
        argument,
        status,
        apply,
        about,
    }
}

use Status::{Effective, NoEffect, Refused};
use Takes::{
    FileText, Level, List, Module, Nothing, Number, NumberOf, OneOf, OptionsFiles, SomeOf, Text,
    Texts, Truth,
};

const ONE_ALLOCATOR: Status = NoEffect("Orias has one way to allocate registers");
const NO_SUCH_WARNING: Status = NoEffect("Orias does not give this warning");
const NO_STACK_WARNING: Status = NoEffect(
    "nothing is said about stacks of unknown size, nor does ptxas 13.0 for whole programs",
);
const NO_TENSOR_MEMORY: Status =
    NoEffect("Hopper has no tensor memory; ptxas ignores it there too");

/// The options of ptxas 13.0.88's `--help`, in its order; below them those that it takes without listing them, and Orias's
/// own.
#[rustfmt::skip]
pub const OPTIONS: &[OptionRow] = &[
    row("Ofast-compile", "Ofc", Text, "<0|min|mid|max>", Effective, set_fast_compile,
        "Give up optimisations for a faster compile, a few (min) or most (max)."),
    row("allow-expensive-optimizations", "allow-expensive-optimizations", Truth, "<true|false>",
        NoEffect("a permission Orias does not need: none of its phases takes time or memory out of proportion"), nothing,
        "Allow optimisations that take much time or memory."),
    row("compile-as-tools-patch", "astoolspatch", Nothing, "", Refused("patch code for tools"), nothing,
        "Compile code that a tool will patch into a program."),
    row("compile-only", "c", Nothing, "", Effective, set_relocatable,
        "Make a relocatable object."),
    row("compiler-annotations", "annotate", Nothing, "", Effective, set_annotations,
        "Add notes of the compiler to the output: how many instructions and registers each kernel has."),
    row("def-load-cache", "dlcm", Text, "<modifier>", Effective, set_load_cache,
        "Cache modifier of global and generic loads that have none."),
    row("def-store-cache", "dscm", Text, "<modifier>", Effective, set_store_cache,
        "Cache modifier of global and generic stores that have none."),
    row("device-debug", "g", Nothing, "", Effective, set_debug,
        "Make code and information for debuggers. The code is not optimised."),
    row("device-function-maxrregcount", "func-maxrregcount", Text, "<archmax|archmin|N>",
        Effective, set_function_registers,
        "Most registers a device function may use."),
    row("device-stack-protector", "device-stack-protector", Truth, "<true|false>",
        NoEffect("ptxas 13.0 puts a canary into none of the functions tried for sm_90, and no function is at risk by a rule of Orias's own"), nothing,
        "Put canaries on the stack of functions at risk."),
    row("disable-optimizer-constants", "disable-optimizer-consts", Nothing, "",
        NoEffect("Orias makes no constant bank of its own"), nothing,
        "Do not use the optimiser's constant bank."),
    row("disable-warnings", "w", Nothing, "", Effective, set_no_warnings,
        "Leave all warnings out."),
    row("dont-merge-basicblocks", "no-bb-merge", Nothing, "", NoEffect("no blocks are merged at -O0 and with -g, where it is passed; ptxas's code is the same with it in what was tried"), nothing,
        "Do not merge basic blocks, for the sake of debugging."),
    row("entry", "e", List, "<name>,...", Effective, set_entries,
        "Compile these entry functions only."),
    row("extensible-whole-program", "ewp", Nothing, "", Effective, set_extensible,
        "Make a whole program that a linker adds the device runtime to."),
    row("fmad", "fmad", Truth, "<true|false>", Effective, set_contract,
        "Allow multiplication and addition to become one operation with one rounding."),
    row("force-load-cache", "flcm", Text, "<modifier>", Effective, force_load_cache,
        "Cache modifier of all global and generic loads."),
    row("force-store-cache", "fscm", Text, "<modifier>", Effective, force_store_cache,
        "Cache modifier of all global and generic stores."),
    row("g-tensor-memory-access-check", "g-tmem-access-check", Nothing, "", NO_TENSOR_MEMORY, nothing,
        "Check accesses to tensor memory."),
    row("generate-line-info", "lineinfo", Nothing, "", Effective, set_line_info,
        "Make line numbers for profilers and debuggers."),
    row("gno-tensor-memory-access-check", "gno-tmem-access-check", Nothing, "", NO_TENSOR_MEMORY, nothing,
        "Do not check accesses to tensor memory."),
    row("gpu-name", "arch", Text, "<gpu>", Effective, set_target,
        "The GPU to compile for (sm_90a, ...), or a virtual one (compute_90a, ...) to check the input only."),
    row("help", "h", Nothing, "", Effective, set_help,
        "Print this text."),
    row("input-as-string", "ias", Module, "<ptx>", Effective, nothing,
        "The argument is a PTX module itself, not the name of a file."),
    row("legacy-bar-warp-wide-behavior", "legacy-bar-warp-wide-behavior", Nothing, "",
        NoEffect("ptxas ignores it from sm_70 on"), warn_legacy_bar,
        "One thread's bar counts for its whole warp."),
    row("list-version", "version-ls", Nothing, "", Effective, set_list_versions,
        "Print the PTX versions that are understood."),
    row("machine", "m", NumberOf(&[64]), "<64>", Effective, nothing,
        "Bits of the host's addresses."),
    row("make-errors-visible-at-exit", "make-errors-visible-at-exit", Nothing, "", Effective, set_errors_at_exit,
        "Make memory faults visible before a kernel ends."),
    row("maxntid", "maxntid", List, "<N>,...", Effective, set_thread_counts,
        "Most threads of a block, in up to three dimensions."),
    row("maxrregcount", "maxrregcount", Text, "<archmax|archmin|N>", Effective, set_register_count,
        "Most registers a function may use."),
    row("minnctapersm", "minnctapersm", Number, "<N>", Effective, set_min_blocks,
        "Least blocks that must fit on a multiprocessor."),
    row("opt-level", "O", Level, "<N>", Effective, set_opt_level,
        "How much to optimise, from 0 to 3; 3 when not given."),
    row("optimize-float-atomics", "opt-fp-atomics", Nothing, "", NoEffect("a permission Orias does not use"), nothing,
        "Allow optimisations of floating-point atomics that change their precision."),
    row("options-file", "optf", OptionsFiles, "<file>,...", Effective, nothing,
        "Read more options from these files."),
    row("output-file", "o", Text, "<file>", Effective, set_output,
        "Where the output goes; elf.o when not given."),
    row("override-directive-values", "override-directive-values", Nothing, "", Effective, set_override,
        "Options win over the module's directives .minnctapersm, .maxntid and .maxnreg."),
    row("position-independent-code", "pic", Truth, "<true|false>",
        NoEffect("whole programs are position independent either way"), nothing,
        "Make position-independent code."),
    row("preserve-relocs", "preserve-relocs", Nothing, "",
        NoEffect("ptxas 13.0 warns that it may not work on sm_90, and writes the same file; addresses of variables are relocations in any case"), warn_relocations,
        "Keep relocations of variables in the executable."),
    row("register-usage-level", "regUsageLevel", Number, "<0..10>", Effective, set_usage_level,
        "How freely to trade registers for speed: up to 3 few registers, from 6 on many; 5 when not given."),
    row("return-at-end", "ret-end", Nothing, "", NoEffect("Orias leaves returns where they are"), nothing,
        "Keep the return at the end, for the sake of debugging."),
    row("sanitize", "sanitize", OneOf(&["memcheck", "threadsteer"]), "<memcheck|threadsteer>", Effective, set_sanitize,
        "Instrument the code for a tool."),
    row("sp-bounds-check", "sp-bounds-check", Nothing, "", Effective, set_stack_check,
        "Check the stack pointer's bounds, as is done at -O0 and with -g in any case."),
    row("split-compile", "split-compile", Number, "<N>", Effective, set_threads,
        "Most threads of the compiler; 0 for all processors."),
    row("suppress-async-bulk-multicast-advisory-warning", "suppress-async-bulk-multicast-advisory-warning", Nothing, "",
        NO_SUCH_WARNING, nothing,
        "No advice about .multicast::cluster."),
    row("suppress-debug-info", "suppress-debug-info", Nothing, "", Effective, set_no_debug_info,
        "No sections of debug information in the output."),
    row("suppress-double-demote-warning", "suppress-double-demote-warning", Nothing, "", NO_SUCH_WARNING, nothing,
        "No warning about double precision where the GPU has none."),
    row("suppress-sparse-mma-advisory-info", "suppress-sparse-mma-advisory-info", Nothing, "", NO_SUCH_WARNING, nothing,
        "No advice about mma.sp."),
    row("suppress-stack-size-warning", "suppress-stack-size-warning", Nothing, "", NO_STACK_WARNING, nothing,
        "No warning when the size of the stack is unknown."),
    row("verbose", "v", Nothing, "", Effective, set_verbose,
        "Report registers, memory and barriers used by each function."),
    row("version", "V", Nothing, "", Effective, set_version,
        "Print the version."),
    row("warn-on-double-precision-use", "warn-double-usage", Nothing, "", Effective, set_warn_double,
        "Warn when an instruction uses double precision."),
    row("warn-on-local-memory-usage", "warn-lmem-usage", Nothing, "", Effective, set_warn_local,
        "Warn when local memory is used."),
    row("warn-on-spills", "warn-spills", Nothing, "", Effective, set_warn_spills,
        "Warn when registers are spilled."),
    row("warning-as-error", "Werror", Nothing, "", Effective, set_warnings_are_errors,
        "Take warnings for errors."),
    // Not in ptxas's help.
    row("regAllocOptLevel", "regAllocOptLevel", Number, "<N>", ONE_ALLOCATOR, nothing,
        "Effort of register allocation; Triton passes it."),
    row("assume-extern-functions-do-not-sync", "assume-extern-functions-do-not-sync", Truth, "<true|false>", Effective, set_extern_sync,
        "Functions that lie elsewhere are taken not to synchronise."),
    row("no-membermask-overlap", "no-membermask-overlap", Truth, "<true|false>",
        NoEffect("a promise for sm_70 to sm_75; ptxas takes it without a word elsewhere"), nothing,
        "No two masks of lanes that synchronise overlap without being equal."),
    row("print-potentially-overlapping-membermasks", "print-potentially-overlapping-membermasks", Nothing, "",
        NoEffect("ptxas ignores it from sm_80 on"), warn_membermasks,
        "Say where masks of lanes must be taken to overlap."),
    row("compiler-stats", "", SomeOf(&["time", "memory", "phase-wise"]), "<time|memory|phase-wise>,...", Effective, set_statistics,
        "Say how long the compilation took and how much memory, by stage with phase-wise."),
    row("compiler-stats-file", "", Text, "<file>", Effective, set_statistics_file,
        "Add what --compiler-stats counts to a file instead."),
    // Orias's own.
    row("knob-file", "knob-file", FileText, "<file>", Effective, set_knob_files,
        "Set knobs from a file, one NAME=VALUE a line."),
    row("knob", "knob", Texts, "<NAME=VALUE>", Effective, set_knobs,
        "Set a knob of a phase; 'orias knobs' lists them."),
    row("message-format", "message-format", OneOf(&["text", "json"]), "<text|json>", Effective, set_message_format,
        "How messages are written: as ptxas writes them, or one JSON object a line."),
];

/// The help text of the compile mode.
pub fn help() -> String {
    let mut text = String::from(
        "Usage: orias [options] <ptx file> ...      (also under the name ptxas; '-' is standard input)\n       \
         orias <subcommand> ...                 ('orias help' lists the subcommands)\n\nOptions\n",
    );
    for row in OPTIONS {
        let names = format!("--{} {}", row.long, row.argument);
        let status = match row.status {
            Effective => String::new(),
            NoEffect(why) => format!(" [no effect: {why}]"),
            Refused(_) => " [refused: not supported yet]".into(),
        };
        let short = match row.short {
            "" => String::new(),
            short => format!("(-{short})"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "\n{}\n        {}{status}",
            format!("{:<50} {short}", names.trim_end()).trim_end(),
            row.about
        );
    }
    text
}

/// The table of options for the book, in Markdown.
pub fn status_table() -> String {
    let mut text = String::from(
        "| option | short | value | in Orias | what it is for |\n| --- | --- | --- | --- | --- |\n",
    );
    for row in OPTIONS {
        let value = match row.argument {
            "" => String::new(),
            argument => format!("`{}`", argument.replace('|', "\\|")),
        };
        let status = match row.status {
            Effective => "effective".into(),
            NoEffect(why) => format!("no effect: {why}"),
            Refused(feature) => format!("refused: {feature} not supported yet"),
        };
        let short = match row.short {
            "" => String::new(),
            short => format!("`-{short}`"),
        };
        let _ = writeln!(
            text,
            "| `--{}` | {short} | {value} | {status} | {} |",
            row.long, row.about
        );
    }
    text
}

fn fatal(message: String) -> Diagnostic {
    Diagnostic::new(Severity::Fatal, message)
}

fn warn(invocation: &mut Invocation, message: impl Into<String>) {
    invocation
        .warnings
        .push(Diagnostic::new(Severity::Warning, message));
}

fn nothing(_: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    Ok(())
}

fn set_help(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.action = Action::Help;
    Ok(())
}

fn set_version(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.action = Action::Version;
    Ok(())
}

fn set_list_versions(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.action = Action::ListVersions;
    Ok(())
}

fn set_target(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    let Value::Text(name) = value else {
        return Ok(());
    };
    let target = Target::parse(name).ok_or_else(|| {
        fatal(format!(
            "Value '{name}' is not defined for option 'gpu-name'"
        ))
    })?;
    if target.kind == TargetKind::LinkTime {
        return Err(fatal(format!("Unsupported gpu architecture '{name}'")));
    }
    invocation.options.target = target;
    Ok(())
}

fn set_output(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    if let Value::Text(name) = value {
        invocation.output.clone_from(name);
    }
    Ok(())
}

fn set_entries(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    if let Value::List(names) = value {
        invocation.options.entries.clone_from(names);
    }
    Ok(())
}

/// ptxas takes any number; what lies outside 0 to 3 means the nearest level.
fn set_opt_level(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    if let Value::Number(level) = value {
        invocation.options.opt_level = u8::try_from((*level).clamp(0, 3)).unwrap_or(3);
        invocation.options.level_is_asked = true;
    }
    Ok(())
}

fn set_debug(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.debug = true;
    Ok(())
}

fn set_knobs(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    let Value::List(assignments) = value else {
        return Ok(());
    };
    assignments.iter().try_for_each(|assignment| {
        let set = invocation.options.knobs.set(assignment);
        set.map_err(|error| fatal(error.to_string()))
    })
}

fn set_knob_files(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    let Value::List(files) = value else {
        return Ok(());
    };
    files.iter().try_for_each(|text| {
        let set = invocation.options.knobs.set_from_file(text);
        set.map_err(|error| fatal(format!("Knob file, {error}")))
    })
}

fn set_contract(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    if let Value::Bool(contract) = value {
        invocation.options.contract = Some(*contract);
    }
    Ok(())
}

fn set_relocatable(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.relocatable = true;
    Ok(())
}

fn set_extensible(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    // Rows are applied in the table's order: '--compile-only' is known.
    if invocation.options.relocatable {
        warn(
            invocation,
            "Conflicting options '--compile-only' and '--extensible-whole-program' specified, ignoring '--extensible-whole-program' option".to_owned(),
        );
        return Ok(());
    }
    invocation.options.relocatable = true;
    invocation.options.extensible = true;
    Ok(())
}

fn set_sanitize(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    let Value::Text(tool) = value else {
        return Ok(());
    };
    if tool != "threadsteer" {
        return Err(Diagnostic::unsupported(
            "calls of the checks of memcheck (option '--sanitize=memcheck')".to_owned(),
        ));
    }
    let set = invocation.options.knobs.set("SteerThreads=true");
    set.map_err(|error| fatal(error.to_string()))
}

fn set_line_info(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.line_info = true;
    Ok(())
}

fn set_no_debug_info(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.no_debug_info = true;
    Ok(())
}

fn set_verbose(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.verbose = true;
    Ok(())
}

fn set_no_warnings(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.no_warnings = true;
    Ok(())
}

fn set_warnings_are_errors(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.warnings_are_errors = true;
    Ok(())
}

/// The levels of `--Ofast-compile`, and the optimisation level each stops at.
const FAST_COMPILE: [(&str, Option<u8>); 4] = [
    ("0", None),
    ("min", Some(3)),
    ("mid", Some(2)),
    ("max", Some(1)),
];

fn set_fast_compile(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    let Value::Text(level) = value else {
        return Ok(());
    };
    let known = FAST_COMPILE.iter().find(|(name, _)| name == level);
    let (_, stop) = known.ok_or_else(|| {
        fatal(format!(
            "Invalid value for --Ofast-compile/-Ofc ({level}), is not 'max', 'mid', 'min', or '0'"
        ))
    })?;
    invocation.options.fast_compile = *stop;
    Ok(())
}

const LOAD_CACHES: [(&str, Cache); 5] = [
    ("ca", Cache::Ca),
    ("cg", Cache::Cg),
    ("cs", Cache::Cs),
    ("lu", Cache::Lu),
    ("cv", Cache::Cv),
];

const STORE_CACHES: [(&str, Cache); 4] = [
    ("wb", Cache::Wb),
    ("cg", Cache::Cg),
    ("cs", Cache::Cs),
    ("wt", Cache::Wt),
];

/// The cache operator a value names; one that is forced stays.
fn choose_cache(
    slot: &mut Option<CacheChoice>,
    value: &Value,
    table: &[(&str, Cache)],
    forced: bool,
    what: &str,
) -> Result<(), Diagnostic> {
    let Value::Text(name) = value else {
        return Ok(());
    };
    let known = table.iter().find(|(known, _)| known == name);
    let &(_, cache) = known.ok_or_else(|| {
        let message = format!("Invalid default cache modifier on {what} specified: {name}");
        Diagnostic::new(Severity::Error, message)
    })?;
    if forced || slot.is_none() {
        *slot = Some(CacheChoice { cache, forced });
    }
    Ok(())
}

fn set_load_cache(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    let slot = &mut invocation.options.caches.load;
    choose_cache(slot, value, &LOAD_CACHES, false, "load")
}

fn set_store_cache(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    let slot = &mut invocation.options.caches.store;
    choose_cache(slot, value, &STORE_CACHES, false, "store")
}

fn force_load_cache(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    let slot = &mut invocation.options.caches.load;
    choose_cache(slot, value, &LOAD_CACHES, true, "load")
}

fn force_store_cache(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    let slot = &mut invocation.options.caches.store;
    choose_cache(slot, value, &STORE_CACHES, true, "store")
}

fn set_min_blocks(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    if let Value::Number(count) = value {
        invocation.options.min_blocks = u32::try_from(*count).ok().filter(|&count| count > 0);
    }
    Ok(())
}

fn set_override(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.override_directives = true;
    Ok(())
}

fn set_warn_double(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.warn_on_double = true;
    Ok(())
}

fn set_warn_local(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.warn_on_local_memory = true;
    Ok(())
}

fn set_warn_spills(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.warn_on_spills = true;
    Ok(())
}

/// The fewest registers ptxas compiles for, and the most it can name; the same for every target of ptxas 13.0.
const REGISTER_COUNTS: std::ops::RangeInclusive<i32> = 24..=255;

fn set_register_count(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    if let Some(count) = register_count(invocation, "maxrregcount", value)? {
        invocation.options.max_registers = Some(count);
    }
    Ok(())
}

fn set_function_registers(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    // Of whole programs ptxas does not even read the number.
    if !invocation.options.relocatable {
        return Ok(());
    }
    let option = "device-function-maxrregcount";
    if let Some(count) = register_count(invocation, option, value)? {
        invocation.options.function_registers = Some(count);
    }
    Ok(())
}

/// How many registers an option allows; none where it is ignored.
fn register_count(
    invocation: &mut Invocation,
    option: &str,
    value: &Value,
) -> Result<Option<u32>, Diagnostic> {
    let Value::Text(text) = value else {
        return Ok(None);
    };
    let (fewest, most) = (*REGISTER_COUNTS.start(), *REGISTER_COUNTS.end());
    if text == "archmax" || text == "archmin" {
        let count = if text == "archmax" { most } else { fewest };
        return Ok(u32::try_from(count).ok());
    }
    let count = read_number(text)
        .map_err(|_| fatal(format!("Invalid value '{text}' for option '{option}'")))?;
    if count < 0 || count > most {
        warn(
            invocation,
            format!("Too big {option} value specified {count}, will be ignored"),
        );
        return Ok(None);
    }
    if count < fewest {
        let target = invocation.options.target;
        warn(
            invocation,
            format!(
                "For profile {target} adjusting per thread register count of {count} to lower bound of {fewest}"
            ),
        );
    }
    Ok(u32::try_from(count.max(fewest)).ok())
}

fn set_message_format(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    let json = matches!(value, Value::Text(word) if word == "json");
    invocation.message_format = if json {
        MessageFormat::Json
    } else {
        MessageFormat::Text
    };
    Ok(())
}

fn set_threads(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    if let Value::Number(threads) = value {
        let count = usize::try_from(*threads).map_err(|_| {
            fatal(format!(
                "Invalid value '{threads}' for option '--split-compile'"
            ))
        })?;
        // Zero means all processors, which is what happens anyway.
        invocation.options.threads = Some(count).filter(|&count| count > 0);
    }
    Ok(())
}

fn set_usage_level(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    let Value::Number(level) = value else {
        return Ok(());
    };
    if !(0..=10).contains(level) {
        warn(
            invocation,
            format!(
                "Value of RegUsageLevel ({level}) is out of valid range {{0..10}}, option will be ignored"
            ),
        );
        return Ok(());
    }
    let setting = format!("RegisterUsageLevel={level}");
    let set = invocation.options.knobs.set(&setting);
    set.map_err(|error| fatal(error.to_string()))
}

fn set_thread_counts(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    let Value::List(counts) = value else {
        return Ok(());
    };
    if counts.len() > 3 {
        warn(
            invocation,
            "Too many values specified for option '-maxntid', option will be ignored",
        );
        return Ok(());
    }
    let mut threads = [1; 3];
    for (slot, text) in threads.iter_mut().zip(counts) {
        let count = read_number(text)
            .ok()
            .and_then(|count| u32::try_from(count).ok());
        let Some(count) = count.filter(|&count| count > 0) else {
            warn(
                invocation,
                format!("Invalid value '{text}' for option '-maxntid', option will be ignored"),
            );
            return Ok(());
        };
        *slot = count;
    }
    invocation.options.max_threads = Some(threads);
    Ok(())
}

fn warn_legacy_bar(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    warn(
        invocation,
        "'--legacy-bar-warp-wide-behavior' is a deprecated option, It will be removed in future release and is not recommended",
    );
    warn(
        invocation,
        "Command line option '--legacy-bar-warp-wide-behavior' not supported for '.target sm_70', will be ignored",
    );
    Ok(())
}

fn set_extern_sync(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    if let Value::Bool(assume) = value {
        let knob = format!("AssumeExternFunctionsDoNotSync={assume}");
        let set = invocation.options.knobs.set(&knob);
        return set.map_err(|error| fatal(error.to_string()));
    }
    Ok(())
}

fn set_stack_check(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    let set = invocation.options.knobs.set("SpBoundsCheck=true");
    set.map_err(|error| fatal(error.to_string()))
}

fn set_annotations(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.annotate = true;
    Ok(())
}

/// ptxas 13.0 says this for sm_90 and above, and writes what it writes without the option.
fn warn_relocations(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    let target = invocation.options.target;
    if target.gpu.sm < 90 {
        return Ok(());
    }
    warn(
        invocation,
        format!(
            "'--preserve-relocs' option is not fully implemented for '{target}' and may not work as expected"
        ),
    );
    Ok(())
}

fn set_errors_at_exit(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    let set = invocation.options.knobs.set("GenErrbarAtExit=true");
    set.map_err(|error| fatal(error.to_string()))
}

fn set_statistics(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    if let Value::List(words) = value {
        let asked = |name: &str| words.iter().any(|word| name.starts_with(word.as_str()));
        let counts = &mut invocation.options.statistics;
        counts.time = asked("time");
        counts.memory = asked("memory");
        counts.by_stage = asked("phase-wise");
    }
    Ok(())
}

fn set_statistics_file(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    if let Value::Text(name) = value {
        invocation.statistics_file = Some(name.clone());
    }
    Ok(())
}

/// Only targets before sm_80 have masks that may overlap.
fn warn_membermasks(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    let target = invocation.options.target.to_string();
    let digits: String = target.chars().filter(char::is_ascii_digit).collect();
    if digits.parse().is_ok_and(|number: u32| number >= 80) {
        warn(
            invocation,
            format!(
                "Command line option '--print-potentially-overlapping-membermasks' not supported for '{target}', will be ignored"
            ),
        );
    }
    Ok(())
}
