//! `orias -j N`: many modules, each into a cubin of its own, on N threads.
//!
//! ptxas has no such mode: several inputs are one module's parts there. With `-j` each input is compiled by itself, with the options of the
//! compile mode. An input that is a folder stands for all PTX below it; `-o` names the folder that the cubins go to, in the same order of
//! folders as their sources, and without it each lies beside its source.
//!
//! The work can be taken up again: a file beside the cubins, `orias-batch.jsonl`, says of each cubin by which source, options and version it
//! was made, and one that is there and fits is not made again. Its lines and the cubins are written whole, so that neither an end by force nor
//! a second command at the same time leaves half of one. What failed is tried again.
//!
//! Cost: reading and hashing every source, then compiling on all threads; a line of the record for each.

use crate::output::write_whole;
use crate::report::Report;
use orias::command_line::{self, Action, Input, Invocation};
use orias::{Diagnostic, Diagnostics, MessageFormat, Options, Severity, Source, compile};
use rayon::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The record of what was made.
const RECORD: &str = "orias-batch.jsonl";

/// The exit code of the compile mode where something failed.
const FAILED: u8 = 255;

/// How often the bar moves.
const PACE: Duration = Duration::from_millis(100);

/// Letters of the bar.
const BAR: usize = 30;

/// The number of threads, if the arguments ask for this mode, and the other arguments.
pub fn asked(arguments: &[String]) -> Option<(Result<usize, String>, Vec<String>)> {
    let at = arguments.iter().position(|argument| {
        let attached = argument.strip_prefix("-j");
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        attached.is_some_and(number) || argument == "--jobs" || argument.starts_with("--jobs=")
    })?;
    let mut rest = arguments.to_vec();
    let word = rest.remove(at);
    let text = match word.strip_prefix("-j").or(word.strip_prefix("--jobs=")) {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ if at < rest.len() => rest.remove(at),
        _ => return Some((Err(format!("'{word}' wants a number of threads")), rest)),
    };
    let number = text
        .parse()
        .map_err(|_| format!("'{text}' is no number of threads"));
    Some((number, rest))
}

/// One input and where its cubin goes.
struct Job {
    source: PathBuf,
    output: PathBuf,
}

/// How a job ended.
enum End {
    Compiled,
    UpToDate,
    Failed,
}

/// Compiles all inputs of a command line, each by itself.
pub fn run(threads: Result<usize, String>, arguments: Vec<String>) -> Report {
    let threads = match threads {
        Ok(threads) => threads,
        Err(error) => return fatal(error),
    };
    // The default output of the compile mode is no folder.
    let (named, arguments) = take_output(arguments);
    let parsed = command_line::parse(arguments.clone(), &mut |name| fs::read(name).ok());
    let invocation = match parsed {
        Ok(invocation) if invocation.action == Action::Compile => invocation,
        Ok(_) => return fatal("-j wants modules to compile"),
        Err(diagnostics) => return refused(&diagnostics),
    };
    if invocation.options.statistics.any() {
        return fatal(
            "'--compiler-stats' is for one compilation; -j says in its last line how long all took",
        );
    }
    let warnings = (invocation.options).treat_warnings(Diagnostics(invocation.warnings.clone()));
    if warnings.has_errors() {
        return refused(&warnings);
    }
    let jobs = match jobs(&invocation, named.as_deref()) {
        Ok(jobs) => jobs,
        Err(error) => return fatal(error),
    };
    let options = Options {
        threads: Some(1),
        ..invocation.options.clone()
    };
    let record = named.as_deref().unwrap_or(Path::new(".")).join(RECORD);
    let mut remarks = invocation.remarks.clone();
    remarks.extend(warnings.0);
    let work = Work::new(
        &invocation,
        options,
        remarks,
        &arguments,
        &record,
        jobs.len(),
    );
    let work = match work {
        Ok(work) => work,
        Err(error) => return fatal(format!("{}: {error}", record.display())),
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = match pool {
        Ok(pool) => pool,
        Err(error) => return fatal(error.to_string()),
    };
    pool.install(|| jobs.par_iter().for_each(|job| work.one(job)));
    work.finish()
}

fn fatal(message: impl Into<String>) -> Report {
    refused(&Diagnostic::new(Severity::Fatal, message.into()).into())
}

fn refused(diagnostics: &Diagnostics) -> Report {
    Report {
        messages: MessageFormat::Text.lines(diagnostics),
        code: FAILED,
        ..Report::default()
    }
}

/// The folder that `-o` names, and the other arguments.
fn take_output(arguments: Vec<String>) -> (Option<PathBuf>, Vec<String>) {
    let mut named = None;
    let mut rest = Vec::with_capacity(arguments.len());
    let mut words = arguments.into_iter();
    while let Some(word) = words.next() {
        let attached = word
            .strip_prefix("-o=")
            .or(word.strip_prefix("--output-file="));
        match attached {
            Some(folder) => named = Some(PathBuf::from(folder)),
            None if word == "-o" || word == "--output-file" => {
                named = words.next().map(PathBuf::from);
            }
            None => rest.push(word),
        }
    }
    (named, rest)
}

/// What is to be compiled, and to where.
fn jobs(invocation: &Invocation, folder: Option<&Path>) -> Result<Vec<Job>, String> {
    let mut sources = Vec::new();
    for input in &invocation.inputs {
        match input {
            Input::File(name) if Path::new(name).is_dir() => gather(Path::new(name), &mut sources)?,
            Input::File(name) => sources.push(PathBuf::from(name)),
            Input::StandardInput | Input::Text(_) => {
                return Err("-j compiles files and folders".into());
            }
        }
    }
    let above = common_folder(&sources);
    let mut taken: BTreeSet<PathBuf> = BTreeSet::new();
    let mut jobs = Vec::with_capacity(sources.len());
    for source in sources {
        let output = match folder {
            None => source.with_extension("cubin"),
            Some(folder) => {
                let below = source.strip_prefix(&above).unwrap_or(&source);
                // What leads upwards or starts at the root would leave the folder.
                let inside = below
                    .components()
                    .all(|part| matches!(part, Component::Normal(_)));
                if !inside {
                    let source = source.display();
                    return Err(format!(
                        "{source}: inputs of several trees have no place below one folder"
                    ));
                }
                folder.join(below).with_extension("cubin")
            }
        };
        if !taken.insert(output.clone()) {
            let (source, output) = (source.display(), output.display());
            return Err(format!("{source}: another input goes to {output}, too"));
        }
        jobs.push(Job { source, output });
    }
    Ok(jobs)
}

/// All PTX below a folder, in the order of names.
fn gather(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let mut folders = vec![folder.to_path_buf()];
    let first = files.len();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| failed(&folder, error))? {
            let entry = entry.map_err(|error| failed(&folder, error))?;
            let path = entry.path();
            // Links to folders may lead in circles.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "ptx") {
                files.push(path);
            }
        }
    }
    files[first..].sort();
    Ok(())
}

