//! Moves between registers, special registers, convergence barriers.

use super::{Table, bits};
use crate::core::Core;
use crate::fault::{Cause, FaultKind};
use crate::module::SHARED_HIGH;
use crate::operand::{Lack, Lanes, Reader};
use crate::program::Action;
use orias_sass::{Op, modifier_names as name, modifier_values as value, special as register};
use std::sync::atomic::Ordering::Relaxed;

pub(super) const TABLE: Table = &[
    (Op::MOV, move_word),
    (Op::UMOV, move_word),
    (Op::S2R, special),
    (Op::S2UR, special),
    (Op::CS2R, special_pair),
    (Op::CS2R_32, special),
    (Op::R2UR, to_uniform),
    (Op::R2UR_OR, to_uniform),
    (Op::BSSY, set_barrier),
    (Op::BMOV_R, read_barrier),
    (Op::BMOV_B, write_barrier),
    (Op::LEPC, code_address),
    (Op::LEPC_T, code_address),
    (Op::RPCMOV_W, write_return_address),
    (Op::RPCMOV_R, read_return_address),
    (Op::NOP, nothing),
    (Op::B2R_RESULT, barrier_result),
];

fn move_word(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, b) = (reader.target("d")?, reader.source("b")?);
    if reader.instruction.op() == Op::MOV && reader.immediate("lanes")? != 0xf {
        return Err("a mask of lanes".to_owned());
    }
    Ok(Box::new(move |core| {
        let value = core.word(&b, 0);
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn nothing(_: &Reader<'_>) -> Result<Action, Lack> {
    Ok(Box::new(|_| Ok(())))
}

/// The value of a special register in every lane.
fn special_value(core: &Core<'_>, number: u8) -> Result<Lanes, Cause> {
    let lane: Lanes = std::array::from_fn(|l| l as u32);
    Ok(match number {
        register::LANEID => lane,
        register::CLOCK | register::CLOCKLO | register::GLOBALTIMERLO => [core.clock() as u32; 32],
        register::CLOCKHI | register::GLOBALTIMERHI => [(core.clock() >> 32) as u32; 32],
        // The warps that a multiprocessor has room for.
        register::VIRTCFG => [core.context.kernel.machine.registers.warps() << 8; 32],
        // The warp's place. Each block is alone.
        register::VIRTID => [core.warp.number << 8; 32],
        // Blocks are dealt out in turn.
        register::VIRTUALSMID => {
            let [x, y, _] = core.context.grid;
            let [i, j, k] = core.block.index;
            let count = core.context.kernel.machine.limits.multiprocessors;
            [(i + x * (j + y * k)) % count; 32]
        }
        register::TID => std::array::from_fn(|l| {
            let [x, y, z] = core.warp.thread(l);
            x | y << 16 | z << 26
        }),
        register::TID_X..=register::TID_Z => core.warp.tid[usize::from(number - register::TID_X)],
        register::CTAID_X..=register::CTAID_Z => {
            [core.block.index[usize::from(number - register::CTAID_X)]; 32]
        }
        register::SWINHI => [SHARED_HIGH; 32],
        register::SMEMSZ => [core.context.shared as u32; 32],
        // The lowest address of the stack.
        register::LMEMHIOFF => [0; 32],
        register::EQMASK => lane.map(|l| 1 << l),
        register::LTMASK => lane.map(|l| (1 << l) - 1),
        register::LEMASK => lane.map(|l| (2u64 << l).wrapping_sub(1) as u32),
        register::GTMASK => lane.map(|l| !((2u64 << l).wrapping_sub(1) as u32)),
        register::GEMASK => lane.map(|l| !((1 << l) - 1)),
        // Nothing is counted.
        register::PM0..=register::PM_HI7 => [0; 32],
        register::CGA_CTA_ID => [core.block.rank; 32],
        register::ZERO => [0; 32],
        other => {
            let name = register::name(other).map_or_else(|| format!("SR{other}"), str::to_owned);
            return Err(FaultKind::Missing(format!("special register {name}")).into());
        }
    })
}

fn special(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, number) = (reader.target("d")?, reader.special("s")?);
    Ok(Box::new(move |core| {
        let value = special_value(core, number)?;
        core.put(&d, 0, &value);
        Ok(())
    }))
}

fn special_pair(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, number) = (reader.target("d")?, reader.special("s")?);
    Ok(Box::new(move |core| {
        let low = special_value(core, number)?;
        // Counters are 64 bits wide; other registers have nothing above them.
        let high = match number {
            register::CLOCKLO | register::GLOBALTIMERLO => special_value(core, number + 1)?,
            _ => [0; 32],
        };
        core.put(&d, 0, &low);
        core.put(&d, 1, &high);
        Ok(())
    }))
}

/// The value of the lowest lane; the predicate tells which lanes have another one (`OR`: or had before).
fn to_uniform(reader: &Reader<'_>) -> Result<Action, Lack> {
    let [p, d] = reader.targets(["p", "d"])?;
    let a = reader.source("a")?;
    let keeps = reader.instruction.op() == Op::R2UR_OR;
    let before = if keeps {
        Some(reader.condition("p")?)
    } else {
        None
    };
    Ok(Box::new(move |core| {
        let x = core.integer(&a);
        let value = x[core.active.trailing_zeros() as usize];
        core.put(&d, 0, &[value; 32]);
        let before = before.map_or(0, |before| core.condition(&before));
        core.put_condition(&p, before | bits(|l| x[l] != value));
        Ok(())
    }))
}

fn set_barrier(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (barrier, condition) = (reader.barrier_register("b")?, reader.condition("p")?);
    Ok(Box::new(move |core| {
        let lanes = core.active & core.condition(&condition);
        for lane in crate::core::LaneIterator(lanes) {
            core.warp.registers.b[usize::from(barrier)][lane] = lanes;
        }
        Ok(())
    }))
}

fn read_barrier(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, barrier) = (reader.target("d")?, reader.barrier_register("b")?);
    let clear = reader.is(name::CLEAR, value::CLEAR);
    Ok(Box::new(move |core| {
        let value = core.warp.registers.b[usize::from(barrier)];
        core.put(&d, 0, &value);
        if clear {
            for lane in core.lanes() {
                core.warp.registers.b[usize::from(barrier)][lane] = 0;
            }
        }
        Ok(())
    }))
}

