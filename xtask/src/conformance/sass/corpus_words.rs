//! Everything ptxas emits: text, decode → encode, and disassemble → assemble, instruction by instruction.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use orias_sass::text::{Printer, parse_instruction};
use orias_sass::{Instruction, Op, Target, decode, encode};

use super::nvdisasm::{self, Line, Listing};
use super::report::Classes;
use crate::{exercise, oracle};

/// A way of calling ptxas.
struct Variant {
    target: &'static str,
    level: &'static str,
}

const VARIANTS: &[Variant] = &[
    Variant {
        target: "sm_90a",
        level: "-O3",
    },
    Variant {
        target: "sm_90a",
        level: "-O1",
    },
    Variant {
        target: "sm_90a",
        level: "-O0",
    },
    Variant {
        target: "sm_90",
        level: "-O3",
    },
    Variant {
        target: "sm_90",
        level: "-O0",
    },
];

/// What was compared.
#[derive(Default)]
struct Tally {
    listings: usize,
    refused_by_ptxas: usize,
    instructions: usize,
    text_equal: usize,
    /// Texts in which nvdisasm names the symbol of a relocation where the word holds zero: the word alone does not say it.
    relocated: usize,
    word_equal: usize,
    assembled_equal: usize,
    operations: BTreeMap<Op, usize>,
    /// A few words of each operation and form.
    examples: BTreeMap<(Op, u8), Vec<u128>>,
    undecoded: Classes,
    texts: Classes,
    words: Classes,
    assembled: Classes,
}

/// What to do besides comparing.
#[derive(Clone, Copy)]
pub struct Options {
    /// One way of calling ptxas only.
    pub sample: bool,
    /// Make listings anew.
    pub fresh: bool,
    /// Write recorded words.
    pub record: bool,
}

/// A cubin to compare: made by ptxas from a module, or found.
enum Job {
    Module(PathBuf, &'static Variant),
    Cubin(PathBuf),
}

/// Compares everything; fails on any difference.
pub fn run(
    modules: &[PathBuf],
    filter: &str,
    folder: &Path,
    options: Options,
) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let variants = if options.sample {
        &VARIANTS[..1]
    } else {
        VARIANTS
    };
    let mut jobs: Vec<Job> = variants
        .iter()
        .flat_map(|variant| {
            modules
                .iter()
                .map(move |module| Job::Module(module.clone(), variant))
        })
        .collect();
    let exercises = found_cubins(&exercise::folder());
    jobs.extend(
        exercises
            .into_iter()
            .filter(|path| path.to_string_lossy().contains(filter))
            .map(Job::Cubin),
    );
    let next = AtomicUsize::new(0);
    let total = Mutex::new(Tally::default());
    let failure = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get().min(2)) {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match one(job, folder, options.fresh) {
                        Ok(tally) => merge(&mut total.lock().expect("no panics"), tally),
                        Err(error) => {
                            failure.lock().expect("no panics").get_or_insert(error);
                            break;
                        }
                    }
                }
            });
        }
    });
    if let Some(error) = failure.into_inner().expect("no panics") {
        return Err(error);
    }
    let tally = total.into_inner().expect("no panics");
    print(&tally);
    if options.record {
        record(&tally)?;
    }
    if tally.instructions == 0 {
        return Err("there was nothing to compare".to_owned());
    }
    let equal = tally.text_equal + tally.relocated + tally.word_equal + tally.assembled_equal;
    let wrong = tally.instructions * 3 - equal;
    if wrong == 0 {
        Ok(())
    } else {
        Err(format!("{wrong} comparisons differ"))
    }
}

fn found_cubins(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "cubin")
            {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn one(job: &Job, folder: &Path, fresh: bool) -> Result<Tally, String> {
    let (listing, target) = match job {
        Job::Module(module, variant) => {
            let stem = module.file_stem().unwrap_or_default().to_string_lossy();
            let kept = folder.join(format!("{stem}.{}{}.txt", variant.target, variant.level));
            let target = Target::from_name(variant.target).ok_or("a target without a table")?;
            let text = match std::fs::read_to_string(&kept) {
                Ok(text) if !fresh => text,
                _ => {
                    let text = assemble(module, variant)?.unwrap_or_default();
                    std::fs::write(&kept, &text)
                        .map_err(|error| format!("{}: {error}", kept.display()))?;
                    text
                }
            };
            (text, target)
        }
        Job::Cubin(path) => (nvdisasm::cubin(path)?, Target::Sm90a),
    };
    let mut tally = Tally::default();
    if listing.is_empty() {
        tally.refused_by_ptxas = 1;
        return Ok(tally);
    }
    tally.listings = 1;
    let listing = nvdisasm::read(&listing);
    for line in &listing.lines {
        compare(line, &listing, target, &mut tally);
    }
    Ok(tally)
}

/// What nvdisasm prints for the module; nothing if ptxas refuses it for the target.
fn assemble(module: &Path, variant: &Variant) -> Result<Option<String>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    match call_ptxas(module, variant, folder.path())? {
        Some(cubin) => nvdisasm::cubin(&cubin).map(Some),
        None => Ok(None),
    }
}

