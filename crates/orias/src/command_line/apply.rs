//! What follows from each option: the functions that the rows of [`super::table::OPTIONS`] name.

use super::invocation::{Action, Invocation};
use super::parse::read_number;
use super::table::Value;
use crate::diagnostics::{Diagnostic, MessageFormat, Severity};
use crate::target::{Target, TargetKind};
use orias_codegen::lower::CacheChoice;
use orias_ori::operation::Cache;
use orias_ptx::target::Variant;

fn fatal(message: String) -> Diagnostic {
    Diagnostic::new(Severity::Fatal, message)
}

fn warn(invocation: &mut Invocation, message: impl Into<String>) {
    invocation
        .warnings
        .push(Diagnostic::new(Severity::Warning, message));
}

pub(super) fn nothing(_: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    Ok(())
}

pub(super) fn set_help(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.action = Action::Help;
    Ok(())
}

pub(super) fn set_version(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.action = Action::Version;
    Ok(())
}

pub(super) fn set_list_versions(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.action = Action::ListVersions;
    Ok(())
}

pub(super) fn set_target(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    let Value::Text(name) = value else {
        return Ok(());
    };
    let target = Target::parse(name).ok_or_else(|| {
        fatal(format!(
            "Value '{name}' is not defined for option 'gpu-name'"
        ))
    })?;
    // ptxas checks modules for the others as for virtual targets.
    if target.kind == TargetKind::LinkTime && target.gpu.variant == Variant::Architecture {
        return Err(fatal(format!("Unsupported gpu architecture '{name}'")));
    }
    invocation.options.target = target;
    Ok(())
}

pub(super) fn set_output(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    if let Value::Text(name) = value {
        invocation.output.clone_from(name);
    }
    Ok(())
}

pub(super) fn set_entries(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    if let Value::List(names) = value {
        invocation.options.entries.clone_from(names);
    }
    Ok(())
}

/// ptxas takes any number; what lies outside 0 to 3 means the nearest level.
pub(super) fn set_opt_level(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    if let Value::Number(level) = value {
        invocation.options.opt_level = u8::try_from((*level).clamp(0, 3)).unwrap_or(3);
        invocation.options.level_is_asked = true;
    }
    Ok(())
}

pub(super) fn set_debug(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.debug = true;
    Ok(())
}

pub(super) fn set_knobs(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    let Value::List(assignments) = value else {
        return Ok(());
    };
    assignments.iter().try_for_each(|assignment| {
        let set = invocation.options.knobs.set(assignment);
        set.map_err(|error| fatal(error.to_string()))
    })
}

pub(super) fn set_knob_files(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    let Value::List(files) = value else {
        return Ok(());
    };
    files.iter().try_for_each(|text| {
        let set = invocation.options.knobs.set_from_file(text);
        set.map_err(|error| fatal(format!("Knob file, {error}")))
    })
}

pub(super) fn set_contract(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    if let Value::Bool(contract) = value {
        invocation.options.contract = Some(*contract);
    }
    Ok(())
}

pub(super) fn set_no_stack_size_warning(
    invocation: &mut Invocation,
    _: &Value,
) -> Result<(), Diagnostic> {
    invocation.options.no_stack_size_warning = true;
    Ok(())
}

/// The registers and the memory descriptors of the patched program are not the patch's.
pub(super) fn set_tools_patch(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.tools_patch = true;
    invocation.options.relocatable = true;
    for knob in [
        "PatchCode=true",
        "UniformDatapath=false",
        "AggregateUpdates=false",
    ] {
        let set = invocation.options.knobs.set(knob);
        set.map_err(|error| fatal(error.to_string()))?;
    }
    Ok(())
}

/// An option that does not go with '--compile-as-tools-patch', whose row comes before.
fn not_in_a_patch(invocation: &Invocation, option: &str) -> Result<(), Diagnostic> {
    match invocation.options.tools_patch {
        true => Err(fatal(format!(
            "Conflicting options '{option}' and --compile-as-tools-patch specified"
        ))),
        false => Ok(()),
    }
}

