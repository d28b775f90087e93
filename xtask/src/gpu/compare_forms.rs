//! `gpu forms` and `gpu record`: every form on the chip, compared with its definition or written down.
//!
//! The record is `xtask/data/forms-sm90.txt.gz`: a line a form, its name and the results of [`RECORDED_LANES`] lanes in
//! hexadecimal. The operands are not stored: they follow from the name.

use super::assembler::Assembler;
use super::driver::{DriverError, Gpu};
use super::forms::{self, Form};
use super::shards;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;
use std::ops::Range;
use std::time::Duration;

/// Lanes of each form that are written down for the replay without a GPU.
pub const RECORDED_LANES: usize = 192;

/// How long a batch of forms may be assembled, or one form run and be compared.
const PATIENCE: Duration = Duration::from_secs(20);

/// Assembles a module with the ptxas at hand.
pub fn assemble(text: &str) -> Result<Vec<u8>, String> {
    Assembler::ptxas(1).assemble(text)
}

/// Runs one form on the chip.
fn on_the_chip(
    gpu: &Gpu,
    module: &super::driver::Module,
    index: usize,
    lanes: &[[u64; 3]],
) -> Result<Vec<u64>, DriverError> {
    let column = |slot: usize| {
        lanes
            .iter()
            .flat_map(|lane| lane[slot].to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let buffers = [
        gpu.buffer(&column(0))?,
        gpu.buffer(&column(1))?,
        gpu.buffer(&column(2))?,
    ];
    let results = gpu.buffer(&vec![0; lanes.len() * 8])?;
    let mut arguments: Vec<Vec<u8>> = buffers
        .iter()
        .map(|b| b.address().to_le_bytes().to_vec())
        .collect();
    arguments.push(results.address().to_le_bytes().to_vec());
    arguments.push((lanes.len() as u32).to_le_bytes().to_vec());
    let blocks = (lanes.len() as u32).div_ceil(128);
    module
        .kernel(&format!("form{index}"), 0)?
        .launch([blocks, 1, 1], [128, 1, 1], &arguments)?;
    let bytes = results.read()?;
    Ok(bytes
        .chunks_exact(8)
        .map(|word| {
            word.iter()
                .rev()
                .fold(0, |n, byte| n << 8 | u64::from(*byte))
        })
        .collect())
}

/// `gpu forms LANES [ASSEMBLER]`: every form, bit for bit.
pub fn compare(count: usize, assembler: &str) -> Result<(), String> {
    Assembler::parse(assembler)?;
    let words = ["forms".to_owned(), count.to_string(), assembler.to_owned()];
    let jobs = std::thread::available_parallelism().map_or(4, usize::from);
    let total = forms::all().len();
    let summary = shards::run(&words, total, jobs, PATIENCE, super::LIMIT)?;
    let of = |what: &str| summary.counts.get(what).copied().unwrap_or(0);
    println!(
        "{assembler}: {total} forms, {count} lanes each: {} equal, {} with differences, {} refused, {} not tried, {} findings",
        of("equal"),
        of("different"),
        of("refused"),
        of("not tried"),
        summary.findings
    );
    match summary.findings {
        0 => Ok(()),
        n => Err(format!("{n} findings")),
    }
}

/// Forms that are assembled and loaded together.
const BATCH: usize = 32;

/// The forms of a range, in this process.
pub fn shard(range: Range<usize>, count: usize, assembler: &str) -> Result<(), String> {
    let assembler = Assembler::parse(assembler)?;
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    let forms = forms::all();
    let forms = forms.get(range.clone()).ok_or("no such forms")?;
    for (batch, forms) in forms.chunks(BATCH).enumerate() {
        let first = range.start + batch * BATCH;
        println!("@{first} {assembler}");
        match assembler.assemble(&forms::module(forms)) {
            Ok(image) => run_batch(&gpu, &image, forms, first, count)?,
            // One that is refused must not hide the others.
            Err(_) => {
                for (at, form) in forms.iter().enumerate() {
                    match assembler.assemble(&forms::module(std::slice::from_ref(form))) {
                        Ok(image) => {
                            run_batch(&gpu, &image, std::slice::from_ref(form), first + at, count)?
                        }
                        Err(why) => {
                            println!("{}: refused: {why}", form.name);
                            println!("+refused");
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// Runs the forms of one module and compares each with its definition.
fn run_batch(
    gpu: &Gpu,
    image: &[u8],
    forms: &[Form],
    first: usize,
    count: usize,
) -> Result<(), String> {
    let module = gpu.load(image).map_err(|error| error.to_string())?;
    for (index, form) in forms.iter().enumerate() {
        println!("@{} {}", first + index, form.name);
        let lanes = forms::lanes(form, count);
        let chip = on_the_chip(gpu, &module, index, &lanes)
            .map_err(|error| format!("{}: {error}", form.name))?;
        let differing: Vec<usize> = (0..count)
            .filter(|lane| (form.definition)(lanes[*lane]) != chip[*lane])
            .collect();
        if differing.is_empty() {
            println!("+equal");
            continue;
        }
        let mut line = format!(
            "{}: {} of {count} lanes differ:",
            form.name,
            differing.len()
        );
        for lane in differing.iter().take(3) {
            let operands = &lanes[*lane][..form.operands.len()];
            line += &format!(
                " {operands:x?} is {:x}, defined as {:x};",
                chip[*lane],
                (form.definition)(lanes[*lane])
            );
        }
        println!("{line}");
        println!("+different");
    }
    Ok(())
}

/// `gpu record FILE`: the results of [`RECORDED_LANES`] lanes of every form, one line each.
pub fn record(path: &str) -> Result<(), String> {
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    let forms = forms::all();
    let module = gpu
        .load(&assemble(&forms::module(&forms))?)
        .map_err(|error| error.to_string())?;
    let mut text = String::new();
    for (index, form) in forms.iter().enumerate() {
        let lanes = forms::lanes(form, RECORDED_LANES);
        let chip = on_the_chip(&gpu, &module, index, &lanes)
            .map_err(|error| format!("{}: {error}", form.name))?;
        let results: Vec<String> = chip.iter().map(|word| format!("{word:x}")).collect();
        text += &format!("{}\t{}\n", form.name, results.join(" "));
    }
    write_compressed(path, &text)
}

/// Writes a record.
pub fn write_compressed(path: &str, text: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{path}: {error}");
    let mut out = GzEncoder::new(
        std::fs::File::create(path).map_err(failed)?,
        Compression::best(),
    );
    out.write_all(text.as_bytes()).map_err(failed)?;
    out.finish().map_err(failed)?;
    Ok(())
}

/// Reads a record back.
#[cfg(test)]
pub fn read_compressed(bytes: &[u8]) -> String {
    use std::io::Read as _;
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes)
        .read_to_string(&mut text)
        .expect("a record is compressed text");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the chip answered, by form.
    fn recorded() -> Vec<(String, Vec<u64>)> {
        let text = read_compressed(include_bytes!("../../data/forms-sm90.txt.gz"));
        let line = |line: &str| {
            let (name, words) = line.split_once('\t').unwrap();
            let words = words
                .split(' ')
                .map(|word| u64::from_str_radix(word, 16).unwrap())
                .collect();
            (name.to_owned(), words)
        };
        text.lines().map(line).collect()
    }

    #[test]
    fn definitions_give_what_the_chip_gave() {
        let recorded = recorded();
        let forms = forms::all();
        let names: Vec<&String> = forms.iter().map(|form| &form.name).collect();
        let recorded_names: Vec<&String> = recorded.iter().map(|(name, _)| name).collect();
        assert_eq!(
            names, recorded_names,
            "every form is recorded: run `cargo xtask gpu record` after adding one"
        );
        for (form, (_, chip)) in forms.iter().zip(&recorded) {
            assert_eq!(chip.len(), RECORDED_LANES);
            for (operands, expected) in forms::lanes(form, RECORDED_LANES).iter().zip(chip) {
                assert_eq!(
                    (form.definition)(*operands),
                    *expected,
                    "{} of {operands:x?}",
                    form.name
                );
            }
        }
    }

    /// Every form as a kernel in the interpreter: parsing, operands, parameters, memory and computation together.
    #[test]
    fn the_interpreter_gives_what_the_chip_gave() {
        let forms = forms::all();
        let text = forms::module(&forms);
        let (module, found) = orias_ptx::parse(text.as_bytes());
        assert!(
            !found.has_errors(),
            "{}",
            found.to_lines("forms", text.as_bytes())
        );
        let mut program = orias_reference::Program::load(&module).unwrap();
        let mut wrong = Vec::new();
        for (index, (form, (_, chip))) in forms.iter().zip(&recorded()).enumerate() {
            let lanes = forms::lanes(form, RECORDED_LANES);
            let column = |at: usize| -> Vec<u8> {
                lanes
                    .iter()
                    .flat_map(|lane| lane[at].to_le_bytes())
                    .collect()
            };
            let memory = program.memory_mut();
            let operands = [0, 1, 2].map(|at| memory.allocate(column(at)));
            let result = memory.allocate(vec![0; 8 * RECORDED_LANES]);
            let blocks = RECORDED_LANES.div_ceil(128) as u32;
            let mut launch =
                orias_reference::Launch::new(&format!("form{index}"), [blocks, 1, 1], [128, 1, 1]);
            launch.check_uninitialised = true;
            for address in operands.into_iter().chain([result]) {
                launch = launch.argument(address.to_le_bytes());
            }
            launch = launch.argument((RECORDED_LANES as u32).to_le_bytes());
            program
                .launch(&launch)
                .unwrap_or_else(|fault| panic!("{}: {fault}", form.name));
            let words = program.memory().read(result, 8 * RECORDED_LANES).unwrap();
            for (lane, (word, expected)) in words.chunks(8).zip(chip).enumerate() {
                let word = u64::from_le_bytes(word.try_into().unwrap());
                if word != *expected {
                    wrong.push(format!(
                        "{} of {:x?}: {word:x}, not {expected:x}",
                        form.name, lanes[lane]
                    ));
                    break;
                }
            }
        }
        assert!(
            wrong.is_empty(),
            "{} forms differ:\n{}",
            wrong.len(),
            wrong.join("\n")
        );
    }
}