/// The module's cubin at -O3 for sm_90a, in `folder`; none if ptxas refuses it.
pub fn assemble_to(module: &Path, folder: &Path) -> Result<Option<PathBuf>, String> {
    call_ptxas(module, &VARIANTS[0], folder)
}

fn call_ptxas(module: &Path, variant: &Variant, folder: &Path) -> Result<Option<PathBuf>, String> {
    let ptx = folder.join("module.ptx");
    let cubin = folder.join("module.cubin");
    let text = std::fs::read_to_string(module)
        .map_err(|error| format!("{}: {error}", module.display()))?;
    let text = text.replacen(".target sm_90a", &format!(".target {}", variant.target), 1);
    std::fs::write(&ptx, text).map_err(|error| error.to_string())?;
    let output = Command::new(oracle::find("ptxas")?)
        .arg(format!("-arch={}", variant.target))
        .arg(variant.level)
        .arg(&ptx)
        .arg("-o")
        .arg(&cubin)
        .output()
        .map_err(|error| error.to_string())?;
    Ok(output.status.success().then_some(cubin))
}

fn compare(line: &Line, listing: &Listing, target: Target, tally: &mut Tally) {
    tally.instructions += 1;
    let word = line.word;
    let shown = || {
        format!(
            "{:016x}_{:016x}  {}",
            (word >> 64) as u64,
            word as u64,
            line.text
        )
    };
    let instruction = match decode(word, target) {
        Ok(instruction) => instruction,
        Err(error) => {
            let mnemonic = mnemonic(&line.text);
            tally
                .undecoded
                .add(format!("{mnemonic} ({:03x}): {error}", word & 0xfff), shown);
            return;
        }
    };
    *tally.operations.entry(instruction.op()).or_default() += 1;
    let examples = tally
        .examples
        .entry((instruction.op(), instruction.form_index()))
        .or_default();
    keep(examples, word);
    match encode(&instruction) {
        Ok(back) if back == word => tally.word_equal += 1,
        other => tally.words.add(instruction.op().name().to_owned(), || {
            format!("{} → {other:x?}", shown())
        }),
    }
    if text_equal(&instruction, line, listing) {
        tally.text_equal += 1;
    } else if names_relocation(&line.text) {
        tally.relocated += 1;
    } else {
        let ours = nvdisasm::normalize(&orias_sass::text::print_instruction(
            &instruction,
            line.address,
        ));
        tally.texts.add(instruction.op().name().to_owned(), || {
            format!("{}  ours: {ours}", shown())
        });
    }
    let mut text = instruction.control.to_string();
    text.push(' ');
    Printer { exact: true }.write(&mut text, &instruction, line.address, |_| None);
    text.push_str(" ;");
    let assembled = parse_instruction(&text, line.address, target)
        .map_err(|error| error.to_string())
        .and_then(|parsed| encode(&parsed.instruction).map_err(|error| error.to_string()));
    match assembled {
        Ok(back) if back == word => tally.assembled_equal += 1,
        other => tally.assembled.add(instruction.op().name().to_owned(), || {
            format!("{text} → {other:x?}")
        }),
    }
}

/// Whether nvdisasm prints a relocation in place of an operand: half of an address (`32@lo((k + .L_x_0@srel))`), or a function
/// outside the cubin.
fn names_relocation(text: &str) -> bool {
    text.contains(" 32@lo(") || text.contains(" 32@hi(") || text.contains("`(__cuda_syscall")
}

/// Words recorded per operation and form.
const RECORDED: usize = 3;

