//! Results on their way to the registers, and instructions on their way to their sources.
//!
//! Time is counted per warp, in issue cycles. A result of fixed latency is computed when its instruction issues and kept
//! aside: a reader sees it once as many cycles have gone by as the table says for this producer and this consumer, and the
//! old value before that. An instruction of variable latency is kept aside as a whole. It *reads* its sources when something
//! makes sure that they were read: a wait for its read or write barrier, or, in the memory pipes, a later instruction that
//! has read its own. It *writes* its results when something makes sure of that: a wait for its write barrier, or a later
//! result of the same in-order queue. Strict timing waits exactly that long; random timing draws a moment before. Guards,
//! predicates and uniform registers are read at issue.

mod pending;
mod write;

pub(crate) use pending::{Due, LateStore, Pending, Snapshot};
pub(crate) use write::{Write, Written, blend};

use crate::launch::Timing;
use crate::operand::Lanes;
use crate::reuse::ReuseCache;
use crate::schedule::{self, Schedule};
use crate::warp::Registers;
use orias_machine::Machine;
use orias_machine::timing::Arrival;
use orias_random::{GOLDEN_RATIO, Rng};
use orias_sass::{Register, RegisterClass};
use write::{Landing, Value};

/// Cycles after which an instruction that nothing waits for has read its sources all the same; after twice as many it is
/// complete.
const LATEST: u64 = 4096;

/// Where register writes go.
#[derive(Clone, Debug, Default)]
enum Sink {
    /// To the registers.
    #[default]
    Registers,
    /// Aside, to land after their latency.
    Fixed,
    /// Aside, until the instruction completes.
    Captured(Vec<Write>),
}

/// What a warp has under way.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    machine: &'static Machine,
    timed: bool,
    random: Option<Rng>,
    cycle: u64,
    /// When the next instruction may issue.
    ready: u64,
    /// Whether the next instruction waits for all results of fixed latency.
    draining: bool,
    landings: Vec<Landing>,
    pending: Vec<Pending>,
    sink: Sink,
    /// The instruction whose results go aside.
    running: usize,
    /// Stores of copies, while one is being read.
    stores: Option<Vec<LateStore>>,
    pub reuse: ReuseCache,
}

impl Flight {
    /// What a launch's options ask for.
    pub fn new(machine: &'static Machine, timing: Timing, block: [u32; 3], warp: u32) -> Self {
        let seed = |seed: u64| {
            let [x, y, z] = block.map(u64::from);
            let place = x ^ y << 20 ^ z << 40 ^ u64::from(warp) << 52;
            Rng::new(seed.wrapping_mul(GOLDEN_RATIO) ^ place)
        };
        Self {
            machine,
            timed: timing != Timing::Off,
            random: match timing {
                Timing::Random(number) => Some(seed(number)),
                Timing::Off | Timing::Strict => None,
            },
            cycle: 0,
            ready: 0,
            draining: false,
            landings: Vec::new(),
            pending: Vec::new(),
            sink: Sink::default(),
            running: 0,
            stores: None,
            reuse: ReuseCache::default(),
        }
    }

    #[inline]
    pub fn is_timed(&self) -> bool {
        self.timed
    }

    /// Whether everything happens as late as it can.
    #[inline]
    pub fn is_strict(&self) -> bool {
        self.timed && self.random.is_none()
    }

    /// Cycles that a barrier between threads takes to hold.
    pub fn barrier_settles(&self) -> u64 {
        u64::from(self.machine.limits.barrier_settles)
    }

    /// Cycles so far.
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// A random number below `limit`, or the limit itself in strict timing.
    pub fn draw(&mut self, limit: u64) -> u64 {
        match &mut self.random {
            None => limit,
            Some(random) => random.next_u64() % limit.max(1),
        }
    }

    /// Goes on to the next issue; the cycles that the stall count took.
    pub fn advance(&mut self, registers: &mut Registers) -> u64 {
        if std::mem::take(&mut self.draining) {
            let last = self.landings.iter().map(|landing| landing.lands).max();
            self.ready = self.ready.max(last.unwrap_or(0));
        }
        let stalled = self.ready.saturating_sub(self.cycle + 1);
        self.cycle = self.cycle.max(self.ready);
        self.land(registers);
        stalled
    }

