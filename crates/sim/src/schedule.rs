//! What an instruction's control field and timing rows say, taken apart once.

use crate::reuse::{self, Reused};
use orias_machine::timing::{
    Arrival, Completion, Place, Queue, Result as TimedResult, ResultGroup, Use, UseGroup,
};
use orias_machine::{Machine, PerMachine};
use orias_sass::{Instruction, Mnemonic, Op, Operand, RegisterClass};
use orias_sass::{SlotName, slot_names as slot};

/// Registers that an instruction reads, with the moment it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reads {
    pub class: RegisterClass,
    pub first: u8,
    pub count: u8,
    pub guard: bool,
    pub group: UseGroup,
}

/// Registers that an instruction writes, with when each of them arrives.
#[derive(Clone, Debug)]
pub(crate) struct Writes {
    pub class: RegisterClass,
    pub first: u8,
    pub arrivals: Vec<Arrival>,
}

/// What `DEPBAR` waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DependencyWait {
    /// A barrier and how many operations may stay pending on it.
    pub limit: Option<(u8, usize)>,
    /// Barriers that must be zero.
    pub set: u8,
}

/// The timing of one instruction.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// The stall count; 0 waits for all results of fixed latency.
    pub stall: u64,
    pub wait: u8,
    pub read_barrier: Option<u8>,
    pub write_barrier: Option<u8>,
    pub completion: Completion,
    pub reads_in_order: bool,
    /// Cycles that a result with a variable latency takes, as a rule.
    pub typical: u64,
    pub reads: Vec<Reads>,
    pub writes: Vec<Writes>,
    pub dependency: Option<DependencyWait>,
    /// Its sources are the state of the warp at issue, though its result comes later.
    pub reads_state: bool,
    /// It copies to shared memory without waiting.
    pub copies: bool,
    /// It stands for all copies before it.
    pub commits: bool,
    /// What it reads through the reuse cache.
    pub reused: Vec<Reused>,
}

impl Schedule {
    pub fn new(machine: &Machine, instruction: &Instruction) -> Self {
        let op = instruction.op();
        let control = &instruction.control;
        let row = machine.timing(op);
        let mut schedule = Self {
            stall: u64::from(control.stall()),
            wait: control.wait.bits(),
            read_barrier: control.read_barrier.map(|barrier| barrier.index()),
            write_barrier: control.write_barrier.map(|barrier| barrier.index()),
            completion: row.map_or(Completion::Fixed, |row| row.completion),
            reads_in_order: row.is_some_and(|row| row.reads_in_order),
            typical: row
                .and_then(|row| row.typical)
                .map_or(0, |typical| u64::from(typical.cycles)),
            reads: Vec::new(),
            writes: Vec::new(),
            dependency: dependency(instruction),
            // The copy engine takes its orders when they are issued.
            reads_state: matches!(
                op.mnemonic(),
                Mnemonic::B2R
                    | Mnemonic::BMOV
                    | Mnemonic::UBLKCP
                    | Mnemonic::UBLKPF
                    | Mnemonic::UBLKRED
                    | Mnemonic::UTMACCTL
                    | Mnemonic::UTMACMDFLUSH
                    | Mnemonic::UTMALDG
                    | Mnemonic::UTMAPF
                    | Mnemonic::UTMAREDG
                    | Mnemonic::UTMASTG
            ),
            copies: op.mnemonic() == Mnemonic::LDGSTS,
            commits: matches!(op, Op::LDGDEPBAR | Op::ARRIVES_LDGSTSBAR),
            reused: reuse::positions(instruction),
        };
        for access in instruction.accesses() {
            let place = Place::of(instruction, &access);
            let class = access.class();
            // R2UR.OR combines its predicate with the old one where it writes it: no moment of reading is known.
            let combined = op == Op::R2UR_OR && class == RegisterClass::P && access.writes;
            if access.reads && !combined {
                // Registers of one operand may be needed at different times: the halves of a 64-bit addend.
                let mut known: Option<Reads> = None;
                for offset in 0..access.count {
                    let Some(group) = machine.use_group(&Use {
                        op,
                        mods: instruction.mods(),
                        place,
                        class,
                        offset,
                    }) else {
                        continue;
                    };
                    match &mut known {
                        Some(reads) if reads.group == group => reads.count += 1,
                        _ => {
                            let reads = Reads {
                                class,
                                first: access.register.index + offset,
                                count: 1,
                                guard: place == Place::Guard,
                                group,
                            };
                            schedule.reads.extend(known.replace(reads));
                        }
                    }
                }
                schedule.reads.extend(known);
            }
            if access.writes {
                let arrivals = (0..access.count)
                    .map(|offset| {
                        machine
                            .arrival(&TimedResult {
                                op,
                                mods: instruction.mods(),
                                place,
                                class,
                                offset,
                            })
                            .unwrap_or(Arrival::WriteBarrier)
                    })
                    .collect();
                schedule.writes.push(Writes {
                    class,
                    first: access.register.index,
                    arrivals,
                });
            }
        }
        schedule
    }

