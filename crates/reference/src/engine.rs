//! Bulk and tensor copies under way.
//!
//! A copy is moved all at once, at some moment between the instruction and whatever waits for it: soon after the instruction, at any moment, or as late as
//! can be, by the launch's schedule; copies of different instructions in any order. A copy to global memory, or a reduction there, belongs to the group its thread closes next;
//! one to shared memory counts at the mbarrier it names.
//!
//! The emulator has an engine of its own (`crates/sim/src/engine.rs`) that looks much like this one, on purpose: the two judge each other. What a tensor map says and
//! how elements are combined is `eval`'s, and shared.

use crate::cluster::Common;
use crate::error::FaultKind;
use crate::library::little_endian;
use crate::memory::{Memory, MemoryError, Problem, RANK_SHIFT};
use crate::model::Model;
use crate::order::Actor;
use crate::races::CopyEngine;
use orias_eval::combine::{Combination, combine};
use orias_eval::mbarrier::{Change, Mbarrier};
use orias_eval::tensor::{DIMENSIONS, Element, TensorMap};

/// A place that the engine reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Global(u64),
    /// An address of shared memory, with the number of the CTA in its upper bits.
    Shared(u64),
}

/// Which way a tile goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Load,
    Store,
    Reduce(Combination),
}

/// What a copy moves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moved {
    Bytes {
        to: Place,
        from: Place,
        bytes: u64,
        combined: Option<(Combination, Element)>,
    },
    Tile {
        map: u64,
        shared: u64,
        start: [i64; DIMENSIONS],
        offsets: Option<[i64; 3]>,
        way: Way,
    },
}

/// Who asked for a copy: the CTA's number in the cluster, and the thread's in the CTA.
pub(crate) type Owner = (u32, u32);

/// A copy that was asked for.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    owner: Owner,
    moved: Moved,
    barrier: Option<u64>,
    /// The group it belongs to, once that is closed.
    group: Option<u64>,
    /// Who asked for it, and up to where its copier must be heard of, where races are looked for.
    watched: Option<(Actor, u32)>,
}

/// The copies of a cluster that are under way.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    transfers: Vec<Transfer>,
    /// Groups closed so far, by thread.
    closed: std::collections::BTreeMap<Owner, u64>,
    /// Up to where the copier of each thread must be heard of by who waits: the copies so far, and those of each closed group.
    counts: std::collections::BTreeMap<Owner, (u32, Vec<u32>)>,
    /// How many copies were made.
    pub made: u64,
}

impl Engine {
    pub fn submit(
        &mut self,
        owner: Owner,
        moved: Moved,
        barrier: Option<u64>,
        watched: Option<(Actor, u32)>,
    ) {
        if let Some((_, count)) = watched {
            self.counts.entry(owner).or_default().0 = count;
        }
        self.transfers.push(Transfer {
            owner,
            moved,
            barrier,
            group: None,
            watched,
        });
    }

    /// Up to where the copier of a thread must be heard of by who has waited for all its groups but the last `most`.
    pub fn heard_by_waiting(&self, owner: Owner, most: u64) -> Option<u32> {
        let (_, groups) = self.counts.get(&owner)?;
        let done = groups.len().checked_sub(usize::try_from(most).ok()?)?;
        groups[..done].last().copied()
    }

    pub fn is_idle(&self) -> bool {
        self.transfers.is_empty()
    }

    pub fn len(&self) -> usize {
        self.transfers.len()
    }

    /// Closes the group of a thread's copies so far.
    pub fn close_group(&mut self, owner: Owner) {
        let closed = self.closed.entry(owner).or_default();
        for transfer in &mut self.transfers {
            let open = transfer.owner == owner && transfer.barrier.is_none();
            if open && transfer.group.is_none() {
                transfer.group = Some(*closed);
            }
        }
        *closed += 1;
        if let Some((count, groups)) = self.counts.get_mut(&owner) {
            groups.push(*count);
        }
    }
}

/// Shared memory of a block of the cluster, or global memory, as those know it who look for races.
pub(crate) fn watched_place(
    place: Place,
    bytes: u32,
    actor: Actor,
    owner: Owner,
) -> crate::order::Place {
    let (region, start) = match place {
        Place::Global(address) => (0, address),
        Place::Shared(address) => {
            let (rank, offset) = split(address);
            (1 + actor.cta - owner.0 + rank as u32, offset)
        }
    };
    crate::order::Place {
        region,
        start,
        bytes,
    }
}