    /// An instruction with this stall count is issued now.
    pub fn issued(&mut self, stall: u64) {
        self.ready = self.cycle + stall.max(1);
        self.draining = stall == 0;
    }

    /// Writes results that every reader sees into the registers, in their order.
    fn land(&mut self, registers: &mut Registers) {
        let now = self.cycle;
        self.landings.retain(|landing| {
            if landing.lands <= now {
                landing.write.apply(registers);
            }
            landing.lands > now
        });
    }

    /// Writes all results of fixed latency for uniform registers: others will use these now.
    pub fn land_uniforms(&mut self, registers: &mut Registers) {
        self.landings.retain(|landing| {
            let uniform = matches!(landing.write.class, RegisterClass::UR | RegisterClass::UP);
            if uniform {
                landing.write.apply(registers);
            }
            !uniform
        });
    }

    /// Puts a result of fixed latency among those under way.
    ///
    /// The list is in the order in which results end up in the registers. That is the order of issue, except where a later
    /// instruction follows an earlier, slower one too soon: then the earlier result lands on top of the later.
    fn push(&mut self, mut landing: Landing) {
        let mut place = self.landings.len();
        for (at, earlier) in self.landings.iter().enumerate() {
            let same = earlier.write.class == landing.write.class
                && earlier.write.index == landing.write.index;
            if !same {
                continue;
            }
            if landing.lands >= earlier.lands {
                continue;
            }
            let needed = self.machine.overwrite(earlier.group, landing.group);
            if landing.issued >= earlier.issued + u64::from(needed) {
                landing.lands = earlier.lands;
            } else {
                place = place.min(at);
            }
        }
        self.landings.insert(place, landing);
    }

    /// Removes a pending instruction that completes; the cycle it does so at is at least its typical one.
    pub fn complete(&mut self, at: usize, registers: &mut Registers) -> Pending {
        let pending = self.pending.remove(at);
        for write in &pending.writes {
            self.overwrite(write, pending.issued, registers);
        }
        pending
    }

    /// Writes a result of variable latency. Results of fixed latency issued before it have landed by then.
    fn overwrite(&mut self, write: &Write, issued: u64, registers: &mut Registers) {
        self.landings.retain(|landing| {
            let before = landing.write.class == write.class
                && landing.write.index == write.index
                && landing.issued <= issued;
            if before {
                landing.write.apply(registers);
            }
            !before
        });
        write.apply(registers);
    }

    /// Lets time go by until a result of an instruction can be there.
    pub fn wait_for(&mut self, at: usize, due: Due) {
        let pending = &self.pending[at];
        // Sources are read within a few cycles, results take what is typical.
        let latency = if due == Due::Complete {
            pending.typical
        } else {
            (pending.typical).min(u64::from(self.machine.limits.source_read_least))
        };
        self.cycle = self.cycle.max(pending.issued + latency);
    }

    /// Keeps an instruction of variable latency aside.
    pub fn defer(
        &mut self,
        index: usize,
        active: u32,
        group: u32,
        schedule: &Schedule,
        snapshot: Snapshot,
        stale: Vec<(u8, Box<Lanes>)>,
    ) -> usize {
        let typical = schedule.typical.max(2);
        // In random timing anything from at once to twice the typical time; in strict timing hardly ever by itself.
        let (read_due, write_due) = if self.random.is_some() {
            let write = 1 + self.draw(2 * typical);
            let read = 1 + self.draw(write);
            (self.cycle + read.min(write), self.cycle + write)
        } else {
            (self.cycle + LATEST, self.cycle + 2 * LATEST)
        };
        self.pending.push(Pending {
            index,
            active,
            group,
            snapshot: Box::new(snapshot),
            stale,
            issued: self.cycle,
            read_barrier: schedule.read_barrier,
            write_barrier: schedule.write_barrier,
            reads_in_order: schedule.reads_in_order,
            queue: schedule.queue(),
            copies: schedule.copies,
            commits: schedule.commits,
            typical,
            has_read: false,
            writes: Vec::new(),
            stores: Vec::new(),
            read_due,
            write_due,
        });
        self.pending.len() - 1
    }

