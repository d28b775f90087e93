//! The threads of a CTA: whose turn it is, and when those that wait may go on.

use crate::cluster::Common;
use crate::collective::{Arrival, Collective};
use crate::engine;
use crate::error::{Fault, FaultKind, Location, line_of};
use crate::memory::{Region, WINDOW_BYTES};
use crate::model::Model;
use crate::order::{Actor, Meeting};
use crate::program::Code;
use crate::step::{Action, BarrierAction, CollectiveStep, Space};
use crate::thread::{BarrierArrival, State, Thread, World};
use crate::weak::Prospect;
use orias_eval::mbarrier::Mbarrier;

/// Looks at mbarriers in a row that find them unchanged, after which a thread counts as waiting in vain.
const PATIENCE: u32 = 1 << 10;

/// A CTA that runs.
pub(crate) struct Cta {
    pub index: [u32; 3],
    /// Its number in the cluster.
    rank: u32,
    threads: Vec<Thread>,
    /// Who has come to each of the sixteen barriers.
    barriers: Vec<Vec<(usize, BarrierArrival)>>,
    /// How often each of them has opened.
    generations: [u32; 16],
    /// How many bulk copies of the cluster were made when its threads last looked.
    copies_seen: u64,
}

/// Whether a CTA is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Ended,
    /// It has made its turns without coming to an end.
    Running,
    /// Its threads wait for something that only other CTAs of the cluster can bring.
    Stuck,
}

impl Cta {
    pub fn new(
        index: [u32; 3],
        rank: u32,
        actor: Actor,
        kernel: usize,
        code: &Code,
        launch: &crate::launch::Launch,
    ) -> Self {
        let [width, height, depth] = launch.block;
        let threads = (0..width * height * depth).map(|linear| {
            let index = [
                linear % width,
                linear / width % height,
                linear / width / height,
            ];
            let actor = Actor {
                thread: actor.cta * (width * height * depth) + linear,
                ..actor
            };
            Thread::new(index, actor, linear, kernel, code, launch)
        });
        Self {
            index,
            rank,
            threads: threads.collect(),
            barriers: vec![Vec::new(); 16],
            generations: [0; 16],
            copies_seen: 0,
        }
    }

    /// Gives every thread its turns, until all have ended or about `budget` steps are made.
    ///
    /// `world` makes the surroundings of a thread, given what the cluster has in common.
    pub fn run(
        &mut self,
        world: &mut Surroundings<'_>,
        common: &mut Common,
        budget: u64,
    ) -> Result<Progress, Fault> {
        let stop_at = world.steps.saturating_add(budget);
        let mut order: Vec<usize> = (0..self.threads.len()).collect();
        self.wake(world);
        loop {
            let mut moved = false;
            order.sort_unstable();
            world.chooser.arrange(&mut order);
            self.pass_cluster_barrier(world, common)?;
            self.make_copies(world, common)?;
            for &at in &order {
                if self.threads[at].state != State::Ready {
                    continue;
                }
                moved = true;
                let turn = world.chooser.turn();
                let mut around = world.of(self.index, self.rank, common);
                let ran = self.threads[at].run(&mut around, turn);
                ran.map_err(|kind| self.fault(world, at, kind))?;
                if let Some(arrival) = self.threads[at].arrived.take() {
                    self.note_arrival(world, at, arrival.number)?;
                    self.barriers[arrival.number as usize].push((at, arrival));
                    self.open_barriers(world)?;
                }
                if self.threads[at].state != State::Ready {
                    self.meet(world, common, self.threads[at].warp)?;
                }
                if self.threads[at].state == State::Ended {
                    if let Model::Weak(weak) = &mut *world.model {
                        let thread = self.threads[at].actor.thread;
                        weak.prospects.insert(thread, Vec::new());
                    }
                    let arrived = self.threads[at].cluster_arrival;
                    common.barrier.thread_ended(arrived);
                    self.open_barriers(world)?;
                }
            }
            if self.threads.iter().all(|it| it.state == State::Ended) {
                return Ok(Progress::Ended);
            }
            let asked = !moved || !self.can_go_on(common) || world.chooser.answers_early();
            let answered = asked && self.release_active_masks(world, common)?;
            if !answered && !self.can_go_on(common) {
                if common.engine.is_idle() {
                    return Ok(Progress::Stuck);
                }
                let last = common.engine.len() - 1;
                engine::make(last, world.memory, common, world.model)?;
                self.notice_copies(common);
            }
            if *world.steps >= stop_at {
                return Ok(Progress::Running);
            }
        }
    }

