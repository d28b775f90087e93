//! Operations that make no new contents: collecting, splitting and copying.
//!
//! Their results lie in the registers of their sources wherever alignment allows, while both live; what is left becomes a
//! parallel copy.

use super::super::file::Units;
use super::{Kills, Scan, Stop, Turn};
use cranelift_entity::EntityRef;
use orias_ori::{Inst, PhysReg, RegKind, Value};
use smallvec::SmallVec;

impl<'a> Scan<'a> {
    pub(super) fn collect(&mut self, inst: Inst, ending: Kills<'a>, now: u32) -> Result<(), Stop> {
        let mut turn = self.turn(ending.read);
        let Some(tuple) = self.func.operands(inst)[0].as_value() else {
            return Err(self.broken(inst, "collects into something that is no value"));
        };
        let ty = self.ty(tuple);
        // By register of the tuple: the value whose register belongs there, and which of its registers.
        let mut parts: SmallVec<[Part; 8]> = SmallVec::new();
        for &operand in &self.func.operands(inst)[1..] {
            let Some(reg) = operand.reg() else {
                return Err(self.broken(inst, "collects something that is no register"));
            };
            match reg.kind() {
                RegKind::Phys(reg) if reg.is_constant() => parts.push(Part::Constant(reg)),
                RegKind::Phys(reg) => parts.extend(reg.units().map(Part::Constant)),
                RegKind::Value(value) => {
                    let len = self.ty(value).len();
                    match self.home[value.index()] {
                        Some(_) => parts.extend((0..len).map(|unit| Part::Value(value, unit))),
                        None => parts.extend((0..len).map(|_| Part::Undefined)),
                    }
                }
            }
        }
        let at = match self.collected_in_place(tuple, &parts, &turn) {
            Some(at) => {
                self.release_all(ending.read, now);
                at
            }
            None => {
                self.release_all(ending.read, now);
                self.home[tuple.index()] = None;
                self.find_place(tuple, &Units::default(), &mut turn)?
            }
        };
        self.take(tuple, at);
        self.insert_moves(inst, &turn);
        let mut copies: SmallVec<[(PhysReg, PhysReg); 4]> = SmallVec::new();
        for (offset, part) in parts.iter().enumerate() {
            let to = PhysReg::new(ty.class(), at + offset as u8);
            let from = match *part {
                Part::Undefined => None,
                Part::Constant(reg) => Some(reg),
                Part::Value(value, unit) => {
                    self.home[value.index()].and_then(|home| PhysReg::new(ty.class(), home + unit))
                }
            };
            if let (Some(to), Some(from)) = (to, from)
                && to != from
            {
                copies.push((to, from));
            }
        }
        self.edits.copy(inst, copies.into_iter());
        self.edits.remove(inst);
        self.release_all(ending.unread, now);
        Ok(())
    }

    /// The place for a tuple in which most of its parts lie already.
    fn collected_in_place(&mut self, tuple: Value, parts: &[Part], turn: &Turn<'_>) -> Option<u8> {
        let ty = self.ty(tuple);
        let mut candidates: SmallVec<[u8; 8]> = SmallVec::new();
        let promised = self.classes.place(tuple).and_then(|place| place.at);
        candidates.extend(promised);
        for (offset, part) in parts.iter().enumerate() {
            if let Part::Value(value, unit) = *part
                && let Some(home) = self.home[value.index()]
                && let Some(base) = (home + unit).checked_sub(offset as u8)
                && !candidates.contains(&base)
            {
                candidates.push(base);
            }
        }
        let file = &self.files[ty.class() as usize];
        let lies_at = |part: &Part, at: u8| match *part {
            Part::Value(value, unit) => self.home[value.index()] == at.checked_sub(unit),
            _ => false,
        };
        let fits = |&base: &u8| {
            base.is_multiple_of(ty.alignment())
                && parts.iter().enumerate().all(|(offset, part)| {
                    let Some(at) = base.checked_add(offset as u8) else {
                        return false;
                    };
                    file.is_allocatable(at)
                        && (lies_at(part, at)
                            || file
                                .owners(at)
                                .iter()
                                .all(|owner| turn.dying.contains(owner)))
                })
        };
        candidates
            .into_iter()
            .filter(fits)
            .map(|base| {
                let in_place = parts
                    .iter()
                    .enumerate()
                    .filter(|(offset, part)| lies_at(part, base + *offset as u8))
                    .count();
                (std::cmp::Reverse(in_place), base)
            })
            .min()
            .map(|(_, base)| base)
    }

