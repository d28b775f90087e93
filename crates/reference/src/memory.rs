//! Memory: regions of bytes at addresses.
//!
//! Generic addresses are 64-bit numbers. Global memory, constants and kernel parameters are regions with an address each,
//! with unused space between them, so that an access beyond one does not land in the next. Shared and local memory appear in
//! two windows; what lies there depends on the thread that asks.

use orias_eval::texture::{Object, Objects};
use std::fmt;

/// Where the window of shared memory starts.
pub(crate) const SHARED_WINDOW: u64 = 0x7f00_0000_0000;
/// Where the window of local memory starts.
pub(crate) const LOCAL_WINDOW: u64 = 0x7f80_0000_0000;
/// The size of the window of local memory, and of each CTA's part of that of shared memory.
pub(crate) const WINDOW_BYTES: u64 = 1 << RANK_SHIFT;
/// The bit at which the number of a CTA in its cluster stands in an address of shared memory.
pub(crate) const RANK_SHIFT: u32 = 24;
/// The size of the window of shared memory, for the CTAs of a cluster.
pub(crate) const SHARED_WINDOW_BYTES: u64 = LARGEST_CLUSTER << RANK_SHIFT;
/// CTAs of a cluster at most.
pub(crate) const LARGEST_CLUSTER: u64 = 16;
/// Where kernel parameters stand.
pub(crate) const PARAMETER_BASE: u64 = 0x7e00_0000_0000;
/// Where the module's constants start.
pub(crate) const CONSTANT_BASE: u64 = 0x7d00_0000_0000;
/// Where the addresses of functions start.
pub(crate) const FUNCTION_BASE: u64 = 0x7c00_0000_0000;
/// Where global memory starts.
const GLOBAL_BASE: u64 = 0x7000_0000_0000;
/// Allocations start at a multiple of this, as on the device.
const ALLOCATION_ALIGNMENT: u64 = 256;
/// Space that no allocation uses after each.
const GAP: u64 = 4096;

/// A bad access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryError {
    /// What was tried: `read` or `write`.
    pub access: &'static str,
    /// The address, generic or in its space.
    pub address: u64,
    /// How many bytes.
    pub bytes: usize,
    /// The space it was in.
    pub space: &'static str,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It is not within one allocation.
    OutOfBounds,
    /// The address is no multiple of the size.
    Misaligned,
    /// Constants and parameters cannot be written.
    ReadOnly,
    /// Nothing has written these bytes.
    Uninitialised,
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            access,
            address,
            bytes,
            space,
            problem,
        } = self;
        let problem = match problem {
            Problem::OutOfBounds => "is out of bounds",
            Problem::Misaligned => "is misaligned",
            Problem::ReadOnly => "is of memory that cannot be written",
            Problem::Uninitialised => "is of memory that was never written",
        };
        write!(
            f,
            "{access} of {bytes} bytes of {space} memory at {address:#x} {problem}"
        )
    }
}

impl std::error::Error for MemoryError {}

/// Bytes, and which of them have been written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region {
    pub bytes: Vec<u8>,
    /// One bit a byte; `None` when all count as written.
    written: Option<Vec<u64>>,
}

