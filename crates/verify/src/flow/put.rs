//! Putting an instruction's own accesses in flight.

use super::access::{Kind, Record};
use super::meet::Walk;
use super::state::{Carriers, State};
use crate::facts::{Fact, THREADS};
use orias_machine::timing::{Arrival, Completion, Place};

impl Walk<'_> {
    /// Puts an instruction's own accesses in flight.
    pub(super) fn issue(&self, index: usize, fact: &Fact, state: &mut State) {
        let now = state.now;
        let set = |carriers: &mut [Carriers; 6], barriers: u8| {
            for (barrier, carrier) in carriers.iter_mut().enumerate() {
                if barriers >> barrier & 1 == 1 {
                    carrier.before = carrier.last;
                    carrier.last = now;
                }
            }
        };
        if let Some(queue) = fact.queue {
            let carriers = &mut state.completing[usize::from(queue)];
            set(carriers, fact.write_barrier);
        }
        if let Some(queue) = fact.read_queue {
            let carriers = &mut state.reading[usize::from(queue)];
            set(carriers, fact.write_barrier | fact.read_barrier);
        }
        let record = Record {
            register: 0,
            instruction: index as u32,
            place: Place::Implicit,
            kind: Kind::GroupRead,
            time: state.now,
            covers: 0,
            recent: 0,
            groups: state.groups,
            guard: fact.guard,
            version: fact
                .guard
                .map_or(0, |guard| state.versions[usize::from(guard.predicate & 15)]),
        };
        for write in self.facts.writes(fact) {
            let list = &mut state.registers[usize::from(write.register)];
            match fact.guard {
                None => list.clear(),
                Some(_) => list.retain(|known| {
                    !known.kind.writes()
                        || known.guard != record.guard
                        || known.version != record.version
                }),
            }
        }
        for write in self.facts.writes(fact) {
            let (kind, covers) = match write.arrival {
                Arrival::Fixed(group) => (Kind::Fixed(group), 0),
                Arrival::WriteBarrier => (Kind::Written(fact.queue), fact.write_barrier),
                Arrival::ReadBarrier => (
                    Kind::Released(fact.read_queue),
                    fact.read_barrier | fact.write_barrier,
                ),
                Arrival::WarpGroup => (Kind::GroupWritten, 0),
            };
            add(
                state,
                Record {
                    register: write.register,
                    place: write.place,
                    kind,
                    covers,
                    ..record
                },
            );
        }
        for read in self.facts.reads(fact).iter().filter(|read| read.late) {
            let (kind, covers) = if fact.completion == Completion::Group {
                (Kind::GroupRead, 0)
            } else {
                (
                    Kind::Read(fact.read_queue),
                    fact.read_barrier | fact.write_barrier,
                )
            };
            add(
                state,
                Record {
                    register: read.register,
                    place: read.place,
                    kind,
                    covers,
                    ..record
                },
            );
        }
        for read in self.facts.reads(fact).iter().filter(|read| read.slow) {
            add(
                state,
                Record {
                    register: read.register,
                    place: read.place,
                    kind: Kind::Slow(read.group),
                    ..record
                },
            );
        }
        if fact.settles {
            add(
                state,
                Record {
                    register: THREADS,
                    kind: Kind::Settles,
                    ..record
                },
            );
        }
        if fact.commits {
            state.groups += 1;
        }
        let mut predicates = fact.predicates;
        while predicates != 0 {
            let predicate = predicates.trailing_zeros() as usize;
            state.versions[predicate] = index as u32 + 1;
            predicates &= predicates - 1;
        }
    }
}
/// Adds a record. One of the same access, from an earlier iteration round a loop, shares its barriers and is replaced.
///
/// So are all that are sure to be over when the new one is: reads in the same queue, slow reads of the same kind, barriers
/// between threads, if their lanes are among those of the new one. This keeps the lists short where many instructions read one
/// register. Under another guard they stay: what is overwritten where the new one does not run need not wait for the new one.
pub(super) fn add(state: &mut State, record: Record) {
    let list = state.list(record.register);
    let covered = |known: &Record| match (known.kind, record.kind) {
        (Kind::Read(Some(known)), Kind::Read(Some(new))) => known == new,
        (Kind::Slow(known), Kind::Slow(new)) => known == new,
        (Kind::Settles, Kind::Settles) => true,
        _ => false,
    };
    let lanes = |known: &Record| {
        record.guard.is_none() || (known.guard, known.version) == (record.guard, record.version)
    };
    list.retain(|known| known.key() != record.key() && !(covered(known) && lanes(known)));
    list.push(record);
}
