//! `gpu programs FOLDER`: generated programs on the chip against the interpreter.
//!
//! The folder comes from `cargo xtask conformance programs COUNT --write=FOLDER`. Each program runs as ptxas -O0 and -O3 made
//! it; an output that differs is written beside the cubin, as `SEED.LEVEL.out`.

use super::driver::{Buffer, DriverError, Gpu};
use super::job::hash;
use crate::programs::{LEVELS, SHAPE, buffers, kernel, seed_of};
use std::path::Path;

pub fn run(folder: &str) -> Result<(), String> {
    let folder = Path::new(folder);
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let expected = std::fs::read_to_string(folder.join("expected.txt")).map_err(failed)?;
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    let (mut equal, mut different) = ([0; 2], [0; 2]);
    for line in expected.lines() {
        let wrong = || format!("expected.txt: '{line}'");
        let (name, expected) = line.split_once(' ').ok_or_else(wrong)?;
        let seed = seed_of(name).ok_or_else(wrong)?;
        let expected = u64::from_str_radix(expected, 16).map_err(|_| wrong())?;
        for (at, level) in LEVELS.into_iter().enumerate() {
            let image = std::fs::read(folder.join(format!("{name}.{level}.cubin")));
            let output = on_the_chip(&gpu, &image.map_err(failed)?, seed);
            let output = output.map_err(|error| format!("{name} {level}: {error}"))?;
            if hash(&output) == expected {
                equal[at] += 1;
            } else {
                different[at] += 1;
                println!("{name} {level} differs");
                std::fs::write(folder.join(format!("{name}.{level}.out")), output)
                    .map_err(failed)?;
            }
        }
    }
    for (at, level) in LEVELS.into_iter().enumerate() {
        println!("{level}: {} equal, {} different", equal[at], different[at]);
    }
    if different == [0; 2] && equal[0] > 0 {
        Ok(())
    } else {
        Err("outputs differ".into())
    }
}

/// What one program leaves in its output.
pub fn on_the_chip(gpu: &Gpu, image: &[u8], seed: u64) -> Result<Vec<u8>, DriverError> {
    let module = gpu.load(image)?;
    let kernel = module.kernel(kernel(), 0)?;
    let mut held: Vec<Buffer> = Vec::new();
    for bytes in buffers(seed) {
        held.push(gpu.buffer(&bytes)?);
    }
    let arguments: Vec<Vec<u8>> = held
        .iter()
        .map(|buffer| buffer.address().to_le_bytes().to_vec())
        .collect();
    kernel.launch(SHAPE.0, SHAPE.1, &arguments)?;
    held[1].read()
}
