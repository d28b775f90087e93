//! The clock: when the next instruction can issue. Every scheduler and every cycle model of the code generator asks this one.
//!
//! What it knows is what issue asks for ([`Issue`], rows of the machine's tables): an instruction issues when the one before lets it, what
//! it needs is there and its unit is free; it keeps units for some cycles, and lets the next one wait for at least its least stall. When
//! what it needs is there is for others to say: the edges of a dependence graph, or registers in flight. Who models barriers too keeps
//! [`Barriers`] beside the clock.
//!
//! **Warps.** Warps that share a scheduler run the same code and take turns: as if each instruction took as many slots as there are
//! warps, and kept its units as many times as long.
//!
//! An issue costs as many steps as units are kept: one, but for barriers of the thread block.

use orias_machine::issue::{Issue, Unit};
use orias_sass::Barrier;

/// When each unit is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units([u32; Unit::COUNT]);

impl Units {
    /// When a unit is free.
    #[inline]
    pub fn free_at(&self, unit: Unit) -> u32 {
        self.0[unit as usize]
    }

    /// An instruction issues at `at` and keeps its units, for so many warps in turn. What is kept longer already stays so.
    #[inline]
    pub fn keep(&mut self, issue: &Issue, at: u32, warps: u32) {
        for &(unit, cycles) in issue.keeps {
            let free = &mut self.0[unit as usize];
            *free = (*free).max(at + u32::from(cycles) * warps);
        }
    }
}

/// The state of issue between two instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Warps that take turns.
    warps: u32,
    /// The first cycle in which something can issue.
    pub next: u32,
    /// When each unit is free.
    pub units: Units,
}

impl Clock {
    /// At the start of a block, with everything free.
    pub fn new(warps: u32) -> Clock {
        Clock {
            warps,
            next: 0,
            units: Units::default(),
        }
    }

    /// When an instruction of `unit` can issue if what it needs is there at `ready`.
    #[inline]
    pub fn at(&self, unit: Unit, ready: u32) -> u32 {
        self.next.max(ready).max(self.units.free_at(unit))
    }

    /// Cycles from an instruction to the next one, whatever that is.
    #[inline]
    pub fn slots(&self, issue: &Issue) -> u32 {
        slots(issue, self.warps)
    }

    /// An instruction issues at `at`.
    #[inline]
    pub fn issue(&mut self, issue: &Issue, at: u32) {
        self.units.keep(issue, at, self.warps);
        self.next = at + self.slots(issue);
    }

    /// Nothing issues for so many cycles of each warp.
    #[inline]
    pub fn lose(&mut self, cycles: u32) {
        self.next += cycles * self.warps;
    }

    /// Nothing of this warp issues for so many cycles; others go on.
    #[inline]
    pub fn pause(&mut self, cycles: u16) {
        self.next += u32::from(cycles);
    }

    /// Waits for the barriers of a mask; gives the cycles that takes.
    pub fn wait(&mut self, barriers: &Barriers, mask: u8) -> u32 {
        let until = barriers.released(mask).max(self.next);
        let waited = until - self.next;
        self.next = until;
        waited
    }
}

/// Cycles from an instruction to the next one, whatever that is, if so many warps take turns.
#[inline]
pub fn slots(issue: &Issue, warps: u32) -> u32 {
    u32::from(issue.least_stall).max(warps)
}

/// When each of the barriers is released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Barriers([u32; Barrier::COUNT as usize]);

impl Barriers {
    /// When all of a mask have been released.
    pub fn released(&self, mask: u8) -> u32 {
        let barriers = self.0.iter().enumerate();
        let waited = barriers.filter(|(barrier, _)| mask >> barrier & 1 == 1);
        waited.map(|(_, &until)| until).max().unwrap_or(0)
    }

    /// A barrier is held until a cycle, or longer if it is held already.
    pub fn hold(&mut self, barrier: Barrier, until: u32) {
        let held = &mut self.0[usize::from(barrier.index())];
        *held = (*held).max(until);
    }

    /// Held as long as on either path.
    pub fn join(&mut self, other: &Barriers) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = (*mine).max(theirs);
        }
    }

    /// The same, counted from a later cycle on.
    #[must_use]
    pub fn since(self, cycle: u32) -> Barriers {
        Barriers(self.0.map(|at| at.saturating_sub(cycle)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issue(unit: Unit, keeps: &'static [(Unit, u8)], least_stall: u8) -> Issue {
        Issue {
            unit,
            keeps,
            least_stall,
            extra_cycles: 0,
            drains: false,
            waits: true,
        }
    }

    #[test]
    fn the_next_of_a_unit_waits_until_it_is_free() {
        let half = issue(Unit::Fma, &[(Unit::Fma, 2)], 1);
        let mut clock = Clock::new(1);
        clock.issue(&half, 0);
        assert_eq!(clock.at(Unit::Alu, 0), 1);
        assert_eq!(clock.at(Unit::Fma, 0), 2);
        assert_eq!(clock.at(Unit::Fma, 7), 7);
    }

    #[test]
    fn a_shorter_keep_does_not_free_a_unit() {
        let special = issue(Unit::Special, &[(Unit::Special, 8)], 1);
        let bar = issue(Unit::Barrier, &[(Unit::Barrier, 8), (Unit::Special, 6)], 1);
        let mut clock = Clock::new(1);
        clock.issue(&special, 0);
        clock.issue(&bar, 1);
        assert_eq!(clock.at(Unit::Special, 0), 8);
    }

    #[test]
    fn warps_in_turn_multiply_slots_and_keeps() {
        let special = issue(Unit::Special, &[(Unit::Special, 8)], 2);
        let mut clock = Clock::new(4);
        clock.issue(&special, 0);
        assert_eq!(clock.next, 4);
        assert_eq!(clock.units.free_at(Unit::Special), 32);
        clock.lose(1);
        assert_eq!(clock.next, 8);
    }

    #[test]
    fn a_wait_takes_until_the_last_barrier_of_its_mask() {
        let mut barriers = Barriers::default();
        let [first, second] = [0, 1].map(|index| Barrier::new(index).unwrap());
        barriers.hold(first, 30);
        barriers.hold(second, 20);
        barriers.hold(first, 10);
        let mut clock = Clock::new(1);
        assert_eq!(clock.wait(&barriers, 0b10), 20);
        assert_eq!(clock.wait(&barriers, 0b11), 10);
        assert_eq!(clock.wait(&barriers, 0b11), 0);
        assert_eq!(barriers.since(25).released(0b11), 5);
    }
}
