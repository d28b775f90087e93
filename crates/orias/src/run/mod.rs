//! Running kernels on the CPU: a cubin in the emulator, PTX compiled and in the emulator, or directly in the interpreter.
//!
//! [`run`] takes code, a [`Launch`] and an [`Engine`]; buffers among the arguments come back as the kernel left them.
//! [`Request`] is the same from words: what `orias run` and the `run:` lines of tests take.

mod argument;
mod element;
mod explain;
mod image;
mod parameters;
mod request;

pub use argument::Argument;
pub use element::Element;
pub use parameters::{Parameters, parameters};
pub use request::{Answer, Request, parse_timing};

use crate::compile::{Source, compile};
use crate::options::Options;
use crate::target::Target;
use orias_eval::texture::Object;
use orias_reference as reference;
use orias_sim as sim;
use std::collections::BTreeMap;

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
    /// CTAs of a cluster in each dimension, if the launch says so; otherwise as the kernel wants it.
    pub cluster: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// The arguments in order.
    pub arguments: Vec<Argument>,
    /// Textures, samplers and surfaces that the kernel knows by name.
    pub named: Vec<(String, Argument)>,
    /// Instructions of all threads together after which the run is stopped.
    pub step_limit: Option<u64>,
    /// Whether reading what was never written is an error, where the engine can tell.
    pub check_uninitialised: bool,
    /// At which level PTX is compiled for the emulator; as high as possible if nothing is said.
    pub opt_level: Option<u8>,
    /// The warp whose steps the emulator keeps.
    pub watch: Option<sim::Watch>,
    /// How the emulator runs finished code.
    pub emulation: Emulation,
    /// What loads return in the interpreter.
    pub memory: Memory,
}

impl Launch {
    /// The arguments, and behind them what has a name.
    pub fn held(&self) -> impl Iterator<Item = &Argument> {
        let named = self.named.iter().map(|(_, argument)| argument);
        self.arguments.iter().chain(named)
    }
}

/// Which of the executions that the PTX memory model allows the interpreter takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// Every access happens at once.
    #[default]
    AtOnce,
    /// One at random, by this seed.
    Weak(u64),
    /// All.
    All,
}

impl std::str::FromStr for Memory {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "at-once" => Ok(Self::AtOnce),
            None if text == "all" => Ok(Self::All),
            Some(("weak", seed)) => {
                let seed = seed.parse().map_err(|_| format!("'{seed}' is no number"))?;
                Ok(Self::Weak(seed))
            }
            _ => Err("write at-once, weak:SEED or all".into()),
        }
    }
}

/// How the emulator runs finished code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Emulation {
    /// When results become visible.
    pub timing: sim::Timing,
    /// Whether to look for races, hazards and reads of what was never written; they are reported, and do not stop the run. The interpreter looks for
    /// data races.
    pub check: bool,
    /// In what order lanes and warps go on.
    pub schedule: sim::Schedule,
    /// Whether to count issues and cycles.
    pub cycles: bool,
    /// Whether to say which branches parted lanes.
    pub explain: bool,
    /// Bytes of a thread's stack, where the kernel does not ask for more.
    pub stack: Option<u32>,
}

/// What a run left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// For each argument, and then for each of what has a name, its bytes after the run if it has any.
    pub buffers: Vec<Option<Vec<u8>>>,
    /// What the kernel printed.
    pub printed: Vec<u8>,
    /// Instructions executed, of all threads together.
    pub steps: u64,
    /// Why the run stopped before its end.
    pub fault: Option<String>,
    /// What was found suspicious.
    pub findings: Vec<String>,
    /// Where all executions were wanted: how many leave what.
    pub executions: Option<Executions>,
    /// The counts of the emulator, as tables.
    pub cycles: Option<String>,
    /// What the watched warp did.
    pub trace: Option<sim::Trace>,
}

/// What all executions that the memory model allows leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executions {
    /// How many there are.
    pub count: u64,
    /// Those that were not followed to their end, as they took too many steps.
    pub cut: u64,
    /// Whether these are all.
    pub complete: bool,
    /// Different buffers that they leave, sorted, each with how many executions do.
    pub outcomes: Vec<(Vec<Option<Vec<u8>>>, u64)>,
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
    if launch.memory != Memory::AtOnce {
        if engine == Engine::Emulator {
            return Err("weak memory is the interpreter's: --interpret".into());
        }
        if launch.check_uninitialised {
            return Err(
                "with weak memory nobody knows what was written: not with --check-uninitialised"
                    .into(),
            );
        }
    }
    match (code, engine) {
        (Code::Ptx(source), Engine::Interpreter) => interpret(source, launch, progress),
        (Code::Cubin(_), Engine::Interpreter) => {
            Err("a cubin runs in the emulator; the interpreter takes PTX".into())
        }
        (Code::Ptx(source), Engine::Emulator) => {
            emulate(&compiled(source, launch)?, launch, progress)
        }
        (Code::Cubin(image), Engine::Emulator) => emulate(image, launch, progress),
    }
}

