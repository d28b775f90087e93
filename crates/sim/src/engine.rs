//! The copy engine of a block: bulk and tensor copies that are under way.
//!
//! A copy is moved all at once, at some moment after the instruction that asked for it: at once where time is not looked at; as late as
//! something allows in strict timing (a wait for its group, the end of the block, nothing else that could go on, or [`LATEST`] turns of the block); in random timing
//! any number of turns before. Copies complete in any order. What it moves to shared memory counts at the barrier that the copy names when it is moved; copies to
//! global memory and reductions there belong to the group that their warp closes next.
//!
//! The interpreter has an engine of its own (`crates/reference/src/engine.rs`) that looks much like this one, on purpose: the two judge each other. What a tensor map
//! says and how elements are combined is `eval`'s, and shared.

use crate::access::Space;
use crate::core::Core;
use crate::fault::{Cause, FaultKind};
use orias_eval::combine::{Combination, combine};
use orias_eval::mbarrier::Change;
use orias_eval::tensor::{DIMENSIONS, Element, TensorMap};

/// Turns of a block after which a copy that nobody waits for is made all the same.
const LATEST: u64 = 16;

/// A place in memory.
pub(crate) type Place = (Space, u64);

/// What a copy moves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Moved {
    /// Bytes in a row, combined with what is there or not.
    Bytes {
        to: Place,
        from: Place,
        bytes: u64,
        combined: Option<(Combination, Element)>,
    },
    /// A tile of a tensor.
    Tile {
        map: u64,
        shared: u64,
        start: [i64; DIMENSIONS],
        offsets: Option<u32>,
        way: Way,
    },
}

/// Which way a tile goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Load,
    Store,
    Reduce(Combination),
}

/// A copy that was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    /// The warp that asked, and the instruction.
    pub warp: u32,
    pub index: usize,
    pub moved: Moved,
    /// The barrier in shared memory that counts the bytes.
    pub barrier: Option<u64>,
    /// The group it belongs to, once that is closed.
    group: Option<u64>,
    /// The turn in which it is made.
    due: u64,
}

impl Transfer {
    pub fn new(warp: u32, index: usize, moved: Moved, barrier: Option<u64>) -> Self {
        Self {
            warp,
            index,
            moved,
            barrier,
            group: None,
            due: 0,
        }
    }
}

/// The copies of a block that are under way.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    transfers: Vec<Transfer>,
    turn: u64,
    /// For each warp how many groups it has closed.
    closed: Vec<u64>,
}

impl Engine {
    /// Goes on to the next turn.
    pub fn next_turn(&mut self) {
        self.turn += 1;
    }

    /// The next copy whose turn has come, or the oldest if `any` will do.
    pub fn take_due(&mut self, any: bool) -> Option<Transfer> {
        let due = |transfer: &Transfer| any || transfer.due <= self.turn;
        let at = self.transfers.iter().position(due)?;
        Some(self.transfers.remove(at))
    }

    fn closed(&mut self, warp: u32) -> &mut u64 {
        let at = warp as usize;
        if self.closed.len() <= at {
            self.closed.resize(at + 1, 0);
        }
        &mut self.closed[at]
    }

    /// Closes the group of the copies of a warp so far.
    pub fn close_group(&mut self, warp: u32) {
        let number = *self.closed(warp);
        *self.closed(warp) += 1;
        for transfer in &mut self.transfers {
            let open = transfer.warp == warp && transfer.barrier.is_none();
            if open && transfer.group.is_none() {
                transfer.group = Some(number);
            }
        }
    }

    /// A copy of one of a warp's groups but the last `most`.
    fn take_of_groups(&mut self, warp: u32, most: u64) -> Option<Transfer> {
        let limit = self.closed(warp).saturating_sub(most);
        let early = |transfer: &Transfer| {
            transfer.warp == warp && transfer.group.is_some_and(|group| group < limit)
        };
        let at = self.transfers.iter().position(early)?;
        Some(self.transfers.remove(at))
    }
}

/// The offsets of an im2col access from the word that holds them: 16, 8 or 5 bits each.
fn unpacked(word: u32, rank: usize) -> [i64; 3] {
    let width = match rank {
        3 => 16,
        4 => 8,
        _ => 5,
    };
    std::array::from_fn(|at| match at + 2 < rank {
        true => i64::from(word >> (width * at as u32) & ((1 << width) - 1)),
        false => 0,
    })
}

/// What a bulk copy's address, size and so on must be a multiple of.
const UNIT: u64 = 16;

