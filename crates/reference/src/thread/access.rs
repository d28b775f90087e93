//! Memory as a thread sees it: addresses, loads, stores, and copies that happen later.

use super::{Thread, World};
use crate::error::FaultKind;
use crate::library::little_endian;
use crate::memory::{
    CONSTANT_BASE, LOCAL_WINDOW, MemoryError, PARAMETER_BASE, Problem, RANK_SHIFT, SHARED_WINDOW,
    SHARED_WINDOW_BYTES, WINDOW_BYTES,
};
use crate::model::Model;
use crate::races::{Access, CopyEngine};
use crate::step::{Action, Address, Destination, Source, Space, SpaceTest, Step};

/// A copy that has not happened yet.
#[derive(Clone, Copy)]
pub(super) struct PendingCopy {
    pub to: (Space, u64),
    pub from: (Space, u64),
    pub bytes: usize,
    pub kept: usize,
    /// Up to where its copier must be heard of, where races are looked for.
    pub count: Option<u32>,
}

impl Thread {
    /// The space and the place an address means.
    pub(super) fn resolve(
        &self,
        address: Address,
        world: &World<'_>,
    ) -> Result<(Space, u64), FaultKind> {
        let base = self.read(address.base, world)?;
        Ok(self.locate(address, base))
    }

    /// The same, given what the base of the address is.
    pub(super) fn locate(&self, address: Address, base: u64) -> (Space, u64) {
        let value = base.wrapping_add_signed(address.offset);
        match address.space {
            Space::Generic => match value {
                _ if value.wrapping_sub(SHARED_WINDOW) < SHARED_WINDOW_BYTES => {
                    (Space::Cluster, value - SHARED_WINDOW)
                }
                _ if value.wrapping_sub(LOCAL_WINDOW) < WINDOW_BYTES => {
                    (Space::Local, value - LOCAL_WINDOW)
                }
                _ => (Space::Generic, value),
            },
            // Addresses of these have 32 bits that count.
            Space::Const => (Space::Generic, CONSTANT_BASE | value & 0xffff_ffff),
            space => (space, value & 0xffff_ffff),
        }
    }

    /// Tells who looks for races of an access.
    pub(super) fn watch(&self, step: &Step, world: &mut World<'_>) -> Result<(), FaultKind> {
        if !matches!(world.model, Model::Watched(_)) {
            return Ok(());
        }
        let (address, bytes, count, strength) = match &step.action {
            Action::Load {
                address,
                bytes,
                elements,
                strength,
            } => (*address, *bytes, elements.len(), *strength),
            Action::Store {
                address,
                bytes,
                elements,
                strength,
            } => (*address, *bytes, elements.len(), *strength),
            Action::Atomic {
                address,
                bytes,
                operands,
                strength,
                ..
            } => (*address, *bytes, operands.len(), Some(*strength)),
            Action::Atomic128 {
                address, strength, ..
            } => (*address, 16, 1, Some(*strength)),
            _ => return Ok(()),
        };
        let (space, start) = self.resolve(address, world)?;
        for element in 0..count {
            let start = start + element as u64 * u64::from(bytes);
            let Some(place) = self.place_of(space, start, bytes, world)? else {
                continue;
            };
            if let Model::Watched(races) = &mut *world.model {
                races.access(Access {
                    actor: self.actor,
                    place,
                    strength,
                    reads: !matches!(step.action, Action::Store { .. }),
                    writes: !matches!(step.action, Action::Load { .. }),
                    seen: !matches!(step.action, Action::Atomic { seen: false, .. }),
                    span: step.span,
                });
            }
        }
        Ok(())
    }

    /// Tells who looks for races of a copy that happens later.
    pub(super) fn watch_copy(
        &self,
        copy: &PendingCopy,
        span: orias_ptx::Span,
        world: &mut World<'_>,
    ) -> Result<Option<u32>, FaultKind> {
        if !matches!(world.model, Model::Watched(_)) {
            return Ok(None);
        }
        let mut accesses = Vec::with_capacity(2);
        for ((space, at), bytes, writes) in
            [(copy.from, copy.kept, false), (copy.to, copy.bytes, true)]
        {
            if bytes > 0
                && let Some(place) = self.place_of(space, at, bytes as u32, world)?
            {
                accesses.push((place, writes));
            }
        }
        Ok(match &mut *world.model {
            Model::Watched(races) => {
                Some(races.copy(self.actor, CopyEngine::Thread, &accesses, span))
            }
            _ => None,
        })
    }

