//! Running ahead of open loads, where memory is weak.
//!
//! An instruction whose operands are not there yet is put aside with those that are, and its results count as *held*: who reads them later waits, too. A load or
//! atomic is held from the moment its address is known until memory gives it a value. What decides whether or where the thread goes on (guards, branches, calls)
//! is not put aside: the thread waits ([`State::AtLoad`]).

use super::{State, Thread, World};
use crate::error::FaultKind;
use crate::library::little_endian;
use crate::memory::FUNCTION_BASE;
use crate::model::Model;
use crate::order::Place;
use crate::step::{Action, Address, Destination, Source, Space, Step};
use crate::weak::{Event, Id, Kind, Prospect};

/// An operand of an instruction that was put aside.
#[derive(Clone, Copy, Debug)]
enum Need {
    Value(u64),
    /// The result of another one.
    Result(u32),
}

/// How far an instruction is that was put aside.
#[derive(Clone, Debug)]
enum Stage {
    Operands,
    /// The reads that it waits for.
    Loading(Vec<Id>),
    /// The updates that it waits for, with their operands.
    Updating(Vec<(Id, [u64; 2])>),
}

#[derive(Clone, Debug)]
struct Aside {
    number: u32,
    /// Its place in the thread's program.
    at: u32,
    function: usize,
    pc: usize,
    needs: Vec<(u32, Need)>,
    stage: Stage,
}

/// What a thread has put aside.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ahead {
    /// Instructions executed.
    pub at: u32,
    next: u32,
    /// Slots whose value is not there yet, with the instruction that makes it.
    held: Vec<(u32, u32)>,
    aside: Vec<Aside>,
}

impl Ahead {
    fn holder(&self, slot: u32) -> Option<u32> {
        let held = self.held.iter().find(|(it, _)| *it == slot);
        held.map(|(_, number)| *number)
    }

    /// A slot has got another value.
    pub fn release(&mut self, slot: u32) {
        self.held.retain(|(it, _)| *it != slot);
    }

    fn is_ready(&self, it: &Aside, world: &World<'_>) -> bool {
        let Model::Weak(weak) = &*world.model else {
            return false;
        };
        let known = |id: &Id| !weak.graph.events[*id].is_open();
        match &it.stage {
            Stage::Operands => it.needs.iter().all(|(_, it)| matches!(it, Need::Value(_))),
            Stage::Loading(events) => events.iter().all(known),
            Stage::Updating(events) => events.iter().all(|(id, _)| known(id)),
        }
    }
}

/// What becomes of a step.
pub(super) enum Turn {
    /// It is executed as ever.
    Execute,
    /// It is done or put aside.
    Done,
    /// The thread waits.
    Wait,
}

impl Thread {
    /// Goes on with what was put aside, as far as that is possible.
    pub(super) fn catch_up(&mut self, world: &mut World<'_>) -> Result<(), FaultKind> {
        let Some(mut ahead) = self.ahead.take() else {
            return Ok(());
        };
        let done = self.catch_up_with(&mut ahead, world);
        self.ahead = Some(ahead);
        done
    }

    fn catch_up_with(&mut self, ahead: &mut Ahead, world: &mut World<'_>) -> Result<(), FaultKind> {
        while let Some(at) = ahead.aside.iter().position(|it| ahead.is_ready(it, world)) {
            let it = ahead.aside.remove(at);
            if let Model::Weak(weak) = &mut *world.model {
                weak.progress += 1;
            }
            let step = &world.code[it.function].steps[it.pc];
            match &it.stage {
                Stage::Operands => self.perform(ahead, &it, step, world)?,
                Stage::Loading(events) => {
                    let mut values = Vec::with_capacity(events.len());
                    for id in events {
                        values.push(self.read_value(*id, world)?);
                    }
                    let Action::Load { elements, .. } = &step.action else {
                        continue;
                    };
                    self.deliver(ahead, it.number, elements.iter().copied().zip(values));
                }
                Stage::Updating(events) => {
                    let Action::Atomic {
                        update, results, ..
                    } = &step.action
                    else {
                        continue;
                    };
                    let mut values = Vec::with_capacity(events.len());
                    for (id, operands) in events {
                        let old = self.read_value(*id, world)?;
                        values.push(old);
                        if let Model::Weak(weak) = &mut *world.model {
                            weak.graph.events[*id].value = Some(update(old, *operands));
                        }
                    }
                    self.deliver(ahead, it.number, results.iter().copied().zip(values));
                }
            }
        }
        Ok(())
    }

