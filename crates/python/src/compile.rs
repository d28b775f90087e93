//! Compiling: a session for each call.

use orias::{Diagnostic, Kind, Severity};
use orias_session::{Session, Verdict, Watch};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a compilation looks whether the user pressed Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(50);

/// Ends compilations from another thread.
#[pyclass(frozen)]
pub struct Cancel {
    wanted: Arc<AtomicBool>,
}

#[pymethods]
impl Cancel {
    #[new]
    fn new() -> Self {
        let wanted = Arc::new(AtomicBool::new(false));
        Self { wanted }
    }

    /// Ends all compilations that were given this object, now and from now on.
    fn cancel(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Whether it was called.
    #[getter]
    fn cancelled(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }
}

/// A message: severity, kind, text, hint, file, line, column, and all of it as ptxas writes it.
type Message = (
    &'static str,
    &'static str,
    String,
    Option<String>,
    Option<String>,
    u32,
    u32,
    String,
);

/// What a kernel uses: name, registers, barriers, stack, spill stores, spill loads, shared memory, seconds.
type Used = (String, u32, u32, u32, u32, u32, u32, f64);

/// Verdict, cubin, messages, kernels, and the most memory at a time.
type Outcome<'py> = (
    &'static str,
    Bound<'py, PyBytes>,
    Vec<Message>,
    Vec<Used>,
    usize,
);

/// Compiles modules, each with the name that messages call it by, with ptxas's options.
#[pyfunction]
#[pyo3(signature = (modules, options, memory_limit=None, cancel=None))]
pub fn compile<'py>(
    py: Python<'py>,
    modules: Vec<(String, Vec<u8>)>,
    options: Vec<String>,
    memory_limit: Option<usize>,
    cancel: Option<Bound<'py, Cancel>>,
) -> PyResult<Outcome<'py>> {
    let session = Session::default();
    for (name, text) in &modules {
        session.add_module(Some(name.as_bytes()), text);
    }
    session.set_options(options.into_iter().map(String::into_bytes).collect());
    session.set_memory_limit(memory_limit);
    let interrupted = Arc::new(Mutex::new(None));
    let wanted = cancel.map(|cancel| Arc::clone(&cancel.get().wanted));
    session.set_watch(Some(watch(wanted, Arc::clone(&interrupted))));
    py.detach(|| session.compile());
    let interrupt = interrupted.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = interrupt.as_ref() {
        return Err(PyErr::clone_ref(error, py));
    }
    let outcome = session
        .outcome()
        .ok_or_else(|| PyRuntimeError::new_err("a compilation left nothing"))?;
    let kernels = outcome.kernels.iter().map(|it| {
        (
            it.name.clone(),
            it.registers,
            it.barriers,
            it.stack,
            it.spill_stores,
            it.spill_loads,
            it.shared,
            it.time.as_secs_f64(),
        )
    });
    Ok((
        verdict(outcome.verdict),
        PyBytes::new(py, &outcome.cubin),
        outcome.messages.iter().map(message).collect(),
        kernels.collect(),
        outcome.peak,
    ))
}

/// Says yes when `wanted` does or a signal's handler raises, and keeps what it raised.
fn watch(wanted: Option<Arc<AtomicBool>>, interrupted: Arc<Mutex<Option<PyErr>>>) -> Watch {
    let looked = Mutex::new(Instant::now());
    Arc::new(move || {
        let cancelled = wanted.as_ref();
        if cancelled.is_some_and(|it| it.load(Ordering::Relaxed)) {
            return true;
        }
        // Another thread that asks at the same moment need not look, too.
        let Ok(mut looked) = looked.try_lock() else {
            return false;
        };
        if looked.elapsed() < SIGNALS {
            return false;
        }
        *looked = Instant::now();
        match Python::attach(|py| py.check_signals()) {
            Ok(()) => false,
            Err(error) => {
                *interrupted.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                true
            }
        }
    })
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Compiled => "compiled",
        Verdict::Refused => "refused",
        Verdict::UnsupportedVersion => "unsupported version",
        Verdict::Unsupported => "unsupported",
        Verdict::Cancelled => "cancelled",
        Verdict::OutOfMemory => "out of memory",
        Verdict::Internal => "internal",
    }
}

fn message(said: &Diagnostic) -> Message {
    let severity = match said.severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
        Severity::Fatal => "fatal",
    };
    let kind = match said.kind {
        Kind::Input => "input",
        Kind::Unsupported { .. } => "unsupported",
        Kind::Internal { .. } => "internal",
        Kind::Stopped => "stopped",
    };
    let place = said.place.as_deref();
    (
        severity,
        kind,
        said.message.clone(),
        said.hint.clone(),
        place.map(|place| place.source.clone()),
        place.map_or(0, |place| place.line),
        place.map_or(0, |place| place.column),
        said.to_string(),
    )
}
