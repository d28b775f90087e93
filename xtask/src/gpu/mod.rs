//! What needs a GPU: `cargo xtask gpu …`, for anyone who has one.
//!
//! | command | what it does |
//! | --- | --- |
//! | `gpu launches MANIFEST CUBINS AGAINST` | runs every launch of a manifest with the cubins of two folders and compares all buffers |
//! | `gpu times MANIFEST CUBINS FOLDER,FOLDER…` | times every launch of a manifest with the cubins of several folders, in turns, and says how far the same code differs from itself |
//! | `gpu digests MANIFEST CUBINS FILE` | writes the hash of every buffer after each launch of a manifest down, for the emulator |
//! | `gpu ablation FOLDER MANIFEST` | runs a manifest's only launch with each cubin of a folder and says what the driver made of it |
//! | `gpu forms LANES [ASSEMBLER]` | runs single operations on the chip and compares them with their definition in `eval` |
//! | `gpu matrix [WORD]...` | runs every form of matrix instructions on the chip, our code against ptxas's, emulator and interpreter |
//! | `gpu matrix-module [WORD]...` | prints the PTX of those forms |
//! | `gpu forms-module` | prints the PTX of those operations |
//! | `gpu record FILE` | writes the chip's results of single operations down, for the replay without a GPU |
//! | `gpu matrices WARPS` | multiplies random matrices on the tensor cores and compares them with their definition |
//! | `gpu record-matrices FILE` | writes the tensor cores' results down, for the replay without a GPU |
//! | `gpu mufu [PART]` | approximate functions of all 2^32 operands, or of every PART-th block of them, against `eval` |
//! | `gpu programs FOLDER` | runs generated programs, as ptxas made them, and compares them with the interpreter |
//! | `gpu declarations FILE [COUNT]` | records what programs about declarations see as ptxas -O0 made them, for the replay without a GPU |
//! | `gpu generated COUNT ASSEMBLERS [--seed=K] [--flavour=plain\|rich] [--seconds=N]` | generates programs, runs them as each assembler makes them, and compares them with the interpreter |
//! | `gpu sweeps ASSEMBLERS [--full]` | single-precision functions of all 2^32 operands, and 10^8 hard operands of the others, against ptxas |
//! | `gpu clock` | measures small kernels by the chip's clock and compares the static estimates of their cycles |
//! | `gpu cycles COUNT [--seed=K] [--write=FILE]` | measures generated kernels of one warp by the chip's clock and compares the static estimates |
//! | `gpu release` | measures how soon after each reader of fixed latency its sources may be overwritten |
//! | `gpu latency` | measures how soon after each producer each kind of consumer sees the new value |
//! | `gpu mutants --convergence MANIFESTS FOLDERS COUNT SECONDS [FIRST] [--write FILE]` | the same for mutants of where lanes meet, a process for each, of several manifests and folders (commas between them); writes down all of them |
//! | `gpu mutants MANIFEST CUBINS COUNT SECONDS [FIRST] [--write FILE]` | runs mutants of a manifest's kernels and compares what the judge says with what the chip does; writes down those that go wrong |
//! | `gpu heal MANIFEST CUBINS AGAINST` | finds the control words that make the results of launches wrong |
//! | `gpu worker`, `gpu shard` | parts of the others in processes of their own |
//!
//! An ASSEMBLER is `orias-O0` to `orias-O3` or `ptxas-O0` to `ptxas-O3`; ASSEMBLERS is a list of them with commas.

pub(crate) mod assembler;
mod bare;
mod clock;
mod compare_forms;
mod convergence;
mod cycles;
mod declarations;
mod driver;
pub(crate) mod forms;
mod generated;
mod heal;
pub(crate) mod job;
mod latency;
mod matrices;
mod matrix;
mod mufu;
mod mutants;
mod programs;
mod release;
mod shards;
mod sweeps;
mod times;
mod worker;

use job::{Job, Outcome};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use worker::Workers;

/// How long a suite may go on starting new processes after hangs and faults.
const LIMIT: Duration = Duration::from_secs(300);

