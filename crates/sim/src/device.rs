//! The device: memory, loaded modules, launches.

use crate::block::Tally;
use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::heap::Heap;
use crate::launch::{Context, Launch, Options, Outcome};
use crate::memory::Memory;
use crate::module::{CANARY, Kernel, LOCAL, LoadError, LoadedModule};
use crate::order::Chooser;
use crate::profile::Profile;
use crate::trace::Recorder;
use orias_eval::texture::{Object, Objects, Record};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use thiserror::Error;

/// Bytes of the heap that `malloc` of kernels uses: the CUDA driver's default.
const HEAP: usize = 8 << 20;
/// Warps that are in the machine at once.
const RESIDENT_WARPS: usize = 2048;

/// A launch that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LaunchError {
    /// No such kernel.
    #[error("there is no kernel '{name}'; there is {known}")]
    Kernel {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// Too few or too many arguments.
    #[error("{kernel} has {expected} parameters, not {found}")]
    ArgumentCount {
        /// The kernel.
        kernel: String,
        /// How many parameters it has.
        expected: usize,
        /// How many arguments there are.
        found: usize,
    },
    /// An argument of the wrong size.
    #[error("parameter {index} of {kernel} has {expected} bytes, not {found}")]
    ArgumentSize {
        /// The kernel.
        kernel: String,
        /// Which parameter, from 0.
        index: usize,
        /// Its size.
        expected: usize,
        /// The argument's size.
        found: usize,
    },
    /// A texture, sampler or surface that the kernel names and nobody has bound.
    #[error("{kernel} names '{name}', which is bound to nothing")]
    Unbound {
        /// The kernel.
        kernel: String,
        /// The name.
        name: String,
    },
    /// A grid or block the machine does not have.
    #[error("{0}")]
    Shape(String),
}

/// A device with memory, to load cubins on and run kernels.
#[derive(Debug)]
pub struct Device {
    memory: Memory,
    heap: Mutex<Heap>,
    objects: Objects,
    /// The handles of what kernels know by name.
    named: BTreeMap<String, u64>,
}

impl Default for Device {
    fn default() -> Self {
        Self::new()
    }
}

impl Device {
    /// A device with nothing on it.
    #[must_use]
    pub fn new() -> Self {
        Self {
            memory: Memory::new(),
            heap: Mutex::new(Heap::default()),
            objects: Objects::default(),
            named: BTreeMap::new(),
        }
    }

    /// Adds a texture, sampler or surface, whose texels have been allocated; its handle.
    pub fn bind(&mut self, object: Object) -> u64 {
        self.objects.add(object)
    }

    /// Lets a texture, sampler or surface that kernels know by a name be that of a handle.
    pub fn name(&mut self, name: &str, handle: u64) {
        self.named.insert(name.to_owned(), handle);
    }

    /// A buffer that holds `bytes`; its address.
    pub fn allocate(&mut self, bytes: &[u8]) -> u64 {
        self.memory.allocate(bytes)
    }

    /// A buffer of `length` bytes whose contents nothing has written yet.
    pub fn reserve(&mut self, length: usize) -> u64 {
        self.memory.reserve(length)
    }

    /// The bytes at an address; `None` when not all of them are allocated.
    #[must_use]
    pub fn read(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        self.memory.read(address, length)
    }

