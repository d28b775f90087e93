//! A thread block: its warps, shared memory and named barriers, and the loop that runs them.

use crate::cluster::{ClusterBarrier, Peers};
use crate::core::Core;
use crate::engine::Engine;
use crate::fault::{Cause, Fault, FaultKind, text_of};
use crate::flight::Flight;
use crate::flow::Next;
use crate::follow;
use crate::launch::Context;
use crate::order::Chooser;
use crate::profile::Profile;
use crate::program::{GuardKind, Run};
use crate::shared::SharedMemory;
use crate::trace::Recorder;
use crate::warp::{Wait, Warp};

/// Threads that a warp counts for at a barrier, however many it has.
pub(crate) const WARP: u32 = 32;

/// A named barrier of a block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Barrier {
    /// Threads that have come in this phase, those of whole warps.
    pub arrived: u32,
    /// How many must come, if the instructions say so; otherwise all threads of the block.
    pub expected: Option<u32>,
    /// Phases that are over.
    pub generation: u64,
    /// True predicates of a reduction in this phase, and threads that gave one.
    votes: u32,
    voters: u32,
    /// Whether one true predicate makes the reduction true; otherwise all must be.
    any: bool,
    /// Reduction of the phase before: number of true predicates, and the predicate.
    result: (u32, bool),
}

/// What a block has besides its warps.
#[derive(Debug)]
pub(crate) struct BlockState {
    /// Its index in the grid.
    pub index: [u32; 3],
    /// Its number in the cluster.
    pub rank: u32,
    pub shared: SharedMemory,
    pub barriers: [Barrier; 16],
    /// Warps that have not ended.
    pub live: u32,
    /// Bulk copies under way.
    pub engine: Engine,
}

/// A thread block.
#[derive(Debug)]
pub(crate) struct Block {
    pub warps: Vec<Warp>,
    pub state: BlockState,
    /// What decides which warp goes next.
    chooser: Chooser,
}

/// Looks at mbarriers in a row that find them unchanged, after which a warp counts as waiting in vain.
const PATIENCE: u32 = 1 << 12;

/// Counts of a turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub warps: u64,
    pub threads: u64,
    pub profile: Option<Profile>,
    /// What the watched warp does, where one is watched.
    pub recorder: Option<Box<Recorder>>,
}

impl BlockState {
    /// A warp comes to a barrier, or part of one: the barrier counts a whole warp each time.
    pub fn arrive(
        &mut self,
        id: u8,
        voters: u32,
        expected: Option<u32>,
        votes: Option<(u32, bool)>,
    ) -> Result<(), Cause> {
        let all = self.live * WARP;
        let barrier = &mut self.barriers[usize::from(id)];
        let misuse = |reason: String| {
            Err(FaultKind::Barrier {
                barrier: u32::from(id),
                reason,
            }
            .into())
        };
        if barrier.arrived > 0 && barrier.expected != expected {
            let say = |count: Option<u32>| {
                count.map_or_else(|| "all threads".to_owned(), |n| format!("{n} threads"))
            };
            return misuse(format!(
                "some threads wait for {}, others for {}",
                say(barrier.expected),
                say(expected)
            ));
        }
        if let Some(expected) = expected
            && (expected == 0 || expected % 32 != 0)
        {
            return misuse(format!("{expected} threads are not whole warps"));
        }
        barrier.expected = expected;
        barrier.arrived += WARP;
        if let Some((votes, any)) = votes {
            barrier.votes += votes;
            barrier.voters += voters;
            barrier.any = any;
        }
        if let Some(expected) = expected
            && barrier.arrived > expected
        {
            let reason = format!("{} threads came, {expected} were expected", barrier.arrived);
            return misuse(reason);
        }
        if barrier.arrived >= expected.unwrap_or(all) {
            self.complete(id);
        }
        Ok(())
    }

