//! Barrier assignment: which of the six scoreboard barriers an event gets.
//!
//! A barrier is a counter: any number of events may be in flight on it, and a wait ends when all of them have happened. Sharing is
//! free where the first instruction to wait is the same, and otherwise costs what the earlier of the two waits for the later event.
//! The choice weighs that cost with typical latencies:
//!
//! 1. a barrier whose event is waited for by the same instruction;
//! 2. else a free barrier, the one that was set the longest time ago;
//! 3. else the barrier where sharing costs the fewest cycles; of equal ones the oldest.
//!
//! What takes long leaves barriers to what does not: while short events are still to come that need one (sources that have been read,
//! constants, special functions), the last free barriers cost [`LAST`] cycles for a load from far memory, which is what a short
//! event would wait for on average if it had to share one with a load. Loads rather share with each other: they come back one after the other
//! in any case.
//!
//! Loads from far memory that their own block does not wait for all share the last barrier. When they are waited for depends on the
//! path, they are in flight for long, and each barrier they had to themselves would be missing in the loop that follows. What is
//! waited for behind such a load in its block keeps away from that barrier.
//!
//! What outlives its block meets what the blocks behind it set before it is waited for: at the end of a loop, what the next iteration
//! starts with ([`LookAhead`]).
//!
//! Texture operations go to barriers that texture operations used last before they go to others of the same cost, so that the long
//! waits gather. Barrier 0 belongs to groups of asynchronous copies where the function has any: DEPBAR counts them there.

use super::events::{ELSEWHERE, LiveEvent};
use super::look_ahead::LookAhead;
use orias_sass::Barrier;

/// How many barriers there are.
pub(super) const COUNT: usize = Barrier::COUNT as usize;

/// The barrier of loads from far memory that outlive their block.
pub(super) const OUTLIVING: u8 = Barrier::COUNT - 1;

/// Events that take at least this many cycles take long.
pub(super) const LONG: i32 = 100;

/// Cycles that a barrier costs which should be left to short events, by how many are left to them then.
const LAST: [i32; LEFT] = [150, 150, 30];

/// At most this many barriers are left to short events.
pub(super) const LEFT: usize = 3;

/// Cycles by which a load is taken to come later than its latency says, when another one is to wait for it: how long far loads take varies.
const GAP: i32 = 16;

/// Cycles that an instruction of the demand's distance is taken for.
pub(super) const CYCLES_PER_INSTRUCTION: i32 = 2;

/// An event that wants a barrier.
#[derive(Clone, Copy, Debug)]
pub(super) struct BarrierRequest {
    /// The first instruction that waits for it, counted from the start of the function.
    pub(super) waiter: i32,
    /// The time of that instruction.
    pub(super) demand: i32,
    /// The time when it has likely happened.
    pub(super) done: i32,
    /// Whether it belongs to a texture operation.
    pub(super) texture: bool,
    /// The barriers on which something is in flight that takes long.
    pub(super) long: u8,
    /// How many of the others it leaves to short events, if it can.
    pub(super) leaves: usize,
    /// Whether it comes from far memory.
    pub(super) far: bool,
    /// What the rest of its block says.
    pub(super) place: Place,
}

/// What the rest of its block says of an event that wants a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It is waited for in its block. Before that a far load issues that outlives the block, and is done then.
    Before(i32),
    /// It is waited for in its block.
    Inside,
    /// It outlives its block.
    Outlives {
        /// When the block ends.
        end: i32,
        /// The first instruction behind the block, as waiters are counted.
        behind: i32,
    },
}

/// What is known of the barriers.
#[derive(Clone, Debug, Default)]
pub(super) struct Barriers {
    /// When each was last set.
    pub(super) set_at: [i32; COUNT],
    /// Those that texture operations set last.
    pub(super) texture: u8,
    /// What follows the block that is being walked over.
    pub(super) look_ahead: LookAhead,
}

impl Barriers {
    /// Picks a barrier that is not in `taken`.
    pub(super) fn choose(&self, request: BarrierRequest, live: &[LiveEvent], taken: u8) -> u8 {
        let mut best: Option<([i32; 3], u8)> = None;
        if request.far && matches!(request.place, Place::Outlives { .. }) {
            return OUTLIVING;
        }
        let long = request.long | taken;
        let others = COUNT - long.count_ones() as usize;
        let last = match others.saturating_sub(1) {
            left if left < request.leaves => LAST[left],
            _ => 0,
        };
        for barrier in (0..COUNT as u8).filter(|barrier| taken >> barrier & 1 == 0) {
            let mut rank = self.rank(request, live, barrier);
            if long >> barrier & 1 == 0 {
                rank[0] += last;
            }
            if let (Place::Before(done), OUTLIVING) = (request.place, barrier) {
                rank[0] = rank[0].max(done - request.demand.max(request.done));
            }
            if best.is_none_or(|(known, _)| rank < known) {
                best = Some((rank, barrier));
            }
        }
        best.map_or(0, |(_, barrier)| barrier)
    }

    /// What taking `barrier` costs; smaller is better.
    fn rank(&self, request: BarrierRequest, live: &[LiveEvent], barrier: u8) -> [i32; 3] {
        // What others wait for because of this event, and this one because of others.
        let (mut theirs, mut ours) = (0, 0);
        let (mut free, mut together) = (true, false);
        let on = live
            .iter()
            .filter(|event| event.alive && event.own == Some(barrier));
        for event in on {
            free = false;
            let earlier = match event.waiter {
                ELSEWHERE => event.demand < request.demand,
                waiter => waiter < request.waiter,
            };
            if event.waiter == request.waiter {
                together = true;
            } else if earlier {
                let gap = if request.far { GAP } else { 0 };
                theirs = theirs.max(request.done + gap - event.demand.max(event.done));
            } else {
                ours = ours.max(event.done - request.demand.max(request.done));
            }
        }
        let foreign = request.texture != (self.texture >> barrier & 1 == 1);
        let kind = match (together, free) {
            (true, _) => 0,
            (false, true) => 1 + i32::from(foreign),
            (false, false) => 3 + i32::from(foreign),
        };
        let cost = (theirs + ours).max(self.look_ahead.cost(request, live, barrier));
        [cost, kind, self.set_at[usize::from(barrier)]]
    }

    /// Notes that `barrier` was set.
    pub(super) fn set(&mut self, barrier: u8, at: i32, texture: bool) {
        self.set_at[usize::from(barrier)] = at;
        let bit = 1 << barrier;
        if texture {
            self.texture |= bit;
        } else {
            self.texture &= !bit;
        }
    }
}
