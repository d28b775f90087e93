//! `conformance generated [COUNT] [--seed=K] [--flavour=plain|rich] [--level=N]... [--timings=T] [--schedule=S]... [--write=FOLDER]`: generated
//! programs in the interpreter and, compiled by Orias at -O0, -O1 and -O3 (or the levels given), in the emulator: once with strict timing and T
//! times with random ones, lanes and warps in order or by each of the schedules given. `--schedule=random` is another one for
//! every program. The interpreter must leave the same by each of them, too. The judge looks at every cubin; with `--schedule=none` nothing is run and it
//! is all there is, for many more programs.
//!
//! `[QUESTIONS] --reduce=SEED|FILE [--level=N]` prints a smaller program that still fails in the same way. With `--from=FOLDER`
//! the programs are the files of a folder, which begin with the seed of their input. `--write` leaves the programs, their input, the cubins and what the
//! interpreter says in a folder, for `cargo xtask gpu programs FOLDER`.

use super::programs::{Named, files};
use crate::gpu::job::hash;
use crate::parallel;
use crate::programs::{
    Flavour, Plan, buffers, emulated_with, interpreted, interpreted_by, seed_of,
};
use orias::{Options, Source, Target, compile};
use orias_cubin::Cubin;
use orias_sim::{Schedule, Timing};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

/// Programs of a run that does not say how many.
const COUNT: u64 = 200;

struct Request {
    count: u64,
    first: u64,
    flavour: Flavour,
    levels: Vec<u8>,
    timings: u64,
    schedules: Vec<String>,
    judged_only: bool,
    from: Option<String>,
    write: Option<String>,
    reduce: Option<String>,
}

impl Request {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut request = Self {
            count: COUNT,
            first: 0,
            flavour: Flavour::Rich,
            levels: Vec::new(),
            timings: 1,
            schedules: Vec::new(),
            judged_only: false,
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
                Some(("--flavour", name)) => request.flavour = Flavour::parse(name)?,
                Some(("--level", level)) => request.levels.push(number(level)? as u8),
                Some(("--timings", timings)) => request.timings = number(timings)?,
                Some(("--schedule", "none")) => request.judged_only = true,
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
        if request.schedules.is_empty() && !request.judged_only {
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

/// Programs that are looked at before anything is said about them.
const BATCH: usize = 256;

pub fn run(args: &[String]) -> Result<(), String> {
    let request = Request::parse(args)?;
    if let Some(what) = &request.reduce {
        return reduce(what, &request);
    }
    let mut programs: Box<dyn Iterator<Item = Named>> = match &request.from {
        Some(from) => Box::new(files(Path::new(from))?.into_iter()),
        None => Box::new(
            (request.first..request.first + request.count).map(|seed| Named {
                name: seed.to_string(),
                seed,
                text: request.flavour.text(seed),
                folder: None,
            }),
        ),
    };
    let started = Instant::now();
    let (mut count, mut equal, mut failures) = (0_u64, 0_u64, 0_u64);
    let mut expected_text = String::new();
    loop {
        let batch: Vec<Named> = programs.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            break;
        }
        count += batch.len() as u64;
        let results = parallel::map(&batch, |program| check_all(program, &request));
        for (
            Named {
                name, seed, text, ..
            },
            result,
        ) in batch.iter().zip(results)
        {
            let (expected, levels) = match result {
                Ok(result) => result,
                Err(why) => {
                    failures += 1;
                    println!("program {name}: {why}");
                    continue;
                }
            };
            for (level, outcome) in request.levels.iter().zip(levels) {
                match outcome {
                    Ok(cubin) => {
                        equal += 1;
                        write(&request, &format!("{name}.O{level}.cubin"), &cubin)?;
                    }
                    Err(failure) => {
                        failures += 1;
                        println!("program {name} -O{level}: {failure}");
                    }
                }
            }
            write(&request, &format!("{name}.ptx"), text.as_bytes())?;
            write(&request, &format!("{name}.input"), &buffers(*seed)[0])?;
            // Writing to a string cannot fail.
            let _ = writeln!(expected_text, "{name} {:016x}", hash(&expected));
        }
    }
    write(&request, "expected.txt", expected_text.as_bytes())?;
    println!(
        "{count} programs, {equal} runs equal, {failures} not, {:.0} programs a second",
        count as f64 / started.elapsed().as_secs_f64().max(1e-3)
    );
    match failures {
        0 if equal > 0 => Ok(()),
        _ => Err(format!("{failures} runs are not what the interpreter says")),
    }
}

/// Writes a file of the folder that was asked for, if one was.
fn write(request: &Request, name: &str, bytes: &[u8]) -> Result<(), String> {
    let Some(folder) = &request.write else {
        return Ok(());
    };
    let path = Path::new(folder).join(name);
    std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// What the interpreter leaves of a program, and for each level the cubin or what is wrong with it.
type Checked = (Vec<u8>, Vec<Result<Vec<u8>, String>>);

fn check_all(program: &Named, request: &Request) -> Result<Checked, String> {
    let (seed, text) = (program.seed, program.text.as_str());
    let schedules = request.schedules(seed)?;
    let expected = match request.judged_only {
        true => Vec::new(),
        false => expected(text, seed, &schedules)?,
    };
    let levels = request.levels.iter();
    let levels =
        levels.map(|&level| check(text, seed, level, &expected, request.timings, &schedules));
    let levels = levels.collect();
    Ok((expected, levels))
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
    let plan = Plan::of(text).map_err(|why| format!("unreadable: {why}"))?;
    let random = (0..timings).map(|number| Timing::Random(seed ^ number << 32));
    let timings: Vec<Timing> = std::iter::once(Timing::Strict).chain(random).collect();
    for schedule in schedules {
        for timing in &timings {
            match emulated_with(&cubin, &plan, seed, *timing, *schedule) {
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
        Ok(seed) => (seed, request.flavour.text(seed)),
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
    let small = orias_generate::reduce::reduce(&text, request.count as usize, |text| {
        failure(text, level).as_deref() == Some(&kind)
    });
    print!("// -O{level}: {kind}\n{small}");
    Ok(())
}
