//! Registers and spills beside ptxas's: kernel by kernel, at the default and under limits.
//!
//! `conformance registers [--limit N]... [--worst N] [--knob NAME=VALUE]... [--sample] [FILTER]`. Every module of the corpus is compiled by ptxas -O3 and here, without a limit
//! and with each of [`LIMITS`] by `-maxrregcount` and `--override-directive-values`. For each limit: registers as geometric mean of
//! ours over ptxas's, the bytes of spills in sum, kernels whose spills are above [`ABOVE`] times ptxas's and [`SPARE`] bytes, and
//! kernels of a known block size of which fewer, or more, blocks fit on a multiprocessor than of ptxas's. Then the worst kernels of each kind.
//!
//! What ptxas says (`-v`) is kept below `target/registers`, by limit and module. The suite fails if a module that ptxas compiles is refused, or if
//! registers at the default are more than [`HELD`] times ptxas's: what is held today. The goal is 1.00, and no kernel above its spills.

use super::corpus;
use crate::{oracle, parallel};
use orias::reschedule::Knobs;
use orias::{Options, Source, Target, compile};
use orias_machine::Machine;
use std::path::Path;
use std::process::Command;

/// Limits of registers, besides none.
const LIMITS: [u32; 5] = [128, 64, 48, 32, 24];

/// A kernel may spill so many times what ptxas spills …
const ABOVE: f64 = 1.1;

/// … and so many bytes.
const SPARE: f64 = 16.0;

/// Registers without a limit, times ptxas's.
const HELD: f64 = 1.01;

/// What is said of one kernel.
#[derive(Clone, Debug, PartialEq)]
struct Usage {
    kernel: String,
    registers: u32,
    /// Bytes of spill stores and loads.
    spills: u32,
}

/// A kernel beside ptxas's.
struct Row {
    corpus: String,
    module: String,
    ours: Usage,
    theirs: Usage,
    /// Threads of a block, where the source says.
    threads: Option<u32>,
}

impl Row {
    fn ratio(&self) -> f64 {
        f64::from(self.ours.registers) / f64::from(self.theirs.registers.max(1))
    }

    /// Bytes above what may be spilled.
    fn excess(&self) -> f64 {
        f64::from(self.ours.spills) - ABOVE * f64::from(self.theirs.spills) - SPARE
    }

    /// Blocks that fit on a multiprocessor, ours and ptxas's.
    fn blocks(&self) -> Option<[u32; 2]> {
        let files = Machine::of(orias_sass::Target::Sm90a).registers;
        let threads = self.threads?.next_multiple_of(files.warp);
        let named = |usage: &Usage| usage.registers.saturating_sub(files.reserved);
        Some([&self.ours, &self.theirs].map(|usage| files.blocks(named(usage), threads)))
    }

    fn print(&self) {
        let blocks = match self.blocks() {
            Some([ours, theirs]) => format!("{ours} for {theirs}"),
            None => String::new(),
        };
        println!(
            "| {} {} | {} | {} | {} | {} | {blocks} |",
            self.module,
            self.ours.kernel,
            self.ours.registers,
            self.theirs.registers,
            self.ours.spills,
            self.theirs.spills
        );
    }
}

/// What a module came to.
enum Outcome {
    Rows(Vec<Row>),
    /// ptxas refuses it; whether we do, too.
    RefusedByPtxas(bool),
    RefusedByUs,
}

pub fn run(args: &[String]) -> Result<(), String> {
    let (mut limits, mut worst, mut sample, mut filter) = (Vec::new(), 12, false, String::new());
    let mut knobs = Knobs::default();
    let mut words = args.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut number = || -> Result<u32, String> {
            let value = words
                .next()
                .ok_or_else(|| format!("{word} wants a value"))?;
            value.parse().map_err(|_| format!("'{value}' is no number"))
        };
        match word {
            "--limit" => limits.push(Some(number()?).filter(|&limit| limit > 0)),
            "--worst" => worst = number()? as usize,
            "--knob" => {
                let setting = words.next().ok_or("--knob wants a value")?;
                knobs.set(setting).map_err(|error| error.to_string())?;
            }
            "--sample" => sample = true,
            flag if flag.starts_with('-') => return Err(format!("not understood: {flag}")),
            text => text.clone_into(&mut filter),
        }
    }
    if limits.is_empty() {
        limits.push(None);
        limits.extend(LIMITS.map(Some));
    }
    let modules = corpus::selected(&filter, sample.then_some(16))?;
    let mut failures = Vec::new();
    for limit in limits {
        let outcomes = parallel::map(&modules, |module| compared(module, limit, &knobs));
        let (mut rows, mut both, mut theirs) = (Vec::new(), 0, 0);
        for (module, outcome) in modules.iter().zip(outcomes) {
            match outcome? {
                Outcome::Rows(more) => rows.extend(more),
                Outcome::RefusedByPtxas(true) => both += 1,
                Outcome::RefusedByPtxas(false) => theirs += 1,
                Outcome::RefusedByUs => failures.push(format!("{} is refused", module.display())),
            }
        }
        let name = limit.map_or("no limit".to_owned(), |limit| format!("{limit} registers"));
        println!(
            "\n## {name}: {} kernels; modules refused by both {both}, by ptxas alone {theirs}\n",
            rows.len()
        );
        let mean = print_sums(&rows);
        print_worst(rows, worst);
        if limit.is_none() && !sample && mean > HELD {
            failures.push(format!(
                "registers are {mean:.4} times ptxas's, {HELD} is held"
            ));
        }
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("\n")),
    }
}

