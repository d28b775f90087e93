//! Instructions that decide where lanes go on: branches, calls, ends, and everything that waits for others.

use crate::core::{Core, LaneIterator};
use crate::fault::{Cause, FaultKind};
use crate::gradient;
use crate::launch::FindingKind;
use crate::module::{GRADIENTS, SYSTEM, SYSTEM_CALLS};
use crate::operand::{Condition, Lack, Reader, Source};
use crate::system;
use crate::warp::Wait;
use orias_sass::{Op, Register, modifier_names as name, modifier_values as value};
use orias_sass::{SlotName, slot_names as slot};

/// What a warp does after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Its current group goes on.
    Continue,
    /// Its current group waits, or has ended.
    Blocked,
    /// Others should have a turn.
    Yield,
}

/// How a branch treats lanes that disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Together {
    /// Each lane for itself.
    No,
    /// All lanes branch if one does.
    Any,
}

/// A predicate that a barrier counts, and whether one of them makes the reduction true (otherwise all must).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vote {
    condition: Condition,
    any: bool,
}

/// An instruction that steers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Branch {
        target: i64,
        together: Together,
    },
    /// To an address in a register pair, plus a distance: relative to the code, or absolute.
    Indirect {
        address: Source,
        base: i64,
        absolute: bool,
    },
    /// To an address that the instruction holds.
    Absolute {
        address: u64,
    },
    /// If the lanes of a mask have parted, or have not.
    BranchParted {
        mask: Source,
        target: i64,
        parted: bool,
    },
    Exit,
    Sync {
        barrier: u8,
    },
    Break {
        barrier: u8,
    },
    WarpSync {
        mask: Option<Source>,
    },
    Collective {
        mask: Option<Source>,
        target: i64,
    },
    EndCollective,
    Yield,
    Sleep,
    Trap,
    /// The barrier of the cluster.
    ClusterArrive,
    ClusterWait,
    /// A named barrier: its number and how many threads, in one register if `packed`.
    Barrier {
        id: Source,
        count: Option<Source>,
        packed: bool,
        arrive_only: bool,
        vote: Option<Vote>,
    },
}

/// An instruction that steers, with the second predicate that all of them have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub kind: Kind,
    pub condition: Condition,
    /// The uniform predicate of `BRA.UP`.
    pub uniform: Option<Condition>,
}

/// Index of the instruction at an offset of the function.
fn index_at(offset: i64) -> Result<u32, Cause> {
    u32::try_from(offset / 16)
        .ok()
        .filter(|_| offset >= 0 && offset % 16 == 0)
        .ok_or_else(|| FaultKind::Jump(offset.cast_unsigned()).into())
}

impl Flow {
    pub fn new(kind: Kind, reader: &Reader<'_>) -> Result<Self, Lack> {
        let uniform = reader.instruction.op() == Op::BRA_UP;
        Ok(Self {
            kind,
            condition: reader.optional_condition(slot::P)?,
            uniform: if uniform {
                Some(reader.condition(slot::U)?)
            } else {
                None
            },
        })
    }

