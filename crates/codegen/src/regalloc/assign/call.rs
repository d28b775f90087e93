//! Caller-saved registers at calls: everything that lives on leaves them, and arguments go where the called function looks for them.
//!
//! Two parallel copies stand before the call. The first brings what lives on to registers that are left alone; values that share
//! registers move together. The second brings arguments and the callee's address to their places, all of which are free by then.
//! Behind the call its results lie where the function left them.

use super::super::calls::{self, is_call};
use super::super::file::{Units, insert};
use super::{Kills, Move, Scan, Stop, Turn};
use cranelift_entity::EntityRef;
use orias_machine::abi::Convention;
use orias_ori::{Class, Inst, PhysReg, Reg, Value};

impl<'a> Scan<'a> {
    pub(super) fn call(&mut self, inst: Inst, ending: Kills<'a>, now: u32) -> Result<(), Stop> {
        debug_assert!(is_call(self.func, inst));
        let places = calls::places(self.func, inst).map_err(Stop::Error)?;
        let mut turn = self.turn(ending.read);
        self.clear_volatile(&mut turn, &calls::convention(self.func, inst))?;
        self.insert_moves(inst, &turn);
        let results = self.func.result_count(inst);
        let mut copies: Vec<(PhysReg, PhysReg)> = Vec::new();
        let operands = self.func.operands(inst);
        for &(index, to) in places.iter().filter(|&&(index, _)| index >= results) {
            let from = match operands[index].reg().and_then(Reg::value) {
                // Contents that do not matter stay as they are.
                Some(value) => {
                    self.home[value.index()].and_then(|at| PhysReg::tuple(Class::R, at, to.len()))
                }
                None => operands[index].reg().and_then(Reg::phys),
            };
            match from {
                Some(from) if from.is_constant() => {
                    copies.extend(to.units().map(|unit| (unit, from)));
                }
                Some(from) if from != to => copies.push((to, from)),
                _ => {}
            }
        }
        self.edits.copy(inst, copies.into_iter());
        self.release_all(ending.read, now);
        for &(index, to) in places.iter().filter(|&&(index, _)| index < results) {
            if let Some(value) = operands[index].as_value() {
                self.home[value.index()] = None;
                self.take(value, to.index());
            }
        }
        self.edits.call(inst);
        self.release_all(ending.unread, now);
        Ok(())
    }

    /// Moves what lives on out of the registers that a called function may change.
    fn clear_volatile(&mut self, turn: &mut Turn<'_>, convention: &Convention) -> Result<(), Stop> {
        for class in [Class::P, Class::UR, Class::UP] {
            let file = &self.files[class as usize];
            let lost = (0..class.count())
                .filter(|&unit| !convention.is_preserved(class.into(), unit))
                .flat_map(|unit| file.owners(unit))
                .any(|owner| !turn.dying.contains(owner));
            if lost {
                return Err(Stop::Full(class));
            }
        }
        let volatile = calls::volatile(convention);
        for unit in 0..self.files[Class::R as usize].usable {
            if convention.is_preserved(Class::R.into(), unit) {
                continue;
            }
            let owners = self.files[Class::R as usize].owners(unit);
            let Some(&owner) = owners.iter().find(|owner| !turn.dying.contains(owner)) else {
                continue;
            };
            self.move_bundle(owner, &volatile, turn)?;
        }
        Ok(())
    }

    /// Moves `value`, and all that shares registers with it, to free registers outside `avoid`.
    fn move_bundle(
        &mut self,
        value: Value,
        avoid: &Units,
        turn: &mut Turn<'_>,
    ) -> Result<(), Stop> {
        let class = Class::R;
        let bundle = self.bundle(class, value);
        let mut blocked = *avoid;
        insert(&mut blocked, bundle.low, bundle.high - bundle.low);
        // What was moved already has left registers that still hold the old contents when all moves happen at once: any of them may
        // be written to.
        let file = &self.files[class as usize];
        let span = bundle.high - bundle.low;
        let residue = bundle.low % bundle.align;
        let booked = self.booked_by_others(&bundle);
        let soon = |_| Units::default();
        let found = file.find(span, bundle.align, residue, &blocked, &booked, soon);
        let Some(to) = found else {
            return Err(Stop::Full(class));
        };
        for &value in &bundle.values {
            let (from, ty) = (self.home[value.index()].unwrap_or(0), self.ty(value));
            let target = to + (from - bundle.low);
            self.file(class).vacate(value, from, ty.len(), 0);
            self.file(class).occupy(value, target, ty.len());
            self.home[value.index()] = Some(target);
            self.book(value, target);
            turn.moves.push(Move {
                value,
                from,
                to: target,
                ty,
            });
        }
        Ok(())
    }
}