    /// Writes bytes at an address; `None` when not all of them are allocated.
    #[must_use]
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        self.memory.write(address, bytes)
    }

    /// Puts the numbers of textures, samplers and surfaces that a kernel names where it looks for them, and the addresses of the records of all.
    fn place_references(&mut self, kernel: &Kernel, bank: &mut [u8]) -> Result<(), LaunchError> {
        for (at, name) in &kernel.references {
            let handle = self.named.get(name);
            let handle = handle.ok_or_else(|| LaunchError::Unbound {
                kernel: kernel.name.clone(),
                name: name.clone(),
            })?;
            if let Some(word) = bank.get_mut(*at..*at + 4) {
                word.copy_from_slice(&(*handle as u32).to_le_bytes());
            }
        }
        if self.objects.is_empty() {
            return Ok(());
        }
        let texture = match kernel.independent {
            true => Record::Independent,
            false => Record::Unified,
        };
        let tables = kernel.machine.constants.record_tables as usize;
        for (number, record) in [texture, Record::Sampler, Record::Surface]
            .into_iter()
            .enumerate()
        {
            let address = self.memory.allocate_constant(&self.objects.records(record));
            let at = tables + 8 * number;
            bank[at..at + 8].copy_from_slice(&address.to_le_bytes());
        }
        Ok(())
    }

    /// Loads a cubin: its variables get memory and their first values.
    pub fn load(&mut self, cubin: &[u8]) -> Result<LoadedModule, LoadError> {
        let module = LoadedModule::load(cubin, &mut self.memory)?;
        if module.uses_heap {
            let base = self.memory.allocate(&vec![0; HEAP]);
            self.heap = Mutex::new(Heap::new(base, HEAP as u64));
        }
        Ok(module)
    }

    /// Runs a kernel to its end, or to what stops it.
    pub fn launch(
        &mut self,
        module: &LoadedModule,
        launch: &Launch,
        options: &Options,
    ) -> Result<Outcome, LaunchError> {
        self.launch_with(module, launch, options, &mut |_, _| {})
    }

    /// The same; `progress` hears how many of how many blocks have ended.
    pub fn launch_with(
        &mut self,
        module: &LoadedModule,
        launch: &Launch,
        options: &Options,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Outcome, LaunchError> {
        let kernel = module
            .kernels
            .get(&launch.kernel)
            .ok_or_else(|| LaunchError::Kernel {
                name: launch.kernel.clone(),
                known: module.kernels().collect::<Vec<_>>().join(", "),
            })?;
        let shared = kernel.shared + launch.dynamic_shared as usize;
        check_shape(kernel, launch, shared)?;
        let local = options
            .stack
            .max(kernel.stack)
            .next_multiple_of(16)
            .min(kernel.machine.limits.most_local);
        let mut bank = first_bank(kernel, launch, local)?;
        // The parameters have generic addresses, too.
        let window = self
            .memory
            .allocate_constant(&bank[usize::from(kernel.parameter_bank.0)..]);
        let last = window + u64::from(kernel.parameter_bank.1).max(1) - 1;
        let words = kernel.machine.constants;
        for (at, address) in [
            (words.param_window as usize, window),
            (words.param_window_last as usize, last),
        ] {
            bank[at..at + 8].copy_from_slice(&address.to_le_bytes());
        }
        self.place_references(kernel, &mut bank)?;
        let mut banks: [&[u8]; 32] = [&[]; 32];
        for (number, bytes) in &kernel.banks {
            if let Some(slot) = banks.get_mut(*number as usize) {
                *slot = bytes;
            }
        }
        banks[0] = &bank;
        let (printed, findings) = (Mutex::default(), Mutex::default());
        let stops = Mutex::default();
        let (steps, clock) = (AtomicU64::new(0), AtomicU64::new(0));
        let context = Context {
            options,
            memory: &self.memory,
            objects: &self.objects,
            heap: &self.heap,
            kernel,
            banks,
            grid: launch.grid,
            block: launch.block,
            cluster: cluster_of(kernel, launch).unwrap_or([1; 3]),
            shared,
            local,
            printed: &printed,
            findings: &findings,
            stops: &stops,
            steps: &steps,
            clock: &clock,
        };
        let (fault, tally) = run(&context, progress);
        Ok(Outcome {
            fault,
            thread_instructions: tally.threads,
            warp_instructions: tally.warps,
            printed: printed.into_inner().unwrap_or_default(),
            findings: findings.into_inner().unwrap_or_default(),
            profile: tally.profile,
            stops: stops.into_inner().unwrap_or_default(),
            trace: tally.recorder.map(|recorder| recorder.into_trace()),
        })
    }
}