pub(super) fn set_relocatable(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    not_in_a_patch(invocation, "--compile-only")?;
    invocation.options.relocatable = true;
    Ok(())
}

pub(super) fn set_extensible(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    not_in_a_patch(invocation, "--extensible-whole-program")?;
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

pub(super) fn set_sanitize(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    let Value::Text(tool) = value else {
        return Ok(());
    };
    if tool != "threadsteer" {
        // The checks of a whole program are empty functions of its own, which are told nothing. Rows are applied in the table's order:
        // '--compile-only' is known.
        let replaceable = invocation.options.relocatable && !invocation.options.extensible;
        return match replaceable {
            false => Ok(()),
            true => Err(Diagnostic::unsupported(
                "calls of the checks of memcheck in objects (option '--sanitize=memcheck')"
                    .to_owned(),
            )),
        };
    }
    let set = invocation.options.knobs.set("SteerThreads=true");
    set.map_err(|error| fatal(error.to_string()))
}

pub(super) fn set_line_info(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.line_info = true;
    Ok(())
}

pub(super) fn set_no_debug_info(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.no_debug_info = true;
    Ok(())
}

pub(super) fn set_verbose(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.verbose = true;
    Ok(())
}

pub(super) fn set_no_warnings(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.no_warnings = true;
    Ok(())
}

pub(super) fn set_warnings_are_errors(
    invocation: &mut Invocation,
    _: &Value,
) -> Result<(), Diagnostic> {
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

pub(super) fn set_fast_compile(
    invocation: &mut Invocation,
    value: &Value,
) -> Result<(), Diagnostic> {
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

pub(super) fn set_load_cache(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    let slot = &mut invocation.options.caches.load;
    choose_cache(slot, value, &LOAD_CACHES, false, "load")
}

pub(super) fn set_store_cache(
    invocation: &mut Invocation,
    value: &Value,
) -> Result<(), Diagnostic> {
    let slot = &mut invocation.options.caches.store;
    choose_cache(slot, value, &STORE_CACHES, false, "store")
}

pub(super) fn force_load_cache(
    invocation: &mut Invocation,
    value: &Value,
) -> Result<(), Diagnostic> {
    let slot = &mut invocation.options.caches.load;
    choose_cache(slot, value, &LOAD_CACHES, true, "load")
}

pub(super) fn force_store_cache(
    invocation: &mut Invocation,
    value: &Value,
) -> Result<(), Diagnostic> {
    let slot = &mut invocation.options.caches.store;
    choose_cache(slot, value, &STORE_CACHES, true, "store")
}

pub(super) fn set_min_blocks(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    if let Value::Number(count) = value {
        // ptxas takes a number below 0 for a large one.
        let count = u32::try_from(*count).unwrap_or(u32::MAX);
        invocation.options.min_blocks = Some(count).filter(|&count| count > 0);
    }
    Ok(())
}

pub(super) fn set_override(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.override_directives = true;
    Ok(())
}

pub(super) fn set_warn_double(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.warn_on_double = true;
    Ok(())
}

pub(super) fn set_warn_local(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.warn_on_local_memory = true;
    Ok(())
}

pub(super) fn set_warn_spills(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.warn_on_spills = true;
    Ok(())
}

/// The fewest registers ptxas compiles for, and the most it can name; the same for every target of ptxas 13.0.
const REGISTER_COUNTS: std::ops::RangeInclusive<i32> = 24..=255;

/// What `archmin` means to ptxas, which is more than the fewest.
const ARCHMIN: i32 = 32;

pub(super) fn set_register_count(
    invocation: &mut Invocation,
    value: &Value,
) -> Result<(), Diagnostic> {
    if let Some(count) = register_count(invocation, "maxrregcount", value)? {
        invocation.options.max_registers = Some(count);
    }
    Ok(())
}

pub(super) fn set_function_registers(
    invocation: &mut Invocation,
    value: &Value,
) -> Result<(), Diagnostic> {
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
        let count = if text == "archmax" { most } else { ARCHMIN };
        return Ok(u32::try_from(count).ok());
    }
    let count = read_number(text)
        .map_err(|_| fatal(format!("Invalid value '{text}' for option '{option}'")))?;
    if count < 0 || count > most {
        warn(
            invocation,
            format!("Too big maxrregcount value specified {count}, will be ignored"),
        );
        return Ok(u32::try_from(most).ok());
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

pub(super) fn set_message_format(
    invocation: &mut Invocation,
    value: &Value,
) -> Result<(), Diagnostic> {
    let json = matches!(value, Value::Text(word) if word == "json");
    invocation.message_format = if json {
        MessageFormat::Json
    } else {
        MessageFormat::Text
    };
    Ok(())
}

pub(super) fn set_threads(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
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

pub(super) fn set_usage_level(
    invocation: &mut Invocation,
    value: &Value,
) -> Result<(), Diagnostic> {
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
    let quick = invocation.options.opt_level == 0;
    if quick && !invocation.options.debug {
        warn(
            invocation,
            "Conflicting options '-O0' and '--register-usage-level' specified, ignoring '--register-usage-level' option",
        );
    }
    if quick || invocation.options.debug {
        return Ok(());
    }
    let setting = format!("RegisterUsageLevel={level}");
    let set = invocation.options.knobs.set(&setting);
    set.map_err(|error| fatal(error.to_string()))
}

pub(super) fn set_thread_counts(
    invocation: &mut Invocation,
    value: &Value,
) -> Result<(), Diagnostic> {
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

pub(super) fn warn_legacy_bar(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
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

pub(super) fn set_extern_sync(
    invocation: &mut Invocation,
    value: &Value,
) -> Result<(), Diagnostic> {
    if let Value::Bool(assume) = value {
        let knob = format!("AssumeExternFunctionsDoNotSync={assume}");
        let set = invocation.options.knobs.set(&knob);
        return set.map_err(|error| fatal(error.to_string()));
    }
    Ok(())
}

/// Whichever of the two options it is, what is said of it is the same.
pub(super) fn ask_tensor_memory(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.tensor_memory_checks = true;
    Ok(())
}

pub(super) fn set_stack_check(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    let set = invocation.options.knobs.set("SpBoundsCheck=true");
    set.map_err(|error| fatal(error.to_string()))
}

pub(super) fn set_stack_protector(
    invocation: &mut Invocation,
    value: &Value,
) -> Result<(), Diagnostic> {
    if *value != Value::Bool(true) {
        return Ok(());
    }
    let set = invocation.options.knobs.set("ProtectStack=true");
    set.map_err(|error| fatal(error.to_string()))
}

pub(super) fn set_annotations(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    invocation.options.annotate = true;
    Ok(())
}

/// ptxas 13.0 says this for sm_90 and above, and writes what it writes without the option.
pub(super) fn warn_relocations(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
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

pub(super) fn set_errors_at_exit(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
    let set = invocation.options.knobs.set("GenErrbarAtExit=true");
    set.map_err(|error| fatal(error.to_string()))
}

pub(super) fn set_statistics(invocation: &mut Invocation, value: &Value) -> Result<(), Diagnostic> {
    if let Value::List(words) = value {
        let asked = |name: &str| words.iter().any(|word| name.starts_with(word.as_str()));
        let counts = &mut invocation.options.statistics;
        counts.time = asked("time");
        counts.memory = asked("memory");
        counts.by_stage = asked("phase-wise");
    }
    Ok(())
}

pub(super) fn set_statistics_file(
    invocation: &mut Invocation,
    value: &Value,
) -> Result<(), Diagnostic> {
    if let Value::Text(name) = value {
        invocation.statistics_file = Some(name.clone());
    }
    Ok(())
}

/// Only targets before sm_80 have masks that may overlap.
pub(super) fn warn_membermasks(invocation: &mut Invocation, _: &Value) -> Result<(), Diagnostic> {
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
