//! Fences, cache control, waits for copies, and mbarriers.
//!
//! An mbarrier is 64 bits of shared memory. As ptxas initialises them: bits 1 to 20 count the arrivals of this phase up from
//! `-n` to zero, bits 43 to 62 hold `-n` for the next phase, bit 63 is the phase. Bits 21 to 41 are taken here for the
//! bytes that transactions still bring. A phase is over when both counts are zero.

use super::Table;
use crate::access::Space;
use crate::core::Core;
use crate::fault::Cause;
use crate::operand::{Lack, Reader};
use crate::program::Action;

pub(super) const TABLE: Table = &[
    ("MEMBAR", fence),
    ("ERRBAR", nothing),
    ("CGAERRBAR", nothing),
    ("FENCE.VIEW.ASYNC", nothing),
    ("CCTL", nothing),
    ("CCTL.IVALL", nothing),
    ("CCTLL", nothing),
    ("CCTLL.IVALL", nothing),
    ("DEPBAR", nothing),
    ("DEPBAR.LE", wait_for_groups),
    ("LDGDEPBAR", nothing),
    ("PREEXIT", nothing),
    ("ACQBULK", nothing),
    ("PMTRIG", nothing),
    ("USETMAXREG.DEALLOC", nothing),
    ("USETMAXREG.TRY_ALLOC", take_registers),
    ("SYNCS.EXCH", exchange),
    ("SYNCS.CCTL", nothing),
    ("SYNCS.CCTL.ALL", nothing),
    ("SYNCS.ARRIVE", arrive),
    ("SYNCS.PHASECHK", check_phase),
    ("ARRIVES.LDGSTSBAR", arrive_after_copies),
];

/// Memory is consistent at every step here: only the search for races must know.
fn fence(_: &Reader<'_>) -> Result<Action, Lack> {
    Ok(Box::new(|core| {
        core.block.shared.synchronize();
        Ok(())
    }))
}

fn nothing(_: &Reader<'_>) -> Result<Action, Lack> {
    Ok(Box::new(|_| Ok(())))
}

/// Groups of bulk copies are counted where groups of copies by LDGSTS are, which the control words take care of.
fn wait_for_groups(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (barrier, most) = (reader.immediate("s")?, reader.immediate("n")?);
    Ok(Box::new(move |core| match barrier {
        0 => core.finish_groups(most),
        _ => Ok(()),
    }))
}

/// There are always enough registers here.
fn take_registers(reader: &Reader<'_>) -> Result<Action, Lack> {
    let p = reader.target("p")?;
    Ok(Box::new(move |core| {
        core.put_condition(&p, u32::MAX);
        Ok(())
    }))
}

fn exchange(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, address, b) = (
        reader.target("d")?,
        reader.address("addr")?,
        reader.source("b")?,
    );
    Ok(Box::new(move |core| {
        let at = core.addresses(&address)[0] & 0xffff_ffff;
        let value = core.pair(&b)[0];
        let lane = core.active.trailing_zeros() as usize;
        let old = core.update(Space::Shared, lane, at, 8, |_| value)?;
        core.put_pair(&d, &[old; 32]);
        Ok(())
    }))
}

const COUNT: u64 = 0xf_ffff;
const TRANSACTIONS: u64 = 0x1f_ffff;

/// An mbarrier taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mbarrier {
    /// Arrivals that are missing, as a negative number of 20 bits.
    pending: u64,
    /// Bytes that are missing, modulo 2 to the power of 21.
    bytes: u64,
    /// Arrivals of each phase, negative.
    expected: u64,
    phase: u64,
    /// The bits without a known meaning.
    rest: u64,
}

impl Mbarrier {
    fn unpack(word: u64) -> Self {
        Self {
            pending: word >> 1 & COUNT,
            bytes: word >> 21 & TRANSACTIONS,
            expected: word >> 43 & COUNT,
            phase: word >> 63,
            rest: word & (1 | 1 << 42),
        }
    }

    fn pack(self) -> u64 {
        self.rest | self.pending << 1 | self.bytes << 21 | self.expected << 43 | self.phase << 63
    }

