//! `conformance counts [--sample] [FILTER]`: nothing waits, fences or reports errors more often than in ptxas's code.
//!
//! Every module of the corpus is compiled by ptxas -O3 and here at -O3, and what synchronises is counted by kind ([`KINDS`]), as it stands in the
//! code. Copies that LoopUnrolling makes of a loop do not wait more often: a module that has more of a kind is compiled again without it, and fails if
//! it still has more.
//!
//! What is known to be more is listed with its reason ([`KNOWN`]).

use super::corpus;
use crate::{parallel, programs};
use orias::{Options, Source, compile};
use orias_cubin::Cubin;
use orias_sass::{Target, decode};
use std::collections::BTreeMap;

/// What is counted: a name, and how mnemonics of the kind begin.
const KINDS: [(&str, &[&str]); 8] = [
    ("BAR", &["BAR.", "BARRIER", "UCGABAR", "B2R"]),
    ("MEMBAR", &["MEMBAR"]),
    ("FENCE", &["FENCE"]),
    ("ERRBAR", &["ERRBAR", "CGAERRBAR"]),
    ("CCTL.IVALL", &["CCTL.IVALL"]),
    ("WARPSYNC", &["WARPSYNC"]),
    ("SYNCS", &["SYNCS"]),
    ("DEPBAR", &["DEPBAR", "LDGDEPBAR", "UTMACMDFLUSH"]),
];

/// What may be more: module, kind and why.
const KNOWN: [(&str, &str, &str); 5] = [
    (
        "async_pipe",
        "WARPSYNC",
        "lanes that update one place find each other by MATCH, and meet for it",
    ),
    ("barriers", "WARPSYNC", BLOCK_BY_BLOCK),
    ("reg_pressure", "WARPSYNC", BLOCK_BY_BLOCK),
    (
        "calls_abi",
        "WARPSYNC",
        "functions are inlined, with one for each copy of a shuffle",
    ),
    (
        "locks_atomics",
        "CCTL.IVALL",
        "a wide update that acquires at an address of any space drops the cache on both of its ways",
    ),
];

const BLOCK_BY_BLOCK: &str = "every block of an arm brings its lanes together, ptxas's arms stay together until a branch parts them";

type Counts = BTreeMap<&'static str, usize>;

pub fn run(args: &[String]) -> Result<(), String> {
    let sample = args.iter().any(|word| word == "--sample");
    let filter = args.iter().find(|word| !word.starts_with('-'));
    let filter = filter.map_or("", String::as_str);
    let modules = corpus::selected(filter, sample.then_some(16))?;
    let compared = parallel::map(&modules, |module| -> Result<_, String> {
        let failed = |error: String| format!("{}: {error}", module.display());
        let text = std::fs::read(module).map_err(|error| failed(error.to_string()))?;
        let Some(own) = compiled(&text, true)? else {
            return Ok(None);
        };
        let own = count(&own).map_err(failed)?;
        let other = programs::assemble_with(&text, &["-O3"]).map_err(failed)?;
        let other = count(&other).map_err(failed)?;
        let rolled = match KINDS.iter().any(|(kind, _)| more(&own, &other, kind)) {
            false => own.clone(),
            true => match compiled(&text, false)? {
                Some(rolled) => count(&rolled).map_err(failed)?,
                None => own.clone(),
            },
        };
        Ok(Some((own, rolled, other)))
    });
    let (mut sums, mut above, mut refused) = ([Counts::new(), Counts::new()], 0, 0);
    for (module, result) in modules.iter().zip(compared) {
        let name = module.file_stem().unwrap_or_default().to_string_lossy();
        let Some((own, rolled, other)) = result? else {
            refused += 1;
            println!("{name}: not compiled");
            continue;
        };
        for (kind, _) in KINDS {
            let counts = [&own, &other].map(|counts| counts.get(kind).copied().unwrap_or(0));
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum.entry(kind).or_default() += count;
            }
            if !more(&own, &other, kind) {
                continue;
            }
            let [here, there] = counts;
            let still = rolled.get(kind).copied().unwrap_or(0);
            let known = KNOWN
                .iter()
                .find(|(module, it, _)| *module == name && *it == kind);
            match known {
                _ if still <= there => {
                    println!(
                        "{name}: {here} {kind}, {still} but for copies of loops, ptxas has {there}"
                    );
                }
                Some((.., why)) => {
                    println!("{name}: {still} {kind}, ptxas has {there} (known: {why})")
                }
                None => {
                    above += 1;
                    println!("{name}: {still} {kind}, ptxas has {there}");
                }
            }
        }
    }
    println!("| kind | here | ptxas |\n| --- | --- | --- |");
    for (kind, _) in KINDS {
        let [own, other] = [&sums[0], &sums[1]].map(|sum| sum.get(kind).copied().unwrap_or(0));
        println!("| {kind} | {own} | {other} |");
    }
    println!("{} modules, {refused} not compiled", modules.len());
    match above {
        0 if refused < modules.len() => Ok(()),
        _ => Err(format!("{above} counts are above ptxas's")),
    }
}

/// Whether ours has more of a kind.
fn more(ours: &Counts, theirs: &Counts, kind: &str) -> bool {
    ours.get(kind) > theirs.get(kind)
}

/// The module as we compile it, with or without copies of loops; none if we do not.
fn compiled(text: &[u8], unrolled: bool) -> Result<Option<Vec<u8>>, String> {
    let mut options = Options {
        target: orias::Target::parse("sm_90a").ok_or("sm_90a is no target")?,
        ..Options::default()
    };
    if !unrolled {
        let set = options.knobs.set("LoopUnrolling=off");
        set.map_err(|error| error.to_string())?;
    }
    let source = Source {
        name: "module",
        text,
    };
    Ok(compile(&source, &options)
        .ok()
        .and_then(|compiled| compiled.cubin))
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
            let mnemonic = words
                .find(|word| !word.starts_with('@'))
                .unwrap_or_default();
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
