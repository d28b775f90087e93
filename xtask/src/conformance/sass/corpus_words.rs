//! Everything ptxas emits: text, decode → encode, and disassemble → assemble, instruction by instruction.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use orias_sass::text::{Printer, parse_instruction};
use orias_sass::{Instruction, Op, Target, decode, encode};

use super::coverage::{self, Seen};
use super::flips;
use super::listing;
use super::nvdisasm::{self, Answer, Line, Listing};
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
        level: "-O1",
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
    /// Lines of whole listings.
    lines: usize,
    /// Distinct words that decode, by target.
    distinct: BTreeMap<&'static str, BTreeSet<u128>>,
    /// Cubins compared by their words.
    cubins_by_words: usize,
    /// How often each form was seen.
    forms: BTreeMap<(Op, u8), usize>,
    /// A few words of each operation and form.
    examples: BTreeMap<(Op, u8), Vec<u128>>,
    undecoded: Classes,
    texts: Classes,
    lines_differ: Classes,
    not_assembled: Classes,
    words: Classes,
    assembled: Classes,
}

impl Tally {
    /// Counts one compared instruction `times` over.
    fn repeat(&mut self, times: usize) {
        self.instructions *= times;
        self.text_equal *= times;
        self.relocated *= times;
        self.word_equal *= times;
        self.assembled_equal *= times;
        for count in self.forms.values_mut() {
            *count *= times;
        }
    }
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
    /// Write the page of the book.
    pub book: bool,
}

/// A cubin to compare by its whole listing: made by ptxas from a module, or found.
enum Job {
    Module(PathBuf, &'static Variant),
    Cubin(PathBuf),
}

/// Of the generated cubins, every so many are compared by their whole listing; of all of them, every word.
const LISTED_EXERCISES: usize = 40;

/// Words nvdisasm gets at once.
const WORDS_PER_CALL: usize = 40_000;

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
    let exercises: Vec<PathBuf> = found_cubins(&exercise::folder())
        .into_iter()
        .filter(|path| path.to_string_lossy().contains(filter))
        .collect();
    jobs.extend(
        exercises
            .iter()
            .step_by(LISTED_EXERCISES)
            .map(|path| Job::Cubin(path.clone())),
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
    let mut tally = total.into_inner().expect("no panics");
    let unlisted = exercises
        .iter()
        .enumerate()
        .filter(|(index, _)| index % LISTED_EXERCISES != 0)
        .map(|(_, path)| path.as_path());
    by_words(unlisted, &mut tally)?;
    print(&tally);
    if options.record {
        record(&tally)?;
    }
    if tally.instructions == 0 {
        return Err("there was nothing to compare".to_owned());
    }
    let equal = tally.text_equal + tally.relocated + tally.word_equal + tally.assembled_equal;
    if options.book {
        coverage::write(&Seen {
            listings: tally.listings + tally.cubins_by_words,
            instructions: tally.instructions,
            forms: &tally.forms,
            undecoded: &tally.undecoded,
        })?;
    }
    let mut wrong =
        tally.instructions * 3 - equal + tally.lines_differ.total() + tally.not_assembled.total();
    for (name, words) in &tally.distinct {
        let target = Target::from_name(name).ok_or("a target without a table")?;
        let flips = flips::run(words, target);
        flips.wrong.print("flipped words that do not come back");
        println!(
            "{name}: each bit of {} distinct words flipped: {} decode and encode back, {} are refused, {} do neither",
            flips.words,
            flips.back,
            flips.refused,
            flips.wrong.total()
        );
        wrong += flips.wrong.total();
    }
    if wrong == 0 {
        Ok(())
    } else {
        Err(format!("{wrong} comparisons differ"))
    }
}

/// Compares the distinct words of cubins, as raw words: nvdisasm takes longer to start than to print thousands. Every instruction
/// counts, however often its word occurs.
fn by_words<'a>(cubins: impl Iterator<Item = &'a Path>, tally: &mut Tally) -> Result<(), String> {
    let mut by_target: BTreeMap<&'static str, BTreeMap<u128, usize>> = BTreeMap::new();
    for path in cubins {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let cubin = orias_cubin::Cubin::read(&bytes)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let target = target_of_folder(path)?;
        let words = by_target.entry(target.name()).or_default();
        for function in cubin.functions() {
            for word in orias::words(function.code) {
                *words.entry(word).or_default() += 1;
            }
        }
        tally.cubins_by_words += 1;
    }
    for (target, words) in by_target {
        let target = Target::from_name(target).ok_or("a target without a table")?;
        let words: Vec<(u128, usize)> = words.into_iter().collect();
        for chunk in words.chunks(WORDS_PER_CALL) {
            let raw: Vec<u128> = chunk.iter().map(|(word, _)| *word).collect();
            for (index, (answer, (word, count))) in nvdisasm::raw(&raw, "SM90a")?
                .into_iter()
                .zip(chunk)
                .enumerate()
            {
                let line = Line {
                    section: String::new(),
                    address: index as u64 * 16,
                    word: *word,
                    text: match answer {
                        Answer::Text(text) => text,
                        Answer::Refused(reason) => format!("(nvdisasm refuses: {reason})"),
                    },
                };
                let mut one = Tally::default();
                compare(&line, &Listing::default(), target, &mut one);
                one.repeat(*count);
                merge(tally, one);
            }
        }
    }
    Ok(())
}

