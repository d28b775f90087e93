//! Shared memory of a block, with what is needed to find races and reads of unwritten bytes.
//!
//! Two accesses race when different warps make them to the same word, one of them writes, and no barrier, fence or atomic
//! operation of the block lies between. Lanes of one warp are not compared: the program orders them.

use crate::launch::Checks;

/// Warps of a block: those of other blocks of the cluster have numbers from here on, so many for each block.
pub(crate) const FOREIGN_WARPS: u32 = 32;

/// Who touched a word since the last synchronisation.
#[derive(Clone, Copy, Debug, Default)]
struct Touch {
    epoch: u32,
    /// The warp that wrote, plus one.
    writer: u16,
    /// The warp that read, plus one; `u16::MAX` for several.
    reader: u16,
}

/// Shared memory of a block.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    pub bytes: Vec<u8>,
    /// A bit per byte, if wanted.
    written: Option<Vec<u64>>,
    /// By words, if wanted.
    touches: Option<Vec<Touch>>,
    epoch: u32,
}

impl SharedMemory {
    pub fn new(length: usize, checks: Checks) -> Self {
        Self {
            bytes: vec![0; length],
            written: checks.memory.then(|| vec![0; length.div_ceil(64)]),
            touches: checks
                .races
                .then(|| vec![Touch::default(); length.div_ceil(4)]),
            epoch: 1,
        }
    }

    /// Everything before happens before everything after.
    pub fn synchronize(&mut self) {
        self.epoch += 1;
    }

    /// One to eight bytes.
    #[inline]
    pub fn load(&self, offset: usize, size: usize) -> u64 {
        match size {
            4 => {
                let mut word = [0; 4];
                word.copy_from_slice(&self.bytes[offset..offset + 4]);
                u64::from(u32::from_le_bytes(word))
            }
            _ => {
                let mut word = [0; 8];
                word[..size].copy_from_slice(&self.bytes[offset..offset + size]);
                u64::from_le_bytes(word)
            }
        }
    }

    /// Writes one to eight bytes.
    #[inline]
    pub fn store(&mut self, offset: usize, size: usize, value: u64) {
        self.bytes[offset..offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
        if let Some(written) = &mut self.written {
            for at in offset..offset + size {
                written[at / 64] |= 1 << (at % 64);
            }
        }
    }

    /// Whether all of these bytes were written.
    pub fn is_written(&self, offset: usize, size: usize) -> bool {
        self.written.as_ref().is_none_or(|written| {
            (offset..offset + size).all(|at| written[at / 64] >> (at % 64) & 1 == 1)
        })
    }

    /// Notes an access by a warp; the warp it races with, if any.
    pub fn touch(&mut self, offset: usize, size: usize, warp: u32, writes: bool) -> Option<u32> {
        let touches = self.touches.as_mut()?;
        let me = warp as u16 + 1;
        let mut other = None;
        for touch in &mut touches[offset / 4..(offset + size).div_ceil(4)] {
            if touch.epoch != self.epoch {
                *touch = Touch {
                    epoch: self.epoch,
                    ..Touch::default()
                };
            }
            if touch.writer != 0 && touch.writer != me {
                other = Some(u32::from(touch.writer) - 1);
            }
            if writes {
                if touch.reader != 0 && touch.reader != me {
                    let reader = if touch.reader == u16::MAX {
                        1
                    } else {
                        touch.reader
                    };
                    other = Some(u32::from(reader) - 1);
                }
                touch.writer = me;
            } else if touch.reader == 0 || touch.reader == me {
                touch.reader = me;
            } else {
                touch.reader = u16::MAX;
            }
        }
        other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unsynchronised_accesses_of_two_warps_with_a_write_race() {
        let mut memory = SharedMemory::new(64, Checks::ALL);
        assert_eq!(memory.touch(0, 4, 0, false), None);
        assert_eq!(memory.touch(0, 4, 1, false), None, "two reads");
        assert_eq!(memory.touch(8, 4, 0, true), None);
        assert_eq!(memory.touch(8, 4, 0, true), None, "the same warp");
        assert_eq!(memory.touch(8, 4, 1, false), Some(0));
        memory.synchronize();
        assert_eq!(memory.touch(8, 4, 2, true), None);
        assert_eq!(memory.touch(8, 4, 3, true), Some(2));
    }

    #[test]
    fn unwritten_bytes_are_known() {
        let mut memory = SharedMemory::new(64, Checks::ALL);
        memory.store(4, 2, 0xabcd);
        assert!(memory.is_written(4, 2) && !memory.is_written(4, 4));
        assert_eq!(memory.load(4, 4), 0xabcd);
    }
}
