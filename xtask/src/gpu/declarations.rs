//! `gpu declarations FILE [COUNT]`: records what ptxas -O0's code of the programs about declarations sees on the chip.
//!
//! ptxas comes from the path. Programs run in processes of their own, which write what they saw beside the file; a program that faults or
//! never ends is reported and left out.

use super::driver::{DriverError, Gpu};
use super::shards;
use crate::declarations::record::{Record, Recorded, parse_programs};
use crate::declarations::{Failure, Subject};
use orias_generate::ptx::declarations::{KERNEL, OUTPUT_BYTES, Program, program};
use std::io::Write as _;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// Programs that are recorded unless told otherwise: less than a megabyte.
pub const COUNT: usize = 1500;

/// How long one program may take, its assembly included.
const PATIENCE: Duration = Duration::from_secs(20);

/// Contexts on the device at a time.
const CONTEXTS: usize = 8;

/// Where the shards of a record put their parts.
fn parts(file: &str) -> PathBuf {
    PathBuf::from(format!("{file}.parts"))
}

pub fn run(file: &str, count: usize, limit: Duration) -> Result<(), String> {
    let folder = parts(file);
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let jobs = std::thread::available_parallelism().map_or(4, usize::from);
    let words = ["declarations".to_owned(), file.to_owned()];
    let summary = shards::run(&words, count, jobs.min(CONTEXTS), PATIENCE, limit)?;
    let mut programs: Vec<Recorded> = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        let text = std::fs::read_to_string(entry.map_err(failed)?.path()).map_err(failed)?;
        programs.extend(parse_programs(&text)?);
    }
    programs.sort_by_key(|program| program.seed);
    let gpu = Gpu::open()
        .and_then(|gpu| gpu.name())
        .map_err(|error| error.to_string())?;
    let record = Record {
        witness: format!("ptxas -O0 on an {gpu}"),
        programs,
    };
    record.write(file)?;
    std::fs::remove_dir_all(&folder).map_err(failed)?;
    for (what, count) in &summary.counts {
        println!("{what}: {count}");
    }
    match summary.findings {
        0 => Ok(()),
        n => Err(format!("{n} findings")),
    }
}

/// The programs of a range, in this process.
pub fn shard(range: Range<usize>, file: &str) -> Result<(), String> {
    let path = parts(file).join(range.start.to_string());
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut part = std::fs::File::create(&path).map_err(failed)?;
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    for number in range {
        println!("@{number} on the chip");
        let seed = number as u64;
        let Program {
            text, arguments, ..
        } = program(seed);
        let subject = Subject {
            text: &text,
            arguments: &arguments,
        };
        let seen = match subject.assembled() {
            Ok(cubin) => {
                // After a fault the context is lost: the parent starts another process.
                let seen = on_the_chip(&gpu, &cubin, &arguments);
                Ok(seen.map_err(|error| format!("program {seed}: {error}"))?)
            }
            Err(Failure::Refused(why)) => Err(why),
            Err(failure) => return Err(format!("program {seed}: {failure}")),
        };
        println!(
            "+{}",
            if seen.is_ok() {
                "seen"
            } else {
                "refused by ptxas"
            }
        );
        let recorded = Recorded {
            seed,
            text,
            arguments,
            seen,
        };
        part.write_all(recorded.to_text().as_bytes())
            .map_err(failed)?;
    }
    Ok(())
}

fn on_the_chip(gpu: &Gpu, cubin: &[u8], arguments: &[Vec<u8>]) -> Result<Vec<u8>, DriverError> {
    let module = gpu.load(cubin)?;
    let kernel = module.kernel(KERNEL, 0)?;
    let output = gpu.buffer(&[0; OUTPUT_BYTES])?;
    let mut all = vec![output.address().to_le_bytes().to_vec()];
    all.extend(arguments.iter().cloned());
    kernel.launch([1, 1, 1], [1, 1, 1], &all)?;
    output.read()
}
