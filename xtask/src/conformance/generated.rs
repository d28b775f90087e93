//! `conformance generated [COUNT] [--seed=K] [--level=N]... [--timings=T] [--schedule=S]... [--write=FOLDER]`: generated programs in
//! the interpreter and, compiled by Orias at -O0, -O1 and -O3 (or the levels given), in the emulator: once with strict timing and T
//! times with random ones, lanes and warps in order or by each of the schedules given. `--schedule=random` is another one for
//! every program. The interpreter must leave the same by each of them, too. The judge looks at every cubin.
//!
//! `[QUESTIONS] --reduce=SEED|FILE [--level=N]` prints a smaller program that still fails in the same way. With `--from=FOLDER`
//! the programs are the files of a folder, which begin with the seed of their input. `--write` leaves the cubins and what the
//! interpreter says in a folder, for `cargo xtask gpu programs FOLDER`.

use super::programs::{Named, files};
use crate::gpu::job::hash;
use crate::programs::{emulated_with, interpreted, interpreted_by, seed_of, text};
use orias::{Options, Source, Target, compile};
use orias_cubin::Cubin;
use orias_sim::{Schedule, Timing};
use std::fmt::Write as _;
use std::path::Path;

/// Programs of a run that does not say how many.
const COUNT: u64 = 200;

struct Request {
    count: u64,
    first: u64,
    levels: Vec<u8>,
    timings: u64,
    schedules: Vec<String>,
    from: Option<String>,
    write: Option<String>,
    reduce: Option<String>,
}

impl Request {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut request = Self {
            count: COUNT,
            first: 0,
            levels: Vec::new(),
            timings: 1,
            schedules: Vec::new(),
            from: None,
            write: None,
            reduce: None,
        };
        for argument in args {
            let number = |text: &str| -> Result<u64, String> {
                text.parse().map_err(|_| format!("'{text}' is no number"))
            };
            match argument.split_once('=') {
                Some(("--seed", seed)) => request.first = number(seed)?,
                Some(("--level", level)) => request.levels.push(number(level)? as u8),
                Some(("--timings", timings)) => request.timings = number(timings)?,
                Some(("--schedule", schedule)) => {
                    schedule_of(schedule, 0)?;
                    request.schedules.push(schedule.to_owned());
                }
                Some(("--from", path)) => request.from = Some(path.to_owned()),
                Some(("--write", path)) => request.write = Some(path.to_owned()),
                Some(("--reduce", path)) => request.reduce = Some(path.to_owned()),
                None if !argument.starts_with('-') => request.count = number(argument)?,
                _ => return Err(format!("not understood: {argument}")),
            }
        }
        if request.levels.is_empty() {
            request.levels = vec![0, 1, 3];
        }
        if request.schedules.is_empty() {
            request.schedules.push("in-order".to_owned());
        }
        Ok(request)
    }

    /// What a program runs with.
    fn schedules(&self, seed: u64) -> Result<Vec<Schedule>, String> {
        let schedules = self.schedules.iter();
        schedules.map(|text| schedule_of(text, seed)).collect()
    }
}

/// A schedule by its name; `random` takes the seed of the program.
fn schedule_of(text: &str, seed: u64) -> Result<Schedule, String> {
    match text {
        "random" => Ok(Schedule::Random(seed)),
        _ => text.parse(),
    }
}

/// What the interpreter leaves, whatever the order of threads.
fn expected(text: &str, seed: u64, schedules: &[Schedule]) -> Result<Vec<u8>, String> {
    let expected = interpreted(text, seed)?;
    for schedule in schedules {
        if *schedule != Schedule::InOrder && interpreted_by(text, seed, *schedule)? != expected {
            return Err(format!(
                "the interpreter leaves something else by {schedule:?}"
            ));
        }
    }
    Ok(expected)
}

