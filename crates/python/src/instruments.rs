//! The instruments on finished cubins: disassembler, judge, scheduler, timeline, assembler.

use orias::reschedule::{Knobs, Request, reschedule_control};
use orias_cubin::Cubin;
use orias_sass::Target;
use orias_sass::text::ListingStyle;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

pyo3::create_exception!(
    _orias,
    Refused,
    PyValueError,
    "What an instrument has against its input."
);

fn refused(error: impl std::fmt::Display) -> PyErr {
    Refused::new_err(error.to_string())
}

fn read(bytes: &[u8]) -> PyResult<Cubin> {
    Cubin::read(bytes).map_err(refused)
}

fn read_for_tables(bytes: &[u8]) -> PyResult<(Cubin, Target)> {
    let cubin = read(bytes)?;
    let target = orias::target_of(&cubin)
        .ok_or_else(|| refused(format!("not supported yet: code for {}", cubin.target())))?;
    Ok((cubin, target))
}

/// A listing of all functions.
#[pyfunction]
pub fn disassemble(py: Python<'_>, cubin: &[u8], control: bool) -> PyResult<String> {
    py.detach(|| {
        let (cubin, target) = read_for_tables(cubin)?;
        Ok(orias::disassemble(&cubin, target, ListingStyle { control }))
    })
}

/// The same as JSON: each instruction with its word, text, control field and registers.
#[pyfunction]
pub fn disassemble_json(py: Python<'_>, cubin: &[u8]) -> PyResult<String> {
    py.detach(|| {
        let (cubin, target) = read_for_tables(cubin)?;
        Ok(orias::disassemble_json(&cubin, target).to_string())
    })
}

/// What is wrong with a listing: message, line and column of each error.
type Wrong = Vec<(String, usize, usize)>;

/// A listing as a cubin, or what is wrong with it.
#[pyfunction]
pub fn assemble<'py>(
    py: Python<'py>,
    listing: &str,
    arch: &str,
) -> PyResult<(Bound<'py, PyBytes>, Wrong)> {
    let target =
        Target::from_name(arch).ok_or_else(|| refused(format!("no target is named '{arch}'")))?;
    let made = py.detach(|| match orias::assemble_cubin(listing, target) {
        Ok(cubin) => Ok((cubin.write().map_err(refused)?, Vec::new())),
        Err(errors) => {
            let errors = errors
                .into_iter()
                .map(|it| (it.message, it.line, it.column));
            Ok::<_, PyErr>((Vec::new(), errors.collect()))
        }
    });
    let (bytes, wrong) = made?;
    Ok((PyBytes::new(py, &bytes), wrong))
}

/// A kernel of a cubin: name, registers, barriers, stack, shared memory without what the system keeps, bytes of code, sizes of its
/// parameters.
type KernelOf = (String, Option<u32>, u8, Option<u32>, u64, usize, Vec<u16>);

/// The target and the kernels of a cubin.
#[pyfunction]
pub fn kernels(py: Python<'_>, cubin: &[u8]) -> PyResult<(String, Vec<KernelOf>)> {
    py.detach(|| {
        let cubin = read(cubin)?;
        let functions = cubin.functions();
        let chip = orias::target_of(&cubin).map(orias::chip_of);
        let reserved = chip.map_or(0, |chip| chip.reserved_shared);
        let kernels = functions.iter().filter(|view| view.is_entry).map(|view| {
            (
                view.name.to_owned(),
                view.registers,
                view.barriers.unwrap_or(0),
                view.frame_size,
                view.shared_size
                    .map_or(0, |size| size.saturating_sub(reserved)),
                view.code.len(),
                view.params.iter().map(|parameter| parameter.size).collect(),
            )
        });
        let kernels = kernels.collect();
        Ok((cubin.target(), kernels))
    })
}

/// A finding: check, function, offset, instruction, the earlier instruction, register, what is needed, what is there, all of it as text.
type Finding = (
    &'static str,
    String,
    usize,
    String,
    Option<(usize, String)>,
    Option<String>,
    String,
    String,
    String,
);

/// How many functions and instructions were judged, and what was found.
#[pyfunction]
pub fn verify(py: Python<'_>, cubin: &[u8]) -> PyResult<(usize, usize, Vec<Finding>)> {
    py.detach(|| {
        let verdict = orias_verify::judge(&read(cubin)?).map_err(refused)?;
        let findings = verdict.findings.iter().map(|it| {
            (
                it.check.name(),
                it.function.clone(),
                it.offset,
                it.instruction.clone(),
                it.earlier.clone(),
                it.register.map(|register| register.to_string()),
                it.needed.clone(),
                it.found.clone(),
                it.to_string(),
            )
        });
        Ok((verdict.functions, verdict.instructions, findings.collect()))
    })
}

/// A cubin in a new order, and what changed as text; for each function its name and its cycles before and after.
type Rescheduled<'py> = (Bound<'py, PyBytes>, String, Vec<(String, f64, f64)>);

/// Computes order and control words of a cubin anew, or the control words alone.
#[pyfunction]
#[pyo3(signature = (cubin, knobs, shuffle=None, control_only=false))]
pub fn reschedule<'py>(
    py: Python<'py>,
    cubin: &[u8],
    knobs: Vec<String>,
    shuffle: Option<u64>,
    control_only: bool,
) -> PyResult<Rescheduled<'py>> {
    let (bytes, text, functions) = py.detach(|| {
        let mut set = Knobs::default();
        for knob in &knobs {
            set.set(knob).map_err(refused)?;
        }
        let cubin = read(cubin)?;
        if control_only {
            let (changed, statistics) = reschedule_control(&cubin).map_err(refused)?;
            let bytes = changed.write().map_err(refused)?;
            return Ok((bytes, statistics.to_string(), Vec::new()));
        }
        let request = Request {
            knobs: &set,
            shuffle,
            alternative: None,
            stories: false,
        };
        let done = orias::reschedule::reschedule(&cubin, &request).map_err(refused)?;
        let functions = done.report.functions.iter().map(|function| {
            let (before, after) = function.cycles();
            (function.name.clone(), before, after)
        });
        let functions = functions.collect();
        let bytes = done.cubin.write().map_err(refused)?;
        Ok::<_, PyErr>((bytes, done.report.to_string(), functions))
    })?;
    Ok((PyBytes::new(py, &bytes), text, functions))
}

/// The timeline of a cubin as `text`, `html` or `json`.
#[pyfunction]
pub fn timeline(py: Python<'_>, cubin: &[u8], form: &str) -> PyResult<String> {
    py.detach(|| {
        let stories = orias::timeline::of_cubin(&read(cubin)?).map_err(refused)?;
        match form {
            "text" => Ok(orias::timeline::text(&stories)),
            "html" => Ok(orias::timeline::html(&stories)),
            "json" => Ok(orias::timeline::to_json(&stories).to_string()),
            other => Err(refused(format!("'{other}' is no form of a timeline"))),
        }
    })
}