    pub(super) fn bytes<'w>(
        &'w self,
        space: Space,
        address: u64,
        length: usize,
        world: &'w World<'_>,
    ) -> Result<&'w [u8], FaultKind> {
        let failed = |problem| access("read", space, address, length, problem);
        Ok(match space {
            Space::Generic | Space::Const => world.memory.read(address, length)?,
            Space::Shared | Space::Cluster => {
                let (rank, offset) = shared_place(space, address, world).map_err(failed)?;
                world.common.shared[rank]
                    .read(offset, length)
                    .map_err(failed)?
            }
            Space::Local => self.local.read(address, length).map_err(failed)?,
        })
    }

    pub(super) fn put(
        &mut self,
        space: Space,
        address: u64,
        bytes: &[u8],
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
        let failed = |problem| access("write", space, address, bytes.len(), problem);
        match space {
            Space::Generic | Space::Const => world.memory.write(address, bytes)?,
            Space::Shared | Space::Cluster => {
                let (rank, offset) = shared_place(space, address, world).map_err(failed)?;
                world.common.shared[rank]
                    .write(offset, bytes)
                    .map_err(failed)?;
            }
            Space::Local => self.local.write(address, bytes).map_err(failed)?,
        }
        Ok(())
    }

    pub(super) fn load(
        &mut self,
        address: Address,
        bytes: u32,
        elements: &[Option<Destination>],
        world: &World<'_>,
    ) -> Result<(), FaultKind> {
        let (space, start) = self.resolve(address, world)?;
        let size = bytes as usize;
        aligned(start, size * elements.len(), space)?;
        // All elements are read before any register changes: one of them may hold the address.
        let mut values = [0; 32];
        let read = self.bytes(space, start, size * elements.len(), world)?;
        for (value, part) in values.iter_mut().zip(read.chunks(size)) {
            *value = little_endian(part);
        }
        for (element, value) in elements.iter().zip(values) {
            self.write_element(*element, value);
        }
        Ok(())
    }

    pub(super) fn store(
        &mut self,
        address: Address,
        bytes: u32,
        elements: &[Source],
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
        let (space, start) = self.resolve(address, world)?;
        let size = bytes as usize;
        aligned(start, size * elements.len(), space)?;
        for (at, element) in elements.iter().enumerate() {
            let value = self.read(*element, world)?.to_le_bytes();
            self.put(space, start + (at * size) as u64, &value[..size], world)?;
        }
        Ok(())
    }

    /// Forgets what was written at a place of shared memory.
    pub(super) fn forget(
        &mut self,
        space: Space,
        address: u64,
        length: usize,
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
        let failed = |problem| access("write", space, address, length, problem);
        let (rank, offset) = shared_place(space, address, world).map_err(failed)?;
        let region = &mut world.common.shared[rank];
        region.lay(offset, &vec![None; length]).map_err(failed)?;
        Ok(())
    }

    /// Makes the copies of all closed groups but the last `open` ones happen, or all copies; up to where their copier is heard of by who waited for them.
    pub(super) fn finish_copies(
        &mut self,
        open: Option<usize>,
        world: &mut World<'_>,
    ) -> Result<Option<u32>, FaultKind> {
        let mut count = None;
        // The group that is still being filled is not among those that are counted.
        let keep = open.map_or(0, |open| open + 1);
        let done = self.copies.len().saturating_sub(keep);
        let groups: Vec<Vec<PendingCopy>> = self.copies.drain(..done).collect();
        for copy in groups.into_iter().flatten() {
            // Where nothing is read the address need not be one.
            let mut bytes = match copy.kept {
                0 => Vec::new(),
                kept => (self.bytes(copy.from.0, copy.from.1, kept, world)?).to_vec(),
            };
            bytes.resize(copy.bytes, 0);
            self.put(copy.to.0, copy.to.1, &bytes, world)?;
            count = count.max(copy.count);
        }
        if self.copies.is_empty() {
            self.copies.push(Vec::new());
        }
        Ok(count)
    }
}

pub(super) fn access(
    access: &'static str,
    space: Space,
    address: u64,
    bytes: usize,
    problem: Problem,
) -> MemoryError {
    MemoryError {
        access,
        address,
        bytes,
        space: match space {
            Space::Generic => "global",
            Space::Const => "constant",
            Space::Shared => "shared",
            Space::Cluster => "shared::cluster",
            Space::Local => "local",
        },
        problem,
    }
}

/// Accesses must be aligned to their whole size.
pub(super) fn aligned(address: u64, bytes: usize, space: Space) -> Result<(), FaultKind> {
    if bytes == 0 || address.is_multiple_of(bytes.next_power_of_two() as u64) {
        Ok(())
    } else {
        Err(access("access", space, address, bytes, Problem::Misaligned).into())
    }
}

/// The CTA's number in the cluster and the offset in its shared memory that an address names.
///
/// An address of this CTA's memory may leave the number out.
pub(super) fn shared_place(
    space: Space,
    address: u64,
    world: &World<'_>,
) -> Result<(usize, u64), Problem> {
    let named = (address >> RANK_SHIFT) as usize;
    let own = world.rank as usize;
    let rank = match space {
        Space::Shared if named == 0 => own,
        Space::Shared if named != own => return Err(Problem::OutOfBounds),
        _ => named,
    };
    if rank >= world.common.shared.len() {
        return Err(Problem::OutOfBounds);
    }
    Ok((rank, address & (WINDOW_BYTES - 1)))
}

/// The offset of an address in this CTA's shared memory.
pub(super) fn own_offset(address: u64, rank: u32) -> Result<u64, FaultKind> {
    let named = address >> RANK_SHIFT;
    if named != 0 && named != u64::from(rank) {
        return Err(FaultKind::Undefined(format!(
            "a matrix at {address:#x}, in shared memory of another CTA"
        )));
    }
    Ok(address & (WINDOW_BYTES - 1))
}

/// Whether a generic address lies in a space.
pub(super) fn is_in(address: u64, space: SpaceTest, world: &World<'_>) -> bool {
    let in_window = |base: u64| address.wrapping_sub(base) < WINDOW_BYTES;
    let in_cluster = address.wrapping_sub(SHARED_WINDOW) < SHARED_WINDOW_BYTES;
    let constant = (CONSTANT_BASE..PARAMETER_BASE).contains(&address);
    let parameter = (PARAMETER_BASE..SHARED_WINDOW).contains(&address);
    match space {
        SpaceTest::Shared => in_window(SHARED_WINDOW + (u64::from(world.rank) << RANK_SHIFT)),
        SpaceTest::Cluster => in_cluster,
        SpaceTest::Local => in_window(LOCAL_WINDOW),
        SpaceTest::Const => constant,
        SpaceTest::Param => parameter,
        SpaceTest::Global => !in_cluster && !in_window(LOCAL_WINDOW) && !constant && !parameter,
    }
}
