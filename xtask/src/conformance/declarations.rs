//! `conformance declarations [COUNT] [--seed=K] [--record=FILE] [--reduce=SEED] [--print=SEED]`: programs about declarations.
//!
//! ptxas and we accept and refuse the same; and the interpreter and our code at -O0 and -O3 in the emulator see what ptxas -O0's code
//! sees: on the chip where the program is recorded, else in the emulator. `--record` writes down what ptxas's code saw in the
//! emulator, for use until `cargo xtask gpu declarations` has asked a chip. `[QUESTIONS] --reduce=SEED` prints a smaller program with
//! a finding of the same kind.

use crate::declarations::record::{Record, Recorded};
use crate::declarations::{Failure, Subject};
use crate::{oracle, parallel};
use orias_generate::ptx::declarations::{Program, program};
use std::collections::BTreeMap;

/// Programs of a run that does not say how many.
const COUNT: u64 = 2000;

/// Questions that a reduction asks unless told otherwise.
const QUESTIONS: u64 = 400;

pub fn run(args: &[String]) -> Result<(), String> {
    let (mut count, mut first, mut record, mut reduced) = (None, 0, None, None);
    for argument in args {
        let number = |text: &str| text.parse().map_err(|_| format!("'{text}' is no number"));
        match argument.split_once('=') {
            Some(("--seed", seed)) => first = number(seed)?,
            Some(("--record", path)) => record = Some(path.to_owned()),
            Some(("--reduce", seed)) => reduced = Some(number(seed)?),
            Some(("--print", seed)) => {
                print!("{}", program(number(seed)?).text);
                return Ok(());
            }
            None if !argument.starts_with('-') => count = Some(number(argument)?),
            _ => return Err(format!("not understood: {argument}")),
        }
    }
    oracle::find("ptxas")?;
    if let Some(seed) = reduced {
        return reduce(&program(seed), count.unwrap_or(QUESTIONS) as usize);
    }
    let seeds: Vec<u64> = (first..first + count.unwrap_or(COUNT)).collect();
    match record {
        Some(path) => write(&seeds, &path),
        None => compare(&seeds),
    }
}

fn subject(program: &Program) -> Subject<'_> {
    Subject {
        text: &program.text,
        arguments: &program.arguments,
    }
}

/// What ptxas -O0's code sees in the emulator, or why ptxas refuses the module.
fn emulated_witness(subject: Subject<'_>) -> Result<Result<Vec<u8>, String>, String> {
    match subject.assembled() {
        Ok(cubin) => subject
            .emulated(&cubin)
            .map(Ok)
            .map_err(|failure| format!("ptxas-O0 {failure}")),
        Err(Failure::Refused(why)) => Ok(Err(why)),
        Err(failure) => Err(format!("ptxas-O0 {failure}")),
    }
}

/// What the chip saw, of the programs that are recorded.
fn recorded() -> Result<BTreeMap<u64, Recorded>, String> {
    let path = oracle::repository().join("xtask/data/declarations-sm90.txt.gz");
    let Ok(packed) = std::fs::read(&path) else {
        return Ok(BTreeMap::new());
    };
    let record = Record::unpack(&packed)?;
    println!(
        "{} programs were seen by {}",
        record.programs.len(),
        record.witness
    );
    Ok(record
        .programs
        .into_iter()
        .map(|program| (program.seed, program))
        .collect())
}

fn compare(seeds: &[u64]) -> Result<(), String> {
    let recorded = recorded()?;
    let results = parallel::map(seeds, |&seed| {
        let program = program(seed);
        let subject = subject(&program);
        let mut witness = match emulated_witness(subject) {
            Ok(witness) => witness,
            Err(why) => return (vec![why], false),
        };
        let mut findings = Vec::new();
        if let Some(there) = recorded
            .get(&seed)
            .filter(|there| there.text == program.text)
        {
            if there.seen != witness {
                findings.push("ptxas-O0 in the emulator: not what is recorded".to_owned());
            }
            witness.clone_from(&there.seen);
        }
        findings.extend(subject.findings(witness.as_deref().map_err(String::as_str)));
        (findings, witness.is_ok())
    });
    let (mut accepted, mut wrong) = (0, 0);
    for (seed, (findings, taken)) in seeds.iter().zip(results) {
        accepted += usize::from(taken);
        wrong += usize::from(!findings.is_empty());
        for finding in findings {
            println!("program {seed}: {finding}");
        }
    }
    println!(
        "{} programs, {accepted} of them accepted by ptxas: {wrong} with findings",
        seeds.len()
    );
    match wrong {
        0 if accepted > 0 => Ok(()),
        _ => Err(format!(
            "{wrong} of {} programs are seen differently",
            seeds.len()
        )),
    }
}

fn write(seeds: &[u64], path: &str) -> Result<(), String> {
    let programs = parallel::map(seeds, |&seed| {
        let Program {
            text, arguments, ..
        } = program(seed);
        let subject = Subject {
            text: &text,
            arguments: &arguments,
        };
        let seen = emulated_witness(subject).map_err(|why| format!("program {seed}: {why}"))?;
        Ok(Recorded {
            seed,
            text,
            arguments,
            seen,
        })
    });
    let mut kept = Vec::new();
    for program in programs {
        match program {
            Ok(program) => kept.push(program),
            Err(why) => {
                let why: String = why;
                println!("left out: {why}");
            }
        }
    }
    let record = Record {
        witness: "ptxas -O0 in the emulator".to_owned(),
        programs: kept,
    };
    record.write(path)
}

/// The kinds of findings of a program: everything up to the details.
fn kinds(subject: Subject<'_>) -> Vec<String> {
    let findings = match emulated_witness(subject) {
        Ok(witness) => subject.findings(witness.as_deref().map_err(String::as_str)),
        Err(why) => vec![why],
    };
    let kind = |finding: &String| {
        let (kind, details) = finding.split_once(':').unwrap_or((finding, ""));
        // Refusals are told apart by what they say, without the places they name.
        let details = details.trim_start().split("':").last().unwrap_or_default();
        let letters: String = details.chars().filter(|c| !c.is_ascii_digit()).collect();
        match kind.ends_with("differs") {
            true => kind.to_owned(),
            false => format!("{kind}: {letters}"),
        }
    };
    findings.iter().map(kind).collect()
}

/// Prints a smaller program whose first finding is of the same kind.
fn reduce(program: &Program, questions: usize) -> Result<(), String> {
    let first = |text: &str| -> Option<String> {
        let smaller = Subject {
            text,
            arguments: &program.arguments,
        };
        kinds(smaller).into_iter().next()
    };
    let kind = first(&program.text).ok_or("nothing is wrong with it")?;
    let small = orias_generate::reduce::reduce(&program.text, questions, |text| {
        first(text).as_ref() == Some(&kind)
    });
    print!("// {kind}\n{small}");
    Ok(())
}
