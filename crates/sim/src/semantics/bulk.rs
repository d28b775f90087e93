//! Bulk and tensor copies: what their operands say, handed to the copy engine.

use super::Table;
use crate::access::Space;
use crate::core::Core;
use crate::engine::{Moved, Place, Transfer, Way};
use crate::fault::{Cause, FaultKind};
use crate::operand::{Lack, Reader, Source};
use crate::program::Action;
use orias_eval::combine::Combination;
use orias_eval::tensor::{DIMENSIONS, Element};
use orias_sass::{Operand, RegisterClass};

pub(super) const TABLE: Table = &[
    ("UBLKCP", copy),
    ("UBLKCP.HINT", copy),
    ("UBLKRED", reduce),
    ("UBLKRED.HINT", reduce),
    ("UBLKPF", prefetch),
    ("UBLKPF.HINT", prefetch),
    ("UTMALDG", load_tile),
    ("UTMALDG.HINT", load_tile),
    ("UTMALDG.EXTRA", load_tile),
    ("UTMALDG.EXTRA.HINT", load_tile),
    ("UTMASTG", store_tile),
    ("UTMASTG.HINT", store_tile),
    ("UTMAREDG", reduce_tile),
    ("UTMAREDG.HINT", reduce_tile),
    ("UTMAPF", prefetch),
    ("UTMAPF.HINT", prefetch),
    ("UTMAPF.IM2COL", prefetch),
    ("UTMAPF.IM2COL.HINT", prefetch),
    ("UTMACCTL", prefetch),
    ("UTMACCTL.IVALL", prefetch),
    ("UTMACMDFLUSH", close_group),
];

/// Uniform registers from one on.
#[derive(Clone, Copy)]
struct Words(u8);

impl Words {
    /// The registers whose first an address names.
    fn of(reader: &Reader<'_>, name: &str) -> Result<Self, Lack> {
        match reader.operand(name)? {
            Operand::Address(address) => match address.uniform {
                Some(register) if register.class == RegisterClass::UR => Ok(Self(register.index)),
                _ => Err(format!("'{name}' is in no uniform register")),
            },
            other => Err(format!("'{name}' is {other:?}")),
        }
    }

    fn word(self, core: &mut Core<'_>, at: u8) -> u32 {
        match self.0 {
            63 => 0,
            first => core.ur(first + at),
        }
    }

    fn pair(self, core: &mut Core<'_>) -> u64 {
        u64::from(self.word(core, 0)) | u64::from(self.word(core, 1)) << 32
    }
}

/// The block of the cluster that an address of shared memory belongs to is in its upper byte.
const RANK: u32 = 24;

/// A place in shared memory of this block.
fn shared(address: u32) -> Result<u64, Cause> {
    if address >> RANK != 0 {
        let text = "bulk copies to other blocks of a cluster".to_owned();
        return Err(FaultKind::Unsupported(text).into());
    }
    Ok(u64::from(address))
}

/// Bytes of a bulk copy, from the word that also names the blocks of a multicast.
fn bytes_of(core: &mut Core<'_>, size: &Source, multicast: bool) -> Result<u64, Cause> {
    let word = core.word(size, 0)[0];
    if multicast && word >> 16 != 1 {
        let text = format!("a multicast to blocks {:#x}", word >> 16);
        return Err(FaultKind::Unsupported(text).into());
    }
    Ok(u64::from(word & 0xffff) << 4)
}

/// Where a bulk copy goes, and the barrier that counts it.
fn target(core: &mut Core<'_>, to: Words, global: bool) -> Result<(Place, Option<u64>), Cause> {
    if global {
        return Ok(((Space::Global, to.pair(core)), None));
    }
    let place = shared(to.word(core, 0))?;
    let barrier = shared(to.word(core, 1))?;
    Ok(((Space::Shared, place), Some(barrier)))
}

fn copy(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (to, from) = (Words::of(reader, "dst")?, Words::of(reader, "src")?);
    let size = reader.source("size")?;
    let (to_global, from_global) = (reader.is("to", "G"), reader.is("from", "G"));
    let multicast = reader.is("multicast", "MULTICAST");
    Ok(Box::new(move |core| {
        let bytes = bytes_of(core, &size, multicast)?;
        let (to, barrier) = target(core, to, to_global)?;
        let from = match from_global {
            true => (Space::Global, from.pair(core)),
            false => (Space::Shared, shared(from.word(core, 0))?),
        };
        let moved = Moved::Bytes {
            to,
            from,
            bytes,
            combined: None,
        };
        let transfer = Transfer::new(core.warp.number, core.index, moved, barrier);
        core.submit(transfer)
    }))
}

