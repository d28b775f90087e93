//! `gpu heal MANIFEST CUBINS AGAINST [--filter TEXT,TEXT] [--seconds N] [--runs N]`: which control words make results wrong.
//!
//! A launch whose results differ from those of the cubin it is held against may rest on a timing rule that nobody has stated yet.
//! The kernel's control words are *loosened*, an instruction at a time: the longest stall, a wait for all barriers, no reuse.
//! If the results are right with all of them loosened, a smallest set of instructions is searched for (delta debugging: drop
//! halves, quarters and so on, as long as the results stay right), and for each of these which field matters, and which stall is
//! enough. The instructions around it are printed with the control words of both cubins.

use super::job::{Job, Outcome};
use super::worker::Workers;
use orias_cubin::Cubin;
use orias_sass::text::print_instruction;
use orias_sass::{Instruction, Target};
use orias_verify::program::{Program, WORD};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A trial that has not answered after this time hangs. A worker's first trial includes the start of the driver.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often each trial runs, unless told: some hazards show only now and then.
const RUNS: u32 = 4;

/// Launches at the same time.
const WORKERS: usize = 12;

/// Instructions shown before and behind one that matters.
const AROUND: usize = 6;

/// The fields of a control word, as bits of the instruction.
const STALL: u32 = 105;
const YIELD: u128 = 1 << 109;
const WAIT: u128 = 0x3f << 116;
const REUSE: u128 = 0xf << 122;

/// What is changed of one instruction's control word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edit {
    /// The stall, if it is changed.
    stall: Option<u8>,
    wait: bool,
    reuse: bool,
}

impl Edit {
    const ALL: Edit = Edit {
        stall: Some(15),
        wait: true,
        reuse: true,
    };

    fn apply(self, word: u128) -> u128 {
        let mut word = word;
        let stall = (word >> STALL & 15) as u8;
        // Without a yield bit 0 drains already.
        let drains = stall == 0 && word & YIELD == 0;
        if let Some(least) = self.stall
            && !drains
            && stall < least
        {
            word &= !(0xf << STALL | YIELD | REUSE);
            word |= u128::from(least) << STALL;
        }
        if self.wait {
            word |= WAIT;
        }
        if self.reuse {
            word &= !REUSE;
        }
        word
    }
}

/// One launch with wrong results.
struct Patient {
    job: Job,
    expected: Vec<u64>,
    image: Vec<u8>,
    /// Where the kernel's code is in the file.
    code_at: usize,
    instructions: Vec<Instruction>,
    /// The same kernel in the cubin it is held against, if it is as long.
    reference: Option<Vec<Instruction>>,
    path: String,
}

type Edits = BTreeMap<usize, Edit>;

/// What was found of a launch: nothing if its results are right.
type Answer = Result<Option<String>, String>;

impl Patient {
    /// Whether the results are right with these edits.
    fn healed(&self, edits: &Edits, workers: &mut Workers) -> Result<bool, String> {
        let mut image = self.image.clone();
        for (index, edit) in edits {
            let at = self.code_at + index * WORD;
            let bytes: [u8; WORD] = image[at..at + WORD]
                .try_into()
                .map_err(|_| "a word out of bounds")?;
            let word = edit.apply(u128::from_le_bytes(bytes));
            image[at..at + WORD].copy_from_slice(&word.to_le_bytes());
        }
        std::fs::write(&self.path, &image).map_err(|error| format!("{}: {error}", self.path))?;
        let mut job = self.job.clone();
        job.cubin.clone_from(&self.path);
        Ok(matches!(workers.run(&job)?, Outcome::Ran { buffers, .. } if buffers == self.expected))
    }