/// The deepest folder that all files are in.
fn common_folder(files: &[PathBuf]) -> PathBuf {
    let folder = |file: &PathBuf| file.parent().map(Path::to_path_buf).unwrap_or_default();
    let Some(mut common) = files.first().map(folder) else {
        return PathBuf::new();
    };
    for file in files {
        while !folder(file).starts_with(&common) {
            common.pop();
        }
    }
    common
}

/// What all threads share.
struct Work<'a> {
    invocation: &'a Invocation,
    options: Options,
    /// What there is to say of the command line.
    remarks: Vec<Diagnostic>,
    /// What the cubins depend on besides their sources.
    setting: u64,
    /// What each output was made from, by an earlier command.
    known: BTreeMap<PathBuf, u64>,
    total: usize,
    started: Instant,
    state: Mutex<State>,
}

struct State {
    record: File,
    compiled: usize,
    up_to_date: usize,
    failures: Vec<PathBuf>,
    /// What there is to say of each source.
    said: Vec<(PathBuf, String)>,
    /// When the bar moved, if there is one.
    told: Option<Instant>,
}

impl<'a> Work<'a> {
    fn new(
        invocation: &'a Invocation,
        options: Options,
        remarks: Vec<Diagnostic>,
        arguments: &[String],
        record: &Path,
        total: usize,
    ) -> io::Result<Self> {
        let inputs: BTreeSet<&str> = invocation
            .inputs
            .iter()
            .filter_map(|input| match input {
                Input::File(name) => Some(name.as_str()),
                Input::StandardInput | Input::Text(_) => None,
            })
            .collect();
        let mut setting = DefaultHasher::new();
        env!("CARGO_PKG_VERSION").hash(&mut setting);
        std::env::current_exe()
            .and_then(fs::metadata)
            .and_then(|file| file.modified())
            .ok()
            .hash(&mut setting);
        for argument in arguments {
            if !inputs.contains(argument.as_str()) {
                argument.hash(&mut setting);
            }
        }
        if let Some(folder) = record.parent() {
            fs::create_dir_all(folder)?;
        }
        let known = known(record)?;
        let record = File::options().append(true).create(true).open(record)?;
        Ok(Self {
            invocation,
            options,
            remarks,
            setting: setting.finish(),
            known,
            total,
            started: Instant::now(),
            state: Mutex::new(State {
                record,
                compiled: 0,
                up_to_date: 0,
                failures: Vec::new(),
                said: Vec::new(),
                told: io::stderr().is_terminal().then(Instant::now),
            }),
        })
    }

