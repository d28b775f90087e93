//! `conformance verify [--sample] [TEXT]`: the judge is silent on what ptxas makes.
//!
//! Every module of the corpus is compiled by ptxas at -O0, -O1 and -O3 (below `target/verify`, once) and judged. Of the
//! torch.compile modules and of the modules that `cargo xtask exercise` made, every second one was used to mine the latencies
//! ([`calibration`]); those are judged too, but counted apart: only what the judge had not seen shows that its rules hold.
//! With a text, only modules whose name contains it; with `--sample`, every sixteenth.
//!
//! Functions with asynchronous copies are judged again without their waits: without all of a kind the judge must not be silent, how often it is without a
//! single one is counted.

use super::corpus;
use crate::oracle;
use orias_cubin::Cubin;
use orias_sass::Target;
use orias_verify::mutate::waits::{Removal, removals};
use orias_verify::program::Program;
use std::path::{Path, PathBuf};
use std::time::Instant;

const LEVELS: [&str; 3] = ["O0", "O1", "O3"];

/// A module with the cubins that ptxas made of it.
struct JudgedModule {
    name: String,
    set: &'static str,
    /// Whether it was mined.
    calibrates: bool,
    cubins: Vec<PathBuf>,
}

/// Compiles a module at every level, unless that was done before.
fn compile(ptxas: &Path, module: &Path, set: &str) -> Result<Vec<PathBuf>, String> {
    let mut cubins = Vec::new();
    for level in LEVELS {
        let folder = oracle::repository()
            .join("target/verify")
            .join(level)
            .join(set);
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let name = module.file_stem().ok_or("a module without a name")?;
        let cubin = folder.join(name).with_extension("cubin");
        if !cubin.exists() {
            let output = oracle::bounded(ptxas)
                .args(["-arch=sm_90a", &format!("-{level}")])
                .arg(module)
                .arg("-o")
                .arg(&cubin)
                .output()
                .map_err(|error| format!("ptxas: {error}"))?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(format!("{} -{level}: {said}", module.display()));
            }
        }
        cubins.push(cubin);
    }
    Ok(cubins)
}

/// The modules of the corpus and of the exercises, compiled.
fn modules(chosen: impl Fn(usize, &str) -> bool) -> Result<Vec<JudgedModule>, String> {
    let ptxas = oracle::find("ptxas")?;
    let mut modules = Vec::new();
    let mut sets: [(&str, Vec<PathBuf>); 3] = ["cuda", "jax", "torch"].map(|set| (set, Vec::new()));
    for path in corpus::modules()? {
        let folder = path.to_string_lossy();
        // What came from elsewhere is judged with the last set.
        let set = ["cuda-", "jax-"]
            .iter()
            .position(|set| folder.contains(set));
        sets[set.unwrap_or(2)].1.push(path);
    }
    for (set, paths) in sets {
        for (index, path) in paths.iter().enumerate() {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            if chosen(index, &name) {
                modules.push(JudgedModule {
                    cubins: compile(&ptxas, path, set)?,
                    name: name.into_owned(),
                    set,
                    calibrates: set == "torch" && index % 2 == 0,
                });
            }
        }
    }
    let exercises = oracle::repository().join("target/exercise/sm_90a");
    if !exercises.exists() {
        println!("no exercises: `cargo xtask exercise` makes them");
        return Ok(modules);
    }
    for (index, path) in corpus::files(&exercises, "ptx")?.iter().enumerate() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        if chosen(index, &name) {
            // One that ptxas refused at some level has no cubin there.
            let cubins = LEVELS
                .iter()
                .map(|level| path.with_extension(format!("{level}.cubin")))
                .filter(|cubin| cubin.exists())
                .collect();
            modules.push(JudgedModule {
                name: name.into_owned(),
                set: "exercise",
                calibrates: index % 2 == 0,
                cubins,
            });
        }
    }
    Ok(modules)
}

/// The cubins that latencies are mined from: those of every second module, optimised.
pub fn calibration() -> Result<Vec<PathBuf>, String> {
    let modules = modules(|_, _| true)?;
    Ok(modules
        .into_iter()
        .filter(|module| module.calibrates)
        .flat_map(|module| module.cubins)
        .filter(|cubin| !cubin.to_string_lossy().contains("O0"))
        .collect())
}

