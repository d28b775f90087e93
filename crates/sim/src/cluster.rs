//! A cluster: thread blocks that run side by side, reach each other's shared memory and meet at a barrier of their own.
//!
//! A grid without clusters runs in clusters of one block. A block is known in its cluster by its *rank*: the blocks of a cluster are
//! counted along x, then y, then z. The cluster's barrier counts warps: a warp arrives once in each phase, and warps that have ended count
//! as arrived.

use crate::block::{Block, Tally};
use crate::deadlock;
use crate::fault::{Cause, Fault, FaultKind};
use crate::launch::Context;
use crate::warp::Warp;

/// The barrier of a cluster.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClusterBarrier {
    /// Phases that are over.
    pub generation: u64,
    /// Warps that have arrived in this phase and not ended.
    pub arrived: u32,
    /// Warps of all blocks that have not ended.
    pub live: u32,
}

/// A cluster of thread blocks.
#[derive(Debug)]
pub(crate) struct Cluster {
    /// Its blocks that have not ended, or that others may still reach: all of them, until the last has ended.
    pub blocks: Vec<Block>,
    barrier: ClusterBarrier,
}

/// The other blocks of a block's cluster, and what they share.
#[derive(Debug)]
pub(crate) struct Peers<'a> {
    before: &'a mut [Block],
    after: &'a mut [Block],
    pub barrier: &'a mut ClusterBarrier,
}

impl<'a> Peers<'a> {
    /// The same for a shorter time.
    pub fn again(&mut self) -> Peers<'_> {
        Peers {
            before: self.before,
            after: self.after,
            barrier: self.barrier,
        }
    }

    /// Another block, by its rank.
    pub fn block(&self, rank: u32) -> Option<&Block> {
        let (rank, own) = (rank as usize, self.before.len());
        match rank.cmp(&own) {
            std::cmp::Ordering::Less => self.before.get(rank),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => self.after.get(rank - own - 1),
        }
    }

    /// The same, to change it.
    pub fn block_mut(&mut self, rank: u32) -> Option<&mut Block> {
        let (rank, own) = (rank as usize, self.before.len());
        match rank.cmp(&own) {
            std::cmp::Ordering::Less => self.before.get_mut(rank),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => self.after.get_mut(rank - own - 1),
        }
    }

    /// All other blocks.
    pub fn all(&mut self) -> impl Iterator<Item = &mut Block> {
        self.before.iter_mut().chain(self.after.iter_mut())
    }
}

impl ClusterBarrier {
    /// A warp arrives; whether the phase is over with it.
    pub fn arrive(&mut self, warp: &mut Warp) -> Result<bool, Cause> {
        if warp.cluster_arrival == Some(self.generation) {
            return Err(misuse(
                "a warp arrives again before all others have arrived",
            ));
        }
        warp.cluster_arrival = Some(self.generation);
        self.arrived += 1;
        Ok(self.settle())
    }

    /// The phase that a warp has to wait for the end of.
    pub fn awaited(&self, warp: &Warp) -> Result<u64, Cause> {
        warp.cluster_arrival
            .ok_or_else(|| misuse("a warp waits without having arrived"))
    }

    /// A warp has ended.
    pub fn warp_ended(&mut self, warp: &Warp) -> bool {
        self.live -= 1;
        if warp.cluster_arrival == Some(self.generation) {
            self.arrived -= 1;
        }
        self.settle()
    }

    fn settle(&mut self) -> bool {
        let over = self.live > 0 && self.arrived >= self.live;
        if over {
            self.generation += 1;
            self.arrived = 0;
        }
        over
    }
}

fn misuse(reason: &str) -> Cause {
    FaultKind::ClusterBarrier(reason.to_owned()).into()
}

impl Cluster {
    /// The cluster of that number in the grid.
    pub fn new(number: u64, context: &Context<'_>) -> Self {
        let sizes = context.cluster;
        let clusters: [u64; 3] = std::array::from_fn(|d| u64::from(context.grid[d] / sizes[d]));
        let [x, y, _] = clusters;
        let place = [number % x, number / x % y, number / x / y].map(|n| n as u32);
        let count = sizes.iter().product::<u32>();
        let blocks: Vec<Block> = (0..count)
            .map(|rank| {
                let inside = [
                    rank % sizes[0],
                    rank / sizes[0] % sizes[1],
                    rank / sizes[0] / sizes[1],
                ];
                let index = std::array::from_fn(|d| place[d] * sizes[d] + inside[d]);
                Block::new(index, rank, context)
            })
            .collect();
        let live = blocks.iter().map(|block| block.state.live).sum();
        Self {
            blocks,
            barrier: ClusterBarrier {
                live,
                ..ClusterBarrier::default()
            },
        }
    }

    /// Gives every block a turn; whether all have ended. A cluster whose warps all wait for something that cannot come is a deadlock.
    pub fn turn(&mut self, context: &Context<'_>, tally: &mut Tally) -> Result<bool, Box<Fault>> {
        let mut progress = false;
        for rank in 0..self.blocks.len() {
            let (before, rest) = self.blocks.split_at_mut(rank);
            let Some((block, after)) = rest.split_first_mut() else {
                break;
            };
            let peers = Peers {
                before,
                after,
                barrier: &mut self.barrier,
            };
            progress |= block.turn(context, peers, tally)?;
        }
        let live = || self.blocks.iter().position(|block| !block.is_done());
        let Some(first) = live() else {
            return Ok(true);
        };
        let in_vain = |block: &Block| block.waits_in_vain(&self.barrier);
        if !progress || self.blocks.iter().all(in_vain) {
            let kind = FaultKind::Deadlock(deadlock::describe(&self.blocks, &self.barrier));
            return Err(self.blocks[first].stuck(context, kind));
        }
        Ok(false)
    }
}
