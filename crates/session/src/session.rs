//! A session: modules and options in, a cubin and two logs out.
//!
//! What [`Session::compile`] works on is a copy of what the session was told, so that no lock is held while it works; what comes of it
//! replaces what came of the compilation before, all at once.

use crate::memory::Meter;
use orias::command_line::parse_options;
use orias::{
    Diagnostic, Diagnostics, Kind, MessageFormat, Severity, Source, Statistics, Usage,
    compile_until,
};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Asked between phases, perhaps by several threads at once; yes ends the compilation.
pub type Watch = Arc<dyn Fn() -> bool + Send + Sync>;

/// How a compilation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// With a cubin, or with nothing to object to where the target is virtual.
    Compiled,
    /// The PTX or the options are wrong.
    Refused,
    /// The PTX is of a version that is not understood.
    UnsupportedVersion,
    /// The PTX is right, and Orias cannot compile it yet.
    Unsupported,
    /// It was cancelled.
    Cancelled,
    /// It took more memory than it may.
    OutOfMemory,
    /// By a bug of Orias.
    Internal,
}

/// What a compilation leaves.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub verdict: Verdict,
    /// The cubin; empty where the target is virtual or the verdict is bad.
    pub cubin: Vec<u8>,
    /// Remarks and warnings, a line each.
    pub info_log: String,
    /// Errors, a line each; empty if there are none.
    pub error_log: String,
    /// All messages, in the order they arose.
    pub messages: Vec<Diagnostic>,
    /// What each kernel uses.
    pub kernels: Vec<Usage>,
    /// The most memory that the calling thread took at a time.
    pub peak: usize,
}

/// A module with the name that messages call it by.
#[derive(Debug)]
struct Module {
    name: String,
    text: Vec<u8>,
}

/// What a session was told.
#[derive(Clone, Default)]
struct Request {
    modules: Vec<Arc<Module>>,
    options: Vec<Vec<u8>>,
    memory_limit: Option<usize>,
    watch: Option<Watch>,
}

/// What one compilation was told and what came of it; the head of the file says more.
#[derive(Default)]
pub struct Session {
    cancelled: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    request: Request,
    outcome: Option<Arc<Outcome>>,
}

impl Session {
    /// Adds a module. Bytes of value zero at its end are left out: C has one there, and some count it.
    pub fn add_module(&self, name: Option<&[u8]>, text: &[u8]) {
        let name = name.map_or(Source::IN_MEMORY.into(), String::from_utf8_lossy);
        let length = text.iter().rposition(|&byte| byte != 0);
        let module = Module {
            name: name.into_owned(),
            text: text[..length.map_or(0, |last| last + 1)].to_vec(),
        };
        self.state().request.modules.push(Arc::new(module));
    }

    /// Adds an argument of the command line.
    pub fn add_option(&self, option: &[u8]) {
        self.state().request.options.push(option.to_vec());
    }

    /// Sets all arguments of the command line.
    pub fn set_options(&self, options: Vec<Vec<u8>>) {
        self.state().request.options = options;
    }

    /// Sets the most memory a compilation may take, or none.
    pub fn set_memory_limit(&self, bytes: Option<usize>) {
        self.state().request.memory_limit = bytes;
    }

    /// Sets who is asked between phases, or nobody.
    pub fn set_watch(&self, watch: Option<Watch>) {
        self.state().request.watch = watch;
    }

    /// Ends the compilation at work, if there is one, and all that follow.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Compiles what was added.
    pub fn compile(&self) -> Verdict {
        let request = {
            let mut state = self.state();
            state.outcome = None;
            state.request.clone()
        };
        let attempt = AssertUnwindSafe(|| request.compile(&self.cancelled));
        let outcome = catch_unwind(attempt).unwrap_or_else(|panic| {
            let bug = Diagnostic::internal("a panic", None, panic_text(panic.as_ref()));
            Outcome::failure(MessageFormat::Text, &[], &bug.into(), 0)
        });
        let verdict = outcome.verdict;
        self.state().outcome = Some(Arc::new(outcome));
        verdict
    }

    /// What came of the last compilation.
    pub fn outcome(&self) -> Option<Arc<Outcome>> {
        self.state().outcome.clone()
    }

    /// Nothing that is done under the lock leaves the state half done, so a panic there does not spoil it.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text")
}

