//! Running kernels on the CPU.

use crate::instruments::Refused;
use orias::run::{Argument, Code, Element, Emulation, Engine, Launch, Parameters};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

fn refused(error: impl Into<String>) -> PyErr {
    Refused::new_err(error.into())
}

/// What a run left: the buffers, what was printed, instructions, a fault, findings, and the table of cycles.
type Finished<'py> = (
    Vec<Option<Bound<'py, PyBytes>>>,
    Bound<'py, PyBytes>,
    u64,
    Option<String>,
    Vec<String>,
    Option<String>,
);

/// Runs a kernel of PTX or of a cubin. An argument is its bytes, and whether they are a buffer in memory or the argument itself.
#[pyfunction]
#[pyo3(signature = (code, *, interpret, kernel, grid, block, cluster, dynamic_shared, arguments, max_steps, check, check_uninitialised, timing, schedule, cycles))]
#[expect(clippy::too_many_arguments, reason = "they are keywords for Python")]
pub fn run<'py>(
    py: Python<'py>,
    code: &[u8],
    interpret: bool,
    kernel: Option<String>,
    grid: [u32; 3],
    block: [u32; 3],
    cluster: Option<[u32; 3]>,
    dynamic_shared: u32,
    arguments: Vec<(bool, Vec<u8>)>,
    max_steps: Option<u64>,
    check: bool,
    check_uninitialised: bool,
    timing: &str,
    schedule: &str,
    cycles: bool,
) -> PyResult<Finished<'py>> {
    let arguments = arguments.into_iter().map(|(buffer, bytes)| match buffer {
        true => Argument::buffer(Element::U8, bytes),
        false => Argument::Scalar { bytes },
    });
    let launch = Launch {
        kernel,
        grid,
        block,
        cluster,
        dynamic_shared,
        arguments: arguments.collect(),
        step_limit: max_steps,
        check_uninitialised,
        opt_level: None,
        emulation: Emulation {
            timing: orias::run::parse_timing(timing).map_err(refused)?,
            check,
            schedule: schedule.parse().map_err(|why: String| refused(why))?,
            cycles,
            ..Emulation::default()
        },
    };
    let engine = match interpret {
        true => Engine::Interpreter,
        false => Engine::Emulator,
    };
    let finished = py.detach(|| {
        let said = orias::run::run(Code::of(code), &launch, engine, &mut |_, _| ());
        said.map_err(refused)
    })?;
    let buffers = finished.buffers.iter().map(|buffer| {
        let bytes = buffer.as_deref();
        bytes.map(|bytes| PyBytes::new(py, bytes))
    });
    Ok((
        buffers.collect(),
        PyBytes::new(py, &finished.printed),
        finished.steps,
        finished.fault,
        finished.findings,
        finished.cycles,
    ))
}

/// The kernels of PTX or of a cubin, with type and size of each parameter.
#[pyfunction]
pub fn parameters(py: Python<'_>, code: &[u8]) -> PyResult<Parameters> {
    py.detach(|| orias::run::parameters(Code::of(code)).map_err(refused))
}
