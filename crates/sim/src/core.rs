//! One warp in the act of running an instruction: its registers, its block, the device, and time.

use crate::access::Space;
use crate::block::BlockState;
use crate::cluster::Peers;
use crate::fault::Cause;
use crate::flight::{Due, LateStore, Written};
use crate::launch::{Context, FindingKind};
use crate::operand::Lanes;
use crate::order::LaneOrder;
use crate::program::{Action, Run, Step};
use crate::reuse::Reused;
use crate::schedule::Schedule;
use crate::warp::Warp;
use orias_sass::{Register, RegisterClass};

/// What an instruction's semantics may touch.
pub(crate) struct Core<'a> {
    pub warp: &'a mut Warp,
    pub block: &'a mut BlockState,
    /// The other blocks of the cluster.
    pub peers: Peers<'a>,
    pub context: &'a Context<'a>,
    /// The lanes that run the instruction: those of the group whose guard holds.
    pub active: u32,
    /// The lanes of the group, whatever their guards.
    pub group: u32,
    /// Index of the instruction.
    pub index: usize,
    /// Whether a guard is being read.
    pub guarding: bool,
    /// The place of the pending instruction that is being run, if it is one.
    pub position: Option<usize>,
    /// A register that was touched without being declared.
    pub violation: Option<Register>,
    /// The lanes in which what the instruction computes comes from a register that was never written.
    pub unwritten: u32,
    /// That register, if there are such lanes.
    pub origin: u8,
    /// Whether what is read is only saved.
    pub saving: bool,
}

/// Cycles that went by before an instruction was issued.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waited {
    pub stalled: u64,
    pub waited: u64,
}

impl<'a> Core<'a> {
    #[cold]
    pub fn violate(&mut self, register: Register) {
        self.violation.get_or_insert(register);
    }

