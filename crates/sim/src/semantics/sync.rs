//! Fences, cache control, waits for copies, and mbarriers.
//!
//! An mbarrier is 64 bits of shared memory, which [`orias_eval::mbarrier`] explains.

use super::Table;
use crate::access::{RANK_SHIFT, Space};
use crate::core::Core;
use crate::fault::Cause;
use crate::operand::{Lack, Reader};
use crate::program::Action;
use orias_eval::mbarrier::{Change, Mbarrier};
use orias_sass::slot_names as slot;
use orias_sass::{Op, modifier_names as name, modifier_values as value};

pub(super) const TABLE: Table = &[
    (Op::MEMBAR, fence),
    (Op::ERRBAR, nothing),
    (Op::CGAERRBAR, nothing),
    (Op::FENCE_VIEW_ASYNC, nothing),
    (Op::CCTL, nothing),
    (Op::CCTL_IVALL, nothing),
    (Op::CCTLL, nothing),
    (Op::CCTLL_IVALL, nothing),
    (Op::DEPBAR, nothing),
    (Op::DEPBAR_LE, wait_for_groups),
    (Op::LDGDEPBAR, nothing),
    (Op::PREEXIT, nothing),
    (Op::ACQBULK, nothing),
    (Op::PMTRIG, nothing),
    (Op::USETMAXREG_DEALLOC, give_registers_back),
    (Op::USETMAXREG_TRY_ALLOC, take_registers),
    (Op::SYNCS_EXCH, exchange),
    (Op::SYNCS_CCTL, nothing),
    (Op::SYNCS_CCTL_ALL, nothing),
    (Op::SYNCS_ARRIVE, arrive),
    (Op::SYNCS_PHASECHK, check_phase),
    (Op::ARRIVES_LDGSTSBAR, arrive_after_copies),
];

/// Memory is consistent at every step here: only the search for races must know.
fn fence(_: &Reader<'_>) -> Result<Action, Lack> {
    Ok(Box::new(|core| {
        core.synchronize_cluster();
        Ok(())
    }))
}

fn nothing(_: &Reader<'_>) -> Result<Action, Lack> {
    Ok(Box::new(|_| Ok(())))
}

/// Groups of bulk copies are counted where groups of copies by LDGSTS are, which the control words take care of.
fn wait_for_groups(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (barrier, most) = (reader.immediate(slot::S)?, reader.immediate(slot::N)?);
    Ok(Box::new(move |core| match barrier {
        0 => core.finish_groups(most),
        _ => Ok(()),
    }))
}

/// There are always enough registers here.
/// What is in registers that were given back: others write there.
const SOMEBODY_ELSES: u32 = 0x7fba_dbad;

fn give_registers_back(reader: &Reader<'_>) -> Result<Action, Lack> {
    let left = reader.immediate(slot::B)? as usize;
    Ok(Box::new(move |core| {
        let registers = &mut core.warp.registers;
        for lost in registers.r.iter_mut().skip(left) {
            lost.fill(SOMEBODY_ELSES);
        }
        registers
            .written
            .iter_mut()
            .skip(left)
            .for_each(|it| *it = 0);
        Ok(())
    }))
}

fn take_registers(reader: &Reader<'_>) -> Result<Action, Lack> {
    let p = reader.target(slot::P)?;
    Ok(Box::new(move |core| {
        core.put_condition(&p, u32::MAX);
        Ok(())
    }))
}

fn exchange(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, address, b) = (
        reader.target(slot::D)?,
        reader.address(slot::ADDR)?,
        reader.source(slot::B)?,
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

impl Core<'_> {
    /// Changes an mbarrier of the cluster in one step; its word before.
    pub fn change_mbarrier(
        &mut self,
        lane: usize,
        address: u64,
        change: Change,
    ) -> Result<u64, Cause> {
        self.update(Space::Cluster, lane, address & 0xffff_ffff, 8, |word| {
            Mbarrier::unpack(word).after(change).pack()
        })
    }
}