/// Keeps the smallest words by a scrambled order, so that the choice depends neither on threads nor on one module.
fn keep(examples: &mut Vec<u128>, word: u128) {
    let scramble = |word: &u128| {
        let folded = (word >> 64) as u64 ^ (*word as u64).rotate_left(17);
        folded.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    if examples.contains(&word) {
        return;
    }
    examples.push(word);
    examples.sort_by_key(scramble);
    examples.truncate(RECORDED);
}

/// Writes the examples with what nvdisasm prints for them as raw words.
fn record(tally: &Tally) -> Result<(), String> {
    let words: Vec<u128> = tally.examples.values().flatten().copied().collect();
    let answers = nvdisasm::raw(&words, "SM90a")?;
    let mut out = String::from(
        "# Words ptxas 13.0.88 emitted, and what nvdisasm 13.2.51 prints for them: address, word, text.\n\
         # Written by `cargo xtask conformance sass --record`.\n",
    );
    for (index, (word, answer)) in words.iter().zip(answers).enumerate() {
        if let nvdisasm::Answer::Text(text) = answer {
            out.push_str(&format!(
                "{:04x} {:016x}_{:016x} {text}\n",
                index * 16,
                (word >> 64) as u64,
                *word as u64
            ));
        }
    }
    let path = oracle::repository().join("crates/sass/tests/words.txt");
    std::fs::write(&path, out).map_err(|error| format!("{}: {error}", path.display()))
}

/// The mnemonic's first component, after a guard.
fn mnemonic(text: &str) -> &str {
    text.split_whitespace()
        .find(|word| !word.starts_with('@'))
        .and_then(|word| word.split('.').next())
        .unwrap_or_default()
}

/// Whether our text is nvdisasm's, with one of its names for the target.
fn text_equal(instruction: &Instruction, line: &Line, listing: &Listing) -> bool {
    let target = instruction
        .target()
        .map(|distance| (line.address as i64 + 16 + distance) as u64);
    let names = target
        .and_then(|address| listing.labels.get(&(line.section.clone(), address)))
        .map_or(&[][..], Vec::as_slice);
    let mut candidates: Vec<Option<&str>> = names.iter().map(|name| Some(name.as_str())).collect();
    candidates.push(None);
    candidates.into_iter().any(|name| {
        let mut ours = String::new();
        Printer::default().write(&mut ours, instruction, line.address, |_| name);
        nvdisasm::normalize(&ours) == line.text
    })
}

fn merge(total: &mut Tally, tally: Tally) {
    total.listings += tally.listings;
    total.refused_by_ptxas += tally.refused_by_ptxas;
    total.instructions += tally.instructions;
    total.text_equal += tally.text_equal;
    total.relocated += tally.relocated;
    total.word_equal += tally.word_equal;
    total.assembled_equal += tally.assembled_equal;
    for (op, count) in tally.operations {
        *total.operations.entry(op).or_default() += count;
    }
    for (key, words) in tally.examples {
        let examples = total.examples.entry(key).or_default();
        for word in words {
            keep(examples, word);
        }
    }
    total.undecoded.merge(tally.undecoded);
    total.texts.merge(tally.texts);
    total.words.merge(tally.words);
    total.assembled.merge(tally.assembled);
}

fn print(tally: &Tally) {
    tally.undecoded.print("not decoded");
    tally.texts.print("text differs");
    tally.words.print("decode → encode differs");
    tally.assembled.print("disassemble → assemble differs");
    println!("operations seen, with counts:");
    let mut line = String::new();
    for (op, count) in &tally.operations {
        let entry = format!("{op} {count}  ");
        if line.len() + entry.len() > 120 {
            println!("  {}", line.trim_end());
            line.clear();
        }
        line.push_str(&entry);
    }
    println!("  {}", line.trim_end());
    println!(
        "{} listings ({} module variants refused by ptxas), {} instructions of {} operations ({} in the tables)",
        tally.listings,
        tally.refused_by_ptxas,
        tally.instructions,
        tally.operations.len(),
        Op::COUNT
    );
    if tally.relocated > 0 {
        println!(
            "{} texts name a relocation that the word does not hold",
            tally.relocated
        );
    }
    let percent = |count: usize| 100.0 * count as f64 / tally.instructions.max(1) as f64;
    for (what, count) in [
        ("text equal", tally.text_equal),
        ("decode → encode equal", tally.word_equal),
        ("disassemble → assemble equal", tally.assembled_equal),
    ] {
        println!("{what}: {count} ({:.3} %)", percent(count));
    }
}