    /// The timing of the instruction that runs.
    fn schedule(&self) -> Option<&'a Schedule> {
        self.context
            .kernel
            .program
            .steps
            .get(self.index)
            .and_then(|step| step.schedule.as_ref())
    }

    /// The same, where time is looked at.
    #[inline]
    fn timed_schedule(&self) -> Option<&'a Schedule> {
        match self.warp.flight.is_timed() {
            true => self.schedule(),
            false => None,
        }
    }

    /// A general register.
    #[inline]
    pub fn r(&mut self, index: u8) -> Lanes {
        if index == 255 {
            return [0; 32];
        }
        if self.context.options.checks.registers {
            self.check_written(index);
        }
        if self.context.options.checks.hazards {
            self.check_read(Register::r(index));
        }
        if let Some(at) = self.position
            && let Some(stale) = self.warp.flight.pending(at).stale(index)
        {
            return *stale;
        }
        if self.position.is_none()
            && let Some(kept) = self.warp.flight.reuse.served(index)
        {
            return *kept;
        }
        let value = self.warp.registers.r[usize::from(index)];
        if self.warp.flight.has_landing(RegisterClass::R, index) {
            return self.r_in_flight(index, value);
        }
        value
    }

    /// What `read` gives, where only these lanes take it: in others it does not matter whether it was written.
    pub fn chosen(&mut self, lanes: u32, read: impl FnOnce(&mut Self) -> Lanes) -> Lanes {
        let before = std::mem::take(&mut self.unwritten);
        let value = read(self);
        self.unwritten = before | self.unwritten & lanes;
        value
    }

    /// What `read` gives, where it is saved only.
    pub fn saved<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        self.saving = true;
        let value = read(self);
        self.saving = false;
        value
    }

    #[cold]
    fn r_in_flight(&self, index: u8, mut value: Lanes) -> Lanes {
        if let Some(schedule) = self.schedule() {
            let flight = &self.warp.flight;
            for write in flight.visible(RegisterClass::R, index, schedule, self.guarding) {
                write.over(&mut value);
            }
        }
        value
    }

    /// Who only computes passes on what was never written, as who saves it does: it is a finding where something depends on it.
    #[cold]
    fn check_written(&mut self, index: u8) {
        let unwritten = self.active & !self.warp.registers.written[usize::from(index)];
        if unwritten != 0 && !self.warp.flight.has_landing(RegisterClass::R, index) {
            let origin = self.warp.registers.origin[usize::from(index)];
            let step = self.context.kernel.program.steps.get(self.index);
            if self.saving || step.is_some_and(|step| step.computes) {
                self.unwritten |= unwritten;
                self.origin = origin;
                return;
            }
            self.warp.registers.written[usize::from(index)] |= unwritten;
            let lane = unwritten.trailing_zeros() as usize;
            self.find(lane, FindingKind::UnwrittenRegister(Register::r(origin)));
        }
    }

    /// Looks for a result that should be in a register but is still under way.
    #[cold]
    fn check_read(&mut self, register: Register) {
        let uniform = matches!(register.class, RegisterClass::UR | RegisterClass::UP);
        let lanes = if uniform { u32::MAX } else { self.active };
        // Predicates and uniform registers of a pending instruction were read when it was issued.
        if self.position.is_some() && register.class != RegisterClass::R {
            return;
        }
        let Some(reader) = self.schedule().filter(|_| self.warp.flight.is_timed()) else {
            return;
        };
        let steps = &self.context.kernel.program.steps;
        let schedule_of = |index: usize| steps.get(index).and_then(|step| step.schedule.as_ref());
        let unseen = self.warp.flight.unseen(
            register,
            lanes,
            reader,
            self.guarding,
            self.position,
            schedule_of,
        );
        if let Some(producer) = unseen {
            let producer = producer as u64 * 16;
            let lane = self.active.trailing_zeros().min(31) as usize;
            self.find(lane, FindingKind::EarlyRead { register, producer });
        }
    }

    /// Looks for an earlier instruction that has yet to read a register that is written now.
    #[cold]
    fn check_write(&mut self, register: Register) {
        if self.position.is_some() || !self.warp.flight.is_timed() {
            return;
        }
        let steps = &self.context.kernel.program.steps;
        let schedule_of = |index: usize| steps.get(index).and_then(|step| step.schedule.as_ref());
        if let Some(reader) = self.warp.flight.unread(register, self.active, schedule_of) {
            let reader = reader as u64 * 16;
            let lane = self.active.trailing_zeros().min(31) as usize;
            self.find(lane, FindingKind::EarlyWrite { register, reader });
        }
    }

    /// Writes a general register in the lanes that run.
    #[inline]
    pub fn put_r(&mut self, index: u8, value: &Lanes) {
        if index == 255 || self.active == 0 {
            return;
        }
        if self.context.options.checks.hazards {
            self.check_write(Register::r(index));
        }
        let schedule = self.timed_schedule();
        let warp = &mut *self.warp;
        let written = Written {
            mask: self.active,
            known: self.active & !self.unwritten,
        };
        if written.known != written.mask {
            warp.registers.origin[usize::from(index)] = self.origin;
        }
        warp.flight
            .write_r(&mut warp.registers, index, written, value, schedule);
    }

    /// A register that is one word for all lanes, as the instruction sees it: what it holds is `value`.
    #[inline]
    fn shared_word(&mut self, register: Register, value: u32) -> u32 {
        if self.context.options.checks.hazards {
            self.check_read(register);
        }
        let Register { class, index } = register;
        if self.warp.flight.has_landing(class, index) {
            return self.word_in_flight(class, index, value);
        }
        value
    }

    #[cold]
    fn word_in_flight(&self, class: RegisterClass, index: u8, mut value: u32) -> u32 {
        // A pending instruction has its predicates and uniform registers from when it was issued.
        if self.position.is_some() {
            return value;
        }
        if let Some(schedule) = self.schedule() {
            let flight = &self.warp.flight;
            for write in flight.visible(class, index, schedule, self.guarding) {
                write.over_word(&mut value);
            }
        }
        value
    }

    /// A predicate, a bit per lane.
    #[inline]
    pub fn p(&mut self, index: u8) -> u32 {
        if index == 7 {
            return u32::MAX;
        }
        let value = self.warp.registers.p[usize::from(index)];
        self.shared_word(Register::p(index), value)
    }

    /// Writes a predicate in the lanes that run.
    #[inline]
    pub fn put_p(&mut self, index: u8, bits: u32) {
        if index == 7 || self.active == 0 {
            return;
        }
        let schedule = self.timed_schedule();
        let warp = &mut *self.warp;
        warp.flight
            .write_p(&mut warp.registers, index, self.active, bits, schedule);
    }

    /// A uniform register.
    #[inline]
    pub fn ur(&mut self, index: u8) -> u32 {
        if index >= 63 {
            return 0;
        }
        let value = self.warp.registers.ur[usize::from(index)];
        self.shared_word(Register::ur(index), value)
    }

    /// Writes a uniform register.
    #[inline]
    pub fn put_ur(&mut self, index: u8, value: u32) {
        if index < 63 {
            self.put_uniform(RegisterClass::UR, index, value);
        }
    }

    fn put_uniform(&mut self, class: RegisterClass, index: u8, value: u32) {
        let schedule = self.timed_schedule();
        let warp = &mut *self.warp;
        warp.flight
            .write_uniform(&mut warp.registers, class, index, value, schedule);
    }

    /// A uniform predicate: all bits or none.
    #[inline]
    pub fn up(&mut self, index: u8) -> u32 {
        if index == 7 {
            return u32::MAX;
        }
        let value = self.warp.registers.up[usize::from(index)];
        self.shared_word(Register::up(index), value)
    }

    /// Writes a uniform predicate.
    #[inline]
    pub fn put_up(&mut self, index: u8, value: bool) {
        if index != 7 {
            self.put_uniform(RegisterClass::UP, index, if value { u32::MAX } else { 0 });
        }
    }

    /// A word of a constant bank; the offset was checked when the instruction was made ready.
    #[inline]
    pub fn constant_word(&self, bank: u8, offset: u32) -> u32 {
        let bytes = self.context.bank(bank);
        let at = offset as usize;
        bytes
            .get(at..at + 4)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u32::from_le_bytes)
    }

    /// The lanes that run, lowest first.
    pub fn lanes(&self) -> LaneIterator {
        LaneIterator(self.active)
    }

    /// The lanes that run, in the order in which they come to memory that each of them changes.
    #[inline]
    pub fn lanes_in_turn(&mut self) -> LaneOrder {
        self.warp.chooser.lanes(self.active)
    }

    /// Notes something that is suspicious but not impossible.
    pub fn find(&mut self, lane: usize, kind: FindingKind) {
        self.context
            .find(self.index, self.block, self.warp.thread(lane), kind);
    }
}

