//! Line tables: nvdisasm reads those of our cubins, and they name the lines ptxas's do.
//!
//! `conformance lines [FILTER]`. Every module of the corpus that is compiled and has `.loc` statements is compiled by both. What
//! `nvdisasm -g` lists of ours must name lines that `.loc` statements name, and at least one in each kernel; what it lists of both is
//! compared by kernel: how many of ptxas's lines ours has. Optimisers disagree about which lines are left, so that number is printed
//! and only must not fall below a bound. A program with inlined functions is compared by `nvdisasm -gi`, and `-gp` must list lines of
//! the PTX. Twice the same input gives the same bytes.

use super::corpus;
use crate::oracle;
use orias::{Options, Source, Target, compile};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The share of ptxas's lines that ours must have at least, over all modules.
const BOUND: f64 = 0.80;

/// A kernel with functions inlined two deep.
const INLINED: &str = include_str!("lines.ptx");

type Lines = BTreeMap<String, BTreeSet<String>>;

pub fn run(args: &[String]) -> Result<(), String> {
    let filter = args.first().map_or("", String::as_str);
    let (ptxas, nvdisasm) = (oracle::find("ptxas")?, oracle::find("nvdisasm")?);
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut wrong = Vec::new();
    let (mut modules, mut both, mut theirs_only, mut ours_only) = (0, 0, 0, 0);
    for module in corpus::modules()? {
        let name = module.file_stem().unwrap_or_default().to_string_lossy();
        if !name.contains(filter) {
            continue;
        }
        let text = std::fs::read(&module).map_err(|error| format!("{name}: {error}"))?;
        if !text.windows(5).any(|window| window == b".loc\t") {
            continue;
        }
        let Some(ours) = ours(&name, &text, folder.path())? else {
            continue;
        };
        modules += 1;
        let listed = listed_lines(&nvdisasm, "-g", &ours)?;
        let reference = folder.path().join("theirs.cubin");
        let status = oracle::bounded(&ptxas)
            .args(["-arch=sm_90a", "-lineinfo"])
            .arg(&module)
            .arg("-o")
            .arg(&reference)
            .status()
            .map_err(|error| format!("ptxas: {error}"))?;
        if !status.success() {
            return Err(format!("{name}: ptxas refuses it"));
        }
        let wanted = listed_lines(&nvdisasm, "-g", &reference)?;
        let stated = stated_lines(&text);
        for (kernel, lines) in &wanted {
            let own = listed.get(kernel).cloned().unwrap_or_default();
            if own.is_empty() && !lines.is_empty() {
                wrong.push(format!("{name}: {kernel} lists no line"));
            }
            both += own.intersection(lines).count();
            theirs_only += lines.difference(&own).count();
            ours_only += own.difference(lines).count();
            for line in own {
                let number = line.rsplit(' ').next().unwrap_or_default();
                if !stated.contains(number) {
                    wrong.push(format!(
                        "{name}: {kernel} lists '{line}', which no .loc names"
                    ));
                }
            }
        }
        if listed_lines(&nvdisasm, "-gp", &ours)?
            .values()
            .all(BTreeSet::is_empty)
        {
            wrong.push(format!("{name}: no line of the PTX is listed"));
        }
    }
    println!(
        "{modules} modules: {both} lines listed as by ptxas, {theirs_only} by ptxas only, {ours_only} by us only"
    );
    let share = both as f64 / (both + theirs_only).max(1) as f64;
    if modules > 0 && share < BOUND {
        wrong.push(format!(
            "only {:.1} % of ptxas's lines are listed",
            100.0 * share
        ));
    }
    compare_inlined(&ptxas, &nvdisasm, folder.path(), &mut wrong)?;
    for line in &wrong {
        println!("  {line}");
    }
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("{} failures", wrong.len()))
    }
}

