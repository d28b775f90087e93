//! Cubins: what ptxas writes comes back from our reader and writer byte for byte.
//!
//! Every module of the corpus is assembled by ptxas in every way of [`VARIANTS`]. Each cubin is read and written; the bytes must be
//! equal. Because the model may record a placement or a name's offset that its rules do not give, those are counted: they must be
//! the ones `docs/cubin.md` names. Attributes without a name and payloads that stayed raw are listed. Then bits of the cubins are
//! flipped and their ends cut off: the reader must refuse or give a model that is written back as it was. Those variants that our
//! builder can make are taken apart and built again ([`rebuild`]).

mod rebuild;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use orias_cubin::attribute::{self, Value};
use orias_cubin::{Body, Cubin, Extent, Placement, derive_segments, elf};

use super::corpus;
use crate::{exercise, oracle};

/// A way of calling ptxas.
struct Variant {
    name: &'static str,
    /// The target that replaces the module's own.
    target: &'static str,
    options: &'static [&'static str],
    /// Modules larger than this are left out, to keep the run short.
    max_ptx: u64,
    /// Whether our builder can make what this gives.
    rebuild: bool,
}

const ANY_SIZE: u64 = u64::MAX;
const SMALL: u64 = 60_000;

#[rustfmt::skip]
const VARIANTS: &[Variant] = &[
    Variant { name: "-O3", target: "sm_90a", options: &["-O3"], max_ptx: ANY_SIZE, rebuild: true },
    Variant { name: "-O0", target: "sm_90a", options: &["-O0"], max_ptx: ANY_SIZE, rebuild: true },
    Variant { name: "-lineinfo", target: "sm_90a", options: &["-O3", "-lineinfo"], max_ptx: SMALL, rebuild: false },
    Variant { name: "-g", target: "sm_90a", options: &["-g"], max_ptx: SMALL, rebuild: false },
    Variant { name: "-c", target: "sm_90a", options: &["-c"], max_ptx: SMALL, rebuild: false },
    Variant { name: "-c -g", target: "sm_90a", options: &["-c", "-g"], max_ptx: SMALL, rebuild: false },
    Variant { name: "-c -lineinfo", target: "sm_90a", options: &["-c", "-lineinfo"], max_ptx: SMALL, rebuild: false },
    Variant { name: "-ewp", target: "sm_90a", options: &["-ewp"], max_ptx: SMALL, rebuild: false },
    Variant { name: "-pic false", target: "sm_90a", options: &["-pic", "false"], max_ptx: SMALL, rebuild: false },
    Variant { name: "--preserve-relocs", target: "sm_90a", options: &["--preserve-relocs"], max_ptx: SMALL, rebuild: false },
    Variant { name: "--device-stack-protector", target: "sm_90a", options: &["--device-stack-protector", "true"], max_ptx: SMALL, rebuild: false },
    Variant { name: "--compiler-annotations", target: "sm_90a", options: &["--compiler-annotations"], max_ptx: SMALL, rebuild: false },
    Variant { name: "-O3", target: "sm_90", options: &["-O3"], max_ptx: SMALL, rebuild: true },
    Variant { name: "-O0 -c", target: "sm_90", options: &["-O0", "-c"], max_ptx: SMALL, rebuild: false },
    Variant { name: "-O3", target: "sm_80", options: &["-O3"], max_ptx: SMALL, rebuild: false },
    Variant { name: "-g", target: "sm_75", options: &["-g"], max_ptx: SMALL, rebuild: false },
    Variant { name: "-O3", target: "sm_100a", options: &["-O3"], max_ptx: SMALL, rebuild: false },
    Variant { name: "-c -g", target: "sm_120a", options: &["-c", "-g"], max_ptx: SMALL, rebuild: false },
];

/// What one variant showed.
#[derive(Default)]
struct Tally {
    cubins: usize,
    refused_by_ptxas: usize,
    bytes: usize,
    equal: usize,
    unequal: Vec<String>,
    /// Models that say where something lies in a way the rules do not give, by what it is.
    irregular: BTreeMap<String, usize>,
    /// Attributes, relocations and section types without a name, and payloads that stayed raw.
    unnamed: BTreeMap<String, usize>,
    mutants: usize,
    mutants_read: usize,
    mutants_wrong: Vec<String>,
    rebuilt: usize,
    not_rebuilt: BTreeMap<String, usize>,
    rebuilt_wrong: Vec<String>,
}

