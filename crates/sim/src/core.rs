//! One warp in the act of running an instruction: its registers, its block, the device.

use crate::block::BlockState;
use crate::fault::Cause;
use crate::launch::Context;
use crate::operand::Lanes;
use crate::warp::Warp;
use orias_sass::Register;

/// What an instruction's semantics may touch.
pub(crate) struct Core<'a> {
    pub warp: &'a mut Warp,
    pub block: &'a mut BlockState,
    pub context: &'a Context<'a>,
    /// The lanes that run the instruction: those of the group whose guard holds.
    pub active: u32,
    /// The lanes of the group, whatever their guards.
    pub group: u32,
    /// Index of the instruction.
    pub index: usize,
    /// A register that was touched without being declared.
    pub violation: Option<Register>,
}

impl Core<'_> {
    #[cold]
    pub fn violate(&mut self, register: Register) {
        self.violation.get_or_insert(register);
    }

    /// A general register.
    #[inline]
    pub fn r(&mut self, index: u8) -> Lanes {
        if index == 255 {
            return [0; 32];
        }
        if self.context.options.checks.registers {
            self.check_written(index);
        }
        self.warp.flight.read_r(&self.warp.registers, index)
    }

    #[cold]
    fn check_written(&mut self, index: u8) {
        let unwritten = self.active & !self.warp.registers.written[usize::from(index)];
        if unwritten != 0 {
            self.warp.registers.written[usize::from(index)] |= unwritten;
            let lane = unwritten.trailing_zeros();
            self.context.find(
                self.index,
                self.block,
                self.warp.thread(lane as usize),
                crate::launch::FindingKind::UnwrittenRegister(Register::r(index)),
            );
        }
    }

    /// Writes a general register in the lanes that run.
    #[inline]
    pub fn put_r(&mut self, index: u8, value: &Lanes) {
        if index == 255 || self.active == 0 {
            return;
        }
        self.warp
            .flight
            .write_r(&mut self.warp.registers, index, self.active, value);
    }

    /// A predicate, a bit per lane.
    #[inline]
    pub fn p(&mut self, index: u8) -> u32 {
        if index == 7 {
            return u32::MAX;
        }
        self.warp.flight.read_p(&self.warp.registers, index)
    }

    /// Writes a predicate in the lanes that run.
    #[inline]
    pub fn put_p(&mut self, index: u8, bits: u32) {
        if index == 7 || self.active == 0 {
            return;
        }
        self.warp
            .flight
            .write_p(&mut self.warp.registers, index, self.active, bits);
    }

    /// A uniform register.
    #[inline]
    pub fn ur(&mut self, index: u8) -> u32 {
        if index >= 63 {
            return 0;
        }
        self.warp.flight.read_ur(&self.warp.registers, index)
    }

    /// Writes a uniform register.
    #[inline]
    pub fn put_ur(&mut self, index: u8, value: u32) {
        if index >= 63 {
            return;
        }
        self.warp
            .flight
            .write_ur(&mut self.warp.registers, index, value);
    }

    /// A uniform predicate: all bits or none.
    #[inline]
    pub fn up(&mut self, index: u8) -> u32 {
        if index == 7 {
            return u32::MAX;
        }
        self.warp.flight.read_up(&self.warp.registers, index)
    }

    /// Writes a uniform predicate.
    #[inline]
    pub fn put_up(&mut self, index: u8, value: bool) {
        if index == 7 {
            return;
        }
        let bits = if value { u32::MAX } else { 0 };
        self.warp
            .flight
            .write_up(&mut self.warp.registers, index, bits);
    }

    /// A word of a constant bank; the offset was checked when the instruction was made ready.
    #[inline]
    pub fn constant_word(&self, bank: u8, offset: u32) -> u32 {
        let bytes = self.context.bank(bank);
        let at = offset as usize;
        bytes
            .get(at..at + 4)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u32::from_le_bytes)
    }

    /// The lanes that run, lowest first.
    pub fn lanes(&self) -> LaneIterator {
        LaneIterator(self.active)
    }

    /// Notes something that is suspicious but not impossible.
    pub fn find(&mut self, lane: usize, kind: crate::launch::FindingKind) {
        self.context
            .find(self.index, self.block, self.warp.thread(lane), kind);
    }
}

/// The lanes of a mask, lowest first.
#[derive(Clone, Copy)]
pub(crate) struct LaneIterator(pub u32);

impl Iterator for LaneIterator {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let lane = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(lane as usize)
    }
}

/// Cycles that went by before an instruction was issued.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waited {
    pub stalled: u64,
    pub waited: u64,
}

impl Core<'_> {
    /// Lets time go by until an instruction is issued.
    #[inline]
    pub fn issue(&mut self, _step: &crate::program::Step) -> Result<Waited, Cause> {
        Ok(Waited::default())
    }

    /// Runs an instruction, now or when its sources are read.
    #[inline]
    pub fn perform(
        &mut self,
        _step: &crate::program::Step,
        action: &crate::program::Action,
    ) -> Result<(), Cause> {
        action(self)
    }

    /// Lets everything that is under way complete.
    pub fn drain(&mut self) -> Result<(), Cause> {
        Ok(())
    }
}

impl Core<'_> {
    /// Stores to shared memory what a copy brought there.
    pub fn store_late(
        &mut self,
        lane: usize,
        address: u64,
        size: u32,
        value: u128,
    ) -> Result<(), Cause> {
        self.store(crate::access::Space::Shared, lane, address, size, value)
    }
}