    /// Makes those bulk copies that the schedule wants made now.
    fn make_copies(
        &mut self,
        world: &mut Surroundings<'_>,
        common: &mut Common,
    ) -> Result<(), Fault> {
        let mut at = 0;
        while at < common.engine.len() {
            if world.chooser.copies_now() {
                engine::make(at, world.memory, common, world.model)?;
            } else {
                at += 1;
            }
        }
        self.notice_copies(common);
        Ok(())
    }

    /// Threads that looked at mbarriers in vain look again after a copy was made.
    fn notice_copies(&mut self, common: &Common) {
        if self.copies_seen != common.engine.made {
            self.copies_seen = common.engine.made;
            for thread in &mut self.threads {
                thread.looks = 0;
            }
        }
    }

    /// Lets threads go on whose phase of the cluster's barrier is over.
    fn pass_cluster_barrier(
        &mut self,
        world: &mut Surroundings<'_>,
        common: &Common,
    ) -> Result<(), Fault> {
        for at in 0..self.threads.len() {
            if let State::AtClusterBarrier(generation) = self.threads[at].state
                && generation != common.barrier.generation
            {
                let thread = &mut self.threads[at];
                let passed = thread.pass_cluster_barrier(generation, world.code, world.model);
                passed.map_err(|kind| self.fault(world, at, kind))?;
            }
        }
        Ok(())
    }

    /// Threads that wait for loads look whether memory has given them their values.
    fn wake(&mut self, world: &mut Surroundings<'_>) {
        let Model::Weak(weak) = &mut *world.model else {
            return;
        };
        for thread in &mut self.threads {
            if thread.state == State::AtLoad {
                thread.state = State::Ready;
            }
            if thread.state != State::Ended {
                let unknown = vec![Prospect::Anywhere];
                weak.prospects.insert(thread.actor.thread, unknown);
            }
        }
    }

    /// The meeting at a barrier that is not open yet.
    fn meeting(&self, number: usize) -> Meeting {
        Meeting::Barrier {
            cta: self.threads[0].actor.cta,
            number: number as u32,
            generation: self.generations[number],
        }
    }

    /// What a thread did before it came to a barrier is told to those that wait there.
    fn note_arrival(
        &mut self,
        world: &mut Surroundings<'_>,
        at: usize,
        number: u32,
    ) -> Result<(), Fault> {
        let (meeting, thread) = (self.meeting(number as usize), &self.threads[at]);
        let span = thread.span(world.code);
        let told = world.model.arrive(thread.actor, thread.at(), meeting, span);
        told.map_err(|kind| self.fault(world, at, kind))
    }

    /// Whether a thread can do more than look at mbarriers that do not change.
    pub fn can_go_on(&self, common: &Common) -> bool {
        self.threads.iter().any(|thread| match thread.state {
            State::Ready => thread.looks < PATIENCE,
            State::AtClusterBarrier(generation) => generation != common.barrier.generation,
            _ => false,
        })
    }

    /// A fault of a thread, with its place.
    fn fault(&self, world: &Surroundings<'_>, at: usize, kind: FaultKind) -> Fault {
        let thread = &self.threads[at];
        let step = &world.code[thread.function].steps[thread.pc];
        let text = |span: orias_ptx::Span| {
            let bytes = world.source.get(span.start as usize..span.end as usize);
            String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
        };
        Fault {
            kind,
            at: Some(Box::new(Location {
                cta: self.index,
                thread: thread.index,
                statement: text(step.span),
                line: line_of(world.source, step.span),
            })),
        }
    }

    /// The threads of a warp.
    fn warp(&self, warp: u32) -> std::ops::Range<usize> {
        let start = warp as usize * 32;
        start..(start + 32).min(self.threads.len())
    }

    /// Lets the threads of a warp go on that wait for one another and are all here.
    fn meet(
        &mut self,
        world: &mut Surroundings<'_>,
        common: &mut Common,
        warp: u32,
    ) -> Result<(), Fault> {
        for at in self.warp(warp) {
            let State::AtCollective {
                opcode, members, ..
            } = self.threads[at].state
            else {
                continue;
            };
            if matches!(self.collective(world, at).kind, Collective::ActiveMask) {
                continue;
            }
            let same = |it: &Thread| matches!(it.state, State::AtCollective { opcode: o, members: m, .. } if (o, m) == (opcode, members));
            let here = self.warp(warp).all(|other| {
                let thread = &self.threads[other];
                members >> thread.lane & 1 == 0 || thread.state == State::Ended || same(thread)
            });
            if !here {
                continue;
            }
            let group: Vec<usize> = self
                .warp(warp)
                .filter(|&other| members >> self.threads[other].lane & 1 == 1)
                .filter(|&other| same(&self.threads[other]))
                .collect();
            self.exchange(world, common, &group)?;
        }
        Ok(())
    }