/// `cargo xtask conformance cubin [FILTER [COUNT]]`: all modules, or those whose path contains FILTER; all variants, or the first
/// COUNT. Then the cubins that `cargo xtask exercise` left, if it ran.
///
/// `cargo xtask conformance cubin FOLDER`: the cubins below a folder, whoever made them.
pub fn run(args: &[String]) -> Result<(), String> {
    let filter = args.first().map_or("", String::as_str);
    if Path::new(filter).is_dir() {
        return finish(report("", filter, &try_cubins(Path::new(filter))?));
    }
    let count = match args.get(1) {
        Some(count) => count
            .parse()
            .map_err(|_| format!("'{count}' is not a number of variants"))?,
        None => VARIANTS.len(),
    };
    let modules = corpus::selected(filter, None)?;
    let ptxas = oracle::find("ptxas")?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    println!("{} modules", modules.len());
    let mut failures = 0;
    for variant in VARIANTS.iter().take(count) {
        let tally = try_variant(variant, &modules, &ptxas, folder.path())?;
        failures += report(variant.target, variant.name, &tally);
    }
    let exercises = exercise::folder();
    if filter.is_empty() && exercises.is_dir() {
        failures += report("", "exercises", &try_cubins(&exercises)?);
    }
    finish(failures)
}

fn finish(failures: usize) -> Result<(), String> {
    match failures {
        0 => Ok(()),
        count => Err(format!("{count} cubins came back wrong")),
    }
}

/// Prints what was seen. Gives the number of things that are wrong.
fn report(target: &str, name: &str, tally: &Tally) -> usize {
    println!(
        "{target:<8} {name:<26} {:>4} cubins ({} refused by ptxas), {:>9} bytes: {} equal; {} mutants, {} read, {} wrong",
        tally.cubins,
        tally.refused_by_ptxas,
        tally.bytes,
        tally.equal,
        tally.mutants,
        tally.mutants_read,
        tally.mutants_wrong.len(),
    );
    let tried = tally.rebuilt + tally.not_rebuilt.values().sum::<usize>();
    if tried + tally.rebuilt_wrong.len() > 0 {
        println!(
            "    {} built again by us and accepted by readelf, cuobjdump and nvdisasm",
            tally.rebuilt
        );
    }
    for (what, count) in &tally.not_rebuilt {
        println!("    {count} not built again: {what}");
    }
    for (what, count) in tally.irregular.iter().chain(&tally.unnamed) {
        println!("    {count} × {what}");
    }
    let wrong = [&tally.unequal, &tally.mutants_wrong, &tally.rebuilt_wrong];
    for wrong in wrong.iter().flat_map(|list| list.iter().take(10)) {
        println!("    WRONG {wrong}");
    }
    wrong.iter().map(|list| list.len()).sum()
}

/// Reads and writes the cubins below a folder.
fn try_cubins(folder: &Path) -> Result<Tally, String> {
    let tally = Mutex::new(Tally::default());
    let temporary = tempfile::tempdir().map_err(|error| error.to_string())?;
    for path in corpus::files(folder, "cubin")? {
        let file = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.display().to_string();
        try_cubin(&file, &name, false, temporary.path(), &tally)?;
    }
    tally.into_inner().map_err(|error| error.to_string())
}

fn try_variant(
    variant: &Variant,
    modules: &[PathBuf],
    ptxas: &Path,
    folder: &Path,
) -> Result<Tally, String> {
    let tally = Mutex::new(Tally::default());
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|worker| {
                let (tally, next) = (&tally, &next);
                let folder = folder.join(worker.to_string());
                scope.spawn(move || -> Result<(), String> {
                    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
                    while let Some(module) = modules.get(next.fetch_add(1, Ordering::Relaxed)) {
                        try_module(variant, module, ptxas, &folder, tally)?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| "a worker panicked".to_owned())?)
    })?;
    tally.into_inner().map_err(|error| error.to_string())
}

/// The module's text for another target: what ptxas then refuses is counted, not judged.
fn retarget(text: &str, target: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for line in &mut lines {
        if line.trim_start().starts_with(".target") {
            *line = line.replace("sm_90a", target);
        }
    }
    lines.join("\n") + "\n"
}

