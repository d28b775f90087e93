//! Device memory: allocations with gaps between them, so that an access beyond one is noticed.
//!
//! Words are atomic, so that several host threads can run blocks of one grid on the same memory. An access within eight
//! bytes is one step, as on the chip; a wider one is several. Atomic operations on sixteen bytes exclude each other by a lock.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Where allocations start: above 32 bits, so that a truncated address hits nothing.
const FIRST: u64 = 0x7f40_0000_0000;
/// Unused bytes after each allocation.
const GAP: u64 = 1 << 16;
/// Alignment of allocations, that of the CUDA driver's.
const ALIGN: u64 = 256;

/// Global memory of a device.
#[derive(Debug, Default)]
pub struct Memory {
    allocations: Vec<Allocation>,
    next: u64,
    /// Whether several host threads use it: narrow stores must then be read-modify-write steps.
    shared: AtomicBool,
    /// Held during an atomic operation on sixteen bytes.
    wide: Mutex<()>,
}

/// Contiguous bytes.
#[derive(Debug)]
pub(crate) struct Allocation {
    base: u64,
    length: u64,
    words: Box<[AtomicU64]>,
    /// A bit for each byte that was written, unless all of them were from the start.
    written: Option<Box<[AtomicU64]>>,
    writable: bool,
}

/// Why an access to global memory is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Nothing,
    Beyond { base: u64, length: u64 },
    ReadOnly,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Nothing => f.write_str("nothing is allocated there"),
            Refusal::Beyond { base, length } => {
                write!(f, "beyond the {length} bytes at {base:#x}")
            }
            Refusal::ReadOnly => f.write_str("constant memory cannot be written"),
        }
    }
}

fn words_for(length: u64) -> usize {
    (length as usize).div_ceil(8)
}

impl Memory {
    /// Memory without allocations.
    #[must_use]
    pub fn new() -> Self {
        Self {
            allocations: Vec::new(),
            next: FIRST,
            shared: AtomicBool::new(false),
            wide: Mutex::new(()),
        }
    }

    /// A buffer that holds `bytes`; its address.
    pub fn allocate(&mut self, bytes: &[u8]) -> u64 {
        self.push(bytes, true, false)
    }

    /// A buffer of `length` bytes that nothing has written yet: reading it first is a finding.
    pub fn reserve(&mut self, length: usize) -> u64 {
        let zeros = vec![0; length];
        self.push(&zeros, true, true)
    }

    /// Bytes that a kernel may only read.
    pub(crate) fn allocate_constant(&mut self, bytes: &[u8]) -> u64 {
        self.push(bytes, false, false)
    }

    /// Lets the next allocation begin at a multiple of `alignment`.
    pub(crate) fn align(&mut self, alignment: u64) {
        self.next = self.next.next_multiple_of(alignment.max(ALIGN));
    }

    fn push(&mut self, bytes: &[u8], writable: bool, unwritten: bool) -> u64 {
        let base = self.next;
        let length = bytes.len() as u64;
        let words = bytes
            .chunks(8)
            .map(|chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                AtomicU64::new(u64::from_le_bytes(word))
            })
            .collect();
        let written = unwritten.then(|| {
            (0..words_for(length).div_ceil(8))
                .map(|_| AtomicU64::new(0))
                .collect()
        });
        self.allocations.push(Allocation {
            base,
            length,
            words,
            written,
            writable,
        });
        self.next = (base + length + GAP).next_multiple_of(ALIGN);
        base
    }

    /// The bytes at an address; `None` when not all of them are allocated.
    #[must_use]
    pub fn read(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let allocation = self.at(address)?;
        let start = address - allocation.base;
        if start + length as u64 > allocation.length {
            return None;
        }
        Some(
            (start..start + length as u64)
                .map(|at| allocation.load(at, 1) as u8)
                .collect(),
        )
    }

    /// Writes bytes at an address; `None` when not all of them are allocated.
    #[must_use]
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        let allocation = self.at(address)?;
        let start = address - allocation.base;
        if start + bytes.len() as u64 > allocation.length {
            return None;
        }
        for (at, byte) in (start..).zip(bytes) {
            allocation.store(at, 1, u64::from(*byte), false);
        }
        Some(())
    }

    /// Whether several host threads will use the memory at once.
    pub(crate) fn share(&self, shared: bool) {
        self.shared.store(shared, Relaxed);
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Relaxed)
    }

    /// Replaces sixteen bytes of an allocation by a function of them; what was there before. No other such operation comes between.
    pub(crate) fn update_wide(
        &self,
        allocation: &Allocation,
        offset: u64,
        change: impl FnOnce(u128) -> u128,
    ) -> u128 {
        let _guard = self
            .wide
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let (low, high) = (allocation.load(offset, 8), allocation.load(offset + 8, 8));
        let old = u128::from(high) << 64 | u128::from(low);
        let new = change(old);
        allocation.store(offset, 8, new as u64, true);
        allocation.store(offset + 8, 8, (new >> 64) as u64, true);
        old
    }

    fn at(&self, address: u64) -> Option<&Allocation> {
        self.allocations.get(self.index_of(address)?)
    }

    /// The allocation that starts at or below an address.
    fn index_of(&self, address: u64) -> Option<usize> {
        self.allocations
            .partition_point(|allocation| allocation.base <= address)
            .checked_sub(1)
    }

    /// The allocation that holds `size` bytes at `address`, with the offset there. `hint` is the index of the last one found.
    #[inline]
    pub(crate) fn find(
        &self,
        address: u64,
        size: u32,
        hint: &mut usize,
    ) -> Result<(&Allocation, u64), Refusal> {
        if let Some(allocation) = self.allocations.get(*hint) {
            let offset = address.wrapping_sub(allocation.base);
            if offset < allocation.length && offset + u64::from(size) <= allocation.length {
                return Ok((allocation, offset));
            }
        }
        self.search(address, size, hint)
    }

    #[cold]
    fn search(
        &self,
        address: u64,
        size: u32,
        hint: &mut usize,
    ) -> Result<(&Allocation, u64), Refusal> {
        let index = self.index_of(address).ok_or(Refusal::Nothing)?;
        let allocation = &self.allocations[index];
        let offset = address - allocation.base;
        if offset + u64::from(size) > allocation.length {
            // Within the gap the allocation before is the one that was meant.
            return Err(if offset < allocation.length + GAP {
                Refusal::Beyond {
                    base: allocation.base,
                    length: allocation.length,
                }
            } else {
                Refusal::Nothing
            });
        }
        *hint = index;
        Ok((allocation, offset))
    }
}