fn combination(reader: &Reader<'_>) -> Result<Combination, Lack> {
    Ok(match reader.modifier("fn")? {
        "ADD" => Combination::Add,
        "MIN" => Combination::Min,
        "MAX" => Combination::Max,
        "INC" => Combination::Inc,
        "DEC" => Combination::Dec,
        "AND" => Combination::And,
        "OR" => Combination::Or,
        "XOR" => Combination::Xor,
        other => return Err(format!("operation {other}")),
    })
}

fn reduce(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (to, from) = (Words::of(reader, "dst")?, Words::of(reader, "src")?);
    let size = reader.source("size")?;
    let to_global = reader.is("to", "G");
    let how = combination(reader)?;
    let element = match reader.modifier("type")? {
        "U32" => Element::Unsigned(4),
        "S32" => Element::Signed(4),
        "U64" => Element::Unsigned(8),
        "S64" => Element::Signed(8),
        "F16.RN" => Element::F16,
        "BF16.RN" => Element::Bf16,
        "F32.RN" => Element::F32 { flushed: false },
        "F32.FTZ.RN" => Element::F32 { flushed: true },
        "F64.RN" => Element::F64,
        other => return Err(format!("type {other}")),
    };
    Ok(Box::new(move |core| {
        let bytes = bytes_of(core, &size, false)?;
        let (to, barrier) = target(core, to, to_global)?;
        let from = (Space::Shared, shared(from.word(core, 0))?);
        let moved = Moved::Bytes {
            to,
            from,
            bytes,
            combined: Some((how, element)),
        };
        let transfer = Transfer::new(core.warp.number, core.index, moved, barrier);
        core.submit(transfer)
    }))
}

/// Caches are not modelled.
fn prefetch(_: &Reader<'_>) -> Result<Action, Lack> {
    Ok(Box::new(|_| Ok(())))
}

fn close_group(_: &Reader<'_>) -> Result<Action, Lack> {
    Ok(Box::new(|core| {
        core.block.engine.close_group(core.warp.number);
        Ok(())
    }))
}

fn dimensions(reader: &Reader<'_>) -> Result<u8, Lack> {
    Ok(match reader.modifier("dim")? {
        "1D" => 1,
        "2D" => 2,
        "3D" => 3,
        "4D" => 4,
        "5D" => 5,
        other => return Err(format!("{other} tensors")),
    })
}

/// Coordinates from word `first` on.
fn coordinates(core: &mut Core<'_>, words: Words, first: u8, count: u8) -> [i64; DIMENSIONS] {
    let mut start = [0; DIMENSIONS];
    for (at, coordinate) in (0..count).zip(&mut start) {
        *coordinate = i64::from(words.word(core, first + at).cast_signed());
    }
    start
}

fn load_tile(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (args, map) = (Words::of(reader, "args")?, Words::of(reader, "map")?);
    let count = dimensions(reader)?;
    let row = reader.instruction.op().row();
    let extra = match row.slot_index("extra") {
        Some(_) => Some(reader.source("extra")?),
        None => None,
    };
    let im2col = reader.is("im2col", "IM2COL");
    let multicast = reader.is("multicast", "MULTICAST");
    Ok(Box::new(move |core| {
        let extra = extra.map_or(0, |extra| core.word(&extra, 0)[0]);
        if multicast && extra >> 16 != 1 {
            let text = format!("a multicast to blocks {:#x}", extra >> 16);
            return Err(FaultKind::Unsupported(text).into());
        }
        let moved = Moved::Tile {
            map: map.pair(core),
            shared: shared(args.word(core, 0))?,
            start: coordinates(core, args, 2, count),
            offsets: im2col.then_some(extra & 0xffff),
            way: Way::Load,
        };
        let barrier = Some(shared(args.word(core, 1))?);
        let transfer = Transfer::new(core.warp.number, core.index, moved, barrier);
        core.submit(transfer)
    }))
}

fn outgoing(reader: &Reader<'_>, way: Way) -> Result<Action, Lack> {
    let (args, map) = (Words::of(reader, "args")?, Words::of(reader, "map")?);
    let count = dimensions(reader)?;
    let im2col = reader.is("im2col", "IM2COL");
    Ok(Box::new(move |core| {
        let moved = Moved::Tile {
            map: map.pair(core),
            shared: shared(args.word(core, 0))?,
            start: coordinates(core, args, 1, count),
            offsets: im2col.then_some(0),
            way,
        };
        let transfer = Transfer::new(core.warp.number, core.index, moved, None);
        core.submit(transfer)
    }))
}

fn store_tile(reader: &Reader<'_>) -> Result<Action, Lack> {
    outgoing(reader, Way::Store)
}

fn reduce_tile(reader: &Reader<'_>) -> Result<Action, Lack> {
    let how = combination(reader)?;
    outgoing(reader, Way::Reduce(how))
}
