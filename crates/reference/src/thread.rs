//! One thread: its registers, its stack, and what each step does to them.

use crate::error::FaultKind;
use crate::launch::Launch;
use crate::library::little_endian;
use crate::memory::{
    CONSTANT_BASE, FUNCTION_BASE, LOCAL_WINDOW, Memory, MemoryError, PARAMETER_BASE, Problem,
    Region, SHARED_WINDOW, WINDOW_BYTES,
};
use crate::program::{Code, Formal};
use crate::step::{
    Action, Address, BarrierAction, Call, Callee, Destination, OPERANDS, Passed, Returned, Source,
    Space, SpaceTest,
};

/// Bytes of local memory a thread has at most, as on the device.
const STACK_LIMIT: u64 = 512 << 10;

/// Everything around a thread.
pub(crate) struct World<'w> {
    pub code: &'w [Code],
    pub memory: &'w mut Memory,
    pub shared: &'w mut Region,
    pub printed: &'w mut Vec<u8>,
    /// Steps of all threads so far.
    pub steps: &'w mut u64,
    pub step_limit: u64,
    pub launch: &'w Launch,
    pub cta: [u32; 3],
    /// Bytes of shared memory of a CTA.
    pub shared_bytes: u64,
}

/// A special register.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Special {
    /// `%tid`, and which component.
    Thread(u8),
    /// `%ntid`
    Threads(u8),
    /// `%ctaid`
    Cta(u8),
    /// `%nctaid`
    Ctas(u8),
    Lane,
    Warp,
    /// Warps that a multiprocessor has room for.
    WarpSlots,
    /// Lanes equal, at most, below, at least, above this one.
    LaneMask(fn(u32, u32) -> bool),
    /// Steps executed so far, from that bit on.
    Clock(u8),
    DynamicShared,
    TotalShared,
    /// What does not matter here, with its value.
    Fixed(u64),
}

impl Special {
    /// The register of that name and component; `None` where it is not known here.
    pub fn of(special: orias_ptx::special::Special, component: u8) -> Option<Self> {
        // A vector without component is its first where one value is wanted.
        let component = if component == 255 { 0 } else { component };
        Some(match special.register().name {
            "%tid" => Self::Thread(component),
            "%ntid" => Self::Threads(component),
            "%ctaid" | "%clusterid" => Self::Cta(component),
            "%nctaid" | "%nclusterid" => Self::Ctas(component),
            "%laneid" => Self::Lane,
            "%warpid" => Self::Warp,
            "%nwarpid" => Self::WarpSlots,
            "%lanemask_eq" => Self::LaneMask(|other, lane| other == lane),
            "%lanemask_le" => Self::LaneMask(|other, lane| other <= lane),
            "%lanemask_lt" => Self::LaneMask(|other, lane| other < lane),
            "%lanemask_ge" => Self::LaneMask(|other, lane| other >= lane),
            "%lanemask_gt" => Self::LaneMask(|other, lane| other > lane),
            "%clock" | "%clock64" | "%globaltimer" | "%globaltimer_lo" => Self::Clock(0),
            "%clock_hi" | "%globaltimer_hi" => Self::Clock(32),
            "%dynamic_smem_size" => Self::DynamicShared,
            "%total_smem_size" | "%aggr_smem_size" => Self::TotalShared,
            "%smid"
            | "%gridid"
            | "%is_explicit_cluster"
            | "%cluster_ctarank"
            | "%envreg"
            | "%current_graph_exec" => Self::Fixed(0),
            "%nsmid" | "%cluster_nctarank" => Self::Fixed(1),
            // A cluster is one CTA.
            "%cluster_ctaid" => Self::Fixed(0),
            "%cluster_nctaid" => Self::Fixed(1),
            _ => return None,
        })
    }
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
        address: u64,
    },
    /// Waits at a barrier.
    AtBarrier(u32),
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

/// A place to return to.
struct Frame {
    function: usize,
    pc: usize,
    registers: usize,
    frame: u64,
    stack: u64,
}

/// A copy that has not happened yet.
#[derive(Clone, Copy)]
struct PendingCopy {
    to: (Space, u64),
    from: (Space, u64),
    bytes: usize,
    kept: usize,
}

/// A thread.
pub(crate) struct Thread {
    pub index: [u32; 3],
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
}

