//! `cargo xtask exercise`: PTX that makes the assembler show its instruction set.
//!
//! The files in `xtask/exercises` hold instruction patterns ([`patterns`]), a line each; `#` starts a comment. Every
//! instruction a pattern stands for becomes a kernel ([`kernel`]), kernels are gathered into modules, and `ptxas`
//! assembles each module at several optimisation levels. The PTX and the cubins stay below `target/exercise` for
//! comparisons of other chores; what `ptxas` refuses is reported with its message.
//!
//! `--programs COUNT` adds generated programs of that many seeds.
//! `--rows` adds modules made from every row of the PTX tables ([`rows`]), assembled without optimisation: nothing uses
//! their results.

mod kernel;
mod patterns;
mod rows;

use crate::oracle;
use kernel::Inputs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Kernels in one module: enough to spread the start-up time of `ptxas`, few enough to keep modules quick.
const KERNELS_PER_MODULE: usize = 64;

/// The optimisation levels everything is assembled at.
const LEVELS: &[&str] = &["-O0", "-O1", "-O3"];

/// Where the cubins of an earlier run are.
pub fn folder() -> PathBuf {
    oracle::repository().join("target").join("exercise")
}

/// Runs the chore: `cargo xtask exercise [--target sm_90a] [--rows] [--programs COUNT] [FILE...]`, where FILE is the stem of an
/// exercise file.
pub fn run(args: &[String]) -> Result<(), String> {
    let mut target = "sm_90a".to_string();
    let mut stems = Vec::new();
    let mut rows_too = false;
    let mut programs = 0;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--target" => target = args.next().ok_or("--target needs a value")?.clone(),
            "--rows" => rows_too = true,
            "--programs" => {
                let count = args.next().ok_or("--programs needs a value")?;
                programs = count
                    .parse()
                    .map_err(|_| format!("'{count}' is no number"))?;
            }
            stem => stems.push(stem.to_string()),
        }
    }
    let ptxas = oracle::find("ptxas")?;
    let source = oracle::repository().join("xtask").join("exercises");
    let out = folder().join(&target);
    std::fs::create_dir_all(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    if rows_too {
        rows::assemble(&ptxas, &out, &target)?;
    }
    for seed in 0..programs {
        program(&ptxas, &out, &target, seed)?;
    }
    let mut files: Vec<PathBuf> = std::fs::read_dir(&source)
        .map_err(|error| format!("{}: {error}", source.display()))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "ptxs"))
        .collect();
    files.sort();
    for stem in &stems {
        if !files.iter().any(|file| stem_of(file) == *stem) {
            return Err(format!("no exercise file is named {stem}"));
        }
    }
    let mut refused = 0;
    for file in files {
        let stem = stem_of(&file);
        if !stems.is_empty() && !stems.contains(&stem) {
            continue;
        }
        let text = std::fs::read_to_string(&file)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        let mut instructions = Vec::new();
        for line in text.lines().map(str::trim) {
            if !line.is_empty() && !line.starts_with('#') {
                instructions.extend(patterns::expand(line)?);
            }
        }
        let mut messages = BTreeMap::new();
        for inputs in [Inputs::PerThread, Inputs::Uniform] {
            for (number, chunk) in instructions.chunks(KERNELS_PER_MODULE).enumerate() {
                let name = format!("{stem}-{inputs:?}-{number}").to_lowercase();
                assemble(&ptxas, &out, &target, &name, chunk, inputs, &mut messages)?;
            }
        }
        let mut constant = Vec::new();
        for instruction in &instructions {
            constant.extend(kernel::with_constants(instruction)?);
        }
        // PTX takes constants in fewer places than registers: what is refused here says nothing about the exercise.
        let mut not_constant = BTreeMap::new();
        for (number, chunk) in constant.chunks(KERNELS_PER_MODULE).enumerate() {
            let name = format!("{stem}-constant-{number}");
            let inputs = Inputs::PerThread;
            assemble(
                &ptxas,
                &out,
                &target,
                &name,
                chunk,
                inputs,
                &mut not_constant,
            )?;
        }
        println!(
            "{stem}: {} instructions, {} refused; {} with constants, {} refused",
            instructions.len(),
            messages.len(),
            constant.len(),
            not_constant.len()
        );
        for (instruction, message) in &messages {
            println!("  {instruction}\n    {message}");
        }
        refused += messages.len();
    }
    println!(
        "{refused} instructions refused by ptxas; cubins in {}",
        out.display()
    );
    Ok(())
}

/// Assembles a generated program at every level.
fn program(ptxas: &Path, out: &Path, target: &str, seed: u64) -> Result<(), String> {
    let path = out.join(format!("program-{seed}.ptx"));
    let text = crate::programs::Flavour::Plain.text(seed);
    let text = text.replacen(".target sm_90\n", &format!(".target {target}\n"), 1);
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    for level in LEVELS {
        let (done, text) = call(ptxas, level, target, &path, &cubin_of(&path, level))?;
        if !done {
            return Err(format!("{}: ptxas failed: {text}", path.display()));
        }
    }
    Ok(())
}