    fn collective<'w>(&self, world: &Surroundings<'w>, at: usize) -> &'w CollectiveStep {
        let thread = &self.threads[at];
        match &world.code[thread.function].steps[thread.pc].action {
            Action::Collective(step) => step,
            _ => unreachable!("only a collective makes a thread wait for its warp"),
        }
    }

    /// Executes a collective for the threads that stand at it.
    fn exchange(
        &mut self,
        world: &mut Surroundings<'_>,
        common: &mut Common,
        group: &[usize],
    ) -> Result<(), Fault> {
        let shared = &mut common.shared[self.rank as usize];
        let arrivals: Vec<Arrival> = group
            .iter()
            .map(|&at| {
                let thread = &mut self.threads[at];
                let (sources, place) = match &mut thread.state {
                    State::AtCollective { sources, place, .. } => (std::mem::take(sources), *place),
                    _ => (Vec::new(), (Space::Shared, 0)),
                };
                Arrival {
                    lane: thread.lane,
                    sources,
                    place,
                }
            })
            .collect();
        let first = self.collective(world, group[0]);
        if first.kind.needs_full_warp() && group.len() != 32 {
            let kind = FaultKind::Undefined(format!("only {} lanes execute it", group.len()));
            return Err(self.fault(world, group[0], kind));
        }
        let results = match first.kind {
            Collective::LoadMatrix { transposed } => {
                let count = first.results.len();
                load_matrices(shared, &arrivals, count, transposed)
            }
            Collective::StoreMatrix { transposed } => store_matrices(shared, &arrivals, transposed),
            Collective::LoadFragment(ref matrix) => {
                let (space, start) = arrivals[0].place;
                let read = |offset: u64, length: usize| {
                    let address = start.wrapping_add(offset);
                    let bytes = match space {
                        Space::Generic => world.memory.read(address, length)?,
                        _ => (shared.read(address, length))
                            .map_err(|problem| shared_error("read", address, length, problem))?,
                    };
                    Ok(crate::library::little_endian(bytes))
                };
                matrix.load(&arrivals, first.results.len(), &read)
            }
            Collective::StoreFragment(ref matrix) => {
                let (space, start) = arrivals[0].place;
                matrix.store(&arrivals).and_then(|written| {
                    for (offset, bytes) in written {
                        let address = start.wrapping_add(offset);
                        match space {
                            Space::Generic => world.memory.write(address, &bytes)?,
                            _ => shared.write(address, &bytes).map_err(|problem| {
                                shared_error("write", address, bytes.len(), problem)
                            })?,
                        }
                    }
                    Ok(vec![Vec::new(); arrivals.len()])
                })
            }
            Collective::WarpgroupMultiply(ref shape) => {
                let warp = self.threads[group[0]].warp as usize;
                let read = |address: u64| {
                    let byte = shared.read(address, 1);
                    let byte = byte.map_err(|problem| shared_error("read", address, 1, problem))?;
                    Ok(byte[0])
                };
                shape.multiply(&arrivals, warp, &read)
            }
            _ => Ok(first.kind.run(&arrivals)),
        };
        let results = results.map_err(|kind| self.fault(world, group[0], kind))?;
        if matches!(first.kind, Collective::Synchronise)
            && let Some(meeting) = world.model.next_meeting()
        {
            for arrives in [true, false] {
                for &at in group {
                    let thread = &self.threads[at];
                    let (actor, place) = (thread.actor, thread.at());
                    let span = thread.span(world.code);
                    let met = if arrives {
                        world.model.arrive(actor, place, meeting, span)
                    } else {
                        world.model.depart(actor, place, meeting, span)
                    };
                    met.map_err(|kind| self.fault(world, at, kind))?;
                }
            }
        }
        for (&at, values) in group.iter().zip(results) {
            let step = self.collective(world, at);
            self.threads[at].resume(&step.results, &values);
        }
        Ok(())
    }

    /// When nobody else can move, the threads of a warp that ask at one place who is active are: all of them.
    fn release_active_masks(
        &mut self,
        world: &mut Surroundings<'_>,
        common: &mut Common,
    ) -> Result<bool, Fault> {
        let waiting = |it: &Self, at: usize| {
            matches!(it.threads[at].state, State::AtCollective { .. })
                && matches!(it.collective(world, at).kind, Collective::ActiveMask)
        };
        let Some(first) = (0..self.threads.len()).find(|&at| waiting(self, at)) else {
            return Ok(false);
        };
        let place = |at: usize| (self.threads[at].function, self.threads[at].pc);
        let group: Vec<usize> = self
            .warp(self.threads[first].warp)
            .filter(|&at| waiting(self, at) && place(at) == place(first))
            .collect();
        self.exchange(world, common, &group)?;
        Ok(true)
    }

    /// Opens the barriers that have seen all they expect.
    fn open_barriers(&mut self, world: &mut Surroundings<'_>) -> Result<(), Fault> {
        for number in 0..self.barriers.len() {
            let arrivals = &self.barriers[number];
            let Some((first, arrival)) = arrivals.first() else {
                continue;
            };
            if let Some((other, _)) = arrivals.iter().find(|(_, it)| it.count != arrival.count) {
                let kind = FaultKind::Undefined(format!(
                    "barrier {number} with another count than in thread {:?}",
                    self.threads[*first].index
                ));
                return Err(self.fault(world, *other, kind));
            }
            let complete = match arrival.count {
                Some(count) => self.arrived(number) >= count,
                None => (0..self.threads.len()).all(|at| {
                    self.threads[at].state == State::Ended
                        || arrivals.iter().any(|(thread, _)| *thread == at)
                }),
            };
            if complete {
                self.open(world, number)?;
            }
        }
        Ok(())
    }

    /// How many threads count as arrived. Hardware counts whole warps: one whose living threads are all here counts in full.
    fn arrived(&self, number: usize) -> u32 {
        let warps = self.threads.len().div_ceil(32) as u32;
        (0..warps)
            .map(|warp| {
                let range = self.warp(warp);
                let here = self.barriers[number]
                    .iter()
                    .filter(|(at, _)| range.contains(at));
                let here = here.count() as u32;
                let ended = |at: &usize| self.threads[*at].state == State::Ended;
                let living = range.clone().filter(|at| !ended(at)).count() as u32;
                match living {
                    0 => here,
                    _ => here / living * 32 + here % living,
                }
            })
            .sum()
    }

    fn open(&mut self, world: &mut Surroundings<'_>, number: usize) -> Result<(), Fault> {
        let arrivals = std::mem::take(&mut self.barriers[number]);
        let meeting = self.meeting(number);
        self.generations[number] += 1;
        // Those that only arrive have no predicate.
        let voters = || arrivals.iter().filter(|(_, it)| it.waits);
        let count = voters().filter(|(_, it)| it.predicate).count() as u64;
        let (all, any) = (voters().all(|(_, it)| it.predicate), count > 0);
        for (at, _) in voters() {
            let thread = &self.threads[*at];
            let span = thread.span(world.code);
            let left = world.model.depart(thread.actor, thread.at(), meeting, span);
            left.map_err(|kind| self.fault(world, *at, kind))?;
            let thread = &mut self.threads[*at];
            let step = &world.code[thread.function].steps[thread.pc];
            let Action::Barrier { action, result, .. } = &step.action else {
                unreachable!("only a barrier makes a thread wait at one");
            };
            let value = match action {
                BarrierAction::Count => count,
                BarrierAction::And => all.into(),
                BarrierAction::Or => any.into(),
                BarrierAction::Sync | BarrierAction::Arrive => 0,
            };
            thread.resume(&[*result], &[value]);
        }
        Ok(())
    }

    /// Who waits for what.
    pub fn deadlock(&self, world: &Surroundings<'_>, common: &Common) -> Fault {
        let waiting = |it: &&Thread| it.state != State::Ended;
        let count = self.threads.iter().filter(waiting).count();
        let first = self.threads.iter().position(|it| waiting(&it)).unwrap_or(0);
        let what = match &self.threads[first].state {
            State::AtBarrier(number) => format!("at barrier {number}"),
            State::AtCollective { members, .. } => {
                format!("for the lanes of mask {members:#x} to come to the same instruction")
            }
            State::AtClusterBarrier(_) => {
                let barrier = &common.barrier;
                format!(
                    "at the cluster's barrier, where {} of {} threads are",
                    barrier.arrived, barrier.live
                )
            }
            State::Ready | State::AtLoad | State::Ended => match self.threads[first].looked {
                Some(at) => {
                    let shared = &common.shared[self.rank as usize];
                    let word = shared.read(at & (WINDOW_BYTES - 1), 8);
                    let state = word.map_or_else(
                        |_| String::new(),
                        |bytes| {
                            let word = crate::library::little_endian(bytes);
                            format!(" ({})", Mbarrier::unpack(word).describe())
                        },
                    );
                    format!("for the mbarrier at {at:#x}{state}")
                }
                None => String::new(),
            },
        };
        let kind = FaultKind::Deadlock(format!("{count} threads wait, the first {what}"));
        self.fault(world, first, kind)
    }
}

