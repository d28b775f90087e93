//! Launching a kernel: its shape and arguments, and running all CTAs of the grid.

use crate::cluster::Cluster;
use crate::cta::Surroundings;
use crate::error::{Fault, FaultKind, Location, Race, line_of};
use crate::memory::{LARGEST_CLUSTER, PARAMETER_BASE};
use crate::model::Model;
use crate::program::{Code, Program};
use crate::races::Access;
use crate::schedule::{Chooser, Schedule};
use std::collections::BTreeMap;

/// Steps a CTA makes before the next has its turn. Few: others may spin until this one has done something.
const CTA_TURN: u64 = 1 << 14;

/// Threads of all CTAs that run at a time; what more there are start when some have ended, as on a device that is full.
const RESIDENT_THREADS: usize = 1 << 16;

/// Threads a CTA has at most.
const LARGEST_BLOCK: u64 = 1024;

/// Bytes of shared memory a CTA has at most: the most any device has.
const LARGEST_SHARED: u64 = 228 << 10;

/// A launch: which kernel, how many threads, which arguments.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    /// The kernel's name.
    pub kernel: String,
    /// CTAs in each dimension.
    pub grid: [u32; 3],
    /// Threads of a CTA in each dimension.
    pub block: [u32; 3],
    /// CTAs of a cluster in each dimension, if the launch says so; otherwise as the kernel wants it.
    pub cluster: Option<[u32; 3]>,
    /// Bytes of shared memory beside what the program declares.
    pub dynamic_shared: u32,
    /// The bytes of each parameter, in order.
    pub arguments: Vec<Vec<u8>>,
    /// Steps of all threads together after which the run is stopped.
    pub step_limit: Option<u64>,
    /// Whether reading registers, shared and local memory before they are written is an error.
    pub check_uninitialised: bool,
    /// In what order threads go on.
    pub schedule: Schedule,
    /// What loads may return.
    pub consistency: Consistency,
    /// Whether to look for data races.
    pub check_races: bool,
}

/// Which of the executions that the memory model allows a launch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Every access happens at once: one of the sequentially consistent ones.
    #[default]
    AtOnce,
    /// Any, by random numbers of this seed.
    Weak(u64),
}

/// What a launch that came to its end left, beside memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What the program printed.
    pub printed: Vec<u8>,
    /// Steps of all threads together.
    pub steps: u64,
    /// Data races, each pair of places in the program once.
    pub races: Vec<Race>,
}

impl Launch {
    /// A launch without arguments yet.
    pub fn new(kernel: &str, grid: [u32; 3], block: [u32; 3]) -> Self {
        Self {
            kernel: kernel.to_owned(),
            grid,
            block,
            ..Self::default()
        }
    }

    pub(crate) fn is_weak(&self) -> bool {
        self.consistency != Consistency::AtOnce
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.arguments.push(bytes.into());
        self
    }
}

impl Program {
    /// Runs a kernel to its end.
    ///
    /// # Errors
    /// The launch does not fit the kernel, or a thread does something it must not.
    pub fn launch(&mut self, launch: &Launch) -> Result<Outcome, Fault> {
        let mut outcome = Outcome::default();
        self.launch_with(launch, &mut outcome, &mut |_, _| {})?;
        Ok(outcome)
    }