/// `cargo xtask gpu`.
pub fn run(args: &[String]) -> Result<(), String> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let count = |text: &str| -> Result<usize, String> {
        let n = text.parse();
        n.map_err(|_| format!("'{text}' is not a count"))
    };
    match words.as_slice() {
        ["worker"] => worker::serve(),
        ["name"] => {
            let gpu = driver::Gpu::open().map_err(|error| error.to_string())?;
            println!("{}", gpu.name().map_err(|error| error.to_string())?);
            Ok(())
        }
        ["launches", manifest, cubins, against, rest @ ..] => launches(manifest, cubins, against, &Repeat::parse(rest)?),
        ["times", manifest, cubins, others, rest @ ..] => times::run(manifest, cubins, others, &times::Options::parse(rest)?),
        ["digests", manifest, cubins, file] => digests(manifest, cubins, file),
        ["ablation", folder, manifest] => ablation(folder, manifest),
        ["forms", lanes] => compare_forms::compare(count(lanes)?, "ptxas-O1"),
        ["forms", lanes, assembler] => compare_forms::compare(count(lanes)?, assembler),
        ["declarations", file] => declarations::run(file, declarations::COUNT, LIMIT),
        ["declarations", file, n] => declarations::run(file, count(n)?, LIMIT),
        ["shard", first, end, "declarations", file] => declarations::shard(count(first)?..count(end)?, file),
        ["generated", n, assemblers, rest @ ..] => generated::run(&generated::Request::parse(count(n)?, assemblers, rest)?, LIMIT),
        ["sweeps", assemblers] => sweeps::run(assemblers, false),
        ["sweeps", assemblers, "--full"] => sweeps::run(assemblers, true),
        ["shard", first, end, "generated", rest @ ..] => generated::shard(count(first)?..count(end)?, rest),
        ["shard", first, end, "programs", folder] => programs::shard(count(first)?..count(end)?, folder),
        ["shard", first, end, "forms", lanes, assembler] => compare_forms::shard(count(first)?..count(end)?, count(lanes)?, assembler),
        ["shard", first, end, "sweeps", assembler, tier] => sweeps::shard(count(first)?..count(end)?, assembler, tier),
        ["matrix", words @ ..] => matrix::compare(words),
        ["matrix-module", words @ ..] => {
            matrix::print(words);
            Ok(())
        }
        ["matrices", warps] => matrices::compare(warps.parse().map_err(|_| format!("'{warps}' is not a count"))?),
        ["mufu"] => mufu::compare(1),
        ["mufu", part] => mufu::compare(count(part)? as u32),
        ["programs", folder] => programs::run(folder, LIMIT),
        ["clock"] => clock::compare(),
        ["cycles", n, rest @ ..] => cycles::run(count(n)?, rest),
        ["latency"] => latency::measure(),
        ["release"] => release::measure(),
        ["mutants", rest @ ..] => {
            let (convergence, rest) = match rest {
                ["--convergence", rest @ ..] => (true, rest),
                rest => (false, rest),
            };
            let [manifest, cubins, count, seconds, rest @ ..] = rest else {
                return Err("mutants of which launches, how many, for how long?".to_owned());
            };
            let number = |text: &str| text.parse::<u64>().map_err(|_| format!("'{text}' is not a number"));
            let (first, file) = match rest {
                [] => (0, None),
                ["--write", file] => (0, Some(*file)),
                [first] => (number(first)?, None),
                [first, "--write", file] => (number(first)?, Some(*file)),
                _ => return Err(format!("not understood: {rest:?}")),
            };
            let (numbers, seconds) = (first..first + number(count)?, number(seconds)?);
            match convergence {
                true => convergence::run(manifest, cubins, numbers, seconds, file),
                false => mutants::run(manifest, cubins, numbers, seconds, file),
            }
        }
        ["heal", manifest, cubins, against, rest @ ..] => heal::run(manifest, cubins, against, rest),
        ["record-matrices", file] => matrices::record(file),
        ["forms-module"] => {
            print!("{}", forms::module(&forms::all()));
            Ok(())
        }
        ["record", file] => compare_forms::record(file),
        _ => Err("usage: gpu name | gpu launches MANIFEST CUBINS AGAINST [--runs N] [--filter TEXT] [--patience SECONDS] \
                  | gpu times MANIFEST CUBINS FOLDER,FOLDER [--rounds N] [--filter TEXT] [--once] \
                  | gpu digests MANIFEST CUBINS FILE | gpu ablation FOLDER MANIFEST | gpu forms LANES [ASSEMBLER] | gpu forms-module \
                  | gpu declarations FILE [COUNT] | gpu generated COUNT ASSEMBLERS [--seed=K] [--flavour=plain|rich] [--seconds=N] | gpu sweeps ASSEMBLERS [--full] | gpu record FILE | gpu matrices WARPS | gpu mufu [PART] \
                  | gpu record-matrices FILE | gpu programs FOLDER | gpu clock | gpu cycles COUNT [--seed=K] [--write=FILE] | gpu latency | gpu release | gpu mutants [--convergence] MANIFEST CUBINS COUNT SECONDS [FIRST] [--write FILE] \
                  | gpu heal MANIFEST CUBINS AGAINST [--filter TEXT,TEXT] [--seconds N]"
            .to_owned()),
    }
}

