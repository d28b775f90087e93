//! A run as words: what `orias run` and the `run:` lines of tests take.

use super::{Argument, Code, Element, Engine, Executions, Launch};
use clap::Parser;
use std::fmt::Write as _;

/// Elements shown of each buffer when nothing says how many.
const SHOWN: usize = 8;

/// Differing elements shown of each comparison.
const DIFFERENCES_SHOWN: usize = 3;

/// How a kernel is run and what is done with the results.
#[derive(Clone, Debug, Parser)]
pub struct Request {
    /// The kernel; may be left out where the module has only one
    #[arg(long)]
    pub kernel: Option<String>,
    /// CTAs: X, X,Y or X,Y,Z
    #[arg(long, default_value = "1", value_parser = dimensions)]
    pub grid: [u32; 3],
    /// Threads of a CTA: X, X,Y or X,Y,Z
    #[arg(long, default_value = "1", value_parser = dimensions)]
    pub block: [u32; 3],
    /// CTAs of a cluster, where the launch and not the kernel says so: X, X,Y or X,Y,Z
    #[arg(long, value_name = "X,Y,Z", value_parser = dimensions)]
    pub cluster: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory
    #[arg(long, default_value_t = 0)]
    pub smem: u32,
    /// Execute PTX directly instead of compiling it
    #[arg(long)]
    pub interpret: bool,
    /// Compile at this level, 0 to 3
    #[arg(short = 'O', long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=3))]
    pub opt_level: Option<u8>,
    /// Stop after so many instructions of all threads together
    #[arg(long, value_name = "N")]
    pub max_steps: Option<u64>,
    /// Bytes of a thread's stack where the kernel does not ask for more (emulator)
    #[arg(long, value_name = "BYTES")]
    pub stack: Option<u32>,
    /// Stop where registers, shared or local memory are read that were never written
    #[arg(long)]
    pub check_uninitialised: bool,
    /// When results of finished code become visible: off, strict, or random:SEED
    #[arg(long, value_name = "WHEN", default_value = "off", value_parser = parse_timing)]
    pub timing: orias_sim::Timing,
    /// Report races, hazards, and reads of what was never written; data races of the memory model with --interpret
    #[arg(long)]
    pub check: bool,
    /// What loads return in the interpreter: at-once, weak:SEED (anything the memory model allows), or all (every execution it allows)
    #[arg(long, value_name = "HOW", default_value = "at-once")]
    pub memory: super::Memory,
    /// In what order lanes and warps go on: in-order, random:SEED, or adversarial
    #[arg(long, value_name = "ORDER", default_value = "in-order")]
    pub schedule: orias_sim::Schedule,
    /// Print how often each instruction issued, for how many lanes, and what it waited for
    #[arg(long)]
    pub cycles: bool,
    /// Print which branches parted lanes, what that cost, and where they met again
    #[arg(long)]
    pub explain: bool,
    /// A file with arguments, one a line, before those on the command line; '#' begins a comment
    #[arg(long, value_name = "FILE")]
    pub args: Option<String>,
    /// A texture, sampler or surface that the kernel knows by name, numbered behind the arguments: NAME=ARGUMENT
    #[arg(long, value_name = "NAME=ARGUMENT")]
    pub bind: Vec<String>,
    /// Print a buffer, by the number of its argument from 0: N, or N:COUNT for its first elements
    #[arg(long, value_name = "N[:COUNT]", value_parser = printing)]
    pub print: Vec<(usize, Option<usize>)>,
    /// Print bits instead of numbers
    #[arg(long)]
    pub hex: bool,
    /// Write a buffer to a file
    #[arg(long, value_name = "N=FILE", value_parser = numbered_file)]
    pub dump: Vec<(usize, String)>,
    /// Compare a buffer with a file
    #[arg(long, value_name = "N=FILE", value_parser = numbered_file)]
    pub compare: Vec<(usize, String)>,
    /// How far elements may differ in comparisons, relative to the larger of 1 and what is expected
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    pub tolerance: f64,
    /// The arguments, as the help lists their forms.
    #[arg(
        value_name = "ARGUMENT",
        help = "The arguments: TYPE:VALUE, bytes:HEX, buf:TYPE:COUNT[:rand|:index|:fill:VALUE], buf:TYPE:[VALUES], buf:[TYPE:]@FILE, tex: and surf:GEOMETRY:FORMAT:SIZES[:OPTIONS][:CONTENTS], sampler:OPTIONS"
    )]
    pub arguments: Vec<String>,
}

/// Reads `off`, `strict` or `random:SEED`.
///
/// # Errors
/// It is none of them.
pub fn parse_timing(text: &str) -> Result<orias_sim::Timing, String> {
    match text.split_once(':') {
        None if text == "off" => Ok(orias_sim::Timing::Off),
        None if text == "strict" => Ok(orias_sim::Timing::Strict),
        Some(("random", seed)) => {
            let seed = seed.parse().map_err(|_| format!("'{seed}' is no number"))?;
            Ok(orias_sim::Timing::Random(seed))
        }
        _ => Err("write off, strict or random:SEED".into()),
    }
}