impl Region {
    /// Bytes with a value.
    pub fn filled(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            written: None,
        }
    }

    /// Zeros; reading them before they are written is an error when `tracked`.
    pub fn fresh(length: usize, tracked: bool) -> Self {
        Self {
            bytes: vec![0; length],
            written: tracked.then(|| vec![0; length.div_ceil(64)]),
        }
    }

    /// Makes room up to `length`.
    pub fn grow(&mut self, length: usize) {
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
            if let Some(written) = &mut self.written {
                written.resize(length.div_ceil(64), 0);
            }
        }
    }

    /// Forgets what was written from `start` on.
    pub fn forget(&mut self, start: usize) {
        if let Some(written) = &mut self.written {
            for place in start..self.bytes.len() {
                written[place / 64] &= !(1 << (place % 64));
            }
        }
    }

    pub fn read(&self, offset: u64, length: usize) -> Result<&[u8], Problem> {
        let start = usize::try_from(offset).map_err(|_| Problem::OutOfBounds)?;
        let end = start.checked_add(length).ok_or(Problem::OutOfBounds)?;
        let bytes = self.bytes.get(start..end).ok_or(Problem::OutOfBounds)?;
        if let Some(written) = &self.written
            && (start..end).any(|place| written[place / 64] >> (place % 64) & 1 == 0)
        {
            return Err(Problem::Uninitialised);
        }
        Ok(bytes)
    }

    /// The bytes of a variable as they are; none where nothing was written yet.
    pub fn take(&self, offset: u64, length: usize) -> Vec<Option<u8>> {
        let places = offset as usize..offset as usize + length;
        let written = |place: usize| match &self.written {
            Some(written) => written[place / 64] >> (place % 64) & 1 == 1,
            None => true,
        };
        places
            .map(|place| self.bytes.get(place).copied().filter(|_| written(place)))
            .collect()
    }

    /// Writes those of some bytes that are there, and forgets what was at the others.
    pub fn lay(&mut self, offset: u64, bytes: &[Option<u8>]) -> Result<(), Problem> {
        for (place, byte) in (offset..).zip(bytes) {
            match byte {
                Some(byte) => self.write(place, &[*byte])?,
                None => {
                    if let Some(written) = &mut self.written {
                        written[place as usize / 64] &= !(1 << (place % 64));
                    }
                }
            }
        }
        Ok(())
    }

    pub fn write(&mut self, offset: u64, value: &[u8]) -> Result<(), Problem> {
        let start = usize::try_from(offset).map_err(|_| Problem::OutOfBounds)?;
        let end = start.checked_add(value.len()).ok_or(Problem::OutOfBounds)?;
        let bytes = self.bytes.get_mut(start..end).ok_or(Problem::OutOfBounds)?;
        bytes.copy_from_slice(value);
        if let Some(written) = &mut self.written {
            for place in start..end {
                written[place / 64] |= 1 << (place % 64);
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
struct Allocation {
    base: u64,
    region: Region,
    read_only: bool,
}

/// Global memory, constants and parameters.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Sorted by address.
    allocations: Vec<Allocation>,
    next: u64,
    /// What handles of textures, samplers and surfaces name.
    pub(crate) objects: Objects,
}

impl Memory {
    /// Adds a texture, sampler or surface, whose texels have been allocated; its handle.
    pub fn bind(&mut self, object: Object) -> u64 {
        self.objects.add(object)
    }

    /// A new allocation with these contents: its address, a multiple of 256.
    pub fn allocate(&mut self, bytes: Vec<u8>) -> u64 {
        self.allocate_aligned(bytes, ALLOCATION_ALIGNMENT)
    }

    /// A new allocation whose address is a multiple of `alignment` and of 256.
    pub(crate) fn allocate_aligned(&mut self, bytes: Vec<u8>, alignment: u64) -> u64 {
        let alignment = alignment.max(ALLOCATION_ALIGNMENT);
        let base = self.next.max(GLOBAL_BASE).next_multiple_of(alignment);
        self.next = base + bytes.len() as u64 + GAP;
        self.place(base, bytes, false);
        base
    }

    /// An allocation at that address, in place of the one that was there.
    pub(crate) fn place(&mut self, base: u64, bytes: Vec<u8>, read_only: bool) {
        let allocation = Allocation {
            base,
            region: Region::filled(bytes),
            read_only,
        };
        match self.allocations.binary_search_by_key(&base, |it| it.base) {
            Ok(at) => self.allocations[at] = allocation,
            Err(at) => self.allocations.insert(at, allocation),
        }
    }

    /// Ends an allocation; false when none starts there.
    pub(crate) fn free(&mut self, base: u64) -> bool {
        match self.allocations.binary_search_by_key(&base, |it| it.base) {
            Ok(at) if !self.allocations[at].read_only => {
                self.allocations.remove(at);
                true
            }
            _ => false,
        }
    }

    /// The bytes there.
    pub fn read(&self, address: u64, length: usize) -> Result<&[u8], MemoryError> {
        let failed = |problem| MemoryError {
            access: "read",
            address,
            bytes: length,
            space: "global",
            problem,
        };
        let at = self.allocations.partition_point(|it| it.base <= address);
        let at = at.checked_sub(1).ok_or(failed(Problem::OutOfBounds))?;
        let allocation = &self.allocations[at];
        allocation
            .region
            .read(address - allocation.base, length)
            .map_err(failed)
    }

    /// Writes bytes there.
    pub fn write(&mut self, address: u64, value: &[u8]) -> Result<(), MemoryError> {
        let failed = |problem| MemoryError {
            access: "write",
            address,
            bytes: value.len(),
            space: "global",
            problem,
        };
        let at = self.allocations.partition_point(|it| it.base <= address);
        let at = at.checked_sub(1).ok_or(failed(Problem::OutOfBounds))?;
        let allocation = &mut self.allocations[at];
        if allocation.read_only {
            return Err(failed(Problem::ReadOnly));
        }
        allocation
            .region
            .write(address - allocation.base, value)
            .map_err(failed)
    }

    /// The bytes from `address` to the first zero, or `None` when memory ends before one.
    pub(crate) fn read_string(&self, address: u64) -> Option<Vec<u8>> {
        let at = self.allocations.partition_point(|it| it.base <= address);
        let allocation = &self.allocations[at.checked_sub(1)?];
        let start = usize::try_from(address - allocation.base).ok()?;
        let bytes = allocation.region.bytes.get(start..)?;
        let end = bytes.iter().position(|&byte| byte == 0)?;
        Some(bytes[..end].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_do_not_touch() {
        let mut memory = Memory::default();
        let a = memory.allocate(vec![1; 16]);
        let b = memory.allocate(vec![2; 16]);
        assert_eq!(memory.read(a + 12, 4).unwrap(), [1; 4]);
        assert_eq!(memory.read(b, 4).unwrap(), [2; 4]);
        assert!(memory.read(a + 13, 4).is_err());
        assert!(memory.read(b - 1, 1).is_err());
        assert!(memory.write(0, &[1]).is_err());
        memory.place(PARAMETER_BASE, vec![0; 4], true);
        assert!(memory.write(PARAMETER_BASE, &[1]).is_err());
    }

    #[test]
    fn bytes_that_were_never_written_are_noticed() {
        let mut region = Region::fresh(100, true);
        region.write(62, &[1, 2, 3, 4]).unwrap();
        assert_eq!(region.read(62, 4), Ok(&[1, 2, 3, 4][..]));
        assert_eq!(region.read(60, 4), Err(Problem::Uninitialised));
        region.forget(64);
        assert_eq!(region.read(62, 4), Err(Problem::Uninitialised));
        assert_eq!(Region::fresh(4, false).read(0, 4), Ok(&[0; 4][..]));
    }
}
