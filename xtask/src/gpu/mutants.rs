//! `gpu mutants MANIFEST CUBINS COUNT SECONDS [FIRST] [--write FILE]`: what the judge says of mutants, against what the chip makes of them.
//!
//! Takes the launches of a manifest whose results are the same every time, changes one control field of one instruction of
//! the kernel, judges the mutant and runs it in a worker of its own. A mutant that leaves other buffers, faults or hangs must
//! have been reported; one that nobody reports and that changes nothing is classified by why it is safe. Those that go wrong are
//! written to a file, if one is named, for `conformance sim --mutants`.

use super::job::{Job, Outcome, Words};
use super::worker::Workers;
use crate::lanes::Code;
use orias_sass::Op;
use orias_sass::text::print_instruction;
use orias_verify::judge_program;
use orias_verify::mutate::{Mutation, Safe, mutations, why_safe};
use orias_verify::program::{Program, WORD};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

/// A mutant that has not answered after this time hangs.
const PATIENCE: Duration = Duration::from_secs(3);

/// Launches at the same time.
const WORKERS: usize = 16;

/// A launch with what it leaves when nothing is changed.
struct Base {
    job: Job,
    buffers: Vec<u64>,
    image: Vec<u8>,
    /// Where the kernel's code is in the file.
    code_at: usize,
    program: Program,
}

/// A mutant, what the judge and what the chip says.
struct Tried {
    base: usize,
    index: usize,
    mutation: Mutation,
    reported: usize,
    safe: Option<Safe>,
    outcome: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Same,
    Different,
    Failed,
    Hangs,
    /// The chip does not run the kernel as it was either: a mutant before this one has brought it down.
    Lost,
}

pub fn run(
    manifest: &str,
    cubins: &str,
    numbers: std::ops::Range<u64>,
    seconds: u64,
    file: Option<&str>,
) -> Result<(), String> {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let bases = bases(manifest, cubins)?;
    println!("{} launches with stable results", bases.len());
    if bases.is_empty() {
        return Err("nothing to mutate".to_owned());
    }
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let next = AtomicU64::new(numbers.start);
    let end = numbers.end;
    let (send, receive) = mpsc::channel::<Result<Tried, String>>();
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (send, bases, next) = (send.clone(), &bases, &next);
            let path = folder.path().join(format!("{worker}.cubin"));
            scope.spawn(move || {
                let mut workers = Workers::with_patience(PATIENCE);
                while Instant::now() < deadline {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        return;
                    }
                    let path = path.to_string_lossy().into_owned();
                    let tried = try_one(bases, number, path, &mut workers);
                    let lost = matches!(&tried, Ok(tried) if tried.outcome == Verdict::Lost);
                    if send.send(tried).is_err() || lost {
                        return;
                    }
                }
            });
        }
        drop(send);
    });
    let mut tried = (receive.into_iter()).collect::<Result<Vec<Tried>, String>>()?;
    let all = tried.len();
    tried.retain(|mutant| mutant.outcome != Verdict::Lost);
    if tried.len() < all {
        println!(
            "{} mutants say nothing: the chip was gone",
            all - tried.len()
        );
    }
    // Beside kernels that hang, others may be starved: what nobody reported is tried again, alone.
    let path = folder.path().join("again.cubin");
    let path = path.to_string_lossy();
    let mut workers = Workers::new();
    for mutant in &mut tried {
        if mutant.reported == 0 && matches!(mutant.outcome, Verdict::Hangs | Verdict::Failed) {
            let base = &bases[mutant.base];
            mutant.outcome = launch(base, mutant.index, mutant.mutation, &path, &mut workers)?;
        }
    }
    tried.retain(|mutant| mutant.outcome != Verdict::Lost);
    if let Some(file) = file {
        write_wrong(file, &bases, &tried)?;
    }
    report(&bases, &tried)
}