pub fn run(args: &[String]) -> Result<(), String> {
    let request = Request::parse(args)?;
    if let Some(what) = &request.reduce {
        return reduce(what, &request);
    }
    let programs: Box<dyn Iterator<Item = Named>> = match &request.from {
        Some(from) => Box::new(files(Path::new(from))?.into_iter()),
        None => Box::new(
            (request.first..request.first + request.count).map(|seed| Named {
                name: seed.to_string(),
                seed,
                text: text(seed),
                folder: None,
            }),
        ),
    };
    let (mut equal, mut failures) = (0_u64, 0_u64);
    let mut expected_text = String::new();
    for Named {
        name, seed, text, ..
    } in programs
    {
        let schedules = request.schedules(seed)?;
        let expected =
            expected(&text, seed, &schedules).map_err(|why| format!("program {name}: {why}"))?;
        for &level in &request.levels {
            match check(&text, seed, level, &expected, request.timings, &schedules) {
                Ok(cubin) => {
                    equal += 1;
                    if let Some(folder) = &request.write {
                        let path = Path::new(folder).join(format!("{name}.O{level}.cubin"));
                        std::fs::write(&path, cubin)
                            .map_err(|error| format!("{}: {error}", path.display()))?;
                    }
                }
                Err(failure) => {
                    failures += 1;
                    println!("program {name} -O{level}: {failure}");
                }
            }
        }
        // Writing to a string cannot fail.
        let _ = writeln!(expected_text, "{name} {:016x}", hash(&expected));
    }
    if let Some(folder) = &request.write {
        let path = Path::new(folder).join("expected.txt");
        std::fs::write(&path, expected_text)
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    println!("{equal} runs equal, {failures} not");
    match failures {
        0 if equal > 0 => Ok(()),
        _ => Err(format!("{failures} runs are not what the interpreter says")),
    }
}

/// What is wrong with a compiled program. The first word tells kinds of failures apart when one is reduced.
fn check(
    text: &str,
    seed: u64,
    level: u8,
    expected: &[u8],
    timings: u64,
    schedules: &[Schedule],
) -> Result<Vec<u8>, String> {
    let options = Options {
        target: Target::parse("sm_90a").ok_or("sm_90a is no target")?,
        opt_level: level,
        ..Options::default()
    };
    let source = Source {
        name: "program",
        text: text.as_bytes(),
    };
    let cubin = match compile(&source, &options).map(|compiled| compiled.cubin) {
        Ok(Some(cubin)) => cubin,
        Ok(None) => return Err("refused: no cubin".into()),
        Err(found) => {
            let first = found.iter().next();
            let first = first.map_or_else(String::new, |found| found.message.clone());
            return Err(format!("refused: {first}"));
        }
    };
    let read = Cubin::read(&cubin).map_err(|error| format!("unreadable: {error}"))?;
    let verdict = orias_verify::judge(&read).map_err(|error| format!("unjudged: {error}"))?;
    if let Some(finding) = verdict.findings.first() {
        return Err(format!("judged: {finding}"));
    }
    let random = (0..timings).map(|number| Timing::Random(seed ^ number << 32));
    let timings: Vec<Timing> = std::iter::once(Timing::Strict).chain(random).collect();
    for schedule in schedules {
        for timing in &timings {
            match emulated_with(&cubin, seed, *timing, *schedule) {
                Ok(output) if output == expected => {}
                Ok(output) => {
                    let at = output.iter().zip(expected).position(|(a, b)| a != b);
                    return Err(format!(
                        "different: {timing:?}, {schedule:?}, from byte {at:?}"
                    ));
                }
                Err(why) => return Err(format!("stopped: {timing:?}, {schedule:?}: {why}")),
            }
        }
    }
    Ok(cubin)
}

/// Prints a smaller program that fails in the same way at the first level where the whole one fails.
fn reduce(what: &str, request: &Request) -> Result<(), String> {
    let (seed, text) = match what.parse() {
        Ok(seed) => (seed, text(seed)),
        Err(_) => {
            let path = Path::new(what);
            let name = path.file_stem().and_then(|name| name.to_str());
            let seed = name.and_then(seed_of).ok_or("no seed in the name")?;
            let text = std::fs::read_to_string(path);
            (seed, text.map_err(|error| format!("{what}: {error}"))?)
        }
    };
    let failure = |text: &str, level: u8| -> Option<String> {
        let expected = interpreted(text, seed).ok()?;
        let schedules = request.schedules(seed).ok()?;
        let failure = check(text, seed, level, &expected, request.timings, &schedules).err()?;
        Some(failure.split(':').next().unwrap_or_default().to_owned())
    };
    let first = request
        .levels
        .iter()
        .find_map(|&level| Some((level, failure(&text, level)?)));
    let Some((level, kind)) = first else {
        return Err("nothing is wrong with it".into());
    };
    let small = orias_ptx::reduce::reduce(&text, request.count as usize, |text| {
        failure(text, level).as_deref() == Some(&kind)
    });
    print!("// -O{level}: {kind}\n{small}");
    Ok(())
}
