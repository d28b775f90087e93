//! What is in flight at each point of a program, and which pairs of instructions meet in a register.
//!
//! The state before an instruction is a list of *records*: an earlier instruction's write or read of one register that has
//! not surely finished. A record knows how many cycles have passed at least since its instruction issued, and, if the
//! instruction takes a variable time, which barriers cover it: waiting for any of them means it has finished.
//!
//! - Issue advances every record by the stall count of the instruction before.
//! - A wait on a barrier ends the records it covers, if the barrier was set early enough to be seen.
//! - Where instructions complete in order, or read their sources in order, a later one's barrier covers the earlier ones too.
//! - Where paths join, a register has the records of both; of two records of one instruction the shorter time and the
//!   barriers common to both remain. All of this only ever shrinks, so the iteration ends.
//!
//! Every dependence found is handed to an observer: to one that learns the smallest distances, or to one that judges.

use crate::program::Program;
use orias_machine::timing::{Completion, Timing};
use orias_sass::{Instruction, Register, RegisterAccess, RegisterClass};

/// How a later instruction depends on an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hazard {
    /// It reads what the earlier one writes.
    ReadAfterWrite,
    /// It writes what the earlier one reads.
    WriteAfterRead,
    /// It writes what the earlier one writes.
    WriteAfterWrite,
}

/// One dependence through one register, as the flow sees it when the later instruction issues.
#[derive(Clone, Copy, Debug)]
pub struct Dependence {
    /// Index of the earlier instruction.
    pub earlier: usize,
    /// Index of the later instruction.
    pub later: usize,
    /// The register.
    pub register: Register,
    /// Which kind.
    pub hazard: Hazard,
    /// The slot of the earlier instruction; none for guards and implicit registers.
    pub earlier_slot: Option<u8>,
    /// The slot of the later instruction.
    pub later_slot: Option<u8>,
    /// Cycles that have passed at least since the earlier instruction issued.
    pub cycles: u16,
    /// Whether a wait has made sure that the earlier access is over.
    pub finished: bool,
}

/// Cycles are counted up to here; nothing of fixed latency takes longer.
const FAR: u16 = 255;

/// A barrier set in one cycle is seen by a wait this many cycles later.
const BARRIER_VISIBLE: u16 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    register: u16,
    writes: bool,
    slot: Option<u8>,
    instruction: u32,
    cycles: u16,
    /// Barriers that cover the access; meaningless for fixed latencies.
    covers: u8,
    variable: bool,
    /// Whether a wait has ended it: kept until its time has passed, so that the observer sees covered dependences too.
    finished: bool,
}

impl Record {
    fn key(&self) -> (u16, bool, u32, Option<u8>) {
        (self.register, self.writes, self.instruction, self.slot)
    }
}

/// A register as a small number.
fn number(register: Register) -> u16 {
    let base = match register.class {
        RegisterClass::R => 0,
        RegisterClass::P => 256,
        RegisterClass::UR => 264,
        RegisterClass::UP => 328,
        RegisterClass::B => 336,
    };
    base + u16::from(register.index)
}

/// What is known of an instruction before the flow runs.
struct Facts {
    accesses: Vec<RegisterAccess>,
    timing: Timing,
    stall: u16,
    waits: u8,
    write_barrier: u8,
    read_barrier: u8,
    guarded: bool,
}

/// An operation whose timing nobody has stated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no timing is known for {operation}")]
pub struct UnknownTiming {
    /// Its name.
    pub operation: &'static str,
}

fn facts(instruction: &Instruction) -> Result<Facts, UnknownTiming> {
    let control = instruction.control;
    let bit =
        |barrier: Option<orias_sass::Barrier>| barrier.map_or(0, |barrier| 1 << barrier.index());
    let unknown = UnknownTiming {
        operation: instruction.op().name(),
    };
    Ok(Facts {
        accesses: instruction.accesses().into_iter().collect(),
        timing: orias_machine::timing::of(instruction.op()).ok_or(unknown)?,
        stall: u16::from(control.stall()).max(1),
        waits: control.wait.bits(),
        write_barrier: bit(control.write_barrier),
        read_barrier: bit(control.read_barrier),
        guarded: !instruction.guard().is_always(),
    })
}

/// Runs the flow over a program to its fixed point, then hands every dependence to `observe`.
pub fn observe(
    program: &Program,
    mut observe: impl FnMut(Dependence),
) -> Result<(), UnknownTiming> {
    let facts = program
        .instructions
        .iter()
        .map(facts)
        .collect::<Result<Vec<Facts>, _>>()?;
    let mut states: Vec<Option<Vec<Record>>> = vec![None; program.blocks.len()];
    if states.is_empty() {
        return Ok(());
    }
    states[0] = Some(Vec::new());
    // Blocks in address order, again and again, visiting only those whose state changed.
    let mut dirty: Vec<bool> = vec![true; program.blocks.len()];
    while let Some(block) = dirty.iter().position(|dirty| *dirty) {
        dirty[block] = false;
        let Some(mut state) = states[block].clone() else {
            continue;
        };
        run(program, &facts, block, &mut state, &mut |_| {});
        for successor in &program.blocks[block].successors {
            let changed = match &mut states[*successor] {
                Some(known) => join(known, &state),
                slot @ None => {
                    *slot = Some(state.clone());
                    true
                }
            };
            dirty[*successor] |= changed;
        }
    }
    for (block, state) in states.iter().enumerate() {
        if let Some(state) = state {
            run(program, &facts, block, &mut state.clone(), &mut observe);
        }
    }
    Ok(())
}

