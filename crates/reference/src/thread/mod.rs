//! One thread: its registers, its stack, and what each step does to them.

mod access;
mod ahead;
mod bulk;
mod calls;
mod mbarrier;
mod special;
mod texture;

pub(crate) use special::Special;

use crate::cluster::Common;
use crate::error::FaultKind;
use crate::launch::Launch;
use crate::library::little_endian;
use crate::memory::{Memory, RANK_SHIFT, Region};
use crate::model::Model;
use crate::order::{Actor, Meeting};
use crate::program::Code;
use crate::races::CopyEngine;
use crate::step::{Action, BarrierAction, Destination, OPERANDS, Source, Space};
use access::{PendingCopy, aligned, is_in, own_offset};
use ahead::{Ahead, Turn};
use calls::Frame;

/// Everything around a thread.
pub(crate) struct World<'w> {
    pub code: &'w [Code],
    pub memory: &'w mut Memory,
    /// What the CTAs of the cluster share.
    pub common: &'w mut Common,
    /// The CTA's number in the cluster.
    pub rank: u32,
    /// CTAs of the cluster along each dimension.
    pub cluster: [u32; 3],
    /// Whether kernel or launch asked for clusters.
    pub explicit_cluster: bool,
    pub printed: &'w mut Vec<u8>,
    /// Steps of all threads so far.
    pub steps: &'w mut u64,
    pub step_limit: u64,
    pub launch: &'w Launch,
    pub cta: [u32; 3],
    /// Bytes of shared memory of a CTA.
    pub shared_bytes: u64,
    pub model: &'w mut Model,
}

/// What a thread is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// Waits for others of its warp; what it brought.
    AtCollective {
        opcode: u32,
        members: u32,
        sources: Vec<u64>,
        /// Where its matrix is; an offset if that is shared memory.
        place: (Space, u64),
    },
    /// Waits at a barrier.
    AtBarrier(u32),
    /// Waits for the end of this phase of the cluster's barrier.
    AtClusterBarrier(u64),
    /// Waits until memory gives a load its value.
    AtLoad,
    Ended,
}

/// Something a thread told its CTA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BarrierArrival {
    pub number: u32,
    pub count: Option<u32>,
    pub predicate: bool,
    pub waits: bool,
}

/// A thread.
pub(crate) struct Thread {
    pub index: [u32; 3],
    pub actor: Actor,
    pub lane: u32,
    pub warp: u32,
    pub state: State,
    pub function: usize,
    pub pc: usize,
    /// Where the registers of the current function start.
    base: usize,
    registers: Vec<u64>,
    /// Which registers have been written, where that is checked.
    written: Option<Vec<bool>>,
    carry: u64,
    frames: Vec<Frame>,
    /// Where the frame of the current function starts in local memory.
    frame: u64,
    /// The first byte of local memory that is not in use.
    stack: u64,
    local: Region,
    /// Copies begun, in groups; the last is still open.
    copies: Vec<Vec<PendingCopy>>,
    /// A barrier the thread came to in its last step.
    pub arrived: Option<BarrierArrival>,
    /// The phase of the cluster's barrier in which it arrived last.
    pub cluster_arrival: Option<u64>,
    /// Looks at mbarriers since the last that found a phase to be over.
    pub looks: u32,
    /// The address of the mbarrier it looked at last.
    pub looked: Option<u64>,
    /// What waits for loads, where memory is weak.
    ahead: Option<Box<Ahead>>,
}

impl Thread {
    pub fn new(
        index: [u32; 3],
        actor: Actor,
        linear: u32,
        function: usize,
        code: &Code,
        launch: &Launch,
    ) -> Self {
        let checked = launch.check_uninitialised;
        Self {
            index,
            actor,
            lane: linear % 32,
            warp: linear / 32,
            state: State::Ready,
            function,
            pc: 0,
            base: 0,
            registers: vec![0; code.slots as usize],
            written: checked.then(|| vec![false; code.slots as usize]),
            carry: 0,
            frames: Vec::new(),
            frame: 0,
            stack: code.frame_bytes,
            local: Region::fresh(code.frame_bytes as usize, checked),
            copies: vec![Vec::new()],
            arrived: None,
            cluster_arrival: None,
            looks: 0,
            looked: None,
            ahead: launch.is_weak().then(Box::default),
        }
    }

    /// How many instructions it has executed, where that is counted.
    pub fn at(&self) -> u32 {
        self.ahead.as_ref().map_or(0, |ahead| ahead.at)
    }

    /// Where the instruction stands that it executes.
    pub fn span(&self, code: &[Code]) -> orias_ptx::Span {
        code[self.function].steps[self.pc].span
    }

