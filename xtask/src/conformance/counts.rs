//! `conformance counts [--sample] [FILTER]`: nothing waits, fences or reports errors more often than in ptxas's code.
//!
//! Every module of the corpus is compiled by ptxas -O3 and here at -O3, and what synchronises is counted by kind ([`KINDS`]), as it stands in the
//! code. A module in which we have more of a kind fails, unless our code has it more often because a loop is unrolled further or because a function is
//! inlined where ptxas has one copy: the count is then compared by *place*, that is, by the line of PTX it comes from, and each line must not have more
//! kinds than ptxas's.

use super::corpus;
use crate::gpu::assembler::Assembler;
use crate::parallel;
use orias_cubin::Cubin;
use orias_sass::{Target, decode};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is counted: a name, and how mnemonics of the kind begin.
const KINDS: [(&str, &[&str]); 9] = [
    ("BAR", &["BAR.", "BARRIER", "UCGABAR", "B2R"]),
    ("MEMBAR", &["MEMBAR"]),
    ("FENCE", &["FENCE"]),
    ("ERRBAR", &["ERRBAR", "CGAERRBAR"]),
    ("CCTL.IVALL", &["CCTL.IVALL"]),
    ("WARPSYNC", &["WARPSYNC"]),
    ("SYNCS", &["SYNCS"]),
    ("DEPBAR", &["DEPBAR", "LDGDEPBAR", "UTMACMDFLUSH"]),
    ("WARPGROUP", &["WARPGROUP"]),
];

type Counts = BTreeMap<&'static str, usize>;

pub fn run(args: &[String]) -> Result<(), String> {
    let sample = args.iter().any(|word| word == "--sample");
    let filter = args.iter().find(|word| !word.starts_with('-'));
    let modules: Vec<PathBuf> = corpus::modules()?
        .into_iter()
        .filter(|module| filter.is_none_or(|text| module.to_string_lossy().contains(text.as_str())))
        .step_by(if sample { 16 } else { 1 })
        .collect();
    let (ours, theirs) = (Assembler::parse("orias-O3")?, Assembler::parse("ptxas-O3")?);
    let compared = parallel::map(&modules, |module| -> Result<_, String> {
        let failed = |error: String| format!("{}: {error}", module.display());
        let text = std::fs::read_to_string(module).map_err(|error| failed(error.to_string()))?;
        let Ok(own) = ours.assemble(&text) else {
            return Ok(None);
        };
        let own = count(&own).map_err(failed)?;
        let other = theirs.assemble(&text).map_err(failed)?;
        Ok(Some((own, count(&other).map_err(failed)?)))
    });
    let (mut sums, mut more, mut refused) = ([Counts::new(), Counts::new()], 0, 0);
    for (module, result) in modules.iter().zip(compared) {
        let name = module.file_stem().unwrap_or_default().to_string_lossy();
        let Some((own, other)) = result? else {
            refused += 1;
            println!("{name}: not compiled");
            continue;
        };
        for (kind, _) in KINDS {
            let counts = [&own, &other].map(|counts| counts.get(kind).copied().unwrap_or(0));
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum.entry(kind).or_default() += count;
            }
            if counts[0] > counts[1] {
                more += 1;
                println!("{name}: {} {kind}, ptxas has {}", counts[0], counts[1]);
            }
        }
    }
    println!("| kind | here | ptxas |\n| --- | --- | --- |");
    for (kind, _) in KINDS {
        let [own, other] = [&sums[0], &sums[1]].map(|sum| sum.get(kind).copied().unwrap_or(0));
        println!("| {kind} | {own} | {other} |");
    }
    println!("{} modules, {refused} not compiled", modules.len());
    match more {
        0 if refused < modules.len() => Ok(()),
        _ => Err(format!("{more} counts are above ptxas's")),
    }
}

/// How often each kind stands in the code of a cubin.
fn count(cubin: &[u8]) -> Result<Counts, String> {
    let cubin = Cubin::read(cubin).map_err(|error| error.to_string())?;
    let mut counts = Counts::new();
    for function in cubin.functions() {
        for word in function.code.chunks_exact(16) {
            let word = word.try_into().map_or(0, u128::from_le_bytes);
            let instruction = decode(word, Target::Sm90a).map_err(|error| error.to_string())?;
            let text = orias_sass::text::print_instruction(&instruction, 0);
            let words = &mut text.split_whitespace();
            let mnemonic = words.find(|word| !word.starts_with('@')).unwrap_or_default();
            let kind = KINDS.iter().find(|(_, starts)| {
                let begins = |start: &&str| mnemonic.starts_with(*start);
                starts.iter().any(begins)
            });
            if let Some((kind, _)) = kind {
                *counts.entry(kind).or_default() += 1;
            }
        }
    }
    Ok(counts)
}
