//! Stalls: how those before an instruction let it wait.

use super::needs::Needs;
use super::{Plan, Walk};

impl Walk<'_> {
    /// Gives the instruction before `index` (the end of the block included) the stall that makes `needs` true, and the ones
    /// before it what it cannot take. Returns the time at which `index` issues then.
    pub(super) fn delay(&mut self, index: usize, needs: Needs, plan: &mut Plan) -> i32 {
        let before = index - 1;
        let reached = self.issued[before - self.start] + i32::from(plan.stall[before]);
        let mut missing = needs.time - reached;
        let mut at = before;
        loop {
            if missing <= 0 {
                break;
            }
            let most = if self.code.facts[at].issue.drains || plan.drains[at] {
                1
            } else {
                i32::from(self.code.machine.limits.stall_max)
            };
            let room = (most - i32::from(plan.stall[at])).clamp(0, missing);
            if room > 0 {
                plan.stall[at] += room as u8;
                self.shift(at + 1, before, room);
                missing -= room;
            }
            // Delaying what comes before the one that is waited for would delay that one, too.
            if at == self.start || self.issued[at - self.start] <= needs.since {
                break;
            }
            at -= 1;
        }
        if missing > 0 {
            let producer = self.issued.iter().position(|&time| time == needs.since);
            match producer {
                // What drains has finished before anything follows.
                Some(slot) if plan.drains[self.start + slot] => {}
                Some(slot) if !self.may_fill => self.drain = Some(self.start + slot),
                _ => plan.fillers[before] = missing as u16,
            }
        }
        needs.time
    }

    /// Moves the instructions from `first` to `last`, and what they put in flight, to a later time.
    fn shift(&mut self, first: usize, last: usize, by: i32) {
        for index in first..=last {
            let slot = index - self.start;
            let at = self.issued[slot];
            self.issued[slot] = at + by;
            for write in self.code.writes(index) {
                let place = &mut self.places[usize::from(write.place)];
                for result in &mut place.results {
                    if result.1 == at {
                        result.1 = at + by;
                    }
                }
                place.until += by;
            }
            for read in self.code.reads(index) {
                let reader = &mut self.readers[usize::from(read.place)];
                if reader.0 == at {
                    reader.0 = at + by;
                }
            }
            for set_at in &mut self.barriers.set_at {
                if *set_at == at {
                    *set_at = at + by;
                }
            }
        }
    }
}