/// Makes the copy of that number.
pub(crate) fn make(
    at: usize,
    memory: &mut Memory,
    common: &mut Common,
    model: &mut Model,
) -> Result<(), FaultKind> {
    let transfer = common.engine.transfers.remove(at);
    common.engine.made += 1;
    let bytes = match transfer.moved {
        Moved::Bytes {
            to,
            from,
            bytes,
            combined,
        } => move_bytes(to, from, bytes, combined, memory, common)?,
        Moved::Tile {
            map,
            shared,
            start,
            offsets,
            way,
        } => move_tile(map, shared, start, offsets, way, memory, common)?,
    };
    let Some(barrier) = transfer.barrier else {
        return Ok(());
    };
    let place = Place::Shared(barrier);
    let before = Mbarrier::unpack(little_endian(&read(place, 8, memory, common)?));
    let change = Change::completed(bytes as i64);
    if let Some(objection) = before.objection(change) {
        return Err(FaultKind::Undefined(format!(
            "the mbarrier at {barrier:#x}: {objection}"
        )));
    }
    let after = before.after(change);
    write(place, &after.pack().to_le_bytes(), memory, common)?;
    if let Some((actor, count)) = transfer.watched {
        let place = watched_place(place, 8, actor, transfer.owner);
        if let Some(meeting) = model.mbarrier(place, false)
            && let Model::Watched(races) = model
        {
            races.arrive_with_copies(actor, CopyEngine::Bulk, count, meeting);
        }
        if before.phase != after.phase {
            model.complete_phase(place);
        }
    }
    Ok(())
}

/// Makes the copies of all groups of a thread but the last `most`.
pub(crate) fn finish_groups(
    owner: Owner,
    most: u64,
    memory: &mut Memory,
    common: &mut Common,
    model: &mut Model,
) -> Result<(), FaultKind> {
    let closed = common.engine.closed.get(&owner).copied().unwrap_or(0);
    let limit = closed.saturating_sub(most);
    let early = |transfer: &Transfer| {
        transfer.owner == owner && transfer.group.is_some_and(|group| group < limit)
    };
    while let Some(at) = common.engine.transfers.iter().position(early) {
        make(at, memory, common, model)?;
    }
    Ok(())
}

/// Makes all copies.
pub(crate) fn finish_all(
    memory: &mut Memory,
    common: &mut Common,
    model: &mut Model,
) -> Result<(), FaultKind> {
    while !common.engine.is_idle() {
        make(0, memory, common, model)?;
    }
    Ok(())
}

/// What the chip asks of the start of a tile: the first coordinate at a multiple of 16 bytes.
fn is_aligned(map: &TensorMap, start: [i64; DIMENSIONS]) -> bool {
    start[0].wrapping_mul(map.element.bytes() as i64) % UNIT as i64 == 0
}

fn refused(access: &'static str, address: u64, bytes: usize, problem: Problem) -> FaultKind {
    FaultKind::Memory(MemoryError {
        access,
        address,
        bytes,
        space: "shared",
        problem,
    })
}

/// The CTA of an address of shared memory, and the offset there.
fn split(address: u64) -> (usize, u64) {
    let rank = address >> RANK_SHIFT & 0xff;
    (rank as usize, address & ((1 << RANK_SHIFT) - 1))
}

fn read(
    place: Place,
    length: usize,
    memory: &Memory,
    common: &Common,
) -> Result<Vec<u8>, FaultKind> {
    match place {
        Place::Global(address) => Ok(memory.read(address, length)?.to_vec()),
        Place::Shared(address) => {
            let (rank, offset) = split(address);
            let region = common.shared.get(rank).ok_or(Problem::OutOfBounds);
            let bytes = region.and_then(|region| region.read(offset, length));
            let bytes = bytes.map_err(|problem| refused("read", address, length, problem))?;
            Ok(bytes.to_vec())
        }
    }
}

fn write(
    place: Place,
    bytes: &[u8],
    memory: &mut Memory,
    common: &mut Common,
) -> Result<(), FaultKind> {
    match place {
        Place::Global(address) => Ok(memory.write(address, bytes)?),
        Place::Shared(address) => {
            let (rank, offset) = split(address);
            let region = common.shared.get_mut(rank).ok_or(Problem::OutOfBounds);
            let done = region.and_then(|region| region.write(offset, bytes));
            done.map_err(|problem| refused("write", address, bytes.len(), problem))
        }
    }
}

