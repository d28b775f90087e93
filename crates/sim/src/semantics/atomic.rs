//! Atomic operations and reductions. Lanes of a warp go one after the other, in the order that the schedule gives them.

mod wide;

use super::Table;
use super::memory::space_of;
use crate::access::{Space, resolve};
use crate::core::Core;
use crate::operand::{Lack, Reader, Source, Target};
use crate::program::Action;
use orias_eval::float::compare::{Extreme, extreme};
use orias_eval::float::{Arithmetic, Format};
use orias_eval::mbarrier::Change;
use orias_sass::slot_names as slot;
use orias_sass::{Op, ValueName, modifier_names as name, modifier_values as value};

pub(super) const TABLE: Table = &[
    (Op::REDAS, update_and_tell),
    (Op::ATOMG, integer),
    (Op::ATOM, integer),
    (Op::ATOMS, integer),
    (Op::REDG, integer),
    (Op::ATOMG_F, float),
    (Op::ATOM_F, float),
    (Op::REDG_F, float),
    (Op::ATOMG_CAS, compare_and_swap),
    (Op::ATOM_CAS, compare_and_swap),
    (Op::ATOMS_CAS, compare_and_swap),
    (Op::ATOMS_CAST, compare_and_store),
    (Op::ATOM_CAST, compare_and_store),
    (Op::ATOMS_POPC_INC, increment),
];

/// An integer operation on memory.
#[derive(Clone, Copy)]
pub(super) enum Function {
    Add,
    Minimum,
    Maximum,
    Increment,
    Decrement,
    And,
    Or,
    Xor,
    Exchange,
}

impl Function {
    pub(super) fn of(reader: &Reader<'_>) -> Result<Self, Lack> {
        Ok(match reader.modifier(name::FN)? {
            value::ADD => Self::Add,
            value::MIN => Self::Minimum,
            value::MAX => Self::Maximum,
            value::INC => Self::Increment,
            value::DEC => Self::Decrement,
            value::AND => Self::And,
            value::OR => Self::Or,
            value::XOR => Self::Xor,
            value::EXCH => Self::Exchange,
            other => return Err(format!("operation {other}")),
        })
    }

    /// What is stored for what was there and the operand, both of `size` bytes.
    pub(super) fn apply(self, old: u64, operand: u64, size: u32, signed: bool) -> u64 {
        let up = 64 - 8 * size;
        let less = if signed {
            (old << up).cast_signed() < (operand << up).cast_signed()
        } else {
            old < operand
        };
        match self {
            Self::Add => old.wrapping_add(operand),
            Self::Minimum => {
                if less {
                    old
                } else {
                    operand
                }
            }
            Self::Maximum => {
                if less {
                    operand
                } else {
                    old
                }
            }
            Self::Increment => {
                if old >= operand {
                    0
                } else {
                    old + 1
                }
            }
            Self::Decrement => {
                if old == 0 || old > operand {
                    operand
                } else {
                    old - 1
                }
            }
            Self::And => old & operand,
            Self::Or => old | operand,
            Self::Xor => old ^ operand,
            Self::Exchange => operand,
        }
    }
}

/// Bytes of an operand, and whether it is signed.
fn size_of(reader: &Reader<'_>) -> Result<(u32, bool), Lack> {
    Ok(match reader.modifier(name::SIZE)? {
        value::_32 => (4, false),
        value::S32 => (4, true),
        value::_64 => (8, false),
        value::S64 => (8, true),
        other => return Err(format!("size {other}")),
    })
}

fn mask_of(space: Space) -> u64 {
    if space == Space::Shared {
        0xffff_ffff
    } else {
        u64::MAX
    }
}

fn integer(reader: &Reader<'_>) -> Result<Action, Lack> {
    if wide::is_wide(reader) {
        return wide::exchange(reader);
    }
    let (address, b) = (reader.address(slot::ADDR)?, reader.source(slot::B)?);
    let d = reader.target_if_any(slot::D)?;
    let p = reader.target_if_any(slot::P)?;
    let space = space_of(reader.instruction.op());
    let (function, (size, signed)) = (Function::of(reader)?, size_of(reader)?);
    Ok(Box::new(move |core| {
        let addresses = core.addresses(&address);
        let low = core.word(&b, 0);
        let high = if size == 8 { core.word(&b, 1) } else { [0; 32] };
        let (mut first, mut second) = ([0; 32], [0; 32]);
        let mut done = 0u32;
        for lane in core.lanes_in_turn() {
            let address = addresses[lane] & mask_of(space);
            // Shared memory has no wide operations but the exchange: nothing is done there, and the predicate says so.
            let lacks = size == 8 && !matches!(function, Function::Exchange);
            if space == Space::Generic && lacks && core.is_own_shared(address) {
                continue;
            }
            done |= 1 << lane;
            let operand = u64::from(high[lane]) << 32 | u64::from(low[lane]);
            let old = core.update(space, lane, address, size, |old| {
                function.apply(old, operand, size, signed)
            })?;
            first[lane] = old as u32;
            second[lane] = (old >> 32) as u32;
        }
        if let Some(d) = &d {
            core.put(d, 0, &first);
            if size == 8 {
                core.put(d, 1, &second);
            }
        }
        if let Some(p) = &p {
            core.put_condition(p, done);
        }
        Ok(())
    }))
}

