//! `gpu cycles COUNT [--seed=K] [--write=FILE]`: how many cycles generated kernels of one warp take, against the estimate.
//!
//! Kernel N is the one of seed K + N ([`kernels`]), compiled at -O3. The chip's clock measures a repetition of its body; the estimate is
//! [`orias_verify::estimate`] of the instructions that the emulator issues between the two readings. What reading the clock takes by itself is taken off both.
//! `--print=SEED` prints a kernel instead. Loads from global memory hit the first cache. FILE gets a line for each kernel: what was measured, what was estimated, and how often each operation was issued.

mod kernels;

use super::assembler::Assembler;
use super::driver::{Buffer, DriverError, Gpu};
use kernels::{BUFFER, contents, empty, kernel};
use orias_sass::{Instruction, Op, Target};
use orias_sim::{Device, Launch, Options, Watch};
use std::collections::BTreeMap;

/// How far estimates may be off, in the mean.
const MEAN: f64 = 0.10;

/// How far a single one may be off.
const MOST: f64 = 0.25;

/// Repetitions on the chip; the last one is measured.
const REPETITIONS: u32 = 4;

/// Launches, of which the quickest counts.
const LAUNCHES: usize = 5;

/// Steps of a kernel in the emulator.
const STEPS: usize = 100_000;

/// A kernel that is ready to run.
struct Ready {
    image: Vec<u8>,
    /// The instructions from the first reading of the clock to before the second one, in the order of issue.
    issued: Vec<Instruction>,
    estimated: u32,
}

impl Ready {
    fn new(text: &str) -> Result<Ready, String> {
        let image = Assembler::parse("orias-O3")?.assemble(text)?;
        let issued = issued(&image)?;
        let machine = orias_machine::Machine::judging(Target::DEFAULT);
        let estimated = orias_verify::estimate(machine, &issued).map_err(|it| it.to_string())?;
        // The second reading may wait for something, too; what comes behind it does not count.
        let last = issued.last().map(std::slice::from_ref).unwrap_or_default();
        let own = orias_verify::estimate(machine, last).map_err(|it| it.to_string())?;
        Ok(Ready {
            image,
            issued,
            estimated: estimated.saturating_sub(own),
        })
    }

    /// How often each operation was issued.
    fn operations(&self) -> String {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for instruction in &self.issued {
            *counts.entry(instruction.op().name()).or_default() += 1;
        }
        let counts: Vec<String> = (counts.iter())
            .map(|(name, count)| format!("{name}:{count}"))
            .collect();
        counts.join(" ")
    }
}

/// What is issued in the second repetition, both readings of the clock included.
fn issued(image: &[u8]) -> Result<Vec<Instruction>, String> {
    let mut device = Device::new();
    let module = device.load(image).map_err(|error| error.to_string())?;
    let address = device.allocate(&contents());
    let launch = Launch {
        kernel: "k".to_owned(),
        grid: [1; 3],
        block: [32, 1, 1],
        cluster: None,
        dynamic_shared: 0,
        arguments: vec![address.to_le_bytes().to_vec(), 2u32.to_le_bytes().to_vec()],
    };
    let options = Options {
        max_steps: Some(32 * STEPS as u64),
        watch: Some(Watch {
            block: [0; 3],
            warp: 0,
            most: STEPS,
        }),
        ..Options::default()
    };
    let outcome = device.launch(&module, &launch, &options);
    let outcome = outcome.map_err(|error| error.to_string())?;
    if let Some(fault) = outcome.fault {
        return Err(fault.to_string());
    }
    let trace = outcome.trace.ok_or("nothing was watched")?;
    let cubin = orias_cubin::Cubin::read(image).map_err(|error| error.to_string())?;
    let functions = cubin.functions();
    let function = functions.first().ok_or("a cubin without functions")?;
    let program = orias_verify::program::Program::of(function, Target::DEFAULT)
        .map_err(|error| error.to_string())?;
    let steps = trace.steps.iter();
    let steps = steps.filter_map(|step| program.instructions.get(step.index as usize));
    let steps: Vec<&Instruction> = steps.collect();
    let reads = |instruction: &&Instruction| instruction.op() == Op::CS2R_32;
    let readings: Vec<usize> = (0..steps.len()).filter(|&at| reads(&steps[at])).collect();
    let [_, _, first, last] = readings[..] else {
        return Err(format!("the clock is read {} times", readings.len()));
    };
    Ok(steps[first..=last].iter().map(|&it| it.clone()).collect())
}