fn check_shape(kernel: &Kernel, launch: &Launch, shared: usize) -> Result<(), LaunchError> {
    let product = |sizes: [u32; 3]| sizes.iter().map(|n| u64::from(*n)).product::<u64>();
    let refuse = |text: String| Err(LaunchError::Shape(text));
    let threads = product(launch.block);
    if threads == 0 || launch.grid.contains(&0) {
        return refuse("a grid and a block have at least one member in each dimension".to_owned());
    }
    let machine = kernel.machine;
    let most = u64::from(machine.registers.block_threads);
    let most = kernel.max_threads.map_or(most, u64::from).min(most);
    if threads > most || launch.block[2] > 64 {
        return refuse(format!(
            "a block of {} has {threads} threads; at most {most} (and 64 in z) can be",
            kernel.name
        ));
    }
    if launch.grid[0] > i32::MAX as u32 || launch.grid[1] > 65535 || launch.grid[2] > 65535 {
        return refuse("a grid has at most 2147483647, 65535 and 65535 blocks".to_owned());
    }
    let most = machine.limits.most_shared;
    if shared > most as usize {
        return refuse(format!(
            "{} needs {shared} bytes of shared memory; there are {most}",
            kernel.name
        ));
    }
    // What the hardware keeps is included.
    let most = (machine.registers).portion(u32::from(machine.registers.general));
    if kernel.registers > most as usize {
        return refuse(format!(
            "{} says that it needs {} registers; there are {most}",
            kernel.name, kernel.registers
        ));
    }
    let cluster = cluster_of(kernel, launch);
    if let (Some(wanted), Some(given)) = (kernel.cluster, launch.cluster)
        && wanted != given
    {
        return refuse(format!(
            "{} runs in clusters of {wanted:?} blocks, not {given:?}",
            kernel.name
        ));
    }
    if let Some(sizes) = cluster {
        let blocks = product(sizes);
        if blocks == 0 || blocks > MOST_CLUSTER_BLOCKS {
            return refuse(format!(
                "a cluster has 1 to {MOST_CLUSTER_BLOCKS} blocks, not {blocks}"
            ));
        }
        if (0..3).any(|d| !launch.grid[d].is_multiple_of(sizes[d])) {
            return refuse(format!(
                "a grid of {:?} blocks does not consist of clusters of {sizes:?}",
                launch.grid
            ));
        }
    }
    Ok(())
}

/// Blocks a cluster has at most; more than eight only if the launch insists.
const MOST_CLUSTER_BLOCKS: u64 = 16;

/// Blocks of a cluster in each dimension, where there are clusters.
fn cluster_of(kernel: &Kernel, launch: &Launch) -> Option<[u32; 3]> {
    kernel.cluster.or(launch.cluster)
}

/// The offset of a parameter that is the name of a texture, sampler or surface.
const NOT_PASSED: u16 = 0xffff;

/// Bank 0: what the driver writes, then the parameters.
fn first_bank(kernel: &Kernel, launch: &Launch, local: u32) -> Result<Vec<u8>, LaunchError> {
    // Nothing is passed for parameters that are names of textures, samplers and surfaces.
    let passed = kernel.parameters.iter();
    let passed: Vec<_> = passed.filter(|it| it.offset != NOT_PASSED).collect();
    if launch.arguments.len() != passed.len() {
        return Err(LaunchError::ArgumentCount {
            kernel: kernel.name.clone(),
            expected: passed.len(),
            found: launch.arguments.len(),
        });
    }
    let (start, size) = kernel.parameter_bank;
    let mut bank = vec![0; (kernel.first_bank).max(kernel.machine.constants.params as usize)];
    let mut put = |at: usize, bytes: &[u8]| bank[at..at + bytes.len()].copy_from_slice(bytes);
    let words = kernel.machine.constants;
    // In a grid without clusters every block is a cluster of one.
    let cluster = cluster_of(kernel, launch);
    let sizes = cluster.unwrap_or([1; 3]);
    for (dimension, (threads, blocks)) in launch.block.iter().zip(launch.grid).enumerate() {
        put(
            words.block_threads[dimension] as usize,
            &threads.to_le_bytes(),
        );
        put(words.grid_blocks[dimension] as usize, &blocks.to_le_bytes());
        let inside = sizes[dimension];
        put(
            words.cluster_blocks[dimension] as usize,
            &inside.to_le_bytes(),
        );
        put(
            words.cluster_scales[dimension] as usize,
            &(1.0 / inside as f32).to_le_bytes(),
        );
        put(
            words.grid_clusters[dimension] as usize,
            &(blocks / inside).to_le_bytes(),
        );
    }
    let blocks = sizes.iter().product::<u32>();
    put(words.cluster_size as usize, &blocks.to_le_bytes());
    let explicit = u32::from(cluster.is_some());
    put(words.explicit_cluster as usize, &explicit.to_le_bytes());
    put(words.local_window as usize, &LOCAL.to_le_bytes());
    put(
        kernel.machine.abi.initial_stack_pointer as usize,
        &local.to_le_bytes(),
    );
    put(
        words.dynamic_shared as usize,
        &launch.dynamic_shared.to_le_bytes(),
    );
    put(words.canary as usize, &CANARY.to_le_bytes());
    put(
        words.constant_window as usize,
        &kernel.constants.to_le_bytes(),
    );
    put(
        words.reserved_shared_end as usize,
        &words.reserved_shared_used.to_le_bytes(),
    );
    put(
        words.shared_overhead as usize,
        &words.reserved_shared.to_le_bytes(),
    );
    put(
        words.multiprocessors as usize,
        &kernel.machine.limits.multiprocessors.to_le_bytes(),
    );
    put(
        words.shared_limit as usize,
        &kernel.machine.limits.most_shared.to_le_bytes(),
    );
    for (index, (parameter, bytes)) in passed.iter().zip(&launch.arguments).enumerate() {
        let at = usize::from(start) + usize::from(parameter.offset);
        let expected = usize::from(parameter.size);
        let fits = at + expected <= usize::from(start) + usize::from(size);
        if bytes.len() != expected || !fits {
            return Err(LaunchError::ArgumentSize {
                kernel: kernel.name.clone(),
                index,
                expected,
                found: bytes.len(),
            });
        }
        put(at, bytes);
    }
    Ok(bank)
}