/// Prints a line for each corpus and one for all, and gives the geometric mean of registers.
fn print_sums(rows: &[Row]) -> f64 {
    let mut corpora: Vec<&str> = rows.iter().map(|row| row.corpus.as_str()).collect();
    corpora.sort_unstable();
    corpora.dedup();
    println!(
        "| corpus | kernels | registers | spilled bytes | ptxas | above | fewer blocks | more |"
    );
    println!("| --- | --: | --: | --: | --: | --: | --: | --: |");
    let mut mean = 1.0;
    for corpus in corpora.into_iter().map(Some).chain([None]) {
        let own = rows
            .iter()
            .filter(|row| corpus.is_none_or(|it| row.corpus == it));
        let own: Vec<&Row> = own.collect();
        if own.is_empty() {
            continue;
        }
        let logs: f64 = own.iter().map(|row| row.ratio().ln()).sum();
        mean = (logs / own.len() as f64).exp();
        let sum = |of: fn(&Row) -> u32| own.iter().map(|row| u64::from(of(row))).sum::<u64>();
        let count = |of: fn(&Row) -> bool| own.iter().filter(|row| of(row)).count();
        println!(
            "| {} | {} | {mean:.4} | {} | {} | {} | {} | {} |",
            corpus.unwrap_or("all"),
            own.len(),
            sum(|row| row.ours.spills),
            sum(|row| row.theirs.spills),
            count(|row| row.excess() > 0.0),
            count(|row| row.blocks().is_some_and(|[ours, theirs]| ours < theirs)),
            count(|row| row.blocks().is_some_and(|[ours, theirs]| ours > theirs)),
        );
    }
    mean
}

/// Prints the kernels that spill most above what they may, and those with most registers for ptxas's.
fn print_worst(mut rows: Vec<Row>, worst: usize) {
    println!(
        "\n| worst | registers | ptxas | spilled | ptxas | blocks |\n| --- | --: | --: | --: | --: | --- |"
    );
    rows.sort_by(|a, b| b.excess().total_cmp(&a.excess()));
    for row in rows.iter().take(worst).filter(|row| row.excess() > 0.0) {
        row.print();
    }
    rows.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
    for row in rows.iter().take(worst).filter(|row| row.ratio() > 1.0) {
        row.print();
    }
}

fn compared(module: &Path, limit: Option<u32>, knobs: &Knobs) -> Result<Outcome, String> {
    let text = std::fs::read(module).map_err(|error| format!("{}: {error}", module.display()))?;
    let name = module.file_stem().unwrap_or_default().to_string_lossy();
    let ours = ours(&name, &text, limit, knobs)?;
    let Some(theirs) = theirs(module, &name, limit)? else {
        return Ok(Outcome::RefusedByPtxas(ours.is_none()));
    };
    let Some(ours) = ours else {
        return Ok(Outcome::RefusedByUs);
    };
    let folder = module.parent().and_then(Path::file_name);
    let corpus = folder.unwrap_or_default().to_string_lossy().into_owned();
    let threads = threads(&text);
    let pairs = usages(&ours).into_iter().filter_map(|ours| {
        let mut theirs = usages(&theirs).into_iter();
        let theirs = theirs.find(|it| it.kernel == ours.kernel)?;
        let known = threads.iter().find(|(kernel, _)| *kernel == ours.kernel);
        Some(Row {
            corpus: corpus.clone(),
            module: name.clone().into_owned(),
            threads: known.map(|(_, threads)| *threads),
            ours,
            theirs,
        })
    });
    Ok(Outcome::Rows(pairs.collect()))
}

/// What we say of a module; none if it is refused.
fn ours(
    name: &str,
    text: &[u8],
    limit: Option<u32>,
    knobs: &Knobs,
) -> Result<Option<String>, String> {
    let options = Options {
        target: Target::parse("sm_90a").ok_or("sm_90a is no target")?,
        max_registers: limit,
        override_directives: limit.is_some(),
        verbose: true,
        knobs: knobs.clone(),
        ..Options::default()
    };
    let Ok(compiled) = compile(&Source { name, text }, &options) else {
        return Ok(None);
    };
    let lines = compiled.diagnostics.iter().map(|line| line.to_string());
    Ok(Some(lines.collect::<Vec<_>>().join("\n")))
}

