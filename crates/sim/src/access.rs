//! Single accesses of a lane to the memories, with their checks.

use crate::core::Core;
use crate::fault::{Cause, FaultKind};
use crate::launch::FindingKind;
use crate::memory::{Allocation, Refusal};
use crate::module::{LOCAL, SHARED_HIGH};
use crate::shared::{FOREIGN_WARPS, SharedMemory};

/// A memory space of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    /// Shared memory of this block.
    Shared,
    /// Shared memory of any block of the cluster.
    Cluster,
    Local,
    Generic,
}

impl Space {
    fn name(self) -> &'static str {
        match self {
            Space::Global => "global",
            Space::Shared => "shared",
            Space::Cluster => "shared::cluster",
            Space::Local => "local",
            Space::Generic => "generic",
        }
    }
}

/// The bit at which the block's number in its cluster stands in an address of shared memory.
pub(crate) const RANK_SHIFT: u32 = 24;

/// Where a generic address leads, and the address there.
pub(crate) fn resolve(address: u64) -> (Space, u64) {
    if (address >> 32) as u32 == SHARED_HIGH {
        (Space::Cluster, address & 0xffff_ffff)
    } else if address >> 32 == LOCAL >> 32 {
        (Space::Local, address & 0xffff_ffff)
    } else {
        (Space::Global, address)
    }
}

fn refuse(
    what: &'static str,
    space: Space,
    lane: usize,
    address: u64,
    size: u32,
    reason: String,
) -> Cause {
    Cause::of(
        lane,
        FaultKind::Access {
            what,
            space: space.name(),
            address,
            size,
            reason,
        },
    )
}

/// Where an atomic operation takes place.
enum AtomicPlace<'a> {
    Global(&'a Allocation, u64),
    /// In shared memory: the block's number in the cluster, and the offset.
    Shared(u32, usize),
}

impl<'a> Core<'a> {
    /// The place of an access in shared memory: the block's number in the cluster, and the offset there.
    ///
    /// An address of this block's memory may leave the block's number out.
    fn shared_place(
        &self,
        what: &'static str,
        space: Space,
        lane: usize,
        address: u64,
        size: u32,
    ) -> Result<(u32, usize), Cause> {
        let own = self.block.rank;
        let named = (address as u32) >> RANK_SHIFT;
        let rank = match space {
            Space::Shared if named == 0 => own,
            _ => named,
        };
        let refused = |reason| refuse(what, space, lane, address, size, reason);
        if space == Space::Shared && rank != own {
            return Err(refused(format!(
                "it names block {rank} of the cluster, this is block {own}"
            )));
        }
        let Some(shared) = self.shared_of(rank) else {
            return Err(refused(format!("the cluster has no block {rank}")));
        };
        let offset = (address & ((1 << RANK_SHIFT) - 1)) as usize;
        let length = shared.bytes.len();
        if offset + size as usize > length {
            return Err(refused(format!("the block has {length} bytes")));
        }
        Ok((rank, offset))
    }

    /// Whether a generic address lies in shared memory of this block.
    pub fn is_own_shared(&self, address: u64) -> bool {
        matches!(resolve(address), (Space::Cluster, at) if at as u32 >> RANK_SHIFT == self.block.rank)
    }

    /// Everything before happens before everything after, in shared memory of all blocks of the cluster.
    pub fn synchronize_cluster(&mut self) {
        self.block.shared.synchronize();
        for block in self.peers.all() {
            block.state.shared.synchronize();
        }
    }

    /// Shared memory of a block of the cluster.
    pub fn shared_of(&self, rank: u32) -> Option<&SharedMemory> {
        if rank == self.block.rank {
            return Some(&self.block.shared);
        }
        self.peers.block(rank).map(|block| &block.state.shared)
    }

    /// Shared memory of a block of the cluster, which is known to be there.
    pub fn shared_of_mut(&mut self, rank: u32) -> &mut SharedMemory {
        match self.peers.block_mut(rank) {
            Some(block) => &mut block.state.shared,
            None => &mut self.block.shared,
        }
    }

    /// The word of local memory that holds an address.
    fn local_word(
        &mut self,
        what: &'static str,
        lane: usize,
        address: u64,
        size: u32,
    ) -> Result<usize, Cause> {
        let local = u64::from(self.context.local);
        let offset = address & 0xffff_ffff;
        if offset + u64::from(size) > local {
            let reason = format!("the thread has {local} bytes");
            return Err(refuse(what, Space::Local, lane, address, size, reason));
        }
        let word = ((local - 1 - offset) / 4) as usize;
        if self.warp.local.len() <= word {
            self.warp.local.resize(word + 1, [0; 32]);
            self.warp.local_written.resize(word + 1, 0);
        }
        Ok(word)
    }