/// Runs all blocks of a grid, in order, so many at a time as fit into the machine.
fn run(context: &Context<'_>, progress: &mut dyn FnMut(u64, u64)) -> (Option<Fault>, Tally) {
    let [x, y, z] = context.grid.map(u64::from);
    let inside = context.cluster.iter().product::<u32>();
    let total = x * y * z / u64::from(inside);
    let next = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let threads = (context.options.threads.max(1) as u64).min(total) as usize;
    context.memory.share(threads > 1);
    let warps = context.block.iter().product::<u32>().div_ceil(32) as usize * inside as usize;
    let resident = (RESIDENT_WARPS / warps / threads).max(1);
    let work = |progress: &mut dyn FnMut(u64, u64)| {
        worker(context, &next, &done, &stop, total, resident, progress)
    };
    if threads == 1 {
        return work(progress);
    }
    // This thread works as well, and tells of the progress of all.
    let results: Vec<(Option<Fault>, Tally)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (1..threads)
            .map(|_| scope.spawn(|| work(&mut |_, _| {})))
            .collect();
        let mine = work(progress);
        handles
            .into_iter()
            .filter_map(|handle| handle.join().ok())
            .chain([mine])
            .collect()
    });
    let mut sum = Tally::default();
    let mut fault = None;
    for (other, tally) in results {
        fault = fault.or(other);
        sum.add(tally);
    }
    (fault, sum)
}

fn worker(
    context: &Context<'_>,
    next: &AtomicU64,
    done: &AtomicU64,
    stop: &AtomicBool,
    total: u64,
    resident: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> (Option<Fault>, Tally) {
    let mut tally = Tally::default();
    if context.options.profile {
        tally.profile = Some(Profile::new(context.kernel.program.steps.len()));
    }
    tally.recorder = (context.options.watch).map(|watch| Box::new(Recorder::new(watch)));
    let inside = u64::from(context.cluster.iter().product::<u32>());
    let mut clusters: Vec<Cluster> = Vec::new();
    let mut chooser = Chooser::new(context.options.schedule, [u32::MAX; 3], 0);
    loop {
        while clusters.len() < resident {
            let number = next.fetch_add(1, Relaxed);
            if number >= total {
                break;
            }
            clusters.push(Cluster::new(number, context));
        }
        if clusters.is_empty() || stop.load(Relaxed) {
            return (None, tally);
        }
        chooser.arrange(&mut clusters);
        let mut index = 0;
        while index < clusters.len() {
            match clusters[index].turn(context, &mut tally) {
                Ok(false) => index += 1,
                Ok(true) => {
                    let cluster = clusters.remove(index);
                    for block in &cluster.blocks {
                        block.finish(&mut tally);
                    }
                    let finished = done.fetch_add(inside, Relaxed) + inside;
                    progress(finished, total * inside);
                }
                Err(fault) => {
                    stop.store(true, Relaxed);
                    for cluster in &clusters {
                        for block in &cluster.blocks {
                            block.finish(&mut tally);
                        }
                    }
                    return (Some(*fault), tally);
                }
            }
        }
    }
}
