//! Running kernels on the CPU: a cubin in the emulator, PTX in the interpreter.
//!
//! [`run`] takes code, a [`Launch`] and an [`Engine`]; buffers among the arguments come back as the kernel left them.
//! [`Request`] is the same from words: what `orias run` and the `run:` lines of tests take.

mod argument;
mod element;
mod request;

pub use argument::Argument;
pub use element::Element;
pub use request::{Answer, Request};

use orias_reference as reference;

/// What to execute.
#[derive(Clone, Copy, Debug)]
pub enum Code<'a> {
    /// A PTX module.
    Ptx(&'a [u8]),
    /// A finished cubin.
    Cubin(&'a [u8]),
}

impl<'a> Code<'a> {
    /// Tells a cubin from PTX by its first bytes.
    pub fn of(bytes: &'a [u8]) -> Self {
        if bytes.starts_with(b"\x7fELF") {
            Self::Cubin(bytes)
        } else {
            Self::Ptx(bytes)
        }
    }
}

/// Who executes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The PTX interpreter: what the program means.
    Interpreter,
    /// The emulator of finished code: what the machine does.
    Emulator,
}

/// A launch.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The kernel; may be left out where the module has only one.
    pub kernel: Option<String>,
    /// CTAs in each dimension.
    pub grid: [u32; 3],
    /// Threads of a CTA in each dimension.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// The arguments in order.
    pub arguments: Vec<Argument>,
    /// Instructions of all threads together after which the run is stopped.
    pub step_limit: Option<u64>,
    /// Whether reading what was never written is an error, where the engine can tell.
    pub check_uninitialised: bool,
}

/// What a run left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// For each argument that is a buffer, its bytes after the run.
    pub buffers: Vec<Option<Vec<u8>>>,
    /// What the kernel printed.
    pub printed: Vec<u8>,
    /// Instructions executed, of all threads together.
    pub steps: u64,
    /// Why the run stopped before its end.
    pub fault: Option<String>,
}

/// Runs a kernel. `progress` hears how many of how many CTAs have ended.
///
/// # Errors
/// The code cannot be loaded, or the engine does not fit it. A kernel that does something wrong is no error here: see
/// [`Finished::fault`].
pub fn run(
    code: Code<'_>,
    launch: &Launch,
    engine: Engine,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Finished, String> {
    match (code, engine) {
        (Code::Ptx(source), Engine::Interpreter) => interpret(source, launch, progress),
        (Code::Cubin(_), Engine::Interpreter) => {
            Err("a cubin runs in the emulator; the interpreter takes PTX".into())
        }
        (Code::Ptx(_), Engine::Emulator) => Err(
            "not supported yet: compiling PTX before it runs; --interpret executes it directly"
                .into(),
        ),
        (Code::Cubin(_), Engine::Emulator) => {
            Err("not supported yet: the emulator of finished code".into())
        }
    }
}

/// The kernel a launch means.
fn kernel<'a>(launch: &'a Launch, known: &[&'a str]) -> Result<&'a str, String> {
    match (&launch.kernel, known) {
        (Some(name), _) => Ok(name),
        (None, [only]) => Ok(only),
        (None, []) => Err("the module has no kernel".into()),
        (None, _) => Err(format!("which kernel? there is {}", known.join(", "))),
    }
}

fn interpret(
    source: &[u8],
    launch: &Launch,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Finished, String> {
    let (module, mut found) = orias_ptx::parse(source);
    found.append(orias_ptx::check(&module, &orias_ptx::Options::default()));
    found.sort();
    if found.has_errors() {
        return Err(found.to_lines("input", source).trim_end().to_owned());
    }
    let mut program = reference::Program::load(&module).map_err(|error| error.to_string())?;
    let known: Vec<String> = program.kernels().map(str::to_owned).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let mut addresses = Vec::with_capacity(launch.arguments.len());
    let mut arguments = Vec::with_capacity(launch.arguments.len());
    for argument in &launch.arguments {
        let (address, bytes) = match argument {
            Argument::Buffer { bytes, .. } => {
                let address = program.memory_mut().allocate(bytes.clone());
                (Some(address), address.to_le_bytes().to_vec())
            }
            Argument::Scalar { bytes } => (None, bytes.clone()),
        };
        addresses.push(address);
        arguments.push(bytes);
    }
    let request = reference::Launch {
        kernel: kernel(launch, &known)?.to_owned(),
        grid: launch.grid,
        block: launch.block,
        dynamic_shared: launch.dynamic_shared,
        arguments,
        step_limit: launch.step_limit,
        check_uninitialised: launch.check_uninitialised,
    };
    let mut outcome = reference::Outcome::default();
    let fault = program.launch_with(&request, &mut outcome, progress).err();
    let buffers = launch.arguments.iter().zip(addresses);
    let buffers = buffers.map(|(argument, address)| {
        let length = argument.bytes().len();
        let bytes = program.memory().read(address?, length);
        bytes.ok().map(<[u8]>::to_vec)
    });
    Ok(Finished {
        buffers: buffers.collect(),
        printed: outcome.printed,
        steps: outcome.steps,
        fault: fault.map(|fault| fault.to_string()),
    })
}