/// `cargo xtask exercise` puts cubins into a folder named after their target.
fn target_of_folder(path: &Path) -> Result<Target, String> {
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
    Target::from_name(&folder.to_string_lossy())
        .ok_or_else(|| format!("{}: its folder names no target", path.display()))
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
    let mut tally = Tally::default();
    let (cubin, kept, target) = match job {
        Job::Module(module, variant) => {
            let stem = module.file_stem().unwrap_or_default().to_string_lossy();
            let name = format!("{stem}.{}{}", variant.target, variant.level);
            let Some(cubin) = assembled(module, variant, &folder.join(&name), fresh)? else {
                tally.refused_by_ptxas = 1;
                return Ok(tally);
            };
            let target = Target::from_name(variant.target).ok_or("a target without a table")?;
            (cubin, folder.join(name + ".txt"), target)
        }
        Job::Cubin(path) => {
            let target = target_of_folder(path)?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let kept = folder.join(format!("exercise.{target}.{name}.txt"));
            (path.clone(), kept, target)
        }
    };
    let text = match std::fs::read_to_string(&kept) {
        Ok(text) if !fresh && !text.is_empty() => text,
        _ => {
            let text = nvdisasm::cubin(&cubin)?;
            std::fs::write(&kept, &text).map_err(|error| format!("{}: {error}", kept.display()))?;
            text
        }
    };
    tally.listings = 1;
    let compared = listing::compare(&cubin, &text)?;
    tally.lines = compared.lines;
    for (theirs, ours) in compared.differences {
        let name = cubin.file_name().unwrap_or_default().to_string_lossy();
        tally
            .lines_differ
            .add(name.into_owned(), || format!("{theirs}  ours: {ours}"));
    }
    if let Some(why) = compared.not_assembled {
        let name = cubin.file_name().unwrap_or_default().to_string_lossy();
        tally.not_assembled.add(name.into_owned(), || why);
    }
    let listing = nvdisasm::read(&text);
    for line in &listing.lines {
        compare(line, &listing, target, &mut tally);
    }
    Ok(tally)
}