/// `X`, `X,Y` or `X,Y,Z`.
fn dimensions(text: &str) -> Result<[u32; 3], String> {
    let mut out = [1; 3];
    let parts: Vec<&str> = text.split([',', 'x']).collect();
    if parts.len() > out.len() {
        return Err("at most three numbers".into());
    }
    for (slot, part) in out.iter_mut().zip(parts) {
        *slot = part.parse().map_err(|_| format!("'{part}' is no number"))?;
    }
    Ok(out)
}

fn printing(text: &str) -> Result<(usize, Option<usize>), String> {
    let number = |text: &str| text.parse().map_err(|_| format!("'{text}' is no number"));
    Ok(match text.split_once(':') {
        Some((at, count)) => (number(at)?, Some(number(count)?)),
        None => (number(text)?, None),
    })
}

fn numbered_file(text: &str) -> Result<(usize, String), String> {
    let (at, file) = text.split_once('=').ok_or("write N=FILE")?;
    let at = at.parse().map_err(|_| format!("'{at}' is no number"))?;
    Ok((at, file.to_owned()))
}

/// What a request has to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// What was printed, by the kernel and about buffers.
    pub output: String,
    /// Files to write.
    pub files: Vec<(String, Vec<u8>)>,
    /// Why the run did not end well: a fault, or a comparison that failed.
    pub failure: Option<String>,
}

impl Request {
    /// Reads a request from words.
    ///
    /// # Errors
    /// What is wrong with them, with usage, or the help text that was asked for.
    pub fn parse_words(words: &[&str]) -> Result<Self, clap::Error> {
        Self::try_parse_from([&["run"], words].concat())
    }

    /// The launch it asks for.
    ///
    /// # Errors
    /// An argument is not understood or its file cannot be read.
    pub fn launch(&self) -> Result<Launch, String> {
        self.launch_within(super::argument::LARGEST_BUFFER)
    }

    /// The same, with buffers of at most so many bytes.
    ///
    /// # Errors
    /// An argument is not understood or too large, or its file cannot be read.
    pub fn launch_within(&self, most: u64) -> Result<Launch, String> {
        let mut arguments = Vec::new();
        if let Some(file) = &self.args {
            let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
            for line in text.lines() {
                let line = line.split('#').next().unwrap_or_default().trim();
                if !line.is_empty() {
                    arguments.push(Argument::parse_within(line, most)?);
                }
            }
        }
        for argument in &self.arguments {
            arguments.push(Argument::parse_within(argument, most)?);
        }
        let mut named = Vec::new();
        for binding in &self.bind {
            let (name, text) = (binding.split_once('='))
                .ok_or_else(|| format!("'{binding}': write NAME=ARGUMENT"))?;
            match Argument::parse_within(text, most)? {
                argument @ Argument::Image { .. } => named.push((name.to_owned(), argument)),
                _ => return Err(format!("'{text}' is no texture, sampler or surface")),
            }
        }
        Ok(Launch {
            named,
            kernel: self.kernel.clone(),
            grid: self.grid,
            block: self.block,
            cluster: self.cluster,
            dynamic_shared: self.smem,
            arguments,
            step_limit: self.max_steps,
            check_uninitialised: self.check_uninitialised,
            opt_level: self.opt_level,
            watch: None,
            emulation: super::Emulation {
                timing: self.timing,
                check: self.check,
                schedule: self.schedule,
                cycles: self.cycles,
                explain: self.explain,
                stack: self.stack,
            },
            memory: self.memory,
        })
    }

