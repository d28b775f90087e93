//! In what order threads have their turns, where the manual leaves it open: everywhere.

use orias_random::Rng;

/// In what order threads go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// By their numbers, each until it waits, or for thousands of steps.
    #[default]
    InOrder,
    /// By random numbers of this seed: in any order, each for 1 to 64 steps.
    Random(u64),
    /// The last first, one step each: between a read and the write that follows it all others have read.
    Adversarial,
}

/// Steps a thread makes before the next has its turn.
const TURN: u64 = 4096;
/// The logarithm of the most of them in a random schedule.
const LONGEST_TURN: u64 = 6;

/// Makes the choices of a schedule, for the whole launch.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    schedule: Schedule,
    /// Where its random numbers come from.
    random: Rng,
}

impl Chooser {
    pub fn new(schedule: Schedule) -> Self {
        let seed = match schedule {
            Schedule::Random(seed) => seed.wrapping_mul(0xd134_2543_de82_ef95),
            Schedule::InOrder | Schedule::Adversarial => 0,
        };
        Self {
            schedule,
            random: Rng::new(seed),
        }
    }

    /// A random number below `limit`.
    fn draw(&mut self, limit: u64) -> u64 {
        self.random.next_u64() % limit.max(1)
    }

    /// Steps that a thread may make now.
    pub fn turn(&mut self) -> u64 {
        match self.schedule {
            Schedule::InOrder => TURN,
            Schedule::Random(_) => {
                let magnitude = self.draw(LONGEST_TURN + 1);
                1 + self.draw(1 << magnitude)
            }
            Schedule::Adversarial => 1,
        }
    }

    /// Puts members into the order of their turns.
    pub fn arrange<T>(&mut self, members: &mut [T]) {
        match self.schedule {
            Schedule::InOrder => {}
            Schedule::Random(_) => self.random.shuffle(members),
            Schedule::Adversarial => members.reverse(),
        }
    }

    /// Whether a bulk copy that nobody waits for is made now.
    pub fn copies_now(&mut self) -> bool {
        match self.schedule {
            Schedule::InOrder => true,
            Schedule::Random(_) => self.draw(8) == 0,
            Schedule::Adversarial => false,
        }
    }

    /// Whether threads that ask who is active get their answer though others could still come.
    pub fn answers_early(&mut self) -> bool {
        match self.schedule {
            Schedule::InOrder => false,
            Schedule::Random(_) => self.draw(4) == 0,
            Schedule::Adversarial => true,
        }
    }
}
