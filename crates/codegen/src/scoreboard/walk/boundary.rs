//! What is in flight at the start and at the end of a block.

use super::super::events::{ELSEWHERE, LiveEvent, instruction, kind, mask};
use super::super::facts::EventKind;
use super::super::flight::{Boundary, EventRecord, Flight, ResultRecord, SETTLED};
use super::super::latencies::longest;
use super::{LONG_AGO, Mode, Plan, Walk};
use crate::clock::Units;
use orias_machine::issue::Unit;

impl Walk<'_> {
    /// Starts with what a boundary says.
    pub(super) fn enter(&mut self, before: &Boundary, plan: &Plan) {
        self.issued.clear();
        self.settled = 0;
        self.lag = 0;
        self.events.clear();
        self.units = Units::default();
        for number in std::mem::take(&mut self.touched).iter() {
            self.forget_place(number);
        }
        for number in std::mem::take(&mut self.slowly_read).iter() {
            self.readers[number] = (LONG_AGO, Unit::Control);
        }
        for record in &before.results {
            self.touch(record.place);
            let place = &mut self.places[usize::from(record.place)];
            let at = -i32::from(record.age);
            place.until = place
                .until
                .max(at + longest(self.code.machine, record.group));
            place.results.push((record.group, at));
        }
        for flight in &before.flights {
            self.touch(flight.place);
            let place = &mut self.places[usize::from(flight.place)];
            let list = if flight.reads {
                &mut place.read
            } else {
                &mut place.written
            };
            list.push(flight.event);
        }
        for record in &before.events {
            let own = match kind(record.id) {
                EventKind::Written => plan.write_barrier[instruction(record.id)],
                EventKind::Released => plan.read_barrier[instruction(record.id)],
            };
            // While barriers are being chosen, a record may come from the round before, which chose another one.
            let chosen = match (self.mode, kind(record.id)) {
                (Mode::Settled, _) => 0,
                (Mode::Choose, EventKind::Written) => mask(own),
                // The sources have been read when the results are there.
                (Mode::Choose, EventKind::Released) => {
                    mask(own) | mask(plan.write_barrier[instruction(record.id)])
                }
            };
            self.put_event(LiveEvent {
                id: record.id,
                alive: true,
                covers: record.covers | chosen,
                own,
                waiter: ELSEWHERE,
                demand: record.demand,
                done: record.done,
            });
        }
        for (at, age) in self.barriers.set_at.iter_mut().zip(before.set_ages) {
            *at = -i32::from(age);
        }
    }

    /// What is in flight when the next block starts at `end`.
    pub(super) fn leave(&mut self, end: i32, boundary: &mut Boundary) {
        boundary.clear();
        for number in std::mem::take(&mut self.touched).iter() {
            let place = &self.places[number];
            // What everybody can rely on needs no record.
            if place.until > end {
                let first = boundary.results.len();
                for &(group, at) in &place.results {
                    if end - at < longest(self.code.machine, group) {
                        boundary.results.push(ResultRecord {
                            place: number as u16,
                            group,
                            age: (end - at) as u16,
                        });
                    }
                }
                let results = &mut boundary.results[first..];
                if results.len() > 1 {
                    results.sort_unstable_by_key(|record| record.group);
                }
            }
            if place.written.is_empty() && place.read.is_empty() {
                self.forget_place(number);
                continue;
            }
            let first = boundary.flights.len();
            for (list, reads) in [(&place.written, false), (&place.read, true)] {
                for &event in list {
                    if self.event_slots[event as usize] != 0 {
                        boundary.flights.push(Flight {
                            place: number as u16,
                            reads,
                            event,
                        });
                    }
                }
            }
            let flights = &mut boundary.flights[first..];
            if !flights.is_sorted() {
                flights.sort_unstable();
            }
            self.forget_place(number);
        }
        boundary.flights.dedup();
        self.needed.clear();
        self.marked.clear();
        self.marked.resize(self.events.len(), false);
        for flight in &boundary.flights {
            let slot = self.event_slots[flight.event as usize] as usize - 1;
            if !std::mem::replace(&mut self.marked[slot], true) {
                self.needed.push(flight.event);
            }
        }
        if !self.needed.is_sorted() {
            self.needed.sort_unstable();
        }
        for &event in &self.needed {
            let live = &self.events[self.event_slots[event as usize] as usize - 1];
            boundary.events.push(EventRecord {
                id: event,
                covers: live.covers,
                demand: live.demand - end - self.lag,
                done: live.done - end - self.lag,
            });
        }
        for (age, at) in boundary.set_ages.iter_mut().zip(self.barriers.set_at) {
            *age = (end - at).clamp(0, i32::from(SETTLED)) as u16;
        }
        self.forget_events();
    }

    /// Nothing is in flight for a place any more.
    fn forget_place(&mut self, number: usize) {
        let place = &mut self.places[number];
        place.until = LONG_AGO;
        place.results.clear();
        place.written.clear();
        place.read.clear();
    }

    pub(super) fn touch(&mut self, place: u16) {
        self.touched.insert(place);
    }

    pub(super) fn forget_events(&mut self) {
        for event in self.events.drain(..) {
            self.event_slots[event.id as usize] = 0;
        }
    }
}