/// Compiles a module twice; nothing where it is not compiled yet.
fn ours(name: &str, text: &[u8], folder: &Path) -> Result<Option<std::path::PathBuf>, String> {
    let options = Options {
        target: Target::parse("sm_90a").ok_or("sm_90a is no target")?,
        line_info: true,
        ..Options::default()
    };
    let source = Source { name, text };
    let Ok(compiled) = compile(&source, &options) else {
        return Ok(None);
    };
    // How long it took differs; the file must not.
    let again = compile(&source, &options).ok();
    if again.map(|again| again.cubin) != Some(compiled.cubin.clone()) {
        return Err(format!("{name}: two runs give two files"));
    }
    let path = folder.join("ours.cubin");
    let bytes = compiled.cubin.unwrap_or_default();
    std::fs::write(&path, bytes).map_err(|error| error.to_string())?;
    Ok(Some(path))
}

/// The line remarks of each kernel in a listing.
fn listed_lines(nvdisasm: &Path, option: &str, cubin: &Path) -> Result<Lines, String> {
    let output = Command::new(nvdisasm)
        .args([option, "-c"])
        .arg(cubin)
        .output()
        .map_err(|error| format!("nvdisasm: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("nvdisasm {option}: {said}"));
    }
    let mut lines = Lines::new();
    let mut kernel = String::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some(name) = line.trim().strip_prefix(".section\t.text.") {
            kernel = name.split(',').next().unwrap_or_default().to_owned();
            lines.entry(kernel.clone()).or_default();
        } else if let Some(remark) = line.trim().strip_prefix("//##") {
            let remark = remark.trim().to_owned();
            lines.entry(kernel.clone()).or_default().insert(remark);
        }
    }
    Ok(lines)
}

/// The lines that `.loc` statements name, and the places they name as those of inlining.
fn stated_lines(text: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(text);
    let mut stated = BTreeSet::new();
    for line in text.lines() {
        let Some(rest) = line.trim().strip_prefix(".loc") else {
            continue;
        };
        let rest = rest.split("//").next().unwrap_or_default();
        let mut words = rest.split([' ', '\t', ',']).filter(|word| !word.is_empty());
        stated.extend(words.nth(1).map(str::to_owned));
        if let Some((_, at)) = rest.split_once("inlined_at") {
            let mut words = at.split_whitespace();
            stated.extend(words.nth(1).map(str::to_owned));
        }
    }
    stated
}

fn compare_inlined(
    ptxas: &Path,
    nvdisasm: &Path,
    folder: &Path,
    wrong: &mut Vec<String>,
) -> Result<(), String> {
    let input = folder.join("inlined.ptx");
    std::fs::write(&input, INLINED).map_err(|error| error.to_string())?;
    let theirs = folder.join("theirs.cubin");
    let status = oracle::bounded(ptxas)
        .args(["-arch=sm_90a", "-lineinfo"])
        .arg(&input)
        .arg("-o")
        .arg(&theirs)
        .status()
        .map_err(|error| format!("ptxas: {error}"))?;
    let Some(ours) = ours("inlined", INLINED.as_bytes(), folder)?.filter(|_| status.success())
    else {
        return Err("the program with inlined functions does not compile".to_owned());
    };
    for option in ["-g", "-gi"] {
        let (own, other) = (
            listed_lines(nvdisasm, option, &ours)?,
            listed_lines(nvdisasm, option, &theirs)?,
        );
        // Which instruction is left of a line depends on the optimiser; where a function was inlined does not.
        let stray = |(kernel, lines): (&String, &BTreeSet<String>)| {
            let all = other.get(kernel);
            lines
                .iter()
                .any(|line| all.is_none_or(|all| !all.contains(line)))
        };
        let lost = |(kernel, lines): (&String, &BTreeSet<String>)| {
            let listed = own.get(kernel);
            let mut inlined = lines.iter().filter(|line| line.contains("inlined at"));
            inlined.any(|line| listed.is_none_or(|listed| !listed.contains(line)))
        };
        if own.is_empty() || own.iter().any(stray) || other.iter().any(lost) {
            wrong.push(format!(
                "inlined functions, nvdisasm {option}: {own:#?} instead of {other:#?}"
            ));
        }
    }
    Ok(())
}