    pub(super) fn split(&mut self, inst: Inst, ending: Kills<'a>, now: u32) -> Result<(), Stop> {
        let count = self.func.result_count(inst);
        let results = &self.func.operands(inst)[..count];
        let Some(source) = self.func.operands(inst)[count].reg() else {
            return Err(self.broken(inst, "splits something that is no register"));
        };
        let home = match source.kind() {
            RegKind::Value(value) => self.home[value.index()],
            RegKind::Phys(_) => return Err(self.broken(inst, "splits a physical register")),
        };
        let mut offset = 0;
        let mut misplaced: SmallVec<[(Value, u8); 2]> = SmallVec::new();
        for result in results {
            let Some(part) = result.as_value() else {
                // A part nobody wants.
                offset += result.reg().map_or(1, |reg| self.func.reg_type(reg).len());
                continue;
            };
            let ty = self.ty(part);
            self.home[part.index()] = None;
            if let Some(home) = home {
                let at = home + offset;
                if at.is_multiple_of(ty.alignment()) && !self.is_in_the_way(part, at) {
                    self.take(part, at);
                } else {
                    misplaced.push((part, at));
                }
            }
            offset += ty.len();
        }
        let mut turn = self.turn(ending.read);
        let mut copies: SmallVec<[(PhysReg, PhysReg); 4]> = SmallVec::new();
        for (part, from) in misplaced {
            // Off its alignment, or in the way: copied out before the tuple is given up.
            let pinned = turn.pinned[self.ty(part).class() as usize];
            let to = self.find_place(part, &pinned, &mut turn)?;
            self.take(part, to);
            let ty = self.ty(part);
            copies.extend(
                PhysReg::tuple(ty.class(), to, ty.len())
                    .into_iter()
                    .flat_map(PhysReg::units)
                    .zip((from..from + ty.len()).filter_map(|at| PhysReg::new(ty.class(), at))),
            );
        }
        self.release_all(ending.read, now);
        self.insert_moves(inst, &turn);
        self.edits.copy(inst, copies.into_iter());
        self.edits.remove(inst);
        self.release_all(ending.unread, now);
        Ok(())
    }

    /// A copy lies where its source does.
    pub(super) fn copy(&mut self, inst: Inst, ending: Kills<'a>, now: u32) -> Result<(), Stop> {
        let (to, from) = self
            .func
            .operands(inst)
            .split_at(self.func.result_count(inst));
        let mut copies: SmallVec<[(PhysReg, PhysReg); 4]> = SmallVec::new();
        let mut turn = self.turn(ending.read);
        for (to, from) in to.iter().zip(from) {
            let (Some(to), Some(from)) = (to.as_value(), from.reg()) else {
                return Err(self.broken(inst, "copies something that is no value"));
            };
            self.home[to.index()] = None;
            match from.kind() {
                RegKind::Value(from) => {
                    if let Some(at) = self.home[from.index()] {
                        self.take(to, at);
                    }
                }
                RegKind::Phys(from) => {
                    let pinned = turn.pinned[self.ty(to).class() as usize];
                    let at = self.find_place(to, &pinned, &mut turn)?;
                    self.take(to, at);
                    let ty = self.ty(to);
                    copies.extend(PhysReg::tuple(ty.class(), at, ty.len()).map(|to| (to, from)));
                }
            }
        }
        self.release_all(ending.read, now);
        self.insert_moves(inst, &turn);
        self.edits.copy(inst, copies.into_iter());
        self.edits.remove(inst);
        self.release_all(ending.unread, now);
        Ok(())
    }
}

/// What one register of a collected tuple holds.
#[derive(Clone, Copy, Debug)]
enum Part {
    Value(Value, u8),
    Constant(PhysReg),
    Undefined,
}