    /// Runs it for the current group; `core.active` are the lanes whose guard holds.
    pub fn run(&self, core: &mut Core<'_>) -> Result<Next, Cause> {
        let next = core.index as u32 + 1;
        let mut lanes = core.active & core.condition(&self.condition);
        if let Some(uniform) = &self.uniform {
            lanes &= core.condition(uniform);
        }
        core.warp.since_switch += 1;
        if lanes == 0 && !matches!(self.kind, Kind::Branch { .. }) {
            core.warp.groups[core.warp.current].pc = next;
            return Ok(Next::Continue);
        }
        match self.kind {
            Kind::Branch { target, together } => {
                let taken = match together {
                    Together::Any if lanes != 0 => core.group,
                    _ => lanes,
                };
                if taken != 0 {
                    let target = index_at(target)?;
                    core.warp.branch(taken, target, next);
                    core.warp.take_turns();
                } else {
                    core.warp.groups[core.warp.current].pc = next;
                }
                Ok(Next::Continue)
            }
            Kind::BranchParted {
                mask,
                target,
                parted,
            } => {
                let mask = core.integer(&mask)[0] & core.warp.live;
                let apart = mask & !core.group != 0;
                if apart == parted {
                    let target = index_at(target)?;
                    core.warp.branch(lanes, target, next);
                } else {
                    core.warp.groups[core.warp.current].pc = next;
                }
                Ok(Next::Continue)
            }
            Kind::Indirect {
                address,
                base,
                absolute,
            } => {
                let addresses = core.pair(&address);
                self.indirect(core, lanes, next, addresses, base, absolute)
            }
            Kind::Absolute { address } => self.indirect(core, lanes, next, [address; 32], 0, true),
            Kind::Exit => {
                core.drain()?;
                core.warp.exit(lanes, next);
                if core.warp.is_done() {
                    core.block.warp_ended();
                    if core.peers.barrier.warp_ended(core.warp) {
                        core.synchronize_cluster();
                    }
                }
                Ok(Next::Blocked)
            }
            Kind::Sync { barrier } => {
                let masks = core.warp.registers.b[usize::from(barrier)];
                let first = masks[lanes.trailing_zeros() as usize];
                if lanes == core.group && first & core.warp.live == lanes {
                    let current = core.warp.current;
                    core.warp.groups[current].pc = next;
                    return Ok(Next::Continue);
                }
                // Lanes with different masks meet different lanes.
                let mut left = lanes;
                while left != 0 {
                    let mask = masks[left.trailing_zeros() as usize];
                    let part = LaneIterator(left)
                        .filter(|lane| masks[*lane] == mask)
                        .fold(0, |part, lane| part | 1 << lane);
                    left &= !part;
                    core.warp.part(part, next, Wait::Sync(barrier));
                }
                let current = core.warp.current;
                if let Some(group) = core.warp.groups.get_mut(current)
                    && group.wait == Wait::None
                {
                    group.pc = next;
                }
                core.warp.settle();
                if !core.warp.chooser.is_in_order() {
                    core.warp.pass_yielded();
                }
                Ok(after_wait(core))
            }
            Kind::Break { barrier } => {
                let current = core.warp.current;
                core.warp.groups[current].pc = next;
                core.warp.leave(barrier, lanes);
                Ok(Next::Continue)
            }
            Kind::WarpSync { mask } => self.meet(core, lanes, next, mask.as_ref(), Wait::Lanes),
            Kind::Collective { mask, target } => {
                let target = index_at(target)?;
                let wait = |mask| Wait::Collective { mask, target };
                self.meet(core, lanes, next, mask.as_ref(), wait)
            }
            Kind::EndCollective => {
                core.warp.end_collective(next);
                Ok(Next::Continue)
            }
            Kind::Yield => {
                let current = core.warp.current;
                core.warp.groups[current].pc = next;
                core.warp.let_pass();
                Ok(Next::Continue)
            }
            Kind::Sleep => {
                let current = core.warp.current;
                core.warp.groups[current].pc = next;
                core.warp.give_way();
                Ok(Next::Yield)
            }
            Kind::ClusterArrive => {
                core.drain()?;
                let current = core.warp.current;
                core.warp.groups[current].pc = next;
                if core.peers.barrier.arrive(core.warp)? {
                    core.synchronize_cluster();
                }
                Ok(Next::Continue)
            }
            Kind::ClusterWait => {
                let generation = core.peers.barrier.awaited(core.warp)?;
                if generation != core.peers.barrier.generation {
                    let current = core.warp.current;
                    core.warp.groups[current].pc = next;
                    return Ok(Next::Continue);
                }
                core.warp.wait(lanes, next, Wait::Cluster { generation });
                Ok(Next::Blocked)
            }
            Kind::Trap => Err(Cause::of(lanes.trailing_zeros() as usize, FaultKind::Trap)),
            Kind::Barrier {
                id,
                count,
                packed,
                arrive_only,
                vote,
            } => self.barrier(
                core,
                lanes,
                next,
                &id,
                count.as_ref(),
                packed,
                arrive_only,
                vote,
            ),
        }
    }

    /// Lets lanes wait for the lanes of their masks. Lanes with different masks part here.
    fn meet(
        &self,
        core: &mut Core<'_>,
        lanes: u32,
        next: u32,
        mask: Option<&Source>,
        wait: impl Fn(u32) -> Wait,
    ) -> Result<Next, Cause> {
        let masks = match mask {
            Some(source) => core.integer(source),
            None => [u32::MAX; 32],
        };
        let mut left = lanes;
        while left != 0 {
            let mask = masks[left.trailing_zeros() as usize];
            let part = LaneIterator(left)
                .filter(|lane| masks[*lane] == mask)
                .fold(0, |part, lane| part | 1 << lane);
            left &= !part;
            core.warp.part(part, next, wait(mask));
        }
        let current = core.warp.current;
        if let Some(group) = core.warp.groups.get_mut(current)
            && group.wait == Wait::None
        {
            group.pc = next;
        }
        core.warp.settle();
        Ok(after_wait(core))
    }

