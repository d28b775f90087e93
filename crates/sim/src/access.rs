//! Single accesses of a lane to the memories, with their checks.

use crate::core::Core;
use crate::fault::{Cause, FaultKind};
use crate::launch::FindingKind;
use crate::memory::{Allocation, Refusal};
use crate::module::{LOCAL, SHARED_HIGH};

/// A memory space of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    Shared,
    Local,
    Generic,
}

impl Space {
    fn name(self) -> &'static str {
        match self {
            Space::Global => "global",
            Space::Shared => "shared",
            Space::Local => "local",
            Space::Generic => "generic",
        }
    }
}

/// Where a generic address leads, and the address there.
pub(crate) fn resolve(address: u64) -> (Space, u64) {
    if (address >> 32) as u32 == SHARED_HIGH {
        (Space::Shared, address & 0xffff_ffff)
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
    Shared(usize),
}

impl<'a> Core<'a> {
    /// The place of an access in shared memory.
    fn shared_offset(
        &self,
        what: &'static str,
        lane: usize,
        address: u64,
        size: u32,
    ) -> Result<usize, Cause> {
        let offset = (address & 0xffff_ffff) as usize;
        let length = self.block.shared.bytes.len();
        if offset + size as usize > length {
            let reason = format!("the block has {length} bytes");
            return Err(refuse(what, Space::Shared, lane, address, size, reason));
        }
        Ok(offset)
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
            Space::Shared => {
                let offset = self.shared_offset("load", lane, address, size)?;
                let size = size as usize;
                let value = if size == 16 {
                    u128::from(self.block.shared.load(offset, 8))
                        | u128::from(self.block.shared.load(offset + 8, 8)) << 64
                } else {
                    u128::from(self.block.shared.load(offset, size))
                };
                if self.context.options.checks.memory && !self.block.shared.is_written(offset, size)
                {
                    self.find(
                        lane,
                        FindingKind::UnwrittenMemory {
                            space: "shared",
                            address,
                        },
                    );
                }
                self.check_race(lane, offset, size, false);
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
            Space::Shared => {
                let offset = self.shared_offset("store", lane, address, size)?;
                let size = size as usize;
                if size == 16 {
                    self.block.shared.store(offset, 8, value as u64);
                    self.block.shared.store(offset + 8, 8, (value >> 64) as u64);
                } else {
                    self.block.shared.store(offset, size, value as u64);
                }
                self.check_race(lane, offset, size, true);
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
    fn check_race(&mut self, lane: usize, offset: usize, size: usize, writes: bool) {
        if !self.context.options.checks.races {
            return;
        }
        let warp = self.warp.number;
        if let Some(other) = self.block.shared.touch(offset, size, warp, writes) {
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
            AtomicPlace::Shared(offset) => {
                let shared = &mut self.block.shared;
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
            AtomicPlace::Shared(offset) => {
                let shared = &mut self.block.shared;
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
            Space::Shared => {
                let offset = self.shared_offset(WHAT, lane, inner, size)?;
                Ok(AtomicPlace::Shared(offset))
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