    /// Results have come: for those that wait for them, and for the registers that still hold them.
    fn deliver(
        &mut self,
        ahead: &mut Ahead,
        number: u32,
        results: impl Iterator<Item = (Option<Destination>, u64)>,
    ) {
        for (destination, value) in results {
            let Some(destination) = destination else {
                continue;
            };
            let (slot, value) = (destination.slot, destination.extend(value));
            for other in &mut ahead.aside {
                for (needed, need) in &mut other.needs {
                    if *needed == slot && matches!(need, Need::Result(from) if *from == number) {
                        *need = Need::Value(value);
                    }
                }
            }
            if ahead.holder(slot) == Some(number) {
                ahead.release(slot);
                self.registers[self.base + slot as usize] = value;
                if let Some(written) = &mut self.written {
                    written[self.base + slot as usize] = true;
                }
            }
        }
    }

    /// Executes an instruction whose operands have come, in a moment in which the registers hold them.
    fn perform(
        &mut self,
        ahead: &mut Ahead,
        it: &Aside,
        step: &Step,
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
        let (registers, pc) = (self.registers.clone(), self.pc);
        for (slot, need) in &it.needs {
            if let Need::Value(value) = need {
                self.registers[self.base + *slot as usize] = *value;
            }
        }
        if is_access(&step.action) {
            let stage = self.issue(step, it.at, world);
            self.registers = registers;
            if let Some(stage) = stage? {
                ahead.aside.push(Aside {
                    stage,
                    needs: Vec::new(),
                    ..it.clone()
                });
            }
            return Ok(());
        }
        let done = self.execute(&step.action, world);
        let results: Vec<(Option<Destination>, u64)> = results_of(&step.action)
            .into_iter()
            .map(|to| (Some(to), self.registers[self.base + to.slot as usize]))
            .collect();
        (self.registers, self.pc) = (registers, pc);
        done?;
        self.deliver(ahead, it.number, results.into_iter());
        Ok(())
    }

    /// Decides what becomes of a step, and puts it aside where that is it.
    pub(super) fn consider(
        &mut self,
        step: &Step,
        world: &mut World<'_>,
    ) -> Result<Turn, FaultKind> {
        let Some(mut ahead) = self.ahead.take() else {
            return Ok(Turn::Execute);
        };
        let turn = self.consider_with(&mut ahead, step, world);
        self.ahead = Some(ahead);
        turn
    }

    fn consider_with(
        &mut self,
        ahead: &mut Ahead,
        step: &Step,
        world: &mut World<'_>,
    ) -> Result<Turn, FaultKind> {
        if let Some((slot, wanted)) = step.guard {
            if ahead.holder(slot).is_some() {
                return Ok(self.wait(ahead, false, world));
            }
            if (self.register(slot, world)? != 0) != wanted {
                return Ok(Turn::Execute);
            }
        }
        ahead.at += 1;
        let turn = self.consider_unguarded(ahead, step, world)?;
        if matches!(turn, Turn::Wait) {
            ahead.at -= 1;
        }
        Ok(turn)
    }

