//! What is in flight while a block is walked through, and what waits tell about it.

use super::access::{FAR, Kind, NEVER, QUEUES, Record};
use crate::facts::REGISTERS;
use orias_machine::Machine;
use smallvec::SmallVec;

/// The last two instructions of a queue that set a barrier.
#[derive(Clone, Copy)]
pub(super) struct Carriers {
    pub(super) last: i32,
    pub(super) before: i32,
}

/// What is in flight, while a block is walked through.
pub(super) struct State {
    /// Cycles after which a wait sees a barrier that was set.
    set_to_wait: i32,
    pub(super) registers: Vec<SmallVec<[Record; 2]>>,
    pub(super) touched: Vec<u16>,
    pub(super) is_touched: Vec<bool>,
    pub(super) now: i32,
    pub(super) waited: [i32; 6],
    /// By queue: up to when its instructions have finished, and have read their sources.
    pub(super) finished: [i32; QUEUES],
    pub(super) read: [i32; QUEUES],
    pub(super) completing: [[Carriers; 6]; QUEUES],
    pub(super) reading: [[Carriers; 6]; QUEUES],
    /// Warpgroup groups that have ended, and how many of them are known to have finished.
    pub(super) groups: i32,
    pub(super) groups_finished: i32,
    pub(super) versions: [u32; 16],
}

impl State {
    pub(super) fn new(machine: &Machine) -> Self {
        let none = Carriers {
            last: NEVER,
            before: NEVER,
        };
        Self {
            set_to_wait: i32::from(machine.limits.barrier_set_to_wait),
            registers: vec![SmallVec::new(); REGISTERS],
            touched: Vec::new(),
            is_touched: vec![false; REGISTERS],
            now: 0,
            waited: [NEVER; 6],
            finished: [NEVER; QUEUES],
            read: [NEVER; QUEUES],
            completing: [[none; 6]; QUEUES],
            reading: [[none; 6]; QUEUES],
            groups: 0,
            groups_finished: NEVER,
            versions: [0; 16],
        }
    }

    /// Starts a block with what is in flight before it.
    pub(super) fn enter(&mut self, records: &[Record]) {
        for register in self.touched.drain(..) {
            self.registers[usize::from(register)].clear();
            self.is_touched[usize::from(register)] = false;
        }
        let none = Carriers {
            last: NEVER,
            before: NEVER,
        };
        self.now = 0;
        self.waited = [NEVER; 6];
        self.finished = [NEVER; QUEUES];
        self.read = [NEVER; QUEUES];
        self.completing = [[none; 6]; QUEUES];
        self.reading = [[none; 6]; QUEUES];
        self.groups = 0;
        self.groups_finished = NEVER;
        self.versions = [0; 16];
        for record in records {
            self.list(record.register).push(*record);
        }
    }

    /// The records of a register, to add to.
    pub(super) fn list(&mut self, register: u16) -> &mut SmallVec<[Record; 2]> {
        let index = usize::from(register);
        if !self.is_touched[index] {
            self.is_touched[index] = true;
            self.touched.push(register);
        }
        &mut self.registers[index]
    }

    /// What is in flight at the end of a block, as the next one sees it.
    pub(super) fn leave(&mut self, out: &mut Vec<Record>) {
        out.clear();
        for register in &self.touched {
            for record in &self.registers[usize::from(*register)] {
                let age = self.now - record.time;
                let over = match record.kind.over() {
                    Some(cycles) => age >= cycles,
                    None => self.is_finished(record),
                };
                if over {
                    continue;
                }
                let (covers, recent) = self.covers(record);
                let kept = record.guard.filter(|guard| {
                    self.versions[usize::from(guard.predicate & 15)] == record.version
                });
                out.push(Record {
                    time: -age.min(FAR),
                    covers,
                    recent,
                    groups: (record.groups - self.groups).max(-8),
                    guard: kept,
                    version: 0,
                    ..*record
                });
            }
        }
        out.sort_unstable_by_key(Record::key);
    }

    /// The barriers that cover a record now, and those of them that a wait in this cycle would not see.
    pub(super) fn covers(&self, record: &Record) -> (u8, u8) {
        let seen = self.now - self.set_to_wait;
        let own_recent = if record.time < 0 {
            if self.now == 0 { record.recent } else { 0 }
        } else if record.time > seen {
            record.covers
        } else {
            0
        };
        let (mut covers, mut recent) = (record.covers, own_recent);
        let carriers = match record.kind {
            Kind::Written(Some(queue)) => &self.completing[usize::from(queue)],
            Kind::Read(Some(queue)) | Kind::Released(Some(queue)) => {
                &self.reading[usize::from(queue)]
            }
            _ => return (covers, recent),
        };
        for (barrier, carrier) in carriers.iter().enumerate() {
            let bit = 1 << barrier;
            if carrier.last >= record.time && carrier.last > NEVER && covers & bit == 0 {
                covers |= bit;
                if carrier.last > seen && carrier.before < record.time {
                    recent |= bit;
                }
            }
        }
        (covers, recent)
    }

    /// Whether an access of variable latency is over.
    pub(super) fn is_finished(&self, record: &Record) -> bool {
        let queue_done = match record.kind {
            Kind::Fixed(_) | Kind::Slow(_) | Kind::Settles => return true,
            Kind::GroupWritten | Kind::GroupRead => return record.groups < self.groups_finished,
            Kind::Written(queue) => queue.map_or(NEVER, |q| self.finished[usize::from(q)]),
            Kind::Read(queue) | Kind::Released(queue) => {
                queue.map_or(NEVER, |q| self.read[usize::from(q)])
            }
        };
        (queue_done > NEVER && queue_done >= record.time) || self.waited_for(record, 0)
    }

    /// Whether a barrier that covers the record was waited for, at most `early` cycles too soon.
    pub(super) fn waited_for(&self, record: &Record, early: i32) -> bool {
        (0..6).any(|barrier| {
            if record.covers >> barrier & 1 == 0 {
                return false;
            }
            let seen = if record.time >= 0 {
                record.time + self.set_to_wait
            } else {
                i32::from(record.recent >> barrier & 1)
            };
            self.waited[barrier] >= seen - early
        })
    }

    pub(super) fn wait(&mut self, barriers: u8) {
        let seen = self.now - self.set_to_wait;
        for barrier in (0..6).filter(|barrier| barriers >> barrier & 1 == 1) {
            self.waited[barrier] = self.now;
            for queue in 0..QUEUES {
                let done = |carriers: Carriers| {
                    if carriers.last <= seen {
                        carriers.last
                    } else if carriers.before <= seen {
                        carriers.before
                    } else {
                        NEVER
                    }
                };
                let (completed, read) = (
                    done(self.completing[queue][barrier]),
                    done(self.reading[queue][barrier]),
                );
                self.finished[queue] = self.finished[queue].max(completed);
                self.read[queue] = self.read[queue].max(read);
            }
        }
    }
}
