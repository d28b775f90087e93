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
use orias_sass::{Op, Operand, RegisterClass, modifier_names as name, modifier_values as value};
use orias_sass::{SlotName, slot_names as slot};

pub(super) const TABLE: Table = &[
    (Op::UBLKCP, copy),
    (Op::UBLKCP_HINT, copy),
    (Op::UBLKRED, reduce),
    (Op::UBLKRED_HINT, reduce),
    (Op::UBLKPF, prefetch),
    (Op::UBLKPF_HINT, prefetch),
    (Op::UTMALDG, load_tile),
    (Op::UTMALDG_HINT, load_tile),
    (Op::UTMALDG_EXTRA, load_tile),
    (Op::UTMALDG_EXTRA_HINT, load_tile),
    (Op::UTMASTG, store_tile),
    (Op::UTMASTG_HINT, store_tile),
    (Op::UTMAREDG, reduce_tile),
    (Op::UTMAREDG_HINT, reduce_tile),
    (Op::UTMAPF, prefetch),
    (Op::UTMAPF_HINT, prefetch),
    (Op::UTMAPF_IM2COL, prefetch),
    (Op::UTMAPF_IM2COL_HINT, prefetch),
    (Op::UTMACCTL, prefetch),
    (Op::UTMACCTL_IVALL, prefetch),
    (Op::UTMACMDFLUSH, close_group),
];

/// Uniform registers from one on.
#[derive(Clone, Copy)]
struct Words(u8);

impl Words {
    /// The registers whose first an address names.
    fn of(reader: &Reader<'_>, name: SlotName) -> Result<Self, Lack> {
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
    let (to, from) = (Words::of(reader, slot::DST)?, Words::of(reader, slot::SRC)?);
    let size = reader.source(slot::SIZE)?;
    let (to_global, from_global) = (
        reader.is(name::TO, value::G),
        reader.is(name::FROM, value::G),
    );
    let multicast = reader.is(name::MULTICAST, value::MULTICAST);
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
    Ok(match reader.modifier(name::FN)? {
        value::ADD => Combination::Add,
        value::MIN => Combination::Min,
        value::MAX => Combination::Max,
        value::INC => Combination::Inc,
        value::DEC => Combination::Dec,
        value::AND => Combination::And,
        value::OR => Combination::Or,
        value::XOR => Combination::Xor,
        other => return Err(format!("operation {other}")),
    })
}

fn reduce(reader: &Reader<'_>) -> Result<Action, Lack> {
    let (to, from) = (Words::of(reader, slot::DST)?, Words::of(reader, slot::SRC)?);
    let size = reader.source(slot::SIZE)?;
    let to_global = reader.is(name::TO, value::G);
    let how = combination(reader)?;
    let element = match reader.modifier(name::TYPE)? {
        value::U32 => Element::Unsigned(4),
        value::S32 => Element::Signed(4),
        value::U64 => Element::Unsigned(8),
        value::S64 => Element::Signed(8),
        value::F16_RN => Element::F16,
        value::BF16_RN => Element::Bf16,
        value::F32_RN => Element::F32 { flushed: false },
        value::F32_FTZ_RN => Element::F32 { flushed: true },
        value::F64_RN => Element::F64,
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
    Ok(match reader.modifier(name::DIM)? {
        value::_1D => 1,
        value::_2D => 2,
        value::_3D => 3,
        value::_4D => 4,
        value::_5D => 5,
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
    let (args, map) = (
        Words::of(reader, slot::ARGS)?,
        Words::of(reader, slot::MAP)?,
    );
    let count = dimensions(reader)?;
    let row = reader.instruction.op().row();
    let extra = match row.slot_index(slot::EXTRA) {
        Some(_) => Some(reader.source(slot::EXTRA)?),
        None => None,
    };
    let im2col = reader.is(name::IM2COL, value::IM2COL);
    let multicast = reader.is(name::MULTICAST, value::MULTICAST);
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
    let (args, map) = (
        Words::of(reader, slot::ARGS)?,
        Words::of(reader, slot::MAP)?,
    );
    let count = dimensions(reader)?;
    let im2col = reader.is(name::IM2COL, value::IM2COL);
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