    /// Executes steps until the thread has to wait, ends, or has made `turn` of them.
    pub fn run(&mut self, world: &mut World<'_>, turn: u64) -> Result<(), FaultKind> {
        let code = world.code;
        self.catch_up(world)?;
        for _ in 0..turn {
            if *world.steps >= world.step_limit {
                return Err(FaultKind::StepLimit(world.step_limit));
            }
            let step = &code[self.function].steps[self.pc];
            let considered = self.consider(step, world)?;
            if matches!(considered, Turn::Wait) {
                break;
            }
            *world.steps += 1;
            if matches!(considered, Turn::Done) {
                self.pc += 1;
                continue;
            }
            if let Some((slot, wanted)) = step.guard {
                let value = self.register(slot, world)?;
                if (value != 0) != wanted {
                    self.pc += 1;
                    continue;
                }
            }
            let looks = self.looks;
            self.watch(step, world)?;
            self.execute(&step.action, world)?;
            // The CTA must hear of one arrival before the next; nothing changes for one that looks in vain until others have run.
            if self.state != State::Ready || self.arrived.is_some() || self.looks > looks {
                break;
            }
        }
        Ok(())
    }

    fn execute(&mut self, action: &Action, world: &mut World<'_>) -> Result<(), FaultKind> {
        let next = self.pc + 1;
        match action {
            Action::Compute {
                function,
                sources,
                results,
                carry,
            } => {
                let mut operands = [0; OPERANDS];
                for (operand, source) in operands.iter_mut().zip(sources) {
                    *operand = self.read(*source, world)?;
                }
                let values = function(&operands);
                if *carry {
                    self.carry = values[1];
                    self.write_element(results[0], values[0]);
                } else {
                    self.write_element(results[0], values[0]);
                    self.write_element(results[1], values[1]);
                }
            }
            Action::Move { moves } => match moves[..] {
                [(source, destination)] => {
                    let value = self.read(source, world)?;
                    self.write(destination, value);
                }
                _ => {
                    let mut values = Vec::with_capacity(moves.len());
                    for (source, _) in moves {
                        values.push(self.read(*source, world)?);
                    }
                    for ((_, destination), value) in moves.iter().zip(values) {
                        self.write(*destination, value);
                    }
                }
            },
            Action::Repack {
                sources,
                source_bits,
                destinations,
                destination_bits,
            } => self.repack(
                sources,
                *source_bits,
                destinations,
                *destination_bits,
                world,
            )?,
            Action::Load {
                address,
                bytes,
                elements,
                ..
            } => self.load(*address, *bytes, elements, world)?,
            Action::Store {
                address,
                bytes,
                elements,
                ..
            } => self.store(*address, *bytes, elements, world)?,
            Action::Atomic {
                address,
                bytes,
                update,
                operands,
                results,
                ..
            } => {
                let (space, start) = self.resolve(*address, world)?;
                let size = *bytes as usize;
                aligned(start, size * operands.len(), space)?;
                for (at, (operand, result)) in operands.iter().zip(results).enumerate() {
                    let place = start + (at * size) as u64;
                    let old = little_endian(self.bytes(space, place, size, world)?);
                    let operand = [self.read(operand[0], world)?, self.read(operand[1], world)?];
                    let new = update(old, operand);
                    self.put(space, place, &new.to_le_bytes()[..size], world)?;
                    self.write_element(*result, old);
                }
            }
            Action::Atomic128 {
                address,
                compare,
                value,
                results,
                ..
            } => {
                let (space, start) = self.resolve(*address, world)?;
                aligned(start, 16, space)?;
                let bytes = self.bytes(space, start, 16, world)?;
                let old = [little_endian(&bytes[..8]), little_endian(&bytes[8..])];
                let equal = match compare {
                    Some([low, high]) => old == [self.read(*low, world)?, self.read(*high, world)?],
                    None => true,
                };
                if equal {
                    let new = [self.read(value[0], world)?, self.read(value[1], world)?];
                    self.put(space, start, &new.map(u64::to_le_bytes).concat(), world)?;
                }
                self.write_element(results[0], old[0]);
                self.write_element(results[1], old[1]);
            }
            Action::CopyLater {
                to,
                from,
                bytes,
                kept,
            } => {
                let mut copy = PendingCopy {
                    count: None,
                    to: self.resolve(*to, world)?,
                    from: self.resolve(*from, world)?,
                    bytes: *bytes as usize,
                    kept: self.read(*kept, world)?.min(u64::from(*bytes)) as usize,
                };
                aligned(copy.to.1, copy.bytes, copy.to.0)?;
                aligned(copy.from.1, copy.bytes, copy.from.0)?;
                copy.count = self.watch_copy(&copy, self.span(world.code), world)?;
                if let Some(group) = self.copies.last_mut() {
                    group.push(copy);
                }
            }
            Action::Bulk(step) => self.bulk(step, world)?,
            Action::Image(step) => self.image(step, world)?,
            Action::CommitCopies => self.copies.push(Vec::new()),
            Action::WaitCopies { open } => {
                if let Some(count) = self.finish_copies(*open, world)?
                    && let Model::Watched(races) = &mut *world.model
                {
                    races.finish_copies(self.actor, CopyEngine::Thread, count);
                }
            }
            Action::IsSpace {
                address,
                space,
                result,
            } => {
                let address = self.read(*address, world)?;
                self.write(*result, is_in(address, *space, world).into());
            }
            Action::Allocate {
                size,
                alignment,
                result,
            } => {
                let start = self.stack.next_multiple_of(*alignment);
                let size = self.read(*size, world)?;
                self.reserve(start.saturating_add(size))?;
                self.write(*result, start);
            }
            Action::SaveStack { result } => self.write(*result, self.stack),
            Action::RestoreStack { source } => {
                let stack = self.read(*source, world)?;
                if stack > self.local.bytes.len() as u64 {
                    return Err(FaultKind::Undefined(format!(
                        "stackrestore of {stack:#x}, which stacksave did not return"
                    )));
                }
                self.stack = stack;
            }
            Action::Branch { target } => {
                self.pc = *target;
                return Ok(());
            }
            Action::BranchIndexed { index, targets } => {
                let index = self.read(*index, world)?;
                let target = usize::try_from(index).ok().and_then(|at| targets.get(at));
                self.pc = *target.ok_or_else(|| {
                    FaultKind::Undefined(format!(
                        "brx.idx with index {index} into {} targets",
                        targets.len()
                    ))
                })?;
                return Ok(());
            }
            Action::Call(call) => return self.call(call, world),
            Action::Return => return self.return_to_caller(world),
            Action::Exit => {
                self.finish_copies(None, world)?;
                self.state = State::Ended;
                return Ok(());
            }
            Action::Collective(step) => {
                let mut sources = Vec::with_capacity(step.sources.len());
                for source in &step.sources {
                    sources.push(self.read(*source, world)?);
                }
                let members = match step.members {
                    Some(members) => self.read(members, world)? as u32,
                    None => u32::MAX,
                };
                if members >> self.lane & 1 == 0 {
                    return Err(FaultKind::Undefined(format!(
                        "lane {} executes it without being in the member mask {members:#x}",
                        self.lane
                    )));
                }
                let place = match step.address {
                    Some(address) => match self.resolve(address, world)? {
                        (Space::Shared | Space::Cluster, at) => {
                            (Space::Shared, own_offset(at, world.rank)?)
                        }
                        place @ (Space::Generic, _) if step.kind.reaches_global() => place,
                        (_, address) => {
                            let where_not = match step.kind.reaches_global() {
                                true => "in global or shared memory",
                                false => "in shared memory",
                            };
                            return Err(FaultKind::Undefined(format!(
                                "a matrix at {address:#x}, which is not {where_not}"
                            )));
                        }
                    },
                    None => (Space::Shared, 0),
                };
                // The step goes on once all are here.
                self.state = State::AtCollective {
                    opcode: step.opcode,
                    members,
                    sources,
                    place,
                };
                return Ok(());
            }
            Action::Barrier {
                action,
                number,
                count,
                predicate,
                result: _,
            } => {
                let number = self.read(*number, world)? as u32;
                if number > 15 {
                    return Err(FaultKind::Undefined(format!("barrier {number} of 16")));
                }
                let count = match count {
                    Some(count) => Some(self.read(*count, world)? as u32),
                    None => None,
                };
                let predicate = match predicate {
                    Some(predicate) => self.read(*predicate, world)? != 0,
                    None => false,
                };
                let waits = *action != BarrierAction::Arrive;
                self.arrived = Some(BarrierArrival {
                    number,
                    count,
                    predicate,
                    waits,
                });
                if waits {
                    self.state = State::AtBarrier(number);
                    return Ok(());
                }
            }
            Action::Mbarrier(step) => self.mbarrier(step, world)?,
            Action::Telling {
                action,
                barrier,
                bytes,
            } => {
                self.execute(action, world)?;
                self.complete_transactions(*barrier, *bytes, world)?;
            }
            Action::Fence(strength) => {
                let span = self.span(world.code);
                world.model.fence(self.actor, self.at(), *strength, span)?;
            }
            Action::ClusterArrive { releases } => {
                if *releases {
                    let (meeting, span) = (self.cluster_meeting(world), self.span(world.code));
                    world.model.arrive(self.actor, self.at(), meeting, span)?;
                }
                let barrier = &mut world.common.barrier;
                if self.cluster_arrival == Some(barrier.generation) {
                    return Err(FaultKind::Undefined(
                        "an arrival at the cluster's barrier before the wait for the one before"
                            .into(),
                    ));
                }
                self.cluster_arrival = Some(barrier.generation);
                barrier.arrive();
            }
            Action::ClusterWait { acquires } => {
                let Some(generation) = self.cluster_arrival else {
                    return Err(FaultKind::Undefined(
                        "a wait at the cluster's barrier without an arrival".into(),
                    ));
                };
                if generation == world.common.barrier.generation {
                    self.state = State::AtClusterBarrier(generation);
                    return Ok(());
                }
                if *acquires {
                    self.leave_cluster_barrier(generation, world.code, world.model)?;
                }
            }
            Action::Trap => return Err(FaultKind::Trap),
            Action::Breakpoint => return Err(FaultKind::Breakpoint),
            Action::Nothing => {}
            Action::Unsupported(what) => return Err(FaultKind::Unsupported(what.clone())),
        }
        self.pc = next;
        Ok(())
    }

