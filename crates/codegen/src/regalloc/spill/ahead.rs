//! Spilled values are loaded once in a block, and ahead of their uses, as far as registers allow.
//!
//! Spilling puts each load in front of the instruction that reads it. Where a loop reads one value after the other from memory, all of them then come
//! into the same register, and each waits for the whole latency of the one before. Here every load of a spilled value goes up in its block, past
//! whatever neither writes its place nor calls, until it is as far from its use as memory takes, until registers are full, or up to the load before it. Then
//! loads overlap.
//!
//! What a block loads twice from one place, or loads where it stored, stays in its register in between, if there are registers: a value that is spilled as a whole is loaded for every
//! reader.
//!
//! Where all registers are taken at every point nothing can go up. So functions that load many spilled values in one block of a loop are spilled once
//! more with a few registers less ([`SLACK`]), which the loads on their way then have; `super::fit` takes that if it costs little more.
//!
//! Cost: O(operands + live pairs of value and block), and for each load a look at the instructions it passes, of which there are [`AHEAD`] at most.

use super::super::calls::is_call;
use super::super::counts::{Goals, Room};
use crate::module::INCOMING;
use crate::tail::{group_start, may_wait_for_lanes};
use cranelift_entity::EntityRef;
use orias_machine::Machine;
use orias_ori::analysis::{Frequencies, Liveness};
use orias_ori::{Block, Class, Effects, Function, Inst, Operand, PhysReg, Reg, Value};
use orias_sass::Op;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// A load goes up past so many instructions at most: about as many as a warp issues while local memory answers, if others issue between them.
const AHEAD: usize = 16;

/// How many registers loads on their way get.
pub(super) const SLACK: u8 = 3;

/// So many loads in a block of a loop make it worth that.
const MANY: usize = 12;

/// Where in the frame values are that were spilled.
#[derive(Clone, Copy)]
pub(super) struct SpillArea {
    /// The first byte; what lies below belongs to the program.
    pub(super) start: u32,
}

/// Bytes of a register in the frame.
const WORD: i64 = 4;

/// The bytes from the stack pointer on that `inst` accesses, if its address is that pointer and a number.
fn place(func: &Function, inst: Inst) -> Option<Range<i64>> {
    /// As many registers as the largest access has.
    const WIDEST: u8 = 4;
    let pointer = PhysReg::new(Class::R, Machine::of(func.target).abi.stack_pointer)?;
    let address = func
        .operands(inst)
        .iter()
        .find_map(|operand| match operand {
            Operand::Address(id) => Some(func.address(*id)),
            _ => None,
        })?;
    let from_pointer =
        address.base.get() == Some(Reg::from(pointer)) && address.uniform.get().is_none();
    let start = i64::from(address.offset);
    let moved = func.value_defs(inst).chain(func.value_uses(inst)).next();
    let words = moved.map_or(WIDEST, |value| func.value_type(value).len());
    from_pointer.then_some(start..start + WORD * i64::from(words))
}

impl SpillArea {
    /// What `inst` reads of it and makes of that, if it is a load of a spilled value.
    fn loaded(self, func: &Function, inst: Inst) -> Option<(Range<i64>, Value)> {
        let is_load = func.opcode(inst).as_machine() == Some(Op::LDL);
        if !is_load || !func.inst(inst).guard().is_always() {
            return None;
        }
        let place = place(func, inst)?;
        let inside = place.start >= i64::from(self.start) && place.start < i64::from(INCOMING);
        let value = func.value_defs(inst).next()?;
        inside.then_some((place, value))
    }

    /// Whether some block of a loop of `func` loads so many spilled values that they should not wait for each other.
    pub(super) fn is_crowded(self, func: &Function) -> bool {
        let frequencies = Frequencies::of(func);
        let entry = func.entry().map_or(1.0, |entry| frequencies.times(entry));
        func.blocks().any(|block| {
            frequencies.times(block) > entry
                && func
                    .block_insts(block)
                    .filter(|&inst| self.loaded(func, inst).is_some())
                    .nth(MANY - 1)
                    .is_some()
        })
    }

    /// The value that is stored by `inst`, and where, if that is a place of a spilled value.
    fn stored(self, func: &Function, inst: Inst) -> Option<(Range<i64>, Value)> {
        if func.opcode(inst).as_machine() != Some(Op::STL) || !func.inst(inst).guard().is_always() {
            return None;
        }
        let place = place(func, inst)?;
        let value = func.value_uses(inst).next()?;
        (place.start >= i64::from(self.start)).then_some((place, value))
    }