/// How often to run each launch, and which ones.
struct Repeat {
    runs: u32,
    filter: String,
    /// Seconds after which a launch counts as endless.
    patience: u32,
}

impl Repeat {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let mut repeat = Self {
            runs: 1,
            filter: String::new(),
            patience: 60,
        };
        let count = |text: &str| text.parse().map_err(|_| format!("'{text}' is not a count"));
        for pair in words.chunks(2) {
            match pair {
                ["--runs", n] => repeat.runs = count(n)?,
                ["--filter", text] => repeat.filter = (*text).to_owned(),
                ["--patience", n] => repeat.patience = count(n)?,
                other => return Err(format!("not understood: {other:?}")),
            }
        }
        Ok(repeat)
    }
}

/// The tests of a manifest file. Files that hold buffers stand beside it.
pub(crate) fn tests(manifest: &str) -> Result<Vec<Value>, String> {
    let text = std::fs::read_to_string(manifest).map_err(|error| format!("{manifest}: {error}"))?;
    let mut value: Value =
        serde_json::from_str(&text).map_err(|error| format!("{manifest}: {error}"))?;
    let Value::Array(mut tests) = value["tests"].take() else {
        return Err(format!("{manifest}: no list of tests"));
    };
    let folder = Path::new(manifest).parent().unwrap_or(Path::new("."));
    for argument in tests
        .iter_mut()
        .filter_map(|test| test["args"].as_array_mut())
        .flatten()
    {
        if let Some(file) = argument.get_mut("file") {
            let name = file.as_str().ok_or("file is not a string")?;
            *file = folder.join(name).to_string_lossy().into_owned().into();
        }
    }
    Ok(tests)
}

/// The cubin in `folder` that was made from a test's module: `reduce.ptx` or `reduce.sass` becomes `reduce.cubin`.
pub(crate) fn cubin_of(test: &Value, folder: &str) -> Result<String, String> {
    let module = test["ptx"].as_str().ok_or("a test without ptx")?;
    let stem = Path::new(module)
        .file_stem()
        .ok_or("a module without a name")?;
    let path = Path::new(folder).join(stem).with_extension("cubin");
    Ok(path.to_string_lossy().into_owned())
}

/// Every launch of a manifest with two sets of cubins: equal buffers. With one set twice the launches run once, and only have to run
/// well. A launch without a cubin, because its module was refused, is not equal, and costs no worker.
fn launches(manifest: &str, cubins: &str, against: &str, repeat: &Repeat) -> Result<(), String> {
    let patience = Duration::from_secs(repeat.patience.into());
    let mut workers = Workers::with_patience(patience);
    let (mut equal, mut payloads, mut other) = (0, 0, 0);
    for test in tests(manifest)? {
        let mut ours = Job::from_test(&test, cubin_of(&test, cubins)?)?;
        // Names of some corpora begin with their module's, those of others do not.
        let module = ours.cubin.trim_end_matches("cubin");
        if !ours.name.contains(&repeat.filter) && !module.ends_with(&format!("/{}", repeat.filter))
        {
            continue;
        }
        ours.runs = repeat.runs;
        let mut theirs = ours.clone();
        theirs.cubin = cubin_of(&test, against)?;
        if !Path::new(&ours.cubin).exists() {
            other += 1;
            println!("no cubin   {}", ours.name);
            continue;
        }
        let outcome = workers.run(&ours)?;
        let expected = if cubins == against {
            outcome.clone()
        } else {
            workers.run(&theirs)?
        };
        match (outcome, expected) {
            (
                Outcome::Ran { buffers, .. },
                Outcome::Ran {
                    buffers: expected, ..
                },
            ) if buffers == expected => equal += 1,
            (Outcome::Failed(message), _) => {
                other += 1;
                println!("failed     {}: {message}", ours.name);
            }
            (_, Outcome::Failed(message)) => {
                other += 1;
                println!("no answer  {}: the other side failed: {message}", ours.name);
            }
            _ => {
                let what = differences(&mut workers, ours.clone(), theirs, &test)?;
                if what.is_empty() {
                    payloads += 1;
                } else {
                    other += 1;
                    println!("different  {}: {what}", ours.name);
                }
            }
        }
    }
    println!("{equal} equal, {payloads} up to the payload of NaNs, {other} not");
    if other == 0 && equal + payloads > 0 {
        Ok(())
    } else {
        Err(format!(
            "{other} of {} launches are not equal",
            equal + payloads + other
        ))
    }
}