/// What ptxas says of a module, asked once; none if it is refused.
fn theirs(module: &Path, name: &str, limit: Option<u32>) -> Result<Option<String>, String> {
    const END: &str = "exit ";
    let failed = |error: std::io::Error| format!("{}: {error}", module.display());
    let limits = limit.map_or("all".to_owned(), |limit| limit.to_string());
    let folder = oracle::repository().join("target/registers").join(limits);
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let path = folder.join(format!("{name}.txt"));
    if !path.exists() {
        let cubin = tempfile::NamedTempFile::new().map_err(failed)?;
        let mut command = Command::new(oracle::find("ptxas")?);
        command.args(["-arch=sm_90a", "-O3", "-v"]);
        if let Some(limit) = limit {
            command.arg(format!("-maxrregcount={limit}"));
            command.arg("--override-directive-values");
        }
        let output = command.arg(module).arg("-o").arg(cubin.path()).output();
        let output = output.map_err(failed)?;
        let code = output.status.code().unwrap_or(1);
        let said = String::from_utf8_lossy(&output.stderr);
        let half = folder.join(format!("{name}.half"));
        std::fs::write(&half, format!("{said}{END}{code}\n")).map_err(failed)?;
        std::fs::rename(&half, &path).map_err(failed)?;
    }
    let said = String::from_utf8_lossy(&std::fs::read(&path).map_err(failed)?).into_owned();
    let end = said.trim_end().lines().last().unwrap_or_default();
    Ok((end == format!("{END}0")).then_some(said))
}

/// The kernels that a `-v` text tells of.
fn usages(text: &str) -> Vec<Usage> {
    let mut found: Vec<Usage> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '")
            && let Some((kernel, _)) = rest.split_once('\'')
        {
            found.push(Usage {
                kernel: kernel.to_owned(),
                registers: 0,
                spills: 0,
            });
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            let bytes = lines.next().unwrap_or_default();
            if let Some(usage) = found.iter_mut().find(|usage| usage.kernel == name.trim()) {
                let of = |what| before(bytes, what).unwrap_or(0);
                usage.spills = of(" bytes spill stores") + of(" bytes spill loads");
            }
        } else if let Some((_, rest)) = line.split_once(" : Used ")
            && let (Some(usage), Some(registers)) = (found.last_mut(), before(rest, " registers"))
        {
            usage.registers = registers;
        }
    }
    found.retain(|usage| usage.registers > 0);
    found
}

/// The number that stands before `what`.
fn before(text: &str, what: &str) -> Option<u32> {
    let (before, _) = text.split_once(what)?;
    before.split([' ', ',']).next_back()?.parse().ok()
}

/// The kernels whose block size is known, with their threads.
fn threads(text: &[u8]) -> Vec<(String, u32)> {
    let text = String::from_utf8_lossy(text);
    let mut found: Vec<(String, u32)> = Vec::new();
    let mut kernel = None;
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once(".entry") {
            let name = rest.trim_start().split(['(', ' ', '\t']).next();
            kernel = name.map(str::to_owned);
        }
        let directive = [".maxntid", ".reqntid"].into_iter();
        if let Some((_, sides)) = directive.filter_map(|it| line.split_once(it)).next()
            && let Some(kernel) = kernel.take()
        {
            let sides: Vec<u32> = sides
                .split(',')
                .filter_map(|side| side.trim().parse().ok())
                .collect();
            found.push((kernel, sides.iter().product::<u32>().max(1)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_and_spills_of_kernels_are_read() {
        let text = "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n\
            ptxas info    : Function properties for f\n    0 bytes stack frame, 9 bytes spill stores, 9 bytes spill loads\n\
            ptxas info    : Function properties for k\n    32 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n\
            ptxas info    : Used 40 registers, used 1 barriers\nexit 0\n";
        let k = Usage {
            kernel: "k".to_owned(),
            registers: 40,
            spills: 12,
        };
        assert_eq!(usages(text), [k]);
    }

    #[test]
    fn threads_of_a_block_are_read() {
        let text = b".visible .entry a(\n.param .u64 p\n)\n.maxntid 32, 4, 1\n{\n}\n.entry b()\n{ }\n.entry c(.param .u32 n)\n.reqntid 64\n{ }";
        assert_eq!(threads(text), [("a".to_owned(), 128), ("c".to_owned(), 64)]);
    }

    #[test]
    fn what_may_be_spilled_is_a_tenth_and_16_bytes_more() {
        let usage = |registers, spills| Usage {
            kernel: "k".to_owned(),
            registers,
            spills,
        };
        let row = |ours, theirs| Row {
            corpus: String::new(),
            module: String::new(),
            ours,
            theirs,
            threads: Some(128),
        };
        assert!(row(usage(34, 16), usage(32, 0)).excess() <= 0.0);
        assert!(row(usage(34, 127), usage(32, 100)).excess() > 0.0);
        assert_eq!(row(usage(34, 0), usage(32, 0)).blocks(), Some([12, 16]));
    }
}