    fn complete(&mut self, id: u8) {
        let barrier = &mut self.barriers[usize::from(id)];
        *barrier = Barrier {
            generation: barrier.generation + 1,
            result: (
                barrier.votes,
                if barrier.any {
                    barrier.votes > 0
                } else {
                    barrier.votes == barrier.voters
                },
            ),
            ..Barrier::default()
        };
        self.shared.synchronize();
    }

    /// A warp has ended: barriers that waited for all may be complete now.
    pub fn warp_ended(&mut self) {
        self.live -= 1;
        let all = self.live * WARP;
        for id in 0..16 {
            let barrier = &self.barriers[usize::from(id)];
            if barrier.arrived > 0 && barrier.expected.is_none() && barrier.arrived >= all {
                self.complete(id);
            }
        }
    }
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: Tally) {
        self.warps += other.warps;
        self.threads += other.threads;
        match (&mut self.profile, other.profile) {
            (Some(profile), Some(other)) => profile.add(&other),
            (profile @ None, other) => *profile = other,
            (Some(_), None) => {}
        }
        if let Some(recorder) = other.recorder.filter(|it| it.has_steps()) {
            self.recorder = Some(recorder);
        }
    }
}

impl Block {
    pub fn new(index: [u32; 3], rank: u32, context: &Context<'_>) -> Self {
        let threads = context.block.iter().product::<u32>();
        let warps = (0..threads.div_ceil(32))
            .map(|number| {
                let options = context.options;
                let flight = Flight::new(context.kernel.machine, options.timing, index, number);
                let chooser = Chooser::new(options.schedule, index, number + 1);
                let registers = context.kernel.registers;
                let mut warp = Warp::new(number, context.block, registers, flight, chooser);
                if options.profile {
                    warp.divergences.get_or_insert_default();
                }
                warp
            })
            .collect();
        Self {
            warps,
            state: BlockState {
                index,
                rank,
                shared: SharedMemory::new(context.shared, context.options.checks),
                barriers: [Barrier::default(); 16],
                live: threads.div_ceil(WARP),
                engine: Engine::default(),
            },
            chooser: Chooser::new(context.options.schedule, index, 0),
        }
    }

    /// Adds what the warps counted to a tally, when they run no more.
    pub fn finish(&self, tally: &mut Tally) {
        if let Some(profile) = &mut tally.profile {
            for warp in &self.warps {
                let cycles = warp.flight.cycle();
                profile.warp_cycles += cycles;
                profile.longest_warp = profile.longest_warp.max(cycles);
                profile.warps += 1;
                if let Some(divergences) = &warp.divergences {
                    profile.add_divergences(&divergences.counts);
                }
            }
        }
    }

    /// Whether all threads have ended.
    pub fn is_done(&self) -> bool {
        self.warps.iter().all(Warp::is_done)
    }

    /// Whether no warp does anything but look at mbarriers that do not change, or wait for one that does so.
    pub fn waits_in_vain(&self, cluster: &ClusterBarrier) -> bool {
        let waits = |wait: Wait| match wait {
            Wait::None => false,
            Wait::Barrier { id, generation } => {
                self.state.barriers[usize::from(id)].generation == generation
            }
            Wait::Cluster { generation } => cluster.generation == generation,
            Wait::Sync(_) | Wait::Lanes(_) | Wait::Collective { .. } => true,
        };
        self.warps.iter().all(|warp| {
            warp.is_done()
                || warp.looks >= PATIENCE
                || warp.groups.iter().all(|group| waits(group.wait))
        })
    }

    /// A fault of the first warp that has not ended.
    pub fn stuck(&self, context: &Context<'_>, kind: FaultKind) -> Box<Fault> {
        let live = self.warps.iter().position(|warp| !warp.is_done());
        self.fault(live.unwrap_or(0), context, kind.into())
    }

