//! Whose turn it is: the schedules that pick among lanes, warps and blocks.
//!
//! What a schedule may choose is what the chip leaves open; `docs/emulator.md` says what that is and how it was seen. A [`Chooser`]
//! makes the choices of one warp, of one block among its warps, or of one host thread among its blocks; each has a stream of
//! random numbers of its own, so that a choice does not depend on what happens elsewhere.

use crate::core::LaneIterator;
use orias_random::Rng;

/// In what order lanes and warps go on, where the chip leaves it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Schedule {
    /// Lanes that do not branch go first, warps and blocks go by their numbers, in turns of thousands of instructions.
    #[default]
    InOrder,
    /// By random numbers of this seed: either side of a branch first, warps in turns of 1 to 256 instructions.
    Random(u64),
    /// What is worst for code that relies on luck: the smaller side of a branch waits, lanes go on without others wherever they may,
    /// and the last warp runs ahead of those before it.
    Adversarial,
}

impl std::str::FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "in-order" => Ok(Self::InOrder),
            None if text == "adversarial" => Ok(Self::Adversarial),
            Some(("random", seed)) => {
                let seed = seed.parse().map_err(|_| format!("'{seed}' is no number"))?;
                Ok(Self::Random(seed))
            }
            _ => Err("write in-order, adversarial or random:SEED".into()),
        }
    }
}

/// Instructions a group runs before another group of its warp has its turn, unless it waits or yields.
const GROUP_TURN: u32 = 128;
/// The logarithm of the most of them in a random schedule.
const LONGEST_GROUP_TURN: u64 = 10;
/// The same in an adversarial schedule.
const ADVERSARIAL_TURN: u32 = 2048;
/// Turns of other groups after which an adversarial schedule lets a group go on, whatever its size.
const MOST_WAITED: u64 = 32;
/// Instructions a warp runs before the next one has its turn.
const WARP_TURN: u32 = 4096;
/// The logarithm of the most of them that a random schedule lets it run.
const LONGEST_WARP_TURN: u64 = 8;

/// Makes the choices of a schedule at one place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chooser {
    schedule: Schedule,
    /// Where its random numbers come from.
    random: Rng,
}

impl Chooser {
    /// The chooser of a block (`member` 0) or of one of its warps (1 and up).
    pub fn new(schedule: Schedule, block: [u32; 3], member: u32) -> Self {
        let seed = match schedule {
            Schedule::Random(seed) => {
                let [x, y, z] = block.map(u64::from);
                let place = x ^ y << 20 ^ z << 40 ^ u64::from(member) << 52;
                seed.wrapping_mul(0xd134_2543_de82_ef95) ^ place
            }
            Schedule::InOrder | Schedule::Adversarial => 0,
        };
        Self {
            schedule,
            random: Rng::new(seed),
        }
    }

    #[inline]
    pub fn is_in_order(&self) -> bool {
        self.schedule == Schedule::InOrder
    }

    fn is_random(&self) -> bool {
        matches!(self.schedule, Schedule::Random(_))
    }

    /// A random number below `limit`.
    fn draw(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit.max(1)
    }

    /// Whether lanes go on that may.
    pub fn let_go(&mut self) -> bool {
        !self.is_random() || self.draw(4) != 0
    }

    /// One of several groups, given their lanes and how many turns of others each has waited. There is at least one.
    pub fn group(&mut self, groups: &[(u32, u64)]) -> usize {
        match self.schedule {
            Schedule::InOrder => 0,
            Schedule::Random(_) => self.draw(groups.len() as u64) as usize,
            Schedule::Adversarial => (0..groups.len())
                .max_by_key(|&at| {
                    let (lanes, waited) = groups[at];
                    let overdue = if waited > MOST_WAITED { waited } else { 0 };
                    (overdue, lanes.count_ones(), at)
                })
                .unwrap_or(0),
        }
    }