impl Thread {
    pub fn new(index: [u32; 3], linear: u32, function: usize, code: &Code, checked: bool) -> Self {
        Self {
            index,
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
        }
    }

    /// Executes steps until the thread has to wait, ends, or has made `turn` of them.
    pub fn run(&mut self, world: &mut World<'_>, turn: u64) -> Result<(), FaultKind> {
        let code = world.code;
        for _ in 0..turn {
            if *world.steps >= world.step_limit {
                return Err(FaultKind::StepLimit(world.step_limit));
            }
            *world.steps += 1;
            let step = &code[self.function].steps[self.pc];
            if let Some((slot, wanted)) = step.guard {
                let value = self.register(slot, world)?;
                if (value != 0) != wanted {
                    self.pc += 1;
                    continue;
                }
            }
            self.execute(&step.action, world)?;
            if self.state != State::Ready {
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
            } => self.load(*address, *bytes, elements, world)?,
            Action::Store {
                address,
                bytes,
                elements,
            } => self.store(*address, *bytes, elements, world)?,
            Action::Atomic {
                address,
                bytes,
                update,
                operands,
                results,
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
                let copy = PendingCopy {
                    to: self.resolve(*to, world)?,
                    from: self.resolve(*from, world)?,
                    bytes: *bytes as usize,
                    kept: self.read(*kept, world)?.min(u64::from(*bytes)) as usize,
                };
                aligned(copy.to.1, copy.bytes, copy.to.0)?;
                aligned(copy.from.1, copy.bytes, copy.from.0)?;
                if let Some(group) = self.copies.last_mut() {
                    group.push(copy);
                }
            }
            Action::CommitCopies => self.copies.push(Vec::new()),
            Action::WaitCopies { open } => self.finish_copies(*open, world)?,
            Action::IsSpace {
                address,
                space,
                result,
            } => {
                let address = self.read(*address, world)?;
                self.write(*result, is_in(address, *space).into());
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
                let address = match step.address {
                    Some(address) => match self.resolve(address, world)? {
                        (Space::Shared, offset) => offset,
                        (_, address) => {
                            return Err(FaultKind::Undefined(format!(
                                "a matrix at {address:#x}, which is not in shared memory"
                            )));
                        }
                    },
                    None => 0,
                };
                // The step goes on once all are here.
                self.state = State::AtCollective {
                    opcode: step.opcode,
                    members,
                    sources,
                    address,
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
            Action::Trap => return Err(FaultKind::Trap),
            Action::Breakpoint => return Err(FaultKind::Breakpoint),
            Action::Nothing => {}
            Action::Unsupported(what) => return Err(FaultKind::Unsupported(what.clone())),
        }
        self.pc = next;
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
            Source::Constant(value) => value,
            Source::Special(special) => self.special(special, world),
            Source::Frame(offset) => self.frame + offset,
            Source::Carry => self.carry,
        })
    }

    fn special(&self, special: Special, world: &World<'_>) -> u64 {
        let component = |of: [u32; 3], at: u8| of.get(usize::from(at)).copied().unwrap_or(0);
        match special {
            Special::Thread(at) => component(self.index, at).into(),
            Special::Threads(at) => component(world.launch.block, at).into(),
            Special::Cta(at) => component(world.cta, at).into(),
            Special::Ctas(at) => component(world.launch.grid, at).into(),
            Special::Lane => self.lane.into(),
            Special::Warp => self.warp.into(),
            Special::WarpSlots => 64,
            Special::LaneMask(holds) => (0..32)
                .filter(|&other| holds(other, self.lane))
                .fold(0, |mask, other| mask | 1 << other),
            Special::Clock(from) => *world.steps >> from,
            Special::DynamicShared => world.launch.dynamic_shared.into(),
            Special::TotalShared => world.shared_bytes,
            Special::Fixed(value) => value,
        }
    }