    fn check_alignment(
        what: &'static str,
        space: Space,
        lane: usize,
        address: u64,
        size: u32,
    ) -> Result<(), Cause> {
        if address & u64::from(size - 1) != 0 {
            let reason = format!("not a multiple of {size}");
            return Err(refuse(what, space, lane, address, size, reason));
        }
        Ok(())
    }

    /// One to sixteen bytes, as words.
    #[inline]
    pub fn load(
        &mut self,
        space: Space,
        lane: usize,
        address: u64,
        size: u32,
    ) -> Result<u128, Cause> {
        Self::check_alignment("load", space, lane, address, size)?;
        match space {
            Space::Global => {
                let (allocation, offset) = self
                    .context
                    .memory
                    .find(address, size, &mut self.warp.hint)
                    .map_err(|refusal| {
                        refuse("load", space, lane, address, size, refusal.to_string())
                    })?;
                let value = if size == 16 {
                    u128::from(allocation.load(offset, 8))
                        | u128::from(allocation.load(offset + 8, 8)) << 64
                } else {
                    u128::from(allocation.load(offset, size))
                };
                if self.context.options.checks.memory && !allocation.is_written(offset, size) {
                    self.find(
                        lane,
                        FindingKind::UnwrittenMemory {
                            space: "global",
                            address,
                        },
                    );
                }
                Ok(value)
            }
            Space::Shared | Space::Cluster => {
                let (rank, offset) = self.shared_place("load", space, lane, address, size)?;
                let size = size as usize;
                let shared = self.shared_of_mut(rank);
                let value = if size == 16 {
                    u128::from(shared.load(offset, 8))
                        | u128::from(shared.load(offset + 8, 8)) << 64
                } else {
                    u128::from(shared.load(offset, size))
                };
                let written = shared.is_written(offset, size);
                if self.context.options.checks.memory && !written {
                    self.find(
                        lane,
                        FindingKind::UnwrittenMemory {
                            space: "shared",
                            address,
                        },
                    );
                }
                self.check_race(lane, rank, offset, size, false);
                Ok(value)
            }
            Space::Local => {
                let mut value = 0;
                // Words stand with the highest address first.
                let step = size.min(4);
                for part in (0..size).step_by(4) {
                    let at = address + u64::from(part);
                    let word = self.local_word("load", lane, at, step)?;
                    let bits = self.warp.local[word][lane] >> (8 * (at & 3));
                    let bits = if step == 4 {
                        bits
                    } else {
                        bits & ((1 << (8 * step)) - 1)
                    };
                    value |= u128::from(bits) << (8 * part);
                    if self.context.options.checks.memory
                        && self.warp.local_written[word] >> lane & 1 == 0
                    {
                        self.find(
                            lane,
                            FindingKind::UnwrittenMemory {
                                space: "local",
                                address,
                            },
                        );
                    }
                }
                Ok(value)
            }
            Space::Generic => {
                let (space, address) = resolve(address);
                self.load(space, lane, address, size)
            }
        }
    }

    /// Writes one to sixteen bytes.
    #[inline]
    pub fn store(
        &mut self,
        space: Space,
        lane: usize,
        address: u64,
        size: u32,
        value: u128,
    ) -> Result<(), Cause> {
        Self::check_alignment("store", space, lane, address, size)?;
        match space {
            Space::Global => {
                let memory = self.context.memory;
                let refused = |reason: String| refuse("store", space, lane, address, size, reason);
                let (allocation, offset) = memory
                    .find(address, size, &mut self.warp.hint)
                    .map_err(|refusal| refused(refusal.to_string()))?;
                if !allocation.is_writable() {
                    return Err(refused(Refusal::ReadOnly.to_string()));
                }
                let shared = memory.is_shared();
                if size == 16 {
                    allocation.store(offset, 8, value as u64, shared);
                    allocation.store(offset + 8, 8, (value >> 64) as u64, shared);
                } else {
                    allocation.store(offset, size, value as u64, shared);
                }
                Ok(())
            }
            Space::Shared | Space::Cluster => {
                let (rank, offset) = self.shared_place("store", space, lane, address, size)?;
                let size = size as usize;
                let shared = self.shared_of_mut(rank);
                if size == 16 {
                    shared.store(offset, 8, value as u64);
                    shared.store(offset + 8, 8, (value >> 64) as u64);
                } else {
                    shared.store(offset, size, value as u64);
                }
                self.check_race(lane, rank, offset, size, true);
                Ok(())
            }
            Space::Local => {
                let step = size.min(4);
                for part in (0..size).step_by(4) {
                    let at = address + u64::from(part);
                    let word = self.local_word("store", lane, at, step)?;
                    let shift = 8 * (at & 3);
                    let mask = if step == 4 {
                        u32::MAX
                    } else {
                        ((1 << (8 * step)) - 1) << shift
                    };
                    let bits = ((value >> (8 * part)) as u32) << shift;
                    let place = &mut self.warp.local[word][lane];
                    *place = *place & !mask | bits & mask;
                    self.warp.local_written[word] |= 1 << lane;
                }
                Ok(())
            }
            Space::Generic => {
                let (space, address) = resolve(address);
                self.store(space, lane, address, size, value)
            }
        }
    }

