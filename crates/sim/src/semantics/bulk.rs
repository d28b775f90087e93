//! Bulk and tensor copies: what their operands say, handed to the copy engine.

use super::Table;
use crate::access::{RANK_SHIFT, Space};
use crate::core::Core;
use crate::engine::{Moved, Place, Transfer, Way};
use crate::fault::Cause;
use crate::operand::{Lack, Reader};
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

/// The same place in another block of the cluster.
const fn in_block(address: u32, rank: u32) -> u32 {
    address & ((1 << RANK_SHIFT) - 1) | rank << RANK_SHIFT
}

/// An address of this block's shared memory with the number of the block, which it may leave out.
fn shared(core: &Core<'_>, address: u32) -> u64 {
    match address >> RANK_SHIFT {
        0 => u64::from(in_block(address, core.block.rank)),
        _ => u64::from(address),
    }
}

/// The blocks that a copy to shared memory goes to: those of the mask in the upper half of a word, or only the one its address names.
fn blocks(word: u32, multicast: bool) -> impl Iterator<Item = Option<u32>> {
    let mask = if multicast { word >> 16 } else { 0 };
    let all = (0..16).filter(move |rank| mask >> rank & 1 == 1).map(Some);
    all.chain((!multicast).then_some(None))
}

/// Hands a copy to the engine, once for each block it goes to. `place` says what is copied, given an address in the block.
fn submit_to(
    core: &mut Core<'_>,
    word: u32,
    multicast: bool,
    [to, barrier]: [u32; 2],
    moved: impl Fn(u64) -> Moved,
) -> Result<(), Cause> {
    for block in blocks(word, multicast) {
        let [to, barrier] = [to, barrier].map(|address| match block {
            Some(rank) => u64::from(in_block(address, rank)),
            None => u64::from(address),
        });
        let transfer = Transfer::new(core.warp.number, core.index, moved(to), Some(barrier));
        core.submit(transfer)?;
    }
    Ok(())
}

/// Hands a copy of bytes to the engine.
fn submit_bytes(
    core: &mut Core<'_>,
    to: Words,
    to_global: bool,
    from: Place,
    size: u32,
    multicast: bool,
    combined: Option<(Combination, Element)>,
) -> Result<(), Cause> {
    let bytes = u64::from(size & 0xffff) << 4;
    let moved = |to: Place| Moved::Bytes {
        to,
        from,
        bytes,
        combined,
    };
    if to_global {
        let to = (Space::Global, to.pair(core));
        let transfer = Transfer::new(core.warp.number, core.index, moved(to), None);
        return core.submit(transfer);
    }
    let places = [to.word(core, 0), to.word(core, 1)];
    submit_to(core, size, multicast, places, |to| {
        moved((Space::Cluster, to))
    })
}

fn copy(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (to, from) = (Words::of(reader, "dst")?, Words::of(reader, "src")?);
    let size = reader.source("size")?;
    let (to_global, from_global) = (reader.is("to", "G"), reader.is("from", "G"));
    let multicast = reader.is("multicast", "MULTICAST");
    Ok(Box::new(move |core| {
        let size = core.word(&size, 0)[0];
        let from = match from_global {
            true => (Space::Global, from.pair(core)),
            false => {
                let word = from.word(core, 0);
                (Space::Cluster, shared(core, word))
            }
        };
        submit_bytes(core, to, to_global, from, size, multicast, None)
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
        let size = core.word(&size, 0)[0];
        let word = from.word(core, 0);
        let from = (Space::Cluster, shared(core, word));
        let combined = Some((how, element));
        submit_bytes(core, to, to_global, from, size, false, combined)
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
        let map = map.pair(core);
        let start = coordinates(core, args, 2, count);
        let places = [args.word(core, 0), args.word(core, 1)];
        submit_to(core, extra, multicast, places, |shared| Moved::Tile {
            map,
            shared,
            start,
            offsets: im2col.then_some(extra & 0xffff),
            way: Way::Load,
        })
    }))
}

fn outgoing(reader: &Reader<'_>, way: Way) -> Result<Action, Lack> {
    let (args, map) = (Words::of(reader, "args")?, Words::of(reader, "map")?);
    let count = dimensions(reader)?;
    let im2col = reader.is("im2col", "IM2COL");
    Ok(Box::new(move |core| {
        let word = args.word(core, 0);
        let moved = Moved::Tile {
            map: map.pair(core),
            shared: shared(core, word),
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
