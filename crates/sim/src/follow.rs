//! What a debugger would see: the state of one thread before each instruction it runs.

use crate::warp::Warp;

/// The most that is taken down.
const MOST_STOPS: usize = 1 << 16;

/// A thread before an instruction. What is still under way has not arrived: with [`crate::Timing::Off`] nothing is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Offset of the instruction in the kernel's code.
    pub offset: u64,
    /// The general registers.
    pub registers: Vec<u32>,
    /// The predicates, a bit each.
    pub predicates: u32,
    /// Words of local memory from its upper end downwards, as far as it was written.
    local: Vec<u32>,
    /// Bytes of local memory.
    local_bytes: u64,
}

impl Stop {
    /// Bytes of the thread's local memory; those that were never written are zero.
    #[must_use]
    pub fn local(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let byte = |at: u64| {
            let last = self.local_bytes.checked_sub(1)?;
            let word = last.checked_sub(at)? / 4;
            let word = self.local.get(word as usize).copied().unwrap_or(0);
            Some((word >> (8 * (at & 3))) as u8)
        };
        (0..length as u64).map(|at| byte(address + at)).collect()
    }
}

/// Takes down the state of a lane.
pub(crate) fn take(stops: &mut Vec<Stop>, warp: &Warp, lane: usize, index: usize, local: u32) {
    if stops.len() >= MOST_STOPS {
        return;
    }
    let predicates = (warp.registers.p.iter().enumerate()).fold(0, |bits, (number, lanes)| {
        bits | (lanes >> lane & 1) << number
    });
    stops.push(Stop {
        offset: index as u64 * 16,
        registers: warp.registers.r.iter().map(|lanes| lanes[lane]).collect(),
        predicates,
        local: warp.local.iter().map(|lanes| lanes[lane]).collect(),
        local_bytes: local.into(),
    });
}