    /// Keeps values in their registers from one load of their places to the next in a block. Whether any load went.
    pub(super) fn load_once(self, func: &mut Function, live: &Liveness, goals: Goals) -> bool {
        let room = Room::new(func, goals);
        let mut seen = vec![0u32; func.value_count()];
        let blocks: Vec<Block> = func.blocks().collect();
        let mut any = false;
        for (number, block) in blocks.into_iter().enumerate() {
            let insts: Vec<Inst> = func.block_insts(block).collect();
            if !insts.iter().any(|&it| self.loaded(func, it).is_some()) {
                continue;
            }
            let most = room.at_start(block).min(room.at_end(block));
            let ends = live.live_out(block);
            let mut needs = needs(func, ends, &insts, &mut seen, number as u32 + 1);
            // By its first byte: what a place holds, whose it is, and the last instruction that reads that.
            let mut known: FxHashMap<i64, (Range<i64>, Value)> = FxHashMap::default();
            let mut last: FxHashMap<Value, usize> = FxHashMap::default();
            for (at, &inst) in insts.iter().enumerate() {
                func.for_each_use(inst, |reg| {
                    if let Some(value) = reg.value() {
                        last.insert(value, at);
                    }
                });
                for &edge in func.edges(inst) {
                    last.extend(func.edge_args(edge).iter().map(|&value| (value, at)));
                }
            }
            last.extend(ends.iter().map(|&value| (value, usize::MAX)));
            for (at, &inst) in insts.iter().enumerate() {
                if is_call(func, inst) || room.changed_by(inst).is_some() {
                    known.clear();
                }
                if let Some((place, value)) = self.loaded(func, inst) {
                    let end = last.get(&value).copied().unwrap_or(at);
                    let before = known.get(&place.start).filter(|(it, _)| *it == place);
                    if let Some(&(_, kept)) = before
                        && func.value_type(kept) == func.value_type(value)
                        && end != usize::MAX
                        && keep(
                            &mut needs,
                            most,
                            weight(func, kept),
                            last.get(&kept),
                            at,
                            end,
                        )
                    {
                        for &reader in &insts[at..=end] {
                            func.map_uses(reader, |reg| match reg == Reg::from(value) {
                                true => Reg::from(kept),
                                false => reg,
                            });
                        }
                        let longer = last.get(&kept).copied().unwrap_or(0).max(end);
                        last.insert(kept, longer);
                        func.remove_inst(inst);
                        any = true;
                    } else {
                        known.insert(place.start, (place, value));
                    }
                } else if let Some((place, value)) = self.stored(func, inst) {
                    known.retain(|_, (it, _)| it.end <= place.start || place.end <= it.start);
                    known.insert(place.start, (place, value));
                } else if func.opcode(inst).as_machine() == Some(Op::STL) {
                    match self::place(func, inst) {
                        Some(place) => known
                            .retain(|_, (it, _)| it.end <= place.start || place.end <= it.start),
                        None => known.clear(),
                    }
                }
            }
        }
        any
    }

    /// Moves loads of spilled values up. Whether any moved.
    pub(super) fn load_ahead(self, func: &mut Function, live: &Liveness, goals: Goals) -> bool {
        let room = Room::new(func, goals);
        let mut seen = vec![0u32; func.value_count()];
        let blocks: Vec<Block> = func.blocks().collect();
        let mut any = false;
        for (number, block) in blocks.into_iter().enumerate() {
            let mut insts: Vec<Inst> = func.block_insts(block).collect();
            if !insts.iter().any(|&it| self.loaded(func, it).is_some()) {
                continue;
            }
            let most = room.at_start(block).min(room.at_end(block));
            let mut needs = needs(
                func,
                live.live_out(block),
                &insts,
                &mut seen,
                number as u32 + 1,
            );
            let passed: FxHashSet<Value> = (func.successor_edges(block).iter())
                .flat_map(|&edge| func.edge_args(edge).iter().copied())
                .collect();
            for from in 0..insts.len() {
                let Some((place, value)) = self.loaded(func, insts[from]) else {
                    continue;
                };
                if passed.contains(&value) {
                    // Its register is that of a parameter, which may be in use till then.
                    continue;
                }
                let weight = weight(func, value);
                let passes = |&to: &usize| {
                    needs[to] + weight <= most
                        && self.loaded(func, insts[to]).is_none()
                        && room.changed_by(insts[to]).is_none()
                        && !holds_up(func, insts[to], &place)
                };
                let lowest = from.saturating_sub(AHEAD);
                let passed = (lowest..from).rev().take_while(passes).count();
                let mut to = from - passed;
                while to < from && group_start(func, insts[to]) != insts[to] {
                    to += 1;
                }
                if to == from {
                    continue;
                }
                let load = insts[from];
                func.layout.remove_inst(load);
                func.layout.insert_inst_before(load, insts[to]);
                insts[to..=from].rotate_right(1);
                needs[to..=from].rotate_right(1);
                for need in &mut needs[to + 1..=from] {
                    *need += weight;
                }
                needs[to] = needs[to + 1];
                any = true;
            }
        }
        any
    }
}