/// The launches of a manifest that leave the same every time.
fn bases(manifest: &str, cubins: &str) -> Result<Vec<Base>, String> {
    let tests = super::tests(manifest)?;
    let bases: Mutex<Vec<(usize, Base)>> = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel::<String>();
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            let (send, tests, bases, next) = (send.clone(), &tests, &bases, &next);
            scope.spawn(move || {
                let mut workers = Workers::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(test) = tests.get(number) else {
                        return;
                    };
                    match base(test, cubins, &mut workers) {
                        Ok(Some(base)) => {
                            if let Ok(mut bases) = bases.lock() {
                                bases.push((number, base));
                            }
                        }
                        Ok(None) => {}
                        // A receiver that is gone has nobody to tell.
                        Err(error) => drop(send.send(error)),
                    }
                }
            });
        }
        drop(send);
    });
    for error in receive {
        println!("left out: {error}");
    }
    let mut bases = bases.into_inner().map_err(|error| error.to_string())?;
    bases.sort_by_key(|(number, _)| *number);
    Ok(bases.into_iter().map(|(_, base)| base).collect())
}

/// One launch; none if it leaves something else each time.
fn base(
    test: &serde_json::Value,
    cubins: &str,
    workers: &mut Workers,
) -> Result<Option<Base>, String> {
    let mut job = Job::from_test(test, super::cubin_of(test, cubins)?)?;
    job.runs = 4;
    let Outcome::Ran { buffers, .. } = workers.run(&job)? else {
        return Ok(None);
    };
    job.runs = 1;
    let Code {
        image,
        program,
        code_at,
    } = Code::of(&job)?;
    Ok(Some(Base {
        job,
        buffers,
        code_at,
        program,
        image: image.clone(),
    }))
}

/// Makes, judges and runs mutant `number`.
fn try_one(
    bases: &[Base],
    number: u64,
    path: String,
    workers: &mut Workers,
) -> Result<Tried, String> {
    let mut words = Words::new(number);
    let mut below = |n: usize| (words.next() % n.max(1) as u64) as usize;
    let (base, index, mutation) = loop {
        let base = below(bases.len());
        let program = &bases[base].program;
        let index = below(program.instructions.len());
        let instruction = &program.instructions[index];
        let all = mutations(program.machine, instruction);
        // The kinds are to be equally frequent, not the values of a stall.
        let mut kinds: Vec<&str> = all.iter().map(|mutation| mutation.kind()).collect();
        kinds.dedup();
        if kinds.is_empty() || instruction.op() == Op::NOP {
            continue;
        }
        let kind = kinds[below(kinds.len())];
        let of_kind: Vec<Mutation> = (all.into_iter())
            .filter(|mutation| mutation.kind() == kind)
            .collect();
        break (base, index, of_kind[below(of_kind.len())]);
    };
    let known = &bases[base];
    let mut program = known.program.clone();
    let control = mutation.control(program.instructions[index].control);
    program.instructions[index].control = control.ok_or("a mutation that changes nothing")?;
    let reported = judge_program(&program)
        .map_err(|error| error.to_string())?
        .len();
    let safe = match reported {
        0 => Some(why_safe(&known.program, index, mutation).map_err(|error| error.to_string())?),
        _ => None,
    };
    Ok(Tried {
        base,
        index,
        mutation,
        reported,
        safe,
        outcome: launch(known, index, mutation, &path, workers)?,
    })
}

/// Runs a mutant.
fn launch(
    known: &Base,
    index: usize,
    mutation: Mutation,
    path: &str,
    workers: &mut Workers,
) -> Result<Verdict, String> {
    let mut image = known.image.clone();
    let (_, changed) = words(known, index, mutation)?;
    let at = known.code_at + index * WORD;
    image[at..at + WORD].copy_from_slice(&changed.to_le_bytes());
    std::fs::write(path, &image).map_err(|error| format!("{path}: {error}"))?;
    let mut job = known.job.clone();
    job.cubin = path.to_owned();
    // While kernels that hang are being torn down, the chip may take no work at all.
    for _ in 0..3 {
        let verdict = match workers.run(&job)? {
            Outcome::Ran { buffers, .. } if buffers == known.buffers => Verdict::Same,
            Outcome::Ran { .. } => Verdict::Different,
            Outcome::Failed(message) if message.starts_with("no answer") => Verdict::Hangs,
            Outcome::Failed(_) => match workers.run(&known.job)? {
                Outcome::Ran { .. } => Verdict::Failed,
                Outcome::Failed(_) => {
                    std::thread::sleep(Duration::from_secs(1));
                    continue;
                }
            },
        };
        return Ok(verdict);
    }
    Ok(Verdict::Lost)
}