fn write_barrier(reader: &Reader<'_>) -> Result<Action, Lack> {
    let barrier = reader.barrier_register("b")?;
    if !reader.is(name::QUAD, value::LANES) {
        return Err("PQUAD".to_owned());
    }
    if let Ok(other) = reader.barrier_register("a") {
        return Ok(Box::new(move |core| {
            for lane in core.lanes() {
                let value = core.warp.registers.b[usize::from(other)][lane];
                core.warp.registers.b[usize::from(barrier)][lane] = value;
            }
            Ok(())
        }));
    }
    let a = reader.source("a")?;
    Ok(Box::new(move |core| {
        let value = core.word(&a, 0);
        for lane in core.lanes() {
            core.warp.registers.b[usize::from(barrier)][lane] = value[lane];
        }
        Ok(())
    }))
}

fn code_address(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target("d")?;
    let index = reader.index as u64;
    let offset = if reader.instruction.op() == Op::LEPC_T {
        reader.jump("t")? - reader.index as i64 * 16
    } else {
        0
    };
    Ok(Box::new(move |core| {
        let kernel = core.context.kernel;
        let start = kernel.address_of(index);
        let address = start.wrapping_add_signed(offset);
        core.put_pair(&d, &[address; 32]);
        Ok(())
    }))
}

fn half_of(reader: &Reader<'_>) -> usize {
    usize::from(reader.is(name::HALF, value::HI))
}

fn write_return_address(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (a, half) = (reader.source("a")?, half_of(reader));
    Ok(Box::new(move |core| {
        let value = core.word(&a, 0);
        for lane in core.lanes() {
            core.warp.return_address[half][lane] = value[lane];
        }
        Ok(())
    }))
}

fn read_return_address(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, half) = (reader.target("d")?, half_of(reader));
    Ok(Box::new(move |core| {
        let value = core.warp.return_address[half];
        core.put(&d, 0, &value);
        Ok(())
    }))
}

/// Number of true predicates of the last reducing barrier, and whether its reduction is true.
fn barrier_result(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, p) = (reader.target("d")?, reader.target("p")?);
    Ok(Box::new(move |core| {
        // A result that has not settled yet is not found.
        let (earlier, settles) = core.warp.earlier_result;
        let unsettled = core.warp.flight.is_timed() && core.warp.flight.cycle() < settles;
        let (count, truth) = match unsettled {
            true => earlier,
            false => core.warp.barrier_result,
        };
        core.put(&d, 0, &[count; 32]);
        core.put_condition(&p, if truth { u32::MAX } else { 0 });
        Ok(())
    }))
}

impl Core<'_> {
    /// A clock that every look moves on.
    fn clock(&self) -> u64 {
        self.context.clock.fetch_add(32, Relaxed)
    }
}
