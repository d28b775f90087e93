//! `conformance emitted [--sample] [--top N] [FILTER]`: which instructions of ptxas's are of forms that we emit, too.
//!
//! Every module of the corpora is compiled by ptxas -O3 and here at -O3. An instruction's *operation* is a row of the instruction tables, its *form* the
//! operation with the kinds of its operands (register, uniform register, number, constant bank) as the encoding tells them apart, its *variant* the form
//! with modifiers. Of each corpus a line says how many of ptxas's instructions are of operations, forms and variants that we emit anywhere; then come the
//! variants that we never emit, the most frequent first (`--top`, 40 unless told otherwise), with how often they stand in ptxas's code of each corpus.
//!
//! Fails if fewer of ptxas's instructions are of forms that we emit than is held ([`HELD`]). A sample or a filter is only listed.

use super::corpus;
use crate::{parallel, programs};
use orias::{Options, Source, compile};
use orias_cubin::Cubin;
use orias_sass::{Instruction, Operand, RegisterClass, Target, decode};
use std::collections::{BTreeMap, BTreeSet};

/// The share of ptxas's instructions that are of operations, forms and variants of ours, held, in percent.
const HELD: [f64; 3] = [97.0, 90.0, 87.5];

const LEVELS: [&str; 3] = ["operations", "forms", "variants"];

/// How many variants are listed.
const TOP: usize = 40;

/// What an instruction is, from coarse to fine.
type Kind = [String; 3];

type Counts = BTreeMap<Kind, usize>;

pub fn run(args: &[String]) -> Result<(), String> {
    let (mut sample, mut top, mut filter) = (false, TOP, None);
    let mut words = args.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--sample" => sample = true,
            "--top" => {
                let number = words.next().and_then(|number| number.parse().ok());
                top = number.ok_or("--top wants a number")?;
            }
            flag if flag.starts_with('-') => return Err(format!("not understood: {flag}")),
            text => filter = Some(text),
        }
    }
    let modules = corpus::selected(filter.unwrap_or_default(), sample.then_some(16))?;
    let counted = parallel::map(&modules, |module| -> Result<_, String> {
        let failed = |error: String| format!("{}: {error}", module.display());
        let text = std::fs::read(module).map_err(|error| failed(error.to_string()))?;
        let other = programs::assemble_with(&text, &["-O3"]).map_err(failed)?;
        let own = compiled(&text)?;
        let own = own.map(|own| count(&own)).transpose().map_err(failed)?;
        Ok((own, count(&other).map_err(failed)?))
    });
    let mut ours: [BTreeSet<String>; 3] = Default::default();
    let mut theirs: BTreeMap<String, Counts> = BTreeMap::new();
    let mut refused = 0;
    for (module, result) in modules.iter().zip(counted) {
        let (own, other) = result?;
        refused += usize::from(own.is_none());
        for kind in own.unwrap_or_default().into_keys() {
            for (set, name) in ours.iter_mut().zip(kind) {
                set.insert(name);
            }
        }
        let folder = module.parent().and_then(|folder| folder.file_name());
        let corpus = folder.unwrap_or_default().to_string_lossy().into_owned();
        let counts = theirs.entry(corpus).or_default();
        for (kind, count) in other {
            *counts.entry(kind).or_default() += count;
        }
    }
    let shares = report(&ours, &theirs, top);
    println!("{} modules, {refused} not compiled", modules.len());
    let whole = !sample && filter.is_none();
    let short = shares.iter().zip(HELD).any(|(share, held)| *share < held);
    match whole && short {
        true => Err(format!("held are {HELD:?} percent")),
        false => Ok(()),
    }
}

