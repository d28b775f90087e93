//! `conformance programs [COUNT] [--seed=K] [--flavour=plain|rich] [--schedule=S] [--write=FOLDER]`: generated programs in the interpreter
//! and, assembled by ptxas at -O0 and -O3, in the emulator, with lanes and warps in order or by a schedule.
//!
//! With `--write` the cubins and what the interpreter says go to a folder, for `cargo xtask gpu programs FOLDER`. With
//! `--from=FOLDER` the programs are the files of a folder, which begin with the seed of their input, with their cubins if they are
//! there. Where that folder also has what the chip left (`SEED.LEVEL.out`, from `gpu programs`), code that the emulator finds
//! different must leave just that: then it is ptxas that is wrong. Programs that ptxas -O3 is known to get wrong are those of
//! `tests/run/miscompiled`. `[COUNT] --reduce=FILE` prints a smaller program that ptxas -O3 still gets wrong, after at most COUNT
//! questions.

use crate::gpu::job::hash;
use crate::programs::{
    Flavour, LEVELS, Plan, assemble, emulated, emulated_with, interpreted, seed_of,
};
use crate::{oracle, parallel};
use orias_sim::{Schedule, Timing};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Programs of a run that does not say how many.
const COUNT: u64 = 200;

pub fn run(args: &[String]) -> Result<(), String> {
    let (mut count, mut first, mut folder, mut from, mut smaller) = (COUNT, 0, None, None, None);
    let (mut schedule, mut flavour) = (Schedule::InOrder, Flavour::Plain);
    for argument in args {
        let number = |text: &str| text.parse().map_err(|_| format!("'{text}' is no number"));
        match argument.split_once('=') {
            Some(("--seed", seed)) => first = number(seed)?,
            Some(("--schedule", text)) => schedule = text.parse()?,
            Some(("--flavour", name)) => flavour = Flavour::parse(name)?,
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
                text: flavour.text(seed),
                folder: None,
            })
            .collect(),
    };
    match folder {
        Some(folder) => write(Path::new(&folder), &programs),
        None => compare(&programs, schedule, flavour),
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

/// What a run in the emulator came to, beside the interpreter.
#[derive(PartialEq, Eq)]
enum Run {
    Equal,
    /// Something else, which the chip leaves as well.
    AsOnTheChip,
    Different,
    Stopped(String),
}

impl Run {
    fn of(output: Result<Vec<u8>, String>, expected: &[u8], chip: Option<&[u8]>) -> Self {
        match output {
            Ok(output) if output == expected => Self::Equal,
            Ok(output) if chip == Some(&output) => Self::AsOnTheChip,
            Ok(_) => Self::Different,
            Err(why) => Self::Stopped(why),
        }
    }

    /// Whether two runs went wrong in the same way: stops need only begin with the same word.
    fn alike(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Stopped(one), Self::Stopped(other)) => {
                one.split(' ').next() == other.split(' ').next()
            }
            _ => self == other,
        }
    }
}

/// Seeds of programs that ptxas -O3 is known to get wrong.
fn known() -> Result<BTreeSet<u64>, String> {
    let kept = files(&oracle::repository().join("tests/run/miscompiled"))?;
    Ok(kept.iter().map(|program| program.seed).collect())
}

/// A program at each level against the interpreter.
fn compare_one(program: &Named, schedule: Schedule) -> Result<[Run; LEVELS.len()], String> {
    let Named {
        name, seed, text, ..
    } = program;
    let wrong = |error: String| format!("program {name}: {error}");
    let expected = interpreted(text, *seed).map_err(wrong)?;
    let plan = Plan::of(text).map_err(wrong)?;
    let mut runs = [const { Run::Equal }; LEVELS.len()];
    for (level, run) in LEVELS.into_iter().zip(&mut runs) {
        let cubin = program.cubin(level).map_err(wrong)?;
        let chip = program.folder.as_ref();
        let chip =
            chip.and_then(|folder| std::fs::read(folder.join(format!("{name}.{level}.out"))).ok());
        let output = emulated_with(&cubin, &plan, *seed, Timing::Strict, schedule);
        *run = Run::of(output, &expected, chip.as_deref());
    }
    Ok(runs)
}

/// Every program in the interpreter and, as ptxas made it at each level, in the emulator.
fn compare(programs: &[Named], schedule: Schedule, flavour: Flavour) -> Result<(), String> {
    // What is known is known of plain programs.
    let known = match flavour {
        Flavour::Plain => known()?,
        Flavour::Rich => BTreeSet::new(),
    };
    let (mut equal, mut kept, mut failures) = ([0; LEVELS.len()], [0; LEVELS.len()], 0);
    let results = parallel::map(programs, |program| compare_one(program, schedule));
    for (Named { name, seed, .. }, runs) in programs.iter().zip(results) {
        for (at, (level, run)) in LEVELS.into_iter().zip(runs?).enumerate() {
            // ptxas -O3 lets lanes wait for those that wait for them (errata).
            let hangs = flavour == Flavour::Rich
                && matches!(&run, Run::Stopped(why) if why.contains("thread-instructions"));
            let expected = level == "O3" && (known.contains(seed) || hangs);
            let what = match run {
                Run::Equal => {
                    equal[at] += 1;
                    continue;
                }
                Run::AsOnTheChip => "different, as on the chip".to_owned(),
                Run::Different => "different".to_owned(),
                Run::Stopped(why) => format!("stopped: {why}"),
            };
            if expected {
                kept[at] += 1;
                println!("program {name} {level}: {what} (known)");
            } else {
                failures += 1;
                println!("program {name} {level}: {what}");
            }
        }
    }
    for (at, level) in LEVELS.into_iter().enumerate() {
        println!(
            "{level}: {} of {} equal, {} known to be miscompiled",
            equal[at],
            programs.len(),
            kept[at]
        );
    }
    match failures {
        0 if equal[0] > 0 => Ok(()),
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
    let optimised = |text: &str| -> Option<Run> {
        let expected = interpreted(text, seed).ok()?;
        let plan = Plan::of(text).ok()?;
        let mut runs = LEVELS.map(|level| {
            let cubin = assemble(text.as_bytes(), level).ok()?;
            Some(Run::of(emulated(&cubin, &plan, seed), &expected, None))
        });
        let [plain, optimised] = runs.each_mut().map(Option::take);
        (plain? == Run::Equal).then_some(optimised?)
    };
    let Some(wrong) = optimised(&text).filter(|run| *run != Run::Equal) else {
        return Err("-O0 and -O3 give what the interpreter gives, or neither does".into());
    };
    let small = orias_generate::reduce::reduce(&text, questions, |text| {
        optimised(text).is_some_and(|run| run.alike(&wrong))
    });
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