fn try_module(
    variant: &Variant,
    module: &Path,
    ptxas: &Path,
    folder: &Path,
    tally: &Mutex<Tally>,
) -> Result<(), String> {
    let text = std::fs::read_to_string(module)
        .map_err(|error| format!("{}: {error}", module.display()))?;
    if text.len() as u64 > variant.max_ptx {
        return Ok(());
    }
    let input = folder.join("module.ptx");
    let output = folder.join("module.cubin");
    std::fs::write(&input, retarget(&text, variant.target)).map_err(|error| error.to_string())?;
    let status = oracle::bounded(ptxas)
        .arg(format!("-arch={}", variant.target))
        .args(variant.options)
        .arg("-o")
        .arg(&output)
        .arg(&input)
        .output()
        .map_err(|error| format!("{}: {error}", ptxas.display()))?;
    if !status.status.success() {
        tally
            .lock()
            .map_err(|error| error.to_string())?
            .refused_by_ptxas += 1;
        return Ok(());
    }
    let file = std::fs::read(&output).map_err(|error| error.to_string())?;
    let name = format!("{} {} {}", module.display(), variant.target, variant.name);
    try_cubin(&file, &name, variant.rebuild, folder, tally)
}

fn try_cubin(
    file: &[u8],
    name: &str,
    build_again: bool,
    folder: &Path,
    tally: &Mutex<Tally>,
) -> Result<(), String> {
    let result = round_trip(file);
    let mutants = mutate(file, name);
    let rebuilt = match &result {
        Ok(cubin) if build_again => Some(match rebuild::rebuild(cubin) {
            rebuild::Outcome::Same(ours) => match rebuild::accepted(file, &ours, folder) {
                Ok(()) => rebuild::Outcome::Same(ours),
                Err(error) => rebuild::Outcome::Different(vec![error]),
            },
            other => other,
        }),
        _ => None,
    };
    let mut tally = tally.lock().map_err(|error| error.to_string())?;
    tally.cubins += 1;
    tally.bytes += file.len();
    match result {
        Ok(cubin) => {
            tally.equal += 1;
            for what in irregularities(&cubin) {
                *tally.irregular.entry(what).or_default() += 1;
            }
            for what in unnamed(&cubin) {
                *tally.unnamed.entry(what).or_default() += 1;
            }
        }
        Err(message) => tally.unequal.push(format!("{name}: {message}")),
    }
    match rebuilt {
        Some(rebuild::Outcome::Same(_)) => tally.rebuilt += 1,
        Some(rebuild::Outcome::Unsupported(what)) => {
            *tally.not_rebuilt.entry(what).or_default() += 1;
        }
        Some(rebuild::Outcome::Different(list)) => {
            tally
                .rebuilt_wrong
                .push(format!("{name}: {}", list.join("\n    ")));
        }
        None => {}
    }
    tally.mutants += mutants.tried;
    tally.mutants_read += mutants.read;
    tally.mutants_wrong.extend(mutants.wrong);
    Ok(())
}

/// Reads `file` and writes it back.
fn round_trip(file: &[u8]) -> Result<Cubin, String> {
    let cubin = Cubin::read(file).map_err(|error| error.to_string())?;
    let written = cubin.write().map_err(|error| error.to_string())?;
    match first_difference(file, &written) {
        None => Ok(cubin),
        Some(at) => Err(format!(
            "first different byte at {at:#x} ({} bytes in, {} out)",
            file.len(),
            written.len()
        )),
    }
}

fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    let common = a.len().min(b.len());
    (0..common)
        .find(|&at| a[at] != b[at])
        .or((a.len() != b.len()).then_some(common))
}

/// What the model had to record because the rules do not give it.
fn irregularities(cubin: &Cubin) -> Vec<String> {
    let mut found = Vec::new();
    for (index, section) in cubin.sections.iter().enumerate() {
        let name = &section.name.text;
        match section.placement {
            Placement::NEXT => {}
            // The gap after the section names, which docs/cubin.md explains.
            Placement::After { slack } if index == 2 && slack == name_slack(cubin) => {}
            Placement::With(_) => {}
            Placement::After { slack } if index == 2 => {
                found.push(format!(
                    "unused bytes after .shstrtab: {slack}, rule says {}",
                    name_slack(cubin)
                ));
            }
            other => found.push(format!("section {} placed {other:?}", generic_name(name))),
        }
        if section.name.offset.is_some() {
            found.push(format!("name of section {} elsewhere", generic_name(name)));
        }
        let decoded = matches!(section.kind, elf::sht::NOTE | elf::sht::CUDA_INFO);
        if decoded && matches!(section.body, Body::Bytes(_)) {
            found.push(format!("section {} kept as bytes", generic_name(name)));
        }
    }
    for symbol in cubin.symbols() {
        if symbol.name.offset.is_some() {
            found.push("name of a symbol elsewhere".to_owned());
        }
    }
    if cubin.layout.section_headers != Placement::NEXT
        || cubin.layout.program_headers != Placement::NEXT
    {
        found.push("tables elsewhere".to_owned());
    }
    if !cubin.layout.stray.is_empty() || cubin.layout.minimum_size != 0 {
        found.push("bytes that belong to nothing".to_owned());
    }
    if !cubin.segments.is_empty() && cubin.segments != derive_segments(&cubin.sections) {
        let ranges = cubin
            .segments
            .iter()
            .filter(|segment| matches!(segment.extent, Extent::Range { .. }))
            .count();
        found.push(format!(
            "program headers are not the derived ones ({ranges} cover no run)"
        ));
    }
    found
}