/// What was judged of one set.
#[derive(Default)]
struct Tally {
    cubins: usize,
    functions: usize,
    instructions: usize,
    findings: usize,
    undecoded: usize,
}

/// Mutants without waits: how many, and of how many the judge says something.
#[derive(Default)]
struct Mutants {
    whole: [usize; 2],
    single: [usize; 2],
}

impl Mutants {
    /// Takes waits from every function of a cubin.
    fn add(&mut self, cubin: &Cubin, name: &str) -> Result<(), String> {
        let target = Target::from_name(&cubin.target()).ok_or("an unknown target")?;
        for function in cubin.functions() {
            let program = Program::of(&function, target).map_err(|error| error.to_string())?;
            for removal in removals(&program) {
                let changed = removal.apply(&program, target);
                let changed = changed.map_err(|error| format!("{name}: {error}"))?;
                let reported = removal.is_reported(&changed);
                let counts = match removal.whole {
                    true => &mut self.whole,
                    false => &mut self.single,
                };
                counts[0] += 1;
                counts[1] += usize::from(reported);
                if removal.whole && !reported {
                    let Removal { kind, .. } = removal;
                    println!(
                        "{name}: {}: not reported without waits: {kind:?}",
                        program.name
                    );
                }
            }
        }
        Ok(())
    }
}

pub fn run(args: &[String]) -> Result<(), String> {
    let sample = args.iter().any(|arg| arg == "--sample");
    let filter = args.iter().find(|arg| !arg.starts_with("--"));
    let modules = modules(|index, name| {
        (!sample || index % 16 == 1) && filter.is_none_or(|text| name.contains(text.as_str()))
    })?;
    let mut tallies: std::collections::BTreeMap<(&str, &str, bool), Tally> = Default::default();
    let mut judging = std::time::Duration::ZERO;
    let mut mutants = Mutants::default();
    for module in &modules {
        for cubin in &module.cubins {
            let path = cubin.to_string_lossy();
            let level = LEVELS
                .into_iter()
                .find(|level| path.contains(level))
                .unwrap_or_default();
            let tally = tallies
                .entry((module.set, level, module.calibrates))
                .or_default();
            tally.cubins += 1;
            let bytes = std::fs::read(cubin).map_err(|error| format!("{path}: {error}"))?;
            let start = Instant::now();
            let container = Cubin::read(&bytes).map_err(|error| format!("{path}: {error}"))?;
            match orias_verify::judge(&container) {
                Ok(verdict) => {
                    tally.functions += verdict.functions;
                    tally.instructions += verdict.instructions;
                    tally.findings += verdict.findings.len();
                    for finding in verdict.findings.iter().take(5) {
                        println!("{} -{level}: {finding}", module.name);
                    }
                }
                Err(error) => {
                    tally.undecoded += 1;
                    println!("{} -{level}: {error}", module.name);
                }
            }
            judging += start.elapsed();
            mutants.add(&container, &format!("{} -{level}", module.name))?;
        }
    }
    println!("| set | level | mined | cubins | functions | instructions | findings | not judged |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let (mut findings, mut undecoded, mut instructions) = (0, 0, 0);
    for ((set, level, calibrates), tally) in &tallies {
        println!(
            "| {set} | {level} | {} | {} | {} | {} | {} | {} |",
            if *calibrates && *level != "O0" {
                "yes"
            } else {
                "no"
            },
            tally.cubins,
            tally.functions,
            tally.instructions,
            tally.findings,
            tally.undecoded
        );
        findings += tally.findings;
        undecoded += tally.undecoded;
        instructions += tally.instructions;
    }
    println!(
        "{instructions} instructions in {:.2} s: {:.2} million a second",
        judging.as_secs_f64(),
        instructions as f64 / judging.as_secs_f64() / 1e6
    );
    let [whole, reported] = mutants.whole;
    println!(
        "reported: {reported} of {whole} functions without the waits for a kind of copies, {} of {} without one of them",
        mutants.single[1], mutants.single[0]
    );
    let silent = whole - reported;
    if findings + undecoded + silent == 0 && instructions > 0 {
        Ok(())
    } else {
        Err(format!(
            "{findings} findings, {undecoded} cubins not judged, {silent} mutants without waits not reported"
        ))
    }
}