/// Runs two launches again and says where their buffers differ: how many elements, and the first of them. Nothing when only the
/// payloads of NaNs differ and the test says, by `"nan": "f64"`, that its results are such numbers: which of two NaNs an
/// operation hands on is not defined by PTX and depends, in double precision, on the order of its operands.
fn differences(
    workers: &mut Workers,
    mut ours: Job,
    mut theirs: Job,
    test: &Value,
) -> Result<String, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = |side: &str| folder.path().join(side).to_string_lossy().into_owned();
    ours.keep = path("ours");
    theirs.keep = path("theirs");
    for job in [&mut ours, &mut theirs] {
        job.runs = 1;
        if let Outcome::Failed(message) = workers.run(job)? {
            return Ok(format!("and fails when run again: {message}"));
        }
    }
    let doubles = test["nan"].as_str() == Some("f64");
    let size = if doubles {
        8
    } else {
        test["esize"].as_u64().unwrap_or(4).clamp(1, 8) as usize
    };
    let is_nan = |bytes: &[u8]| {
        <[u8; 8]>::try_from(bytes).is_ok_and(|bytes| f64::from_le_bytes(bytes).is_nan())
    };
    let (mut found, mut kept) = (Vec::new(), 0);
    for at in 0.. {
        let side = |keep: &str| std::fs::read(format!("{keep}.{at}"));
        let (Ok(left), Ok(right)) = (side(&ours.keep), side(&theirs.keep)) else {
            break;
        };
        kept += 1;
        let element = |bytes: &[u8]| {
            let number = bytes
                .iter()
                .rev()
                .fold(0u64, |n, byte| n << 8 | u64::from(*byte));
            format!("{number:0width$x}", width = 2 * size)
        };
        let pairs = || {
            let differ = |(_, (a, b)): &(usize, (&[u8], &[u8]))| {
                a != b && !(doubles && is_nan(a) && is_nan(b))
            };
            left.chunks(size)
                .zip(right.chunks(size))
                .enumerate()
                .filter(differ)
        };
        let count = pairs().count();
        if let Some((index, (a, b))) = pairs().next() {
            let (a, b) = (element(a), element(b));
            found.push(format!(
                "buffer {at}: {count} of {} elements, first [{index}] = {a}, not {b}",
                left.len().div_ceil(size)
            ));
        }
    }
    if found.is_empty() && !(doubles && kept > 0) {
        return Ok("but equal when run again".to_owned());
    }
    Ok(found.join("; "))
}

/// The hashes of all buffers after each launch, a line each: name, then the hashes in the order of the arguments.
fn digests(manifest: &str, cubins: &str, file: &str) -> Result<(), String> {
    let mut workers = Workers::new();
    let mut lines = String::new();
    let mut failed = 0;
    for test in tests(manifest)? {
        let mut job = Job::from_test(&test, cubin_of(&test, cubins)?)?;
        job.runs = 2;
        match workers.run(&job)? {
            Outcome::Ran { buffers, .. } => {
                let hashes: Vec<String> =
                    buffers.iter().map(|hash| format!("{hash:016x}")).collect();
                lines.push_str(&format!("{} {}\n", job.name, hashes.join(" ")));
            }
            Outcome::Failed(message) => {
                failed += 1;
                println!("failed     {}: {message}", job.name);
            }
        }
    }
    println!(
        "{} launches recorded, {failed} failed",
        lines.lines().count()
    );
    std::fs::write(file, lines).map_err(|error| format!("{file}: {error}"))
}

/// One launch with each cubin of a folder. `base.cubin` says what is right; the others leave something out.
fn ablation(folder: &str, manifest: &str) -> Result<(), String> {
    let tests = tests(manifest)?;
    let [test] = tests.as_slice() else {
        return Err(format!(
            "{manifest}: an ablation has exactly one launch, this has {}",
            tests.len()
        ));
    };
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .map_err(|error| format!("{folder}: {error}"))?
        .flatten()
        .filter_map(|entry| {
            entry
                .file_name()
                .to_str()?
                .strip_suffix(".cubin")
                .map(str::to_owned)
        })
        .collect();
    names.sort();
    let path = |name: &str| format!("{folder}/{name}.cubin");
    // A worker of its own for each cubin: what one launch leaves on the device must not make up for what the next lacks.
    let launch = |name: &str| Workers::new().run(&Job::from_test(test, path(name))?);
    let base = launch("base")?;
    if let Outcome::Failed(message) = &base {
        return Err(format!("the whole cubin fails already: {message}"));
    }
    println!("| left out | what happens |\n| --- | --- |");
    for name in names.iter().filter(|name| *name != "base") {
        let verdict = match launch(name)? {
            Outcome::Failed(message) => message,
            ran if ran == base => "runs, same result".to_owned(),
            Outcome::Ran { .. } => "runs, **other result**".to_owned(),
        };
        println!("| {name} | {verdict} |");
    }
    Ok(())
}
