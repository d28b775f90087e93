//! Loads and stores.

use super::Table;
use crate::access::{RANK_SHIFT, Space, resolve};
use crate::core::Core;
use crate::fault::{Cause, FaultKind};
use crate::operand::{Lack, Reader, Source, Target};
use crate::program::Action;
use orias_eval::mbarrier::Change;
use orias_sass::slot_names as slot;
use orias_sass::{
    ConstantBank, Mnemonic, Op, Operand, RegisterClass, modifier_names as name,
    modifier_values as value,
};

pub(super) const TABLE: Table = &[
    (Op::LDG, load),
    (Op::LD, load),
    (Op::LDL, load),
    (Op::LDS, load),
    (Op::STG, store),
    (Op::ST, store),
    (Op::STL, store),
    (Op::STS, store),
    (Op::LDC, load_constant),
    (Op::ULDC, load_constant),
    (Op::LDSM, load_matrix),
    (Op::STSM, store_matrix),
    (Op::LDGSTS, copy),
    (Op::STAS, store_and_tell),
    (Op::QSPC, query_space),
    (Op::LDGMC, load_copies),
    (Op::LDGMC_F, load_copies),
];

/// The space of a load, store or atomic operation.
pub(super) fn space_of(op: Op) -> Space {
    match op.mnemonic() {
        Mnemonic::LDG | Mnemonic::STG | Mnemonic::ATOMG | Mnemonic::REDG => Space::Global,
        Mnemonic::LDS | Mnemonic::STS | Mnemonic::ATOMS => Space::Shared,
        Mnemonic::LDL | Mnemonic::STL => Space::Local,
        _ => Space::Generic,
    }
}

/// Bytes of an access, and whether it is extended with its sign.
pub(super) fn size_of(reader: &Reader<'_>) -> Result<(u32, bool), Lack> {
    Ok(match reader.modifier(name::SIZE)? {
        value::U8 => (1, false),
        value::S8 => (1, true),
        value::U16 => (2, false),
        value::S16 => (2, true),
        value::_32 => (4, false),
        value::_64 => (8, false),
        value::_128 => (16, false),
        other => return Err(format!("size {other}")),
    })
}

/// Addresses of shared and local memory are 32 bits wide.
fn limit(space: Space) -> u64 {
    match space {
        Space::Shared | Space::Cluster | Space::Local => u64::from(u32::MAX),
        Space::Global | Space::Generic => u64::MAX,
    }
}

/// Puts what each lane loads into so many registers, the lowest bits into the first.
pub(super) fn load_words(
    core: &mut Core<'_>,
    d: &Target,
    words: u32,
    of_lane: impl Fn(&mut Core<'_>, usize) -> Result<u128, Cause>,
) -> Result<(), Cause> {
    let mut out = [[0u32; 32]; 4];
    for lane in core.lanes() {
        let value = of_lane(core, lane)?;
        for (part, lanes) in out.iter_mut().enumerate().take(words as usize) {
            lanes[lane] = (value >> (32 * part)) as u32;
        }
    }
    for part in 0..words {
        core.put(d, part as u8, &out[part as usize]);
    }
    Ok(())
}

fn load(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, address) = (reader.target(slot::D)?, reader.address(slot::ADDR)?);
    let space = space_of(reader.instruction.op());
    for extra in [slot::PD, slot::P] {
        let used = reader.instruction.op().row().slot_index(extra).is_some()
            && !matches!(reader.operand(extra)?, Operand::Register(o) if o.register.is_constant());
        if used {
            return Err(format!("its predicate '{extra}'"));
        }
    }
    let (size, signed) = size_of(reader)?;
    let mask = limit(space);
    let words = size.div_ceil(4);
    Ok(Box::new(move |core| {
        let addresses = core.addresses(&address);
        load_words(core, &d, words, |core, lane| {
            let value = core.load(space, lane, addresses[lane] & mask, size)?;
            Ok(match (size, signed) {
                (1, true) => u128::from((value as u8 as i8 as i32).cast_unsigned()),
                (2, true) => u128::from((value as u16 as i16 as i32).cast_unsigned()),
                _ => value,
            })
        })
    }))
}

/// There is one copy of everything here.
fn load_copies(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, address) = (reader.target(slot::D)?, reader.address(slot::ADDR)?);
    let words = u32::from(d.width);
    Ok(Box::new(move |core| {
        let addresses = core.addresses(&address);
        load_words(core, &d, words, |core, lane| {
            core.load(Space::Global, lane, addresses[lane], 4 * words)
        })
    }))
}