    fn write(&mut self, destination: Destination, value: u64) {
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

    /// The space and the place an address means.
    fn resolve(&self, address: Address, world: &World<'_>) -> Result<(Space, u64), FaultKind> {
        let base = self.read(address.base, world)?;
        let value = base.wrapping_add_signed(address.offset);
        Ok(match address.space {
            Space::Generic => match value {
                _ if value.wrapping_sub(SHARED_WINDOW) < WINDOW_BYTES => {
                    (Space::Shared, value - SHARED_WINDOW)
                }
                _ if value.wrapping_sub(LOCAL_WINDOW) < WINDOW_BYTES => {
                    (Space::Local, value - LOCAL_WINDOW)
                }
                _ => (Space::Generic, value),
            },
            // Addresses of these have 32 bits that count.
            space => (space, value & 0xffff_ffff),
        })
    }

    fn bytes<'w>(
        &'w self,
        space: Space,
        address: u64,
        length: usize,
        world: &'w World<'_>,
    ) -> Result<&'w [u8], FaultKind> {
        let failed = |problem| access("read", space, address, length, problem);
        Ok(match space {
            Space::Generic => world.memory.read(address, length)?,
            Space::Shared => world.shared.read(address, length).map_err(failed)?,
            Space::Local => self.local.read(address, length).map_err(failed)?,
        })
    }

    fn put(
        &mut self,
        space: Space,
        address: u64,
        bytes: &[u8],
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
        let failed = |problem| access("write", space, address, bytes.len(), problem);
        match space {
            Space::Generic => world.memory.write(address, bytes)?,
            Space::Shared => world.shared.write(address, bytes).map_err(failed)?,
            Space::Local => self.local.write(address, bytes).map_err(failed)?,
        }
        Ok(())
    }

    fn load(
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

    fn store(
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

    /// Makes the copies of all closed groups but the last `open` ones happen, or all copies.
    fn finish_copies(
        &mut self,
        open: Option<usize>,
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
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
        }
        if self.copies.is_empty() {
            self.copies.push(Vec::new());
        }
        Ok(())
    }

    /// Makes local memory reach up to `end`.
    fn reserve(&mut self, end: u64) -> Result<(), FaultKind> {
        if end > STACK_LIMIT {
            return Err(FaultKind::StackOverflow(STACK_LIMIT));
        }
        self.local.forget(self.stack as usize);
        self.local.grow(end as usize);
        self.stack = end;
        Ok(())
    }

    fn call(&mut self, call: &Call, world: &mut World<'_>) -> Result<(), FaultKind> {
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            arguments.push(match *argument {
                Passed::Value { source, bytes } => {
                    let value = self.read(source, world)?.to_le_bytes();
                    value[..(bytes as usize).min(8)].to_vec()
                }
                Passed::Frame { offset, bytes } => {
                    let start = (self.frame + offset) as usize;
                    self.local.bytes[start..start + bytes as usize].to_vec()
                }
                Passed::Nothing => Vec::new(),
            });
        }
        let callee = match &call.callee {
            Callee::Function(number) => *number,
            Callee::Library(routine) => {
                let arguments: Vec<u64> = arguments.iter().map(|it| little_endian(it)).collect();
                let local = &self.local;
                let shared = &*world.shared;
                let read = |memory: &Memory, address: u64, length: usize| {
                    let offset = address.wrapping_sub(LOCAL_WINDOW);
                    let in_shared = address.wrapping_sub(SHARED_WINDOW);
                    let bytes = if offset < WINDOW_BYTES {
                        local.read(offset, length).ok()
                    } else if in_shared < WINDOW_BYTES {
                        shared.read(in_shared, length).ok()
                    } else {
                        memory.read(address, length).ok()
                    };
                    bytes.map(<[u8]>::to_vec)
                };
                let value = routine.call(&arguments, world.memory, world.printed, &read)?;
                self.pc += 1;
                return self.take_results(&call.results, &[value.to_le_bytes().to_vec()]);
            }
            Callee::Indirect(source) => {
                let address = self.read(*source, world)?;
                let number = address.wrapping_sub(FUNCTION_BASE) / 16;
                let known = number < world.code.len() as u64 && address.is_multiple_of(16);
                if !known {
                    return Err(FaultKind::Undefined(format!(
                        "a call of {address:#x}, which is no function"
                    )));
                }
                number as usize
            }
        };
        let code = &world.code[callee];
        if arguments.len() != code.parameters.len() || call.results.len() != code.returns.len() {
            return Err(FaultKind::Undefined(format!(
                "a call of '{}' with {} arguments and {} results instead of {} and {}",
                code.name,
                arguments.len(),
                call.results.len(),
                code.parameters.len(),
                code.returns.len()
            )));
        }
        self.frames.push(Frame {
            function: self.function,
            pc: self.pc,
            registers: self.base,
            frame: self.frame,
            stack: self.stack,
        });
        let frame = self.stack.next_multiple_of(16);
        self.reserve(frame + code.frame_bytes)?;
        // A function without frame can still call itself for ever.
        if self.frames.len() as u64 > STACK_LIMIT / 16 {
            return Err(FaultKind::StackOverflow(STACK_LIMIT));
        }
        self.base = self.registers.len();
        self.registers.resize(self.base + code.slots as usize, 0);
        if let Some(written) = &mut self.written {
            written.resize(self.registers.len(), false);
        }
        self.frame = frame;
        self.function = callee;
        self.pc = 0;
        for (formal, bytes) in code.parameters.iter().zip(&arguments) {
            match *formal {
                Formal::Register { slot, bytes: size } => {
                    let size = (size as usize).min(bytes.len());
                    self.write(
                        Destination {
                            slot,
                            mask: u64::MAX,
                            signed_bits: None,
                        },
                        little_endian(&bytes[..size]),
                    );
                }
                Formal::Frame {
                    offset,
                    bytes: size,
                } => {
                    let size = (size as usize).min(bytes.len());
                    let place = self.frame + offset;
                    self.put(Space::Local, place, &bytes[..size], world)?;
                }
            }
        }
        Ok(())
    }

    fn return_to_caller(&mut self, world: &mut World<'_>) -> Result<(), FaultKind> {
        let code = &world.code[self.function];
        let Some(frame) = self.frames.pop() else {
            self.finish_copies(None, world)?;
            self.state = State::Ended;
            return Ok(());
        };
        let values: Vec<Vec<u8>> = code
            .returns
            .iter()
            .map(|formal| match *formal {
                Formal::Register { slot, bytes } => {
                    let value = self.registers[self.base + slot as usize].to_le_bytes();
                    value[..(bytes as usize).min(8)].to_vec()
                }
                Formal::Frame { offset, bytes } => {
                    let start = (self.frame + offset) as usize;
                    self.local.bytes[start..start + bytes as usize].to_vec()
                }
            })
            .collect();
        self.registers.truncate(self.base);
        if let Some(written) = &mut self.written {
            written.truncate(self.base);
        }
        self.base = frame.registers;
        self.frame = frame.frame;
        self.stack = frame.stack;
        self.function = frame.function;
        self.pc = frame.pc;
        let Action::Call(call) = &world.code[self.function].steps[self.pc].action else {
            return Err(FaultKind::Undefined("a return to no call".into()));
        };
        self.pc += 1;
        self.take_results(&call.results, &values)
    }

    fn take_results(&mut self, results: &[Returned], values: &[Vec<u8>]) -> Result<(), FaultKind> {
        for (result, bytes) in results.iter().zip(values) {
            match *result {
                Returned::Register { slot, mask } => self.write(
                    Destination {
                        slot,
                        mask,
                        signed_bits: None,
                    },
                    little_endian(bytes),
                ),
                Returned::Frame {
                    offset,
                    bytes: size,
                } => {
                    let size = (size as usize).min(bytes.len());
                    let place = self.frame + offset;
                    self.local
                        .write(place, &bytes[..size])
                        .map_err(|problem| access("write", Space::Local, place, size, problem))?;
                }
                Returned::Nothing => {}
            }
        }
        Ok(())
    }
}

fn access(
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
            Space::Shared => "shared",
            Space::Local => "local",
        },
        problem,
    }
}

/// Accesses must be aligned to their whole size.
fn aligned(address: u64, bytes: usize, space: Space) -> Result<(), FaultKind> {
    if bytes == 0 || address.is_multiple_of(bytes.next_power_of_two() as u64) {
        Ok(())
    } else {
        Err(access("access", space, address, bytes, Problem::Misaligned).into())
    }
}

/// Whether a generic address lies in a space.
fn is_in(address: u64, space: SpaceTest) -> bool {
    let in_window = |base: u64| address.wrapping_sub(base) < WINDOW_BYTES;
    let constant = (CONSTANT_BASE..PARAMETER_BASE).contains(&address);
    let parameter = (PARAMETER_BASE..SHARED_WINDOW).contains(&address);
    match space {
        SpaceTest::Shared => in_window(SHARED_WINDOW),
        SpaceTest::Local => in_window(LOCAL_WINDOW),
        SpaceTest::Const => constant,
        SpaceTest::Param => parameter,
        SpaceTest::Global => {
            !in_window(SHARED_WINDOW) && !in_window(LOCAL_WINDOW) && !constant && !parameter
        }
    }
}