    fn indirect(
        &self,
        core: &mut Core<'_>,
        lanes: u32,
        next: u32,
        addresses: [u64; 32],
        base: i64,
        absolute: bool,
    ) -> Result<Next, Cause> {
        let before = core.group;
        let mut left = lanes;
        let mut targets: Vec<(u32, u64)> = Vec::new();
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            let same = LaneIterator(left)
                .filter(|other| addresses[*other] == addresses[lane])
                .fold(0, |part, lane| part | 1 << lane);
            left &= !same;
            targets.push((same, addresses[lane].wrapping_add(base.cast_unsigned())));
        }
        for (part, address) in targets {
            let target = if absolute {
                let mut address = address;
                let system = SYSTEM_CALLS.get((address.wrapping_sub(SYSTEM) / 16) as usize);
                let gradient = gradient::numbered(address.wrapping_sub(GRADIENTS) / 16);
                if system.is_some() || gradient.is_some() {
                    // The function returns to the address in R20 and R21; lanes may come from different places.
                    core.settle()?;
                    if let Some(call) = system {
                        system::call(core, call, part)?;
                    } else if let Some(it) = gradient {
                        gradient::call(core, it, part)?;
                    }
                    let low = core.r(20);
                    let high = core.r(21);
                    let lane = part.trailing_zeros() as usize;
                    address = u64::from(high[lane]) << 32 | u64::from(low[lane]);
                }
                core.context.kernel.index_at(address)
            } else {
                let number = u32::try_from(address / 16).ok();
                number.filter(|_| address % 16 == 0)
            };
            let target = target.ok_or(FaultKind::Jump(address))?;
            let whole = core.warp.groups[core.warp.current].lanes == part;
            core.warp.part(part, target, Wait::None);
            if whole {
                if part != before {
                    core.warp.choose_side(before);
                }
                return Ok(Next::Continue);
            }
        }
        // What is left of the group did not jump.
        let current = core.warp.current;
        core.warp.groups[current].pc = next;
        core.warp.choose_side(before);
        Ok(Next::Continue)
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "the parts of one instruction, taken apart by the caller's match"
    )]
    fn barrier(
        &self,
        core: &mut Core<'_>,
        lanes: u32,
        next: u32,
        id: &Source,
        count: Option<&Source>,
        packed: bool,
        arrive_only: bool,
        vote: Option<Vote>,
    ) -> Result<Next, Cause> {
        core.drain()?;
        let first = lanes.trailing_zeros() as usize;
        let mut number = core.integer(id)[first];
        let mut expected = match count {
            Some(source) => core.integer(source)[first],
            None => 0,
        };
        if packed {
            // Count in bits 16 to 27, as one register holds both.
            expected = number >> 16 & 0xfff;
            number &= 0xf;
        }
        let Some(id) = u8::try_from(number).ok().filter(|id| *id < 16) else {
            return Err(FaultKind::Barrier {
                barrier: number,
                reason: "there are sixteen barriers".to_owned(),
            }
            .into());
        };
        let live = core.warp.live;
        if lanes != live {
            let barrier = id;
            let parted = FindingKind::PartedBarrier {
                barrier,
                lanes,
                live,
            };
            core.find(first, parted);
        }
        let votes = match vote {
            Some(vote) => {
                let count = (core.condition(&vote.condition) & lanes).count_ones();
                Some((count, vote.any))
            }
            None => None,
        };
        let generation = core.block.barriers[usize::from(id)].generation;
        core.block.arrive(
            id,
            lanes.count_ones(),
            (expected != 0).then_some(expected),
            votes,
        )?;
        if arrive_only {
            let current = core.warp.current;
            core.warp.groups[current].pc = next;
            return Ok(Next::Continue);
        }
        core.warp
            .wait(lanes, next, Wait::Barrier { id, generation });
        Ok(Next::Blocked)
    }
}

fn after_wait(core: &Core<'_>) -> Next {
    match core.warp.groups.get(core.warp.current) {
        Some(group) if group.wait == Wait::None => Next::Continue,
        _ => Next::Blocked,
    }
}

/// The semantics of control flow.
pub(crate) fn of(reader: &Reader<'_>) -> Option<Result<Flow, Lack>> {
    let kind = kind_of(reader)?;
    Some(kind.and_then(|kind| {
        // The vote of a reducing barrier is its `p`, not a condition of the instruction.
        if matches!(
            kind,
            Kind::Barrier { .. } | Kind::ClusterArrive | Kind::ClusterWait
        ) {
            Ok(Flow {
                kind,
                condition: Condition {
                    register: Register::PT,
                    invert: false,
                },
                uniform: None,
            })
        } else {
            Flow::new(kind, reader)
        }
    }))
}