fn arrive(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, address, b) = (
        reader.target(slot::D)?,
        reader.address(slot::ADDR)?,
        reader.source(slot::B)?,
    );
    let drops = reader.is(name::OPTOUT, value::OPTOUT);
    let tx = reader.modifier(name::TX)?;
    // How many arrivals and transactions a lane brings, from its register.
    let meaning: fn(u32) -> (u32, i64) = match tx {
        value::A1T0 => |_| (1, 0),
        value::ART0 => |x| (x, 0),
        value::A0TR => |x| (0, i64::from(x)),
        value::A0TX => |x| (0, -i64::from(x)),
        value::ARTX => |x| (1, i64::from(x)),
        value::A0T1 => |_| (0, 1),
        other => return Err(format!("transactions {other}")),
    };
    let masked = reader.is(name::KIND, value::TMASK);
    Ok(Box::new(move |core| {
        let (addresses, x) = (core.addresses(&address), core.word(&b, 0));
        let mut out = [0; 32];
        // For each lane the lanes that arrive at the same mbarrier, and its state before the first of them.
        let mut groups: Vec<(u64, u32, u64)> = Vec::new();
        for lane in core.lanes() {
            let (arrivals, transactions) = meaning(x[lane]);
            let at = addresses[lane] & 0xffff_ffff;
            let change = Change {
                arrivals,
                transactions,
                drops,
            };
            let before = core.change_mbarrier(lane, at, change)?;
            out[lane] = before;
            match groups.iter_mut().find(|(address, _, _)| *address == at) {
                Some((_, lanes, _)) => *lanes |= 1 << lane,
                None => groups.push((at, 1 << lane, before)),
            }
        }
        if masked {
            for lane in core.lanes() {
                let at = addresses[lane] & 0xffff_ffff;
                if let Some((_, lanes, before)) = groups.iter().find(|(other, _, _)| *other == at) {
                    out[lane] = before >> 32 << 32 | u64::from(*lanes);
                }
            }
        }
        core.put_pair(&d, &out);
        Ok(())
    }))
}

/// True when the phase that the highest bit of `b` names is over.
fn check_phase(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (p, address, b) = (
        reader.target(slot::P)?,
        reader.address(slot::ADDR)?,
        reader.source(slot::B)?,
    );
    Ok(Box::new(move |core| {
        let (addresses, x) = (core.addresses(&address), core.word(&b, 0));
        let mut over = 0;
        for lane in core.lanes() {
            let at = addresses[lane] & 0xffff_ffff;
            // Mbarriers are looked at in one step with what changes them: no race is looked for.
            let word = core.update(Space::Shared, lane, at, 8, |word| word)?;
            over |= u32::from(Mbarrier::unpack(word).is_over(x[lane] >> 31)) << lane;
        }
        if core.active != 0 {
            let first = core.active.trailing_zeros() as usize;
            let offset = (addresses[first] & ((1 << RANK_SHIFT) - 1)) as usize;
            core.warp.looked = Some((core.block.rank, offset));
            core.warp.looks = if over == 0 { core.warp.looks + 1 } else { 0 };
            core.warp.rests |= over == 0;
        }
        core.put_condition(&p, over);
        Ok(())
    }))
}

/// Arrives when the copies before it are complete, which they are when this runs.
fn arrive_after_copies(reader: &Reader<'_>) -> Result<Action, Lack> {
    let address = reader.address(slot::ADDR)?;
    let change = match reader.modifier(name::COUNT)? {
        // The arrival was counted in when the barrier was initialised.
        value::ARVCNT => Change {
            arrivals: 1,
            ..Change::default()
        },
        // The barrier was told before to wait for one transaction more.
        value::TRANSCNT => Change::completed(1),
        other => return Err(format!("count {other}")),
    };
    Ok(Box::new(move |core| {
        let addresses = core.addresses(&address);
        for lane in core.lanes() {
            core.change_mbarrier(lane, addresses[lane], change)?;
        }
        Ok(())
    }))
}
