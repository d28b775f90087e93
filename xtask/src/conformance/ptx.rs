//! The PTX room against ptxas: what it accepts we accept, what it refuses we refuse.
//!
//! `cargo xtask conformance ptx [MUTANTS] [--seed=N] [--real]` takes small programs, spoils most of them a little, and
//! compares the two verdicts. The programs are single statements out of the corpus, each with the declarations it needs,
//! and samples made from every row of the instruction tables. The mutations drop, double and swap tokens, exchange
//! modifiers, types, operands, versions, targets and numbers. Everything is seeded, so a run can be repeated; `--seed=N`
//! makes other mutants. ptxas's verdicts are kept in `target/ptx-oracle` and asked for once. Disagreements are written to
//! `target/ptx-disagreements.txt`, grouped by what the two said.
//!
//! `--real` asks `-arch=sm_90a` (with the limits of the machine) instead of `-arch=compute_90a`.
//! `--rows` only compares the samples of all rows, for several targets.
//! `--operands[=NAME]` only replaces each operand of each sample (of instructions whose name starts so) by everything,
//! `--modifiers[=NAME]` only adds each common modifier to each sample. Both write to `target/ptx-operands.txt`.
//! `--seeds=FOLDER` writes the programs that mutants come from, one a file: good to start fuzzing from.
//! `--speed` only measures: lines a second over the corpus, and how much faster than `ptxas -arch=compute_90a` that is.

mod mutate;
mod operands;
mod seeds;
pub(super) mod verdict;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::oracle;
use operands::Change;
use orias_ptx::Options;
use verdict::{Oracle, Verdict};

/// How many mutants a run has unless told otherwise.
const MUTANTS: usize = 20_000;

pub fn run(args: &[String]) -> Result<(), String> {
    let mut count = MUTANTS;
    let mut seed = 0;
    let mut real = false;
    let (mut rows_only, mut speed_only) = (false, false);
    let mut survey = None;
    for arg in args {
        match arg.as_str() {
            "--real" => real = true,
            "--rows" => rows_only = true,
            "--speed" => speed_only = true,
            option if option.starts_with("--operands") => {
                survey = Some((Change::Operands, value_of(option)));
            }
            option if option.starts_with("--modifiers") => {
                survey = Some((Change::Modifiers, value_of(option)));
            }
            option if option.starts_with("--seeds=") => return seeds::write(&value_of(option)),
            option if option.starts_with("--seed=") => {
                seed = option["--seed=".len()..]
                    .parse()
                    .map_err(|_| format!("'{option}' does not end in a number"))?;
            }
            number => {
                count = number
                    .parse()
                    .map_err(|_| format!("'{number}' is neither a number nor an option"))?;
            }
        }
    }
    if speed_only {
        return speed();
    }
    if let Some((change, only)) = survey {
        let architecture = if real { "sm_90a" } else { "compute_90a" };
        return operands::run(change, "sm_90a", architecture, &only);
    }
    corpus_is_accepted()?;
    if rows_only {
        for name in ["sm_75", "sm_80", "sm_90", "sm_90a", "sm_100a"] {
            let programs = seeds::rows(name, 3);
            let architecture = name.replace("sm_", "compute_");
            compare(&format!("rows for {name}"), &programs, &architecture, 0)?;
        }
        return Ok(());
    }
    let architecture = if real { "sm_90a" } else { "compute_90a" };
    let (_, mutants) = programs(count, seed)?;
    compare("mutants", &mutants, architecture, count)
}

/// Statements of the corpus and samples of rows, each a program, and `count` mutants of them.
pub(super) fn programs(count: usize, seed: u64) -> Result<(Vec<String>, Vec<String>), String> {
    let mut seeds = seeds::corpus()?;
    println!("{} statements from the corpus", seeds.len());
    let rows = seeds::rows("sm_90a", 2);
    println!("{} samples of rows", rows.len());
    seeds.extend(rows);
    let mutants = mutate::mutants(&seeds, count, seed);
    Ok((seeds, mutants))
}

/// What follows the `=` of an option.
fn value_of(option: &str) -> String {
    option
        .split_once('=')
        .map_or_else(String::new, |(_, value)| value.to_owned())
}

/// Times reading and checking the whole corpus on one core, and ptxas on the same files.
fn speed() -> Result<(), String> {
    let modules = super::corpus::modules()?;
    let options = Options::for_architecture("compute_90a").ok_or("compute_90a is no target")?;
    let mut sources = Vec::new();
    for path in &modules {
        sources.push(std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?);
    }
    let lines: usize = sources
        .iter()
        .map(|source| source.iter().filter(|&&byte| byte == b'\n').count())
        .sum();
    // The best of several runs: the machine does other things too.
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let started = std::time::Instant::now();
        for source in &sources {
            ours(source, &options);
        }
        best = best.min(started.elapsed().as_secs_f64());
    }
    println!(
        "{} modules, {lines} lines: {:.3} s, {:.2} million lines a second",
        modules.len(),
        best,
        lines as f64 / best / 1e6
    );
    let ptxas = oracle::find("ptxas")?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let started = std::time::Instant::now();
    for path in &modules {
        oracle::bounded(&ptxas)
            .arg("-arch=compute_90a")
            .arg("-o")
            .arg(folder.path().join("out"))
            .arg(path)
            .output()
            .map_err(|error| format!("{}: {error}", ptxas.display()))?;
    }
    let theirs = started.elapsed().as_secs_f64();
    println!(
        "ptxas -arch=compute_90a: {theirs:.3} s with its start-up, {:.0} times as long",
        theirs / best
    );
    Ok(())
}