    /// A set of instructions of which none can be left alone, or none if not even all of them help.
    fn smallest(&self, workers: &mut Workers, until: Instant) -> Result<Option<Edits>, String> {
        let all: Vec<usize> = (0..self.instructions.len()).collect();
        let edits = |set: &[usize]| set.iter().map(|index| (*index, Edit::ALL)).collect();
        if !self.healed(&edits(&all), workers)? {
            return Ok(None);
        }
        let mut set = all;
        let mut parts = 2;
        while set.len() > 1 && Instant::now() < until {
            let size = set.len().div_ceil(parts);
            let mut smaller = None;
            for at in (0..set.len()).step_by(size) {
                let mut rest = set.clone();
                rest.drain(at..(at + size).min(set.len()));
                if !rest.is_empty() && self.healed(&edits(&rest), workers)? {
                    smaller = Some(rest);
                    break;
                }
                if Instant::now() > until {
                    break;
                }
            }
            match smaller {
                Some(rest) => {
                    set = rest;
                    parts = (parts - 1).max(2);
                }
                None if size == 1 => break,
                None => parts = (parts * 2).min(set.len()),
            }
        }
        Ok(Some(edits(&set)))
    }

    /// Takes back what is not needed of each edit.
    fn narrow(&self, edits: &mut Edits, workers: &mut Workers) -> Result<(), String> {
        let indices: Vec<usize> = edits.keys().copied().collect();
        for index in indices {
            let mut attempt = |edit: Edit, edits: &mut Edits| -> Result<bool, String> {
                let known = edits.insert(index, edit);
                let fine = self.healed(edits, workers)?;
                if !fine {
                    edits.extend(known.map(|known| (index, known)));
                }
                Ok(fine)
            };
            let full = Edit::ALL;
            attempt(
                Edit {
                    reuse: false,
                    ..full
                },
                edits,
            )?;
            let known = edits[&index];
            attempt(
                Edit {
                    wait: false,
                    ..known
                },
                edits,
            )?;
            let known = edits[&index];
            if attempt(
                Edit {
                    stall: None,
                    ..known
                },
                edits,
            )? {
                continue;
            }
            let known = edits[&index];
            let (mut too_short, mut enough) = (self.instructions[index].control.stall(), 15);
            while enough > too_short + 1 {
                let middle = too_short.midpoint(enough);
                let edit = Edit {
                    stall: Some(middle),
                    ..known
                };
                if attempt(edit, edits)? {
                    enough = middle;
                } else {
                    too_short = middle;
                }
            }
        }
        Ok(())
    }

    fn report(&self, edits: &Edits) -> String {
        let mut out = String::new();
        for (index, edit) in edits {
            let mut fields = Vec::new();
            fields.extend(edit.stall.map(|stall| {
                format!(
                    "stall {} -> {stall}",
                    self.instructions[*index].control.stall()
                )
            }));
            if edit.wait {
                fields.push("wait for all".to_owned());
            }
            if edit.reuse {
                fields.push("no reuse".to_owned());
            }
            // Writing to a string does not fail.
            let _ = writeln!(out, "  +{:#x}: {}", index * WORD, fields.join(", "));
            let range =
                index.saturating_sub(AROUND)..(index + AROUND + 1).min(self.instructions.len());
            for at in range {
                let instruction = &self.instructions[at];
                let theirs = self
                    .reference
                    .as_ref()
                    .map_or(String::new(), |known| known[at].control.to_string());
                let _ = writeln!(
                    out,
                    "  {} {:#06x} {:<28} | {theirs:<28} {}",
                    if at == *index { '>' } else { ' ' },
                    at * WORD,
                    instruction.control.to_string(),
                    print_instruction(instruction, (at * WORD) as u64),
                );
            }
        }
        out
    }
}

/// The instructions of a kernel, and where they are in the file.
fn kernel(path: &str, name: &str) -> Result<(Vec<u8>, usize, Vec<Instruction>), String> {
    let image = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    let cubin = Cubin::read(&image).map_err(|error| format!("{path}: {error}"))?;
    let functions = cubin.functions();
    let function = functions
        .iter()
        .find(|function| function.name == name)
        .ok_or_else(|| format!("{path}: no kernel {name}"))?;
    let program = Program::of(function, Target::Sm90a).map_err(|error| error.to_string())?;
    let code_at = (image.windows(function.code.len()))
        .position(|window| window == function.code)
        .ok_or_else(|| format!("{path}: the code is not in one piece"))?;
    Ok((image, code_at, program.instructions))
}

/// How often each trial runs, and when to stop looking.
#[derive(Clone, Copy)]
struct Limits {
    until: Instant,
    runs: u32,
}

