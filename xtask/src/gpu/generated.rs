//! `gpu generated COUNT ASSEMBLERS`: generated programs, as each assembler makes them, on the chip against the interpreter.
//!
//! Everything happens on the machine with the GPU: a program is generated, interpreted, assembled by each assembler of the list
//! and launched. Program N is the one of seed N.

use super::assembler::Assembler;
use super::driver::Gpu;
use super::programs::on_the_chip;
use super::shards;
use crate::programs::{interpreted, text};
use std::ops::Range;
use std::time::Duration;

/// How long one program may take, its interpretation included.
const PATIENCE: Duration = Duration::from_secs(10);

pub fn run(count: usize, assemblers: &str, limit: Duration) -> Result<(), String> {
    Assembler::parse_list(assemblers)?;
    let jobs = std::thread::available_parallelism().map_or(4, usize::from);
    let words = ["generated".to_owned(), assemblers.to_owned()];
    let summary = shards::run(&words, count, jobs, PATIENCE, limit)?;
    for (what, count) in &summary.counts {
        println!("{what}: {count}");
    }
    match summary.findings {
        0 => Ok(()),
        n => Err(format!("{n} findings")),
    }
}

/// The programs of a range, in this process.
pub fn shard(range: Range<usize>, assemblers: &str) -> Result<(), String> {
    let assemblers = Assembler::parse_list(assemblers)?;
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    for seed in range {
        println!("@{seed} in the interpreter");
        let number = seed as u64;
        let source = text(number);
        let Ok(expected) = interpreted(&source, number) else {
            println!("+programs that the interpreter stops");
            continue;
        };
        for assembler in &assemblers {
            println!("@{seed} {assembler}");
            let cubin = match assembler.assemble(&source) {
                Ok(cubin) => cubin,
                Err(why) => {
                    println!("program {seed} {assembler}: refused: {why}");
                    println!("+{assembler} refused");
                    continue;
                }
            };
            match on_the_chip(&gpu, &cubin, number) {
                Ok(output) if output == expected => println!("+{assembler} equal"),
                Ok(output) => {
                    let first = output.iter().zip(&expected).position(|(a, b)| a != b);
                    println!("program {seed} {assembler}: differs, first at byte {first:?}");
                    println!("+{assembler} different");
                }
                Err(error) => {
                    // The context is lost: the parent starts another process.
                    return Err(format!("program {seed} {assembler}: {error}"));
                }
            }
        }
    }
    Ok(())
}