    /// Predicates and uniform registers as an instruction that issues now reads them.
    pub fn snapshot(&self, registers: &Registers, schedule: &Schedule) -> Snapshot {
        let mut snapshot = Snapshot {
            p: registers.p,
            ur: registers.ur,
            up: registers.up,
        };
        for landing in self.seen(schedule) {
            let index = usize::from(landing.write.index);
            match (landing.write.class, &landing.write.value) {
                (RegisterClass::P, Value::Word(bits)) => {
                    let mask = landing.write.mask;
                    snapshot.p[index] = snapshot.p[index] & !mask | bits & mask;
                }
                (RegisterClass::UR, Value::Word(value)) => snapshot.ur[index] = *value,
                (RegisterClass::UP, Value::Word(bits)) => snapshot.up[index] = *bits,
                _ => {}
            }
        }
        snapshot
    }

    /// The landings that operands of an instruction issued now see, in their order.
    fn seen<'a>(&'a self, schedule: &'a Schedule) -> impl Iterator<Item = &'a Landing> {
        self.landings.iter().filter(|landing| {
            let write = &landing.write;
            landing.is_seen(
                self.machine,
                schedule.use_of(write.class, write.index, false),
                self.cycle,
            )
        })
    }

    /// Whether a register has a result under way that not every reader sees.
    #[inline]
    pub fn has_landing(&self, class: RegisterClass, index: u8) -> bool {
        self.timed
            && self
                .landings
                .iter()
                .any(|landing| landing.write.class == class && landing.write.index == index)
    }

    /// The writes of a register that a reader sees, in their order.
    pub fn visible(
        &self,
        class: RegisterClass,
        index: u8,
        schedule: &Schedule,
        guard: bool,
    ) -> Vec<&Write> {
        let used = schedule
            .use_of(class, index, guard)
            .or_else(|| schedule.use_of(class, index, !guard));
        self.landings
            .iter()
            .filter(|landing| landing.write.class == class && landing.write.index == index)
            .filter(|landing| landing.is_seen(self.machine, used, self.cycle))
            .map(|landing| &landing.write)
            .collect()
    }

