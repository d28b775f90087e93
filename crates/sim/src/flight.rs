//! Results on their way to the registers.

use crate::operand::Lanes;
use crate::warp::Registers;

/// What has been computed but not written yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flight {}

impl Flight {
    /// What a launch's options ask for.
    pub fn new(_timing: crate::launch::Timing, _block: [u32; 3], _warp: u32) -> Self {
        Self {}
    }

    /// Cycles so far.
    pub fn cycle(&self) -> u64 {
        0
    }

    #[inline]
    pub fn read_r(&self, registers: &Registers, index: u8) -> Lanes {
        registers.r[usize::from(index)]
    }

    #[inline]
    pub fn write_r(&mut self, registers: &mut Registers, index: u8, mask: u32, value: &Lanes) {
        let index = usize::from(index);
        registers.written[index] |= mask;
        blend(&mut registers.r[index], mask, value);
    }

    #[inline]
    pub fn read_p(&self, registers: &Registers, index: u8) -> u32 {
        registers.p[usize::from(index)]
    }

    #[inline]
    pub fn write_p(&mut self, registers: &mut Registers, index: u8, mask: u32, bits: u32) {
        let p = &mut registers.p[usize::from(index)];
        *p = *p & !mask | bits & mask;
    }

    #[inline]
    pub fn read_ur(&self, registers: &Registers, index: u8) -> u32 {
        registers.ur[usize::from(index)]
    }

    #[inline]
    pub fn write_ur(&mut self, registers: &mut Registers, index: u8, value: u32) {
        registers.ur[usize::from(index)] = value;
    }

    #[inline]
    pub fn read_up(&self, registers: &Registers, index: u8) -> u32 {
        registers.up[usize::from(index)]
    }

    #[inline]
    pub fn write_up(&mut self, registers: &mut Registers, index: u8, bits: u32) {
        registers.up[usize::from(index)] = bits;
    }
}

/// `value` in the lanes of `mask`, what was there in the others.
#[inline]
pub(crate) fn blend(into: &mut Lanes, mask: u32, value: &Lanes) {
    if mask == u32::MAX {
        *into = *value;
    } else {
        for (lane, (to, from)) in into.iter_mut().zip(value).enumerate() {
            if mask >> lane & 1 == 1 {
                *to = *from;
            }
        }
    }
}
