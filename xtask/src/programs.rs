//! Generated programs and the launches of the corpus, run in the interpreter and assembled by ptxas: what the suites with
//! the emulator and with a GPU compare.

use crate::gpu::job::{Argument, Job, hash};
use crate::oracle;
use orias_generate::ptx::{BLOCK, GRID, OUTPUT_BYTES, Options, SCRATCH_BYTES, input, program};
use orias_ptx::ast::{Linkage, Space};
use orias_reference::{Launch, Program};
use orias_sim::{Schedule, Timing};

/// The optimisation levels of ptxas that are compared.
pub const LEVELS: [&str; 2] = ["O0", "O3"];

/// Steps of all threads after which a generated program counts as endless; they take some hundred thousand.
const PROGRAM_STEPS: u64 = 10_000_000;

/// The same in the emulator by schedules other than its own order: lanes that come to a lock one by one run what follows one by one, in turns of thousands of
/// instructions, while the others of all warps spin (program 802506 at -O0: 12 million).
const SCHEDULED_STEPS: u64 = 100_000_000;

/// The same for a launch of the corpus.
const LAUNCH_STEPS: u64 = 200_000_000;

/// Which programs are generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// One kernel, structured for the most part.
    Plain,
    /// Any number of kernels, with control flow, calls and sharing of every kind.
    Rich,
}

impl Flavour {
    /// Reads `plain` or `rich`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "plain" => Ok(Self::Plain),
            "rich" => Ok(Self::Rich),
            _ => Err(format!("'{text}' is neither plain nor rich")),
        }
    }

    /// The program of a seed.
    pub fn text(self, seed: u64) -> String {
        match self {
            Self::Plain => program(seed, &Options::default()),
            Self::Rich => program(seed, &Options::rich()),
        }
    }
}

/// What is launched of a program and what of it is looked at: the kernels, one after the other, each with buffers of its own, and the
/// visible variables of global memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub kernels: Vec<String>,
    /// Names and sizes.
    pub variables: Vec<(String, usize)>,
}

impl Plan {
    /// The plan of a module.
    pub fn of(text: &str) -> Result<Self, String> {
        let (module, found) = orias_ptx::parse(text.as_bytes());
        if found.has_errors() {
            return Err(found.to_lines("program", text.as_bytes()));
        }
        let entries = module.functions.iter();
        let entries = entries.filter(|function| function.entry && function.body.is_some());
        let kernels = entries.map(|function| module.name(function.name).to_owned());
        let variables = module.variables.iter().filter(|variable| {
            variable.linkage == Linkage::Visible && variable.space == Space::Global
        });
        Ok(Self {
            kernels: kernels.collect(),
            variables: variables
                .map(|it| (module.name(it.name).to_owned(), it.bytes() as usize))
                .collect(),
        })
    }
}

/// The first contents of its three buffers: input, output and scratch memory.
pub fn buffers(seed: u64) -> [Vec<u8>; 3] {
    [input(seed), vec![0; OUTPUT_BYTES], vec![0; SCRATCH_BYTES]]
}

/// The shape of its launch.
pub const SHAPE: ([u32; 3], [u32; 3]) = ([GRID, 1, 1], [BLOCK, 1, 1]);

/// What the interpreter leaves of a program: the outputs of all kernels, then the variables.
pub fn interpreted(text: &str, seed: u64) -> Result<Vec<u8>, String> {
    interpreted_by(text, seed, Schedule::InOrder)
}

/// The same when threads go on in another order.
pub fn interpreted_by(text: &str, seed: u64, schedule: Schedule) -> Result<Vec<u8>, String> {
    let plan = Plan::of(text)?;
    let (module, _) = orias_ptx::parse(text.as_bytes());
    let mut program = Program::load(&module).map_err(|error| error.to_string())?;
    let mut seen = Vec::new();
    for kernel in &plan.kernels {
        let memory = program.memory_mut();
        let addresses = buffers(seed).map(|bytes| memory.allocate(bytes));
        let mut launch = Launch {
            check_uninitialised: true,
            schedule: match schedule {
                Schedule::InOrder => orias_reference::Schedule::InOrder,
                Schedule::Random(seed) => orias_reference::Schedule::Random(seed),
                Schedule::Adversarial => orias_reference::Schedule::Adversarial,
            },
            step_limit: Some(PROGRAM_STEPS),
            ..Launch::new(kernel, SHAPE.0, SHAPE.1)
        };
        for address in addresses {
            launch = launch.argument(address.to_le_bytes());
        }
        program.launch(&launch).map_err(|fault| fault.to_string())?;
        let output = program.memory().read(addresses[1], OUTPUT_BYTES);
        seen.extend_from_slice(output.map_err(|error| error.to_string())?);
    }
    for (name, bytes) in &plan.variables {
        let (address, _) = program
            .variable(name)
            .ok_or_else(|| format!("'{name}' is nowhere"))?;
        let contents = program.memory().read(address, *bytes);
        seen.extend_from_slice(contents.map_err(|error| error.to_string())?);
    }
    Ok(seen)
}

/// What the interpreter leaves in each buffer of a launch.
pub fn interpret(
    source: &[u8],
    mut launch: Launch,
    arguments: &[Argument],
) -> Result<Vec<Vec<u8>>, String> {
    let (module, found) = orias_ptx::parse(source);
    if found.has_errors() {
        return Err(found.to_lines("program", source));
    }
    let mut program = Program::load(&module).map_err(|error| error.to_string())?;
    let mut buffers = Vec::new();
    for argument in arguments {
        launch.arguments.push(match argument {
            Argument::Scalar(bytes) => bytes.clone(),
            Argument::Buffer(bytes) => {
                let address = program.memory_mut().allocate(bytes.clone());
                buffers.push((address, bytes.len()));
                address.to_le_bytes().to_vec()
            }
        });
    }
    program.launch(&launch).map_err(|fault| fault.to_string())?;
    let memory = program.memory();
    buffers
        .into_iter()
        .map(|(address, length)| match memory.read(address, length) {
            Ok(bytes) => Ok(bytes.to_vec()),
            Err(error) => Err(error.to_string()),
        })
        .collect()
}