    /// Runs `code` and says what came out.
    ///
    /// # Errors
    /// The request or the code is wrong, or cannot be run yet.
    pub fn execute(
        &self,
        code: &[u8],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Answer, String> {
        let launch = self.launch()?;
        if self.memory == super::Memory::All && !(self.dump.is_empty() && self.compare.is_empty()) {
            return Err("--dump and --compare take one execution, not --memory all".into());
        }
        for at in self.mentioned() {
            match launch.held().nth(at) {
                Some(argument) if argument.changed().is_some() => {}
                Some(_) => return Err(format!("argument {at} is no buffer")),
                None => {
                    let count = launch.held().count();
                    return Err(format!("there is no argument {at}; there are {count}"));
                }
            }
        }
        let engine = if self.interpret {
            Engine::Interpreter
        } else {
            Engine::Emulator
        };
        let finished = super::run(Code::of(code), &launch, engine, progress)?;
        let mut answer = Answer {
            output: String::from_utf8_lossy(&finished.printed).into_owned(),
            ..Answer::default()
        };
        for finding in &finished.findings {
            // Writing to a string cannot fail.
            let _ = writeln!(answer.output, "found: {finding}");
        }
        if let Some(cycles) = &finished.cycles {
            answer.output.push_str(cycles);
        }
        if let Some(fault) = &finished.fault {
            answer.failure = Some(fault.clone());
            return Ok(answer);
        }
        if let Some(executions) = &finished.executions {
            self.show_all(&launch, executions, &mut answer.output);
            return Ok(answer);
        }
        self.show(&launch, &finished.buffers, &mut answer.output);
        for (at, file) in &self.dump {
            if let Some(Some(bytes)) = finished.buffers.get(*at) {
                answer.files.push((file.clone(), bytes.clone()));
            }
        }
        let mut failures = Vec::new();
        for (at, file) in &self.compare {
            let expected = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
            let element = launch.held().nth(*at).and_then(Argument::changed);
            if let (Some(element), Some(Some(bytes))) = (element, finished.buffers.get(*at)) {
                failures.extend(
                    differences(element, bytes, &expected, self.tolerance)
                        .map(|text| format!("argument {at} differs from {file}: {text}")),
                );
            }
        }
        if !failures.is_empty() {
            answer.failure = Some(failures.join("\n"));
        }
        Ok(answer)
    }

    /// The numbers of all arguments that the request says something about.
    fn mentioned(&self) -> impl Iterator<Item = usize> {
        let printed = self.print.iter().map(|(at, _)| *at);
        let files = self.dump.iter().chain(&self.compare).map(|(at, _)| *at);
        printed.chain(files)
    }

    /// What all executions leave, each outcome once.
    fn show_all(&self, launch: &Launch, executions: &Executions, out: &mut String) {
        let Executions {
            count,
            cut,
            complete,
            outcomes,
        } = executions;
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{count} executions, {} outcomes", outcomes.len());
        if *cut > 0 {
            let _ = writeln!(out, "{cut} runs were cut off after too many steps");
        }
        if !complete {
            let _ = writeln!(out, "there are more: the limit of runs is reached");
        }
        for (buffers, times) in outcomes {
            let _ = writeln!(out, "{times} times:");
            self.show(launch, buffers, out);
        }
    }

    fn show(&self, launch: &Launch, buffers: &[Option<Vec<u8>>], out: &mut String) {
        let quiet = self.print.is_empty() && !(self.dump.is_empty() && self.compare.is_empty());
        let wanted: Vec<(usize, Option<usize>)> = if !self.print.is_empty() {
            self.print.clone()
        } else if quiet {
            Vec::new()
        } else {
            (0..launch.held().count())
                .map(|at| (at, Some(SHOWN)))
                .collect()
        };
        for (at, count) in wanted {
            let element = launch.held().nth(at).and_then(Argument::changed);
            let (Some(element), Some(Some(bytes))) = (element, buffers.get(at)) else {
                continue;
            };
            let elements = bytes.chunks(element.bytes());
            let total = elements.len();
            let count = count.unwrap_or(total).min(total);
            let shown: Vec<String> = elements
                .take(count)
                .map(|bytes| element.show(bytes, self.hex))
                .collect();
            let more = if count < total { " ..." } else { "" };
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "{at}: {}[{total}] {}{more}",
                element.name(),
                shown.join(" ")
            );
        }
    }
}

/// How a buffer differs from what is expected, in words.
fn differences(element: Element, bytes: &[u8], expected: &[u8], tolerance: f64) -> Option<String> {
    if bytes.len() != expected.len() {
        return Some(format!(
            "{} bytes instead of {}",
            bytes.len(),
            expected.len()
        ));
    }
    let size = element.bytes();
    let near = |a: &[u8], b: &[u8]| {
        let (a, b) = (element.to_f64(a), element.to_f64(b));
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * b.abs().max(1.0)
    };
    let pairs = bytes.chunks(size).zip(expected.chunks(size)).enumerate();
    let wrong: Vec<_> = pairs
        .filter(|(_, (a, b))| a != b && !(tolerance > 0.0 && near(a, b)))
        .collect();
    let (first, _) = wrong.first()?;
    let mut text = format!("{} of {} elements", wrong.len(), bytes.len() / size);
    let _ = write!(text, ", first at {first}:");
    for (_, (a, b)) in wrong.iter().take(DIFFERENCES_SHOWN) {
        let _ = write!(
            text,
            " {} instead of {};",
            element.show(a, false),
            element.show(b, false)
        );
    }
    text.pop();
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_count_and_allow_tolerance() {
        let of = |list: &[f32]| -> Vec<u8> { list.iter().flat_map(|x| x.to_le_bytes()).collect() };
        let (a, b) = (of(&[1.0, 2.0, 3.0]), of(&[1.0, 2.5, 3.001]));
        let text = differences(Element::F32, &a, &b, 0.0).unwrap();
        assert_eq!(
            text,
            "2 of 3 elements, first at 1: 2 instead of 2.5; 3 instead of 3.001"
        );
        assert!(
            differences(Element::F32, &a, &b, 0.01)
                .unwrap()
                .starts_with("1 of 3")
        );
        assert_eq!(differences(Element::F32, &a, &b, 0.5), None);
        assert!(differences(Element::F32, &a, &b[..4], 0.5).is_some());
    }
}