/// Updates memory of a block of the cluster and tells an mbarrier there: the low word of the address is where, the high word the mbarrier.
fn update_and_tell(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (address, b) = (reader.address(slot::ADDR)?, reader.source(slot::B)?);
    let (function, (size, signed)) = (Function::of(reader)?, size_of(reader)?);
    Ok(Box::new(move |core| {
        let addresses = core.addresses(&address);
        let low = core.word(&b, 0);
        let high = if size == 8 { core.word(&b, 1) } else { [0; 32] };
        for lane in core.lanes_in_turn() {
            let operand = u64::from(high[lane]) << 32 | u64::from(low[lane]);
            let (to, barrier) = (addresses[lane] & 0xffff_ffff, addresses[lane] >> 32);
            core.update(Space::Cluster, lane, to, size, |old| {
                function.apply(old, operand, size, signed)
            })?;
            core.change_mbarrier(lane, barrier, Change::completed(size.into()))?;
        }
        Ok(())
    }))
}

/// Format, elements in a register pair or quadruple, and whether subnormal numbers are flushed.
fn float_type(ty: ValueName) -> Result<(Format, u32, bool), Lack> {
    Ok(match ty {
        value::F16X2 => (Format::F16, 2, false),
        value::F16X4 => (Format::F16, 4, false),
        value::F16X8 => (Format::F16, 8, false),
        value::BF16X2 => (Format::BF16, 2, false),
        value::BF16X4 => (Format::BF16, 4, false),
        value::BF16X8 => (Format::BF16, 8, false),
        value::F32_FTZ => (Format::F32, 1, true),
        value::F32X2_FTZ => (Format::F32, 2, true),
        value::F32X4_FTZ => (Format::F32, 4, true),
        value::F32 => (Format::F32, 1, false),
        value::F32X2 => (Format::F32, 2, false),
        value::F32X4 => (Format::F32, 4, false),
        value::F64 => (Format::F64, 1, false),
        other => return Err(format!("type {other}")),
    })
}

fn float(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (address, b) = (reader.address(slot::ADDR)?, reader.source(slot::B)?);
    let d = reader.target_if_any(slot::D)?;
    let p = reader.target_if_any(slot::P)?;
    let space = space_of(reader.instruction.op());
    let (format, elements, flush) = float_type(reader.modifier(name::TYPE)?)?;
    let how = Arithmetic {
        flush,
        ..Arithmetic::plain(format)
    };
    let function: fn(Arithmetic, u64, u64) -> u64 = match reader.modifier(name::FN)? {
        value::ADD => |how, old, operand| how.add(old, operand),
        value::MIN => {
            |how, old, operand| extreme(how.format, old, operand, Extreme::Minimum, false)
        }
        value::MAX => {
            |how, old, operand| extreme(how.format, old, operand, Extreme::Maximum, false)
        }
        other => return Err(format!("operation {other}")),
    };
    let bytes = format.width() / 8;
    // Elements are updated one by one, except pairs of halves, which are one step.
    let step = bytes.max(4);
    let steps = (elements * bytes / step).max(1);
    let words = (steps * step).div_ceil(4);
    Ok(Box::new(move |core| {
        let addresses = core.addresses(&address);
        let mut values = [[0u32; 32]; 4];
        for part in 0..words {
            values[part as usize] = core.word(&b, part as u8);
        }
        let mut out = [[0u32; 32]; 4];
        let mut done = 0u32;
        for lane in core.lanes_in_turn() {
            let address = addresses[lane];
            // Shared memory has no operations on floats, in whichever block: nothing is done there, and the predicate says so.
            if space == Space::Generic && resolve(address).0 == Space::Cluster {
                continue;
            }
            done |= 1 << lane;
            for index in 0..steps {
                let word = (index * step / 4) as usize;
                let mut operand = u64::from(values[word][lane]);
                if step == 8 {
                    operand |= u64::from(values[word + 1][lane]) << 32;
                }
                let at = address + u64::from(index * step);
                let old = core.update(space, lane, at, step, |old| {
                    if bytes == 2 {
                        let half = |shift: u32| {
                            function(how, old >> shift & 0xffff, operand >> shift & 0xffff)
                        };
                        half(16) << 16 | half(0)
                    } else {
                        function(how, old, operand)
                    }
                })?;
                out[word][lane] = old as u32;
                if step == 8 {
                    out[word + 1][lane] = (old >> 32) as u32;
                }
            }
        }
        if let Some(d) = &d {
            for part in 0..words {
                core.put(d, part as u8, &out[part as usize]);
            }
        }
        if let Some(p) = &p {
            core.put_condition(p, done);
        }
        Ok(())
    }))
}

