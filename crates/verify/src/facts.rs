//! What the flow needs to know of each instruction, worked out once.

use crate::program::Program;
use orias_machine::Machine;
use orias_machine::timing::{
    Arrival, Completion, Place, Queue, Result as Written, ResultGroup, Use, UseGroup,
};
use orias_sass::{
    Instruction, Op, Operand, Register, RegisterAccess, RegisterClass, modifier_names as name,
    modifier_values as value,
};
use orias_sass::{SlotName, slot_names as slot};

/// How many registers there are in all five files, and one more for what barriers between threads hold back.
pub(crate) const REGISTERS: usize = 353;

/// Stands for what barriers between threads hold back.
pub(crate) const THREADS: u16 = 352;

/// Longer than any fixed latency.
const DRAIN: i32 = 128;

/// A register as a small number.
pub(crate) fn number(register: Register) -> u16 {
    let base = match register.class {
        RegisterClass::R => 0,
        RegisterClass::P => 256,
        RegisterClass::UR => 264,
        RegisterClass::UP => 328,
        RegisterClass::B => 336,
    };
    base + u16::from(register.index)
}

/// The register behind a number.
pub(crate) fn register(number: u16) -> Register {
    let (class, base) = match number {
        0..256 => (RegisterClass::R, 0),
        256..264 => (RegisterClass::P, 256),
        264..328 => (RegisterClass::UR, 264),
        328..336 => (RegisterClass::UP, 328),
        // No register: whoever shows it must not.
        THREADS => return Register::PT,
        _ => (RegisterClass::B, 336),
    };
    Register::new(class, (number - base) as u8)
}

/// A register that is read.
#[derive(Clone, Copy)]
pub(crate) struct Read {
    pub register: u16,
    pub place: Place,
    pub group: UseGroup,
    /// Whether it is read some time after issue.
    pub late: bool,
    /// Whether it is read a few cycles after issue.
    pub slow: bool,
}

/// A register that is written.
#[derive(Clone, Copy)]
pub(crate) struct Write {
    pub register: u16,
    pub place: Place,
    pub arrival: Arrival,
}

/// The guard of an instruction: the predicate's number among P and UP, and whether it is negated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Guarded {
    pub predicate: u8,
    pub negated: bool,
}

/// Which waits an instruction performs besides its wait mask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    None,
    /// For these barriers.
    Barriers(u8),
    /// Until at most so many are pending on a barrier, and for these barriers.
    Count {
        barrier: u8,
        pending: u8,
        barriers: u8,
    },
    /// Until at most so many warpgroup groups are unfinished.
    Groups(u8),
}

/// What is known of an instruction.
pub(crate) struct Fact {
    reads: (u32, u32),
    writes: (u32, u32),
    pub stall: i32,
    pub waits: u8,
    pub write_barrier: u8,
    pub read_barrier: u8,
    pub guard: Option<Guarded>,
    /// It completes in the order of this queue.
    pub queue: Option<u8>,
    /// It reads its sources in the order of this queue.
    pub read_queue: Option<u8>,
    pub completion: Completion,
    pub settles: bool,
    pub settled: bool,
    pub wait: Wait,
    /// Ends a group of warpgroup operations.
    pub commits: bool,
    /// Predicates written, P in bits 0–6, UP in bits 8–14.
    pub predicates: u16,
}

/// The facts of a whole program.
pub(crate) struct Facts {
    pub facts: Vec<Fact>,
    reads: Vec<Read>,
    writes: Vec<Write>,
}

/// An operation whose timing nobody has stated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no timing is known for {what} of {operation}")]
pub struct UnknownTiming {
    /// Its name.
    pub operation: &'static str,
    /// Which register of it.
    pub what: String,
}

impl Facts {
    pub fn new(program: &Program) -> Result<Self, UnknownTiming> {
        let mut facts = Self {
            facts: Vec::with_capacity(program.instructions.len()),
            reads: Vec::with_capacity(program.instructions.len() * 4),
            writes: Vec::with_capacity(program.instructions.len() * 2),
        };
        for instruction in &program.instructions {
            facts.add(program.machine, instruction)?;
        }
        Ok(facts)
    }

    pub fn reads(&self, fact: &Fact) -> &[Read] {
        &self.reads[fact.reads.0 as usize..fact.reads.1 as usize]
    }

    pub fn writes(&self, fact: &Fact) -> &[Write] {
        &self.writes[fact.writes.0 as usize..fact.writes.1 as usize]
    }