/// What an address or a size of a copy must be a multiple of.
const UNIT: u64 = 16;

fn move_bytes(
    to: Place,
    from: Place,
    bytes: u64,
    combined: Option<(Combination, Element)>,
    memory: &mut Memory,
    common: &mut Common,
) -> Result<u64, FaultKind> {
    for place in [to, from] {
        let (Place::Global(at) | Place::Shared(at)) = place;
        if at % UNIT != 0 {
            return Err(FaultKind::Undefined(format!(
                "a bulk copy at {at:#x}, which is no multiple of {UNIT}"
            )));
        }
    }
    if !bytes.is_multiple_of(UNIT) {
        return Err(FaultKind::Undefined(format!(
            "a bulk copy of {bytes} bytes, which is no multiple of {UNIT}"
        )));
    }
    if bytes == 0 {
        return Ok(0);
    }
    let mut brought = read(from, bytes as usize, memory, common)?;
    if let Some((how, element)) = combined {
        let old = read(to, bytes as usize, memory, common)?;
        let size = element.bytes() as usize;
        for (new, old) in brought.chunks_mut(size).zip(old.chunks(size)) {
            let value = combined_value(how, element, little_endian(old), little_endian(new))?;
            new.copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }
    write(to, &brought, memory, common)?;
    Ok(bytes)
}

fn combined_value(
    how: Combination,
    element: Element,
    old: u64,
    brought: u64,
) -> Result<u64, FaultKind> {
    combine(how, element, old, brought)
        .ok_or_else(|| FaultKind::Undefined(format!("{how:?} of elements {element:?}")))
}

fn move_tile(
    map: u64,
    shared: u64,
    start: [i64; DIMENSIONS],
    offsets: Option<[i64; 3]>,
    way: Way,
    memory: &mut Memory,
    common: &mut Common,
) -> Result<u64, FaultKind> {
    if !map.is_multiple_of(64) {
        return Err(FaultKind::Undefined(format!(
            "a tensor map at {map:#x}, which is no multiple of 64"
        )));
    }
    let mut bytes = [0; 128];
    bytes.copy_from_slice(memory.read(map, 128)?);
    let map = TensorMap::decode(&bytes).map_err(FaultKind::Undefined)?;
    let unsupported =
        |what: &str| Err(FaultKind::Unsupported(format!("{what} in the interpreter")));
    if map.interleave != 0 {
        return unsupported("an interleaved tensor map");
    }
    if matches!(
        map.element,
        Element::Tf32 { .. } | Element::F32 { flushed: true }
    ) {
        return unsupported("a tensor map of numbers that are rounded or flushed");
    }
    if !is_aligned(&map, start) {
        let text = format!("a tile that starts at element {} of a row", start[0]);
        return Err(FaultKind::Undefined(text));
    }
    let visits: Vec<_> = match offsets {
        None => map.tile(start).collect(),
        Some(offsets) => map.columns(start, offsets).map_err(FaultKind::Undefined)?,
    };
    let size = map.element.bytes() as usize;
    let mut moved = 0;
    for visit in visits {
        moved += size as u64;
        let place = Place::Shared(map.swizzle.place(shared + visit.offset));
        let outside = visit.address.map(Place::Global);
        match (way, outside) {
            (Way::Load, Some(from)) => {
                let value = read(from, size, memory, common)?;
                write(place, &value, memory, common)?;
            }
            (Way::Load, None) => {
                let Some(filling) = map.filling() else {
                    return unsupported("what such a tensor map reads outside");
                };
                let filling = filling.to_le_bytes();
                write(place, &filling[..size], memory, common)?;
            }
            (Way::Store | Way::Reduce(_), None) => {}
            (Way::Store, Some(to)) => {
                let value = read(place, size, memory, common)?;
                write(to, &value, memory, common)?;
            }
            (Way::Reduce(how), Some(to)) => {
                let brought = little_endian(&read(place, size, memory, common)?);
                let old = little_endian(&read(to, size, memory, common)?);
                let value = combined_value(how, map.element, old, brought)?;
                write(to, &value.to_le_bytes()[..size], memory, common)?;
            }
        }
    }
    Ok(moved)
}