/// How many bytes ptxas leaves unused after the section names.
fn name_slack(cubin: &Cubin) -> u64 {
    14 + cubin
        .sections
        .iter()
        .filter(|section| section.is_text())
        .filter_map(|section| section.name.text.strip_prefix(".text."))
        .map(|name| name.len() as u64 + 18)
        .sum::<u64>()
}

/// A section's name without the function's.
fn generic_name(name: &str) -> String {
    name.split('.').take(3).collect::<Vec<_>>().join(".")
}

fn unnamed(cubin: &Cubin) -> Vec<String> {
    let mut found = Vec::new();
    for section in &cubin.sections {
        if elf::section_type_name(section.kind).is_none() {
            found.push(format!("section type {:#x}", section.kind));
        }
        match &section.body {
            Body::Info(attributes) => {
                for one in attributes {
                    match attribute::attribute_row(one.id) {
                        None => found.push(format!("attribute {:#04x} has no row", one.id)),
                        Some(row)
                            if row
                                .format
                                .is_some_and(|format| format != one.value.format()) =>
                        {
                            found.push(format!("{} has another format", row.name));
                        }
                        Some(row) if row.format.is_none() => {
                            found.push(format!(
                                "{} is emitted, {:?}",
                                row.name,
                                one.value.format()
                            ));
                        }
                        Some(row) if matches!(one.value, Value::Raw(_)) => {
                            found.push(format!("{} stays raw", row.name));
                        }
                        Some(_) => {}
                    }
                }
            }
            Body::Compat(attributes) => {
                for one in attributes {
                    if attribute::compat_name(one.id).is_none() {
                        found.push(format!("compat attribute {:#04x}", one.id));
                    }
                }
            }
            Body::Relocations(relocations) => {
                for relocation in relocations {
                    if relocation.kind_name().is_none() {
                        found.push(format!("relocation {:#x}", relocation.kind));
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// What became of damaged cubins.
#[derive(Default)]
struct Mutants {
    tried: usize,
    read: usize,
    wrong: Vec<String>,
}

/// Flips bits and cuts ends: the reader refuses, or the writer gives the damaged file back.
fn mutate(file: &[u8], name: &str) -> Mutants {
    const FLIPS: u64 = 40;
    const CUTS: u64 = 8;
    let mut mutants = Mutants::default();
    if file.is_empty() {
        return mutants;
    }
    // Where the section headers start, if that is in the file.
    let stated = file.get(0x28..0x30).unwrap_or_default();
    let stated = stated
        .iter()
        .rev()
        .fold(0, |offset, byte| offset << 8 | u64::from(*byte));
    let headers = usize::try_from(stated).map_or(0, |at| if at < file.len() { at } else { 0 });
    let mut random = Lcg(file.len() as u64 ^ orias_random::GOLDEN_RATIO);
    for round in 0..FLIPS + CUTS {
        let mut damaged = file.to_vec();
        let what = if round < FLIPS {
            // Half of the flips hit the headers, where they hurt most.
            let at = match round % 4 {
                1 => random.below(64.min(file.len())),
                3 => headers + random.below(file.len() - headers),
                _ => random.below(file.len()),
            };
            let bit = random.below(8);
            damaged[at] ^= 1 << bit;
            format!("bit {bit} of byte {at:#x} flipped")
        } else {
            damaged.truncate(random.below(file.len()));
            format!("cut to {} bytes", damaged.len())
        };
        mutants.tried += 1;
        match std::panic::catch_unwind(|| Cubin::read(&damaged).map(|cubin| cubin.write())) {
            Ok(Err(_)) => {}
            Ok(Ok(Ok(written))) => {
                mutants.read += 1;
                if let Some(at) = first_difference(&damaged, &written) {
                    mutants
                        .wrong
                        .push(format!("{name}, {what}: differs at {at:#x}"));
                }
            }
            Ok(Ok(Err(error))) => mutants.wrong.push(format!("{name}, {what}: {error}")),
            Err(_) => mutants.wrong.push(format!("{name}, {what}: panicked")),
        }
    }
    mutants
}

/// Numbers that look random and are the same in every run.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}