    fn add(&mut self, machine: &Machine, instruction: &Instruction) -> Result<(), UnknownTiming> {
        let op = instruction.op();
        let unknown = |what: String| UnknownTiming {
            operation: op.name(),
            what,
        };
        let timing = machine
            .timing(op)
            .ok_or_else(|| unknown("the class".to_owned()))?;
        let (reads, writes) = (self.reads.len() as u32, self.writes.len() as u32);
        let mods = instruction.mods();
        let mut predicates = 0u16;
        for access in instruction.accesses() {
            let place = Place::of(instruction, &access);
            let class = access.register.class;
            for (offset, register) in access.registers().enumerate() {
                if !touched(instruction, &access, place, offset) {
                    continue;
                }
                let number = number(register);
                // What the operation only hands on where its mask says so is not read where it is written.
                let passes = place == Place::Implicit && access.writes;
                if access.reads && !passes {
                    let used = Use {
                        op,
                        mods,
                        place,
                        class,
                        offset: offset as u8,
                    };
                    self.reads.push(Read {
                        register: number,
                        place,
                        group: machine
                            .use_group(&used)
                            .ok_or_else(|| unknown(format!("reading {register}")))?,
                        late: machine.reads_late(op, place, class),
                        slow: class == RegisterClass::UR,
                    });
                }
                if access.writes {
                    let result = Written {
                        op,
                        mods,
                        place,
                        class,
                        offset: offset as u8,
                    };
                    self.writes.push(Write {
                        register: number,
                        place,
                        arrival: machine
                            .arrival(&result)
                            .ok_or_else(|| unknown(format!("writing {register}")))?,
                    });
                    predicates |= predicate_bit(register);
                }
            }
        }
        let control = instruction.control;
        let bit = |barrier: Option<orias_sass::Barrier>| barrier.map_or(0, |b| 1u8 << b.index());
        let queue = match timing.completion {
            Completion::InOrder(Queue::Shared) => Some(0),
            Completion::InOrder(Queue::Special) => Some(1),
            Completion::InOrder(Queue::Barrier) => Some(2),
            Completion::InOrder(Queue::System) => Some(3),
            Completion::InOrder(Queue::Lanes) => Some(4),
            _ => None,
        };
        let read_queue = if timing.reads_in_order {
            Some(0)
        } else {
            queue
        };
        let guard = instruction.guard();
        self.facts.push(Fact {
            reads: (reads, self.reads.len() as u32),
            writes: (writes, self.writes.len() as u32),
            stall: match control.stall() {
                // Without bit 109, a stall of 0 waits until the pipelines are empty: ptxas -O0 puts it on HMMA.
                0 => DRAIN,
                stall => i32::from(stall),
            },
            waits: control.wait.bits(),
            write_barrier: bit(control.write_barrier),
            read_barrier: bit(control.read_barrier),
            guard: (!guard.is_always()).then(|| Guarded {
                predicate: predicate_index(guard.predicate),
                negated: guard.negated,
            }),
            queue,
            read_queue,
            completion: timing.completion,
            settles: timing.settles,
            settled: timing.settled,
            wait: wait(instruction),
            commits: timing.completion == Completion::Group
                && instruction.modifier(name::GSB) == Some(value::GSB0),
            predicates,
        });
        Ok(())
    }
}

/// P0–P6 as 0–6, PT as 7, UP as 8–15.
fn predicate_index(register: Register) -> u8 {
    match register.class {
        RegisterClass::UP => 8 + register.index,
        _ => register.index,
    }
}

fn predicate_bit(register: Register) -> u16 {
    match register.class {
        RegisterClass::P | RegisterClass::UP => 1 << predicate_index(register),
        _ => 0,
    }
}

/// Whether an operation that takes a mask of predicates touches the one at `offset` of the file.
fn touched(
    instruction: &Instruction,
    access: &RegisterAccess,
    place: Place,
    offset: usize,
) -> bool {
    let predicates = matches!(access.register.class, RegisterClass::P | RegisterClass::UP);
    if place != Place::Implicit || !predicates {
        return true;
    }
    match instruction.operand(slot::B) {
        Some(Operand::Immediate(mask)) => mask >> offset & 1 == 1,
        _ => true,
    }
}

fn wait(instruction: &Instruction) -> Wait {
    let op = instruction.op();
    let number = |name: SlotName| match instruction.operand(name) {
        Some(Operand::Immediate(value)) => *value as u8,
        _ => 0,
    };
    if op == Op::DEPBAR_LE {
        let (barrier, pending, barriers) = (number(slot::S), number(slot::N), number(slot::SET));
        return match pending {
            0 => Wait::Barriers(barriers | 1u8.checked_shl(u32::from(barrier)).unwrap_or(0)),
            pending => Wait::Count {
                barrier,
                pending,
                barriers,
            },
        };
    }
    if op == Op::DEPBAR {
        return Wait::Barriers(number(slot::SET));
    }
    if op == Op::WARPGROUP_DEPBAR {
        return Wait::Groups(number(slot::N));
    }
    Wait::None
}

/// Cycles between groups by index.
pub(crate) struct Distances {
    latency: Vec<u8>,
    uses: usize,
    overwrite: Vec<u8>,
    release: Vec<u8>,
    results: usize,
}

impl Distances {
    pub fn of(machine: &Machine) -> Self {
        let (results, uses) = (
            machine.result_groups().count(),
            machine.use_groups().count(),
        );
        let mut distances = Self {
            latency: vec![0; results * uses],
            uses,
            overwrite: vec![1; results * results],
            release: vec![1; results * uses],
            results,
        };
        for row in machine.latencies() {
            distances.latency[row.result.index() * uses + row.used.index()] =
                machine.latency(row.result, row.used).cycles;
        }
        for earlier in machine.result_groups() {
            for later in machine.result_groups() {
                distances.overwrite[earlier.index() * results + later.index()] =
                    machine.overwrite(earlier, later);
            }
        }
        for used in machine.use_groups() {
            for later in machine.result_groups() {
                distances.release[used.index() * results + later.index()] =
                    machine.release(used, later);
            }
        }
        distances
    }

    pub fn release(&self, used: UseGroup, later: ResultGroup) -> i32 {
        i32::from(self.release[used.index() * self.results + later.index()])
    }

    pub fn latency(&self, result: ResultGroup, used: UseGroup) -> i32 {
        i32::from(self.latency[result.index() * self.uses + used.index()])
    }

    pub fn overwrite(&self, earlier: ResultGroup, later: ResultGroup) -> i32 {
        i32::from(self.overwrite[earlier.index() * self.results + later.index()])
    }
}