/// The target that a PTX module names or, if that is an older one, one the emulator knows.
pub(crate) fn named_target(source: &[u8]) -> &'static str {
    let (module, _) = orias_ptx::parse(source);
    let named = module.target.map(|target| target.to_string());
    let known = named.and_then(|name| orias_sass::Target::from_name(&name));
    known.unwrap_or(orias_sass::Target::DEFAULT).name()
}

/// The cubin of a PTX module, compiled for the target it names or, if that is an older one, for one the emulator knows.
fn compiled(source: &[u8], launch: &Launch) -> Result<Vec<u8>, String> {
    let name = named_target(source);
    let mut options = Options {
        target: Target::parse(name).ok_or_else(|| format!("{name} is no target"))?,
        line_info: launch.emulation.explain,
        ..Options::default()
    };
    options.opt_level = launch.opt_level.unwrap_or(options.opt_level);
    let source = Source {
        name: "input",
        text: source,
    };
    match compile(&source, &options) {
        Ok(compiled) => compiled.cubin.ok_or_else(|| "there is no code".to_owned()),
        Err(diagnostics) => {
            let lines: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
            Err(lines.join("\n"))
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
    let (addresses, arguments) = place(launch, &mut program);
    let request = reference::Launch {
        kernel: kernel(launch, &known)?.to_owned(),
        grid: launch.grid,
        block: launch.block,
        cluster: launch.cluster,
        dynamic_shared: launch.dynamic_shared,
        arguments,
        step_limit: launch.step_limit,
        check_uninitialised: launch.check_uninitialised,
        schedule: match launch.emulation.schedule {
            sim::Schedule::InOrder => reference::Schedule::InOrder,
            sim::Schedule::Random(seed) => reference::Schedule::Random(seed),
            sim::Schedule::Adversarial => reference::Schedule::Adversarial,
        },
        consistency: match launch.memory {
            Memory::AtOnce => reference::Consistency::AtOnce,
            Memory::Weak(seed) => reference::Consistency::Weak(seed),
            Memory::All => reference::Consistency::Weak(0),
        },
        check_races: launch.emulation.check,
    };
    let buffers = |memory: &reference::Memory| {
        let buffers = launch.held().zip(&addresses);
        let bytes = buffers.map(|(argument, address)| {
            let length = argument.bytes().len();
            let bytes = memory.read((*address)?, length);
            bytes.ok().map(<[u8]>::to_vec)
        });
        bytes.collect::<Vec<_>>()
    };
    let findings = |races: &[reference::Race]| {
        let races = races.iter().filter(|_| launch.emulation.check);
        races.map(ToString::to_string).collect()
    };
    if launch.memory == Memory::All {
        let mut outcomes = BTreeMap::<_, u64>::new();
        let mut seen = |memory: &reference::Memory| {
            *outcomes.entry(buffers(memory)).or_default() += 1;
        };
        let explored = program.explore(&request, reference::Exploring::default(), &mut seen);
        let (explored, fault) = match explored {
            Ok(explored) => (explored, None),
            Err(fault) => (reference::Exploration::default(), Some(fault.to_string())),
        };
        return Ok(Finished {
            findings: findings(&explored.races),
            fault,
            executions: Some(Executions {
                count: explored.executions,
                cut: explored.cut,
                complete: explored.complete,
                outcomes: outcomes.into_iter().collect(),
            }),
            ..Finished::default()
        });
    }
    let mut outcome = reference::Outcome::default();
    let fault = program.launch_with(&request, &mut outcome, progress).err();
    Ok(Finished {
        buffers: buffers(program.memory()),
        findings: findings(&outcome.races),
        printed: outcome.printed,
        steps: outcome.steps,
        fault: fault.map(|fault| fault.to_string()),
        ..Finished::default()
    })
}

/// What holds buffers and images for kernels.
trait Holder {
    fn allocate(&mut self, bytes: &[u8]) -> u64;
    fn bind(&mut self, object: Object) -> u64;
    fn name(&mut self, name: &str, handle: u64);
}

impl Holder for sim::Device {
    fn allocate(&mut self, bytes: &[u8]) -> u64 {
        Self::allocate(self, bytes)
    }

    fn bind(&mut self, object: Object) -> u64 {
        Self::bind(self, object)
    }

    fn name(&mut self, name: &str, handle: u64) {
        Self::name(self, name, handle);
    }
}

impl Holder for reference::Program {
    fn allocate(&mut self, bytes: &[u8]) -> u64 {
        self.memory_mut().allocate(bytes.to_vec())
    }

    fn bind(&mut self, object: Object) -> u64 {
        self.memory_mut().bind(object)
    }

    fn name(&mut self, name: &str, handle: u64) {
        Self::name(self, name, handle);
    }
}

/// Where the buffers and images of a launch are put, those with names last, and the bytes of each argument: a buffer's address, an image's handle, or what a scalar is.
fn place(launch: &Launch, holder: &mut impl Holder) -> (Vec<Option<u64>>, Vec<Vec<u8>>) {
    let mut put = |argument: &Argument, name: Option<&str>| match argument {
        Argument::Buffer { bytes, .. } => {
            let address = holder.allocate(bytes);
            (Some(address), address.to_le_bytes().to_vec())
        }
        Argument::Image { what, bytes, .. } => {
            let address = holder.allocate(bytes);
            let handle = holder.bind(Object {
                what: *what,
                address,
            });
            if let Some(name) = name {
                holder.name(name, handle);
            }
            (Some(address), handle.to_le_bytes().to_vec())
        }
        Argument::Scalar { bytes } => (None, bytes.clone()),
    };
    let named = launch.named.iter();
    let named: Vec<_> = named.map(|(name, it)| put(it, Some(name)).0).collect();
    let arguments = launch.arguments.iter();
    let (mut addresses, bytes): (Vec<_>, _) = arguments.map(|argument| put(argument, None)).unzip();
    addresses.extend(named);
    (addresses, bytes)
}

fn emulate(
    image: &[u8],
    launch: &Launch,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Finished, String> {
    let mut device = sim::Device::new();
    let module = device.load(image).map_err(|error| error.to_string())?;
    let known: Vec<&str> = module.kernels().collect();
    let (addresses, arguments) = place(launch, &mut device);
    let request = sim::Launch {
        kernel: kernel(launch, &known)?.to_owned(),
        grid: launch.grid,
        block: launch.block,
        cluster: launch.cluster,
        dynamic_shared: launch.dynamic_shared,
        arguments,
    };
    let Emulation {
        timing,
        check,
        schedule,
        cycles,
        explain,
        stack,
    } = launch.emulation;
    let unwritten = launch.check_uninitialised;
    let defaults = sim::Options::default();
    let options = sim::Options {
        timing,
        schedule,
        checks: sim::Checks {
            registers: check || unwritten,
            memory: check || unwritten,
            races: check,
            hazards: check,
        },
        max_steps: launch.step_limit,
        profile: cycles || explain,
        stack: stack.unwrap_or(defaults.stack),
        watch: launch.watch,
        ..defaults
    };
    let outcome = device
        .launch_with(&module, &request, &options, progress)
        .map_err(|error| error.to_string())?;
    let buffers = launch.held().zip(addresses);
    let buffers = buffers.map(|(argument, address)| device.read(address?, argument.bytes().len()));
    let unwritten = outcome.findings.iter().find(|finding| {
        unwritten
            && matches!(
                finding.kind,
                sim::FindingKind::UnwrittenRegister(_) | sim::FindingKind::UnwrittenMemory { .. }
            )
    });
    Ok(Finished {
        buffers: buffers.collect(),
        printed: outcome.printed,
        steps: outcome.thread_instructions,
        fault: outcome
            .fault
            .map(|fault| fault.to_string())
            .or_else(|| unwritten.map(ToString::to_string)),
        findings: outcome.findings.iter().map(ToString::to_string).collect(),
        executions: None,
        trace: outcome.trace,
        cycles: outcome.profile.map(|profile| {
            let table = cycles.then(|| module.annotate(&request.kernel, &profile));
            let mut text = table.flatten().unwrap_or_else(|| profile.summary());
            if explain {
                text += &explain::divergences(image, &module, &request.kernel, &profile);
            }
            text
        }),
    })
}