    /// Gives every warp a turn; whether one of them could use it.
    pub fn turn(
        &mut self,
        context: &Context<'_>,
        mut peers: Peers<'_>,
        tally: &mut Tally,
    ) -> Result<bool, Box<Fault>> {
        let mut progress = false;
        let mut order: Vec<usize> = (0..self.warps.len()).collect();
        self.chooser.arrange(&mut order);
        for number in order {
            let before = tally.threads;
            let ran = self.run_warp(number, context, &mut peers, tally)?;
            progress |= ran;
            if context.count(tally.threads - before) {
                let limit = context.options.max_steps.unwrap_or(0);
                return Err(self.fault(number, context, FaultKind::StepLimit(limit).into()));
            }
        }
        let idle = self.is_done() || !progress;
        progress |= self.run_engine(context, peers, idle)?;
        Ok(progress)
    }

    /// Makes the bulk copies whose time has come; all of them if nothing else can go on. Whether there was one.
    fn run_engine(
        &mut self,
        context: &Context<'_>,
        mut peers: Peers<'_>,
        all: bool,
    ) -> Result<bool, Box<Fault>> {
        self.state.engine.next_turn();
        let mut some = false;
        while let Some(transfer) = self.state.engine.take_due(all) {
            some = true;
            let number = transfer.warp as usize;
            let mut core = Core {
                warp: &mut self.warps[number],
                block: &mut self.state,
                peers: peers.again(),
                context,
                active: 1,
                group: 1,
                index: transfer.index,
                guarding: false,
                position: None,
                violation: None,
                unwritten: 0,
                origin: 0,
                saving: false,
            };
            if let Err(cause) = core.make(&transfer) {
                return Err(self.fault(number, context, cause));
            }
        }
        Ok(some)
    }

    /// Wakes groups whose barrier is complete; whether the current group can run afterwards.
    fn wake(&mut self, number: usize, cluster: &ClusterBarrier) -> bool {
        let warp = &mut self.warps[number];
        for group in &mut warp.groups {
            if let Wait::Cluster { generation } = group.wait
                && cluster.generation != generation
            {
                group.wait = Wait::None;
            }
            if let Wait::Barrier { id, generation } = group.wait {
                let barrier = &self.state.barriers[usize::from(id)];
                if barrier.generation != generation {
                    group.wait = Wait::None;
                    let settles = warp.flight.cycle() + warp.flight.barrier_settles();
                    warp.earlier_result = (warp.barrier_result, settles);
                    warp.barrier_result = barrier.result;
                }
            }
        }
        let can_run = match warp.groups.get(warp.current) {
            None => false,
            Some(group) if group.wait == Wait::None => true,
            Some(_) => {
                warp.rotate();
                if warp.groups[warp.current].wait != Wait::None && warp.untangle() {
                    warp.rotate();
                }
                warp.groups[warp.current].wait == Wait::None
            }
        };
        if can_run {
            warp.take_uniforms();
        }
        can_run
    }

    /// Whether a warp whose current group has just stopped lets others go first.
    fn rests(&mut self, number: usize) -> bool {
        let warp = &self.warps[number];
        let group = warp.groups.get(warp.current);
        group.is_some_and(|group| matches!(group.wait, Wait::Barrier { .. } | Wait::Cluster { .. }))
            && self.chooser.rests_at_barrier()
    }

    /// Runs a warp until its turn is over or it must wait; whether it ran at all.
    fn run_warp(
        &mut self,
        number: usize,
        context: &Context<'_>,
        peers: &mut Peers<'_>,
        tally: &mut Tally,
    ) -> Result<bool, Box<Fault>> {
        if !self.wake(number, peers.barrier) {
            return Ok(false);
        }
        let mut left = self.chooser.warp_turn();
        while left > 0 {
            left -= 1;
            match self.step(number, context, peers, tally) {
                Ok(Next::Continue) => {
                    // Nothing changes for one that looks in vain until others have run.
                    if std::mem::take(&mut self.warps[number].rests) {
                        break;
                    }
                }
                Ok(Next::Blocked) => {
                    if self.rests(number) || !self.wake(number, peers.barrier) {
                        break;
                    }
                }
                Ok(Next::Yield) => break,
                Err(cause) => return Err(self.fault(number, context, cause)),
            }
        }
        Ok(true)
    }

