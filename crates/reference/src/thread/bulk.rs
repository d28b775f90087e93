//! What a thread asks the copy engine for.

use super::access::shared_place;
use super::{Thread, World};
use crate::engine::{self, Moved, Owner, Place, Way};
use crate::error::FaultKind;
use crate::memory::RANK_SHIFT;
use crate::model::Model;
use crate::order::Actor;
use crate::races::CopyEngine;
use crate::step::{Address, BulkStep, Source, Space};
use orias_eval::tensor::{self, DIMENSIONS};

impl Thread {
    fn owner(&self, world: &World<'_>) -> Owner {
        (world.rank, self.warp * 32 + self.lane)
    }

    /// An address as the engine takes it.
    fn engine_place(&self, address: Address, world: &World<'_>) -> Result<Place, FaultKind> {
        let (space, at) = self.resolve(address, world)?;
        match space {
            Space::Shared | Space::Cluster => {
                let (rank, offset) = shared_place(space, at, world)
                    .map_err(|problem| super::access::access("access", space, at, 16, problem))?;
                Ok(Place::Shared((rank as u64) << RANK_SHIFT | offset))
            }
            Space::Generic | Space::Const => Ok(Place::Global(at)),
            Space::Local => Err(FaultKind::Undefined(
                "a bulk copy of local memory".to_owned(),
            )),
        }
    }

    /// The same in shared memory.
    fn engine_shared(&self, address: Address, world: &World<'_>) -> Result<u64, FaultKind> {
        match self.engine_place(address, world)? {
            Place::Shared(at) => Ok(at),
            Place::Global(at) => Err(FaultKind::Undefined(format!(
                "{at:#x} is not in shared memory"
            ))),
        }
    }

    pub(super) fn bulk(&mut self, step: &BulkStep, world: &mut World<'_>) -> Result<(), FaultKind> {
        let owner = self.owner(world);
        match step {
            BulkStep::Copy {
                to,
                from,
                bytes,
                barrier,
                blocks,
                combined,
            } => {
                let from = self.engine_place(*from, world)?;
                let bytes = self.read(*bytes, world)? & 0xffff_ffff;
                let moved = |to: Place| Moved::Bytes {
                    to,
                    from,
                    bytes,
                    combined: *combined,
                };
                match barrier {
                    None => {
                        let to = self.engine_place(*to, world)?;
                        let watched = self.watch_bulk(&[moved(to)], world);
                        let engine = &mut world.common.engine;
                        engine.submit(owner, moved(to), None, watched);
                    }
                    Some(barrier) => {
                        let places = self.engine_targets(*to, *barrier, *blocks, world)?;
                        let all = places.iter().map(|[to, _]| moved(Place::Shared(*to)));
                        let all: Vec<Moved> = all.collect();
                        let watched = self.watch_bulk(&all, world);
                        for (moved, [_, barrier]) in all.into_iter().zip(places) {
                            let engine = &mut world.common.engine;
                            engine.submit(owner, moved, Some(barrier), watched);
                        }
                    }
                }
            }
            BulkStep::Tile { .. } => self.submit_tile(step, owner, world)?,
            BulkStep::CloseGroup => world.common.engine.close_group(owner),
            BulkStep::WaitForGroups { open } => {
                let World {
                    memory,
                    common,
                    model,
                    ..
                } = world;
                engine::finish_groups(owner, *open, memory, common, model)?;
                if let Some(count) = common.engine.heard_by_waiting(owner, *open)
                    && let Model::Watched(races) = &mut **model
                {
                    races.finish_copies(self.actor, CopyEngine::Bulk, count);
                }
            }
            BulkStep::ReplaceField {
                map,
                field,
                dimension,
                value,
            } => {
                let (space, at) = self.resolve(*map, world)?;
                let mut bytes = [0; 128];
                bytes.copy_from_slice(self.bytes(space, at, 128, world)?);
                let value = self.read(*value, world)?;
                tensor::replace(&mut bytes, *field, *dimension, value);
                self.put(space, at, &bytes, world)?;
            }
            BulkStep::CopyMap { to, from } => {
                let (space, at) = self.resolve(*from, world)?;
                let bytes = self.bytes(space, at, 128, world)?.to_vec();
                let (space, at) = self.resolve(*to, world)?;
                self.put(space, at, &bytes, world)?;
            }
        }
        Ok(())
    }

