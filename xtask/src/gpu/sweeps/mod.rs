//! `gpu sweeps ASSEMBLERS [--full]`: single operations on very many operands, as an assembler makes them and as ptxas does.
//!
//! Two tiers. A function of one 32-bit operand runs on all 2^32 operands (by default on every 16th block of 2^20 of them). An
//! operation of wider or of several operands runs on [`TUPLES`] tuples (by default a tenth) that are made to be hard: besides
//! random bits, quotients, roots and sums that lie close to where roundings change, results at the edges of the range, and special
//! values (see [`operands::tuple`]). Results are compared on the chip, by a kernel that ptxas made; the reference is ptxas's code for the
//! same statement.
//!
//! Which of two NaNs an operation on doubles hands on depends on the order of its operands, which PTX leaves open: two NaNs count
//! as equal there.

mod operands;
mod operations;

use super::assembler::Assembler;
use super::driver::{Buffer, DriverError, Gpu, Module};
use super::shards;
use operands::{columns, tuple};
use operations::{Operation, comparison, operations};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::time::Duration;

/// Tuples of operands in the full tier.
const TUPLES: usize = 100_000_000;
/// When all operands are tried: how many at a time, and of how many chunks one is tried. The short tier's chunks are small, so that
/// it meets every exponent.
const ALL: (u64, usize) = (1 << 26, 1);
const SOME: (u64, usize) = (1 << 20, 16);
/// How long an operation may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// `gpu sweeps`.
pub fn run(assemblers: &str, full: bool) -> Result<(), String> {
    let mut findings = 0;
    let count = operations().len();
    for assembler in Assembler::parse_list(assemblers)? {
        let tier = if full { "full" } else { "short" };
        let words = ["sweeps".to_owned(), assembler.to_string(), tier.to_owned()];
        // Few processes at a time: each holds gigabytes of operands.
        let summary = shards::run(&words, count, 4, PATIENCE, super::LIMIT)?;
        let of = |what: &str| summary.counts.get(what).copied().unwrap_or(0);
        println!(
            "{assembler}: {count} operations: {} equal, {} different, {} refused, {} not tried",
            of("equal"),
            of("different"),
            of("refused"),
            of("not tried")
        );
        findings += summary.findings;
    }
    match findings {
        0 => Ok(()),
        n => Err(format!("{n} findings")),
    }
}

/// The operations of a range, in this process.
pub fn shard(range: Range<usize>, assembler: &str, tier: &str) -> Result<(), String> {
    let assembler = Assembler::parse(assembler)?;
    let full = tier == "full";
    let gpu = Gpu::open().map_err(|error| error.to_string())?;
    let mut comparisons: BTreeMap<operations::Type, Vec<u8>> = BTreeMap::new();
    let mut tuples: Option<(operations::Type, Vec<Buffer>)> = None;
    let count = if full { TUPLES } else { TUPLES / 10 };
    for (index, operation) in operations().iter().enumerate().skip(range.start) {
        if index >= range.end {
            break;
        }
        let statement = &operation.statement;
        println!("@{index} {statement}");
        let ours = match assembler.assemble(&operation.module()) {
            Ok(cubin) => cubin,
            Err(why) => {
                println!("{statement} refused: {why}");
                println!("+refused");
                continue;
            }
        };
        let theirs = Assembler::ptxas(3).assemble(&operation.module())?;
        let compare = match comparisons.entry(operation.result) {
            Entry::Occupied(made) => made.into_mut(),
            Entry::Vacant(place) => {
                place.insert(Assembler::ptxas(3).assemble(&comparison(operation.result))?)
            }
        };
        let driver = |error: DriverError| format!("{statement} {error}");
        let images = [&ours, &theirs, &*compare];
        let [ours, theirs, compare] = images.map(|image| gpu.load(image).map_err(driver));
        let pair = Pair {
            gpu: &gpu,
            operation,
            ours: ours?,
            theirs: theirs?,
            compare: compare?,
        };
        let found = if operation.is_exhaustive() {
            let (chunk, every) = if full { ALL } else { SOME };
            pair.all_operands(chunk, every).map_err(driver)?
        } else {
            let there = tuples
                .as_ref()
                .is_some_and(|(kind, _)| *kind == operation.operands);
            if !there {
                drop(tuples.take());
                println!("@{index} operands of {statement}");
                let columns = columns(operation.operands, count);
                let buffers = columns.iter().map(|bytes| gpu.buffer(bytes));
                let buffers: Result<Vec<Buffer>, DriverError> = buffers.collect();
                tuples = Some((operation.operands, buffers.map_err(driver)?));
                println!("@{index} {statement}");
            }
            let columns = tuples.as_ref().map_or(&[][..], |(_, columns)| columns);
            pair.tuples(columns, count).map_err(driver)?
        };
        match found {
            None => println!("+equal"),
            Some(words) => {
                println!("{statement} {words}");
                println!("+different");
            }
        }
    }
    Ok(())
}

