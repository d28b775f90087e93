//! `conformance matrix [WORD]... [--no-ptxas] [--no-interpreter]`: every form of a matrix instruction whose name contains all the words,
//! compiled at -O0 and -O3 and run in the emulator, leaves what ptxas's code leaves there, and what the interpreter leaves.
//! `cargo xtask gpu matrix` asks the chip the same.

use crate::gpu::assembler::Assembler;
use crate::matrix::{self, BLOCKS, Form};
use crate::parallel;
use orias_sim::{Device, Launch, Timing};

/// Forms that are compiled together.
const BATCH: usize = 16;

pub fn run(args: &[String]) -> Result<(), String> {
    let (flags, words): (Vec<&String>, Vec<&String>) =
        args.iter().partition(|argument| argument.starts_with("--"));
    let (mut with_ptxas, mut with_interpreter) = (true, true);
    for flag in flags {
        match flag.as_str() {
            "--no-ptxas" => with_ptxas = false,
            "--no-interpreter" => with_interpreter = false,
            other => return Err(format!("not understood: {other}")),
        }
    }
    let forms = matrix::all();
    let wanted: Vec<&Form> = forms
        .iter()
        .filter(|form| words.iter().all(|word| form.name.contains(word.as_str())))
        .collect();
    if wanted.is_empty() {
        return Err("no form has such a name".to_owned());
    }
    let batches: Vec<&[&Form]> = wanted.chunks(BATCH).collect();
    let findings: Vec<String> = parallel::map(&batches, |batch| {
        compare(batch, with_ptxas, with_interpreter)
    })
    .into_iter()
    .flatten()
    .collect();
    for finding in &findings {
        println!("{finding}");
    }
    println!("{} forms, {} findings", wanted.len(), findings.len());
    match findings.len() {
        0 => Ok(()),
        n => Err(format!("{n} findings")),
    }
}

/// What is wrong with the forms of a batch.
fn compare(forms: &[&Form], with_ptxas: bool, with_interpreter: bool) -> Vec<String> {
    let mut findings = Vec::new();
    let mut results: Vec<Vec<(String, Vec<u8>)>> = vec![Vec::new(); forms.len()];
    let mut assemblers = vec!["orias-O3", "orias-O0"];
    if with_ptxas {
        assemblers.extend(["ptxas-O3", "ptxas-O0"]);
    }
    for name in assemblers {
        let assembler = match Assembler::parse(name) {
            Ok(assembler) => assembler,
            Err(why) => return vec![why],
        };
        let all = assembler.assemble(&matrix::module(forms));
        for (index, form) in forms.iter().enumerate() {
            // One that is refused must not hide the others.
            let (image, kernel) = match &all {
                Ok(image) => (Ok(image.clone()), index),
                Err(_) => (assembler.assemble(&matrix::module(&[form])), 0),
            };
            match image.and_then(|image| emulated(&image, kernel, form)) {
                Ok(found) => results[index].push((name.to_owned(), found)),
                Err(why) => findings.push(format!("{}: {name}: {why}", form.name)),
            }
        }
    }
    if with_interpreter {
        for (index, form) in forms.iter().enumerate() {
            match interpreted(form) {
                Ok(found) => results[index].push(("interpreter".to_owned(), found)),
                Err(why) => findings.push(format!("{}: interpreter: {why}", form.name)),
            }
        }
    }
    for (form, results) in forms.iter().zip(&results) {
        let Some(((first, expected), others)) = results.split_first() else {
            continue;
        };
        for (name, found) in others {
            if let Some(difference) = difference(expected, found) {
                findings.push(format!("{}: {first} and {name}: {difference}", form.name));
            }
        }
    }
    findings
}

/// Where two results differ, and in how many words.
pub fn difference(one: &[u8], other: &[u8]) -> Option<String> {
    let words = |bytes: &[u8]| -> Vec<u32> {
        bytes
            .chunks_exact(4)
            .map(|word| {
                word.iter()
                    .rev()
                    .fold(0, |n, byte| n << 8 | u32::from(*byte))
            })
            .collect()
    };
    let (one, other) = (words(one), words(other));
    let differing: Vec<usize> = (0..one.len())
        .filter(|&at| one.get(at) != other.get(at))
        .collect();
    let first = *differing.first()?;
    Some(format!(
        "{} of {} words differ, first word {first}: {:08x?} and {:08x?}",
        differing.len(),
        one.len(),
        one.get(first),
        other.get(first)
    ))
}

/// What a kernel leaves in the emulator.
pub fn emulated(image: &[u8], index: usize, form: &Form) -> Result<Vec<u8>, String> {
    let mut device = Device::new();
    let module = device.load(image).map_err(|error| error.to_string())?;
    let input = device.allocate(&form.input());
    let output = device.allocate(&vec![0; form.result_bytes()]);
    let launch = Launch {
        kernel: format!("matrix{index}"),
        grid: [BLOCKS as u32, 1, 1],
        block: [form.threads as u32, 1, 1],
        cluster: None,
        dynamic_shared: 0,
        arguments: [input, output].map(|it| it.to_le_bytes().to_vec()).to_vec(),
    };
    let options = orias_sim::Options {
        timing: Timing::Strict,
        ..orias_sim::Options::default()
    };
    let outcome = device.launch(&module, &launch, &options);
    let outcome = outcome.map_err(|error| error.to_string())?;
    if let Some(fault) = outcome.fault {
        return Err(fault.to_string());
    }
    let bytes = device.read(output, form.result_bytes());
    Ok(bytes.ok_or("the results are gone")?.to_vec())
}

/// What a kernel leaves in the interpreter.
pub fn interpreted(form: &Form) -> Result<Vec<u8>, String> {
    let text = matrix::module(&[form]);
    let (module, found) = orias_ptx::parse(text.as_bytes());
    if found.has_errors() {
        return Err(found.to_lines("matrix", text.as_bytes()));
    }
    let mut program = orias_reference::Program::load(&module).map_err(|error| error.to_string())?;
    let memory = program.memory_mut();
    let input = memory.allocate(form.input());
    let output = memory.allocate(vec![0; form.result_bytes()]);
    let launch = orias_reference::Launch::new(
        "matrix0",
        [BLOCKS as u32, 1, 1],
        [form.threads as u32, 1, 1],
    )
    .argument(input.to_le_bytes())
    .argument(output.to_le_bytes());
    program.launch(&launch).map_err(|fault| fault.to_string())?;
    let bytes = program.memory().read(output, form.result_bytes());
    Ok(bytes.map_err(|error| error.to_string())?.to_vec())
}