/// Counts a value of so much `weight`, read last at the place `was` in its block, as one that lives on to `end` in place of what is loaded `at` a place before; if there are
/// registers for it.
fn keep(
    needs: &mut [u32],
    most: u32,
    weight: u32,
    was: Option<&usize>,
    at: usize,
    end: usize,
) -> bool {
    let was = was.copied().unwrap_or(0);
    if was >= at {
        // Both were counted.
        needs[at..=was.min(end)]
            .iter_mut()
            .for_each(|it| *it -= weight);
        return true;
    }
    let between = &mut needs[was..at];
    let fits = between.iter().all(|it| it + weight <= most);
    if fits {
        between.iter_mut().for_each(|it| *it += weight);
    }
    fits
}

/// Whether a load from `place` must not pass `inst`.
fn holds_up(func: &Function, inst: Inst, place: &Range<i64>) -> bool {
    let Some(op) = func.opcode(inst).as_machine() else {
        return is_call(func, inst);
    };
    let stays = Effects::CALL
        .with(Effects::CONVERGENT)
        .with(Effects::BARRIER)
        .with(Effects::TERMINATOR);
    let machine = Machine::of(func.target);
    if func.opcode(inst).effects().intersects(stays)
        || may_wait_for_lanes(func, inst)
        || machine.is_warpgroup_matrix(op)
        || is_call(func, inst)
    {
        return true;
    }
    let mut moves_pointer = false;
    func.for_each_def(inst, |reg| {
        let number = reg.phys().filter(|it| it.class() == Class::R);
        moves_pointer |= number.is_some_and(|it| !it.is_constant());
    });
    let overwrites = op == Op::STL
        && self::place(func, inst)
            .is_none_or(|other| other.start < place.end && place.start < other.end);
    moves_pointer || overwrites
}

/// How many general registers `value` needs, alignment included.
fn weight(func: &Function, value: Value) -> u32 {
    let ty = func.value_type(value);
    match ty.class() {
        Class::R => u32::from(ty.len().next_multiple_of(ty.alignment())),
        _ => 0,
    }
}

/// By instruction of a block, at whose end `ends` live: how many general registers are in use before it or behind it.
fn needs(
    func: &Function,
    ends: &[Value],
    insts: &[Inst],
    seen: &mut [u32],
    stamp: u32,
) -> Vec<u32> {
    let mut now = 0;
    let meet = |value: Value, seen: &mut [u32], now: &mut u32| {
        if std::mem::replace(&mut seen[value.index()], stamp) != stamp {
            *now += weight(func, value);
        }
    };
    for &value in ends {
        meet(value, seen, &mut now);
    }
    let mut needs = vec![0; insts.len()];
    for (&inst, need) in insts.iter().zip(&mut needs).rev() {
        let mut results: Vec<Value> = Vec::new();
        func.for_each_def(inst, |reg| results.extend(reg.value()));
        for &value in &results {
            meet(value, seen, &mut now);
        }
        let behind = now;
        for &value in &results {
            now -= weight(func, value);
        }
        func.for_each_use(inst, |reg| {
            if let Some(value) = reg.value() {
                meet(value, seen, &mut now);
            }
        });
        for &edge in func.edges(inst) {
            for &value in func.edge_args(edge) {
                meet(value, seen, &mut now);
            }
        }
        *need = now.max(behind);
    }
    needs
}