impl Core<'_> {
    /// Has a copy made: now, or later.
    pub fn submit(&mut self, mut transfer: Transfer) -> Result<(), Cause> {
        if !self.warp.flight.is_timed() {
            return self.make(&transfer);
        }
        let engine = &self.block.engine;
        transfer.due = engine.turn + self.warp.flight.draw(LATEST);
        self.block.engine.transfers.push(transfer);
        Ok(())
    }

    /// Waits until at most so many of the warp's groups are under way.
    pub fn finish_groups(&mut self, most: u64) -> Result<(), Cause> {
        let warp = self.warp.number;
        while let Some(transfer) = self.block.engine.take_of_groups(warp, most) {
            self.make(&transfer)?;
        }
        Ok(())
    }

    /// Makes a copy.
    pub fn make(&mut self, transfer: &Transfer) -> Result<(), Cause> {
        let made = match transfer.moved {
            Moved::Bytes {
                to,
                from,
                bytes,
                combined,
            } => self.move_bytes(to, from, bytes, combined).map(|()| bytes),
            Moved::Tile {
                map,
                shared,
                start,
                offsets,
                way,
            } => self.move_tile(map, shared, start, offsets, way),
        };
        let bytes = made.map_err(|cause| cause.at(transfer.index))?;
        self.synchronize_cluster();
        match transfer.barrier {
            Some(barrier) => {
                let change = Change::completed(bytes as i64);
                let told = self.change_mbarrier(0, barrier, change);
                told.map_err(|cause| cause.at(transfer.index)).map(|_| ())
            }
            None => Ok(()),
        }
    }

    fn engine_error<T>(&self, what: impl Into<String>) -> Result<T, Cause> {
        Err(FaultKind::Unsupported(what.into()).into())
    }

    fn move_bytes(
        &mut self,
        to: Place,
        from: Place,
        bytes: u64,
        combined: Option<(Combination, Element)>,
    ) -> Result<(), Cause> {
        for (what, address) in [("to", to.1), ("from", from.1)] {
            if address % UNIT != 0 {
                let text = format!("a bulk copy {what} {address:#x}, which is no multiple of 16");
                return self.engine_error(text);
            }
        }
        let step = combined.map_or(8, |(_, element)| element.bytes());
        for at in (0..bytes).step_by(step as usize) {
            let value = self.engine_load((from.0, from.1 + at), step as u32)?;
            let place = (to.0, to.1 + at);
            match combined {
                None => self.engine_store(place, step as u32, value)?,
                Some((how, element)) => self.engine_combine(place, how, element, value)?,
            }
        }
        Ok(())
    }

    /// Moves a tile; how many bytes of shared memory it has.
    fn move_tile(
        &mut self,
        map: u64,
        shared: u64,
        start: [i64; DIMENSIONS],
        offsets: Option<u32>,
        way: Way,
    ) -> Result<u64, Cause> {
        if !map.is_multiple_of(64) {
            let text = format!("a tensor map at {map:#x}, which is no multiple of 64");
            return self.engine_error(text);
        }
        let mut bytes = [0; 128];
        for (at, part) in bytes.chunks_exact_mut(8).enumerate() {
            let word = self.load_generic(0, map + 8 * at as u64, 8)?;
            part.copy_from_slice(&word.to_le_bytes());
        }
        let map = match TensorMap::decode(&bytes) {
            Ok(map) => map,
            Err(reason) => return self.engine_error(reason),
        };
        if map.interleave != 0 {
            return self.engine_error("an interleaved tensor map");
        }
        if matches!(
            map.element,
            Element::Tf32 { .. } | Element::F32 { flushed: true }
        ) {
            return self.engine_error("a tensor map of numbers that are rounded or flushed");
        }
        let size = map.element.bytes() as u32;
        let visits: Vec<_> = match offsets {
            None => map.tile(start).collect(),
            Some(packed) => match map.columns(start, unpacked(packed, map.rank)) {
                Ok(visits) => visits,
                Err(reason) => return self.engine_error(reason),
            },
        };
        let mut moved = 0;
        for visit in visits {
            moved += u64::from(size);
            let place = (Space::Cluster, map.swizzle.place(shared + visit.offset));
            match (way, visit.address) {
                (Way::Load, Some(address)) => {
                    let value = self.engine_load((Space::Global, address), size)?;
                    self.engine_store(place, size, value)?;
                }
                (Way::Load, None) => match map.filling() {
                    Some(filling) => self.engine_store(place, size, filling)?,
                    None => return self.engine_error("what such a tensor map reads outside"),
                },
                (Way::Store | Way::Reduce(_), None) => {}
                (Way::Store, Some(address)) => {
                    let value = self.engine_load(place, size)?;
                    self.engine_store((Space::Global, address), size, value)?;
                }
                (Way::Reduce(how), Some(address)) => {
                    let value = self.engine_load(place, size)?;
                    let to = (Space::Global, address);
                    self.engine_combine(to, how, map.element, value)?;
                }
            }
        }
        Ok(moved)
    }

    fn engine_load(&mut self, (space, address): Place, size: u32) -> Result<u64, Cause> {
        self.unraced(|core| core.load(space, 0, address, size))
            .map(|value| value as u64)
    }

    fn engine_store(
        &mut self,
        (space, address): Place,
        size: u32,
        value: u64,
    ) -> Result<(), Cause> {
        self.unraced(|core| core.store(space, 0, address, size, value.into()))
    }

    fn engine_combine(
        &mut self,
        (space, address): Place,
        how: Combination,
        element: Element,
        value: u64,
    ) -> Result<(), Cause> {
        if combine(how, element, 0, 0).is_none() {
            return self.engine_error(format!("{how:?} of {element:?}"));
        }
        let size = element.bytes() as u32;
        self.update(space, 0, address, size, |old| {
            combine(how, element, old, value).unwrap_or(old)
        })?;
        Ok(())
    }

    /// An access of the engine, which is ordered by what waits for it and not by barriers of the block.
    fn unraced<T>(
        &mut self,
        access: impl FnOnce(&mut Self) -> Result<T, Cause>,
    ) -> Result<T, Cause> {
        self.synchronize_cluster();
        access(self)
    }
}