/// Prints the shares of each corpus and what is missing; returns the shares of all, in percent.
fn report(ours: &[BTreeSet<String>; 3], theirs: &BTreeMap<String, Counts>, top: usize) -> [f64; 3] {
    println!("| corpus | instructions | {} |", LEVELS.join(" | "));
    println!("| --- | --: | --: | --: | --: |");
    let mut all = (0, [0; 3]);
    let line = |name: &str, (whole, found): (usize, [usize; 3])| {
        let shares = found.map(|found| 100.0 * found as f64 / whole.max(1) as f64);
        let texts = shares.map(|share| format!("{share:.2} %"));
        println!("| {name} | {whole} | {} |", texts.join(" | "));
        shares
    };
    let mut missing: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for (corpus, counts) in theirs {
        let mut here = (0, [0; 3]);
        for (kind, count) in counts {
            here.0 += count;
            for ((set, name), found) in ours.iter().zip(kind).zip(&mut here.1) {
                *found += if set.contains(name) { *count } else { 0 };
            }
            if !ours[2].contains(&kind[2]) {
                missing.entry(&kind[2]).or_default().push((corpus, *count));
            }
        }
        line(corpus, here);
        all.0 += here.0;
        for (sum, found) in all.1.iter_mut().zip(here.1) {
            *sum += found;
        }
    }
    let shares = line("all", all);
    let mut missing: Vec<_> = missing.into_iter().collect();
    missing
        .sort_by_key(|(_, places)| std::cmp::Reverse(places.iter().map(|it| it.1).sum::<usize>()));
    println!("\n| not emitted | instructions | where |\n| --- | --: | --- |");
    for (name, places) in missing.iter().take(top) {
        let sum: usize = places.iter().map(|it| it.1).sum();
        let places: Vec<String> = (places.iter())
            .map(|(corpus, count)| format!("{corpus} {count}"))
            .collect();
        println!("| `{name}` | {sum} | {} |", places.join(", "));
    }
    println!("{} variants are not emitted", missing.len());
    shares
}

/// The module as we compile it; none if we do not.
fn compiled(text: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let options = Options {
        target: orias::Target::parse("sm_90a").ok_or("sm_90a is no target")?,
        ..Options::default()
    };
    let source = Source {
        name: "module",
        text,
    };
    let compiled = compile(&source, &options).ok();
    Ok(compiled.and_then(|compiled| compiled.cubin))
}

/// How often each kind of instruction stands in the code of a cubin. What fills the end of a function does not count.
fn count(cubin: &[u8]) -> Result<Counts, String> {
    let cubin = Cubin::read(cubin).map_err(|error| error.to_string())?;
    let mut counts = Counts::new();
    for function in cubin.functions() {
        for word in function.code.chunks_exact(16) {
            let word = word.try_into().map_or(0, u128::from_le_bytes);
            let instruction = decode(word, Target::Sm90a).map_err(|error| error.to_string())?;
            let kind = kind(&instruction);
            if kind[0] != "NOP" {
                *counts.entry(kind).or_default() += 1;
            }
        }
    }
    Ok(counts)
}

/// Operation, form and variant of an instruction.
fn kind(instruction: &Instruction) -> Kind {
    let text = orias_sass::text::print_instruction(instruction, 0);
    let mut words = text.split_whitespace();
    let mnemonic = words
        .find(|word| !word.starts_with('@'))
        .unwrap_or_default()
        .trim_end_matches(';');
    let operation = instruction.op().name().to_owned();
    let operands: Vec<&str> = instruction.operands().iter().map(shape).collect();
    let operands = operands.join(", ");
    [
        operation.clone(),
        format!("{operation} {operands}"),
        format!("{mnemonic} {operands}"),
    ]
}

/// The kind of an operand, as encodings tell it apart.
fn shape(operand: &Operand) -> &'static str {
    match operand {
        Operand::Register(it) => match it.register.class {
            RegisterClass::R => "R",
            RegisterClass::UR => "UR",
            RegisterClass::P => "P",
            RegisterClass::UP => "UP",
            RegisterClass::B => "B",
        },
        Operand::Immediate(_) => "imm",
        Operand::Constant(it) if it.index.is_some() => "c[R]",
        Operand::Constant(_) => "c[]",
        Operand::Address(it) if it.descriptor.is_some() => "desc[R]",
        Operand::Address(it) if it.uniform.is_some() => "[R+UR]",
        Operand::Address(_) => "[R]",
        Operand::Descriptor(_) => "gdesc",
        Operand::Target(_) => "label",
        Operand::Special(_) => "SR",
    }
}