    /// Tells who looks for races of bulk copies that begin now.
    fn watch_bulk(&self, copies: &[Moved], world: &mut World<'_>) -> Option<(Actor, u32)> {
        let owner = self.owner(world);
        let span = self.span(world.code);
        let Model::Watched(races) = &mut *world.model else {
            return None;
        };
        let mut accesses = Vec::new();
        for copy in copies {
            if let Moved::Bytes {
                to,
                from,
                bytes,
                combined,
            } = *copy
            {
                let bytes = bytes as u32;
                for (place, writes) in [(from, false), (to, true)] {
                    let place = engine::watched_place(place, bytes, self.actor, owner);
                    // Reductions are atomic, element by element.
                    let atomic = writes && combined.is_some();
                    if bytes > 0 && !atomic && !accesses.contains(&(place, writes)) {
                        accesses.push((place, writes));
                    }
                }
            }
        }
        let count = races.copy(self.actor, CopyEngine::Bulk, &accesses, span);
        Some((self.actor, count))
    }

    /// Where a copy goes in each block it goes to, and the barriers there.
    fn engine_targets(
        &self,
        to: Address,
        barrier: Address,
        blocks: Option<Source>,
        world: &World<'_>,
    ) -> Result<Vec<[u64; 2]>, FaultKind> {
        let places = [
            self.engine_shared(to, world)?,
            self.engine_shared(barrier, world)?,
        ];
        let Some(blocks) = blocks else {
            return Ok(vec![places]);
        };
        let mask = self.read(blocks, world)? & 0xffff;
        let inside = (1 << RANK_SHIFT) - 1;
        let ranks = (0..16u64).filter(|rank| mask >> rank & 1 == 1);
        Ok(ranks
            .map(|rank| places.map(|at| at & inside | rank << RANK_SHIFT))
            .collect())
    }

    fn submit_tile(
        &mut self,
        step: &BulkStep,
        owner: Owner,
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
        let BulkStep::Tile {
            map,
            coordinates,
            shared,
            barrier,
            blocks,
            offsets,
            combined,
        } = step
        else {
            return Ok(());
        };
        let Place::Global(map) = self.engine_place(*map, world)? else {
            return Err(FaultKind::Undefined(
                "a tensor map in shared memory".to_owned(),
            ));
        };
        let mut start = [0; DIMENSIONS];
        for (at, coordinate) in start.iter_mut().zip(coordinates) {
            *at = i64::from((self.read(*coordinate, world)? as u32).cast_signed());
        }
        let offsets = match offsets {
            None => None,
            Some(list) => {
                let mut offsets = [0; 3];
                for (at, offset) in offsets.iter_mut().zip(list) {
                    *at = (self.read(*offset, world)? & 0xffff) as i64;
                }
                Some(offsets)
            }
        };
        let way = match (barrier, combined) {
            (_, Some(how)) => Way::Reduce(*how),
            (None, None) => Way::Store,
            (Some(_), None) => Way::Load,
        };
        let moved = |shared: u64| Moved::Tile {
            map,
            shared,
            start,
            offsets,
            way,
        };
        match barrier {
            None => {
                let shared = self.engine_shared(*shared, world)?;
                let watched = self.watch_bulk(&[], world);
                let engine = &mut world.common.engine;
                engine.submit(owner, moved(shared), None, watched);
            }
            Some(barrier) => {
                let watched = self.watch_bulk(&[], world);
                for [to, barrier] in self.engine_targets(*shared, *barrier, *blocks, world)? {
                    let engine = &mut world.common.engine;
                    engine.submit(owner, moved(to), Some(barrier), watched);
                }
            }
        }
        Ok(())
    }
}
