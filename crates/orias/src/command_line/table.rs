//! Every option there is: one row each, which names the function of [`super::apply`] that acts on it. A row needs a case in `tests/every_option.rs`.

use super::apply::*;
use super::invocation::Invocation;
use crate::diagnostics::Diagnostic;
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

/// The options of ptxas 13.0.88's `--help`, in its order; below them those that it takes without listing them, and Orias's
/// own.
#[rustfmt::skip]
pub const OPTIONS: &[OptionRow] = &[
    row("Ofast-compile", "Ofc", Text, "<0|min|mid|max>", Effective, set_fast_compile,
        "Give up optimisations for a faster compile, a few (min) or most (max)."),
    row("allow-expensive-optimizations", "allow-expensive-optimizations", Truth, "<true|false>",
        NoEffect("a permission Orias does not need: none of its phases takes time or memory out of proportion"), nothing,
        "Allow optimisations that take much time or memory."),
    row("compile-as-tools-patch", "astoolspatch", Nothing, "", Effective, set_tools_patch,
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
        Effective, set_stack_protector,
        "Put canaries on the stack of functions at risk, those called that have sixteen bytes of variables or more."),
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
    row("g-tensor-memory-access-check", "g-tmem-access-check", Nothing, "", Effective, ask_tensor_memory,
        "Check accesses to tensor memory, of which Hopper has none: a remark says so."),
    row("generate-line-info", "lineinfo", Nothing, "", Effective, set_line_info,
        "Make line numbers for profilers and debuggers."),
    row("gno-tensor-memory-access-check", "gno-tmem-access-check", Nothing, "", Effective, ask_tensor_memory,
        "Do not check accesses to tensor memory: the same remark."),
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
        NoEffect("addresses of variables in code are relocations that the driver fills in, as in ptxas's code without it; ptxas 13.0 reads them from a constant bank with it"), nothing,
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
    row("suppress-stack-size-warning", "suppress-stack-size-warning", Nothing, "", Effective, set_no_stack_size_warning,
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