/// Whether a module, printed and read again, prints the same.
fn prints_back(source: &[u8]) -> bool {
    let (module, _) = orias_ptx::parse(source);
    let once = orias_ptx::print(&module);
    let (again, diagnostics) = orias_ptx::parse(once.as_bytes());
    !diagnostics.has_errors() && orias_ptx::print(&again) == once
}

/// Every module of the corpus must be accepted, and come back from the printer as it was.
fn corpus_is_accepted() -> Result<(), String> {
    let modules = super::corpus::modules()?;
    let mut refused = Vec::new();
    let mut changed = Vec::new();
    for path in &modules {
        let source = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let options = Options::for_architecture("sm_90a").ok_or("sm_90a is no target")?;
        if let Some(message) = ours(&source, &options) {
            refused.push(format!("{}: {message}", path.display()));
        } else if !prints_back(&source) {
            changed.push(path.display().to_string());
        }
    }
    println!(
        "corpus: {} of {} modules accepted",
        modules.len() - refused.len(),
        modules.len()
    );
    if !refused.is_empty() {
        return Err(format!("refused:\n{}", refused.join("\n")));
    }
    if !changed.is_empty() {
        return Err(format!("printed otherwise:\n{}", changed.join("\n")));
    }
    println!("corpus: all modules print and read back the same");
    Ok(())
}

/// Our first error about a program.
fn ours(source: &[u8], options: &Options) -> Option<String> {
    let (module, mut diagnostics) = orias_ptx::parse(source);
    diagnostics.append(orias_ptx::check(&module, options));
    let first = diagnostics.iter().find(|it| it.severity.is_error())?;
    Some(first.message.clone())
}

/// What ptxas accepts although it means nothing: we refuse it on purpose, and say why. Such programs are counted apart.
const NONSENSE: &[(&str, &str)] = &[
    (
        "A register with an offset is an address",
        "`add.s32 %r1, %r2+4, %r3`: the manual has offsets in addresses only; ptxas adds them to integers, stops without a word at floats and never ends at predicates",
    ),
    (
        "The name of a function is not a value",
        "`sin.approx.f32 %f1, kernel`: the address of a function as a number of any type",
    ),
    (
        "A predicate is not an element of a vector",
        "`ldmatrix … {%r1, %p1}`: a predicate taken for a 32-bit register",
    ),
    (
        "A special register is not an address",
        "`st.u32 [%laneid], %r1`: a special register as an address; for a real target ptxas stops without a word, and a component it refuses",
    ),
    (
        "Instruction 'testp' lacks a modifier",
        "`testp.f32 %p1, %f1`: a test of nothing; the code uses a predicate that nothing sets",
    ),
    (
        "Illegal to use a register of type",
        "`cp.async.bulk.prefetch.tensor … [%f1, {%r1}]`: a float or a predicate as an address; other instructions refuse it",
    ),
    (
        "Illegal modifier '.col' for instruction 'wgmma",
        "`wgmma.mma_async.sync.col…`: a layout where none is, skipped",
    ),
    ("Illegal modifier '.row' for instruction 'wgmma", "the same"),
    (
        "Illegal modifier '.cta' for instruction 'cp.async.bulk",
        "`cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.cta …`: a scope where none is; the code is that without it",
    ),
    (
        "Illegal modifier '.cluster' for instruction 'cp.async.bulk",
        "the same",
    ),
    (
        "Illegal modifier '.gpu' for instruction 'cp.async.bulk",
        "the same",
    ),
    (
        "Illegal modifier '.sys' for instruction 'cp.async.bulk",
        "the same",
    ),
    (
        "Illegal modifier '.v2' for instruction 'w",
        "`wmma.load.c.v2…`: a vector modifier on a matrix instruction, skipped",
    ),
    (
        "Illegal modifier '.v4' for instruction 'w",
        "`wgmma.mma_async.sync.v4…`: the same",
    ),
    (
        "Illegal modifier '.b2' for instruction 'v",
        "`vsub.u32.u32.u32.b2 …`: a modifier that no video instruction has; ptxas skips it",
    ),
    (
        "A predicate is not a value of type",
        "`setp.lt.bf16x2 %p1|%p2, %r1, %p3`, `movmatrix … %p1`: a predicate where 32 bits are wanted; the code reads a register that nothing sets",
    ),
    (
        "A pair of f16 is not a predicate",
        "`and.pred %h1, %p1, %p2` with `.reg .f16x2 %h1`: two numbers where a bit is wanted",
    ),
    (
        "Vector is not expected for an argument",
        "`mbarrier.arrive.b64 %rd1, [%r1], {%r2, %r3}`: a vector where one value is wanted; most instructions refuse it",
    ),
    (
        "Argument vector size mismatch for instruction 'su",
        "`sust.b.1d.b32.v2 [%rd1, %r1], %r2`: as many values as the opcode says, and others given",
    ),
    (
        "Argument vector size mismatch for instruction 'mov'",
        "`mov.v2.b32 {%r1, %r2}, %r3`: ptxas makes code that moves %r3 and the upper half of %r3",
    ),
    (
        "A special register is not a result",
        "`ld.global.b32 {%laneid}, [%rd1]`: a load into a register that cannot be written",
    ),
];