    fn consider_unguarded(
        &mut self,
        ahead: &mut Ahead,
        step: &Step,
        world: &mut World<'_>,
    ) -> Result<Turn, FaultKind> {
        if let Some(what) = unexplored(&step.action) {
            return Err(FaultKind::Unsupported(format!("{what} with weak memory")));
        }
        let Some(read) = slots_read(&step.action) else {
            if ahead.aside.is_empty() {
                return Ok(Turn::Execute);
            }
            let ends = matches!(step.action, Action::Exit)
                || matches!(step.action, Action::Return) && self.frames.is_empty();
            return Ok(self.wait(ahead, ends, world));
        };
        let held = read.iter().any(|&slot| ahead.holder(slot).is_some());
        let access = is_access(&step.action);
        if !held && !access {
            return Ok(Turn::Execute);
        }
        let local = access && self.may_be_local(step, ahead, world)?;
        if !held && local {
            return Ok(Turn::Execute);
        }
        if held && (local || !can_be_put_aside(&step.action)) {
            return Ok(self.wait(ahead, false, world));
        }
        let stage = if held {
            Some(Stage::Operands)
        } else {
            self.issue(step, ahead.at, world)?
        };
        if let Some(stage) = stage {
            let needs = match stage {
                Stage::Operands => {
                    let registers = &self.registers[self.base..];
                    let need = |slot: u32| match ahead.holder(slot) {
                        Some(number) => Need::Result(number),
                        None => Need::Value(registers[slot as usize]),
                    };
                    read.iter().map(|&slot| (slot, need(slot))).collect()
                }
                _ => Vec::new(),
            };
            ahead.next += 1;
            for to in results_of(&step.action) {
                ahead.release(to.slot);
                ahead.held.push((to.slot, ahead.next));
            }
            ahead.aside.push(Aside {
                number: ahead.next,
                at: ahead.at,
                function: self.function,
                pc: self.pc,
                needs,
                stage,
            });
        }
        Ok(Turn::Done)
    }

    /// The thread waits. What it may still write is noted.
    fn wait(&mut self, ahead: &Ahead, ends: bool, world: &mut World<'_>) -> Turn {
        self.state = State::AtLoad;
        let mut prospects = Vec::new();
        if !ends {
            prospects.push(Prospect::Anywhere);
        }
        for it in &ahead.aside {
            let action = &world.code[it.function].steps[it.pc].action;
            let (Action::Store { address, bytes, .. } | Action::Atomic { address, bytes, .. }) =
                action
            else {
                continue;
            };
            if !matches!(it.stage, Stage::Operands) {
                continue;
            }
            let count = match action {
                Action::Store { elements, .. } => elements.len(),
                Action::Atomic { operands, .. } => operands.len(),
                _ => 1,
            };
            prospects.push(match self.known_place(*address, it, world) {
                Some(place) => Prospect::Place(Place {
                    bytes: bytes * count as u32,
                    ..place
                }),
                None => Prospect::Anywhere,
            });
        }
        if let Model::Weak(weak) = &mut *world.model {
            weak.prospects.insert(self.actor.thread, prospects);
        }
        Turn::Wait
    }

    /// The place of an access that was put aside, where its address has come.
    fn known_place(&self, address: Address, it: &Aside, world: &World<'_>) -> Option<Place> {
        let value = match slot_of(address.base) {
            None => self.read(address.base, world).ok()?,
            Some(slot) => {
                let need = it.needs.iter().find(|(needed, _)| *needed == slot)?;
                let (Need::Value(value), Source::Register { mask, .. }) = (need.1, address.base)
                else {
                    return None;
                };
                value & mask
            }
        };
        let (space, start) = self.locate(address, value);
        self.place_of(space, start, 0, world).ok().flatten()
    }

    /// Whether an access may be one of local memory, which no other thread sees.
    fn may_be_local(
        &self,
        step: &Step,
        ahead: &Ahead,
        world: &World<'_>,
    ) -> Result<bool, FaultKind> {
        let (Action::Load { address, .. }
        | Action::Store { address, .. }
        | Action::Atomic { address, .. }) = &step.action
        else {
            return Ok(false);
        };
        if slot_of(address.base).is_some_and(|slot| ahead.holder(slot).is_some()) {
            let somewhere = matches!(address.space, Space::Generic | Space::Const);
            let private = !self.local.bytes.is_empty();
            return Ok(address.space == Space::Local || somewhere && private);
        }
        let (space, start) = self.resolve(*address, world)?;
        Ok(match space {
            Space::Local => true,
            Space::Generic | Space::Const => start >= FUNCTION_BASE,
            Space::Shared | Space::Cluster => false,
        })
    }