/// What each lane stores: `size` bytes of registers one behind the other.
pub(super) fn stored(core: &mut Core<'_>, source: &Source, size: u32) -> [u128; 32] {
    let mut values = [0; 32];
    for part in 0..size.div_ceil(4) {
        let words = core.word(source, part as u8);
        for (value, word) in values.iter_mut().zip(words) {
            *value |= u128::from(word) << (32 * part);
        }
    }
    values
}

fn store(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (b, address) = (reader.source(slot::B)?, reader.address(slot::ADDR)?);
    let space = space_of(reader.instruction.op());
    let (size, _) = size_of(reader)?;
    let mask = limit(space);
    Ok(Box::new(move |core| {
        let addresses = core.addresses(&address);
        // A register that is saved on the stack need not hold anything.
        let values = match space {
            Space::Local => core.saved(|core| stored(core, &b, size)),
            _ => stored(core, &b, size),
        };
        for lane in core.lanes() {
            let value = values[lane];
            core.store(space, lane, addresses[lane] & mask, size, value)?;
        }
        Ok(())
    }))
}

/// Stores in a block of the cluster and tells an mbarrier there: the low word of the address is where, the high word the mbarrier.
fn store_and_tell(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (b, address) = (reader.source(slot::B)?, reader.address(slot::ADDR)?);
    let (size, _) = size_of(reader)?;
    Ok(Box::new(move |core| {
        let (addresses, values) = (core.addresses(&address), stored(core, &b, size));
        for lane in core.lanes() {
            let value = values[lane];
            let (to, barrier) = (addresses[lane] & 0xffff_ffff, addresses[lane] >> 32);
            core.store(Space::Cluster, lane, to, size, value)?;
            core.change_mbarrier(lane, barrier, Change::completed(size.into()))?;
        }
        Ok(())
    }))
}

fn load_constant(reader: &Reader<'_>) -> Result<Action, Lack> {
    let d = reader.target(slot::D)?;
    let Operand::Constant(constant) = *reader.operand(slot::SRC)? else {
        return Err("no constant".to_owned());
    };
    let ConstantBank::Index(bank) = constant.bank else {
        return Err("bindless constant banks".to_owned());
    };
    if reader
        .instruction
        .modifier(name::WRAP)
        .is_some_and(|wrap| wrap != value::PLAIN)
    {
        return Err(format!("{:?}", reader.instruction.modifier(name::WRAP)));
    }
    let (size, signed) = size_of(reader)?;
    Ok(Box::new(move |core| {
        let index = match constant.index {
            Some(register) if register.class == RegisterClass::UR => [core.ur(register.index); 32],
            Some(register) => core.r(register.index),
            None => [0; 32],
        };
        let (mut low, mut high) = ([0; 32], [0; 32]);
        for lane in core.lanes() {
            let at = index[lane].wrapping_add(constant.offset.cast_unsigned());
            let value = constant_bytes(core, lane, bank, at, size)?;
            low[lane] = match (size, signed) {
                (1, true) => (value as u8 as i8 as i32).cast_unsigned(),
                (2, true) => (value as u16 as i16 as i32).cast_unsigned(),
                _ => value as u32,
            };
            high[lane] = (value >> 32) as u32;
        }
        core.put(&d, 0, &low);
        if size == 8 {
            core.put(&d, 1, &high);
        }
        Ok(())
    }))
}

fn constant_bytes(
    core: &Core<'_>,
    lane: usize,
    bank: u8,
    offset: u32,
    size: u32,
) -> Result<u64, Cause> {
    let bytes = core.context.bank(bank);
    let at = offset as usize;
    let refuse = |reason: String| {
        Cause::of(
            lane,
            FaultKind::Access {
                what: "load",
                space: "constant",
                address: u64::from(offset),
                size,
                reason,
            },
        )
    };
    if !offset.is_multiple_of(size) {
        return Err(refuse(format!("not a multiple of {size}")));
    }
    let Some(found) = bytes.get(at..at + size as usize) else {
        return Err(refuse(format!("bank {bank} has {} bytes", bytes.len())));
    };
    let mut word = [0; 8];
    word[..size as usize].copy_from_slice(found);
    Ok(u64::from_le_bytes(word))
}

fn matrices(reader: &Reader<'_>) -> Result<(u8, bool), Lack> {
    let count = match reader.modifier(name::COUNT)? {
        value::_1 => 1,
        value::_2 => 2,
        value::_4 => 4,
        other => return Err(format!("{other} matrices")),
    };
    let transposed = match reader.modifier(name::SHAPE)? {
        value::M88 => false,
        value::MT88 => true,
        other => return Err(format!("shape {other}")),
    };
    Ok((count, transposed))
}