/// Both codes of an operation, loaded.
struct Pair<'a> {
    gpu: &'a Gpu,
    operation: &'a Operation,
    ours: Module,
    theirs: Module,
    compare: Module,
}

impl Pair<'_> {
    /// Runs both codes on some operands and compares: how many differ, and the number of the first.
    fn once(
        &self,
        operands: &[u64; 3],
        results: &[Buffer; 2],
        first: u32,
        n: u32,
    ) -> Result<(u32, u32), DriverError> {
        let grid = [n.div_ceil(256), 1, 1];
        let block = [256, 1, 1];
        for (module, result) in [&self.ours, &self.theirs].into_iter().zip(results) {
            let mut arguments: Vec<Vec<u8>> = operands.map(|it| it.to_le_bytes().to_vec()).into();
            arguments.push(result.address().to_le_bytes().to_vec());
            arguments.push(first.to_le_bytes().to_vec());
            arguments.push(n.to_le_bytes().to_vec());
            module
                .kernel("operation", 0)?
                .launch(grid, block, &arguments)?;
        }
        let mut start = 0u32.to_le_bytes().to_vec();
        start.extend(u32::MAX.to_le_bytes());
        let counts = self.gpu.buffer(&start)?;
        let mut arguments: Vec<Vec<u8>> = Vec::new();
        for buffer in [&results[0], &results[1], &counts] {
            arguments.push(buffer.address().to_le_bytes().to_vec());
        }
        arguments.push(n.to_le_bytes().to_vec());
        self.compare
            .kernel("compare", 0)?
            .launch(grid, block, &arguments)?;
        let bytes = counts.read()?;
        let word = |at: usize| {
            bytes[at..at + 4]
                .iter()
                .rev()
                .fold(0, |n, byte| n << 8 | u32::from(*byte))
        };
        Ok((word(0), word(4)))
    }

    fn results(&self, n: usize) -> Result<[Buffer; 2], DriverError> {
        let bytes = n * self.operation.result.bytes();
        Ok([self.gpu.room(bytes)?, self.gpu.room(bytes)?])
    }

    /// The results of one operand number, ours and theirs.
    fn shown(&self, results: &[Buffer; 2], at: u32) -> Result<String, DriverError> {
        let size = self.operation.result.bytes();
        let mut shown = Vec::new();
        for result in results {
            let bytes = result.read()?;
            let from = at as usize * size;
            let word = bytes[from..from + size].iter().rev();
            shown.push(word.fold(0, |n, byte| n << 8 | u64::from(*byte)));
        }
        Ok(format!("{:x}, not {:x}", shown[0], shown[1]))
    }

    /// Every `every`th chunk of all operands.
    fn all_operands(&self, chunk: u64, every: usize) -> Result<Option<String>, DriverError> {
        let results = self.results(chunk as usize)?;
        let mut different = 0;
        let mut example = None;
        for number in (0..(1u64 << 32) / chunk).step_by(every) {
            let first = (number * chunk) as u32;
            let (count, at) = self.once(&[0; 3], &results, first, chunk as u32)?;
            different += u64::from(count);
            if count > 0 && example.is_none() {
                let operand = first.wrapping_add(at);
                example = Some(format!("of {operand:08x} is {}", self.shown(&results, at)?));
            }
        }
        Ok(example.map(|example| format!("{different} operands differ: {example}")))
    }

    /// All tuples.
    fn tuples(&self, columns: &[Buffer], n: usize) -> Result<Option<String>, DriverError> {
        let results = self.results(n)?;
        let mut addresses = [0; 3];
        for (slot, buffer) in addresses.iter_mut().zip(columns) {
            *slot = buffer.address();
        }
        let (count, at) = self.once(&addresses, &results, 0, n as u32)?;
        if count == 0 {
            return Ok(None);
        }
        let operands = tuple(self.operation.operands, u64::from(at));
        let operands = &operands[..self.operation.count];
        Ok(Some(format!(
            "{count} of {n} tuples differ: of {operands:x?} is {}",
            self.shown(&results, at)?
        )))
    }
}