/// What the emulator leaves of an assembled program, or why it stopped.
pub fn emulated(cubin: &[u8], plan: &Plan, seed: u64) -> Result<Vec<u8>, String> {
    emulated_with(cubin, plan, seed, Timing::Strict, Schedule::InOrder)
}

/// The same with timing and schedule of the caller's choice. A barrier that counts a warp of which only a part has come is wrong.
pub fn emulated_with(
    cubin: &[u8],
    plan: &Plan,
    seed: u64,
    timing: Timing,
    schedule: Schedule,
) -> Result<Vec<u8>, String> {
    let options = orias_sim::Options {
        timing,
        schedule,
        max_steps: Some(match schedule {
            Schedule::InOrder => PROGRAM_STEPS,
            Schedule::Random(_) | Schedule::Adversarial => SCHEDULED_STEPS,
        }),
        ..orias_sim::Options::default()
    };
    let mut device = orias_sim::Device::new();
    let module = device.load(cubin).map_err(|error| error.to_string())?;
    let mut seen = Vec::new();
    for kernel in &plan.kernels {
        let addresses = buffers(seed).map(|bytes| device.allocate(&bytes));
        let launch = orias_sim::Launch {
            kernel: kernel.clone(),
            grid: SHAPE.0,
            block: SHAPE.1,
            cluster: None,
            dynamic_shared: 0,
            arguments: addresses
                .map(|address| address.to_le_bytes().to_vec())
                .into(),
        };
        let outcome = device.launch(&module, &launch, &options);
        let outcome = outcome.map_err(|error| error.to_string())?;
        if let Some(fault) = outcome.fault {
            return Err(fault.to_string());
        }
        if let Some(finding) = outcome.findings.first() {
            return Err(finding.to_string());
        }
        let output = device.read(addresses[1], OUTPUT_BYTES);
        seen.extend(output.ok_or("the output is gone")?);
    }
    for (name, bytes) in &plan.variables {
        let place = module.variable(name);
        let (address, _) = place.ok_or_else(|| format!("no symbol '{name}'"))?;
        let contents = device.read(address, *bytes);
        seen.extend(contents.ok_or_else(|| format!("'{name}' is not as long as that"))?);
    }
    Ok(seen)
}

/// The hashes of all buffers after a launch of the corpus in the interpreter, as a GPU's worker reports them.
pub fn interpreted_job(source: &[u8], job: &Job) -> Result<Vec<u64>, String> {
    let launch = Launch {
        dynamic_shared: job.smem,
        step_limit: Some(LAUNCH_STEPS),
        ..Launch::new(&job.kernel, job.grid, job.block)
    };
    let buffers = interpret(source, launch, &job.arguments()?)?;
    Ok(buffers.iter().map(|bytes| hash(bytes)).collect())
}

/// What ptxas makes of a module at a level.
pub fn assemble(text: &[u8], level: &str) -> Result<Vec<u8>, String> {
    assemble_with(text, &[&format!("-{level}")])
}

/// What ptxas makes of a module with some options: the ptxas of the oracle, or the one on the path.
pub fn assemble_with(text: &[u8], options: &[&str]) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| error.to_string();
    let folder = tempfile::tempdir().map_err(failed)?;
    let (source, cubin) = (folder.path().join("a.ptx"), folder.path().join("a.cubin"));
    std::fs::write(&source, text).map_err(failed)?;
    let output = oracle::bounded(&oracle::installed("ptxas"))
        .arg("-arch=sm_90a")
        .args(options)
        .arg(&source)
        .arg("-o")
        .arg(&cubin)
        .output()
        .map_err(failed)?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    std::fs::read(&cubin).map_err(failed)
}

/// The seed that a program's name begins with.
pub fn seed_of(name: &str) -> Option<u64> {
    let digits = name.find(|c: char| !c.is_ascii_digit());
    name[..digits.unwrap_or(name.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::assembler::Assembler;

    #[test]
    fn rich_programs_leave_the_same_whatever_the_order_of_threads() {
        for seed in 0..40 {
            let text = Flavour::Rich.text(seed);
            let expected = interpreted(&text, seed);
            assert!(expected.is_ok(), "seed {seed}: {expected:?}");
            for schedule in [Schedule::Random(seed), Schedule::Adversarial] {
                let seen = interpreted_by(&text, seed, schedule);
                assert!(seen == expected, "seed {seed}, {schedule:?}");
            }
        }
    }

    #[test]
    fn rich_programs_do_what_they_mean() {
        let mut kernels = 0;
        for seed in 0..40 {
            let text = Flavour::Rich.text(seed);
            let plan = Plan::of(&text).unwrap();
            kernels += plan.kernels.len();
            let expected = interpreted(&text, seed).unwrap();
            for level in ["orias-O0", "orias-O3"] {
                let cubin = Assembler::parse(level).unwrap().assemble(&text);
                let cubin = cubin.unwrap_or_else(|why| panic!("seed {seed}, {level}: {why}"));
                for schedule in [Schedule::InOrder, Schedule::Random(seed)] {
                    let seen = emulated_with(&cubin, &plan, seed, Timing::Strict, schedule);
                    assert!(
                        seen.as_ref() == Ok(&expected),
                        "seed {seed}, {level}, {schedule:?}: {:?}",
                        seen.err()
                    );
                }
            }
        }
        assert!(kernels > 40, "{kernels} kernels");
    }
}