/// Whether a message of ours is about what means nothing.
pub(super) fn is_nonsense(message: &str) -> bool {
    NONSENSE.iter().any(|(start, _)| message.starts_with(start))
}

/// Replaces what differs between instances of one complaint.
pub(super) fn class_of(message: &str) -> String {
    let mut class = String::new();
    let mut quoted = false;
    for c in message.chars() {
        match c {
            '\'' => {
                quoted = !quoted;
                class.push('\'');
            }
            c if c.is_ascii_digit() => {
                if !class.ends_with('N') {
                    class.push('N');
                }
            }
            c => class.push(c),
        }
    }
    class
}

fn compare(
    what: &str,
    programs: &[String],
    architecture: &str,
    required: usize,
) -> Result<(), String> {
    let options = Options::for_architecture(architecture)
        .ok_or_else(|| format!("{architecture} is no target"))?;
    let mut oracle = Oracle::open(&oracle::find("ptxas")?, architecture)?;
    let verdicts = oracle.judge(programs)?;
    let (mut accepted, mut we_accept, mut refused, mut we_refuse) = (0, 0, 0, 0);
    let mut nonsense = vec![0_usize; NONSENSE.len()];
    let mut classes: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
    for (at, (program, theirs)) in programs.iter().zip(&verdicts).enumerate() {
        let ours = ours(program.as_bytes(), &options);
        match (theirs, ours) {
            (Verdict::Accepted, None) => {
                accepted += 1;
                we_accept += 1;
            }
            (Verdict::Accepted, Some(message)) => {
                let known = NONSENSE
                    .iter()
                    .position(|(start, _)| message.starts_with(start));
                if let Some(known) = known {
                    nonsense[known] += 1;
                    continue;
                }
                accepted += 1;
                let class = format!("only we refuse: {}", class_of(&message));
                classes.entry(class).or_default().push((at, message));
            }
            (Verdict::Refused(_), Some(_)) => {
                refused += 1;
                we_refuse += 1;
            }
            (Verdict::Refused(message), None) => {
                refused += 1;
                let class = format!("only ptxas refuses: {}", class_of(message));
                classes
                    .entry(class)
                    .or_default()
                    .push((at, message.clone()));
            }
        }
    }
    let share = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    let meaningless: usize = nonsense.iter().sum();
    println!(
        "{what} ({architecture}): {} programs, {accepted} accepted by ptxas ({:.1} %)",
        programs.len(),
        share(accepted, programs.len())
    );
    println!(
        "  of what ptxas accepts we accept {we_accept} ({:.2} %), of what it refuses we refuse {we_refuse} of {refused} ({:.2} %)",
        share(we_accept, accepted),
        share(we_refuse, refused)
    );
    println!(
        "  with the {meaningless} that mean nothing: {we_accept} of {} ({:.2} %)",
        accepted + meaningless,
        share(we_accept, accepted + meaningless)
    );
    for ((_, why), count) in NONSENSE.iter().zip(&nonsense) {
        if *count > 0 {
            println!("  {count:>5} accepted by ptxas without meaning, refused by us: {why}");
        }
    }
    let mut sorted: Vec<_> = classes.into_iter().collect();
    sorted.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
    let mut report = String::new();
    for (class, cases) in &sorted {
        let _ = writeln!(report, "=== {} × {class}", cases.len());
        for (at, message) in cases.iter().take(12) {
            let _ = writeln!(report, "--- {message}\n{}", mutate::excerpt(&programs[*at]));
        }
    }
    let path = oracle::repository().join("target/ptx-disagreements.txt");
    std::fs::write(&path, report).map_err(|error| format!("{}: {error}", path.display()))?;
    for (class, cases) in sorted.iter().take(30) {
        println!("  {:>5} {class}", cases.len());
    }
    // The bar is for a full run; a shorter one fails only beyond what chance explains (three standard deviations).
    let below = |ours: usize, all: usize, percent: f64| {
        let expected = all as f64 * (1.0 - percent / 100.0);
        let slack = if required < MUTANTS {
            3.0 * expected.sqrt() + 1.0
        } else {
            0.0
        };
        (all - ours) as f64 > expected + slack
    };
    if required > 0 && (below(we_accept, accepted, 99.8) || below(we_refuse, refused, 99.0)) {
        return Err(format!(
            "agreement is below 99.8 % and 99 %; see {}",
            path.display()
        ));
    }
    Ok(())
}
