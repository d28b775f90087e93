//! Scheduling makes no spills: where nothing is stored to and loaded from the stack without it, nothing is with it. Where registers do not
//! suffice anyway, an order may spill more and be quicker; the sums show by how much.
//!
//! `conformance spills [--sample] [FILTER]`. Every module of the corpus is compiled twice, with ScheduleInstructions and in the order of
//! selection, under each of [`LIMITS`]; the bytes of spills of each kernel are those that `--verbose` prints.

use super::corpus;
use orias::{Options, Source, Target, compile};
use std::path::Path;

/// Registers a thread may have: as many as there are, and fewer.
const LIMITS: [Option<u32>; 5] = [None, Some(64), Some(40), Some(32), Some(24)];

/// A kernel, and the bytes it stores and loads because registers are few.
type Spills = Vec<(String, u32)>;

pub fn run(args: &[String]) -> Result<(), String> {
    let sample = args.iter().any(|word| word == "--sample");
    let filter = args.iter().find(|word| !word.starts_with('-'));
    let filter = filter.map_or("", String::as_str);
    let modules = corpus::selected(filter, sample.then_some(8))?;
    let mut more = 0;
    for limit in LIMITS {
        let (mut kernels, mut spilling, mut had, mut has) = (0, 0, 0, 0);
        for module in &modules {
            let Some(with) = spills(module, limit, true)? else {
                continue;
            };
            let without = spills(module, limit, false)?.unwrap_or_default();
            for ((name, with), (_, without)) in with.iter().zip(&without) {
                kernels += 1;
                spilling += usize::from(*with > 0);
                had += without;
                has += with;
                if *with > 0 && *without == 0 {
                    more += 1;
                    let module = module.file_stem().unwrap_or_default().to_string_lossy();
                    println!("{module}, {name}: {without} bytes of spills, {with} scheduled");
                }
            }
        }
        let registers = limit.map_or("all".to_owned(), |limit| limit.to_string());
        println!(
            "{registers} registers: {kernels} kernels, {spilling} of them spill, {has} bytes ({had} in the order of selection)"
        );
    }
    if more == 0 {
        Ok(())
    } else {
        Err(format!("scheduling makes spills in {more} kernels"))
    }
}

/// The spills of the kernels of a module; none if it uses what is not compiled yet.
fn spills(module: &Path, limit: Option<u32>, scheduled: bool) -> Result<Option<Spills>, String> {
    let text = std::fs::read(module).map_err(|error| format!("{}: {error}", module.display()))?;
    let mut options = Options {
        target: Target::parse("sm_90a").ok_or("sm_90a is no target")?,
        max_registers: limit,
        verbose: true,
        ..Options::default()
    };
    if !scheduled {
        let set = options.knobs.set("ScheduleInstructions=off");
        set.map_err(|error| error.to_string())?;
    }
    let name = module.file_stem().unwrap_or_default().to_string_lossy();
    let source = Source {
        name: &name,
        text: &text,
    };
    let Ok(compiled) = compile(&source, &options) else {
        return Ok(None);
    };
    let lines = compiled.diagnostics.iter().map(|line| line.to_string());
    Ok(Some(lines.filter_map(|line| read(&line)).collect()))
}

/// Name and bytes of `Function properties for k\n 0 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads`.
fn read(line: &str) -> Option<(String, u32)> {
    let (_, rest) = line.split_once("Function properties for ")?;
    let (name, bytes) = rest.split_once('\n')?;
    let number = |what: &str| -> Option<u32> {
        let before = bytes.split(what).next()?;
        before.split_whitespace().last()?.parse().ok()
    };
    let sum = number(" bytes spill stores")? + number(" bytes spill loads")?;
    Some((name.to_owned(), sum))
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn bytes_of_spills_are_read() {
        let line = "ptxas info    : Function properties for k\n    32 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads";
        assert_eq!(read(line), Some(("k".to_owned(), 12)));
        assert_eq!(read("ptxas info    : 0 bytes gmem"), None);
    }
}