fn kind_of(reader: &Reader<'_>) -> Option<Result<Kind, Lack>> {
    let barrier = |arrive_only: bool, vote: bool, packed: bool| {
        let count = if packed {
            None
        } else {
            Some(reader.source(slot::N)?)
        };
        Ok(Kind::Barrier {
            id: reader.source(slot::B)?,
            count,
            packed,
            arrive_only,
            vote: if vote {
                Some(Vote {
                    condition: reader.condition(slot::P)?,
                    any: reader.is(name::FN, value::OR),
                })
            } else {
                None
            },
        })
    };
    Some(match reader.instruction.op() {
        Op::BRA | Op::BRA_UP => reader.modifier(name::MODE).and_then(|mode| {
            Ok(Kind::Branch {
                target: reader.jump(slot::T)?,
                together: match mode {
                    value::UNSAID_WARP | value::U => Together::No,
                    value::U_ANY => Together::Any,
                    other => return Err(format!("branch mode {other}")),
                },
            })
        }),
        Op::BRA_DIV => reader.modifier(name::MODE).and_then(|mode| {
            Ok(Kind::BranchParted {
                mask: reader.source(slot::M)?,
                target: reader.jump(slot::T)?,
                parted: mode == value::DIV,
            })
        }),
        // A table's distance counts from the end of the branch; so does the address in the registers.
        Op::BRX | Op::BRXU => indirect(reader, slot::A, slot::T, false),
        Op::JMX => indirect(reader, slot::A, slot::T, true),
        Op::RET_REL | Op::CALL_REL_R => indirect(reader, slot::A, slot::T, false),
        Op::RET_ABS | Op::CALL_ABS => indirect(reader, slot::A, slot::T, true),
        Op::CALL_ABS_I => match reader.operand(slot::T) {
            Ok(orias_sass::Operand::Target(address)) => Ok(Kind::Absolute {
                address: address.cast_unsigned(),
            }),
            Ok(_) => Err("no address".to_owned()),
            Err(lack) => Err(lack),
        },
        Op::CALL_REL => reader.jump(slot::T).map(|target| Kind::Branch {
            target,
            together: Together::No,
        }),
        Op::UCGABAR_ARV => Ok(Kind::ClusterArrive),
        Op::UCGABAR_WAIT => Ok(Kind::ClusterWait),
        Op::EXIT | Op::KILL => Ok(Kind::Exit),
        Op::BSYNC => reader
            .barrier_register(slot::B)
            .map(|barrier| Kind::Sync { barrier }),
        Op::BREAK => reader
            .barrier_register(slot::B)
            .map(|barrier| Kind::Break { barrier }),
        Op::WARPSYNC => reader
            .source(slot::A)
            .map(|mask| Kind::WarpSync { mask: Some(mask) }),
        Op::WARPSYNC_ALL => Ok(Kind::WarpSync { mask: None }),
        Op::WARPSYNC_COLLECTIVE => reader.source(slot::A).and_then(|mask| {
            Ok(Kind::Collective {
                mask: Some(mask),
                target: reader.jump(slot::T)?,
            })
        }),
        Op::WARPSYNC_COLLECTIVE_ALL => reader
            .jump(slot::T)
            .map(|target| Kind::Collective { mask: None, target }),
        Op::ENDCOLLECTIVE => Ok(Kind::EndCollective),
        Op::YIELD => Ok(Kind::Yield),
        Op::NANOSLEEP => Ok(Kind::Sleep),
        Op::BPT => Ok(Kind::Trap),
        Op::BAR_SYNC => barrier(false, false, false),
        Op::BAR_SYNC_PACKED => barrier(false, false, true),
        Op::BAR_ARV => barrier(true, false, false),
        Op::BAR_ARV_PACKED => barrier(true, false, true),
        Op::BAR_RED => barrier(false, true, false),
        Op::BAR_RED_PACKED => barrier(false, true, true),
        _ => return None,
    })
}

fn indirect(
    reader: &Reader<'_>,
    address: SlotName,
    to: SlotName,
    absolute: bool,
) -> Result<Kind, Lack> {
    let orias_sass::Operand::Target(distance) = reader.operand(to)? else {
        return Err("no distance".to_owned());
    };
    // Relative addresses count from the end of the instruction, absolute ones have a plain distance added.
    let base = if absolute {
        *distance
    } else {
        (reader.index as i64 + 1) * 16 + distance
    };
    Ok(Kind::Indirect {
        address: reader.source(address)?,
        base,
        absolute,
    })
}
