//! `conformance forms [LANES] [--level=N]...`: every single operation, compiled at -O0 and -O3 (or the levels given) and run in the
//! emulator, gives the bits that its definition says. `cargo xtask gpu forms` asks the chip the same.

use crate::gpu::forms::{self, Form};
use orias::{Options, Source, Target, compile};
use orias_sim::{Device, Launch, Timing};

/// Lanes of a run that does not say how many.
const LANES: usize = 128;

/// Forms that are compiled together.
const BATCH: usize = 32;

pub fn run(args: &[String]) -> Result<(), String> {
    let (mut count, mut levels) = (LANES, Vec::new());
    for argument in args {
        let number = |text: &str| -> Result<usize, String> {
            text.parse().map_err(|_| format!("'{text}' is no number"))
        };
        match argument.split_once('=') {
            Some(("--level", level)) => levels.push(number(level)? as u8),
            None if !argument.starts_with('-') => count = number(argument)?,
            _ => return Err(format!("not understood: {argument}")),
        }
    }
    if levels.is_empty() {
        levels = vec![0, 3];
    }
    let forms = forms::all();
    let mut failures = 0;
    for level in levels {
        let mut equal = 0;
        for batch in forms.chunks(BATCH) {
            match image(batch, level) {
                Ok(image) => equal += compare(&image, batch, count)?,
                // One that is refused must not hide the others.
                Err(_) => {
                    for form in batch {
                        let alone = std::slice::from_ref(form);
                        match image(alone, level) {
                            Ok(image) => equal += compare(&image, alone, count)?,
                            Err(why) => println!("{} -O{level}: refused: {why}", form.name),
                        }
                    }
                }
            }
        }
        println!("-O{level}: {equal} of {} forms equal", forms.len());
        failures += forms.len() - equal;
    }
    match failures {
        0 => Ok(()),
        _ => Err(format!("{failures} forms are not what they are defined as")),
    }
}

/// What we make of a module of forms.
fn image(forms: &[Form], level: u8) -> Result<Vec<u8>, String> {
    let text = forms::module(forms);
    let source = Source {
        name: "forms",
        text: text.as_bytes(),
    };
    let options = Options {
        target: Target::parse("sm_90a").ok_or("sm_90a is no target")?,
        opt_level: level,
        ..Options::default()
    };
    match compile(&source, &options) {
        Ok(compiled) => compiled.cubin.ok_or_else(|| "no cubin".to_owned()),
        Err(found) => Err(found
            .iter()
            .next()
            .map_or_else(String::new, |found| found.message.clone())),
    }
}

/// How many forms of a module give what their definitions say.
fn compare(image: &[u8], forms: &[Form], count: usize) -> Result<usize, String> {
    let mut equal = 0;
    for (index, form) in forms.iter().enumerate() {
        let lanes = forms::lanes(form, count);
        match emulated(image, index, &lanes) {
            Ok(found) => {
                let wrong = |&lane: &usize| (form.definition)(lanes[lane]) != found[lane];
                let differing: Vec<usize> = (0..count).filter(wrong).collect();
                let Some(&first) = differing.first() else {
                    equal += 1;
                    continue;
                };
                let operands = &lanes[first][..form.operands.len()];
                println!(
                    "{}: {} of {count} lanes differ: {operands:x?} is {:x}, defined as {:x}",
                    form.name,
                    differing.len(),
                    found[first],
                    (form.definition)(lanes[first])
                );
            }
            Err(why) => println!("{}: stopped: {why}", form.name),
        }
    }
    Ok(equal)
}

/// What the emulator computes for each lane.
fn emulated(image: &[u8], index: usize, lanes: &[[u64; 3]]) -> Result<Vec<u64>, String> {
    let mut device = Device::new();
    let module = device.load(image).map_err(|error| error.to_string())?;
    let mut arguments = Vec::new();
    for slot in 0..3 {
        let column: Vec<u8> = lanes
            .iter()
            .flat_map(|lane| lane[slot].to_le_bytes())
            .collect();
        arguments.push(device.allocate(&column).to_le_bytes().to_vec());
    }
    let bytes = lanes.len() * 8;
    let results = device.allocate(&vec![0; bytes]);
    arguments.push(results.to_le_bytes().to_vec());
    arguments.push((lanes.len() as u32).to_le_bytes().to_vec());
    let launch = Launch {
        kernel: format!("form{index}"),
        grid: [(lanes.len() as u32).div_ceil(128), 1, 1],
        block: [128, 1, 1],
        cluster: None,
        dynamic_shared: 0,
        arguments,
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
    let bytes = device.read(results, bytes).ok_or("the results are gone")?;
    let words = bytes.chunks_exact(8);
    Ok(words
        .map(|word| {
            word.iter()
                .rev()
                .fold(0, |n, byte| n << 8 | u64::from(*byte))
        })
        .collect())
}
