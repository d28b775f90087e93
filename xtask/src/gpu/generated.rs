//! `gpu generated COUNT ASSEMBLERS [--seed=K] [--flavour=plain|rich] [--seconds=N]`: generated programs, as each assembler makes them,
//! on the chip against the interpreter.
//!
//! Everything happens on the machine with the GPU: a program is generated, interpreted, assembled by each assembler of the list
//! and launched. Program N is the one of seed N.
//!
//! # Where the time goes
//! Interpreting and assembling take some milliseconds of a core each, and as many processes as there are cores share them out. On the
//! device a program takes microseconds; allocating, copying and waiting for it take far longer, and processes take turns there. So a process
//! prepares [`BATCH`] programs, loads their modules, fills one buffer with what all of them need by one copy, launches all kernels without waiting,
//! and reads everything back at once. A batch that faults or does not end is done again one by one ([`shards`]).

use super::assembler::Assembler;
use super::driver::{Buffer, DriverError, Gpu, Module};
use super::shards::{self, TOGETHER};
use crate::programs::{Flavour, Plan, SHAPE, buffers, interpreted};
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long a process may be silent: one program's interpretation, or a batch on the device.
const PATIENCE: Duration = Duration::from_secs(10);

/// Programs that are on the device together.
const BATCH: usize = 32;

/// Buffers begin at multiples of this.
const ALIGNMENT: usize = 256;

/// What to run.
pub struct Request {
    pub count: usize,
    pub assemblers: String,
    first: u64,
    flavour: String,
    /// After so many seconds no process starts another batch.
    seconds: u64,
}

impl Request {
    /// Reads the words behind the count and the assemblers.
    pub fn parse(count: usize, assemblers: &str, words: &[&str]) -> Result<Self, String> {
        Assembler::parse_list(assemblers)?;
        let mut request = Self {
            count,
            assemblers: assemblers.to_owned(),
            first: 0,
            flavour: "rich".to_owned(),
            seconds: u64::from(u32::MAX),
        };
        for word in words {
            let number = |text: &str| text.parse().map_err(|_| format!("'{text}' is no number"));
            match word.split_once('=') {
                Some(("--seed", seed)) => request.first = number(seed)?,
                Some(("--flavour", name)) => {
                    Flavour::parse(name)?;
                    request.flavour = name.to_owned();
                }
                Some(("--seconds", seconds)) => request.seconds = number(seconds)?,
                _ => return Err(format!("not understood: {word}")),
            }
        }
        Ok(request)
    }
}

pub fn run(request: &Request, limit: Duration) -> Result<(), String> {
    let started = Instant::now();
    let jobs = std::thread::available_parallelism().map_or(4, usize::from);
    let words = [
        "generated".to_owned(),
        request.assemblers.clone(),
        request.first.to_string(),
        request.flavour.clone(),
        request.seconds.to_string(),
    ];
    let summary = shards::run(&words, request.count, jobs, PATIENCE, limit)?;
    for (what, count) in &summary.counts {
        println!("{what}: {count}");
    }
    let seconds = started.elapsed().as_secs_f64();
    let done = summary.counts.get("programs").copied().unwrap_or_default();
    println!(
        "{done} programs in {seconds:.1} seconds by {jobs} processes: {:.0} a second",
        done as f64 / seconds.max(1e-3)
    );
    match summary.findings {
        0 if done > 0 => Ok(()),
        n => Err(format!("{n} findings")),
    }
}

/// A program that is ready to run.
struct Prepared {
    number: usize,
    seed: u64,
    plan: Plan,
    expected: Vec<u8>,
    cubins: Vec<(Assembler, Vec<u8>)>,
}

/// How long the parts of the work took, in all.
#[derive(Default)]
struct Spent {
    interpreting: Duration,
    assembling: Duration,
    device: Duration,
}

impl Spent {
    fn print(&self) {
        for (what, time) in [
            ("interpreting", self.interpreting),
            ("assembling", self.assembling),
            ("on the device", self.device),
        ] {
            println!("#{} milliseconds {what}", time.as_millis());
        }
    }
}