/// A source of 4 or 8 bytes.
fn words_of(core: &mut Core<'_>, source: &Source, size: u32) -> [u64; 32] {
    match size {
        8 => core.pair(source),
        _ => core.word(source, 0).map(u64::from),
    }
}

/// Writes a result of 4 or 8 bytes.
fn put_words(core: &mut Core<'_>, d: &Target, size: u32, value: &[u64; 32]) {
    match size {
        8 => core.put_pair(d, value),
        _ => core.put(d, 0, &value.map(|x| x as u32)),
    }
}

fn compare_and_swap(reader: &Reader<'_>) -> Result<Action, Lack> {
    if wide::is_wide(reader) {
        return wide::compare_and_swap(reader);
    }
    let (address, d) = (reader.address(slot::ADDR)?, reader.target(slot::D)?);
    let (b, c) = (reader.source(slot::B)?, reader.source(slot::C)?);
    let p = reader.target_if_any(slot::P)?;
    let space = space_of(reader.instruction.op());
    let (size, _) = size_of(reader)?;
    Ok(Box::new(move |core| {
        let addresses = core.addresses(&address);
        let (expected, new) = (words_of(core, &b, size), words_of(core, &c, size));
        let mut out = [0u64; 32];
        let mut done = 0u32;
        for lane in core.lanes_in_turn() {
            let address = addresses[lane] & mask_of(space);
            done |= 1 << lane;
            out[lane] = core.update(space, lane, address, size, |old| {
                if old == expected[lane] {
                    new[lane]
                } else {
                    old
                }
            })?;
        }
        put_words(core, &d, size, &out);
        if let Some(p) = &p {
            core.put_condition(p, done);
        }
        Ok(())
    }))
}

/// Stores `c` where `b` was, and tells whether it did: 1, otherwise 0.
fn compare_and_store(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (address, d) = (reader.address(slot::ADDR)?, reader.target(slot::D)?);
    let (b, c) = (reader.source(slot::B)?, reader.source(slot::C)?);
    let (size, _) = size_of(reader)?;
    let space = space_of(reader.instruction.op());
    let p = reader.target_if_any(slot::P)?;
    Ok(Box::new(move |core| {
        let addresses = core.addresses(&address);
        let (expected, new) = (words_of(core, &b, size), words_of(core, &c, size));
        let mut out = [0u64; 32];
        for lane in core.lanes_in_turn() {
            let address = addresses[lane] & mask_of(space);
            let old = core.update(space, lane, address, size, |old| {
                if old == expected[lane] {
                    new[lane]
                } else {
                    old
                }
            })?;
            out[lane] = u64::from(old == expected[lane]);
        }
        put_words(core, &d, size, &out);
        if let Some(p) = &p {
            let stored = core.lanes().filter(|&lane| out[lane] == 1);
            let stored = stored.fold(0, |bits, lane| bits | 1 << lane);
            core.put_condition(p, stored);
        }
        Ok(())
    }))
}

/// Adds one for each lane; every lane gets what was there before the lanes with its address came.
fn increment(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (address, d) = (reader.address(slot::ADDR)?, reader.target(slot::D)?);
    Ok(Box::new(move |core| {
        let addresses = core.addresses(&address).map(|x| x & 0xffff_ffff);
        let mut out = [0; 32];
        let mut left = core.active;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let same = super::bits(|l| left >> l & 1 == 1 && addresses[l] == addresses[lane]);
            left &= !same;
            let count = u64::from(same.count_ones());
            let old = core.update(Space::Shared, lane, addresses[lane], 4, |old| old + count)?;
            for lane in crate::core::LaneIterator(same) {
                out[lane] = old as u32;
            }
        }
        core.put(&d, 0, &out);
        Ok(())
    }))
}