    /// The instruction whose result a reader of a register in some of `lanes` should see but does not. `position` is the
    /// reader's own place among the pending instructions, if it is one: later ones do not count.
    pub fn unseen<'s>(
        &self,
        register: Register,
        lanes: u32,
        reader: &Schedule,
        guard: bool,
        position: Option<usize>,
        schedule_of: impl Fn(usize) -> Option<&'s Schedule>,
    ) -> Option<usize> {
        let (class, index) = (register.class, register.index);
        let issued = position.map_or(u64::MAX, |at| self.pending[at].issued);
        let used = reader
            .use_of(class, index, guard)
            .or_else(|| reader.use_of(class, index, !guard));
        let landing = self.landings.iter().find(|landing| {
            let write = &landing.write;
            write.class == class
                && write.index == index
                && write.mask & lanes != 0
                && landing.issued < issued
                && !landing.is_seen(self.machine, used, self.cycle)
        });
        if let Some(landing) = landing {
            return Some(landing.producer);
        }
        let count = position.unwrap_or(self.pending.len());
        let pending = self.pending[..count].iter().find(|pending| {
            let writes = if pending.has_read {
                pending
                    .writes
                    .iter()
                    .any(|write| write.class == class && write.index == index)
            } else {
                schedule_of(pending.index)
                    .is_some_and(|schedule| schedule.arrival_of(class, index).is_some())
            };
            writes && pending.active & lanes != 0
        });
        pending.map(|pending| pending.index)
    }

    /// An instruction that has not read a general register yet which is written now in some of `lanes`.
    pub fn unread<'s>(
        &self,
        register: Register,
        lanes: u32,
        schedule_of: impl Fn(usize) -> Option<&'s Schedule>,
    ) -> Option<usize> {
        self.pending
            .iter()
            .filter(|pending| !pending.has_read && pending.active & lanes != 0)
            .find(|pending| {
                schedule_of(pending.index).is_some_and(|schedule| {
                    schedule
                        .use_of(register.class, register.index, false)
                        .is_some()
                })
            })
            .map(|pending| pending.index)
    }

    /// Results of the instruction that runs now land after their latency.
    pub fn sink_fixed(&mut self, index: usize) {
        self.sink = Sink::Fixed;
        self.running = index;
    }

    /// Results of the instruction that runs now are kept until it completes.
    pub fn sink_capture(&mut self, copies: bool) {
        self.sink = Sink::Captured(Vec::new());
        self.stores = copies.then(Vec::new);
    }

    /// Results go to the registers again; what was captured.
    pub fn sink_registers(&mut self) -> (Vec<Write>, Vec<LateStore>) {
        let captured = match std::mem::take(&mut self.sink) {
            Sink::Captured(writes) => writes,
            Sink::Registers | Sink::Fixed => Vec::new(),
        };
        (captured, self.stores.take().unwrap_or_default())
    }

    /// Keeps a store of a copy until it completes; whether it was kept.
    pub fn keep_store(&mut self, store: LateStore) -> bool {
        match &mut self.stores {
            Some(stores) => {
                stores.push(store);
                true
            }
            None => false,
        }
    }

    /// The sources of a pending instruction were read and gave these results. What arrives with the release of the sources
    /// is written at once.
    pub fn has_read(
        &mut self,
        at: usize,
        writes: Vec<Write>,
        stores: Vec<LateStore>,
        schedule: &Schedule,
        registers: &mut Registers,
    ) {
        let issued = self.pending[at].issued;
        let (early, late): (Vec<Write>, Vec<Write>) = writes.into_iter().partition(|write| {
            schedule.arrival_of(write.class, write.index) == Some(Arrival::ReadBarrier)
        });
        for write in &early {
            self.overwrite(write, issued, registers);
        }
        let pending = &mut self.pending[at];
        pending.has_read = true;
        pending.stores = stores;
        pending.writes = late;
    }

    #[inline]
    pub fn write_r(
        &mut self,
        registers: &mut Registers,
        index: u8,
        written: Written,
        value: &Lanes,
        schedule: Option<&Schedule>,
    ) {
        let Written { mask, known } = written;
        if !self.timed {
            let index = usize::from(index);
            registers.written[index] = registers.written[index] & !mask | known;
            blend(&mut registers.r[index], mask, value);
            return;
        }
        let write = Write {
            class: RegisterClass::R,
            index,
            mask,
            known,
            value: Value::Lanes(Box::new(*value)),
        };
        self.write(registers, write, schedule);
    }

    #[inline]
    pub fn write_p(
        &mut self,
        registers: &mut Registers,
        index: u8,
        mask: u32,
        bits: u32,
        schedule: Option<&Schedule>,
    ) {
        if !self.timed {
            let p = &mut registers.p[usize::from(index)];
            *p = *p & !mask | bits & mask;
            return;
        }
        let write = Write {
            class: RegisterClass::P,
            index,
            mask,
            known: mask,
            value: Value::Word(bits),
        };
        self.write(registers, write, schedule);
    }

    #[inline]
    pub fn write_uniform(
        &mut self,
        registers: &mut Registers,
        class: RegisterClass,
        index: u8,
        value: u32,
        schedule: Option<&Schedule>,
    ) {
        let write = Write {
            class,
            index,
            mask: u32::MAX,
            known: u32::MAX,
            value: Value::Word(value),
        };
        if self.timed {
            self.write(registers, write, schedule);
        } else {
            write.apply(registers);
        }
    }

    fn write(&mut self, registers: &mut Registers, write: Write, schedule: Option<&Schedule>) {
        let cycle = self.cycle;
        match &mut self.sink {
            Sink::Registers => write.apply(registers),
            Sink::Captured(writes) => writes.push(write),
            Sink::Fixed => {
                let arrival = schedule.and_then(|s| s.arrival_of(write.class, write.index));
                let Some(Arrival::Fixed(group)) = arrival else {
                    write.apply(registers);
                    return;
                };
                let landing = Landing {
                    write,
                    producer: self.running,
                    issued: cycle,
                    group,
                    lands: cycle + schedule::longest(self.machine, group),
                };
                self.push(landing);
            }
        }
    }

    /// Everything computed is in the registers: nothing is under way.
    pub fn settle(&mut self, registers: &mut Registers) {
        for landing in std::mem::take(&mut self.landings) {
            landing.write.apply(registers);
        }
    }
}
