//! `conformance programs [COUNT] [--seed=K] [--write=FOLDER]`: generated programs in the interpreter and, assembled by ptxas
//! at -O0 and -O3, in the emulator.
//!
//! With `--write` the cubins and what the interpreter says go to a folder, for `cargo xtask gpu programs FOLDER`. With
//! `--from=FOLDER` the programs are the files of a folder, which begin with the seed of their input, with their cubins if they are there. `[COUNT] --reduce=FILE`
//! prints a smaller program that ptxas -O3 still gets wrong, after at most COUNT questions.

use crate::gpu::job::hash;
use crate::parallel;
use crate::programs::{LEVELS, assemble, emulated, interpreted, seed_of, text};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Programs of a run that does not say how many.
const COUNT: u64 = 200;

pub fn run(args: &[String]) -> Result<(), String> {
    let (mut count, mut first, mut folder, mut from, mut smaller) = (COUNT, 0, None, None, None);
    for argument in args {
        let number = |text: &str| text.parse().map_err(|_| format!("'{text}' is no number"));
        match argument.split_once('=') {
            Some(("--seed", seed)) => first = number(seed)?,
            Some(("--write", path)) => folder = Some(path.to_owned()),
            Some(("--from", path)) => from = Some(path.to_owned()),
            Some(("--reduce", path)) => smaller = Some(path.to_owned()),
            None if !argument.starts_with('-') => count = number(argument)?,
            _ => return Err(format!("not understood: {argument}")),
        }
    }
    if let Some(path) = smaller {
        return reduce(Path::new(&path), count as usize);
    }
    let programs: Vec<Named> = match from {
        Some(from) => files(Path::new(&from))?,
        None => (first..first + count)
            .map(|seed| Named {
                name: seed.to_string(),
                seed,
                text: text(seed),
                folder: None,
            })
            .collect(),
    };
    match folder {
        Some(folder) => write(Path::new(&folder), &programs),
        None => compare(&programs),
    }
}

/// A program, its name, and the seed of its input.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) seed: u64,
    pub(super) text: String,
    /// Where its cubins may be, as `--write` leaves them.
    pub(super) folder: Option<PathBuf>,
}

impl Named {
    /// The cubin of a level, assembled if it is not there.
    fn cubin(&self, level: &str) -> Result<Vec<u8>, String> {
        let written = self.folder.as_ref().and_then(|folder| {
            std::fs::read(folder.join(format!("{}.{level}.cubin", self.name))).ok()
        });
        match written {
            Some(cubin) => Ok(cubin),
            None => assemble(self.text.as_bytes(), level),
        }
    }
}

/// The programs of a folder: `SEED.ptx`, or `SEED-ANYTHING.ptx` for variants of it.
pub(super) fn files(folder: &Path) -> Result<Vec<Named>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut programs = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        let (Some(name), Some("ptx")) = (name, path.extension().and_then(|it| it.to_str())) else {
            continue;
        };
        let seed = seed_of(name).ok_or_else(|| format!("{name}: no seed in the name"))?;
        programs.push(Named {
            name: name.to_owned(),
            seed,
            text: std::fs::read_to_string(&path).map_err(failed)?,
            folder: Some(folder.to_owned()),
        });
    }
    programs.sort_by(|a, b| (a.seed, &a.name).cmp(&(b.seed, &b.name)));
    Ok(programs)
}

/// What a run in the emulator came to.
enum Run {
    Equal,
    Different,
    Stopped(String),
}

/// A program at each level against the interpreter.
fn compare_one(program: &Named) -> Result<[Run; LEVELS.len()], String> {
    let Named {
        name, seed, text, ..
    } = program;
    let wrong = |error: String| format!("program {name}: {error}");
    let expected = interpreted(text, *seed).map_err(wrong)?;
    let mut runs = [const { Run::Equal }; LEVELS.len()];
    for (level, run) in LEVELS.into_iter().zip(&mut runs) {
        let cubin = program.cubin(level).map_err(wrong)?;
        *run = match emulated(&cubin, *seed) {
            Ok(output) if output == expected => Run::Equal,
            Ok(_) => Run::Different,
            Err(why) => Run::Stopped(why),
        };
    }
    Ok(runs)
}

/// Every program in the interpreter and, as ptxas made it at each level, in the emulator.
fn compare(programs: &[Named]) -> Result<(), String> {
    let mut counts = [[0; 2]; LEVELS.len()];
    let results = parallel::map(programs, compare_one);
    for (Named { name, .. }, runs) in programs.iter().zip(results) {
        for ((level, run), counts) in LEVELS.into_iter().zip(runs?).zip(&mut counts) {
            match run {
                Run::Equal => counts[0] += 1,
                Run::Different => {
                    counts[1] += 1;
                    println!("program {name} {level}: different");
                }
                Run::Stopped(why) => {
                    counts[1] += 1;
                    println!("program {name} {level}: stopped: {why}");
                }
            }
        }
    }
    for (level, [equal, different]) in LEVELS.into_iter().zip(counts) {
        println!("{level}: {equal} equal, {different} different");
    }
    let failures: u32 = counts.iter().map(|it| it[1]).sum();
    match failures {
        0 if counts[0][0] > 0 => Ok(()),
        _ => Err(format!("{failures} runs are not what the interpreter says")),
    }
}

/// Prints a smaller program of which ptxas -O3 makes something else than the interpreter and -O0 do, asking the emulator at
/// most `questions` times.
fn reduce(path: &Path, questions: usize) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let name = path.file_stem().and_then(|name| name.to_str());
    let seed = name.and_then(seed_of).ok_or("no seed in the name")?;
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let wrong = |text: &str| -> Option<bool> {
        let expected = interpreted(text, seed).ok()?;
        let [plain, optimised] =
            LEVELS.map(|level| emulated(&assemble(text.as_bytes(), level).ok()?, seed).ok());
        Some(plain? == expected && optimised? != expected)
    };
    if wrong(&text) != Some(true) {
        return Err("-O0 and -O3 give what the interpreter gives, or neither does".into());
    }
    let small = orias_ptx::reduce::reduce(&text, questions, |text| wrong(text) == Some(true));
    print!("{small}");
    Ok(())
}

/// Programs and their cubins at every level, and `expected.txt` with the hash of each output. What is there already and has
/// not changed is not assembled again; a program that the interpreter stops is left out, with a note.
fn write(folder: &Path, programs: &[Named]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(failed)?;
    let (mut expected, mut count) = (String::new(), 0);
    for Named {
        name, seed, text, ..
    } in programs
    {
        let output = match interpreted(text, *seed) {
            Ok(output) => output,
            Err(fault) => {
                println!("program {name} is left out: {fault}");
                continue;
            }
        };
        count += 1;
        // Writing to a string cannot fail.
        let _ = writeln!(expected, "{name} {:016x}", hash(&output));
        let source = folder.join(format!("{name}.ptx"));
        let cubins = LEVELS.map(|level| folder.join(format!("{name}.{level}.cubin")));
        let unchanged = std::fs::read_to_string(&source).is_ok_and(|there| there == *text)
            && cubins.iter().all(|path| path.exists());
        if unchanged {
            continue;
        }
        for (level, path) in LEVELS.into_iter().zip(&cubins) {
            let cubin = assemble(text.as_bytes(), level);
            let cubin = cubin.map_err(|error| format!("program {name}: {error}"))?;
            std::fs::write(path, cubin).map_err(failed)?;
        }
        std::fs::write(source, text).map_err(failed)?;
    }
    std::fs::write(folder.join("expected.txt"), expected).map_err(failed)?;
    println!("{count} programs in {}", folder.display());
    Ok(())
}