    #[inline]
    fn check_race(&mut self, lane: usize, rank: u32, offset: usize, size: usize, writes: bool) {
        if !self.context.options.checks.races {
            return;
        }
        let mut warp = self.warp.number;
        if rank != self.block.rank {
            warp += FOREIGN_WARPS * (self.block.rank + 1);
        }
        if let Some(other) = self.shared_of_mut(rank).touch(offset, size, warp, writes) {
            let address = offset as u32;
            self.find(lane, FindingKind::Race { address, other });
        }
    }

    /// Replaces one to eight bytes by a function of them, in one step; what was there before.
    pub fn update(
        &mut self,
        space: Space,
        lane: usize,
        address: u64,
        size: u32,
        mut change: impl FnMut(u64) -> u64,
    ) -> Result<u64, Cause> {
        match self.atomic_place(space, lane, address, size)? {
            AtomicPlace::Global(allocation, offset) => Ok(allocation.update(offset, size, change)),
            AtomicPlace::Shared(rank, offset) => {
                let shared = self.shared_of_mut(rank);
                let old = shared.load(offset, size as usize);
                shared.store(offset, size as usize, change(old));
                shared.synchronize();
                Ok(old)
            }
        }
    }

    /// Replaces sixteen bytes by a function of them, in one step; what was there before.
    pub fn update_wide(
        &mut self,
        space: Space,
        lane: usize,
        address: u64,
        change: impl FnOnce(u128) -> u128,
    ) -> Result<u128, Cause> {
        match self.atomic_place(space, lane, address, 16)? {
            AtomicPlace::Global(allocation, offset) => {
                let memory = self.context.memory;
                Ok(memory.update_wide(allocation, offset, change))
            }
            AtomicPlace::Shared(rank, offset) => {
                let shared = self.shared_of_mut(rank);
                let (low, high) = (shared.load(offset, 8), shared.load(offset + 8, 8));
                let old = u128::from(high) << 64 | u128::from(low);
                let new = change(old);
                shared.store(offset, 8, new as u64);
                shared.store(offset + 8, 8, (new >> 64) as u64);
                shared.synchronize();
                Ok(old)
            }
        }
    }

    /// Where an atomic operation on `size` bytes takes place.
    fn atomic_place(
        &mut self,
        space: Space,
        lane: usize,
        address: u64,
        size: u32,
    ) -> Result<AtomicPlace<'a>, Cause> {
        const WHAT: &str = "atomic operation";
        Self::check_alignment(WHAT, space, lane, address, size)?;
        let (resolved, inner) = match space {
            Space::Generic => resolve(address),
            _ => (space, address),
        };
        match resolved {
            Space::Global => {
                let refused = |reason: String| refuse(WHAT, resolved, lane, inner, size, reason);
                let memory = self.context.memory;
                let (allocation, offset) = memory
                    .find(inner, size, &mut self.warp.hint)
                    .map_err(|refusal| refused(refusal.to_string()))?;
                if !allocation.is_writable() {
                    return Err(refused(Refusal::ReadOnly.to_string()));
                }
                Ok(AtomicPlace::Global(allocation, offset))
            }
            Space::Shared | Space::Cluster => {
                let (rank, offset) = self.shared_place(WHAT, resolved, lane, inner, size)?;
                Ok(AtomicPlace::Shared(rank, offset))
            }
            Space::Local | Space::Generic => {
                let reason = "local memory has no atomic operations".to_owned();
                Err(refuse(WHAT, space, lane, address, size, reason))
            }
        }
    }

    /// One to eight bytes at a generic address.
    pub fn load_generic(&mut self, lane: usize, address: u64, size: u32) -> Result<u64, Cause> {
        self.load(Space::Generic, lane, address, size)
            .map(|value| value as u64)
    }
}