/// What all CTAs of a launch share.
pub(crate) struct Surroundings<'w> {
    pub code: &'w [Code],
    pub memory: &'w mut crate::memory::Memory,
    pub printed: &'w mut Vec<u8>,
    pub steps: &'w mut u64,
    pub step_limit: u64,
    pub launch: &'w crate::launch::Launch,
    /// CTAs of a cluster along each dimension, and whether somebody asked for clusters.
    pub cluster: [u32; 3],
    pub explicit_cluster: bool,
    pub shared_bytes: u64,
    pub source: &'w [u8],
    pub chooser: crate::schedule::Chooser,
    pub model: &'w mut Model,
}

impl Surroundings<'_> {
    /// Whether a thread may go on once memory has given a load its value.
    pub fn waits_for_loads(&self) -> bool {
        match &*self.model {
            Model::Weak(weak) => weak.has_open_reads(),
            _ => false,
        }
    }

    fn of<'s>(&'s mut self, cta: [u32; 3], rank: u32, common: &'s mut Common) -> World<'s> {
        World {
            code: self.code,
            memory: self.memory,
            common,
            rank,
            cluster: self.cluster,
            explicit_cluster: self.explicit_cluster,
            printed: self.printed,
            steps: self.steps,
            step_limit: self.step_limit,
            launch: self.launch,
            cta,
            shared_bytes: self.shared_bytes,
            model: self.model,
        }
    }
}