/// An instruction's word before and after a mutation.
fn words(known: &Base, index: usize, mutation: Mutation) -> Result<(u128, u128), String> {
    let at = known.code_at + index * WORD;
    let bytes: [u8; WORD] =
        (known.image[at..at + WORD].try_into()).map_err(|_| "a word out of bounds")?;
    let word = u128::from_le_bytes(bytes);
    let changed = mutation.apply(&known.program.instructions[index], word);
    Ok((word, changed.ok_or("a mutation that changes nothing")?))
}

/// Writes down which mutants went wrong: launch, offset, word before and after, what happened, and the change in words, with
/// tabs between them.
fn write_wrong(file: &str, bases: &[Base], tried: &[Tried]) -> Result<(), String> {
    let mut lines = Vec::new();
    for mutant in tried {
        if mutant.outcome == Verdict::Same {
            continue;
        }
        let base = &bases[mutant.base];
        let (before, after) = words(base, mutant.index, mutant.mutation)?;
        let instruction = &base.program.instructions[mutant.index];
        let offset = mutant.index * WORD;
        lines.push(format!(
            "{}\t{offset:x}\t{before:032x}\t{after:032x}\t{:?}\t{}: {}\n",
            base.job.name,
            mutant.outcome,
            mutant.mutation,
            print_instruction(instruction, offset as u64),
        ));
    }
    lines.sort();
    lines.dedup();
    std::fs::write(file, lines.concat()).map_err(|error| format!("{file}: {error}"))
}

fn report(bases: &[Base], tried: &[Tried]) -> Result<(), String> {
    let mut kinds: BTreeMap<&str, [usize; 6]> = BTreeMap::new();
    let mut reasons: BTreeMap<(&str, Safe), usize> = BTreeMap::new();
    let mut missed = 0;
    for mutant in tried {
        let row = kinds.entry(mutant.mutation.kind()).or_default();
        row[0] += 1;
        let wrong = mutant.outcome != Verdict::Same;
        match (wrong, mutant.reported > 0) {
            (true, true) => row[1] += 1,
            (true, false) => row[2] += 1,
            (false, true) => row[3] += 1,
            (false, false) => row[4] += 1,
        }
        if matches!(mutant.outcome, Verdict::Failed | Verdict::Hangs) {
            row[5] += 1;
        }
        if let (false, Some(safe)) = (wrong, mutant.safe) {
            *reasons.entry((mutant.mutation.kind(), safe)).or_default() += 1;
        }
        if wrong && mutant.reported == 0 {
            missed += 1;
            let base = &bases[mutant.base];
            println!(
                "MISSED {:?}: {} +{:#x} {}: `{}` {}",
                mutant.outcome,
                base.job.name,
                mutant.index * WORD,
                mutant.mutation,
                print_instruction(
                    &base.program.instructions[mutant.index],
                    (mutant.index * WORD) as u64
                ),
                base.program.instructions[mutant.index].control,
            );
        }
    }
    println!(
        "| mutation | tried | wrong, reported | wrong, not reported | same, reported | same, not reported | faults and hangs |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let mut sum = [0; 6];
    for (kind, row) in &kinds {
        println!(
            "| {kind} | {} | {} | {} | {} | {} | {} |",
            row[0], row[1], row[2], row[3], row[4], row[5]
        );
        for (total, value) in sum.iter_mut().zip(row) {
            *total += value;
        }
    }
    println!(
        "| all | {} | {} | {} | {} | {} | {} |",
        sum[0], sum[1], sum[2], sum[3], sum[4], sum[5]
    );
    println!("| not reported | why it is safe | how often |\n| --- | --- | --- |");
    for ((kind, safe), count) in &reasons {
        println!("| {kind} | {safe} | {count} |");
    }
    if missed == 0 && sum[1] > 0 {
        Ok(())
    } else {
        Err(format!(
            "{missed} of {} wrong mutants were not reported",
            sum[1] + sum[2]
        ))
    }
}
