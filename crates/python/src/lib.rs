//! `orias._orias`: what the Python package `orias` is built on.
//!
//! **For:** the Python sources beside this crate (`python/orias`), and nobody else: names, defaults, classes and explanations are theirs.
//!
//! **May know:** the front door, sessions, and the container, names and judge that the instruments take.
//!
//! **Must never know:** how a cubin is made, or a Python package other than `orias`.
//!
//! Every function takes bytes, text and numbers and returns the same; nothing is kept between calls. The interpreter's lock is released
//! while something is computed, so threads of Python compile side by side. A bug that panics is caught: in a session, or by pyo3, which
//! makes an exception of it.
//!
//! The module is built for Python's stable ABI (3.9 and later): one file serves all of them.

mod compile;
mod instruments;
mod run;

use pyo3::prelude::*;

/// The module has its own use of the system's allocator, so that it knows how much a compilation takes.
#[global_allocator]
static COUNTED: orias_session::memory::Counted = orias_session::memory::Counted;

/// What the Python sources of the package call.
#[pymodule]
mod _orias {
    #[pymodule_export]
    use super::compile::{Cancel, compile};
    #[pymodule_export]
    use super::instruments::{
        Refused, assemble, disassemble, disassemble_json, kernels, reschedule, timeline, verify,
    };
    #[pymodule_export]
    use super::run::{parameters, run};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let (major, minor, build) = orias::versions::PTXAS;
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("PTXAS_VERSION", format!("{major}.{minor}.{build}"))
    }
}
