//! A warp: registers, and the groups its lanes run in.
//!
//! Lanes that run together are a *group* with one program counter. A branch that not all lanes take splits a group; groups
//! join where the program says so: at `BSYNC`, when all lanes that the convergence barrier names have come or left, and at
//! `WARPSYNC`, for the lanes of its mask. Groups take turns, so that a lane that waits in a loop for another lane of its
//! own warp does not wait for ever. Where the chip leaves open which group goes next, a schedule decides ([`Chooser`]).
//!
//! A convergence barrier is kept for each lane, as the mask of lanes it set out with: two sides of a branch may use the
//! same barrier for different regions without disturbing each other.

use crate::divergence::DivergenceStacks;
use crate::flight::Flight;
use crate::operand::Lanes;
use crate::order::Chooser;
use crate::uniforms::Uniforms;

/// The register files of a warp.
#[derive(Clone, Debug)]
pub(crate) struct Registers {
    /// General registers.
    pub r: Vec<Lanes>,
    /// The lanes in which each of them was written.
    pub written: Vec<u32>,
    /// Where each of them is not written, the register that what it holds was computed from: itself, as a rule.
    pub origin: Vec<u8>,
    /// Predicates; the last is always true.
    pub p: [u32; 8],
    /// Uniform registers; the last is always zero.
    pub ur: [u32; 64],
    /// Uniform predicates as all bits or none.
    pub up: [u32; 8],
    /// Convergence barriers, for each lane the mask of lanes that meet.
    pub b: [Lanes; 16],
}

impl Registers {
    pub fn new(count: usize) -> Self {
        let mut registers = Self {
            r: vec![[0; 32]; count],
            written: vec![0; count],
            origin: (0..=u8::MAX).take(count).collect(),
            p: [0; 8],
            ur: [0; 64],
            up: [0; 8],
            b: [[0; 32]; 16],
        };
        registers.p[7] = u32::MAX;
        registers.up[7] = u32::MAX;
        registers
    }
}

/// What a group waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Nothing: it can run.
    None,
    /// The other lanes of a convergence barrier.
    Sync(u8),
    /// The other lanes of a mask.
    Lanes(u32),
    /// The other lanes of a mask, to run an instruction together; then it goes on at `target`.
    Collective { mask: u32, target: u32 },
    /// A named barrier of the block, in this phase of it.
    Barrier { id: u8, generation: u64 },
    /// The barrier of the cluster, in this phase of it.
    Cluster { generation: u64 },
}

/// Lanes that run together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub lanes: u32,
    /// Index of the next instruction.
    pub pc: u32,
    pub wait: Wait,
    /// It executed `YIELD` and has not had a turn since.
    pub yielded: bool,
    /// The number of its last turn.
    pub turn: u64,
}

impl Group {
    fn new(lanes: u32, pc: u32, wait: Wait) -> Self {
        Self {
            lanes,
            pc,
            wait,
            yielded: false,
            turn: 0,
        }
    }
}

/// A warp.
#[derive(Debug)]
pub(crate) struct Warp {
    /// Its number in the block.
    pub number: u32,
    pub registers: Registers,
    pub flight: Flight,
    pub groups: Vec<Group>,
    /// The group whose turn it is.
    pub current: usize,
    /// The lanes that have not ended.
    pub live: u32,
    /// Groups that came together for a collective instruction, and where they go on.
    pub collective: Vec<(u32, u32)>,
    /// Instructions since the last change of group.
    pub since_switch: u32,
    /// How many of them the group may run before others have their turn.
    pub turn: u32,
    /// Turns of groups so far.
    pub turns: u64,
    /// What decides who goes next.
    pub chooser: Chooser,
    /// Which branches parted the lanes, where somebody asks.
    pub divergences: Option<Box<DivergenceStacks>>,
    /// The uniform registers of groups that do not run, where these go on in any order.
    pub uniforms: Option<Box<Uniforms>>,
    /// Instructions since groups last came together, counted in whole turns.
    pub patience: u32,
    /// Thread indices of the lanes in the block.
    pub tid: [Lanes; 3],
    /// Local memory by words, the highest address first, as far as it was touched.
    pub local: Vec<Lanes>,
    /// The lanes in which each of these words was written.
    pub local_written: Vec<u32>,
    /// Result of the last reducing barrier: number of true predicates, and the predicate.
    pub barrier_result: (u32, bool),
    /// The result before, and the cycle up to which it is what is found.
    pub earlier_result: ((u32, bool), u64),
    /// The allocation that was accessed last.
    pub hint: usize,
    /// Copies to shared memory that were not committed to a group yet, and the registers of `RPCMOV`.
    pub return_address: [Lanes; 2],
    /// The phase of the cluster's barrier in which it arrived last.
    pub cluster_arrival: Option<u64>,
    /// Looks at mbarriers since the last that found a phase to be over.
    pub looks: u32,
    /// The mbarrier it looked at last: the block's number in the cluster, and the offset there.
    pub looked: Option<(u32, usize)>,
    /// Whether its turn is over after the instruction that runs.
    pub rests: bool,
}