    /// Compiles one module, unless what is there is what would be made.
    fn one(&self, job: &Job) {
        let (end, said, made_from) = match fs::read(&job.source) {
            Ok(text) => self.compile(job, &text),
            Err(error) => (
                End::Failed,
                format!("{}: {error}\n", job.source.display()),
                0,
            ),
        };
        let mut state = self
            .state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        match end {
            End::UpToDate => state.up_to_date += 1,
            End::Compiled => {
                state.compiled += 1;
                let line = json!({"output": job.output.to_string_lossy(), "from": made_from});
                // What is not recorded is only made again.
                let _ = state.record.write_all(format!("{line}\n").as_bytes());
            }
            End::Failed => state.failures.push(job.source.clone()),
        }
        if !said.is_empty() {
            state.said.push((job.source.clone(), said));
        }
        self.tell(&mut state);
    }

    fn compile(&self, job: &Job, text: &[u8]) -> (End, String, u64) {
        let mut hasher = DefaultHasher::new();
        (self.setting, text).hash(&mut hasher);
        let made_from = hasher.finish();
        if self.known.get(&job.output) == Some(&made_from) && job.output.is_file() {
            return (End::UpToDate, String::new(), made_from);
        }
        let name = job.source.to_string_lossy();
        let source = Source { name: &name, text };
        let format = self.invocation.message_format;
        let compiled = match compile(&source, &self.options) {
            Ok(compiled) => compiled,
            Err(said) => return (End::Failed, format.lines(&said), made_from),
        };
        if let Some(cubin) = &compiled.cubin {
            let folder = job.output.parent().unwrap_or(Path::new("."));
            let written = fs::create_dir_all(folder).and_then(|()| write_whole(&job.output, cubin));
            if let Err(error) = written {
                let said = format!("{}: {error}\n", job.output.display());
                return (End::Failed, said, made_from);
            }
        }
        let mut said = format.lines(&compiled.diagnostics);
        // What is not about a line of the source does not name it.
        if !said.is_empty() && format == MessageFormat::Text {
            said.insert_str(0, &format!("{name}:\n"));
        }
        (End::Compiled, said, made_from)
    }

    /// Moves the bar.
    fn tell(&self, state: &mut State) {
        let done = state.compiled + state.up_to_date + state.failures.len();
        let Some(told) = &mut state.told else { return };
        if told.elapsed() < PACE && done < self.total {
            return;
        }
        *told = Instant::now();
        let seconds = self.started.elapsed().as_secs_f64();
        let left = seconds / done as f64 * (self.total - done) as f64;
        let full = BAR * done / self.total.max(1);
        // The bar is a courtesy: where it cannot be shown the work goes on.
        let _ = write!(
            io::stderr(),
            "\r[{:<BAR$}] {done}/{}, {} failed, {:.0} a second, {left:.0} s left ",
            "#".repeat(full),
            self.total,
            state.failures.len(),
            done as f64 / seconds.max(1e-9),
        );
    }

    /// What there is to say in the end.
    fn finish(self) -> Report {
        let seconds = self.started.elapsed().as_secs_f64();
        let mut state = self
            .state
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        // By name: threads end in any order.
        state.failures.sort();
        state.said.sort();
        let mut messages = String::new();
        if state.told.is_some() {
            messages.push('\n');
        }
        messages += &self.invocation.message_format.lines(&self.remarks);
        messages.extend(state.said.iter().map(|(_, said)| said.as_str()));
        let mut summary = format!(
            "{} compiled, {} up to date, {} failed, {seconds:.1} s\n",
            state.compiled,
            state.up_to_date,
            state.failures.len()
        );
        for source in &state.failures {
            summary += &format!("failed: {}\n", source.display());
        }
        Report {
            output: summary.into_bytes(),
            messages,
            code: if state.failures.is_empty() { 0 } else { FAILED },
        }
    }
}

/// What a record says; a line that is not whole says nothing.
fn known(record: &Path) -> io::Result<BTreeMap<PathBuf, u64>> {
    let text = match fs::read_to_string(record) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let entry = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let output = PathBuf::from(line["output"].as_str()?);
        Some((output, line["from"].as_u64()?))
    };
    Ok(text.lines().filter_map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_number_of_threads_is_found_in_every_spelling() {
        for text in [
            "-j 4 a.ptx",
            "-j4 a.ptx",
            "a.ptx --jobs=4",
            "--jobs 4 a.ptx",
        ] {
            let (threads, rest) = asked(&words(text)).expect(text);
            assert_eq!((threads, rest), (Ok(4), words("a.ptx")), "{text}");
        }
        assert!(asked(&words("-arch=sm_90a a.ptx -o j")).is_none());
        for text in ["-j", "-j x", "--jobs=x"] {
            assert!(asked(&words(text)).expect(text).0.is_err(), "{text}");
        }
    }

    #[test]
    fn cubins_lie_as_their_sources_do() {
        let files = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(
            common_folder(&files(&["a/b/x.ptx", "a/c/x.ptx"])),
            Path::new("a")
        );
        assert_eq!(common_folder(&files(&["a/x.ptx", "y.ptx"])), Path::new(""));
        assert_eq!(common_folder(&files(&["a/x.ptx"])), Path::new("a"));
    }
}