fn stem_of(path: &Path) -> String {
    path.file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Calls ptxas: whether it succeeded, and what it said.
fn call(
    ptxas: &Path,
    level: &str,
    target: &str,
    path: &Path,
    cubin: &Path,
) -> Result<(bool, String), String> {
    let result = oracle::bounded(ptxas)
        .args([level, "-arch", target, "-o"])
        .args([cubin, path])
        .output()
        .map_err(|error| format!("{}: {error}", ptxas.display()))?;
    let text = String::from_utf8_lossy(&result.stderr).into_owned();
    Ok((result.status.success(), text))
}

/// Assembles one module at every level, leaving out the kernels `ptxas` complains about.
fn assemble(
    ptxas: &Path,
    out: &Path,
    target: &str,
    name: &str,
    instructions: &[String],
    inputs: Inputs,
    refused: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    let mut kernels = Vec::new();
    for (at, instruction) in instructions.iter().enumerate() {
        kernels.push((
            instruction,
            kernel::wrap(&format!("k{at}"), instruction, inputs)?,
        ));
    }
    let path = out.join(format!("{name}.ptx"));
    for level in LEVELS {
        loop {
            if kernels.is_empty() {
                return Ok(());
            }
            let mut module = kernel::header(target);
            let mut first_lines = Vec::new();
            for (_, text) in &kernels {
                first_lines.push(module.lines().count() + 1);
                module.push_str(text);
            }
            if *level == LEVELS[0] && kernels.len() == instructions.len() {
                if is_assembled(&path, &module) {
                    return Ok(());
                }
                forget(&path)?;
            }
            std::fs::write(&path, &module).map_err(|e| format!("{}: {e}", path.display()))?;
            let cubin = cubin_of(&path, level);
            let (done, text) = call(ptxas, level, target, &path, &cubin)?;
            if done {
                break;
            }
            let mut culprits = culprits(&text, &first_lines, kernels.len());
            if culprits.is_empty() {
                // It crashed: the kernels that crash it alone are to blame.
                for (at, (_, text)) in kernels.iter().enumerate() {
                    let module = kernel::header(target) + text;
                    std::fs::write(&path, module)
                        .map_err(|e| format!("{}: {e}", path.display()))?;
                    if !call(ptxas, level, target, &path, &cubin)?.0 {
                        culprits.insert(at, "ptxas crashes".to_owned());
                    }
                }
            }
            if culprits.is_empty() {
                return Err(format!(
                    "{}: ptxas failed without naming a line: {text}",
                    path.display()
                ));
            }
            for (&at, message) in culprits.iter().rev() {
                let (instruction, _) = kernels.remove(at);
                refused
                    .entry(instruction.clone())
                    .or_insert_with(|| message.clone());
            }
        }
    }
    Ok(())
}

/// Whether an earlier run assembled this module, with nothing left out, at every level.
fn is_assembled(path: &Path, module: &str) -> bool {
    std::fs::read_to_string(path).is_ok_and(|there| there == module)
        && LEVELS.iter().all(|level| cubin_of(path, level).exists())
}

/// Removes the cubins of an earlier run.
fn forget(path: &Path) -> Result<(), String> {
    for cubin in LEVELS.iter().map(|level| cubin_of(path, level)) {
        if cubin.exists() {
            std::fs::remove_file(&cubin).map_err(|e| format!("{}: {e}", cubin.display()))?;
        }
    }
    Ok(())
}

/// Where the cubin of a module at a level is.
fn cubin_of(path: &Path, level: &str) -> PathBuf {
    path.with_extension(format!("{}.cubin", &level[1..]))
}

/// Which kernels a run of `ptxas` complains about, by line number or by name, with the first message for each.
fn culprits(stderr: &str, first_lines: &[usize], kernels: usize) -> BTreeMap<usize, String> {
    let mut found = BTreeMap::new();
    for line in stderr.lines() {
        let at = if let Some((_, rest)) = line.split_once(", line ") {
            let number: usize = rest
                .split(|c: char| !c.is_ascii_digit())
                .next()
                .and_then(|n| n.parse().ok())
                .unwrap_or(0);
            first_lines
                .partition_point(|&first| first <= number)
                .checked_sub(1)
        } else if let Some((_, rest)) = line.split_once("'k") {
            rest.split('\'')
                .next()
                .and_then(|n| n.parse::<usize>().ok())
                .filter(|&n| n < kernels)
        } else {
            None
        };
        if let Some(at) = at {
            found.entry(at).or_insert_with(|| line.to_string());
        }
    }
    found
}