impl Warp {
    pub fn new(
        number: u32,
        block: [u32; 3],
        registers: usize,
        flight: Flight,
        mut chooser: Chooser,
    ) -> Self {
        let threads = block[0] * block[1] * block[2];
        let first = number * 32;
        let count = (threads - first).min(32);
        let lanes = if count == 32 {
            u32::MAX
        } else {
            (1 << count) - 1
        };
        let mut tid = [[0; 32]; 3];
        for lane in 0..32 {
            let linear = first + lane;
            tid[0][lane as usize] = linear % block[0];
            tid[1][lane as usize] = linear / block[0] % block[1];
            tid[2][lane as usize] = linear / block[0] / block[1];
        }
        Self {
            number,
            registers: Registers::new(registers),
            flight,
            groups: vec![Group::new(lanes, 0, Wait::None)],
            current: 0,
            live: lanes,
            collective: Vec::new(),
            since_switch: 0,
            turn: chooser.group_turn(),
            turns: 0,
            divergences: None,
            uniforms: (!chooser.is_in_order()).then(|| Box::new(Uniforms::new(lanes))),
            chooser,
            patience: 0,
            tid,
            local: Vec::new(),
            local_written: Vec::new(),
            barrier_result: (0, false),
            earlier_result: ((0, false), 0),
            hint: 0,
            return_address: [[0; 32]; 2],
            cluster_arrival: None,
            looks: 0,
            looked: None,
            rests: false,
        }
    }

    /// Coordinates of a lane's thread in the block.
    pub fn thread(&self, lane: usize) -> [u32; 3] {
        [self.tid[0][lane], self.tid[1][lane], self.tid[2][lane]]
    }

    /// Whether all lanes have ended.
    pub fn is_done(&self) -> bool {
        self.groups.is_empty()
    }

    /// Sends `lanes` of the current group elsewhere; the rest goes on at `otherwise`.
    pub fn branch(&mut self, lanes: u32, target: u32, otherwise: u32) {
        let group = &mut self.groups[self.current];
        if lanes == group.lanes {
            group.pc = target;
        } else if lanes == 0 {
            group.pc = otherwise;
        } else {
            let before = group.lanes;
            self.split(lanes, target, Wait::None);
            self.groups[self.current].pc = otherwise;
            self.choose_side(before);
        }
    }

    /// Takes `lanes`, which are not all, out of the current group.
    fn split(&mut self, lanes: u32, pc: u32, wait: Wait) {
        let group = &mut self.groups[self.current];
        if let Some(divergences) = &mut self.divergences {
            divergences.part(group.pc, group.lanes);
        }
        if let Some(uniforms) = &mut self.uniforms {
            self.flight.land_uniforms(&mut self.registers);
            uniforms.part(lanes, &self.registers);
        }
        group.lanes &= !lanes;
        let turn = group.turn;
        self.groups.push(Group {
            turn,
            ..Group::new(lanes, pc, wait)
        });
    }

