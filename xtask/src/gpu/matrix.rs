//! `gpu matrix [WORD]...`: every form of a matrix instruction whose name contains all the words, on the chip.
//!
//! What our code leaves at -O0 and at -O3 is compared with what ptxas's code leaves; and what that leaves, with the emulator's and the
//! interpreter's results. Forms that stop the chip are named by the one that ran last.

use super::assembler::Assembler;
use super::driver::Gpu;
use crate::conformance::matrix::{difference, emulated, interpreted};
use crate::matrix::{self, BLOCKS, Form};

/// Forms that are assembled and loaded together.
const BATCH: usize = 16;

/// Whose code runs: the first is what the others are compared with.
const ASSEMBLERS: [&str; 3] = ["ptxas-O3", "orias-O3", "orias-O0"];

/// The PTX of the forms whose names contain all the words.
pub fn print(words: &[&str]) {
    let forms = matrix::all();
    let wanted: Vec<&Form> = forms
        .iter()
        .filter(|form| words.iter().all(|word| form.name.contains(word)))
        .collect();
    print!("{}", matrix::module(&wanted));
}

pub fn compare(words: &[&str]) -> Result<(), String> {
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    let forms = matrix::all();
    let wanted: Vec<&Form> = forms
        .iter()
        .filter(|form| words.iter().all(|word| form.name.contains(word)))
        .collect();
    let (mut findings, mut emulator, mut interpreter) = (0, 0, 0);
    for batch in wanted.chunks(BATCH) {
        let mut results: Vec<Vec<Option<Vec<u8>>>> = Vec::new();
        for name in ASSEMBLERS {
            let assembler = Assembler::parse(name)?;
            let all = assembler.assemble(&matrix::module(batch));
            let mut column = Vec::new();
            for (index, form) in batch.iter().enumerate() {
                // One that is refused must not hide the others.
                let (image, kernel) = match &all {
                    Ok(image) => (Ok(image.clone()), index),
                    Err(_) => (assembler.assemble(&matrix::module(&[form])), 0),
                };
                let found = image.and_then(|image| on_the_chip(&gpu, &image, kernel, form));
                if let Err(why) = &found {
                    println!("{}: {name}: {why}", form.name);
                    findings += 1;
                }
                column.push(found.ok());
            }
            results.push(column);
        }
        for (index, form) in batch.iter().enumerate() {
            let Some(expected) = &results[0][index] else {
                continue;
            };
            for (name, column) in ASSEMBLERS.iter().zip(&results).skip(1) {
                let found = column[index].as_ref();
                if let Some(difference) = found.and_then(|found| difference(expected, found)) {
                    println!("{}: ptxas-O3 and {name}: {difference}", form.name);
                    findings += 1;
                }
            }
            let image = Assembler::parse(ASSEMBLERS[1])?.assemble(&matrix::module(&[form]));
            match image.and_then(|image| emulated(&image, 0, form)) {
                Ok(found) => {
                    if let Some(difference) = difference(expected, &found) {
                        println!("{}: chip and emulator: {difference}", form.name);
                        emulator += 1;
                    }
                }
                Err(why) => {
                    println!("{}: emulator: {why}", form.name);
                    emulator += 1;
                }
            }
            match interpreted(form) {
                Ok(found) => {
                    if let Some(difference) = difference(expected, &found) {
                        println!("{}: chip and interpreter: {difference}", form.name);
                        interpreter += 1;
                    }
                }
                Err(why) => {
                    println!("{}: interpreter: {why}", form.name);
                    interpreter += 1;
                }
            }
        }
    }
    println!(
        "{} forms on the chip: {findings} findings; emulator differs in {emulator}, interpreter in {interpreter}",
        wanted.len()
    );
    match findings + emulator + interpreter {
        0 => Ok(()),
        n => Err(format!("{n} findings")),
    }
}

fn on_the_chip(gpu: &Gpu, image: &[u8], index: usize, form: &Form) -> Result<Vec<u8>, String> {
    let run = || {
        let module = gpu.load(image)?;
        let input = gpu.buffer(&form.input())?;
        let output = gpu.buffer(&vec![0; form.result_bytes()])?;
        let arguments = [&input, &output].map(|it| it.address().to_le_bytes().to_vec());
        module.kernel(&format!("matrix{index}"), 0)?.launch(
            [BLOCKS as u32, 1, 1],
            [form.threads as u32, 1, 1],
            &arguments,
        )?;
        output.read()
    };
    run().map_err(|error: super::driver::DriverError| error.to_string())
}
