//! A cluster: CTAs that run side by side, reach each other's shared memory and meet at a barrier of their own.
//!
//! A grid without clusters runs in clusters of one CTA. The CTAs of a cluster are counted along x, then y, then z; that number, the *rank*,
//! stands in the upper bits of every address of shared memory.

use crate::cta::{Cta, Progress, Surroundings};
use crate::engine::{self, Engine};
use crate::error::Fault;
use crate::memory::Region;
use crate::order::Actor;
use crate::program::Code;

/// The barrier of a cluster. It counts threads; those that have ended do not take part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClusterBarrier {
    /// Phases that are over.
    pub generation: u64,
    /// Threads that have arrived in this phase and not ended.
    pub arrived: u64,
    /// Threads that have not ended.
    pub live: u64,
}

impl ClusterBarrier {
    /// A thread arrives.
    pub fn arrive(&mut self) {
        self.arrived += 1;
        self.settle();
    }

    /// A thread has ended; `arrived` is the phase it arrived in last.
    pub fn thread_ended(&mut self, arrived: Option<u64>) {
        self.live -= 1;
        if arrived == Some(self.generation) {
            self.arrived -= 1;
        }
        self.settle();
    }

    fn settle(&mut self) {
        if self.live > 0 && self.arrived >= self.live {
            self.generation += 1;
            self.arrived = 0;
        }
    }
}

/// What the CTAs of a cluster share.
pub(crate) struct Common {
    /// Shared memory of each.
    pub shared: Vec<Region>,
    pub barrier: ClusterBarrier,
    /// Bulk copies under way.
    pub engine: Engine,
}

/// A cluster that runs.
pub(crate) struct Cluster {
    ctas: Vec<Cta>,
    common: Common,
}

impl Cluster {
    /// The cluster of that number in the grid, with `sizes` CTAs along each dimension.
    pub fn new(
        number: u64,
        sizes: [u32; 3],
        kernel: usize,
        code: &Code,
        world: &Surroundings<'_>,
    ) -> Self {
        let launch = world.launch;
        let clusters: [u64; 3] = std::array::from_fn(|at| u64::from(launch.grid[at] / sizes[at]));
        let [width, height, _] = clusters;
        let place = [
            number % width,
            number / width % height,
            number / width / height,
        ];
        let count: u32 = sizes.iter().product();
        let ctas: Vec<Cta> = (0..count)
            .map(|rank| {
                let [width, height, _] = sizes;
                let inside = [rank % width, rank / width % height, rank / width / height];
                let index = std::array::from_fn(|at| place[at] as u32 * sizes[at] + inside[at]);
                let actor = Actor {
                    thread: 0,
                    cta: number as u32 * count + rank,
                    cluster: number as u32,
                };
                Cta::new(index, rank, actor, kernel, code, launch)
            })
            .collect();
        let fresh = || Region::fresh(world.shared_bytes as usize, launch.check_uninitialised);
        let threads: u32 = launch.block.iter().product();
        Self {
            common: Common {
                shared: ctas.iter().map(|_| fresh()).collect(),
                barrier: ClusterBarrier {
                    live: u64::from(threads) * u64::from(count),
                    ..ClusterBarrier::default()
                },
                engine: Engine::default(),
            },
            ctas,
        }
    }

    /// Gives every CTA about `budget` steps; whether all have ended.
    pub fn run(&mut self, world: &mut Surroundings<'_>, budget: u64) -> Result<bool, Fault> {
        let (mut ended, mut stuck) = (0, None);
        let mut can_go_on = false;
        for at in 0..self.ctas.len() {
            match self.ctas[at].run(world, &mut self.common, budget)? {
                Progress::Ended => ended += 1,
                Progress::Running => can_go_on = true,
                Progress::Stuck => stuck = stuck.or(Some(at)),
            }
        }
        if ended == self.ctas.len() {
            engine::finish_all(world.memory, &mut self.common, world.model)?;
            return Ok(true);
        }
        // One that was stuck may go on after what the others did.
        let freed = self.ctas.iter().any(|cta| cta.can_go_on(&self.common));
        match stuck {
            Some(at) if !can_go_on && !freed && !world.waits_for_loads() => {
                Err(self.ctas[at].deadlock(world, &self.common))
            }
            _ => Ok(false),
        }
    }
}