    /// Takes `lanes` out of the current group and lets them wait, with `pc` as their next instruction. The rest goes on
    /// at `pc` as well.
    pub fn wait(&mut self, lanes: u32, pc: u32, wait: Wait) {
        let group = &mut self.groups[self.current];
        if lanes == group.lanes {
            group.wait = wait;
        } else if lanes != 0 {
            self.split(lanes, pc, wait);
        }
        self.groups[self.current].pc = pc;
    }

    /// Like [`Warp::wait`], for one of several parts of the current group, whose rest is dealt with later.
    pub fn part(&mut self, lanes: u32, pc: u32, wait: Wait) {
        let group = &mut self.groups[self.current];
        if lanes == group.lanes {
            group.pc = pc;
            group.wait = wait;
        } else {
            self.split(lanes, pc, wait);
        }
    }

    /// Ends `lanes` of the current group; the rest goes on at `pc`.
    pub fn exit(&mut self, lanes: u32, pc: u32) {
        let group = &mut self.groups[self.current];
        group.pc = pc;
        group.lanes &= !lanes;
        self.live &= !lanes;
        if group.lanes == 0 {
            self.groups.swap_remove(self.current);
            if self.current >= self.groups.len() {
                self.current = 0;
            }
        }
        self.settle();
    }

    /// Takes `lanes` out of the convergence barrier they share with others.
    pub fn leave(&mut self, barrier: u8, lanes: u32) {
        let masks = &mut self.registers.b[usize::from(barrier)];
        let mut concerned = 0;
        for lane in crate::core::LaneIterator(lanes) {
            concerned |= masks[lane];
        }
        for lane in crate::core::LaneIterator(concerned) {
            masks[lane] &= !lanes;
        }
        self.settle();
    }

    /// The lanes that a waiting group needs, itself included; `None` for waits that other warps end.
    pub fn needs(&self, group: &Group) -> Option<u32> {
        match group.wait {
            Wait::Sync(barrier) => {
                let lane = group.lanes.trailing_zeros() as usize;
                Some(self.registers.b[usize::from(barrier)][lane] & self.live)
            }
            Wait::Lanes(mask) | Wait::Collective { mask, .. } => Some(mask & self.live),
            Wait::None | Wait::Barrier { .. } | Wait::Cluster { .. } => None,
        }
    }

    /// Releases groups whose lanes have all come, and joins those that stand at the same instruction.
    pub fn settle(&mut self) {
        loop {
            let mut released = None;
            for group in &self.groups {
                let Some(needed) = self.needs(group) else {
                    continue;
                };
                let same = |other: &Group| {
                    same_wait(group.wait, other.wait) && self.needs(other) == Some(needed)
                };
                let arrived = self
                    .groups
                    .iter()
                    .filter(|other| same(other))
                    .fold(0, |lanes, other| lanes | other.lanes);
                if needed & !arrived == 0 {
                    released = Some((group.wait, needed));
                    break;
                }
            }
            let Some((wait, needed)) = released else {
                return;
            };
            self.release(wait, needed);
        }
    }

    fn release(&mut self, wait: Wait, needed: u32) {
        self.patience = 0;
        let mut joined: Vec<Group> = Vec::new();
        let mut rest: Vec<Group> = Vec::new();
        let running = self.groups.get(self.current).map(|group| group.lanes);
        for group in &self.groups {
            let fits = same_wait(wait, group.wait) && self.needs(group) == Some(needed);
            if !fits {
                rest.push(*group);
                continue;
            }
            if let Wait::Collective { target, .. } = group.wait {
                self.collective.push((group.lanes, target));
            }
            // A collective instruction is run by all lanes at once, wherever they come from.
            let together = matches!(wait, Wait::Collective { .. });
            match joined
                .iter_mut()
                .find(|other| together || other.pc == group.pc)
            {
                Some(other) => {
                    other.lanes |= group.lanes;
                    other.turn = other.turn.max(group.turn);
                }
                None => joined.push(Group {
                    turn: group.turn,
                    ..Group::new(group.lanes, group.pc, Wait::None)
                }),
            }
        }
        if let Some(uniforms) = &mut self.uniforms {
            for group in &joined {
                uniforms.join(group.lanes);
            }
        }
        if let Some(divergences) = &mut self.divergences {
            for group in &joined {
                // They wait with the instruction behind the meeting as their next.
                divergences.meet(group.pc.saturating_sub(1), group.lanes, self.live);
            }
        }
        rest.extend(joined);
        self.groups = rest;
        self.current = running
            .and_then(|lanes| {
                self.groups
                    .iter()
                    .position(|group| group.lanes & lanes != 0)
            })
            .unwrap_or(0);
    }