    /// The bytes that several threads can reach at an address; none where it is private or constant.
    pub(super) fn place_of(
        &self,
        space: Space,
        start: u64,
        bytes: u32,
        world: &World<'_>,
    ) -> Result<Option<Place>, FaultKind> {
        Ok(match space {
            Space::Generic | Space::Const => (start < FUNCTION_BASE).then_some(Place {
                region: 0,
                start,
                bytes,
            }),
            Space::Shared | Space::Cluster => {
                let failed = |problem| {
                    super::access::access("access", space, start, bytes as usize, problem)
                };
                let (rank, offset) =
                    super::access::shared_place(space, start, world).map_err(failed)?;
                Some(Place {
                    region: 1 + self.actor.cta - world.rank + rank as u32,
                    start: offset,
                    bytes,
                })
            }
            Space::Local => None,
        })
    }

    /// Adds the events of an access. Loads and atomics are not done by that.
    fn issue(
        &mut self,
        step: &Step,
        at: u32,
        world: &mut World<'_>,
    ) -> Result<Option<Stage>, FaultKind> {
        let (address, bytes, count, strength, kind) = match &step.action {
            Action::Load {
                address,
                bytes,
                elements,
                strength,
            } => (*address, *bytes, elements.len(), *strength, Kind::Read),
            Action::Store {
                address,
                bytes,
                elements,
                strength,
            } => (*address, *bytes, elements.len(), *strength, Kind::Write),
            Action::Atomic {
                address,
                bytes,
                operands,
                strength,
                seen,
                ..
            } => {
                let kind = Kind::Update { seen: *seen };
                (*address, *bytes, operands.len(), Some(*strength), kind)
            }
            _ => return Ok(None),
        };
        let (space, start) = self.resolve(address, world)?;
        super::access::aligned(start, bytes as usize * count, space)?;
        let mut events = Vec::with_capacity(count);
        for element in 0..count {
            let start = start + element as u64 * u64::from(bytes);
            // The access is checked; memory itself changes in the end.
            let there = self.bytes(space, start, bytes as usize, world)?.to_vec();
            if kind != Kind::Read {
                self.put(space, start, &there, world)?;
            }
            let Some(place) = self.place_of(space, start, bytes, world)? else {
                return Err(FaultKind::Unsupported(
                    "an address of local memory that depends on a load, with weak memory".into(),
                ));
            };
            let value = match &step.action {
                Action::Store { elements, .. } => Some(self.read(elements[element], world)?),
                _ => None,
            };
            let operands = match &step.action {
                Action::Atomic { operands, .. } => {
                    let [a, b] = operands[element];
                    [self.read(a, world)?, self.read(b, world)?]
                }
                _ => [0; 2],
            };
            let event = Event {
                actor: self.actor,
                at,
                kind,
                strength,
                place,
                sources: Vec::new(),
                value,
                span: step.span,
            };
            let Model::Weak(weak) = &mut *world.model else {
                return Ok(None);
            };
            events.push((weak.add(event)?, operands));
        }
        Ok(match kind {
            Kind::Read => Some(Stage::Loading(events.into_iter().map(|it| it.0).collect())),
            Kind::Update { .. } => Some(Stage::Updating(events)),
            _ => None,
        })
    }

    /// What a read gets, byte by byte.
    fn read_value(&self, id: Id, world: &World<'_>) -> Result<u64, FaultKind> {
        let Model::Weak(weak) = &*world.model else {
            return Ok(0);
        };
        let event = &weak.graph.events[id];
        let before = match event.place.region {
            0 => world
                .memory
                .read(event.place.start, event.place.bytes as usize)?,
            region => {
                let rank = region - 1 - (self.actor.cta - world.rank);
                let shared = &world.common.shared[rank as usize];
                let read = shared.read(event.place.start, event.place.bytes as usize);
                read.map_err(|problem| {
                    let bytes = event.place.bytes as usize;
                    super::access::access("read", Space::Shared, event.place.start, bytes, problem)
                })?
            }
        };
        let mut bytes = before.to_vec();
        for (byte, source) in event.sources.iter().enumerate() {
            if let Some(source) = source {
                let write = &weak.graph.events[*source];
                let at = event.place.start + byte as u64 - write.place.start;
                bytes[byte] = write.value.unwrap_or(0).to_le_bytes()[at as usize];
            }
        }
        Ok(little_endian(&bytes))
    }
}