    /// One of several groups, given when each had its last turn, for a turn that has to come to every group in the end.
    pub fn fairly(&mut self, turns: &[u64]) -> usize {
        match self.schedule {
            Schedule::Random(_) => self.draw(turns.len() as u64) as usize,
            Schedule::InOrder | Schedule::Adversarial => {
                (0..turns.len()).min_by_key(|&at| turns[at]).unwrap_or(0)
            }
        }
    }

    /// Instructions that a group may run, beginning now, before another gets its turn.
    #[inline]
    pub fn group_turn(&mut self) -> u32 {
        match self.schedule {
            Schedule::InOrder => GROUP_TURN,
            Schedule::Random(_) => {
                let magnitude = self.draw(LONGEST_GROUP_TURN + 1);
                1 + self.draw(1 << magnitude) as u32
            }
            Schedule::Adversarial => ADVERSARIAL_TURN,
        }
    }

    /// Whether the turn of a warp is over when some of its lanes come to a barrier of the block: others may then get there before
    /// the rest of its lanes.
    pub fn rests_at_barrier(&mut self) -> bool {
        match self.schedule {
            Schedule::InOrder => false,
            Schedule::Random(_) => self.draw(2) == 1,
            Schedule::Adversarial => true,
        }
    }

    /// Instructions that a warp may run before the next.
    #[inline]
    pub fn warp_turn(&mut self) -> u32 {
        match self.schedule {
            Schedule::InOrder | Schedule::Adversarial => WARP_TURN,
            Schedule::Random(_) => {
                let magnitude = self.draw(LONGEST_WARP_TURN + 1);
                1 + self.draw(1 << magnitude) as u32
            }
        }
    }

    /// Puts members into the order in which they have their turns.
    pub fn arrange<T>(&mut self, members: &mut [T]) {
        match self.schedule {
            Schedule::InOrder => {}
            Schedule::Random(_) => self.random.shuffle(members),
            Schedule::Adversarial => members.reverse(),
        }
    }

    /// The order in which lanes of one instruction come to memory that each of them changes.
    pub fn lanes(&mut self, lanes: u32) -> LaneOrder {
        match self.schedule {
            Schedule::InOrder => LaneOrder::Up { lanes, from: 0 },
            Schedule::Random(_) => {
                let from = self.draw(32) as u32;
                LaneOrder::Up {
                    lanes: lanes.rotate_right(from),
                    from,
                }
            }
            Schedule::Adversarial => LaneOrder::Down { lanes },
        }
    }
}

/// Lanes one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LaneOrder {
    /// The lowest first, counted from lane `from` on, which is bit 0 of `lanes`.
    Up { lanes: u32, from: u32 },
    /// The highest first.
    Down { lanes: u32 },
}

impl Iterator for LaneOrder {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        match self {
            Self::Up { lanes, from } => {
                let mut left = LaneIterator(*lanes);
                let lane = left.next()?;
                *lanes = left.0;
                Some((lane + *from as usize) % 32)
            }
            Self::Down { lanes } => {
                let lane = 31u32.checked_sub(lanes.leading_zeros())?;
                *lanes &= !(1 << lane);
                Some(lane as usize)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_of_lanes_has_each_lane_once() {
        for schedule in [
            Schedule::InOrder,
            Schedule::Random(1),
            Schedule::Random(2),
            Schedule::Adversarial,
        ] {
            let mut chooser = Chooser::new(schedule, [0; 3], 1);
            for lanes in [0, 1, 0x8000_0001, 0x00ff_ff00, u32::MAX] {
                let order: Vec<usize> = chooser.lanes(lanes).collect();
                let seen = order.iter().fold(0u32, |seen, lane| seen | 1 << lane);
                assert_eq!(
                    (seen, order.len()),
                    (lanes, lanes.count_ones() as usize),
                    "{schedule:?}"
                );
            }
        }
    }

    #[test]
    fn schedules_are_written_as_they_are_read() {
        assert_eq!("random:7".parse(), Ok(Schedule::Random(7)));
        assert_eq!("adversarial".parse(), Ok(Schedule::Adversarial));
        assert!("random".parse::<Schedule>().is_err());
    }
}
