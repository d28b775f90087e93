//! The device's heap: what `malloc` and `free` of a kernel use.

use std::collections::BTreeMap;

/// Free and used ranges of one allocation of device memory.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    /// Start and length of free ranges.
    free: BTreeMap<u64, u64>,
    /// Start and length of used ranges.
    used: BTreeMap<u64, u64>,
}

/// Alignment of what `malloc` returns.
const ALIGN: u64 = 16;

impl Heap {
    pub fn new(base: u64, length: u64) -> Self {
        Self {
            free: BTreeMap::from([(base, length)]),
            used: BTreeMap::new(),
        }
    }

    /// The address of `length` bytes, or 0 when there is no room.
    pub fn allocate(&mut self, length: u64) -> u64 {
        let Some(length) = length.max(1).checked_next_multiple_of(ALIGN) else {
            return 0;
        };
        let Some((&start, &room)) = self.free.iter().find(|(_, room)| **room >= length) else {
            return 0;
        };
        self.free.remove(&start);
        if room > length {
            self.free.insert(start + length, room - length);
        }
        self.used.insert(start, length);
        start
    }

    /// Gives bytes back; whether they were allocated.
    pub fn release(&mut self, address: u64) -> bool {
        if address == 0 {
            return true;
        }
        let Some(mut length) = self.used.remove(&address) else {
            return false;
        };
        let mut start = address;
        if let Some(after) = self.free.remove(&(start + length)) {
            length += after;
        }
        if let Some((&before, &room)) = self.free.range(..start).next_back()
            && before + room == start
        {
            self.free.remove(&before);
            start = before;
            length += room;
        }
        self.free.insert(start, length);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_reused_and_joined() {
        let mut heap = Heap::new(0x1000, 64);
        let (a, b) = (heap.allocate(10), heap.allocate(40));
        assert_eq!((a, b), (0x1000, 0x1010));
        assert_eq!(heap.allocate(16), 0);
        assert!(heap.release(a) && heap.release(b));
        assert!(!heap.release(b), "given back twice");
        assert_eq!(heap.allocate(64), 0x1000);
    }
}