fn is_access(action: &Action) -> bool {
    matches!(
        action,
        Action::Load { .. } | Action::Store { .. } | Action::Atomic { .. }
    )
}

fn can_be_put_aside(action: &Action) -> bool {
    match action {
        Action::Compute { carry, sources, .. } => {
            !carry && !sources.iter().any(|it| matches!(it, Source::Carry))
        }
        Action::Move { .. } | Action::Repack { .. } => true,
        _ => is_access(action),
    }
}

/// What is not explored yet, in words.
fn unexplored(action: &Action) -> Option<&'static str> {
    use crate::collective::Collective;
    Some(match action {
        Action::Atomic128 { .. } => "an atomic of 128 bits",
        Action::CopyLater { .. } => "cp.async",
        Action::Telling { .. } => "st.async or red.async",
        Action::Bulk(_) => "a bulk copy",
        Action::Image(_) => "a texture or surface",
        Action::Mbarrier(step)
            if matches!(
                step.action,
                crate::step::MbarrierAction::ArriveAfterCopies { .. }
            ) =>
        {
            "cp.async.mbarrier.arrive"
        }
        Action::Collective(step)
            if matches!(
                step.kind,
                Collective::LoadMatrix { .. }
                    | Collective::StoreMatrix { .. }
                    | Collective::LoadFragment(_)
                    | Collective::StoreFragment(_)
                    | Collective::WarpgroupMultiply(_)
            ) =>
        {
            "a matrix in memory"
        }
        _ => return None,
    })
}

fn slot_of(source: Source) -> Option<u32> {
    match source {
        Source::Register { slot, .. }
        | Source::Not { slot }
        | Source::Negated { slot, .. }
        | Source::Sum { slot, .. } => Some(slot),
        _ => None,
    }
}

/// The registers a step reads; `None` where it goes on only if nothing is put aside.
fn slots_read(action: &Action) -> Option<Vec<u32>> {
    let of = |sources: &[Source]| sources.iter().filter_map(|&it| slot_of(it)).collect();
    let with = |address: &Address, sources: &[Source]| {
        let all = sources.iter().copied().chain([address.base]);
        all.filter_map(slot_of).collect()
    };
    Some(match action {
        Action::Compute { sources, .. } | Action::Repack { sources, .. } => of(sources),
        Action::Move { moves } => moves.iter().filter_map(|it| slot_of(it.0)).collect(),
        Action::Load { address, .. } => with(address, &[]),
        Action::Store {
            address, elements, ..
        } => with(address, elements),
        Action::Atomic {
            address, operands, ..
        } => with(address, operands.as_flattened()),
        Action::IsSpace { address, .. } => of(&[*address]),
        Action::BranchIndexed { index, .. } => of(&[*index]),
        Action::Barrier {
            number,
            count,
            predicate,
            ..
        } => {
            let rest = [*count, *predicate];
            let all = rest.into_iter().flatten().chain([*number]);
            all.filter_map(slot_of).collect()
        }
        Action::Collective(step) => {
            let sources = step.sources.iter().copied().chain(step.members);
            let sources = sources.chain(step.address.map(|it| it.base));
            sources.filter_map(slot_of).collect()
        }
        Action::Mbarrier(step) => {
            let operand: Vec<Source> = step.operand.into_iter().collect();
            with(&step.address, &operand)
        }
        Action::Branch { .. }
        | Action::Fence(_)
        | Action::ClusterArrive { .. }
        | Action::ClusterWait { .. }
        | Action::Nothing => Vec::new(),
        _ => return None,
    })
}

/// Where the results of a step go that can be put aside.
fn results_of(action: &Action) -> Vec<Destination> {
    match action {
        Action::Compute { results, .. } => results.iter().copied().flatten().collect(),
        Action::Move { moves } => moves.iter().map(|it| it.1).collect(),
        Action::Repack { destinations, .. } => destinations.iter().copied().flatten().collect(),
        Action::Load { elements, .. } => elements.iter().copied().flatten().collect(),
        Action::Atomic { results, .. } => results.iter().copied().flatten().collect(),
        _ => Vec::new(),
    }
}
