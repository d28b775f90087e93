//! What an instruction puts in flight, and the barriers it sets.

use super::super::barriers::{BarrierRequest, CYCLES_PER_INSTRUCTION, LEFT, LONG, Place};
use super::super::demand::NEVER;
use super::super::events::{LiveEvent, event_id, instruction, kind, mask};
use super::super::facts::{Arrives, EventKind, Fact, is_token};
use super::super::latencies::{FORGET_AFTER, longest};
use super::{Mode, Plan, Walk};
use orias_machine::issue::Unit;
use orias_machine::timing::Completion;
use orias_sass::Op;

impl Walk<'_> {
    /// Ends the events that an instruction waits for which issues at `time` but for these `barriers`.
    pub(super) fn finish(&mut self, barriers: u8, time: i32) {
        if barriers == 0 {
            return;
        }
        for event in self.events.iter_mut().filter(|event| event.alive) {
            if event.covers & barriers != 0 {
                if self.mode == Mode::Choose {
                    self.lag = self.lag.max(event.done - time);
                }
                event.alive = false;
                self.event_slots[event.id as usize] = 0;
            }
        }
        let dead = self.events.iter().filter(|event| !event.alive).count();
        if dead > 32 && 2 * dead > self.events.len() {
            self.events.retain(|event| event.alive);
            for (slot, event) in self.events.iter().enumerate() {
                self.event_slots[event.id as usize] = slot as u32 + 1;
            }
        }
    }

    pub(super) fn put_event(&mut self, event: LiveEvent) {
        let slot = &mut self.event_slots[event.id as usize];
        if *slot == 0 {
            self.events.push(event);
            *slot = self.events.len() as u32;
        } else {
            self.events[*slot as usize - 1] = event;
        }
    }

    /// Puts in flight what the instruction started at `time`.
    pub(super) fn issue(&mut self, index: usize, time: i32, plan: &mut Plan) {
        let code = self.code;
        let fact = &code.facts[index];
        // Nothing issues before the block starts.
        self.units.keep(&fact.issue, time as u32, 1);
        if fact.settles {
            self.settled = time + i32::from(code.machine.limits.barrier_settles);
        }
        if self.mode == Mode::Choose {
            self.choose_barriers(index, time, plan);
        }
        let written = mask(plan.write_barrier[index]);
        let released = mask(plan.read_barrier[index]);
        if written | released != 0 {
            self.cover_earlier(fact, written, released);
            for (barrier, at) in self.barriers.set_at.iter_mut().enumerate() {
                if (written | released) >> barrier & 1 == 1 {
                    *at = time;
                }
            }
        }
        if fact.is_variable() {
            self.put_events(index, time, plan);
            self.put_reads(index);
        } else if code.machine.read_to_write(fact.issue.unit) > 1
            && fact.completion == Completion::Fixed
            && !plan.drains[index]
        {
            self.put_slow_reads(index, time);
        }
        self.put_writes(index, time, plan.drains[index]);
    }

    /// Puts the ends of what takes a variable time in flight.
    fn put_events(&mut self, index: usize, time: i32, plan: &Plan) {
        let fact = &self.code.facts[index];
        let written = mask(plan.write_barrier[index]);
        let released = mask(plan.read_barrier[index]);
        for kind in [EventKind::Written, EventKind::Released] {
            let demand = self.demand.of(index, kind);
            if demand == NEVER {
                continue;
            }
            let (covers, own, typical) = match kind {
                EventKind::Written => (written, plan.write_barrier[index], fact.typical),
                EventKind::Released => (released | written, plan.read_barrier[index], fact.release),
            };
            self.put_event(LiveEvent {
                id: event_id(index, kind),
                alive: true,
                covers,
                own,
                waiter: index as i32 + i32::from(demand),
                demand: time + self.lag + i32::from(demand) * CYCLES_PER_INSTRUCTION,
                done: time + self.lag + typical,
            });
        }
    }

    /// Notes what a unit reads that takes its time to read.
    fn put_slow_reads(&mut self, index: usize, time: i32) {
        let code = self.code;
        for read in code.reads(index) {
            self.slowly_read.insert(read.place);
            let reader = &mut self.readers[usize::from(read.place)];
            // A reader that takes longer stays.
            let until =
                |&(at, unit): &(i32, Unit)| at + i32::from(code.machine.read_to_write(unit));
            let new = (time, code.facts[index].issue.unit);
            if until(&new) >= until(reader) {
                *reader = new;
            }
        }
    }

    /// A later instruction of a queue finishes, or reads its sources, after the earlier ones: its barriers cover them. What is
    /// predicated off takes its turn in the queue like any other.
    fn cover_earlier(&mut self, fact: &Fact, written: u8, released: u8) {
        for event in self.events.iter_mut().filter(|event| event.alive) {
            let earlier = &self.code.facts[instruction(event.id)];
            let completes = matches!(fact.completion, Completion::InOrder(_))
                && earlier.completion == fact.completion;
            if completes {
                event.covers |= written;
            }
            let reads = fact.memory_queue && earlier.memory_queue;
            if kind(event.id) == EventKind::Released && (completes || reads) {
                event.covers |= written | released;
            }
        }
    }

    fn put_reads(&mut self, index: usize) {
        let code = self.code;
        let fact = &code.facts[index];
        let event = event_id(index, EventKind::Released);
        if self.event_slots[event as usize] == 0 {
            return;
        }
        for &place in code.late(index) {
            self.touch(place);
            let slots = &self.event_slots;
            let list = &mut self.places[usize::from(place)].read;
            // What is read earlier in the same queue has been read when this has. Behind a guard the chip keeps to that, too, but where
            // such a path meets others the judge, who keeps earlier readers for writers under the opposite guard, finds only the
            // barriers that cover them on all paths: they stay here as well, each with all that covers it.
            list.retain(|earlier| {
                let superseded = fact.memory_queue
                    && !fact.guarded
                    && code.facts[instruction(*earlier)].memory_queue;
                slots[*earlier as usize] != 0 && !superseded && *earlier != event
            });
            list.push(event);
        }
    }

    fn put_writes(&mut self, index: usize, time: i32, drains: bool) {
        let code = self.code;
        let fact = &code.facts[index];
        for write in code.writes(index) {
            self.touch(write.place);
            let place = &mut self.places[usize::from(write.place)];
            let slots = &self.event_slots;
            if write.arrives == Arrives::Already {
                place.written.clear();
                continue;
            }
            if !is_token(write.place) && !fact.guarded {
                place.results.clear();
                place.written.clear();
            } else {
                place.written.retain(|event| slots[*event as usize] != 0);
                place.results.retain(|(_, at)| time - *at < FORGET_AFTER);
            }
            match write.arrives {
                // Nothing goes on before it is there.
                Arrives::Fixed(_) if drains => {}
                Arrives::Fixed(group) => {
                    place.until = place.until.max(time + longest(self.code.machine, group));
                    match place.results.iter_mut().find(|known| known.0 == group) {
                        Some(known) => known.1 = time,
                        None => place.results.push((group, time)),
                    }
                }
                Arrives::Barrier(kind) => {
                    let event = event_id(index, kind);
                    if slots[event as usize] != 0 && !place.written.contains(&event) {
                        place.written.push(event);
                    }
                }
                Arrives::Elsewhere | Arrives::Already => {}
            }
        }
    }

    /// Gives the instruction the barriers its events need.
    fn choose_barriers(&mut self, index: usize, time: i32, plan: &mut Plan) {
        let fact = &self.code.facts[index];
        plan.write_barrier[index] = None;
        plan.read_barrier[index] = None;
        if fact.counts_copies {
            // A group of bulk copies is released like a source, one of LDGSTS like a result.
            match fact.op {
                Op::UTMACMDFLUSH => plan.read_barrier[index] = Some(0),
                _ => plan.write_barrier[index] = Some(0),
            }
            self.barriers.set(0, time, false);
            return;
        }
        if !fact.is_variable() {
            return;
        }
        let reserved = u8::from(self.code.copies_own_zero);
        let demand = |kind| self.demand.of(index, kind);
        let (written, released) = (demand(EventKind::Written), demand(EventKind::Released));
        let far = |event: &&LiveEvent| {
            let fact = &self.code.facts[instruction(event.id)];
            let takes = match kind(event.id) {
                EventKind::Written => fact.typical,
                EventKind::Released => fact.release,
            };
            event.alive && takes >= LONG
        };
        let far = self.events.iter().filter(far);
        let long = far.fold(0, |barriers, event| barriers | mask(event.own));
        let now = time + self.lag;
        let at = |distance: u16| now + i32::from(distance) * CYCLES_PER_INSTRUCTION;
        if written != NEVER && !self.redundant.of(index, EventKind::Written) {
            let place = self.place(index, EventKind::Written, now, plan);
            let request = BarrierRequest {
                place,
                waiter: index as i32 + i32::from(written),
                demand: at(written),
                done: now + fact.typical,
                texture: fact.texture,
                long,
                leaves: if fact.typical < LONG {
                    0
                } else {
                    self.redundant.short_until(index, written).min(LEFT)
                },
                far: fact.typical >= LONG,
            };
            let barrier = self.barriers.choose(request, &self.events, reserved);
            self.barriers.set(barrier, time, fact.texture);
            plan.write_barrier[index] = Some(barrier);
            // The release is chosen next, and must see this one.
            self.put_event(LiveEvent {
                id: event_id(index, EventKind::Written),
                alive: true,
                covers: 1 << barrier,
                own: Some(barrier),
                waiter: request.waiter,
                demand: request.demand,
                done: request.done,
            });
        }
        // Once the results are waited for, the sources have been read, too.
        if released < written && !self.redundant.of(index, EventKind::Released) {
            let place = self.place(index, EventKind::Released, now, plan);
            let request = BarrierRequest {
                place,
                waiter: index as i32 + i32::from(released),
                demand: at(released),
                done: now + fact.release,
                texture: fact.texture,
                long,
                leaves: 0,
                far: false,
            };
            let barrier = self.barriers.choose(request, &self.events, reserved);
            self.barriers.set(barrier, time, fact.texture);
            plan.read_barrier[index] = Some(barrier);
        }
    }

    /// What the rest of the block says of an event of the instruction at `index`, which issues `now`.
    fn place(&mut self, index: usize, kind: EventKind, now: i32, plan: &Plan) -> Place {
        let at = |later: usize| now + (later - index) as i32 * CYCLES_PER_INSTRUCTION;
        let waiter = index + usize::from(self.demand.of(index, kind));
        if waiter >= self.end {
            let far = kind == EventKind::Written && self.code.facts[index].typical >= LONG;
            if !far {
                let look_ahead = &mut self.barriers.look_ahead;
                if !look_ahead.known {
                    look_ahead.find(self.code, self.demand, plan, self.block);
                }
                look_ahead.seek(self.code, self.demand, self.block, (index, kind));
            }
            return Place::Outlives {
                end: at(self.end),
                behind: self.end as i32,
            };
        }
        match self.redundant.outliving_behind(index, self.end) {
            Some(load) if load < waiter => Place::Before(at(load) + self.code.facts[load].typical),
            _ => Place::Inside,
        }
    }
}