    /// Whether its result takes a time that only barriers tell. A warp group's products are done at once: no barrier tells of them.
    pub fn is_variable(&self) -> bool {
        !matches!(self.completion, Completion::Fixed | Completion::Group)
    }

    /// The queue in whose order it completes.
    pub fn queue(&self) -> Option<Queue> {
        match self.completion {
            Completion::InOrder(queue) => Some(queue),
            _ => None,
        }
    }

    /// How a register is read: as a guard or as an operand.
    pub fn use_of(&self, class: RegisterClass, index: u8, guard: bool) -> Option<UseGroup> {
        self.reads
            .iter()
            .find(|reads| {
                reads.class == class
                    && reads.guard == guard
                    && index >= reads.first
                    && index - reads.first < reads.count
            })
            .map(|reads| reads.group)
    }

    /// When a register that it writes arrives.
    pub fn arrival_of(&self, class: RegisterClass, index: u8) -> Option<Arrival> {
        self.writes.iter().find_map(|writes| {
            (writes.class == class)
                .then(|| index.checked_sub(writes.first))
                .flatten()
                .and_then(|offset| writes.arrivals.get(usize::from(offset)))
                .copied()
        })
    }
}

fn dependency(instruction: &Instruction) -> Option<DependencyWait> {
    let number = |name: SlotName| match instruction.operand(name) {
        Some(Operand::Immediate(value)) => *value,
        _ => 0,
    };
    match instruction.op() {
        Op::DEPBAR_LE => Some(DependencyWait {
            limit: Some((number(slot::S) as u8, number(slot::N) as usize)),
            set: number(slot::SET) as u8,
        }),
        Op::DEPBAR => Some(DependencyWait {
            limit: None,
            set: number(slot::SET) as u8,
        }),
        _ => None,
    }
}

/// Cycles from a result to a use, as finished code relies on them.
pub(crate) fn latency(machine: &Machine, result: ResultGroup, used: UseGroup) -> u64 {
    if result.class() != used.class() {
        return 0;
    }
    u64::from(machine.latency(result, used).cycles)
}

/// Cycles after which every use sees a result.
pub(crate) fn longest(machine: &Machine, result: ResultGroup) -> u64 {
    use std::sync::OnceLock;
    type Longest = OnceLock<Vec<u64>>;
    static LONGEST: PerMachine<Longest> =
        PerMachine::new([const { OnceLock::new() }; PerMachine::<Longest>::COUNT]);
    let known = LONGEST.of(machine).get_or_init(|| {
        let of = |result: ResultGroup| {
            let uses = machine.use_groups();
            let cycles = uses.map(|used| latency(machine, result, used)).max();
            cycles.unwrap_or(0)
        };
        machine.result_groups().map(of).collect()
    });
    known.get(result.index()).copied().unwrap_or(0)
}