    /// Runs a kernel; what it printed is there even if it stops early, and `progress` hears how many of how many CTAs have
    /// ended.
    ///
    /// # Errors
    /// As for [`Program::launch`].
    pub fn launch_with(
        &mut self,
        launch: &Launch,
        outcome: &mut Outcome,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Fault> {
        match launch.consistency {
            Consistency::AtOnce if launch.check_races => {
                let mut model = Model::Watched(Box::default());
                self.run(launch, outcome, progress, &mut model)
            }
            Consistency::AtOnce => self.run(launch, outcome, progress, &mut Model::Plain),
            Consistency::Weak(seed) => self.run_weak(launch, outcome, progress, seed),
        }
    }

    /// Runs a kernel once.
    pub(crate) fn run(
        &mut self,
        launch: &Launch,
        outcome: &mut Outcome,
        progress: &mut dyn FnMut(u64, u64),
        model: &mut Model,
    ) -> Result<(), Fault> {
        let kernel = self.find(launch)?;
        let code = &self.code[kernel];
        check_shape(code, launch, self.shared_bytes)?;
        let parameters = parameter_bytes(code, launch, &self.named)?;
        self.memory.place(PARAMETER_BASE, parameters, true);
        let [width, height, depth] = launch.grid.map(u64::from);
        let cluster = code.required_cluster.or(launch.cluster);
        let sizes = cluster.unwrap_or([1; 3]);
        let inside = sizes.iter().map(|&n| u64::from(n)).product::<u64>();
        let total = width * height * depth;
        let shared_bytes = self.shared_bytes + u64::from(launch.dynamic_shared);
        let mut surroundings = Surroundings {
            code: &self.code,
            memory: &mut self.memory,
            printed: &mut outcome.printed,
            steps: &mut outcome.steps,
            step_limit: launch.step_limit.unwrap_or(u64::MAX),
            launch,
            cluster: sizes,
            explicit_cluster: cluster.is_some(),
            shared_bytes,
            source: &self.source,
            chooser: Chooser::new(launch.schedule),
            model,
        };
        let threads: u32 = launch.block.iter().product();
        let threads = threads as usize * inside as usize;
        let weak = surroundings.model.is_weak();
        if weak && total * u64::from(launch.block.iter().product::<u32>()) > RESIDENT_THREADS as u64
        {
            return Err(FaultKind::Unsupported(format!(
                "more than {RESIDENT_THREADS} threads with weak memory"
            ))
            .into());
        }
        // Clusters that have started and not ended. Each has a turn when it starts, and all have turns when no other can start.
        let mut running: Vec<Cluster> = Vec::new();
        let (mut started, mut ended) = (0, 0);
        while ended < total {
            let mut at = if started < total && (running.len() + 1) * threads <= RESIDENT_THREADS {
                running.push(Cluster::new(
                    started / inside,
                    sizes,
                    kernel,
                    code,
                    &surroundings,
                ));
                started += inside;
                running.len() - 1
            } else {
                surroundings.chooser.arrange(&mut running);
                0
            };
            // With weak memory all go on as far as they can before a load gets its value.
            if weak && started == total {
                at = 0;
            }
            let before = (*surroundings.steps, surroundings.model.progress(), ended);
            while at < running.len() {
                if running[at].run(&mut surroundings, CTA_TURN)? {
                    running.remove(at);
                    ended += inside;
                    progress(ended, total);
                } else {
                    at += 1;
                }
            }
            let after = (*surroundings.steps, surroundings.model.progress(), ended);
            if started == total && before == after && ended < total {
                surroundings.model.settle()?;
            }
        }
        let races = surroundings.model.leave(surroundings.memory)?;
        let named = races.into_iter().map(|(first, second)| Race {
            first: self.accessor(launch, &first),
            second: self.accessor(launch, &second),
            place: first.place,
        });
        outcome.races.extend(named);
        Ok(())
    }

    /// Who made an access, and where in the program.
    fn accessor(&self, launch: &Launch, access: &Access) -> Location {
        let [width, height, _] = launch.block;
        let linear = access.actor.thread % launch.block.iter().product::<u32>();
        let span = access.span.start as usize..access.span.end as usize;
        let statement = self.source.get(span).unwrap_or_default();
        let kernel = self.code.iter().find(|code| code.name == launch.kernel);
        let cluster = kernel.and_then(|code| code.required_cluster);
        let sizes = cluster.or(launch.cluster).unwrap_or([1; 3]);
        let rank = access.actor.cta % sizes.iter().product::<u32>();
        let clusters: [u32; 3] = std::array::from_fn(|at| launch.grid[at] / sizes[at]);
        let at = |number: u32, [width, height, _]: [u32; 3]| {
            [
                number % width,
                number / width % height,
                number / width / height,
            ]
        };
        let (place, inside) = (at(access.actor.cluster, clusters), at(rank, sizes));
        Location {
            cta: std::array::from_fn(|at| place[at] * sizes[at] + inside[at]),
            thread: [
                linear % width,
                linear / width % height,
                linear / width / height,
            ],
            statement: String::from_utf8_lossy(statement).into_owned(),
            line: line_of(&self.source, access.span),
        }
    }

    fn find(&self, launch: &Launch) -> Result<usize, FaultKind> {
        let found = |code: &Code| code.entry && code.name == launch.kernel;
        self.code.iter().position(found).ok_or_else(|| {
            let known: Vec<&str> = self.kernels().collect();
            FaultKind::Launch(match known[..] {
                [] => "the module has no kernel".to_owned(),
                _ => format!(
                    "no kernel is named '{}'; there is {}",
                    launch.kernel,
                    known.join(", ")
                ),
            })
        })
    }
}

fn check_shape(code: &Code, launch: &Launch, static_shared: u64) -> Result<(), FaultKind> {
    let wrong = |text: String| Err(FaultKind::Launch(text));
    if launch.grid.contains(&0) || launch.block.contains(&0) {
        return wrong("a grid or block without threads".into());
    }
    let threads: u64 = launch.block.iter().map(|&n| u64::from(n)).product();
    if threads > LARGEST_BLOCK {
        return wrong(format!("{threads} threads in a block; {LARGEST_BLOCK} fit"));
    }
    let shared = static_shared + u64::from(launch.dynamic_shared);
    if shared > LARGEST_SHARED {
        return wrong(format!(
            "{shared} bytes of shared memory; {LARGEST_SHARED} fit"
        ));
    }
    if let Some(required) = code.required_block
        && required != launch.block
    {
        return wrong(format!(
            "'{}' requires blocks of {required:?}, not {:?}",
            code.name, launch.block
        ));
    }
    if let Some(largest) = code.largest_block {
        let most: u64 = largest.iter().map(|&n| u64::from(n)).product();
        if threads > most {
            return wrong(format!(
                "'{}' takes blocks of {most} threads at most, not {threads}",
                code.name
            ));
        }
    }
    if let (Some(wanted), Some(given)) = (code.required_cluster, launch.cluster)
        && wanted != given
    {
        return wrong(format!(
            "'{}' requires clusters of {wanted:?}, not {given:?}",
            code.name
        ));
    }
    if let Some(sizes) = code.required_cluster.or(launch.cluster) {
        let ctas: u64 = sizes.iter().map(|&n| u64::from(n)).product();
        if ctas == 0 || ctas > LARGEST_CLUSTER {
            return wrong(format!(
                "{ctas} CTAs in a cluster; 1 to {LARGEST_CLUSTER} can be"
            ));
        }
        if (0..3).any(|at| !launch.grid[at].is_multiple_of(sizes[at])) {
            return wrong(format!(
                "a grid of {:?} does not consist of clusters of {sizes:?}",
                launch.grid
            ));
        }
    }
    Ok(())
}

/// The parameter area of a kernel. Handles of what it knows by name stand there, too.
fn parameter_bytes(
    code: &Code,
    launch: &Launch,
    named: &BTreeMap<String, u64>,
) -> Result<Vec<u8>, FaultKind> {
    let wanted = code.kernel_parameters.iter();
    let (references, wanted): (Vec<_>, Vec<_>) = wanted.partition(|it| it.reference);
    let given = &launch.arguments;
    if given.len() != wanted.len() {
        return Err(FaultKind::Launch(format!(
            "'{}' takes {} arguments, not {}",
            code.name,
            wanted.len(),
            given.len()
        )));
    }
    let end = code.kernel_parameters.last();
    let mut bytes = vec![0; end.map_or(0, |it| it.offset + it.bytes) as usize];
    for parameter in references {
        let handle = named.get(&parameter.name).copied().unwrap_or(0);
        let start = parameter.offset as usize;
        bytes[start..start + 8].copy_from_slice(&handle.to_le_bytes());
    }
    for (number, (argument, parameter)) in given.iter().zip(wanted).enumerate() {
        if argument.len() as u64 != parameter.bytes {
            return Err(FaultKind::Launch(format!(
                "argument {number} of '{}' has {} bytes, its parameter '{}' has {}",
                code.name,
                argument.len(),
                parameter.name,
                parameter.bytes
            )));
        }
        let start = parameter.offset as usize;
        bytes[start..start + argument.len()].copy_from_slice(argument);
    }
    Ok(bytes)
}