/// Row and column of the two elements of an 8×8 matrix that a lane holds.
fn elements(lane: usize, transposed: bool) -> [(usize, usize); 2] {
    let (group, thread) = (lane / 4, lane % 4);
    if transposed {
        [(2 * thread, group), (2 * thread + 1, group)]
    } else {
        [(group, 2 * thread), (group, 2 * thread + 1)]
    }
}

fn load_matrix(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (d, address) = (reader.target(slot::D)?, reader.address(slot::ADDR)?);
    let (count, transposed) = matrices(reader)?;
    Ok(Box::new(move |core| {
        let addresses = core.addresses(&address);
        for matrix in 0..count {
            // Eight lanes give the addresses of a matrix's rows.
            let mut rows = [0u128; 8];
            for (row, value) in rows.iter_mut().enumerate() {
                let lane = usize::from(matrix) * 8 + row;
                *value = core.load(Space::Shared, lane, addresses[lane] & 0xffff_ffff, 16)?;
            }
            let value: [u32; 32] = std::array::from_fn(|lane| {
                let [low, high] = elements(lane, transposed)
                    .map(|(row, column)| (rows[row] >> (16 * column)) as u32 & 0xffff);
                high << 16 | low
            });
            core.put(&d, matrix, &value);
        }
        Ok(())
    }))
}

fn store_matrix(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (b, address) = (reader.source(slot::B)?, reader.address(slot::ADDR)?);
    let (count, transposed) = matrices(reader)?;
    Ok(Box::new(move |core| {
        let addresses = core.addresses(&address);
        for matrix in 0..count {
            let value = core.word(&b, matrix);
            let mut rows = [0u128; 8];
            for (lane, value) in value.iter().enumerate() {
                for (part, (row, column)) in elements(lane, transposed).into_iter().enumerate() {
                    rows[row] |= u128::from(value >> (16 * part) & 0xffff) << (16 * column);
                }
            }
            for (row, value) in rows.into_iter().enumerate() {
                let lane = usize::from(matrix) * 8 + row;
                core.store(
                    Space::Shared,
                    lane,
                    addresses[lane] & 0xffff_ffff,
                    16,
                    value,
                )?;
            }
        }
        Ok(())
    }))
}

/// From global to shared memory. With `ZFILL` the address says how many bytes are wanted: so many as lie between it and
/// the next multiple of the size. They are those from the multiple before on, and zeros follow. A false predicate makes
/// all of them zeros, with it and without.
fn copy(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (to, from) = (reader.address(slot::TO)?, reader.address(slot::FROM)?);
    let (p, fill) = (
        reader.condition(slot::P)?,
        reader.is(name::FILL, value::ZFILL),
    );
    let (size, _) = size_of(reader)?;
    Ok(Box::new(move |core| {
        let (to, from) = (core.addresses(&to), core.addresses(&from));
        let wanted = core.condition(&p);
        for lane in core.lanes() {
            let mut value = 0;
            if wanted >> lane & 1 == 1 {
                let missing = if fill {
                    from[lane] & u64::from(size - 1)
                } else {
                    0
                };
                let start = from[lane] - missing;
                if missing == 0 {
                    value = core.load(Space::Generic, lane, start, size)?;
                } else {
                    for at in 0..u64::from(size) - missing {
                        let byte = core.load(Space::Generic, lane, start + at, 1)?;
                        value |= byte << (8 * at);
                    }
                }
            }
            core.store_late(lane, to[lane] & 0xffff_ffff, size, value)?;
        }
        Ok(())
    }))
}

/// Whether a generic address lies in a space.
fn query_space(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (p, d, address) = (
        reader.target(slot::P)?,
        reader.target(slot::D)?,
        reader.address(slot::ADDR)?,
    );
    if !d.register.is_constant() {
        return Err("its register".to_owned());
    }
    let wanted = match reader.modifier(name::SPACE)? {
        value::G => Space::Global,
        value::L => Space::Local,
        value::S => Space::Shared,
        value::D => Space::Cluster,
        other => return Err(format!("space {other}")),
    };
    Ok(Box::new(move |core| {
        let addresses = core.addresses(&address);
        let own = core.block.rank;
        let holds = |address: u64| match (wanted, resolve(address)) {
            (Space::Shared, (Space::Cluster, at)) => at as u32 >> RANK_SHIFT == own,
            (_, (space, _)) => space == wanted,
        };
        core.put_condition(&p, super::bits(|l| holds(addresses[l])));
        Ok(())
    }))
}