/// The cycles of a repetition of the body on the chip.
fn measured(gpu: &Gpu, buffer: &Buffer, image: &[u8]) -> Result<u32, DriverError> {
    let module = gpu.load(image)?;
    let kernel = module.kernel("k", 0)?;
    let mut least = u32::MAX;
    let first = contents();
    for _ in 0..LAUNCHES {
        buffer.write(&first)?;
        let arguments = [
            buffer.address().to_le_bytes().to_vec(),
            REPETITIONS.to_le_bytes().to_vec(),
        ];
        kernel.launch([1; 3], [32, 1, 1], &arguments)?;
        let mut word = [0; 4];
        buffer.read_at(0, &mut word)?;
        least = least.min(u32::from_le_bytes(word));
    }
    Ok(least)
}

/// `gpu cycles`.
pub fn run(count: usize, words: &[&str]) -> Result<(), String> {
    let (mut first, mut file) = (0u64, None);
    if let &[word] = words
        && let Some(seed) = word.strip_prefix("--print=")
    {
        let seed = seed.parse().map_err(|_| format!("'{seed}' is no number"))?;
        print!("{}", kernel(seed).text);
        return Ok(());
    }
    for word in words {
        match word.split_once('=') {
            Some(("--seed", seed)) => {
                first = seed.parse().map_err(|_| format!("'{seed}' is no number"))?;
            }
            Some(("--write", path)) => file = Some(path.to_owned()),
            _ => return Err(format!("not understood: {word}")),
        }
    }
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    let driver = |error: DriverError| error.to_string();
    let buffer = gpu.buffer(&vec![0; BUFFER]).map_err(driver)?;
    let empty = Ready::new(&empty())?;
    let nothing = measured(&gpu, &buffer, &empty.image).map_err(driver)?;
    println!(
        "reading the clock twice: {nothing} cycles, estimated {}",
        empty.estimated
    );
    let mut lines = String::new();
    let mut rows: Vec<(f64, String)> = Vec::new();
    let mut refused = 0;
    for seed in first..first + count as u64 {
        let generated = kernel(seed);
        let ready = match Ready::new(&generated.text) {
            Ok(ready) => ready,
            Err(error) => {
                println!("kernel {seed}: {error}");
                refused += 1;
                continue;
            }
        };
        let took = measured(&gpu, &buffer, &ready.image).map_err(driver)?;
        let took = took.saturating_sub(nothing);
        let says = ready.estimated.saturating_sub(empty.estimated);
        let ratio = f64::from(says) / f64::from(took.max(1));
        let kinds = generated.kinds.join(" ");
        rows.push((
            ratio,
            format!("| {seed} | {kinds} | {took} | {says} | {ratio:.3} |"),
        ));
        lines += &format!("{seed} {took} {says} {}\n", ready.operations());
    }
    if let Some(file) = file {
        std::fs::write(&file, lines).map_err(|error| format!("{file}: {error}"))?;
    }
    let off = |ratio: &f64| (ratio - 1.0).abs();
    rows.sort_by(|(a, _), (b, _)| off(b).total_cmp(&off(a)));
    println!(
        "| kernel | operations | cycles | estimated | ratio |\n| --- | --- | --: | --: | --: |"
    );
    rows.iter().for_each(|(_, row)| println!("{row}"));
    let mean = rows.iter().map(|(ratio, _)| off(ratio)).sum::<f64>() / rows.len().max(1) as f64;
    let far = rows.iter().filter(|(ratio, _)| off(ratio) > MOST).count();
    println!(
        "\n{} kernels: estimates are off by {:.1} % in the mean, {far} by more than {:.0} %",
        rows.len(),
        mean * 100.0,
        MOST * 100.0
    );
    match refused == 0 && !rows.is_empty() && far == 0 && mean <= MEAN {
        true => Ok(()),
        false => Err("estimates are too far off".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_reads_the_clock_around_what_is_estimated() {
        let empty = Ready::new(&empty()).unwrap();
        for seed in 0..24 {
            let ready = Ready::new(&kernel(seed).text)
                .unwrap_or_else(|error| panic!("kernel {seed}: {error}"));
            assert!(ready.issued.len() > 10, "kernel {seed}");
            assert!(ready.estimated > empty.estimated, "kernel {seed}");
        }
    }
}