/// Time.
impl Core<'_> {
    /// Lets time go by until an instruction is issued: the stall count of the one before, then its own waits.
    #[inline]
    pub fn issue(&mut self, step: &Step) -> Result<Waited, Cause> {
        match &step.schedule {
            Some(schedule) if self.warp.flight.is_timed() => self.issue_timed(schedule),
            _ => Ok(Waited::default()),
        }
    }

    fn issue_timed(&mut self, schedule: &Schedule) -> Result<Waited, Cause> {
        let warp = &mut *self.warp;
        let stalled = warp.flight.advance(&mut warp.registers);
        let before = warp.flight.cycle();
        while let Some((at, due)) = self.warp.flight.due_now() {
            self.bring_about(at, due)?;
        }
        let mut mask = schedule.wait;
        if let Some(dependency) = schedule.dependency {
            mask |= dependency.set;
        }
        if mask != 0 {
            while let Some((at, due)) = self.warp.flight.due_for(mask, before) {
                self.warp.flight.wait_for(at, due);
                self.bring_about(at, due)?;
            }
        }
        if let Some((barrier, most)) = schedule.dependency.and_then(|wait| wait.limit) {
            while let Some((at, due)) = self.warp.flight.due_beyond(barrier, most) {
                self.warp.flight.wait_for(at, due);
                self.bring_about(at, due)?;
            }
        }
        let warp = &mut *self.warp;
        let waited = warp.flight.cycle() - before;
        if waited > 0 {
            warp.flight.advance(&mut warp.registers);
        }
        warp.flight.issued(schedule.stall);
        if warp.flight.is_strict() {
            warp.flight.reuse.arrive(self.index, self.group);
        }
        Ok(Waited { stalled, waited })
    }

    /// Makes a pending instruction read or complete, after everything that comes before it.
    fn bring_about(&mut self, at: usize, due: Due) -> Result<(), Cause> {
        let mut waiting = vec![(at, due)];
        while let Some(&(at, due)) = waiting.last() {
            if let Some(first) = self.warp.flight.before(at, due) {
                waiting.push(first);
                continue;
            }
            waiting.pop();
            let before = self.warp.flight.pending(at);
            let group = before.group;
            if !before.has_read {
                self.read_sources(at)?;
            }
            if due == Due::Complete {
                let warp = &mut *self.warp;
                let elsewhere = (warp.uniforms.as_ref())
                    .filter(|uniforms| !uniforms.is_running(group))
                    .map(|_| (warp.registers.ur, warp.registers.up));
                let done = warp.flight.complete(at, &mut warp.registers);
                // Its results are for the lanes it was issued for, wherever these are now.
                if let Some(own) = elsewhere {
                    (warp.registers.ur, warp.registers.up) = own;
                }
                if let Some(uniforms) = &mut warp.uniforms {
                    uniforms.for_each(group, &mut warp.registers, |registers| {
                        done.write_uniforms(registers);
                    });
                }
                for store in &done.stores {
                    self.store(
                        Space::Shared,
                        store.lane,
                        store.address,
                        store.size,
                        store.value,
                    )
                    .map_err(|cause| cause.at(done.index))?;
                }
                // What waits above it stands one place further down now.
                for (other, _) in &mut waiting {
                    if *other > at {
                        *other -= 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs a pending instruction on its sources as they are now.
    fn read_sources(&mut self, at: usize) -> Result<(), Cause> {
        let pending = self.warp.flight.pending(at);
        let (index, active, group) = (pending.index, pending.active, pending.group);
        let snapshot = pending.snapshot.clone();
        let Some(step) = self.context.kernel.program.steps.get(index) else {
            return Ok(());
        };
        let (Run::Action(action), Some(schedule)) = (&step.run, &step.schedule) else {
            return Ok(());
        };
        let mine = (self.index, self.active, self.group, self.guarding);
        let unwritten = std::mem::take(&mut self.unwritten);
        (self.index, self.active, self.group, self.guarding) = (index, active, group, false);
        self.position = Some(at);
        let registers = &mut self.warp.registers;
        let (p, ur, up) = (registers.p, registers.ur, registers.up);
        (registers.p, registers.ur, registers.up) = (snapshot.p, snapshot.ur, snapshot.up);
        self.warp.flight.sink_capture(schedule.copies);
        // Without lanes it only takes its place in the queues.
        let ran = if active == 0 { Ok(()) } else { action(self) };
        let (writes, stores) = self.warp.flight.sink_registers();
        let registers = &mut self.warp.registers;
        (registers.p, registers.ur, registers.up) = (p, ur, up);
        (self.index, self.active, self.group, self.guarding) = mine;
        self.unwritten = unwritten;
        self.position = None;
        ran.map_err(|cause| cause.at(index))?;
        let warp = &mut *self.warp;
        warp.flight
            .has_read(at, writes, stores, schedule, &mut warp.registers);
        Ok(())
    }

    /// Runs an instruction: now, or when its sources are read.
    #[inline]
    pub fn perform(&mut self, step: &Step, action: &Action) -> Result<(), Cause> {
        match &step.schedule {
            Some(schedule) if self.warp.flight.is_timed() => self.perform_timed(schedule, action),
            _ => action(self),
        }
    }

    /// Takes operands from the reuse cache, and leaves marked ones there.
    fn reuse(&mut self, reused: &[Reused]) {
        self.warp.flight.reuse.serve(reused);
        for reused in reused.iter().filter(|reused| reused.marked) {
            for register in (reused.first..255).take(usize::from(reused.count)) {
                let value = self.r(register);
                let cache = &mut self.warp.flight.reuse;
                cache.keep(reused.position, register, value);
            }
        }
    }

    fn perform_timed(&mut self, schedule: &Schedule, action: &Action) -> Result<(), Cause> {
        if self.warp.flight.is_strict() {
            self.reuse(&schedule.reused);
        }
        if !schedule.is_variable() {
            if self.active == 0 {
                return Ok(());
            }
            self.warp.flight.sink_fixed(self.index);
            let ran = action(self);
            self.warp.flight.sink_registers();
            self.warp.flight.reuse.take_served();
            return ran;
        }
        let mut stale = self.stale_sources(schedule);
        stale.splice(..0, self.warp.flight.reuse.take_served());
        let warp = &mut *self.warp;
        let snapshot = warp.flight.snapshot(&warp.registers, schedule);
        let at = warp.flight.defer(
            self.index,
            self.active,
            self.group,
            schedule,
            snapshot,
            stale,
        );
        if schedule.reads_state {
            self.read_sources(at)?;
        }
        Ok(())
    }

    /// The general registers that an instruction issued now should find new values in, but does not, with what they hold.
    fn stale_sources(&mut self, schedule: &Schedule) -> Vec<(u8, Box<Lanes>)> {
        let steps = &self.context.kernel.program.steps;
        let schedule_of = |index: usize| steps.get(index).and_then(|step| step.schedule.as_ref());
        let mut stale = Vec::new();
        for reads in &schedule.reads {
            if reads.class != RegisterClass::R {
                continue;
            }
            for index in (reads.first..255).take(usize::from(reads.count)) {
                let register = Register::r(index);
                let flight = &self.warp.flight;
                let unseen =
                    flight.unseen(register, self.active, schedule, false, None, schedule_of);
                if unseen.is_some() {
                    stale.push((index, Box::new(self.r(index))));
                }
            }
        }
        stale
    }

    /// Lets everything that is under way complete.
    pub fn drain(&mut self) -> Result<(), Cause> {
        if !self.warp.flight.is_timed() {
            return Ok(());
        }
        while let Some((at, due)) = self.warp.flight.due_at_all() {
            self.bring_about(at, due)?;
        }
        Ok(())
    }

    /// Lets everything that is under way complete and land: control goes to code that was not scheduled with this.
    pub fn settle(&mut self) -> Result<(), Cause> {
        self.drain()?;
        let warp = &mut *self.warp;
        warp.flight.settle(&mut warp.registers);
        Ok(())
    }

    /// Stores to shared memory what a copy brings there, now or when the copy completes.
    pub fn store_late(
        &mut self,
        lane: usize,
        address: u64,
        size: u32,
        value: u128,
    ) -> Result<(), Cause> {
        let store = LateStore {
            lane,
            address,
            size,
            value,
        };
        if self.warp.flight.keep_store(store) {
            return Ok(());
        }
        self.store(Space::Shared, lane, address, size, value)
    }
}

/// The lanes of a mask, lowest first.
#[derive(Clone, Copy)]
pub(crate) struct LaneIterator(pub u32);

impl Iterator for LaneIterator {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let lane = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(lane as usize)
    }
}
