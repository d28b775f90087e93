//! How many cycles finished code takes, as its control words say: one warp, one path, nothing else on the chip.
//!
//! An instruction issues when the stall of the one before has passed, when its unit takes it, and when every barrier it waits for
//! is zero. What sets a barrier releases it after the typical latency of its class, and never before an earlier one of the same
//! queue. Memory is taken to be hit in the nearest cache. A stall of 0 without bit 109 lets the next instruction issue when all
//! results of fixed latency have landed.
//!
//! The numbers of `machine` are all there is to it; `cargo xtask gpu clock` holds the sum against the chip's clock.

use crate::flow::UnknownTiming;
use orias_machine::Machine;
use orias_machine::issue::Unit;
use orias_machine::timing::{Arrival, Completion, Cycles, Place, Queue, Result as Written};
use orias_sass::{Instruction, MemoryEffect, Op, Space};

/// Cycles from the issue of the first instruction to the moment at which the one behind the last may issue.
pub fn estimate(machine: &Machine, instructions: &[Instruction]) -> Result<u32, UnknownTiming> {
    let mut now = 0;
    let mut released = [0; 6];
    let mut units = [0; Unit::COUNT];
    let mut queues = [0; 5];
    let mut landed = 0;
    for instruction in instructions {
        let op = instruction.op();
        let timing = machine.timing(op).ok_or_else(|| UnknownTiming {
            operation: op.name(),
            what: "the class".to_owned(),
        })?;
        let control = instruction.control;
        for barrier in control.wait.iter() {
            now = now.max(released[usize::from(barrier.index())]);
        }
        let issue = machine.issue(instruction);
        now = now.max(units[issue.unit as usize]);
        for &(unit, cycles) in issue.keeps {
            let free = &mut units[unit as usize];
            *free = (*free).max(now + u32::from(cycles));
        }
        let mut done = now + latency(machine, op, timing.typical);
        if let Completion::InOrder(queue) = timing.completion {
            let last = &mut queues[match queue {
                Queue::Shared => 0,
                Queue::Special => 1,
                Queue::Barrier => 2,
                Queue::System => 3,
                Queue::Lanes => 4,
            }];
            done = done.max(*last);
            *last = done;
        }
        let ends = [
            (control.write_barrier, done),
            (
                control.read_barrier,
                (now + u32::from(machine.limits.source_read_least)).min(done),
            ),
        ];
        for (barrier, at) in ends {
            if let Some(barrier) = barrier {
                let known = &mut released[usize::from(barrier.index())];
                *known = (*known).max(at);
            }
        }
        landed = landed.max(now + longest(machine, instruction));
        now = match control.stall() {
            0 if !control.yields => landed.max(now + 1),
            stall => now + u32::from(stall) + u32::from(issue.extra_cycles),
        };
        if matches!(op, Op::BAR_SYNC | Op::BAR_SYNC_PACKED) {
            now += u32::from(machine.limits.barrier_passes);
        }
    }
    Ok(now)
}

/// What to expect of a variable latency: `typical`, or what a load takes that finds its bytes in the nearest cache.
fn latency(machine: &Machine, op: Op, typical: Option<Cycles>) -> u32 {
    let memory = op.row().memory;
    let is_cached = |it: &MemoryEffect| {
        let far = matches!(it.space, Space::Global | Space::Local | Space::Generic);
        far && it.reads && !it.writes
    };
    match !memory.is_empty() && memory.iter().all(is_cached) {
        true => u32::from(machine.limits.first_cache),
        false => typical.map_or(0, |typical| u32::from(typical.cycles)),
    }
}

/// Cycles until all results of fixed latency can be read by arithmetic.
fn longest(machine: &Machine, instruction: &Instruction) -> u32 {
    let mut longest = 0;
    for access in (instruction.accesses().into_iter()).filter(|access| access.writes) {
        let arrival = machine.arrival(&Written {
            op: instruction.op(),
            mods: instruction.mods(),
            place: Place::of(instruction, &access),
            class: access.register.class,
            offset: 0,
        });
        if let Some(Arrival::Fixed(group)) = arrival {
            let uses = (machine.use_groups())
                .filter(|used| used.class() == group.class() && machine.is_arithmetic(*used));
            let cycles = uses.map(|used| machine.latency(group, used).cycles);
            longest = longest.max(cycles.max().map_or(1, u32::from));
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use orias_sass::Target;
    use orias_sass::text::parse_instruction;

    fn code(lines: &[&str]) -> Vec<Instruction> {
        let parse = |line: &&str| {
            parse_instruction(line, 0, Target::DEFAULT)
                .unwrap()
                .instruction
        };
        lines.iter().map(parse).collect()
    }

    #[test]
    fn stalls_add_up_and_waits_end_with_the_latency() {
        let chain = code(&[
            "[B------:R-:W-:-:S04] FADD R4, R4, R5 ;",
            "[B------:R-:W0:Y:S02] MUFU.RCP R4, R4 ;",
            "[B0-----:R-:W-:-:S04] FADD R4, R4, R5 ;",
        ]);
        let machine = Machine::judging(Target::DEFAULT);
        let mufu = machine
            .timing(chain[1].op())
            .and_then(|timing| timing.typical);
        let typical = u32::from(mufu.expect("it takes a variable time").cycles);
        assert_eq!(estimate(machine, &chain), Ok(4 + typical + 4));
    }

    #[test]
    fn a_unit_takes_one_after_the_other() {
        let two = code(&[
            "[B------:R-:W0:Y:S01] MUFU.RCP R4, R8 ;",
            "[B------:R-:W0:Y:S01] MUFU.RCP R5, R9 ;",
        ]);
        assert!(estimate(Machine::judging(Target::DEFAULT), &two).unwrap() > 2);
    }
}