/// The programs of a range, in this process. `words`: the assemblers, the seed of program 0, the flavour, seconds, and perhaps
/// [`shards::ALONE`].
pub fn shard(range: Range<usize>, words: &[&str]) -> Result<(), String> {
    let (&[assemblers, first, flavour, seconds], alone) = (match words {
        [words @ .., shards::ALONE] => (words, true),
        words => (words, false),
    }) else {
        return Err(format!("not understood: {words:?}"));
    };
    let number = |text: &str| -> Result<u64, String> {
        text.parse().map_err(|_| format!("'{text}' is no number"))
    };
    let assemblers = Assembler::parse_list(assemblers)?;
    let (first, seconds) = (number(first)?, Duration::from_secs(number(seconds)?));
    let flavour = Flavour::parse(flavour)?;
    let started = Instant::now();
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    let mut spent = Spent::default();
    let mut singles = if alone { BATCH } else { 0 };
    let mut next = range.start;
    while next < range.end && started.elapsed() < seconds {
        let end = if singles > 0 {
            singles -= 1;
            next + 1
        } else {
            range.end.min(next + BATCH)
        };
        let mut batch = Vec::new();
        for number in next..end {
            batch.extend(prepare(
                number,
                first + number as u64,
                flavour,
                &assemblers,
                &mut spent,
            ));
        }
        if end - next == 1 {
            println!("@{next} on the chip");
        } else {
            println!("@{next} {TOGETHER} with those before {end}");
        }
        let since = Instant::now();
        // After an error the context is lost: the parent starts another process.
        compare(&gpu, &batch)
            .map_err(|error| format!("program {}: {error}", first + next as u64))?;
        spent.device += since.elapsed();
        println!("#{} programs", end - next);
        next = end;
    }
    if next < range.end {
        println!("#{} not tried: the time is up", range.end - next);
    }
    spent.print();
    Ok(())
}

/// Interprets and assembles a program; nothing if there is nothing to compare.
fn prepare(
    number: usize,
    seed: u64,
    flavour: Flavour,
    assemblers: &[Assembler],
    spent: &mut Spent,
) -> Option<Prepared> {
    println!("@{number} in the interpreter");
    let source = flavour.text(seed);
    let since = Instant::now();
    let expected = Plan::of(&source).and_then(|plan| Ok((interpreted(&source, seed)?, plan)));
    spent.interpreting += since.elapsed();
    let (expected, plan) = match expected {
        Ok(expected) => expected,
        Err(why) => {
            println!("program {seed}: the interpreter stops: {why}");
            return None;
        }
    };
    let since = Instant::now();
    let mut cubins = Vec::new();
    for &assembler in assemblers {
        println!("@{number} {assembler}");
        match assembler.assemble(&source) {
            Ok(cubin) => cubins.push((assembler, cubin)),
            Err(why) => {
                println!("program {seed} {assembler}: refused: {why}");
                println!("+{assembler} refused");
            }
        }
    }
    spent.assembling += since.elapsed();
    Some(Prepared {
        number,
        seed,
        plan,
        expected,
        cubins,
    })
}

/// A module on the device, and where in the common buffer its kernels' buffers are.
struct Loaded<'a> {
    program: &'a Prepared,
    assembler: Assembler,
    module: Module,
    places: Vec<[Range<usize>; 3]>,
}

/// Runs all programs of a batch and says what differs.
fn compare(gpu: &Gpu, batch: &[Prepared]) -> Result<(), DriverError> {
    let mut contents: Vec<u8> = Vec::new();
    let mut loaded = Vec::new();
    for program in batch {
        let first = buffers(program.seed);
        for (assembler, cubin) in &program.cubins {
            let places = program.plan.kernels.iter().map(|_| {
                first.each_ref().map(|bytes| {
                    contents.resize(contents.len().next_multiple_of(ALIGNMENT), 0);
                    let start = contents.len();
                    contents.extend_from_slice(bytes);
                    start..contents.len()
                })
            });
            loaded.push(Loaded {
                places: places.collect(),
                program,
                assembler: *assembler,
                module: gpu.load(cubin)?,
            });
        }
    }
    let memory: Buffer = gpu.buffer(&contents)?;
    for it in &loaded {
        for (name, places) in it.program.plan.kernels.iter().zip(&it.places) {
            let argument = |place: &Range<usize>| {
                let address = memory.address() + place.start as u64;
                address.to_le_bytes().to_vec()
            };
            let arguments: Vec<Vec<u8>> = places.iter().map(argument).collect();
            let kernel = it.module.kernel(name, 0)?;
            kernel.start(SHAPE.0, SHAPE.1, &arguments)?;
        }
    }
    gpu.synchronize()?;
    let after = memory.read()?;
    for it in &loaded {
        let outputs = it.places.iter().map(|places| &after[places[1].clone()]);
        let mut seen = outputs.collect::<Vec<_>>().concat();
        for (name, bytes) in &it.program.plan.variables {
            seen.extend(it.module.variable(name, *bytes)?);
        }
        let (seed, assembler) = (it.program.seed, it.assembler);
        let expected = &it.program.expected;
        match seen.iter().zip(expected).position(|(a, b)| a != b) {
            None if seen.len() == expected.len() => println!("+{assembler} equal"),
            first => {
                println!("@{} {assembler}", it.program.number);
                println!("program {seed} {assembler}: differs, first at byte {first:?}");
                println!("+{assembler} different");
            }
        }
    }
    Ok(())
}