    fn cluster_meeting(&self, world: &World<'_>) -> Meeting {
        Meeting::Cluster {
            cluster: self.actor.cluster,
            generation: world.common.barrier.generation,
        }
    }

    /// Goes on behind a phase of the cluster's barrier.
    fn leave_cluster_barrier(
        &self,
        generation: u64,
        code: &[Code],
        model: &mut Model,
    ) -> Result<(), FaultKind> {
        let meeting = Meeting::Cluster {
            cluster: self.actor.cluster,
            generation,
        };
        model.depart(self.actor, self.at(), meeting, self.span(code))
    }

    /// Goes on behind the cluster's barrier at which it waited.
    pub fn pass_cluster_barrier(
        &mut self,
        generation: u64,
        code: &[Code],
        model: &mut Model,
    ) -> Result<(), FaultKind> {
        let action = &code[self.function].steps[self.pc].action;
        if matches!(action, Action::ClusterWait { acquires: true }) {
            self.leave_cluster_barrier(generation, code, model)?;
        }
        self.resume(&[], &[]);
        Ok(())
    }

    /// Goes on after waiting, with the results of what it waited for.
    pub fn resume(&mut self, results: &[Option<Destination>], values: &[u64]) {
        for (result, value) in results.iter().zip(values) {
            self.write_element(*result, *value);
        }
        self.state = State::Ready;
        self.pc += 1;
    }