/// Adds what `other` has in flight; says whether anything changed.
fn join(known: &mut Vec<Record>, other: &[Record]) -> bool {
    let mut changed = false;
    for record in other {
        match known
            .iter_mut()
            .find(|candidate| candidate.key() == record.key())
        {
            Some(candidate) => {
                let merged = Record {
                    cycles: candidate.cycles.min(record.cycles),
                    covers: candidate.covers & record.covers,
                    finished: candidate.finished && record.finished,
                    ..*candidate
                };
                changed |= merged != *candidate;
                *candidate = merged;
            }
            None => {
                known.push(*record);
                changed = true;
            }
        }
    }
    changed
}

/// Takes a state through one block.
fn run(
    program: &Program,
    facts: &[Facts],
    block: usize,
    state: &mut Vec<Record>,
    observe: &mut impl FnMut(Dependence),
) {
    let bounds = &program.blocks[block];
    for index in bounds.start..bounds.end {
        let fact = &facts[index];
        for record in state.iter_mut() {
            if record.variable
                && record.covers & fact.waits != 0
                && record.cycles >= BARRIER_VISIBLE
            {
                record.finished = true;
            }
        }
        meet(fact, index, facts, state, observe);
        issue(fact, index, facts, state);
        for record in state.iter_mut() {
            record.cycles = (record.cycles + fact.stall).min(FAR);
        }
        // What has finished and is long past cannot meet anything; what is unfinished stays.
        state.retain(|record| record.cycles < FAR || (record.variable && !record.finished));
    }
    if bounds.drains {
        // Callers and callees wait for everything before control passes; that this is so is the judge's to check.
        state.clear();
    }
}

/// Reports every dependence of an instruction on what is in flight.
///
/// A write by an instruction that waits in the same queue as an earlier reader is none: it cannot overtake.
fn meet(
    fact: &Facts,
    index: usize,
    facts: &[Facts],
    state: &[Record],
    observe: &mut impl FnMut(Dependence),
) {
    for access in &fact.accesses {
        let first = number(access.register);
        let last = first + u16::from(access.count);
        for record in state
            .iter()
            .filter(|record| (first..last).contains(&record.register))
        {
            let mut report = |hazard| {
                let offset = (record.register - first) as u8;
                observe(Dependence {
                    earlier: record.instruction as usize,
                    later: index,
                    register: Register::new(access.register.class, access.register.index + offset),
                    hazard,
                    earlier_slot: record.slot,
                    later_slot: access.slot,
                    cycles: record.cycles,
                    finished: record.finished,
                });
            };
            if access.reads && record.writes {
                report(Hazard::ReadAfterWrite);
            }
            if access.writes && record.writes {
                report(Hazard::WriteAfterWrite);
            }
            let earlier = facts[record.instruction as usize].timing;
            let same_queue = earlier.reads_in_order && fact.timing.reads_in_order
                || matches!(earlier.completion, Completion::InOrder(_))
                    && earlier.completion == fact.timing.completion;
            if access.writes && !record.writes && !same_queue {
                report(Hazard::WriteAfterRead);
            }
        }
    }
}

/// Puts an instruction's own accesses in flight.
fn issue(fact: &Facts, index: usize, facts: &[Facts], state: &mut Vec<Record>) {
    if fact.timing.completion == Completion::Group {
        // Its accumulators are the business of the warpgroup's own waits.
        return;
    }
    let variable = fact.timing.completion != Completion::Fixed;
    // Its barriers cover earlier instructions that complete, or read their sources, before it does.
    for record in state.iter_mut().filter(|record| record.variable) {
        let earlier = facts[record.instruction as usize].timing;
        let completes = matches!(fact.timing.completion, Completion::InOrder(_))
            && earlier.completion == fact.timing.completion;
        if completes {
            record.covers |= fact.write_barrier;
        }
        let reads = fact.timing.reads_in_order && earlier.reads_in_order;
        if !record.writes && (completes || reads) {
            record.covers |= fact.read_barrier | fact.write_barrier;
        }
    }
    for access in &fact.accesses {
        for register in access.registers() {
            let register = number(register);
            // A write that surely happens hides what was in the register from later readers.
            if access.writes && !fact.guarded {
                state.retain(|record| record.register != register || !record.writes);
            }
            let mut add = |writes: bool, covers: u8| {
                let record = Record {
                    register,
                    writes,
                    slot: access.slot,
                    instruction: index as u32,
                    cycles: 0,
                    covers,
                    variable,
                    finished: false,
                };
                match state
                    .iter_mut()
                    .find(|candidate| candidate.key() == record.key())
                {
                    Some(candidate) => *candidate = record,
                    None => state.push(record),
                }
            };
            if access.writes {
                add(true, fact.write_barrier);
            }
            // Fixed-latency instructions read their sources when they issue; so do all with guards and uniform registers.
            let late =
                variable && access.slot.is_some() && access.register.class == RegisterClass::R;
            if access.reads && late {
                add(false, fact.read_barrier | fact.write_barrier);
            }
        }
    }
}