/// Row `row` of matrix `matrix`: lane `8 · matrix + row` says where it starts.
fn row_address(arrivals: &[Arrival], matrix: usize, row: usize) -> Result<u64, FaultKind> {
    let (_, address) = arrivals[matrix * 8 + row].place;
    if address.is_multiple_of(16) {
        Ok(address)
    } else {
        Err(FaultKind::Undefined(format!(
            "a matrix row at {address:#x}, which is no multiple of 16"
        )))
    }
}

fn shared_error(
    access: &'static str,
    address: u64,
    bytes: usize,
    problem: crate::memory::Problem,
) -> FaultKind {
    FaultKind::Memory(crate::memory::MemoryError {
        access,
        address,
        bytes,
        space: "shared",
        problem,
    })
}

/// Lane `l` gets elements `2 (l mod 4)` and the next of row `l / 4`, or of that column.
fn load_matrices(
    shared: &Region,
    arrivals: &[Arrival],
    count: usize,
    transposed: bool,
) -> Result<Vec<Vec<u64>>, FaultKind> {
    let mut results = vec![Vec::new(); 32];
    for matrix in 0..count {
        let mut elements = [[0u64; 8]; 8];
        for (row, elements) in elements.iter_mut().enumerate() {
            let address = row_address(arrivals, matrix, row)?;
            let bytes = shared.read(address, 16);
            let bytes = bytes.map_err(|problem| shared_error("read", address, 16, problem))?;
            for (element, pair) in elements.iter_mut().zip(bytes.chunks(2)) {
                *element = crate::library::little_endian(pair);
            }
        }
        for (lane, results) in results.iter_mut().enumerate() {
            let (row, column) = (lane / 4, lane % 4 * 2);
            results.push(if transposed {
                elements[column][row] | elements[column + 1][row] << 16
            } else {
                elements[row][column] | elements[row][column + 1] << 16
            });
        }
    }
    Ok(results)
}

/// The opposite of [`load_matrices`].
fn store_matrices(
    shared: &mut Region,
    arrivals: &[Arrival],
    transposed: bool,
) -> Result<Vec<Vec<u64>>, FaultKind> {
    let count = arrivals.first().map_or(0, |it| it.sources.len());
    for matrix in 0..count {
        for row in 0..8 {
            let mut bytes = Vec::with_capacity(16);
            for column in 0..8 {
                let (r, c) = if transposed {
                    (column, row)
                } else {
                    (row, column)
                };
                let register = arrivals[r * 4 + c / 2].sources[matrix];
                let element = (register >> (16 * (c % 2))) as u16;
                bytes.extend_from_slice(&element.to_le_bytes());
            }
            let address = row_address(arrivals, matrix, row)?;
            let wrote = shared.write(address, &bytes);
            wrote.map_err(|problem| shared_error("write", address, 16, problem))?;
        }
    }
    Ok(vec![Vec::new(); arrivals.len()])
}