/// One launch: nothing if its results are right, else what was found.
fn examine(
    test: &serde_json::Value,
    cubins: &str,
    against: &str,
    path: &str,
    workers: &mut Workers,
    limits: Limits,
) -> Answer {
    let mut job = Job::from_test(test, super::cubin_of(test, cubins)?)?;
    job.runs = RUNS;
    let mut theirs = job.clone();
    job.runs = limits.runs;
    theirs.cubin = super::cubin_of(test, against)?;
    let expected = match workers.run(&theirs)? {
        Outcome::Ran { buffers, .. } => buffers,
        Outcome::Failed(message) => {
            return Err(format!("{}: the other side failed: {message}", job.name));
        }
    };
    let symptom = match workers.run(&job)? {
        Outcome::Ran { buffers, .. } if buffers == expected => return Ok(None),
        Outcome::Ran { .. } => "different".to_owned(),
        Outcome::Failed(message) => message,
    };
    let (image, code_at, instructions) = kernel(&job.cubin, &job.kernel)?;
    let reference = (kernel(&theirs.cubin, &theirs.kernel).ok())
        .map(|(_, _, known)| known)
        .filter(|known| known.len() == instructions.len());
    let patient = Patient {
        expected,
        image,
        code_at,
        instructions,
        reference,
        path: path.to_owned(),
        job,
    };
    let count = patient.instructions.len();
    let head = format!("{}: {symptom}; {count} instructions", patient.job.name);
    Ok(Some(match patient.smallest(workers, limits.until)? {
        None => format!("{head}; wrong with all control words loosened\n"),
        Some(mut edits) => {
            if edits.len() <= 16 {
                patient.narrow(&mut edits, workers)?;
                let found = patient.report(&edits);
                format!("{head}; {} matter\n{found}", edits.len())
            } else {
                format!("{head}; time was up with {} left\n", edits.len())
            }
        }
    }))
}

/// `gpu heal`.
pub fn run(manifest: &str, cubins: &str, against: &str, words: &[&str]) -> Result<(), String> {
    let (mut filter, mut seconds, mut runs) = (String::new(), 100, RUNS);
    for pair in words.chunks(2) {
        match pair {
            ["--filter", text] => filter = (*text).to_owned(),
            ["--seconds", n] => {
                seconds = n.parse().map_err(|_| format!("'{n}' is not a number"))?;
            }
            ["--runs", n] => runs = n.parse().map_err(|_| format!("'{n}' is not a count"))?,
            other => return Err(format!("not understood: {other:?}")),
        }
    }
    let limits = Limits {
        until: Instant::now() + Duration::from_secs(seconds),
        runs,
    };
    let names: Vec<&str> = filter.split(',').collect();
    let tests: Vec<serde_json::Value> = (super::tests(manifest)?.into_iter())
        .filter(|test| {
            let name = test["name"].as_str().unwrap_or_default();
            names.iter().any(|text| name.contains(text))
        })
        .collect();
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<(usize, Answer)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (tests, next, found) = (&tests, &next, &found);
            let path = folder.path().join(format!("{worker}.cubin"));
            scope.spawn(move || {
                let mut workers = Workers::with_patience(PATIENCE);
                let path = path.to_string_lossy();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(test) = tests.get(number) else {
                        return;
                    };
                    let answer = examine(test, cubins, against, &path, &mut workers, limits);
                    if let Ok(mut found) = found.lock() {
                        found.push((number, answer));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().map_err(|error| error.to_string())?;
    found.sort_by_key(|(number, _)| *number);
    let mut wrong = 0;
    for (_, answer) in found {
        match answer {
            Ok(None) => {}
            Ok(Some(text)) => {
                wrong += 1;
                print!("{text}");
            }
            Err(error) => println!("left out: {error}"),
        }
    }
    println!("{wrong} of {} launches are wrong", tests.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loosening_never_takes_anything_away() {
        let word = 2u128 << STALL | YIELD | 1 << 117 | 0b101 << 122;
        let loose = Edit::ALL.apply(word);
        assert_eq!(loose >> STALL & 31, 15);
        assert_eq!(loose & WAIT, WAIT);
        assert_eq!(loose & REUSE, 0);
        // A drain says more than any stall.
        assert_eq!(Edit::ALL.apply(0) >> STALL & 31, 0);
    }
}