    /// Lets every group of a collective instruction go on by itself.
    pub fn end_collective(&mut self, pc: u32) {
        let current = self.groups[self.current];
        let mut left = current.lanes;
        let mut parts = Vec::new();
        self.collective.retain(|(lanes, target)| {
            if lanes & current.lanes == 0 {
                return true;
            }
            parts.push((lanes & left, *target));
            left &= !lanes;
            false
        });
        if left != 0 {
            parts.push((left, pc));
        }
        let mut parts = parts.into_iter().filter(|(lanes, _)| *lanes != 0);
        if let Some((lanes, target)) = parts.next() {
            if let Some(divergences) = &mut self.divergences
                && lanes != current.lanes
            {
                divergences.part(current.pc, current.lanes);
            }
            self.groups[self.current] = Group {
                turn: current.turn,
                ..Group::new(lanes, target, Wait::None)
            };
        }
        for (lanes, pc) in parts {
            if let Some(uniforms) = &mut self.uniforms {
                self.flight.land_uniforms(&mut self.registers);
                uniforms.part(lanes, &self.registers);
            }
            self.groups.push(Group {
                turn: current.turn,
                ..Group::new(lanes, pc, Wait::None)
            });
        }
    }
}

pub(crate) fn same_wait(a: Wait, b: Wait) -> bool {
    match (a, b) {
        (Wait::Sync(a), Wait::Sync(b)) => a == b,
        (Wait::Lanes(a), Wait::Lanes(b)) => a == b,
        (Wait::Collective { mask: a, .. }, Wait::Collective { mask: b, .. }) => a == b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Timing;
    use orias_machine::Machine;
    use orias_sass::Target;

    fn warp() -> Warp {
        let machine = Machine::judging(Target::DEFAULT);
        let flight = Flight::new(machine, Timing::Off, [0; 3], 0);
        Warp::new(0, [32, 1, 1], 8, flight, Chooser::default())
    }

    #[test]
    fn a_convergence_barrier_waits_for_lanes_that_neither_left_nor_ended() {
        let mut warp = warp();
        warp.registers.b[0] = [u32::MAX; 32];
        warp.branch(0xff, 10, 1);
        warp.wait(!0xff, 20, Wait::Sync(0));
        warp.settle();
        assert_eq!(warp.groups.len(), 2);
        warp.rotate();
        assert_eq!(warp.groups[warp.current].lanes, 0xff);
        // Half of the others leave the region, the rest end.
        warp.branch(0x0f, 30, 11);
        warp.leave(0, 0x0f);
        warp.exit(0xf0, 12);
        let joined: Vec<_> = warp.groups.iter().filter(|g| g.pc == 20).collect();
        assert_eq!(joined.len(), 1);
        assert_eq!(joined[0].wait, Wait::None);
        assert_eq!(joined[0].lanes, 0xffff_ff00);
    }

    #[test]
    fn groups_of_a_collective_part_again() {
        let mut warp = warp();
        warp.branch(0xffff, 10, 1);
        warp.wait(
            0xffff_0000,
            2,
            Wait::Collective {
                mask: u32::MAX,
                target: 5,
            },
        );
        warp.settle();
        warp.rotate();
        warp.wait(
            0xffff,
            2,
            Wait::Collective {
                mask: u32::MAX,
                target: 6,
            },
        );
        warp.settle();
        assert_eq!(warp.groups.len(), 1);
        assert_eq!(warp.groups[0].lanes, u32::MAX);
        warp.end_collective(3);
        let mut ends: Vec<(u32, u32)> = warp.groups.iter().map(|g| (g.lanes, g.pc)).collect();
        ends.sort_unstable();
        assert_eq!(ends, [(0xffff, 6), (0xffff_0000, 5)]);
    }
}
