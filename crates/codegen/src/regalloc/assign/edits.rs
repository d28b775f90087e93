//! What the scan wants done to the code.
//!
//! A scan may find no room and give up; the code is then tried again after more spilling. So the scan only notes what is to be done, and the
//! code changes when everything has a place.

use super::{NOWHERE, parallel_copy};
use crate::pipeline::PhaseError;
use crate::regalloc::calls;
use crate::tail::group_start;
use orias_ori::{Class, Function, Inst, Operand, PhysReg, Reg, Type, print_inst};

/// One change.
#[derive(Clone, Copy, Debug)]
enum Edit {
    /// An instruction's values become registers: as many of [`Edits::places`] as it names values.
    Rename(Inst),
    /// So many of [`Edits::copies`] happen at once before an instruction.
    Copy(Inst, u32),
    /// An instruction goes.
    Remove(Inst),
    /// A call gets the registers that the ABI says.
    Call(Inst),
}

/// The changes, in their order.
#[derive(Debug, Default)]
pub(in super::super) struct Edits {
    list: Vec<Edit>,
    places: Vec<u8>,
    copies: Vec<(PhysReg, PhysReg)>,
}

/// The register of a value of type `ty` that lies at `at`.
fn register(ty: Type, at: u8) -> Option<PhysReg> {
    if at != NOWHERE {
        return PhysReg::tuple(ty.class(), at, ty.len());
    }
    // Contents that do not matter: any register will do. Not every place takes the constant one.
    match ty.class() {
        Class::R | Class::UR => PhysReg::tuple(ty.class(), 0, ty.len()),
        Class::P | Class::UP | Class::B => ty.class().constant(),
    }
}

impl Edits {
    /// Room for the changes of a function of so many instructions.
    pub(super) fn with_capacity(insts: usize) -> Edits {
        Edits {
            list: Vec::with_capacity(insts + insts / 4),
            places: Vec::with_capacity(3 * insts),
            copies: Vec::new(),
        }
    }

    /// Puts registers in the place of values.
    pub(super) fn rename(&mut self, func: &Function, inst: Inst, home: &[Option<u8>]) {
        let places = &mut self.places;
        func.for_each_register(inst, |reg| {
            if let Some(value) = reg.value() {
                places.push(home[value.as_u32() as usize].unwrap_or(NOWHERE));
            }
        });
        self.list.push(Edit::Rename(inst));
    }

    /// Copies `(to, from)` at once before `inst`.
    pub(super) fn copy(&mut self, inst: Inst, copies: impl Iterator<Item = (PhysReg, PhysReg)>) {
        let known = self.copies.len();
        self.copies.extend(copies);
        let count = self.copies.len() - known;
        if count > 0 {
            self.list.push(Edit::Copy(inst, count as u32));
        }
    }

    /// How many registers are copied so far.
    pub(super) fn copied(&self) -> usize {
        self.copies.len()
    }

    /// Takes `inst` away.
    pub(super) fn remove(&mut self, inst: Inst) {
        self.list.push(Edit::Remove(inst));
    }

    /// Gives the call `inst` its registers.
    pub(super) fn call(&mut self, inst: Inst) {
        self.list.push(Edit::Call(inst));
    }

    /// Changes the code.
    pub(in super::super) fn apply(self, func: &mut Function) -> Result<(), PhaseError> {
        let (mut places, mut copies) = (self.places.into_iter(), &self.copies[..]);
        for edit in self.list {
            match edit {
                Edit::Rename(inst) => rename(func, inst, &mut places)?,
                Edit::Copy(inst, count) => {
                    let (now, later) = copies.split_at(count as usize);
                    copies = later;
                    if let Some(copy) = parallel_copy(func, now) {
                        let span = func.inst(inst).span();
                        func.set_span(copy, span);
                        let place = group_start(func, inst);
                        func.layout.insert_inst_before(copy, place);
                    }
                }
                Edit::Remove(inst) => func.remove_inst(inst),
                Edit::Call(inst) => {
                    for (index, reg) in calls::places(func, inst)? {
                        func.set_operand(inst, index, Operand::from(reg));
                    }
                }
            }
        }
        Ok(())
    }
}

fn rename(
    func: &mut Function,
    inst: Inst,
    places: &mut impl Iterator<Item = u8>,
) -> Result<(), PhaseError> {
    let mut lost = false;
    func.map_values(inst, |ty| {
        let reg = places.next().and_then(|at| register(ty, at));
        lost |= reg.is_none();
        reg.map(Reg::from)
    });
    if lost {
        return Err(PhaseError::Broken {
            at: print_inst(func, inst),
            what: "a value has no register".to_owned(),
        });
    }
    if !func.kept(inst).is_empty() {
        func.set_kept(inst, &[]);
    }
    Ok(())
}