    fn register(&self, slot: u32, world: &World<'_>) -> Result<u64, FaultKind> {
        let at = self.base + slot as usize;
        if let Some(written) = &self.written
            && !written[at]
        {
            let name = &world.code[self.function].slot_names[slot as usize];
            return Err(FaultKind::Uninitialised(name.clone()));
        }
        Ok(self.registers[at])
    }

    fn read(&self, source: Source, world: &World<'_>) -> Result<u64, FaultKind> {
        Ok(match source {
            Source::Register { slot, mask } => self.register(slot, world)? & mask,
            Source::Not { slot } => self.register(slot, world)? ^ 1,
            Source::Negated { slot, mask } => self.register(slot, world)?.wrapping_neg() & mask,
            Source::Sum {
                slot,
                mask,
                constant,
            } => self.register(slot, world)?.wrapping_add(constant) & mask,
            Source::SpecialSum {
                special,
                mask,
                constant,
            } => self.special(special, world).wrapping_add(constant) & mask,
            Source::Constant(value) => value,
            Source::Special(special) => self.special(special, world),
            Source::Frame(offset) => self.frame + offset,
            Source::Shared(offset) => offset + (u64::from(world.rank) << RANK_SHIFT),
            Source::Carry => self.carry,
            Source::Stored(address) => little_endian(world.memory.read(address, 8)?),
        })
    }

    fn write(&mut self, destination: Destination, value: u64) {
        if let Some(ahead) = &mut self.ahead {
            ahead.release(destination.slot);
        }
        let at = self.base + destination.slot as usize;
        self.registers[at] = destination.extend(value);
        if let Some(written) = &mut self.written {
            written[at] = true;
        }
    }

    fn write_element(&mut self, destination: Option<Destination>, value: u64) {
        if let Some(destination) = destination {
            self.write(destination, value);
        }
    }

    fn repack(
        &mut self,
        sources: &[Source],
        source_bits: u32,
        destinations: &[Option<Destination>],
        destination_bits: u32,
        world: &World<'_>,
    ) -> Result<(), FaultKind> {
        let mut whole = 0u128;
        for (at, source) in sources.iter().enumerate() {
            whole |= u128::from(self.read(*source, world)?) << (at as u32 * source_bits);
        }
        let mask = u64::MAX >> (64 - destination_bits);
        for (at, destination) in destinations.iter().enumerate() {
            let part = (whole >> (at as u32 * destination_bits)) as u64 & mask;
            self.write_element(*destination, part);
        }
        Ok(())
    }
}
