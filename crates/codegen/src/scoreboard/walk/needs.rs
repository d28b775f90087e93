//! What an instruction needs before it may issue.

use super::super::events::{LiveEvent, instruction, mask};
use super::super::facts::{Arrives, Fact, is_token};
use super::super::flight::EventId;
use super::super::latencies::{cycles, overwritten_late, settles};
use super::super::{ScoreboardError, barriers};
use super::{LONG_AGO, Mode, Walk};
use orias_machine::timing::Completion;

/// What an instruction needs before it may issue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// The earliest time.
    pub(super) time: i32,
    /// When the instruction issued that this is counted from.
    pub(super) since: i32,
    /// Barriers to wait for.
    pub(super) wait: u8,
}

impl Needs {
    fn at_least(&mut self, since: i32, cycles: i32) {
        if since + cycles > self.time {
            self.time = since + cycles;
            self.since = since;
        }
    }
}

/// With more events in flight, an instruction waits for all of them: what must be looked at in every block stays bounded, however many
/// blocks there are. No kernel comes near it but those of thousands of guarded accesses in a row.
const MOST_EVENTS: usize = 512;

impl Walk<'_> {
    /// Collects what the instruction at `index` needs.
    pub(super) fn needs(&mut self, index: usize) -> Result<Needs, ScoreboardError> {
        let code = self.code;
        let fact = &code.facts[index];
        let mut needs = Needs {
            time: i32::MIN / 2,
            since: i32::MIN / 2,
            wait: 0,
        };
        self.needed.clear();
        if fact.alone {
            self.need_everything(fact, &mut needs);
        } else if self.events.len() > MOST_EVENTS {
            self.need_the_many();
        }
        let soonest = self.soonest();
        for read in code.reads(index) {
            let place = &self.places[usize::from(read.place)];
            if let Some(used) = read.used
                && place.until > soonest
            {
                for &(group, at) in &place.results {
                    needs.at_least(at, cycles(self.code.machine, group, used));
                }
            }
            if !place.written.is_empty() {
                self.needed.extend_from_slice(&place.written);
            }
            if read.takes_over {
                self.needed.extend_from_slice(&place.read);
            }
        }
        for write in code.writes(index) {
            if is_token(write.place) {
                continue;
            }
            let (at, unit) = self.readers[usize::from(write.place)];
            if at > LONG_AGO && unit != fact.issue.unit && !fact.is_variable() {
                needs.at_least(at, i32::from(self.code.machine.read_to_write(unit)));
            }
            let place = &self.places[usize::from(write.place)];
            if place.until > soonest {
                for &(group, at) in &place.results {
                    let distance = match write.arrives {
                        Arrives::Fixed(later) => {
                            i32::from(self.code.machine.overwrite(group, later))
                        }
                        _ => overwritten_late(self.code.machine, group),
                    };
                    needs.at_least(at, distance);
                }
            }
            let written = place.written.iter().chain(&place.read);
            for &event in written {
                let earlier = &code.facts[instruction(event)];
                let reads = place.read.contains(&event);
                if !in_same_queue(earlier, fact, reads) {
                    self.needed.push(event);
                }
            }
        }
        if !self.needed.is_empty() {
            self.wait_for_needed(index, &mut needs)?;
        }
        Ok(needs)
    }

    /// No instruction can issue before: what is there by then holds nobody back.
    fn soonest(&self) -> i32 {
        self.issued.last().map_or(0, |before| {
            let last = self.start + self.issued.len() - 1;
            before + i32::from(self.code.facts[last].issue.least_stall)
        })
    }

    /// If too much is in flight, what barriers tell of must have happened.
    fn need_the_many(&mut self) {
        let alive = self.events.iter().filter(|event| event.alive);
        if alive.clone().count() > MOST_EVENTS {
            let told = alive.filter(|event| event.covers != 0);
            self.needed.extend(told.map(|event| event.id));
        }
    }

    /// Calls and the like: every event must have happened, every result must be there when control has passed.
    fn need_everything(&mut self, fact: &Fact, needs: &mut Needs) {
        let events = self.events.iter().filter(|event| event.alive);
        self.needed.extend(events.map(|event| event.id));
        for place in self.touched.iter() {
            for &(group, at) in &self.places[place].results {
                needs.at_least(
                    at,
                    settles(self.code.machine, group) - i32::from(fact.issue.least_stall),
                );
            }
        }
    }

    /// Chooses barriers that cover the needed events.
    fn wait_for_needed(&mut self, index: usize, needs: &mut Needs) -> Result<(), ScoreboardError> {
        let live = |event: EventId| match self.event_slots[event as usize] {
            0 => None,
            slot => Some(&self.events[slot as usize - 1]),
        };
        let mut choice = false;
        // Where there is no choice first: the others may be covered by then.
        for &event in &self.needed {
            match live(event).map(|event| event.covers) {
                Some(covers) if covers.count_ones() == 1 => needs.wait |= covers,
                // While barriers are being chosen, paths may still know an event by those of different rounds.
                Some(0) if self.mode == Mode::Settled => {
                    return Err(ScoreboardError::Uncovered {
                        earlier: self.code.facts[instruction(event)].inst,
                        later: self.code.facts[index].inst,
                    });
                }
                covers => choice |= covers.is_some(),
            }
        }
        if choice {
            let ends = self.barrier_ends();
            for event in self.needed.iter().filter_map(|&event| live(event)) {
                if event.covers & needs.wait == 0 {
                    needs.wait |= soonest(event, ends);
                }
            }
        }
        for barrier in 0..barriers::COUNT {
            if needs.wait >> barrier & 1 == 1 {
                let at = self.barriers.set_at[barrier];
                needs.at_least(at, i32::from(self.code.machine.limits.barrier_set_to_wait));
            }
        }
        Ok(())
    }

    /// When a wait for each barrier is likely to end, now at the soonest.
    fn barrier_ends(&self) -> [i32; barriers::COUNT] {
        let now = self.issued.last().map_or(0, |issued| issued + self.lag);
        let mut ends = [now; barriers::COUNT];
        if self.code.copies_own_zero {
            ends[0] = i32::MAX;
        }
        for event in self.events.iter().filter(|event| event.alive) {
            if let Some(barrier) = event.own {
                let end = &mut ends[usize::from(barrier)];
                *end = event.done.max(*end);
            }
        }
        ends
    }
}

/// Of the barriers that cover an event, the one that a wait for ends first, as a bit; of equal ones its own.
fn soonest(event: &LiveEvent, ends: [i32; barriers::COUNT]) -> u8 {
    let covering = (0..barriers::COUNT as u8).filter(|barrier| event.covers >> barrier & 1 == 1);
    let rank = |barrier: &u8| (ends[usize::from(*barrier)], event.own != Some(*barrier));
    mask(covering.min_by_key(rank))
}

/// Whether a later write cannot overtake the earlier access of the same place.
fn in_same_queue(earlier: &Fact, later: &Fact, earlier_reads: bool) -> bool {
    let completes = matches!(later.completion, Completion::InOrder(_))
        && earlier.completion == later.completion;
    completes || earlier_reads && earlier.memory_queue && later.memory_queue
}