const fn mask(size: u32) -> u64 {
    if size >= 8 {
        u64::MAX
    } else {
        (1 << (8 * size)) - 1
    }
}

impl Allocation {
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// One to eight bytes, aligned to their number.
    #[inline]
    pub fn load(&self, offset: u64, size: u32) -> u64 {
        let word = self.words[(offset >> 3) as usize].load(Relaxed);
        (word >> (8 * (offset & 7))) & mask(size)
    }

    /// Writes one to eight bytes, aligned to their number.
    #[inline]
    pub fn store(&self, offset: u64, size: u32, value: u64, shared: bool) {
        let word = &self.words[(offset >> 3) as usize];
        if size == 8 {
            word.store(value, Relaxed);
        } else {
            let shift = 8 * (offset & 7);
            let keep = !(mask(size) << shift);
            let put = (value & mask(size)) << shift;
            if shared {
                let _ = word.fetch_update(Relaxed, Relaxed, |old| Some(old & keep | put));
            } else {
                word.store(word.load(Relaxed) & keep | put, Relaxed);
            }
        }
        if let Some(written) = &self.written {
            let bits = ((1u64 << size) - 1) << (offset & 63);
            written[(offset >> 6) as usize].fetch_or(bits, Relaxed);
        }
    }

    /// Replaces one to eight bytes by a function of them, in one step; what was there before.
    pub fn update(&self, offset: u64, size: u32, mut change: impl FnMut(u64) -> u64) -> u64 {
        let word = &self.words[(offset >> 3) as usize];
        let shift = 8 * (offset & 7);
        let keep = !(mask(size) << shift);
        let mut old = word.load(Relaxed);
        loop {
            let before = (old >> shift) & mask(size);
            let new = old & keep | (change(before) & mask(size)) << shift;
            match word.compare_exchange_weak(old, new, Relaxed, Relaxed) {
                Ok(_) => {
                    if let Some(written) = &self.written {
                        let bits = ((1u64 << size) - 1) << (offset & 63);
                        written[(offset >> 6) as usize].fetch_or(bits, Relaxed);
                    }
                    return before;
                }
                Err(now) => old = now,
            }
        }
    }

    /// Whether all of these bytes were written.
    pub fn is_written(&self, offset: u64, size: u32) -> bool {
        self.written.as_ref().is_none_or(|written| {
            (offset..offset + u64::from(size))
                .all(|at| written[(at >> 6) as usize].load(Relaxed) >> (at & 63) & 1 == 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_the_gap_is_refused() {
        let mut memory = Memory::new();
        let first = memory.allocate(&[1, 2, 3, 4, 5]);
        let second = memory.allocate(&[9; 16]);
        assert!(first.is_multiple_of(ALIGN) && second > first + GAP);
        assert_eq!(memory.read(first, 5).unwrap(), [1, 2, 3, 4, 5]);
        assert_eq!(memory.read(first, 6), None);
        let mut hint = 0;
        assert_eq!(
            memory.find(first + 4, 4, &mut hint).err(),
            Some(Refusal::Beyond {
                base: first,
                length: 5
            })
        );
        assert_eq!(memory.find(16, 4, &mut hint).err(), Some(Refusal::Nothing));
        let (allocation, offset) = memory.find(second + 8, 8, &mut hint).unwrap();
        assert_eq!((offset, hint), (8, 1));
        allocation.store(offset + 2, 2, 0xbeef, true);
        assert_eq!(memory.read(second + 8, 4).unwrap(), [9, 9, 0xef, 0xbe]);
    }

    #[test]
    fn reserved_bytes_count_as_unwritten_until_stored() {
        let mut memory = Memory::new();
        let address = memory.reserve(64);
        let (allocation, offset) = memory.find(address + 8, 4, &mut 0).unwrap();
        assert!(!allocation.is_written(offset, 4));
        allocation.store(offset, 4, 7, false);
        assert!(allocation.is_written(offset, 4) && !allocation.is_written(offset, 8));
        assert_eq!(allocation.update(offset, 4, |old| old + 1), 7);
    }
}