    /// Adds arrivals and missing bytes; starts the next phase when nothing is missing.
    fn change(mut self, arrivals: u64, bytes: i64, leaves: bool) -> Self {
        self.pending = self.pending.wrapping_add(arrivals) & COUNT;
        self.bytes = self.bytes.wrapping_add(bytes.cast_unsigned()) & TRANSACTIONS;
        if leaves {
            self.expected = self.expected.wrapping_add(arrivals) & COUNT;
        }
        if self.pending == 0 && self.bytes == 0 {
            self.pending = self.expected;
            self.phase ^= 1;
        }
        self
    }
}

impl Core<'_> {
    /// Bytes that an mbarrier waits for have come.
    pub fn complete_bytes(&mut self, address: u64, bytes: u64) -> Result<(), Cause> {
        self.arrive(0, address, 0, -(bytes as i64), false)?;
        Ok(())
    }

    /// Arrivals at an mbarrier, and bytes that it has to wait for; its state before.
    fn arrive(
        &mut self,
        lane: usize,
        address: u64,
        arrivals: u64,
        bytes: i64,
        leaves: bool,
    ) -> Result<u64, Cause> {
        self.update(Space::Shared, lane, address, 8, |word| {
            Mbarrier::unpack(word)
                .change(arrivals, bytes, leaves)
                .pack()
        })
    }
}

fn arrive(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, address, b) = (
        reader.target("d")?,
        reader.address("addr")?,
        reader.source("b")?,
    );
    if reader.is("kind", "TMASK") {
        return Err("TMASK".to_owned());
    }
    let leaves = reader.is("optout", "OPTOUT");
    let tx = reader.modifier("tx")?;
    // How many arrivals and bytes a lane brings, from its register.
    let meaning: fn(u32) -> (u64, i64) = match tx {
        "A1T0" => |_| (1, 0),
        "ART0" => |x| (u64::from(x), 0),
        "A0TR" | "A0TX" => |x| (0, i64::from(x)),
        "ARTX" => |x| (1, i64::from(x)),
        "A0T1" => |_| (0, 1),
        other => return Err(format!("transactions {other}")),
    };
    Ok(Box::new(move |core| {
        let (addresses, x) = (core.addresses(&address), core.word(&b, 0));
        let mut out = [0; 32];
        for lane in core.lanes() {
            let (arrivals, bytes) = meaning(x[lane]);
            let at = addresses[lane] & 0xffff_ffff;
            out[lane] = core.arrive(lane, at, arrivals, bytes, leaves)?;
        }
        core.put_pair(&d, &out);
        Ok(())
    }))
}

/// True when the phase that the highest bit of `b` names is over.
fn check_phase(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (p, address, b) = (
        reader.target("p")?,
        reader.address("addr")?,
        reader.source("b")?,
    );
    Ok(Box::new(move |core| {
        let (addresses, x) = (core.addresses(&address), core.word(&b, 0));
        let mut over = 0;
        for lane in core.lanes() {
            let word = core.load(Space::Shared, lane, addresses[lane] & 0xffff_ffff, 8)? as u64;
            over |= u32::from((word >> 63) as u32 != x[lane] >> 31) << lane;
        }
        core.put_condition(&p, over);
        Ok(())
    }))
}

/// Arrives when the copies before it are complete, which they are when this runs.
fn arrive_after_copies(reader: &Reader<'_>) -> Result<Action, Lack> {
    let address = reader.address("addr")?;
    let (arrivals, bytes) = match reader.modifier("count")? {
        // The arrival was counted in when the barrier was initialised.
        "ARVCNT" => (1, 0),
        // The barrier was told before to wait for one transaction more.
        "TRANSCNT" => (0, -1),
        other => return Err(format!("count {other}")),
    };
    Ok(Box::new(move |core| {
        let addresses = core.addresses(&address);
        for lane in core.lanes() {
            core.arrive(lane, addresses[lane] & 0xffff_ffff, arrivals, bytes, false)?;
        }
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_mbarrier_changes_phase_after_all_arrivals_and_bytes() {
        let negative = (0x10_0000u64 - 3) & COUNT;
        let mut barrier = Mbarrier::unpack(negative << 1 | negative << 43);
        barrier = barrier.change(1, 64, false);
        barrier = barrier.change(2, 0, false);
        assert_eq!(barrier.phase, 0, "64 bytes are missing");
        barrier = barrier.change(0, -64, false);
        assert_eq!((barrier.phase, barrier.pending), (1, negative));
        barrier = barrier.change(1, 0, true);
        assert_eq!(barrier.expected, negative + 1, "one less in the next phase");
        assert_eq!(Mbarrier::unpack(barrier.pack()), barrier);
    }
}