    /// Issues one instruction of the current group.
    #[inline]
    fn step(
        &mut self,
        number: usize,
        context: &Context<'_>,
        peers: &mut Peers<'_>,
        tally: &mut Tally,
    ) -> Result<Next, Cause> {
        let warp = &mut self.warps[number];
        let group = warp.groups[warp.current];
        let index = group.pc as usize;
        let Some(step) = context.kernel.program.steps.get(index) else {
            return Err(FaultKind::Jump(u64::from(group.pc) * 16).into());
        };
        tally.warps += 1;
        tally.threads += u64::from(group.lanes.count_ones());
        if let Some(thread) = context.options.follow
            && self.state.index == [0; 3]
            && number == thread as usize / 32
            && group.lanes >> (thread % 32) & 1 == 1
            && let Ok(mut stops) = context.stops.lock()
        {
            let lane = (thread % 32) as usize;
            follow::take(&mut stops, warp, lane, index, context.local);
        }
        let mut core = Core {
            warp,
            block: &mut self.state,
            peers: peers.again(),
            context,
            active: group.lanes,
            group: group.lanes,
            index,
            guarding: true,
            position: None,
            violation: None,
            unwritten: 0,
            origin: 0,
            saving: false,
        };
        let waited = core.issue(step)?;
        core.active = match step.guard {
            GuardKind::Always => group.lanes,
            GuardKind::Predicate { index, negated } => {
                let bits = core.p(index);
                group.lanes & if negated { !bits } else { bits }
            }
            GuardKind::Uniform { index, negated } => {
                let bits = core.up(index);
                group.lanes & if negated { !bits } else { bits }
            }
        };
        core.guarding = false;
        if let Some(profile) = &mut tally.profile {
            let counts = &mut profile.instructions[index];
            counts.issued += 1;
            counts.threads += u64::from(core.active.count_ones());
            counts.stalled += waited.stalled;
            counts.waited += waited.waited;
            profile.issues += 1;
            profile.lanes += u64::from(group.lanes.count_ones());
            let live = core.warp.live;
            if let Some(divergences) = &mut core.warp.divergences {
                divergences.charge(group.lanes, live);
            }
        }
        let mut recorder = (tally.recorder.as_deref_mut())
            .filter(|recorder| recorder.watches(core.block.index, core.warp.number));
        if let Some(recorder) = &mut recorder {
            let warp = &*core.warp;
            let lanes = (group.lanes, core.active);
            recorder.begin(index, lanes, warp.flight.cycle(), &warp.registers);
        }
        let next = match &step.run {
            Run::Action(action) => {
                if core.active != 0 || core.warp.flight.is_timed() {
                    core.perform(step, action)?;
                }
                core.warp.groups[core.warp.current].pc += 1;
                core.warp.since_switch += 1;
                Next::Continue
            }
            Run::Flow(flow) => flow.run(&mut core)?,
            Run::Fault(kind) => {
                if core.active != 0 {
                    return Err(kind.clone().into());
                }
                core.warp.groups[core.warp.current].pc += 1;
                Next::Continue
            }
        };
        if let Some(recorder) = recorder {
            recorder.end(&core.warp.registers);
        }
        if let Some(register) = core.violation {
            let operation = step
                .instruction
                .as_ref()
                .map_or("?", |instruction| instruction.op().name());
            return Err(FaultKind::Undeclared {
                operation,
                register,
            }
            .into());
        }
        Ok(next)
    }