/// The module's cubin, kept at `kept` with its extension; none if ptxas refuses the module for the target, which an empty file
/// remembers.
fn assembled(
    module: &Path,
    variant: &Variant,
    kept: &Path,
    fresh: bool,
) -> Result<Option<PathBuf>, String> {
    let mut path = kept.as_os_str().to_owned();
    path.push(".cubin");
    let path = PathBuf::from(path);
    let at = |error: std::io::Error| format!("{}: {error}", path.display());
    if fresh || !path.exists() {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        match call_ptxas(module, variant, folder.path())? {
            Some(cubin) => std::fs::copy(cubin, &path).map(|_| ()).map_err(at)?,
            None => std::fs::write(&path, b"").map_err(at)?,
        }
    }
    let size = std::fs::metadata(&path).map_err(at)?.len();
    Ok((size > 0).then_some(path))
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
    let output = oracle::bounded(&oracle::find("ptxas")?)
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
    tally
        .distinct
        .entry(target.name())
        .or_default()
        .insert(word);
    let form = (instruction.op(), instruction.form_index());
    *tally.forms.entry(form).or_default() += 1;
    let examples = tally.examples.entry(form).or_default();
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
    [
        "32@lo(",
        "32@hi(",
        "`(__cuda_syscall",
        "`(.nv.surfrefDescSize)",
    ]
    .iter()
    .any(|mark| text.contains(mark))
}

/// Words recorded per operation and form.
const RECORDED: usize = 3;

/// Keeps the smallest words by a scrambled order, so that the choice depends neither on threads nor on one module.
fn keep(examples: &mut Vec<u128>, word: u128) {
    let scramble = |word: &u128| {
        let folded = (word >> 64) as u64 ^ (*word as u64).rotate_left(17);
        folded.wrapping_mul(orias_random::GOLDEN_RATIO)
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
    total.lines += tally.lines;
    total.cubins_by_words += tally.cubins_by_words;
    for (form, count) in tally.forms {
        *total.forms.entry(form).or_default() += count;
    }
    for (key, words) in tally.examples {
        let examples = total.examples.entry(key).or_default();
        for word in words {
            keep(examples, word);
        }
    }
    for (target, words) in tally.distinct {
        total.distinct.entry(target).or_default().extend(words);
    }
    total.not_assembled.merge(tally.not_assembled);
    total.undecoded.merge(tally.undecoded);
    total.texts.merge(tally.texts);
    total.lines_differ.merge(tally.lines_differ);
    total.words.merge(tally.words);
    total.assembled.merge(tally.assembled);
}

fn print(tally: &Tally) {
    tally.undecoded.print("not decoded");
    tally.texts.print("text differs");
    tally.lines_differ.print("lines of listings that differ");
    tally
        .not_assembled
        .print("listings that do not assemble to the same bytes");
    tally.words.print("decode → encode differs");
    tally.assembled.print("disassemble → assemble differs");
    println!("operations seen, with counts:");
    let mut line = String::new();
    let mut operations: BTreeMap<Op, usize> = BTreeMap::new();
    for ((op, _), count) in &tally.forms {
        *operations.entry(*op).or_default() += count;
    }
    for (op, count) in &operations {
        let entry = format!("{op} {count}  ");
        if line.len() + entry.len() > 120 {
            println!("  {}", line.trim_end());
            line.clear();
        }
        line.push_str(&entry);
    }
    println!("  {}", line.trim_end());
    println!(
        "{} listings ({} module variants refused by ptxas) and {} cubins by their words, {} instructions of {} operations ({} \
         in the tables)",
        tally.listings,
        tally.refused_by_ptxas,
        tally.cubins_by_words,
        tally.instructions,
        operations.len(),
        Op::COUNT
    );
    println!(
        "{} lines of whole listings, {} differ; with control fields, {} of {} listings assemble to the same bytes",
        tally.lines,
        tally.lines_differ.total(),
        tally.listings - tally.not_assembled.total(),
        tally.listings
    );
    if tally.relocated > 0 {
        println!(
            "{} texts name a relocation that the word does not hold: the whole listings compare them",
            tally.relocated
        );
    }
    let percent = |count: usize| 100.0 * count as f64 / tally.instructions.max(1) as f64;
    for (what, count) in [
        ("text equal", tally.text_equal + tally.relocated),
        ("decode → encode equal", tally.word_equal),
        ("disassemble → assemble equal", tally.assembled_equal),
    ] {
        println!("{what}: {count} ({:.3} %)", percent(count));
    }
}