impl Request {
    fn compile(&self, cancelled: &AtomicBool) -> Outcome {
        let meter = Meter::start();
        let invocation = match self.arguments().and_then(parse_options) {
            Ok(invocation) => invocation,
            Err(said) => {
                return Outcome::failure(MessageFormat::Text, &[], &said, meter.peak());
            }
        };
        let format = invocation.message_format;
        let mut options = invocation.options;
        let warnings = options.treat_warnings(Diagnostics(invocation.warnings));
        let mut remarks = invocation.remarks;
        if warnings.has_errors() {
            return Outcome::failure(format, &remarks, &warnings, meter.peak());
        }
        remarks.extend(warnings.0);
        // Threads of its own that end with the call, and no others: a library leaves none behind.
        let all = std::thread::available_parallelism().map_or(1, usize::from);
        options.threads = Some(match self.memory_limit {
            Some(_) => 1,
            None => options.threads.map_or(all, |wanted| wanted.min(all)),
        });
        let why = OnceLock::new();
        let stop = || {
            let found = self.reason_to_stop(cancelled, meter);
            found.is_some_and(|verdict| why.set(verdict).is_ok() || why.get().is_some())
        };
        let sources = self.modules.iter().map(|module| Source {
            name: &module.name,
            text: &module.text,
        });
        let sources: Vec<Source<'_>> = sources.collect();
        let compiled = if stop() {
            Err(Diagnostics::default())
        } else {
            compile_until(&sources, &options, &stop)
        };
        // What the last phases took counts, too.
        if stop() || why.get().is_some() {
            let verdict = why.get().copied().unwrap_or(Verdict::Cancelled);
            return self.stopped(format, verdict, meter.peak());
        }
        match compiled {
            Ok(compiled) => {
                remarks.extend(compiled.diagnostics.0);
                remarks.extend(compiled.statistics.iter().flat_map(Statistics::remarks));
                Outcome {
                    verdict: Verdict::Compiled,
                    cubin: compiled.cubin.unwrap_or_default(),
                    info_log: format.lines(&remarks),
                    error_log: String::new(),
                    messages: remarks,
                    kernels: compiled.kernels,
                    peak: meter.peak(),
                }
            }
            Err(said) => Outcome::failure(format, &remarks, &said, meter.peak()),
        }
    }

    /// The options as text, or the complaint of the command about one that is none.
    fn arguments(&self) -> Result<Vec<String>, Diagnostics> {
        let text = |option: &Vec<u8>| {
            String::from_utf8(option.clone()).map_err(|_| {
                let shown = String::from_utf8_lossy(option);
                let message = format!("Argument '{shown}' is not UTF-8 text");
                Diagnostics::from(Diagnostic::new(Severity::Fatal, message))
            })
        };
        self.options.iter().map(text).collect()
    }

    fn reason_to_stop(&self, cancelled: &AtomicBool, meter: Meter) -> Option<Verdict> {
        if cancelled.load(Ordering::Relaxed) || self.watch.as_ref().is_some_and(|watch| watch()) {
            return Some(Verdict::Cancelled);
        }
        let over = self.memory_limit.is_some_and(|limit| meter.peak() > limit);
        over.then_some(Verdict::OutOfMemory)
    }

    fn stopped(&self, format: MessageFormat, verdict: Verdict, peak: usize) -> Outcome {
        let message = match (verdict, self.memory_limit) {
            (Verdict::OutOfMemory, Some(limit)) => {
                format!("Compilation takes more memory than its limit of {limit} bytes")
            }
            _ => "Compilation was cancelled".into(),
        };
        let said = Diagnostic::new(Severity::Fatal, message);
        Outcome {
            verdict,
            ..Outcome::failure(format, &[], &said.into(), peak)
        }
    }
}

impl Outcome {
    fn failure(
        format: MessageFormat,
        remarks: &[Diagnostic],
        said: &Diagnostics,
        peak: usize,
    ) -> Self {
        let error = |it: &&Diagnostic| it.severity >= Severity::Error;
        let errors: Vec<&Diagnostic> = said.iter().filter(error).collect();
        let others = said.iter().filter(|it| !error(it));
        Self {
            verdict: verdict(&errors),
            cubin: Vec::new(),
            info_log: format.lines(remarks.iter().chain(others)),
            error_log: format.lines(errors.into_iter().chain(&said.last_word())),
            messages: remarks.iter().chain(said).cloned().collect(),
            kernels: Vec::new(),
            peak,
        }
    }
}

/// A bug goes before everything, and what is wrong before what is missing.
fn verdict(errors: &[&Diagnostic]) -> Verdict {
    let any = |wanted: fn(&Diagnostic) -> bool| errors.iter().any(|error| wanted(error));
    if any(|error| matches!(error.kind, Kind::Internal { .. })) {
        Verdict::Internal
    } else if any(|error| error.message.starts_with("Unsupported .version")) {
        Verdict::UnsupportedVersion
    } else if any(|error| error.kind == Kind::Input) {
        Verdict::Refused
    } else if any(|error| error.kind == Kind::Stopped) {
        Verdict::Cancelled
    } else {
        Verdict::Unsupported
    }
}