    #[cold]
    fn fault(&self, number: usize, context: &Context<'_>, cause: Cause) -> Box<Fault> {
        let warp = &self.warps[number];
        let pc = cause.index.unwrap_or_else(|| {
            let group = warp.groups.get(warp.current);
            group.map_or(0, |group| group.pc as usize)
        });
        let offset = pc as u64 * 16;
        let instruction = context
            .kernel
            .program
            .steps
            .get(pc)
            .and_then(|step| step.instruction.as_ref())
            .map_or_else(String::new, |instruction| text_of(instruction, offset));
        Box::new(Fault {
            kind: cause.kind,
            kernel: context.kernel.name.clone(),
            block: self.state.index,
            thread: cause.lane.map(|lane| warp.thread(usize::from(lane))),
            offset,
            instruction,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::fault::FaultKind;
    use crate::operand::{From, Source, Target as Place};
    use crate::program::{Action, Run};
    use crate::{Device, Launch, Options};
    use orias_cubin::build::{Chip, CubinContents, Entry, Function};
    use orias_machine::Machine;
    use orias_sass::text::assemble;
    use orias_sass::{Register, Target};

    /// What stops a kernel of `NOP` and `EXIT` when the semantics of `NOP` are these.
    fn with_semantics(action: Action) -> Option<FaultKind> {
        let listing = ".kernel k\n[B------:R-:W-:-:S05] NOP ;\n[B------:R-:W-:-:S05] EXIT ;\n";
        let assembly = assemble(listing, Target::DEFAULT).expect("a listing");
        let machine = Machine::judging(Target::DEFAULT);
        let mut module = CubinContents::new(Chip {
            sm: machine.target.sm() as u8,
            accelerated: machine.target.is_accelerated(),
            virtual_sm: machine.target.sm(),
            param_base: machine.constants.params as u16,
            reserved_shared: u64::from(machine.constants.reserved_shared),
            mercury_version: machine.abi.mercury_version,
            work_arounds: machine.abi.work_arounds,
        });
        module.functions.push(Function {
            name: "k".to_owned(),
            entry: Some(Entry::default()),
            registers: 16,
            exits: vec![16],
            code: (assembly.functions[0].words.iter())
                .flat_map(|word| word.to_le_bytes())
                .collect(),
            ..Function::default()
        });
        let cubin = module.build().expect("a module");
        let mut device = Device::new();
        let mut loaded = device
            .load(&cubin.write().expect("a cubin"))
            .expect("a cubin that loads");
        let kernel = loaded.kernels.get_mut("k").expect("the kernel");
        kernel.program.steps[0].run = Run::Action(action);
        kernel.program.registers = 16;
        let launch = Launch {
            kernel: "k".to_owned(),
            grid: [1; 3],
            block: [32, 1, 1],
            ..Launch::default()
        };
        let outcome = device.launch(&loaded, &launch, &Options::default());
        outcome.expect("a launch").fault.map(|fault| fault.kind)
    }

    #[test]
    fn semantics_that_touch_registers_their_row_does_not_declare_stop_the_run() {
        let declared = Source {
            from: From::Register(4),
            width: 1,
            negate: false,
            absolute: false,
            invert: false,
            select: 0,
        };
        let reads = |part: u8| {
            with_semantics(Box::new(move |core| {
                core.word(&declared, part);
                Ok(())
            }))
        };
        assert!(reads(0).is_none());
        let Some(FaultKind::Undeclared {
            operation,
            register,
        }) = reads(1)
        else {
            panic!("a register beyond the declared one was read");
        };
        assert_eq!((operation, register), ("NOP", Register::r(5)));

        let place = Place {
            register: Register::r(8),
            width: 2,
        };
        let writes = |part: u8| {
            with_semantics(Box::new(move |core| {
                core.put(&place, part, &[7; 32]);
                Ok(())
            }))
        };
        assert!(writes(1).is_none());
        let fault = writes(2);
        assert!(
            matches!(fault, Some(FaultKind::Undeclared { register, .. }) if register == Register::r(10)),
            "{fault:?}"
        );
    }
}
